//! An API that hangs, limits the rate or is down: how soon objects report it and continue, with default timing.

use std::time::Duration;
use tokio::time::Instant;

use futures::future::join_all;
use serde_json::{Value, json};

use super::{
    SOON, check_invariants, ssh_keys::build_deleting_key, tags::build_tag, text,
    wait_account_condition,
};
use lab::rig::{Fault, Things, World, WorldOptions, cluster, condition, server};

/// The simulator's account for the world's key.
const MAIN: &str = "main";
/// The time that a slow computer may add to the documented limits.
const SLACK: Duration = Duration::from_secs(4);

/// A world with default timing, except for faster polls of deliveries. It has a ready server and a ready tag.
async fn start_with_objects(prefix: &str) -> (World, Things) {
    let plan = WorldOptions {
        timing: timing(),
        short_intervals: false,
        ..WorldOptions::default()
    };
    let mut world = World::prepare(cluster(), prefix, plan).await;
    world.start_operator();
    // Objects that are older than the leader's term wait for a grace period of minutes.
    wait_account_condition(&world, "default", "Ready", "True", "Available").await;
    let tags = world.things("ServerTag");
    world.create(&server("one")).await;
    tags.create(&build_tag("ended", &json!({}))).await;
    tags.wait_ready("ended", SOON).await;
    world.wait_ready("one", SOON).await;
    (world, tags)
}

fn timing() -> Value {
    json!({"activePollInterval": "5s"})
}

/// The reason why an object is not ready, for its current generation.
fn find_wait_reason(object: &Value) -> Option<String> {
    let ready = condition(object, "Ready")?;
    let is_of_now = ready["observedGeneration"] == object["metadata"]["generation"];
    (is_of_now && ready["status"] == "False").then(|| text(&ready["reason"]))
}

/// Waits until the object is not ready, for one of these reasons if there are any.
async fn wait_for_reason_within(
    things: &Things,
    name: &str,
    reasons: &[&str],
    since: Instant,
    within: u64,
) {
    things
        .wait_for(name, &format!("not ready, {reasons:?}"), SOON, |object| {
            let reason = find_wait_reason(object)?;
            (reasons.is_empty() || reasons.contains(&&*reason)).then_some(())
        })
        .await;
    let (took, bound) = (since.elapsed(), Duration::from_secs(within) + SLACK);
    assert!(took < bound, "{name} {reasons:?}: {took:?}");
}

/// Creates and deletes objects during an outage with this fault, and checks the reasons on objects and account.
async fn check_outage_reports(world: &World, tags: &Things, fault: Value, reason: &str) {
    let servers = world.things("BareMetalServer");
    let accounts = world.things("ProviderAccount");
    world
        .simulator
        .fault(Fault::new(fault).for_account(MAIN))
        .await;
    let since = Instant::now();
    servers.create(&server("two")).await;
    tags.create(&build_tag("late", &json!({}))).await;
    servers.delete("one").await;
    tags.delete("ended").await;
    let new = [(&servers, "two"), (tags, "late")];
    let deleted = [(&servers, "one"), (tags, "ended")];
    let all = new.into_iter().chain(deleted);
    join_all(all.map(|(things, name)| wait_for_reason_within(things, name, &[], since, 5))).await;
    wait_for_reason_within(&accounts, "default", &[reason], since, 10).await;
    let account = accounts.get("default").await.expect("the account");
    let ready = condition(&account, "Ready").expect("it is told");
    let message = text(&ready["message"]);
    let until = match reason {
        "RateLimited" => "until 20",
        _ => "after 30s",
    };
    assert!(message.contains(until), "{message}");
    // A recorded order reports its progress, and other objects report why they wait.
    let waiting = new.into_iter().chain([(tags, "ended")]);
    let reasons = [reason, "Ordering", "OutcomeUnknown"];
    join_all(
        waiting.map(|(things, name)| wait_for_reason_within(things, name, &reasons, since, 10)),
    )
    .await;

    // Objects of other accounts continue.
    let object = json!({"accountRef": {"name": "other"}});
    tags.create(&build_tag("beside", &object)).await;
    tags.wait_ready("beside", SOON).await;
}

/// Adds an account at the same API without faults.
async fn add_other_account(world: &World) {
    world.simulator.add_account("other", "the-other-key").await;
    world.write_secret("other-key", "the-other-key").await;
    let url = world.simulator.api();
    world
        .write_account_as("other", "other-key", url, &timing())
        .await;
}

async fn delete_all_objects(world: &World, tags: &Things) {
    world.wait_gone("one", SOON).await;
    tags.wait_gone("ended", SOON).await;
    tags.wait_ready("late", SOON).await;
    world.wait_ready("two", SOON).await;
    check_invariants(world).await;
}

#[tokio::test]
async fn hanging_api_is_reported_within_seconds() {
    let (world, tags) = start_with_objects("hangs").await;
    add_other_account(&world).await;
    let hang = json!({"delay": {"ms": 25_000, "before": true}});
    check_outage_reports(&world, &tags, hang, "ProviderUnreachable").await;
    world.simulator.clear_faults().await;
    delete_all_objects(&world, &tags).await;
}

#[tokio::test]
async fn rate_limited_objects_report_retry_time() {
    let (world, tags) = start_with_objects("limited").await;
    add_other_account(&world).await;
    let limited = json!({"status": {"code": 429, "retryAfter": 30}});
    check_outage_reports(&world, &tags, limited, "RateLimited").await;
    world.simulator.clear_faults().await;
    delete_all_objects(&world, &tags).await;
}

/// Its calls fail for a long time, then the whole account for seconds. They resume without their own long backoff.
#[tokio::test]
async fn failed_calls_resume_when_an_outage_ends() {
    let (world, tags) = start_with_objects("backoff").await;
    let keys = world.things("SshKey");
    keys.create(&build_deleting_key("laptop", 'L')).await;
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
    // Six attempts of both, with backoffs of 1, 2, 4, 8 and 16 s between them. The next one is due 32 s later.
    for rule in rules {
        world.simulator.wait_for_fault_hits(rule, 6, SOON).await;
    }
    let last = Instant::now();
    // Earlier rules stay active.
    world.simulator.fault(away()).await;
    tags.create(&build_tag("late", &json!({}))).await;
    let accounts = world.things("ProviderAccount");
    wait_for_reason_within(&accounts, "default", &["ProviderUnreachable"], last, 8).await;

    world.simulator.clear_faults().await;
    let over = Instant::now();
    world.wait_gone("one", SOON).await;
    tags.wait_gone("ended", SOON).await;
    keys.wait_gone("laptop", SOON).await;
    let took = over.elapsed();
    assert!(took < Duration::from_secs(15), "{took:?}");
    tags.wait_ready("late", SOON).await;
    check_invariants(&world).await;
}
