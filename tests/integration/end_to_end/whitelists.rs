//! Whitelists, with a simulator that enforces them: no call of the operator is refused because of its address.

use std::time::Duration;

use k8s_openapi::api::events::v1::Event;
use kube::{Api, api::ListParams};
use serde_json::{Value, json};

use super::{SOON, set_account_spec, wait_for_event};
use lab::rig::{Fault, Things, World, cluster, condition, eventually};

/// The path of the whitelist of the account's key.
const LIST: &str = "/v3/account/apiKey/1/whitelist";
/// The path of the whitelist and its entries.
const ENTRIES: &str = "/v3/account/apiKey/1/whitelist*";

/// Maximum time to remove 130 entries, one per reconcile.
const MANY_STEPS: Duration = Duration::from_secs(120);

/// A whitelist of the key, with these fields in addition to its ID.
pub(super) fn build_whitelist(name: &str, spec: &Value) -> Value {
    let mut object = json!({
        "apiVersion": "flexmetal.dev/v1alpha1", "kind": "IpWhitelist",
        "metadata": {"name": name}, "spec": {"apiKeyID": 1, "egressCIDRs": ["127.0.0.1/32"]},
    });
    for (field, value) in spec.as_object().expect("fields of a spec") {
        object["spec"][field] = value.clone();
    }
    object
}

/// An entry that covers the operator.
fn me() -> Value {
    json!({"name": "me", "cidr": "127.0.0.0/8"})
}

fn office() -> Value {
    json!({"name": "office", "start": "192.0.2.10", "end": "192.0.2.19", "comment": "Office, 2nd floor"})
}

fn whitelists(world: &World) -> Things {
    world.things("IpWhitelist")
}

/// The entries at the provider in the order of their creation: addresses, with `-` before inactive ones,
/// and the part of the comment before our owner comment.
async fn list_entries(world: &World) -> Vec<String> {
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

/// Adds an entry by hand.
async fn add_entry_by_hand(world: &World, cidr: &str) {
    let entry = json!({"ipRange": cidr, "comments": "by hand", "active": 1});
    let (status, answer) = world.simulator.call("POST", LIST, Some(&entry)).await;
    assert_eq!(status, 200, "{answer}");
}

/// Waits until the status describes the latest spec, and the object is ready.
async fn wait_until_settled(world: &World, name: &str) -> Value {
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

async fn set_whitelist(world: &World, name: &str, spec: &Value) -> Value {
    whitelists(world)
        .merge(name, &json!({ "spec": spec }))
        .await;
    wait_until_settled(world, name).await
}

/// The events of whitelists: reason, note, and count.
async fn list_whitelist_events(world: &World) -> Vec<(String, String, i32)> {
    let events: Api<Event> = Api::namespaced(world.client.clone(), &world.namespace);
    let events = events.list(&ListParams::default()).await.unwrap();
    let of_lists = events.into_iter().filter(|event| {
        let regarding = event.regarding.as_ref();
        regarding.and_then(|object| object.kind.as_deref()) == Some("IpWhitelist")
    });
    let listed = of_lists.map(|event| {
        let times = event.series.map_or(1, |series| series.count);
        (
            event.reason.unwrap_or_default(),
            event.note.unwrap_or_default(),
            times,
        )
    });
    listed.collect()
}

/// Checks that no request was refused.
async fn assert_no_call_refused(world: &World) {
    let ledger = world.simulator.ledger().await;
    assert!(ledger.len() > 10, "the operator has called");
    let refused: Vec<_> = ledger.iter().filter(|call| call["status"] == 403).collect();
    assert!(refused.is_empty(), "{refused:#?}");
    super::check_invariants(world).await;
}

#[tokio::test]
async fn whitelist_edits_get_no_call_refused() {
    let world = World::start(cluster(), "ipwl").await;
    let objects = whitelists(&world);
    objects
        .create(&build_whitelist(
            "wl",
            &json!({"entries": [office(), me()]}),
        ))
        .await;
    let ready = wait_until_settled(&world, "wl").await;
    // The operator added the entry that covers it first.
    let both = ["127.0.0.0/8", "192.0.2.10-192.0.2.19 Office, 2nd floor"];
    assert_eq!(list_entries(&world).await, both);
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

    // The operator changes an entry in place if that is safe. Otherwise it adds the new one, and then removes the old
    // one.
    add_entry_by_hand(&world, "198.51.100.0/24").await;
    let narrow = json!({"name": "me", "cidr": "127.0.0.0/16"});
    let mut quiet = office();
    quiet["active"] = json!(false);
    set_whitelist(&world, "wl", &json!({"entries": [quiet, narrow]})).await;
    assert_eq!(
        list_entries(&world).await,
        [
            "-192.0.2.10-192.0.2.19 Office, 2nd floor",
            "198.51.100.0/24 by hand",
            "127.0.0.0/16"
        ]
    );
    let additive = set_whitelist(&world, "wl", &json!({"entries": [me()]})).await;
    assert_eq!(
        list_entries(&world).await,
        ["198.51.100.0/24 by hand", "127.0.0.0/8"]
    );
    assert_eq!(additive["status"]["otherEntryCount"], 1);
    set_whitelist(&world, "wl", &json!({"entryPolicy": "Exact"})).await;
    assert_eq!(list_entries(&world).await, ["127.0.0.0/8"]);

    // The operator adds an entry again that a user removed.
    let id = super::text(&additive["status"]["entries"][0]["id"].to_string().into());
    add_entry_by_hand(&world, "127.0.0.1/32").await;
    let (status, _) = world
        .simulator
        .call("DELETE", &format!("{LIST}/{id}"), None)
        .await;
    assert_eq!(status, 204);
    eventually("the entry is back, alone", SOON, async || {
        (list_entries(&world).await == ["127.0.0.0/8"]).then_some(())
    })
    .await;

    // The object is deleted. The entry that covers the operator stays, and an event reports it.
    wait_until_settled(&world, "wl").await;
    objects.delete("wl").await;
    objects.wait_gone("wl", SOON).await;
    assert_eq!(list_entries(&world).await, ["127.0.0.0/8"]);
    wait_for_event(&world, "Retained").await;
    // Applied again, the object adopts the entry that stayed.
    objects
        .create(&build_whitelist(
            "wl",
            &json!({"entries": [me(), office()]}),
        ))
        .await;
    wait_until_settled(&world, "wl").await;
    assert_eq!(list_entries(&world).await, both);
    objects
        .merge("wl", &json!({"spec": {"lockoutGuard": false}}))
        .await;
    objects.delete("wl").await;
    objects.wait_gone("wl", SOON).await;
    assert!(list_entries(&world).await.is_empty());
    assert_no_call_refused(&world).await;
}

#[tokio::test]
async fn truncated_list_deletion_is_one_event() {
    let world = World::start(cluster(), "ipwl-many").await;
    let objects = whitelists(&world);
    objects
        .create(&build_whitelist("wl", &json!({"entries": [me()]})))
        .await;
    wait_until_settled(&world, "wl").await;
    // The other entries exist already, as if an object with this name had added them.
    let (_, answer) = world.simulator.call("GET", LIST, None).await;
    let owner_comment = super::text(&answer[0]["comments"]);
    let mut entries = vec![me()];
    for n in 0..130 {
        let (name, cidr) = (format!("e{n}"), format!("10.0.{n}.0/24"));
        let comments = owner_comment.replace(":me]", &format!(":{name}]"));
        let entry = json!({"ipRange": cidr, "comments": comments, "active": 1});
        let (status, answer) = world.simulator.call("POST", LIST, Some(&entry)).await;
        assert_eq!(status, 200, "{answer}");
        entries.push(json!({"name": name, "cidr": cidr}));
    }
    let all = set_whitelist(&world, "wl", &json!({ "entries": entries })).await;
    assert_eq!(all["status"]["entriesOmitted"], 11, "{all:#}");
    assert_eq!(all["status"]["entries"].as_array().map(Vec::len), Some(120));
    let keys = world.simulator.keys().await;
    let there = keys[0]["whitelist"].as_array().map(Vec::len);
    assert_eq!(there, Some(131), "none was added twice");

    objects.delete("wl").await;
    objects.wait_gone("wl", MANY_STEPS).await;
    assert_eq!(list_entries(&world).await, ["127.0.0.0/8"]);
    wait_for_event(&world, "Retained").await;
    let mut events = list_whitelist_events(&world).await;
    let ended = events.iter().position(|event| event.0 == "Retained");
    let (_, note, times) = events.remove(ended.expect("it was told"));
    assert!(
        note.starts_with("Entries of API key ") && !note.contains(" more. "),
        "{note}"
    );
    assert_eq!(times, 1);
    // The object was ready before. None of its 130 steps is an event.
    let reasons: Vec<_> = events.iter().map(|event| event.0.as_str()).collect();
    assert_eq!(reasons, ["Available"], "{events:#?}");
    assert_no_call_refused(&world).await;
}

#[tokio::test]
async fn lost_whitelist_answers_lock_nobody_out() {
    let world = World::start(cluster(), "ipwl-lost").await;
    let objects = whitelists(&world);
    objects
        .create(&build_whitelist("wl", &json!({"entries": [me()]})))
        .await;
    wait_until_settled(&world, "wl").await;
    let faults = [
        json!("dropBefore"),
        json!("dropAfter"),
        json!({"status": {"code": 500, "after": false}}),
        json!({"status": {"code": 500, "after": true}}),
    ];
    let mut hit = 0;
    for fault in faults {
        for method in ["POST", "PUT", "DELETE"] {
            // Something to add, to change and to remove, so that one of the steps has the fault.
            let plain = json!({"entries": [me(), {"name": "a", "cidr": "192.0.2.0/25"}]});
            set_whitelist(&world, "wl", &plain).await;
            let id = world
                .simulator
                .fault(Fault::new(fault.clone()).on(method, ENTRIES).times(1))
                .await;
            let changed = json!({"entries": [me(), {"name": "a", "cidr": "192.0.2.0/24"}, {"name": "b", "start": "192.0.2.1", "end": "192.0.2.9"}]});
            set_whitelist(&world, "wl", &changed).await;
            let fewer = json!({"entries": [me()]});
            set_whitelist(&world, "wl", &fewer).await;
            assert_eq!(
                list_entries(&world).await,
                ["127.0.0.0/8"],
                "{method} {fault}"
            );
            hit += world.simulator.count_fault_hits(id).await;
        }
    }
    assert_eq!(hit, 12, "every fault met its call");
    assert_no_call_refused(&world).await;
}

#[tokio::test]
async fn unknown_egress_blocks_risky_changes() {
    let world = World::start(cluster(), "ipwl-egress").await;
    let objects = whitelists(&world);
    let spec = json!({"entries": [office()], "egressCIDRs": null});
    objects.create(&build_whitelist("wl", &spec)).await;
    let blocked = objects
        .wait_for_condition("wl", "Stalled", "True", Some("EgressUnknown"), SOON)
        .await;
    assert_eq!(
        condition(&blocked, "EgressCovered").unwrap()["status"],
        "Unknown"
    );
    assert!(list_entries(&world).await.is_empty());
    // With the account's egress addresses, the entries do not cover the operator.
    set_account_spec(&world, "default", &json!({"egressCIDRs": ["127.0.0.1/32"]})).await;
    let blocked = objects
        .wait_for_condition("wl", "Stalled", "True", Some("EgressNotCovered"), SOON)
        .await;
    let message = super::text(&condition(&blocked, "Ready").unwrap()["message"]);
    assert!(message.contains("127.0.0.1/32"), "{message}");
    assert!(list_entries(&world).await.is_empty());
    let admitting = set_whitelist(&world, "wl", &json!({"entries": [office(), me()]})).await;
    assert_eq!(list_entries(&world).await.len(), 2);
    assert_eq!(
        condition(&admitting, "EgressCovered").unwrap()["status"],
        "True"
    );
    // The operator blocks a removal that would lock it out, until a user acknowledges it.
    let nothing = json!({"spec": {"entries": [office()]}});
    objects.merge("wl", &nothing).await;
    objects
        .wait_for_condition("wl", "Stalled", "True", Some("EgressNotCovered"), SOON)
        .await;
    assert_eq!(list_entries(&world).await.len(), 2);
    assert_no_call_refused(&world).await;
    // A user removes all entries and acknowledges it.
    objects.merge("wl", &json!({"spec": {"entries": []}})).await;
    let blocked = objects
        .wait_for("wl", "held for no entries", SOON, |object| {
            let ready = condition(object, "Ready")?;
            let is_current =
                object["status"]["observedGeneration"] == object["metadata"]["generation"];
            let is_blocked = ready["message"]
                .as_str()?
                .contains("No entry would be left");
            (is_current && is_blocked).then(|| object.clone())
        })
        .await;
    let message = super::text(&condition(&blocked, "Ready").unwrap()["message"]);
    let token = super::find_pending_token(&blocked, "AllowLockout").expect("it is asked for");
    assert!(message.contains(&token), "{message}");
    objects
        .merge("wl", &super::build_acknowledgement(&token))
        .await;
    wait_until_settled(&world, "wl").await;
    assert!(list_entries(&world).await.is_empty());
    let used = objects
        .wait_for("wl", "the token used up", SOON, |object| {
            super::is_acknowledged(object, &token).then(|| object.clone())
        })
        .await;
    let annotation = &used["metadata"]["annotations"][super::ACKNOWLEDGE];
    assert_eq!(annotation, &json!(token), "it belongs to the user");
    assert_no_call_refused(&world).await;
}

#[tokio::test]
async fn whitelist_conflict_is_reported() {
    let world = World::start(cluster(), "ipwl-two").await;
    let objects = whitelists(&world);
    objects
        .create(&build_whitelist("first", &json!({"entries": [me()]})))
        .await;
    wait_until_settled(&world, "first").await;
    // Creation times are whole seconds.
    let second = build_whitelist("second", &json!({"entries": [office(), me()]}));
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
    assert_eq!(list_entries(&world).await, ["127.0.0.0/8"]);
    let none = json!({"apiKeyID": 4711, "entries": [me()]});
    objects.create(&build_whitelist("none", &none)).await;
    objects
        .wait_for_condition("none", "Stalled", "True", Some("ReferenceNotFound"), SOON)
        .await;
    objects.delete("none").await;
    objects.wait_gone("none", SOON).await;
    // The newer object takes over, next to the entry that the older one had to leave.
    objects.delete("first").await;
    wait_until_settled(&world, "second").await;
    assert_eq!(
        list_entries(&world).await,
        [
            "127.0.0.0/8",
            "127.0.0.0/8",
            "192.0.2.10-192.0.2.19 Office, 2nd floor"
        ]
    );
    assert_no_call_refused(&world).await;
}
