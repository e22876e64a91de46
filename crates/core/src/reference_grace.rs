//! How long an object waits for a missing reference or an outage before its conditions report it.

use api::Reason;
use std::time::Duration;

/// A referenced account, Secret or other object may be applied a little later, and an outage may end soon.
pub const REFERENCE_GRACE: Duration = Duration::from_secs(120);

/// What an object waits for, and since when. The process remembers it from one reconcile to the next.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ReferenceGrace(Option<(Reason, Duration)>);

impl ReferenceGrace {
    /// What is left of the grace period for this reason, by the monotonic clock.
    pub fn grace_left(&self, reason: Reason, now: Duration) -> Duration {
        let waited = match self.0 {
            Some((awaited, since)) if awaited == reason => now.saturating_sub(since),
            _ => Duration::ZERO,
        };
        REFERENCE_GRACE.saturating_sub(waited)
    }

    /// Records what the object waits for now; None: nothing with a grace period.
    pub fn record_awaited(&mut self, reason: Option<Reason>, now: Duration) {
        if self.0.map(|(awaited, _)| awaited) != reason {
            self.0 = reason.map(|reason| (reason, now));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grace_restarts_for_another_reason() {
        let at = Duration::from_secs;
        let (missing, away) = (Reason::ReferenceNotFound, Reason::AccountNotReady);
        let mut grace = ReferenceGrace::default();
        assert_eq!(grace.grace_left(missing, at(500)), REFERENCE_GRACE);
        grace.record_awaited(Some(missing), at(500));
        grace.record_awaited(Some(missing), at(570));
        assert_eq!(grace.grace_left(missing, at(570)), at(50));
        assert_eq!(grace.grace_left(missing, at(700)), Duration::ZERO);
        assert_eq!(grace.grace_left(away, at(570)), REFERENCE_GRACE);
        grace.record_awaited(None, at(580));
        assert_eq!(grace.grace_left(missing, at(590)), REFERENCE_GRACE);
    }
}
