//! A forwarding HTTP/1.1 proxy between the operator and one API.
//! It records every request of the trace, and delays or loses the one in the trap.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use futures::stream;
use http::header::{AUTHORIZATION, CONNECTION, DATE, HOST, TRANSFER_ENCODING};
use http::{Method, Request, Response};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::{
    call_trace::{ArmedTrap, CallTrace, HeldCallOutcome, TargetApi, TrapAction},
    random_faults::RandomFault,
    request_kinds::classify_request,
};
use lab::rig::ClusterAccess;

type ProxyBody = BoxBody<Bytes, reqwest::Error>;

/// The connection is closed without an answer.
#[derive(Debug, thiserror::Error)]
#[error("lost on the way")]
struct ConnectionClosed;

/// A proxy. It ends and closes all connections when dropped.
pub(crate) struct TracingProxy {
    address: SocketAddr,
    _accepting: JoinSet<()>,
}

/// The state that all connections share.
struct TracingProxyState {
    side: TargetApi,
    trace: Arc<CallTrace>,
    upstream: String,
    /// For the Kubernetes API: the credentials of the administrator.
    authorization: Option<String>,
    client: reqwest::Client,
    /// Requests of the trace continue when the operator dies, as a sent request does on a real network.
    underway: Mutex<JoinSet<()>>,
}

impl TracingProxy {
    /// Starts a proxy to the hosting API at `upstream`.
    pub(crate) async fn to_hosting(upstream: &str, trace: Arc<CallTrace>) -> Self {
        let client = client().pool_max_idle_per_host(0).build();
        Self::start(TracingProxyState {
            side: TargetApi::Hosting,
            trace,
            upstream: upstream.to_owned(),
            authorization: None,
            client: client.expect("a plain client can be made"),
            underway: Mutex::default(),
        })
        .await
    }

    /// Starts a proxy to the API server, with administrator rights.
    pub(crate) async fn to_cluster(access: &ClusterAccess, trace: Arc<CallTrace>) -> Self {
        let pem = std::fs::read(&access.ca_file).expect("the authority can be read");
        let roots = reqwest::Certificate::from_pem_bundle(&pem).expect("the authority is PEM");
        let client = client().tls_certs_only(roots).build();
        Self::start(TracingProxyState {
            side: TargetApi::Cluster,
            trace,
            upstream: access.server.clone(),
            authorization: Some(format!("Bearer {}", access.token)),
            client: client.expect("a client with one root can be made"),
            underway: Mutex::default(),
        })
        .await
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    async fn start(way: TracingProxyState) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await;
        let listener = listener.expect("a free port");
        let address = listener.local_addr().expect("a bound port has an address");
        let way = Arc::new(way);
        let mut accepting = JoinSet::new();
        accepting.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = match listener.accept().await {
                    Ok(accepted) => accepted,
                    Err(_) => continue,
                };
                // Without it, the small frames of a watch are delayed.
                let _ = stream.set_nodelay(true);
                let way = way.clone();
                connections.spawn(async move {
                    let answer = service_fn(move |request| answer(way.clone(), request));
                    // An error here is a connection that one side has closed.
                    let _ = http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), answer)
                        .await;
                });
                while connections.try_join_next().is_some() {}
            }
        });
        Self {
            address,
            _accepting: accepting,
        }
    }
}

fn client() -> reqwest::ClientBuilder {
    reqwest::Client::builder()
        .http1_only()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
}

async fn answer(
    way: Arc<TracingProxyState>,
    request: Request<Incoming>,
) -> Result<Response<ProxyBody>, ConnectionClosed> {
    let fate = way.trace.random_faults.draw_fault();
    match fate {
        Some(RandomFault::Dropped) => return Err(ConnectionClosed),
        Some(RandomFault::Delayed(by)) => tokio::time::sleep(by).await,
        Some(RandomFault::Cut) | None => {}
    }
    let reads_clock = way.side == TargetApi::Cluster && request.uri().path() == "/version";
    let mut answer = pass_on(way.clone(), request).await?;
    if reads_clock {
        answer.headers_mut().insert(DATE, way.trace.clock.date());
    }
    match fate {
        Some(RandomFault::Cut) => Err(ConnectionClosed),
        _ => Ok(answer),
    }
}

async fn pass_on(
    way: Arc<TracingProxyState>,
    request: Request<Incoming>,
) -> Result<Response<ProxyBody>, ConnectionClosed> {
    let (head, body) = request.into_parts();
    let body = body
        .collect()
        .await
        .map_err(|_| ConnectionClosed)?
        .to_bytes();
    let mut counted = false;
    let trapped = way.trace.record_call(way.side, |subject| {
        let sorts = classify_request(way.side, &head.method, &head.uri, &body, subject);
        counted = !sorts.is_empty();
        sorts
    });
    let is_read = way.side == TargetApi::Hosting && head.method == Method::GET;
    let trapped = match trapped {
        None if is_read => way.trace.take_read_trap(head.uri.path()),
        trapped => trapped,
    };
    if !counted && trapped.is_none() {
        // Other requests, such as watches, end with the operator.
        return forward(&way, &head, body).await.map(stream_answer);
    }
    let (sender, receiver) = oneshot::channel();
    let task = {
        let way = way.clone();
        async move {
            let outcome = forward_traced(&way, &head, body, trapped).await;
            // The operator may be gone.
            let _ = sender.send(outcome);
        }
    };
    {
        let mut underway = way.underway.lock().unwrap_or_else(PoisonError::into_inner);
        while underway.try_join_next().is_some() {}
        underway.spawn(task);
    }
    receiver.await.unwrap_or(Err(ConnectionClosed))
}

/// Forwards one request of the trace, through the trap if there is one.
async fn forward_traced(
    way: &TracingProxyState,
    head: &http::request::Parts,
    body: Bytes,
    trapped: Option<ArmedTrap>,
) -> Result<Response<ProxyBody>, ConnectionClosed> {
    let Some(trapped) = trapped else {
        return buffer_answer(forward(way, head, body).await?).await;
    };
    match trapped.act {
        TrapAction::HoldRequest | TrapAction::DropRequest => match trapped.catch_call().await {
            (HeldCallOutcome::Forward, _underway) => {
                buffer_answer(forward(way, head, body).await?).await
            }
            (HeldCallOutcome::Discard, _) => Err(ConnectionClosed),
        },
        TrapAction::HoldAnswer | TrapAction::DropAnswer => {
            // Only a complete answer shows that the effect is done.
            let answer = buffer_answer(forward(way, head, body).await?).await?;
            match trapped.catch_call().await.0 {
                HeldCallOutcome::Forward => Ok(answer),
                HeldCallOutcome::Discard => Err(ConnectionClosed),
            }
        }
    }
}

async fn forward(
    way: &TracingProxyState,
    head: &http::request::Parts,
    body: Bytes,
) -> Result<reqwest::Response, ConnectionClosed> {
    let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
    let mut headers = head.headers.clone();
    for name in [HOST, CONNECTION, TRANSFER_ENCODING] {
        headers.remove(name);
    }
    if let Some(authorization) = &way.authorization {
        let value = authorization.parse().expect("a token is a header value");
        headers.insert(AUTHORIZATION, value);
    }
    let request = way
        .client
        .request(head.method.clone(), format!("{}{path}", way.upstream))
        .headers(headers)
        .body(body);
    request.send().await.map_err(|_| ConnectionClosed)
}

/// Returns the answer once it is complete.
async fn buffer_answer(answer: reqwest::Response) -> Result<Response<ProxyBody>, ConnectionClosed> {
    let mut shell = answer_head(&answer);
    let body = answer.bytes().await.map_err(|_| ConnectionClosed)?;
    let full = Full::new(body).map_err(|never: Infallible| match never {});
    *shell.body_mut() = full.boxed();
    Ok(shell)
}

/// Streams the answer, for watches.
fn stream_answer(answer: reqwest::Response) -> Response<ProxyBody> {
    let mut shell = answer_head(&answer);
    let frames = stream::unfold(answer, async |mut answer| {
        let chunk = answer.chunk().await.transpose()?;
        Some((chunk.map(Frame::data), answer))
    });
    *shell.body_mut() = BodyExt::boxed(StreamBody::new(frames));
    shell
}

fn answer_head(answer: &reqwest::Response) -> Response<ProxyBody> {
    let empty = Full::new(Bytes::new()).map_err(|never: Infallible| match never {});
    let mut shell = Response::new(empty.boxed());
    *shell.status_mut() = answer.status();
    *shell.headers_mut() = answer.headers().clone();
    for name in [CONNECTION, TRANSFER_ENCODING] {
        shell.headers_mut().remove(name);
    }
    shell
}
