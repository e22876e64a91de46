//! Why an object is as it is, and what kstatus reads in it.

use crate::kinds::{
    Reason,
    conditions::{Type, Wanted},
};

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
    /// A person is needed.
    Stalled,
}

impl Cause {
    /// All is as declared.
    pub fn ready(reason: Reason, message: impl Into<String>) -> Self {
        Self::new(Standing::Ready, reason, message)
    }

    /// Waiting that ends by itself.
    pub fn waits(reason: Reason, message: impl Into<String>) -> Self {
        Self::new(Standing::Reconciling, reason, message)
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

    /// The three conditions that every kind has. What is not the case says `Settled`, with nothing to read.
    pub fn conditions(self) -> [Wanted; 3] {
        let Self {
            reason,
            message,
            standing,
        } = self;
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
}
