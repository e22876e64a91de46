//! How long to wait after failures in a row: a plain value without a clock.

use std::time::Duration;

/// First delay.
const FIRST: Duration = Duration::from_secs(1);

/// Longest delay between two tries of what users wait for.
pub const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// Failures in a row, and the moment before which nothing is tried. A requeue delay alone is not enough, since any
/// event reconciles the object at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Backoff {
    failures: u32,
    not_before: Duration,
}

impl Backoff {
    /// Failures in a row.
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// Nothing is tried before this monotonic moment.
    pub fn not_before(&self) -> Duration {
        self.not_before
    }

    /// Records a failure at a monotonic moment. Returns the delay: one second, doubled with each failure in a row, at
    /// most `longest`. The caller adds jitter.
    pub fn fail(&mut self, now: Duration, longest: Duration) -> Duration {
        let delay = delay(self.failures, longest);
        self.failures = self.failures.saturating_add(1);
        self.not_before = now + delay;
        delay
    }

    /// How long to wait; None: the next try may begin.
    pub fn remaining(&self, now: Duration) -> Option<Duration> {
        self.not_before.checked_sub(now).filter(|d| !d.is_zero())
    }

    /// The next try may begin at this moment at the latest.
    pub fn retry_by(&mut self, moment: Duration) {
        self.not_before = self.not_before.min(moment);
    }

    /// Forgets the failures.
    pub fn reset(&mut self) {
        *self = Self::default();
    }
}

/// The delay after a failure that follows so many others.
pub fn delay(failures_before: u32, longest: Duration) -> Duration {
    FIRST
        .saturating_mul(1 << failures_before.min(16))
        .min(longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONGEST: Duration = LONGEST_PAUSE;

    #[test]
    fn backoff_grows_to_cap_and_resets() {
        let mut backoff = Backoff::default();
        let mut now = Duration::from_secs(7);
        let mut delays = Vec::new();
        for _ in 0..12 {
            let delay = backoff.fail(now, LONGEST);
            assert_eq!(backoff.remaining(now), Some(delay));
            now += delay;
            assert_eq!(backoff.remaining(now), None);
            delays.push(delay.as_secs());
        }
        assert_eq!(delays, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]);
        backoff.reset();
        assert_eq!(backoff.remaining(Duration::ZERO), None);
        assert_eq!(backoff.fail(now, LONGEST), FIRST);
    }

    #[test]
    fn no_number_of_failures_overflows() {
        let mut backoff = Backoff {
            failures: u32::MAX,
            ..Backoff::default()
        };
        assert_eq!(backoff.fail(Duration::ZERO, LONGEST), LONGEST);
        assert_eq!(backoff.failures(), u32::MAX);
    }
}
