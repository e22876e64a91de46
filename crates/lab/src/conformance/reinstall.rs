//! Re-installation of the server: all its data is lost, and it has none.

use http::Method;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::commands::is_ended;
use super::raw_client::{RawAnswer, RawCall};
use super::{Drill, DrillError};

/// The query `type` of re-installations.
const KIND: &str = "update-server";

impl Drill {
    /// Sends re-installations without a key and with an unknown one. Only if both are refused, it sends one with the
    /// stored key.
    pub(super) async fn probe_reinstall(&mut self) -> Result<(), DrillError> {
        self.raw.print_progress("re-installing the server");
        let keyless = self.send_reinstall(None).await?;
        let values = [(422, "required"), (200, "optional")];
        self.record_status("reinstallSshKey", &keyless, &values);
        self.follow_reinstall(&keyless).await?;
        let unknown = uuid::Uuid::new_v4().to_string();
        let strange = self.send_reinstall(Some(&unknown)).await?;
        let values = [(200, "accept"), (422, "refuse422")];
        self.record_status("unknownSshKey", &strange, &values);
        self.follow_reinstall(&strange).await?;
        if !keyless.is_success() && !strange.is_success() {
            let answer = self.send_reinstall(Some(self.key())).await?;
            if !answer.is_success() {
                let refused = format!("the re-installation: {}", answer.describe());
                return Err(DrillError::Refused(refused));
            }
            self.follow_reinstall(&answer).await?;
        }

        let all = self.list_commands(None).await?;
        let is_own = |it: &&Value| self.commands.iter().any(|own| it["uuid"] == own.as_str());
        let Some(update) = all.records().iter().find(|it| !is_own(it)) else {
            for switch in ["updatePayload", "commandType"] {
                self.record(switch, None, "the commands show no re-installation");
            }
            return Ok(());
        };
        let payload = &update["payload"];
        let value = match payload {
            Value::Object(_) => Some("object"),
            Value::Array(entries) if entries.is_empty() => Some("emptyArray"),
            Value::Null => Some("null"),
            _ => None,
        };
        let kinds = self.list_commands(Some(KIND)).await?;
        let own = kinds.records().iter().filter(is_own).count();
        let others = kinds.records().len() - own;
        let is_filtered = match (own, others) {
            (0, 1..) => Some("filter"),
            (1.., 1..) => Some("ignore"),
            _ => None,
        };
        let details = format!("type={KIND} showed {own} power commands and {others} others");
        // Its values may be secret.
        let fields: Vec<&String> = payload
            .as_object()
            .into_iter()
            .flatten()
            .map(|it| it.0)
            .collect();
        let fields = format!("fields in the payload of a re-installation: {fields:?}");
        self.record("updatePayload", value, fields);
        self.record("commandType", is_filtered, details);
        Ok(())
    }

    /// Tries another re-installation while this one is pending, and waits for the end.
    async fn follow_reinstall(&mut self, answer: &RawAnswer) -> Result<(), DrillError> {
        if !answer.is_success() {
            return Ok(());
        }
        let begun = Instant::now();
        if !self.observations.has_value("reinstallBusy") {
            let busy = self.send_reinstall(Some(self.key())).await?;
            let commands = self.list_commands(None).await?;
            if busy.is_success() && commands.records().iter().all(is_ended) {
                let details = "the first re-installation ended too soon";
                self.record("reinstallBusy", None, details);
            } else {
                let values = [(409, "refuse409"), (200, "accept")];
                self.record_status("reinstallBusy", &busy, &values);
            }
        }
        self.await_commands("a re-installation").await?;
        self.time("Re-installation", begun);
        Ok(())
    }

    /// Sends a re-installation with this key, or without the field.
    pub(super) async fn send_reinstall(&self, key: Option<&str>) -> Result<RawAnswer, DrillError> {
        let uuid = self.uuid();
        let mut body = json!({"os": {"slug": self.choice.slug}});
        if let Some(key) = key {
            body["sshKey"] = json!([key]);
        }
        let path = ["flexMetal", "servers", &uuid];
        let call = RawCall::new(Method::PATCH, &path).query(&[("wipeDisk", "false")]);
        self.raw.send(call.body(body)).await
    }
}
