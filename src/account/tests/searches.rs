//! Many objects that search for their orders at once, and what they leave to others.

use super::{
    provider::{name_hash, server_json},
    rig::{Rig, caller, reserve},
};
use crate::{
    account::{Account, PermitAnswer},
    runtime::clock,
};
use flexmetal_core::account::{priority::Priority, view::ListKind};
use std::time::Duration;
use tokio::{task::JoinSet, time::sleep};

const SECOND: Duration = Duration::from_secs(1);
/// How many objects search, and how many records the account has.
const SEARCHES: usize = 100;
const RECORDS: usize = 2000;

/// Makes so many calls when they are granted; returns how long that took.
async fn calls(account: &Account, priority: Priority, number: u32, uid: &str) -> Duration {
    let asked = clock::now().mono;
    let mut permit = loop {
        match account
            .request_permit(priority, number, &caller(uid))
            .unwrap()
        {
            PermitAnswer::Now(permit) => break permit,
            PermitAnswer::Queued => sleep(SECOND / 10).await,
        }
    };
    let took = clock::now().mono - asked;
    for _ in 0..number {
        permit
            .call(async |client| client.plans().await)
            .await
            .unwrap();
    }
    took
}

/// Searches twice for an order, as an object with an order of unknown outcome does.
async fn search(account: Account, number: usize) {
    let uid = format!("search{number}");
    let mut not_before = clock::now().mono;
    for _ in 0..2 {
        let began = loop {
            account.request_complete_list(&name_hash(RECORDS + number), not_before);
            let complete_list = account.view().complete_list;
            if let Some(complete_list) = complete_list.filter(|p| p.began >= not_before) {
                break complete_list.began;
            }
            sleep(SECOND).await;
        };
        loop {
            account.request_list(ListKind::Servers, began, &caller(&uid));
            let servers = account.view().servers;
            if servers.is_some_and(|(read_at, _)| read_at >= began) {
                break;
            }
            sleep(SECOND).await;
        }
        calls(&account, Priority::Resolve, 2, &uid).await;
        not_before = began + 60 * SECOND;
    }
}

#[tokio::test(start_paused = true)]
async fn searches_share_lists_and_starve_nobody() {
    let (rig, account) = Rig::with_account().await;
    let status = |n| if n % 2 == 0 { "delivered" } else { "released" };
    rig.provider.world().servers = (0..RECORDS).map(|n| server_json(n, status(n))).collect();
    rig.ready(&account).await;
    sleep(10 * SECOND).await;
    rig.provider.calls();
    let started = clock::now().mono;
    let mut searches = JoinSet::new();
    for number in 0..SEARCHES {
        let account = account.clone();
        searches.spawn(async move {
            // The orders were sent one after the other.
            sleep(SECOND * 3 / 5 * u32::try_from(number).unwrap()).await;
            search(account, number).await;
        });
    }
    let orders = async {
        let mut longest = Duration::ZERO;
        for number in 0..60 {
            sleep(SECOND / 2).await;
            let asked = clock::now().mono;
            drop(
                reserve(&account, &name_hash(RECORDS + SEARCHES + number))
                    .await
                    .unwrap(),
            );
            longest = longest.max(clock::now().mono - asked);
        }
        longest
    };
    let polls = async {
        let mut longest = Duration::ZERO;
        for _ in 0..60 {
            sleep(SECOND / 2).await;
            longest = longest.max(calls(&account, Priority::Poll, 1, "poll").await);
        }
        longest
    };
    let (longest_order, longest_poll) = tokio::join!(orders, polls);
    while searches.join_next().await.is_some() {}
    let took = clock::now().mono - started;
    let listed = rig.provider.calls();
    let listed = listed.iter().filter(|c| c.ends_with("/servers")).count();
    let share = f64::from(u32::try_from(listed).unwrap()) / (took.as_secs_f64() * 20.0);
    assert!(took < 240 * SECOND, "{took:?}");
    assert!(share < 0.55, "the listings take {share} of all calls");
    assert!(longest_order < 5 * SECOND, "{longest_order:?}");
    assert!(longest_poll < 10 * SECOND, "{longest_poll:?}");
}

#[tokio::test(start_paused = true)]
async fn deleted_object_requests_no_list() {
    let (rig, account) = Rig::with_account().await;
    rig.ready(&account).await;
    rig.provider.calls();
    account.request_complete_list(&name_hash(1), clock::now().mono + 60 * SECOND);
    rig.accounts.forget_name_hash(&name_hash(1));
    sleep(120 * SECOND).await;
    assert!(rig.provider.calls().is_empty());
}
