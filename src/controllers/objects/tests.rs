//! Entries and schedule, under paused time.

use super::*;
use crate::account::{EnqueueTarget, Users as _};
use api::{BareMetalServer, ProviderAccount, references::PinnedAccount};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};

type Objects = super::Objects<ProviderAccount, u32>;

fn object(name: &str, uid: &str, version: u64) -> Guarded<ProviderAccount> {
    changed(name, uid, version, &json!({}))
}

fn changed(name: &str, uid: &str, version: u64, annotations: &Value) -> Guarded<ProviderAccount> {
    serde_json::from_value(json!({
        "apiVersion": "flexmetal.dev/v1alpha1",
        "kind": "ProviderAccount",
        "metadata": {
            "name": name, "namespace": "n", "uid": uid,
            "resourceVersion": version.to_string(), "annotations": annotations,
        },
        "spec": {"baseURL": "u", "apiKeySecretRef": {"name": "s"}},
    }))
    .unwrap()
}

fn undecodable(uid: &str) -> Guarded<ProviderAccount> {
    let object = json!({
        "apiVersion": "flexmetal.dev/v1alpha1",
        "kind": "ProviderAccount",
        "metadata": {"name": "broken", "namespace": "n", "uid": uid},
        "spec": {"baseURL": 17},
    });
    serde_json::from_value(object).unwrap()
}

fn objects() -> Objects {
    let traits = KindOptions {
        alias: Box::new(|meta| meta.uid.as_ref().map(|uid| format!("mark-{uid}"))),
        ..KindOptions::default()
    };
    Objects::new(traits, 1)
}

fn feed(objects: &Objects, events: Vec<Event<Guarded<ProviderAccount>>>) {
    for event in events {
        objects.apply_event(0, event);
    }
}

fn list(objects: &Objects, shown: Vec<Guarded<ProviderAccount>>) {
    objects.apply_event(0, Event::Init);
    for object in shown {
        objects.apply_event(0, Event::InitApply(object));
    }
    objects.apply_event(0, Event::InitDone);
}

/// Starts all work items that are due. The prefix `-` means deleted, `?` undecodable.
fn started(objects: &Objects) -> Vec<String> {
    let mut all = Vec::new();
    while let Some((uid, seen, _)) = objects.start() {
        all.push(match seen {
            WorkItem::Object(_) => uid.to_string(),
            WorkItem::Undecodable(_) => format!("?{uid}"),
            WorkItem::Gone(_) => format!("-{uid}"),
        });
    }
    all
}

fn rest(objects: &Objects, uid: &str, seconds: u64) {
    let ended = WorkItemResult::Done(Duration::from_secs(seconds));
    objects.ended(&uid.into(), ended, false);
}

async fn pass_time(seconds: u64) {
    tokio::time::advance(Duration::from_secs(seconds)).await;
}

#[tokio::test(start_paused = true)]
async fn what_vanished_between_two_listings_is_reported() {
    let objects = objects();
    assert!(!objects.is_complete());
    list(&objects, vec![object("a", "1", 1), object("b", "2", 1)]);
    assert!(objects.is_complete());
    assert_eq!(started(&objects), ["1", "2"]);
    rest(&objects, "1", 10);
    rest(&objects, "2", 10);
    // A recreated object, and a deleted one.
    list(&objects, vec![object("b", "3", 5)]);
    let mut second = started(&objects);
    second.sort();
    assert_eq!(second, ["-1", "-2", "3"]);
    assert!(objects.newest("1").is_none());
    assert_eq!(objects.by_alias("mark-2"), None);
    objects.ended(&"1".into(), WorkItemResult::Done(Duration::ZERO), true);
    feed(&objects, vec![Event::Delete(object("b", "3", 6))]);
    rest(&objects, "3", 0);
    assert_eq!(started(&objects), ["-3"]);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_does_not_decode_stays_visible() {
    let objects = objects();
    list(&objects, vec![undecodable("9")]);
    assert_eq!(started(&objects), ["?9"]);
    rest(&objects, "9", 600);
    // Our own status update triggers nothing.
    feed(&objects, vec![Event::Apply(undecodable("9"))]);
    assert!(started(&objects).is_empty());
    feed(&objects, vec![Event::Apply(object("broken", "9", 2))]);
    assert_eq!(started(&objects), ["9"]);
}

#[tokio::test(start_paused = true)]
async fn reconciles_start_in_order_one_per_object() {
    let objects = objects();
    list(&objects, vec![object("a", "1", 1), object("b", "2", 1)]);
    assert_eq!(started(&objects), ["1", "2"]);
    for uid in ["2", "1", "2"] {
        objects.enqueue(&EnqueueTarget::Object(uid.into()));
    }
    assert!(started(&objects).is_empty(), "both have their pass");
    rest(&objects, "1", 100);
    assert_eq!(started(&objects), ["1"], "woken meanwhile");
    rest(&objects, "2", 100);
    rest(&objects, "1", 100);
    assert_eq!(started(&objects), ["2"]);
    rest(&objects, "2", 50);
    pass_time(49).await;
    assert!(started(&objects).is_empty());
    pass_time(1).await;
    assert_eq!(started(&objects), ["2"]);
    pass_time(60).await;
    assert_eq!(started(&objects), ["1"]);
}

#[tokio::test(start_paused = true)]
async fn enqueue_does_not_shorten_failure_backoff() {
    let objects = objects();
    list(&objects, vec![object("a", "1", 1)]);
    for pause in [1, 2, 4] {
        assert_eq!(started(&objects), ["1"]);
        objects.enqueue(&EnqueueTarget::Object("1".into()));
        objects.ended(&"1".into(), WorkItemResult::Failed, false);
        objects.enqueue(&EnqueueTarget::NameHash("mark-1".into()));
        pass_time(pause - 1).await;
        assert!(started(&objects).is_empty(), "within {pause} s");
        pass_time(1).await;
    }
    assert_eq!(started(&objects), ["1"]);
    rest(&objects, "1", 100);
    objects.enqueue(&EnqueueTarget::Object("1".into()));
    assert_eq!(started(&objects), ["1"], "at rest again");
}

#[tokio::test(start_paused = true)]
async fn object_deleted_mid_reconcile_gets_final_reconcile() {
    let objects = objects();
    list(&objects, vec![object("a", "1", 1)]);
    assert_eq!(started(&objects), ["1"]);
    feed(&objects, vec![Event::Delete(object("a", "1", 2))]);
    assert!(started(&objects).is_empty());
    objects.ended(&"1".into(), WorkItemResult::Failed, false);
    assert_eq!(started(&objects), ["-1"], "whatever pause it was in");
    objects.remember("1", |memory| *memory = 7);
    objects.ended(&"1".into(), WorkItemResult::Done(Duration::ZERO), true);
    objects.remember("1", |memory| *memory = 8);
    assert_eq!(
        objects.memory("1"),
        0,
        "of one that is gone nothing is kept"
    );
    pass_time(1000).await;
    assert!(started(&objects).is_empty());
}

#[tokio::test(start_paused = true)]
async fn older_watch_event_never_replaces_newer_object() {
    let objects = objects();
    let version = |objects: &Objects| objects.newest("1").unwrap().meta().resource_version.clone();
    list(&objects, vec![object("a", "1", 5)]);
    objects.record_written(object("a", "1", 9).0.unwrap());
    feed(&objects, vec![Event::Apply(object("a", "1", 7))]);
    assert_eq!(
        version(&objects).as_deref(),
        Some("9"),
        "the watch is behind"
    );
    feed(&objects, vec![Event::Apply(object("a", "1", 12))]);
    assert_eq!(version(&objects).as_deref(), Some("12"));
    objects.record_written(object("a", "1", 10).0.unwrap());
    assert_eq!(version(&objects).as_deref(), Some("12"));
    // A list that started before the last write is older. One that started after it is newer: then the API server was
    // restored from a backup.
    objects.apply_event(0, Event::Init);
    pass_time(1).await;
    objects.record_written(object("a", "1", 20).0.unwrap());
    objects.apply_event(0, Event::InitApply(object("a", "1", 13)));
    objects.apply_event(0, Event::InitDone);
    assert_eq!(version(&objects).as_deref(), Some("20"));
    pass_time(1).await;
    list(&objects, vec![object("a", "1", 3)]);
    assert_eq!(version(&objects).as_deref(), Some("3"));
}

#[tokio::test(start_paused = true)]
async fn later_read_shows_restored_object_version() {
    let objects = objects();
    let version = |objects: &Objects| objects.newest("1").unwrap().meta().resource_version.clone();
    list(&objects, vec![object("a", "1", 5)]);
    pass_time(1).await;
    let asked = clock::now().mono;
    pass_time(1).await;
    feed(&objects, vec![Event::Apply(object("a", "1", 9))]);
    objects.record_read(object("a", "1", 7).0.unwrap(), asked);
    assert_eq!(version(&objects).as_deref(), Some("9"), "it was overtaken");
    pass_time(1).await;
    objects.record_read(object("a", "1", 3).0.unwrap(), clock::now().mono);
    assert_eq!(version(&objects).as_deref(), Some("3"));
}

#[tokio::test(start_paused = true)]
async fn annotation_triggers_reconcile_but_status_write_does_not() {
    let objects = objects();
    list(&objects, vec![object("a", "1", 1)]);
    assert_eq!(started(&objects), ["1"]);
    rest(&objects, "1", 600);
    feed(&objects, vec![Event::Apply(object("a", "1", 2))]);
    assert!(started(&objects).is_empty());
    let touched = changed("a", "1", 3, &json!({"please": "look"}));
    feed(&objects, vec![Event::Apply(touched)]);
    assert_eq!(started(&objects), ["1"]);
}

#[tokio::test(start_paused = true)]
async fn enqueues_close_together_make_one_reconcile() {
    let traits = KindOptions {
        debounce: Duration::from_millis(100),
        ..KindOptions::default()
    };
    let objects = Objects::new(traits, 1);
    list(&objects, vec![object("a", "1", 1)]);
    assert_eq!(started(&objects), ["1"], "the first look waits for nothing");
    rest(&objects, "1", 600);
    for _ in 0..50 {
        objects.enqueue(&EnqueueTarget::Object("1".into()));
    }
    assert!(started(&objects).is_empty());
    pass_time(1).await;
    assert_eq!(started(&objects), ["1"]);
    rest(&objects, "1", 600);
    pass_time(1).await;
    assert!(started(&objects).is_empty());
}

#[tokio::test(start_paused = true)]
async fn object_is_announced_once_before_first_reconcile() {
    let seen = Arc::new(AtomicUsize::new(0));
    let count = seen.clone();
    let traits = KindOptions {
        on_first_observation: Box::new(move |_| {
            count.fetch_add(1, Ordering::Relaxed);
        }),
        ..KindOptions::default()
    };
    let objects = Objects::new(traits, 1);
    list(&objects, vec![object("a", "1", 1)]);
    list(&objects, vec![object("a", "1", 2), object("a", "2", 2)]);
    feed(&objects, vec![Event::Apply(object("a", "2", 3))]);
    assert_eq!(seen.load(Ordering::Relaxed), 2);
}

#[tokio::test(start_paused = true)]
async fn undecodable_object_counts_for_every_possible_account() {
    let traits = KindOptions {
        account_of: Some(|server: &BareMetalServer| {
            let reference = PinnedAccount::from_reference(server.spec.account_ref.as_ref());
            Some(AccountKey::from_reference(&reference, "n"))
        }),
        ..KindOptions::default()
    };
    let objects: super::Objects<BareMetalServer, u32> = super::Objects::new(traits, 1);
    let server = |uid: &str, account: Value| -> Guarded<BareMetalServer> {
        serde_json::from_value(json!({
            "apiVersion": "flexmetal.dev/v1alpha1", "kind": "BareMetalServer",
            "metadata": {"name": uid, "namespace": "n", "uid": uid, "resourceVersion": "1"},
            "spec": {"location": "l", "instanceType": "t", "os": {"slug": "s"}, "accountRef": account},
        }))
        .unwrap()
    };
    let key = |kind: &str, name: &str| {
        let reference = serde_json::from_value(json!({"kind": kind, "name": name})).unwrap();
        AccountKey::from_reference(&reference, "n")
    };
    let one = key("ProviderAccount", "one");
    assert_eq!(
        objects.count(&one, &|_| true),
        None,
        "nobody knows before the listing"
    );
    objects.apply_event(0, Event::Init);
    objects.apply_event(0, Event::InitApply(server("1", json!({"name": "one"}))));
    objects.apply_event(0, Event::InitApply(server("2", json!(17))));
    objects.apply_event(0, Event::InitDone);
    assert_eq!(objects.count(&one, &|_| true), Some(2));
    assert_eq!(
        objects.count(&key("ProviderAccount", "two"), &|_| true),
        Some(1)
    );
    assert_eq!(
        objects.count(&key("ClusterProviderAccount", "one"), &|_| true),
        Some(1)
    );
    // The object names another account now, as seen by the watch or by our own write.
    objects.apply_event(0, Event::Apply(server("2", json!({"name": "two"}))));
    assert_eq!(objects.count(&one, &|_| true), Some(1));
    assert_eq!(
        objects.count(&key("ProviderAccount", "two"), &|_| true),
        Some(1)
    );
    objects.record_written(server("2", json!({"name": "three"})).0.unwrap());
    assert_eq!(
        objects.count(&key("ProviderAccount", "two"), &|_| true),
        Some(0)
    );
    assert_eq!(
        objects.count(&key("ProviderAccount", "three"), &|_| true),
        Some(1)
    );
    objects.record_written(server("2", json!({"name": "one"})).0.unwrap());
    assert_eq!(objects.count(&one, &|_| true), Some(2));
    let touched = objects.apply_event(0, Event::Delete(server("1", json!({"name": "one"}))));
    assert!(touched.contains(&one) && touched.len() == 1);
    assert_eq!(objects.count(&one, &|_| true), Some(1));
}

#[tokio::test(start_paused = true)]
async fn both_watches_must_list_and_remove_only_theirs() {
    let objects: Objects = super::Objects::new(KindOptions::default(), 2);
    let list = |watch: usize, shown: Vec<Guarded<ProviderAccount>>| {
        objects.apply_event(watch, Event::Init);
        for object in shown {
            objects.apply_event(watch, Event::InitApply(object));
        }
        objects.apply_event(watch, Event::InitDone);
    };
    list(0, vec![object("a", "1", 1), object("b", "2", 1)]);
    assert!(!objects.is_complete(), "the other one has shown nothing");
    list(0, vec![object("a", "1", 1), object("b", "2", 1)]);
    assert!(!objects.is_complete(), "two listings of one are not both");
    objects.apply_event(1, Event::Init);
    objects.apply_event(1, Event::InitApply(object("c", "3", 1)));
    assert!(!objects.is_complete(), "this listing is under way");
    objects.apply_event(1, Event::InitDone);
    assert!(objects.is_complete());
    assert_eq!(started(&objects), ["1", "2", "3"]);
    for uid in ["1", "2", "3"] {
        rest(&objects, uid, 600);
    }
    // Each watch lists again, in any order.
    list(0, vec![object("a", "1", 1)]);
    assert_eq!(started(&objects), ["-2"], "only its own can be missing");
    objects.ended(&"2".into(), WorkItemResult::Done(Duration::ZERO), true);
    list(1, Vec::new());
    assert_eq!(started(&objects), ["-3"]);
    assert!(objects.newest("1").is_some());
    assert!(objects.is_complete(), "once complete, always");
}

#[tokio::test(start_paused = true)]
async fn failed_final_reconcile_is_retried_after_backoff() {
    let objects = objects();
    list(&objects, vec![object("a", "1", 1)]);
    assert_eq!(started(&objects), ["1"]);
    rest(&objects, "1", 600);
    feed(&objects, vec![Event::Delete(object("a", "1", 2))]);
    for pause in [1, 2] {
        assert_eq!(started(&objects), ["-1"]);
        objects.ended(&"1".into(), WorkItemResult::Failed, true);
        assert!(started(&objects).is_empty(), "not at once");
        pass_time(pause).await;
    }
    assert_eq!(started(&objects), ["-1"]);
    objects.ended(&"1".into(), WorkItemResult::Done(Duration::ZERO), true);
    pass_time(1000).await;
    assert!(started(&objects).is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_shown_again_lives() {
    let objects = objects();
    list(&objects, vec![object("a", "1", 5)]);
    assert_eq!(started(&objects), ["1"]);
    rest(&objects, "1", 600);
    feed(&objects, vec![Event::Delete(object("a", "1", 6))]);
    assert_eq!(started(&objects), ["-1"]);
    // The API server was restored during the final reconcile.
    list(&objects, vec![object("a", "1", 3)]);
    objects.ended(&"1".into(), WorkItemResult::Done(Duration::ZERO), true);
    assert_eq!(started(&objects), ["1"]);
    assert!(objects.newest("1").is_some());
    assert_eq!(objects.by_alias("mark-1").as_deref(), Some("1"));
}

#[tokio::test(start_paused = true)]
async fn granted_object_is_next_in_queue() {
    let objects = objects();
    let all = (0..9).map(|n| object(&format!("o{n}"), &n.to_string(), 1));
    list(&objects, all.collect());
    objects.enqueue(&EnqueueTarget::Object("7".into()));
    let (first, ..) = objects.start().unwrap();
    assert_eq!(&*first, "7");
}

#[tokio::test(start_paused = true)]
async fn first_observation_records_time_and_last_absence() {
    let objects = objects();
    // A paused runtime may have started a little before the process first read its clock.
    pass_time(1).await;
    let start = clock::now().mono;
    let at = |seconds: u64| start + Duration::from_secs(seconds);
    let observation = |uid: &str| objects.first_observation(uid).unwrap();
    pass_time(1).await;
    objects.apply_event(0, Event::Init);
    pass_time(1).await;
    objects.apply_event(0, Event::InitApply(object("old", "1", 1)));
    objects.apply_event(0, Event::InitDone);
    assert_eq!(objects.first_observation("2"), None);
    let old = FirstObservation {
        first_seen: at(2),
        absent_from: None,
    };
    assert_eq!(observation("1"), old, "no listing was without it");
    pass_time(1).await;
    // An incomplete list does not count, neither for objects from the watch nor for its own.
    objects.apply_event(0, Event::Init);
    pass_time(1).await;
    objects.apply_event(0, Event::InitApply(object("new", "2", 2)));
    assert_eq!(observation("2").first_seen, at(4));
    assert_eq!(observation("2").absent_from, Some(at(1)));
    objects.apply_event(0, Event::InitApply(object("old", "1", 1)));
    objects.apply_event(0, Event::InitDone);
    feed(&objects, vec![Event::Apply(object("newer", "3", 3))]);
    assert_eq!(observation("3").absent_from, Some(at(3)));
    assert_eq!(observation("1"), old, "what is known stays as it is");
}
