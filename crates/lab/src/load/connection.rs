//! One keep-alive connection to the hosting API, with little overhead, so that the load itself is not the limit.

use std::time::Duration;

use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

/// A slower answer counts as missing.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// A request to the hosting API.
#[derive(Debug, Clone)]
pub(super) struct LoadCall {
    /// The kind that its latency counts for.
    pub(super) kind: &'static str,
    pub(super) method: Method,
    /// Path and query.
    pub(super) target: String,
    /// The paging header.
    pub(super) range: Option<String>,
    pub(super) body: Bytes,
}

impl LoadCall {
    /// A plain GET.
    pub(super) fn get(kind: &'static str, target: impl Into<String>) -> Self {
        Self {
            kind,
            method: Method::GET,
            target: target.into(),
            range: None,
            body: Bytes::new(),
        }
    }

    /// Fifty records from `start` on.
    pub(super) fn page(kind: &'static str, target: impl Into<String>, start: usize) -> Self {
        Self {
            range: Some(format!("start={start},results=50")),
            ..Self::get(kind, target)
        }
    }
}

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum CallError {
    #[error("no answer to {kind} within {} s", REQUEST_TIMEOUT.as_secs())]
    Late { kind: &'static str },
    #[error("{kind} was answered with {status}: {text}")]
    Status {
        kind: &'static str,
        status: StatusCode,
        text: String,
    },
    #[error("the request cannot be made")]
    Request(#[from] http::Error),
    #[error("the connection broke")]
    Connection(#[from] hyper::Error),
    #[error("cannot connect")]
    Connect(#[from] std::io::Error),
}

/// A connection and its API key.
#[derive(Debug)]
pub(super) struct LoadConnection {
    sender: SendRequest<Full<Bytes>>,
    task: JoinHandle<()>,
    host: String,
    key: String,
}

impl Drop for LoadConnection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl LoadConnection {
    /// Connects to `host:port`.
    pub(super) async fn open(host: &str, key: &str) -> Result<Self, CallError> {
        let stream = TcpStream::connect(host).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        #[expect(
            clippy::disallowed_methods,
            reason = "it ends with the connection, whose drop ends it"
        )]
        let task = tokio::spawn(async move {
            // Errors are reported to the waiting request.
            let _ = connection.await;
        });
        Ok(Self {
            sender,
            task,
            host: host.to_owned(),
            key: key.to_owned(),
        })
    }

    /// Sends a request, reads the whole answer, and returns it with the time taken.
    pub(super) async fn call(&mut self, call: &LoadCall) -> Result<(Bytes, Duration), CallError> {
        let mut request = Request::builder()
            .method(&call.method)
            .uri(&call.target)
            .header("host", &self.host)
            .header("private-token", &self.key);
        if let Some(range) = &call.range {
            request = request.header("ranged-data", range);
        }
        let request = request.body(Full::new(call.body.clone()))?;
        let began = Instant::now();
        let answered = timeout(REQUEST_TIMEOUT, async {
            self.sender.ready().await?;
            let answer = self.sender.send_request(request).await?;
            let status = answer.status();
            let body = answer.into_body().collect().await?.to_bytes();
            Ok::<_, hyper::Error>((status, body))
        });
        let late = |_| CallError::Late { kind: call.kind };
        let (status, body) = answered.await.map_err(late)??;
        if !status.is_success() {
            return Err(CallError::Status {
                kind: call.kind,
                status,
                text: String::from_utf8_lossy(&body).into_owned(),
            });
        }
        Ok((body, began.elapsed()))
    }
}
