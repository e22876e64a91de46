//! The key of an account is replaced by the one in `apiKeyNext`, without one refused call; and what a next key that is of no
//! use, or comes after the key in use was revoked, does and does not do.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{ORDER_TAG, SERVERS, SOON, account_says, judge, orders, text};
use lab::rig::{Fault, World, cluster, condition, eventually, server};

const NEW: &str = "the-key-of-next-year";

/// Changes the entries of the key Secret.
async fn write(world: &World, entries: &Value) {
    let change = Patch::Merge(json!({ "stringData": entries }));
    patch(world, &change).await;
}

async fn patch(world: &World, change: &Patch<Value>) {
    let params = PatchParams::default();
    let patched = world.secrets().patch("account-key", &params, change).await;
    patched.expect("the Secret is there");
}

/// As the command in the account's message does it.
async fn move_next_key(world: &World) {
    let step = json!([{"op": "move", "from": "/data/apiKeyNext", "path": "/data/apiKey"}]);
    let step = serde_json::from_value(step).expect("a patch");
    patch(world, &Patch::Json(step)).await;
}

/// Waits until the account uses the key of this entry.
async fn uses(world: &World, entry: &str) -> Value {
    eventually(&format!("the key of {entry} is in use"), SOON, async || {
        let account = world.accounts().get("default").await.ok()?;
        let account: Value = serde_json::to_value(account).ok()?;
        let in_use = &account["status"]["keyInUse"]["entry"];
        (in_use == entry).then_some(account)
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
async fn a_key_is_rotated_under_load_without_one_refused_call() {
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
    world.simulator.key(NEW, true).await;
    write(&world, &json!({"apiKeyNext": NEW})).await;
    for name in &names[7..10] {
        world.create(&server(name)).await;
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    let account = uses(&world, "apiKeyNext").await;
    account_says(&world, "default", "NextKeyAccepted", "True", "KeyAccepted").await;
    let lineage = account["status"]["lineage"].clone();
    // Now, and not before, the former key may go.
    world.simulator.key(&old, false).await;
    let seen = world.simulator.ledger().await.len();
    for name in &names[10..13] {
        world.create(&server(name)).await;
    }
    for name in &names[3..13] {
        world.wait_ready(name, SOON).await;
    }

    move_next_key(&world).await;
    let account = uses(&world, "apiKey").await;
    assert_eq!(condition(&account, "NextKeyAccepted"), None, "{account:#}");
    assert_eq!(account["status"]["lineage"], lineage);
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
    assert_eq!(world.simulator.live_machines().await.len(), 15);
    judge(&world).await;
}

#[tokio::test]
async fn a_next_key_of_no_use_changes_nothing_and_is_told_once() {
    let world = World::start(cluster(), "wrongnext").await;
    world.create(&server("one")).await;
    world.wait_ready("one", SOON).await;
    uses(&world, "apiKey").await;
    let revoked = "a-key-of-last-year";
    world.simulator.key(revoked, false).await;
    write(&world, &json!({"apiKeyNext": revoked})).await;
    let account = account_says(&world, "default", "NextKeyAccepted", "False", "KeyRejected").await;
    let message = text(&condition(&account, "NextKeyAccepted").unwrap()["message"]);
    for words in [
        "\"apiKeyNext\"",
        "account-key",
        "the key in use stays",
        "kubectl ",
    ] {
        assert!(message.contains(words), "{words} is not in {message}");
    }
    assert!(!message.contains(revoked), "{message}");

    // It is tried again, later and later, and all that time nothing is written.
    let version = async || {
        let account = world.accounts().get("default").await.unwrap();
        assert_eq!(
            condition(&serde_json::to_value(&account).unwrap(), "Ready").unwrap()["status"],
            "True"
        );
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

    // The key of somebody else's account, which has machines of its own.
    world
        .simulator
        .add_account("others", "a-key-of-others")
        .await;
    write(&world, &json!({"apiKeyNext": "a-key-of-others"})).await;
    account_says(
        &world,
        "default",
        "NextKeyAccepted",
        "False",
        "AccountChanged",
    )
    .await;
    world.create(&server("three")).await;
    world.wait_ready("three", SOON).await;
    let paid = world.simulator.live_machines().await;
    assert_eq!(paid.len(), 3);

    let gone = Patch::Merge(json!({"data": {"apiKeyNext": null}}));
    patch(&world, &gone).await;
    eventually("nothing is said of it any more", SOON, async || {
        let account = world.accounts().get("default").await.ok()?;
        let account: Value = serde_json::to_value(account).ok()?;
        condition(&account, "NextKeyAccepted")
            .is_none()
            .then_some(account)
    })
    .await;
    uses(&world, "apiKey").await;
    // That the other account was asked for machines of this one is how the key was known to be another's.
    let report = world.simulator.invariants(ORDER_TAG).await;
    let violations = report["violations"].as_array().expect("a list").iter();
    let others: Vec<&Value> = violations
        .filter(|it| it["account"] != "others" || it["rule"] != "foreignResource")
        .collect();
    assert_eq!(others, Vec::<&Value>::new());
}

#[tokio::test]
async fn a_next_key_takes_over_from_a_revoked_one_while_an_order_is_open() {
    let world = World::start(cluster(), "revokednext").await;
    world.create(&server("one")).await;
    let one = world.wait_ready("one", SOON).await;
    uses(&world, "apiKey").await;
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
    write(&world, &json!({"apiKeyNext": NEW})).await;
    uses(&world, "apiKeyNext").await;
    account_says(&world, "default", "Ready", "True", "AccountReady").await;
    world.wait_ready("two", SOON).await;
    let now = world.wait_ready("one", SOON).await;
    assert_eq!(now["status"]["uuid"], one["status"]["uuid"]);
    assert_eq!(orders(&world).await, 2, "the open one was found");
    judge(&world).await;
}

#[tokio::test]
async fn a_next_key_alone_is_enough() {
    let mut world = World::start(cluster(), "nextalone").await;
    world.create(&server("one")).await;
    world.wait_ready("one", SOON).await;
    uses(&world, "apiKey").await;
    world.simulator.key(NEW, true).await;
    let alone = json!({"data": {"apiKey": null}, "stringData": {"apiKeyNext": NEW}});
    patch(&world, &Patch::Merge(alone)).await;
    uses(&world, "apiKeyNext").await;
    account_says(&world, "default", "NextKeyAccepted", "True", "KeyAccepted").await;
    account_says(&world, "default", "Ready", "True", "AccountReady").await;
    world.simulator.key(world.simulator.api_key(), false).await;
    // The next process knows which one it was.
    world.operator().restart();
    world.create(&server("two")).await;
    world.wait_ready("two", SOON).await;
    move_next_key(&world).await;
    uses(&world, "apiKey").await;
    assert_eq!(refused(&world).await, Vec::<Value>::new());
    assert_eq!(orders(&world).await, 2);
    judge(&world).await;
}

#[tokio::test]
async fn a_key_that_is_taken_out_while_it_is_in_use_stays_until_the_other_one_works() {
    let world = World::start(cluster(), "takenout").await;
    let old = world.simulator.api_key().to_owned();
    world.create(&server("one")).await;
    world.wait_ready("one", SOON).await;
    uses(&world, "apiKey").await;
    world.simulator.key(NEW, true).await;
    write(&world, &json!({"apiKeyNext": NEW})).await;
    uses(&world, "apiKeyNext").await;

    // The way back is taken too early: the former key is refused meanwhile.
    world.simulator.key(&old, false).await;
    let gone = Patch::Merge(json!({"data": {"apiKeyNext": null}}));
    patch(&world, &gone).await;
    let account = account_says(&world, "default", "NextKeyAccepted", "False", "KeyRejected").await;
    let message = text(&condition(&account, "NextKeyAccepted").unwrap()["message"]);
    assert!(message.contains("entry \"apiKey\" of"), "{message}");
    account_says(&world, "default", "Ready", "True", "AccountReady").await;
    world.create(&server("two")).await;
    world.wait_ready("two", SOON).await;

    world.simulator.key(&old, true).await;
    let account = uses(&world, "apiKey").await;
    assert_eq!(condition(&account, "NextKeyAccepted"), None, "{account:#}");
    // It was never refused, so it is tried again where it is put back.
    write(&world, &json!({"apiKeyNext": NEW})).await;
    uses(&world, "apiKeyNext").await;
    world.create(&server("three")).await;
    world.wait_ready("three", SOON).await;
    assert_eq!(orders(&world).await, 3);
    judge(&world).await;
}
