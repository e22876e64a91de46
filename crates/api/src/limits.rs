//! What may be ordered through an account: by all its users, and by the namespaces of an entry of `allowedNamespaces`.

use super::policies::DeletionPolicy;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Limits on what is ordered. They stop orders, never releases.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Limits {
    /// Maximum number of live servers, including retained ones and open orders. Default: no limit. Mutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1000000))]
    pub max_servers: Option<i32>,
    /// Maximum number of orders within an hour, whatever their outcome. Default: no limit. Mutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1000000))]
    pub max_orders_per_hour: Option<i32>,
    /// Instance types that may be ordered, at most 6. Default: all. Mutable.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 6), inner(length(min = 1, max = 128), regex(pattern = r"^[!-~]+( [!-~]+)*$")), extend("x-kubernetes-list-type" = "set"))]
    pub instance_types: Vec<String>,
    /// Locations at which servers may be ordered, at most 6. Default: all. Mutable.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 6), inner(length(min = 1, max = 128), regex(pattern = r"^[!-~]+( [!-~]+)*$")), extend("x-kubernetes-list-type" = "set"))]
    pub locations: Vec<String>,
    /// Contracts that servers may use, at most 4. If set, each server must name one of them. Default: any contract, or
    /// none. Mutable.
    #[serde(default, rename = "contractIDs", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 4), inner(length(min = 1, max = 240), regex(pattern = r"^[A-Z0-9_.-]+$")), extend("x-kubernetes-list-type" = "set"))]
    pub contract_ids: Vec<String>,
    /// Whether a server may set `overflow: true`. Default: true. Mutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_overflow: Option<bool>,
    /// Deletion policies that a server may have: `Release`, `Retain`. Without `Retain` no server is retained. Default:
    /// both. Mutable.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 2), extend("x-kubernetes-list-type" = "set"))]
    pub deletion_policies: Vec<DeletionPolicy>,
}

impl Limits {
    /// Whether a server may have this deletion policy.
    pub fn allows_policy(&self, policy: DeletionPolicy) -> bool {
        self.deletion_policies.is_empty() || self.deletion_policies.contains(&policy)
    }

    /// Whether a limit counts servers or orders.
    pub fn has_counters(&self) -> bool {
        self.max_servers.is_some() || self.max_orders_per_hour.is_some()
    }
}
