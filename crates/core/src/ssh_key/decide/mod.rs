//! The decision: facts in, one decision out. No I/O, no clock, no randomness.
//!
//! A living object keeps its key stored, `keep`; one that is being deleted lets go of it, `end`.

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
    pass::{self, ReadSource},
    public_key::Fingerprint,
    resolved_account::ResolvedAccount,
};
use api::{
    Reason, conditions,
    ssh_key::{SshKeyStatus, StoredKeyAnnotation},
};
use std::time::Duration;

/// What to say, what to do, when to look again.
pub type SshKeyDecision = pass::Decision<SshKeyStatus, SshKeyEffect>;

/// An effect. Each is carried out by one arm of `act`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SshKeyEffect {
    /// Store the key, once.
    Store(Box<NewKey>),
    /// Put our finalizer on.
    AddFinalizer,
    /// Delete a key that this object stored.
    Delete {
        /// Which.
        uuid: String,
    },
    /// Take our finalizer off: the end.
    RemoveFinalizer,
}

/// A key to be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewKey {
    /// Its name at the provider.
    pub name: String,
    /// The text.
    pub line: String,
    /// What it is.
    pub key: Fingerprint,
    /// Start of the look that did not show it.
    pub listed_at: Duration,
    /// What has to stand on the object before; None: it does.
    pub annotation: Option<StoredKeyAnnotation>,
}

/// Longest sleep beyond the next look, which wakes the object.
const SLACK: Duration = Duration::from_secs(60);
/// Pause while something of this process is not known yet, or under way.
const SHORTLY: Duration = Duration::from_secs(1);

/// Decides what to do for one object.
pub fn decide(facts: &SshKeyFacts) -> SshKeyDecision {
    match facts.subject.is_deleting() {
        true => deletion::decide_deletion(facts),
        false => storage::reconcile_key(facts)
            .answering(&facts.subject, || ReadSource::List(ListKind::SshKeys)),
    }
}

/// The status as it is, with this cause.
fn wait_with_reason(facts: &SshKeyFacts, cause: Explanation) -> SshKeyDecision {
    let subject = &facts.subject;
    let is_new = conditions::is_new(&subject.status().conditions);
    let decision = SshKeyDecision::unchanged(subject);
    // The first steps of a new object are not worth a write.
    let age = subject.now.mono.saturating_sub(subject.since());
    let is_early = !Explanation::queued_after(age).is_zero();
    if is_new && is_early && cause.reason == Reason::Pending {
        return decision;
    }
    decision.because(cause)
}

/// Waits for a look that starts at or after this moment. Nothing is said, unless looks fail.
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

/// Whether the account is there and only does not answer: no object changes state for that.
fn is_only_blocked(facts: &SshKeyFacts) -> bool {
    matches!(
        &facts.subject.account,
        ResolvedAccount::Found { view, .. } if matches!(view.state, AccountState::Blocked(..))
    )
}

/// Lane and calls of an effect.
pub fn permit_for(effect: &SshKeyEffect) -> Option<(Priority, u32)> {
    match effect {
        SshKeyEffect::Store(_) => Some((Priority::Change, 1)),
        SshKeyEffect::Delete { .. } => Some((Priority::Change, 2)),
        SshKeyEffect::AddFinalizer | SshKeyEffect::RemoveFinalizer => None,
    }
}
