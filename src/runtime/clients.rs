//! Clients of the API server: one for calls, one for watches.
//!
//! kube's defaults do not fit a program that spends money: a call has no deadline, and every call,
//! a write included, is silently repeated for minutes. A repeated write hides whether the first was done.

use api::names::MANAGER;
use hyper::header::{HeaderValue, USER_AGENT};
use kube::{
    Client, Config,
    api::{PatchParams, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
};
use std::{path::PathBuf, time::Duration};

/// What the API server's audit log shows of each call.
const AGENT: &str = concat!("flexmetal-operator/", env!("CARGO_PKG_VERSION"));
/// How long the API server may take to answer a call.
const ANSWER: Duration = Duration::from_secs(20);

/// Where the API server is: the usual kubeconfig rules, or in-cluster.
#[derive(Clone, Debug, Default)]
pub struct Source {
    /// A kubeconfig file; None: `KUBECONFIG`, the home folder's, or in-cluster.
    pub kubeconfig: Option<PathBuf>,
    /// The context in it; None: its current one.
    pub context: Option<String>,
}

/// The two clients.
#[derive(Clone)]
pub struct Clients {
    /// For calls. Every one has a deadline and is sent once.
    pub calls: Client,
    /// For watches. Silence is not a failure: who watches bounds what has to be.
    pub watches: Client,
    /// How long watches last and wait.
    pub watch_times: WatchTimes,
}

/// How long watches last, and wait.
#[derive(Clone, Copy, Debug)]
pub struct WatchTimes {
    /// After this time a watch is started again; whole seconds. Below the idle limit of common load
    /// balancers, which drop a quiet connection without a word.
    pub period: Duration,
    /// How long the API server may take for a page of a listing, or to start a watch.
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
    /// A watch that has heard nothing for this long is taken for deaf.
    pub fn silence(&self) -> Duration {
        3 * self.period
    }

    /// The period as the API server is told it.
    pub fn seconds(&self) -> u32 {
        u32::try_from(self.period.as_secs()).unwrap_or(u32::MAX)
    }
}

/// No client could be made.
#[derive(Debug, thiserror::Error)]
pub enum ClientsError {
    /// The kubeconfig cannot be read.
    #[error("the kubeconfig cannot be used")]
    Kubeconfig(#[source] Box<kube::config::KubeconfigError>),
    /// There is no kubeconfig, and this is not a pod.
    #[error("there is no kubeconfig and this is not a pod: set KUBECONFIG or --kubeconfig")]
    Infer(#[source] Box<kube::config::InferConfigError>),
    /// No client can be made from the configuration.
    #[error("no client can be made from the configuration")]
    Client(#[source] Box<kube::Error>),
}

impl Clients {
    /// Makes both clients.
    ///
    /// # Errors
    /// When there is no usable configuration. Nothing is sent yet.
    pub async fn connect(source: &Source) -> Result<Self, ClientsError> {
        let mut config = configuration(source).await?;
        config.default_retry = false;
        let agent = (USER_AGENT, HeaderValue::from_static(AGENT));
        config.headers.push(agent);
        let watches = make(config.clone())?;
        config.read_timeout = Some(ANSWER);
        config.write_timeout = Some(ANSWER);
        config.reset_reader_on_write = true;
        Ok(Self {
            calls: make(config)?,
            watches,
            watch_times: WatchTimes::default(),
        })
    }
}

/// How every object is created or replaced.
pub fn post_params() -> PostParams {
    PostParams {
        field_manager: Some(MANAGER.to_owned()),
        ..PostParams::default()
    }
}

/// How every object is patched.
pub fn patch_params() -> PatchParams {
    PatchParams {
        field_manager: Some(MANAGER.to_owned()),
        ..PatchParams::default()
    }
}

fn make(config: Config) -> Result<Client, ClientsError> {
    Client::try_from(config).map_err(|e| ClientsError::Client(Box::new(e)))
}

async fn configuration(source: &Source) -> Result<Config, ClientsError> {
    let kubeconfig = |e| ClientsError::Kubeconfig(Box::new(e));
    let options = KubeConfigOptions {
        context: source.context.clone(),
        ..KubeConfigOptions::default()
    };
    match &source.kubeconfig {
        Some(path) => {
            let file = Kubeconfig::read_from(path).map_err(kubeconfig)?;
            Config::from_custom_kubeconfig(file, &options)
                .await
                .map_err(kubeconfig)
        }
        None if source.context.is_some() => {
            Config::from_kubeconfig(&options).await.map_err(kubeconfig)
        }
        None => Config::infer()
            .await
            .map_err(|e| ClientsError::Infer(Box::new(e))),
    }
}
