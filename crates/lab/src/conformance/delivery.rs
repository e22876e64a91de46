//! The time from the order to the delivery.

use serde_json::Value;
use tokio::time::Instant;

use super::raw_client::RawCall;
use super::retry::poll;
use super::{Drill, DrillError};

const DELIVERY_MINUTES: u32 = 90;

/// States after `created` and before `provisioning`. Either the filter `creating` or `provisioning` finds a server there.
const STATES_BEFORE_PROVISIONING: [&str; 6] = [
    "discovering",
    "discovered",
    "allocating",
    "allocated",
    "configuring_network",
    "network_configured",
];
/// States of a server that is not waiting for its delivery.
const STATES_AFTER_WAITING: [&str; 4] = ["delivered", "failed", "releasing", "released"];

impl Drill {
    /// Probes the waiting server, and waits for its delivery.
    pub(super) async fn await_delivery(&mut self) -> Result<(), DrillError> {
        let ordered = Instant::now();
        let answer = self.read_server().await?;
        if is_waiting(answer.text("status")) {
            let record = answer.record();
            let value = match record.get("deliveredAt") {
                None => Some("omit"),
                Some(value) if *value == 0 => Some("zero"),
                Some(_) => None,
            };
            let shown = record.get("deliveredAt").unwrap_or(&Value::Null);
            let details = match value {
                Some("omit") => "a waiting server has no deliveredAt".to_owned(),
                _ => format!("deliveredAt of a waiting server: {shown}"),
            };
            self.record("absentFields", value, details);
            self.probe_waiting().await?;
        } else {
            self.record_too_fast();
        }
        self.raw.print_progress("waiting for the delivery");
        let mut states: Vec<String> = Vec::new();
        let this = &mut *self;
        let delivered = poll(this.minute * DELIVERY_MINUTES, async || {
            let answer = this.read_server().await?;
            let status = answer.text("status").to_owned();
            if STATES_BEFORE_PROVISIONING.contains(&&*status)
                && !this.observations.has_value("creatingFilter")
            {
                this.probe_creating(&status).await?;
            }
            if states.last() != Some(&status) && !status.is_empty() {
                states.push(status.clone());
            }
            match &*status {
                "failed" => {
                    let message = answer.text("statusMessage").to_owned();
                    Err(DrillError::DeliveryFailed(message))
                }
                "releasing" | "released" => Err(DrillError::DeliveryFailed(format!(
                    "the server is {status}"
                ))),
                "delivered" => Ok(Some(())),
                _ => Ok(None),
            }
        })
        .await?;
        if delivered.is_none() {
            let (what, minutes) = ("the delivery", DELIVERY_MINUTES);
            return Err(DrillError::TooSlow { what, minutes });
        }
        self.time("Order to delivery", ordered);
        let is_long = states
            .iter()
            .any(|state| state != "created" && is_waiting(state));
        let value = match (is_long, states.iter().any(|state| state == "created")) {
            (true, _) => Some("long"),
            (false, true) => Some("short"),
            (false, false) => None,
        };
        self.record("stateView", value, format!("states: {}", states.join(", ")));
        Ok(())
    }

    fn record_too_fast(&mut self) {
        for switch in ["absentFields", "commandUndelivered", "reinstallUndelivered"] {
            self.record(switch, None, "the server was delivered at once");
        }
    }

    /// A command and a re-installation before the delivery. Switching power on disturbs an installation least.
    async fn probe_waiting(&mut self) -> Result<(), DrillError> {
        let command = self.send_command("power_on").await?;
        let reinstall = self.send_reinstall(Some(self.key())).await?;
        // The answers count only if the server still waits.
        let answer = self.read_server().await?;
        if !is_waiting(answer.text("status")) {
            self.record_too_fast();
            return Ok(());
        }
        let values = [(422, "refuse422"), (200, "accept")];
        self.record_status("commandUndelivered", &command, &values);
        let values = [(422, "refuse422"), (409, "refuse409")];
        self.record_status("reinstallUndelivered", &reinstall, &values);
        Ok(())
    }

    /// Which of the two filters finds the server in this state.
    async fn probe_creating(&mut self, status: &str) -> Result<(), DrillError> {
        let path = ["flexMetal", "servers"];
        let mut found = [false; 2];
        for (filter, found) in ["creating", "provisioning"].into_iter().zip(&mut found) {
            let query = [("status", filter), ("tag", &*self.run_name)];
            let answer = self.raw.send(RawCall::get(&path).query(&query)).await?;
            *found = !answer.records().is_empty();
        }
        if self.read_server().await?.text("status") == status {
            let value = match found {
                [true, false] => Some("waiting"),
                [false, true] => Some("created"),
                _ => None,
            };
            let details =
                format!("filters creating and provisioning with a server in {status}: {found:?}");
            self.record("creatingFilter", value, details);
        }
        Ok(())
    }
}

pub(super) fn is_waiting(status: &str) -> bool {
    !status.is_empty() && !STATES_AFTER_WAITING.contains(&status)
}
