//! Sockets: reads requests, writes answers, and breaks connections on purpose.

use std::future::Future;
use std::net::IpAddr;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::response::Response;
use futures::StreamExt;
use http::StatusCode;
use http::request::Parts;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use super::answer::{Refusal, code};
use super::exchange::{Broken, exchange};
use super::world::Shared;

/// Longest request body.
const LONGEST_BODY: usize = 1024 * 1024;

/// How much of a longer one is read before the connection is closed.
const LONGEST_PASSED: usize = 1024 * LONGEST_BODY;

/// The address at the other end of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) IpAddr);

/// All tasks of a simulator, and the signal that ends them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Service {
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Service {
    /// Ends all tasks when it is dropped.
    pub(crate) fn drop_guard(&self) -> DropGuard {
        self.stop.clone().drop_guard()
    }

    /// Waits until all tasks have ended.
    pub(crate) async fn ended(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }

    fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let stop = self.stop.clone();
        self.tasks.spawn(async move {
            stop.run_until_cancelled(work).await;
        });
    }

    /// Serves each connection in a task of its own.
    pub(crate) fn listen<H, F>(&self, listener: TcpListener, handler: H)
    where
        H: Fn(Parts, Incoming) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Result<Response, Broken>> + Send + 'static,
    {
        let service = self.clone();
        self.spawn(async move {
            loop {
                match listener.accept().await {
                    Ok((stream, peer)) => {
                        service.spawn(connection(stream, peer.ip(), handler.clone()));
                    }
                    // For example out of file descriptors. Retrying at once would spin.
                    Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
                }
            }
        });
    }

    /// Reads the body, then handles the request in a task of its own: what has
    /// arrived takes effect even when the client hangs up in the meantime.
    pub(crate) async fn answer(
        &self,
        shared: Shared,
        router: Router,
        head: Parts,
        body: Incoming,
    ) -> Result<Response, Broken> {
        let body = whole(body).await;
        let stop = self.stop.clone();
        let handled = self.tasks.spawn(async move {
            stop.run_until_cancelled(exchange(shared, router, head, body))
                .await
        });
        handled.await.ok().flatten().unwrap_or(Err(Broken))
    }
}

/// Reads a body. One that is too long is still read to its end, and dropped: a
/// client that is still sending would see a closed connection instead of the
/// answer.
///
/// # Errors
/// 413 when it is too long, 400 when it breaks off.
pub(crate) async fn whole(body: Incoming) -> Result<Bytes, Refusal> {
    let mut pieces = Body::new(body).into_data_stream();
    let mut kept = Vec::new();
    let mut length: usize = 0;
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|_| Refusal::malformed("the body breaks off"))?;
        length = length.saturating_add(piece.len());
        if length <= LONGEST_BODY {
            kept.extend_from_slice(&piece);
        } else if length <= LONGEST_PASSED {
            kept = Vec::new();
        } else {
            break;
        }
    }
    match length {
        ..=LONGEST_BODY => Ok(kept.into()),
        _ => Err(Refusal::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            code::INVALID_BODY,
            "the body is too large",
        )),
    }
}

async fn connection<H, F>(stream: TcpStream, peer: IpAddr, handler: H)
where
    H: Fn(Parts, Incoming) -> F,
    F: Future<Output = Result<Response, Broken>> + Send + 'static,
{
    // Neither result matters here: the client went away, or it gets the broken
    // connection that a fault asked for.
    let _ = stream.set_nodelay(true);
    let service = service_fn(|request: http::Request<Incoming>| {
        let (mut head, body) = request.into_parts();
        head.extensions.insert(Peer(peer.to_canonical()));
        handler(head, body)
    });
    // A service that fails makes hyper close the connection unanswered.
    let _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .serve_connection(TokioIo::new(stream), service)
        .await;
}
