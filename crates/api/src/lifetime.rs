//! How long a delivery may take, how often a server is ordered again, and when it expires.

use super::interval::{Interval, from_to};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube_core::Rule;
use kube_derive::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How long a delivery may take, and how often a server is ordered again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Provisioning {
    /// How long a delivery may take before the object reports that you must act: a duration such as `90m`, from 1m to
    /// 24h. The server stays ordered, and the object becomes ready if it is delivered later. Default: 45m. Mutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Interval")]
    #[x_kube(validation = Rule::new(from_to("1m", "24h")).message("provisioning.timeout must be from 1m to 24h"))]
    pub timeout: Option<Interval>,

    /// Maximum number of servers in a row, including the first one, that `failurePolicy: Replace` and
    /// `externalReleasePolicy: Reorder` may order. The count starts again once a server has been delivered for a day.
    /// From 1 to 10. Default: 2. Mutable; a higher number allows another order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10))]
    pub max_attempts: Option<i32>,
}

impl Provisioning {
    const TIMEOUT: Interval = Interval(Duration::from_secs(2700));
    const MAX_ATTEMPTS: i32 = 2;

    /// How long a delivery may take.
    pub fn timeout(self) -> Interval {
        self.timeout.unwrap_or(Self::TIMEOUT)
    }

    /// Most servers in a row.
    pub fn max_attempts(self) -> usize {
        let most = self.max_attempts.unwrap_or(Self::MAX_ATTEMPTS);
        usize::try_from(most).unwrap_or(1)
    }
}

/// A server that another one was ordered for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Replaced {
    /// UUID of the server.
    #[schemars(length(max = 36))]
    pub uuid: String,
    /// The provider's state of the server at that time: `failed`, `releasing` or `released`.
    #[schemars(length(max = 64))]
    pub provider_status: String,
    /// Location of the server.
    #[schemars(length(max = 64))]
    pub location: String,
    /// Instance type of the server.
    #[schemars(length(max = 64))]
    pub instance_type: String,
    /// Time at which the operator recorded the server here.
    pub recorded_at: Time,
}

/// How long before the expiry users were warned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ExpiryWarning {
    /// At most a day.
    Day,
    /// At most an hour.
    Hour,
}

/// The rule of a spec with `externalID`: no server is ordered, so none is replaced.
pub(super) fn named_is_not_replaced() -> Rule {
    let is = |field: &str, word: &str| format!("has(self.{field}) && self.{field} == '{word}'");
    let replaces = is("failurePolicy", "Replace");
    let reorders = is("externalReleasePolicy", "Reorder");
    Rule::new(format!(
        "!has(self.externalID) || !(({replaces}) || ({reorders}))"
    ))
    .message("failurePolicy: Replace and externalReleasePolicy: Reorder may not be set with externalID; remove them")
}
