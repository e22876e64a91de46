//! Backoff for restoring metadata that something keeps removing: at once the first time, then with growing delays.
//! After five times in a row users see the conflict.

use crate::backoff::{Backoff, LONGEST_PAUSE};
use std::time::Duration;

/// Restores in a row after which users see a conflict.
const CONFLICT_AFTER: u32 = 5;
/// Time without a restore after which the row ends.
const QUIET: Duration = Duration::from_secs(600);

/// How often the finalizer was restored in a row.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct RestoreBackoff {
    pauses: Backoff,
    last: Option<Duration>,
}

impl RestoreBackoff {
    /// Records a restore.
    pub fn record_restore(&mut self, now: Duration) {
        if self.quiet_in(now).is_none() {
            self.pauses.reset();
        }
        self.pauses.fail(now, LONGEST_PAUSE);
        self.last = Some(now);
    }

    /// How long to wait before the next restore; None: it may be at once.
    pub fn remaining(&self, now: Duration) -> Option<Duration> {
        self.quiet_in(now)?;
        self.pauses.remaining(now)
    }

    /// How long users still see the conflict; None: there is no conflict.
    pub fn conflict_shown_for(&self, now: Duration) -> Option<Duration> {
        let rest = self.quiet_in(now)?;
        (self.pauses.failures() >= CONFLICT_AFTER).then_some(rest)
    }

    /// How long until the row ends; None: no row.
    fn quiet_in(&self, now: Duration) -> Option<Duration> {
        let rest = (self.last? + QUIET).checked_sub(now)?;
        (!rest.is_zero()).then_some(rest)
    }
}
