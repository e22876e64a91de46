//! Why an effect failed, in the fixed words of conditions.

use crate::backoff::LONGEST_PAUSE;
use api::{Interval, Reason};
use hosting_types::error::NotSent;
use std::time::Duration;

/// How many failures in a row status shows. One alone says nothing.
pub const PERSISTS: u32 = 3;

/// Whether a reason says that the account does not answer, or refuses the key.
pub fn is_accounts(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::KeyRejected | Reason::ProviderUnreachable | Reason::RateLimited
    )
}

/// What ends a row of failures that came of the account: it has answers again. The same for every kind, so that all that
/// waited is tried then.
pub fn is_over_by_answers(
    known: &mut Option<Duration>,
    answers_since: Option<Duration>,
    trouble: Option<&LastError>,
) -> bool {
    let is_news = std::mem::replace(known, answers_since) != answers_since;
    is_news && trouble.is_none_or(LastError::is_accounts)
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
    /// The provider did not do it.
    pub fn from_provider(error: &hosting_types::Error) -> Self {
        let reason = match error {
            hosting_types::Error::AccessDenied(_)
            | hosting_types::Error::NotSent(NotSent::KeyRefused(_)) => Reason::KeyRejected,
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

    /// Whether it is a call to the provider that failed.
    pub fn is_providers(&self) -> bool {
        !matches!(self.reason, Reason::WriteFailed | Reason::ChecksFailed)
    }

    /// Whether it says something of the account, and nothing of what was asked for.
    pub fn is_accounts(&self) -> bool {
        is_accounts(self.reason)
    }

    /// The API server did not do it; `why` in its words.
    pub fn from_write(why: String) -> Self {
        Self {
            reason: Reason::WriteFailed,
            message: why,
        }
    }

    /// In words for a status: what keeps failing, and that it goes on.
    pub fn persistent(&self) -> String {
        format!(
            "{}; retrying at growing intervals of at most {}",
            self.message,
            Interval(LONGEST_PAUSE)
        )
    }

    /// A check right before the change said no.
    pub fn unexpected(why: &str) -> Self {
        Self {
            reason: Reason::ChecksFailed,
            message: why.to_owned(),
        }
    }
}
