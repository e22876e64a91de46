//! Why an object is as it is, and what kstatus reads in it.

use super::patience::Patience;
use api::{
    Reason,
    conditions::{Type, Wanted},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use std::time::Duration;

/// Why an object is as it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Cause {
    /// The reason.
    pub reason: Reason,
    /// The cause and the remedy, for people.
    pub message: String,
    /// For whom that is.
    pub standing: Standing,
}

/// How an object stands: what kstatus, `kubectl wait` and GitOps tools shall read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Standing {
    /// It is as declared.
    Ready,
    /// It gets there by itself.
    Reconciling,
    /// Something that it refers to does not exist. That may just be applied in another order, so it
    /// reads as Reconciling at first, and as Stalled when [`Patience`] is over.
    Missing,
    /// A person has stopped it, who need not be called.
    Suspended,
    /// A person is needed.
    Stalled,
}

/// What a further condition says in place of the message that Ready and one of the other two carry already.
pub const AS_READY: &str = "the condition Ready says why";
/// The same, where Synced carries it.
pub const AS_SYNCED: &str = "the condition Synced says why";

impl Cause {
    /// All is as declared.
    pub fn ready(reason: Reason, message: impl Into<String>) -> Self {
        Self::new(Standing::Ready, reason, message)
    }

    /// Waiting that ends by itself.
    pub fn waits(reason: Reason, message: impl Into<String>) -> Self {
        Self::new(Standing::Reconciling, reason, message)
    }

    /// Waiting for an object that is referred to.
    pub fn missing(reason: Reason, message: impl Into<String>) -> Self {
        Self::new(Standing::Missing, reason, message)
    }

    /// Stopped by a person.
    pub fn suspended(message: impl Into<String>) -> Self {
        Self::new(Standing::Suspended, Reason::Suspended, message)
    }

    /// Waiting for a person.
    pub fn needs_person(reason: Reason, message: impl Into<String>) -> Self {
        Self::new(Standing::Stalled, reason, message)
    }

    fn new(standing: Standing, reason: Reason, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
            standing,
        }
    }

    /// With what is awaited judged: Reconciling, and for how long at most, or Stalled. What reads as
    /// Stalled already stays so: a process that has just started has no memory of the wait.
    #[must_use]
    pub fn judged(
        self,
        patience: &Patience,
        now: Duration,
        before: &[Condition],
    ) -> (Self, Option<Duration>) {
        if self.standing != Standing::Missing {
            return (self, None);
        }
        let is_told = |c: &Condition| {
            c.type_ == Type::Stalled.as_str()
                && c.status == "True"
                && c.reason == self.reason.as_str()
        };
        let rest = patience.rest(self.reason, now);
        let (standing, rest) = match before.iter().any(is_told) || rest.is_zero() {
            true => (Standing::Stalled, None),
            false => (Standing::Reconciling, Some(rest)),
        };
        (Self { standing, ..self }, rest)
    }

    /// What Synced says of it: its own words stand in Ready already.
    pub fn synced(&self) -> Wanted {
        match self.is_in_sync() {
            true => Wanted::new(Type::Synced, true, Reason::InSync, ""),
            false => Wanted::new(Type::Synced, false, self.reason, AS_READY),
        }
    }

    /// Whether the last exchange worked and nothing is left to send.
    pub fn is_in_sync(&self) -> bool {
        match self.standing {
            Standing::Ready => true,
            Standing::Reconciling => matches!(
                self.reason,
                Reason::Provisioning | Reason::WaitingForAddress
            ),
            Standing::Missing | Standing::Suspended | Standing::Stalled => false,
        }
    }

    /// The three conditions that every kind has. What is not the case says `Settled`, with nothing to read.
    pub fn conditions(self) -> [Wanted; 3] {
        let Self {
            reason,
            message,
            standing,
        } = self;
        let standing = match standing {
            Standing::Missing => Standing::Reconciling,
            other => other,
        };
        let flag = |kind, of| {
            if standing == of {
                Wanted::new(kind, true, reason, message.clone())
            } else {
                Wanted::new(kind, false, Reason::Settled, "")
            }
        };
        let reconciling = flag(Type::Reconciling, Standing::Reconciling);
        let stalled = flag(Type::Stalled, Standing::Stalled);
        let ready = Wanted::new(Type::Ready, standing == Standing::Ready, reason, message);
        [ready, reconciling, stalled]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_most_one_of_the_three_is_true() {
        for (cause, expected) in [
            (Cause::ready(Reason::Delivered, "m"), [true, false, false]),
            (Cause::waits(Reason::Ordering, "m"), [false, true, false]),
            (
                Cause::missing(Reason::SecretNotFound, "m"),
                [false, true, false],
            ),
            (Cause::suspended("m"), [false, false, false]),
            (
                Cause::needs_person(Reason::InvalidSpec, "m"),
                [false, false, true],
            ),
        ] {
            let reason = cause.reason;
            let conditions = cause.conditions();
            assert_eq!(
                conditions.each_ref().map(|c| c.status == Some(true)),
                expected
            );
            assert_eq!(conditions[0].reason, reason, "Ready always says why");
        }
    }
    #[test]
    fn what_is_awaited_needs_a_person_after_two_minutes_and_stays_so_after_a_restart() {
        let at = Duration::from_secs;
        let cause = || Cause::missing(Reason::SecretNotFound, "m");
        let mut patience = Patience::default();
        let (first, rest) = cause().judged(&patience, at(1000), &[]);
        assert_eq!(
            (first.standing, rest),
            (Standing::Reconciling, Some(at(120)))
        );
        patience.note(Some(Reason::SecretNotFound), at(1000));
        let (later, rest) = cause().judged(&patience, at(1090), &[]);
        assert_eq!(
            (later.standing, rest),
            (Standing::Reconciling, Some(at(30)))
        );
        let (last, rest) = cause().judged(&patience, at(1120), &[]);
        assert_eq!((last.standing, rest), (Standing::Stalled, None));

        let shown = last.conditions();
        let shown = api::conditions::merge(&[], &shown, None, jiff::Timestamp::MIN);
        let (again, _) = cause().judged(&Patience::default(), at(1), &shown);
        assert_eq!(again.standing, Standing::Stalled);
        let other = Cause::missing(Reason::AccountNotFound, "m");
        let (other, _) = other.judged(&Patience::default(), at(1), &shown);
        assert_eq!(other.standing, Standing::Reconciling);
    }
}
