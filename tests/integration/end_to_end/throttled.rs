//! An account whose API asks for a long backoff delays its own objects only.

use futures::future::join_all;
use serde_json::{Value, json};

use super::{SOON, build_server, check_invariants, count_orders};
use lab::rig::{Fault, Simulator, World, WorldOptions, cluster, eventually, quick_timing};

/// More releases than the process reconciles in parallel.
const RELEASES: usize = 80;

#[tokio::test]
async fn release_backoff_delays_no_other_account() {
    let mut world = {
        // With many orders at once, a slow computer needs longer to write their intents than a short send window
        // allows.
        let mut timing = quick_timing();
        timing["absenceGracePeriod"] = json!("2m");
        timing["orderTimeout"] = json!("20s");
        let plan = WorldOptions {
            timing,
            ..WorldOptions::default()
        };
        World::prepare(cluster(), "throttled", plan).await
    };
    let other = Simulator::start(&[], &world.folder().join("other.log"));
    world.write_secret("other-key", other.api_key()).await;
    world
        .write_account_as("other", "other-key", other.api(), &quick_timing())
        .await;
    world.allow_base_url(other.api());
    world.start_operator();
    let names: Vec<String> = (0..RELEASES).map(|n| format!("busy-{n}")).collect();
    let made = names.iter().map(|name| async {
        world.create(&build_server(name, &json!({}))).await;
        world.wait_ready(name, SOON).await;
    });
    join_all(made).await;
    assert_eq!(count_orders(&world).await, RELEASES as u64);

    let later = json!({"status": {"code": 429, "retryAfter": 300}});
    let fault = Fault::new(later).on("DELETE", "/v3/flexMetal/servers/*");
    world.simulator.fault(fault).await;
    join_all(names.iter().map(|name| world.delete(name))).await;
    eventually("a release is put off", SOON, async || {
        let ledger = world.simulator.ledger().await;
        let is_put_off = |call: &&Value| call["method"] == "DELETE" && call["status"] == 429;
        ledger.iter().find(is_put_off).map(|_| ())
    })
    .await;

    let object = build_server("quick", &json!({"accountRef": {"name": "other"}}));
    world.create(&object).await;
    world.wait_ready("quick", SOON).await;
    assert_eq!(world.simulator.list_live_servers().await.len(), RELEASES);
    check_invariants(&world).await;
}
