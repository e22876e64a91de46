//! `spec.install` of servers and dedicated hosts, and the re-installations of a server. Only a higher `revision` wipes
//! a disk, once per number; the first revision that the operator sees counts as performed.

use super::{
    command::{CommandOutcome, ListedCommands},
    order::OrderAccount,
    rfc3339,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube_core::{Reason, Rule};
use kube_derive::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, ops::Not};

/// The rule of a spec: an installation has the fields that it needs. `what`: the content of the field.
pub(super) fn installs_with(field: &str, what: &str) -> Rule {
    Rule::new(format!("!has(self.install) || has(self.{field})"))
        .message(&*format!(
            "{field} is required with install; set {field} to {what}"
        ))
        .field_path(format!(".{field}"))
        .reason(Reason::FieldValueRequired)
}

/// The consent to an installation, and how it begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Install {
    /// Number of the installation. A number higher than `status.install.revision` installs the system once, with the
    /// spec as it is then: **all data is lost**. The number that is set when a server is first seen as delivered, or a
    /// host is first seen, counts as performed. From 0 to 2147483647. Required. Mutable; a lower number does nothing.
    #[schemars(range(min = 0, max = 2_147_483_647), extend("format" = "int32"))]
    pub revision: i64,
    /// Whether the disks are wiped first; for a host this is the provider's quick format. The data is lost either way.
    /// Default: true. Mutable; takes effect at the next installation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wipe_disk: Option<bool>,
}

impl Install {
    /// Whether the whole disk is wiped.
    pub fn wipes_disk(self) -> bool {
        self.wipe_disk.unwrap_or(true)
    }
}

/// What users read of the re-installations of a server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServerInstallStatus {
    /// The highest `spec.install.revision` that counts as performed.
    #[schemars(extend("format" = "int32"))]
    pub revision: i64,
    /// The last installation. Unset before a revision asked for the first one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<LastReinstall>,
}

/// The last re-installation of a server, and what came of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LastReinstall {
    /// What a host has, too.
    #[serde(flatten)]
    pub install: LastInstall,
    /// The provider's ID of the command that installs the server. Unset until it is known.
    #[serde(default, rename = "commandID", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 36))]
    pub command_id: Option<String>,
    /// The provider's state of that command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub provider_state: Option<String>,
}

/// The last installation of a server or host, and what came of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LastInstall {
    /// The `spec.install.revision` that asked for the installation.
    #[schemars(extend("format" = "int32"))]
    pub revision: i64,
    /// Time at which the operator started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    /// Outcome of the request: `Accepted` or `Refused` by the provider, or `NotSent`. Unset while it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "CommandOutcome")]
    pub outcome: Option<CommandOutcome>,
    /// How the installation ended. Unset until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "InstallEnd")]
    pub result: Option<InstallEnd>,
    /// Time at which the operator saw that it had ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Time>,
    /// Why the installation failed, was refused or was not sent, in the provider's words if there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub message: Option<String>,
}

/// The re-installations of a server, as the operator records them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InstallHistory {
    /// UID of the object: a record of a previous object of this name does not count.
    #[serde(default)]
    pub uid: String,
    /// UUID of the server.
    pub server: String,
    /// The highest `spec.install.revision` that counts as performed.
    pub revision: i64,
    /// When the server was delivered, by the provider's clock: each later installation must be known.
    #[serde(with = "rfc3339")]
    pub since: i64,
    /// Hashes of what the last finished re-installation sent, as in the record of the order. Unset before the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub installed: Option<BTreeMap<String, String>>,
    /// That re-installation. A later one may have failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished: Option<FinishedInstall>,
    /// The last re-installation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<InstallRecord>,
}

impl InstallHistory {
    /// The history of a server that is seen for the first time.
    pub fn new(uid: &str, server: &str, revision: i64, since: i64) -> Self {
        Self {
            uid: uid.to_owned(),
            server: server.to_owned(),
            revision,
            since,
            installed: None,
            finished: None,
            last: None,
        }
    }

    /// The highest revision that was or may have been performed. It is never sent again.
    pub fn performed(&self) -> i64 {
        let last = self.last.as_ref().filter(|last| last.may_be_sent());
        last.map_or(self.revision, |last| {
            self.revision.max(last.intent.revision)
        })
    }

    /// The part that users read.
    pub fn to_status(&self) -> ServerInstallStatus {
        ServerInstallStatus {
            revision: self.revision,
            last: self.last.as_ref().map(LastReinstall::from),
        }
    }

    /// The re-installation whose end was not seen yet.
    pub fn unfinished(&self) -> Option<&InstallRecord> {
        self.last.as_ref().filter(|last| last.is_open())
    }
}

/// A finished re-installation.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FinishedInstall {
    /// Its revision.
    pub revision: i64,
    /// When the end was seen, by the operator's clock.
    #[serde(with = "rfc3339")]
    pub at: i64,
}

/// One re-installation as it was started, and its outcome.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InstallRecord {
    /// The intent.
    #[serde(flatten)]
    pub intent: InstallIntent,
    /// The outcome, from the answer. Unset while there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<CommandOutcome>,
    /// The provider's ID of its command.
    #[serde(default, rename = "commandID", skip_serializing_if = "Option::is_none")]
    pub command_id: Option<String>,
    /// The provider's state of that command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// How the installation ended. Unset until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<InstallEnd>,
    /// When the end was seen, by the operator's clock.
    #[serde(
        default,
        with = "rfc3339::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub ended_at: Option<i64>,
    /// Details of the end, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl From<&InstallRecord> for LastReinstall {
    fn from(record: &InstallRecord) -> Self {
        Self {
            install: LastInstall {
                revision: record.intent.revision,
                started_at: rfc3339::time(record.intent.started_at),
                outcome: record.outcome,
                result: record.end,
                ended_at: record.ended_at.and_then(rfc3339::time),
                message: record.message.clone(),
            },
            command_id: record.command_id.clone(),
            provider_state: record.state.clone(),
        }
    }
}

impl InstallRecord {
    /// A re-installation without a known outcome.
    pub fn unfinished(intent: InstallIntent) -> Self {
        Self {
            intent,
            outcome: None,
            command_id: None,
            state: None,
            end: None,
            ended_at: None,
            message: None,
        }
    }

    /// Whether its end was not seen yet.
    pub fn is_open(&self) -> bool {
        self.end.is_none() && self.may_be_sent()
    }

    /// Whether the provider accepted it, or shows its command.
    pub fn is_taken(&self) -> bool {
        self.outcome == Some(CommandOutcome::Accepted) || self.command_id.is_some()
    }

    /// Whether the request was, or may have been, sent.
    pub fn may_be_sent(&self) -> bool {
        self.outcome != Some(CommandOutcome::NotSent)
    }
}

/// The intent to re-install a server, written to status before the request is sent.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InstallIntent {
    /// UID of the object: a restored object has sent nothing.
    pub uid: String,
    /// UUID of the server.
    pub server: String,
    /// The `spec.install.revision` that requests it.
    pub revision: i64,
    /// Whether the whole disk is wiped first.
    pub wipe_disk: bool,
    /// Nonce of this attempt.
    pub attempt: String,
    /// When the attempt was started.
    #[serde(with = "rfc3339")]
    pub started_at: i64,
    /// Time after which the request is no longer sent.
    #[serde(with = "rfc3339")]
    pub send_by: i64,
    /// The account that gets the request.
    pub account: OrderAccount,
    /// The re-installations of the server that were listed right before: any other is newer.
    pub listed: ListedCommands,
    /// Hashes of what is sent and the provider does not return, as in the record of the order.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sent: BTreeMap<String, String>,
    /// UIDs of the SshKey objects whose keys are sent, as read right before.
    #[serde(default, rename = "keyUIDs", skip_serializing_if = "Vec::is_empty")]
    pub key_uids: Vec<String>,
    /// Whether one of its texts came from a Secret or ConfigMap.
    #[serde(default, skip_serializing_if = "Not::not")]
    pub secret_texts: bool,
}

/// How a re-installation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum InstallEnd {
    /// The system is installed with what was sent.
    Finished,
    /// The provider says that it failed.
    Failed,
    /// The provider refused it: nothing changed.
    Refused,
    /// It is not known whether it took place, or how it ended.
    Unknown,
    /// Another one was asked for when this one had not ended within its time.
    TimedOut,
    /// It was not sent: somebody else, or an operator whose record is lost, had installed the server again.
    NotRepeated,
}
