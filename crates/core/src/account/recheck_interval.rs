//! How often something that should exist and does not is checked.

use api::Reason;
use std::time::Duration;

/// Longest time between two reads of a missing or unusable Secret: the same as for one in use.
pub const LONGEST_RECHECK: Duration = Duration::from_secs(15);

/// What is awaited, and since when.
#[derive(Clone, Debug, Default)]
pub struct RecheckInterval {
    waiting_for: Option<(Reason, Duration)>,
}

impl RecheckInterval {
    /// It exists now, or is not needed any more.
    pub fn reset(&mut self) {
        self.waiting_for = None;
    }

    /// Time until the next check. It grows with the time for which the same thing is missing.
    pub fn next_interval(
        &mut self,
        why: Option<Reason>,
        again: Duration,
        now: Duration,
    ) -> Duration {
        let Some(why) = why else {
            self.waiting_for = None;
            return again;
        };
        let since = match self.waiting_for {
            Some((of, since)) if of == why => since,
            _ => now,
        };
        self.waiting_for = Some((why, since));
        let waited = now.saturating_sub(since);
        again.max((waited / 2).min(LONGEST_RECHECK))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_secret_recheck_grows_to_15s() {
        let at = Duration::from_secs;
        let mut interval = RecheckInterval::default();
        let (mut now, mut pauses) = (at(1000), Vec::new());
        for _ in 0..14 {
            let pause = interval.next_interval(Some(Reason::ReferenceNotFound), at(2), now);
            pauses.push(pause.as_secs());
            now += pause;
        }
        assert_eq!(pauses[..3], [2, 2, 2]);
        assert!(
            pauses.is_sorted() && pauses.ends_with(&[15, 15]),
            "{pauses:?}"
        );
        // Another reason starts over, and so does none.
        assert_eq!(
            interval.next_interval(Some(Reason::InvalidKey), at(2), now),
            at(2)
        );
        assert_eq!(interval.next_interval(None, at(15), now), at(15));
        assert_eq!(
            interval.next_interval(Some(Reason::InvalidKey), at(2), now + at(500)),
            at(2)
        );
    }
}
