//! `spec.power` of servers and dedicated hosts: the desired state, and the last command for it.

use super::{
    ServerCommand,
    command::PowerAction,
    kind::{controller, is_ours},
    target::Target,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{OwnerReference, Time};
use kube_core::ResourceExt as _;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The power state that is asked for. YAML reads `On` and `Off` as booleans, so these are other words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum Power {
    /// Powered on.
    PoweredOn,
    /// Powered off at once, without a shutdown of the operating system.
    PoweredOff,
}

impl Power {
    /// The command for this state.
    pub fn action(self) -> PowerAction {
        match self {
            Self::PoweredOn => PowerAction::PowerOn,
            Self::PoweredOff => PowerAction::PowerOff,
        }
    }

    /// The word in names of commands.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::PoweredOn => "on",
            Self::PoweredOff => "off",
        }
    }
}

/// What users read of `spec.power`. It tells what was done, and not whether the server or host is on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PowerStatus {
    /// The last ServerCommand that was created for a change of `spec.power`.
    pub command: PowerCommandStatus,
}

/// The last command for a change of `spec.power`, as the operator records it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PowerRecord {
    /// The target: the UUID of the server, or the number of the dedicated host.
    pub target: String,
    /// `spec.power` at the first observation of the server or host, or when it was last acted on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub desired: Option<Power>,
    /// The last command for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<PowerCommandStatus>,
}

/// A ServerCommand that a change of `spec.power` came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PowerCommandStatus {
    /// Name of the ServerCommand.
    #[schemars(length(max = 253))]
    pub name: String,
    /// Time at which the operator started it.
    pub started_at: Time,
    /// Progress of the ServerCommand.
    pub state: PowerState,
    /// Reason of its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub reason: Option<String>,
}

/// How far a ServerCommand is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum PowerState {
    /// It is about to be created.
    Recorded,
    /// It was created.
    Created,
    /// It was carried out.
    Complete,
    /// It was not, or nobody knows.
    Failed,
    /// It was deleted before its end was seen.
    Deleted,
    /// It was not created within a day, and is not any more.
    NotCreated,
}

impl PowerRecord {
    /// The record of a server or host whose desired state was not known.
    pub fn new(target_id: &str) -> Self {
        Self {
            target: target_id.to_owned(),
            desired: None,
            command: None,
        }
    }

    /// The part that users read.
    pub fn to_status(&self) -> Option<PowerStatus> {
        let command = self.command.clone()?;
        Some(PowerStatus { command })
    }

    /// The command whose end was not seen yet.
    pub fn awaited(&self) -> Option<&PowerCommandStatus> {
        let is_open =
            |c: &&PowerCommandStatus| matches!(c.state, PowerState::Recorded | PowerState::Created);
        self.command.as_ref().filter(is_open)
    }
}

/// Whether a command was created for a change of `spec.power` of the object with this UID.
pub fn is_command_of(uid: Option<&str>, command: &ServerCommand) -> bool {
    let owns = |owner: &OwnerReference| Some(owner.uid.as_str()) == uid;
    command.owner_references().iter().any(owns)
}

/// Whether a command for a change of `spec.power` is no longer the last one of its target: the desired state, or the
/// server or host, has changed since.
pub fn is_overtaken(target: &Target, command: &ServerCommand) -> bool {
    let is_target = |owner: &OwnerReference| is_ours(owner) && owner.kind == target.kind().as_str();
    if !controller(&command.metadata).is_some_and(is_target) {
        return false;
    }
    let is_wanted = target.power_record().is_some_and(|power| {
        let last = power.command.as_ref().map(|last| &last.name);
        target.provider_id().as_ref() == Some(&power.target)
            && power.desired == target.power()
            && last == command.metadata.name.as_ref()
    });
    !(is_command_of(target.meta().uid.as_deref(), command) && is_wanted)
}
