//! A slow or throttled account delays its own objects only.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::{
    SERVERS, SOON, build_server, check_condition_message, check_invariants, check_invariants_of,
    tags::build_tag, text, wait_for_polls,
};
use lab::rig::{Fault, Simulator, World, WorldOptions, cluster, condition, quick_timing, server};

/// More than an account's limit of parallel calls, and than the process reconciles in parallel.
const MANY: usize = 64;
/// Maximum time for an undisturbed account, also on a slow computer.
const SECONDS: Duration = Duration::from_secs(30);

/// A world with a second account, `slow`, which has its own simulator.
async fn start_with_slow_account(prefix: &str, timing: &Value) -> (World, Simulator) {
    let mut world = World::prepare(cluster(), prefix, WorldOptions::default()).await;
    let slow = Simulator::start(&[], &world.folder().join("slow.log"));
    world.allow_base_url(slow.api());
    world.start_operator();
    world.write_secret("slow-key", slow.api_key()).await;
    world
        .write_account_as("slow", "slow-key", slow.api(), timing)
        .await;
    (world, slow)
}

fn build_slow_server(number: usize) -> Value {
    build_server(
        &format!("slow-{number}"),
        &json!({"accountRef": {"name": "slow"}}),
    )
}

/// Orders and releases a server on the undisturbed account, and checks the time.
async fn check_other_account(world: &World) {
    let start = Instant::now();
    world.create(&server("quick")).await;
    world.wait_ready("quick", SECONDS).await;
    world.delete("quick").await;
    world.wait_gone("quick", SECONDS).await;
    assert!(start.elapsed() < SECONDS, "{:?}", start.elapsed());
}

#[tokio::test]
async fn throttled_account_delays_no_other_one() {
    let mut timing = quick_timing();
    // With many orders at once, a busy computer takes longer than a short send window.
    timing["absenceGracePeriod"] = json!("2m");
    timing["orderTimeout"] = json!("20s");
    let (world, slow) = start_with_slow_account("throttled", &timing).await;
    for number in 0..MANY {
        world.create(&build_slow_server(number)).await;
    }
    for number in 0..MANY {
        world.wait_ready(&format!("slow-{number}"), SOON).await;
    }
    let refusal = json!({"status": {"code": 429, "retryAfter": 300}});
    let any = format!("{SERVERS}/*");
    let refused = slow.fault(Fault::new(refusal).on("DELETE", &any)).await;
    for number in 0..MANY {
        world.delete(&format!("slow-{number}")).await;
    }
    slow.wait_for_fault_hits(refused, 1, SOON).await;

    check_other_account(&world).await;

    let live = slow.list_live_servers().await;
    assert_eq!(live.len(), MANY, "they still wait");
    let orders = slow.ledger_matching("method=POST").await;
    assert_eq!(orders.len(), MANY, "one for each");
    check_invariants_of(&slow).await;
    check_invariants(&world).await;
}

#[tokio::test]
async fn orders_that_hang_delay_nothing_of_another_account() {
    let mut timing = quick_timing();
    // The operator waits for every answer within the absence grace period.
    timing["absenceGracePeriod"] = json!("120s");
    timing["orderTimeout"] = json!("60s");
    let (world, slow) = start_with_slow_account("hanging", &timing).await;
    let hang = json!({"delay": {"ms": 55_000, "before": true}});
    let hanging = slow.fault(Fault::new(hang).on("POST", SERVERS)).await;
    for number in 0..MANY {
        world.create(&build_slow_server(number)).await;
    }
    slow.wait_for_fault_hits(hanging, 8, SOON).await;

    check_other_account(&world).await;

    let waiting = world.get("slow-0").await.unwrap();
    let ready = condition(&waiting, "Ready");
    assert!(ready.is_none_or(|r| r["status"] != "True"), "{waiting:#}");
    check_invariants(&world).await;
}

#[tokio::test]
async fn forbidden_call_affects_only_its_object() {
    let world = World::start(cluster(), "forbidden").await;
    for name in ["one", "two"] {
        world.create(&server(name)).await;
    }
    let one = world.wait_ready("one", SOON).await;
    world.wait_ready("two", SOON).await;
    wait_for_polls(&world, 3).await;
    let settled = world.get("two").await.unwrap()["status"].clone();
    let forbid = || Fault::new(json!({"refuse": {"status": 403, "message": "not with this key"}}));
    let path = format!("{SERVERS}/{}", text(&one["status"]["uuid"]));
    let releases_rule = world.simulator.fault(forbid().on("DELETE", &path)).await;
    let lists = forbid().on("GET", "/v3/flexMetal/tags");
    let lists_rule = world.simulator.fault(lists).await;
    world
        .things("ServerTag")
        .create(&build_tag("web", &json!({})))
        .await;
    world.delete("one").await;
    let call = format!("forbids DELETE {path} to this key; status 403");
    let refused = Some("RequestRefused");
    let one = world
        .wait_for_condition("one", "Synced", "False", refused, SOON)
        .await;
    check_condition_message("one", &one, "Synced", &[&call]);
    world
        .simulator
        .wait_for_fault_hits(lists_rule, 2, SOON)
        .await;

    check_other_account(&world).await;

    assert_eq!(world.get("two").await.unwrap()["status"], settled);
    let account = json!(world.accounts().get("default").await.unwrap());
    for kind in ["Ready", "KeyAccepted"] {
        assert_eq!(
            condition(&account, kind).unwrap()["status"],
            "True",
            "{account:#}"
        );
    }
    // The backoff grows.
    let tries = world.simulator.count_fault_hits(releases_rule).await;
    assert!(tries < 12, "{tries}");
    world.simulator.clear_faults().await;
    world.wait_gone("one", SOON).await;
    check_invariants(&world).await;
}
