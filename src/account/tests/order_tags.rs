//! Removal of order tags that no object needs, and of no others.

use super::{
    provider::{self, name_hash, server_json, uuid},
    rig::Rig,
};
use crate::runtime::clock;
use api::{ManagementPolicy, policies::Policies};
use flexmetal_core::account::{
    recorded::{OpenOrder, RecordedServer},
    view::AccountState,
};
use serde_json::{Value, json};
use std::{sync::atomic::Ordering, time::Duration};
use tokio::time::sleep;

const DAY: i64 = 86_400;
/// The time between two scans, with some margin.
const SCAN: Duration = Duration::from_secs(1860);

/// The order tag of the object with this number, from so many seconds ago.
fn ordered(number: usize, ago: i64) -> String {
    provider::ordered(number, clock::now().wall - ago)
}

/// An open order of that object.
fn open_order(number: usize) -> OpenOrder {
    OpenOrder {
        name_hash: name_hash(number),
        seq: 1,
        account_id: "11111111aaaa".to_owned(),
    }
}

fn shown(tag: &str, count: usize) -> Value {
    json!({"tag": tag, "resources": {"count": count, "flexMetalServers": {"count": count}}})
}

/// Sets the account's tags, which by their counts no server has.
fn list(rig: &Rig, tags: &[String]) {
    rig.provider.world().tags = tags.iter().map(|tag| shown(tag, 0)).collect();
}

/// A released server of the cluster with this tag.
fn released(number: usize, tag: &str) -> Value {
    let mut released = server_json(number, "released");
    released["tags"][1] = json!(tag);
    released
}

/// The tags that the account still has.
fn left(rig: &Rig) -> Vec<String> {
    let world = rig.provider.world();
    let tags = world.tags.iter().map(|tag| tag["tag"].as_str().unwrap());
    tags.map(str::to_owned).collect()
}

/// How often the tags were listed to an empty page since this was last asked.
fn lists(rig: &Rig) -> usize {
    let calls = rig.provider.calls();
    let pages = calls.iter().filter(|c| *c == "GET /v3/flexMetal/tags");
    pages.count()
}

#[tokio::test(start_paused = true)]
async fn scan_removes_at_most_fifty_order_tags() {
    let (rig, account) = Rig::with_account().await;
    let (young, borne) = (ordered(1, DAY - 3600), ordered(2, 2 * DAY));
    let (server, open) = (ordered(3, 3 * DAY), ordered(4, 3 * DAY));
    let kept = [young, borne.clone(), server, open, "web".to_owned()];
    let unneeded = (0..70).map(|n| ordered(100 + n, 2 * DAY));
    let all: Vec<String> = kept.iter().cloned().chain(unneeded).collect();
    list(&rig, &all);
    let mut failed = server_json(2, "failed");
    failed["tags"][1] = json!(borne);
    let over = all.iter().skip(kept.len()).enumerate();
    let over = over.map(|(n, tag)| released(100 + n, tag));
    rig.provider.world().servers = [failed].into_iter().chain(over).collect();
    let recorded = RecordedServer {
        uuid: uuid(3),
        name_hash: name_hash(3),
        live: true,
        account_id: None,
    };
    {
        let mut on_record = rig.objects.on_record.lock().unwrap();
        on_record.servers.push(recorded);
        on_record.open_orders.push(open_order(4));
    }
    rig.ready(&account).await;
    assert_eq!(left(&rig).len(), 75, "the first scan serves the objects");
    sleep(SCAN).await;
    assert_eq!(left(&rig).len(), 25, "fifty at most");
    sleep(SCAN).await;
    assert_eq!(left(&rig), kept);

    // Tags that are old enough tomorrow need no list today.
    lists(&rig);
    sleep(20 * SCAN).await;
    assert_eq!(lists(&rig), 0);
    sleep(30 * SCAN).await;
    assert!(lists(&rig) > 0);
    assert_eq!(left(&rig), kept);
}

#[tokio::test(start_paused = true)]
async fn no_order_tag_leaves_that_another_cluster_needs() {
    let (one, account) = Rig::with_account().await;
    let other = Rig::of_cluster("ffffffffffffffff", one.provider.clone());
    // Each cluster has an old server, and does not know what the other one recorded.
    let of_one = ordered(1, 9 * DAY);
    let of_other = ordered(2, 9 * DAY);
    let open = ordered(3, DAY / 2);
    let unneeded = ordered(4, 9 * DAY);
    list(
        &one,
        &[&of_one, &of_other, &open, &unneeded].map(Clone::clone),
    );
    let mut servers = vec![server_json(1, "delivered"), server_json(2, "delivered")];
    servers[0]["tags"][1] = json!(of_one);
    servers[1]["tags"] = json!(["fmo-cluster:ffffffffffffffff", of_other]);
    servers.push(released(4, &unneeded));
    one.provider.world().servers = servers;
    other
        .objects
        .on_record
        .lock()
        .unwrap()
        .open_orders
        .push(open_order(3));
    other.install("default", "key-two", |_| {});
    one.ready(&account).await;
    sleep(2 * SCAN).await;
    assert_eq!(left(&one), [of_one, of_other, open]);
}

#[tokio::test(start_paused = true)]
async fn no_order_tag_is_removed_when_unsafe() {
    let observed = Policies {
        management_policy: Some(ManagementPolicy::ObserveOnly),
        ..Policies::default()
    };
    for case in 0..4 {
        let rig = Rig::new().await;
        rig.objects.unlisted.store(case == 0, Ordering::Relaxed);
        rig.install("default", "key-one", |settings| match case {
            1 => settings.defaults = Some(observed),
            2 => settings.account_id = None,
            _ => {}
        });
        let unneeded = [ordered(1, 9 * DAY)];
        list(&rig, &unneeded);
        rig.provider.world().servers = vec![released(1, &unneeded[0])];
        if case == 3 {
            rig.provider.world().forbidden = Some("/v3/flexMetal/tags".into());
        }
        sleep(2 * SCAN).await;
        assert_eq!(left(&rig), unneeded, "case {case}");
        let account = rig.resolve("default");
        assert_eq!(
            account.view().state,
            AccountState::Usable,
            "the key is good"
        );
    }
}
