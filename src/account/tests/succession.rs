//! Another key of an account object: its trial beside the one in use, and what goes on when it takes the place of that.

use super::{
    provider::{machine, mark, uuid},
    rig::{Rig, account_uid, key, permit},
};
use crate::account::Account;
use flexmetal_core::account::{
    decide::candidate::{Evidence, Tried},
    key_state::KeyState,
    lane::Lane,
    view::{List, State},
};
use hosting_types::{Error, ServerId};
use std::{sync::Arc, time::Duration};
use tokio::time::sleep;

fn id(number: usize) -> ServerId {
    ServerId::parse(&uuid(number)).unwrap()
}

fn evidence(number: usize, borne: Option<usize>) -> Evidence {
    Evidence {
        id: id(number),
        place: borne.map(mark),
    }
}

/// What comes of the trial of a key beside the one of the account `default`.
async fn tried(rig: &Rig, api_key: &str, evidence: Vec<Evidence>) -> Tried {
    let connection = rig.connection(api_key);
    let (name, uid) = (key("default"), account_uid("default"));
    let word = connection.word.clone();
    let by = (&name, uid.as_str());
    rig.accounts
        .try_beside(by, word.clone(), connection.client, evidence);
    assert_eq!(rig.accounts.tried_beside(&name, "another"), None);
    let result = || rig.accounts.tried_beside(&name, &word).flatten();
    rig.until("the end of the trial", || result().is_some())
        .await;
    result().unwrap()
}

fn succeed(rig: &Rig, name: &str, api_key: &str) {
    let connection = rig.connection(api_key);
    rig.accounts
        .replace_key(&key(name), &account_uid(name), connection);
}

fn word(account: &Account) -> String {
    account.view().connection.unwrap()
}

#[tokio::test(start_paused = true)]
async fn wrong_candidate_key_changes_nothing() {
    let (rig, account) = Rig::with_account().await;
    rig.provider.world().servers = vec![machine(1, "delivered")];
    rig.ready(&account).await;
    let held = rig.accounts.room().held();
    rig.provider.world().refused_key = Some("key-two".into());
    rig.all_woken();
    let refused = tried(&rig, "key-two", vec![evidence(1, None)]).await;
    assert!(matches!(refused, Tried::Refused(refusal) if refusal.status == 403));
    assert!(!rig.all_woken().is_empty(), "the account object is told");
    assert_eq!(account.view().state, State::Usable);
    assert!(!rig.accounts.is_refused(&key("default")));
    assert!(permit(&account, Lane::Poll, 1).await.is_ok());
    assert_eq!(rig.accounts.room().held(), held);
    // The word of the key in use is as it was.
    let report = rig.accounts.report(&key("default"), &[]).unwrap();
    assert_eq!(report.key, KeyState::Accepted);
}

#[tokio::test(start_paused = true)]
async fn candidate_key_must_show_expected_server() {
    let (rig, account) = Rig::with_account().await;
    rig.provider.world().servers = vec![machine(1, "delivered"), machine(2, "released")];
    rig.ready(&account).await;
    for (machines, expected) in [
        (vec![], Tried::Accepted),
        (vec![evidence(1, Some(1))], Tried::Shows),
        (vec![evidence(1, None)], Tried::Shows),
        (
            vec![evidence(7, Some(7)), evidence(2, Some(2))],
            Tried::Shows,
        ),
        (vec![evidence(1, Some(2))], Tried::ShowsNone),
        (vec![evidence(7, None), evidence(8, None)], Tried::ShowsNone),
    ] {
        assert_eq!(
            tried(&rig, "key-two", machines.clone()).await,
            expected,
            "{machines:?}"
        );
    }
    // Nothing that such a key may read else makes up for it.
    rig.provider.world().blind_key = Some("key-blind".into());
    for machines in [vec![], vec![evidence(1, None)]] {
        let refused = tried(&rig, "key-blind", machines).await;
        assert!(matches!(refused, Tried::Refused(_)), "{refused:?}");
    }
    rig.provider.world().failing = true;
    let failed = tried(&rig, "key-two", vec![evidence(7, None)]).await;
    assert!(matches!(failed, Tried::Failed(_)), "{failed:?}");
}

/// The trial takes its calls from the tokens of the key in use.
#[tokio::test(start_paused = true)]
async fn two_keys_make_no_more_calls_than_one() {
    let (rig, account) = Rig::with_account().await;
    rig.ready(&account).await;
    sleep(Duration::from_secs(60)).await;
    rig.provider.calls();
    // The bucket is empty: a call comes with each token, 20 a second.
    let all = permit(&account, Lane::Release, 40).await.unwrap();
    let started = tokio::time::Instant::now();
    let machines = vec![evidence(1, None), evidence(2, None)];
    assert_eq!(tried(&rig, "key-two", machines).await, Tried::ShowsNone);
    assert_eq!(rig.provider.calls().len(), 3);
    assert!(
        started.elapsed() >= Duration::from_millis(140),
        "{:?}",
        started.elapsed()
    );
    // Nor while the account is closed. Where it is the other key that is asked to wait, it does, and nobody else.
    rig.provider.world().busy = true;
    let started = tokio::time::Instant::now();
    let failed = tried(&rig, "key-two", vec![]).await;
    assert!(matches!(failed, Tried::Failed(_)), "{failed:?}");
    assert!(started.elapsed() >= Duration::from_secs(7));
    let started = tokio::time::Instant::now();
    let mut busy = permit(&account, Lane::Poll, 1).await.unwrap();
    assert!(started.elapsed() < Duration::from_secs(1));
    assert!(matches!(
        busy.read(&id(1)).await,
        Err(Error::RateLimited(_))
    ));
    rig.provider.world().busy = false;
    let started = tokio::time::Instant::now();
    assert_eq!(tried(&rig, "key-two", vec![]).await, Tried::Accepted);
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
    rig.provider.world().servers = vec![machine(1, "delivered"), machine(2, "delivered")];
    rig.ready(&account).await;
    account.want_list(List::Servers, Duration::ZERO, &super::rig::caller("a"));
    rig.until("the list", || account.view().servers.is_some())
        .await;
    let (proof, held) = (account.view().proof.unwrap(), rig.accounts.room().held());
    let former = word(&account);
    rig.provider.calls();

    succeed(&rig, "default", "key-two");
    let view = account.view();
    assert_eq!(view.state, State::Usable, "not for a moment anything else");
    assert!(Arc::ptr_eq(&view.proof.unwrap(), &proof));
    assert!(view.servers.is_some());
    assert_ne!(word(&account), former);
    assert_eq!(account.sightings(&mark(2)).len(), 1);
    assert_eq!(rig.accounts.room().held(), held, "the same room");
    assert_eq!(rig.provider.calls(), Vec::<String>::new(), "without a call");

    // The former key is revoked, and nobody notices.
    rig.provider.world().refused_key = Some("key-one".into());
    rig.provider.set_status(2, "failed");
    let has_failed = || !account.sightings(&mark(2))[0].server.status.is_live();
    rig.until("a look with the new key", has_failed).await;
    assert_eq!(account.view().state, State::Usable);
    rig.accounts
        .remove(&key("default"), &account_uid("default"));
    sleep(Duration::from_secs(1)).await;
    assert_eq!(rig.accounts.room().held(), 0);
}

#[tokio::test(start_paused = true)]
async fn permit_uses_the_key_it_was_granted_for() {
    let (rig, account) = Rig::with_account().await;
    rig.provider.world().servers = vec![machine(1, "delivered")];
    rig.ready(&account).await;
    let mut old = permit(&account, Lane::Release, 2).await.unwrap();
    let former = word(&account);
    assert!(account.stands_on(&old, Some(&former)));
    assert!(!rig.accounts.is_draining(&key("default")));

    succeed(&rig, "default", "key-two");
    assert!(rig.accounts.is_draining(&key("default")));
    // Neither under the former word nor under the new one does anything rest on it.
    assert!(!account.stands_on(&old, Some(&former)));
    assert!(!account.stands_on(&old, Some(&word(&account))));
    assert!(old.read(&id(1)).await.is_ok());
    rig.provider.world().refused_key = Some("key-one".into());
    let refused = old.call(async |client| client.quota_usage().await).await;
    assert!(matches!(refused, Err(Error::AccessDenied(_))));
    assert_eq!(
        account.view().state,
        State::Usable,
        "it says nothing of the new key"
    );
    assert!(rig.accounts.is_draining(&key("default")));
    drop(old);
    sleep(Duration::from_millis(10)).await;
    assert!(!rig.accounts.is_draining(&key("default")));
    assert!(permit(&account, Lane::Release, 1).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn previous_key_still_identifies_account() {
    let (rig, account) = Rig::with_account().await;
    rig.install("two", "key-one", |_| {});
    rig.ready(&account).await;
    let is_same = || rig.accounts.is_same(&key("default"), &key("two"));
    assert!(is_same());
    succeed(&rig, "default", "key-two");
    assert!(is_same(), "the other one has the former key");
    // Another session is another matter.
    rig.install("default", "key-three", |_| {});
    assert!(!is_same());
}
