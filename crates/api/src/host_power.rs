//! `spec.power` and `spec.restartToken` of a host: which wishes were seen, and the command that came of the last change.

use super::{command::CommandOutcome, order::OrderAccount, power::Power, rfc3339};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The wishes for power and restart that were seen, and the last command. It tells what was done, and not whether the host
/// is on. Written by the operator only.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostPowerStatus {
    /// UID of the object: what an earlier one of this name had noted is none of this one's.
    pub uid: String,
    /// `spec.power` as it was at first sight of the host, or as it was last acted on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Power")]
    pub wish: Option<Power>,
    /// `spec.restartToken` as it was at first sight of the host, or as it was last acted on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restart_token: Option<String>,
    /// The last command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<HostCommand>,
}

/// A command to a host, as it was started, and what came of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostCommand {
    /// What is done.
    pub action: HostAction,
    /// Nonce of this attempt.
    pub attempt: String,
    /// How many attempts there were for this wish, with this one.
    #[schemars(range(min = 1, max = 100))]
    pub attempts: i32,
    /// When the attempt was started, by the operator's clock.
    #[serde(with = "rfc3339")]
    #[schemars(schema_with = "rfc3339::schema")]
    pub started_at: i64,
    /// Time after which the command is no longer sent.
    #[serde(with = "rfc3339")]
    #[schemars(schema_with = "rfc3339::schema")]
    pub send_by: i64,
    /// The account that it goes to.
    pub account: OrderAccount,
    /// What came of it. Unset while that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "CommandOutcome")]
    pub outcome: Option<CommandOutcome>,
    /// Whether nothing is done any more to find out what came of it, or to send it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub given_up: bool,
    /// Details, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

// serde passes a reference.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_false(flag: &bool) -> bool {
    !flag
}

impl HostCommand {
    /// Whether it is still to be found out what came of it.
    pub fn is_open(&self) -> bool {
        self.outcome.is_none() && !self.given_up
    }

    /// Whether it certainly was not sent, and still is to be.
    pub fn is_to_be_sent(&self) -> bool {
        self.outcome == Some(CommandOutcome::NotSent) && !self.given_up
    }

    /// Nothing is done any more for it, and why.
    pub fn give_up(&mut self, why: &str) {
        self.given_up = true;
        self.message = Some(why.to_owned());
    }
}

/// What is done to a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum HostAction {
    /// It is switched on.
    Start,
    /// It is switched off.
    Stop,
    /// It is restarted.
    Restart,
}

impl HostAction {
    /// What brings a wish about.
    pub fn of(wish: Power) -> Self {
        match wish {
            Power::On => Self::Start,
            Power::Off => Self::Stop,
        }
    }

    /// Whether it does the same when it is done twice.
    pub fn is_repeatable(self) -> bool {
        self != Self::Restart
    }
}

impl HostPowerStatus {
    /// Of a host that is seen for the first time.
    pub fn new(uid: &str, wish: Option<Power>, restart_token: Option<&str>) -> Self {
        Self {
            uid: uid.to_owned(),
            wish,
            restart_token: restart_token.map(str::to_owned),
            last: None,
        }
    }
}
