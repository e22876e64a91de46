//! An answer with an error status, and which statuses make it certain that
//! nothing was done.

use std::fmt;
use std::time::Duration;

/// An answer with an error status (2.2, section 7).
///
/// All texts are cleaned: no control characters, at most 1 KiB, our key
/// replaced.
#[derive(Debug, Clone, Eq)]
pub struct Refusal {
    /// The HTTP status.
    pub status: u16,
    /// `errorCode`, where the body holds one.
    pub code: Option<i64>,
    /// `errorMessage`, or the text of a body in another form; may be empty.
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
        write!(f, "status {}", self.status)?;
        if let Some(code) = self.code {
            write!(f, ", code {code}")?;
        }
        if !self.message.is_empty() {
            write!(f, ": {}", self.message)?;
        }
        for (index, (property, message)) in self.fields.iter().enumerate() {
            f.write_str(if index == 0 { " (" } else { "; " })?;
            if !property.is_empty() {
                write!(f, "{property}: ")?;
            }
            f.write_str(message)?;
        }
        if !self.fields.is_empty() {
            f.write_str(")")?;
        }
        Ok(())
    }
}

impl Refusal {
    /// Whether this status makes it certain that nothing was done (7-10).
    ///
    /// A list of the statuses that prove it, so that an unexpected status never
    /// does. 408 and 409 are left out, because both can follow a request that was
    /// carried out.
    pub(super) fn is_certain(&self) -> bool {
        matches!(
            self.status,
            400 | 401 | 403 | 404 | 405 | 413 | 415 | 422 | 429
        )
    }
}
