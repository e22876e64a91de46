//! Sends a request and receives its answer: one method, so that tests can run the real code with simulated time and
//! faults.

use std::fmt;
use std::time::Duration;

use futures::future::BoxFuture;
use http::{HeaderMap, Method, StatusCode};
use url::Url;

use hosting_types::error::BoxError;
use tokio::sync::OwnedSemaphorePermit;

/// One request, complete with the key in its headers.
#[derive(Clone)]
pub struct Request {
    /// The method.
    pub method: Method,
    /// The full URL, always of the account's own origin.
    pub url: Url,
    /// All headers; the key is marked as sensitive.
    pub headers: HeaderMap,
    /// The body, if there is one.
    pub body: Option<Vec<u8>>,
    /// Time limit, from the start of the call to the end of the body.
    pub deadline: Duration,
    /// How much of the answer to read.
    pub caps: Caps,
}

/// The most bytes of a body to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caps {
    /// With a 2xx.
    pub success: usize,
    /// With any other status.
    pub refusal: usize,
}

impl Caps {
    /// The limit for an answer of this status.
    pub fn for_status(self, status: StatusCode) -> usize {
        if status.is_success() {
            self.success
        } else {
            self.refusal
        }
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A body may contain a password or a script.
        f.debug_struct("Request")
            .field("method", &self.method)
            .field("url", &self.url.as_str())
            .field("headers", &self.headers)
            .field("body_length", &self.body.as_ref().map(Vec::len))
            .field("deadline", &self.deadline)
            .field("caps", &self.caps)
            .finish()
    }
}

impl Request {
    /// Whether the request only reads.
    pub(crate) fn is_read(&self) -> bool {
        self.method == Method::GET
    }
}

/// One answer. The status counts even if the body is cut off.
pub struct Response {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body, or the part of it that arrived.
    pub body: Vec<u8>,
    /// Why the body is incomplete, if it is.
    pub cut: Option<Cut>,
    /// The permit to decode a large body: until it is dropped, no other large body is decoded.
    pub decode_permit: Option<OwnedSemaphorePermit>,
}

impl fmt::Debug for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A body may contain a root password.
        f.debug_struct("Response")
            .field("status", &self.status)
            .field("body_length", &self.body.len())
            .field("cut", &self.cut)
            .finish_non_exhaustive()
    }
}

/// Why a body is cut off.
#[derive(Debug)]
pub enum Cut {
    /// It is larger than [`Request::caps`] allow.
    TooLarge,
    /// The connection broke or the deadline passed.
    Broken(BoxError),
}

/// No status came.
#[derive(Debug, thiserror::Error)]
pub enum TransportError {
    /// The request could not be put together; nothing was sent.
    #[error("the request could not be built")]
    Build(#[source] BoxError),
    /// No connection was made; nothing was sent.
    #[error("no connection")]
    Connect(#[source] BoxError),
    /// Something may have been sent.
    #[error("no answer")]
    Interrupted(#[source] BoxError),
}

/// Sends one request and returns its answer. An implementation sends at most one request per call, follows no redirect,
/// repeats nothing, reads at most [`Request::caps`], and ends within [`Request::deadline`]. If something may have been
/// sent, it returns [`TransportError::Interrupted`].
pub trait Transport: Send + Sync {
    /// Sends one request.
    fn send(&self, request: Request) -> BoxFuture<'_, Result<Response, TransportError>>;
}
