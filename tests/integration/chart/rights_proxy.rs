//! A proxy for the API server that records every request, to compare granted rights with used ones.

use std::path::Path;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use http::{Method, StatusCode, header};
use kube::config::KubeConfigOptions;
use kube::{Client, Config};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::rights::UsedRight;
use lab::rig::Cluster;

/// A running proxy. It ends when dropped.
pub(super) struct RightsProxy {
    seen: Arc<Mutex<Vec<UsedRight>>>,
    address: String,
    _server: JoinSet<()>,
}

#[derive(Clone)]
struct RightsProxyState {
    /// Has no credentials of its own. It forwards those of the request.
    upstream: Client,
    seen: Arc<Mutex<Vec<UsedRight>>>,
}

impl RightsProxy {
    /// Starts a proxy for the cluster's API server.
    pub(super) async fn start(cluster: &Cluster) -> Self {
        let mut kubeconfig = cluster.kubeconfig_with_token("");
        kubeconfig
            .auth_infos
            .iter_mut()
            .for_each(|user| user.auth_info = None);
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
            .await
            .unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let shared = RightsProxyState {
            upstream: Client::try_from(config).unwrap(),
            seen: seen.clone(),
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().fallback(pass_on).with_state(shared);
        let mut server = JoinSet::new();
        server.spawn(async move {
            // The task ends with this set.
            let _ = axum::serve(listener, router).await;
        });
        Self {
            seen,
            address,
            _server: server,
        }
    }

    /// Writes a kubeconfig that uses the proxy with this token only.
    pub(super) fn write_kubeconfig(&self, cluster: &Cluster, token: &str, file: &Path) {
        let mut kubeconfig = cluster.kubeconfig_with_token(token);
        for named in &mut kubeconfig.clusters {
            let cluster = named.cluster.as_mut().unwrap();
            cluster.server = Some(self.address.clone());
            cluster.certificate_authority = None;
            cluster.certificate_authority_data = None;
        }
        std::fs::write(file, serde_json::to_vec(&kubeconfig).unwrap()).unwrap();
    }

    /// The requests so far.
    pub(super) fn seen(&self) -> Vec<UsedRight> {
        self.seen.lock().unwrap().clone()
    }
}

impl Drop for RightsProxy {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let seen = self.seen();
            let refused: Vec<&UsedRight> = seen.iter().filter(|used| used.refused).collect();
            println!("--- what the API server refused: {refused:#?}");
        }
    }
}

async fn pass_on(State(shared): State<RightsProxyState>, request: Request) -> Response {
    let (mut head, body) = request.into_parts();
    let used = UsedRight::from_request(
        &head.method,
        head.uri.path(),
        head.uri.query().unwrap_or_default(),
    );
    let agent = head.headers.get(header::USER_AGENT);
    let agent = agent.map_or("", |agent| agent.to_str().unwrap()).to_owned();
    head.headers.remove(header::HOST);
    let body = to_bytes(body, 4 << 20).await.unwrap();
    let outgoing = http::Request::from_parts(head, body.to_vec().into());
    match shared.upstream.send(outgoing).await {
        Ok(answer) => {
            if let Some(mut used) = used {
                used.refused = answer.status() == StatusCode::FORBIDDEN;
                used.agent = agent;
                shared.seen.lock().unwrap().push(used);
            }
            answer.map(Body::new)
        }
        Err(error) => (StatusCode::BAD_GATEWAY, error.to_string()).into_response(),
    }
}

impl UsedRight {
    /// The right that a request to the API server needs. None for discovery and the like.
    fn from_request(method: &Method, path: &str, query: &str) -> Option<Self> {
        let mut parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        let group = match *parts.first()? {
            "api" => String::new(),
            "apis" => parts.remove(1).to_owned(),
            _ => return None,
        };
        // `api` and the version.
        let mut parts = parts.into_iter().skip(2).peekable();
        let mut resource = parts.next()?;
        let mut name = parts.next();
        let mut namespace = None;
        if resource == "namespaces"
            && name.is_some()
            && let Some(next) = parts.next()
        {
            namespace = name.map(str::to_owned);
            resource = next;
            name = parts.next();
        }
        // A Role in a namespace grants reading that namespace.
        if resource == "namespaces" {
            namespace = name.map(str::to_owned);
        }
        let resource = match parts.next() {
            Some(part) => format!("{resource}/{part}"),
            None => resource.to_owned(),
        };
        let verb = match (method.as_str(), name) {
            ("GET", Some(_)) => "get",
            ("GET", None) if query.contains("watch=") => "watch",
            ("GET", None) => "list",
            ("POST", _) => "create",
            ("PATCH", _) => "patch",
            ("PUT", _) => "update",
            ("DELETE", _) => "delete",
            (other, _) => panic!("{other} {path}"),
        };
        Some(Self {
            namespace,
            group,
            resource,
            name: name.map(str::to_owned),
            verb: verb.to_owned(),
            refused: false,
            manager: query
                .split('&')
                .find_map(|part| part.strip_prefix("fieldManager="))
                .map(str::to_owned),
            agent: String::new(),
        })
    }
}

#[test]
fn rights_proxy_parses_like_api_server() {
    let read = |method: Method, path: &str, query: &str| {
        let used = UsedRight::from_request(&method, path, query)?;
        Some(format!(
            "{} {}.{} {:?} {:?}",
            used.verb, used.resource, used.group, used.namespace, used.name
        ))
    };
    let get = Method::GET;
    assert_eq!(
        read(get.clone(), "/api/v1/namespaces/kube-system", "").unwrap(),
        r#"get namespaces. Some("kube-system") Some("kube-system")"#
    );
    assert_eq!(
        read(get.clone(), "/api/v1/namespaces/a", "").unwrap(),
        r#"get namespaces. Some("a") Some("a")"#
    );
    assert_eq!(
        read(
            get.clone(),
            "/apis/flexmetal.dev/v1alpha1/baremetalservers",
            "watch=true"
        )
        .unwrap(),
        "watch baremetalservers.flexmetal.dev None None"
    );
    assert_eq!(
        read(get.clone(), "/api/v1/namespaces/a/secrets", "limit=5").unwrap(),
        r#"list secrets. Some("a") None"#
    );
    assert_eq!(
        read(
            Method::PATCH,
            "/apis/flexmetal.dev/v1alpha1/namespaces/a/baremetalservers/b/status",
            ""
        )
        .unwrap(),
        r#"patch baremetalservers/status.flexmetal.dev Some("a") Some("b")"#
    );
    assert_eq!(read(get, "/version", ""), None);
}
