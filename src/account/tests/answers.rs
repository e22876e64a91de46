//! How soon an outage and its end are noticed, at default intervals.

use super::{
    provider::{name_hash, order_tag, server_json, uuid},
    rig::{Rig, caller, order, permit, reserve},
};
use crate::{
    account::{Account, EnqueueTarget},
    runtime::clock,
};
use api::Reason;
use flexmetal_core::account::{priority::Priority, view::ListKind};
use hosting_types::{Error, ServerId};
use std::time::Duration;
use tokio::time::sleep;

const PROBE: &str = "GET /v3/flexMetal/quota/usage";

/// An account whose next poll is minutes away.
async fn idle_account() -> (Rig, Account) {
    let (rig, account) = Rig::with_account().await;
    rig.provider.world().servers = vec![server_json(1, "delivered")];
    rig.ready(&account).await;
    sleep(Duration::from_secs(10)).await;
    rig.provider.calls();
    rig.all_enqueued();
    (rig, account)
}

async fn read_server(account: &Account) -> Result<(), Error> {
    let id = ServerId::parse(&uuid(1)).unwrap();
    let mut permit = permit(account, Priority::Resolve, 1).await?;
    permit.read_server(&id).await.map(drop)
}

/// The error that conditions report, and how long it took to appear.
async fn shown(rig: &Rig, account: &Account) -> (Duration, Reason, String) {
    let since = clock::now().mono;
    rig.until("an error", || account.view().last_error.is_some())
        .await;
    let (reason, message) = account.view().last_error.unwrap();
    (clock::now().elapsed_since(since), reason, message)
}

async fn answers_again(rig: &Rig, account: &Account) -> Duration {
    let since = clock::now().mono;
    rig.until("answers", || account.view().last_error.is_none())
        .await;
    assert!(account.view().answers_since >= Some(since));
    clock::now().elapsed_since(since)
}

#[tokio::test(start_paused = true)]
async fn failed_object_call_triggers_early_check() {
    let (rig, account) = idle_account().await;
    rig.provider.world().down = true;
    read_server(&account).await.unwrap_err();
    let (took, reason, _) = shown(&rig, &account).await;
    assert!(took < Duration::from_secs(3), "{took:?}");
    assert_eq!(reason, Reason::ProviderUnreachable);
    let all = EnqueueTarget::Account(account.key().clone());
    assert!(rig.enqueued().contains(&all));

    // A list that was requested meanwhile does not wait for its own backoff.
    account.request_list(ListKind::Tags, clock::now().mono, &caller("o"));
    sleep(Duration::from_secs(600)).await;
    rig.provider.world().down = false;
    let took = answers_again(&rig, &account).await;
    assert!(took <= Duration::from_secs(75), "{took:?}");
    assert!(rig.enqueued().contains(&all), "who waited is woken");
    sleep(Duration::from_secs(1)).await;
    assert!(account.view().tags.is_some());
}

#[tokio::test(start_paused = true)]
async fn isolated_failures_trigger_few_checks() {
    let (rig, account) = idle_account().await;
    let path = format!("/v3/flexMetal/servers/{}", uuid(1));
    rig.provider.world().broken = vec![path];
    for _ in 0..120 {
        read_server(&account).await.unwrap_err();
        sleep(Duration::from_secs(1)).await;
    }
    let calls = rig.provider.calls();
    let probes = calls.iter().filter(|call| *call == PROBE).count();
    assert!((4..=5).contains(&probes), "{probes}");
    assert!(account.view().last_error.is_none(), "the account works");
}

#[tokio::test(start_paused = true)]
async fn answered_object_call_ends_the_backoff() {
    let (rig, account) = idle_account().await;
    rig.provider.world().down = true;
    read_server(&account).await.unwrap_err();
    sleep(Duration::from_secs(600)).await;
    rig.provider.calls();
    // Right after a poll.
    rig.until("a round", || !rig.provider.world().calls.is_empty())
        .await;
    sleep(Duration::from_millis(100)).await;
    rig.provider.world().down = false;
    read_server(&account).await.unwrap();
    let took = answers_again(&rig, &account).await;
    assert!(took <= Duration::from_secs(31), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn long_retry_after_is_shown_with_its_end() {
    for reason in [Reason::RateLimited, Reason::ProviderUnreachable] {
        let (rig, account) = idle_account().await;
        rig.provider.world().pause = 240;
        match reason {
            Reason::RateLimited => rig.provider.world().busy = true,
            _ => rig.provider.world().failing = true,
        }
        read_server(&account).await.unwrap_err();
        let (took, said, message) = shown(&rig, &account).await;
        assert!(took < Duration::from_secs(1), "{took:?}");
        assert_eq!(said, reason);
        assert!(message.contains("no calls until "), "{message}");
        let enqueued = rig.all_enqueued();
        assert!(enqueued.contains(&EnqueueTarget::Account(account.key().clone())));
        assert!(enqueued.contains(&EnqueueTarget::Object(account.uid().to_owned())));

        rig.provider.world().busy = false;
        rig.provider.world().failing = false;
        let took = answers_again(&rig, &account).await;
        let expected = Duration::from_secs(239)..Duration::from_secs(245);
        assert!(expected.contains(&took), "{took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn hanging_api_is_reported_in_ten_seconds() {
    let (rig, account) = idle_account().await;
    rig.provider.world().silent = true;
    let (_, (took, reason, message)) = tokio::join!(read_server(&account), shown(&rig, &account));
    assert!(took < Duration::from_secs(9), "{took:?}");
    assert_eq!(reason, Reason::ProviderUnreachable);
    assert!(message.contains("given up after 30s"), "{message}");
    rig.provider.world().silent = false;
    let took = answers_again(&rig, &account).await;
    assert!(took < Duration::from_secs(40), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn hanging_account_poll_is_reported() {
    let (rig, account) = idle_account().await;
    rig.provider.world().silent = true;
    rig.until("a poll", || !rig.provider.world().calls.is_empty())
        .await;
    let (took, reason, _) = shown(&rig, &account).await;
    assert!(took < Duration::from_secs(9), "{took:?}");
    assert_eq!(reason, Reason::ProviderUnreachable);
}

#[tokio::test(start_paused = true)]
async fn slow_order_is_no_account_error() {
    let (rig, account) = idle_account().await;
    rig.provider.world().hanging = true;
    let granted = reserve(&account, &name_hash(2)).await.unwrap();
    let (order, tag) = (order(&order_tag(2)), order_tag(2));
    let sent = account.order(granted, &order, &tag);
    let waited = tokio::time::timeout(Duration::from_secs(100), sent).await;
    assert!(waited.is_err());
    assert!(account.view().last_error.is_none());
    assert!(account.view().answers_since < Some(clock::now().mono - Duration::from_secs(100)));
    let calls = rig.provider.calls();
    let probes = calls.iter().filter(|call| *call == PROBE).count();
    assert!((1..=4).contains(&probes), "{calls:?}");
}
