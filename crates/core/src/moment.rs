//! A moment as one process sees it. Plain data: this module does not read the clocks.

use std::time::Duration;

/// A moment by both clocks. Decisions measure spans by the monotonic clock, which never goes back, and use the wall
/// clock only for what outlives the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Moment {
    /// Unix seconds.
    pub wall: i64,
    /// Time since this process started.
    pub mono: Duration,
}

impl Moment {
    /// How long ago `earlier` was, by the monotonic clock; zero if it is in the future.
    pub fn elapsed_since(&self, earlier: Duration) -> Duration {
        self.mono.saturating_sub(earlier)
    }
}
