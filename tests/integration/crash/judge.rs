//! The judge: reads the simulator's records, and believes nothing that the
//! operator says without checking it there.

use std::collections::BTreeMap;

use api::names::{CLUSTER_TAG, ORDER_TAG};
use serde_json::Value;

use crate::whole::owner_of;
use lab::rig::World;

/// What is wrong, in sentences. Empty when all is well.
pub(crate) type Findings = Vec<String>;

/// What an order must have led to: one accepted request to order, one live
/// machine, and the object says which.
pub(crate) async fn after_order(world: &World, object: &Value) -> Findings {
    let mut findings = after_anything(world).await;
    let mark = mark_of(world, object).await;
    let accepted = accepted_orders(world, &mark).await;
    if accepted != 1 {
        findings.push(format!(
            "{accepted} orders of mark {mark} were accepted, not one"
        ));
    }
    let machines = world.simulator.list_live_servers().await;
    let live: Vec<&Value> = machines
        .iter()
        .filter(|m| bears(m, &mark))
        .map(|m| &m["uuid"])
        .collect();
    if live != [&object["status"]["uuid"]] {
        findings.push(format!(
            "mark {mark} has the live machines {live:?}, the object says {}",
            object["status"]["uuid"]
        ));
    }
    findings
}

/// What a release must have led to: no object, and its machine released.
/// `object` is how it was before.
pub(crate) async fn after_release(world: &World, object: &Value) -> Findings {
    let mut findings = after_anything(world).await;
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    if world.get(name).await.is_some() {
        findings.push(format!("the object {name} is still there"));
    }
    let mark = mark_of(world, object).await;
    let machines = world.simulator.list_servers().await;
    let states: Vec<&Value> = machines
        .iter()
        .filter(|m| bears(m, &mark) || m["uuid"] == object["status"]["uuid"])
        .map(|m| &m["status"])
        .collect();
    if states.len() != 1 || states[0] != "released" {
        findings.push(format!(
            "the machines of mark {mark} are {states:?}, not one released"
        ));
    }
    let accepted = accepted_orders(world, &mark).await;
    if accepted != 1 {
        findings.push(format!(
            "{accepted} orders of mark {mark} were accepted, not one"
        ));
    }
    findings
}

/// What must hold at any time when nothing is under way.
pub(crate) async fn after_anything(world: &World) -> Findings {
    let mut findings = Findings::new();
    let judgement = world.simulator.invariants(ORDER_TAG).await;
    match judgement["violations"].as_array() {
        Some(violations) => findings.extend(violations.iter().map(Value::to_string)),
        None => findings.push(format!("no judgement: {judgement}")),
    }
    let sent = orders_by_tag(&world.simulator.ledger().await);
    for (tag, count) in sent.iter().filter(|(_, count)| **count > 1) {
        findings.push(format!("{tag} was sent {count} times"));
    }
    findings.extend(unclaimed(world).await);
    findings
}

/// Live machines of this cluster that no object claims.
async fn unclaimed(world: &World) -> Findings {
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
    let machines = world.simulator.list_live_servers().await;
    machines
        .iter()
        .filter(|m| has_tag(m, |tag| tag == ours) && !claimed.contains(&&m["uuid"]))
        .map(|m| format!("nobody claims machine {} {}", m["uuid"], m["tags"]))
        .collect()
}

/// How many orders reached the hosting API under each order tag, whatever their outcome.
fn orders_by_tag(ledger: &[Value]) -> BTreeMap<String, usize> {
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

async fn accepted_orders(world: &World, mark: &str) -> usize {
    let start = format!("{ORDER_TAG}{mark}");
    let of_mark = |entry: &&Value| {
        let mut tags = entry["order"]["tags"].as_array().into_iter().flatten();
        !entry["effect"].is_null()
            && tags.any(|tag| tag.as_str().is_some_and(|tag| tag.starts_with(&start)))
    };
    world
        .simulator
        .ledger()
        .await
        .iter()
        .filter(of_mark)
        .count()
}

/// The mark of an object's servers, which is their owner: by the object's place and the UID of its namespace.
pub(crate) async fn mark_of(world: &World, object: &Value) -> String {
    let part = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    let (namespace, name) = (part("namespace"), part("name"));
    let owner = owner_of(&world.client, &world.cluster_id, namespace, name).await;
    owner.as_str().to_owned()
}

fn bears(machine: &Value, mark: &str) -> bool {
    let start = format!("{ORDER_TAG}{mark}");
    has_tag(machine, |tag| tag.starts_with(&start))
}

fn has_tag(machine: &Value, wanted: impl Fn(&str) -> bool) -> bool {
    let tags = machine["tags"].as_array().into_iter().flatten();
    tags.filter_map(Value::as_str).any(wanted)
}
