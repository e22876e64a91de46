//! An account whose API asks for long pauses holds up its own objects, and no others.

use futures::future::join_all;
use serde_json::{Value, json};

use super::{SOON, judge, orders, with};
use lab::rig::{Fault, Simulator, World, WorldOptions, cluster, eventually, quick_timing};

/// More releases than the process makes passes at once.
const RELEASES: usize = 80;

#[tokio::test]
async fn release_backoff_delays_no_other_account() {
    let mut world = {
        // Many orders at once on a busy machine: their intents take longer to be written than a quick send window.
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
        world.create(&with(name, &json!({}))).await;
        world.wait_ready(name, SOON).await;
    });
    join_all(made).await;
    assert_eq!(orders(&world).await, RELEASES as u64);

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

    let object = with("quick", &json!({"accountRef": {"name": "other"}}));
    world.create(&object).await;
    world.wait_ready("quick", SOON).await;
    assert_eq!(world.simulator.list_live_servers().await.len(), RELEASES);
    judge(&world).await;
}
