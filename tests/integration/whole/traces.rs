//! An object that lost what shows its order: its finalizer, its status.

use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::{SOON, account_says, judge, looks, machine, orders, stuck, text};
use lab::rig::{World, cluster, server};

const FINALIZER: &str = "flexmetal.dev/server";

/// The object has the finalizer.
fn is_marked(object: &Value) -> Option<()> {
    let finalizers = object["metadata"]["finalizers"].as_array()?;
    finalizers.contains(&json!(FINALIZER)).then_some(())
}

/// The object has a server on record as its own.
fn is_recorded(object: &Value) -> Option<()> {
    let record = &object["status"]["records"]["order"];
    let is_own = record["uid"] == object["metadata"]["uid"];
    (is_own && record["outcome"] == "Created").then_some(())
}

/// What Argo CD does with `Replace=true`: the manifest as it is in Git, and nothing else.
async fn replace(world: &World, name: &str) {
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
    looks(&world, 3).await;

    replace(&world, "replaced").await;
    clear_status(&world, "cleared").await;
    // By the running operator, and not only by the next one.
    world
        .wait_for("cleared", "recorded", SOON, is_recorded)
        .await;
    world.wait_ready("cleared", SOON).await;
    world.wait_for("replaced", "marked", SOON, is_marked).await;
    replace(&world, "bare").await;
    clear_status(&world, "bare").await;
    // And one that loses everything while nobody looks.
    world.operator().kill9();
    replace(&world, "asleep").await;
    clear_status(&world, "asleep").await;
    world.operator().restart();

    for (name, before) in names.into_iter().zip(before) {
        world.wait_for(name, "marked", SOON, is_marked).await;
        world.wait_for(name, "recorded", SOON, is_recorded).await;
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
        let tags = |machine: &Value| super::tags(machine).len();
        let uuid = text(&now["status"]["uuid"]);
        assert_eq!(tags(&machine(&world, &uuid).await), 2, "{name}");
    }
    looks(&world, 6).await;
    assert_eq!(orders(&world).await, names.len() as u64);
    // What was restored is enough to release them.
    for name in names {
        world.delete(name).await;
    }
    for name in names {
        world.wait_gone(name, SOON).await;
    }
    assert!(world.simulator.list_live_servers().await.is_empty());
    judge(&world).await;
}

/// A replace and a delete right after it: without the finalizer the object would be gone at once, and nothing released. It is
/// put back first, also where the machine is tended by nobody.
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
    let marks = machine(&world, &uuid("unmarked").await).await["tags"].clone();
    let stripped = json!({"tags": []});
    world
        .simulator
        .alter(&uuid("unmarked").await, &stripped)
        .await;
    stuck(&world, "unmarked", "TagsMissing", &[]).await;
    let hidden = json!({"hidden": true});
    world.simulator.alter(&uuid("hidden").await, &hidden).await;
    stuck(&world, "hidden", "ServerNotFound", &[]).await;
    // With the key refused nobody looks at any machine.
    let key = world.simulator.api_key().to_owned();
    world.simulator.key(&key, false).await;
    account_says(&world, "default", "KeyAccepted", "False", "KeyRejected").await;
    for name in names {
        replace(&world, name).await;
        world.wait_for(name, "marked", SOON, is_marked).await;
        world.delete(name).await;
        assert!(world.get(name).await.is_some(), "{name} is gone");
    }
    let back = json!({"tags": marks});
    world.simulator.alter(&uuid("unmarked").await, &back).await;
    let shown = json!({"hidden": false});
    world.simulator.alter(&uuid("hidden").await, &shown).await;
    // Last: a few more looks that do not show the machine would prove that it is gone.
    world.simulator.key(&key, true).await;
    for name in names {
        world.wait_gone(name, SOON).await;
    }
    assert!(world.simulator.list_live_servers().await.is_empty());
    judge(&world).await;
}

#[tokio::test]
async fn repeated_finalizer_removal_is_reported() {
    let world = World::start(cluster(), "strips").await;
    world.create(&server("one")).await;
    world.wait_ready("one", SOON).await;
    for _ in 0..6 {
        world.wait_for("one", "marked", SOON, is_marked).await;
        replace(&world, "one").await;
    }
    stuck(
        &world,
        "one",
        "MetadataConflict",
        &["metadata.managedFields"],
    )
    .await;
    world.wait_for("one", "marked", SOON, is_marked).await;
    assert_eq!(orders(&world).await, 1);
    judge(&world).await;
}

/// The operator has no annotation for an order, whatever a tenant writes.
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
    assert_eq!(orders(&world).await, 1);
    judge(&world).await;
}
