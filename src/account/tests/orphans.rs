//! Servers without an object, and the servers that identify an account.

use super::{
    provider::{name_hash, order_tag, server_json, uuid},
    rig::{Rig, account_uid, key},
};
use crate::runtime::clock;
use api::account::KnownServer;
use flexmetal_core::account::{orphan_scan::OrphanScanResult, recorded::RecordedServer};
use serde_json::json;
use std::time::Duration;

fn verdict(rig: &Rig) -> OrphanScanResult {
    rig.accounts
        .report(&key("default"), &[])
        .unwrap()
        .orphan_scan
}

fn found(rig: &Rig) -> Vec<String> {
    match verdict(rig) {
        OrphanScanResult::Found(orphans) => {
            let uuids = orphans.iter().map(|s| s.id.as_str().to_owned());
            uuids.collect()
        }
        OrphanScanResult::NotChecked => panic!("not checked"),
    }
}

async fn wait_for_complete_list(rig: &Rig) {
    let account = rig.resolve("default");
    let now = clock::now().mono;
    account.request_complete_list("x", now);
    rig.until("a listing", || {
        account.view().complete_list.is_some_and(|p| p.began >= now)
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn unclaimed_live_servers_are_orphans() {
    let (rig, account) = Rig::with_account().await;
    let mut retained = server_json(3, "delivered");
    retained["tags"]
        .as_array_mut()
        .unwrap()
        .push(json!("fmo-retained"));
    let mut stripped = server_json(6, "delivered");
    stripped["tags"] = json!([stripped["tags"][0]]);
    let mut foreign = server_json(7, "delivered");
    foreign["tags"] = json!(["fmo-cluster:ffffffffffffffff", order_tag(7)]);
    rig.provider.world().servers = vec![
        server_json(1, "delivered"),
        server_json(2, "provisioning"),
        retained,
        server_json(4, "failed"),
        server_json(5, "released"),
        stripped,
        foreign,
    ];
    rig.ready(&account).await;
    assert_eq!(
        verdict(&rig),
        OrphanScanResult::NotChecked,
        "not all namespaces are watched"
    );

    *rig.objects.name_hashes.lock().unwrap() = Some([name_hash(1)].into());
    wait_for_complete_list(&rig).await;
    assert_eq!(found(&rig), [uuid(2), uuid(6)]);
    let counts = rig.accounts.report(&key("default"), &[]).unwrap().counts;
    assert_eq!((counts.live, counts.retained), (4, 1));

    rig.objects
        .name_hashes
        .lock()
        .unwrap()
        .as_mut()
        .unwrap()
        .insert(name_hash(2));
    rig.provider.set_status(6, "releasing");
    wait_for_complete_list(&rig).await;
    assert!(found(&rig).is_empty());
}

#[tokio::test(start_paused = true)]
async fn periodic_scan_finds_an_orphan() {
    let rig = Rig::new().await;
    rig.install("default", "key-one", |_| {});
    rig.provider.world().servers = vec![server_json(1, "delivered")];
    *rig.objects.name_hashes.lock().unwrap() = Some([].into());
    tokio::time::sleep(Duration::from_secs(1801)).await;
    assert_eq!(found(&rig), [uuid(1)]);
}

#[tokio::test(start_paused = true)]
async fn list_without_known_servers_is_ignored() {
    let (rig, account) = Rig::with_account().await;
    *rig.objects.name_hashes.lock().unwrap() = Some([].into());
    rig.provider.world().servers = vec![server_json(1, "delivered")];
    rig.ready(&account).await;
    assert_eq!(found(&rig), [uuid(1)]);
    rig.configure("default", &account_uid("default"), None, |settings| {
        settings.known = vec![known(1)];
    });
    rig.provider.world().hidden = vec![uuid(1)];
    wait_for_complete_list(&rig).await;
    assert_eq!(found(&rig), [uuid(1)], "an empty list is not believed");
}

/// A list may lack servers that were just ordered, or be wrong. Nobody is asked to acknowledge that they are gone.
#[tokio::test(start_paused = true)]
async fn known_servers_are_lost_only_after_reads() {
    // More than a poll reads one by one. The last one is known, and is read first.
    const MISSING: usize = 30;
    let (rig, account) = Rig::with_account().await;
    rig.provider.world().servers = (1..=MISSING).map(|n| server_json(n, "delivered")).collect();
    rig.ready(&account).await;
    rig.configure("default", &account_uid("default"), None, |settings| {
        settings.known = vec![known(MISSING)];
    });
    let are_lost = || {
        let report = rig.accounts.report(&key("default"), &[known(MISSING)]);
        report.unwrap().are_known_lost
    };
    let read = format!("GET /v3/flexMetal/servers/{}", uuid(MISSING));
    let first_read = || {
        let calls = rig.provider.world().calls.clone();
        let mut calls = calls.into_iter();
        calls.find(|call| call.starts_with("GET /v3/flexMetal/servers/"))
    };
    rig.provider.world().hidden = (1..=MISSING).map(uuid).collect();
    rig.provider.world().calls.clear();
    wait_for_complete_list(&rig).await;
    assert!(!are_lost(), "not asked for yet");
    rig.until("a read", || first_read().is_some()).await;
    assert_eq!(first_read(), Some(read));
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(!are_lost(), "it was found");
    // A read that fails shows nothing.
    rig.provider.world().broken = vec![format!("/v3/flexMetal/servers/{}", uuid(MISSING))];
    wait_for_complete_list(&rig).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(!are_lost(), "it may exist");
    rig.provider.world().broken.clear();
    rig.provider.world().servers.clear();
    wait_for_complete_list(&rig).await;
    rig.until("no known server", are_lost).await;
}

fn known(number: usize) -> KnownServer {
    KnownServer {
        uuid: uuid(number),
        order_tag: order_tag(number),
        live: true,
    }
}

#[tokio::test(start_paused = true)]
async fn disowned_server_is_an_orphan() {
    let (rig, account) = Rig::with_account().await;
    rig.provider.world().servers = vec![server_json(1, "delivered"), server_json(2, "delivered")];
    *rig.objects.name_hashes.lock().unwrap() = Some([name_hash(1), name_hash(2)].into());
    rig.ready(&account).await;
    wait_for_complete_list(&rig).await;
    assert_eq!(found(&rig), Vec::<String>::new());
    rig.objects.disowned.lock().unwrap().insert(uuid(2));
    wait_for_complete_list(&rig).await;
    assert_eq!(found(&rig), [uuid(2)]);
}

/// Records these servers in objects.
fn record(rig: &Rig, numbers: impl IntoIterator<Item = usize>) {
    let recorded = |number| RecordedServer {
        uuid: uuid(number),
        name_hash: name_hash(number),
        live: true,
        account_id: None,
    };
    rig.objects.on_record.lock().unwrap().servers = numbers.into_iter().map(recorded).collect();
}

#[tokio::test(start_paused = true)]
async fn known_servers_are_stable_and_prefer_the_living() {
    let (rig, account) = Rig::with_account().await;
    rig.provider.world().servers = (1..=7).map(|n| server_json(n, "delivered")).collect();
    rig.ready(&account).await;
    let refreshed =
        |before: &[KnownServer]| rig.accounts.report(&key("default"), before).unwrap().known;
    record(&rig, [7]);
    assert_eq!(refreshed(&[]), [known(7)], "of others nothing is known");
    record(&rig, 1..=6);
    let first = refreshed(&[]);
    assert_eq!(first, [known(1), known(2), known(3)]);
    let others = [known(5), known(6), known(4)];
    assert_eq!(refreshed(&others), others, "no change without need");

    rig.provider.set_status(2, "released");
    wait_for_complete_list(&rig).await;
    assert_eq!(refreshed(&first), [known(1), known(3), known(4)]);

    // A list that shows none of them drops none of them.
    rig.provider.world().hidden = (1..=6).map(uuid).collect();
    wait_for_complete_list(&rig).await;
    assert_eq!(refreshed(&others), others);

    // A list that shows some of them drops the others.
    let gone = [known(90), known(5)];
    rig.provider.world().hidden.clear();
    wait_for_complete_list(&rig).await;
    assert_eq!(refreshed(&gone), [known(5), known(1), known(3)]);
}

#[tokio::test(start_paused = true)]
async fn known_server_gets_its_current_order_tag() {
    let (rig, account) = Rig::with_account().await;
    rig.provider.world().servers = vec![server_json(1, "delivered"), server_json(2, "released")];
    rig.ready(&account).await;
    record(&rig, 1..=2);
    let refreshed =
        |before: &[KnownServer]| rig.accounts.report(&key("default"), before).unwrap().known;
    let first = refreshed(&[]);
    assert_eq!((first[0].live, first[1].live), (true, false));
    // Another object adopts both: they have its order tag instead of the previous one.
    let taken_over = |number: usize, by: usize| KnownServer {
        uuid: uuid(number),
        order_tag: order_tag(by),
        live: number == 1,
    };
    for (place, by) in [(0, 21), (1, 22)] {
        rig.provider.world().servers[place]["tags"][1] = json!(order_tag(by));
    }
    wait_for_complete_list(&rig).await;
    let present = [taken_over(1, 21), taken_over(2, 22)];
    assert_eq!(refreshed(&first), present);
    assert_eq!(refreshed(&present), present);
    // A server that lost its tags is known by those it had.
    rig.provider.world().servers[0]["tags"] = json!([]);
    wait_for_complete_list(&rig).await;
    assert!(refreshed(&present).contains(&present[1]));
}
