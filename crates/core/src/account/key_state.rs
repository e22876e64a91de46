//! Whether the hosting API accepts the account's key.

use hosting_types::Refusal;
use std::time::Duration;

/// First pause between two probes.
const FIRST: Duration = Duration::from_secs(5);
/// Longest pause between two probes of a refused key.
pub const LONGEST_PROBE_PAUSE: Duration = Duration::from_secs(300);

/// A circuit breaker: it opens when the key is refused, and then allows one probe at growing intervals.
#[derive(Debug)]
pub struct Breaker {
    state: KeyState,
    probe_at: Duration,
    pause: Duration,
}

/// State of the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyState {
    /// No call has succeeded yet.
    Untried,
    /// The key works.
    Accepted,
    /// It is refused: only probes are sent.
    Rejected(Refusal),
}

/// A key that is not tried yet.
impl Default for Breaker {
    fn default() -> Self {
        Self {
            state: KeyState::Untried,
            probe_at: Duration::ZERO,
            pause: FIRST,
        }
    }
}

impl Breaker {
    /// State of the key.
    pub fn state(&self) -> &KeyState {
        &self.state
    }

    /// When the next probe may be sent.
    pub fn probe_at(&self) -> Duration {
        self.probe_at
    }

    /// Records a successful call. Returns whether the state changed.
    pub fn accepted(&mut self) -> bool {
        let news = self.state != KeyState::Accepted;
        self.state = KeyState::Accepted;
        self.pause = FIRST;
        news
    }

    /// Records that a call was refused because of the key. Returns whether the state changed.
    pub fn rejected(&mut self, refusal: Refusal, now: Duration) -> bool {
        if let KeyState::Rejected(_) = self.state {
            // Calls that were in flight when it opened are no further failures.
            if now < self.probe_at {
                return false;
            }
            self.pause = (self.pause * 2).min(LONGEST_PROBE_PAUSE);
        } else {
            self.pause = FIRST;
        }
        self.probe_at = now + self.pause;
        let state = KeyState::Rejected(refusal);
        let news = self.state != state;
        self.state = state;
        news
    }

    /// Allows the next probe at this moment at the latest.
    pub fn probe_by(&mut self, moment: Duration) {
        self.probe_at = self.probe_at.min(moment);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal() -> Refusal {
        Refusal {
            status: 403,
            code: None,
            message: "Invalid credentials".into(),
            fields: vec![],
            retry_after: None,
            idempotent: true,
        }
    }

    #[test]
    fn key_probes_back_off_to_five_minutes() {
        let mut breaker = Breaker::default();
        let mut now = Duration::from_secs(100);
        assert!(breaker.rejected(refusal(), now));
        assert!(!breaker.rejected(refusal(), now), "a straggler is no news");
        assert_eq!(breaker.probe_at(), now + FIRST);
        let mut pauses = Vec::new();
        for _ in 0..8 {
            now = breaker.probe_at();
            assert!(!breaker.rejected(refusal(), now));
            pauses.push((breaker.probe_at() - now).as_secs());
        }
        assert_eq!(pauses, [10, 20, 40, 80, 160, 300, 300, 300]);
        breaker.probe_by(Duration::ZERO);
        assert!(breaker.probe_at() <= now);
        assert!(breaker.accepted());
        assert!(!breaker.accepted());
        assert!(breaker.rejected(refusal(), now));
        assert_eq!(breaker.probe_at(), now + FIRST);
    }
}
