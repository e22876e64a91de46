//! What the hosting API saw, read from the simulator's control port.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use super::floor::Life;
use crate::product::SimulatorAccess;

/// One request at the hosting API.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ProviderCall {
    pub(crate) seq: u64,
    pub(crate) method: String,
    pub(crate) template: Option<String>,
    pub(crate) query: String,
}

/// The control port of one simulator.
pub(crate) struct Provider {
    client: reqwest::Client,
    control: String,
}

impl Provider {
    pub(crate) fn new(simulator: &SimulatorAccess) -> Result<Self, reqwest::Error> {
        Ok(Self {
            client: reqwest::Client::builder()
                .no_proxy()
                // The simulator closes idle connections, and a request at that moment would fail.
                .pool_max_idle_per_host(0)
                .timeout(Duration::from_secs(60))
                .build()?,
            control: simulator.control.clone(),
        })
    }

    async fn get<T: serde::de::DeserializeOwned>(&self, path: &str) -> Result<T, reqwest::Error> {
        let request = self
            .client
            .get(format!("{}/_simulator/{path}", self.control));
        request.send().await?.error_for_status()?.json().await
    }

    /// Allows this many on-demand servers of one instance type at one location.
    pub(crate) async fn allow(
        &self,
        location: &str,
        instance_type: &str,
        servers: u32,
    ) -> Result<(), reqwest::Error> {
        let quota =
            json!({ "location": location, "instanceType": instance_type, "quota": servers });
        let request = self
            .client
            .post(format!("{}/_simulator/quota", self.control))
            .json(&quota);
        request.send().await?.error_for_status()?;
        Ok(())
    }

    /// The simulator's time, in Unix seconds.
    pub(crate) async fn now(&self) -> Result<f64, reqwest::Error> {
        #[derive(Deserialize)]
        struct Clock {
            #[serde(rename = "virtual")]
            now: f64,
        }
        Ok(self.get::<Clock>("clock").await?.now)
    }

    /// The requests after number `since`.
    pub(crate) async fn calls(&self, since: u64) -> Result<Vec<ProviderCall>, reqwest::Error> {
        self.get(&format!("ledger?since={since}")).await
    }

    /// The lives of all servers.
    pub(crate) async fn lives(&self) -> Result<Vec<Life>, reqwest::Error> {
        let servers: Vec<Value> = self.get("machines").await?;
        Ok(servers.iter().filter_map(life).collect())
    }

    /// Violations of "one order, one server". Empty if there are no violations.
    pub(crate) async fn violations(&self) -> Result<Vec<Value>, reqwest::Error> {
        let report: Value = self.get("invariants?prefix=fmo-order:").await?;
        // A missing list counts as a violation.
        Ok(report["violations"]
            .as_array()
            .cloned()
            .unwrap_or_else(|| vec![json!("the simulator gave no judgement")]))
    }
}

fn life(server: &Value) -> Option<Life> {
    let history = server["history"].as_array()?;
    let at = |state: &str| {
        let step = history.iter().find(|step| step["state"] == state)?;
        step["at"].as_f64()
    };
    Some(Life {
        ordered: history.first()?["at"].as_f64()?,
        delivered: at("delivered"),
        releasing: at("releasing"),
        released: at("released"),
    })
}

/// Number of calls by method, path template and filter.
pub(crate) fn by_kind(calls: &[ProviderCall]) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for call in calls {
        let template = call.template.as_deref().unwrap_or("(unknown path)");
        // Filter values differ for each server, so only the names count.
        let names = call
            .query
            .split('&')
            .filter_map(|pair| pair.split('=').next());
        let mut filters: Vec<&str> = names.filter(|name| !name.is_empty()).collect();
        filters.dedup();
        let filter = if filters.is_empty() {
            String::new()
        } else {
            format!(" by {}", filters.join(", "))
        };
        *counts
            .entry(format!("{} {template}{filter}", call.method))
            .or_default() += 1;
    }
    counts
}
