//! Edits of an account's base URL, during an order and without one.

use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::{
    ACKNOWLEDGE, ORDER_TAG, SERVERS, SOON, build_acknowledgement, change_account, check_invariants,
    count_orders, find_pending_token, is_acknowledged, start_with_other_account, text,
    wait_account_condition, wait_stalled,
};
use lab::rig::{Fault, Simulator, World, condition, eventually, server};

async fn set_base_url(world: &World, account: &Simulator) {
    change_account(
        world,
        "default",
        &json!({"spec": {"baseURL": account.api()}}),
    )
    .await;
}

/// Waits until the account's status shows this URL. Returns its account ID.
async fn wait_for_account_id(world: &World, url: &str) -> String {
    eventually(&format!("the account is seen at {url}"), SOON, async || {
        let account = world.accounts().get("default").await.ok()?;
        let account: Value = serde_json::to_value(account).ok()?;
        let shown = account["status"]["verified"]["baseURL"].as_str()?;
        let same = shown.trim_end_matches('/') == url.trim_end_matches('/');
        same.then(|| account["status"]["accountID"].as_str().map(str::to_owned))?
    })
    .await
}

/// Waits until the account shows none of the recorded servers, and acknowledges it as a different account.
async fn acknowledge_new_account(world: &World) {
    let account =
        wait_account_condition(world, "default", "KeyAccepted", "False", "AccountChanged").await;
    let message = text(&condition(&account, "Ready").unwrap()["message"]);
    let token = find_pending_token(&account, "NewAccount").expect("it is asked for");
    assert!(message.contains(&token), "{message}");
    change_account(world, "default", &build_acknowledgement(&token)).await;
    let used = eventually("the token is used up", SOON, async || {
        let account = json!(world.accounts().get("default").await.ok()?);
        is_acknowledged(&account, &token).then_some(account)
    })
    .await;
    let annotations = &used["metadata"]["annotations"];
    assert_eq!(annotations[ACKNOWLEDGE], json!(token), "it is the user's");
}

async fn count_orders_at(account: &Simulator) -> u64 {
    let counts = account.counts().await;
    counts
        .get("POST /v3/flexMetal/servers")
        .copied()
        .unwrap_or(0)
}

/// Waits until the account has answered this many list requests.
async fn wait_for_lists_at(account: &Simulator, times: usize) {
    eventually(
        &format!("{times} listings of the other account"),
        SOON,
        async || {
            let ledger = account.ledger().await;
            let lists = ledger
                .iter()
                .filter(|call| call["method"] == "GET" && call["path"] == SERVERS);
            (lists.count() >= times).then_some(())
        },
    )
    .await;
}

#[tokio::test]
async fn other_account_confirms_no_order_absence() {
    let (world, other) = start_with_other_account("lineage").await;
    let previous = wait_for_account_id(&world, world.simulator.api()).await;
    // The order creates a server, its answer comes too late, and every read of the server fails.
    // The order's timeout leaves enough time for that.
    let late = json!({"delay": {"ms": 20_000, "before": false}});
    let lost = Fault::new(late).on("POST", SERVERS).times(1);
    let blind = Fault::new("dropBefore").on("GET", "/v3/flexMetal/servers*");
    world.simulator.fault(lost).await;
    eventually("the first listing is in", SOON, async || {
        let ledger = world.simulator.ledger().await;
        ledger
            .iter()
            .any(|call| call["path"] == SERVERS)
            .then_some(())
    })
    .await;
    world.create(&server("one")).await;
    eventually("the server is ordered", SOON, async || {
        (world.simulator.list_live_servers().await.len() == 1).then_some(())
    })
    .await;
    world.simulator.fault(blind).await;

    // The other account has servers of this cluster, so its lists count as complete.
    let tag = format!("{ORDER_TAG}{}", "f".repeat(52));
    let cluster_tag = format!("fmo-cluster:{}", world.cluster_id);
    other
        .appear(&json!({"name": "theirs", "tags": [cluster_tag, tag]}))
        .await;
    set_base_url(&world, &other).await;
    // While an order is recorded, another URL does not count as this account, and the operator orders nothing there.
    world.create(&server("two")).await;
    wait_stalled(&world, "two", "AccountChanged", &[]).await;
    assert_eq!(count_orders_at(&other).await, 0);
    acknowledge_new_account(&world).await;
    let renewed = wait_for_account_id(&world, other.api()).await;
    assert_ne!(
        renewed, previous,
        "nothing shows that it is the same account"
    );
    let words = [
        "Restore the former base URL and key",
        "set flexmetal.dev/acknowledge to ",
    ];
    wait_stalled(&world, "one", "OutcomeUnknown", &words).await;
    // An object without an order at the old account continues.
    world.wait_ready("two", SOON).await;
    let shown = other.ledger().await.len();
    wait_for_lists_at(&other, shown + 12).await;
    wait_stalled(&world, "one", "OutcomeUnknown", &words).await;
    assert_eq!(
        count_orders_at(&other).await,
        1,
        "only the order of the other object"
    );
    // The other account's lists do not confirm absence for a deleted object either.
    world.delete("one").await;
    wait_stalled(&world, "one", "OutcomeUnknown", &words).await;
    assert_eq!(world.simulator.list_live_servers().await.len(), 1);

    // The old URL gets a new account ID again, so its lists do not decide about the record.
    // After the acknowledgement as absent, the operator finds the server by its tag and releases it.
    world.delete("two").await;
    world.wait_gone("two", SOON).await;
    world.simulator.clear_faults().await;
    set_base_url(&world, &world.simulator).await;
    acknowledge_new_account(&world).await;
    let servers = world.servers();
    eventually("the object is gone", SOON, async || {
        let Some(object) = world.get("one").await else {
            return Some(());
        };
        if let Some(token) = find_pending_token(&object, "AssumeAbsent") {
            let given = Patch::Merge(build_acknowledgement(&token));
            // The object may be gone by now.
            let _ = servers.patch("one", &PatchParams::default(), &given).await;
        }
        None
    })
    .await;
    let provider_servers = world.simulator.list_servers().await;
    assert_eq!(provider_servers.len(), 1);
    assert_eq!(
        provider_servers[0]["status"], "released",
        "{provider_servers:?}"
    );
    assert_eq!(count_orders(&world).await, 1);
    check_invariants(&world).await;
}

#[tokio::test]
async fn an_ordinary_rotation_stays_ordinary() {
    let (world, other) = start_with_other_account("rotation").await;
    // A new account has no recorded servers.
    wait_for_account_id(&world, world.simulator.api()).await;
    set_base_url(&world, &other).await;
    let young = wait_for_account_id(&world, other.api()).await;
    world.create(&server("one")).await;
    world.wait_ready("one", SOON).await;
    assert_eq!(count_orders_at(&other).await, 1);
    // With a live server, only the same account is accepted.
    set_base_url(&world, &world.simulator).await;
    wait_account_condition(&world, "default", "KeyAccepted", "False", "AccountChanged").await;
    set_base_url(&world, &other).await;
    wait_account_condition(&world, "default", "KeyAccepted", "True", "InSync").await;
    assert_eq!(wait_for_account_id(&world, other.api()).await, young);
    // Without live servers nothing identifies the account.
    world.delete("one").await;
    world.wait_gone("one", SOON).await;
    eventually("no live server is recorded", SOON, async || {
        let account = world.accounts().get("default").await.ok()?;
        let account: Value = serde_json::to_value(account).ok()?;
        let known = account["status"]["records"]["knownServers"]
            .as_array()
            .cloned();
        let mut known = known.unwrap_or_default().into_iter();
        known
            .all(|provider_server| provider_server["live"] == false)
            .then_some(())
    })
    .await;
    set_base_url(&world, &world.simulator).await;
    assert_ne!(
        wait_for_account_id(&world, world.simulator.api()).await,
        young
    );
    world.create(&server("two")).await;
    world.wait_ready("two", SOON).await;
    assert_eq!(count_orders(&world).await, 1);
    check_invariants(&world).await;
}
