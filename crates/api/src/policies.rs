//! What happens to a server's machine by policy, and who decides: the object, else its account's
//! `spec.defaults`, else the operator. A namespace may say that its servers are suspended, before the account is asked.

use super::interval::{Interval, guarded};
use kube_core::Rule;
use kube_derive::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What happens to the machine when its object is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum DeletionPolicy {
    /// The machine is released; the object stays until the provider shows the release as finished.
    #[default]
    Release,
    /// The machine stays, with a tag that begins with `fmo-retained`.
    Retain,
}

/// Whether anything is done to a machine, or it is only looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum ManagementPolicy {
    /// It is ordered, changed and released as the object says.
    #[default]
    Full,
    /// Nothing is sent for the object: its machine is shown, and stays as it is.
    ObserveOnly,
}

/// What happens when the provider could not deliver a machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum FailurePolicy {
    /// Nothing, but that the object says so.
    #[default]
    Wait,
    /// It is given up, and another one ordered in its place.
    Replace,
}

/// What happens when somebody else released the machine of a living object.
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
    /// Whether anything is done for a server that does not say it, or its machine is only shown: `Full` or `ObserveOnly`.
    /// Default: `Full`. Mutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "ManagementPolicy")]
    pub management_policy: Option<ManagementPolicy>,

    /// What happens to the machine when a server object is deleted that does not say it: `Release` or `Retain`.
    /// Default: `Release`. Mutable; for a server until its release has begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "DeletionPolicy")]
    pub deletion_policy: Option<DeletionPolicy>,

    /// Whether the machine of a deleted server object stays, and the object with it, where the object does not say it.
    /// Default: false. Mutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_protection: Option<bool>,

    /// Whether nothing is ordered or released for a server that does not say it; reading goes on. Default: false. Mutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspend: Option<bool>,

    /// How long the machine of a deleted server object stays before its release begins, where the object does not say it: a
    /// span such as `24h`, at most 720h. Default: 0s. Mutable; for a server until its release has begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Interval")]
    #[x_kube(validation = release_delay_fits())]
    pub release_delay: Option<Interval>,

    /// What happens when the provider could not deliver the machine of a server that does not say it: `Wait` or `Replace`.
    /// Default: `Wait`. Mutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "FailurePolicy")]
    pub failure_policy: Option<FailurePolicy>,

    /// What happens when the machine of a server that does not say it was released outside the operator: `Wait` or
    /// `Reorder`. Default: `Wait`. Mutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "ExternalReleasePolicy")]
    pub external_release_policy: Option<ExternalReleasePolicy>,
}

/// The rule of a delay: about a month, so that nothing is billed for ever by a slip of the pen.
pub(super) fn release_delay_fits() -> Rule {
    Rule::new(guarded("self", "duration(self) <= duration('720h')"))
        .message("releaseDelay must be at most 720h")
}

/// The policies in force.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PoliciesInForce {
    /// Whether anything is done to the machine, or it is only shown: `Full` or `ObserveOnly`.
    pub management_policy: ManagementPolicy,
    /// What happens to the machine when the object is deleted: `Release` or `Retain`.
    pub deletion_policy: DeletionPolicy,
    /// Whether the machine stays when the object is deleted, and the object with it.
    pub deletion_protection: bool,
    /// Whether nothing is ordered or released for the object.
    pub suspend: bool,
    /// How long the machine stays after the object was deleted, before its release begins. Unset: not at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Interval")]
    pub release_delay: Option<Interval>,
    /// What happens when the provider could not deliver the machine: `Wait` or `Replace`.
    pub failure_policy: FailurePolicy,
    /// What happens when the machine was released outside the operator: `Wait` or `Reorder`.
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

    /// These, and the others where these are unset. The operator's own are the default of what is in force.
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

    /// Whether each is set that the end of a machine depends on, so that nobody else is asked. Where nobody says what
    /// happens to a failed machine, nothing happens.
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
    /// Whether the machine stays when its object goes.
    pub fn retain(self) -> bool {
        self.deletion_policy == DeletionPolicy::Retain
    }

    /// Whether a release may begin.
    pub fn allow_release(self) -> bool {
        !self.retain() && !self.deletion_protection && self.let_send()
    }

    /// Whether the machine is only looked at.
    pub fn observe_only(self) -> bool {
        self.management_policy == ManagementPolicy::ObserveOnly
    }

    /// Whether anything may be sent to the provider for the object, but for looks.
    pub fn let_send(self) -> bool {
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
