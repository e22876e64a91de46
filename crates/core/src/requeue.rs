//! When to reconcile an object again, as plain data.

use std::time::Duration;

/// When to reconcile an object again, if nothing enqueues it before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requeue {
    /// At once, in the same work item: this reconcile found something new.
    Now,
    /// After this time.
    After(Duration),
    /// After a delay that grows with each time in a row: the reconcile could not do its work.
    Backoff,
}

impl Requeue {
    /// The same, but after this time at the latest.
    #[must_use]
    pub fn cap_delay(self, limit: Duration) -> Self {
        match self {
            Self::After(delay) => Self::After(delay.min(limit)),
            // An immediate reconcile would only find that it is too early.
            Self::Now => Self::After(limit),
            Self::Backoff => Self::Backoff,
        }
    }
}
