//! Answers that the API's documentation allows: UUIDs in another letter case, a record that is listed twice,
//! and a server that no list by the cluster's tag shows.

use serde_json::{Value, json};

use super::{
    ORDER_TAG, SERVERS, SOON, check_invariants, count_orders, get_server_of, list_tags,
    wait_for_polls, wait_not_ready_message, wait_stalled,
};
use lab::rig::{Fault, World, cluster, condition, server};

fn uuid(object: &Value) -> &str {
    object["status"]["uuid"].as_str().expect("it has a server")
}

#[tokio::test]
async fn capital_letters_make_no_second_server() {
    let world = World::start(cluster(), "capitals").await;
    for name in ["stays", "goes"] {
        world.create(&server(name)).await;
    }
    for name in ["stays", "goes"] {
        world.wait_ready(name, SOON).await;
    }
    let shouted = || Fault::new("upperCase").on("GET", "/v3/flexMetal/*");
    world.simulator.fault(shouted()).await;
    wait_for_polls(&world, 4).await;
    let object = world.get("stays").await.unwrap();
    let ready = condition(&object, "Ready").unwrap();
    assert_eq!(ready["status"], "True", "{ready}");
    assert_eq!(object["status"]["duplicateUUIDs"], Value::Null);
    world.delete("goes").await;
    world.wait_gone("goes", SOON).await;
    // The other way round.
    world.simulator.clear_faults().await;
    wait_for_polls(&world, 2).await;
    world.delete("stays").await;
    world.wait_gone("stays", SOON).await;
    assert_eq!(count_orders(&world).await, 2);
    check_invariants(&world).await;
}

#[tokio::test]
async fn record_listed_twice_blocks_no_release() {
    let world = World::start(cluster(), "twice").await;
    world.create(&server("first")).await;
    let first = world.wait_ready("first", SOON).await;
    let twice = Fault::new("repeatedRecord").on("GET", SERVERS);
    world.simulator.fault(twice).await;
    world.create(&server("second")).await;
    let words = [uuid(&first), "twice; ask the provider"];
    wait_not_ready_message(&world, "second", "ProviderUnreachable", &words).await;
    world.delete("first").await;
    world.wait_gone("first", SOON).await;
    assert_eq!(count_orders(&world).await, 1);
    world.simulator.clear_faults().await;
    world.wait_ready("second", SOON).await;
    check_invariants(&world).await;
}

#[tokio::test]
async fn a_server_that_no_list_shows_is_read() {
    let world = World::start(cluster(), "unlisted").await;
    for name in ["bare", "suspended"] {
        world.create(&server(name)).await;
    }
    let bare = world.wait_ready("bare", SOON).await;
    let suspended = world.wait_ready("suspended", SOON).await;
    let stop = json!({"spec": {"suspend": true}});
    world.merge("suspended", &stop).await;
    let order = list_tags(&get_server_of(&world, &suspended).await);
    let order = order.into_iter().find(|tag| tag.starts_with(ORDER_TAG));
    let alter = async |object: &Value, change: Value| {
        world.simulator.alter(uuid(object), &change).await;
    };
    alter(&suspended, json!({"tags": [order.unwrap()]})).await;
    alter(&bare, json!({"tags": []})).await;
    wait_stalled(&world, "bare", "TagsMissing", &[uuid(&bare)]).await;
    wait_for_polls(&world, 2).await;
    for object in [&bare, &suspended] {
        alter(object, json!({"status": "releasing"})).await;
    }
    for name in ["bare", "suspended"] {
        let released = |now: &Value| {
            let is_reported = condition(now, "Ready")?["reason"] == "ReleasedExternally";
            (is_reported && now["status"]["providerStatus"] == "released").then_some(())
        };
        world.wait_for(name, "released", SOON, released).await;
    }
    world.delete("bare").await;
    world.wait_gone("bare", SOON).await;
    assert_eq!(count_orders(&world).await, 2);
    check_invariants(&world).await;
}
