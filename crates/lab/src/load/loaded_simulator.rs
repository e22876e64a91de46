//! The simulator as a separate process, with its memory and processor time.

use std::error::Error;
use std::time::Duration;

use serde_json::{Value, json};

use super::cores::Cores;
use crate::{
    bench::{
        INSTANCE_TYPE, LOCATION,
        process::{self, Use},
    },
    product::{Product, SIMULATOR, SimulatorAccess},
    supervisor::Supervisor,
};

/// A quota that is larger than any run.
const QUOTA: usize = 10_000_000;
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// A simulator under load.
pub(super) struct LoadedSimulator {
    parts: Supervisor,
    /// Removed on drop.
    _folder: tempfile::TempDir,
    simulator: SimulatorAccess,
    pid: u32,
    client: reqwest::Client,
}

impl LoadedSimulator {
    /// Starts a simulator with a stopped clock, on a separate core if two exist.
    pub(super) async fn start(cores: Option<Cores>) -> Result<Self, Box<dyn Error>> {
        let folder = tempfile::Builder::new()
            .prefix("flexmetal-load-")
            .tempdir()?;
        let mut parts = Supervisor::new(folder.path().to_owned());
        if let Some(cores) = cores {
            cores.bind_to_simulator_core()?;
        }
        let flags = ["--clock=real", "--clock-speed=0", "--seed=1"];
        let started = Product::find()?.start_simulator(&mut parts, &flags).await;
        if let Some(cores) = cores {
            cores.bind_to_load_core()?;
        }
        let processes = parts.processes();
        let ours = processes.into_iter().find(|(name, _)| name == SIMULATOR);
        let subject = Self {
            simulator: started?,
            parts,
            _folder: folder,
            pid: ours.ok_or("the simulator is gone")?.1,
            client: reqwest::Client::builder()
                .no_proxy()
                // The simulator closes idle connections, and a request at that moment would fail.
                .pool_max_idle_per_host(0)
                .timeout(Duration::from_secs(60))
                .build()?,
        };
        let quota = json!({"location": LOCATION, "instanceType": INSTANCE_TYPE, "quota": QUOTA});
        subject.steer("quota", &quota).await?;
        Ok(subject)
    }

    /// Address of the API, as `host:port`.
    pub(super) fn host(&self) -> &str {
        self.simulator.api.trim_start_matches("http://")
    }

    pub(super) fn key(&self) -> &str {
        &self.simulator.api_key
    }

    /// Its memory and processor time.
    pub(super) fn usage(&self) -> Result<Use, &'static str> {
        process::usage(self.pid).ok_or("the system does not report what the simulator uses")
    }

    /// Advances virtual time, and sets its speed.
    pub(super) async fn clock(&self, advance: u64, speed: u64) -> Result<(), reqwest::Error> {
        let drive = json!({"advanceSeconds": advance, "speed": speed});
        self.steer("clock", &drive).await
    }

    /// Clears the ledger.
    pub(super) async fn clear_ledger(&self) -> Result<(), reqwest::Error> {
        let url = format!("{}/_simulator/ledger", self.simulator.control);
        let cleared = self.client.delete(url).send().await?;
        cleared.error_for_status().map(drop)
    }

    /// Number of billed servers of the account.
    pub(super) async fn paying(&self) -> Result<Option<u64>, reqwest::Error> {
        let url = format!("{}/_simulator/paying", self.simulator.control);
        let paying = self.client.get(url).send().await?.error_for_status()?;
        let paying: Value = paying.json().await?;
        Ok(paying.pointer("/0/machines").and_then(Value::as_u64))
    }

    async fn steer(&self, what: &str, body: &Value) -> Result<(), reqwest::Error> {
        let url = format!("{}/_simulator/{what}", self.simulator.control);
        let done = self.client.post(url).json(body).send().await?;
        done.error_for_status().map(drop)
    }

    /// Ends the simulator.
    pub(super) async fn end(mut self) {
        self.parts.end(&[SIMULATOR], STOP_TIMEOUT).await;
    }
}
