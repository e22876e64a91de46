//! A key that is rejected.

use super::{
    provider::{name_hash, server_json, uuid},
    rig::{Rig, account_uid, caller, key, permit, reserve},
};
use crate::{
    account::{Denied, EnqueueTarget},
    runtime::clock,
};
use api::Reason;
use flexmetal_core::{
    account::{
        priority::Priority,
        view::{AccountState, ListKind},
    },
    last_error::LastError,
};
use hosting_types::{Error, ServerId};
use std::time::Duration;
use tokio::time::sleep;

#[tokio::test(start_paused = true)]
async fn refused_key_stops_calls_except_probes() {
    let (rig, account) = Rig::with_account().await;
    rig.provider.world().servers = vec![server_json(1, "provisioning")];
    rig.ready(&account).await;
    rig.enqueued();
    rig.provider.world().refused_key = Some("key-one".into());
    rig.until("the breaker", || {
        matches!(
            account.view().state,
            AccountState::Blocked(Reason::KeyRejected, _)
        )
    })
    .await;
    assert!(
        rig.enqueued()
            .contains(&EnqueueTarget::Account(key("default")))
    );
    let AccountState::Blocked(_, message) = account.view().state else {
        panic!("blocked")
    };
    assert!(
        message.contains("Secret") && !message.contains("key-one"),
        "{message}"
    );
    rig.provider.calls();

    let id = ServerId::parse(&uuid(1)).unwrap();
    assert!(matches!(
        permit(&account, Priority::Poll, 1).await.map(drop),
        Err(Error::AccessDenied(_))
    ));
    assert!(matches!(
        account
            .request_permit(Priority::Release, 2, &caller("a"))
            .map(drop),
        Err(Error::AccessDenied(_))
    ));
    assert!(matches!(
        reserve(&account, &name_hash(1)).await,
        Err(Denied::Blocked(Reason::KeyRejected, _))
    ));
    assert!(rig.provider.calls().is_empty());
    sleep(Duration::from_secs(600)).await;
    let calls = rig.provider.calls();
    assert!(calls.len() <= 8, "{calls:?}");
    assert!(calls.iter().all(|c| c.contains("quota")));
    assert!(account.find_server(&id).is_some(), "refused is not gone");

    rig.provider.world().refused_key = None;
    rig.until("a probe", || account.view().state == AccountState::Usable)
        .await;
    assert!(
        rig.enqueued()
            .contains(&EnqueueTarget::Account(key("default")))
    );
}

/// After long failures an account that does not answer is tried once a minute, and a rejected key every five minutes.
#[tokio::test(start_paused = true)]
async fn requested_retries_keep_the_poll_interval() {
    for is_refused in [false, true] {
        let (rig, account) = Rig::with_account().await;
        rig.provider.world().servers = vec![server_json(1, "delivered")];
        rig.ready(&account).await;
        {
            let mut world = rig.provider.world();
            world.down = !is_refused;
            world.refused_key = is_refused.then(|| "key-one".into());
        }
        sleep(Duration::from_secs(1200)).await;
        // Right after a try, the next one is far away.
        rig.provider.calls();
        rig.until("a try", || !rig.provider.world().calls.is_empty())
            .await;
        rig.provider.calls();
        sleep(Duration::from_secs(31)).await;
        assert_eq!(rig.provider.calls(), [""; 0]);
        account.request_retry(clock::now().mono);
        sleep(Duration::from_secs(1)).await;
        assert_eq!(rig.provider.calls().len(), 1);
        // Constant requests get no more than the account's poll interval.
        for _ in 0..28 {
            account.request_retry(clock::now().mono);
            sleep(Duration::from_secs(1)).await;
        }
        assert_eq!(rig.provider.calls(), [""; 0]);
        sleep(Duration::from_secs(3)).await;
        assert_eq!(rig.provider.calls().len(), 1);
    }
}

/// A list that an object waits for.
#[tokio::test(start_paused = true)]
async fn requested_retry_polls_failing_list_once() {
    let (rig, account) = Rig::with_account().await;
    rig.ready(&account).await;
    rig.provider.world().broken = vec!["/v3/flexMetal/tags".into()];
    account.request_list(ListKind::Tags, clock::now().mono, &caller("a"));
    sleep(Duration::from_secs(600)).await;
    rig.provider.calls();
    rig.until("a try", || !rig.provider.world().calls.is_empty())
        .await;
    sleep(Duration::from_secs(31)).await;
    rig.provider.calls();
    account.request_retry(clock::now().mono);
    sleep(Duration::from_secs(1)).await;
    // The failure may also bring the account's own poll forward.
    let mut calls = rig.provider.calls();
    calls.retain(|call| !call.contains("quota"));
    assert_eq!(calls, ["GET /v3/flexMetal/tags"]);
}

/// For a permit from before: the refusal of another call is not the answer to this one.
#[tokio::test(start_paused = true)]
async fn call_with_a_refused_key_is_not_sent() {
    let (rig, account) = Rig::with_account().await;
    rig.provider.world().servers = vec![server_json(1, "provisioning")];
    rig.ready(&account).await;
    let mut taken = permit(&account, Priority::Change, 2).await.unwrap();
    rig.provider.world().refused_key = Some("key-one".into());
    rig.until("the breaker", || {
        matches!(
            account.view().state,
            AccountState::Blocked(Reason::KeyRejected, _)
        )
    })
    .await;
    rig.provider.calls();
    let id = ServerId::parse(&uuid(1)).unwrap();
    let answer = taken.call(async |client| client.release(&id).await).await;
    let error = answer.unwrap_err();
    assert!(matches!(error, Error::NotSent(_)), "{error:?}");
    assert_eq!(LastError::from_provider(&error).reason, Reason::KeyRejected);
    assert!(rig.provider.calls().is_empty());
}

#[tokio::test(start_paused = true)]
async fn forbidden_call_leaves_the_account_usable() {
    let (rig, account) = Rig::with_account().await;
    rig.provider.world().servers = vec![server_json(1, "provisioning")];
    rig.ready(&account).await;
    rig.enqueued();
    let path = format!("/v3/flexMetal/servers/{}", uuid(1));
    rig.provider.world().forbidden = Some(path.clone());
    let mut permit = permit(&account, Priority::Release, 1).await.unwrap();
    let id = ServerId::parse(&uuid(1)).unwrap();
    let error = permit.read_server(&id).await.unwrap_err();
    assert!(matches!(error, Error::Forbidden { .. }), "{error:?}");
    let message = error.explain();
    assert!(
        message.contains(&format!("forbids GET {path} to this key; status 403")),
        "{message}"
    );
    drop(permit);
    rig.provider.world().forbidden = Some("/v3/flexMetal/tags".into());
    account.request_list(ListKind::Tags, clock::now().mono, &caller("a"));
    sleep(Duration::from_secs(600)).await;
    assert_eq!(account.view().state, AccountState::Usable);
    assert!(account.view().list_error(ListKind::Tags).is_some());
    assert!(
        !rig.enqueued()
            .contains(&EnqueueTarget::Account(key("default")))
    );
    assert!(account.find_server(&id).is_some());
}

#[tokio::test(start_paused = true)]
async fn key_that_cannot_list_stays_refused() {
    let (rig, account) = Rig::with_account().await;
    rig.ready(&account).await;
    rig.provider.world().forbidden = Some("/v3/flexMetal/servers".into());
    rig.until("the breaker", || {
        matches!(
            account.view().state,
            AccountState::Blocked(Reason::KeyRejected, _)
        )
    })
    .await;
    rig.enqueued();
    rig.provider.calls();
    sleep(Duration::from_secs(600)).await;
    assert!(
        !rig.enqueued()
            .contains(&EnqueueTarget::Account(key("default"))),
        "it does not flip"
    );
    let calls = rig.provider.calls();
    assert!(calls.len() <= 16, "{calls:?}");
    rig.provider.world().forbidden = None;
    rig.until("a probe", || account.view().state == AccountState::Usable)
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_new_key_is_tried_at_once() {
    let rig = Rig::new().await;
    rig.provider.world().refused_key = Some("key-one".into());
    rig.install("default", "key-one", |_| {});
    let account = rig.resolve("default");
    rig.until("the breaker", || {
        matches!(
            account.view().state,
            AccountState::Blocked(Reason::KeyRejected, _)
        )
    })
    .await;
    sleep(Duration::from_secs(1000)).await;
    rig.install("default", "key-two", |_| {});
    let account = rig.resolve("default");
    sleep(Duration::from_millis(100)).await;
    assert_eq!(account.view().state, AccountState::Usable);
}

#[tokio::test(start_paused = true)]
async fn object_change_probes_account_at_once() {
    let (rig, account) = Rig::with_account().await;
    rig.provider.world().refused_key = Some("key-one".into());
    sleep(Duration::from_secs(3000)).await;
    assert_ne!(account.view().state, AccountState::Usable);
    rig.provider.world().refused_key = None;
    rig.accounts.probe_now(&key("default"));
    sleep(Duration::from_millis(100)).await;
    assert_eq!(account.view().state, AccountState::Usable);
}

#[tokio::test(start_paused = true)]
async fn an_account_that_is_gone_blocks_its_handles() {
    let (rig, account) = Rig::with_account().await;
    rig.ready(&account).await;
    rig.provider.calls();
    rig.accounts
        .remove(&key("default"), &account_uid("default"));
    assert!(matches!(
        account.view().state,
        AccountState::Blocked(Reason::AccountNotFound, _)
    ));
    sleep(Duration::from_secs(7200)).await;
    assert!(rig.provider.calls().is_empty(), "its rounds have ended");
}
