//! Manifests with an order annotation: copied, applied again, restored, carried over.

use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::{
    ACKNOWLEDGE, ORDER_ANNOTATION, SOON, acknowledging, cluster_wide::Host, is_acknowledged, judge,
    looks, machine, machine_of, orders, pending, stuck, suspended, tags, with,
};
use lab::rig::{World, server};

/// `kubectl get -o yaml` of a server, without the resource version, which a new object must not have.
async fn manifest(host: &Host, world: &World, name: &str) -> String {
    let get = ["get", "bms", name, "-n", &world.namespace, "-o", "yaml"];
    let whole = host.cluster.kubectl_ok(&get).await;
    assert!(whole.contains(ORDER_ANNOTATION), "{whole}");
    assert!(whole.contains("\n  resourceVersion:"), "{whole}");
    let kept = whole
        .lines()
        .filter(|line| !line.starts_with("  resourceVersion:"));
    kept.map(|line| format!("{line}\n")).collect()
}

/// `kubectl apply` of a manifest.
async fn apply(host: &Host, manifest: &str) {
    let applied = host
        .cluster
        .kubectl_with_input(&["apply", "-f", "-"], manifest)
        .await;
    assert!(applied.status.success(), "{applied:?} of {manifest}");
}

fn uuid(object: &Value) -> &str {
    object["status"]["uuid"].as_str().expect("it has a machine")
}

/// The order tags of a machine.
fn marks(machine: &Value) -> Vec<String> {
    let mut tags = tags(machine);
    tags.retain(|tag| tag.starts_with(super::ORDER_TAG));
    tags
}

/// The only live machine of the world.
async fn only_live(world: &World) -> Value {
    let mut live = world.simulator.live_machines().await;
    assert_eq!(live.len(), 1, "{live:#?}");
    live.remove(0)
}

/// Copied under another name, annotation, finalizer and all: a machine of its own.
pub(super) async fn copied(host: &Host) -> World {
    let world = host.guest("copied").await;
    world.create(&server("one")).await;
    let one = world.wait_ready("one", SOON).await;
    let first = machine_of(&world, &one).await;
    let yaml = manifest(host, &world, "one").await;
    apply(host, &yaml.replace("\n  name: one\n", "\n  name: two\n")).await;
    let two = world.wait_ready("two", SOON).await;
    assert_ne!(uuid(&two), uuid(&one));
    assert_eq!(orders(&world).await, 2);

    let now = world.get("one").await.unwrap();
    assert_eq!(
        now["metadata"]["annotations"],
        one["metadata"]["annotations"]
    );
    assert_eq!(now["status"], one["status"]);
    assert_eq!(tags(&machine(&world, uuid(&one)).await), tags(&first));
    // A copy that waits for its order has nothing to give back, although it bears the finalizer.
    let three = yaml.replace("\n  name: one\n", "\n  name: three\n");
    apply(
        host,
        &three.replace("\nspec:\n", "\nspec:\n  suspend: true\n"),
    )
    .await;
    suspended(&world, "three", &[]).await;
    world.delete("three").await;
    world.wait_gone("three", SOON).await;
    assert_eq!(world.simulator.live_machines().await.len(), 2);
    // The other goes with its own machine.
    world.delete("two").await;
    world.wait_gone("two", SOON).await;
    assert_eq!(only_live(&world).await["uuid"], uuid(&one));
    judge(&world).await;
    world
}

/// Deleted, its machine released, and applied again from its old manifest: a new machine.
pub(super) async fn applied_again(host: &Host) -> World {
    let world = host.guest("again").await;
    world.create(&server("one")).await;
    let before = world.wait_ready("one", SOON).await;
    let yaml = manifest(host, &world, "one").await;
    world.delete("one").await;
    world.wait_gone("one", SOON).await;
    apply(host, &yaml).await;
    let after = world.wait_ready("one", SOON).await;
    assert_ne!(uuid(&after), uuid(&before));
    assert_eq!(machine(&world, uuid(&before)).await["status"], "released");
    assert_eq!(only_live(&world).await["uuid"], uuid(&after));
    assert_eq!(orders(&world).await, 2);
    world.delete("one").await;
    world.wait_gone("one", SOON).await;
    assert!(world.simulator.live_machines().await.is_empty());
    judge(&world).await;
    world
}

/// Deleted with Retain, and applied again: the same machine, with the new object's mark only.
pub(super) async fn applied_again_after_retain(host: &Host) -> World {
    let world = host.guest("retained").await;
    world
        .create(&with("one", &json!({"deletionPolicy": "Retain"})))
        .await;
    let before = world.wait_ready("one", SOON).await;
    let old = marks(&machine_of(&world, &before).await);
    let yaml = manifest(host, &world, "one").await;
    world.delete("one").await;
    world.wait_gone("one", SOON).await;
    let left = machine(&world, uuid(&before)).await;
    assert!(super::is_retained(&left), "{left}");

    apply(host, &yaml).await;
    let after = world.wait_ready("one", SOON).await;
    is_taken_over(&world, &before, &after, &old).await;
    // It is an object like any other from here on: its machine can be released.
    world
        .merge("one", &json!({"spec": {"deletionPolicy": "Release"}}))
        .await;
    world.delete("one").await;
    world.wait_gone("one", SOON).await;
    assert_eq!(machine(&world, uuid(&before)).await["status"], "released");
    judge(&world).await;
    world
}

/// The object is there again with its annotation and no status, and its machine lives.
pub(super) async fn restored(host: &Host) -> World {
    let world = host.guest("restored").await;
    world.create(&server("one")).await;
    let before = world.wait_ready("one", SOON).await;
    let old = marks(&machine_of(&world, &before).await);
    let yaml = manifest(host, &world, "one").await;
    // Lost with its cluster, as far as the machine can tell: held by suspend, its finalizer removed by hand.
    world
        .merge("one", &json!({"spec": {"suspend": true}}))
        .await;
    world.delete("one").await;
    let freed = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    let freed = world
        .servers()
        .patch("one", &PatchParams::default(), &freed)
        .await;
    freed.expect("a finalizer can be removed by hand");
    world.wait_gone("one", SOON).await;
    assert_eq!(only_live(&world).await["uuid"], uuid(&before));

    apply(host, &yaml).await;
    let after = world.wait_ready("one", SOON).await;
    is_taken_over(&world, &before, &after, &old).await;
    judge(&world).await;
    world
}

/// The new object of this name has the old one's machine, and the machine its mark and no other.
async fn is_taken_over(world: &World, before: &Value, after: &Value, old: &[String]) {
    assert_ne!(after["metadata"]["uid"], before["metadata"]["uid"]);
    assert_eq!(uuid(after), uuid(before));
    let settled = lab::rig::eventually("the machine has the new mark only", SOON, async || {
        let machine = machine(world, uuid(before)).await;
        let is_free = !super::is_retained(&machine);
        (is_free && marks(&machine).len() == 1 && marks(&machine) != old).then_some(machine)
    })
    .await;
    let mark = after["status"]["records"]["order"]["mark"]
        .as_str()
        .expect("it has an order");
    assert!(
        marks(&settled)[0].starts_with(&format!("{}{mark}", super::ORDER_TAG)),
        "{settled}"
    );
    assert_eq!(settled["status"], "delivered");
    assert_eq!(orders(world).await, 1);
    // The annotation names the new object by now, so that nothing is taken over twice.
    let uid = after["metadata"]["uid"].as_str().unwrap().to_owned();
    let rewritten = |now: &Value| {
        let annotation = now["metadata"]["annotations"][ORDER_ANNOTATION].as_str()?;
        annotation.contains(&uid).then_some(())
    };
    world
        .wait_for("one", "annotated again", SOON, rewritten)
        .await;
}

/// Carried over from another cluster: a person says what is meant.
pub(super) async fn of_another_cluster(host: &Host) -> World {
    let world = host.guest("foreign").await;
    let intent = json!({
        "cluster": "00000000deadbeef", "uid": "9c6c0a5e-1111-4222-8333-444444444444",
        "mark": "0123456789abcdef01234567", "epoch": 1_700_000_000,
        "attempt": "abc", "sendBy": "2023-11-14T22:13:50Z",
    });
    let mut object = server("one");
    object["metadata"]["annotations"] = json!({(ORDER_ANNOTATION): intent.to_string()});
    world.create(&object).await;
    let is_asked = |object: &Value| pending(object, "AssumeAbsent");
    let token = world.wait_for("one", "asked", SOON, is_asked).await;
    let remedy = format!("set {ACKNOWLEDGE} to {token}");
    let words = ["00000000deadbeef", &remedy];
    stuck(&world, "one", "OwnershipConflict", &words).await;
    looks(&world, 2).await;
    assert_eq!(orders(&world).await, 0);
    world.merge("one", &acknowledging(&token)).await;
    let object = world.wait_ready("one", SOON).await;
    assert!(is_acknowledged(&object, &token), "used up: {object}");
    let annotations = &object["metadata"]["annotations"];
    assert_eq!(annotations[ACKNOWLEDGE], json!(token), "it is the user's");
    assert_eq!(orders(&world).await, 1);
    judge(&world).await;
    world
}
