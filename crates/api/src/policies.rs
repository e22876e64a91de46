//! The policies of a server: set by the object, else by `spec.defaults` of its account, else by the operator. A
//! namespace may also suspend its servers.

use super::interval::{Interval, guarded};
use kube_core::Rule;
use kube_derive::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What happens to the server when its object is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum DeletionPolicy {
    /// The server is released; the object stays until the provider shows the release as finished.
    #[default]
    Release,
    /// The server stays, with the tag `fmo-retained`.
    Retain,
}

/// Whether the operator changes a server or host, or only reports it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum ManagementPolicy {
    /// It is ordered, changed and released as the object says.
    #[default]
    Full,
    /// Nothing is sent for the object: its server is reported, and stays as it is.
    ObserveOnly,
}

/// What happens when the provider fails to deliver a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum FailurePolicy {
    /// Nothing, but that the object says so.
    #[default]
    Wait,
    /// It is released, and another one is ordered.
    Replace,
}

/// What happens when the server of a living object is released outside of the operator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum ExternalReleasePolicy {
    /// Nothing, but that the object says so.
    #[default]
    Wait,
    /// Another one is ordered in its place.
    Reorder,
}

/// Policies as somebody states them. Each may be unset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Policies {
    /// `managementPolicy` of servers and hosts that do not set it: `Full` or `ObserveOnly`. Default: `Full`. Mutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "ManagementPolicy")]
    pub management_policy: Option<ManagementPolicy>,

    /// `deletionPolicy` of servers that do not set it: `Release` or `Retain`. Default: `Release`. Mutable; for a server
    /// until its release has begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "DeletionPolicy")]
    pub deletion_policy: Option<DeletionPolicy>,

    /// `deletionProtection` of servers that do not set it: if true, deletion is refused or waits, and the server
    /// stays. Default: false. Mutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_protection: Option<bool>,

    /// `suspend` of servers and hosts that do not set it: if true, the operator sends no orders, changes or releases
    /// for them; reads continue. Default: false. Mutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspend: Option<bool>,

    /// `releaseDelay` of servers that do not set it: a duration such as `24h`, at most 720h. Default: 0s. Mutable; for
    /// a server until its release has begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Interval")]
    #[x_kube(validation = release_delay_fits())]
    pub release_delay: Option<Interval>,

    /// `failurePolicy` of servers that do not set it: `Wait` or `Replace`. Default: `Wait`. Mutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "FailurePolicy")]
    pub failure_policy: Option<FailurePolicy>,

    /// `externalReleasePolicy` of servers that do not set it: `Wait` or `Reorder`. Default: `Wait`. Mutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "ExternalReleasePolicy")]
    pub external_release_policy: Option<ExternalReleasePolicy>,
}

/// The rule of a delay: at most about a month, so that a typing error does not bill a server forever.
pub(super) fn release_delay_fits() -> Rule {
    Rule::new(guarded("self", "duration(self) <= duration('720h')"))
        .message("releaseDelay must be at most 720h")
}

/// The policies in force.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PoliciesInForce {
    /// Whether the operator changes the server or only reports it: `Full` or `ObserveOnly`.
    pub management_policy: ManagementPolicy,
    /// What happens to the server when the object is deleted: `Release` or `Retain`.
    pub deletion_policy: DeletionPolicy,
    /// Whether deletion is refused or waits, and the server stays.
    pub deletion_protection: bool,
    /// Whether the operator sends no orders, changes or releases for the object.
    pub suspend: bool,
    /// How long the server stays after the object is deleted, before its release begins. Unset if the release begins at
    /// once.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Interval")]
    pub release_delay: Option<Interval>,
    /// What happens when the provider fails to deliver the server: `Wait` or `Replace`.
    pub failure_policy: FailurePolicy,
    /// What happens when the server is released outside of the operator: `Wait` or `Reorder`.
    pub external_release_policy: ExternalReleasePolicy,
}

impl Policies {
    /// These, and the other's where these are unset.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            management_policy: self.management_policy.or(other.management_policy),
            deletion_policy: self.deletion_policy.or(other.deletion_policy),
            deletion_protection: self.deletion_protection.or(other.deletion_protection),
            suspend: self.suspend.or(other.suspend),
            release_delay: self.release_delay.or(other.release_delay),
            failure_policy: self.failure_policy.or(other.failure_policy),
            external_release_policy: self
                .external_release_policy
                .or(other.external_release_policy),
        }
    }

    /// These, and the others where these are unset. The operator's own policies are the default of `PoliciesInForce`.
    #[must_use]
    pub fn over(self, others: PoliciesInForce) -> PoliciesInForce {
        PoliciesInForce {
            management_policy: self.management_policy.unwrap_or(others.management_policy),
            deletion_policy: self.deletion_policy.unwrap_or(others.deletion_policy),
            deletion_protection: self
                .deletion_protection
                .unwrap_or(others.deletion_protection),
            suspend: self.suspend.unwrap_or(others.suspend),
            release_delay: self.release_delay.or(others.release_delay),
            failure_policy: self.failure_policy.unwrap_or(others.failure_policy),
            external_release_policy: self
                .external_release_policy
                .unwrap_or(others.external_release_policy),
        }
    }

    /// Whether all policies that decide the end of a server are set. A failed server needs none: by default, nothing
    /// happens to it.
    pub fn are_complete(self) -> bool {
        let Self {
            management_policy,
            deletion_policy,
            deletion_protection,
            suspend,
            release_delay,
            failure_policy: _,
            external_release_policy: _,
        } = self;
        management_policy.is_some()
            && deletion_policy.is_some()
            && deletion_protection.is_some()
            && suspend.is_some()
            && release_delay.is_some()
    }
}

impl PoliciesInForce {
    /// Whether the server stays after its object is deleted.
    pub fn retain(self) -> bool {
        self.deletion_policy == DeletionPolicy::Retain
    }

    /// Whether a release may begin.
    pub fn allow_release(self) -> bool {
        !self.retain() && !self.deletion_protection && self.may_send()
    }

    /// Whether the server is only read.
    pub fn observe_only(self) -> bool {
        self.management_policy == ManagementPolicy::ObserveOnly
    }

    /// Whether anything but reads may be sent to the provider for the object.
    pub fn may_send(self) -> bool {
        !self.suspend && !self.observe_only()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delay_of_none_is_a_word_too() {
        let of = |span: &str| Policies {
            release_delay: Some(span.parse().unwrap()),
            ..Policies::default()
        };
        let in_force = |object: Policies| object.or(of("24h")).over(PoliciesInForce::default());
        assert_eq!(
            in_force(Policies::default()).release_delay,
            of("24h").release_delay
        );
        assert_eq!(in_force(of("0s")).release_delay, of("0s").release_delay);
    }

    #[test]
    fn the_nearest_word_counts_for_each_policy_alone() {
        let object = Policies {
            suspend: Some(true),
            ..Policies::default()
        };
        let account = Policies {
            suspend: Some(false),
            deletion_policy: Some(DeletionPolicy::Retain),
            ..Policies::default()
        };
        let in_force = object.or(account).over(PoliciesInForce::default());
        assert!(in_force.suspend && in_force.retain() && !in_force.deletion_protection);
        let own = object.over(PoliciesInForce::default());
        assert_eq!(own.deletion_policy, DeletionPolicy::Release);
        assert!(!object.or(account).are_complete());
        let protected = Policies {
            management_policy: Some(ManagementPolicy::Full),
            deletion_protection: Some(false),
            release_delay: Some(Interval::default()),
            ..Policies::default()
        };
        assert!(object.or(account).or(protected).are_complete());
    }
}
