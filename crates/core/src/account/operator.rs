//! Which operator serves an account: its status names that operator's Lease, so two releases never act on one account.
//! An operator that finds another name reads that Lease, and takes over once nobody renews it.

use std::time::Duration;

/// How long another operator's Lease must be expired before this operator takes over.
const EXPIRED: Duration = Duration::from_secs(60);

/// The Lease of another operator, as last read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObservedLease {
    /// It does not exist, or has no holder.
    Free,
    /// It has a holder.
    Held {
        /// Its version, which every renewal changes.
        version: String,
        /// How long it is valid after a renewal.
        lasts: Duration,
    },
    /// It cannot be read. Has the reason.
    Unreadable(String),
}

/// What this process remembers of another operator's Lease.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeenLease {
    name: String,
    version: String,
    since: Duration,
}

/// Whether this operator serves the account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseDecision {
    /// This operator serves the account.
    Serve,
    /// It serves the account once its name is written.
    Claim,
    /// Another operator serves it. Read the Lease again after this time.
    Conflict(Duration),
}

/// Decides. `lease`: the Lease of the recorded operator, if that is another one. A read-only operator serves an account
/// without a record, and takes over from none: one that makes changes never waits for it.
pub fn decide(
    own: &str,
    read_only: bool,
    recorded: Option<&str>,
    lease: Option<&ObservedLease>,
    seen: &mut SeenLease,
    now: Duration,
) -> LeaseDecision {
    if recorded == Some(own) {
        *seen = SeenLease::default();
        return LeaseDecision::Serve;
    }
    if read_only {
        return match recorded {
            None => LeaseDecision::Serve,
            Some(_) => LeaseDecision::Conflict(EXPIRED),
        };
    }
    let (version, lasts) = match lease {
        Some(ObservedLease::Unreadable(_)) => return LeaseDecision::Conflict(EXPIRED),
        Some(ObservedLease::Held { version, lasts }) => (version.as_str(), *lasts),
        // After a conflict it waits here too: a restart of the other operator leaves such a gap.
        Some(ObservedLease::Free) | None if *seen != SeenLease::default() => ("", Duration::ZERO),
        Some(ObservedLease::Free) | None => return LeaseDecision::Claim,
    };
    let next = SeenLease {
        name: recorded.unwrap_or_default().to_owned(),
        version: version.to_owned(),
        since: now,
    };
    // By this process's own clock: the Lease must stay unchanged for all that time.
    if (&seen.name, &seen.version) != (&next.name, &next.version) || *seen == SeenLease::default() {
        *seen = next;
    }
    let free = seen.since + lasts + EXPIRED;
    match free.saturating_sub(now) {
        left if left.is_zero() => LeaseDecision::Claim,
        left => LeaseDecision::Conflict(left.min(EXPIRED)),
    }
}

/// The message of a conflict.
pub fn describe_conflict(account: &str, recorded: &str, lease: &ObservedLease) -> String {
    let why = match lease {
        ObservedLease::Unreadable(why) => format!("it cannot be read ({why})"),
        ObservedLease::Free | ObservedLease::Held { .. } => "it is held".to_owned(),
    };
    format!(
        "Another operator serves {account}; status.operatorLease is {recorded}, and {why}; nothing is done here. Give the two different --watch-namespace, or stop one; if the other is gone for good, a cluster admin clears status.operatorLease"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: &str = "a/operator";
    const OTHER: &str = "b/operator";

    fn held_lease(version: &str) -> ObservedLease {
        ObservedLease::Held {
            version: version.into(),
            lasts: Duration::from_secs(15),
        }
    }

    #[test]
    fn an_account_without_an_operator_is_claimed() {
        let mut seen = SeenLease::default();
        let free = Some(ObservedLease::Free);
        let mut step = |recorded, lease: &Option<ObservedLease>| {
            decide(
                OWN,
                false,
                recorded,
                lease.as_ref(),
                &mut seen,
                Duration::ZERO,
            )
        };
        assert_eq!(step(None, &None), LeaseDecision::Claim);
        assert_eq!(step(Some(OWN), &None), LeaseDecision::Serve);
        assert_eq!(
            step(Some(OTHER), &free),
            LeaseDecision::Claim,
            "nobody holds it"
        );
    }

    #[test]
    fn takeover_needs_lease_expired_a_minute() {
        let at = Duration::from_secs;
        let mut seen = SeenLease::default();
        let mut step = |lease: ObservedLease, now| {
            decide(OWN, false, Some(OTHER), Some(&lease), &mut seen, at(now))
        };
        assert_eq!(step(held_lease("1"), 100), LeaseDecision::Conflict(at(60)));
        assert_eq!(step(held_lease("1"), 160), LeaseDecision::Conflict(at(15)));
        assert_eq!(step(held_lease("2"), 174), LeaseDecision::Conflict(at(60)));
        assert_eq!(step(held_lease("2"), 248), LeaseDecision::Conflict(at(1)));
        assert_eq!(step(held_lease("2"), 249), LeaseDecision::Claim);
    }

    #[test]
    fn operator_restart_keeps_its_account() {
        let at = Duration::from_secs;
        let mut seen = SeenLease::default();
        let held = held_lease("1");
        let mut step = |recorded, lease: Option<&ObservedLease>, now| {
            decide(OWN, false, recorded, lease, &mut seen, at(now))
        };
        assert_eq!(
            step(Some(OTHER), Some(&held), 100),
            LeaseDecision::Conflict(at(60))
        );
        // It stops cleanly, and its next pod claims the account a moment later.
        assert_eq!(step(None, None, 110), LeaseDecision::Conflict(at(60)));
        assert_eq!(
            step(Some(OTHER), Some(&held), 112),
            LeaseDecision::Conflict(at(60))
        );
        // It is gone for good.
        assert_eq!(step(None, None, 200), LeaseDecision::Conflict(at(60)));
        assert_eq!(step(None, None, 260), LeaseDecision::Claim);
    }

    #[test]
    fn an_idle_operator_that_renews_keeps_its_account() {
        let mut seen = SeenLease::default();
        for minute in 0..60_u64 {
            let lease = held_lease(&minute.to_string());
            let now = Duration::from_secs(60 * minute);
            let step = decide(OWN, false, Some(OTHER), Some(&lease), &mut seen, now);
            assert_eq!(step, LeaseDecision::Conflict(EXPIRED));
        }
    }

    #[test]
    fn unreadable_lease_is_never_taken_over() {
        let mut seen = SeenLease::default();
        let lease = ObservedLease::Unreadable("forbidden".into());
        for hour in 0..10 {
            let now = Duration::from_secs(3600 * hour);
            let step = decide(OWN, false, Some(OTHER), Some(&lease), &mut seen, now);
            assert_eq!(step, LeaseDecision::Conflict(EXPIRED));
        }
    }

    #[test]
    fn read_only_operator_takes_no_account_over() {
        let mut seen = SeenLease::default();
        let free = Some(ObservedLease::Free);
        let mut step = |recorded| {
            decide(
                OWN,
                true,
                recorded,
                free.as_ref(),
                &mut seen,
                Duration::from_secs(9999),
            )
        };
        assert_eq!(step(None), LeaseDecision::Serve);
        assert_eq!(step(Some(OWN)), LeaseDecision::Serve);
        for _ in 0..2 {
            assert_eq!(step(Some(OTHER)), LeaseDecision::Conflict(EXPIRED));
        }
    }
}
