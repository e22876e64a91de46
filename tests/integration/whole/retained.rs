//! Servers that are deleted and applied again while their machines are kept: no second machine, unless somebody says so.

use serde_json::{Value, json};

use super::{
    ACKNOWLEDGE, ORDER_ANNOTATION, SOON, acknowledging, apply, blocked, is_acknowledged, judge,
    looks, machine, machine_becomes, orders, pending, stuck, text, with, with_other_account,
};
use lab::rig::{World, cluster, condition, eventually, server};

/// What a person saves before a deletion is taken back: `docs/gitops.md`. Without what the API server sets.
fn saved(object: &Value) -> Value {
    let mut saved = object.clone();
    let note = &object["metadata"]["annotations"][ORDER_ANNOTATION];
    assert!(note.is_string(), "{object:#}");
    saved["metadata"] = json!({
        "name": object["metadata"]["name"], "annotations": {(ORDER_ANNOTATION): note},
    });
    saved.as_object_mut().unwrap().remove("status");
    saved
}

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

/// Deletes a server whose machine is kept. Returns the machine.
async fn left_behind(world: &World, name: &str) -> String {
    let ready = world.wait_ready(name, SOON).await;
    let kept = uuid(&ready);
    // The annotation of a former version decides nothing.
    let stray = json!({"flexmetal.dev/release-begun": kept});
    let keep = json!({"metadata": {"annotations": stray}, "spec": {"deletionPolicy": "Retain"}});
    world.merge(name, &keep).await;
    world.delete(name).await;
    world.wait_gone(name, SOON).await;
    assert!(super::is_retained(&machine(world, &kept).await));
    kept
}

/// The token by which another machine is ordered.
async fn token(world: &World, name: &str) -> String {
    let is_asked = |object: &Value| pending(object, "OrderAnother");
    world.wait_for(name, "asked", SOON, is_asked).await
}

/// As Argo CD's self-heal does it.
#[tokio::test]
async fn a_manifest_that_is_applied_again_orders_nothing_beside_the_machine_that_was_kept() {
    let mut world = World::start(cluster(), "beside").await;
    world.create(&server("web")).await;
    let first = left_behind(&world, "web").await;
    world.create(&server("web")).await;
    let asked = token(&world, "web").await;
    let remedy = format!("set {ACKNOWLEDGE} to {asked}");
    let back = format!("set spec.externalID to {first}");
    let words = ["still billed", &first, &remedy, &back];
    stuck(&world, "web", "ServerExists", &words).await;
    looks(&world, 5).await;
    // Another process knows no more than what the machines bear, and the token stays.
    world.operator().restart();
    looks(&world, 5).await;
    stuck(&world, "web", "ServerExists", &words).await;
    assert_eq!(changes(&world).await, (1, 0));
    // Neither a neighbour nor another word is concerned.
    world.create(&server("db")).await;
    world.wait_ready("db", SOON).await;
    world.merge("web", &acknowledging(&first)).await;
    looks(&world, 3).await;
    stuck(&world, "web", "ServerExists", &words).await;
    assert_eq!(changes(&world).await, (2, 0));

    world.merge("web", &acknowledging(&asked)).await;
    let second = world.wait_ready("web", SOON).await;
    assert_ne!(uuid(&second), first);
    let used = |object: &Value| is_acknowledged(object, &asked).then(|| object.clone());
    let used = world.wait_for("web", "the token used", SOON, used).await;
    let annotations = &used["metadata"]["annotations"];
    assert_eq!(annotations[ACKNOWLEDGE], json!(asked), "it is the user's");
    looks(&world, 3).await;
    assert_eq!(changes(&world).await, (3, 0));

    // The token may stand in the manifest: it says nothing of another object, nor once another machine is kept.
    let second = left_behind(&world, "web").await;
    let mut third = server("web");
    third["metadata"]["annotations"] = json!({(ACKNOWLEDGE): asked});
    world.create(&third).await;
    stuck(&world, "web", "ServerExists", &[&first, &second]).await;
    assert_ne!(token(&world, "web").await, asked);
    looks(&world, 3).await;
    assert_eq!(changes(&world).await, (3, 0));
    // One is released at the provider, of the other somebody takes the tag: nothing is in the way any more.
    world
        .simulator
        .alter(&second, &json!({"status": "releasing"}))
        .await;
    let tags = machine(&world, &first).await["tags"].clone();
    let mut tags: Vec<String> = serde_json::from_value(tags).unwrap();
    tags.retain(|tag| !tag.starts_with("fmo-retained"));
    world.simulator.alter(&first, &json!({"tags": tags})).await;
    world.wait_ready("web", SOON).await;
    assert_eq!(changes(&world).await, (4, 0));
    judge(&world).await;
}

/// The recipe of `docs/gitops.md`.
#[tokio::test]
async fn a_deletion_that_is_held_is_taken_back_with_the_same_machine() {
    let world = World::start(cluster(), "takeback").await;
    world
        .create(&with("web", &json!({"deletionProtection": true})))
        .await;
    let before = world.wait_ready("web", SOON).await;
    let kept = uuid(&before);
    world.delete("web").await;
    let words = [&*kept, "still billed", "ServerExists", "spec.externalID"];
    blocked(&world, "web", "Protected", &words).await;
    let manifest = saved(&world.get("web").await.unwrap());
    world
        .merge("web", &json!({"spec": {"deletionPolicy": "Retain"}}))
        .await;
    world.wait_gone("web", SOON).await;
    assert!(super::is_retained(&machine(&world, &kept).await));

    apply(&world.client, Some(&world.namespace), &manifest).await;
    let after = world.wait_ready("web", SOON).await;
    assert_eq!(uuid(&after), kept);
    assert_ne!(after["metadata"]["uid"], before["metadata"]["uid"]);
    assert_eq!(after["status"]["policies"]["deletionProtection"], true);
    // The machine bears the tags of the new object, and not that it is kept of an earlier one.
    eventually("the machine is that of the new object", SOON, async || {
        let bears = super::tags(&machine(&world, &kept).await);
        let mark = text(&world.get("web").await?["status"]["records"]["order"]["mark"]);
        let order = format!("{}{mark}", super::ORDER_TAG);
        let of_orders = |tag: &&String| tag.starts_with(super::ORDER_TAG);
        let is_new = bears
            .iter()
            .filter(of_orders)
            .all(|tag| tag.starts_with(&order));
        let is_kept = bears.iter().any(|tag| tag.starts_with("fmo-retained"));
        (is_new && !is_kept).then_some(())
    })
    .await;
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

/// Whoever applied the plain manifest first adds the annotation later.
#[tokio::test]
async fn an_object_that_was_applied_plain_takes_its_machine_back_by_the_saved_annotation() {
    let world = World::start(cluster(), "later").await;
    world.create(&server("web")).await;
    let manifest = saved(&world.wait_ready("web", SOON).await);
    let kept = left_behind(&world, "web").await;
    world.create(&server("web")).await;
    stuck(&world, "web", "ServerExists", &[&kept]).await;
    let note = manifest["metadata"]["annotations"].clone();
    world
        .merge("web", &json!({"metadata": {"annotations": note}}))
        .await;
    let after = world.wait_ready("web", SOON).await;
    assert_eq!(uuid(&after), kept);
    assert_eq!(changes(&world).await, (1, 0));
    world.delete("web").await;
    world.wait_gone("web", SOON).await;
    machine_becomes(&world, &kept, "released").await;
    assert_eq!(changes(&world).await, (1, 1));
    judge(&world).await;
}

/// The object names another account when it is applied again, and that of the machine cannot be asked by then.
#[tokio::test]
async fn a_machine_that_another_account_of_the_namespace_keeps_counts_as_well() {
    let (mut world, other) = with_other_account("elsewhere").await;
    let key = world.simulator.api_key().to_owned();
    world.write_secret("other-key", &key).await;
    world
        .write_account_as("other", "other-key", other.api(), &lab::rig::quick_timing())
        .await;
    super::account_says(&world, "other", "Ready", "True", "Available").await;
    world.create(&server("web")).await;
    let kept = left_behind(&world, "web").await;
    let there = with("web", &json!({"accountRef": {"name": "other"}}));
    world.create(&there).await;
    stuck(&world, "web", "ServerExists", &[&kept]).await;
    looks(&world, 3).await;

    world.delete("web").await;
    world.wait_gone("web", SOON).await;
    world.write_secret("account-key", "").await;
    super::account_says(
        &world,
        "default",
        "CandidateAccepted",
        "False",
        "InvalidKey",
    )
    .await;
    world.operator().restart();
    world.create(&there).await;
    eventually("what it waits for is told", SOON, async || {
        let object = world.get("web").await?;
        let ready = condition(&object, "Ready")?;
        let which = "look at the conditions of ProviderAccount";
        let is_told = text(&ready["message"]).contains(which);
        (ready["reason"] == "WaitingForListing" && is_told).then_some(())
    })
    .await;
    world.write_secret("account-key", &key).await;
    stuck(&world, "web", "ServerExists", &[&kept]).await;
    assert_eq!(orders(&world).await, 1);
    let counts = other.counts().await;
    assert_eq!(counts.get("POST /v3/flexMetal/servers"), None);
    judge(&world).await;
}
