//! The demo's daemon: it locks the folder, runs all parts, and ends them together.

use std::error::Error;
use std::time::Duration;

use super::{
    folder::{DemoFolder, RunningDemo},
    prometheus::{self, PROMETHEUS},
    quickstart,
};
use crate::{
    control_plane::{ControlPlane, ControlPlaneSettings},
    kubectl::Kubectl,
    ports,
    product::{OPERATOR, OPERATOR_NAMESPACE, PLUGIN, Product, SIMULATOR},
    programs,
    supervisor::{self, Supervisor},
};

/// Short delivery times at real speed. A faster clock would give the servers timestamps in the future.
const DELIVERY: &str = "--delivery-seconds=3..8";
const RELEASE: &str = "--release-seconds=2";
/// The operator finishes an order in progress, which may take 10 s with the quickstart's account.
const OPERATOR_STOP_TIMEOUT: Duration = Duration::from_secs(20);
/// Simulator and Prometheus.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug, thiserror::Error)]
#[error("another process runs a demo in this folder")]
struct AlreadyRunning;

/// Runs until SIGTERM or SIGINT, or until a part ends by itself.
pub(crate) async fn run_daemon(folder: DemoFolder) -> Result<(), Box<dyn Error>> {
    let end = supervisor::end_of_work(true)?;
    tokio::pin!(end);
    // The lock lasts until this function returns, when all parts are gone.
    let _kept = folder.acquire_lock()?.ok_or(AlreadyRunning)?;
    let programs = programs::find_or_build().await?;
    let kubectl = programs.kubectl();
    let settings = ControlPlaneSettings {
        dir: Some(folder.control_plane()),
        audit_log: None,
        etcd_data: None,
        logs: Some(folder.logs()),
    };
    let mut plane = ControlPlane::prepare(settings, programs)?;
    let mut parts = Supervisor::new(folder.logs());
    let outcome = tokio::select! {
        failed = async {
            bring_up(&folder, &mut plane, &mut parts, kubectl).await?;
            let failure: Box<dyn Error> = tokio::select! {
                failure = plane.first_failure() => failure.into(),
                failure = parts.first_end() => failure.into(),
            };
            Err(failure)
        } => failed,
        () = &mut end => Ok(()),
    };
    folder.remove_state();
    parts.end(&[OPERATOR], OPERATOR_STOP_TIMEOUT).await;
    let others = [SIMULATOR, PROMETHEUS];
    parts.end(&others, STOP_TIMEOUT).await;
    plane.end().await?;
    outcome
}

async fn bring_up(
    folder: &DemoFolder,
    plane: &mut ControlPlane,
    parts: &mut Supervisor,
    kubectl: std::path::PathBuf,
) -> Result<(), Box<dyn Error>> {
    let product = Product::find()?;
    let key = format!("--api-key={}", quickstart::key()?);
    let flags = [DELIVERY, RELEASE, key.as_str()];
    let simulator = product.start_simulator(parts, &flags).await?;
    let access = plane.start().await?;
    folder.link(access.kubeconfig(), &kubectl, &product.program(PLUGIN))?;
    let kubectl = Kubectl::new(folder.kubectl(), folder.kubeconfig());
    kubectl.install_definitions().await?;
    kubectl.install_protection().await?;
    kubectl
        .run(&["create", "namespace", OPERATOR_NAMESPACE])
        .await?;
    let here = format!("--namespace={}", quickstart::NAMESPACE);
    kubectl
        .run(&["config", "set-context", "--current", &here])
        .await?;
    let [health, metrics, port] = ports::free()?;
    product.start_operator(parts, &folder.kubeconfig(), [health, metrics], &simulator)?;
    let prometheus = prometheus::start(parts, folder, metrics, port)?;
    let mut running = plane.processes();
    running.extend(parts.processes());
    folder.write(&RunningDemo {
        pid: i32::try_from(std::process::id())?,
        parts: running,
        server: access.server().to_owned(),
        simulator,
        prometheus,
        stamp: product.stamp()?,
    })?;
    Ok(())
}
