//! Queues of objects of one kind. Started objects come first, then the older ones; only the first of a queue may start.
//! Only a new first object is enqueued, so that a long queue costs one reconcile for each object that ends.

use super::{Objects, ObjectsInner, ObservedObject, Uid};
use crate::runtime::clock;
use api::Kind;
use flexmetal_core::ownership::rank_by_age;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

/// The queue that an object wants to enter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueRequest {
    /// Name of the queue.
    pub queue: String,
    /// Whether the object has started.
    pub has_begun: bool,
}

/// Whether it has not started, creation time, UID. No two are equal.
type QueueRank = (bool, i64, Uid);

/// Position of an object in a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct QueuePosition {
    queue: Arc<str>,
    rank: QueueRank,
}

/// All queues.
#[derive(Default)]
pub(super) struct Queues(HashMap<Arc<str>, BTreeSet<QueueRank>>);

impl QueuePosition {
    fn new(request: QueueRequest, meta: &ObjectMeta) -> Self {
        let (created, uid) = rank_by_age(meta);
        Self {
            queue: request.queue.into(),
            rank: (!request.has_begun, created, uid),
        }
    }
}

impl Queues {
    fn first(&self, queue: &str) -> Option<&QueueRank> {
        self.0.get(queue)?.first()
    }

    /// The second object, if it has started although it is not the first.
    fn intruder(&self, queue: &str) -> Option<&QueueRank> {
        let second = self.0.get(queue)?.iter().nth(1);
        second.filter(|(is_behind, ..)| !is_behind)
    }

    /// What decides which object is next.
    fn head(&self, queue: &str) -> (Option<QueueRank>, Option<QueueRank>) {
        (self.first(queue).cloned(), self.intruder(queue).cloned())
    }

    /// Moves one object. Returns the objects that may be next because of that.
    fn change(
        &mut self,
        before: Option<&QueuePosition>,
        after: Option<&QueuePosition>,
    ) -> BTreeSet<Uid> {
        let queues: BTreeSet<&Arc<str>> = before.iter().chain(&after).map(|s| &s.queue).collect();
        let heads: Vec<_> = queues.iter().map(|queue| self.head(queue)).collect();
        if let Some(position) = before
            && let Some(queue) = self.0.get_mut(&position.queue)
        {
            queue.remove(&position.rank);
            if queue.is_empty() {
                self.0.remove(&position.queue);
            }
        }
        if let Some(position) = after {
            let queue = self.0.entry(position.queue.clone()).or_default();
            queue.insert(position.rank.clone());
        }
        let changed = queues
            .iter()
            .zip(heads)
            .filter(|(queue, head)| self.head(queue) != *head);
        changed
            .filter_map(|(queue, _)| Some(self.first(queue)?.2.clone()))
            .collect()
    }
}

impl<K: Kind, M> ObjectsInner<K, M> {
    /// Records the position of an object and enqueues the object that is next because of that.
    pub(super) fn enter_queue(&mut self, uid: &str, position: Option<QueuePosition>) {
        let Some(entry) = self.entries.get_mut(uid) else {
            return;
        };
        if entry.queue_position == position {
            return;
        }
        let before = std::mem::replace(&mut entry.queue_position, position);
        let after = entry.queue_position.clone();
        let now = clock::now().mono;
        for uid in self.queues.change(before.as_ref(), after.as_ref()) {
            self.enqueue_after(&uid, now, Duration::ZERO);
        }
    }
}

impl<K: Kind, M: Clone + Default + Send> Objects<K, M> {
    /// The queue position that an object asks for.
    pub(super) fn queue_position(&self, shown: &ObservedObject<K>) -> Option<QueuePosition> {
        let queue_request = self.options.queue_request?;
        let ObservedObject::Decoded(object) = shown else {
            return None;
        };
        Some(QueuePosition::new(queue_request(object)?, object.meta()))
    }

    /// Whether this object is next: it is the first or the queue is empty, and no other object has started.
    pub fn is_next_in_queue(&self, queue: &str, uid: &str) -> bool {
        let inner = self.lock();
        let is_first = inner
            .queues
            .first(queue)
            .is_none_or(|first| *first.2 == *uid);
        is_first && inner.queues.intruder(queue).is_none()
    }

    /// The objects of a queue that have started: normally one.
    pub fn started_in_queue(&self, queue: &str) -> Vec<Uid> {
        let inner = self.lock();
        let all = inner.queues.0.get(queue).into_iter().flatten();
        all.take_while(|(is_behind, ..)| !is_behind)
            .map(|(.., uid)| uid.clone())
            .collect()
    }

    /// Enqueues the first object of a queue.
    pub fn enqueue_first(&self, queue: &str) {
        let now = clock::now().mono;
        let mut inner = self.lock();
        if let Some(uid) = inner.queues.first(queue).map(|first| first.2.clone()) {
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

    /// Objects in the queue of their tag. Those with an annotation have started.
    fn objects() -> QueuedTags {
        let request = |tag: &ServerTag| {
            let request = QueueRequest {
                queue: tag.wanted().to_owned(),
                has_begun: tag.annotations().contains_key(TAG_ANNOTATION),
            };
            (!request.queue.is_empty()).then_some(request)
        };
        let traits = KindOptions {
            queue_request: Some(request),
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

    /// The objects that were reconciled.
    fn started(objects: &QueuedTags) -> Vec<String> {
        let mut all = Vec::new();
        while let Some((uid, seen, _)) = objects.start() {
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
        // Two objects of the same second: the one with the greater UID came first, and has started.
        show(shown("b", 1, 1, false));
        objects.record_written(shown("b", 1, 2, true));
        show(shown("a", 1, 3, false));
        show(shown("z", 0, 4, false));
        started(&objects);
        assert_eq!(first(&objects), "b", "it has begun");
        assert_eq!(objects.started_in_queue("web").len(), 1);
        assert!(objects.is_next_in_queue("web", "b") && !objects.is_next_in_queue("web", "a"));
        assert!(objects.is_next_in_queue("another", "a"));
        // Two objects have started without seeing each other: both wait until one yields, which enqueues the other.
        objects.record_written(shown("z", 0, 40, true));
        assert!(!objects.is_next_in_queue("web", "b") && !objects.is_next_in_queue("web", "z"));
        started(&objects);
        objects.record_written(shown("b", 1, 41, false));
        assert_eq!(started(&objects), ["z"]);
        assert!(objects.is_next_in_queue("web", "z"));
        objects.record_written(shown("z", 0, 42, false));
        objects.record_written(shown("b", 1, 43, true));
        started(&objects);
        // It has not started after all: the oldest is next, and is enqueued.
        objects.record_written(shown("b", 1, 50, false));
        assert_eq!(
            (first(&objects).as_str(), started(&objects)),
            ("z", vec!["z".to_owned()])
        );
        assert!(objects.started_in_queue("web").is_empty());
        objects.apply_event(0, Event::Delete(guarded(shown("z", 0, 60, false))));
        let enqueued: BTreeSet<String> = started(&objects).into_iter().collect();
        assert_eq!(
            enqueued,
            ["a".to_owned(), "z".to_owned()].into(),
            "and its own last pass"
        );
        // Within one second the smaller UID is first. The next object is enqueued only once the first is deleted.
        objects.record_written(shown("a", 1, 70, true));
        assert_eq!(started(&objects), ["a"], "it is the first in another way");
        objects.apply_event(0, Event::Delete(guarded(shown("a", 1, 80, true))));
        let enqueued: BTreeSet<String> = started(&objects).into_iter().collect();
        assert_eq!(enqueued, ["a".to_owned(), "b".to_owned()].into());
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
            let enqueued: BTreeSet<String> = started(&objects).into_iter().collect();
            assert_eq!(enqueued, [uid, format!("n-{:05}", n + 1)].into());
            objects.enqueue_first("web");
            assert_eq!(started(&objects), [format!("n-{:05}", n + 1)]);
        }
    }
}
