//! What the provider cannot give now: an order is refused once, a look at stock and quota says why, and nobody orders
//! before there is some again. And limits of the account that are raised: who waits goes on at once.

use serde_json::{Value, json};

use super::{
    SERVERS, SOON, api_of, cluster_wide::Host, entries::timed_account, held, judge, orders,
    set_account, stuck, with,
};
use kube::api::{Patch, PatchParams};
use lab::rig::{
    Fault, Kstatus, World, WorldOptions, cluster, condition, eventually, health, server,
};

const ROTTERDAM: &str = "EU: Rotterdam";
const KIND: &str = "bm7.std.8";

/// Waits until the catalogue was looked at so often from now on.
async fn looks_at_catalogue(world: &World, times: usize) {
    let looks = async || {
        let counts = world.simulator.counts().await;
        counts.get("GET /v3/flexMetal/plans").copied().unwrap_or(0)
    };
    let wanted = looks().await + times as u64;
    eventually("looks at the catalogue", SOON, async || {
        (looks().await >= wanted).then_some(())
    })
    .await;
}

/// The object waits for this, and nobody is called.
async fn waits(world: &World, name: &str, reason: &str, words: &[&str]) {
    held(world, name, reason, words).await;
    let object = world.get(name).await.unwrap();
    assert_eq!(health(&object), Kstatus::InProgress, "{object:#}");
    let stalled = condition(&object, "Stalled").unwrap();
    assert_eq!(stalled["status"], "False");
}

/// The catalogue has just been looked at and says that there is some; now there is none. `supply` says how many more
/// can be had.
async fn runs_out(prefix: &str, reason: &str, words: &[&str], supply: impl AsyncFn(&World, u32)) {
    let world = World::start(cluster(), prefix).await;
    world.create(&server("zero")).await;
    world.wait_ready("zero", SOON).await;
    supply(&world, 0).await;

    world.create(&server("one")).await;
    waits(&world, "one", reason, words).await;
    assert_eq!(orders(&world).await, 2, "refused once");
    world.create(&server("two")).await;
    waits(&world, "two", reason, words).await;
    looks_at_catalogue(&world, 4).await;
    assert_eq!(orders(&world).await, 2, "no order while a look says no");

    // One for two: the one who comes too late is refused at most once.
    supply(&world, 1).await;
    let late = eventually("one of the two is ordered", SOON, async || {
        let (one, two) = tokio::join!(world.get("one"), world.get("two"));
        let has = |object: Option<Value>| object.unwrap()["status"]["uuid"].is_string();
        match (has(one), has(two)) {
            (true, false) => Some("two"),
            (false, true) => Some("one"),
            _ => None,
        }
    })
    .await;
    waits(&world, late, reason, words).await;
    looks_at_catalogue(&world, 4).await;
    let sent = orders(&world).await;
    assert!((3..=4).contains(&sent), "{sent}");
    waits(&world, late, reason, words).await;

    supply(&world, 1).await;
    world.wait_ready(late, SOON).await;
    assert_eq!(orders(&world).await, sent + 1);
    judge(&world).await;
}

#[tokio::test]
async fn sold_out_location_costs_only_one_order() {
    let words = ["bm7.std.8", ROTTERDAM, "checked every 200ms"];
    let supply = async |world: &World, more: u32| {
        world.simulator.stock(ROTTERDAM, KIND, Some(more)).await;
    };
    runs_out("soldout", "NoStock", &words, supply).await;
}

#[tokio::test]
async fn exhausted_quota_costs_only_one_order() {
    let words = ["bm7.std.8", ROTTERDAM, " of ", "checked every 200ms"];
    let supply = async |world: &World, more: u32| {
        let live = world.simulator.list_live_servers().await.len();
        let live = u32::try_from(live).unwrap();
        world.simulator.quota(ROTTERDAM, KIND, live + more).await;
    };
    runs_out("quota", "QuotaExceeded", &words, supply).await;
}

/// The provider refuses one order with the status that it has for no stock too, again and again.
#[tokio::test]
async fn refused_order_blocks_no_other_order() {
    let world = World::start(cluster(), "refusing").await;
    let refusal = json!({"refuse": {"status": 422, "message": "not this name"}});
    let fault = Fault::new(refusal).on("POST", SERVERS).with_body("\"bad\"");
    world.simulator.fault(fault.times(1000)).await;
    world.create(&server("bad")).await;
    stuck(
        &world,
        "bad",
        "OrderRefused",
        &["not this name", "retrying at"],
    )
    .await;
    for name in ["good", "better"] {
        world.create(&server(name)).await;
        world.wait_ready(name, SOON).await;
    }
    judge(&world).await;
}

/// Times by which nobody would look again within this test.
fn slow_timing() -> Value {
    json!({
        "absenceGracePeriod": "8s", "absenceCheckInterval": "300ms", "activePollInterval": "5m",
        "idlePollInterval": "10m", "orphanScanInterval": "10m", "orderTimeout": "1500ms",
    })
}

async fn is_ordered(world: &World) {
    eventually("the order is sent", SOON, async || {
        (orders(world).await == 1).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_raised_limit_takes_effect_at_once() {
    let plan = WorldOptions {
        timing: slow_timing(),
        ..WorldOptions::default()
    };
    let mut world = World::prepare(cluster(), "raised", plan).await;
    set_limit(&world, 0).await;
    world.start_operator();
    world.create(&server("one")).await;
    let words = [
        "0 servers",
        "spec.limits.maxServers is 0",
        "raise the limit",
    ];
    stuck(&world, "one", "LimitReached", &words).await;
    set_account(&world, "default", &json!({"limits": {"maxServers": 1}})).await;
    is_ordered(&world).await;
    judge(&world).await;
}

async fn set_limit(world: &World, most: u32) {
    let limits = json!({"spec": {"limits": {"maxServers": most}}});
    super::change_account(world, "default", &limits).await;
}

/// The same for the limit of an entry of an account of the cluster.
pub(super) async fn raised_entry(host: &Host) -> World {
    let world = host.guest("raised").await;
    let name = &world.namespace;
    let entries = json!([{"name": "team", "namespaces": [name], "limits": {"maxServers": 0}}]);
    let account = timed_account(host, &world, &entries, &slow_timing()).await;
    let reference = json!({"kind": "ClusterProviderAccount", "name": name});
    world
        .create(&with("one", &json!({"accountRef": reference})))
        .await;
    stuck(
        &world,
        "one",
        "LimitReached",
        &["limits.maxServers in spec.allowedNamespaces is 0"],
    )
    .await;
    let path = "/spec/allowedNamespaces/0/limits/maxServers";
    let patch = json!([{"op": "replace", "path": path, "value": 1}]);
    let patch = serde_json::from_value(patch).expect("a JSON patch");
    api_of(&world.client, None, &account)
        .patch(name, &PatchParams::default(), &Patch::Json::<()>(patch))
        .await
        .expect("the API server takes the command of the message");
    is_ordered(&world).await;
    judge(&world).await;
    world
}
