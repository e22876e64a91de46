//! Starts the product's programs (simulator and operator), which are in the same folder as the lab.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep};

use crate::supervisor::{Supervisor, SupervisorError};

/// The kubectl plugin.
pub(crate) const PLUGIN: &str = "kubectl-flexmetal";
pub(crate) const OPERATOR: &str = "flexmetal-operator";
pub(crate) const SIMULATOR: &str = "flexmetal-simulator";
/// The operator's namespace in a real cluster.
pub(crate) const OPERATOR_NAMESPACE: &str = "flexmetal-system";

/// Time limit of the simulator's start. It only opens two ports and prints a line.
const SIMULATOR_WITHIN: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(25);

/// The folder of the two programs.
#[derive(Debug, Clone)]
pub(crate) struct Product {
    folder: PathBuf,
}

/// Addresses and key of a running simulator: the line that it prints.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SimulatorAccess {
    /// Base URL of the hosting API.
    pub(crate) api: String,
    /// Base URL of the control port.
    pub(crate) control: String,
    /// The account's key.
    pub(crate) api_key: String,
}

/// Why the product does not run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProductError {
    #[error("{path} is missing: run `cargo build --workspace --bins` with the same profile first")]
    Missing {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error(transparent)]
    Program(#[from] SupervisorError),
    #[error("the simulator printed no addresses within {} s; its log is {log}", SIMULATOR_WITHIN.as_secs())]
    Silent { log: PathBuf },
}

impl Product {
    /// Finds the programs next to this one, in `target/<profile>`.
    pub(crate) fn find() -> Result<Self, ProductError> {
        let here = std::env::current_exe().map_err(|source| ProductError::Missing {
            path: OPERATOR.into(),
            source,
        })?;
        let folder = here.parent().unwrap_or(Path::new("."));
        let this = Self {
            folder: folder.to_owned(),
        };
        this.stamp()?;
        Ok(this)
    }

    /// Path of a program of this build.
    pub(crate) fn program(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Size and modification time of both programs. It differs between builds.
    pub(crate) fn stamp(&self) -> Result<String, ProductError> {
        let one = |name| {
            let path = self.program(name);
            let about = std::fs::metadata(&path)
                .and_then(|about| Ok((about.len(), about.modified()?)))
                .map_err(|source| ProductError::Missing { path, source })?;
            let at = about.1.duration_since(UNIX_EPOCH).unwrap_or_default();
            Ok::<_, ProductError>(format!("{}-{}", about.0, at.as_nanos()))
        };
        Ok(format!("{} {}", one(OPERATOR)?, one(SIMULATOR)?))
    }

    /// Starts a simulator on free ports and waits for its addresses.
    pub(crate) async fn start_simulator(
        &self,
        supervisor: &mut Supervisor,
        flags: &[&str],
    ) -> Result<SimulatorAccess, ProductError> {
        let ports = ["--listen=127.0.0.1:0", "--control=127.0.0.1:0"];
        let flags: Vec<String> = ports.iter().chain(flags).map(|&flag| flag.into()).collect();
        supervisor.start(SIMULATOR, &self.program(SIMULATOR), &flags)?;
        let log = supervisor.log_of(SIMULATOR);
        let deadline = Instant::now() + SIMULATOR_WITHIN;
        while Instant::now() < deadline {
            let text = std::fs::read_to_string(&log).unwrap_or_default();
            if let Some(found) = text
                .lines()
                .find_map(|line| serde_json::from_str(line).ok())
            {
                return Ok(found);
            }
            tokio::select! {
                ended = supervisor.first_end() => return Err(ended.into()),
                () = sleep(POLL) => {}
            }
        }
        Err(ProductError::Silent { log })
    }

    /// Starts an operator that serves health and metrics on these ports and sends keys only to this simulator.
    /// The simulator delivers fast, so the operator accepts short intervals.
    pub(crate) fn start_operator(
        &self,
        supervisor: &mut Supervisor,
        kubeconfig: &Path,
        [health, metrics]: [u16; 2],
        simulator: &SimulatorAccess,
    ) -> Result<(), ProductError> {
        let flags = [
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--namespace={OPERATOR_NAMESPACE}"),
            // With the same name, a restart does not wait for the old process's lease to expire.
            "--pod=laboratory".to_owned(),
            format!("--listen=127.0.0.1:{health}"),
            format!("--metrics-listen=127.0.0.1:{metrics}"),
            format!("--allowed-base-url={}", simulator.api),
            "--log-format=text".to_owned(),
            "--short-intervals".to_owned(),
        ];
        Ok(supervisor.start(OPERATOR, &self.program(OPERATOR), &flags)?)
    }
}
