//! Machines of this cluster that no object claims, as an account shows them.

use super::catalog::LONGEST_NAME;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A live machine that no object claims.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Orphan {
    /// The provider's identifier.
    #[schemars(length(max = 36))]
    pub uuid: String,
    /// Host name.
    #[schemars(length(max = LONGEST_NAME))]
    pub hostname: String,
    /// Order tag of the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = LONGEST_NAME))]
    pub order_tag: Option<String>,
    /// Since when it was listed without an object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    /// Where it is.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = LONGEST_NAME))]
    pub location: String,
    /// What type of machine it is.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = LONGEST_NAME))]
    pub instance_type: String,
}
