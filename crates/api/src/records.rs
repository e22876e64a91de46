//! `status.records`: the operator's own records. The schema is open, so that an older definition does not prune what a
//! newer operator wrote.

use super::{
    account::KnownServer,
    command::{CommandRecord, CommandTarget},
    host_install::HostInstallHistory,
    install::InstallHistory,
    lifetime::ExpiryWarning,
    order::OrderRecord,
    outputs::OutputRecord,
    power::PowerRecord,
    rfc3339,
    root_password::RootPasswordRecord,
};
use schemars::{Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// Most bytes of the records of a ServerCommand; other kinds with few texts have smaller ones. Tests of sizes rely on
/// it, as the schema is open.
pub const LARGEST_RECORDS: usize = 20 * 1024;

/// The records of a server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServerRecords {
    /// The last order, and its outcome once that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<OrderRecord>,
    /// The release that has begun.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub release: Option<ReleaseRecord>,
    /// Tags that this object added to its server, or sent with its order; at most 60, sorted. Tags here that are no
    /// longer in `spec.tags` are removed. An adopted server starts with none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// The last change of `spec.power`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power: Option<PowerRecord>,
    /// The re-installations of the server, and which revision of `spec.install` counts as performed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub install: Option<InstallHistory>,
    /// The root password of the last installation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root_password: Option<RootPasswordRecord>,
    /// ConfigMaps and Secrets that were or may have been created for the object, with our finalizer; at most 16.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub outputs: Vec<OutputRecord>,
    /// The last warning of `spec.expiresAt`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expiry_warning: Option<ExpiryWarning>,
}

/// A release that has begun: `deletionPolicy: Retain` has no effect from here on. It counts only for this object's UID,
/// not after a restore, and only for this server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReleaseRecord {
    /// UID of the object that releases.
    pub uid: String,
    /// UUID of the server that is released.
    pub server: String,
    /// Time after which no release is sent until this record is renewed.
    #[serde(with = "rfc3339")]
    pub send_by: i64,
    /// Whether the object was being deleted. A release that replaces a failed server does not count for a later
    /// deletion.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deleting: bool,
}

/// The records of a dedicated host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HostRecords {
    /// ID of the account in which the host was last known to be the same.
    #[serde(rename = "accountID", skip_serializing_if = "Option::is_none")]
    pub account_id: Option<String>,
    /// The last change of `spec.power`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power: Option<PowerRecord>,
    /// The installations of the host, and which revision of `spec.install` counts as performed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub install: Option<HostInstallHistory>,
}

/// The records of a command.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CommandRecords {
    /// The target as it was first seen. If the target is another one later, nothing is sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<CommandTarget>,
    /// The sent commands: at most two, a `Shutdown` and the `PowerOff` after it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sent: Vec<CommandRecord>,
}

/// The records of an SSH key.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SshKeyRecords {
    /// ID of the account that stores the key (`status.accountID` there). Another account does not have it.
    #[serde(rename = "accountID", skip_serializing_if = "Option::is_none")]
    pub account_id: Option<String>,
}

/// The records of an account.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AccountRecords {
    /// Up to three servers that identify the account. A list with one of them is of this account and complete.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub known_servers: Vec<KnownServer>,
}

/// The schema of records: any object.
pub(super) fn schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": true,
    })
}

/// The schema of the records of a server: any object, in which the rules of the spec can read the outcome of the order.
pub(super) fn schema_of_server(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": true,
        "properties": {
            "order": {
                "description": "The last order.",
                "type": "object",
                "x-kubernetes-preserve-unknown-fields": true,
                "properties": {
                    "outcome": {
                        "description": "Outcome of the order. Unset while it is not known.",
                        "type": "string",
                        "maxLength": 64,
                    },
                },
            },
        },
    })
}

/// An unset value is not written, and the schema has no default for it.
pub(super) fn is_unset<T: Default + PartialEq>(part: &T) -> bool {
    *part == T::default()
}
