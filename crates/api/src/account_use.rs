//! What the status of an account tells of its use: by whom, how much of its quota, and at which rate.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
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

/// What can be ordered, as the last look at the catalogue showed it. The catalogue is looked at while orders wait.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Capacity {
    /// The quotas by location, instance type and contract, the first 20 in this order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20), extend("x-kubernetes-list-type" = "atomic"))]
    pub quotas: Vec<QuotaUse>,
    /// How many quotas there are beside those.
    #[serde(default)]
    pub further_quotas: i32,
    /// How many instance types can be had.
    #[serde(default)]
    pub stock: Stock,
    /// When the catalogue was looked at, as known when this status was last written: a look that changes nothing is not
    /// recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub looked_at: Option<Time>,
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

/// How many pairs of location and instance type are in stock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Stock {
    /// Those of which there are many or some.
    pub available: i32,
    /// Those of which there are few.
    pub low: i32,
    /// Those of which there is none.
    pub unavailable: i32,
}
