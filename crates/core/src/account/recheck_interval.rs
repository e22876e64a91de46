//! How often what should come at once and has not is looked for.

use api::Reason;
use std::time::Duration;

/// Longest time between two looks at a Secret that is missing or of no use: as long as at one in use.
pub const LONGEST_RECHECK: Duration = Duration::from_secs(15);

/// What is looked for, and since when.
#[derive(Clone, Debug, Default)]
pub struct RecheckInterval {
    waiting_for: Option<(Reason, Duration)>,
}

impl RecheckInterval {
    /// It is there, or nothing is looked for any more.
    pub fn reset(&mut self) {
        self.waiting_for = None;
    }

    /// When to look again at what should come at once and has not: what is missing for long is looked for rarely.
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
        let mut looks_for = RecheckInterval::default();
        let (mut now, mut looks) = (at(1000), Vec::new());
        for _ in 0..14 {
            let rest = looks_for.next_interval(Some(Reason::ReferenceNotFound), at(2), now);
            looks.push(rest.as_secs());
            now += rest;
        }
        assert_eq!(looks[..3], [2, 2, 2]);
        assert!(looks.is_sorted() && looks.ends_with(&[15, 15]), "{looks:?}");
        // Another trouble, and none, begin from the start.
        assert_eq!(
            looks_for.next_interval(Some(Reason::InvalidKey), at(2), now),
            at(2)
        );
        assert_eq!(looks_for.next_interval(None, at(15), now), at(15));
        assert_eq!(
            looks_for.next_interval(Some(Reason::InvalidKey), at(2), now + at(500)),
            at(2)
        );
    }
}
