//! A proxy for the API server that accepts list requests for servers and never answers them.
//! Rules inject other faults.

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
use lab::rig::ClusterAccess;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::rules::{ProxiedCall, ProxyFault, ProxyRules};

const SERVERS: &str = "/baremetalservers";

/// The proxy. It ends when dropped.
pub(crate) struct FaultyProxy {
    way: Arc<FaultyProxyState>,
    address: SocketAddr,
    _serving: JoinSet<()>,
}

struct FaultyProxyState {
    upstream: String,
    token: String,
    client: reqwest::Client,
    /// How many more list requests for servers get no answer.
    to_swallow: AtomicUsize,
    swallowed: AtomicUsize,
    /// The next watch of servers gets the error that its resource version has expired.
    expires: AtomicBool,
    /// Changes when all open watches must end.
    cut: watch::Sender<u64>,
    /// Rules that inject other faults.
    rules: ProxyRules,
}

impl FaultyProxy {
    pub(crate) async fn start(access: &ClusterAccess) -> Self {
        let pem = std::fs::read(&access.ca_file).unwrap();
        let roots = reqwest::Certificate::from_pem_bundle(&pem).unwrap();
        let client = reqwest::Client::builder()
            .http1_only()
            .no_proxy()
            .tls_certs_only(roots)
            .build();
        let way = Arc::new(FaultyProxyState {
            upstream: access.server.clone(),
            token: access.token.clone(),
            client: client.unwrap(),
            to_swallow: AtomicUsize::new(0),
            swallowed: AtomicUsize::new(0),
            expires: AtomicBool::new(false),
            cut: watch::Sender::new(0),
            rules: ProxyRules::default(),
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().fallback(answer).with_state(way.clone());
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            // The task ends with this set.
            let _ = axum::serve(listener, router).await;
        });
        Self {
            way,
            address,
            _serving: serving,
        }
    }

    /// Writes a kubeconfig that uses the proxy.
    pub(crate) fn kubeconfig(&self, folder: &Path) -> PathBuf {
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

    /// Leaves this many list requests for servers unanswered, and makes the operator send one.
    pub(crate) fn hang_relists(&self, number: usize) {
        self.way.to_swallow.store(number, Ordering::Relaxed);
        self.make_relist();
    }

    /// Makes the operator list the servers again: ends its watches and expires their resource version.
    pub(crate) fn make_relist(&self) {
        self.way.expires.store(true, Ordering::Relaxed);
        self.cut_watches();
    }

    /// Ends all open watches, and releases the requests that a rule delays.
    pub(crate) fn cut_watches(&self) {
        self.way.cut.send_modify(|count| *count += 1);
    }

    /// Injects this fault into all requests that `hits` matches. The first matching rule counts.
    pub(crate) fn fault(
        &self,
        fault: ProxyFault,
        hits: impl Fn(&ProxiedCall) -> bool + Send + Sync + 'static,
    ) {
        self.way.rules.add(fault, usize::MAX, Box::new(hits));
    }

    /// Like [`FaultyProxy::fault`], for this many requests.
    pub(crate) fn fault_times(
        &self,
        times: usize,
        fault: ProxyFault,
        hits: impl Fn(&ProxiedCall) -> bool + Send + Sync + 'static,
    ) {
        self.way.rules.add(fault, times, Box::new(hits));
    }

    /// How many requests the rules have matched.
    pub(crate) fn count_hits(&self) -> usize {
        self.way.rules.hits()
    }

    /// Removes all rules.
    pub(crate) fn clear_faults(&self) {
        self.way.rules.clear();
        self.cut_watches();
    }

    /// Answers new list requests again. Earlier ones stay unanswered.
    pub(crate) fn heal(&self) {
        self.way.to_swallow.store(0, Ordering::Relaxed);
    }

    /// How many list requests got no answer.
    pub(crate) fn count_hanging_relists(&self) -> usize {
        self.way.swallowed.load(Ordering::Relaxed)
    }
}

impl FaultyProxyState {
    fn take_hanging_relist(&self) -> bool {
        let less = |left: usize| left.checked_sub(1);
        let took = self
            .to_swallow
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        took.is_ok()
    }
}

async fn answer(
    State(way): State<Arc<FaultyProxyState>>,
    method: Method,
    uri: Uri,
    rest: ForwardedRequest,
) -> Response {
    let of_servers = method == Method::GET && uri.path().ends_with(SERVERS);
    let is_watch = uri.query().unwrap_or_default().contains("watch=true");
    if of_servers && !is_watch && way.take_hanging_relist() {
        way.swallowed.fetch_add(1, Ordering::Relaxed);
        std::future::pending::<()>().await;
    }
    if of_servers && is_watch && way.expires.swap(false, Ordering::Relaxed) {
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": "too old resource version", "reason": "Expired", "code": 410,
        });
        // The API server reports it in this form.
        let gone = json!({"type": "ERROR", "object": status});
        let kind = [(header::CONTENT_TYPE, "application/json")];
        return (kind, format!("{gone}\n")).into_response();
    }
    let mut cut = way.cut.subscribe();
    match way.rules.match_call(&method, &uri, &rest.body) {
        None | Some(ProxyFault::Pass) => {}
        Some(ProxyFault::Refuse(code)) => return refusal(code),
        Some(ProxyFault::Answer(text)) => {
            return ([(header::CONTENT_TYPE, "application/json")], text).into_response();
        }
        Some(ProxyFault::Hold) => {
            // The proxy outlives its connections.
            let _ = cut.changed().await;
            return refusal(503);
        }
        Some(ProxyFault::Overtake(change)) => patch_concurrently(&way, uri.path(), &change).await,
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
    match call.bearer_auth(&way.token).body(rest.body).send().await {
        Ok(answer) => forward(answer, is_watch.then_some(cut)),
        Err(_) => StatusCode::BAD_GATEWAY.into_response(),
    }
}

/// The API server's answer to a request that it refuses.
fn refusal(code: u16) -> Response {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "refused by the proxy", "reason": "Refused", "code": code,
    });
    let code = StatusCode::from_u16(code).unwrap();
    // Matters with 429 only.
    let head = [
        (header::CONTENT_TYPE, "application/json"),
        (header::RETRY_AFTER, "1"),
    ];
    (code, head, status.to_string()).into_response()
}

/// Changes the object at `path` as another client would.
async fn patch_concurrently(way: &FaultyProxyState, path: &str, change: &str) {
    let object = path.trim_end_matches("/status");
    let call = way.client.patch(format!("{}{object}", way.upstream));
    let call = call.header(header::CONTENT_TYPE, "application/merge-patch+json");
    let changed = call
        .bearer_auth(&way.token)
        .body(change.to_owned())
        .send()
        .await;
    assert!(changed.unwrap().status().is_success());
}

/// Streams the answer. A watch ends when it is cut.
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
                    // The proxy outlives its connections.
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

/// The parts of a request that the proxy forwards.
struct ForwardedRequest {
    headers: axum::http::HeaderMap,
    body: Bytes,
}

impl<S: Send + Sync> axum::extract::FromRequest<S> for ForwardedRequest {
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
