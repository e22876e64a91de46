//! Who is to have a pass, and when.

use super::{Objects, ObjectsInner, Uid, entry::Phase};
use crate::runtime::clock;
use api::Kind;
use std::time::Duration;

impl<K: Kind, M: Clone + Default + Send> Objects<K, M> {
    /// It has changed where this process acts: every object gets a pass. Where it acts anew, what is
    /// there is listed afresh: what others have done meanwhile, and what is not there any more, has to be
    /// known as of now.
    pub fn leadership_changed(&self, is_gain: bool) {
        if is_gain {
            self.relist();
        }
        self.enqueue_all();
    }

    /// Every object gets a pass.
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
    /// The object shall have a pass, `later` at the latest.
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
            Phase::Queued => {}
            Phase::Waiting(due) => {
                // A pause after failures is a floor, not only a requeue: no wake shortens it.
                let at = (now + later).max(entry.pause.not_before());
                if at <= now {
                    if let Some(due) = due.take() {
                        self.due.remove(&(due, uid.clone()));
                    }
                    entry.phase = Phase::Queued;
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

    /// An object that is queued goes next.
    pub(super) fn prioritise_object(&mut self, uid: &Uid) {
        let entry = self.entries.get(uid);
        if entry.is_some_and(|e| matches!(e.phase, Phase::Queued))
            && let Some(at) = self.queue.iter().position(|queued| queued == uid)
        {
            self.queue.remove(at);
            self.queue.push_front(uid.clone());
        }
    }

    /// The object is gone: one last pass, whatever pause it was in.
    pub(super) fn enqueue_gone(&mut self, uid: &str) {
        if let Some(entry) = self.entries.get_mut(uid) {
            entry.pause.reset();
        }
        self.enqueue_after(uid, clock::now().mono, Duration::ZERO);
    }
}
