//! Enqueues objects, now or later.

use super::{Objects, ObjectsInner, Uid, entry::Phase};
use crate::runtime::clock;
use api::Kind;
use std::time::Duration;

impl<K: Kind, M: Clone + Default + Send> Objects<K, M> {
    /// Enqueues every object after a change of leadership. A new leader also lists again: it must know what others
    /// changed and deleted meanwhile.
    pub fn leadership_changed(&self, is_gain: bool) {
        if is_gain {
            self.relist();
        }
        self.enqueue_all();
    }

    /// Enqueues every object.
    pub fn enqueue_all(&self) {
        let now = clock::now().mono;
        let mut inner = self.lock();
        let uids: Vec<Uid> = inner.entries.keys().cloned().collect();
        for uid in uids {
            inner.enqueue_after(&uid, now, Duration::ZERO);
        }
        drop(inner);
        self.changed.notify_one();
    }
}

impl<K: Kind, M> ObjectsInner<K, M> {
    /// Enqueues the object, after `later` at the latest.
    pub(super) fn enqueue_after(&mut self, uid: &str, now: Duration, later: Duration) {
        let Some((uid, _)) = self.entries.get_key_value(uid) else {
            return;
        };
        let uid = uid.clone();
        let Some(entry) = self.entries.get_mut(&uid) else {
            return;
        };
        match &mut entry.phase {
            Phase::Running { again } => *again = true,
            Phase::Queued(_) => {}
            Phase::Waiting(due) => {
                // A failure backoff is a minimum: an enqueue does not shorten it.
                let at = (now + later).max(entry.pause.not_before());
                if at <= now {
                    if let Some(due) = due.take() {
                        self.due.remove(&(due, uid.clone()));
                    }
                    entry.phase = Phase::Queued(now);
                    self.queue.push_back(uid);
                } else if due.is_none_or(|due| at < due) {
                    if let Some(due) = due.replace(at) {
                        self.due.remove(&(due, uid.clone()));
                    }
                    self.due.insert((at, uid));
                }
            }
        }
    }

    /// Moves a queued object to the front.
    pub(super) fn prioritise_object(&mut self, uid: &Uid) {
        let entry = self.entries.get(uid);
        if entry.is_some_and(|e| matches!(e.phase, Phase::Queued(_)))
            && let Some(at) = self.queue.iter().position(|queued| queued == uid)
        {
            self.queue.remove(at);
            self.queue.push_front(uid.clone());
        }
    }

    /// Enqueues a deleted object for its final reconcile, without any backoff.
    pub(super) fn enqueue_gone(&mut self, uid: &str) {
        if let Some(entry) = self.entries.get_mut(uid) {
            entry.pause.reset();
        }
        self.enqueue_after(uid, clock::now().mono, Duration::ZERO);
    }
}
