//! How long users wait with the default intervals, with two operators and one simulator with an account per scenario.
//! Scenarios run in parallel. `docs/operations.md` states their limits in terms of the operator's intervals.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use api::timing::{
    ABSENCE_CHECK_INTERVAL, ABSENCE_GRACE_PERIOD, ACTIVE_POLL_INTERVAL, IDLE_POLL_INTERVAL,
};
use futures::FutureExt as _;
use futures::future::{LocalBoxFuture, join_all};
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::DeleteParams;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::{ORDER_TAG, RETAINED_TAG, SERVERS, apply, build_secret, build_server, list_tags, text};
use lab::rig::{
    Fault, Operator, Start, Things, World, WorldOptions, cluster, condition, eventually, server,
};
use tiers::Tier;

/// The time that a slow computer may add to each limit.
const SLACK: Duration = Duration::from_secs(10);
/// The simulator's durations of a delivery, a release and a power command.
const DELIVERY: Duration = Duration::from_secs(20);
const RELEASE: Duration = Duration::from_secs(10);
const COMMAND: Duration = Duration::from_secs(10);
/// Limit for all scenarios together.
const ALL: Duration = Duration::from_secs(15 * 60);

const ACTIVE: Duration = ACTIVE_POLL_INTERVAL.default.0;
const IDLE: Duration = IDLE_POLL_INTERVAL.default.0;
const GRACE: Duration = ABSENCE_GRACE_PERIOD.default.0;
const CHECK: Duration = ABSENCE_CHECK_INTERVAL.default.0;
/// The longest backoff of an account that does not answer. Also the time that an operator waits after its start,
/// or that a server has its tag, before it orders or adopts a server.
const MINUTE: Duration = Duration::from_secs(60);
/// The first status of an object, and the report of an account's last call.
const AT_ONCE: Duration = Duration::from_secs(5);
const REPORTED_WITHIN: Duration = Duration::from_secs(10);
/// The interval at which the operator reads the key Secret.
const KEY: Duration = Duration::from_secs(15);

/// From the end of a change at the provider until the object shows it, with at most three pending servers.
fn seen() -> Duration {
    ACTIVE / 4
}

/// A namespace with its own account.
struct TimedAccount<'a> {
    world: &'a World,
    name: &'static str,
    namespace: String,
    servers: Things,
    accounts: Things,
}

impl<'a> TimedAccount<'a> {
    async fn new(world: &'a World, name: &'static str) -> Self {
        let namespace = cluster().namespace(name).await;
        world.simulator.add_account(name, &key(name)).await;
        let place = Self {
            world,
            name,
            servers: world.things_in(&namespace, "BareMetalServer"),
            accounts: world.things_in(&namespace, "ProviderAccount"),
            namespace,
        };
        place.write_key(&key(name)).await;
        let account = json!({
            "apiVersion": "flexmetal.dev/v1alpha1", "kind": "ProviderAccount",
            "metadata": {"name": "default"},
            "spec": {"baseURL": world.simulator.api(), "apiKeySecretRef": {"name": "key"}},
        });
        place.accounts.create(&account).await;
        place
    }

    async fn write_key(&self, text: &str) {
        let secret = build_secret("key", "apiKey", text);
        apply(&self.world.client, Some(&self.namespace), &secret).await;
    }

    /// Creates a server and waits until it is Ready.
    async fn create_and_wait_ready(&self, name: &str) -> Value {
        self.servers.create(&server(name)).await;
        let most = DELIVERY + 4 * MINUTE;
        self.servers.wait_ready(name, most).await
    }

    /// Waits until the operator serves the account, so that it orders later servers at once.
    async fn wait_until_served(&self) {
        let accounts = &self.accounts;
        let has_ready = |account: &Value| condition(account, "Ready").map(drop);
        accounts
            .wait_for("default", "served", 2 * MINUTE, has_ready)
            .await;
    }

    /// Waits for Ready=False with this reason, on the account or a server.
    async fn wait_not_ready(&self, things: &Things, name: &str, reason: &str, within: Duration) {
        let within = within + SLACK;
        things
            .wait_for_condition(name, "Ready", "False", Some(reason), within)
            .await;
    }

    /// Injects this fault into all future calls of the account.
    async fn add_fault(&self, fault: Value) -> u64 {
        self.world
            .simulator
            .fault(Fault::new(fault).for_account(self.name))
            .await
    }

    /// The orders of the account.
    async fn orders(&self) -> Vec<Value> {
        self.calls("POST", SERVERS).await
    }

    async fn calls(&self, method: &str, template: &str) -> Vec<Value> {
        let mut ledger = self.world.simulator.ledger_of(self.name).await;
        ledger.retain(|call| call["method"] == method && call["template"] == template);
        ledger
    }

    /// Waits until the provider accepted this many orders.
    async fn wait_for_orders(&self, count: usize, within: Duration) {
        let what = format!("{}: {count} orders", self.name);
        self.taken("POST", SERVERS, count, &what, within).await;
    }

    /// Waits until the provider accepted a release.
    async fn wait_for_release(&self, within: Duration) {
        let template = format!("{SERVERS}/{{uuid}}");
        let what = format!("{}: a release", self.name);
        self.taken("DELETE", &template, 1, &what, within).await;
    }

    async fn taken(
        &self,
        method: &str,
        template: &str,
        count: usize,
        what: &str,
        within: Duration,
    ) {
        eventually(what, within + SLACK, async || {
            let calls = self.calls(method, template).await;
            let is_taken = |call: &&Value| call["status"].as_u64().is_some_and(|s| s / 100 == 2);
            (calls.iter().filter(is_taken).count() >= count).then_some(())
        })
        .await;
    }
}

/// The API key of an account of the simulator.
fn key(account: &str) -> String {
    format!("key-of-{account}")
}

/// A step's name, limit and duration.
struct StepDuration(&'static str, Duration, Duration);

type Scenario<'a> = LocalBoxFuture<'a, Vec<StepDuration>>;

/// Measures a step.
async fn time<T>(step: impl Future<Output = T>) -> (T, Duration) {
    let began = Instant::now();
    let done = step.await;
    (done, began.elapsed())
}

/// Runs a step with a limit.
async fn step(
    what: &'static str,
    most: Duration,
    step: impl AsyncFnOnce(Duration),
) -> StepDuration {
    let ((), took) = time(step(most + SLACK)).await;
    assert!(took <= most + SLACK, "{what}: {took:?}, at most {most:?}");
    StepDuration(what, took, most)
}

async fn plain(place: &TimedAccount<'_>) -> Vec<StepDuration> {
    let servers = &place.servers;
    servers.create(&server("web")).await;
    let ready = async |within| drop(servers.wait_ready("web", within).await);
    let ordered = step("delivered and Ready", DELIVERY + seen(), ready).await;
    servers.delete("web").await;
    let gone = async |within| servers.wait_gone("web", within).await;
    vec![
        ordered,
        step("released and gone", RELEASE + seen(), gone).await,
    ]
}

async fn delay(place: &TimedAccount<'_>) -> Vec<StepDuration> {
    const DELAY: Duration = Duration::from_secs(60);
    let delayed = build_server("web", &json!({"releaseDelay": "60s"}));
    place.servers.create(&delayed).await;
    place.servers.wait_ready("web", DELIVERY + 2 * MINUTE).await;
    place.servers.delete("web").await;
    let began = Instant::now();
    place.wait_for_release(DELAY).await;
    assert!(
        began.elapsed() >= DELAY - Duration::from_secs(1),
        "early: {:?}",
        began.elapsed()
    );
    let begun = StepDuration("delayed release begins", began.elapsed(), DELAY);
    let gone = async |within| place.servers.wait_gone("web", within).await;
    vec![
        begun,
        step("released and gone", RELEASE + seen(), gone).await,
    ]
}

async fn namespace(place: &TimedAccount<'_>) -> Vec<StepDuration> {
    const NAMES: [&str; 3] = ["one", "two", "three"];
    join_all(NAMES.map(|name| place.create_and_wait_ready(name))).await;
    let namespaces: Api<Namespace> = Api::all(place.world.client.clone());
    let deleted = namespaces
        .delete(&place.namespace, &DeleteParams::default())
        .await;
    deleted.unwrap();
    // The namespace controller decides how soon it deletes the content.
    join_all(NAMES.map(|name| {
        place.servers.wait_for(name, "deleted", MINUTE, |object| {
            object["metadata"]["deletionTimestamp"]
                .is_string()
                .then_some(())
        })
    }))
    .await;
    let released = async |within| {
        join_all(NAMES.map(|name| place.servers.wait_gone(name, within))).await;
    };
    let released = step("servers of a deleted namespace", RELEASE + seen(), released).await;
    eventually("the namespace is gone", 5 * MINUTE, async || {
        let found = namespaces.get_opt(&place.namespace).await.ok()?;
        found.is_none().then_some(())
    })
    .await;
    vec![released]
}

async fn power(place: &TimedAccount<'_>) -> Vec<StepDuration> {
    place.create_and_wait_ready("web").await;
    let mut steps = Vec::new();
    for (what, desired) in [("power off", "PoweredOff"), ("power on", "PoweredOn")] {
        place
            .servers
            .merge("web", &json!({"spec": {"power": desired}}))
            .await;
        let complete = async |within| {
            let is_complete = |object: &Value| {
                let power = &object["status"]["records"]["power"];
                (power["desired"] == desired && power["command"]["state"] == "Complete")
                    .then_some(())
            };
            place
                .servers
                .wait_for("web", desired, within, is_complete)
                .await;
        };
        steps.push(step(what, COMMAND + ACTIVE, complete).await);
    }
    steps
}

async fn adopt(place: &TimedAccount<'_>) -> Vec<StepDuration> {
    let found = json!({"name": "web", "tags": ["by-hand"]});
    let found = place.world.simulator.appear_of(place.name, &found).await;
    let adopting = build_server(
        "web",
        &json!({"externalID": found["uuid"], "hostname": "web"}),
    );
    place.servers.create(&adopting).await;
    let ready = async |within| drop(place.servers.wait_ready("web", within).await);
    vec![step("adopted", MINUTE + ACTIVE, ready).await]
}

async fn retain(place: &TimedAccount<'_>) -> Vec<StepDuration> {
    let uuid = text(&place.create_and_wait_ready("web").await["status"]["uuid"]);
    place
        .servers
        .merge("web", &json!({"spec": {"deletionPolicy": "Retain"}}))
        .await;
    place.servers.delete("web").await;
    let gone = async |within| place.servers.wait_gone("web", within).await;
    let retained = step("retained and gone", AT_ONCE, gone).await;
    let servers = place
        .world
        .simulator
        .list_servers_of_account(place.name)
        .await;
    assert!(
        list_tags(&servers[0]).iter().any(|tag| tag == RETAINED_TAG),
        "{servers:#?}"
    );
    place.servers.create(&server("web")).await;
    let back = async |within| {
        let back = place.servers.wait_ready("web", within).await;
        assert_eq!(text(&back["status"]["uuid"]), uuid);
    };
    vec![retained, step("taken back", MINUTE + ACTIVE, back).await]
}

async fn portal(place: &TimedAccount<'_>) -> Vec<StepDuration> {
    let uuid = text(&place.create_and_wait_ready("web").await["status"]["uuid"]);
    let server_path = format!("{uuid}?account={}", place.name);
    let released = json!({"status": "releasing"});
    place.world.simulator.alter(&server_path, &released).await;
    let reported = async |within| {
        place
            .servers
            .wait_for_condition("web", "Stalled", "True", Some("ReleasedExternally"), within)
            .await;
    };
    vec![step("a release at the portal", IDLE + RELEASE + ACTIVE, reported).await]
}

async fn suspend(place: &TimedAccount<'_>) -> Vec<StepDuration> {
    place.create_and_wait_ready("web").await;
    let spec = json!({"spec": {"suspend": true, "tags": ["later"]}});
    place.servers.merge("web", &spec).await;
    let suspended = async |within| {
        place
            .servers
            .wait_for_condition("web", "Suspended", "True", None, within)
            .await;
    };
    let suspended = step("suspended", AT_ONCE, suspended).await;
    sleep(ACTIVE).await;
    let has_tag = async || {
        let servers = place
            .world
            .simulator
            .list_servers_of_account(place.name)
            .await;
        list_tags(&servers[0]).iter().any(|tag| tag == "later")
    };
    assert!(
        !has_tag().await,
        "a change of a suspended server is not sent"
    );
    place
        .servers
        .merge("web", &json!({"spec": {"suspend": false}}))
        .await;
    let sent = async |within| {
        eventually("the tag is sent", within, async || {
            has_tag().await.then_some(())
        })
        .await;
    };
    vec![
        suspended,
        step("what waited for suspend is sent", AT_ONCE, sent).await,
    ]
}

/// An idle server costs one list of its account per idle interval, and no write.
async fn quiet(place: &TimedAccount<'_>) -> Vec<StepDuration> {
    place.create_and_wait_ready("web").await;
    // By then the work after a delivery is done, such as updating the account's counts.
    sleep(2 * MINUTE).await;
    let version = async |things: &Things, name: &str| {
        let object = things.get(name).await.unwrap();
        text(&object["metadata"]["resourceVersion"])
    };
    let versions = async || {
        let server = version(&place.servers, "web").await;
        (server, version(&place.accounts, "default").await)
    };
    let before = versions().await;
    let all = async || place.world.simulator.ledger_of(place.name).await;
    let known = all().await.len();
    sleep(IDLE).await;
    assert_eq!(versions().await, before, "nothing is written");
    let ledger = all().await;
    let new = &ledger[known..];
    assert!(new.iter().all(|call| call["method"] == "GET"), "{new:#?}");
    assert!(new.len() <= 8, "{} calls: {new:#?}", new.len());
    Vec::new()
}

async fn wrong_key(place: &TimedAccount<'_>) -> Vec<StepDuration> {
    place.servers.create(&server("web")).await;
    let reported = async |_| {
        place
            .wait_not_ready(&place.accounts, "default", "KeyRejected", REPORTED_WITHIN)
            .await;
        place
            .wait_not_ready(&place.servers, "web", "KeyRejected", REPORTED_WITHIN)
            .await;
    };
    let reported = step("a wrong key", REPORTED_WITHIN, reported).await;
    sleep(2 * MINUTE).await;
    place.write_key(&key(place.name)).await;
    let ready = async |within| drop(place.servers.wait_ready("web", within).await);
    vec![
        reported,
        step("the right key", KEY + DELIVERY + seen(), ready).await,
    ]
}

/// The provider answers 503 for two minutes.
async fn outage(place: &TimedAccount<'_>) -> Vec<StepDuration> {
    place.create_and_wait_ready("old").await;
    let fault = place.add_fault(json!({"status": {"code": 503}})).await;
    place.servers.delete("old").await;
    place.servers.create(&server("new")).await;
    let reported = async |_| {
        place
            .wait_not_ready(
                &place.accounts,
                "default",
                "ProviderUnreachable",
                REPORTED_WITHIN,
            )
            .await;
        place
            .wait_not_ready(
                &place.servers,
                "new",
                "ProviderUnreachable",
                REPORTED_WITHIN,
            )
            .await;
        // Once its release is recorded, Ready reports the progress.
        let is_reported = |object: &Value| {
            let says = |kind| condition(object, kind).map(|it| it["reason"].clone());
            let mut all = ["Ready", "Synced"].into_iter().filter_map(says);
            all.any(|reason| reason == "ProviderUnreachable")
                .then_some(())
        };
        let within = REPORTED_WITHIN + SLACK;
        place
            .servers
            .wait_for("old", "told", within, is_reported)
            .await;
    };
    let reported = step("an outage is reported", REPORTED_WITHIN, reported).await;
    sleep(2 * MINUTE).await;
    place.world.simulator.end_fault(fault).await;
    let goes_on = async |_| {
        place.wait_for_release(MINUTE).await;
        place.wait_for_orders(2, MINUTE).await;
    };
    vec![
        reported,
        step("goes on after an outage", MINUTE, goes_on).await,
    ]
}

/// One call is answered with 429 and Retry-After 60.
async fn limited(place: &TimedAccount<'_>) -> Vec<StepDuration> {
    place.create_and_wait_ready("old").await;
    let later = Fault::new(json!({"status": {"code": 429, "retryAfter": 60}}));
    place
        .world
        .simulator
        .fault(later.for_account(place.name).times(1))
        .await;
    place.servers.create(&server("new")).await;
    let reported = async |_| {
        place
            .wait_not_ready(&place.accounts, "default", "RateLimited", REPORTED_WITHIN)
            .await;
        place
            .wait_not_ready(&place.servers, "new", "RateLimited", REPORTED_WITHIN)
            .await;
    };
    let reported = step("a rate limit is reported", REPORTED_WITHIN, reported).await;
    let goes_on = async |_| place.wait_for_orders(2, MINUTE).await;
    vec![
        reported,
        step("goes on after Retry-After 60", MINUTE, goes_on).await,
    ]
}

/// The provider accepts calls and does not answer them.
async fn hanging(place: &TimedAccount<'_>) -> Vec<StepDuration> {
    place.create_and_wait_ready("old").await;
    let fault = place
        .add_fault(json!({"delay": {"ms": 600_000, "before": true}}))
        .await;
    place.servers.create(&server("new")).await;
    place.servers.delete("old").await;
    let first = async |within| {
        let has_status = |object: &Value| condition(object, "Ready").map(drop);
        place
            .servers
            .wait_for("new", "a status", within, has_status)
            .await;
        let is_reported =
            |object: &Value| (condition(object, "Ready")?["status"] == "False").then_some(());
        place
            .servers
            .wait_for("old", "said to go", within, is_reported)
            .await;
    };
    let first = step("a first status while the API hangs", AT_ONCE, first).await;
    let reported = async |_| {
        place
            .wait_not_ready(
                &place.accounts,
                "default",
                "ProviderUnreachable",
                REPORTED_WITHIN,
            )
            .await;
        place
            .wait_not_ready(
                &place.servers,
                "new",
                "ProviderUnreachable",
                REPORTED_WITHIN,
            )
            .await;
    };
    let reported = step("an API that hangs is reported", REPORTED_WITHIN, reported).await;
    place.world.simulator.end_fault(fault).await;
    let goes_on = async |_| {
        place.wait_for_release(MINUTE + ACTIVE).await;
        place.wait_for_orders(2, MINUTE + ACTIVE).await;
    };
    vec![
        first,
        reported,
        step("goes on after an API that hung", MINUTE + ACTIVE, goes_on).await,
    ]
}

/// The simulator's duration of an order in the account with ten orders.
const ORDER: Duration = Duration::from_secs(1);

/// The second operator is killed while one order hangs and ten are queued, and is replaced soon after.
async fn killed(
    world: &World,
    start: Start,
    open: &TimedAccount<'_>,
    ten: &TimedAccount<'_>,
) -> Vec<StepDuration> {
    let log = world.folder().join("killed.log");
    let mut operator = Operator::start(start.clone(), &log);
    open.wait_until_served().await;
    ten.wait_until_served().await;
    // Without a known server no list is complete, so it could not confirm an absence.
    open.create_and_wait_ready("known").await;
    let slow = json!({"delay": {"ms": ORDER.as_millis(), "before": true}});
    let slow = Fault::new(slow).for_account(ten.name).on("POST", SERVERS);
    world.simulator.fault(slow).await;
    let lost = json!([{"delay": {"ms": 20_000, "before": true}}, "dropBefore"]);
    let lost = Fault::new(lost)
        .for_account(open.name)
        .on("POST", SERVERS)
        .times(1);
    world.simulator.fault(lost).await;
    open.servers.create(&server("web")).await;
    eventually("the order is on its way", MINUTE, async || {
        (open.orders().await.len() == 2).then_some(())
    })
    .await;
    let names: Vec<String> = (0..10).map(|n| format!("web-{n}")).collect();
    let objects: Vec<Value> = names.iter().map(|name| server(name)).collect();
    join_all(objects.iter().map(|object| ten.servers.create(object))).await;
    ten.wait_for_orders(3, MINUTE).await;
    operator.restart();
    // The next process of a rolling restart, while orders are still queued.
    let next = Start {
        pod: "second".to_owned(),
        ..start
    };
    let mut next = Operator::start(next, &world.folder().join("second.log"));
    sleep(ACTIVE).await;
    assert!(operator.terminate().await.success());
    let began = Instant::now();

    let mut left_open = Vec::new();
    for name in &names {
        let object = ten.servers.get(name).await.unwrap();
        let order = &object["status"]["records"]["order"];
        left_open.push(!order.is_null() && order["outcome"].is_null());
    }
    // The orders run one after the other.
    let most = MINUTE + ORDER * 10 + DELIVERY + ACTIVE;
    let ready = async |within: Duration| {
        let all = names.iter().zip(&left_open).map(|(name, is_open)| {
            let resolved = if *is_open {
                GRACE + 2 * CHECK
            } else {
                Duration::ZERO
            };
            ten.servers.wait_ready(name, within + resolved)
        });
        join_all(all).await;
    };
    let ten_ready = step("ten orders over a kill and a restart", most, ready);
    let again = async {
        open.wait_for_orders(2, GRACE + 2 * CHECK).await;
        let took = began.elapsed();
        assert!(took >= GRACE, "ordered again after {took:?}");
        StepDuration("an order that a kill left open", took, GRACE + 2 * CHECK)
    };
    let (ten_ready, again) = tokio::join!(ten_ready, again);
    assert_eq!(ten.orders().await.len(), 10, "each was ordered once");
    assert_eq!(open.orders().await.len(), 3);
    assert!(next.ended().is_none());
    vec![ten_ready, again]
}

/// Start options of an operator that watches these namespaces.
fn watching(world: &World, name: &str, places: &[&TimedAccount<'_>]) -> Start {
    Start {
        watched: places.iter().map(|place| place.namespace.clone()).collect(),
        pod: name.to_owned(),
        flags: vec![format!("--leader-election-name={name}")],
        ..world.start_of_operator().clone()
    }
}

#[tokio::test]
#[ignore = "a quarter of an hour, where all tests run"]
async fn default_timing_keeps_waits_bounded() {
    let tier = Tier::of_this_run();
    println!(
        "default timing: {} ({tier:?})",
        if tier == Tier::All { "all" } else { "none" }
    );
    if tier != Tier::All {
        return;
    }
    let plan = WorldOptions {
        simulator: [
            ("delivery", DELIVERY),
            ("release", RELEASE),
            ("command", COMMAND),
        ]
        .map(|(what, takes)| format!("--{what}-seconds={}", takes.as_secs()))
        .to_vec(),
        timing: json!({}),
        short_intervals: false,
        ..WorldOptions::default()
    };
    let world = World::prepare(cluster(), "timing", plan).await;
    let place = async |name| TimedAccount::new(&world, name).await;
    let places = [
        place("plain").await,
        place("delay").await,
        place("namespace").await,
        place("power").await,
        place("adopt").await,
        place("retain").await,
        place("portal").await,
        place("suspend").await,
        place("quiet").await,
        place("wrong-key").await,
        place("outage").await,
        place("limited").await,
        place("hanging").await,
    ];
    let (open, ten) = (place("left-open").await, place("ten").await);
    places[9].write_key("no-key-of-anybody").await;
    let all: Vec<&TimedAccount<'_>> = places.iter().collect();
    let start = watching(&world, "steady", &all);
    let _steady = Operator::start(start, &world.folder().join("steady.log"));
    let start = watching(&world, "killed", &[&open, &ten]);
    join_all(places.iter().map(TimedAccount::wait_until_served)).await;

    let [p, d, n, w, a, r, o, s, q, k, u, l, h] = &places;
    let scenarios: Vec<(&str, Scenario<'_>)> = vec![
        ("plain", plain(p).boxed_local()),
        ("delay", delay(d).boxed_local()),
        ("namespace", namespace(n).boxed_local()),
        ("power", power(w).boxed_local()),
        ("adopt", adopt(a).boxed_local()),
        ("retain", retain(r).boxed_local()),
        ("portal", portal(o).boxed_local()),
        ("suspend", suspend(s).boxed_local()),
        ("quiet", quiet(q).boxed_local()),
        ("wrong key", wrong_key(k).boxed_local()),
        ("outage", outage(u).boxed_local()),
        ("limited", limited(l).boxed_local()),
        ("hanging", hanging(h).boxed_local()),
        ("killed", killed(&world, start, &open, &ten).boxed_local()),
    ];
    let each = scenarios.into_iter().map(|(name, scenario)| async move {
        let ended = AssertUnwindSafe(scenario).catch_unwind().await;
        for StepDuration(what, took, most) in ended.iter().flatten() {
            println!("default timing: {what}: {took:.1?} of {most:?}");
        }
        ended.err().map(|_| name)
    });
    let ended = tokio::time::timeout(ALL, join_all(each)).await;
    let failed: Vec<&str> = ended
        .expect("all end in time")
        .into_iter()
        .flatten()
        .collect();
    assert!(
        failed.is_empty(),
        "failed: {failed:?}; each says above what it missed"
    );
    // One scenario uses a key that no account has.
    let report = world.simulator.invariants(ORDER_TAG).await;
    let violations = report["violations"].as_array().unwrap();
    assert_eq!(violations.len(), 1, "{report:#}");
    assert_eq!(violations[0]["rule"], "foreignKey", "{report:#}");
}
