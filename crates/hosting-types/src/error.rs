//! What can fail in a call, and what the caller may do then.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use super::{refusal::Refusal, request::InvalidRequest, text};

/// The error of a layer below, unchanged.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A call without a result: see [`Error::is_retryable_as_is`] and [`Error::may_have_taken_effect`]. `Display` gives
/// only the outermost message; [`Error::explain`] adds the causes.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No byte of the request left this process.
    #[error("The request was not sent")]
    NotSent(#[source] NotSent),
    /// The request was sent, at least in part, and no complete answer came.
    #[error("The request was sent, but no complete answer came")]
    Interrupted(#[source] Interruption),
    /// The API refused the request: a 4xx without a variant of its own.
    #[error("The hosting API refused the request; {0}")]
    Refused(Refusal),
    /// The API refused the key or its source address: 401, or 403 to the quota or the list of servers.
    #[error("The hosting API refused the key; {0}")]
    AccessDenied(Refusal),
    /// 403 to any other call: the key lacks this right, but may have others.
    #[error("The hosting API forbids {call} to this key; {refusal}")]
    Forbidden {
        /// Method and path.
        call: String,
        /// The answer.
        refusal: Refusal,
    },
    /// 404.
    #[error("The hosting API found no such record; {0}")]
    NotFound(Refusal),
    /// 429.
    #[error("The hosting API asks for fewer requests; {0}")]
    RateLimited(Refusal),
    /// 5xx.
    #[error("The hosting API failed; {0}")]
    Server(Refusal),
    /// Neither 2xx, 4xx nor 5xx; mostly redirects, which are not followed.
    #[error("The hosting API gave an unexpected answer; {0}")]
    Unexpected(Refusal),
    /// A 2xx with a body that does not fit the operation.
    #[error("The answer of the hosting API is not valid; {why}")]
    Undecodable {
        /// The HTTP status, 200 to 299.
        status: u16,
        /// What did not fit; contains no text of the body.
        why: String,
        /// Whether the call is idempotent.
        idempotent: bool,
    },
    /// A 2xx with a body larger than any answer of the operation.
    #[error("The answer of the hosting API is larger than {cap} bytes")]
    TooLarge {
        /// The most bytes that are accepted.
        cap: usize,
    },
}

/// Why a request did not leave this process.
#[derive(Debug, thiserror::Error)]
pub enum NotSent {
    /// It breaks a rule of the API.
    #[error(transparent)]
    Request(#[from] InvalidRequest),
    /// The request could not be put together.
    #[error("the request could not be built")]
    Build(#[source] BoxError),
    /// No connection: name look-up, TCP or TLS.
    #[error("no connection to the hosting API")]
    Connect(#[source] BoxError),
    /// The API refused the key in another call, so the client sends nothing with it until it works.
    #[error("the hosting API refused the key; {0}")]
    KeyRefused(Refusal),
    /// The client is read-only, and this is no read or a read that can be made only once.
    #[error("this client is read-only")]
    ReadOnly,
}

impl From<InvalidRequest> for Error {
    fn from(rule: InvalidRequest) -> Self {
        Self::NotSent(rule.into())
    }
}

/// How an exchange was interrupted.
#[derive(Debug)]
pub struct Interruption {
    /// What interrupted it.
    pub source: BoxError,
    /// Whether the call is idempotent, for [`Error::is_retryable_as_is`].
    pub idempotent: bool,
}

impl fmt::Display for Interruption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.source.fmt(f)
    }
}

impl StdError for Interruption {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.source()
    }
}

impl Error {
    /// Whether the same call may be repeated unchanged: it may succeed later, and it had certainly no effect or is
    /// idempotent. After any other call find out the outcome first: a second order is a second server.
    pub fn is_retryable_as_is(&self) -> bool {
        match self {
            Self::NotSent(NotSent::Connect(_)) | Self::RateLimited(_) => true,
            Self::Interrupted(broken) => broken.idempotent,
            Self::Server(refusal) => refusal.idempotent,
            Self::Undecodable { idempotent, .. } => *idempotent,
            Self::Refused(refusal) => {
                refusal.idempotent && matches!(refusal.status, 408 | 409 | 423 | 425)
            }
            Self::NotSent(_)
            | Self::AccessDenied(_)
            | Self::Forbidden { .. }
            | Self::NotFound(_)
            | Self::Unexpected(_)
            | Self::TooLarge { .. } => false,
        }
    }

    /// Whether the API is unavailable: no answer came, it failed, or it asks for fewer requests. Says nothing about the
    /// request.
    pub fn is_outage(&self) -> bool {
        match self {
            Self::NotSent(why) => matches!(why, NotSent::Connect(_)),
            Self::Interrupted(_)
            | Self::RateLimited(_)
            | Self::Server(_)
            | Self::Unexpected(_)
            | Self::Undecodable { .. }
            | Self::TooLarge { .. } => true,
            Self::Refused(_)
            | Self::AccessDenied(_)
            | Self::Forbidden { .. }
            | Self::NotFound(_) => false,
        }
    }

    /// Whether the API may have carried out the call. Only `false` is certain.
    pub fn may_have_taken_effect(&self) -> bool {
        match self {
            Self::NotSent(_) => false,
            Self::Refused(refusal)
            | Self::AccessDenied(refusal)
            | Self::Forbidden { refusal, .. }
            | Self::NotFound(refusal)
            | Self::RateLimited(refusal) => !refusal.is_certain(),
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
            Self::NotSent(NotSent::Request(_)) => "InvalidRequest",
            Self::NotSent(NotSent::Build(_)) => "RequestNotBuilt",
            Self::NotSent(NotSent::Connect(_)) => "ConnectionFailed",
            Self::NotSent(NotSent::KeyRefused(_)) => "KeyRefused",
            Self::NotSent(NotSent::ReadOnly) => "ReadOnly",
            Self::Interrupted(_) => "Interrupted",
            Self::Refused(_) => "Refused",
            Self::AccessDenied(_) => "AccessDenied",
            Self::Forbidden { .. } => "Forbidden",
            Self::NotFound(_) => "NotFound",
            Self::RateLimited(_) => "RateLimited",
            Self::Server(_) => "ServerError",
            Self::Unexpected(_) => "UnexpectedAnswer",
            Self::Undecodable { .. } => "UndecodableAnswer",
            Self::TooLarge { .. } => "AnswerTooLarge",
        }
    }

    /// The error answer, if one came.
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refused(refusal)
            | Self::AccessDenied(refusal)
            | Self::Forbidden { refusal, .. }
            | Self::NotFound(refusal)
            | Self::RateLimited(refusal)
            | Self::Server(refusal)
            | Self::Unexpected(refusal) => Some(refusal),
            Self::Undecodable { .. }
            | Self::NotSent(_)
            | Self::Interrupted(_)
            | Self::TooLarge { .. } => None,
        }
    }

    /// The HTTP status of the answer, if one came.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Undecodable { status, .. } => Some(*status),
            other => other.refusal().map(|refusal| refusal.status),
        }
    }

    /// How long the API asks to wait before the next call, after any refusal (7-7).
    pub fn retry_after(&self) -> Option<Duration> {
        self.refusal()?.retry_after
    }

    /// The message with all its causes in one line for users: cleaned, and at most 1 KiB.
    pub fn explain(&self) -> String {
        // A cause may contain text from the other side.
        let mut line = self.to_string();
        let (mut source, mut separator) = (self.source(), ";");
        while let Some(next) = source {
            let words = text::clean(&next.to_string(), text::MESSAGE);
            line = format!("{line}{separator} {words}");
            (source, separator) = (next.source(), ":");
        }
        text::shorten(&text::clean(&line, 4 * text::MESSAGE), text::MESSAGE)
    }
}
