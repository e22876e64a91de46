//! Checks the simulator's records, and checks there what the operator reports.

use std::collections::BTreeMap;

use api::names::{CLUSTER_TAG, ORDER_TAG};
use serde_json::Value;

use crate::end_to_end::get_owner;
use lab::rig::World;

/// Faults in sentences. Empty if there are none.
pub(crate) type Findings = Vec<String>;

/// How a finding about a server without an owner begins.
pub(crate) const UNOWNED_SERVER: &str = "nobody owns server";

/// Checks an order: one accepted request, one live server, and its UUID in the object.
pub(crate) async fn check_after_order(world: &World, object: &Value) -> Findings {
    let mut findings = check_at_any_time(world).await;
    let owner_hash = read_owner_hash(world, object).await;
    findings.extend(check_accepted_orders(world, &owner_hash).await);
    let servers = world.simulator.list_live_servers().await;
    let live: Vec<&Value> = servers
        .iter()
        .filter(|m| has_owner_tag(m, &owner_hash))
        .map(|m| &m["uuid"])
        .collect();
    if live != [&object["status"]["uuid"]] {
        findings.push(format!(
            "owner {owner_hash} has the live servers {live:?}, the object says {}",
            object["status"]["uuid"]
        ));
    }
    findings
}

/// Checks a release: the object is gone, and its server is released.
/// `object` is the object before the release.
pub(crate) async fn check_after_release(world: &World, object: &Value) -> Findings {
    let mut findings = check_at_any_time(world).await;
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    if world.get(name).await.is_some() {
        findings.push(format!("the object {name} is still there"));
    }
    let owner_hash = read_owner_hash(world, object).await;
    let servers = world.simulator.list_servers().await;
    let states: Vec<&Value> = servers
        .iter()
        .filter(|m| has_owner_tag(m, &owner_hash) || m["uuid"] == object["status"]["uuid"])
        .map(|m| &m["status"])
        .collect();
    if states.len() != 1 || states[0] != "released" {
        findings.push(format!(
            "the servers of owner {owner_hash} are {states:?}, not one released"
        ));
    }
    findings.extend(check_accepted_orders(world, &owner_hash).await);
    findings
}

/// Checks what must be true whenever nothing is in progress.
pub(crate) async fn check_at_any_time(world: &World) -> Findings {
    let mut findings = Findings::new();
    let judgement = world.simulator.invariants(ORDER_TAG).await;
    match judgement["violations"].as_array() {
        Some(violations) => findings.extend(violations.iter().map(Value::to_string)),
        None => findings.push(format!("no judgement: {judgement}")),
    }
    let sent = count_orders_by_tag(&world.simulator.ledger_matching("method=POST").await);
    for (tag, count) in sent.iter().filter(|(_, count)| **count > 1) {
        findings.push(format!("{tag} was sent {count} times"));
    }
    findings.extend(find_unowned_servers(world).await);
    findings
}

/// Live servers of this cluster whose UUID is in no object.
async fn find_unowned_servers(world: &World) -> Findings {
    let objects = world
        .servers()
        .list(&kube::api::ListParams::default())
        .await;
    let objects = objects.expect("the API server lists");
    let claimed: Vec<&Value> = objects
        .items
        .iter()
        .map(|o| &o.data["status"]["uuid"])
        .collect();
    let ours = format!("{CLUSTER_TAG}{}", world.cluster_id);
    let servers = world.simulator.list_live_servers().await;
    servers
        .iter()
        .filter(|m| has_tag(m, |tag| tag == ours) && !claimed.contains(&&m["uuid"]))
        .map(|m| format!("{UNOWNED_SERVER} {} {}", m["uuid"], m["tags"]))
        .collect()
}

/// How many orders reached the hosting API under each order tag, with any outcome.
fn count_orders_by_tag(ledger: &[Value]) -> BTreeMap<String, usize> {
    let mut sent = BTreeMap::new();
    for entry in ledger {
        let tags = entry["order"]["tags"].as_array().into_iter().flatten();
        for tag in tags
            .filter_map(Value::as_str)
            .filter(|tag| tag.starts_with(ORDER_TAG))
        {
            *sent.entry(tag.to_owned()).or_default() += 1;
        }
    }
    sent
}

/// Checks that one order of this owner was accepted.
async fn check_accepted_orders(world: &World, owner_hash: &str) -> Option<String> {
    let start = format!("{ORDER_TAG}{owner_hash}");
    let has_hash = |entry: &&Value| {
        let mut tags = entry["order"]["tags"].as_array().into_iter().flatten();
        !entry["effect"].is_null()
            && tags.any(|tag| tag.as_str().is_some_and(|tag| tag.starts_with(&start)))
    };
    let ledger = world.simulator.ledger_matching("method=POST").await;
    let accepted = ledger.iter().filter(has_hash).count();
    (accepted != 1)
        .then(|| format!("{accepted} orders of owner {owner_hash} were accepted, not one"))
}

/// The owner hash of an object's servers, from the object's name and its namespace's name and UID.
pub(crate) async fn read_owner_hash(world: &World, object: &Value) -> String {
    let part = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    let (namespace, name) = (part("namespace"), part("name"));
    let owner = get_owner(&world.client, &world.cluster_id, namespace, name).await;
    owner.as_str().to_owned()
}

fn has_owner_tag(server: &Value, owner_hash: &str) -> bool {
    let start = format!("{ORDER_TAG}{owner_hash}");
    has_tag(server, |tag| tag.starts_with(&start))
}

fn has_tag(server: &Value, wanted: impl Fn(&str) -> bool) -> bool {
    let tags = server["tags"].as_array().into_iter().flatten();
    tags.filter_map(Value::as_str).any(wanted)
}
