//! Another key of an account object: its trial as candidate, and what continues when it replaces the key in use.

use super::{
    provider::{name_hash, server_json, uuid},
    rig::{Rig, account_uid, key, permit},
};
use crate::account::Account;
use flexmetal_core::account::{
    decide::candidate::{TrialResult, VerificationServer},
    key_state::KeyState,
    priority::Priority,
    view::{AccountState, ListKind},
};
use hosting_types::{Error, ServerId};
use std::{sync::Arc, time::Duration};
use tokio::time::sleep;

fn id(number: usize) -> ServerId {
    ServerId::parse(&uuid(number)).unwrap()
}

fn verification_server(number: usize, borne: Option<usize>) -> VerificationServer {
    VerificationServer {
        id: id(number),
        name_hash: borne.map(name_hash),
    }
}

/// Result of the trial of a candidate key of the account `default`.
async fn tried(rig: &Rig, api_key: &str, servers: Vec<VerificationServer>) -> TrialResult {
    let connection = rig.connection(api_key);
    let (name, uid) = (key("default"), account_uid("default"));
    let hash = connection.connection_hash.clone();
    let by = (&name, uid.as_str());
    rig.accounts
        .try_candidate(by, hash.clone(), connection.client, servers);
    assert_eq!(rig.accounts.trial_result(&name, "another"), None);
    let result = || rig.accounts.trial_result(&name, &hash).flatten();
    rig.until("the end of the trial", || result().is_some())
        .await;
    result().unwrap()
}

fn switch_key(rig: &Rig, name: &str, api_key: &str) {
    let connection = rig.connection(api_key);
    rig.accounts
        .replace_key(&key(name), &account_uid(name), connection);
}

fn connection_hash(account: &Account) -> String {
    account.view().credentials_hash.unwrap()
}

#[tokio::test(start_paused = true)]
async fn wrong_candidate_key_changes_nothing() {
    let (rig, account) = Rig::with_account().await;
    rig.provider.world().servers = vec![server_json(1, "delivered")];
    rig.ready(&account).await;
    let reserved = rig.accounts.memory_budget().reserved_bytes();
    rig.provider.world().refused_key = Some("key-two".into());
    rig.all_enqueued();
    let refused = tried(&rig, "key-two", vec![verification_server(1, None)]).await;
    assert!(matches!(refused, TrialResult::Refused(refusal) if refusal.status == 403));
    assert!(!rig.all_enqueued().is_empty(), "the account object is told");
    assert_eq!(account.view().state, AccountState::Usable);
    assert!(!rig.accounts.is_refused(&key("default")));
    assert!(permit(&account, Priority::Poll, 1).await.is_ok());
    assert_eq!(rig.accounts.memory_budget().reserved_bytes(), reserved);
    // The state of the key in use has not changed.
    let report = rig.accounts.report(&key("default"), &[]).unwrap();
    assert_eq!(report.key, KeyState::Accepted);
}

#[tokio::test(start_paused = true)]
async fn candidate_key_must_show_expected_server() {
    let (rig, account) = Rig::with_account().await;
    rig.provider.world().servers = vec![server_json(1, "delivered"), server_json(2, "released")];
    rig.ready(&account).await;
    for (servers, expected) in [
        (vec![], TrialResult::Accepted),
        (vec![verification_server(1, Some(1))], TrialResult::Shows),
        (vec![verification_server(1, None)], TrialResult::Shows),
        (
            vec![
                verification_server(7, Some(7)),
                verification_server(2, Some(2)),
            ],
            TrialResult::Shows,
        ),
        (
            vec![verification_server(1, Some(2))],
            TrialResult::ShowsNone,
        ),
        (
            vec![verification_server(7, None), verification_server(8, None)],
            TrialResult::ShowsNone,
        ),
    ] {
        assert_eq!(
            tried(&rig, "key-two", servers.clone()).await,
            expected,
            "{servers:?}"
        );
    }
    // Other permissions of such a key do not make up for it.
    rig.provider.world().blind_key = Some("key-blind".into());
    for servers in [vec![], vec![verification_server(1, None)]] {
        let refused = tried(&rig, "key-blind", servers).await;
        assert!(matches!(refused, TrialResult::Refused(_)), "{refused:?}");
    }
    rig.provider.world().failing = true;
    let failed = tried(&rig, "key-two", vec![verification_server(7, None)]).await;
    assert!(matches!(failed, TrialResult::Failed(_)), "{failed:?}");
}

/// The trial takes its calls from the tokens of the key in use.
#[tokio::test(start_paused = true)]
async fn two_keys_make_no_more_calls_than_one() {
    let (rig, account) = Rig::with_account().await;
    rig.ready(&account).await;
    sleep(Duration::from_secs(60)).await;
    rig.provider.calls();
    // The bucket is empty: a call comes with each token, 20 a second.
    let all = permit(&account, Priority::Release, 40).await.unwrap();
    let started = tokio::time::Instant::now();
    let servers = vec![verification_server(1, None), verification_server(2, None)];
    assert_eq!(
        tried(&rig, "key-two", servers).await,
        TrialResult::ShowsNone
    );
    assert_eq!(rig.provider.calls().len(), 3);
    assert!(
        started.elapsed() >= Duration::from_millis(140),
        "{:?}",
        started.elapsed()
    );
    // Nor while the account is paused. If the API asks the candidate key to wait, only the trial waits.
    rig.provider.world().busy = true;
    let started = tokio::time::Instant::now();
    let failed = tried(&rig, "key-two", vec![]).await;
    assert!(matches!(failed, TrialResult::Failed(_)), "{failed:?}");
    assert!(started.elapsed() >= Duration::from_secs(7));
    let started = tokio::time::Instant::now();
    let mut busy = permit(&account, Priority::Poll, 1).await.unwrap();
    assert!(started.elapsed() < Duration::from_secs(1));
    assert!(matches!(
        busy.read_server(&id(1)).await,
        Err(Error::RateLimited(_))
    ));
    rig.provider.world().busy = false;
    let started = tokio::time::Instant::now();
    assert_eq!(tried(&rig, "key-two", vec![]).await, TrialResult::Accepted);
    assert!(
        started.elapsed() >= Duration::from_secs(6),
        "{:?}",
        started.elapsed()
    );
    drop((all, busy));
}

#[tokio::test(start_paused = true)]
async fn switching_keys_keeps_known_servers() {
    let (rig, account) = Rig::with_account().await;
    rig.provider.world().servers = vec![server_json(1, "delivered"), server_json(2, "delivered")];
    rig.ready(&account).await;
    account.request_list(ListKind::Servers, Duration::ZERO, &super::rig::caller("a"));
    rig.until("the list", || account.view().servers.is_some())
        .await;
    let (complete_list, reserved) = (
        account.view().complete_list.unwrap(),
        rig.accounts.memory_budget().reserved_bytes(),
    );
    let previous = connection_hash(&account);
    rig.provider.calls();

    switch_key(&rig, "default", "key-two");
    let view = account.view();
    assert_eq!(
        view.state,
        AccountState::Usable,
        "not for a moment anything else"
    );
    assert!(Arc::ptr_eq(&view.complete_list.unwrap(), &complete_list));
    assert!(view.servers.is_some());
    assert_ne!(connection_hash(&account), previous);
    assert_eq!(account.find_servers(&name_hash(2)).len(), 1);
    assert_eq!(
        rig.accounts.memory_budget().reserved_bytes(),
        reserved,
        "the same room"
    );
    assert_eq!(rig.provider.calls(), Vec::<String>::new(), "without a call");

    // The previous key is revoked, which has no effect.
    rig.provider.world().refused_key = Some("key-one".into());
    rig.provider.set_status(2, "failed");
    let has_failed = || {
        !account.find_servers(&name_hash(2))[0]
            .server
            .status
            .is_live()
    };
    rig.until("a look with the new key", has_failed).await;
    assert_eq!(account.view().state, AccountState::Usable);
    rig.accounts
        .remove(&key("default"), &account_uid("default"));
    sleep(Duration::from_secs(1)).await;
    assert_eq!(rig.accounts.memory_budget().reserved_bytes(), 0);
}

#[tokio::test(start_paused = true)]
async fn permit_uses_the_key_it_was_granted_for() {
    let (rig, account) = Rig::with_account().await;
    rig.provider.world().servers = vec![server_json(1, "delivered")];
    rig.ready(&account).await;
    let mut old = permit(&account, Priority::Release, 2).await.unwrap();
    let previous = connection_hash(&account);
    assert!(account.is_current_permit_for(&old, Some(&previous)));
    assert!(!rig.accounts.is_draining(&key("default")));

    switch_key(&rig, "default", "key-two");
    assert!(rig.accounts.is_draining(&key("default")));
    // Neither the previous hash nor the new one lets a decision use this permit.
    assert!(!account.is_current_permit_for(&old, Some(&previous)));
    assert!(!account.is_current_permit_for(&old, Some(&connection_hash(&account))));
    assert!(old.read_server(&id(1)).await.is_ok());
    rig.provider.world().refused_key = Some("key-one".into());
    let refused = old.call(async |client| client.quota_usage().await).await;
    assert!(matches!(refused, Err(Error::AccessDenied(_))));
    assert_eq!(
        account.view().state,
        AccountState::Usable,
        "it says nothing of the new key"
    );
    assert!(rig.accounts.is_draining(&key("default")));
    drop(old);
    sleep(Duration::from_millis(10)).await;
    assert!(!rig.accounts.is_draining(&key("default")));
    assert!(permit(&account, Priority::Release, 1).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn previous_key_still_identifies_account() {
    let (rig, account) = Rig::with_account().await;
    rig.install("two", "key-one", |_| {});
    rig.ready(&account).await;
    let is_same = || rig.accounts.is_same(&key("default"), &key("two"));
    assert!(is_same());
    switch_key(&rig, "default", "key-two");
    assert!(is_same(), "the other one has the former key");
    // A new session does not know the previous keys.
    rig.install("default", "key-three", |_| {});
    assert!(!is_same());
}
