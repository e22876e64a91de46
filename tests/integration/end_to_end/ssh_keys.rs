//! SSH keys at the provider: stored once, found again, referenced by servers, deleted.

use std::collections::BTreeMap;

use k8s_openapi::api::events::v1::Event;
use kube::{Api, api::ListParams};
use serde_json::{Value, json};

use super::{
    SOON, apply, build_secret, check_invariants, count_orders,
    namespace_deletion::{delete_namespace, wait_until_namespace_gone},
    wait_not_ready, wait_stalled,
    watch_log::WatchLog,
};
use lab::rig::{Fault, Kstatus, Things, World, cluster, condition, eventually, health, server};

/// The path of stored keys.
const KEYS: &str = "/v3/sshKey";

/// A valid public key, different for each letter.
pub(super) fn public_key(letter: char) -> String {
    assert!(letter.is_ascii_alphabetic());
    format!(
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{letter}v2kqKzv4gbAvzfF3XuNCOxIvHHFfHOhYGLbn9Dkg1Z"
    )
}

/// A key object with this spec.
pub(super) fn build_ssh_key(name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "flexmetal.dev/v1alpha1", "kind": "SshKey",
        "metadata": {"name": name}, "spec": spec,
    })
}

/// A key object that deletes the key that it stored.
pub(super) fn build_deleting_key(name: &str, letter: char) -> Value {
    let text = format!("{} {name}@test", public_key(letter));
    build_ssh_key(
        name,
        &json!({"publicKey": text, "deletionPolicy": "Delete"}),
    )
}

/// A server that refers to key objects.
pub(super) fn build_server_with_keys(name: &str, keys: &[&str]) -> Value {
    let mut object = server(name);
    object["spec"]["sshKeys"] = keys
        .iter()
        .map(|key| json!({"sshKeyRef": {"name": key}}))
        .collect();
    object
}

/// The stored keys of the account by their UUIDs.
pub(super) async fn list_stored_keys(world: &World) -> BTreeMap<String, String> {
    let (status, answer) = world.simulator.call("GET", KEYS, None).await;
    assert_eq!(status, 200, "{answer}");
    let keys = answer.as_array().expect("a list").iter();
    let entry = |key: &Value| (super::text(&key["uuid"]), super::text(&key["publicKey"]));
    keys.map(entry).collect()
}

fn keys(world: &World) -> Things {
    world.things("SshKey")
}

fn uuid(object: &Value) -> String {
    object["status"]["uuid"]
        .as_str()
        .expect("it is stored")
        .to_owned()
}

/// The number of calls with this method to stored keys.
async fn count_key_calls(world: &World, method: &str) -> usize {
    let ledger = world.simulator.ledger().await;
    let is_one =
        |call: &&Value| call["method"] == method && super::text(&call["path"]).starts_with(KEYS);
    ledger.iter().filter(is_one).count()
}

/// Makes the simulator refuse orders with unknown keys.
async fn require_stored_keys(world: &World) {
    let strict = json!({"unknownSshKey": "refuse422"});
    world.simulator.switches(&strict).await;
}

#[tokio::test]
async fn ssh_key_is_deleted_although_referenced() {
    let world = World::start(cluster(), "key").await;
    require_stored_keys(&world).await;
    let keys = keys(&world);
    // The server is created first: it waits, and is ordered as soon as the key exists.
    world.create(&build_server_with_keys("web", &["ops"])).await;
    let words = ["spec.sshKeys[0]", "SshKey ops does not exist", "Create it"];
    wait_not_ready(&world, "web", "ReferenceNotFound", &words).await;
    let waiting = world.get("web").await.unwrap();
    assert_eq!(health(&waiting), Kstatus::InProgress);

    let made = keys.create(&build_deleting_key("ops", 'A')).await;
    assert_eq!(health(&made), Kstatus::InProgress);
    let log = WatchLog::for_object(keys.api().clone(), &made);
    let ready = keys.wait_ready("ops", SOON).await;
    assert_eq!(health(&ready), Kstatus::Current, "{ready:#}");
    assert_eq!(ready["status"]["createdByObject"], true);
    let all = list_stored_keys(&world).await;
    let text = format!("{} ops@test", public_key('A'));
    assert_eq!(all, BTreeMap::from([(uuid(&ready), text)]));
    world.wait_ready("web", SOON).await;

    // Its deletion does not wait for users, and one event names them.
    keys.delete("ops").await;
    keys.wait_gone("ops", SOON).await;
    assert_eq!(list_stored_keys(&world).await, BTreeMap::new());
    wait_for_reference_event(&world, "ops", "BareMetalServer web").await;
    world.wait_ready("web", SOON).await;
    assert_eq!(
        (
            count_key_calls(&world, "POST").await,
            count_key_calls(&world, "DELETE").await
        ),
        (1, 1)
    );
    assert_eq!(count_orders(&world).await, 1);
    check_invariants(&world).await;
    // The annotation, and the status.
    let is_ours = |version: &&Value| version["metadata"]["deletionTimestamp"].is_null();
    let writes = log.versions().iter().filter(is_ours).count();
    assert!(writes <= 2, "{:#?}", log.versions());
}

/// Waits for the event of a deleted key that names the objects that still refer to it.
pub(super) async fn wait_for_reference_event(world: &World, key: &str, user: &str) {
    let events: Api<Event> = Api::namespaced(world.client.clone(), &world.namespace);
    eventually(
        &format!("an event of {key} names {user}"),
        SOON,
        async || {
            let events = events.list(&ListParams::default()).await.ok()?;
            let is_it = |event: &&Event| {
                let regarding = event.regarding.as_ref().and_then(|r| r.name.as_deref());
                let note = event.note.as_deref().unwrap_or_default();
                event.reason.as_deref() == Some("StillReferenced")
                    && regarding == Some(key)
                    && note.contains(user)
            };
            events.iter().find(is_it).map(|_| ())
        },
    )
    .await;
}

#[tokio::test]
async fn externally_deleted_key_is_stored_again() {
    let mut world = World::start(cluster(), "turn").await;
    require_stored_keys(&world).await;
    let keys = keys(&world);
    keys.create(&build_deleting_key("ops", 'A')).await;
    world.create(&build_server_with_keys("web", &["ops"])).await;
    let first = keys.wait_ready("ops", SOON).await;
    let web = world.wait_ready("web", SOON).await;
    assert_eq!(condition(&web, "Synced").unwrap()["status"], "True");

    // A restarted operator has no memory: it reports no difference, and stores nothing again.
    world.operator().restart();
    super::wait_for_polls(&world, 3).await;
    let synced = world.get("web").await.unwrap();
    assert_eq!(condition(&synced, "Synced").unwrap()["status"], "True");
    assert_eq!(count_key_calls(&world, "POST").await, 1);

    // Someone deletes the key: the operator stores the same key again, under another UUID.
    let path = format!("{KEYS}/{}", uuid(&first));
    assert_eq!(world.simulator.call("DELETE", &path, None).await.0, 204);
    let healed = keys
        .wait_for("ops", "stored again", SOON, |key| {
            (key["status"]["uuid"] != first["status"]["uuid"]).then(|| key.clone())
        })
        .await;
    assert!(list_stored_keys(&world).await.contains_key(&uuid(&healed)));
    super::wait_for_polls(&world, 2).await;
    let synced = world.get("web").await.unwrap();
    assert_eq!(condition(&synced, "Synced").unwrap()["status"], "True");

    // A new key needs a new object, to which the server then refers.
    keys.create(&build_deleting_key("next", 'B')).await;
    keys.wait_ready("next", SOON).await;
    let change = json!({"spec": {"sshKeys": [{"sshKeyRef": {"name": "next"}}]}});
    world.merge("web", &change).await;
    let words = ["spec.sshKeys", "raise spec.install.revision"];
    let pending = world
        .wait_for_condition("web", "Synced", "False", Some("PendingChanges"), SOON)
        .await;
    let message = super::text(&condition(&pending, "Synced").unwrap()["message"]);
    assert!(words.iter().all(|word| message.contains(word)), "{message}");
    assert_eq!(condition(&pending, "Ready").unwrap()["status"], "True");
    keys.delete("ops").await;
    keys.wait_gone("ops", SOON).await;
    let all: Vec<String> = list_stored_keys(&world).await.into_values().collect();
    assert_eq!(all, [format!("{} next@test", public_key('B'))]);
    // A new server is ordered with the new key.
    world
        .create(&build_server_with_keys("later", &["next"]))
        .await;
    world.wait_ready("later", SOON).await;
    check_invariants(&world).await;
}

#[tokio::test]
async fn no_fault_duplicates_or_leaks_an_ssh_key() {
    let world = World::start(cluster(), "lostkey").await;
    let keys = keys(&world);
    let faults = [
        json!("dropBefore"),
        json!("dropAfter"),
        json!({"status": {"code": 500, "after": false}}),
        json!({"status": {"code": 502, "after": true}}),
        json!({"status": {"code": 429, "after": false}}),
        json!({"delay": {"ms": 400, "before": false}}),
    ];
    for (letter, fault) in ('A'..).zip(faults) {
        let name = format!("key-{}", letter.to_ascii_lowercase());
        let once = Fault::new(fault.clone()).times(1);
        world.simulator.fault(once.clone().on("POST", KEYS)).await;
        keys.create(&build_deleting_key(&name, letter)).await;
        let ready = keys.wait_ready(&name, SOON).await;
        let all = list_stored_keys(&world).await;
        assert_eq!(all.len(), 1, "{fault}: {all:?}");
        assert!(all.contains_key(&uuid(&ready)), "{fault}");
        assert_eq!(ready["status"]["createdByObject"], true, "{fault}");

        world
            .simulator
            .fault(once.on("DELETE", &format!("{KEYS}/*")))
            .await;
        keys.delete(&name).await;
        keys.wait_gone(&name, SOON).await;
        assert_eq!(list_stored_keys(&world).await.len(), 0, "{fault}");
        let met = world.simulator.faults().await;
        assert!(met.iter().all(|rule| rule["applied"] == 1), "{met:#?}");
        world.simulator.clear_faults().await;
    }
}

#[tokio::test]
async fn existing_ssh_key_is_used_but_not_deleted() {
    let world = World::start(cluster(), "sharedkey").await;
    let keys = keys(&world);
    let body = json!({"name": "a person's", "publicKey": format!("{} old", public_key('A'))});
    let (status, answer) = world.simulator.call("POST", KEYS, Some(&body)).await;
    assert_eq!(status, 200, "{answer}");
    let theirs = list_stored_keys(&world).await;
    keys.create(&build_deleting_key("adopted", 'A')).await;
    let adopted = keys.wait_ready("adopted", SOON).await;
    assert!(theirs.contains_key(&uuid(&adopted)));
    assert_eq!(adopted["status"]["createdByObject"], false);
    keys.delete("adopted").await;
    keys.wait_gone("adopted", SOON).await;
    assert_eq!(list_stored_keys(&world).await, theirs);

    // Two objects at once: one stores the key, and both refer to it.
    let before = count_key_calls(&world, "POST").await;
    let (first, second) = (
        build_deleting_key("first", 'B'),
        build_deleting_key("second", 'B'),
    );
    tokio::join!(keys.create(&first), keys.create(&second));
    let first = keys.wait_ready("first", SOON).await;
    let second = keys.wait_ready("second", SOON).await;
    assert_eq!(uuid(&first), uuid(&second));
    assert_eq!(count_key_calls(&world, "POST").await, before + 1);
    let (maker, other) = match first["status"]["createdByObject"] == true {
        true => ("first", "second"),
        false => ("second", "first"),
    };
    // After the deletion of the object that stored the key, the other one uses it. It never deletes a key that it did
    // not store.
    keys.delete(maker).await;
    keys.wait_gone(maker, SOON).await;
    super::wait_for_polls(&world, 2).await;
    assert!(list_stored_keys(&world).await.contains_key(&uuid(&first)));
    keys.wait_ready(other, SOON).await;
    keys.delete(other).await;
    keys.wait_gone(other, SOON).await;
    assert!(list_stored_keys(&world).await.contains_key(&uuid(&first)));
}

#[tokio::test]
async fn private_key_in_a_secret_is_never_shown() {
    let mut world = World::start(cluster(), "secretkey").await;
    let private =
        "-----BEGIN OPENSSH PRIVATE KEY-----\nhush-hush\n-----END OPENSSH PRIVATE KEY-----\n";
    let (client, namespace) = (&world.client, Some(&*world.namespace));
    apply(client, namespace, &build_secret("bad", "me.pub", private)).await;
    let mut object = server("bad");
    let place = json!({"name": "bad", "key": "me.pub"});
    object["spec"]["sshKeys"] = json!([{ "secretKeyRef": place }]);
    world.create(&object).await;
    let words = ["spec.sshKeys[0].secretKeyRef: ", "private key", ".pub"];
    wait_stalled(&world, "bad", "InvalidSpec", &words).await;
    let bad = world.get("bad").await.unwrap();
    assert!(!bad.to_string().contains("hush"), "{bad:#}");
    assert_eq!(count_orders(&world).await, 0);
    assert!(!world.operator().log().contains("hush"));
}

#[tokio::test]
async fn namespace_deletion_deletes_owned_keys() {
    let world = World::start_with_lease_elsewhere(cluster(), "keysend").await;
    let keys = keys(&world);
    keys.create(&build_deleting_key("ops", 'A')).await;
    keys.create(&build_ssh_key(
        "stays",
        &json!({"publicKey": public_key('B')}),
    ))
    .await;
    world
        .create(&build_server_with_keys("web", &["ops", "stays"]))
        .await;
    world.wait_ready("web", SOON).await;
    keys.wait_ready("stays", SOON).await;
    delete_namespace(&world).await;
    wait_until_namespace_gone(&world).await;
    let left: Vec<String> = list_stored_keys(&world).await.into_values().collect();
    assert_eq!(left, [public_key('B')]);
    check_invariants(&world).await;
}

#[tokio::test]
async fn refused_ssh_key_is_not_retried() {
    let world = World::start(cluster(), "refusedkey").await;
    let keys = keys(&world);
    let refusal = Fault::new(json!({"status": {"code": 422, "after": false}}));
    world.simulator.fault(refusal.on("POST", KEYS)).await;
    keys.create(&build_deleting_key("ops", 'A')).await;
    let stuck = keys
        .wait_for_condition("ops", "Stalled", "True", Some("RequestRefused"), SOON)
        .await;
    let message = super::text(&condition(&stuck, "Ready").unwrap()["message"]);
    assert!(message.contains("spec.publicKey"), "{message}");
    super::wait_for_polls(&world, 3).await;
    assert_eq!(
        count_key_calls(&world, "POST").await,
        1,
        "not again and again"
    );
    world.simulator.clear_faults().await;
    keys.delete("ops").await;
    keys.wait_gone("ops", SOON).await;
    let next = build_ssh_key("ops", &json!({"publicKey": public_key('B')}));
    keys.create(&next).await;
    keys.wait_ready("ops", SOON).await;
    let all: Vec<String> = list_stored_keys(&world).await.into_values().collect();
    assert_eq!(all, [public_key('B')]);
}

#[tokio::test]
async fn idle_ssh_keys_share_polls_without_writes() {
    let world = World::start(cluster(), "restkeys").await;
    let keys = keys(&world);
    for letter in 'A'..='F' {
        let name = format!("key-{}", letter.to_ascii_lowercase());
        keys.create(&build_deleting_key(&name, letter)).await;
    }
    let mut logs = Vec::new();
    for letter in 'a'..='f' {
        let ready = keys.wait_ready(&format!("key-{letter}"), SOON).await;
        logs.push(WatchLog::for_object(keys.api().clone(), &ready));
    }
    // Each poll of the servers causes one poll of the keys, or slightly more.
    let before = count_key_calls(&world, "GET").await;
    super::wait_for_polls(&world, 6).await;
    let reads = count_key_calls(&world, "GET").await - before;
    assert!((2..=14).contains(&reads), "{reads} looks for six keys");
    assert_eq!(count_key_calls(&world, "POST").await, 6);
    for log in logs {
        assert!(log.versions().is_empty(), "{:#?}", log.versions());
    }
}
