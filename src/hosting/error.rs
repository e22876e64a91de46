//! What can go wrong in a call, in one small enum.

use std::error::Error as StdError;
use std::fmt::{self, Write as _};
use std::time::Duration;

use super::request::InvalidRequest;
use super::server::InvalidOrder;
use super::tag::InvalidTag;
use super::transport::Cause;

/// A call that did not give its result.
///
/// Two questions decide what a caller may do: [`Error::is_retryable_as_is`]
/// and [`Error::may_have_taken_effect`]. `Display` gives the outermost message
/// alone; [`Error::explain`] adds the causes.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No byte of the request left this process.
    #[error("the request was not sent")]
    NotSent(#[source] NotSent),
    /// The request was sent, at least in part, and no whole answer came.
    #[error("the request was sent, but no whole answer came")]
    Interrupted(#[source] Cause),
    /// The API refused the request: a 4xx that has no variant of its own.
    #[error("the hosting API refused the request: {0}")]
    Refused(Refusal),
    /// 401 or 403: the key, or the address that it is used from.
    #[error("the hosting API refused the key: {0}")]
    AccessDenied(Refusal),
    /// 404.
    #[error("the hosting API does not know it: {0}")]
    NotFound(Refusal),
    /// 429.
    #[error("the hosting API asks for fewer requests: {refusal}")]
    RateLimited {
        /// How long the API asks to wait (`Retry-After`), at most a day.
        retry_after: Option<Duration>,
        /// What it said.
        refusal: Refusal,
    },
    /// 5xx.
    #[error("the hosting API failed: {0}")]
    Server(Refusal),
    /// Neither 2xx, 4xx nor 5xx; redirects above all, which are not followed.
    #[error("the hosting API answered in a way that it should not: {0}")]
    Unexpected(Refusal),
    /// A 2xx whose body is not what the operation gives.
    #[error("the answer of the hosting API was not understood: {why}")]
    Undecodable {
        /// The HTTP status, 200 to 299.
        status: u16,
        /// What did not fit; holds no text of the body.
        why: String,
    },
    /// A 2xx whose body is larger than anything the operation gives.
    #[error("the answer of the hosting API is larger than {cap} bytes")]
    TooLarge {
        /// How much was accepted at most.
        cap: usize,
    },
}

/// Why a request did not leave this process.
#[derive(Debug, thiserror::Error)]
pub enum NotSent {
    /// The order breaks a rule of the API.
    #[error(transparent)]
    Order(#[from] InvalidOrder),
    /// The tag breaks the rule of the API.
    #[error(transparent)]
    Tag(#[from] InvalidTag),
    /// Another request breaks a rule of the API.
    #[error(transparent)]
    Request(#[from] InvalidRequest),
    /// The request could not be put together.
    #[error("the request could not be built")]
    Build(#[source] Cause),
    /// No connection: name look-up, TCP or TLS.
    #[error("no connection to the hosting API")]
    Connect(#[source] Cause),
}

impl From<InvalidRequest> for Error {
    fn from(rule: InvalidRequest) -> Self {
        Self::NotSent(rule.into())
    }
}

/// An answer with an error status (2.2, section 7).
///
/// All texts are cleaned: no control characters, at most 1 KiB, our key
/// replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The HTTP status.
    pub status: u16,
    /// `errorCode`, where the body holds one.
    pub code: Option<i64>,
    /// `errorMessage`, or the text of a body in another form; may be empty.
    pub message: String,
    /// `errors`: property and message.
    pub fields: Vec<(String, String)>,
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
    /// Whether this status says for sure that nothing was done.
    ///
    /// A short list of what it may be, rather than of what it may not be: a
    /// status that nobody thought of is no proof. 408 and 409 are left out,
    /// as both can follow a request that was carried out.
    pub fn is_certain(&self) -> bool {
        matches!(
            self.status,
            400 | 401 | 403 | 404 | 405 | 413 | 415 | 422 | 429
        )
    }
}

impl Error {
    /// Whether the same call may succeed later with nothing changed by
    /// anyone. Every operation but the order may then simply be made again;
    /// the order is never repeated on this answer alone.
    pub fn is_retryable_as_is(&self) -> bool {
        match self {
            Self::NotSent(NotSent::Connect(_))
            | Self::Interrupted(_)
            | Self::RateLimited { .. }
            | Self::Server(_)
            | Self::Undecodable { .. } => true,
            Self::Refused(refusal) => matches!(refusal.status, 408 | 409 | 423 | 425),
            Self::NotSent(_)
            | Self::AccessDenied(_)
            | Self::NotFound(_)
            | Self::Unexpected(_)
            | Self::TooLarge { .. } => false,
        }
    }

    /// Whether the API may have done what it was asked for. `false` is a
    /// promise, `true` is not.
    pub fn may_have_taken_effect(&self) -> bool {
        match self {
            Self::NotSent(_) => false,
            Self::Refused(refusal)
            | Self::AccessDenied(refusal)
            | Self::NotFound(refusal)
            | Self::RateLimited { refusal, .. } => !refusal.is_certain(),
            Self::Interrupted(_)
            | Self::Server(_)
            | Self::Unexpected(_)
            | Self::Undecodable { .. }
            | Self::TooLarge { .. } => true,
        }
    }

    /// A fixed word for metrics, events and conditions.
    pub fn category(&self) -> &'static str {
        match self {
            Self::NotSent(NotSent::Order(_) | NotSent::Tag(_) | NotSent::Request(_)) => {
                "InvalidRequest"
            }
            Self::NotSent(NotSent::Build(_)) => "RequestNotBuilt",
            Self::NotSent(NotSent::Connect(_)) => "ConnectionFailed",
            Self::Interrupted(_) => "Interrupted",
            Self::Refused(_) => "Refused",
            Self::AccessDenied(_) => "AccessDenied",
            Self::NotFound(_) => "NotFound",
            Self::RateLimited { .. } => "RateLimited",
            Self::Server(_) => "ServerError",
            Self::Unexpected(_) => "UnexpectedAnswer",
            Self::Undecodable { .. } => "UndecodableAnswer",
            Self::TooLarge { .. } => "AnswerTooLarge",
        }
    }

    /// The HTTP status of the answer, if one came.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Refused(refusal)
            | Self::AccessDenied(refusal)
            | Self::NotFound(refusal)
            | Self::RateLimited { refusal, .. }
            | Self::Server(refusal)
            | Self::Unexpected(refusal) => Some(refusal.status),
            Self::Undecodable { status, .. } => Some(*status),
            Self::NotSent(_) | Self::Interrupted(_) | Self::TooLarge { .. } => None,
        }
    }

    /// The message with all its causes in one line, for people.
    pub fn explain(&self) -> String {
        let mut text = self.to_string();
        let mut cause = self.source();
        while let Some(next) = cause {
            // Writing into a String cannot fail.
            let _ = write!(text, ": {next}");
            cause = next.source();
        }
        text
    }
}
