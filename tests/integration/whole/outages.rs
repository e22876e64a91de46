//! An API that hangs, asks for long pauses or is away: who says so how soon, and how soon it goes on, at default timing.

use std::time::Duration;
use tokio::time::Instant;

use futures::future::join_all;
use serde_json::{Value, json};

use super::{SOON, account_says, judge, ssh_keys::deleting_key, tags::tag, text};
use lab::rig::{Fault, Things, World, WorldOptions, cluster, condition, eventually, server};

/// The account of the simulator to which the world's key leads.
const MAIN: &str = "main";
/// What a busy machine may take longer than the operator promises.
const SLACK: Duration = Duration::from_secs(4);

/// A world at default timing, but for deliveries that are seen soon. It has a ready server and a ready tag.
async fn started(prefix: &str) -> (World, Things) {
    let plan = WorldOptions {
        timing: timing(),
        short_intervals: false,
        ..WorldOptions::default()
    };
    let mut world = World::prepare(cluster(), prefix, plan).await;
    world.start_operator();
    // What is created before the operator leads waits for a grace period of minutes.
    account_says(&world, "default", "Ready", "True", "Available").await;
    let tags = world.things("ServerTag");
    world.create(&server("one")).await;
    tags.create(&tag("ended", &json!({}))).await;
    tags.wait_ready("ended", SOON).await;
    world.wait_ready("one", SOON).await;
    (world, tags)
}

fn timing() -> Value {
    json!({"activePollInterval": "5s"})
}

/// What an object says of its present generation, where it is not ready; the reason.
fn waits(object: &Value) -> Option<String> {
    let ready = condition(object, "Ready")?;
    let is_of_now = ready["observedGeneration"] == object["metadata"]["generation"];
    (is_of_now && ready["status"] == "False").then(|| text(&ready["reason"]))
}

/// Waits until the object is not ready and says so, for one of these reasons where there are any.
async fn says_in(things: &Things, name: &str, reasons: &[&str], since: Instant, within: u64) {
    things
        .wait_for(name, &format!("not ready, {reasons:?}"), SOON, |object| {
            let reason = waits(object)?;
            (reasons.is_empty() || reasons.contains(&&*reason)).then_some(())
        })
        .await;
    let (took, bound) = (since.elapsed(), Duration::from_secs(within) + SLACK);
    assert!(took < bound, "{name} {reasons:?}: {took:?}");
}

/// Objects come and go in an outage by this fault; the account has this reason for it. Ends when the fault is over.
async fn is_told(world: &World, tags: &Things, fault: Value, reason: &str) {
    let servers = world.things("BareMetalServer");
    let accounts = world.things("ProviderAccount");
    world
        .simulator
        .fault(Fault::new(fault).for_account(MAIN))
        .await;
    let since = Instant::now();
    servers.create(&server("two")).await;
    tags.create(&tag("late", &json!({}))).await;
    servers.delete("one").await;
    tags.delete("ended").await;
    let new = [(&servers, "two"), (tags, "late")];
    let deleted = [(&servers, "one"), (tags, "ended")];
    let all = new.into_iter().chain(deleted);
    join_all(all.map(|(things, name)| says_in(things, name, &[], since, 5))).await;
    says_in(&accounts, "default", &[reason], since, 10).await;
    let account = accounts.get("default").await.expect("the account");
    let ready = condition(&account, "Ready").expect("it is told");
    let message = text(&ready["message"]);
    let until = match reason {
        "RateLimited" => "until 20",
        _ => "after 30s",
    };
    assert!(message.contains(until), "{message}");
    // What is on record says how far it came, and all else why it waits.
    let waiting = new.into_iter().chain([(tags, "ended")]);
    let reasons = [reason, "Ordering", "OutcomeUnknown"];
    join_all(waiting.map(|(things, name)| says_in(things, name, &reasons, since, 10))).await;

    // Nobody else is held up.
    let object = json!({"accountRef": {"name": "other"}});
    tags.create(&tag("beside", &object)).await;
    tags.wait_ready("beside", SOON).await;
}

/// Another account at the same API, which no fault hits.
async fn add_other(world: &World) {
    world.simulator.add_account("other", "the-other-key").await;
    world.write_secret("other-key", "the-other-key").await;
    let url = world.simulator.api();
    world
        .write_account_as("other", "other-key", url, &timing())
        .await;
}

async fn all_end(world: &World, tags: &Things) {
    world.wait_gone("one", SOON).await;
    tags.wait_gone("ended", SOON).await;
    tags.wait_ready("late", SOON).await;
    world.wait_ready("two", SOON).await;
    judge(world).await;
}

#[tokio::test]
async fn hanging_api_is_reported_within_seconds() {
    let (world, tags) = started("hangs").await;
    add_other(&world).await;
    let hang = json!({"delay": {"ms": 25_000, "before": true}});
    is_told(&world, &tags, hang, "ProviderUnreachable").await;
    world.simulator.clear_faults().await;
    all_end(&world, &tags).await;
}

#[tokio::test]
async fn rate_limited_objects_report_retry_time() {
    let (world, tags) = started("limited").await;
    add_other(&world).await;
    let limited = json!({"status": {"code": 429, "retryAfter": 30}});
    is_told(&world, &tags, limited, "RateLimited").await;
    world.simulator.clear_faults().await;
    all_end(&world, &tags).await;
}

/// Its calls failed for long, and then the account as a whole for seconds: it does not wait for its own pause.
#[tokio::test]
async fn failed_calls_resume_when_an_outage_ends() {
    let (world, tags) = started("backoff").await;
    let keys = world.things("SshKey");
    keys.create(&deleting_key("laptop", 'L')).await;
    keys.wait_ready("laptop", SOON).await;
    let away = || Fault::new(json!({"status": {"code": 503}})).for_account(MAIN);
    let read = away().on("GET", "/v3/flexMetal/servers/*");
    let rules = [
        world.simulator.fault(read).await,
        world.simulator.fault(away().on("DELETE", "/v3/*")).await,
    ];
    world.delete("one").await;
    tags.delete("ended").await;
    keys.delete("laptop").await;
    // Six tries of both, with pauses of 1, 2, 4, 8 and 16 s between them. The next one is due 32 s later.
    eventually("six tries", SOON, async || {
        let all = world.simulator.faults().await;
        let of = |id: u64| all.iter().find(|rule| rule["id"] == id);
        let tries = |id: u64| of(id).and_then(|rule| rule["applied"].as_u64());
        let mut tries = rules.iter().map(|id| tries(*id));
        tries.all(|tries| tries >= Some(6)).then_some(())
    })
    .await;
    let last = Instant::now();
    // The rules before it go on.
    world.simulator.fault(away()).await;
    tags.create(&tag("late", &json!({}))).await;
    let accounts = world.things("ProviderAccount");
    says_in(&accounts, "default", &["ProviderUnreachable"], last, 8).await;

    world.simulator.clear_faults().await;
    let over = Instant::now();
    world.wait_gone("one", SOON).await;
    tags.wait_gone("ended", SOON).await;
    keys.wait_gone("laptop", SOON).await;
    let took = over.elapsed();
    assert!(took < Duration::from_secs(15), "{took:?}");
    tags.wait_ready("late", SOON).await;
    judge(&world).await;
}
