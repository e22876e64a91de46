//! What goes wrong with a request, and with the list it asks for.

mod pattern;
mod reach;
mod rules;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::clock::{Moment, span};

pub(crate) use pattern::Candidate;
pub(crate) use rules::{Faults, Rule};

/// One thing that goes wrong.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(
    rename_all = "camelCase",
    rename_all_fields = "camelCase",
    deny_unknown_fields
)]
pub(crate) enum Fault {
    /// Answered with this status and an error record; nothing is changed.
    Refuse { status: u16, message: String },
    /// Held back in real time, before or after the effect.
    Delay {
        ms: u64,
        #[serde(default)]
        before: bool,
    },
    /// The connection is closed; nothing is changed.
    DropBefore,
    /// The change is made, then the connection is closed.
    DropAfter,
    /// Answered with this status, before or after the change is made.
    Status {
        code: u16,
        #[serde(default)]
        after: bool,
        /// Seconds, sent as `Retry-After`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_after: Option<u64>,
    },
    /// A correct head, and only the first half of the body.
    Truncate,
    /// A correct head, and no body.
    EmptyBody,
    /// This text as the body, whatever the status.
    Body {
        text: String,
        #[serde(default = "plain")]
        content_type: String,
    },
    /// At least this many bytes of body.
    Oversize { bytes: u64 },
    /// The answer as it would have been this many virtual seconds ago.
    StaleList { seconds: f64 },
    /// A list shows nothing, a tag look-up answers 404.
    EmptyList,
    /// What the request starts (a delivery, an installation, a command) will
    /// fail; a machine shows this message.
    Fail { message: String },
    /// Pages after the first start one record too late: one is never shown.
    ShiftedPage,
    /// Pages after the first start one record too early: one is shown twice.
    RepeatedPage,
    /// The list of servers shows its first record twice.
    RepeatedRecord,
    /// Identifiers in the answer have capital letters.
    UpperCase,
}

fn plain() -> String {
    "text/plain; charset=utf-8".to_owned()
}

/// Why something will fail; passed with the request to its route.
#[derive(Clone, Debug, Default)]
pub(crate) struct Doom(pub(crate) Option<String>);

/// How a list is distorted; passed with the request to its route.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Distortion {
    ago: Duration,
    pub(crate) empty: bool,
    skip: bool,
    repeat: bool,
    /// The first record of a list is there twice.
    pub(crate) twice: bool,
}

impl Distortion {
    /// The moment that the answer shows.
    pub(crate) fn at(self, now: Moment) -> Moment {
        now.before(self.ago)
    }

    /// Where a page really starts.
    pub(crate) fn start(self, start: usize) -> usize {
        match start {
            0 => 0,
            start if self.skip => start.saturating_add(1),
            start if self.repeat => start - 1,
            start => start,
        }
    }
}

/// The faults that hit one request.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Harm(pub(crate) Vec<Fault>);

impl Harm {
    /// Whether it contains this fault.
    pub(crate) fn has(&self, fault: &Fault) -> bool {
        self.0.contains(fault)
    }

    /// How long to wait before, or after, the effect.
    pub(crate) fn delay(&self, early: bool) -> Duration {
        let total = self.0.iter().map(|fault| match fault {
            Fault::Delay { ms, before } if *before == early => *ms,
            _ => 0,
        });
        Duration::from_millis(total.fold(0, u64::saturating_add))
    }

    /// Why what the request starts will fail.
    pub(crate) fn doom(&self) -> Doom {
        Doom(self.0.iter().find_map(|fault| match fault {
            Fault::Fail { message } => Some(message.clone()),
            _ => None,
        }))
    }

    /// What it does to lists.
    pub(crate) fn distortion(&self) -> Distortion {
        let ago = self.0.iter().find_map(|fault| match fault {
            Fault::StaleList { seconds } => span(*seconds),
            _ => None,
        });
        Distortion {
            ago: ago.unwrap_or_default(),
            empty: self.has(&Fault::EmptyList),
            skip: self.has(&Fault::ShiftedPage),
            repeat: self.has(&Fault::RepeatedPage),
            twice: self.has(&Fault::RepeatedRecord),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_add_up_without_end() {
        let delay = Fault::Delay {
            ms: u64::MAX,
            before: true,
        };
        let harm = Harm(vec![delay.clone(), delay]);
        assert_eq!(harm.delay(true), Duration::from_millis(u64::MAX));
        assert_eq!(harm.delay(false), Duration::ZERO);
    }

    #[test]
    fn pages_shift_only_after_the_first() {
        let harm = |fault| Harm(vec![fault]).distortion();
        let starts = |d: Distortion| [d.start(0), d.start(50)];
        assert_eq!(starts(harm(Fault::ShiftedPage)), [0, 51]);
        assert_eq!(starts(harm(Fault::RepeatedPage)), [0, 49]);
        assert_eq!(starts(harm(Fault::EmptyList)), [0, 50]);
    }
}
