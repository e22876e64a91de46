//! An account at which nobody looks but for what is asked for: no scan for a day, no poll for an hour. What an object has there
//! only lists of the whole account show.

use serde_json::{Value, json};

use super::{SERVERS, SOON, judge, machine, orders, tags, text};
use lab::rig::{Fault, World, WorldOptions, cluster, condition, eventually, quick_timing, server};

/// A quiet account with a server that lists must show. Each further one stays in delivery, and is in no list for seconds.
async fn quiet(prefix: &str) -> World {
    let mut timing = quick_timing();
    timing["orphanScanInterval"] = json!("24h");
    timing["idlePollInterval"] = json!("1h");
    let plan = WorldOptions {
        timing,
        ..WorldOptions::default()
    };
    let mut world = World::prepare(cluster(), prefix, plan).await;
    world.start_operator();
    world.create(&server("known")).await;
    world.wait_ready("known", SOON).await;
    let slow = json!({"deliverySeconds": [3600, 3600], "listLagSeconds": 3});
    world.simulator.settings(&slow).await;
    world
}

/// Makes an object whose order is taken and whose answer is lost. Returns its machine.
async fn lost_answer(world: &World, name: &str) -> String {
    let lost = Fault::new(json!("dropAfter")).on("POST", SERVERS);
    world.simulator.fault(lost.times(1)).await;
    world.create(&server(name)).await;
    let is_lost = |object: &Value| {
        let ready = condition(object, "Ready")?;
        (ready["reason"] == "OutcomeUnknown").then_some(())
    };
    world.wait_for(name, "unknown", SOON, is_lost).await;
    let machines = world.simulator.list_live_servers().await;
    let made = machines.iter().find(|machine| machine["name"] == name);
    text(&made.expect("the order was taken")["uuid"])
}

#[tokio::test]
async fn late_listed_server_is_released() {
    let world = quiet("quiet-deleted").await;
    let uuid = lost_answer(&world, "web").await;
    world.delete("web").await;
    world.wait_gone("web", SOON).await;
    eventually("it is released", SOON, async || {
        let status = machine(&world, &uuid).await["status"].clone();
        (status == "released").then_some(())
    })
    .await;
    assert_eq!(orders(&world).await, 2);
    judge(&world).await;
}

#[tokio::test]
async fn order_tag_alone_identifies_a_server() {
    let mut world = quiet("quiet-untagged").await;
    let uuid = lost_answer(&world, "web").await;
    let borne = tags(&machine(&world, &uuid).await);
    let own: Vec<&String> = borne
        .iter()
        .filter(|tag| tag.starts_with("fmo-order:"))
        .collect();
    assert_eq!(own.len(), 1, "{borne:?}");
    world.simulator.alter(&uuid, &json!({"tags": own})).await;
    world.operator().restart();
    let is_its = |object: &Value| (object["status"]["uuid"] == *uuid).then_some(());
    world.wait_for("web", "found", SOON, is_its).await;
    assert_eq!(orders(&world).await, 2);
    world.delete("web").await;
    world.wait_gone("web", SOON).await;
    judge(&world).await;
}
