//! How long an object waits for what may just come before it says that a person is needed.

use api::Reason;
use std::time::Duration;

/// An account, a Secret or another object that is referred to may be applied a little later, and an
/// outage may be over soon.
pub const REFERENCE_GRACE: Duration = Duration::from_secs(120);

/// What an object waits for, and since when. Kept from pass to pass by the process that holds it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ReferenceGrace(Option<(Reason, Duration)>);

impl ReferenceGrace {
    /// What is left of it for this reason, on the monotonic clock.
    pub fn grace_left(&self, reason: Reason, now: Duration) -> Duration {
        let waited = match self.0 {
            Some((awaited, since)) if awaited == reason => now.saturating_sub(since),
            _ => Duration::ZERO,
        };
        REFERENCE_GRACE.saturating_sub(waited)
    }

    /// The object waits for this now; None: for nothing of that sort.
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
        let mut patience = ReferenceGrace::default();
        assert_eq!(patience.grace_left(missing, at(500)), REFERENCE_GRACE);
        patience.record_awaited(Some(missing), at(500));
        patience.record_awaited(Some(missing), at(570));
        assert_eq!(patience.grace_left(missing, at(570)), at(50));
        assert_eq!(patience.grace_left(missing, at(700)), Duration::ZERO);
        assert_eq!(patience.grace_left(away, at(570)), REFERENCE_GRACE);
        patience.record_awaited(None, at(580));
        assert_eq!(patience.grace_left(missing, at(590)), REFERENCE_GRACE);
    }
}
