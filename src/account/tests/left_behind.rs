//! What earlier objects of a place left behind, over all accounts that the namespace may use.

use super::{
    provider::{CLUSTER, machine},
    rig::{Rig, key},
};
use crate::{account::Settings, runtime::clock};
use api::{allowed::AllowedNamespaces, references::AccountKind};
use flexmetal_core::account::{
    key::AccountKey,
    left_behind::{Left, LeftBehind},
    marks,
};
use serde_json::json;
use std::time::Duration;

fn place() -> String {
    let tag = marks::tag_of_retained(CLUSTER, "n", "web");
    tag[tag.len() - 24..].to_owned()
}

/// Of `web` in namespace `n`.
fn left(rig: &Rig, since: Duration) -> (usize, Vec<AccountKey>) {
    let place = place();
    let of = Left {
        namespace: "n",
        place: &place,
        since,
    };
    let LeftBehind { machines, unlisted } = rig.accounts.left_behind(&of);
    (machines.len(), unlisted)
}

#[tokio::test(start_paused = true)]
async fn an_account_that_retained_machines_has_to_be_listed_before_nothing_is_known_to_be_left() {
    let rig = Rig::new().await;
    let mut kept = machine(1, "delivered");
    let tag = marks::tag_of_retained(CLUSTER, "n", "web");
    kept["tags"].as_array_mut().unwrap().push(json!(tag));
    rig.provider.world().servers = vec![kept];
    let start = clock::now().mono;
    assert_eq!(left(&rig, start), (0, vec![]));

    // The object is there, and nobody has read it.
    rig.accounts.announce(&key("default"), "account-default");
    assert_eq!(left(&rig, start), (0, vec![key("default")]));
    // Without a Secret.
    rig.configure("default", "account-default", None, |s| s.may_keep = true);
    assert_eq!(left(&rig, start), (0, vec![key("default")]));
    // With one that none of its own has used yet.
    rig.install("default", "key-one", |s| s.may_keep = true);
    assert_eq!(left(&rig, start), (0, vec![key("default")]));
    rig.ready(&rig.resolve("default")).await;
    assert_eq!(left(&rig, start), (1, vec![]));
    // What another process did since is not in this listing.
    let later = clock::now().mono + Duration::from_secs(1);
    assert_eq!(left(&rig, later), (1, vec![key("default")]));

    // Another key leads to an account of which nothing is known yet.
    rig.install("default", "key-two", |s| s.may_keep = true);
    assert_eq!(left(&rig, start), (0, vec![key("default")]));
    rig.ready(&rig.resolve("default")).await;
    assert_eq!(left(&rig, start), (1, vec![]));
}

#[tokio::test(start_paused = true)]
async fn a_listing_that_is_not_believed_shows_nothing() {
    let rig = Rig::new().await;
    let start = clock::now().mono;
    // It shows none of the machines that the account is known by.
    let known = |s: &mut Settings| {
        s.may_keep = true;
        s.known = serde_json::from_value(json!([
            {"uuid": machine(1, "delivered")["uuid"], "orderTag": "t", "live": true},
        ]))
        .unwrap();
    };
    rig.install("default", "key-one", known);
    rig.ready(&rig.resolve("default")).await;
    assert_eq!(left(&rig, start), (0, vec![key("default")]));
    rig.provider.world().servers = vec![machine(1, "delivered")];
    let later = clock::now().mono;
    let account = rig.resolve("default");
    account.want_proof("x", later);
    rig.until("it", || {
        account.view().proof.is_some_and(|p| p.began >= later)
    })
    .await;
    assert_eq!(left(&rig, start), (0, vec![]));
    // Nobody knows whether the key leads to the same account.
    rig.install("default", "key-one", |s| {
        known(s);
        s.lineage = None;
    });
    assert_eq!(left(&rig, start), (0, vec![key("default")]));
}

#[tokio::test(start_paused = true)]
async fn only_accounts_that_had_some_and_serve_the_namespace_make_anybody_wait() {
    let rig = Rig::new().await;
    rig.configure("none", "account-none", None, |_| {});
    let elsewhere = AccountKey::named(AccountKind::ProviderAccount, Some("m"), "default");
    rig.accounts.announce(&elsewhere, "account-m");
    let cluster = |name| AccountKey::named(AccountKind::ClusterProviderAccount, None, name);
    let serving = |namespace: &str| {
        let entry = json!([{"name": "team", "namespaces": [namespace]}]);
        Some(serde_json::from_value::<Vec<AllowedNamespaces>>(entry).unwrap())
    };
    for (name, namespace) in [("open", "n"), ("closed", "m")] {
        rig.install_at(&cluster(name), |s| {
            s.allowed = serving(namespace);
            s.may_keep = true;
        });
    }
    assert_eq!(left(&rig, clock::now().mono), (0, vec![cluster("open")]));
}
