//! Metadata of ours that something takes off the object again and again.
//!
//! What is missing is put back at once the first time. A tool that strips it again meets a pause that
//! grows, and after five times in a row a person reads of it.

use crate::backoff::{Backoff, LONGEST_PAUSE};
use std::time::Duration;

/// So often it is put back in a row before a person is needed.
const CONFLICT_AFTER: u32 = 5;
/// After so long without it being missed the row is over.
const QUIET: Duration = Duration::from_secs(600);

/// How often the finalizer were put back in a row.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct RestoreBackoff {
    pauses: Backoff,
    last: Option<Duration>,
}

impl RestoreBackoff {
    /// They were put back.
    pub fn record_restore(&mut self, now: Duration) {
        if self.quiet_in(now).is_none() {
            self.pauses.reset();
        }
        self.pauses.fail(now, LONGEST_PAUSE);
        self.last = Some(now);
    }

    /// How long to wait before they are put back again; None: at once.
    pub fn rest(&self, now: Duration) -> Option<Duration> {
        self.quiet_in(now)?;
        self.pauses.rest(now)
    }

    /// How long a person has to read of it; None: there is nothing to read.
    pub fn conflict_shown_for(&self, now: Duration) -> Option<Duration> {
        let rest = self.quiet_in(now)?;
        (self.pauses.failures() >= CONFLICT_AFTER).then_some(rest)
    }

    /// How long until the row is over; None: there is none.
    fn quiet_in(&self, now: Duration) -> Option<Duration> {
        let rest = (self.last? + QUIET).checked_sub(now)?;
        (!rest.is_zero()).then_some(rest)
    }
}
