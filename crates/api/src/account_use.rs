//! What the status of an account tells of its use: by whom, how much of its quota, and at which rate.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The objects of one kind that use an account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KindUsers {
    /// The kind.
    pub kind: String,
    /// How many objects of it use the account.
    pub count: i32,
}

/// How many calls to the hosting API the account may make.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CallBudget {
    /// Calls a minute, while the hosting API does not ask for fewer.
    pub per_minute: i32,
    /// Calls a minute at present. It is halved when the hosting API refuses a call for its rate, and recovers by itself.
    pub in_force: i32,
}

/// How many servers may be ordered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Capacity {
    /// The quotas by location, instance type and contract, the first 20 in this order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20), extend("x-kubernetes-list-type" = "atomic"))]
    pub quotas: Vec<QuotaUse>,
    /// Number of quotas that are left out.
    pub omitted: i32,
}

/// One quota.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QuotaUse {
    /// The location.
    pub location: String,
    /// The instance type.
    pub instance_type: String,
    /// The contract that pays. Unset: on demand.
    #[serde(
        default,
        rename = "contractID",
        skip_serializing_if = "Option::is_none"
    )]
    pub contract_id: Option<String>,
    /// How many servers the provider allows. Unset where it does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<i32>,
    /// How many there are. Unset where the provider does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<i32>,
}
