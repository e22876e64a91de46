//! Why an effect failed, as reason and message of a condition.

use crate::backoff::LONGEST_PAUSE;
use api::{Interval, Reason};
use hosting_types::error::NotSent;
use std::time::Duration;

/// Failures in a row after which status shows the error.
pub const REPORTED_AFTER_FAILURES: u32 = 3;

/// Whether a reason is about the account: no answer, key refused, or rate limited.
pub fn is_account_error(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::KeyRejected | Reason::ProviderUnreachable | Reason::RateLimited
    )
}

/// Records since when the account answers. Returns whether that ends the failures: the moment is new, and the last
/// error, if any, was about the account. It is the same for every kind.
pub fn is_over_by_answers(
    known: &mut Option<Duration>,
    answers_since: Option<Duration>,
    last_error: Option<&LastError>,
) -> bool {
    let is_news = std::mem::replace(known, answers_since) != answers_since;
    is_news && last_error.is_none_or(LastError::is_account_error)
}

/// Why an effect failed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LastError {
    /// The reason.
    pub reason: Reason,
    /// In words.
    pub message: String,
}

impl LastError {
    /// An error of the provider.
    pub fn from_provider(error: &hosting_types::Error) -> Self {
        let reason = match error {
            hosting_types::Error::AccessDenied(_)
            | hosting_types::Error::NotSent(NotSent::KeyRefused(_)) => Reason::KeyRejected,
            hosting_types::Error::NotSent(NotSent::ReadOnly) => Reason::ReadOnly,
            hosting_types::Error::RateLimited(_) => Reason::RateLimited,
            hosting_types::Error::Refused(_)
            | hosting_types::Error::Forbidden { .. }
            | hosting_types::Error::NotFound(_) => Reason::RequestRefused,
            _ => Reason::ProviderUnreachable,
        };
        Self {
            reason,
            message: error.explain(),
        }
    }

    /// Whether a call to the provider failed.
    pub fn is_provider_error(&self) -> bool {
        !matches!(self.reason, Reason::WriteFailed | Reason::ChecksFailed)
    }

    /// Whether the error is about the account and not about the request.
    pub fn is_account_error(&self) -> bool {
        is_account_error(self.reason)
    }

    /// A write to the API server failed; `why` is the error's text.
    pub fn from_write(why: String) -> Self {
        Self {
            reason: Reason::WriteFailed,
            message: why,
        }
    }

    /// Message for status: the error, and how it is retried.
    pub fn describe_retry(&self) -> String {
        format!(
            "{}; retrying at growing intervals of at most {}",
            self.message,
            Interval(LONGEST_PAUSE)
        )
    }

    /// A check right before the change failed.
    pub fn check_failed(why: &str) -> Self {
        Self {
            reason: Reason::ChecksFailed,
            message: why.to_owned(),
        }
    }
}
