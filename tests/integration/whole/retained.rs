//! Servers that are deleted and applied again while their machines are kept: each object takes its own machine back, and no
//! second one is ordered.

use serde_json::{Value, json};

use super::{
    RETAINED_TAG, SOON, apply, blocked, judge, looks, machine, machine_becomes, owner_of, tags,
    text, with,
};
use lab::rig::{World, cluster, eventually, server};

fn uuid(object: &Value) -> String {
    text(&object["status"]["uuid"])
}

/// Requests that change something at the provider, by the simulator's count: orders, releases.
async fn changes(world: &World) -> (u64, u64) {
    let counts = world.simulator.counts().await;
    let of = |call: &str| counts.get(call).copied().unwrap_or(0);
    let releases = of("DELETE /v3/flexMetal/servers/{uuid}");
    (of("POST /v3/flexMetal/servers"), releases)
}

/// The operator's own tags of a machine, sorted.
async fn marks(world: &World, uuid: &str) -> Vec<String> {
    let mut marks = tags(&machine(world, uuid).await);
    marks.retain(|tag| tag.starts_with("fmo-"));
    marks.sort();
    marks
}

/// Deletes a server whose machine is kept. Returns the machine.
async fn left_behind(world: &World, name: &str) -> String {
    let ready = world.wait_ready(name, SOON).await;
    let kept = uuid(&ready);
    // The annotation of a former version decides nothing.
    let stray = json!({"flexmetal.dev/release-begun": kept});
    let keep = json!({"metadata": {"annotations": stray}, "spec": {"deletionPolicy": "Retain"}});
    world.merge(name, &keep).await;
    let before = marks(world, &kept).await;
    world.delete(name).await;
    world.wait_gone(name, SOON).await;
    let mut after = marks(world, &kept).await;
    after.retain(|tag| tag != RETAINED_TAG);
    assert_eq!(after, before, "the order tag says whose it was");
    assert!(super::is_retained(&machine(world, &kept).await));
    kept
}

/// Waits until the object has this machine, and the machine the tags of the object and no other.
async fn takes_back(world: &World, name: &str, kept: &str) -> Value {
    let object = world.wait_ready(name, SOON).await;
    assert_eq!(uuid(&object), kept);
    let record = &object["status"]["records"]["order"];
    assert_eq!(record["uid"], object["metadata"]["uid"], "{object:#}");
    assert_eq!(
        (&record["outcome"], &record["server"]),
        (&json!("Created"), &json!(kept)),
        "{object:#}"
    );
    let owner = owner_of(&world.client, &world.cluster_id, &world.namespace, name).await;
    let order = format!("{}{owner}", super::ORDER_TAG);
    eventually("only the tags of the object are left", SOON, async || {
        let marks = marks(world, kept).await;
        let is_its = marks.len() == 2
            && marks[0] == format!("fmo-cluster:{}", world.cluster_id)
            && marks[1].starts_with(&order);
        is_its.then_some(())
    })
    .await;
    object
}

/// As Argo CD's self-heal does it.
#[tokio::test]
async fn reapplied_object_reuses_retained_server() {
    let mut world = World::start(cluster(), "back").await;
    world.create(&server("web")).await;
    let first = left_behind(&world, "web").await;
    // A neighbour is not concerned: it orders a machine of its own.
    world.create(&server("db")).await;
    let neighbour = world.wait_ready("db", SOON).await;
    assert_ne!(uuid(&neighbour), first);
    assert_eq!(changes(&world).await, (2, 0));

    world.create(&server("web")).await;
    takes_back(&world, "web", &first).await;
    looks(&world, 3).await;
    assert_eq!(changes(&world).await, (2, 0));

    // Another process knows no more than what the machine bears.
    left_behind(&world, "web").await;
    world.operator().kill9();
    world.create(&server("web")).await;
    world.operator().restart();
    takes_back(&world, "web", &first).await;
    looks(&world, 3).await;
    assert_eq!(changes(&world).await, (2, 0));

    // It is a machine like any other from here on: once it is released the next object orders another one.
    world.delete("web").await;
    world.wait_gone("web", SOON).await;
    machine_becomes(&world, &first, "released").await;
    world.create(&server("web")).await;
    let second = world.wait_ready("web", SOON).await;
    assert_ne!(uuid(&second), first);
    assert_eq!(changes(&world).await, (3, 1));
    // So it does where somebody releases the machine that was kept.
    let second = left_behind(&world, "web").await;
    let released = json!({"status": "releasing"});
    world.simulator.alter(&second, &released).await;
    world.create(&server("web")).await;
    let third = world.wait_ready("web", SOON).await;
    assert_ne!(uuid(&third), second);
    assert_eq!(changes(&world).await, (4, 1));
    assert_eq!(uuid(&world.get("db").await.unwrap()), uuid(&neighbour));
    judge(&world).await;
}

/// The recipe of `docs/gitops.md`.
#[tokio::test]
async fn blocked_deletion_keeps_the_same_server() {
    let world = World::start(cluster(), "takeback").await;
    let manifest = with("web", &json!({"deletionProtection": true}));
    world.create(&manifest).await;
    let before = world.wait_ready("web", SOON).await;
    let kept = uuid(&before);
    world.delete("web").await;
    let words = [&*kept, "stays and is billed", "takes it back"];
    blocked(&world, "web", "Protected", &words).await;
    world
        .merge("web", &json!({"spec": {"deletionPolicy": "Retain"}}))
        .await;
    world.wait_gone("web", SOON).await;
    assert!(super::is_retained(&machine(&world, &kept).await));

    // The plain manifest, as it is in Git.
    apply(&world.client, Some(&world.namespace), &manifest).await;
    let after = takes_back(&world, "web", &kept).await;
    assert_ne!(after["metadata"]["uid"], before["metadata"]["uid"]);
    assert_eq!(after["status"]["policies"]["deletionProtection"], true);
    looks(&world, 3).await;
    assert_eq!(changes(&world).await, (1, 0));

    // It is protected as before, and released as any other once it is not.
    world.delete("web").await;
    blocked(&world, "web", "Protected", &words).await;
    looks(&world, 3).await;
    assert_eq!(changes(&world).await, (1, 0));
    world
        .merge("web", &json!({"spec": {"deletionProtection": false}}))
        .await;
    world.wait_gone("web", SOON).await;
    machine_becomes(&world, &kept, "released").await;
    assert_eq!(changes(&world).await, (1, 1));
    judge(&world).await;
}
