//! `flexmetal-operator`: flags and wiring, nothing else.

use clap::Parser;
use flexmetal_operator::{
    account::{Accounts, Rate},
    controllers::{self, events::Events, server},
    runtime::{
        clients::{Clients, Source},
        clock, endpoints, shutdown,
        telemetry::{self, LogFormat},
    },
};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, ResourceExt as _};
use server::{Context, Objects, Watched, mark::ClusterId};
use std::{
    error::Error, net::SocketAddr, path::PathBuf, process::ExitCode, sync::Arc, time::Duration,
};
use tokio_util::sync::CancellationToken;

/// Orders, keeps and releases bare-metal servers that are written as Kubernetes objects.
#[derive(Parser)]
#[command(version)]
struct Flags {
    /// Kubeconfig file; default: KUBECONFIG, the home folder's, or in-cluster.
    #[arg(long)]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig; default: its current one.
    #[arg(long)]
    context: Option<String>,
    /// Namespace of the operator, where the key Secrets of cluster accounts lie.
    #[arg(long, env = "POD_NAMESPACE", default_value = "flexmetal-system")]
    namespace: String,
    /// Watch this namespace only; may be repeated. Default: all namespaces.
    #[arg(long)]
    watch_namespace: Vec<String>,
    /// Identity of the cluster, 16 hex digits; default: a hash of the UID of the namespace kube-system.
    #[arg(long)]
    cluster_id: Option<String>,
    /// Address of the health endpoints.
    #[arg(long, default_value = "0.0.0.0:8081")]
    listen: SocketAddr,
    /// Form of the log.
    #[arg(long, value_enum, default_value_t)]
    log_format: LogFormat,
}

#[tokio::main]
async fn main() -> ExitCode {
    clock::now();
    let flags = Flags::parse();
    telemetry::start(flags.log_format);
    match run(flags).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(error = &*error as &dyn Error, "the operator cannot run");
            ExitCode::FAILURE
        }
    }
}

async fn run(flags: Flags) -> Result<(), Box<dyn Error>> {
    let clients = Clients::connect(&Source {
        kubeconfig: flags.kubeconfig,
        context: flags.context,
    })
    .await?;
    let stop = CancellationToken::new();
    let cluster = match &flags.cluster_id {
        Some(id) => ClusterId::parse(id)?,
        None => cluster_identity(&clients).await,
    };
    let watched = match flags.watch_namespace {
        names if names.is_empty() => Watched::All,
        names => Watched::Namespaces(names),
    };
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        cluster = cluster.as_str(),
        ?watched,
        "starting"
    );

    let events = Events::new(clients.calls.clone(), std::env::var("POD_NAME").ok());
    let objects = Arc::new(Objects::new(
        cluster.clone(),
        watched.is_all(),
        watched.watches(),
    ));
    let accounts = Accounts::new(cluster.as_str(), Rate::default());
    accounts.set_claims(objects.clone());
    let account_controller = controllers::account::run(
        controllers::account::Context::new(
            clients.calls.clone(),
            accounts.clone(),
            flags.namespace,
            watched.clone(),
            events.clone(),
            stop.clone(),
        ),
        clients.watches.clone(),
    );
    let server_controller = server::run(
        Arc::new(Context {
            client: clients.calls,
            accounts,
            cluster,
            watched,
            objects: objects.clone(),
            events,
            shutdown: stop.clone(),
        }),
        clients.watches,
    );
    let listener = endpoints::bind(flags.listen).await?;
    let endpoints = endpoints::serve(listener, Arc::new(move || objects.is_complete()));
    let signal = async {
        if let Err(error) = shutdown::signalled().await {
            tracing::error!(error = &error as &dyn Error, "cannot listen for signals");
        }
        tracing::info!("stopping; what is under way is finished first");
        stop.cancel();
    };
    let controllers = async { tokio::join!(account_controller, server_controller, signal) };
    tokio::select! {
        _ = controllers => {}
        // They answer to the end, and nothing waits for them.
        () = endpoints => {}
    }
    Ok(())
}

/// The cluster's identity. Waits for the API server: without it there is nothing to do.
async fn cluster_identity(clients: &Clients) -> ClusterId {
    let namespaces: Api<Namespace> = Api::all(clients.calls.clone());
    loop {
        match namespaces.get_metadata("kube-system").await {
            Ok(found) => return ClusterId::of_namespace_uid(&found.uid().unwrap_or_default()),
            Err(error) => {
                tracing::warn!(
                    error = &error as &dyn Error,
                    "cannot read the namespace kube-system; trying again"
                );
                tokio::time::sleep(Duration::from_secs(2)).await;
            }
        }
    }
}
