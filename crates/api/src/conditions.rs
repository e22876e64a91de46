//! Conditions in the form that kstatus, `kubectl wait` and GitOps tools read.

use super::{Reason, bounds::cut_message};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// The condition types that this project writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Type {
    /// Usable and as declared.
    Ready,
    /// Work is under way (True: not ready yet).
    Reconciling,
    /// A user must act (True: bad).
    Stalled,
    /// The last exchange with the provider succeeded and nothing is left to send.
    Synced,
    /// A user suspended the object (`suspend`, its own or its account's). Absent until first True.
    Suspended,
    /// The object is being deleted, and the deletion is blocked (True: bad). Absent until first True.
    DeletionBlocked,
    /// The provider accepts the account's key.
    KeyAccepted,
    /// The candidate key in the Secret is accepted; only while there is one, or calls with the previous key end.
    CandidateAccepted,
    /// Servers with our tags but without an object exist (True: bad).
    OrphansFound,
    /// The release limit of the account blocks releases (True: bad).
    ReleaseLimitReached,
    /// The whitelist admits the operator's own addresses, and will do so after all steps.
    EgressCovered,
    /// The root password of a Windows server is stored, or was.
    RootPasswordStored,
    /// A command was carried out, as for a Job.
    Complete,
    /// A command was not carried out, or its outcome is unknown (True: bad).
    Failed,
    /// The server is installed with what the spec says.
    InstallUpToDate,
}

impl Type {
    /// Types that tools read together with `status.observedGeneration`: they are about that generation.
    pub const WITH_OBSERVED_GENERATION: [Self; 4] =
        [Self::Ready, Self::Reconciling, Self::Stalled, Self::Synced];

    /// Every type, in the order in which conditions are shown.
    pub const ALL: [Self; 15] = [
        Self::Ready,
        Self::Reconciling,
        Self::Stalled,
        Self::Synced,
        Self::Suspended,
        Self::DeletionBlocked,
        Self::KeyAccepted,
        Self::CandidateAccepted,
        Self::OrphansFound,
        Self::ReleaseLimitReached,
        Self::EgressCovered,
        Self::RootPasswordStored,
        Self::Complete,
        Self::Failed,
        Self::InstallUpToDate,
    ];

    /// The name as it appears in manifests.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "Ready",
            Self::Reconciling => "Reconciling",
            Self::Stalled => "Stalled",
            Self::Synced => "Synced",
            Self::Suspended => "Suspended",
            Self::DeletionBlocked => "DeletionBlocked",
            Self::KeyAccepted => "KeyAccepted",
            Self::CandidateAccepted => "CandidateAccepted",
            Self::OrphansFound => "OrphansFound",
            Self::ReleaseLimitReached => "ReleaseLimitReached",
            Self::EgressCovered => "EgressCovered",
            Self::RootPasswordStored => "RootPasswordStored",
            Self::Complete => "Complete",
            Self::Failed => "Failed",
            Self::InstallUpToDate => "InstallUpToDate",
        }
    }
}

/// A condition as decided, without times, which are set when it is written.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DesiredCondition {
    /// Which condition.
    pub kind: Type,
    /// True, False, or None for Unknown.
    pub status: Option<bool>,
    /// Why.
    pub reason: Reason,
    /// For users: the explanation, and the remedy if there is one.
    pub message: String,
}

impl DesiredCondition {
    /// A condition that is True or False.
    pub fn new(kind: Type, status: bool, reason: Reason, message: impl Into<String>) -> Self {
        Self {
            kind,
            status: Some(status),
            reason,
            message: message.into(),
        }
    }

    /// A condition that exists from the first time that it is True: True with this reason, else False. None: it never
    /// was True.
    pub fn flag(kind: Type, why: Option<(Reason, String)>, before: &[Condition]) -> Option<Self> {
        if let Some((reason, message)) = why {
            return Some(Self::new(kind, true, reason, message));
        }
        let is_shown = before.iter().any(|c| c.type_ == kind.as_str());
        is_shown.then(|| Self::new(kind, false, Reason::InSync, ""))
    }

    /// The current condition of a type, to be written again; None: it is absent or has an unknown reason.
    pub fn find_existing(kind: Type, before: &[Condition]) -> Option<Self> {
        let found = before.iter().find(|c| c.type_ == kind.as_str())?;
        Some(Self {
            kind,
            status: match found.status.as_str() {
                "True" => Some(true),
                "False" => Some(false),
                _ => None,
            },
            reason: Reason::parse(&found.reason)?,
            message: found.message.clone(),
        })
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

/// The generations that the conditions of an object are about.
#[derive(Clone, Copy, Debug, Default)]
pub struct Generations {
    /// The generation of the status, for [`Type::WITH_OBSERVED_GENERATION`].
    pub observed: Option<i64>,
    /// The current generation, for the other types.
    pub current: Option<i64>,
}

impl Generations {
    /// Status has observed the current generation.
    pub fn same(generation: Option<i64>) -> Self {
        Self {
            observed: generation,
            current: generation,
        }
    }
}

/// Merges wanted conditions into the existing ones: the transition time changes only with the status, and other types
/// stay. The list is in the order of [`Type`], unknown types last, so the same conditions are always written the same.
pub fn merge(
    existing: &[Condition],
    wanted: &[DesiredCondition],
    generations: Generations,
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
                // Compares the cut message, as it is stored.
                message: cut_message(&w.message),
                observed_generation: match Type::WITH_OBSERVED_GENERATION.contains(&w.kind) {
                    true => generations.observed,
                    false => generations.current,
                },
                last_transition_time,
            }
        })
        .collect();
    for other in existing {
        if !merged.iter().any(|c| c.type_ == other.type_) {
            merged.push(other.clone());
        }
    }
    merged.sort_by_key(|c| {
        Type::ALL
            .iter()
            .position(|t| t.as_str() == c.type_)
            .unwrap_or(usize::MAX)
    });
    merged
}

/// The condition of a type.
pub fn find_condition(conditions: &[Condition], kind: Type) -> Option<&Condition> {
    conditions.iter().find(|c| c.type_ == kind.as_str())
}

/// Whether the object has no condition Ready yet, or only the reason Queued.
pub fn is_new(conditions: &[Condition]) -> bool {
    find_condition(conditions, Type::Ready).is_none_or(|it| it.reason == Reason::Queued.as_str())
}

/// Whether a condition of this type is True in the list.
pub fn is_true(conditions: &[Condition], kind: Type) -> bool {
    found_true(conditions, kind).is_some()
}

/// The condition of a type, if it is True.
pub fn found_true(conditions: &[Condition], kind: Type) -> Option<&Condition> {
    find_condition(conditions, kind).filter(|c| c.status == "True")
}
