//! An answer with an error status, and which statuses make it certain that nothing was done.

use std::fmt::{self, Write};
use std::time::Duration;

use super::text;

/// The most bytes of a refusal that conditions, events and logs show.
const SHOWN: usize = 512;

/// An answer with an error status (2.2, section 7). Its texts are from the API's error record only, and cleaned: no
/// control characters, at most 1 KiB, our key replaced.
#[derive(Debug, Clone, Eq)]
pub struct Refusal {
    /// The HTTP status.
    pub status: u16,
    /// `errorCode`, if the body has one.
    pub code: Option<i64>,
    /// `errorMessage`, or what the status means.
    pub message: String,
    /// `errors`: property and message.
    pub fields: Vec<(String, String)>,
    /// How long the API asks to wait (`Retry-After`, 7-7), at most a day.
    pub retry_after: Option<Duration>,
    /// Whether the call is idempotent, for [`Error::is_retryable_as_is`](super::Error::is_retryable_as_is).
    pub idempotent: bool,
}

/// Two refusals are equal if their texts are. The wait and the call do not count.
impl PartialEq for Refusal {
    fn eq(&self, other: &Self) -> bool {
        (self.status, self.code, &self.message, &self.fields)
            == (other.status, other.code, &other.message, &other.fields)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = format!("status {}", self.status);
        if let Some(code) = self.code {
            write!(shown, ", code {code}")?;
        }
        if !self.message.is_empty() {
            write!(shown, ": {}", self.message)?;
        }
        for (index, (property, message)) in self.fields.iter().enumerate() {
            shown.push_str(if index == 0 { " (" } else { "; " });
            if !property.is_empty() {
                write!(shown, "{property}: ")?;
            }
            shown.push_str(message);
        }
        if !self.fields.is_empty() {
            shown.push(')');
        }
        f.write_str(&text::shorten(&shown, SHOWN))
    }
}

impl Refusal {
    /// Whether the status makes it certain that nothing was done.
    pub fn is_certain(&self) -> bool {
        is_certain(self.status)
    }
}

/// Whether a status makes it certain that nothing was done (7-10): only listed statuses do. 408 and 409 are not listed,
/// since both can follow a request that was carried out.
pub fn is_certain(status: u16) -> bool {
    matches!(status, 400 | 401 | 403 | 404 | 405 | 413 | 415 | 422 | 429)
}
