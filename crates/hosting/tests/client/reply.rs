//! The result of a call, of any type.

use std::fmt::Debug;

use hosting_types::{Error, OrderResult};

use crate::{canaries, scene::Scene};

/// The four outcomes of an order, and the two of all other calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Good,
    Failed,
    Created,
    NotSent,
    Refused,
    Unknown,
}

type Check = Box<dyn FnOnce(&Scene) + Send>;

/// The outcome of a call, all its texts, and the check of a good one.
pub(crate) struct Reply {
    pub(crate) end: End,
    pub(crate) error: Option<Error>,
    /// Every text that can be made of it.
    pub(crate) text: String,
    check: Option<Check>,
}

impl Reply {
    /// `check` checks the value of a good answer.
    pub(crate) fn from_result<T: Debug + Send + 'static>(
        result: Result<T, Error>,
        check: fn(&Scene, T),
    ) -> Self {
        let text = texts(&result);
        match result {
            Ok(value) => Self {
                end: End::Good,
                error: None,
                text,
                check: Some(Box::new(move |scene| check(scene, value))),
            },
            Err(error) => Self {
                end: End::Failed,
                text: format!("{text} {}", error_texts(&error)),
                error: Some(error),
                check: None,
            },
        }
    }

    pub(crate) fn of_order(outcome: OrderResult, check: fn(&Scene, OrderResult)) -> Self {
        let text = texts(&outcome);
        let (end, error) = match outcome {
            OrderResult::Created(_) => {
                return Self {
                    end: End::Created,
                    error: None,
                    text,
                    check: Some(Box::new(move |scene| check(scene, outcome))),
                };
            }
            OrderResult::NotSent(error) => (End::NotSent, Some(error)),
            OrderResult::Refused(error) => (End::Refused, Some(error)),
            OrderResult::Unknown(_) => (End::Unknown, None),
        };
        let more = error.as_ref().map(error_texts).unwrap_or_default();
        Self {
            end,
            error,
            text: format!("{text} {more}"),
            check: None,
        }
    }

    pub(crate) fn is_good(&self) -> bool {
        matches!(self.end, End::Good | End::Created)
    }

    /// Whether the caller must expect an effect.
    pub(crate) fn may_have_taken_effect(&self) -> bool {
        match &self.error {
            Some(error) => error.may_have_taken_effect(),
            None => true,
        }
    }

    /// Compares a good answer with the real state.
    pub(crate) fn check(self, scene: &Scene) {
        canaries::none_in("a reply", &self.text);
        let Some(check) = self.check else {
            panic!("no good answer: {}", self.text);
        };
        check(scene);
    }
}

/// A value as `Debug` shows it, in both forms.
pub(crate) fn texts(value: &impl Debug) -> String {
    format!("{value:?} {value:#?}")
}

/// An error with all its texts, including its causes.
fn error_texts(error: &Error) -> String {
    let mut text = format!("{error} {} {error:?} {error:#?}", error.explain());
    let mut cause = std::error::Error::source(error);
    while let Some(next) = cause {
        text.push_str(&format!(" {next} {next:?}"));
        cause = next.source();
    }
    text
}
