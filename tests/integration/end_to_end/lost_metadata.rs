//! Objects that lose their finalizer or status during or after an order.

use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::{
    SOON, check_invariants, count_orders, get_server, text, wait_account_condition, wait_for_polls,
    wait_stalled,
};
use lab::rig::{World, cluster, server};

const FINALIZER: &str = "flexmetal.dev/server";

/// Whether the object has the finalizer.
fn find_finalizer(object: &Value) -> Option<()> {
    let finalizers = object["metadata"]["finalizers"].as_array()?;
    finalizers.contains(&json!(FINALIZER)).then_some(())
}

/// Whether the object's record contains a server as its own.
fn find_recorded_server(object: &Value) -> Option<()> {
    let record = &object["status"]["records"]["order"];
    let is_own = record["uid"] == object["metadata"]["uid"];
    (is_own && record["outcome"] == "Created").then_some(())
}

/// Replaces the object with its manifest from Git, as Argo CD does with `Replace=true`.
async fn replace_object(world: &World, name: &str) {
    let mut manifest = server(name);
    manifest["metadata"]["namespace"] = json!(world.namespace);
    let replaced = cluster()
        .kubectl_with_input(&["replace", "-f", "-"], &manifest.to_string())
        .await;
    assert!(replaced.status.success(), "{replaced:?}");
}

async fn clear_status(world: &World, name: &str) {
    let fields = world.get(name).await.expect("it is there")["status"].clone();
    let fields = fields.as_object().expect("it has a status").keys();
    let nothing: serde_json::Map<_, _> = fields.map(|field| (field.clone(), Value::Null)).collect();
    let nothing = Patch::Merge(json!({"status": nothing}));
    world
        .servers()
        .patch_status(name, &PatchParams::default(), &nothing)
        .await
        .expect("the status can be cleared");
}

#[tokio::test]
async fn lost_finalizer_and_status_are_restored() {
    let mut world = World::start(cluster(), "traces").await;
    let names = ["replaced", "cleared", "bare", "asleep"];
    let mut before = Vec::new();
    for name in names {
        world.create(&server(name)).await;
    }
    for name in names {
        before.push(world.wait_ready(name, SOON).await);
    }
    wait_for_polls(&world, 3).await;

    replace_object(&world, "replaced").await;
    clear_status(&world, "cleared").await;
    // The running operator repairs it, not only the next one.
    world
        .wait_for("cleared", "recorded", SOON, find_recorded_server)
        .await;
    world.wait_ready("cleared", SOON).await;
    world
        .wait_for("replaced", "marked", SOON, find_finalizer)
        .await;
    replace_object(&world, "bare").await;
    clear_status(&world, "bare").await;
    // Another object loses everything while no operator runs.
    world.operator().kill9();
    replace_object(&world, "asleep").await;
    clear_status(&world, "asleep").await;
    world.operator().restart();

    for (name, before) in names.into_iter().zip(before) {
        world.wait_for(name, "marked", SOON, find_finalizer).await;
        world
            .wait_for(name, "recorded", SOON, find_recorded_server)
            .await;
        let now = world.wait_ready(name, SOON).await;
        for field in [
            "uuid",
            "addresses",
            "providerStatus",
            "account",
            "createdAt",
        ] {
            assert_eq!(
                now["status"][field], before["status"][field],
                "{field} of {name}"
            );
        }
        let server = &now["status"]["records"]["order"]["server"];
        assert_eq!(*server, before["status"]["uuid"], "{name}");
        let tags = |provider_server: &Value| super::list_tags(provider_server).len();
        let uuid = text(&now["status"]["uuid"]);
        assert_eq!(tags(&get_server(&world, &uuid).await), 2, "{name}");
    }
    wait_for_polls(&world, 6).await;
    assert_eq!(count_orders(&world).await, names.len() as u64);
    // The restored records suffice to release the servers.
    for name in names {
        world.delete(name).await;
    }
    for name in names {
        world.wait_gone(name, SOON).await;
    }
    assert!(world.simulator.list_live_servers().await.is_empty());
    check_invariants(&world).await;
}

/// A replace, then a delete: without the finalizer the object would be gone at once, and its server not released.
/// The operator adds the finalizer again first, also if it cannot reconcile the server.
#[tokio::test]
async fn replace_then_delete_leaks_no_server() {
    let world = World::start(cluster(), "contested").await;
    let names = ["unmarked", "hidden", "blocked"];
    for name in names {
        world.create(&server(name)).await;
    }
    for name in names {
        world.wait_ready(name, SOON).await;
    }
    let uuid = async |name: &str| {
        let object = world.get(name).await.expect("it is there");
        object["status"]["uuid"]
            .as_str()
            .expect("a machine")
            .to_owned()
    };
    let own_tags = get_server(&world, &uuid("unmarked").await).await["tags"].clone();
    let stripped = json!({"tags": []});
    world
        .simulator
        .alter(&uuid("unmarked").await, &stripped)
        .await;
    wait_stalled(&world, "unmarked", "TagsMissing", &[]).await;
    let hidden = json!({"hidden": true});
    world.simulator.alter(&uuid("hidden").await, &hidden).await;
    wait_stalled(&world, "hidden", "ServerNotFound", &[]).await;
    // With a rejected key, the operator cannot read any server.
    let key = world.simulator.api_key().to_owned();
    world.simulator.key(&key, false).await;
    wait_account_condition(&world, "default", "KeyAccepted", "False", "KeyRejected").await;
    for name in names {
        replace_object(&world, name).await;
        world.wait_for(name, "marked", SOON, find_finalizer).await;
        world.delete(name).await;
        assert!(world.get(name).await.is_some(), "{name} is gone");
    }
    let back = json!({"tags": own_tags});
    world.simulator.alter(&uuid("unmarked").await, &back).await;
    let shown = json!({"hidden": false});
    world.simulator.alter(&uuid("hidden").await, &shown).await;
    // Last, because further polls without the server would confirm it absent.
    world.simulator.key(&key, true).await;
    for name in names {
        world.wait_gone(name, SOON).await;
    }
    assert!(world.simulator.list_live_servers().await.is_empty());
    check_invariants(&world).await;
}

#[tokio::test]
async fn repeated_finalizer_removal_is_reported() {
    let world = World::start(cluster(), "strips").await;
    world.create(&server("one")).await;
    world.wait_ready("one", SOON).await;
    for _ in 0..6 {
        world.wait_for("one", "marked", SOON, find_finalizer).await;
        replace_object(&world, "one").await;
    }
    wait_stalled(
        &world,
        "one",
        "MetadataConflict",
        &["metadata.managedFields"],
    )
    .await;
    world.wait_for("one", "marked", SOON, find_finalizer).await;
    assert_eq!(count_orders(&world).await, 1);
    check_invariants(&world).await;
}

/// The operator reads no annotation for an order, so a tenant's annotation has no effect.
#[tokio::test]
async fn forged_order_annotation_is_ignored() {
    let world = World::start(cluster(), "made-up").await;
    let other = world.simulator.appear(&json!({"name": "other"})).await;
    let order = json!({"epoch": 7, "server": other["uuid"], "outcome": "Created", "uid": "u"});
    let mut object = server("web");
    object["metadata"]["annotations"] = json!({"flexmetal.dev/order": order.to_string()});
    world.create(&object).await;
    let ready = world.wait_ready("web", SOON).await;
    let record = &ready["status"]["records"]["order"];
    assert_eq!(record["uid"], ready["metadata"]["uid"]);
    assert_ne!(record["server"], other["uuid"]);
    assert_eq!(count_orders(&world).await, 1);
    check_invariants(&world).await;
}
