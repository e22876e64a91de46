//! A proxy before the API server that swallows listings of servers: as a load balancer does
//! whose backend went away, it takes the request and says nothing more.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use futures::stream;
use lab::rig::Access;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

const SERVERS: &str = "/baremetalservers";

/// The proxy. Dropped, it ends.
pub(super) struct Proxy {
    way: Arc<Way>,
    address: SocketAddr,
    _serving: JoinSet<()>,
}

struct Way {
    upstream: String,
    token: String,
    client: reqwest::Client,
    /// So many listings of servers are swallowed.
    to_swallow: AtomicUsize,
    swallowed: AtomicUsize,
    /// The next watch of servers is told that its version is forgotten.
    expires: AtomicBool,
    /// Changes when all open watches are to end.
    cut: watch::Sender<u64>,
}

impl Proxy {
    pub(super) async fn start(access: &Access) -> Self {
        let pem = std::fs::read(&access.ca_file).unwrap();
        let roots = reqwest::Certificate::from_pem_bundle(&pem).unwrap();
        let client = reqwest::Client::builder()
            .http1_only()
            .no_proxy()
            .tls_certs_only(roots)
            .build();
        let way = Arc::new(Way {
            upstream: access.server.clone(),
            token: access.token.clone(),
            client: client.unwrap(),
            to_swallow: AtomicUsize::new(0),
            swallowed: AtomicUsize::new(0),
            expires: AtomicBool::new(false),
            cut: watch::Sender::new(0),
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().fallback(answer).with_state(way.clone());
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            // It ends with this set.
            let _ = axum::serve(listener, router).await;
        });
        Self {
            way,
            address,
            _serving: serving,
        }
    }

    /// Writes a kubeconfig that leads to it.
    pub(super) fn kubeconfig(&self, folder: &Path) -> PathBuf {
        let server = format!("http://{}", self.address);
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "proxy",
            "clusters": [{"name": "proxy", "cluster": {"server": server}}],
            "users": [{"name": "nobody", "user": {}}],
            "contexts": [{"name": "proxy", "context": {"cluster": "proxy", "user": "nobody"}}],
        });
        let path = folder.join("proxy-kubeconfig");
        std::fs::write(&path, config.to_string()).unwrap();
        path
    }

    /// Swallows so many listings of servers from now on, and makes the operator ask for one: its
    /// watches end, and the version after which it goes on is forgotten.
    pub(super) fn swallow_relists(&self, number: usize) {
        self.way.to_swallow.store(number, Ordering::Relaxed);
        self.way.expires.store(true, Ordering::Relaxed);
        self.way.cut.send_modify(|count| *count += 1);
    }

    /// Lets everything through again; what was swallowed stays so.
    pub(super) fn heal(&self) {
        self.way.to_swallow.store(0, Ordering::Relaxed);
    }

    /// How many listings were swallowed.
    pub(super) fn swallowed(&self) -> usize {
        self.way.swallowed.load(Ordering::Relaxed)
    }
}

impl Way {
    fn takes_one(&self) -> bool {
        let less = |left: usize| left.checked_sub(1);
        let took = self
            .to_swallow
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        took.is_ok()
    }
}

async fn answer(State(way): State<Arc<Way>>, method: Method, uri: Uri, rest: Request) -> Response {
    let of_servers = method == Method::GET && uri.path().ends_with(SERVERS);
    let is_watch = uri.query().unwrap_or_default().contains("watch=true");
    if of_servers && !is_watch && way.takes_one() {
        way.swallowed.fetch_add(1, Ordering::Relaxed);
        std::future::pending::<()>().await;
    }
    if of_servers && is_watch && way.expires.swap(false, Ordering::Relaxed) {
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": "too old resource version", "reason": "Expired", "code": 410,
        });
        // As the API server tells it.
        let gone = json!({"type": "ERROR", "object": status});
        let kind = [(header::CONTENT_TYPE, "application/json")];
        return (kind, format!("{gone}\n")).into_response();
    }
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let mut call = way
        .client
        .request(method, format!("{}{path}", way.upstream));
    for name in [header::CONTENT_TYPE, header::ACCEPT] {
        if let Some(value) = rest.headers.get(&name) {
            call = call.header(name, value.clone());
        }
    }
    let cut = way.cut.subscribe();
    match call.bearer_auth(&way.token).body(rest.body).send().await {
        Ok(answer) => forward(answer, is_watch.then_some(cut)),
        Err(_) => StatusCode::BAD_GATEWAY.into_response(),
    }
}

/// The answer as it comes; that of a watch ends when it is cut.
fn forward(answer: reqwest::Response, cut: Option<watch::Receiver<u64>>) -> Response {
    let mut shell = Response::new(Body::empty());
    *shell.status_mut() = answer.status();
    if let Some(kind) = answer.headers().get(header::CONTENT_TYPE) {
        shell
            .headers_mut()
            .insert(header::CONTENT_TYPE, kind.clone());
    }
    let chunks = stream::unfold((answer, cut), async |(mut answer, mut cut)| {
        let cutting = async {
            match &mut cut {
                Some(cut) => {
                    // The proxy lives longer than its connections.
                    let _ = cut.changed().await;
                }
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = cutting => None,
            chunk = answer.chunk() => Some((chunk.transpose()?, (answer, cut))),
        }
    });
    *shell.body_mut() = Body::from_stream(chunks);
    shell
}

/// What of a request the proxy passes on.
struct Request {
    headers: axum::http::HeaderMap,
    body: Bytes,
}

impl<S: Send + Sync> axum::extract::FromRequest<S> for Request {
    type Rejection = StatusCode;

    async fn from_request(
        request: axum::extract::Request,
        state: &S,
    ) -> Result<Self, Self::Rejection> {
        let headers = request.headers().clone();
        let body = Bytes::from_request(request, state).await;
        let body = body.map_err(|_| StatusCode::BAD_REQUEST)?;
        Ok(Self { headers, body })
    }
}
