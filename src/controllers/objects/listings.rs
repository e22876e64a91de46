//! The listings of a kind's watches: what each has shown, since when an object is known, and the
//! wish for fresh ones.

use super::Objects;
use api::Kind;
use std::time::Duration;
use tokio::sync::watch;

/// The listing of one watch that is under way, or the last one.
#[derive(Clone, Copy, Default)]
pub(super) struct WatchListing {
    pub(super) number: u64,
    pub(super) started: Duration,
    /// When the newest one that was read to its end had started.
    pub(super) completed: Option<Duration>,
    /// The watch has heard nothing for long.
    pub(super) is_stale: bool,
}

/// Since when this process knows an object, on its monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FirstObservation {
    /// When it saw the UID for the first time.
    pub first_seen: Duration,
    /// Start of the newest complete listing that did not show the UID; None: there was none
    /// before it was seen. The object was made after that moment.
    pub absent_from: Option<Duration>,
}

impl<K: Kind, M: Clone + Default + Send> Objects<K, M> {
    /// Since when this process knows the object; None where it does not.
    pub fn first_observation(&self, uid: &str) -> Option<FirstObservation> {
        self.lock()
            .entries
            .get(uid)
            .map(|entry| entry.first_observation)
    }

    /// Whether every watch has had a listing that started at this moment or later.
    pub fn is_listed_since(&self, moment: Duration) -> bool {
        let inner = self.lock();
        let mut listings = inner.listings.iter();
        listings.all(|listing| listing.completed.is_some_and(|started| started >= moment))
    }

    /// Every watch of this kind starts again, with a listing that is newer than this call.
    pub fn relist(&self) {
        self.relists.send_modify(|count| *count += 1);
    }

    /// Whether a watch hears anything: life, or long silence.
    pub(in crate::controllers) fn set_watch_alive(&self, watch: usize, hears: bool) {
        self.lock().listings[watch].is_stale = !hears;
    }

    /// Whether a watch has heard nothing for long: what is known of its objects may be old.
    pub fn is_stale(&self) -> bool {
        self.lock().listings.iter().any(|listing| listing.is_stale)
    }

    /// Changes with each wish for fresh listings.
    pub(in crate::controllers) fn relists(&self) -> watch::Receiver<u64> {
        self.relists.subscribe()
    }
}
