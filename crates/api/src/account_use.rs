//! Which objects use an account, and its rate limit, as its status shows them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The objects of one kind that use an account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KindUsers {
    /// Kind of the objects.
    #[schemars(length(max = 64))]
    pub kind: String,
    /// Number of objects of this kind that use the account.
    pub count: i32,
}

/// How many calls to the hosting API the account may make.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CallBudget {
    /// Calls per minute, unless the hosting API asks for fewer.
    pub per_minute: i32,
    /// Calls per minute at present. It is halved when the hosting API refuses a call for its rate, and recovers by
    /// itself.
    pub per_minute_in_force: i32,
}
