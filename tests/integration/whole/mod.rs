//! Tests of the whole: a real API server, an operator process and a simulator
//! process. Each test has a world of its own, so all of them run side by side.

mod adoption;
mod answers_to_orders;
mod answers_to_releases;
mod api_server_away;
mod api_server_writes;
mod bad_input;
mod bad_things;
mod cluster_wide;
mod commands;
mod conditions;
mod credentials;
mod default_timing;
mod disasters;
mod edits;
mod entries;
mod folder;
mod health;
mod hostile;
mod hosts;
mod installation;
mod keys;
mod kills;
mod late_server;
mod leases;
mod life;
mod limits;
mod lineage;
mod manifests;
mod many;
mod memory;
mod mishaps;
mod namespace_end;
mod neighbours;
mod odd_answers;
mod orphans;
mod outages;
mod outputs;
mod owners;
mod people_at_the_portal;
mod policies;
mod power;
mod proxies;
mod quiet_account;
mod reinstall;
mod release_limit;
mod replaced;
mod requests;
mod retained;
mod root_password;
mod rotation;
mod scale;
mod server_tags;
mod shared_accounts;
mod sizes;
mod ssh_keys;
mod stock;
mod tags;
mod tenants;
mod throttled;
mod timing;
mod traces;
mod watch_gaps;
mod watch_log;
mod whitelists;

use std::collections::BTreeMap;
use std::time::Duration;

use flexmetal_core::{cluster_id::ClusterId, owner::Owner};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use k8s_openapi::api::events::v1::Event;
use kube::api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams, TypeMeta};
use kube::core::GroupVersionKind;
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::floor::proxy::Proxy;
use lab::rig::{Simulator, World, WorldOptions, cluster, condition, eventually, server};

/// Everything that these tests wait for happens within this time, on a busy machine too.
const SOON: Duration = Duration::from_secs(90);
/// The prefix of order tags, by which the simulator's judge knows objects.
const ORDER_TAG: &str = "fmo-order:";
/// The path of orders.
const SERVERS: &str = "/v3/flexMetal/servers";
/// The tag of servers that were kept.
const RETAINED_TAG: &str = "fmo-retained";

/// The annotation that acknowledges.
const ACKNOWLEDGE: &str = "flexmetal.dev/acknowledge";

/// The token that an object shows for this effect.
fn pending(object: &Value, effect: &str) -> Option<String> {
    let all = object["status"]["pendingAcknowledgements"].as_array()?;
    let asked = all.iter().find(|asked| asked["effect"] == effect)?;
    Some(text(&asked["token"]))
}

/// The merge by which a user gives these tokens.
fn acknowledging(tokens: &str) -> Value {
    json!({"metadata": {"annotations": {(ACKNOWLEDGE): tokens}}})
}

/// Whether the operator has acted on a token, and asks for it no more.
fn is_acknowledged(object: &Value, token: &str) -> bool {
    let has = |list: &str| {
        let all = object["status"][list].as_array();
        all.is_some_and(|all| all.iter().any(|entry| entry["token"] == token))
    };
    has("acknowledged") && !has("pendingAcknowledgements")
}

/// A server object with these fields of its spec set.
fn with(name: &str, spec: &Value) -> Value {
    let mut object = server(name);
    for (field, value) in spec.as_object().expect("fields of a spec") {
        object["spec"][field] = value.clone();
    }
    object
}

/// The API of an object's kind in this namespace, or of a cluster-wide kind.
fn api_of(client: &Client, namespace: Option<&str>, object: &Value) -> Api<DynamicObject> {
    let types: TypeMeta = serde_json::from_value(object.clone()).expect("apiVersion and kind");
    let kind = GroupVersionKind::try_from(types).expect("a kind");
    let resource = ApiResource::from_gvk(&kind);
    match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    }
}

/// Applies an object of any kind; returns it as stored.
async fn apply(client: &Client, namespace: Option<&str>, object: &Value) -> Value {
    let name = object["metadata"]["name"].as_str().expect("a name");
    let params = PatchParams::apply("test").force();
    let applied = api_of(client, namespace, object)
        .patch(name, &params, &Patch::Apply(object))
        .await
        .unwrap_or_else(|error| panic!("cannot apply {object}: {error}"));
    serde_json::to_value(applied).expect("an object is JSON")
}

/// A Secret with one entry. As `data`: a later apply then removes entries that it does not name,
/// which `stringData` does not do. With the entry of an API key it is of the type for these.
fn secret(name: &str, entry: &str, text: &str) -> Value {
    let of_type = match entry {
        "apiKey" => "flexmetal.dev/api-key",
        _ => "Opaque",
    };
    secret_of_type(of_type, name, &[(entry, text)])
}

/// A Secret of this type with these entries.
fn secret_of_type(of_type: &str, name: &str, entries: &[(&str, &str)]) -> Value {
    let data: BTreeMap<_, _> = entries
        .iter()
        .map(|(entry, text)| (*entry, ByteString(text.as_bytes().to_vec())))
        .collect();
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": of_type,
        "metadata": {"name": name}, "data": data,
    })
}

/// The Secret, and what it holds as text; None where there is none.
async fn read_secret(world: &World, name: &str) -> Option<(Secret, BTreeMap<String, String>)> {
    let secret = world
        .secrets()
        .get_opt(name)
        .await
        .expect("it can be read")?;
    let data = secret.data.clone().unwrap_or_default().into_iter();
    let data = data.map(|(key, value)| (key, String::from_utf8(value.0).expect("text")));
    Some((secret, data.collect()))
}

/// A world, and another account at a simulator of its own that the world's key opens too.
async fn with_other_account(prefix: &str) -> (World, Simulator) {
    let mut world = World::prepare(cluster(), prefix, WorldOptions::default()).await;
    let key = format!("--api-key={}", world.simulator.api_key());
    let other = Simulator::start(&[key], &world.folder().join("other.log"));
    world.allow_base_url(other.api());
    world.start_operator();
    (world, other)
}

/// A world whose operator reaches the API server through a proxy, and that proxy.
async fn with_proxy(prefix: &str, plan: WorldOptions) -> (World, Proxy) {
    let mut world = World::prepare(cluster(), prefix, plan).await;
    let proxy = Proxy::start(cluster().access()).await;
    world.set_kubeconfig(proxy.kubeconfig(world.folder()));
    world.start_operator();
    (world, proxy)
}

/// Waits until the rules of the proxy have hit this many requests, in all.
async fn hits(proxy: &Proxy, times: usize) {
    eventually(&format!("{times} requests are hit"), SOON, async || {
        (proxy.hits() >= times).then_some(())
    })
    .await;
}

/// Waits until the object is not ready for this reason; returns the message.
///
/// The message must hold all of `words`: the field or thing, and the remedy.
async fn held(world: &World, name: &str, reason: &str, words: &[&str]) -> String {
    let object = world
        .wait_for_condition(name, "Ready", "False", Some(reason), SOON)
        .await;
    said(name, &object, words)
}

/// Like [`held`], where the same reason may have had other words before.
async fn held_for(world: &World, name: &str, reason: &str, words: &[&str]) {
    eventually(&format!("{name}: {reason} {words:?}"), SOON, async || {
        let object = world.get(name).await?;
        let ready = condition(&object, "Ready")?;
        let message = ready["message"].as_str()?;
        let is_told = words.iter().all(|word| message.contains(word));
        (is_told && ready["status"] == "False" && ready["reason"] == reason).then_some(())
    })
    .await;
}

/// Waits until the object is suspended. Returns the message, which holds all of `words`.
async fn suspended(world: &World, name: &str, words: &[&str]) -> String {
    let object = world
        .wait_for_condition(name, "Suspended", "True", Some("Suspended"), SOON)
        .await;
    says(name, &object, "Suspended", words)
}

/// Waits until the deletion of the object waits for this. Returns the message, which holds all of `words`.
async fn blocked(world: &World, name: &str, reason: &str, words: &[&str]) -> String {
    let object = world
        .wait_for_condition(name, "DeletionBlocked", "True", Some(reason), SOON)
        .await;
    said(name, &object, words);
    says(name, &object, "DeletionBlocked", words)
}

/// Like [`held`], and a person is needed. What may just come in another order is waited for first.
async fn stuck(world: &World, name: &str, reason: &str, words: &[&str]) -> String {
    let kind = match reason {
        "AccountNotFound" | "ReferenceNotFound" => "Reconciling",
        _ => "Stalled",
    };
    let object = world
        .wait_for_condition(name, kind, "True", Some(reason), SOON)
        .await;
    said(name, &object, words)
}

/// The message of Ready, which holds all of `words`.
fn said(name: &str, object: &Value, words: &[&str]) -> String {
    says(name, object, "Ready", words)
}

/// The message of a condition, which holds all of `words`.
fn says(name: &str, object: &Value, kind: &str, words: &[&str]) -> String {
    let message = text(&condition(object, kind).expect("it is told")["message"]);
    for word in words {
        assert!(
            message.contains(word),
            "{name}: {word:?} is not in {message:?}"
        );
    }
    message
}

/// Waits until a condition of the account has this status and reason; returns the account.
async fn account_says(world: &World, name: &str, kind: &str, status: &str, reason: &str) -> Value {
    let accounts = world.accounts();
    eventually(
        &format!("account {name}: {kind}={status} {reason}"),
        SOON,
        async || {
            let account = accounts.get(name).await.expect("the account is there");
            let account = serde_json::to_value(account).expect("an object is JSON");
            let found = condition(&account, kind)?;
            (found["status"] == status && found["reason"] == reason).then_some(account)
        },
    )
    .await
}

/// Changes an account by a merge.
async fn change_account(world: &World, name: &str, change: &Value) {
    let params = PatchParams::default();
    let changed = world
        .accounts()
        .patch(name, &params, &Patch::Merge(change))
        .await;
    changed.unwrap_or_else(|error| panic!("cannot change account {name}: {error}"));
}

/// Changes the spec of the account, and waits until the operator follows it.
async fn set_account(world: &World, name: &str, spec: &Value) {
    change_account(world, name, &json!({"spec": spec})).await;
    let accounts = world.accounts();
    eventually(
        "the account's controller has seen the change",
        SOON,
        async || {
            let account = accounts.get(name).await.expect("the account is there");
            let seen = account.data["status"]["observedGeneration"].as_i64();
            (seen == account.metadata.generation).then_some(())
        },
    )
    .await;
}

/// Orders that have reached the hosting API.
async fn orders(world: &World) -> u64 {
    let counts = world.simulator.counts().await;
    counts
        .get("POST /v3/flexMetal/servers")
        .copied()
        .unwrap_or(0)
}

/// The machine of an object.
async fn machine_of(world: &World, object: &Value) -> Value {
    let uuid = object["status"]["uuid"].as_str().expect("it has a machine");
    machine(world, uuid).await
}

/// A machine as the simulator knows it.
async fn machine(world: &World, uuid: &str) -> Value {
    let machines = world.simulator.list_servers().await;
    let found = machines.into_iter().find(|machine| machine["uuid"] == uuid);
    found.unwrap_or_else(|| panic!("there is no machine {uuid}"))
}

/// Waits until a machine is in this state.
async fn machine_becomes(world: &World, uuid: &str, status: &str) {
    eventually(&format!("machine {uuid} is {status}"), SOON, async || {
        (machine(world, uuid).await["status"] == status).then_some(())
    })
    .await;
}

/// Whether a machine bears the word by which it stays.
fn is_retained(machine: &Value) -> bool {
    tags(machine).iter().any(|tag| tag == RETAINED_TAG)
}

/// Whose the servers of an object of this name are: by its place and the UID that its namespace has now, and by nothing that
/// the operator wrote.
pub(crate) async fn owner_of(
    client: &Client,
    cluster_id: &str,
    namespace: &str,
    name: &str,
) -> Owner {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let found = namespaces.get(namespace).await.expect("the namespace");
    let uid = found.metadata.uid.expect("it has a UID");
    let cluster = ClusterId::parse(cluster_id).expect("an identity");
    Owner::new(&cluster, namespace, name, &uid)
}

/// The tags of a machine.
fn tags(machine: &Value) -> Vec<String> {
    serde_json::from_value(machine["tags"].clone()).expect("tags are texts")
}

/// Waits until an event with this reason was published in the world's namespace.
async fn told(world: &World, reason: &str) {
    let events: Api<Event> = Api::namespaced(world.client.clone(), &world.namespace);
    eventually(
        &format!("an event with reason {reason}"),
        SOON,
        async || {
            let events = events.list(&ListParams::default()).await.ok()?;
            let mut reasons = events.iter().filter_map(|event| event.reason.as_deref());
            reasons.find(|found| *found == reason).map(|_| ())
        },
    )
    .await;
}

/// The simulator's judge has seen nothing that must not happen.
async fn judge(world: &World) {
    let report = world.simulator.invariants(ORDER_TAG).await;
    assert_eq!(report["violations"], json!([]), "{report:#}");
}

/// Waits until the operator has looked at the account this often from now on.
/// What it was going to do at the first look, it has done at the last.
async fn looks(world: &World, times: usize) {
    let seen = world.simulator.ledger().await.len();
    eventually(&format!("{times} looks at the account"), SOON, async || {
        let ledger = world.simulator.ledger().await;
        let lists = ledger.iter().skip(seen).filter(|call| {
            call["method"] == "GET" && call["path"] == SERVERS && call["outcome"] == "answered"
        });
        (lists.count() >= times).then_some(())
    })
    .await;
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
