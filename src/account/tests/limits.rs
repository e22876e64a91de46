//! Limits on orders.

use super::{
    provider::{CLUSTER, name_hash, order_tag, ordered, server_json},
    rig::{Rig, account_uid, caller, key, order, reserve},
};
use crate::{
    account::{Caller, Denied, EnqueueTarget, OrderPermitAnswer},
    runtime::clock,
};
use api::{
    Reason, allowed::AllowedNamespaces, limits::Limits, names::RETAINED_TAG,
    references::AccountKind,
};
use flexmetal_core::{
    account::{key::AccountKey, terms::Terms},
    cluster_id::ClusterId,
    owner::Owner,
};
use hosting_types::OrderResult;
use serde_json::json;
use std::{sync::atomic::Ordering, time::Duration};
use tokio::time::sleep;

fn counted(max_servers: Option<i32>, max_orders_per_hour: Option<i32>) -> Limits {
    Limits {
        max_servers,
        max_orders_per_hour,
        ..Limits::default()
    }
}

async fn limited(
    max_servers: Option<i32>,
    per_hour: Option<i32>,
) -> (Rig, crate::account::Account) {
    let rig = Rig::new().await;
    rig.install("default", "key-one", |i| {
        i.limits = counted(max_servers, per_hour);
    });
    let account = rig.resolve("default");
    rig.ready(&account).await;
    (rig, account)
}

fn limit(denied: Denied) -> String {
    match denied {
        Denied::Limit(message) => message,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn places_are_reserved_before_the_order() {
    let (rig, account) = limited(Some(3), None).await;
    rig.provider.world().servers = vec![server_json(1, "delivered"), server_json(2, "released")];
    account.request_complete_list("x", clock::now().mono);
    rig.until("both", || account.find_servers(&name_hash(2)).len() == 1)
        .await;
    let first = reserve(&account, &name_hash(11)).await.unwrap();
    let second = reserve(&account, &name_hash(12)).await.unwrap();
    let message = limit(reserve(&account, &name_hash(13)).await.err().unwrap());
    assert!(
        message.contains("spec.limits.maxServers") && message.contains('3'),
        "{message}"
    );
    assert!(message.contains("ProviderAccount n/default"));
    let remedy = "ask an administrator of the account to raise the limit; checked every ";
    assert!(message.contains(remedy), "{message}");

    // Dropped unsent it frees its reservation; with its server in the snapshot it is counted once.
    drop(first);
    let first = reserve(&account, &name_hash(11)).await.unwrap();
    let outcome = account
        .order(second, &order(&order_tag(12)), &order_tag(12))
        .await;
    assert!(matches!(outcome, OrderResult::Created(_)));
    limit(reserve(&account, &name_hash(13)).await.err().unwrap());

    rig.provider.world().next_order = Some(Ok(422));
    let outcome = account
        .order(first, &order(&order_tag(11)), &order_tag(11))
        .await;
    assert!(matches!(outcome, OrderResult::Refused(_)));
    drop(reserve(&account, &name_hash(13)).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn unknown_order_counts_until_it_is_settled() {
    let (rig, account) = limited(Some(1), None).await;
    let permit = reserve(&account, &name_hash(1)).await.unwrap();
    rig.provider.world().next_order = Some(Err(()));
    let sent = clock::now().mono;
    let outcome = account
        .order(permit, &order(&order_tag(1)), &order_tag(1))
        .await;
    assert!(matches!(outcome, OrderResult::Unknown(_)));
    limit(reserve(&account, &name_hash(2)).await.err().unwrap());
    account.request_complete_list(&name_hash(1), clock::now().mono);
    sleep(Duration::from_secs(10)).await;
    limit(reserve(&account, &name_hash(2)).await.err().unwrap());
    let settled = sent + account.view().times.absence_grace_period;
    account.request_complete_list(&name_hash(1), settled);
    rig.until("the listing", || {
        account.view().complete_list.unwrap().began >= settled
    })
    .await;
    drop(reserve(&account, &name_hash(2)).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn interrupted_order_still_counts() {
    let (_rig, account) = limited(Some(1), None).await;
    let permit = reserve(&account, &name_hash(1)).await.unwrap();
    {
        let (request, tag) = (order(&order_tag(1)), order_tag(1));
        let mut sending = std::pin::pin!(account.order(permit, &request, &tag));
        assert!(futures::poll!(sending.as_mut()).is_pending());
    }
    limit(reserve(&account, &name_hash(2)).await.err().unwrap());
    // The same object orders again only when it knows the outcome, which frees the reservation.
    drop(reserve(&account, &name_hash(1)).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn orders_of_the_last_hour_are_counted() {
    let (rig, account) = limited(None, Some(2)).await;
    for n in 1..3 {
        let permit = reserve(&account, &name_hash(n)).await.unwrap();
        rig.provider.world().next_order = Some(Ok(422));
        account
            .order(permit, &order(&order_tag(n)), &order_tag(n))
            .await;
    }
    let message = limit(reserve(&account, &name_hash(3)).await.err().unwrap());
    assert!(
        message.contains("Wait, or ask") && message.contains("to raise the limit; checked every"),
        "{message}"
    );
    sleep(Duration::from_secs(3601)).await;
    drop(reserve(&account, &name_hash(3)).await.unwrap());

    // Servers from before this process count by their creation time.
    let (rig, account) = limited(None, Some(2)).await;
    let mut new = vec![server_json(1, "delivered"), server_json(2, "released")];
    for server in &mut new {
        server["createdAt"] = clock::now().wall.into();
    }
    rig.provider.world().servers = new;
    account.request_complete_list("x", clock::now().mono);
    rig.until("both", || account.find_servers(&name_hash(2)).len() == 1)
        .await;
    limit(reserve(&account, &name_hash(3)).await.err().unwrap());
}

#[tokio::test(start_paused = true)]
async fn orders_in_flight_are_limited() {
    let (rig, account) = limited(None, None).await;
    let mut permits = Vec::new();
    for n in 0..8 {
        permits.push(reserve(&account, &name_hash(n)).await.unwrap());
    }
    let late = account.request_order_permit(&name_hash(40), &caller("late"));
    assert!(matches!(late, Ok(OrderPermitAnswer::Queued)));
    sleep(Duration::from_secs(60)).await;
    rig.enqueued();
    permits.pop();
    sleep(Duration::from_millis(1)).await;
    assert_eq!(rig.enqueued(), [EnqueueTarget::Object("late".into())]);
    let late = account.request_order_permit(&name_hash(40), &caller("late"));
    assert!(matches!(late, Ok(OrderPermitAnswer::Now(_))));
}

#[tokio::test(start_paused = true)]
async fn no_order_without_the_account_finalizer() {
    let (rig, account) = limited(None, None).await;
    let set_finalizers = |has_finalizers| {
        let uid = account_uid("default");
        rig.accounts
            .set_finalizers(&key("default"), &uid, has_finalizers);
    };
    set_finalizers(false);
    rig.all_enqueued();
    let denied = reserve(&account, &name_hash(1)).await.err();
    assert!(matches!(denied, Some(Denied::Blocked(Reason::Pending, _))));
    let object = EnqueueTarget::Object(account_uid("default"));
    assert_eq!(rig.all_enqueued(), [object], "its controller sees to it");
    set_finalizers(true);
    assert_eq!(rig.enqueued(), [EnqueueTarget::Account(key("default"))]);
    drop(reserve(&account, &name_hash(1)).await.unwrap());
    set_finalizers(true);
    assert!(rig.enqueued().is_empty());
    rig.install("default", "key-one", |i| {
        i.no_orders = Some((Reason::ReferenceNotFound, "gone".into()));
    });
    assert!(
        rig.enqueued()
            .contains(&EnqueueTarget::Account(key("default")))
    );
    assert!(matches!(
        reserve(&account, &name_hash(1)).await.err(),
        Some(Denied::Blocked(Reason::ReferenceNotFound, _))
    ));
}

#[tokio::test(start_paused = true)]
async fn account_counts_all_servers_of_its_key() {
    let (rig, account) = limited(Some(3), None).await;
    rig.install("tenant", "key-one", |i| {
        i.limits = counted(Some(0), Some(0));
    });
    rig.provider.world().servers = vec![server_json(1, "delivered"), server_json(2, "delivered")];
    let tenant = rig.resolve("tenant");
    for account in [&account, &tenant] {
        account.request_complete_list("x", clock::now().mono);
        rig.until("both", || account.find_servers(&name_hash(2)).len() == 1)
            .await;
    }
    let permit = reserve(&account, &name_hash(3)).await.unwrap();
    limit(reserve(&account, &name_hash(4)).await.err().unwrap());
    limit(reserve(&tenant, &name_hash(5)).await.err().unwrap());
    drop(permit);
}

/// The owner of a server that an object of this namespace retained.
fn retained_owner(namespace: &str) -> Owner {
    Owner::new(&ClusterId::parse(CLUSTER).unwrap(), namespace, "web", "1")
}

/// A server that an object of this namespace retained.
fn retained_server(n: usize, namespace: &str) -> serde_json::Value {
    let mut retained = server_json(n, "delivered");
    retained["tags"][1] = json!(retained_owner(namespace).order_tag(1));
    retained["tags"]
        .as_array_mut()
        .unwrap()
        .push(json!(RETAINED_TAG));
    retained
}

#[tokio::test(start_paused = true)]
async fn entry_limit_counts_its_own_servers() {
    let rig = Rig::new().await;
    let cluster = AccountKey::named(AccountKind::ClusterProviderAccount, None, "shared");
    let entry = |name: &str, names: &[&str], most| AllowedNamespaces {
        name: name.into(),
        namespaces: names.iter().map(|&n| n.into()).collect(),
        limits: counted(Some(most), None),
        ..AllowedNamespaces::default()
    };
    let entries = vec![
        entry("ours", &["n", "m"], 3),
        entry("theirs", &["other"], 1),
    ];
    let account = rig.install_at(&cluster, |i| i.allowed = Some(entries));
    rig.ready(&account).await;
    // One server of each entry, one that each retained, and one without an owner.
    rig.provider.world().servers = vec![
        server_json(1, "delivered"),
        server_json(2, "delivered"),
        retained_server(3, "m"),
        retained_server(4, "other"),
        server_json(5, "delivered"),
    ];
    for (n, namespace) in [(1, "m"), (2, "other")] {
        let mut namespaces = rig.objects.namespaces.lock().unwrap();
        namespaces.insert(name_hash(n), namespace.into());
    }
    account.request_complete_list("x", clock::now().mono);
    rig.until("all", || account.find_servers(&name_hash(5)).len() == 1)
        .await;
    let permit = reserve(&account, &name_hash(11)).await.unwrap();
    let message = limit(reserve(&account, &name_hash(12)).await.err().unwrap());
    for words in ["limits.maxServers", "\"ours\"", "is 3", "3 servers"] {
        assert!(message.contains(words), "{message}");
    }
    assert!(!message.contains("theirs"), "{message}");
    drop(permit);
    drop(reserve(&account, &name_hash(12)).await.unwrap());
    // An order of this process counts after its object is gone.
    let permit = reserve(&account, &name_hash(12)).await.unwrap();
    let sent = account
        .order(permit, &order(&order_tag(12)), &order_tag(12))
        .await;
    assert!(matches!(sent, OrderResult::Created(_)));
    rig.accounts.forget_name_hash(&name_hash(12));
    limit(reserve(&account, &name_hash(13)).await.err().unwrap());
    let other = Caller {
        uid: "other".into(),
        namespace: "other".into(),
    };
    let denied = account.request_order_permit(&name_hash(14), &other).err();
    assert!(matches!(denied, Some(Denied::Limit(_))), "{denied:?}");
    let nobody = Caller {
        uid: "nobody".into(),
        namespace: "elsewhere".into(),
    };
    let denied = account.request_order_permit(&name_hash(14), &nobody).err();
    let is_refused = matches!(denied, Some(Denied::Blocked(Reason::NotAllowed, _)));
    assert!(is_refused, "{denied:?}");
}

#[tokio::test(start_paused = true)]
async fn entry_limit_counts_recent_orders() {
    let rig = Rig::new().await;
    let cluster = AccountKey::named(AccountKind::ClusterProviderAccount, None, "shared");
    let entry = |name: &str, names: &[&str]| AllowedNamespaces {
        name: name.into(),
        namespaces: names.iter().map(|&n| n.into()).collect(),
        limits: counted(None, Some(2)),
        ..AllowedNamespaces::default()
    };
    let entries = vec![entry("ours", &["n", "m"]), entry("theirs", &["other"])];
    let account = rig.install_at(&cluster, |i| i.allowed = Some(entries));
    rig.ready(&account).await;
    // Of a previous process: one order for each entry within the hour, and one before.
    let mut servers = vec![
        server_json(1, "delivered"),
        server_json(2, "delivered"),
        server_json(3, "delivered"),
    ];
    for server in &mut servers[..2] {
        server["createdAt"] = clock::now().wall.into();
    }
    rig.provider.world().servers = servers;
    for (n, namespace) in [(1, "m"), (2, "other"), (3, "n")] {
        let mut namespaces = rig.objects.namespaces.lock().unwrap();
        namespaces.insert(name_hash(n), namespace.into());
    }
    account.request_complete_list("x", clock::now().mono);
    rig.until("all", || account.find_servers(&name_hash(3)).len() == 1)
        .await;
    let permit = reserve(&account, &name_hash(11)).await.unwrap();
    let sent = account
        .order(permit, &order(&order_tag(11)), &order_tag(11))
        .await;
    assert!(matches!(sent, OrderResult::Created(_)));
    let message = limit(reserve(&account, &name_hash(12)).await.err().unwrap());
    for words in [
        "Entry \"ours\"",
        "2 orders within an hour",
        "its limits.maxOrdersPerHour in spec.allowedNamespaces is 2",
        "to raise the limit",
    ] {
        assert!(message.contains(words), "{message}");
    }
    let other = Caller {
        uid: "other".into(),
        namespace: "other".into(),
    };
    let theirs = account.request_order_permit(&name_hash(13), &other);
    assert!(!matches!(theirs, Err(Denied::Limit(_))), "one of two");
    drop(theirs);
    // A server that is gone with its object was still ordered.
    rig.provider.world().servers.retain(|s| {
        !s["tags"]
            .as_array()
            .unwrap()
            .contains(&json!(order_tag(11)))
    });
    rig.accounts.forget_name_hash(&name_hash(11));
    limit(reserve(&account, &name_hash(12)).await.err().unwrap());
    sleep(Duration::from_secs(3601)).await;
    drop(reserve(&account, &name_hash(12)).await.unwrap());
}

/// A cluster-scoped account with one server that namespace `gone` retained, and an entry for the namespaces with a
/// label, `n` among them. The entry allows one server.
async fn by_labels(more: Vec<AllowedNamespaces>) -> (Rig, crate::account::Account) {
    let rig = Rig::new().await;
    let cluster = AccountKey::named(AccountKind::ClusterProviderAccount, None, "shared");
    let mut entries: Vec<AllowedNamespaces> = serde_json::from_value(json!([{
        "name": "blue", "namespaceSelector": {"matchLabels": {"team": "blue"}}, "limits": {"maxServers": 1},
    }]))
    .unwrap();
    entries.extend(more);
    let account = rig.install_at(&cluster, |i| i.allowed = Some(entries));
    rig.ready(&account).await;
    show(&rig, "n", "blue");
    rig.provider.world().servers = vec![retained_server(1, "gone")];
    account.request_complete_list("x", clock::now().mono);
    rig.until("it", || {
        account
            .find_servers(retained_owner("gone").name_hash())
            .len()
            == 1
    })
    .await;
    (rig, account)
}

fn show(rig: &Rig, namespace: &str, team: &str) {
    let labels = [("team".to_owned(), team.to_owned())];
    rig.accounts.show_namespace(namespace, labels.into());
}

fn listed(rig: &Rig, namespaces: &[&str]) {
    let names = namespaces.iter().map(|&name| name.to_owned()).collect();
    rig.accounts.retain_namespaces(&names);
}

#[tokio::test(start_paused = true)]
async fn servers_of_deleted_namespaces_count() {
    let (rig, account) = by_labels(Vec::new()).await;
    listed(&rig, &["n"]);
    limit(reserve(&account, &name_hash(2)).await.err().unwrap());
    // The labels of an existing namespace are known.
    show(&rig, "gone", "red");
    drop(reserve(&account, &name_hash(2)).await.unwrap());
    show(&rig, "gone", "blue");
    limit(reserve(&account, &name_hash(2)).await.err().unwrap());

    // A server that an object of a deleted namespace ordered counts for the entry, too.
    rig.accounts.forget_namespace("gone");
    rig.provider.world().servers = vec![server_json(1, "delivered")];
    let gone = (name_hash(1), "gone".to_owned());
    rig.objects.namespaces.lock().unwrap().extend([gone]);
    let now = clock::now().mono;
    account.request_complete_list("x", now);
    rig.until("it", || {
        account.view().complete_list.is_some_and(|p| p.began >= now)
    })
    .await;
    limit(reserve(&account, &name_hash(2)).await.err().unwrap());

    // A namespace that another entry names counts there.
    let names = json!([{"name": "others", "namespaces": ["gone"]}]);
    let (rig, account) = by_labels(serde_json::from_value(names).unwrap()).await;
    listed(&rig, &["n"]);
    drop(reserve(&account, &name_hash(2)).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn entry_limit_waits_for_complete_lists() {
    let (rig, account) = by_labels(Vec::new()).await;
    rig.provider.world().servers.clear();
    let waits = |denied: Option<Denied>, words: &str| match denied {
        Some(Denied::Blocked(Reason::Pending, why)) => assert!(why.contains(words), "{why}"),
        other => panic!("{other:?}"),
    };
    rig.objects.unlisted.store(true, Ordering::Relaxed);
    waits(reserve(&account, &name_hash(2)).await.err(), "all servers");
    rig.objects.unlisted.store(false, Ordering::Relaxed);
    waits(
        reserve(&account, &name_hash(2)).await.err(),
        "all namespaces",
    );
    rig.enqueued();
    listed(&rig, &["n", "gone"]);
    assert_eq!(
        rig.enqueued(),
        [EnqueueTarget::Account(account.key().clone())]
    );
    show(&rig, "gone", "red");
    drop(reserve(&account, &name_hash(2)).await.unwrap());
}

#[test]
fn refusal_names_field_not_other_namespaces() {
    let entry = |name: &str, names: &[&str]| AllowedNamespaces {
        name: name.into(),
        namespaces: names.iter().map(|&n| n.into()).collect(),
        ..AllowedNamespaces::default()
    };
    for entries in [
        vec![],
        vec![entry("others", &["elsewhere"])],
        vec![entry("others", &[]), entry("n", &["elsewhere"])],
        vec![entry("n", &[])],
    ] {
        let message = not_allowed(&entries);
        assert!(
            message.contains("namespace n.") && message.contains("spec.allowedNamespaces"),
            "{message}"
        );
        assert!(!message.contains("elsewhere"), "{message}");
    }
    let twice = vec![entry("teams", &["n"]), entry("all", &["*"])];
    let message = not_allowed(&twice);
    assert!(
        message.contains(r#"the entries "teams" and "all" of spec.allowedNamespaces"#),
        "{message}"
    );
}

/// The message of a cluster-scoped account with these entries for namespace `n`.
fn not_allowed(entries: &[AllowedNamespaces]) -> String {
    let key = AccountKey::named(AccountKind::ClusterProviderAccount, None, "default");
    match Terms::for_namespace(&key, Some(entries), "n", None) {
        Terms::Refused(message) => message,
        terms => panic!("{terms:?}"),
    }
}

/// Configures the same account object with another key, which shows the same servers.
async fn with_a_new_key(rig: &Rig, max_servers: Option<i32>, per_hour: Option<i32>) {
    let uid = account_uid("default");
    let connection = rig.connection("key-two");
    rig.configure("default", &uid, Some(connection), |settings| {
        settings.limits = counted(max_servers, per_hour);
    });
    rig.ready(&rig.resolve("default")).await;
}

#[tokio::test(start_paused = true)]
async fn new_key_keeps_orders_in_flight() {
    let (rig, account) = limited(Some(1), None).await;
    let permit = reserve(&account, &name_hash(1)).await.unwrap();
    let request = order(&order_tag(1));
    let tag = order_tag(1);
    let mut sending = Box::pin(account.order(permit, &request, &tag));
    assert!(futures::poll!(sending.as_mut()).is_pending());
    with_a_new_key(&rig, Some(1), None).await;
    limit(reserve(&account, &name_hash(2)).await.err().unwrap());
    // The answer comes over the previous connection, before a list over the new one shows the server.
    rig.provider.world().hidden = vec![super::provider::uuid(1000)];
    assert!(matches!(sending.await, OrderResult::Created(_)));
    limit(reserve(&account, &name_hash(2)).await.err().unwrap());
    with_a_new_key(&rig, Some(2), None).await;
    let second = reserve(&account, &name_hash(2)).await.unwrap();
    // A server that a list shows counts once, not twice.
    rig.provider.world().hidden.clear();
    let now = clock::now().mono;
    account.request_complete_list("x", now);
    rig.until("it is shown", || {
        account.find_servers(&name_hash(1)).len() == 1
    })
    .await;
    drop(second);
    drop(reserve(&account, &name_hash(2)).await.unwrap());
    with_a_new_key(&rig, Some(1), None).await;
    limit(reserve(&account, &name_hash(2)).await.err().unwrap());
}

#[tokio::test(start_paused = true)]
async fn new_key_keeps_servers_not_listed_yet() {
    let (rig, account) = limited(Some(1), None).await;
    let permit = reserve(&account, &name_hash(1)).await.unwrap();
    let outcome = account
        .order(permit, &order(&order_tag(1)), &order_tag(1))
        .await;
    assert!(matches!(outcome, OrderResult::Created(_)));
    rig.provider.world().hidden = vec![super::provider::uuid(1000)];
    with_a_new_key(&rig, Some(1), None).await;
    limit(reserve(&account, &name_hash(2)).await.err().unwrap());
}

#[tokio::test(start_paused = true)]
async fn new_key_keeps_unknown_and_recent_orders() {
    let (rig, account) = limited(Some(1), None).await;
    let permit = reserve(&account, &name_hash(1)).await.unwrap();
    rig.provider.world().next_order = Some(Err(()));
    let outcome = account
        .order(permit, &order(&order_tag(1)), &order_tag(1))
        .await;
    assert!(matches!(outcome, OrderResult::Unknown(_)));
    with_a_new_key(&rig, Some(1), None).await;
    limit(reserve(&account, &name_hash(2)).await.err().unwrap());

    let (rig, account) = limited(None, Some(2)).await;
    for n in 1..3 {
        let permit = reserve(&account, &name_hash(n)).await.unwrap();
        rig.provider.world().next_order = Some(Ok(422));
        account
            .order(permit, &order(&order_tag(n)), &order_tag(n))
            .await;
    }
    with_a_new_key(&rig, None, Some(2)).await;
    limit(reserve(&account, &name_hash(3)).await.err().unwrap());
}

#[tokio::test(start_paused = true)]
async fn retained_server_counts_against_the_limit() {
    let (rig, account) = limited(Some(1), None).await;
    let mut retained = server_json(1, "delivered");
    retained["tags"]
        .as_array_mut()
        .unwrap()
        .push(json!("fmo-retained"));
    rig.provider.world().servers = vec![retained];
    account.request_complete_list("x", clock::now().mono);
    rig.until("it", || account.find_servers(&name_hash(1)).len() == 1)
        .await;
    limit(reserve(&account, &name_hash(2)).await.err().unwrap());
}

#[tokio::test(start_paused = true)]
async fn late_provider_clock_keeps_hourly_limit() {
    // The fake API creates its servers in 2020.
    let (rig, account) = limited(None, Some(1)).await;
    let permit = reserve(&account, &name_hash(1)).await.unwrap();
    let outcome = account
        .order(permit, &order(&order_tag(1)), &order_tag(1))
        .await;
    assert!(matches!(outcome, OrderResult::Created(_)));
    limit(reserve(&account, &name_hash(2)).await.err().unwrap());
    sleep(Duration::from_secs(3601)).await;
    drop(reserve(&account, &name_hash(2)).await.unwrap());

    // Servers of a previous process count by the time in their order tag, which is of our clock.
    let (rig2, account) = limited(None, Some(1)).await;
    let mut recent = server_json(1, "delivered");
    let epoch = clock::now().wall - 600;
    recent["tags"][1] = json!(ordered(1, epoch));
    recent["createdAt"] = json!(epoch - 2 * 3600);
    rig2.provider.world().servers = vec![recent];
    account.request_complete_list("x", clock::now().mono);
    rig2.until("it", || account.find_servers(&name_hash(1)).len() == 1)
        .await;
    limit(reserve(&account, &name_hash(2)).await.err().unwrap());
    drop(rig);
}

#[tokio::test(start_paused = true)]
async fn new_server_counts_as_one_hourly_order() {
    let (rig, account) = limited(None, Some(2)).await;
    let tag = ordered(1, clock::now().wall);
    let permit = reserve(&account, &name_hash(1)).await.unwrap();
    let outcome = account.order(permit, &order(&tag), &tag).await;
    assert!(matches!(outcome, OrderResult::Created(_)));
    assert_eq!(account.find_servers(&name_hash(1)).len(), 1);
    drop(reserve(&account, &name_hash(2)).await.unwrap());
    drop(rig);
}
