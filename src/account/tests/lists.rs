//! Lists on request: polled once for many objects, and only those are enqueued.

use super::{
    provider::server_json,
    rig::{Rig, caller, key, permit},
};
use crate::{
    account::{Account, EnqueueTarget, memory_budget},
    runtime::clock,
};
use api::Reason;
use flexmetal_core::account::{
    priority::Priority,
    view::{AccountState, ListKind},
};
use hosting_types::list::record_size;
use serde_json::json;
use std::time::Duration;
use tokio::time::sleep;

const PLANS: &str = "/v3/flexMetal/plans";

async fn ready() -> (Rig, Account) {
    let (rig, account) = Rig::with_account().await;
    rig.ready(&account).await;
    rig.provider.calls();
    rig.enqueued();
    (rig, account)
}

fn object(uid: &str) -> EnqueueTarget {
    EnqueueTarget::Object(uid.into())
}

fn sorted(mut enqueued: Vec<EnqueueTarget>) -> Vec<String> {
    let mut words: Vec<_> = enqueued.drain(..).map(|w| format!("{w:?}")).collect();
    words.sort();
    words
}

#[tokio::test(start_paused = true)]
async fn one_poll_serves_only_waiting_objects() {
    let (rig, account) = ready().await;
    rig.provider.world().servers = vec![server_json(1, "released")];
    let now = clock::now().mono;
    for uid in ["a", "b", "a"] {
        account.request_list(ListKind::Servers, now, &caller(uid));
    }
    let later = now + Duration::from_secs(300);
    account.request_list(ListKind::Servers, later, &caller("late"));
    rig.until("the list", || account.view().servers.is_some())
        .await;
    assert_eq!(rig.provider.calls().len(), 2, "a page and the empty one");
    let (read_at, all) = account.view().servers.unwrap();
    assert!(read_at >= now && all.len() == 1);
    let another = EnqueueTarget::List(key("default"), ListKind::Servers);
    assert_eq!(
        sorted(rig.enqueued()),
        sorted(vec![another, object("a"), object("b")])
    );

    // Available already: reported once to each object that does not know, without a call.
    account.request_list(ListKind::Servers, now, &caller("b"));
    account.request_list(ListKind::Servers, now, &caller("c"));
    account.request_list(ListKind::Servers, now, &caller("c"));
    assert_eq!(rig.enqueued(), [object("c")]);
    sleep(Duration::from_secs(200)).await;
    assert!(rig.provider.calls().is_empty());

    // The content is the same: only the object that waits is enqueued.
    rig.enqueued();
    rig.until("the second look", || {
        account.view().servers.is_some_and(|(at, _)| at >= later)
    })
    .await;
    sleep(Duration::from_millis(10)).await;
    assert_eq!(rig.enqueued(), [object("late")]);
}

#[tokio::test(start_paused = true)]
async fn list_polls_keep_the_minimum_spacing() {
    let (rig, account) = ready().await;
    let spacing = account.view().times.active_poll_interval;
    account.request_list(ListKind::Catalogue, clock::now().mono, &caller("a"));
    rig.until("the first", || account.view().catalogue.is_some())
        .await;
    let first = account.view().catalogue.unwrap().0;
    account.request_list(ListKind::Catalogue, clock::now().mono, &caller("a"));
    rig.until("the second", || account.view().catalogue.unwrap().0 > first)
        .await;
    assert!(account.view().catalogue.unwrap().0 >= first + spacing);
}

#[tokio::test(start_paused = true)]
async fn failing_list_backs_off_and_is_reported() {
    let (rig, account) = ready().await;
    rig.provider.world().broken = vec![PLANS.into()];
    account.request_list(ListKind::Catalogue, clock::now().mono, &caller("a"));
    sleep(Duration::from_millis(500)).await;
    assert!(
        account.view().last_error.is_none(),
        "one alone says nothing"
    );
    assert!(rig.enqueued().is_empty());
    sleep(Duration::from_secs(2)).await;
    let (reason, _) = account.view().last_error.unwrap();
    assert_eq!(reason, Reason::ProviderUnreachable);
    assert_eq!(account.view().state, AccountState::Usable);
    assert_eq!(rig.enqueued(), [object("a")]);
    rig.provider.calls();
    sleep(Duration::from_secs(600)).await;
    let calls = rig.provider.calls();
    let tries = calls.iter().filter(|c| c.contains(PLANS)).count();
    assert!((9..=16).contains(&tries), "{tries}");
    assert!(rig.enqueued().is_empty(), "it was told");

    // Another list does not wait for it.
    account.request_list(ListKind::Servers, clock::now().mono, &caller("b"));
    rig.until("the other list", || account.view().servers.is_some())
        .await;
    rig.provider.world().broken.clear();
    rig.until("the catalogue", || account.view().catalogue.is_some())
        .await;
    assert!(account.view().last_error.is_none());
    assert!(rig.enqueued().contains(&object("a")));
}

#[tokio::test(start_paused = true)]
async fn deleted_object_drops_its_list_request() {
    let (rig, account) = ready().await;
    let later = clock::now().mono + Duration::from_secs(60);
    account.request_list(ListKind::Servers, later, &caller("a"));
    rig.accounts.forget("a");
    sleep(Duration::from_secs(120)).await;
    assert!(rig.provider.calls().is_empty());

    // A failure is not reported when no object waits for the list any more.
    rig.provider.world().broken = vec![PLANS.into()];
    account.request_list(ListKind::Catalogue, clock::now().mono, &caller("a"));
    rig.until("the failure", || account.view().last_error.is_some())
        .await;
    rig.accounts.forget("a");
    assert!(account.view().last_error.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_list_waits_for_the_key() {
    let (rig, account) = ready().await;
    rig.provider.world().refused_key = Some("key-one".into());
    let mut call = permit(&account, Priority::Poll, 1).await.unwrap();
    let answer = call.call(async |client| client.quota_usage().await).await;
    assert!(answer.is_err());
    rig.provider.calls();
    account.request_list(ListKind::Servers, clock::now().mono, &caller("a"));
    sleep(Duration::from_secs(3)).await;
    assert!(rig.provider.calls().is_empty());
    rig.provider.world().refused_key = None;
    rig.until("the list", || account.view().servers.is_some())
        .await;
    assert!(rig.enqueued().contains(&object("a")));
}

#[tokio::test(start_paused = true)]
async fn tags_and_keys_are_listed_once_for_all() {
    let (rig, account) = ready().await;
    let tag = |name: &str| {
        let servers = json!({"count": 2});
        json!({"tag": name, "resources": {"count": 2, "flexMetalServers": servers}})
    };
    rig.provider.world().tags = vec![tag("web"), tag("fmo-order:1")];
    let reserved = rig.accounts.memory_budget().reserved_bytes();
    let now = clock::now().mono;
    for n in 0..500 {
        account.request_list(ListKind::Tags, now, &caller(&format!("tag-{n}")));
        account.request_list(ListKind::SshKeys, now, &caller(&format!("key-{n}")));
    }
    rig.until("both lists", || {
        let view = account.view();
        view.tags.is_some() && view.ssh_keys.is_some()
    })
    .await;
    let calls = rig.provider.calls();
    assert_eq!(
        calls.len(),
        3,
        "two pages of tags, one list of keys: {calls:?}"
    );
    let (_, tags) = account.view().tags.unwrap();
    assert_eq!(tags.keys().collect::<Vec<_>>(), ["web"]);
    assert_eq!(tags["web"].servers, Some(2));
    // Tags that are left out take no memory.
    assert_eq!(
        rig.accounts.memory_budget().reserved_bytes() - reserved,
        record_size(&tags["web"])
    );
}

#[tokio::test(start_paused = true)]
async fn small_account_works_when_memory_is_full() {
    let (rig, account) = Rig::with_account().await;
    let others: Vec<_> = (0..9)
        .map(|number| {
            let name = format!("greedy-{number}");
            let mut reservation = rig
                .accounts
                .memory_budget()
                .namespace_budget(Some(&name))
                .empty_reservation();
            while reservation.grow(4096) {}
            reservation
        })
        .collect();
    assert!(rig.accounts.memory_budget().reserved_bytes() >= memory_budget::MOST);
    rig.provider.world().servers = vec![server_json(1, "delivered"), server_json(2, "released")];
    rig.provider.world().tags = vec![json!({"tag": "web", "resources": {"count": 2}})];
    rig.ready(&account).await;
    assert_eq!(account.view().complete_list.unwrap().servers.len(), 2);
    let now = clock::now().mono;
    for list in ListKind::ALL {
        account.request_list(list, now, &caller("a"));
    }
    rig.until("all lists", || {
        let view = account.view();
        view.tags.is_some() && view.ssh_keys.is_some() && view.servers.is_some()
    })
    .await;
    drop(others);
}

#[tokio::test(start_paused = true)]
async fn idle_objects_share_list_polls() {
    let (rig, account) = ready().await;
    let idle = account.view().times.idle_poll_interval;
    for list in [ListKind::Tags, ListKind::SshKeys] {
        let now = clock::now().mono;
        let objects = [
            ("one", idle / 4, true),
            ("other", idle / 2, true),
            ("later", idle, false),
        ];
        let uid = |name: &str| format!("{name}-{list:?}");
        for (name, after, _) in objects {
            account.request_list(list, now + after, &caller(&uid(name)));
        }
        rig.enqueued();
        sleep(idle / 4 + Duration::from_secs(1)).await;
        let enqueued = rig.enqueued();
        for (name, _, is_enqueued) in objects {
            let name = uid(name);
            assert_eq!(enqueued.contains(&object(&name)), is_enqueued, "{name}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn catalogue_refresh_failure_is_not_shown() {
    let (rig, account) = ready().await;
    let newest = || {
        let report = rig.accounts.report(&key("default"), &[]).unwrap();
        report.catalogue.map(|(read_at, _)| read_at)
    };
    account.refresh_catalogue(Duration::ZERO);
    rig.until("the catalogue", || newest().is_some()).await;
    let first = newest().unwrap();
    assert!(account.view().catalogue.is_none(), "nobody waited for it");
    rig.provider.calls();
    account.refresh_catalogue(first);
    sleep(Duration::from_secs(200)).await;
    assert!(rig.provider.calls().is_empty(), "it is there");

    rig.provider.world().broken = vec![PLANS.into()];
    rig.enqueued();
    account.refresh_catalogue(clock::now().mono);
    sleep(Duration::from_secs(600)).await;
    let calls = rig.provider.calls();
    let tries = calls.iter().filter(|c| c.contains(PLANS)).count();
    assert!((5..=12).contains(&tries), "{tries}");
    let view = account.view();
    assert!(view.last_error.is_none() && view.list_errors[ListKind::Catalogue as usize].is_none());
    assert!(rig.enqueued().is_empty());
    // An object that waits is served soon, even after long failures, and gets the result of its own poll.
    rig.provider.world().broken.clear();
    let asked = clock::now().mono;
    account.request_list(ListKind::Catalogue, asked, &caller("a"));
    rig.until("a look", || account.view().catalogue.is_some())
        .await;
    let (read_at, _) = account.view().catalogue.unwrap();
    assert!(read_at >= asked && read_at < asked + Duration::from_secs(60));
    assert_eq!(newest(), Some(read_at));
}

#[tokio::test(start_paused = true)]
async fn key_without_catalogue_right_stays_usable() {
    let (rig, account) = ready().await;
    rig.provider.world().forbidden = Some(PLANS.into());
    account.refresh_catalogue(Duration::ZERO);
    sleep(Duration::from_secs(60)).await;
    assert_eq!(account.view().state, AccountState::Usable);
    assert!(account.view().last_error.is_none());
    // An order that needs the list reports what is wrong.
    account.request_list(ListKind::Catalogue, clock::now().mono, &caller("a"));
    rig.until("the failure", || account.view().last_error.is_some())
        .await;
    assert_eq!(account.view().state, AccountState::Usable);
}
