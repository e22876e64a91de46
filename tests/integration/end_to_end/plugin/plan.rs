//! `plan` says what the operator then sends, for random manifests and random edits of them.

use super::super::{SOON, ssh_keys::public_key, text};
use super::{Plugin, apply};
use futures::future::join_all;
use kube::api::ListParams;
use lab::rig::{World, WorldOptions, cluster, condition};
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng, seq::IndexedRandom as _};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::Instant;

/// Objects of one batch. Each has a manifest and an edit of it, so ten batches are 200 manifests.
const OBJECTS: usize = 10;
const BATCHES: u64 = 10;
/// How long no further call may come before the objects count as settled.
const QUIET: Duration = Duration::from_secs(3);

const SOLD_OUT: (&str, &str) = ("US: Ashburn - VA", "bm9.std.32");

/// A random manifest; an edit of it changes only what may change.
fn random_manifest(random: &mut StdRng, number: usize) -> Value {
    let name = format!("o{number}");
    let letter = char::from(b'A' + u8::try_from(number).unwrap());
    let (kind, spec) = match number % 5 {
        0..3 => {
            let location = *["EU: Rotterdam", SOLD_OUT.0].choose(random).unwrap();
            let kinds = ["bm7.std.8", "bm7.std.8", SOLD_OUT.1, "bm9.unknown"];
            let systems = ["ubuntu-2404-lts", "ubuntu-2404-lts", "no-such-system"];
            let key = format!("{} test", public_key(letter));
            let spec = json!({
                "location": location,
                "instanceType": *kinds.choose(random).unwrap(),
                "os": {"slug": *systems.choose(random).unwrap()},
                "install": {"revision": 1},
                "sshKeys": [{"publicKey": key}],
                "tags": random_tags(random),
                "hostname": if random.random_ratio(1, 10) { "not a host name" } else { "host" },
                "suspend": random.random_ratio(1, 5),
            });
            ("BareMetalServer", spec)
        }
        3 => ("ServerTag", json!({"tag": format!("tag-{number}")})),
        _ => (
            "SshKey",
            json!({"publicKey": format!("{} key", public_key(letter))}),
        ),
    };
    json!({
        "apiVersion": "flexmetal.dev/v1alpha1", "kind": kind,
        "metadata": {"name": name}, "spec": spec,
    })
}

fn random_tags(random: &mut StdRng) -> Vec<&'static str> {
    let all = ["blue", "green", "red"];
    let chosen = all.into_iter().filter(|_| random.random_bool(0.5));
    chosen.collect()
}

/// An edit of a manifest.
fn edit_manifest(random: &mut StdRng, manifest: &Value) -> Value {
    let mut edited = manifest.clone();
    if edited["kind"] == "BareMetalServer" {
        let spec = &mut edited["spec"];
        if random.random_ratio(1, 4) {
            spec["suspend"] = json!(random.random_bool(0.5));
        }
        spec["tags"] = json!(random_tags(random));
        spec["hostname"] = json!("host");
        if random.random_ratio(1, 3) {
            spec["install"] = json!({"revision": 2});
        }
    } else if edited["kind"] == "ServerTag" && random.random_bool(0.5) {
        let renamed = format!("{}-renamed", text(&edited["spec"]["tag"]));
        edited["spec"]["tag"] = json!(renamed);
    }
    edited
}

/// The planned requests, as act, subject and detail.
fn planned_requests(plan: &Value) -> Vec<String> {
    let plans = plan.as_array().expect("a list of plans").iter();
    let effects = plans.flat_map(|plan| plan["effects"].as_array().unwrap().clone());
    let uuid = regex::Regex::new("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}").unwrap();
    let mut requests: Vec<String> = effects
        .map(|effect| {
            let (act, description) = (text(&effect["act"]), text(&effect["description"]));
            let server = uuid.find(&description).map_or("", |found| found.as_str());
            let word = |number| description.split(' ').nth(number).unwrap();
            let (subject, detail) = match act.as_str() {
                "addTag" | "removeTag" => (server, word(2)),
                "changeEntry" | "removeEntry" | "installHost" => (word(2), ""),
                // `Send PowerOff to db 1001 by ...`; the ledger does not show the action for a server.
                "power" if server.is_empty() => (word(4), word(1)),
                "storeKey" => ("", ""),
                _ => (server, ""),
            };
            format!("{act} {subject} {detail}")
        })
        .collect();
    requests.sort();
    requests
}

/// The requests that were sent, in the same form. The removal of order tags is no part of a plan.
async fn sent_requests(world: &World) -> Vec<String> {
    let ledger = world.simulator.ledger().await;
    let mut requests: Vec<String> = ledger
        .iter()
        .filter(|call| call["method"] != "GET" && !text(&call["path"]).contains("/tags/fmo-"))
        .map(|call| {
            let (method, path) = (text(&call["method"]), text(&call["path"]));
            let parts: Vec<&str> = path.trim_start_matches("/v3/").split('/').collect();
            match (method.as_str(), &parts[..]) {
                ("POST", ["flexMetal", "servers"]) => "order  ".to_owned(),
                ("PATCH", ["flexMetal", "servers", uuid]) => format!("reinstall {uuid} "),
                ("POST", ["flexMetal", "servers", uuid, "commands"]) => format!("power {uuid} "),
                ("POST", ["flexMetal", "servers", uuid, "tag", tag]) => {
                    format!("addTag {uuid} {tag}")
                }
                ("DELETE", ["flexMetal", "servers", uuid, "tag", tag]) => {
                    format!("removeTag {uuid} {tag}")
                }
                ("POST", ["flexMetal", "tags"]) => "createTag  ".to_owned(),
                ("PUT", ["flexMetal", "tags", _]) => "renameTag  ".to_owned(),
                ("POST", ["sshKey"]) => "storeKey  ".to_owned(),
                ("POST", [.., "whitelist"]) => "addEntry  ".to_owned(),
                ("PUT", [.., "whitelist", entry]) => format!("changeEntry {entry} "),
                ("DELETE", [.., "whitelist", entry]) => format!("removeEntry {entry} "),
                ("POST", ["host", host, "os", "install"]) => format!("installHost {host} "),
                ("PUT", ["host", host, "start"]) => format!("power {host} PowerOn"),
                ("PUT", ["host", host, "stop"]) => format!("power {host} PowerOff"),
                ("PUT", ["host", host, "restart"]) => format!("power {host} Reboot"),
                _ => format!("{method} {path}"),
            }
        })
        .collect();
    requests.sort();
    requests
}

/// Whether an object shows its generation, and nothing is sent for it before the provider or a user changes something.
fn is_settled(object: &Value) -> bool {
    let generation = &object["metadata"]["generation"];
    let is = |kind: &str| condition(object, kind).filter(|it| it["status"] == "True");
    // While it is suspended, `status.observedGeneration` does not rise.
    if is("Suspended").is_some_and(|it| it["observedGeneration"] == *generation) {
        return true;
    }
    let waits = condition(object, "Ready").is_some_and(|ready| {
        ["NoStock", "NotOffered", "OSNotOffered"]
            .iter()
            .any(|reason| ready["reason"] == *reason)
    });
    object["status"]["observedGeneration"] == *generation
        && (is("Ready").is_some() || is("Stalled").is_some() || waits)
}

/// Waits until every object is settled, and no call comes for a while.
async fn settle(world: &World, what: &str) {
    let deadline = Instant::now() + SOON * 2;
    let (mut before, mut since) = (Vec::new(), Instant::now());
    loop {
        let objects = list_objects(world).await;
        let changing = objects.iter().find(|object| !is_settled(object));
        let now = sent_requests(world).await;
        if now != before || changing.is_some() {
            since = Instant::now();
            before = now;
        }
        if since.elapsed() > QUIET {
            return;
        }
        assert!(
            Instant::now() < deadline,
            "{what}: not settled: {changing:#?}\nsent: {before:#?}"
        );
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
}

/// The objects of all kinds that change something at the provider.
async fn list_objects(world: &World) -> Vec<Value> {
    let kinds = [
        "BareMetalServer",
        "ServerTag",
        "SshKey",
        "IpWhitelist",
        "DedicatedHost",
        "ServerCommand",
    ];
    let lists = kinds.map(|kind| async move {
        let all = world.things(kind).api().list(&ListParams::default()).await;
        all.unwrap().items
    });
    let objects = join_all(lists).await.into_iter().flatten();
    objects.map(|object| json!(object)).collect()
}

/// Plans the manifests, applies those that the API server takes, and compares.
pub(super) async fn check_plan(world: &World, plugin: &Plugin, manifests: &[Value], what: &str) {
    let text_of = |manifests: &[&Value]| {
        let all = manifests.iter().map(ToString::to_string);
        all.collect::<Vec<_>>().join("\n---\n")
    };
    world.simulator.clear_ledger().await;
    let all = text_of(&manifests.iter().collect::<Vec<_>>());
    let args = [
        "plan",
        "-f",
        "-",
        "-o",
        "json",
        "--field-manager",
        "kubectl-client-side-apply",
        "CLUSTER",
    ];
    let output = plugin.run_with_input(&args, &all).await;
    assert!(
        [0, 3].contains(&output.code),
        "{what}: {}{}",
        output.out,
        output.err
    );
    assert_eq!(
        sent_requests(world).await,
        Vec::<String>::new(),
        "a plan sends nothing"
    );
    let plan: Value = serde_json::from_str(&output.out).unwrap();
    let planned = planned_requests(&plan);
    let plans = plan.as_array().unwrap();
    assert_eq!(plans.len(), manifests.len(), "{what}: {plan:#}");
    let accepted = manifests
        .iter()
        .zip(plans)
        .filter(|(_, plan)| plan["apply"] != "refused");
    let accepted: Vec<&Value> = accepted.map(|(manifest, _)| manifest).collect();
    apply(world, &text_of(&accepted)).await;
    settle(world, what).await;
    let sent = sent_requests(world).await;
    assert_eq!(planned, sent, "{what}\n{plan:#}");
    let says_why = plans.iter().any(|plan| plan["why"].is_string());
    let is_attention = !planned.is_empty() || says_why || accepted.len() < manifests.len();
    assert_eq!(output.code, if is_attention { 3 } else { 0 }, "{what}");
}

/// A batch of manifests, and then an edit of each.
async fn check_batch(batch: u64) {
    let mut random = StdRng::seed_from_u64(batch);
    let mut world = World::prepare(cluster(), "plan", WorldOptions::default()).await;
    let quick = json!({"installSeconds": 1, "commandSeconds": 1});
    world.simulator.settings(&quick).await;
    world.simulator.stock(SOLD_OUT.0, SOLD_OUT.1, Some(0)).await;
    world.start_operator();
    world
        .things("ProviderAccount")
        .wait_for_condition("default", "Ready", "True", None, SOON)
        .await;
    let plugin = Plugin::of(&world);
    let first: Vec<Value> = (0..OBJECTS)
        .map(|n| random_manifest(&mut random, n))
        .collect();
    check_plan(&world, &plugin, &first, &format!("batch {batch}")).await;
    let edits: Vec<Value> = first
        .iter()
        .map(|it| edit_manifest(&mut random, it))
        .collect();
    check_plan(&world, &plugin, &edits, &format!("edits of batch {batch}")).await;
}

#[tokio::test]
async fn plan_is_what_the_operator_sends() {
    let batches: Vec<u64> = (0..BATCHES).collect();
    let taken = tiers::select("batches of manifests", batches, |batch| {
        (*batch > 0).then_some(25)
    });
    for batch in taken {
        check_batch(batch).await;
    }
}
