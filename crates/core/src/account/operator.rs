//! Which operator serves an account: its status names the Lease of that one. Pure.
//!
//! Two releases that watch the same namespaces must not act on one account. The name is written once, before anything
//! else; who finds another name reads that Lease, and takes over when nobody holds it any more.

use std::time::Duration;

/// An operator takes over from another one whose Lease has been expired for so long.
const EXPIRED: Duration = Duration::from_secs(60);

/// What a look at the Lease of another operator showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObservedLease {
    /// There is none, or nobody holds it.
    Free,
    /// Somebody holds it.
    Held {
        /// The version of it: each renewal gives it another one.
        version: String,
        /// How long it lasts after a renewal.
        lasts: Duration,
    },
    /// It cannot be read. Says why.
    Unreadable(String),
}

/// What is remembered of the Lease of another operator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeenLease {
    name: String,
    version: String,
    since: Duration,
}

/// What follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseDecision {
    /// This operator serves the account.
    Serve,
    /// It does once its name is written.
    Claim,
    /// Another one serves it. Look again after this time.
    Conflict(Duration),
}

/// Decides. `look`: of the Lease of the operator on record, where that is another one.
pub fn decide(
    own: &str,
    recorded: Option<&str>,
    look: Option<&ObservedLease>,
    seen: &mut SeenLease,
    now: Duration,
) -> LeaseDecision {
    if recorded == Some(own) {
        *seen = SeenLease::default();
        return LeaseDecision::Serve;
    }
    let (version, lasts) = match look {
        Some(ObservedLease::Unreadable(_)) => return LeaseDecision::Conflict(EXPIRED),
        Some(ObservedLease::Held { version, lasts }) => (version.as_str(), *lasts),
        // Who was in conflict waits here, too: a restart of the other one leaves such a gap.
        Some(ObservedLease::Free) | None if *seen != SeenLease::default() => ("", Duration::ZERO),
        Some(ObservedLease::Free) | None => return LeaseDecision::Claim,
    };
    let next = SeenLease {
        name: recorded.unwrap_or_default().to_owned(),
        version: version.to_owned(),
        since: now,
    };
    // By this process's own clock: it has to say the same for all that time.
    if (&seen.name, &seen.version) != (&next.name, &next.version) || *seen == SeenLease::default() {
        *seen = next;
    }
    let free = seen.since + lasts + EXPIRED;
    match free.saturating_sub(now) {
        rest if rest.is_zero() => LeaseDecision::Claim,
        rest => LeaseDecision::Conflict(rest.min(EXPIRED)),
    }
}

/// What to say of a conflict.
pub fn describe_conflict(account: &str, recorded: &str, look: &ObservedLease) -> String {
    let why = match look {
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

    fn held(version: &str) -> ObservedLease {
        ObservedLease::Held {
            version: version.into(),
            lasts: Duration::from_secs(15),
        }
    }

    #[test]
    fn an_account_without_an_operator_is_claimed() {
        let mut seen = SeenLease::default();
        let free = Some(ObservedLease::Free);
        let mut step = |recorded, look: &Option<ObservedLease>| {
            decide(OWN, recorded, look.as_ref(), &mut seen, Duration::ZERO)
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
        let mut step =
            |look: ObservedLease, now| decide(OWN, Some(OTHER), Some(&look), &mut seen, at(now));
        assert_eq!(step(held("1"), 100), LeaseDecision::Conflict(at(60)));
        assert_eq!(step(held("1"), 160), LeaseDecision::Conflict(at(15)));
        assert_eq!(step(held("2"), 174), LeaseDecision::Conflict(at(60)));
        assert_eq!(step(held("2"), 248), LeaseDecision::Conflict(at(1)));
        assert_eq!(step(held("2"), 249), LeaseDecision::Claim);
    }

    #[test]
    fn operator_restart_keeps_its_account() {
        let at = Duration::from_secs;
        let mut seen = SeenLease::default();
        let held = held("1");
        let mut step = |recorded, look: Option<&ObservedLease>, now| {
            decide(OWN, recorded, look, &mut seen, at(now))
        };
        assert_eq!(
            step(Some(OTHER), Some(&held), 100),
            LeaseDecision::Conflict(at(60))
        );
        // It ends as it should, and the next one of its pods claims a moment later.
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
            let look = held(&minute.to_string());
            let now = Duration::from_secs(60 * minute);
            let step = decide(OWN, Some(OTHER), Some(&look), &mut seen, now);
            assert_eq!(step, LeaseDecision::Conflict(EXPIRED));
        }
    }

    #[test]
    fn unreadable_lease_is_never_taken_over() {
        let mut seen = SeenLease::default();
        let look = ObservedLease::Unreadable("forbidden".into());
        for hour in 0..10 {
            let now = Duration::from_secs(3600 * hour);
            let step = decide(OWN, Some(OTHER), Some(&look), &mut seen, now);
            assert_eq!(step, LeaseDecision::Conflict(EXPIRED));
        }
    }
}
