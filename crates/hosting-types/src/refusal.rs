//! An answer with an error status, and which statuses make it certain that
//! nothing was done.

use std::fmt::{self, Write};
use std::time::Duration;

use super::text;

/// The most bytes that a refusal takes where it is shown: it stands in conditions, events and logs.
const SHOWN: usize = 512;

/// An answer with an error status (2.2, section 7).
///
/// Its texts are those of the API's error record; of another body there are none. All texts are cleaned: no control characters, at most 1 KiB, our key
/// replaced.
#[derive(Debug, Clone, Eq)]
pub struct Refusal {
    /// The HTTP status.
    pub status: u16,
    /// `errorCode`, where the body holds one.
    pub code: Option<i64>,
    /// `errorMessage`, or what the status means.
    pub message: String,
    /// `errors`: property and message.
    pub fields: Vec<(String, String)>,
    /// How long the API asks to wait (`Retry-After`, 7-7), at most a day.
    pub retry_after: Option<Duration>,
    /// Whether the call is idempotent, which
    /// [`Error::is_retryable_as_is`](super::Error::is_retryable_as_is) needs to
    /// know.
    pub idempotent: bool,
}

/// Two refusals are equal if they say the same. How long to wait, and which call it
/// was, do not count.
impl PartialEq for Refusal {
    fn eq(&self, other: &Self) -> bool {
        (self.status, self.code, &self.message, &self.fields)
            == (other.status, other.code, &other.message, &other.fields)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut told = format!("status {}", self.status);
        if let Some(code) = self.code {
            write!(told, ", code {code}")?;
        }
        if !self.message.is_empty() {
            write!(told, ": {}", self.message)?;
        }
        for (index, (property, message)) in self.fields.iter().enumerate() {
            told.push_str(if index == 0 { " (" } else { "; " });
            if !property.is_empty() {
                write!(told, "{property}: ")?;
            }
            told.push_str(message);
        }
        if !self.fields.is_empty() {
            told.push(')');
        }
        f.write_str(&text::shorten(&told, SHOWN))
    }
}

impl Refusal {
    /// Whether this status makes it certain that nothing was done (7-10).
    ///
    /// A list of the statuses that prove it, so that an unexpected status never
    /// does. 408 and 409 are left out, because both can follow a request that was
    /// carried out.
    pub fn is_certain(&self) -> bool {
        matches!(
            self.status,
            400 | 401 | 403 | 404 | 405 | 413 | 415 | 422 | 429
        )
    }
}
