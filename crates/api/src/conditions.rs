//! Conditions in the form that kstatus, `kubectl wait` and GitOps tools read.

use super::Reason;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// The condition types that this project writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Type {
    /// Usable and as declared.
    Ready,
    /// Work is under way (True: not ready yet).
    Reconciling,
    /// A person is needed (True: bad).
    Stalled,
    /// The last exchange with the provider worked and nothing is left to send.
    Synced,
    /// The provider accepts the account's key.
    KeyAccepted,
    /// Another key in the Secret than the one in use is accepted; only while there is one, or calls with a former key end.
    CandidateAccepted,
    /// Marked machines without an object exist (True: bad).
    OrphansFound,
    /// The release limit of the account holds releases (True: bad).
    ReleasesHeld,
    /// The operator's own addresses are admitted by the whitelist, and stay so.
    SelfCovered,
    /// The root password of a Windows machine is stored, or was.
    RootPasswordStored,
    /// A command was carried out, as a Job says it.
    Complete,
    /// A command was not carried out, or nobody knows (True: bad).
    Failed,
    /// The machine is installed with what the spec says.
    InstallUpToDate,
}

impl Type {
    /// The name as it appears in manifests.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "Ready",
            Self::Reconciling => "Reconciling",
            Self::Stalled => "Stalled",
            Self::Synced => "Synced",
            Self::KeyAccepted => "KeyAccepted",
            Self::CandidateAccepted => "CandidateAccepted",
            Self::OrphansFound => "OrphansFound",
            Self::ReleasesHeld => "ReleasesHeld",
            Self::SelfCovered => "SelfCovered",
            Self::RootPasswordStored => "RootPasswordStored",
            Self::Complete => "Complete",
            Self::Failed => "Failed",
            Self::InstallUpToDate => "InstallUpToDate",
        }
    }
}

/// A condition as decided: without times, which are set when it is written.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Wanted {
    /// Which condition.
    pub kind: Type,
    /// True, False, or None for Unknown.
    pub status: Option<bool>,
    /// Why.
    pub reason: Reason,
    /// For people: the cause, and the remedy where there is one.
    pub message: String,
}

impl Wanted {
    /// A condition that is True or False.
    pub fn new(kind: Type, status: bool, reason: Reason, message: impl Into<String>) -> Self {
        Self {
            kind,
            status: Some(status),
            reason,
            message: message.into(),
        }
    }

    /// The status as text.
    pub const fn status_word(&self) -> &'static str {
        match self.status {
            Some(true) => "True",
            Some(false) => "False",
            None => "Unknown",
        }
    }
}

/// Merges wanted conditions into the existing ones: the transition time changes only with the status,
/// and types that are not wanted stay as they are. Returns the list in the order of `wanted`, others last.
pub fn merge(
    existing: &[Condition],
    wanted: &[Wanted],
    generation: Option<i64>,
    now: Timestamp,
) -> Vec<Condition> {
    let mut merged: Vec<Condition> = wanted
        .iter()
        .map(|w| {
            let before = existing.iter().find(|c| c.type_ == w.kind.as_str());
            let last_transition_time = match before {
                Some(c) if c.status == w.status_word() => c.last_transition_time.clone(),
                _ => Time(now),
            };
            Condition {
                type_: w.kind.as_str().into(),
                status: w.status_word().into(),
                reason: w.reason.as_str().into(),
                message: w.message.clone(),
                observed_generation: generation,
                last_transition_time,
            }
        })
        .collect();
    for other in existing {
        if !merged.iter().any(|c| c.type_ == other.type_) {
            merged.push(other.clone());
        }
    }
    merged
}

/// Whether a condition of this type is True in the list.
pub fn is_true(conditions: &[Condition], kind: Type) -> bool {
    found_true(conditions, kind).is_some()
}

/// The condition of a type, where it is true.
pub fn found_true(conditions: &[Condition], kind: Type) -> Option<&Condition> {
    conditions
        .iter()
        .find(|c| c.type_ == kind.as_str() && c.status == "True")
}
