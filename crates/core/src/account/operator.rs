//! Which operator serves an account: its status names the Lease of that one. Pure.
//!
//! Two releases that watch the same namespaces must not act on one account. The name is written once, before anything
//! else; who finds another name reads that Lease, and takes over when nobody holds it any more.

use std::time::Duration;

/// An operator takes over from another one whose Lease has been expired for so long.
const EXPIRED: Duration = Duration::from_secs(60);
/// Time between two looks at the Lease of another operator.
const LOOKS: Duration = Duration::from_secs(60);

/// What a look at the Lease of another operator showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Look {
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
pub struct Seen {
    name: String,
    version: String,
    since: Duration,
}

/// What follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// This operator serves the account.
    Serve,
    /// It does once its name is written.
    Claim,
    /// Another one serves it. Look again after this time.
    Conflict(Duration),
}

/// Whether the Lease of the operator on record has to be read.
pub fn is_anothers(own: &str, recorded: Option<&str>) -> bool {
    recorded.is_some_and(|recorded| recorded != own)
}

/// Decides. `look`: of the Lease of the operator on record, where that is another one.
pub fn decide(
    own: &str,
    recorded: Option<&str>,
    look: Look,
    seen: &mut Seen,
    now: Duration,
) -> Step {
    let Some(recorded) = recorded else {
        return Step::Claim;
    };
    if recorded == own {
        return Step::Serve;
    }
    let (version, lasts) = match look {
        Look::Free => return Step::Claim,
        Look::Unreadable(_) => return Step::Conflict(LOOKS),
        Look::Held { version, lasts } => (version, lasts),
    };
    // By this process's own clock: it has to say the same for all that time.
    if seen.name != recorded || seen.version != version {
        *seen = Seen {
            name: recorded.to_owned(),
            version,
            since: now,
        };
    }
    let free = seen.since + lasts + EXPIRED;
    match free.saturating_sub(now) {
        rest if rest.is_zero() => Step::Claim,
        rest => Step::Conflict(rest.min(LOOKS)),
    }
}

/// What to say of a conflict.
pub fn conflict(account: &str, recorded: &str, look: &Look) -> String {
    let why = match look {
        Look::Unreadable(why) => format!("that Lease cannot be read ({why})"),
        Look::Free | Look::Held { .. } => "that Lease is held".to_owned(),
    };
    format!(
        "another operator serves {account}: status.operator names the Lease {recorded}, and {why}; nothing is done here; take the namespace out of one of the two, or end one; where the other one is gone for good, a cluster admin clears status.operator"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: &str = "a/operator";
    const OTHER: &str = "b/operator";

    fn held(version: &str) -> Look {
        Look::Held {
            version: version.into(),
            lasts: Duration::from_secs(15),
        }
    }

    #[test]
    fn who_finds_no_name_claims_and_who_finds_its_own_serves() {
        let mut seen = Seen::default();
        let mut step = |recorded| decide(OWN, recorded, Look::Free, &mut seen, Duration::ZERO);
        assert_eq!(step(None), Step::Claim);
        assert_eq!(step(Some(OWN)), Step::Serve);
        assert_eq!(step(Some(OTHER)), Step::Claim, "nobody holds its Lease");
        assert!(is_anothers(OWN, Some(OTHER)) && !is_anothers(OWN, None));
    }

    #[test]
    fn a_lease_has_to_be_expired_for_a_minute_and_each_renewal_starts_anew() {
        let at = Duration::from_secs;
        let mut seen = Seen::default();
        let mut step = |look, now| decide(OWN, Some(OTHER), look, &mut seen, at(now));
        assert_eq!(step(held("1"), 100), Step::Conflict(at(60)));
        assert_eq!(step(held("1"), 160), Step::Conflict(at(15)));
        assert_eq!(step(held("2"), 174), Step::Conflict(at(60)));
        assert_eq!(step(held("2"), 248), Step::Conflict(at(1)));
        assert_eq!(step(held("2"), 249), Step::Claim);
    }

    #[test]
    fn an_idle_operator_that_renews_keeps_its_account() {
        let mut seen = Seen::default();
        for minute in 0..60_u64 {
            let look = held(&minute.to_string());
            let now = Duration::from_secs(60 * minute);
            let step = decide(OWN, Some(OTHER), look, &mut seen, now);
            assert_eq!(step, Step::Conflict(LOOKS));
        }
    }

    #[test]
    fn a_lease_that_cannot_be_read_is_never_taken_over() {
        let mut seen = Seen::default();
        for hour in 0..10 {
            let now = Duration::from_secs(3600 * hour);
            let look = Look::Unreadable("forbidden".into());
            let step = decide(OWN, Some(OTHER), look, &mut seen, now);
            assert_eq!(step, Step::Conflict(LOOKS));
        }
    }
}
