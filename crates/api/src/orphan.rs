//! Machines of this cluster that no object claims: what an account shows of them, and what becomes of them.

use super::{interval::Interval, timing::Minimum};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube_core::Rule;
use kube_derive::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How long a machine is without an object before it is released by policy, where nothing else is written.
const AFTER: Duration = Duration::from_secs(24 * 3600);
/// The least such time, but for tests and demonstrations.
const LEAST: Duration = Duration::from_secs(3600);

/// What becomes of live machines of this cluster that no object claims.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct OrphanPolicy {
    /// `Report` tells of them: condition, status and event. `Release` does, too, and releases those that stay without an
    /// object. `Off` neither tells of them nor releases any. Default: Report. Mutable.
    #[serde(default)]
    pub mode: OrphanMode,
    /// With `Release`: how long after it was first shown in status.orphans a machine is released, a span such as `24h`,
    /// at most 720h. Minimum 1h, default: 24h. Mutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Interval")]
    #[x_kube(validation = Rule::new("duration(self) > duration('0s') && duration(self) <= duration('720h')").message("orphanPolicy.after must be longer than 0s and at most 720h"))]
    pub after: Option<Interval>,
}

impl OrphanPolicy {
    /// How long after it was first shown a machine is released; None: never.
    pub fn releases_after(self, minimum: Minimum) -> Option<Duration> {
        let after = self.after.map_or(AFTER, |after| after.0);
        match (self.mode, minimum) {
            (OrphanMode::Off | OrphanMode::Report, _) => None,
            (OrphanMode::Release, Minimum::Kept) => Some(after.max(LEAST)),
            (OrphanMode::Release, Minimum::Lifted) => Some(after),
        }
    }
}

/// Whether orphans are told of, and released.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum OrphanMode {
    /// Nothing is said of them.
    Off,
    /// Condition, status and event tell of them.
    #[default]
    Report,
    /// They are told of, and released after a time.
    Release,
}

/// The rule of a policy that releases: a lost set of objects makes an orphan of each machine.
pub(super) fn releases_are_braked() -> Rule {
    Rule::new("!has(self.orphanPolicy) || !has(self.orphanPolicy.mode) || self.orphanPolicy.mode != 'Release' || has(self.releaseBrake)")
        .message("orphanPolicy.mode Release needs releaseBrake: where the objects are lost, each machine is without one")
}

/// A live machine that no object claims.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Orphan {
    /// The provider's identifier.
    pub uuid: String,
    /// Host name.
    pub hostname: String,
    /// Order tag of the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order_tag: Option<String>,
    /// Since when it was listed without an object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    /// Where it is.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub location: String,
    /// What type of machine it is.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub instance_type: String,
    /// A command that makes an object for it: deleting that object releases the machine. Unset where an account of the
    /// cluster shows it, or the machine's own words do not fit into a command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adopt: Option<String>,
    /// A command that asks the operator to release it. Unset while it cannot: the machine is not delivered, an object with
    /// its mark lives, or something keeps it from releasing any, which the condition OrphansFound tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release: Option<String>,
}

/// The release of an orphan that may be under way: until it is over nothing takes the machine on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OrphanRelease {
    /// The provider's identifier of the machine.
    pub uuid: String,
    /// A random word of this attempt.
    pub attempt: String,
    /// A release of it is sent by then, or not at all.
    pub send_by: Time,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_released_that_nobody_asked_for_and_nothing_at_once() {
        let policy = |mode, after: Option<u64>| OrphanPolicy {
            mode,
            after: after.map(Interval::seconds),
        };
        let kept = |mode, after| policy(mode, after).releases_after(Minimum::Kept);
        for mode in [OrphanMode::Off, OrphanMode::Report] {
            assert_eq!(kept(mode, Some(7200)), None);
        }
        let hours = |hours: u64| Some(Duration::from_secs(hours * 3600));
        assert_eq!(kept(OrphanMode::Release, None), hours(24));
        assert_eq!(kept(OrphanMode::Release, Some(7200)), hours(2));
        assert_eq!(kept(OrphanMode::Release, Some(1)), hours(1));
        let lifted = policy(OrphanMode::Release, Some(1)).releases_after(Minimum::Lifted);
        assert_eq!(lifted, Some(Duration::from_secs(1)));
    }
}
