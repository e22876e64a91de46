//! The search for a command whose answer was lost: when it may start, and when it is over.

use std::time::Duration;

/// The search for a command of unknown outcome.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Search {
    /// The attempt, by its nonce.
    pub attempt: String,
    /// When this process first saw it.
    pub first_seen: Duration,
    /// Start of the last list that did not show it.
    pub missed: Option<Duration>,
    /// The IDs, if several commands may be it.
    pub several: Option<String>,
}

impl Search {
    /// Starts or continues the search for an attempt; None ends the search.
    pub fn follow(search: &mut Option<Self>, attempt: Option<&str>, now: Duration) {
        let is_same = |search: &Self| attempt == Some(search.attempt.as_str());
        if search.as_ref().is_some_and(is_same) {
            return;
        }
        *search = attempt.map(|attempt| Self {
            attempt: attempt.to_owned(),
            first_seen: now,
            missed: None,
            several: None,
        });
    }

    /// Records that a list begun at `at` does not show the command of this attempt.
    pub fn record_missed(search: &mut Option<Self>, attempt: &str, at: Duration) {
        if let Some(search) = search.as_mut().filter(|s| s.attempt == attempt) {
            search.missed = Some(at);
            search.several = None;
        }
    }

    /// Records that several commands may be the one of this attempt.
    pub fn record_several(search: &mut Option<Self>, attempt: &str, ids: String) {
        if let Some(search) = search.as_mut().filter(|s| s.attempt == attempt) {
            search.several = Some(ids);
        }
    }

    /// From when on a list counts. Another process may send its attempt until `send_window` is over, and a command that
    /// is listed before that is not the one.
    pub fn begins(&self, is_own: bool, send_window: Duration) -> Duration {
        match is_own {
            true => self.first_seen,
            false => self.first_seen + send_window,
        }
    }

    /// Whether a list `grace` after the begin missed it, so that it never arrived: requests and lists may be late.
    pub fn is_over(&self, begins: Duration, grace: Duration) -> bool {
        self.missed.is_some_and(|missed| missed >= begins + grace)
    }

    /// When the next list is due.
    pub fn due(&self, begins: Duration, every: Duration) -> Duration {
        self.missed.map_or(begins, |at| at + every)
    }
}
