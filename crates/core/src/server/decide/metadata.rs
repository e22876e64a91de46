//! The finalizer: what took it off is undone before anything else.
//!
//! Without it a deleted object is gone at once and its server is paid for by nobody's wish. Putting it back needs no account
//! and no call, so it goes on while the account is blocked and the object suspended.

use super::{super::facts::Facts, Decision, Effect};
use crate::{again::Again, cause::Cause};
use api::Reason;

/// Puts the finalizer of a living object with a record back, and says so when something takes it off again and again.
pub fn keep(facts: &Facts, decision: &mut Decision) {
    if facts.deleting() || facts.order().is_none() {
        return;
    }
    let now = facts.now.mono;
    let contest = &facts.memory.contest;
    if let Some(rest) = contest.contested_for(now) {
        let cause = Cause::needs_person(
            Reason::MetadataConflict,
            "Something keeps removing the operator's finalizer; without it, deleting this object loses the server. Find the writer in metadata.managedFields and stop it",
        );
        decision.draft.set(facts, cause, None);
        decision.again = decision.again.within(rest);
    }
    if facts.has_finalizer() {
        return;
    }
    match contest.rest(now) {
        Some(rest) => {
            decision.effect = None;
            decision.again = Again::After(rest);
        }
        None => decision.effect = Some(Effect::AddFinalizer),
    }
}
