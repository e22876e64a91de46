//! What the servers of an account have used, as its status shows it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whether the operator reads what the servers have used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum UsageReading {
    /// Two calls an hour, at the lowest priority.
    Enabled,
    /// No calls.
    Disabled,
}

/// What all servers of the account have used, also those of others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct UsageStatus {
    /// Time at which the usage was read. Unset before the first answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub as_of: Option<Time>,
    /// Why the last read failed. Unset if it succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The current month, in UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_month: Option<MonthUsage>,
    /// The month before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub previous_month: Option<MonthUsage>,
}

/// What the servers have used in one month.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MonthUsage {
    /// The month, for example `2026-11`.
    #[schemars(length(max = 7))]
    pub month: String,
    /// Billed hours of all servers.
    pub hours: i64,
    /// Bytes that left the servers.
    pub egress_bytes: i64,
}
