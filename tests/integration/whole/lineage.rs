//! A base URL that is edited, in the middle of an order and outside of one.

use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::{
    ACKNOWLEDGE, ORDER_TAG, SERVERS, SOON, account_says, acknowledging, change_account,
    is_acknowledged, judge, orders, pending, stuck, text, with_other_account,
};
use lab::rig::{Fault, Simulator, World, condition, eventually, server};

async fn lead_to(world: &World, account: &Simulator) {
    change_account(
        world,
        "default",
        &json!({"spec": {"baseURL": account.api()}}),
    )
    .await;
}

/// Waits until the account's status says that it was seen at this URL; returns its lineage.
async fn seen_at(world: &World, url: &str) -> String {
    eventually(&format!("the account is seen at {url}"), SOON, async || {
        let account = world.accounts().get("default").await.ok()?;
        let account: Value = serde_json::to_value(account).ok()?;
        let shown = account["status"]["verified"]["baseURL"].as_str()?;
        let same = shown.trim_end_matches('/') == url.trim_end_matches('/');
        same.then(|| account["status"]["accountID"].as_str().map(str::to_owned))?
    })
    .await
}

/// The account shows none of what is on record: a user acknowledges that it is another one.
async fn is_meant(world: &World) {
    let account = account_says(world, "default", "KeyAccepted", "False", "AccountChanged").await;
    let message = text(&condition(&account, "Ready").unwrap()["message"]);
    let token = pending(&account, "NewAccount").expect("it is asked for");
    assert!(message.contains(&token), "{message}");
    change_account(world, "default", &acknowledging(&token)).await;
    let used = eventually("the token is used up", SOON, async || {
        let account = json!(world.accounts().get("default").await.ok()?);
        is_acknowledged(&account, &token).then_some(account)
    })
    .await;
    let annotations = &used["metadata"]["annotations"];
    assert_eq!(annotations[ACKNOWLEDGE], json!(token), "it is the user's");
}

async fn orders_at(account: &Simulator) -> u64 {
    let counts = account.counts().await;
    counts
        .get("POST /v3/flexMetal/servers")
        .copied()
        .unwrap_or(0)
}

/// Listings that the account has answered since.
async fn listings_at(account: &Simulator, times: usize) {
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
    let (world, other) = with_other_account("lineage").await;
    let former = seen_at(&world, world.simulator.api()).await;
    // The machine is made, its answer comes too late, and every look at it is lost. The order's time-out leaves room to see to
    // that.
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
    eventually("the machine is made", SOON, async || {
        (world.simulator.list_live_servers().await.len() == 1).then_some(())
    })
    .await;
    world.simulator.fault(blind).await;

    // The other account holds machines of this cluster, so its listings have a control.
    let tag = format!("{ORDER_TAG}{}", "f".repeat(52));
    let mark = format!("fmo-cluster:{}", world.cluster_id);
    other
        .appear(&json!({"name": "theirs", "tags": [mark, tag]}))
        .await;
    lead_to(&world, &other).await;
    // With an order on record another URL is no account yet, and nothing is done there.
    world.create(&server("two")).await;
    stuck(&world, "two", "AccountChanged", &[]).await;
    assert_eq!(orders_at(&other).await, 0);
    is_meant(&world).await;
    let renewed = seen_at(&world, other.api()).await;
    assert_ne!(renewed, former, "nothing shows that it is the same account");
    let words = [
        "Restore the former base URL and key",
        "set flexmetal.dev/acknowledge to ",
    ];
    stuck(&world, "one", "OutcomeUnknown", &words).await;
    // An order that has no past there goes on.
    world.wait_ready("two", SOON).await;
    let shown = other.ledger().await.len();
    listings_at(&other, shown + 12).await;
    stuck(&world, "one", "OutcomeUnknown", &words).await;
    assert_eq!(
        orders_at(&other).await,
        1,
        "only the order of the other object"
    );
    // A deleted one is not let go on that either.
    world.delete("one").await;
    stuck(&world, "one", "OutcomeUnknown", &words).await;
    assert_eq!(world.simulator.list_live_servers().await.len(), 1);

    // Back where it went it is another account ID once more, so the record still decides nothing. Acknowledged as absent, the
    // machine is found by its tag all the same, and released.
    world.delete("two").await;
    world.wait_gone("two", SOON).await;
    world.simulator.clear_faults().await;
    lead_to(&world, &world.simulator).await;
    is_meant(&world).await;
    let servers = world.servers();
    eventually("the object is gone", SOON, async || {
        let Some(object) = world.get("one").await else {
            return Some(());
        };
        if let Some(token) = pending(&object, "AssumeAbsent") {
            let given = Patch::Merge(acknowledging(&token));
            // It may be gone by now.
            let _ = servers.patch("one", &PatchParams::default(), &given).await;
        }
        None
    })
    .await;
    let machines = world.simulator.list_servers().await;
    assert_eq!(machines.len(), 1);
    assert_eq!(machines[0]["status"], "released", "{machines:?}");
    assert_eq!(orders(&world).await, 1);
    judge(&world).await;
}

#[tokio::test]
async fn an_ordinary_rotation_stays_ordinary() {
    let (world, other) = with_other_account("rotation").await;
    // On a young account nothing is on record.
    seen_at(&world, world.simulator.api()).await;
    lead_to(&world, &other).await;
    let young = seen_at(&world, other.api()).await;
    world.create(&server("one")).await;
    world.wait_ready("one", SOON).await;
    assert_eq!(orders_at(&other).await, 1);
    // With a live machine only the same account is taken.
    lead_to(&world, &world.simulator).await;
    account_says(&world, "default", "KeyAccepted", "False", "AccountChanged").await;
    lead_to(&world, &other).await;
    account_says(&world, "default", "KeyAccepted", "True", "InSync").await;
    assert_eq!(seen_at(&world, other.api()).await, young);
    // Scaled to zero it has nothing to show any more.
    world.delete("one").await;
    world.wait_gone("one", SOON).await;
    eventually("no live machine is remembered", SOON, async || {
        let account = world.accounts().get("default").await.ok()?;
        let account: Value = serde_json::to_value(account).ok()?;
        let known = account["status"]["records"]["knownServers"]
            .as_array()
            .cloned();
        let mut known = known.unwrap_or_default().into_iter();
        known.all(|machine| machine["live"] == false).then_some(())
    })
    .await;
    lead_to(&world, &world.simulator).await;
    assert_ne!(seen_at(&world, world.simulator.api()).await, young);
    world.create(&server("two")).await;
    world.wait_ready("two", SOON).await;
    assert_eq!(orders(&world).await, 1);
    judge(&world).await;
}
