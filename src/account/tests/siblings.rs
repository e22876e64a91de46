//! Account objects with the same URL and key that have a live account each.

use super::{
    provider::{machine, mark, uuid},
    rig::{Rig, account_uid, key},
};
use crate::{
    account::{Account, Connection},
    runtime::clock,
};
use api::references::AccountKind;
use flexmetal_core::account::{key::AccountKey, orphans::Verdict};
use std::sync::Arc;

fn shared() -> AccountKey {
    AccountKey::named(AccountKind::ClusterProviderAccount, None, "shared")
}

/// Whether both stand on one live account.
fn share(one: &Account, other: &Account) -> bool {
    let core = |account: &Account| account.connected().unwrap().0.core;
    Arc::ptr_eq(&core(one), &core(other))
}

#[tokio::test(start_paused = true)]
async fn only_objects_of_one_kind_that_trust_the_same_roots_share_a_live_account() {
    let rig = Rig::new().await;
    rig.install("one", "key-one", |_| {});
    rig.install("two", "key-one", |_| {});
    rig.install("other", "key-two", |_| {});
    let rooted = Connection {
        roots: Some("roots".into()),
        ..rig.connection("key-one")
    };
    rig.configure("rooted", &account_uid("rooted"), Some(rooted), |_| {});
    let cluster = rig.install_at(&shared(), |i| i.allowed = Some(Vec::new()));
    let (one, two) = (rig.resolve("one"), rig.resolve("two"));
    assert!(share(&one, &two));
    for apart in [&rig.resolve("rooted"), &rig.resolve("other"), &cluster] {
        assert!(!share(&one, apart), "{}", apart.key());
    }
    // At the provider they are one account all the same.
    let is_same = |other: &AccountKey| rig.accounts.is_same(&key("one"), other);
    assert!(is_same(&key("rooted")) && is_same(&shared()) && is_same(&key("two")));
    assert!(!is_same(&key("other")) && !is_same(&key("nobody")));
    assert_eq!(rig.accounts.names_of(&shared()).len(), 4);
    let siblings = &one.audience().siblings;
    let names = siblings.of_all(&[key("one"), key("two"), key("nobody")]);
    let expected = ["one", "two", "rooted", "nobody"].map(key);
    assert_eq!(names, expected.into_iter().chain([shared()]).collect());
    rig.accounts.remove(&key("rooted"), &account_uid("rooted"));
    assert!(!is_same(&key("rooted")));
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_an_object_of_a_sibling_has_beside_its_own_is_no_orphan() {
    let rig = Rig::new().await;
    rig.install("one", "key-one", |_| {});
    let cluster = rig.install_at(&shared(), |i| i.allowed = Some(Vec::new()));
    // The object of this mark uses the account `one`, and has another machine on record.
    *rig.objects.marks.lock().unwrap() = Some([mark(1)].into());
    rig.objects.disowned.lock().unwrap().insert(uuid(1));
    *rig.objects.account.lock().unwrap() = Some(key("one"));
    rig.provider.world().servers = vec![machine(1, "delivered")];
    let now = clock::now().mono;
    cluster.want_proof("x", now);
    rig.until("a listing", || {
        cluster.view().proof.is_some_and(|p| p.began >= now)
    })
    .await;
    let orphans = |rig: &Rig| match rig.accounts.report(&shared(), &[]).unwrap().verdict {
        Verdict::Found(orphans) => orphans.len(),
        Verdict::NotChecked => panic!("not checked"),
    };
    assert_eq!(orphans(&rig), 0);
    // Of an account that leads elsewhere it is one.
    *rig.objects.account.lock().unwrap() = Some(key("elsewhere"));
    let now = clock::now().mono;
    cluster.want_proof("x", now);
    rig.until("another listing", || {
        cluster.view().proof.is_some_and(|p| p.began >= now)
    })
    .await;
    assert_eq!(orphans(&rig), 1);
}
