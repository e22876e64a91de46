//! Who gets a pass now, and what follows from how it ended.

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

/// What a pass is about.
pub enum WorkItem<K> {
    /// An object.
    Object(Arc<K>),
    /// An object that does not decode.
    Undecodable(Arc<InvalidObject>),
    /// An object that is gone, as last seen. The last pass of it.
    Gone(ObservedObject<K>),
}

/// How a row of passes ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkItemResult {
    /// Nothing more to do for this long.
    Done(Duration),
    /// It failed, or took too many passes: the next row follows after a growing pause.
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

/// A pass that waits for an answer of the provider, until this is dropped. It takes no place among
/// the rows meanwhile: its account bounds it.
pub struct Calling<'a> {
    count: &'a AtomicUsize,
    changed: &'a Notify,
}

impl Drop for Calling<'_> {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
        self.changed.notify_one();
    }
}

impl<K: Kind, M: Clone + Default + Send> Objects<K, M> {
    /// This pass is about to call the provider.
    pub fn call_provider(&self) -> Calling<'_> {
        self.calling.fetch_add(1, Ordering::Relaxed);
        self.changed.notify_one();
        Calling {
            count: &self.calling,
            changed: &self.changed,
        }
    }

    /// How many passes wait for an answer of the provider.
    pub(in crate::controllers) fn calling(&self) -> usize {
        self.calling.load(Ordering::Relaxed)
    }

    /// The next object that is to have a pass now.
    pub(in crate::controllers) fn start(&self) -> Option<(Uid, WorkItem<K>)> {
        let now = clock::now().mono;
        let mut inner = self.lock();
        while let Some((at, _)) = inner.due.first() {
            if *at > now {
                break;
            }
            if let Some((_, uid)) = inner.due.pop_first()
                && let Some(entry) = inner.entries.get_mut(&uid)
            {
                entry.phase = Phase::Queued;
                inner.queue.push_back(uid);
            }
        }
        let uid = inner.queue.pop_front()?;
        let entry = inner.entries.get_mut(&uid)?;
        entry.phase = Phase::Running { again: false };
        let (is_gone, form) = (entry.gone, entry.form.clone());
        drop(inner);
        let shown = form.shown();
        Some((
            uid,
            if is_gone {
                WorkItem::Gone(shown)
            } else {
                shown.into()
            },
        ))
    }

    /// A row of passes has ended; `last` says that it was the one of an object that is gone.
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
        // The last pass itself has a pause after a failure, like any other.
        let gone = entry.gone && !last;
        inner.due.insert((due, uid.clone()));
        if gone {
            inner.enqueue_gone(uid);
        } else if again {
            inner.enqueue_after(uid, now, Duration::ZERO);
        }
    }

    /// When the next object is due by itself.
    pub(in crate::controllers) fn next_due(&self) -> Option<Duration> {
        let inner = self.lock();
        if !inner.queue.is_empty() {
            return Some(Duration::ZERO);
        }
        inner.due.first().map(|(at, _)| *at)
    }

    /// Waits until there may be a pass to start.
    pub(in crate::controllers) async fn changed(&self) {
        self.changed.notified().await;
    }
}
