//! A process that is killed repeatedly during orders.

use std::time::Duration;

use futures::future::join_all;
use kube::api::ListParams;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::{SOON, check_invariants, count_orders};
use lab::rig::{World, WorldOptions, cluster, condition, eventually, server};

const NUMBER: usize = 200;
const KILLS: usize = 20;
/// A twentieth of the default. The lag of lists is shortened likewise.
const GRACE: Duration = Duration::from_secs(30);

async fn ready(world: &World) -> Option<usize> {
    let list = world.servers().list(&ListParams::default()).await.ok()?;
    let ready = list.iter().filter(|object| {
        let object = json!({"status": object.data["status"]});
        condition(&object, "Ready").is_some_and(|found| found["status"] == "True")
    });
    Some(ready.count())
}

/// Each kill leaves a few orders with an unknown outcome. None is ordered twice, and none is stuck.
#[tokio::test]
async fn repeated_kills_duplicate_no_server() {
    let timing = json!({
        "absenceGracePeriod": format!("{}s", GRACE.as_secs()), "absenceCheckInterval": "3s",
        "activePollInterval": "500ms", "idlePollInterval": "1s", "orphanScanInterval": "5s", "orderTimeout": "3s",
    });
    let plan = WorldOptions {
        timing,
        simulator: vec!["--list-lag-seconds".into(), "3".into()],
        ..WorldOptions::default()
    };
    let mut world = World::prepare(cluster(), "kills", plan).await;
    world.start_operator();
    // This known server shows that lists belong to the account.
    world.create(&server("first")).await;
    world.wait_ready("first", SOON).await;

    let objects: Vec<Value> = (1..NUMBER)
        .map(|n| server(&format!("server-{n:03}")))
        .collect();
    join_all(objects.iter().map(|object| world.create(object))).await;
    for kill in 1..=KILLS {
        let before = count_orders(&world).await;
        let start = Instant::now();
        // During orders, or during the search for them.
        while count_orders(&world).await < before + 5 && start.elapsed() < Duration::from_secs(2) {
            sleep(Duration::from_millis(20)).await;
        }
        world.operator().restart();
        println!("kill {kill}: {} orders", count_orders(&world).await);
    }

    let last = Instant::now();
    eventually("all servers are ready", 2 * GRACE + SOON, async || {
        (ready(&world).await? == NUMBER).then_some(())
    })
    .await;
    println!("ready {:.0?} after the last kill", last.elapsed());
    assert_eq!(world.simulator.list_live_servers().await.len(), NUMBER);
    check_invariants(&world).await;
}
