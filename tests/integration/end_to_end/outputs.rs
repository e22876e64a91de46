//! `spec.outputs`: a ConfigMap and a Secret with the server's data, which never overwrite another owner's object.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::{
    SOON, apply, build_server, check_invariants, read_secret, text, wait_for_polls, wait_stalled,
};
use api::names::OUTPUT_FINALIZER;
use lab::rig::{World, cluster, condition, eventually};

fn maps(world: &World) -> Api<ConfigMap> {
    Api::namespaced(world.client.clone(), &world.namespace)
}

/// The data of the ConfigMap. None if it does not exist.
async fn get_config_map_data(world: &World, name: &str) -> Option<BTreeMap<String, String>> {
    let map = maps(world).get_opt(name).await.expect("it can be read");
    Some(map?.data.unwrap_or_default())
}

fn build_outputs_spec(name: &str) -> Value {
    json!({"outputs": {"configMapRef": {"name": name}, "secretRef": {"name": name}}})
}

/// Waits until the ConfigMap contains this value.
async fn wait_for_output(world: &World, name: &str, key: &str, value: &str) {
    eventually(&format!("{name} has {key}={value}"), SOON, async || {
        (get_config_map_data(world, name).await?.get(key)? == value).then_some(())
    })
    .await;
}

#[tokio::test]
async fn outputs_are_kept_current_until_deletion() {
    let mut world = World::start(cluster(), "outputs").await;
    world
        .create(&build_server("web", &build_outputs_spec("web-outputs")))
        .await;
    let ready = world.wait_ready("web", SOON).await;
    let status = &ready["status"];
    let uuid = text(&status["uuid"]);
    let uid = text(&ready["metadata"]["uid"]);
    // They exist before the object is Ready.
    let written = get_config_map_data(&world, "web-outputs")
        .await
        .expect("it is written");
    let addresses: Vec<String> = status["addresses"]
        .as_array()
        .expect("it has addresses")
        .iter()
        .map(|a| text(&a["address"]))
        .collect();
    assert_eq!(written["uuid"], uuid);
    assert_eq!(written["providerID"], text(&status["providerID"]));
    assert_eq!(written["hostname"], "web");
    assert_eq!(written["addresses"], addresses.join(","));
    assert_eq!(written["location"], "EU: Rotterdam");
    assert_eq!(written["instanceType"], "bm7.std.8");
    let (kept, same) = read_secret(&world, "web-outputs")
        .await
        .expect("it is written");
    assert_eq!(same, written);
    assert_eq!(kept.type_.as_deref(), Some("flexmetal.dev/output"));
    let config_map = maps(&world).get("web-outputs").await.expect("it is there");
    for metadata in [&kept.metadata, &config_map.metadata] {
        let owner = &metadata.owner_references.as_ref().expect("an owner")[0];
        assert_eq!((&owner.uid, owner.controller), (&uid, Some(true)));
        let labels = metadata.labels.as_ref().expect("a label");
        assert_eq!(labels["app.kubernetes.io/managed-by"], "flexmetal-operator");
        let finalizers = metadata.finalizers.as_ref().expect("a finalizer");
        assert_eq!(*finalizers, [OUTPUT_FINALIZER]);
    }

    // Updated while the process runs, and only if something differs.
    let renamed = json!({"name": "renamed"});
    world.simulator.alter(&uuid, &renamed).await;
    wait_for_output(&world, "web-outputs", "hostname", "renamed").await;
    wait_for_polls(&world, 3).await;
    let version = async || {
        let map = maps(&world).get("web-outputs").await.expect("it is there");
        map.metadata.resource_version
    };
    let before = version().await;
    wait_for_polls(&world, 5).await;
    assert_eq!(version().await, before, "a quiet world is quiet");

    // The operator repairs changes by others when a process reads them again.
    let edit = Patch::Merge(json!({"data": {"uuid": "other", "more": "of it"}}));
    let params = PatchParams::default();
    maps(&world)
        .patch("web-outputs", &params, &edit)
        .await
        .expect("it can be edited");
    let secrets = world.secrets();
    secrets
        .delete("web-outputs", &DeleteParams::default())
        .await
        .expect("it can be deleted");
    world.operator().kill9();
    world.operator().restart();
    wait_for_output(&world, "web-outputs", "uuid", &uuid).await;
    eventually("the Secret is back", SOON, async || {
        let (secret, entries) = read_secret(&world, "web-outputs").await?;
        let is_new = secret.metadata.deletion_timestamp.is_none();
        (is_new && entries["uuid"] == uuid).then_some(())
    })
    .await;
    let repaired = get_config_map_data(&world, "web-outputs")
        .await
        .expect("it is there");
    assert!(!repaired.contains_key("more"), "{repaired:?}");

    // The old output stays after a change of its name.
    world
        .merge("web", &json!({"spec": build_outputs_spec("other-outputs")}))
        .await;
    wait_for_output(&world, "other-outputs", "uuid", &uuid).await;
    assert!(get_config_map_data(&world, "web-outputs").await.is_some());
    world.delete("web").await;
    world.wait_gone("web", SOON).await;
    eventually("all of them are gone", SOON, async || {
        let maps = [
            get_config_map_data(&world, "web-outputs").await,
            get_config_map_data(&world, "other-outputs").await,
        ];
        let secrets = [
            read_secret(&world, "web-outputs").await,
            read_secret(&world, "other-outputs").await,
        ];
        let is_gone = maps.iter().all(Option::is_none) && secrets.iter().all(Option::is_none);
        is_gone.then_some(())
    })
    .await;
    check_invariants(&world).await;
}

/// As `kubectl delete --cascade=foreground` and some GitOps tools do:
/// the garbage collector first deletes the objects that the server owns.
#[tokio::test]
async fn outputs_outlast_a_foreground_deletion_until_the_release() {
    let world = World::start(cluster(), "foreground").await;
    let mut spec = build_outputs_spec("web-outputs");
    spec["releaseDelay"] = json!("1h");
    world.create(&build_server("web", &spec)).await;
    let ready = world.wait_ready("web", SOON).await;
    let uuid = text(&ready["status"]["uuid"]);
    let shown = world.simulator.appear(&json!({"name": "theirs"})).await;
    let mut observed = build_outputs_spec("observed");
    observed["externalID"] = shown["uuid"].clone();
    observed["managementPolicy"] = json!("ObserveOnly");
    world.create(&build_server("observed", &observed)).await;
    world.wait_ready("observed", SOON).await;
    wait_for_output(&world, "observed", "uuid", &text(&shown["uuid"])).await;

    let foreground = DeleteParams::foreground();
    let deleted = world.servers().delete("web", &foreground).await;
    deleted.expect("it can be deleted");
    world
        .wait_for_condition("web", "Ready", "False", Some("ReleaseDelayed"), SOON)
        .await;
    // The garbage collector does this at some time.
    let delete = DeleteParams::default();
    let deleted = maps(&world).delete("web-outputs", &delete).await;
    deleted.expect("it can be deleted");
    let deleted = world.secrets().delete("web-outputs", &delete).await;
    deleted.expect("it can be deleted");
    wait_for_polls(&world, 5).await;
    wait_for_output(&world, "web-outputs", "uuid", &uuid).await;
    assert!(read_secret(&world, "web-outputs").await.is_some());
    // With a change to Retain, the outputs are deleted and the server stays.
    let kept = json!({"spec": {"deletionPolicy": "Retain"}});
    world.merge("web", &kept).await;
    world.wait_gone("web", SOON).await;
    let gone = async |name: &'static str| {
        eventually(&format!("the outputs {name} are gone"), SOON, async || {
            let map = get_config_map_data(&world, name).await;
            let secret = read_secret(&world, name).await;
            (map.is_none() && secret.is_none()).then_some(())
        })
        .await;
    };
    gone("web-outputs").await;
    // For an observing object, only the outputs have a finalizer.
    let deleted = world.servers().delete("observed", &foreground).await;
    deleted.expect("it can be deleted");
    world.wait_gone("observed", SOON).await;
    gone("observed").await;
    check_invariants(&world).await;
}

/// With `--cascade=orphan` the garbage collector removes the owners, and a backup may restore a deleted server's
/// outputs. Then only the operator removes the finalizer.
#[tokio::test]
async fn orphaned_outputs_can_be_deleted() {
    let world = World::start(cluster(), "orphaned").await;
    let mut spec = build_outputs_spec("web-outputs");
    spec["os"] = json!({"slug": "windows-2022"});
    spec["sshKeys"] = json!([]);
    spec["rootPassword"] = json!({"secretRef": {"name": "web-password"}});
    world.create(&build_server("web", &spec)).await;
    world.wait_ready("web", SOON).await;
    world
        .wait_for_condition("web", "RootPasswordStored", "True", None, SOON)
        .await;
    let web = world.get("web").await.expect("it is there");
    let finalizers = web["metadata"]["finalizers"].as_array().expect("a list");
    assert!(finalizers.contains(&json!(OUTPUT_FINALIZER)), "{web}");
    let orphaned = Patch::Merge(json!({"metadata": {"ownerReferences": null}}));
    let params = PatchParams::default();
    let secrets = world.secrets();
    let patched = maps(&world).patch("web-outputs", &params, &orphaned).await;
    patched.expect("it can be changed");
    for name in ["web-outputs", "web-password"] {
        let patched = secrets.patch(name, &params, &orphaned).await;
        patched.expect("it can be changed");
    }
    world.delete("web").await;
    world.wait_gone("web", SOON).await;
    let delete = DeleteParams::default();
    let deleted = maps(&world).delete("web-outputs", &delete).await;
    deleted.expect("it can be deleted");
    for name in ["web-outputs", "web-password"] {
        let deleted = secrets.delete(name, &delete).await;
        deleted.expect("it can be deleted");
    }
    eventually("all of them are gone", SOON, async || {
        let map = get_config_map_data(&world, "web-outputs").await;
        let outputs = read_secret(&world, "web-outputs").await;
        let password = read_secret(&world, "web-password").await;
        (map.is_none() && outputs.is_none() && password.is_none()).then_some(())
    })
    .await;

    // Outputs of a deleted server, being deleted: a server that names them gets new ones.
    let owner = json!({"apiVersion": "flexmetal.dev/v1alpha1", "kind": "BareMetalServer", "name": "web",
        "uid": web["metadata"]["uid"], "controller": true});
    let metadata = |name: &str, owners: Value| json!({"name": name, "finalizers": [OUTPUT_FINALIZER], "ownerReferences": owners});
    let restored = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"uuid": "former"},
        "metadata": metadata("restored", json!([owner]))});
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": metadata("restored", json!([owner]))});
    // An output without owner is not deleted. It stays and loses the finalizer.
    let nobodys = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"their": "own"},
        "metadata": metadata("nobodys", json!([]))});
    for object in [&restored, &secret, &nobodys] {
        apply(&world.client, Some(&world.namespace), object).await;
    }
    let deleted = maps(&world).delete("restored", &delete).await;
    deleted.expect("it can be deleted");
    let deleted = secrets.delete("restored", &delete).await;
    deleted.expect("it can be deleted");
    assert!(
        get_config_map_data(&world, "restored").await.is_some(),
        "the finalizer"
    );
    world
        .create(&build_server("next", &build_outputs_spec("restored")))
        .await;
    let next = world.wait_ready("next", SOON).await;
    let uuid = text(&next["status"]["uuid"]);
    wait_for_output(&world, "restored", "uuid", &uuid).await;
    eventually("the Secret is its own", SOON, async || {
        let (_, entries) = read_secret(&world, "restored").await?;
        (entries.get("uuid")? == &uuid).then_some(())
    })
    .await;
    world
        .merge("next", &json!({"spec": build_outputs_spec("nobodys")}))
        .await;
    world
        .wait_for_condition("next", "Synced", "False", Some("NameTaken"), SOON)
        .await;
    let nobodys = maps(&world).get("nobodys").await.expect("it is there");
    assert_eq!(nobodys.metadata.finalizers.unwrap_or_default(), [""; 0]);
    assert_eq!(nobodys.data.expect("data")["their"], "own");
    check_invariants(&world).await;
}

/// After two refusals the release has failed: the object is deleted, and reports it.
#[tokio::test]
async fn unreleasable_object_goes_with_outputs() {
    let world = World::start(cluster(), "kept-failed").await;
    world
        .create(&build_server("web", &build_outputs_spec("web-outputs")))
        .await;
    let ready = world.wait_ready("web", SOON).await;
    let uuid = text(&ready["status"]["uuid"]);
    let failed = json!({"status": "failed"});
    world.simulator.alter(&uuid, &failed).await;
    wait_stalled(&world, "web", "ProvisioningFailed", &[&uuid]).await;
    world.delete("web").await;
    world.wait_gone("web", SOON).await;
    super::wait_for_event(&world, "NotReleased").await;
    eventually("the outputs are gone", SOON, async || {
        let map = get_config_map_data(&world, "web-outputs").await;
        let secret = read_secret(&world, "web-outputs").await;
        (map.is_none() && secret.is_none()).then_some(())
    })
    .await;
    check_invariants(&world).await;
}

#[tokio::test]
async fn outputs_never_overwrite_other_objects() {
    let mut world = World::start(cluster(), "taken").await;
    let theirs = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "taken"}, "data": {"their": "own"}});
    apply(&world.client, Some(&world.namespace), &theirs).await;
    world
        .create(&build_server("one", &build_outputs_spec("taken")))
        .await;
    world
        .create(&build_server(
            "two",
            &json!({"outputs": {"secretRef": {"name": "taken"}}}),
        ))
        .await;
    world.wait_ready("one", SOON).await;
    world.wait_ready("two", SOON).await;
    let one = world
        .wait_for_condition("one", "Synced", "False", Some("NameTaken"), SOON)
        .await;
    let message = text(&condition(&one, "Synced").expect("it is told")["message"]);
    assert!(
        message.contains("ConfigMap taken is not this object's; nothing is written. Set spec.outputs.configMapRef"),
        "{message}"
    );
    // If two servers name one Secret, one owns it, and the other reports that.
    let (secret, data) = read_secret(&world, "taken")
        .await
        .expect("one of them has it");
    let owner = secret.metadata.owner_references.expect("an owner")[0]
        .name
        .clone();
    assert!(["one", "two"].contains(&owner.as_str()), "{owner}");
    let owning = world.get(&owner).await.expect("it is there");
    assert_eq!(data["uuid"], text(&owning["status"]["uuid"]));
    if owner == "one" {
        world
            .wait_for_condition("two", "Synced", "False", Some("NameTaken"), SOON)
            .await;
    }
    let map = maps(&world).get("taken").await.expect("it is there");
    assert_eq!(
        map.data.expect("data"),
        BTreeMap::from([("their".into(), "own".into())])
    );

    // The rest of the object continues, and another name is the remedy.
    let tags = json!({"spec": {"tags": ["team:web"]}});
    world.merge("one", &tags).await;
    let uuid = text(&one["status"]["uuid"]);
    eventually("the tag is put on", SOON, async || {
        let server = super::get_server(&world, &uuid).await;
        super::list_tags(&server)
            .contains(&"team:web".to_owned())
            .then_some(())
    })
    .await;
    world
        .merge("one", &json!({"spec": build_outputs_spec("free")}))
        .await;
    world
        .wait_for_condition("one", "Synced", "True", None, SOON)
        .await;
    wait_for_output(&world, "free", "uuid", &uuid).await;

    // The operator does not write its own output without the finalizer either. The message names another remedy.
    let stripped = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    let params = PatchParams::default();
    let patched = maps(&world).patch("free", &params, &stripped).await;
    patched.expect("it can be changed");
    world.operator().kill9();
    world.operator().restart();
    let lost = world
        .wait_for_condition("one", "Synced", "False", Some("NameTaken"), SOON)
        .await;
    let message = text(&condition(&lost, "Synced").expect("it is told")["message"]);
    assert!(
        message.contains("ConfigMap free lost the finalizer"),
        "{message}"
    );
    let deleted = maps(&world).delete("free", &DeleteParams::default()).await;
    deleted.expect("it can be deleted");
    world.operator().kill9();
    world.operator().restart();
    wait_for_output(&world, "free", "uuid", &uuid).await;
    world
        .wait_for_condition("one", "Synced", "True", None, SOON)
        .await;
    check_invariants(&world).await;
}

#[tokio::test]
async fn outputs_are_written_unless_suspended() {
    let world = World::start(cluster(), "looked").await;
    let server = world.simulator.appear(&json!({"name": "theirs"})).await;
    let uuid = text(&server["uuid"]);
    let mut observed = build_outputs_spec("observed");
    observed["externalID"] = json!(uuid);
    observed["managementPolicy"] = json!("ObserveOnly");
    world.create(&build_server("observed", &observed)).await;
    world.wait_ready("observed", SOON).await;
    wait_for_output(&world, "observed", "uuid", &uuid).await;

    let suspended = world.create(&build_server("asleep", &json!({}))).await;
    assert!(suspended["metadata"]["uid"].is_string());
    world.wait_ready("asleep", SOON).await;
    let mut asleep = build_outputs_spec("asleep");
    asleep["suspend"] = json!(true);
    world.merge("asleep", &json!({"spec": asleep})).await;
    world
        .wait_for_condition("asleep", "Suspended", "True", Some("Suspended"), SOON)
        .await;
    wait_for_polls(&world, 5).await;
    assert_eq!(get_config_map_data(&world, "asleep").await, None);
    world
        .merge("asleep", &json!({"spec": {"suspend": false}}))
        .await;
    wait_for_output(&world, "asleep", "hostname", "asleep").await;
    check_invariants(&world).await;
}
