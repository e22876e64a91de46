//! Starts the work items that are due, and reschedules the objects after them.

use super::{Objects, ObservedObject, Uid, entry::Phase};
use crate::runtime::clock;
use api::Kind;
use flexmetal_core::backoff::LONGEST_PAUSE;
use kube::core::error_boundary::InvalidObject;
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::sync::Notify;

/// What a reconcile works on.
pub enum WorkItem<K> {
    /// An object.
    Object(Arc<K>),
    /// An object that does not decode.
    Undecodable(Arc<InvalidObject>),
    /// A deleted object, as last seen: its final reconcile.
    Gone(ObservedObject<K>),
}

/// Result of a work item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkItemResult {
    /// Done; nothing to do for this long.
    Done(Duration),
    /// Failed, or requeued too often: retry with backoff.
    Failed,
}

impl<K: Kind> From<ObservedObject<K>> for WorkItem<K> {
    fn from(shown: ObservedObject<K>) -> Self {
        match shown {
            ObservedObject::Decoded(object) => Self::Object(object),
            ObservedObject::Undecodable(object) => Self::Undecodable(object),
        }
    }
}

/// A reconcile that waits for an answer of the provider, until this is dropped. It does not count as running meanwhile:
/// its account limits it.
pub struct ProviderCallGuard<'a> {
    count: &'a AtomicUsize,
    changed: &'a Notify,
}

impl Drop for ProviderCallGuard<'_> {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
        self.changed.notify_one();
    }
}

impl<K: Kind, M: Clone + Default + Send> Objects<K, M> {
    /// Counts this reconcile as waiting for the provider.
    pub fn count_provider_call(&self) -> ProviderCallGuard<'_> {
        self.calling.fetch_add(1, Ordering::Relaxed);
        self.changed.notify_one();
        ProviderCallGuard {
            count: &self.calling,
            changed: &self.changed,
        }
    }

    /// Number of reconciles that wait for an answer of the provider.
    pub(in crate::controllers) fn calling(&self) -> usize {
        self.calling.load(Ordering::Relaxed)
    }

    /// Takes the next work item that is due, and how long it waited in the queue.
    pub(in crate::controllers) fn start(&self) -> Option<(Uid, WorkItem<K>, Duration)> {
        let now = clock::now().mono;
        let mut inner = self.lock();
        while let Some(at) = inner.due.first().map(|(at, _)| *at) {
            if at > now {
                break;
            }
            if let Some((_, uid)) = inner.due.pop_first()
                && let Some(entry) = inner.entries.get_mut(&uid)
            {
                entry.phase = Phase::Queued(at);
                inner.queue.push_back(uid);
            }
        }
        let uid = inner.queue.pop_front()?;
        let entry = inner.entries.get_mut(&uid)?;
        let since = match entry.phase {
            Phase::Queued(since) => since,
            _ => now,
        };
        entry.phase = Phase::Running { again: false };
        let (is_gone, form) = (entry.gone, entry.form.clone());
        drop(inner);
        let shown = form.unpack();
        Some((
            uid,
            if is_gone {
                WorkItem::Gone(shown)
            } else {
                shown.into()
            },
            now.saturating_sub(since),
        ))
    }

    /// Reschedules an object after a work item. `last` is true after the final reconcile of a deleted object.
    pub(in crate::controllers) fn ended(&self, uid: &Uid, ended: WorkItemResult, last: bool) {
        let now = clock::now().mono;
        let mut inner = self.lock();
        let Some(entry) = inner.entries.get_mut(uid) else {
            return;
        };
        if last && entry.gone && ended != WorkItemResult::Failed {
            inner.entries.remove(uid);
            return;
        }
        let again = matches!(entry.phase, Phase::Running { again: true });
        let delay = match ended {
            WorkItemResult::Done(delay) => {
                entry.pause.reset();
                delay
            }
            WorkItemResult::Failed => entry.pause.fail(now, LONGEST_PAUSE),
        };
        let due = now.saturating_add(delay);
        entry.phase = Phase::Waiting(Some(due));
        // A failed final reconcile gets a backoff too.
        let gone = entry.gone && !last;
        inner.due.insert((due, uid.clone()));
        if gone {
            inner.enqueue_gone(uid);
        } else if again {
            inner.enqueue_after(uid, now, Duration::ZERO);
        }
    }

    /// When the next object is due.
    pub(in crate::controllers) fn next_due(&self) -> Option<Duration> {
        let inner = self.lock();
        if !inner.queue.is_empty() {
            return Some(Duration::ZERO);
        }
        inner.due.first().map(|(at, _)| *at)
    }

    /// How many objects are due and wait, and for how long the first of them.
    pub(in crate::controllers) fn queued(&self) -> (usize, Duration) {
        let now = clock::now().mono;
        let inner = self.lock();
        let due = inner.due.range(..=(now, Uid::from("\u{10ffff}"))).count();
        let first = inner.queue.front().and_then(|uid| inner.entries.get(uid));
        let waited = match first.map(|entry| &entry.phase) {
            Some(Phase::Queued(since)) => now.saturating_sub(*since),
            _ => Duration::ZERO,
        };
        (inner.queue.len() + due, waited)
    }

    /// Waits until a work item may be ready.
    pub(in crate::controllers) async fn changed(&self) {
        self.changed.notified().await;
    }
}
