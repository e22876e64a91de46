//! What happens to a server's machine by policy, and who decides: the object, else its account's
//! `spec.defaults`, else the operator.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What happens to the machine when its object is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum DeletionPolicy {
    /// The machine is released; the object stays until the provider shows the release as finished.
    #[default]
    Release,
    /// The machine stays, tagged `fmo-retained`.
    Retain,
}

/// Policies of a server. Each may be unset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Policies {
    /// What happens to the machine when the server object is deleted: `Release` or `Retain`. Where neither the server
    /// nor its account says it: `Release`. Mutable until the release has begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "DeletionPolicy")]
    pub deletion_policy: Option<DeletionPolicy>,

    /// While true, the machine of a deleted server object stays, and so does the object. Where neither the server nor
    /// its account says it: false. Mutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_protection: Option<bool>,

    /// While true, nothing is ordered or released for a server; reading goes on. Where neither the server nor its
    /// account says it: false. Mutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspend: Option<bool>,
}

impl Policies {
    /// These, and the other's where these are unset.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            deletion_policy: self.deletion_policy.or(other.deletion_policy),
            deletion_protection: self.deletion_protection.or(other.deletion_protection),
            suspend: self.suspend.or(other.suspend),
        }
    }

    /// Whether each is set.
    pub fn are_complete(self) -> bool {
        let Self {
            deletion_policy,
            deletion_protection,
            suspend,
        } = self;
        deletion_policy.is_some() && deletion_protection.is_some() && suspend.is_some()
    }

    /// What is done where the policy is unset everywhere else.
    pub fn of_operator() -> Self {
        Self {
            deletion_policy: Some(DeletionPolicy::default()),
            deletion_protection: Some(false),
            suspend: Some(false),
        }
    }

    /// Whether the machine stays when its object goes.
    pub fn retains(self) -> bool {
        self.deletion_policy.unwrap_or_default() == DeletionPolicy::Retain
    }

    /// Whether the machine may not be released.
    pub fn protects(self) -> bool {
        self.deletion_protection.unwrap_or(false)
    }

    /// Whether nothing is sent.
    pub fn suspends(self) -> bool {
        self.suspend.unwrap_or(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let in_force = object.or(account).or(Policies::of_operator());
        assert!(!object.or(account).are_complete() && in_force.are_complete());
        assert!(in_force.suspends() && in_force.retains() && !in_force.protects());
        assert_eq!(
            object.or(Policies::of_operator()).deletion_policy,
            Some(DeletionPolicy::Release)
        );
    }
}
