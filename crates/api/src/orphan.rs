//! Servers of this cluster that no object owns, as an account reports them.

use super::catalog::LONGEST_NAME;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A live server that no object owns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Orphan {
    /// UUID of the server.
    #[schemars(length(max = 36))]
    pub uuid: String,
    /// Host name of the server.
    #[schemars(length(max = LONGEST_NAME))]
    pub hostname: String,
    /// Order tag of the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = LONGEST_NAME))]
    pub order_tag: Option<String>,
    /// Time since which it has been listed without an object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    /// Location of the server.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = LONGEST_NAME))]
    pub location: String,
    /// Instance type of the server.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = LONGEST_NAME))]
    pub instance_type: String,
}
