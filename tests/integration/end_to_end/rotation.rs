//! A new API key in the account's Secret: the switch causes no refused call.
//! Also covers invalid keys, and a key that arrives after the current one was revoked.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{
    ORDER_TAG, SERVERS, SOON, check_invariants, count_orders, text, wait_account_condition,
    wait_stalled,
};
use lab::rig::{Fault, World, cluster, condition, eventually, server};

const NEW: &str = "the-key-of-next-year";

/// The account's current object.
async fn get_account(world: &World) -> Value {
    let account = world.accounts().get("default").await.expect("it is there");
    serde_json::to_value(account).expect("an object")
}

/// Waits until `status.credentials` shows a key other than the one with this hash. Returns the account.
async fn wait_for_other_key(world: &World, previous: &Value) -> Value {
    eventually("another key is in use", SOON, async || {
        let account = get_account(world).await;
        let credentials = &account["status"]["credentials"];
        let is_another = credentials["hash"].is_string() && credentials["hash"] != *previous;
        (is_another && credentials["inUseSince"].is_string()).then_some(account)
    })
    .await
}

fn hash(account: &Value) -> Value {
    account["status"]["credentials"]["hash"].clone()
}

/// Waits until the status shows no candidate credentials.
async fn wait_for_no_candidate(world: &World) -> Value {
    eventually("no candidate", SOON, async || {
        let account = get_account(world).await;
        condition(&account, "CandidateAccepted")
            .is_none()
            .then_some(account)
    })
    .await
}

/// The calls that the API refused because of the key.
async fn list_refused_calls(world: &World) -> Vec<Value> {
    let mut ledger = world.simulator.ledger().await;
    ledger.retain(|call| call["status"] == 401 || call["status"] == 403);
    ledger
}

/// The keys of the calls after this one.
async fn keys_since(world: &World, seen: u64) -> BTreeSet<String> {
    let since = format!("since={seen}");
    let calls = world.simulator.ledger_matching(&since).await;
    calls.iter().map(|call| text(&call["keyId"])).collect()
}

#[tokio::test]
async fn key_rotation_gets_no_call_refused() {
    let world = Arc::new(World::start(cluster(), "rotated").await);
    let old = world.simulator.api_key().to_owned();
    let names: Vec<String> = (0..16).map(|number| format!("s{number}")).collect();
    for name in &names[..3] {
        world.create(&server(name)).await;
    }
    for name in &names[..3] {
        world.wait_ready(name, SOON).await;
    }
    // Watches these objects from here on for lost readiness.
    let is_over = Arc::new(AtomicBool::new(false));
    let not_ready = Arc::<Mutex<Vec<String>>>::default();
    let mut watch = JoinSet::new();
    watch.spawn({
        let (world, is_over, not_ready) = (world.clone(), is_over.clone(), not_ready.clone());
        let names = names[..3].to_vec();
        async move {
            while !is_over.load(Ordering::Relaxed) {
                for name in &names {
                    let object = world.get(name).await.unwrap();
                    let ready = condition(&object, "Ready").unwrap();
                    if ready["status"] != "True" {
                        not_ready.lock().unwrap().push(format!("{name}: {ready}"));
                    }
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    });

    for name in &names[3..7] {
        world.create(&server(name)).await;
    }
    let previous = hash(&wait_for_other_key(&world, &Value::Null).await);
    world.simulator.key(NEW, true).await;
    world.write_key(NEW).await;
    for name in &names[7..10] {
        world.create(&server(name)).await;
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    let account = wait_for_other_key(&world, &previous).await;
    let account_id = account["status"]["accountID"].clone();
    // Only now the old key may be revoked.
    world.simulator.key(&old, false).await;
    let seen = world.simulator.last_request_number().await;
    for name in &names[10..13] {
        world.create(&server(name)).await;
    }
    for name in &names[3..13] {
        world.wait_ready(name, SOON).await;
    }

    let account = wait_for_no_candidate(&world).await;
    assert_eq!(account["status"]["accountID"], account_id);
    for name in &names[13..] {
        world.create(&server(name)).await;
        world.wait_ready(name, SOON).await;
    }
    world.delete("s3").await;
    world.wait_gone("s3", SOON).await;

    is_over.store(true, Ordering::Relaxed);
    watch.join_next().await.expect("one watch").unwrap();
    assert_eq!(*not_ready.lock().unwrap(), Vec::<String>::new());
    assert_eq!(list_refused_calls(&world).await, Vec::<Value>::new());
    assert_eq!(keys_since(&world, seen).await.len(), 1, "the new key alone");
    assert_eq!(count_orders(&world).await, 16, "one for each object");
    assert_eq!(world.simulator.list_live_servers().await.len(), 15);
    check_invariants(&world).await;
}

#[tokio::test]
async fn a_bad_candidate_changes_nothing_until_a_restart() {
    let mut world = World::start(cluster(), "wrongnext").await;
    let good = world.simulator.api_key().to_owned();
    world.create(&server("one")).await;
    world.wait_ready("one", SOON).await;
    let used = hash(&wait_for_other_key(&world, &Value::Null).await);
    let revoked = "a-key-of-last-year";
    world.simulator.key(revoked, false).await;
    world.write_key(revoked).await;
    let account = wait_account_condition(
        &world,
        "default",
        "CandidateAccepted",
        "False",
        "KeyRejected",
    )
    .await;
    let message = text(&condition(&account, "CandidateAccepted").unwrap()["message"]);
    for words in [
        "account-key",
        "the key in use stays",
        "Put a valid API key there",
    ] {
        assert!(message.contains(words), "{words} is not in {message}");
    }
    assert!(!message.contains(revoked), "{message}");

    // The operator tries the candidate again with a growing backoff, and writes nothing meanwhile.
    let version = async || {
        let account = world.accounts().get("default").await.unwrap();
        let shown = serde_json::to_value(&account).unwrap();
        for kind in ["Ready", "KeyAccepted"] {
            assert_eq!(condition(&shown, kind).unwrap()["status"], "True");
        }
        assert_eq!(hash(&shown), used);
        account.resource_version()
    };
    let tries = list_refused_calls(&world).await.len();
    let before = version().await;
    eventually("further trials", SOON, async || {
        (list_refused_calls(&world).await.len() >= tries + 3).then_some(())
    })
    .await;
    assert_eq!(version().await, before);
    world.create(&server("two")).await;
    world.wait_ready("two", SOON).await;
    assert_eq!(count_orders(&world).await, 2);

    // The key of another account with its own servers, and an invalid key.
    world
        .simulator
        .add_account("others", "a-key-of-others")
        .await;
    world.write_key("a-key-of-others").await;
    wait_account_condition(
        &world,
        "default",
        "CandidateAccepted",
        "False",
        "AccountChanged",
    )
    .await;
    world.write_key("two\nlines").await;
    wait_account_condition(
        &world,
        "default",
        "CandidateAccepted",
        "False",
        "InvalidKey",
    )
    .await;
    world.create(&server("three")).await;
    world.wait_ready("three", SOON).await;
    assert_eq!(world.simulator.list_live_servers().await.len(), 3);

    // The key in use was in memory only.
    world.write_key(revoked).await;
    world.operator().restart();
    wait_account_condition(&world, "default", "KeyAccepted", "False", "KeyRejected").await;
    world.create(&server("four")).await;
    wait_stalled(
        &world,
        "four",
        "KeyRejected",
        &["Put a valid key into its Secret"],
    )
    .await;
    world.write_key(&good).await;
    world.wait_ready("four", SOON).await;
    let account = wait_for_no_candidate(&world).await;
    assert_eq!(hash(&account), used);
    // The operator asked the other account for servers of this one, which showed that the key belongs to another
    // account.
    let report = world.simulator.invariants(ORDER_TAG).await;
    let violations = report["violations"].as_array().expect("a list").iter();
    let others: Vec<&Value> = violations
        .filter(|it| it["account"] != "others" || it["rule"] != "foreignResource")
        .collect();
    assert_eq!(others, Vec::<&Value>::new());
}

#[tokio::test]
async fn candidate_replaces_revoked_key_mid_order() {
    let world = World::start(cluster(), "revokednext").await;
    world.create(&server("one")).await;
    let one = world.wait_ready("one", SOON).await;
    let previous = hash(&wait_for_other_key(&world, &Value::Null).await);
    // The order creates a server, its answer is lost, and no list shows it before the key is revoked.
    let lag = json!({"listLagSeconds": 5});
    world.simulator.settings(&lag).await;
    let lost = Fault::new("dropAfter").on("POST", SERVERS).times(1);
    world.simulator.fault(lost).await;
    world.create(&server("two")).await;
    eventually("the order is sent", SOON, async || {
        (count_orders(&world).await == 2).then_some(())
    })
    .await;
    world.simulator.key(world.simulator.api_key(), false).await;
    wait_account_condition(&world, "default", "KeyAccepted", "False", "KeyRejected").await;

    world.simulator.key(NEW, true).await;
    world.write_key(NEW).await;
    wait_for_other_key(&world, &previous).await;
    wait_account_condition(&world, "default", "Ready", "True", "Available").await;
    world.wait_ready("two", SOON).await;
    let now = world.wait_ready("one", SOON).await;
    assert_eq!(now["status"]["uuid"], one["status"]["uuid"]);
    assert_eq!(count_orders(&world).await, 2, "the open one was found");
    check_invariants(&world).await;
}

#[tokio::test]
async fn removed_key_keeps_working_and_can_return() {
    let world = World::start(cluster(), "takenout").await;
    let old = world.simulator.api_key().to_owned();
    world.create(&server("one")).await;
    world.wait_ready("one", SOON).await;
    let previous = hash(&wait_for_other_key(&world, &Value::Null).await);
    let params = PatchParams::default();
    let gone = Patch::Merge(json!({"data": {"apiKey": null}}));
    let patched = world.secrets().patch("account-key", &params, &gone).await;
    patched.expect("the Secret is there");
    wait_account_condition(
        &world,
        "default",
        "CandidateAccepted",
        "False",
        "ReferenceNotFound",
    )
    .await;
    wait_account_condition(&world, "default", "Ready", "True", "Available").await;
    world.create(&server("two")).await;
    world.wait_ready("two", SOON).await;

    // Back to the old key, and there and back again.
    world.write_key(&old).await;
    assert_eq!(hash(&wait_for_no_candidate(&world).await), previous);
    world.simulator.key(NEW, true).await;
    world.write_key(NEW).await;
    let next = hash(&wait_for_other_key(&world, &previous).await);
    world.write_key(&old).await;
    wait_for_other_key(&world, &next).await;
    world.create(&server("three")).await;
    world.wait_ready("three", SOON).await;
    assert_eq!(list_refused_calls(&world).await, Vec::<Value>::new());
    assert_eq!(count_orders(&world).await, 3);
    check_invariants(&world).await;
}
