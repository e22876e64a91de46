//! Restores a removed finalizer: without it, deleting the object loses a server that is still billed.
//! This needs no account and no provider call, so it works while the account is blocked or the object is suspended.

use super::{super::facts::ServerFacts, ServerDecision, ServerEffect};
use crate::{explanation::Explanation, requeue::Requeue};
use api::Reason;

/// Restores the finalizer of a living object with an order record, and reports if something keeps removing it.
pub fn restore_finalizer(facts: &ServerFacts, decision: &mut ServerDecision) {
    if facts.deleting() || facts.order().is_none() {
        return;
    }
    let now = facts.now.mono;
    let backoff = &facts.memory.restore_backoff;
    if let Some(rest) = backoff.conflict_shown_for(now) {
        let explanation = Explanation::stalled(
            Reason::MetadataConflict,
            "Something keeps removing the operator's finalizer; without it, deleting this object loses the server. Find the writer in metadata.managedFields and stop it",
        );
        decision.desired.set(facts, explanation, None);
        decision.requeue = decision.requeue.cap_delay(rest);
    }
    if facts.has_finalizer() {
        return;
    }
    match backoff.remaining(now) {
        Some(rest) => {
            decision.effect = None;
            decision.requeue = Requeue::After(rest);
        }
        None => decision.effect = Some(ServerEffect::AddFinalizer),
    }
}
