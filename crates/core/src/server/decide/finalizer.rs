//! The finalizer: what took it off is undone before anything else.
//!
//! Without it a deleted object is gone at once and its server is paid for by nobody's wish. Putting it back needs no account
//! and no call, so it goes on while the account is blocked and the object suspended.

use super::{super::facts::ServerFacts, ServerDecision, ServerEffect};
use crate::{explanation::Explanation, requeue::Requeue};
use api::Reason;

/// Puts the finalizer of a living object with a record back, and says so when something takes it off again and again.
pub fn restore_finalizer(facts: &ServerFacts, decision: &mut ServerDecision) {
    if facts.deleting() || facts.order().is_none() {
        return;
    }
    let now = facts.now.mono;
    let contest = &facts.memory.restore_backoff;
    if let Some(rest) = contest.conflict_shown_for(now) {
        let cause = Explanation::stalled(
            Reason::MetadataConflict,
            "Something keeps removing the operator's finalizer; without it, deleting this object loses the server. Find the writer in metadata.managedFields and stop it",
        );
        decision.desired.set(facts, cause, None);
        decision.requeue = decision.requeue.within(rest);
    }
    if facts.has_finalizer() {
        return;
    }
    match contest.rest(now) {
        Some(rest) => {
            decision.effect = None;
            decision.requeue = Requeue::After(rest);
        }
        None => decision.effect = Some(ServerEffect::AddFinalizer),
    }
}
