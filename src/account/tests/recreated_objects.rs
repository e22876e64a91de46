//! Account objects that are recreated under one name.

use super::{
    provider::{name_hash, server_json},
    rig::{Rig, account_uid, caller, key, permit, reserve},
};
use crate::account::{Account, AccountSettings, EnqueueTarget, PermitAnswer};
use api::{Reason, references::AccountKind};
use flexmetal_core::account::{key::AccountKey, priority::Priority, view::AccountState};
use hosting_types::Error;
use std::time::Duration;
use tokio::time::sleep;

const SECOND: &str = "account-second";

/// The previous and the recreated account object `default`.
async fn recreated_account() -> (Rig, Account, Account) {
    let (rig, previous) = Rig::with_account().await;
    rig.provider.world().servers = vec![server_json(1, "delivered")];
    rig.ready(&previous).await;
    rig.accounts.add_account(&key("default"), SECOND);
    let present = rig.accounts.get(&key("default")).unwrap();
    (rig, previous, present)
}

#[tokio::test(start_paused = true)]
async fn another_object_of_the_name_starts_without_anything() {
    let (rig, previous, present) = recreated_account().await;
    assert_eq!(present.uid(), SECOND);
    assert!(matches!(
        present.view().state,
        AccountState::Blocked(Reason::Pending, _)
    ));
    assert!(present.find_servers(&name_hash(1)).is_empty());
    assert!(matches!(
        previous.view().state,
        AccountState::Blocked(Reason::AccountNotFound, _)
    ));
    let answer = previous.request_permit(Priority::Release, 1, &caller("a"));
    assert!(matches!(answer.map(drop), Err(Error::NotSent(_))));
    assert!(
        rig.enqueued()
            .contains(&EnqueueTarget::Account(key("default")))
    );
    rig.provider.calls();
    sleep(Duration::from_secs(7200)).await;
    assert!(
        rig.provider.calls().is_empty(),
        "the former connection is gone"
    );
    // Another announcement changes nothing.
    rig.enqueued();
    rig.accounts.add_account(&key("default"), SECOND);
    assert!(rig.enqueued().is_empty());
}

#[tokio::test(start_paused = true)]
async fn stale_account_uid_changes_nothing() {
    let (rig, previous, _) = recreated_account().await;
    rig.configure("default", SECOND, Some(rig.connection("key-two")), |_| {});
    let present = rig.resolve("default");
    rig.ready(&present).await;
    rig.enqueued();
    let first = account_uid("default");
    let blocked = || AccountSettings::blocked(Reason::InvalidSpec, "late".into());
    let connection = rig.connection("key-one");
    rig.accounts
        .configure(&key("default"), &first, blocked(), Some(connection));
    rig.accounts
        .configure(&key("default"), &first, blocked(), None);
    rig.accounts.set_finalizers(&key("default"), &first, false);
    rig.accounts.remove(&key("default"), &first);
    assert_eq!(present.view().state, AccountState::Usable);
    assert_eq!(rig.resolve("default").uid(), SECOND);
    assert!(present.has_finalizers());
    assert!(previous.connected().is_none());
    assert!(rig.enqueued().is_empty());
    let mut call = permit(&present, Priority::Poll, 1).await.unwrap();
    call.call(async |client| client.plans().await)
        .await
        .unwrap();

    rig.accounts.remove(&key("default"), SECOND);
    assert!(rig.accounts.get(&key("default")).is_none());
}

#[tokio::test(start_paused = true)]
async fn ended_session_enqueues_waiting_objects() {
    let (rig, account) = Rig::with_account().await;
    rig.ready(&account).await;
    rig.provider.world().busy = true;
    let mut call = permit(&account, Priority::Poll, 1).await.unwrap();
    let answer = call.call(async |client| client.plans().await).await;
    assert!(matches!(answer, Err(Error::RateLimited(_))));
    let answer = account.request_permit(Priority::Release, 2, &caller("waits"));
    assert!(matches!(answer, Ok(PermitAnswer::Queued)));
    rig.enqueued();
    rig.configure(
        "default",
        &account_uid("default"),
        Some(rig.connection("key-two")),
        |_| {},
    );
    let enqueued = rig.enqueued();
    assert!(
        enqueued.contains(&EnqueueTarget::Object("waits".into())),
        "{enqueued:?}"
    );
    assert!(
        enqueued.contains(&EnqueueTarget::Account(key("default"))),
        "{enqueued:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn order_permit_is_bound_to_its_connection() {
    let (rig, account) = Rig::with_account().await;
    rig.ready(&account).await;
    let previous = reserve(&account, &name_hash(1)).await.unwrap();
    assert!(previous.is_current_for(&account));
    let uid = account_uid("default");
    rig.configure("default", &uid, Some(rig.connection("key-two")), |_| {});
    assert!(
        !previous.is_current_for(&account),
        "what was checked there says nothing of this one"
    );
    rig.ready(&account).await;
    let present = reserve(&account, &name_hash(2)).await.unwrap();
    assert!(present.is_current_for(&account));
}

#[tokio::test(start_paused = true)]
async fn view_explains_why_orders_are_blocked() {
    let (rig, account) = Rig::with_account().await;
    rig.ready(&account).await;
    assert_eq!(account.view().no_orders, None);
    let uid = account_uid("default");
    rig.accounts.set_finalizers(&key("default"), &uid, false);
    let (reason, why) = account.view().no_orders.unwrap();
    assert_eq!(reason, Reason::Pending);
    assert!(why.contains("finalizer"), "{why}");
    rig.enqueued();
    rig.accounts.set_finalizers(&key("default"), &uid, true);
    assert_eq!(account.view().no_orders, None);
    assert!(
        rig.enqueued()
            .contains(&EnqueueTarget::Account(key("default")))
    );
}

#[tokio::test(start_paused = true)]
async fn accounts_with_one_key_share_no_session() {
    let (rig, one) = Rig::with_account().await;
    let shared = AccountKey::named(AccountKind::ClusterProviderAccount, None, "shared");
    let cluster = rig.install_at(&shared, |i| i.allowed = Some(Vec::new()));
    rig.install("two", "key-one", |_| {});
    rig.install("other", "key-two", |_| {});
    rig.ready(&one).await;
    let two = rig.resolve("two");
    assert!(
        two.view().complete_list.is_none(),
        "nobody looked there yet"
    );
    rig.provider.world().refused_key = Some("key-one".into());
    let mut call = permit(&one, Priority::Poll, 1).await.unwrap();
    let refused = call.call(async |client| client.quota_usage().await).await;
    assert!(matches!(refused, Err(Error::AccessDenied(_))));
    let is_rejected = |account: &Account| {
        matches!(
            account.view().state,
            AccountState::Blocked(Reason::KeyRejected, _)
        )
    };
    assert!(is_rejected(&one) && !is_rejected(&two) && !is_rejected(&cluster));

    // At the provider they are still one account.
    let is_same = |other: &AccountKey| rig.accounts.is_same(&key("default"), other);
    assert!(is_same(&key("default")) && is_same(&shared) && is_same(&key("two")));
    assert!(!is_same(&key("other")) && !is_same(&key("nobody")));
    let mut names = rig.accounts.names_of(&shared);
    names.sort_unstable();
    assert_eq!(names, [key("default"), key("two"), shared.clone()]);
    rig.accounts.remove(&key("two"), &account_uid("two"));
    assert!(!is_same(&key("two")));
    assert_eq!(rig.accounts.names_of(&key("nobody")), [key("nobody")]);
}
