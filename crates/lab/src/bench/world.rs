//! The environment of one benchmark: a new control plane, simulator and operator.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ObjectMeta, PostParams};
use kube::config::Kubeconfig;
use kube::{Api, Client};
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::{audit, provider::Provider, scrapes};
use crate::{
    control_plane::{ControlPlane, ControlPlaneSettings},
    credentials,
    kubectl::Kubectl,
    ports,
    product::{OPERATOR, OPERATOR_NAMESPACE, Product, SIMULATOR},
    programs,
    supervisor::{Supervisor, TAIL, tail},
};

/// All times of the account are divided by this, and the simulator's clock runs faster by the same factor.
pub(crate) const PACE: f64 = 10.0;
/// The account's times at that pace, in seconds.
pub(crate) const ACTIVE_POLL: f64 = 3.0;
pub(crate) const IDLE_POLL: f64 = 30.0;
pub(crate) const ORPHAN_SCAN: f64 = 180.0;

pub(crate) const NAMESPACE: &str = "bench";
pub(crate) const LOCATION: &str = "EU: Rotterdam";
pub(crate) const INSTANCE_TYPE: &str = "bm7.std.8";
/// The user whose writes are counted.
pub(crate) const OPERATOR_USER: &str = "system:serviceaccount:flexmetal-system:flexmetal-operator";

/// Number of writes that measure the write rate of the API server.
const PROBES: usize = 400;
const AT_ONCE: usize = 32;
const OPERATOR_STOP_TIMEOUT: Duration = Duration::from_secs(30);
const SIMULATOR_STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// The running environment.
pub(crate) struct BenchWorld {
    plane: ControlPlane,
    parts: Supervisor,
    _folder: tempfile::TempDir,
    audit: audit::AuditLog,
    operator: u32,
    /// Scrapes the operator, as Prometheus does.
    _scrapes: JoinSet<()>,
    pub(crate) client: Client,
    pub(crate) provider: Provider,
}

impl BenchWorld {
    /// Starts everything, with an account that allows this many servers.
    pub(crate) async fn start(servers: u32) -> Result<Self, Box<dyn Error>> {
        let folder = tempfile::Builder::new()
            .prefix("flexmetal-bench-")
            .tempdir()?;
        let logs = folder.path().join("logs");
        let programs = programs::find_or_build().await?;
        let kubectl = programs.kubectl();
        let settings = ControlPlaneSettings {
            dir: Some(folder.path().join("control-plane")),
            audit_log: Some(folder.path().join("audit.log")),
            etcd_data: None,
            logs: Some(logs.clone()),
        };
        let mut plane = ControlPlane::prepare(settings, programs)?;
        let mut parts = Supervisor::new(logs);
        let brought = bring_up(&mut plane, &mut parts, folder.path(), kubectl, servers).await;
        match brought {
            Ok((client, provider, operator, scrapes)) => Ok(Self {
                plane,
                parts,
                audit: audit::AuditLog::new(folder.path().join("audit.log"), OPERATOR_USER),
                _folder: folder,
                operator,
                _scrapes: scrapes,
                client,
                provider,
            }),
            Err(error) => {
                parts.kill_all().await;
                plane.end().await?;
                Err(error)
            }
        }
    }

    /// The operator's process ID.
    pub(crate) fn operator(&self) -> u32 {
        self.operator
    }

    /// The operator's writes so far.
    pub(crate) fn writes(&mut self) -> std::io::Result<&audit::Writes> {
        self.audit.writes()
    }

    /// Completes when a part ends unexpectedly.
    pub(crate) async fn first_failure(&mut self) -> Box<dyn Error> {
        tokio::select! {
            failure = self.plane.first_failure() => failure.into(),
            failure = self.parts.first_end() => failure.into(),
        }
    }

    /// The end of the operator's log, for a failed run.
    pub(crate) fn operator_log(&self) -> String {
        tail(&self.parts.log_of(OPERATOR), TAIL)
    }

    /// Ends all parts.
    pub(crate) async fn end(mut self) -> Result<(), Box<dyn Error>> {
        self.parts.end(&[OPERATOR], OPERATOR_STOP_TIMEOUT).await;
        self.parts.end(&[SIMULATOR], SIMULATOR_STOP_TIMEOUT).await;
        Ok(self.plane.end().await?)
    }

    /// Writes per second that the API server accepts here from many clients at once.
    pub(crate) async fn write_ceiling(&self) -> Result<f64, kube::Error> {
        let maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), "default");
        let began = Instant::now();
        let parameters = PostParams::default();
        let writes = (0..PROBES).map(|number| {
            let map = ConfigMap {
                metadata: ObjectMeta {
                    name: Some(format!("probe-{number}")),
                    ..ObjectMeta::default()
                },
                ..ConfigMap::default()
            };
            let (maps, parameters) = (&maps, &parameters);
            async move { maps.create(parameters, &map).await.map(drop) }
        });
        let mut writes = stream::iter(writes).buffer_unordered(AT_ONCE);
        while let Some(written) = writes.next().await {
            written?;
        }
        #[expect(clippy::cast_precision_loss, reason = "some hundreds")]
        let probes = PROBES as f64;
        Ok(probes / began.elapsed().as_secs_f64())
    }
}

async fn bring_up(
    plane: &mut ControlPlane,
    parts: &mut Supervisor,
    folder: &Path,
    kubectl: PathBuf,
    servers: u32,
) -> Result<(Client, Provider, u32, JoinSet<()>), Box<dyn Error>> {
    let product = Product::find()?;
    let speed = format!("--clock-speed={PACE}");
    // Deliveries and releases take minutes, as documented; at this pace a tenth of that.
    let simulator = product
        .start_simulator(parts, &[&speed, "--release-seconds=120", "--seed=1"])
        .await?;
    let provider = Provider::new(&simulator)?;
    provider
        .allow(LOCATION, INSTANCE_TYPE, servers.saturating_add(10))
        .await?;
    let access = plane.start().await?;
    let kubectl = Kubectl::new(kubectl, access.kubeconfig().to_owned());
    kubectl.install_definitions().await?;
    let objects = objects(&simulator.api, &simulator.api_key);
    kubectl
        .run_with_input(&["apply", "-f", "-"], &objects.to_string())
        .await?;
    // A separate user, so that the audit log distinguishes the operator's writes.
    let token = kubectl
        .run(&["-n", OPERATOR_NAMESPACE, "create", "token", OPERATOR])
        .await?;
    let mut config = Kubeconfig::read_from(access.kubeconfig())?;
    let client = credentials::client(config.clone()).await?;
    for user in &mut config.auth_infos {
        user.auth_info.get_or_insert_default().token = Some(token.trim().to_owned().into());
    }
    let kubeconfig = folder.join("operator.kubeconfig");
    std::fs::write(&kubeconfig, serde_json::to_string(&config)?)?;
    let [health, metrics] = ports::free()?;
    product.start_operator(parts, &kubeconfig, [health, metrics], &simulator)?;
    let operator = parts
        .processes()
        .into_iter()
        .find_map(|(name, id)| (name == OPERATOR).then_some(id))
        .ok_or("the operator has ended already")?;
    let url = format!("http://127.0.0.1:{metrics}/metrics");
    Ok((client, provider, operator, scrapes::start(url)))
}

/// Namespaces, the operator's user, and the account.
fn objects(api: &str, key: &str) -> serde_json::Value {
    let timing = json!({
        "activePollInterval": format!("{ACTIVE_POLL}s"), "idlePollInterval": format!("{IDLE_POLL}s"),
        "orphanScanInterval": format!("{ORPHAN_SCAN}s"), "absenceCheckInterval": "6s", "orderTimeout": "18s",
        "absenceGracePeriod": "60s",
    });
    json!({ "apiVersion": "v1", "kind": "List", "items": [
        { "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": OPERATOR_NAMESPACE } },
        { "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAMESPACE } },
        { "apiVersion": "v1", "kind": "ServiceAccount",
          "metadata": { "name": OPERATOR, "namespace": OPERATOR_NAMESPACE } },
        // The chart's tests cover the RBAC rules; here only writes are counted.
        { "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
          "metadata": { "name": OPERATOR },
          "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin" },
          "subjects": [{ "kind": "ServiceAccount", "name": OPERATOR, "namespace": OPERATOR_NAMESPACE }] },
        { "apiVersion": "v1", "kind": "Secret", "type": "flexmetal.dev/api-key",
          "metadata": { "name": "hosting-api", "namespace": NAMESPACE },
          "stringData": { "baseURL": api, "apiKey": key } },
        { "apiVersion": "flexmetal.dev/v1alpha1", "kind": "ProviderAccount",
          "metadata": { "name": "default", "namespace": NAMESPACE },
          "spec": { "apiKeySecretRef": { "name": "hosting-api" }, "timing": timing } },
    ]})
}
