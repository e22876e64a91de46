//! Who stands in a row with others of its kind: one of them has its turn at a time.
//!
//! Those that have begun stand before all that have not, then the older before the younger. Only the first of a row may
//! begin, and whoever comes to be the first is woken: however long a row is, one that ends costs one pass.

use super::{Objects, ObjectsInner, ObservedObject, Uid};
use crate::runtime::clock;
use api::Kind;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

/// Where an object wants to stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueRequest {
    /// The row.
    pub queue: String,
    /// Whether it has begun.
    pub has_begun: bool,
}

/// Whether it has not begun yet, its creation, its UID: no two have the same.
type QueueRank = (bool, i64, Uid);

/// Where an object stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct QueuePosition {
    queue: Arc<str>,
    rank: QueueRank,
}

/// All rows.
#[derive(Default)]
pub(super) struct Queues(HashMap<Arc<str>, BTreeSet<QueueRank>>);

impl QueuePosition {
    fn new(place: QueueRequest, meta: &ObjectMeta) -> Self {
        let created = meta.creation_timestamp.as_ref();
        let created = created.map_or(0, |time| time.0.as_second());
        let uid = Uid::from(meta.uid.as_deref().unwrap_or_default());
        Self {
            queue: place.queue.into(),
            rank: (!place.has_begun, created, uid),
        }
    }
}

impl Queues {
    fn first(&self, row: &str) -> Option<&QueueRank> {
        self.0.get(row)?.first()
    }

    /// One that has begun although it is not the first.
    fn intruder(&self, row: &str) -> Option<&QueueRank> {
        let second = self.0.get(row)?.iter().nth(1);
        second.filter(|(is_behind, ..)| !is_behind)
    }

    /// On what it depends whose turn it is.
    fn head(&self, row: &str) -> (Option<QueueRank>, Option<QueueRank>) {
        (self.first(row).cloned(), self.intruder(row).cloned())
    }

    /// One object stands elsewhere than before. Returns whose turn it may be by that.
    fn change(
        &mut self,
        before: Option<&QueuePosition>,
        after: Option<&QueuePosition>,
    ) -> BTreeSet<Uid> {
        let rows: BTreeSet<&Arc<str>> = before.iter().chain(&after).map(|s| &s.queue).collect();
        let heads: Vec<_> = rows.iter().map(|row| self.head(row)).collect();
        if let Some(standing) = before
            && let Some(row) = self.0.get_mut(&standing.queue)
        {
            row.remove(&standing.rank);
            if row.is_empty() {
                self.0.remove(&standing.queue);
            }
        }
        if let Some(standing) = after {
            let row = self.0.entry(standing.queue.clone()).or_default();
            row.insert(standing.rank.clone());
        }
        let changed = rows
            .iter()
            .zip(heads)
            .filter(|(row, head)| self.head(row) != *head);
        changed
            .filter_map(|(row, _)| Some(self.first(row)?.2.clone()))
            .collect()
    }
}

impl<K: Kind, M> ObjectsInner<K, M> {
    /// Notes where an object stands from now on, and wakes who has its turn by that.
    pub(super) fn enter_queue(&mut self, uid: &str, standing: Option<QueuePosition>) {
        let Some(entry) = self.entries.get_mut(uid) else {
            return;
        };
        if entry.queue_position == standing {
            return;
        }
        let before = std::mem::replace(&mut entry.queue_position, standing);
        let after = entry.queue_position.clone();
        let now = clock::now().mono;
        for uid in self.queues.change(before.as_ref(), after.as_ref()) {
            self.enqueue_after(&uid, now, Duration::ZERO);
        }
    }
}

impl<K: Kind, M: Clone + Default + Send> Objects<K, M> {
    /// Where an object stands.
    pub(super) fn queue_position(&self, shown: &ObservedObject<K>) -> Option<QueuePosition> {
        let place = self.traits.queue_request?;
        let ObservedObject::Decoded(object) = shown else {
            return None;
        };
        Some(QueuePosition::new(place(object)?, object.meta()))
    }

    /// Whether it is this object's turn: nobody else is in the row, or it is the first, and no other one has begun.
    pub fn is_next_in_queue(&self, row: &str, uid: &str) -> bool {
        let inner = self.lock();
        let is_first = inner.queues.first(row).is_none_or(|first| *first.2 == *uid);
        is_first && inner.queues.intruder(row).is_none()
    }

    /// Those of a row that have begun. One, as a rule.
    pub fn started_in_queue(&self, row: &str) -> Vec<Uid> {
        let inner = self.lock();
        let all = inner.queues.0.get(row).into_iter().flatten();
        all.take_while(|(is_behind, ..)| !is_behind)
            .map(|(.., uid)| uid.clone())
            .collect()
    }

    /// Wakes the first of a row.
    pub fn enqueue_first(&self, row: &str) {
        let now = clock::now().mono;
        let mut inner = self.lock();
        if let Some(uid) = inner.queues.first(row).map(|first| first.2.clone()) {
            inner.enqueue_after(&uid, now, Duration::ZERO);
        }
        drop(inner);
        self.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controllers::objects::{KindOptions, WorkItem, WorkItemResult};
    use api::{ServerTag, names::TAG_ANNOTATION};
    use kube::{ResourceExt as _, runtime::watcher::Event};
    use serde_json::json;

    type QueuedTags = Objects<ServerTag, ()>;

    /// Objects that stand in the row of their tag, and have begun where they bear an annotation.
    fn objects() -> QueuedTags {
        let place = |tag: &ServerTag| {
            let place = QueueRequest {
                queue: tag.wanted().to_owned(),
                has_begun: tag.annotations().contains_key(TAG_ANNOTATION),
            };
            (!place.queue.is_empty()).then_some(place)
        };
        let traits = KindOptions {
            queue_request: Some(place),
            ..KindOptions::default()
        };
        Objects::new(traits, 1)
    }

    /// An object that was created in this second.
    fn shown(uid: &str, second: u8, version: u64, has_begun: bool) -> ServerTag {
        let mut object: ServerTag = serde_json::from_value(json!({
            "apiVersion": "flexmetal.dev/v1alpha1", "kind": "ServerTag",
            "metadata": {
                "name": uid, "namespace": "n", "uid": uid,
                "resourceVersion": version.to_string(),
                "creationTimestamp": format!("2026-01-01T00:00:{second:02}Z"),
            },
            "spec": {"tag": "web"},
        }))
        .unwrap();
        object.metadata.annotations =
            has_begun.then(|| [(TAG_ANNOTATION.to_owned(), String::new())].into());
        object
    }

    fn guarded<K>(object: K) -> kube::core::DeserializeGuard<K> {
        kube::core::DeserializeGuard(Ok(object))
    }

    /// Who got a pass.
    fn started(objects: &QueuedTags) -> Vec<String> {
        let mut all = Vec::new();
        while let Some((uid, seen)) = objects.start() {
            let is_last = matches!(seen, WorkItem::Gone(_));
            objects.ended(
                &uid,
                WorkItemResult::Done(Duration::from_secs(600)),
                is_last,
            );
            all.push(uid.to_string());
        }
        all
    }

    fn first(objects: &QueuedTags) -> String {
        objects.lock().queues.first("web").unwrap().2.to_string()
    }

    #[tokio::test(start_paused = true)]
    async fn first_in_queue_may_start_and_is_enqueued() {
        let objects = objects();
        let show = |object| objects.apply_event(0, Event::Apply(guarded(object)));
        // Of two of one second the one with the greater UID was there first, and has begun.
        show(shown("b", 1, 1, false));
        objects.record_written(shown("b", 1, 2, true));
        show(shown("a", 1, 3, false));
        show(shown("z", 0, 4, false));
        started(&objects);
        assert_eq!(first(&objects), "b", "it has begun");
        assert_eq!(objects.started_in_queue("web").len(), 1);
        assert!(objects.is_next_in_queue("web", "b") && !objects.is_next_in_queue("web", "a"));
        assert!(objects.is_next_in_queue("another", "a"));
        // Two have begun, which saw nothing of each other: neither goes on until one gives way, and that is heard.
        objects.record_written(shown("z", 0, 40, true));
        assert!(!objects.is_next_in_queue("web", "b") && !objects.is_next_in_queue("web", "z"));
        started(&objects);
        objects.record_written(shown("b", 1, 41, false));
        assert_eq!(started(&objects), ["z"]);
        assert!(objects.is_next_in_queue("web", "z"));
        objects.record_written(shown("z", 0, 42, false));
        objects.record_written(shown("b", 1, 43, true));
        started(&objects);
        // It has not begun after all: the oldest has its turn, and hears of it.
        objects.record_written(shown("b", 1, 50, false));
        assert_eq!(
            (first(&objects).as_str(), started(&objects)),
            ("z", vec!["z".to_owned()])
        );
        assert!(objects.started_in_queue("web").is_empty());
        objects.apply_event(0, Event::Delete(guarded(shown("z", 0, 60, false))));
        let woken: BTreeSet<String> = started(&objects).into_iter().collect();
        assert_eq!(
            woken,
            ["a".to_owned(), "z".to_owned()].into(),
            "and its own last pass"
        );
        // Of one second the smaller UID goes first; the one behind it hears nothing until it is gone.
        objects.record_written(shown("a", 1, 70, true));
        assert_eq!(started(&objects), ["a"], "it is the first in another way");
        objects.apply_event(0, Event::Delete(guarded(shown("a", 1, 80, true))));
        let woken: BTreeSet<String> = started(&objects).into_iter().collect();
        assert_eq!(woken, ["a".to_owned(), "b".to_owned()].into());
    }

    #[tokio::test(start_paused = true)]
    async fn ended_object_enqueues_one_of_ten_thousand() {
        let objects = objects();
        for n in 0..10_000_u64 {
            let uid = format!("n-{n:05}");
            objects.apply_event(0, Event::Apply(guarded(shown(&uid, 1, n + 1, false))));
        }
        assert_eq!(started(&objects).len(), 10_000);
        for n in 0..5_u64 {
            let uid = format!("n-{n:05}");
            let gone = shown(&uid, 1, 20_000 + n, false);
            objects.apply_event(0, Event::Delete(guarded(gone)));
            let woken: BTreeSet<String> = started(&objects).into_iter().collect();
            assert_eq!(woken, [uid, format!("n-{:05}", n + 1)].into());
            objects.enqueue_first("web");
            assert_eq!(started(&objects), [format!("n-{:05}", n + 1)]);
        }
    }
}
