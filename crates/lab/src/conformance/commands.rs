//! Commands to the delivered server.

use http::Method;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::raw_client::{RawAnswer, RawCall};
use super::retry::poll;
use super::{Drill, DrillError};

const COMMAND_MINUTES: u32 = 30;

impl Drill {
    pub(super) async fn probe_commands(&mut self) -> Result<(), DrillError> {
        self.raw.print_progress("sending commands");
        // One from before the delivery may be pending.
        self.await_commands("a command").await?;
        let begun = Instant::now();
        let first = self.send_command("power_on").await?;
        if !first.is_success() {
            let refused = format!("a power_on: {}", first.describe());
            return Err(DrillError::Refused(refused));
        }
        let second = self.send_command("reboot").await?;
        let list = self.list_commands(None).await?;
        let was_pending = find(&list, first.text("uuid")).is_some_and(|it| !is_ended(it));
        if second.is_success() && !was_pending {
            self.record("commandBusy", None, "the first command ended too soon");
        } else {
            let values = [(200, "accept"), (409, "refuse409")];
            self.record_status("commandBusy", &second, &values);
        }
        self.await_commands("a command").await?;
        if !second.is_success() {
            let again = self.send_command("reboot").await?;
            if !again.is_success() {
                let refused = format!("a reboot: {}", again.describe());
                return Err(DrillError::Refused(refused));
            }
            self.await_commands("a command").await?;
        }
        self.time("Two commands, power_on and reboot", begun);

        let list = self.list_commands(None).await?;
        let own: Vec<usize> = self
            .commands
            .iter()
            .filter_map(|uuid| {
                list.records()
                    .iter()
                    .position(|it| it["uuid"] == uuid.as_str())
            })
            .collect();
        let (value, details) = match own.as_slice() {
            [.., first, second] if first > second => {
                (Some("newestFirst"), "the later command came first")
            }
            [.., first, second] if first < second => {
                (Some("oldestFirst"), "the earlier command came first")
            }
            _ => (None, "the list does not show both commands"),
        };
        self.record("commandOrder", value, details);
        let record = list.records().first().unwrap_or(&Value::Null);
        let value = match (record.get("serverUuid"), record.get("server_uuid")) {
            (Some(_), None) => Some("camel"),
            (None, Some(_)) => Some("snake"),
            _ => None,
        };
        let keys: Vec<&str> = record
            .as_object()
            .into_iter()
            .flatten()
            .map(|it| &**it.0)
            .collect();
        self.record(
            "commandKeys",
            value,
            format!("a command has {}", keys.join(", ")),
        );
        Ok(())
    }

    pub(super) async fn send_command(&mut self, command: &str) -> Result<RawAnswer, DrillError> {
        let uuid = self.uuid();
        let path = ["servers", &uuid, "commands"];
        let answer = self
            .change(Method::POST, &path, Some(json!({"command": command})))
            .await?;
        if answer.is_success() {
            self.commands.push(answer.text("uuid").to_owned());
        }
        Ok(answer)
    }

    /// The first 50 commands of the server.
    pub(super) async fn list_commands(&self, kind: Option<&str>) -> Result<RawAnswer, DrillError> {
        let uuid = self.uuid();
        let path = ["flexMetal", "servers", &uuid, "commands"];
        let query = kind.map(|kind| ("type", kind));
        let call = RawCall::get(&path).range("start=0,results=50");
        self.read_with_valid_key(call.query(query.as_slice())).await
    }

    /// Waits until every command of the server has ended.
    pub(super) async fn await_commands(&self, what: &'static str) -> Result<(), DrillError> {
        let ended = poll(self.minute * COMMAND_MINUTES, async || {
            let list = self.list_commands(None).await?;
            let is_over = list.body.is_array() && list.records().iter().all(is_ended);
            Ok(is_over.then_some(()))
        });
        let minutes = COMMAND_MINUTES;
        ended.await?.ok_or(DrillError::TooSlow { what, minutes })
    }
}

fn find<'a>(list: &'a RawAnswer, uuid: &str) -> Option<&'a Value> {
    list.records().iter().find(|record| record["uuid"] == uuid)
}

pub(super) fn is_ended(command: &Value) -> bool {
    matches!(command["state"].as_str(), Some("finished" | "failed"))
}
