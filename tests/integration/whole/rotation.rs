//! The key in an account's Secret is replaced by another one, without one refused call; and what a key that is of no use, or
//! comes after the key in use was revoked, does and does not do.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{ORDER_TAG, SERVERS, SOON, account_says, judge, orders, stuck, text};
use lab::rig::{Fault, World, cluster, condition, eventually, server};

const NEW: &str = "the-key-of-next-year";

/// The account, as it is.
async fn account(world: &World) -> Value {
    let account = world.accounts().get("default").await.expect("it is there");
    serde_json::to_value(account).expect("an object")
}

/// Waits until `status.credentials` shows a key that was accepted after the one with this hash. Returns the account.
async fn uses_another(world: &World, former: &Value) -> Value {
    eventually("another key is in use", SOON, async || {
        let account = account(world).await;
        let credentials = &account["status"]["credentials"];
        let is_another = credentials["hash"].is_string() && credentials["hash"] != *former;
        (is_another && credentials["inUseSince"].is_string()).then_some(account)
    })
    .await
}

fn hash(account: &Value) -> Value {
    account["status"]["credentials"]["hash"].clone()
}

/// Waits until nothing is said of a candidate.
async fn no_candidate(world: &World) -> Value {
    eventually("no candidate", SOON, async || {
        let account = account(world).await;
        condition(&account, "CandidateAccepted")
            .is_none()
            .then_some(account)
    })
    .await
}

/// The calls that were refused for the key.
async fn refused(world: &World) -> Vec<Value> {
    let mut ledger = world.simulator.ledger().await;
    ledger.retain(|call| call["status"] == 401 || call["status"] == 403);
    ledger
}

/// Which keys the calls were made with from this one on.
async fn keys_since(world: &World, seen: usize) -> BTreeSet<String> {
    let ledger = world.simulator.ledger().await;
    ledger
        .iter()
        .skip(seen)
        .map(|call| text(&call["keyId"]))
        .collect()
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
    // Whatever else these are from here on is seen.
    let is_over = Arc::new(AtomicBool::new(false));
    let lapses = Arc::<Mutex<Vec<String>>>::default();
    let mut watch = JoinSet::new();
    watch.spawn({
        let (world, is_over, lapses) = (world.clone(), is_over.clone(), lapses.clone());
        let names = names[..3].to_vec();
        async move {
            while !is_over.load(Ordering::Relaxed) {
                for name in &names {
                    let object = world.get(name).await.unwrap();
                    let ready = condition(&object, "Ready").unwrap();
                    if ready["status"] != "True" {
                        lapses.lock().unwrap().push(format!("{name}: {ready}"));
                    }
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    });

    for name in &names[3..7] {
        world.create(&server(name)).await;
    }
    let former = hash(&uses_another(&world, &Value::Null).await);
    world.simulator.key(NEW, true).await;
    world.write_key(NEW).await;
    for name in &names[7..10] {
        world.create(&server(name)).await;
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    let account = uses_another(&world, &former).await;
    let lineage = account["status"]["accountID"].clone();
    // Now, and not before, the former key may go.
    world.simulator.key(&old, false).await;
    let seen = world.simulator.ledger().await.len();
    for name in &names[10..13] {
        world.create(&server(name)).await;
    }
    for name in &names[3..13] {
        world.wait_ready(name, SOON).await;
    }

    let account = no_candidate(&world).await;
    assert_eq!(account["status"]["accountID"], lineage);
    for name in &names[13..] {
        world.create(&server(name)).await;
        world.wait_ready(name, SOON).await;
    }
    world.delete("s3").await;
    world.wait_gone("s3", SOON).await;

    is_over.store(true, Ordering::Relaxed);
    watch.join_next().await.expect("one watch").unwrap();
    assert_eq!(*lapses.lock().unwrap(), Vec::<String>::new());
    assert_eq!(refused(&world).await, Vec::<Value>::new());
    assert_eq!(keys_since(&world, seen).await.len(), 1, "the new key alone");
    assert_eq!(orders(&world).await, 16, "one for each object");
    assert_eq!(world.simulator.list_live_servers().await.len(), 15);
    judge(&world).await;
}

#[tokio::test]
async fn a_bad_candidate_changes_nothing_until_a_restart() {
    let mut world = World::start(cluster(), "wrongnext").await;
    let good = world.simulator.api_key().to_owned();
    world.create(&server("one")).await;
    world.wait_ready("one", SOON).await;
    let used = hash(&uses_another(&world, &Value::Null).await);
    let revoked = "a-key-of-last-year";
    world.simulator.key(revoked, false).await;
    world.write_key(revoked).await;
    let account = account_says(
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

    // It is tried again, later and later, and all that time nothing is written.
    let version = async || {
        let account = world.accounts().get("default").await.unwrap();
        let shown = serde_json::to_value(&account).unwrap();
        for kind in ["Ready", "KeyAccepted"] {
            assert_eq!(condition(&shown, kind).unwrap()["status"], "True");
        }
        assert_eq!(hash(&shown), used);
        account.resource_version()
    };
    let tries = refused(&world).await.len();
    let before = version().await;
    eventually("further trials", SOON, async || {
        (refused(&world).await.len() >= tries + 3).then_some(())
    })
    .await;
    assert_eq!(version().await, before);
    world.create(&server("two")).await;
    world.wait_ready("two", SOON).await;
    assert_eq!(orders(&world).await, 2);

    // The key of somebody else's account, which has servers of its own; and what is no key.
    world
        .simulator
        .add_account("others", "a-key-of-others")
        .await;
    world.write_key("a-key-of-others").await;
    account_says(
        &world,
        "default",
        "CandidateAccepted",
        "False",
        "AccountChanged",
    )
    .await;
    world.write_key("two\nlines").await;
    account_says(
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
    account_says(&world, "default", "KeyAccepted", "False", "KeyRejected").await;
    world.create(&server("four")).await;
    stuck(
        &world,
        "four",
        "KeyRejected",
        &["Put a valid key into its Secret"],
    )
    .await;
    world.write_key(&good).await;
    world.wait_ready("four", SOON).await;
    let account = no_candidate(&world).await;
    assert_eq!(hash(&account), used);
    // That the other account was asked for servers of this one is how the key was known to be another's.
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
    let former = hash(&uses_another(&world, &Value::Null).await);
    // The machine is made, its answer is lost, and so is every look at it.
    let lost = Fault::new("dropAfter").on("POST", SERVERS).times(1);
    world.simulator.fault(lost).await;
    world.create(&server("two")).await;
    eventually("the order is sent", SOON, async || {
        (orders(&world).await == 2).then_some(())
    })
    .await;
    let blind = Fault::new("dropBefore").on("GET", "/v3/flexMetal/servers*");
    world.simulator.fault(blind).await;
    world.simulator.key(world.simulator.api_key(), false).await;
    world.simulator.clear_faults().await;
    account_says(&world, "default", "KeyAccepted", "False", "KeyRejected").await;

    world.simulator.key(NEW, true).await;
    world.write_key(NEW).await;
    uses_another(&world, &former).await;
    account_says(&world, "default", "Ready", "True", "Available").await;
    world.wait_ready("two", SOON).await;
    let now = world.wait_ready("one", SOON).await;
    assert_eq!(now["status"]["uuid"], one["status"]["uuid"]);
    assert_eq!(orders(&world).await, 2, "the open one was found");
    judge(&world).await;
}

#[tokio::test]
async fn removed_key_keeps_working_and_can_return() {
    let world = World::start(cluster(), "takenout").await;
    let old = world.simulator.api_key().to_owned();
    world.create(&server("one")).await;
    world.wait_ready("one", SOON).await;
    let former = hash(&uses_another(&world, &Value::Null).await);
    let params = PatchParams::default();
    let gone = Patch::Merge(json!({"data": {"apiKey": null}}));
    let patched = world.secrets().patch("account-key", &params, &gone).await;
    patched.expect("the Secret is there");
    account_says(
        &world,
        "default",
        "CandidateAccepted",
        "False",
        "ReferenceNotFound",
    )
    .await;
    account_says(&world, "default", "Ready", "True", "Available").await;
    world.create(&server("two")).await;
    world.wait_ready("two", SOON).await;

    // The way back, and there and back again.
    world.write_key(&old).await;
    assert_eq!(hash(&no_candidate(&world).await), former);
    world.simulator.key(NEW, true).await;
    world.write_key(NEW).await;
    let next = hash(&uses_another(&world, &former).await);
    world.write_key(&old).await;
    uses_another(&world, &next).await;
    world.create(&server("three")).await;
    world.wait_ready("three", SOON).await;
    assert_eq!(refused(&world).await, Vec::<Value>::new());
    assert_eq!(orders(&world).await, 3);
    judge(&world).await;
}
