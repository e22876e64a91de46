//! A token bucket for the calls of an account. Pure, on tokio's time.

use flexmetal_core::account::facts::Calls;
use std::time::Duration;
use tokio::time::Instant;

/// How fast a bucket fills, and how many calls fit into it.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    /// Calls per second.
    pub per_second: f64,
    /// Calls at once after an idle time.
    pub burst: f64,
}

impl Default for Rate {
    fn default() -> Self {
        Self {
            per_second: 20.0,
            burst: 40.0,
        }
    }
}

/// The slowest rate after refusals: one call in two seconds.
pub(super) const SLOWEST: f64 = 0.5;
/// How much the rate recovers each second, in calls per second.
const RECOVERY: f64 = 0.1;
/// The longest pause that the API can ask for.
pub(in crate::account) const LONGEST_PAUSE: Duration = Duration::from_secs(300);
/// Refusals within this time count as one.
const ONE_SIGN: Duration = Duration::from_secs(1);
/// The shortest wait, which rounding must not turn into zero.
const SHORTEST: Duration = Duration::from_millis(1);

/// The token bucket of one account.
#[derive(Clone)]
pub(super) struct Bucket {
    full: Rate,
    per_second: f64,
    /// Below zero after a permit for more calls than fit into the bucket.
    tokens: f64,
    /// When tokens and rate were last updated.
    at: Instant,
    closed_until: Option<Instant>,
    slowed_at: Option<Instant>,
}

impl Bucket {
    pub(super) fn new(rate: Rate, now: Instant) -> Self {
        Self {
            full: rate,
            per_second: rate.per_second,
            tokens: rate.burst,
            at: now,
            closed_until: None,
            slowed_at: None,
        }
    }

    /// Updates tokens and rate.
    pub(super) fn refill(&mut self, now: Instant) {
        let seconds = now.saturating_duration_since(self.at).as_secs_f64();
        self.at = now;
        self.refund(seconds * self.per_second);
        self.per_second = (self.per_second + seconds * RECOVERY).min(self.full.per_second);
        self.closed_until = self.closed_until.filter(|until| *until > now);
    }

    /// When so many calls may be made, as of the last refill; None: now.
    pub(super) fn ready_at(&self, calls: u32) -> Option<Instant> {
        if self.closed_until.is_some() {
            return self.closed_until;
        }
        let missing = f64::from(calls).min(self.full.burst.max(1.0)) - self.tokens;
        if missing <= 0.0 {
            return None;
        }
        let wait = Duration::from_secs_f64(missing / self.per_second);
        Some(self.at + wait.max(SHORTEST))
    }

    /// How long so many calls take at the current rate.
    pub(super) fn time_for(&self, calls: u32) -> Duration {
        Duration::from_secs_f64(f64::from(calls) / self.per_second.max(SLOWEST / 2.0))
    }

    /// How many calls may be made per minute, as of the last refill.
    pub(super) fn calls(&self) -> Calls {
        // A rate of calls per second is small and positive.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let each_minute = |rate: f64| (rate * 60.0).round() as u32;
        Calls {
            full: each_minute(self.full.per_second),
            in_force: each_minute(self.per_second),
        }
    }

    /// Whether the API asked for a pause, as of the last refill.
    pub(super) fn is_closed(&self) -> bool {
        self.closed_until.is_some()
    }

    pub(super) fn take(&mut self, calls: u32) {
        self.tokens -= f64::from(calls);
    }

    /// Returns calls that were not made, up to the burst.
    pub(super) fn refund(&mut self, calls: f64) {
        self.tokens = (self.tokens + calls).min(self.full.burst);
    }

    /// Halves the rate, and closes the bucket for as long as the API asks, at most five minutes.
    pub(super) fn slow_down(&mut self, now: Instant, retry_after: Option<Duration>) {
        self.refill(now);
        if self.slowed_at.is_none_or(|at| now - at >= ONE_SIGN) {
            self.slowed_at = Some(now);
            self.per_second = (self.per_second / 2.0).max(SLOWEST.min(self.full.per_second));
            self.tokens = self.tokens.min(0.0);
        }
        if let Some(pause) = retry_after {
            let until = now + pause.min(LONGEST_PAUSE);
            self.closed_until = Some(self.closed_until.map_or(until, |c| c.max(until)));
        }
    }

    #[cfg(test)]
    pub(super) fn per_second(&self) -> f64 {
        self.per_second
    }

    #[cfg(test)]
    pub(super) fn tokens(&self) -> f64 {
        self.tokens
    }
}
