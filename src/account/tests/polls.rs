//! How polls update the snapshot, and how many calls they take.

use super::{
    provider::{name_hash, order_tag, server_json, uuid},
    rig::{Rig, caller, order, permit, reserve},
};
use crate::{account::EnqueueTarget, runtime::clock};
use api::Reason;
use flexmetal_core::account::{
    priority::Priority,
    view::{AccountState, ListKind},
};
use hosting_types::{Error, OrderResult, ServerId};
use std::time::Duration;
use tokio::time::sleep;

const TAGS: &str = "GET /v3/flexMetal/tags";
const LIST: &str = "GET /v3/flexMetal/servers";
const DELIVERED: &str = "GET /v3/flexMetal/servers delivered";

fn count(calls: &[String], which: &str) -> usize {
    calls.iter().filter(|c| *c == which).count()
}

#[tokio::test(start_paused = true)]
async fn an_account_that_nobody_uses_makes_one_call() {
    let rig = Rig::new().await;
    rig.install("default", "key-one", |_| {});
    sleep(Duration::from_secs(600)).await;
    assert_eq!(rig.provider.calls(), ["GET /v3/flexMetal/quota/usage"]);
}

#[tokio::test(start_paused = true)]
async fn the_first_use_makes_the_first_listing() {
    let (rig, account) = Rig::with_account().await;
    assert!(matches!(
        account.view().state,
        AccountState::Blocked(Reason::Pending, _)
    ));
    rig.ready(&account).await;
    assert_eq!(rig.provider.calls(), [LIST]);
    let all = EnqueueTarget::Account(account.key().clone());
    assert!(rig.enqueued().contains(&all));
}

#[tokio::test(start_paused = true)]
async fn poll_of_120_servers_needs_three_calls() {
    let (rig, account) = Rig::with_account().await;
    rig.provider.world().servers = (0..120).map(|n| server_json(n, "delivered")).collect();
    rig.ready(&account).await;
    // Pages of 50, 50, 22, and the empty one.
    assert_eq!(rig.provider.calls(), [LIST; 4]);
    rig.enqueued();
    rig.until("a poll", || !rig.provider.world().calls.is_empty())
        .await;
    sleep(Duration::from_secs(5)).await;
    assert_eq!(rig.provider.calls(), [DELIVERED; 3]);
    assert!(
        rig.enqueued().is_empty(),
        "nothing changed, so nobody is woken"
    );
}

#[tokio::test(start_paused = true)]
async fn a_quiet_hour_stays_within_the_budget() {
    let (rig, account) = Rig::with_account().await;
    rig.provider.world().servers = (0..120).map(|n| server_json(n, "delivered")).collect();
    rig.ready(&account).await;
    rig.provider.calls();
    rig.enqueued();
    sleep(Duration::from_secs(3600)).await;
    let calls = rig.provider.calls();
    // Twelve polls of three calls; jitter may make fifteen of them. Two orphan scans of four calls, and the tags once a
    // day.
    assert!(
        count(&calls, DELIVERED) <= 45,
        "{}",
        count(&calls, DELIVERED)
    );
    assert!(count(&calls, DELIVERED) >= 27);
    assert!((4..=8).contains(&count(&calls, LIST)));
    assert_eq!(count(&calls, TAGS), 1);
    assert_eq!(
        calls.len(),
        count(&calls, DELIVERED) + count(&calls, LIST) + 1
    );
    assert!(rig.enqueued().is_empty());
}

#[tokio::test(start_paused = true)]
async fn empty_account_runs_only_orphan_scans() {
    let (rig, account) = Rig::with_account().await;
    rig.ready(&account).await;
    rig.provider.calls();
    sleep(Duration::from_secs(3700)).await;
    // Each scan lists the cluster's servers, then all servers to count those of others. The first of a day lists all
    // tags, too.
    assert_eq!(rig.provider.calls(), [LIST, TAGS, LIST, LIST, LIST]);
}

#[tokio::test(start_paused = true)]
async fn pending_server_is_read_until_delivered() {
    let (rig, account) = Rig::with_account().await;
    rig.ready(&account).await;
    let permit = reserve(&account, &name_hash(1)).await.unwrap();
    let outcome = account
        .order(permit, &order(&order_tag(1)), &order_tag(1))
        .await;
    assert!(matches!(outcome, OrderResult::Created(_)));
    let seen = account.find_servers(&name_hash(1));
    assert_eq!(seen.len(), 1, "known at once");
    assert!(
        rig.enqueued()
            .contains(&EnqueueTarget::NameHash(name_hash(1)))
    );
    rig.provider.calls();

    sleep(Duration::from_secs(300)).await;
    let calls = rig.provider.calls();
    let read = format!("{LIST}/{}", seen[0].server.id);
    assert!((32..=52).contains(&count(&calls, &read)), "{calls:?}");
    assert_eq!(
        calls.len(),
        count(&calls, &read),
        "no listing for one machine"
    );

    rig.enqueued();
    rig.provider.set_status(1000, "delivered");
    rig.provider.world().servers[0]["ipAddresses"] =
        serde_json::json!([{"ipAddress": "192.0.2.7"}]);
    rig.until("delivery", || {
        account.find_servers(&name_hash(1))[0]
            .server
            .status
            .as_str()
            == "delivered"
    })
    .await;
    assert!(
        rig.enqueued()
            .contains(&EnqueueTarget::NameHash(name_hash(1)))
    );
    rig.provider.calls();
    sleep(Duration::from_secs(200)).await;
    // The last complete list may be as old as the idle interval.
    let calls = rig.provider.calls();
    assert_eq!(calls.len(), count(&calls, DELIVERED), "{calls:?}");
    assert!(calls.len() <= 1, "slow again: {calls:?}");
}

#[tokio::test(start_paused = true)]
async fn many_pending_servers_are_read_by_one_list() {
    let (rig, account) = Rig::with_account().await;
    rig.provider.world().servers = (0..60).map(|n| server_json(n, "provisioning")).collect();
    rig.ready(&account).await;
    rig.provider.calls();
    sleep(Duration::from_secs(37)).await;
    assert_eq!(rig.provider.calls(), [LIST; 3]);
}

/// Thirty servers, all delivered but these pending ones, and some released ones.
async fn pending(numbers: std::ops::Range<usize>, released: usize) -> Rig {
    let (rig, account) = Rig::with_account().await;
    let status = |n| {
        if numbers.contains(&n) {
            "provisioning"
        } else {
            "delivered"
        }
    };
    let mut servers: Vec<_> = (0..30).map(|n| server_json(n, status(n))).collect();
    servers.extend((100..100 + released).map(|n| server_json(n, "released")));
    rig.provider.world().servers = servers;
    rig.ready(&account).await;
    rig.provider.calls();
    rig
}

/// How often this server was read.
fn reads(calls: &[String], number: usize) -> usize {
    count(calls, &format!("{LIST}/{}", uuid(number)))
}

#[tokio::test(start_paused = true)]
async fn few_pending_servers_are_read_more_often() {
    let rig = pending(0..3, 0).await;
    sleep(Duration::from_secs(150)).await;
    let calls = rig.provider.calls();
    for number in 0..3 {
        assert!((16..=26).contains(&reads(&calls, number)), "{calls:?}");
    }
    let all = (0..3).map(|number| reads(&calls, number)).sum::<usize>();
    assert_eq!(calls.len(), all, "nothing else is read");
}

#[tokio::test(start_paused = true)]
async fn pending_reads_use_the_fewest_calls() {
    // A list of thirty takes two calls.
    let rig = pending(0..4, 0).await;
    sleep(Duration::from_secs(37)).await;
    assert_eq!(rig.provider.calls(), [LIST; 2]);
    // Released servers make the list longer than the reads of four.
    let rig = pending(0..4, 200).await;
    sleep(Duration::from_secs(37)).await;
    let calls = rig.provider.calls();
    assert_eq!(calls.len(), 4, "{calls:?}");
    assert!((0..4).all(|number| reads(&calls, number) == 1), "{calls:?}");
}

#[tokio::test(start_paused = true)]
async fn server_pending_for_an_hour_is_read_rarely() {
    let rig = pending(0..1, 0).await;
    sleep(Duration::from_secs(3650)).await;
    rig.provider.calls();
    sleep(Duration::from_secs(3600)).await;
    let calls = rig.provider.calls();
    assert!((9..=20).contains(&reads(&calls, 0)), "{calls:?}");
    // It does not slow down other servers.
    rig.provider.set_status(1, "releasing");
    sleep(Duration::from_secs(400)).await;
    rig.provider.calls();
    sleep(Duration::from_secs(150)).await;
    let calls = rig.provider.calls();
    assert!((16..=26).contains(&reads(&calls, 1)), "{calls:?}");
    assert!(reads(&calls, 0) <= 1, "{calls:?}");
}

#[tokio::test(start_paused = true)]
async fn unlisted_server_is_dropped_only_on_404() {
    let (rig, account) = Rig::with_account().await;
    rig.provider.world().servers = (0..20).map(|n| server_json(n, "delivered")).collect();
    rig.ready(&account).await;
    rig.enqueued();
    rig.provider.world().hidden = vec![uuid(3)];
    sleep(Duration::from_secs(400)).await;
    assert_eq!(
        account.find_servers(&name_hash(3)).len(),
        1,
        "hidden is not gone"
    );
    assert!(rig.enqueued().is_empty());

    rig.provider.world().servers.remove(4);
    sleep(Duration::from_secs(400)).await;
    assert!(account.find_servers(&name_hash(4)).is_empty());
    assert_eq!(rig.enqueued(), [EnqueueTarget::NameHash(name_hash(4))]);
}

#[tokio::test(start_paused = true)]
async fn a_falsely_empty_list_loses_nothing() {
    let (rig, account) = Rig::with_account().await;
    rig.provider.world().servers = (0..30).map(|n| server_json(n, "delivered")).collect();
    rig.ready(&account).await;
    rig.enqueued();
    rig.provider.calls();
    rig.provider.world().hidden = (0..30).map(uuid).collect();
    sleep(Duration::from_secs(400)).await;
    for n in 0..30 {
        assert_eq!(account.find_servers(&name_hash(n)).len(), 1);
    }
    assert!(
        !rig.enqueued()
            .iter()
            .any(|w| matches!(w, EnqueueTarget::NameHash(_)))
    );
    // One list of all servers, and no more than ten single reads.
    let calls = rig.provider.calls();
    assert!(calls.len() <= 2 * 12, "{calls:?}");
}

#[tokio::test(start_paused = true)]
async fn requested_lists_are_merged_and_on_time() {
    let (rig, account) = Rig::with_account().await;
    rig.ready(&account).await;
    rig.provider.calls();
    rig.enqueued();
    let now = clock::now().mono;
    account.request_complete_list(&name_hash(1), now + Duration::from_secs(60));
    account.request_complete_list(&name_hash(2), now + Duration::from_secs(60));
    sleep(Duration::from_secs(59)).await;
    assert!(rig.provider.calls().is_empty());
    sleep(Duration::from_secs(2)).await;
    assert_eq!(rig.provider.calls(), [LIST]);
    let mut enqueued = rig.enqueued();
    enqueued.sort_by_key(|w| format!("{w:?}"));
    assert_eq!(
        enqueued,
        [
            EnqueueTarget::NameHash(name_hash(1)),
            EnqueueTarget::NameHash(name_hash(2))
        ]
    );
    let complete_list = account.view().complete_list.unwrap();
    assert!(complete_list.began >= now + Duration::from_secs(60));

    account.request_complete_list(&name_hash(3), complete_list.began);
    assert_eq!(
        rig.enqueued(),
        [EnqueueTarget::NameHash(name_hash(3))],
        "it is there already"
    );
}

#[tokio::test(start_paused = true)]
async fn a_read_that_was_overtaken_changes_nothing() {
    let (rig, account) = Rig::with_account().await;
    rig.provider.world().servers = vec![server_json(1, "delivered")];
    rig.ready(&account).await;
    let id = ServerId::parse(&uuid(1)).unwrap();
    let mut permit = permit(&account, Priority::Release, 1).await.unwrap();
    let released = permit.call(async |c| c.release(&id).await).await.unwrap();
    let released = permit.record_server(released);
    assert_eq!(released.status.as_str(), "releasing");
    assert_eq!(
        account.find_server(&id).unwrap().server.status.as_str(),
        "releasing"
    );
    rig.provider.set_status(1, "released");
    rig.until("the end", || {
        account.find_server(&id).unwrap().server.status.as_str() == "released"
    })
    .await;
    rig.provider.calls();
    // A released server is not read any more.
    sleep(Duration::from_secs(1000)).await;
    assert!(rig.provider.calls().is_empty());
}

#[tokio::test(start_paused = true)]
async fn untagged_server_is_polled_until_released() {
    let (rig, account) = Rig::with_account().await;
    let mut untagged = server_json(1, "delivered");
    untagged["tags"] = serde_json::json!([order_tag(1)]);
    rig.provider.world().servers = vec![untagged];
    rig.ready(&account).await;
    let id = ServerId::parse(&uuid(1)).unwrap();
    for is_overtaken in [false, true] {
        rig.provider.set_status(1, "delivered");
        let mut permit = permit(&account, Priority::Release, 4).await.unwrap();
        permit.read_server(&id).await.unwrap();
        rig.provider.set_status(1, "releasing");
        // Either the answer shows the status, or a read that was faster.
        let releasing = permit.call(async |client| client.server(&id).await).await;
        if is_overtaken {
            permit.record_server(releasing.as_ref().unwrap().clone());
        }
        permit.record_release(&id, &releasing);
        drop(permit);
        rig.provider.calls();
        sleep(Duration::from_secs(60)).await;
        assert!(reads(&rig.provider.calls(), 1) > 0, "{is_overtaken}");
    }
}

#[tokio::test(start_paused = true)]
async fn read_404_removes_server_from_snapshot() {
    let (rig, account) = Rig::with_account().await;
    rig.provider.world().servers = vec![server_json(1, "delivered")];
    rig.ready(&account).await;
    rig.provider.world().servers.clear();
    let id = ServerId::parse(&uuid(1)).unwrap();
    let mut permit = permit(&account, Priority::Resolve, 1).await.unwrap();
    let answer = permit.read_server(&id).await;
    assert!(matches!(answer, Err(Error::NotFound(_))));
    assert!(account.find_server(&id).is_none());
}

#[tokio::test(start_paused = true)]
async fn lasting_outage_is_shown_until_it_ends() {
    let (rig, account) = Rig::with_account().await;
    rig.provider.world().servers = vec![server_json(1, "provisioning")];
    rig.ready(&account).await;
    rig.enqueued();
    rig.provider.world().down = true;
    rig.until("the outage", || account.view().last_error.is_some())
        .await;
    let view = account.view();
    assert_eq!(view.state, AccountState::Usable, "objects keep their state");
    assert_eq!(view.last_error.unwrap().0, Reason::ProviderUnreachable);
    assert!(
        rig.enqueued()
            .contains(&EnqueueTarget::Account(account.key().clone()))
    );
    rig.provider.calls();
    sleep(Duration::from_secs(600)).await;
    assert!(rig.provider.calls().len() <= 16, "it backs off");
    assert!(
        account
            .find_server(&ServerId::parse(&uuid(1)).unwrap())
            .is_some()
    );
    rig.provider.world().down = false;
    rig.until("the end of it", || account.view().last_error.is_none())
        .await;
}

#[tokio::test(start_paused = true)]
async fn an_outage_from_the_start_is_named() {
    let rig = Rig::new().await;
    rig.provider.world().down = true;
    rig.install("default", "key-one", |_| {});
    let account = rig.resolve("default");
    rig.until("a reason", || {
        matches!(
            account.view().state,
            AccountState::Blocked(Reason::ProviderUnreachable, _)
        )
    })
    .await;
    rig.provider.world().down = false;
    rig.ready(&account).await;
}

#[tokio::test(start_paused = true)]
async fn catalogue_is_read_on_request() {
    let (rig, account) = Rig::with_account().await;
    rig.ready(&account).await;
    rig.provider.calls();
    rig.enqueued();
    let now = clock::now().mono;
    for n in 0..50 {
        account.request_list(ListKind::Catalogue, now, &caller(&format!("o{n}")));
    }
    rig.until("the catalogue", || account.view().catalogue.is_some())
        .await;
    assert_eq!(rig.provider.calls().len(), 4);
    let enqueued = rig.enqueued();
    assert_eq!(
        enqueued.len(),
        51,
        "those who wait, and whoever looks at it"
    );
    assert!(enqueued.contains(&EnqueueTarget::List(
        account.key().clone(),
        ListKind::Catalogue
    )));
    account.request_list(ListKind::Catalogue, now, &caller("o1"));
    sleep(Duration::from_secs(200)).await;
    assert!(rig.provider.calls().is_empty(), "there is one already");
}

#[tokio::test(start_paused = true)]
async fn retry_after_of_server_error_is_honoured() {
    let (rig, account) = Rig::with_account().await;
    rig.provider.world().servers = vec![server_json(1, "provisioning")];
    rig.ready(&account).await;
    rig.provider.world().failing = true;
    let id = ServerId::parse(&uuid(1)).unwrap();
    let mut first = permit(&account, Priority::Poll, 1).await.unwrap();
    let answer = first.read_server(&id).await;
    assert!(matches!(answer, Err(Error::Server(_))));
    let failed = clock::now().mono;
    rig.provider.world().failing = false;
    let mut second = permit(&account, Priority::Release, 1).await.unwrap();
    second.read_server(&id).await.unwrap();
    assert!(clock::now().mono >= failed + Duration::from_millis(6990));
}

#[tokio::test(start_paused = true)]
async fn rate_limited_answer_pauses_all_calls() {
    let (rig, account) = Rig::with_account().await;
    rig.provider.world().servers = vec![server_json(1, "provisioning")];
    rig.ready(&account).await;
    rig.provider.world().busy = true;
    let id = ServerId::parse(&uuid(1)).unwrap();
    let mut first = permit(&account, Priority::Poll, 1).await.unwrap();
    let answer = first.read_server(&id).await;
    assert!(matches!(answer, Err(Error::RateLimited { .. })));
    let refused = clock::now().mono;
    rig.provider.world().busy = false;
    let mut second = permit(&account, Priority::Release, 1).await.unwrap();
    second.call(async |c| c.release(&id).await).await.unwrap();
    assert!(clock::now().mono >= refused + Duration::from_millis(6990));

    rig.provider.world().busy = true;
    rig.until("the reason", || account.view().last_error.is_some())
        .await;
    assert_eq!(account.view().last_error.unwrap().0, Reason::RateLimited);
    assert_eq!(account.view().state, AccountState::Usable);
    rig.provider.world().busy = false;
    rig.until("the end of it", || account.view().last_error.is_none())
        .await;
}
