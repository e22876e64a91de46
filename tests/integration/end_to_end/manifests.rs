//! Manifests from `kubectl get -o yaml`, with status: copied, applied again, restored.

use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::{
    SOON, build_server, check_invariants, cluster_wide::SharedOperator, count_orders, get_server,
    get_server_of, list_tags, wait_for_polls, wait_suspended,
};
use lab::rig::{World, server};

/// `kubectl get -o yaml` of a server, without the resource version, which a new object must not have.
async fn get_manifest(host: &SharedOperator, world: &World, name: &str) -> String {
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
async fn kubectl_apply(host: &SharedOperator, manifest: &str) {
    let applied = host
        .cluster
        .kubectl_with_input(&["apply", "-f", "-"], manifest)
        .await;
    assert!(applied.status.success(), "{applied:?} of {manifest}");
}

fn uuid(object: &Value) -> &str {
    object["status"]["uuid"].as_str().expect("it has a server")
}

/// The order tags of a server.
fn list_order_tags(server: &Value) -> Vec<String> {
    let mut tags = list_tags(server);
    tags.retain(|tag| tag.starts_with(super::ORDER_TAG));
    tags
}

/// The only live server of the world.
async fn get_only_live_server(world: &World) -> Value {
    let mut live = world.simulator.list_live_servers().await;
    assert_eq!(live.len(), 1, "{live:#?}");
    live.remove(0)
}

/// Checks that the object and its server's tags are unchanged.
async fn assert_untouched(world: &World, object: &Value, server: &Value) {
    let name = object["metadata"]["name"].as_str().expect("a name");
    let now = world.get(name).await.expect("it is there");
    for part in ["annotations", "finalizers", "uid"] {
        assert_eq!(now["metadata"][part], object["metadata"][part], "{part}");
    }
    assert_eq!(now["status"], object["status"]);
    assert_eq!(
        list_tags(&super::get_server(world, uuid(object)).await),
        list_tags(server)
    );
}

/// Copied under another name, with finalizer and status: the copy gets its own server.
pub(super) async fn check_copied_manifest(host: &SharedOperator) -> World {
    let world = host.start_guest_world("copied").await;
    world.create(&server("one")).await;
    let one = world.wait_ready("one", SOON).await;
    let first = get_server_of(&world, &one).await;
    let yaml = get_manifest(host, &world, "one").await;
    kubectl_apply(host, &yaml.replace("\n  name: one\n", "\n  name: two\n")).await;
    let two = world.wait_ready("two", SOON).await;
    assert_ne!(uuid(&two), uuid(&one));
    assert_eq!(count_orders(&world).await, 2);
    assert_untouched(&world, &one, &first).await;

    // A copy that waits for its order releases nothing, although it has the finalizer.
    let three = yaml.replace("\n  name: one\n", "\n  name: three\n");
    kubectl_apply(
        host,
        &three.replace("\nspec:\n", "\nspec:\n  suspend: true\n"),
    )
    .await;
    wait_suspended(&world, "three", &[]).await;
    world.delete("three").await;
    world.wait_gone("three", SOON).await;
    assert_eq!(world.simulator.list_live_servers().await.len(), 2);
    // The other copy's deletion releases its own server.
    world.delete("two").await;
    world.wait_gone("two", SOON).await;
    assert_eq!(get_only_live_server(&world).await["uuid"], uuid(&one));
    check_invariants(&world).await;
    world
}

/// Copied with the finalizer into another namespace, whose account knows no server: the object asks whether an order
/// is open. After the acknowledgement it gets its own server.
pub(super) async fn check_copy_in_other_namespace(host: &SharedOperator) -> World {
    let world = host.start_guest_world("source").await;
    world.create(&server("one")).await;
    let one = world.wait_ready("one", SOON).await;
    let first = get_server_of(&world, &one).await;
    let yaml = get_manifest(host, &world, "one").await;

    let elsewhere = host.cluster.namespace("target").await;
    let key = super::build_secret("account-key", "apiKey", world.simulator.api_key());
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
    kubectl_apply(host, &yaml.replace(&namespace(from), &namespace(to))).await;
    let things = world.things_in(&elsewhere, "BareMetalServer");
    let asks = |object: &Value| super::find_pending_token(object, "AssumeAbsent");
    let token = things.wait_for("one", "asks", SOON, asks).await;
    assert_eq!(count_orders(&world).await, 1);
    things
        .merge("one", &super::build_acknowledgement(&token))
        .await;
    let copy = things.wait_ready("one", SOON).await;
    assert_ne!(uuid(&copy), uuid(&one));
    assert_eq!(count_orders(&world).await, 2);
    assert_untouched(&world, &one, &first).await;

    // Its deletion releases its own server.
    things.delete("one").await;
    things.wait_gone("one", SOON).await;
    assert_eq!(get_only_live_server(&world).await["uuid"], uuid(&one));
    check_invariants(&world).await;
    world
}

/// Deleted, its server released, and applied again from its old manifest: it gets a new server.
pub(super) async fn check_reapplied_manifest(host: &SharedOperator) -> World {
    let world = host.start_guest_world("again").await;
    world.create(&server("one")).await;
    let before = world.wait_ready("one", SOON).await;
    let yaml = get_manifest(host, &world, "one").await;
    world.delete("one").await;
    world.wait_gone("one", SOON).await;
    kubectl_apply(host, &yaml).await;
    let after = world.wait_ready("one", SOON).await;
    assert_ne!(uuid(&after), uuid(&before));
    assert_eq!(
        get_server(&world, uuid(&before)).await["status"],
        "released"
    );
    assert_eq!(get_only_live_server(&world).await["uuid"], uuid(&after));
    assert_eq!(count_orders(&world).await, 2);
    world.delete("one").await;
    world.wait_gone("one", SOON).await;
    assert!(world.simulator.list_live_servers().await.is_empty());
    check_invariants(&world).await;
    world
}

/// Deleted with Retain, and applied again: it gets the same server, which is not retained any more.
pub(super) async fn check_reapply_after_retain(host: &SharedOperator) -> World {
    let world = host.start_guest_world("retained").await;
    world
        .create(&build_server("one", &json!({"deletionPolicy": "Retain"})))
        .await;
    let before = world.wait_ready("one", SOON).await;
    let old = list_order_tags(&get_server_of(&world, &before).await);
    let yaml = get_manifest(host, &world, "one").await;
    world.delete("one").await;
    world.wait_gone("one", SOON).await;
    let left = get_server(&world, uuid(&before)).await;
    assert!(super::is_retained(&left), "{left}");

    kubectl_apply(host, &yaml).await;
    let after = world.wait_ready("one", SOON).await;
    assert_taken_back(&world, &before, &after, &old).await;
    // It is an ordinary object now: its server can be released.
    world
        .merge("one", &json!({"spec": {"deletionPolicy": "Release"}}))
        .await;
    world.delete("one").await;
    world.wait_gone("one", SOON).await;
    assert_eq!(
        get_server(&world, uuid(&before)).await["status"],
        "released"
    );
    check_invariants(&world).await;
    world
}

/// The object is restored with its metadata and without status, and its server is live.
pub(super) async fn check_restored_without_status(host: &SharedOperator) -> World {
    let world = host.start_guest_world("restored").await;
    world.create(&server("one")).await;
    let before = world.wait_ready("one", SOON).await;
    let old = list_order_tags(&get_server_of(&world, &before).await);
    let yaml = get_manifest(host, &world, "one").await;
    // Simulates a lost cluster: the object is suspended, and its finalizer removed by hand.
    delete_without_release(&world, "one").await;
    assert_eq!(get_only_live_server(&world).await["uuid"], uuid(&before));

    kubectl_apply(host, &yaml).await;
    let after = world.wait_ready("one", SOON).await;
    assert_taken_back(&world, &before, &after, &old).await;
    check_invariants(&world).await;
    world
}

/// As before, and the status is restored as well. It is the status of the deleted object.
pub(super) async fn check_restored_with_status(host: &SharedOperator) -> World {
    let world = host.start_guest_world("velero").await;
    world.create(&server("one")).await;
    let before = world.wait_ready("one", SOON).await;
    let old = list_order_tags(&get_server_of(&world, &before).await);
    let yaml = get_manifest(host, &world, "one").await;
    delete_without_release(&world, "one").await;
    kubectl_apply(host, &yaml).await;
    // A restore may happen at any time, and overwrites what the operator wrote meanwhile.
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
    assert_taken_back(&world, &before, &after, &old).await;
    check_invariants(&world).await;
    world
}

/// Deletes a suspended object and removes its finalizer by hand, so that its server stays.
async fn delete_without_release(world: &World, name: &str) {
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

/// Checks that the new object's record contains the old one's server, and that nothing was ordered.
async fn assert_taken_back(world: &World, before: &Value, after: &Value, old: &[String]) {
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
    // The owner is the same, so the tags do not change.
    let settled = lab::rig::eventually("the retained tag is gone", SOON, async || {
        let server = get_server(world, uuid(before)).await;
        (!super::is_retained(&server)).then_some(server)
    })
    .await;
    assert_eq!(list_order_tags(&settled), old, "{settled}");
    assert_eq!(settled["status"], "delivered");
    wait_for_polls(world, 3).await;
    assert_eq!(count_orders(world).await, 1);
    let counts = world.simulator.counts().await;
    assert_eq!(counts.get("DELETE /v3/flexMetal/servers/{uuid}"), None);
}
