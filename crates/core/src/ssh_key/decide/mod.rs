//! Decides what to do for an SshKey from its facts, without I/O, clock or randomness.

mod deletion;
mod storage;
#[cfg(test)]
pub(crate) mod tests;

use super::facts::SshKeyFacts;
use crate::{
    account::{
        priority::Priority,
        view::{AccountState, AccountView, ListKind},
    },
    explanation::Explanation,
    public_key::Fingerprint,
    read_only::Effect,
    reconcile::{self, ReadSource},
    resolved_account::ResolvedAccount,
};
use api::{
    Reason, conditions,
    ssh_key::{SshKeyStatus, StoredKeyAnnotation},
};
use std::time::Duration;

/// A decision about an SshKey.
pub type SshKeyDecision = reconcile::Decision<SshKeyStatus, SshKeyEffect>;

/// What a decision asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SshKeyEffect {
    /// Store the key at the provider.
    Store(Box<NewKey>),
    /// Add the finalizer.
    AddFinalizer,
    /// Delete a key that this object stored.
    Delete {
        /// The provider's identifier.
        uuid: String,
    },
    /// Remove the finalizer.
    RemoveFinalizer,
}

impl Effect for SshKeyEffect {
    fn change(&self) -> Option<String> {
        Some(match self {
            Self::Store(new) => format!("store the key as {:?}", new.name),
            Self::AddFinalizer => "write metadata of this object".to_owned(),
            Self::Delete { uuid } => format!("delete stored key {uuid}"),
            Self::RemoveFinalizer => "remove the finalizer, which ends this object".to_owned(),
        })
    }
}

/// A key to be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewKey {
    /// Its name at the provider.
    pub name: String,
    /// The key text to send.
    pub line: String,
    /// Its fingerprint.
    pub key: Fingerprint,
    /// Start of the list that did not contain it.
    pub listed_at: Duration,
    /// The annotation that the object must have before. None if it has it.
    pub annotation: Option<StoredKeyAnnotation>,
}

/// Extra requeue delay after the next list, which itself enqueues the object.
const SLACK: Duration = Duration::from_secs(60);
/// Shortest requeue delay while a call of this process is in progress.
const SHORTLY: Duration = Duration::from_secs(1);

/// Decides what to do for one object.
pub fn decide(facts: &SshKeyFacts) -> SshKeyDecision {
    let (subject, list) = (&facts.subject, ListKind::SshKeys);
    match subject.is_deleting() {
        true => deletion::decide_deletion(facts).block_change(subject, Some(list)),
        false => storage::reconcile_key(facts)
            .block_change(subject, Some(list))
            .answering(subject, || ReadSource::List(list)),
    }
}

/// The unchanged status with this explanation.
fn wait_with_reason(facts: &SshKeyFacts, explanation: Explanation) -> SshKeyDecision {
    let subject = &facts.subject;
    let is_new = conditions::is_new(&subject.status().conditions);
    let decision = SshKeyDecision::unchanged(subject);
    // Saves a status update for a new object that is pending only briefly.
    let age = subject
        .now
        .mono
        .saturating_sub(subject.observations_count_from());
    let is_early = !Explanation::time_until_first_status(age).is_zero();
    if is_new && is_early && explanation.reason == Reason::Pending {
        return decision;
    }
    decision.because(explanation)
}

/// Waits for a list that begins at or after this moment. Status changes only if lists fail.
fn waiting(facts: &SshKeyFacts, view: &AccountView, not_before: Duration) -> SshKeyDecision {
    let decision = match &view.last_error {
        Some((reason, message)) if !facts.is_reported_ready() => {
            wait_with_reason(facts, Explanation::waits(*reason, message.clone()))
        }
        _ => SshKeyDecision::unchanged(&facts.subject),
    };
    decision
        .wanting(ListKind::SshKeys, not_before)
        .requeue_after(view.times.active_poll_interval)
}

/// Whether the account exists and is only blocked. A ready object keeps its status then.
fn is_only_blocked(facts: &SshKeyFacts) -> bool {
    matches!(
        &facts.subject.account,
        ResolvedAccount::Found { view, .. } if matches!(view.state, AccountState::Blocked(..))
    )
}

/// Priority and number of calls of an effect.
pub fn permit_for(effect: &SshKeyEffect) -> Option<(Priority, u32)> {
    match effect {
        SshKeyEffect::Store(_) => Some((Priority::Change, 1)),
        SshKeyEffect::Delete { .. } => Some((Priority::Change, 2)),
        SshKeyEffect::AddFinalizer | SshKeyEffect::RemoveFinalizer => None,
    }
}
