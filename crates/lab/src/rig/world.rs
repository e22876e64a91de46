//! The environment of one test: a simulator, a namespace with an account, and an operator that watches it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{
    cluster::Cluster,
    deadline::eventually,
    operator::{Operator, Start},
    simulator::Simulator,
};

/// Time limit for the API server to serve a new CRD.
const ESTABLISHED_WITHIN: Duration = Duration::from_secs(30);
/// Field manager of the tests' objects.
const FIELD_MANAGER: &str = "test";

/// Options of a world. The default suits most tests.
pub struct WorldOptions {
    /// Flags of the simulator.
    pub simulator: Vec<String>,
    /// Further flags of the operator.
    pub operator: Vec<String>,
    /// `spec.timing` of the account.
    pub timing: Value,
    /// Whether the operator accepts intervals below their minima.
    pub short_intervals: bool,
    /// Whether the account's Secret is created, with the right key.
    pub secret: bool,
    /// URLs that the operator may send keys to, in addition to the world's simulator.
    pub allowed: Vec<String>,
    /// Whether the operator may send keys only to the listed URLs. If false, to public addresses.
    pub listed: bool,
    /// Whether the operator watches only the world's namespace. If false, no other world may be in the same cluster.
    pub watch_namespace: bool,
    /// What the operator logs, as in `RUST_LOG`.
    pub log: Option<&'static str>,
}

impl Default for WorldOptions {
    fn default() -> Self {
        Self {
            simulator: Vec::new(),
            operator: Vec::new(),
            timing: quick_timing(),
            short_intervals: true,
            secret: true,
            allowed: Vec::new(),
            listed: true,
            watch_namespace: true,
            log: None,
        }
    }
}

/// The absence grace period of [`quick_timing`]. A request must be sent within a quarter of it after its record, and a
/// busy computer needs more than two seconds for that.
pub const QUICK_GRACE_PERIOD: Duration = Duration::from_secs(12);

/// Short times of an account for tests.
pub fn quick_timing() -> Value {
    let grace = format!("{}s", QUICK_GRACE_PERIOD.as_secs());
    json!({
        "absenceGracePeriod": grace, "absenceCheckInterval": "300ms", "activePollInterval": "200ms",
        "idlePollInterval": "1s", "orphanScanInterval": "1s", "orderTimeout": "1500ms",
    })
}

/// A server object for most tests.
pub fn server(name: &str) -> Value {
    json!({
        "apiVersion": "flexmetal.dev/v1alpha1",
        "kind": "BareMetalServer",
        "metadata": {"name": name},
        "spec": {
            "location": "EU: Rotterdam",
            "instanceType": "bm7.std.8",
            "os": {"slug": "ubuntu-2404-lts"},
            "sshKeys": [{"publicKey": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHRoaXMgaXMgbm90IGEga2V5IG9mIGFueWJvZHkgISEh test"}],
        },
    })
}

/// A simulator, a namespace with an account, and an operator.
pub struct World {
    // Fields drop in this order: the operator before the simulator.
    operator: Option<Operator>,
    /// The hosting API of the account.
    pub simulator: Simulator,
    /// The administrator's client.
    pub client: Client,
    /// The namespace of the world.
    pub namespace: String,
    /// The operator's cluster ID, 16 hex digits.
    pub cluster_id: String,
    start: Start,
    folder: TempDir,
}

impl World {
    /// A world with a running operator.
    pub async fn start(cluster: &Cluster, prefix: &str) -> Self {
        let mut world = Self::prepare(cluster, prefix, WorldOptions::default()).await;
        world.start_operator();
        world
    }

    /// A world for a test that deletes its namespace: the Lease is in the namespace `default`, since an operator stops
    /// without its Lease. No other test may use this prefix.
    pub async fn start_with_lease_elsewhere(cluster: &Cluster, prefix: &str) -> Self {
        let plan = WorldOptions {
            operator: vec![
                "--leader-election-namespace=default".into(),
                format!("--leader-election-name={prefix}"),
            ],
            ..WorldOptions::default()
        };
        let mut world = Self::prepare(cluster, prefix, plan).await;
        world.start_operator();
        world
    }

    /// A world without an operator yet.
    pub async fn prepare(cluster: &Cluster, prefix: &str, plan: WorldOptions) -> Self {
        let folder = tempfile::tempdir().expect("a folder for the logs");
        let simulator = Simulator::start(&plan.simulator, &folder.path().join("simulator.log"));
        Self::around(cluster, prefix, plan, simulator, folder).await
    }

    /// A world with a simulator that already runs, so that a running operator can know its URL.
    pub async fn with_simulator(cluster: &Cluster, prefix: &str, simulator: Simulator) -> Self {
        let folder = tempfile::tempdir().expect("a folder for the logs");
        Self::around(cluster, prefix, WorldOptions::default(), simulator, folder).await
    }

    async fn around(
        cluster: &Cluster,
        prefix: &str,
        plan: WorldOptions,
        simulator: Simulator,
        folder: TempDir,
    ) -> Self {
        let client = cluster.client().await;
        cluster.install_kinds_once(&client).await;
        let namespace = cluster.namespace(prefix).await;
        let cluster_id = format!("{:016x}", rand::random::<u64>());
        let start = Start {
            kubeconfig: cluster.access().kubeconfig.clone(),
            namespace: namespace.clone(),
            watched: plan
                .watch_namespace
                .then(|| namespace.clone())
                .into_iter()
                .collect(),
            cluster_id: cluster_id.clone(),
            allowed: match plan.listed {
                true => [vec![simulator.api().to_owned()], plan.allowed].concat(),
                false => Vec::new(),
            },
            short_intervals: plan.short_intervals,
            pod: "first".to_owned(),
            flags: plan.operator,
            environment: Vec::new(),
            log: plan.log,
        };
        let world = Self {
            operator: None,
            simulator,
            client,
            namespace,
            cluster_id,
            start,
            folder,
        };
        if plan.secret {
            world.write_key(world.simulator.api_key()).await;
        }
        world
            .write_account(world.simulator.api(), &plan.timing)
            .await;
        world
    }

    /// Sets the operator's kubeconfig, from its next start on.
    pub fn set_kubeconfig(&mut self, kubeconfig: PathBuf) {
        self.start.kubeconfig = kubeconfig;
    }

    /// Allows the operator to send keys to one more URL, from its next start by the world on.
    pub fn allow_base_url(&mut self, url: &str) {
        self.start.allowed.push(url.to_owned());
    }

    /// Sets environment variables of the operator, from its next start by the world on.
    pub fn set_environment(&mut self, variables: Vec<(&'static str, String)>) {
        self.start.environment = variables;
    }

    /// The start options of this world's operator.
    pub fn start_of_operator(&self) -> &Start {
        &self.start
    }

    /// Starts the operator.
    pub fn start_operator(&mut self) {
        let log = self.folder.path().join("operator.log");
        self.operator = Some(Operator::start(self.start.clone(), &log));
    }

    /// The operator.
    ///
    /// # Panics
    /// If it was not started.
    pub fn operator(&mut self) -> &mut Operator {
        self.operator.as_mut().expect("the operator was started")
    }

    /// A folder that is removed with the world.
    pub fn folder(&self) -> &std::path::Path {
        self.folder.path()
    }

    /// Writes the Secret with the key of the account `default`.
    pub async fn write_key(&self, key: &str) {
        self.write_secret("account-key", key).await;
    }

    /// Writes a Secret with a key, without a base URL, because the operator's flags allow the URL.
    pub async fn write_secret(&self, name: &str, key: &str) {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": name},
            "type": "flexmetal.dev/api-key",
            "stringData": {"apiKey": key},
        });
        apply(&self.secrets(), name, &secret).await;
    }

    /// Writes the account `default`.
    pub async fn write_account(&self, base_url: &str, timing: &Value) {
        self.write_account_as("default", "account-key", base_url, timing)
            .await;
    }

    /// Writes an account.
    pub async fn write_account_as(&self, name: &str, secret: &str, base_url: &str, timing: &Value) {
        let account = json!({
            "apiVersion": "flexmetal.dev/v1alpha1", "kind": "ProviderAccount",
            "metadata": {"name": name},
            "spec": {
                "baseURL": base_url,
                "apiKeySecretRef": {"name": secret},
                "timing": timing,
            },
        });
        apply(&self.accounts(), name, &account).await;
    }
}

async fn apply<K>(api: &Api<K>, name: &str, object: &Value)
where
    K: Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    let apply = PatchParams::apply(FIELD_MANAGER).force();
    api.patch(name, &apply, &Patch::Apply(object))
        .await
        .unwrap_or_else(|error| panic!("cannot apply {name}: {error}"));
}

/// Installs the CRDs in the cluster and waits until they are served.
pub async fn install_kinds(client: &Client) {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let apply = PatchParams::apply(FIELD_MANAGER).force();
    for definition in definitions_of_the_kinds() {
        let name = definition.name_any();
        definitions
            .patch(&name, &apply, &Patch::Apply(&definition))
            .await
            .unwrap_or_else(|error| panic!("cannot install {name}: {error}"));
        eventually("the kind is served", ESTABLISHED_WITHIN, async || {
            let found = definitions.get(&name).await.ok()?;
            let conditions = found.status?.conditions?;
            let mut served = conditions
                .iter()
                .filter(|c| c.type_ == "Established" && c.status == "True");
            served.next().map(|_| ())
        })
        .await;
    }
}

/// The CRDs in `crds/`.
fn definitions_of_the_kinds() -> Vec<CustomResourceDefinition> {
    let folder = Path::new(crate::kubectl::DEFINITIONS);
    let files = folder.read_dir().expect("crds/ is there");
    files
        .map(|file| {
            let path = file.expect("crds/ can be read").path();
            let text = std::fs::read_to_string(&path).expect("a definition can be read");
            serde_saphyr::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
        })
        .collect()
}
