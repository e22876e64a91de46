//! What people do at the provider behind the operator's back: rename its tags, install a machine anew, take the
//! marks off a machine whose order is not settled.

use serde_json::{Value, json};

use super::{
    ORDER_TAG, SERVERS, SOON, held, held_for, judge, looks, machine_of, orders, stuck, tags, told,
};
use lab::rig::{Fault, World, WorldOptions, cluster, eventually, quick_timing, server};

const NAMES: [&str; 3] = ["renamed", "beside", "installed"];

fn uuid(object: &Value) -> &str {
    object["status"]["uuid"].as_str().expect("it has a machine")
}

/// Renames a tag of the account, wherever it is.
async fn rename(world: &World, tag: &str, to: &str) {
    let path = format!("/v3/flexMetal/tags/{tag}");
    let renamed = world
        .simulator
        .call("PUT", &path, Some(&json!({"tag": to})))
        .await;
    assert_eq!(renamed.0, 200, "{renamed:?}");
}

/// The operator's own tag of a machine that starts like this.
async fn mark(world: &World, object: &Value, start: &str) -> String {
    let tags = tags(&machine_of(world, object).await);
    let found = tags.into_iter().find(|tag| tag.starts_with(start));
    found.unwrap_or_else(|| panic!("no {start} on {object:#}"))
}

/// Waits until a machine bears all of these.
async fn bears(world: &World, object: &Value, wanted: &[&str]) {
    eventually(&format!("the machine bears {wanted:?}"), SOON, async || {
        let tags = tags(&machine_of(world, object).await);
        let has = |tag: &&str| tags.iter().any(|found| found == tag);
        wanted.iter().all(has).then_some(())
    })
    .await;
}

#[tokio::test]
async fn portal_changes_order_and_release_nothing() {
    let mut timing = quick_timing();
    // Nobody looks for an order, and none is taken for lost, while a busy machine is at the steps of this test.
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
    let order_tag = mark(&world, &objects[0], ORDER_TAG).await;
    let cluster_tag = mark(&world, &objects[0], "fmo-cluster:").await;

    // Without its order tag nothing says whose the machine is: that is told, nothing is put back, and what the tag is called by
    // now is a person's tag.
    rename(&world, &order_tag, "mine").await;
    let words = [uuid(&objects[0]), &order_tag, "Restore the tag"];
    stuck(&world, "renamed", "TagsMissing", &words).await;
    looks(&world, 3).await;
    let mut left = tags(&machine_of(&world, &objects[0]).await);
    left.sort();
    assert_eq!(left, [cluster_tag.as_str(), "mine"]);
    rename(&world, "mine", &order_tag).await;
    world.wait_ready("renamed", SOON).await;
    // The whole account loses the mark of the cluster at once.
    rename(&world, &cluster_tag, "ours").await;
    for object in &objects {
        bears(&world, object, &[&cluster_tag, "ours"]).await;
    }
    // Installed anew in the portal: not ready for that time.
    let anew = json!({"status": "provisioning"});
    world.simulator.alter(uuid(&objects[2]), &anew).await;
    held(&world, "installed", "Provisioning", &[uuid(&objects[2])]).await;
    let done = json!({"status": "delivered"});
    world.simulator.alter(uuid(&objects[2]), &done).await;
    for (name, before) in NAMES.iter().zip(&objects) {
        let now = world.wait_ready(name, SOON).await;
        assert_eq!(now["status"]["uuid"], before["status"]["uuid"], "{name}");
    }
    looks(&world, 3).await;
    assert_eq!(orders(&world).await, NAMES.len() as u64);
    stripped_while_nobody_knows(&world).await;
    let counts = world.simulator.counts().await;
    let releases = counts.get("DELETE /v3/flexMetal/servers/{uuid}");
    assert_eq!(releases, None);
    judge(&world).await;
}

/// The answer to an order is lost, and before anybody has looked its marks are taken off: the machine looks like
/// one of its name, and no other is ordered beside it.
async fn stripped_while_nobody_knows(world: &World) {
    let before = orders(world).await;
    let lost = json!([{"delay": {"ms": 4000, "before": false}}, "dropAfter"]);
    let lost = Fault::new(lost).on("POST", SERVERS).times(1);
    world.simulator.fault(lost).await;
    world.create(&server("stripped")).await;
    let machine = eventually("the order has arrived", SOON, async || {
        let machines = world.simulator.list_live_servers().await;
        let mut machines = machines.into_iter();
        machines.find(|machine| machine["name"] == "stripped")
    })
    .await;
    let uuid = machine["uuid"].as_str().unwrap();
    world.simulator.alter(uuid, &json!({"tags": []})).await;
    // First it is looked for by its tag, then the machine of that name is in the way.
    let marks = tags(&machine);
    let order = marks.iter().find(|tag| tag.starts_with(ORDER_TAG));
    let words = ["The answer to the order was lost", order.unwrap()];
    held_for(world, "stripped", "OutcomeUnknown", &words).await;
    let words = [
        uuid,
        "has this host name",
        "set flexmetal.dev/acknowledge to ",
    ];
    held_for(world, "stripped", "OutcomeUnknown", &words).await;
    stuck(world, "stripped", "OutcomeUnknown", &words).await;
    looks(world, 3).await;
    assert_eq!(orders(world).await, before + 1);
    let back = json!({"tags": machine["tags"]});
    world.simulator.alter(uuid, &back).await;
    let ready = world.wait_ready("stripped", SOON).await;
    assert_eq!(ready["status"]["uuid"], *uuid);
    told(world, "FoundByTag").await;
    assert_eq!(orders(world).await, before + 1);
}
