//! `flexmetal-operator`: only its flags.

use api::{Interval, timing::Minimum};
use clap::Parser;
use flexmetal_core::cluster_id::ClusterId;
use flexmetal_operator::{
    controllers::context::Watched,
    operator::{self, Options},
    runtime::{
        clients::{Clients, Source},
        clock,
        leader::Election,
        metrics::Metrics,
        panics,
        telemetry::{self, LogFormat, LogLevel},
    },
};
use hosting::ProviderProxy;
use hosting_types::BaseUrl;
use std::{
    collections::BTreeSet, error::Error, net::SocketAddr, path::PathBuf, process::ExitCode,
    time::Duration,
};

/// glibc's allocator keeps a pool for each thread: after a burst of reconciles, a third of the heap is free and stays
/// allocated. `.cargo/config.toml` configures this allocator.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Orders, maintains and releases the bare-metal servers that Kubernetes objects declare.
#[derive(Parser)]
#[command(version = option_env!("FLEXMETAL_VERSION").unwrap_or(env!("CARGO_PKG_VERSION")))]
struct Flags {
    /// Kubeconfig file; default: KUBECONFIG, the home folder's, or in-cluster.
    #[arg(long)]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig; default: its current one.
    #[arg(long)]
    context: Option<String>,
    /// Namespace of the operator. It has the key Secrets of ClusterProviderAccounts.
    #[arg(long, env = "POD_NAMESPACE", default_value = "flexmetal-system")]
    namespace: String,
    /// Name of the operator's pod. A process that starts with the same name takes over the Lease of the previous one.
    #[arg(long, env = "POD_NAME")]
    pod: Option<String>,
    /// Namespace of the Lease that elects the leader; default: the namespace of the operator.
    #[arg(long)]
    leader_election_namespace: Option<String>,
    /// Name of the Lease. Two releases that watch different namespaces need different names.
    #[arg(long, default_value = "flexmetal-operator")]
    leader_election_name: String,
    /// Time after which another process may take a Lease that is not renewed. At most 60s.
    #[arg(long, value_parser = interval, default_value = "15s")]
    leader_election_lease_duration: Duration,
    /// Time after which a leader that cannot renew the Lease stops. At most two thirds of the lease duration.
    #[arg(long, value_parser = interval, default_value = "10s")]
    leader_election_renew_deadline: Duration,
    /// Time between two tries to take or renew the Lease. At most a quarter of the renew deadline.
    #[arg(long, value_parser = interval, default_value = "2s")]
    leader_election_retry_period: Duration,
    /// Watch only this namespace; may be repeated. ClusterProviderAccounts are then ignored. Default: all namespaces.
    #[arg(long)]
    watch_namespace: Vec<String>,
    /// ID of the cluster in the tags of servers, 16 hex digits; default: a hash of the UID of namespace kube-system.
    #[arg(long)]
    cluster_id: Option<String>,
    /// Read-only mode: read everything and write status, but send no change to the provider and fetch no root password.
    /// Each object reports in its condition Synced what would be sent.
    #[arg(long)]
    read_only: bool,
    /// Send keys only to this base URL; may be repeated. It may be plain http or private, and a key Secret need not
    /// name it. Default: the base URL in each key Secret, only https and public addresses.
    #[arg(long, value_name = "URL", value_parser = BaseUrl::parse)]
    allowed_base_url: Vec<BaseUrl>,
    /// HTTP proxy (CONNECT) for https calls to the hosting API. The proxy must refuse private addresses.
    /// Default: none; HTTPS_PROXY is ignored.
    #[arg(long, value_name = "URL")]
    provider_proxy: Option<String>,
    /// Address of the health endpoints.
    #[arg(long, default_value = "0.0.0.0:8081")]
    listen: SocketAddr,
    /// Address of the metrics. They name accounts and namespaces, so the default is the pod alone.
    #[arg(long, default_value = "127.0.0.1:8080")]
    metrics_listen: SocketAddr,
    /// Have a series for each condition of each object, at most 10,000.
    #[arg(long)]
    metrics_object_conditions: bool,
    /// Let spec.timing of an account go below its minima; for tests and demonstrations only. At the paid API this
    /// can use up the call limit, and order a second server when an order arrives late.
    #[arg(long)]
    short_intervals: bool,
    /// Form of the log.
    #[arg(long, value_enum, default_value_t)]
    log_format: LogFormat,
    /// Least severe level of the log. For developers: RUST_LOG overrides it.
    #[arg(long, value_enum, default_value_t)]
    log_level: LogLevel,
}

// Two threads for any number of cores: the work mostly waits, and the allocator keeps a memory pool for each thread.
#[tokio::main(worker_threads = 2)]
async fn main() -> ExitCode {
    clock::start();
    let flags = Flags::parse();
    telemetry::start(flags.log_level, flags.log_format);
    panics::end_the_process();
    match Box::pin(run(flags)).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(error = &*error as &dyn Error, "operator failed");
            ExitCode::FAILURE
        }
    }
}

/// Parses a duration in the form of the API.
fn interval(text: &str) -> Result<Duration, String> {
    text.parse::<Interval>()
        .map(|interval| interval.0)
        .map_err(|error| error.to_string())
}

async fn run(flags: Flags) -> Result<(), Box<dyn Error>> {
    let metrics = Metrics::new();
    let source = Source {
        kubeconfig: flags.kubeconfig,
        context: flags.context,
    };
    let clients = Clients::connect(&source, &metrics).await?;
    let pod = flags.pod.filter(|name| !name.is_empty());
    let lease_namespace = flags
        .leader_election_namespace
        .filter(|name| !name.is_empty());
    let options = Options {
        election: Election {
            namespace: lease_namespace.unwrap_or_else(|| flags.namespace.clone()),
            name: flags.leader_election_name,
            pod: pod.clone(),
            lease_duration: flags.leader_election_lease_duration,
            renew_deadline: flags.leader_election_renew_deadline,
            retry_period: flags.leader_election_retry_period,
        }
        .checked()?,
        namespace: flags.namespace,
        pod,
        watched: match flags.watch_namespace {
            names if names.is_empty() => Watched::All,
            names => Watched::Namespaces(BTreeSet::from_iter(names).into_iter().collect()),
        },
        cluster: flags
            .cluster_id
            .map(|id| ClusterId::parse(&id))
            .transpose()?,
        minimum: match flags.short_intervals {
            true => Minimum::Lifted,
            false => Minimum::Kept,
        },
        read_only: flags.read_only,
        allowed_base_urls: flags.allowed_base_url,
        provider_proxy: flags
            .provider_proxy
            .map(|url| ProviderProxy::parse(&url))
            .transpose()?,
        listen: flags.listen,
        metrics_listen: flags.metrics_listen,
        object_conditions: flags.metrics_object_conditions,
    };
    Ok(Box::pin(operator::run(clients, metrics, options)).await?)
}
