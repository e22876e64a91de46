//! An account without scans for a day and without polls for an hour, except on request.
//! Only lists of the whole account show an object's server there.

use serde_json::{Value, json};

use super::{SERVERS, SOON, check_invariants, count_orders, get_server, list_tags, text};
use lab::rig::{Fault, World, WorldOptions, cluster, condition, eventually, quick_timing, server};

/// A quiet account with a known server. Later servers stay in delivery, and appear in lists after some seconds.
async fn start_quiet_account(prefix: &str) -> World {
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

/// Creates an object whose order is accepted and whose answer is lost. Returns the UUID of its server.
async fn create_with_lost_answer(world: &World, name: &str) -> String {
    let lost = Fault::new(json!("dropAfter")).on("POST", SERVERS);
    world.simulator.fault(lost.times(1)).await;
    world.create(&server(name)).await;
    let is_lost = |object: &Value| {
        let ready = condition(object, "Ready")?;
        (ready["reason"] == "OutcomeUnknown").then_some(())
    };
    world.wait_for(name, "unknown", SOON, is_lost).await;
    let servers = world.simulator.list_live_servers().await;
    let made = servers
        .iter()
        .find(|provider_server| provider_server["name"] == name);
    text(&made.expect("the order was taken")["uuid"])
}

#[tokio::test]
async fn late_listed_server_is_released() {
    let world = start_quiet_account("quiet-deleted").await;
    let uuid = create_with_lost_answer(&world, "web").await;
    world.delete("web").await;
    world.wait_gone("web", SOON).await;
    eventually("it is released", SOON, async || {
        let status = get_server(&world, &uuid).await["status"].clone();
        (status == "released").then_some(())
    })
    .await;
    assert_eq!(count_orders(&world).await, 2);
    check_invariants(&world).await;
}

#[tokio::test]
async fn order_tag_alone_identifies_a_server() {
    let mut world = start_quiet_account("quiet-untagged").await;
    let uuid = create_with_lost_answer(&world, "web").await;
    let borne = list_tags(&get_server(&world, &uuid).await);
    let own: Vec<&String> = borne
        .iter()
        .filter(|tag| tag.starts_with("fmo-order:"))
        .collect();
    assert_eq!(own.len(), 1, "{borne:?}");
    world.simulator.alter(&uuid, &json!({"tags": own})).await;
    world.operator().restart();
    let is_its = |object: &Value| (object["status"]["uuid"] == *uuid).then_some(());
    world.wait_for("web", "found", SOON, is_its).await;
    assert_eq!(count_orders(&world).await, 2);
    world.delete("web").await;
    world.wait_gone("web", SOON).await;
    check_invariants(&world).await;
}
