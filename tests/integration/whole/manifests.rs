//! Manifests as `kubectl get -o yaml` prints them, status and all: copied, applied again, restored.

use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::{
    SOON, cluster_wide::Host, judge, looks, machine, machine_of, orders, suspended, tags, with,
};
use lab::rig::{World, server};

/// `kubectl get -o yaml` of a server, without the resource version, which a new object must not have.
async fn manifest(host: &Host, world: &World, name: &str) -> String {
    let get = ["get", "bms", name, "-n", &world.namespace, "-o", "yaml"];
    let whole = host.cluster.kubectl_ok(&get).await;
    for part in ["\nstatus:", "  finalizers:\n", "      nonce: "] {
        assert!(whole.contains(part), "no {part:?} in {whole}");
    }
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
    let mut live = world.simulator.list_live_servers().await;
    assert_eq!(live.len(), 1, "{live:#?}");
    live.remove(0)
}

/// The object is as it was, and so are its machine's tags.
async fn is_untouched(world: &World, object: &Value, machine: &Value) {
    let name = object["metadata"]["name"].as_str().expect("a name");
    let now = world.get(name).await.expect("it is there");
    for part in ["annotations", "finalizers", "uid"] {
        assert_eq!(now["metadata"][part], object["metadata"][part], "{part}");
    }
    assert_eq!(now["status"], object["status"]);
    assert_eq!(
        tags(&super::machine(world, uuid(object)).await),
        tags(machine)
    );
}

/// Copied under another name, finalizer, status and all: a machine of its own.
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
    is_untouched(&world, &one, &first).await;

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
    assert_eq!(world.simulator.list_live_servers().await.len(), 2);
    // The other goes with its own machine.
    world.delete("two").await;
    world.wait_gone("two", SOON).await;
    assert_eq!(only_live(&world).await["uuid"], uuid(&one));
    judge(&world).await;
    world
}

/// Copied into another namespace with the finalizer, and with an account object of its own that knows of no server: whether an
/// order is under way nothing tells, so it asks. Then it has a machine of its own as well.
pub(super) async fn copied_elsewhere(host: &Host) -> World {
    let world = host.guest("source").await;
    world.create(&server("one")).await;
    let one = world.wait_ready("one", SOON).await;
    let first = machine_of(&world, &one).await;
    let yaml = manifest(host, &world, "one").await;

    let elsewhere = host.cluster.namespace("target").await;
    let key = super::secret("account-key", "apiKey", world.simulator.api_key());
    super::apply(&world.client, Some(&elsewhere), &key).await;
    let account = json!({
        "apiVersion": "flexmetal.dev/v1alpha1", "kind": "ProviderAccount", "metadata": {"name": "default"},
        "spec": {
            "baseURL": world.simulator.api(), "apiKeySecretRef": {"name": "account-key"},
            "timing": lab::rig::quick_timing(),
        },
    });
    super::apply(&world.client, Some(&elsewhere), &account).await;
    let (from, to) = (&world.namespace, &elsewhere);
    let namespace = |name: &str| format!("\n  namespace: {name}\n");
    apply(host, &yaml.replace(&namespace(from), &namespace(to))).await;
    let things = world.things_in(&elsewhere, "BareMetalServer");
    let asks = |object: &Value| super::pending(object, "AssumeAbsent");
    let token = things.wait_for("one", "asks", SOON, asks).await;
    assert_eq!(orders(&world).await, 1);
    things.merge("one", &super::acknowledging(&token)).await;
    let copy = things.wait_ready("one", SOON).await;
    assert_ne!(uuid(&copy), uuid(&one));
    assert_eq!(orders(&world).await, 2);
    is_untouched(&world, &one, &first).await;

    // It goes with its own machine.
    things.delete("one").await;
    things.wait_gone("one", SOON).await;
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
    assert!(world.simulator.list_live_servers().await.is_empty());
    judge(&world).await;
    world
}

/// Deleted with Retain, and applied again: the same machine, which is kept no more.
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
    is_taken_back(&world, &before, &after, &old).await;
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

/// The object is there again with its metadata and no status, and its machine lives.
pub(super) async fn restored(host: &Host) -> World {
    let world = host.guest("restored").await;
    world.create(&server("one")).await;
    let before = world.wait_ready("one", SOON).await;
    let old = marks(&machine_of(&world, &before).await);
    let yaml = manifest(host, &world, "one").await;
    // Lost with its cluster, as far as the machine can tell: held by suspend, its finalizer removed by hand.
    lost(&world, "one").await;
    assert_eq!(only_live(&world).await["uuid"], uuid(&before));

    apply(host, &yaml).await;
    let after = world.wait_ready("one", SOON).await;
    is_taken_back(&world, &before, &after, &old).await;
    judge(&world).await;
    world
}

/// The same, and the status is restored as well: it speaks of an object that is not there any more.
pub(super) async fn restored_with_status(host: &Host) -> World {
    let world = host.guest("velero").await;
    world.create(&server("one")).await;
    let before = world.wait_ready("one", SOON).await;
    let old = marks(&machine_of(&world, &before).await);
    let yaml = manifest(host, &world, "one").await;
    lost(&world, "one").await;
    apply(host, &yaml).await;
    // By whoever restores, at any moment: what the operator wrote meanwhile is gone with it.
    let status = Patch::Merge(json!({"status": before["status"]}));
    let written = world
        .servers()
        .patch_status("one", &PatchParams::default(), &status)
        .await;
    written.expect("the status is restored");
    let is_own = |object: &Value| {
        let record = &object["status"]["records"]["order"];
        let is_own = record["uid"] == object["metadata"]["uid"] && record["outcome"] == "Created";
        is_own.then_some(())
    };
    world.wait_for("one", "recorded anew", SOON, is_own).await;
    let after = world.wait_ready("one", SOON).await;
    is_taken_back(&world, &before, &after, &old).await;
    judge(&world).await;
    world
}

/// The object is gone and its machine is not: it was deleted while suspended, and its finalizer removed by hand.
async fn lost(world: &World, name: &str) {
    world.merge(name, &json!({"spec": {"suspend": true}})).await;
    world.delete(name).await;
    let freed = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    let freed = world
        .servers()
        .patch(name, &PatchParams::default(), &freed)
        .await;
    freed.expect("a finalizer can be removed by hand");
    world.wait_gone(name, SOON).await;
}

/// The new object of this name has the old one's machine on record, and nothing was ordered.
async fn is_taken_back(world: &World, before: &Value, after: &Value, old: &[String]) {
    assert_ne!(after["metadata"]["uid"], before["metadata"]["uid"]);
    assert_eq!(uuid(after), uuid(before));
    let record = &after["status"]["records"]["order"];
    assert_eq!(record["uid"], after["metadata"]["uid"], "{after:#}");
    assert_eq!(record["server"], before["status"]["uuid"], "{after:#}");
    let finalizers = &after["metadata"]["finalizers"];
    assert!(
        finalizers.to_string().contains("flexmetal.dev/server"),
        "{finalizers}"
    );
    // It is the same owner, so the tags are those of before.
    let settled = lab::rig::eventually("the machine is kept no more", SOON, async || {
        let machine = machine(world, uuid(before)).await;
        (!super::is_retained(&machine)).then_some(machine)
    })
    .await;
    assert_eq!(marks(&settled), old, "{settled}");
    assert_eq!(settled["status"], "delivered");
    looks(world, 3).await;
    assert_eq!(orders(world).await, 1);
    let counts = world.simulator.counts().await;
    assert_eq!(counts.get("DELETE /v3/flexMetal/servers/{uuid}"), None);
}
