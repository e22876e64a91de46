//! Wiring: the identity of the cluster, the accounts, the controllers, readiness, shutdown.

use crate::{
    account::{Accounts, Rate},
    controllers::{
        Controllers,
        allowed_endpoints::AllowedEndpoints,
        context::{Process, Watched},
        events::Events,
    },
    runtime::{
        clients::Clients,
        endpoints,
        leader::{Election, Leadership},
        metrics::Metrics,
        shutdown,
    },
};
use api::timing::Minimum;
use flexmetal_core::cluster_id::ClusterId;
use hosting::ProviderProxy;
use hosting_types::BaseUrl;
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, ResourceExt as _};
use std::{error::Error, io, net::SocketAddr, sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;

/// How long the initial lists wait for the Lease: a list made before it must be made again.
const LEASE_FIRST: Duration = Duration::from_secs(3);
/// A process that ends releases its Lease after this time at the latest. It still waits for the answer to an order, and
/// records it with or without a Lease.
const KEPT_AT_END: Duration = Duration::from_secs(10);
/// Maximum time to clear `status.operatorLease` of its accounts at the end.
const CLEARED: Duration = Duration::from_secs(3);

/// Options of the operator.
pub struct Options {
    /// Its own namespace, with the key Secrets of cluster-scoped accounts.
    pub namespace: String,
    /// Name of its pod, if any.
    pub pod: Option<String>,
    /// The Lease of the leader election.
    pub election: Election,
    /// The namespaces that it watches.
    pub watched: Watched,
    /// Identity of the cluster. `None`: a hash of the UID of the namespace `kube-system`.
    pub cluster: Option<ClusterId>,
    /// Whether the minimum of each account interval applies.
    pub minimum: Minimum,
    /// Whether nothing but reads is sent to the provider.
    pub read_only: bool,
    /// The only URLs that keys may be sent to. If empty, https to public addresses, as the key Secrets declare.
    pub allowed_base_urls: Vec<BaseUrl>,
    /// The proxy for https calls to the hosting API.
    pub provider_proxy: Option<ProviderProxy>,
    /// Address of the health endpoints.
    pub listen: SocketAddr,
    /// Address of the metrics.
    pub metrics_listen: SocketAddr,
    /// Whether each condition of each object has a series.
    pub object_conditions: bool,
}

/// Runs until a signal, then finishes the running reconciles.
///
/// # Errors
/// The address of the endpoints cannot be used.
pub async fn run(clients: Clients, metrics: Metrics, options: Options) -> io::Result<()> {
    let cluster = match options.cluster {
        Some(cluster) => cluster,
        None => cluster_identity(&clients).await,
    };
    let namespaces = match &options.watched {
        Watched::All => "*".to_owned(),
        Watched::Namespaces(names) => names.join(","),
    };
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        cluster = cluster.as_str(),
        namespaces,
        "operator starting"
    );
    if options.read_only {
        tracing::warn!("read-only mode");
    }
    if options.minimum == Minimum::Lifted {
        tracing::warn!("short intervals allowed");
    }
    if !options.allowed_base_urls.is_empty() {
        let allowed = options.allowed_base_urls.iter();
        let allowed: Vec<String> = allowed.map(ToString::to_string).collect();
        tracing::info!(allowed = allowed.join(","), "base urls restricted");
    }
    let stop = CancellationToken::new();
    let lease = format!("{}/{}", options.election.namespace, options.election.name);
    let (leadership, elector) = Leadership::by_lease(clients.calls.clone(), options.election);
    let process = Process {
        metrics: metrics.clone(),
        accounts: Accounts::new(cluster.as_str(), Rate::default()),
        stored_keys: Default::default(),
        namespace_uids: Default::default(),
        live_list: Default::default(),
        server_commands: Default::default(),
        hosts: Default::default(),
        events: Events::new(clients.calls.clone(), options.pod),
        client: clients.calls,
        watch_client: clients.watches,
        watch_times: clients.watch_times,
        read_only: options.read_only,
        cluster,
        namespace: options.namespace,
        watched: options.watched,
        minimum: options.minimum,
        allowed_endpoints: AllowedEndpoints::new(options.allowed_base_urls, options.provider_proxy),
        leadership: leadership.clone(),
        lease,
        shutdown: stop.clone(),
    };
    let controllers = Arc::new(Controllers::new(&process, options.object_conditions));
    metrics.collect_from(controllers.clone());
    let listener = endpoints::bind(options.listen, "health").await?;
    let metrics_listener = endpoints::bind(options.metrics_listen, "metrics").await?;
    let watched = controllers.clone();
    let health = endpoints::health(Arc::new(move || watched.is_ready()));
    let endpoints = async {
        tokio::join!(
            endpoints::serve(listener, health, endpoints::MOST_PROBES),
            endpoints::serve(
                metrics_listener,
                endpoints::metrics(metrics.clone()),
                endpoints::MOST_SCRAPES,
            ),
        )
    };
    let signal = async {
        if let Err(error) = shutdown::signalled().await {
            tracing::error!(error = &error as &dyn Error, "signal handler failed");
        }
        tracing::info!("operator stopping");
        stop.cancel();
    };
    let done = CancellationToken::new();
    let work = async {
        let mut changes = leadership.changes();
        let _ = tokio::time::timeout(LEASE_FIRST, changes.wait_for(Option::is_some)).await;
        tokio::select! {
            () = controllers.run() => {}
            () = follow(&leadership, &controllers, &metrics) => {}
        }
        done.cancel();
    };
    let end = async {
        stop.cancelled().await;
        let _ = tokio::time::timeout(KEPT_AT_END, done.cancelled()).await;
        if leadership.leader_since().is_some() {
            let _ = tokio::time::timeout(CLEARED, controllers.clear_operator()).await;
        }
    };
    let all = async { tokio::join!(work, elector.run(end), signal) };
    tokio::select! {
        _ = all => {}
        // The endpoints answer until the end; nothing waits for them.
        _ = endpoints => {}
    }
    Ok(())
}

/// Reports each change of leadership to the controllers. Never ends.
async fn follow(leadership: &Leadership, controllers: &Controllers, metrics: &Metrics) {
    let mut changes = leadership.changes();
    let mut was_leader = changes.borrow_and_update().flatten().is_some();
    if was_leader {
        metrics.record_lease_transition();
    }
    while changes.changed().await.is_ok() {
        let since = changes.borrow_and_update().flatten();
        if std::mem::replace(&mut was_leader, since.is_some()) != since.is_some() {
            metrics.record_lease_transition();
        }
        controllers.leadership_changed(since.is_some());
    }
    std::future::pending().await
}

/// The cluster's identity. Waits for the API server: nothing can run without it.
async fn cluster_identity(clients: &Clients) -> ClusterId {
    const RETRY_AFTER: Duration = Duration::from_secs(2);
    let namespaces: Api<Namespace> = Api::all(clients.calls.clone());
    loop {
        match namespaces.get_metadata("kube-system").await {
            Ok(found) => return ClusterId::from_namespace_uid(&found.uid().unwrap_or_default()),
            Err(error) => {
                tracing::warn!(
                    namespace = "kube-system",
                    error = &error as &dyn Error,
                    retry_after_seconds = RETRY_AFTER.as_secs_f64(),
                    "namespace read failed"
                );
                tokio::time::sleep(RETRY_AFTER).await;
            }
        }
    }
}
