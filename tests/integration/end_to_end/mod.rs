//! End-to-end tests with a real API server, an operator process and a simulator process.
//! Each test has its own world, so all of them run in parallel.

mod account_identity;
mod account_isolation;
mod adoption;
mod allowed_namespaces;
mod answers_to_orders;
mod answers_to_releases;
mod api_server_outage;
mod api_server_writes;
mod bad_input;
mod bad_objects;
mod call_costs;
mod cluster_changes;
mod cluster_wide;
mod commands;
mod conditions;
mod credentials;
mod default_timing;
mod disaster;
mod edits;
mod etcd_restore;
mod git_folder;
mod health;
mod hostile;
mod hosts;
mod installation;
mod key_destinations;
mod late_server;
mod leases;
mod limits;
mod lost_metadata;
mod manifests;
mod memory;
mod metrics;
mod namespace_deletion;
mod odd_answers;
mod orphans;
mod outages;
mod outputs;
mod owners;
mod plugin;
mod policies;
mod portal_changes;
mod power;
mod proxies;
mod quiet_account;
mod read_only;
mod reconcile_requests;
mod reinstall;
mod release_limit;
mod repeated_kills;
mod replacement;
mod retained;
mod root_password;
mod rotation;
mod scale;
mod server_failures;
mod server_lifecycle;
mod server_tags;
mod shared_accounts;
mod sizes;
mod ssh_keys;
mod stock;
mod tags;
mod tenants;
mod timing;
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

use crate::cluster_faults::proxy::FaultyProxy;
use lab::rig::{Simulator, World, WorldOptions, cluster, condition, eventually, server};

/// Maximum time for anything that these tests wait for, also on a slow computer.
const SOON: Duration = Duration::from_secs(90);
/// The prefix of order tags. The simulator's invariants identify objects by it.
const ORDER_TAG: &str = "fmo-order:";
/// The path of orders.
const SERVERS: &str = "/v3/flexMetal/servers";
/// The tag of retained servers.
const RETAINED_TAG: &str = "fmo-retained";

/// The annotation for acknowledgements.
const ACKNOWLEDGE: &str = "flexmetal.dev/acknowledge";

/// The token that an object shows for this effect.
fn find_pending_token(object: &Value, effect: &str) -> Option<String> {
    let all = object["status"]["pendingAcknowledgements"].as_array()?;
    let asked = all.iter().find(|asked| asked["effect"] == effect)?;
    Some(text(&asked["token"]))
}

/// The merge patch with which a user acknowledges these tokens.
fn build_acknowledgement(tokens: &str) -> Value {
    json!({"metadata": {"annotations": {(ACKNOWLEDGE): tokens}}})
}

/// Whether the operator has used a token, and does not ask for it any more.
fn is_acknowledged(object: &Value, token: &str) -> bool {
    let has = |list: &str| {
        let all = object["status"][list].as_array();
        all.is_some_and(|all| all.iter().any(|entry| entry["token"] == token))
    };
    has("acknowledged") && !has("pendingAcknowledgements")
}

/// A server object with these fields of its spec set.
fn build_server(name: &str, spec: &Value) -> Value {
    let mut object = server(name);
    for (field, value) in spec.as_object().expect("fields of a spec") {
        object["spec"][field] = value.clone();
    }
    object
}

/// The API of an object's kind in this namespace, or of a cluster-scoped kind.
pub(crate) fn build_api(
    client: &Client,
    namespace: Option<&str>,
    object: &Value,
) -> Api<DynamicObject> {
    let types: TypeMeta = serde_json::from_value(object.clone()).expect("apiVersion and kind");
    let kind = GroupVersionKind::try_from(types).expect("a kind");
    let resource = ApiResource::from_gvk(&kind);
    match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    }
}

/// Applies an object of any kind. Returns the stored object.
async fn apply(client: &Client, namespace: Option<&str>, object: &Value) -> Value {
    let name = object["metadata"]["name"].as_str().expect("a name");
    let params = PatchParams::apply("test").force();
    let applied = build_api(client, namespace, object)
        .patch(name, &params, &Patch::Apply(object))
        .await
        .unwrap_or_else(|error| panic!("cannot apply {object}: {error}"));
    serde_json::to_value(applied).expect("an object is JSON")
}

/// A Secret with one key, with the type for API keys if the key is `apiKey`.
/// It uses `data`, because a later apply removes missing keys from `data`, but not from `stringData`.
fn build_secret(name: &str, entry: &str, text: &str) -> Value {
    let of_type = match entry {
        "apiKey" => "flexmetal.dev/api-key",
        _ => "Opaque",
    };
    build_secret_of_type(of_type, name, &[(entry, text)])
}

/// A Secret of this type with these keys.
fn build_secret_of_type(of_type: &str, name: &str, entries: &[(&str, &str)]) -> Value {
    let data: BTreeMap<_, _> = entries
        .iter()
        .map(|(entry, text)| (*entry, ByteString(text.as_bytes().to_vec())))
        .collect();
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": of_type,
        "metadata": {"name": name}, "data": data,
    })
}

/// The Secret and its content as text. None if it does not exist.
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

/// A world, and a simulator with another account that accepts the same key.
async fn start_with_other_account(prefix: &str) -> (World, Simulator) {
    let mut world = World::prepare(cluster(), prefix, WorldOptions::default()).await;
    let key = format!("--api-key={}", world.simulator.api_key());
    let other = Simulator::start(&[key], &world.folder().join("other.log"));
    world.allow_base_url(other.api());
    world.start_operator();
    (world, other)
}

/// A world whose operator uses the API server through a proxy, and the proxy.
async fn start_with_proxy(prefix: &str, plan: WorldOptions) -> (World, FaultyProxy) {
    let mut world = World::prepare(cluster(), prefix, plan).await;
    let proxy = FaultyProxy::start(cluster().access()).await;
    world.set_kubeconfig(proxy.kubeconfig(world.folder()));
    world.start_operator();
    (world, proxy)
}

/// Waits until the rules of the proxy have matched this many requests in total.
async fn wait_for_proxy_hits(proxy: &FaultyProxy, times: usize) {
    eventually(&format!("{times} requests are hit"), SOON, async || {
        (proxy.count_hits() >= times).then_some(())
    })
    .await;
}

/// Waits until the object is not ready for this reason. Returns the message.
/// The message must contain all `words`: the field or object, and the remedy.
async fn wait_not_ready(world: &World, name: &str, reason: &str, words: &[&str]) -> String {
    let object = world
        .wait_for_condition(name, "Ready", "False", Some(reason), SOON)
        .await;
    check_ready_message(name, &object, words)
}

/// Like [`wait_not_ready`], also if the message changes while the reason stays.
async fn wait_not_ready_message(world: &World, name: &str, reason: &str, words: &[&str]) {
    eventually(&format!("{name}: {reason} {words:?}"), SOON, async || {
        let object = world.get(name).await?;
        let ready = condition(&object, "Ready")?;
        let message = ready["message"].as_str()?;
        let has_words = words.iter().all(|word| message.contains(word));
        (has_words && ready["status"] == "False" && ready["reason"] == reason).then_some(())
    })
    .await;
}

/// Waits until the object is suspended. Returns the message, which must contain all `words`.
async fn wait_suspended(world: &World, name: &str, words: &[&str]) -> String {
    let object = world
        .wait_for_condition(name, "Suspended", "True", Some("Suspended"), SOON)
        .await;
    check_condition_message(name, &object, "Suspended", words)
}

/// Waits until this reason blocks the deletion of the object. Returns the message, which must contain all `words`.
async fn wait_deletion_blocked(world: &World, name: &str, reason: &str, words: &[&str]) -> String {
    let object = world
        .wait_for_condition(name, "DeletionBlocked", "True", Some(reason), SOON)
        .await;
    check_ready_message(name, &object, words);
    check_condition_message(name, &object, "DeletionBlocked", words)
}

/// Like [`wait_not_ready`], and the object is Stalled, or still in its grace period for a missing reference.
async fn wait_stalled(world: &World, name: &str, reason: &str, words: &[&str]) -> String {
    let kind = match reason {
        "AccountNotFound" | "ReferenceNotFound" => "Reconciling",
        _ => "Stalled",
    };
    let object = world
        .wait_for_condition(name, kind, "True", Some(reason), SOON)
        .await;
    check_ready_message(name, &object, words)
}

/// The message of Ready, which must contain all `words`.
fn check_ready_message(name: &str, object: &Value, words: &[&str]) -> String {
    check_condition_message(name, object, "Ready", words)
}

/// The message of a condition, which must contain all `words`.
fn check_condition_message(name: &str, object: &Value, kind: &str, words: &[&str]) -> String {
    let message = text(&condition(object, kind).expect("it is told")["message"]);
    for word in words {
        assert!(
            message.contains(word),
            "{name}: {word:?} is not in {message:?}"
        );
    }
    message
}

/// Waits until a condition of the account has this status and reason. Returns the account.
async fn wait_account_condition(
    world: &World,
    name: &str,
    kind: &str,
    status: &str,
    reason: &str,
) -> Value {
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

/// Changes an account with a merge patch.
async fn change_account(world: &World, name: &str, change: &Value) {
    let params = PatchParams::default();
    let changed = world
        .accounts()
        .patch(name, &params, &Patch::Merge(change))
        .await;
    changed.unwrap_or_else(|error| panic!("cannot change account {name}: {error}"));
}

/// Changes the spec of the account, and waits until the operator has observed it.
async fn set_account_spec(world: &World, name: &str, spec: &Value) {
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

/// The number of orders that reached the hosting API.
async fn count_orders(world: &World) -> u64 {
    let counts = world.simulator.counts().await;
    counts
        .get("POST /v3/flexMetal/servers")
        .copied()
        .unwrap_or(0)
}

/// The provider's server of an object.
async fn get_server_of(world: &World, object: &Value) -> Value {
    let uuid = object["status"]["uuid"].as_str().expect("it has a server");
    get_server(world, uuid).await
}

/// The provider's server, as the simulator shows it.
async fn get_server(world: &World, uuid: &str) -> Value {
    let servers = world.simulator.list_servers().await;
    let found = servers.into_iter().find(|server| server["uuid"] == uuid);
    found.unwrap_or_else(|| panic!("there is no server {uuid}"))
}

/// Waits until the provider's server has this status.
async fn wait_server_status(world: &World, uuid: &str, status: &str) {
    eventually(&format!("server {uuid} is {status}"), SOON, async || {
        (get_server(world, uuid).await["status"] == status).then_some(())
    })
    .await;
}

/// Whether a server has the tag of retained servers.
fn is_retained(server: &Value) -> bool {
    list_tags(server).iter().any(|tag| tag == RETAINED_TAG)
}

/// The owner of the servers of an object with this name, from its name and its namespace's name and current UID.
/// Does not use anything that the operator wrote.
pub(crate) async fn get_owner(
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

/// The tags of a server.
fn list_tags(server: &Value) -> Vec<String> {
    serde_json::from_value(server["tags"].clone()).expect("tags are texts")
}

/// Waits until an event with this reason exists in the world's namespace.
async fn wait_for_event(world: &World, reason: &str) {
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

/// Checks that the simulator found no violation of its invariants.
async fn check_invariants(world: &World) {
    check_invariants_of(&world.simulator).await;
}

async fn check_invariants_of(simulator: &Simulator) {
    let report = simulator.invariants(ORDER_TAG).await;
    assert_eq!(report["violations"], json!([]), "{report:#}");
}

/// Waits until the operator has polled the account this often from now on.
/// Work that was due at the first poll is done at the last one.
async fn wait_for_polls(world: &World, times: usize) {
    wait_for_lists(world, SERVERS, times).await;
}

/// Waits until the operator has listed this path this often from now on.
async fn wait_for_lists(world: &World, path: &str, times: usize) {
    let since = world.simulator.last_request_number().await;
    let query = format!("since={since}&method=GET&path={path}");
    eventually(&format!("{times} lists of {path}"), SOON, async || {
        let calls = world.simulator.ledger_matching(&query).await;
        let is_list = |call: &&Value| call["path"] == path && call["outcome"] == "answered";
        (calls.iter().filter(is_list).count() >= times).then_some(())
    })
    .await;
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
