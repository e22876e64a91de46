//! Clients of the API server: one for calls, one for watches. kube's defaults have no deadline and repeat every call,
//! also a write: that hides whether the first write was done.

use super::{api_server_calls::CountCalls, metrics::Metrics};
use api::names::MANAGER;
use hyper::{
    Uri,
    header::{HeaderValue, USER_AGENT},
};
use hyper_util::client::proxy::matcher::Matcher;
use kube::{
    Client, Config,
    api::{PatchParams, PostParams},
    client::ClientBuilder,
    config::{KubeConfigOptions, Kubeconfig, KubeconfigError},
};
use std::{env, path::PathBuf, time::Duration};

/// User agent, as the API server's audit log shows it.
const AGENT: &str = concat!("flexmetal-operator/", env!("CARGO_PKG_VERSION"));
/// How long the API server may take to answer a call.
const ANSWER: Duration = Duration::from_secs(20);

/// How to find the API server: by the usual kubeconfig rules, or in-cluster.
#[derive(Clone, Debug, Default)]
pub struct Source {
    /// A kubeconfig file. `None`: `KUBECONFIG`, the home folder's, or in-cluster.
    pub kubeconfig: Option<PathBuf>,
    /// The context in it. `None`: its current one.
    pub context: Option<String>,
}

/// The two clients.
#[derive(Clone)]
pub struct Clients {
    /// For calls. Each has a deadline and is sent once.
    pub calls: Client,
    /// For watches, without a read timeout: a watch has its own deadlines.
    pub watches: Client,
    /// How long watches last and wait.
    pub watch_times: WatchTimes,
}

/// How long watches last and wait.
#[derive(Clone, Copy, Debug)]
pub struct WatchTimes {
    /// A watch restarts after this time, in whole seconds. Below the idle limit of common load balancers, which drop
    /// quiet connections without an error.
    pub period: Duration,
    /// How long the API server may take for a page of a list, or to start a watch.
    pub answer: Duration,
}

impl Default for WatchTimes {
    fn default() -> Self {
        Self {
            period: Duration::from_secs(200),
            answer: ANSWER,
        }
    }
}

impl WatchTimes {
    /// A watch without a signal for this long is stale.
    pub fn silence(&self) -> Duration {
        3 * self.period
    }

    /// The period in seconds, for the API server.
    pub fn seconds(&self) -> u32 {
        u32::try_from(self.period.as_secs()).unwrap_or(u32::MAX)
    }
}

/// No client could be made.
#[derive(Debug, thiserror::Error)]
pub enum ClientsError {
    /// The kubeconfig cannot be used.
    #[error("cannot use the kubeconfig")]
    Kubeconfig(#[source] Box<kube::config::KubeconfigError>),
    /// There is no kubeconfig, and this is not a pod.
    #[error("no kubeconfig found, and this is not a pod; set KUBECONFIG or --kubeconfig")]
    Infer(#[source] Box<kube::config::InferConfigError>),
    /// No client can be made from the configuration.
    #[error("cannot create a client from the configuration")]
    Client(#[source] Box<kube::Error>),
}

impl Clients {
    /// Makes both clients, whose calls these metrics count.
    ///
    /// # Errors
    /// There is no usable configuration. Nothing is sent yet.
    pub async fn connect(source: &Source, metrics: &Metrics) -> Result<Self, ClientsError> {
        let mut config = configuration(source).await?;
        config.default_retry = false;
        let agent = (USER_AGENT, HeaderValue::from_static(AGENT));
        config.headers.push(agent);
        let watches = make(config.clone(), metrics)?;
        config.read_timeout = Some(ANSWER);
        config.write_timeout = Some(ANSWER);
        config.reset_reader_on_write = true;
        Ok(Self {
            calls: make(config, metrics)?,
            watches,
            watch_times: WatchTimes::default(),
        })
    }
}

/// Parameters to create or replace any object.
pub fn post_params() -> PostParams {
    PostParams {
        field_manager: Some(MANAGER.to_owned()),
        ..PostParams::default()
    }
}

/// Parameters to patch any object.
pub fn patch_params() -> PatchParams {
    PatchParams {
        field_manager: Some(MANAGER.to_owned()),
        ..PatchParams::default()
    }
}

fn make(config: Config, metrics: &Metrics) -> Result<Client, ClientsError> {
    let client = ClientBuilder::try_from(config).map_err(|e| ClientsError::Client(Box::new(e)))?;
    Ok(client.with_layer(&CountCalls(metrics.clone())).build())
}

async fn configuration(source: &Source) -> Result<Config, ClientsError> {
    let file = match &source.kubeconfig {
        Some(path) => Kubeconfig::read_from(path),
        None => Kubeconfig::read(),
    };
    configured(source, file).await
}

/// The configuration of a kubeconfig. If none is found and none was requested, this is a pod.
async fn configured(
    source: &Source,
    file: Result<Kubeconfig, KubeconfigError>,
) -> Result<Config, ClientsError> {
    use KubeconfigError::{FindPath, ReadConfig};
    let may_infer = source.kubeconfig.is_none() && source.context.is_none();
    let found = match file {
        Err(FindPath | ReadConfig(..)) if may_infer => {
            let inferred = Config::infer().await;
            return inferred.map_err(|e| ClientsError::Infer(Box::new(e)));
        }
        Ok(file) => from_file(file, source.context.clone()).await,
        Err(error) => Err(error),
    };
    found.map_err(|e| ClientsError::Kubeconfig(Box::new(e)))
}

async fn from_file(file: Kubeconfig, context: Option<String>) -> Result<Config, KubeconfigError> {
    let own = proxy_of_context(&file, context.as_deref());
    let options = KubeConfigOptions {
        context,
        ..KubeConfigOptions::default()
    };
    let mut config = Config::from_custom_kubeconfig(file, &options).await?;
    let proxy = own.or_else(|| proxy_to(&config.cluster_url, |name| env::var(name).ok()));
    config.proxy_url = proxy
        .map(|url| url.parse().map_err(KubeconfigError::ParseProxyUrl))
        .transpose()?;
    Ok(config)
}

/// The `proxy-url` of the cluster in the kubeconfig.
fn proxy_of_context(file: &Kubeconfig, context: Option<&str>) -> Option<String> {
    let name = context.or(file.current_context.as_deref())?;
    let context = file.contexts.iter().find(|it| it.name == name)?;
    let name = &context.context.as_ref()?.cluster;
    let cluster = file.clusters.iter().find(|it| it.name == *name)?;
    let url = cluster.cluster.as_ref()?.proxy_url.clone();
    url.filter(|url| !url.is_empty())
}

/// The environment's proxy for this API server, as kubectl picks it: none for localhost.
/// kube compares `NO_PROXY` with the proxy's address instead of the API server's.
fn proxy_to(server: &Uri, variable: impl Fn(&str) -> Option<String>) -> Option<String> {
    let first = |names: [&str; 2]| {
        let mut found = names.into_iter().filter_map(&variable);
        found.find(|value| !value.is_empty())
    };
    let proxy = first(["HTTPS_PROXY", "https_proxy"])?;
    let direct = first(["NO_PROXY", "no_proxy"]).unwrap_or_default();
    let matcher = Matcher::builder()
        .https(&proxy)
        .no(format!("{direct},localhost,127.0.0.0/8,::1"))
        .build();
    matcher.intercept(server)?;
    match proxy.contains("://") {
        true => Some(proxy),
        false => Some(format!("http://{proxy}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_proxy_is_about_the_api_server() {
        const PROXY: &str = "http://10.0.0.5:3128";
        const SERVER: &str = "https://api.example.com:6443";
        let proxy = |server: &str, variables: &[(&str, &str)]| {
            proxy_to(&server.parse().unwrap(), |name| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            })
        };
        let with = |server: &str, direct: &str| {
            proxy(server, &[("HTTPS_PROXY", PROXY), ("NO_PROXY", direct)])
        };
        assert_eq!(proxy(SERVER, &[]), None);
        assert_eq!(proxy(SERVER, &[("HTTPS_PROXY", "")]), None);
        for (server, direct) in [
            (SERVER, ""),
            // The address of the proxy does not matter, only the API server's.
            (SERVER, "10.0.0.0/8"),
            (SERVER, "10.0.0.5,ample.com"),
            ("https://192.168.1.1:6443", "10.0.0.0/8,example.com"),
        ] {
            assert_eq!(with(server, direct).as_deref(), Some(PROXY), "{direct}");
        }
        for (server, direct) in [
            (SERVER, "example.com"),
            (SERVER, "localhost, .example.com"),
            (SERVER, "*"),
            ("https://10.1.2.3:6443", "10.0.0.0/8"),
            ("https://127.0.0.1:6443", ""),
            ("https://[::1]:6443", ""),
            ("https://localhost:6443", ""),
            ("http://api.example.com:8080", ""),
        ] {
            assert_eq!(with(server, direct), None, "{server} {direct}");
        }
        for (variable, value, expected) in [
            ("https_proxy", PROXY, PROXY),
            ("HTTPS_PROXY", "10.0.0.5:3128", PROXY),
            (
                "HTTPS_PROXY",
                "http://me:pw@10.0.0.5",
                "http://me:pw@10.0.0.5",
            ),
        ] {
            let found = proxy(SERVER, &[(variable, value)]);
            assert_eq!(found.as_deref(), Some(expected));
        }
    }

    #[tokio::test]
    async fn kubeconfig_proxy_follows_the_context() {
        let file: Kubeconfig = serde_json::from_value(serde_json::json!({
            "current-context": "direct",
            "clusters": [
                {"name": "a", "cluster": {"server": "https://127.0.0.1:1"}},
                {"name": "b", "cluster": {"server": "https://127.0.0.1:1", "proxy-url": "http://10.0.0.5:3128"}},
            ],
            "contexts": [
                {"name": "direct", "context": {"cluster": "a"}},
                {"name": "proxied", "context": {"cluster": "b"}},
            ],
        }))
        .unwrap();
        for (context, expected) in [
            (None, None),
            (Some("proxied"), Some("http://10.0.0.5:3128")),
        ] {
            let config = from_file(file.clone(), context.map(str::to_owned)).await;
            let proxy = config.unwrap().proxy_url.map(|url| url.to_string());
            let proxy = proxy.as_deref().map(|url| url.trim_end_matches('/'));
            assert_eq!(proxy, expected);
        }
    }

    #[tokio::test]
    async fn an_error_in_a_kubeconfig_is_not_hidden() {
        let file: Kubeconfig = serde_json::from_value(serde_json::json!({
            "current-context": "c",
            "clusters": [{"name": "a", "cluster": {"server": "https://127.0.0.1:1", "proxy-url": "http://a b"}}],
            "contexts": [{"name": "c", "context": {"cluster": "a"}}],
        }))
        .unwrap();
        let away = || {
            let error = std::io::ErrorKind::NotFound.into();
            KubeconfigError::ReadConfig(error, "config".into())
        };
        let named = Source {
            context: Some("c".into()),
            ..Source::default()
        };
        let usual = Source::default();
        for (source, file, is_said) in [
            (&usual, Ok(file.clone()), true),
            (&named, Ok(file), true),
            (&usual, Err(KubeconfigError::CurrentContextNotSet), true),
            (&named, Err(away()), true),
            (&usual, Err(away()), false),
        ] {
            let found = configured(source, file).await;
            let is_of_file = matches!(found, Err(ClientsError::Kubeconfig(_)));
            assert_eq!(is_of_file, is_said, "{:?}", found.err());
        }
    }
}
