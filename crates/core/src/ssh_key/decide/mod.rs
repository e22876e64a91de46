//! The decision: facts in, one decision out. No I/O, no clock, no randomness.
//!
//! A living object keeps its key stored, `keep`; one that is being deleted lets go of it, `end`.

mod end;
mod keep;
#[cfg(test)]
pub(crate) mod tests;

use super::facts::Facts;
use crate::{
    account::{
        lane::Lane,
        view::{List, State, View},
    },
    account_facts::AccountFacts,
    cause::Cause,
    pass::{self, Sight},
    public_key::Fingerprint,
};
use api::{
    Reason, conditions,
    ssh_key::{SshKeyStatus, StoredKeyNote},
};
use std::time::Duration;

/// What to say, what to do, when to look again.
pub type Decision = pass::Decision<SshKeyStatus, Effect>;

/// An effect. Each is carried out by one arm of `act`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Store the key, once.
    Store(Box<NewKey>),
    /// Put our finalizer on.
    Hold,
    /// Delete a key that this object stored.
    Delete {
        /// Which.
        uuid: String,
    },
    /// Take our finalizer off: the end.
    LetGo,
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
    pub looked: Duration,
    /// What has to stand on the object before; None: it does.
    pub note: Option<StoredKeyNote>,
}

/// Longest sleep beyond the next look, which wakes the object.
const SLACK: Duration = Duration::from_secs(60);
/// Pause while something of this process is not known yet, or under way.
const SHORTLY: Duration = Duration::from_secs(1);

/// Decides what to do for one object.
pub fn decide(facts: &Facts) -> Decision {
    match facts.subject.is_deleting() {
        true => end::end(facts),
        false => keep::keep(facts).answering(&facts.subject, || Sight::List(List::SshKeys)),
    }
}

/// The status as it is, with this cause.
fn hold(facts: &Facts, cause: Cause) -> Decision {
    let subject = &facts.subject;
    let is_new = conditions::is_new(&subject.status().conditions);
    let decision = Decision::unchanged(subject);
    // The first steps of a new object are not worth a write.
    let age = subject.now.mono.saturating_sub(subject.since());
    let is_early = !Cause::queued_after(age).is_zero();
    if is_new && is_early && cause.reason == Reason::Pending {
        return decision;
    }
    decision.because(cause)
}

/// Waits for a look that starts at or after this moment. Nothing is said, unless looks fail.
fn waiting(facts: &Facts, view: &View, not_before: Duration) -> Decision {
    let decision = match &view.last_error {
        Some((reason, message)) if !facts.is_told_ready() => {
            hold(facts, Cause::waits(*reason, message.clone()))
        }
        _ => Decision::unchanged(&facts.subject),
    };
    decision
        .wanting(List::SshKeys, not_before)
        .again(view.times.active_poll_interval)
}

/// Whether the account is there and only does not answer: no object changes state for that.
fn is_only_blocked(facts: &Facts) -> bool {
    matches!(
        &facts.subject.account,
        AccountFacts::Found { view, .. } if matches!(view.state, State::Blocked(..))
    )
}

/// Lane and calls of an effect.
pub fn turn(effect: &Effect) -> Option<(Lane, u32)> {
    match effect {
        Effect::Store(_) => Some((Lane::Change, 1)),
        Effect::Delete { .. } => Some((Lane::Change, 2)),
        Effect::Hold | Effect::LetGo => None,
    }
}
