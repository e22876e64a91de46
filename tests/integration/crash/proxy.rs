//! A forwarding HTTP/1.1 proxy between the operator and one server, outside the
//! product: it reports every request that belongs to the trace, and holds or
//! loses the one in the trap.

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
    call_trace::{Act, CallTrace, Release, Side, Trapped},
    noise::Fate,
    sort::sorts,
};
use lab::rig::ClusterAccess;

type Body = BoxBody<Bytes, reqwest::Error>;

/// The connection is closed without an answer.
#[derive(Debug, thiserror::Error)]
#[error("lost on the way")]
struct Lost;

/// A proxy. Dropped, it ends and closes all connections.
pub(crate) struct Proxy {
    address: SocketAddr,
    _accepting: JoinSet<()>,
}

/// What all connections share.
struct Way {
    side: Side,
    trace: Arc<CallTrace>,
    upstream: String,
    /// For the Kubernetes API, who we are there.
    authorization: Option<String>,
    client: reqwest::Client,
    /// Requests of the trace go on when the operator dies: on a real network
    /// a request that was sent arrives as well.
    underway: Mutex<JoinSet<()>>,
}

impl Proxy {
    /// A proxy to the hosting API at `upstream`.
    pub(crate) async fn to_hosting(upstream: &str, trace: Arc<CallTrace>) -> Self {
        let client = client().pool_max_idle_per_host(0).build();
        Self::start(Way {
            side: Side::Hosting,
            trace,
            upstream: upstream.to_owned(),
            authorization: None,
            client: client.expect("a plain client can be made"),
            underway: Mutex::default(),
        })
        .await
    }

    /// A proxy to the API server, where it is the administrator.
    pub(crate) async fn to_cluster(access: &ClusterAccess, trace: Arc<CallTrace>) -> Self {
        let pem = std::fs::read(&access.ca_file).expect("the authority can be read");
        let roots = reqwest::Certificate::from_pem_bundle(&pem).expect("the authority is PEM");
        let client = client().tls_certs_only(roots).build();
        Self::start(Way {
            side: Side::Cluster,
            trace,
            upstream: access.server.clone(),
            authorization: Some(format!("Bearer {}", access.token)),
            client: client.expect("a client with one root can be made"),
            underway: Mutex::default(),
        })
        .await
    }

    /// Its base URL.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    async fn start(way: Way) -> Self {
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
                // Without it the small frames of a watch wait for each other.
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

async fn answer(way: Arc<Way>, request: Request<Incoming>) -> Result<Response<Body>, Lost> {
    let fate = way.trace.noise.fate();
    match fate {
        Some(Fate::Dropped) => return Err(Lost),
        Some(Fate::Delayed(by)) => tokio::time::sleep(by).await,
        Some(Fate::Cut) | None => {}
    }
    let reads_clock = way.side == Side::Cluster && request.uri().path() == "/version";
    let mut answer = pass_on(way.clone(), request).await?;
    if reads_clock {
        answer.headers_mut().insert(DATE, way.trace.clock.date());
    }
    match fate {
        Some(Fate::Cut) => Err(Lost),
        _ => Ok(answer),
    }
}

async fn pass_on(way: Arc<Way>, request: Request<Incoming>) -> Result<Response<Body>, Lost> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map_err(|_| Lost)?.to_bytes();
    let mut counted = false;
    let trapped = way.trace.arrive(way.side, |subject| {
        let sorts = sorts(way.side, &head.method, &head.uri, &body, subject);
        counted = !sorts.is_empty();
        sorts
    });
    let is_look = way.side == Side::Hosting && head.method == Method::GET;
    let trapped = match trapped {
        None if is_look => way.trace.look(head.uri.path()),
        trapped => trapped,
    };
    if !counted && trapped.is_none() {
        // Such as watches: they end when the operator does.
        return forward(&way, &head, body).await.map(streamed);
    }
    let (tell, told) = oneshot::channel();
    let task = {
        let way = way.clone();
        async move {
            let outcome = go(&way, &head, body, trapped).await;
            // The operator may be gone.
            let _ = tell.send(outcome);
        }
    };
    {
        let mut underway = way.underway.lock().unwrap_or_else(PoisonError::into_inner);
        while underway.try_join_next().is_some() {}
        underway.spawn(task);
    }
    told.await.unwrap_or(Err(Lost))
}

/// One request of the trace, past the trap if there is one.
async fn go(
    way: &Way,
    head: &http::request::Parts,
    body: Bytes,
    trapped: Option<Trapped>,
) -> Result<Response<Body>, Lost> {
    let Some(trapped) = trapped else {
        return whole(forward(way, head, body).await?).await;
    };
    match trapped.act {
        Act::HoldRequest | Act::DropRequest => match trapped.spring().await {
            (Release::Forward, _underway) => whole(forward(way, head, body).await?).await,
            (Release::Discard, _) => Err(Lost),
        },
        Act::HoldAnswer | Act::DropAnswer => {
            // Only a whole answer shows that the effect is done.
            let answer = whole(forward(way, head, body).await?).await?;
            match trapped.spring().await.0 {
                Release::Forward => Ok(answer),
                Release::Discard => Err(Lost),
            }
        }
    }
}

async fn forward(
    way: &Way,
    head: &http::request::Parts,
    body: Bytes,
) -> Result<reqwest::Response, Lost> {
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
    request.send().await.map_err(|_| Lost)
}

/// The answer once all of it is here.
async fn whole(answer: reqwest::Response) -> Result<Response<Body>, Lost> {
    let mut shell = shell(&answer);
    let body = answer.bytes().await.map_err(|_| Lost)?;
    let full = Full::new(body).map_err(|never: Infallible| match never {});
    *shell.body_mut() = full.boxed();
    Ok(shell)
}

/// The answer as it comes, for watches.
fn streamed(answer: reqwest::Response) -> Response<Body> {
    let mut shell = shell(&answer);
    let frames = stream::unfold(answer, async |mut answer| {
        let chunk = answer.chunk().await.transpose()?;
        Some((chunk.map(Frame::data), answer))
    });
    *shell.body_mut() = BodyExt::boxed(StreamBody::new(frames));
    shell
}

fn shell(answer: &reqwest::Response) -> Response<Body> {
    let empty = Full::new(Bytes::new()).map_err(|never: Infallible| match never {});
    let mut shell = Response::new(empty.boxed());
    *shell.status_mut() = answer.status();
    *shell.headers_mut() = answer.headers().clone();
    for name in [CONNECTION, TRANSFER_ENCODING] {
        shell.headers_mut().remove(name);
    }
    shell
}
