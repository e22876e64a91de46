//! Objects that are deleted and applied again while their servers are retained: each object adopts its own server,
//! and no second one is ordered.

use serde_json::{Value, json};

use super::{
    RETAINED_TAG, SOON, apply, build_server, check_invariants, get_owner, get_server, list_tags,
    text, wait_deletion_blocked, wait_for_polls, wait_server_status,
};
use lab::rig::{World, cluster, eventually, server};

fn uuid(object: &Value) -> String {
    text(&object["status"]["uuid"])
}

/// The numbers of orders and releases that reached the provider.
async fn count_changes(world: &World) -> (u64, u64) {
    let counts = world.simulator.counts().await;
    let of = |call: &str| counts.get(call).copied().unwrap_or(0);
    let releases = of("DELETE /v3/flexMetal/servers/{uuid}");
    (of("POST /v3/flexMetal/servers"), releases)
}

/// The operator's own tags of a server, sorted.
async fn list_own_tags(world: &World, uuid: &str) -> Vec<String> {
    let mut own_tags = list_tags(&get_server(world, uuid).await);
    own_tags.retain(|tag| tag.starts_with("fmo-"));
    own_tags.sort();
    own_tags
}

/// Deletes an object whose server is retained. Returns the server's UUID.
async fn retain_server(world: &World, name: &str) -> String {
    let ready = world.wait_ready(name, SOON).await;
    let kept = uuid(&ready);
    // The annotation of an old version has no effect.
    let stray = json!({"flexmetal.dev/release-begun": kept});
    let keep = json!({"metadata": {"annotations": stray}, "spec": {"deletionPolicy": "Retain"}});
    world.merge(name, &keep).await;
    let before = list_own_tags(world, &kept).await;
    world.delete(name).await;
    world.wait_gone(name, SOON).await;
    let mut after = list_own_tags(world, &kept).await;
    after.retain(|tag| tag != RETAINED_TAG);
    assert_eq!(after, before, "the order tag says whose it was");
    assert!(super::is_retained(&get_server(world, &kept).await));
    kept
}

/// Waits until the object has this server, and the server only the object's ownership tags.
async fn wait_until_taken_back(world: &World, name: &str, kept: &str) -> Value {
    let object = world.wait_ready(name, SOON).await;
    assert_eq!(uuid(&object), kept);
    let record = &object["status"]["records"]["order"];
    assert_eq!(record["uid"], object["metadata"]["uid"], "{object:#}");
    assert_eq!(
        (&record["outcome"], &record["server"]),
        (&json!("Created"), &json!(kept)),
        "{object:#}"
    );
    let owner = get_owner(&world.client, &world.cluster_id, &world.namespace, name).await;
    let order = format!("{}{owner}", super::ORDER_TAG);
    eventually("only the tags of the object are left", SOON, async || {
        let own_tags = list_own_tags(world, kept).await;
        let is_its = own_tags.len() == 2
            && own_tags[0] == format!("fmo-cluster:{}", world.cluster_id)
            && own_tags[1].starts_with(&order);
        is_its.then_some(())
    })
    .await;
    object
}

/// As Argo CD's self-heal does.
#[tokio::test]
async fn reapplied_object_reuses_retained_server() {
    let mut world = World::start(cluster(), "back").await;
    world.create(&server("web")).await;
    let first = retain_server(&world, "web").await;
    // Another object is not affected: it orders its own server.
    world.create(&server("db")).await;
    let neighbour = world.wait_ready("db", SOON).await;
    assert_ne!(uuid(&neighbour), first);
    assert_eq!(count_changes(&world).await, (2, 0));

    world.create(&server("web")).await;
    wait_until_taken_back(&world, "web", &first).await;
    wait_for_polls(&world, 3).await;
    assert_eq!(count_changes(&world).await, (2, 0));

    // A restarted operator knows only the server's tags.
    retain_server(&world, "web").await;
    world.operator().kill9();
    world.create(&server("web")).await;
    world.operator().restart();
    wait_until_taken_back(&world, "web", &first).await;
    wait_for_polls(&world, 3).await;
    assert_eq!(count_changes(&world).await, (2, 0));

    // It is an ordinary server now: after its release, the next object orders another one.
    world.delete("web").await;
    world.wait_gone("web", SOON).await;
    wait_server_status(&world, &first, "released").await;
    world.create(&server("web")).await;
    let second = world.wait_ready("web", SOON).await;
    assert_ne!(uuid(&second), first);
    assert_eq!(count_changes(&world).await, (3, 1));
    // The same if someone releases the retained server.
    let second = retain_server(&world, "web").await;
    let released = json!({"status": "releasing"});
    world.simulator.alter(&second, &released).await;
    world.create(&server("web")).await;
    let third = world.wait_ready("web", SOON).await;
    assert_ne!(uuid(&third), second);
    assert_eq!(count_changes(&world).await, (4, 1));
    assert_eq!(uuid(&world.get("db").await.unwrap()), uuid(&neighbour));
    check_invariants(&world).await;
}

/// The recipe of `docs/gitops.md`.
#[tokio::test]
async fn blocked_deletion_keeps_the_same_server() {
    let world = World::start(cluster(), "takeback").await;
    let manifest = build_server("web", &json!({"deletionProtection": true}));
    world.create(&manifest).await;
    let before = world.wait_ready("web", SOON).await;
    let kept = uuid(&before);
    world.delete("web").await;
    let words = [&*kept, "stays and is billed", "takes it back"];
    wait_deletion_blocked(&world, "web", "Protected", &words).await;
    world
        .merge("web", &json!({"spec": {"deletionPolicy": "Retain"}}))
        .await;
    world.wait_gone("web", SOON).await;
    assert!(super::is_retained(&get_server(&world, &kept).await));

    // The plain manifest, as it is in Git.
    apply(&world.client, Some(&world.namespace), &manifest).await;
    let after = wait_until_taken_back(&world, "web", &kept).await;
    assert_ne!(after["metadata"]["uid"], before["metadata"]["uid"]);
    assert_eq!(after["status"]["policies"]["deletionProtection"], true);
    wait_for_polls(&world, 3).await;
    assert_eq!(count_changes(&world).await, (1, 0));

    // It is protected as before, and released like any other after the protection ends.
    world.delete("web").await;
    wait_deletion_blocked(&world, "web", "Protected", &words).await;
    wait_for_polls(&world, 3).await;
    assert_eq!(count_changes(&world).await, (1, 0));
    world
        .merge("web", &json!({"spec": {"deletionProtection": false}}))
        .await;
    world.wait_gone("web", SOON).await;
    wait_server_status(&world, &kept, "released").await;
    assert_eq!(count_changes(&world).await, (1, 1));
    check_invariants(&world).await;
}
