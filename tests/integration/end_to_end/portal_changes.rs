//! Changes in the provider's portal: renamed tags, a reinstalled server,
//! and removed tags while an order is open.

use serde_json::{Value, json};

use super::{
    ORDER_TAG, SERVERS, SOON, check_invariants, count_orders, get_server_of, list_tags,
    wait_for_event, wait_for_polls, wait_not_ready, wait_not_ready_message, wait_stalled,
};
use lab::rig::{Fault, World, WorldOptions, cluster, eventually, quick_timing, server};

const NAMES: [&str; 3] = ["renamed", "beside", "installed"];

fn uuid(object: &Value) -> &str {
    object["status"]["uuid"].as_str().expect("it has a server")
}

/// Renames a tag of the account on all its servers.
async fn rename_tag(world: &World, tag: &str, to: &str) {
    let path = format!("/v3/flexMetal/tags/{tag}");
    let renamed = world
        .simulator
        .call("PUT", &path, Some(&json!({"tag": to})))
        .await;
    assert_eq!(renamed.0, 200, "{renamed:?}");
}

/// The operator's tag with this prefix on a server.
async fn find_own_tag(world: &World, object: &Value, start: &str) -> String {
    let tags = list_tags(&get_server_of(world, object).await);
    let found = tags.into_iter().find(|tag| tag.starts_with(start));
    found.unwrap_or_else(|| panic!("no {start} on {object:#}"))
}

/// Waits until a server has all of these tags.
async fn wait_for_tags(world: &World, object: &Value, wanted: &[&str]) {
    eventually(&format!("the server has {wanted:?}"), SOON, async || {
        let tags = list_tags(&get_server_of(world, object).await);
        let has = |tag: &&str| tags.iter().any(|found| found == tag);
        wanted.iter().all(has).then_some(())
    })
    .await;
}

#[tokio::test]
async fn portal_changes_order_and_release_nothing() {
    let mut timing = quick_timing();
    // Long enough on a slow computer that the operator neither searches for an order nor confirms one absent during
    // this test.
    timing["orderTimeout"] = json!("10s");
    timing["absenceGracePeriod"] = json!("20s");
    let plan = WorldOptions {
        timing,
        ..WorldOptions::default()
    };
    let mut world = World::prepare(cluster(), "portal", plan).await;
    world.start_operator();
    let mut objects = Vec::new();
    for name in NAMES {
        world.create(&server(name)).await;
    }
    for name in NAMES {
        objects.push(world.wait_ready(name, SOON).await);
    }
    let order_tag = find_own_tag(&world, &objects[0], ORDER_TAG).await;
    let cluster_tag = find_own_tag(&world, &objects[0], "fmo-cluster:").await;

    // Without its order tag the server has no known owner: the operator reports that and restores nothing.
    // The renamed tag counts as a user's tag.
    rename_tag(&world, &order_tag, "mine").await;
    let words = [uuid(&objects[0]), &order_tag, "Restore the tag"];
    wait_stalled(&world, "renamed", "TagsMissing", &words).await;
    wait_for_polls(&world, 3).await;
    let mut left = list_tags(&get_server_of(&world, &objects[0]).await);
    left.sort();
    assert_eq!(left, [cluster_tag.as_str(), "mine"]);
    rename_tag(&world, "mine", &order_tag).await;
    world.wait_ready("renamed", SOON).await;
    // All servers of the account lose the cluster's tag at once.
    rename_tag(&world, &cluster_tag, "ours").await;
    for object in &objects {
        wait_for_tags(&world, object, &[&cluster_tag, "ours"]).await;
    }
    // Reinstalled in the portal: not ready meanwhile.
    let anew = json!({"status": "provisioning"});
    world.simulator.alter(uuid(&objects[2]), &anew).await;
    wait_not_ready(&world, "installed", "Provisioning", &[uuid(&objects[2])]).await;
    let done = json!({"status": "delivered"});
    world.simulator.alter(uuid(&objects[2]), &done).await;
    for (name, before) in NAMES.iter().zip(&objects) {
        let now = world.wait_ready(name, SOON).await;
        assert_eq!(now["status"]["uuid"], before["status"]["uuid"], "{name}");
    }
    wait_for_polls(&world, 3).await;
    assert_eq!(count_orders(&world).await, NAMES.len() as u64);
    check_untagged_open_order(&world).await;
    let counts = world.simulator.counts().await;
    let releases = counts.get("DELETE /v3/flexMetal/servers/{uuid}");
    assert_eq!(releases, None);
    check_invariants(&world).await;
}

/// The answer to an order is lost, and the server's tags are removed before the first poll.
/// Only its name matches then, and the operator orders no other server.
async fn check_untagged_open_order(world: &World) {
    let before = count_orders(world).await;
    let lost = json!([{"delay": {"ms": 4000, "before": false}}, "dropAfter"]);
    let lost = Fault::new(lost).on("POST", SERVERS).times(1);
    world.simulator.fault(lost).await;
    world.create(&server("stripped")).await;
    let provider_server = eventually("the order has arrived", SOON, async || {
        let servers = world.simulator.list_live_servers().await;
        let mut servers = servers.into_iter();
        servers.find(|provider_server| provider_server["name"] == "stripped")
    })
    .await;
    let uuid = provider_server["uuid"].as_str().unwrap();
    world.simulator.alter(uuid, &json!({"tags": []})).await;
    // The operator searches by tag first. Then the server with this name blocks the order.
    let own_tags = list_tags(&provider_server);
    let order = own_tags.iter().find(|tag| tag.starts_with(ORDER_TAG));
    let words = ["The answer to the order was lost", order.unwrap()];
    wait_not_ready_message(world, "stripped", "OutcomeUnknown", &words).await;
    let words = [
        uuid,
        "has this host name",
        "set flexmetal.dev/acknowledge to ",
    ];
    wait_not_ready_message(world, "stripped", "OutcomeUnknown", &words).await;
    wait_stalled(world, "stripped", "OutcomeUnknown", &words).await;
    wait_for_polls(world, 3).await;
    assert_eq!(count_orders(world).await, before + 1);
    let back = json!({"tags": provider_server["tags"]});
    world.simulator.alter(uuid, &back).await;
    let ready = world.wait_ready("stripped", SOON).await;
    assert_eq!(ready["status"]["uuid"], *uuid);
    wait_for_event(world, "FoundByTag").await;
    assert_eq!(count_orders(world).await, before + 1);
}
