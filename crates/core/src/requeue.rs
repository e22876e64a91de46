//! When an object is looked at again. Plain data, which passes give and the loop keeps to.

use std::time::Duration;

/// When to look at an object again, if nothing wakes it before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requeue {
    /// At once, in the same row of passes: this pass brought something to light.
    Now,
    /// After this time.
    After(Duration),
    /// After a pause that grows with each time in a row: the pass could not do its work.
    Backoff,
}

impl Requeue {
    /// The same, but after this time at the latest.
    #[must_use]
    pub fn within(self, limit: Duration) -> Self {
        match self {
            Self::After(delay) => Self::After(delay.min(limit)),
            // At once would only find that it is too early.
            Self::Now => Self::After(limit),
            Self::Backoff => Self::Backoff,
        }
    }
}
