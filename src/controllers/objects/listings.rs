//! The lists of a kind's watches: their progress, since when each object is known, and requests for fresh ones.

use super::Objects;
use api::Kind;
use std::time::Duration;
use tokio::sync::watch;

/// The list of one watch that is in progress, or the last one.
#[derive(Clone, Copy, Default)]
pub(super) struct WatchListing {
    pub(super) number: u64,
    pub(super) started: Duration,
    /// When the newest complete list started.
    pub(super) completed: Option<Duration>,
    /// The watch has received nothing for too long.
    pub(super) is_stale: bool,
}

/// Since when this process knows an object, on its monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FirstObservation {
    /// When it first saw the UID.
    pub first_seen: Duration,
    /// Start of the newest complete list before that, which did not contain the UID. `None` if there was none. The
    /// object was created after that moment.
    pub absent_from: Option<Duration>,
}

impl<K: Kind, M: Clone + Default + Send> Objects<K, M> {
    /// Since when this process knows the object. `None` if it does not.
    pub fn first_observation(&self, uid: &str) -> Option<FirstObservation> {
        self.lock()
            .entries
            .get(uid)
            .map(|entry| entry.first_observation)
    }

    /// Whether every watch has completed a list that started at this moment or later.
    pub fn is_listed_since(&self, moment: Duration) -> bool {
        let inner = self.lock();
        let mut listings = inner.listings.iter();
        listings.all(|listing| listing.completed.is_some_and(|started| started >= moment))
    }

    /// Restarts every watch of this kind with a list that is newer than this call.
    pub fn relist(&self) {
        self.relists.send_modify(|count| *count += 1);
    }

    /// Records whether a watch is alive or stale.
    pub(in crate::controllers) fn set_watch_alive(&self, watch: usize, is_alive: bool) {
        self.lock().listings[watch].is_stale = !is_alive;
    }

    /// Whether a watch is stale: its objects may be out of date.
    pub fn is_stale(&self) -> bool {
        self.lock().listings.iter().any(|listing| listing.is_stale)
    }

    /// Changes with each request for fresh lists.
    pub(in crate::controllers) fn relists(&self) -> watch::Receiver<u64> {
        self.relists.subscribe()
    }
}
