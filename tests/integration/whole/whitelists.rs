//! Whitelists, against a simulator that enforces them: not one call of the operator is refused for its address.

use std::time::Duration;

use k8s_openapi::api::events::v1::Event;
use kube::{Api, api::ListParams};
use serde_json::{Value, json};

use super::{SOON, set_account, told};
use lab::rig::{Fault, Things, World, cluster, condition, eventually};

/// The whitelist of the account's key.
const LIST: &str = "/v3/account/apiKey/1/whitelist";
/// The same, with its entries.
const ENTRIES: &str = "/v3/account/apiKey/1/whitelist*";

/// How long the operator may take to remove 130 entries, one in each reconcile.
const MANY_STEPS: Duration = Duration::from_secs(120);

/// A whitelist of the key, with these fields beside its number.
pub(super) fn whitelist(name: &str, spec: &Value) -> Value {
    let mut object = json!({
        "apiVersion": "flexmetal.dev/v1alpha1", "kind": "IpWhitelist",
        "metadata": {"name": name}, "spec": {"apiKeyID": 1, "egressCIDRs": ["127.0.0.1/32"]},
    });
    for (field, value) in spec.as_object().expect("fields of a spec") {
        object["spec"][field] = value.clone();
    }
    object
}

/// An entry that admits the operator.
fn me() -> Value {
    json!({"name": "me", "cidr": "127.0.0.0/8"})
}

fn office() -> Value {
    json!({"name": "office", "start": "192.0.2.10", "end": "192.0.2.19", "comment": "Office, 2nd floor"})
}

fn whitelists(world: &World) -> Things {
    world.things("IpWhitelist")
}

/// The entries at the provider, in the order in which they were added: addresses, `-` before those that do not count,
/// and the words before our mark.
async fn listed(world: &World) -> Vec<String> {
    let (status, answer) = world.simulator.call("GET", LIST, None).await;
    assert_eq!(status, 200, "{answer}");
    let entries = answer.as_array().expect("a list").iter();
    entries
        .map(|entry| {
            let addresses = match entry["ipRange"].as_str() {
                Some(net) => net.to_owned(),
                None => format!(
                    "{}-{}",
                    super::text(&entry["ipStart"]),
                    super::text(&entry["ipEnd"])
                ),
            };
            let comments = entry["comments"].as_str().unwrap_or_default();
            let words = comments.split("[fmo-").next().unwrap_or_default().trim();
            let sign = if entry["active"] == 0 { "-" } else { "" };
            format!("{sign}{addresses} {words}").trim_end().to_owned()
        })
        .collect()
}

/// A person adds an entry.
async fn by_hand(world: &World, cidr: &str) {
    let entry = json!({"ipRange": cidr, "comments": "by hand", "active": 1});
    let (status, answer) = world.simulator.call("POST", LIST, Some(&entry)).await;
    assert_eq!(status, 200, "{answer}");
}

/// Waits until the object describes its newest spec, and is ready.
async fn settled(world: &World, name: &str) -> Value {
    let objects = whitelists(world);
    objects
        .wait_for(name, "settled", SOON, |object| {
            let is_current =
                object["status"]["observedGeneration"] == object["metadata"]["generation"];
            let is_ready = condition(object, "Ready")?["status"] == "True";
            (is_current && is_ready).then(|| object.clone())
        })
        .await
}

async fn set(world: &World, name: &str, spec: &Value) -> Value {
    whitelists(world)
        .merge(name, &json!({ "spec": spec }))
        .await;
    settled(world, name).await
}

/// The events of whitelists: reason, note, and how often.
async fn events_of_lists(world: &World) -> Vec<(String, String, i32)> {
    let events: Api<Event> = Api::namespaced(world.client.clone(), &world.namespace);
    let events = events.list(&ListParams::default()).await.unwrap();
    let of_lists = events.into_iter().filter(|event| {
        let regarding = event.regarding.as_ref();
        regarding.and_then(|object| object.kind.as_deref()) == Some("IpWhitelist")
    });
    let told = of_lists.map(|event| {
        let times = event.series.map_or(1, |series| series.count);
        (
            event.reason.unwrap_or_default(),
            event.note.unwrap_or_default(),
            times,
        )
    });
    told.collect()
}

/// No request was refused for its address, or for anything else.
async fn nobody_was_locked_out(world: &World) {
    let ledger = world.simulator.ledger().await;
    assert!(ledger.len() > 10, "the operator has called");
    let refused: Vec<_> = ledger.iter().filter(|call| call["status"] == 403).collect();
    assert!(refused.is_empty(), "{refused:#?}");
    super::judge(world).await;
}

#[tokio::test]
async fn whitelist_edits_get_no_call_refused() {
    let world = World::start(cluster(), "ipwl").await;
    let objects = whitelists(&world);
    objects
        .create(&whitelist("wl", &json!({"entries": [office(), me()]})))
        .await;
    let ready = settled(&world, "wl").await;
    // The one that admits the operator came first.
    let both = ["127.0.0.0/8", "192.0.2.10-192.0.2.19 Office, 2nd floor"];
    assert_eq!(listed(&world).await, both);
    assert_eq!(ready["status"]["otherEntryCount"], 0);
    assert_eq!(
        ready["status"]["plan"],
        Value::Null,
        "nothing is left to do"
    );
    let states: Vec<_> = ready["status"]["entries"]
        .as_array()
        .unwrap()
        .iter()
        .collect();
    assert_eq!(states.len(), 2);
    assert!(
        states
            .iter()
            .all(|e| e["state"] == "Active" && e["id"].is_i64()),
        "{states:?}"
    );
    assert_eq!(
        condition(&ready, "EgressCovered").unwrap()["status"],
        "True"
    );

    // In place where that is safe; beside the old one, which goes then, where it is not.
    by_hand(&world, "198.51.100.0/24").await;
    let narrow = json!({"name": "me", "cidr": "127.0.0.0/16"});
    let mut quiet = office();
    quiet["active"] = json!(false);
    set(&world, "wl", &json!({"entries": [quiet, narrow]})).await;
    assert_eq!(
        listed(&world).await,
        [
            "-192.0.2.10-192.0.2.19 Office, 2nd floor",
            "198.51.100.0/24 by hand",
            "127.0.0.0/16"
        ]
    );
    let additive = set(&world, "wl", &json!({"entries": [me()]})).await;
    assert_eq!(
        listed(&world).await,
        ["198.51.100.0/24 by hand", "127.0.0.0/8"]
    );
    assert_eq!(additive["status"]["otherEntryCount"], 1);
    set(&world, "wl", &json!({"entryPolicy": "Exact"})).await;
    assert_eq!(listed(&world).await, ["127.0.0.0/8"]);

    // What a person takes away comes back.
    let id = super::text(&additive["status"]["entries"][0]["id"].to_string().into());
    by_hand(&world, "127.0.0.1/32").await;
    let (status, _) = world
        .simulator
        .call("DELETE", &format!("{LIST}/{id}"), None)
        .await;
    assert_eq!(status, 204);
    eventually("the entry is back, alone", SOON, async || {
        (listed(&world).await == ["127.0.0.0/8"]).then_some(())
    })
    .await;

    // The object goes; what keeps the operator in stays, and is told of.
    settled(&world, "wl").await;
    objects.delete("wl").await;
    objects.wait_gone("wl", SOON).await;
    assert_eq!(listed(&world).await, ["127.0.0.0/8"]);
    told(&world, "Retained").await;
    // Applied again, it takes up what stayed.
    objects
        .create(&whitelist("wl", &json!({"entries": [me(), office()]})))
        .await;
    settled(&world, "wl").await;
    assert_eq!(listed(&world).await, both);
    objects
        .merge("wl", &json!({"spec": {"lockoutGuard": false}}))
        .await;
    objects.delete("wl").await;
    objects.wait_gone("wl", SOON).await;
    assert!(listed(&world).await.is_empty());
    nobody_was_locked_out(&world).await;
}

#[tokio::test]
async fn truncated_list_deletion_is_one_event() {
    let world = World::start(cluster(), "ipwl-many").await;
    let objects = whitelists(&world);
    objects
        .create(&whitelist("wl", &json!({"entries": [me()]})))
        .await;
    settled(&world, "wl").await;
    // The others are there already, as if an object of this name had added them.
    let (_, answer) = world.simulator.call("GET", LIST, None).await;
    let mark = super::text(&answer[0]["comments"]);
    let mut entries = vec![me()];
    for n in 0..130 {
        let (name, cidr) = (format!("e{n}"), format!("10.0.{n}.0/24"));
        let comments = mark.replace(":me]", &format!(":{name}]"));
        let entry = json!({"ipRange": cidr, "comments": comments, "active": 1});
        let (status, answer) = world.simulator.call("POST", LIST, Some(&entry)).await;
        assert_eq!(status, 200, "{answer}");
        entries.push(json!({"name": name, "cidr": cidr}));
    }
    let all = set(&world, "wl", &json!({ "entries": entries })).await;
    assert_eq!(all["status"]["entriesOmitted"], 11, "{all:#}");
    assert_eq!(all["status"]["entries"].as_array().map(Vec::len), Some(120));
    let keys = world.simulator.keys().await;
    let there = keys[0]["whitelist"].as_array().map(Vec::len);
    assert_eq!(there, Some(131), "none was added twice");

    objects.delete("wl").await;
    objects.wait_gone("wl", MANY_STEPS).await;
    assert_eq!(listed(&world).await, ["127.0.0.0/8"]);
    told(&world, "Retained").await;
    let mut events = events_of_lists(&world).await;
    let ended = events.iter().position(|event| event.0 == "Retained");
    let (_, note, times) = events.remove(ended.expect("it was told"));
    assert!(
        note.starts_with("Entries of API key ") && !note.contains(" more. "),
        "{note}"
    );
    assert_eq!(times, 1);
    // It was ready before; not one of its 130 steps is an event.
    let reasons: Vec<_> = events.iter().map(|event| event.0.as_str()).collect();
    assert_eq!(reasons, ["Available"], "{events:#?}");
    nobody_was_locked_out(&world).await;
}

#[tokio::test]
async fn lost_whitelist_answers_lock_nobody_out() {
    let world = World::start(cluster(), "ipwl-lost").await;
    let objects = whitelists(&world);
    objects
        .create(&whitelist("wl", &json!({"entries": [me()]})))
        .await;
    settled(&world, "wl").await;
    let faults = [
        json!("dropBefore"),
        json!("dropAfter"),
        json!({"status": {"code": 500, "after": false}}),
        json!({"status": {"code": 500, "after": true}}),
    ];
    let mut hit = 0;
    for fault in faults {
        for method in ["POST", "PUT", "DELETE"] {
            // Something to add, to change and to remove; the step that is hit is among them.
            let plain = json!({"entries": [me(), {"name": "a", "cidr": "192.0.2.0/25"}]});
            set(&world, "wl", &plain).await;
            let id = world
                .simulator
                .fault(Fault::new(fault.clone()).on(method, ENTRIES).times(1))
                .await;
            let changed = json!({"entries": [me(), {"name": "a", "cidr": "192.0.2.0/24"}, {"name": "b", "start": "192.0.2.1", "end": "192.0.2.9"}]});
            set(&world, "wl", &changed).await;
            let fewer = json!({"entries": [me()]});
            set(&world, "wl", &fewer).await;
            assert_eq!(listed(&world).await, ["127.0.0.0/8"], "{method} {fault}");
            let rules = world.simulator.faults().await;
            let rule = rules.iter().find(|rule| rule["id"] == id);
            let rule = rule.expect("a rule that is used up is still listed");
            hit += rule["applied"].as_u64().unwrap();
        }
    }
    assert_eq!(hit, 12, "every fault met its call");
    nobody_was_locked_out(&world).await;
}

#[tokio::test]
async fn unknown_egress_blocks_risky_changes() {
    let world = World::start(cluster(), "ipwl-egress").await;
    let objects = whitelists(&world);
    let spec = json!({"entries": [office()], "egressCIDRs": null});
    objects.create(&whitelist("wl", &spec)).await;
    let held = objects
        .wait_for_condition("wl", "Stalled", "True", Some("EgressUnknown"), SOON)
        .await;
    assert_eq!(
        condition(&held, "EgressCovered").unwrap()["status"],
        "Unknown"
    );
    assert!(listed(&world).await.is_empty());
    // The account says it: these entries do not admit the operator.
    set_account(&world, "default", &json!({"egressCIDRs": ["127.0.0.1/32"]})).await;
    let held = objects
        .wait_for_condition("wl", "Stalled", "True", Some("EgressNotCovered"), SOON)
        .await;
    let message = super::text(&condition(&held, "Ready").unwrap()["message"]);
    assert!(message.contains("127.0.0.1/32"), "{message}");
    assert!(listed(&world).await.is_empty());
    let admitting = set(&world, "wl", &json!({"entries": [office(), me()]})).await;
    assert_eq!(listed(&world).await.len(), 2);
    assert_eq!(
        condition(&admitting, "EgressCovered").unwrap()["status"],
        "True"
    );
    // A removal that would uncover the operator is held, and done at a person's word.
    let nothing = json!({"spec": {"entries": [office()]}});
    objects.merge("wl", &nothing).await;
    objects
        .wait_for_condition("wl", "Stalled", "True", Some("EgressNotCovered"), SOON)
        .await;
    assert_eq!(listed(&world).await.len(), 2);
    nobody_was_locked_out(&world).await;
    // A person opens the list by hand and means it.
    objects.merge("wl", &json!({"spec": {"entries": []}})).await;
    let held = objects
        .wait_for("wl", "held for no entries", SOON, |object| {
            let ready = condition(object, "Ready")?;
            let is_current =
                object["status"]["observedGeneration"] == object["metadata"]["generation"];
            let is_held = ready["message"]
                .as_str()?
                .contains("No entry would be left");
            (is_current && is_held).then(|| object.clone())
        })
        .await;
    let message = super::text(&condition(&held, "Ready").unwrap()["message"]);
    let token = super::pending(&held, "AllowLockout").expect("it is asked for");
    assert!(message.contains(&token), "{message}");
    objects.merge("wl", &super::acknowledging(&token)).await;
    settled(&world, "wl").await;
    assert!(listed(&world).await.is_empty());
    let used = objects
        .wait_for("wl", "the token used up", SOON, |object| {
            super::is_acknowledged(object, &token).then(|| object.clone())
        })
        .await;
    let annotation = &used["metadata"]["annotations"][super::ACKNOWLEDGE];
    assert_eq!(annotation, &json!(token), "it belongs to the user");
    nobody_was_locked_out(&world).await;
}

#[tokio::test]
async fn whitelist_conflict_is_reported() {
    let world = World::start(cluster(), "ipwl-two").await;
    let objects = whitelists(&world);
    objects
        .create(&whitelist("first", &json!({"entries": [me()]})))
        .await;
    settled(&world, "first").await;
    // Creation times are whole seconds.
    let second = whitelist("second", &json!({"entries": [office(), me()]}));
    eventually("another second", SOON, async || {
        let first = objects.get("first").await?;
        let created: jiff::Timestamp = super::text(&first["metadata"]["creationTimestamp"])
            .parse()
            .ok()?;
        (jiff::Timestamp::now().as_second() > created.as_second()).then_some(())
    })
    .await;
    objects.create(&second).await;
    let stalled = objects
        .wait_for_condition("second", "Stalled", "True", Some("OwnershipConflict"), SOON)
        .await;
    let message = super::text(&condition(&stalled, "Ready").unwrap()["message"]);
    assert!(message.contains("/first"), "{message}");
    assert_eq!(listed(&world).await, ["127.0.0.0/8"]);
    let none = json!({"apiKeyID": 4711, "entries": [me()]});
    objects.create(&whitelist("none", &none)).await;
    objects
        .wait_for_condition("none", "Stalled", "True", Some("ReferenceNotFound"), SOON)
        .await;
    objects.delete("none").await;
    objects.wait_gone("none", SOON).await;
    // The younger one takes over, beside what the older one had to leave.
    objects.delete("first").await;
    settled(&world, "second").await;
    assert_eq!(
        listed(&world).await,
        [
            "127.0.0.0/8",
            "127.0.0.0/8",
            "192.0.2.10-192.0.2.19 Office, 2nd floor"
        ]
    );
    nobody_was_locked_out(&world).await;
}
