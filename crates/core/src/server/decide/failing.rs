//! An effect that keeps failing: status says why nothing moves on.

use super::{super::facts::Facts, Decision, Effect};
use crate::{
    cause::{AS_READY, Cause},
    trouble::PERSISTS,
};
use api::conditions::{Type, Wanted};

/// Adds what keeps failing to a decision with an effect.
pub fn show(facts: &Facts, decision: &mut Decision) {
    let memory = &facts.memory;
    let Some(trouble) = &memory.trouble else {
        return;
    };
    if decision.effect.is_none() || memory.backoff.failures() < PERSISTS {
        return;
    }
    let mut message = trouble.persistent();
    // What is said of an order that is sent right now has been so for too long.
    let is_order = matches!(decision.effect, Some(Effect::Order(_)));
    let draft = &mut decision.draft;
    if draft.conditions.is_empty() || is_order {
        draft.set(facts, Cause::waits(trouble.reason, message), None);
        message = AS_READY.to_owned();
    }
    // Whatever the rest says, something is left to send.
    let synced = Wanted::new(Type::Synced, false, trouble.reason, message);
    draft.conditions.retain(|c| c.kind != Type::Synced);
    draft.conditions.push(synced);
}
