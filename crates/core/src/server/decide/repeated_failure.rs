//! An effect that keeps failing: status says why nothing moves on.

use super::{
    super::facts::ServerFacts, ServerDecision, ServerEffect, existing::report_out_of_touch,
    precondition,
};
use crate::{
    explanation::{AS_READY, Explanation},
    last_error::PERSISTS,
};
use api::conditions::Type;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

/// Adds what keeps failing to a decision with an effect.
pub fn report_repeated_failure(facts: &ServerFacts, decision: &mut ServerDecision) {
    let memory = &facts.memory;
    let Some(trouble) = &memory.last_error else {
        return;
    };
    if memory.backoff.failures() < PERSISTS {
        return;
    }
    let is_synced = |c: &&Condition| c.type_ == Type::Synced.as_str();
    let said = facts.status().conditions;
    let was_told =
        said.iter().find(is_synced).map(|c| c.reason.as_str()) == Some(trouble.reason.as_str());
    let is_pending = decision
        .desired
        .condition(Type::Synced)
        .is_some_and(|c| c.status == Some(false));
    // What waits for its next try has not succeeded: the reason stays.
    if decision.effect.is_none() && !(was_told && is_pending) {
        return;
    }
    if trouble.is_accounts() && facts.status().uuid.is_some() && !facts.deleting() {
        report_out_of_touch(facts, &mut decision.desired);
        return;
    }
    let mut message = trouble.persistent();
    // What is said of an order that is sent right now, or of a release that begins, has been so for too long.
    let is_stuck = match &decision.effect {
        Some(ServerEffect::Order(_)) => true,
        Some(ServerEffect::Release { uuid }) => !precondition::is_release_begun(facts, uuid),
        _ => false,
    };
    let draft = &mut decision.desired;
    if draft.conditions.is_empty() || is_stuck {
        draft.set(facts, Explanation::waits(trouble.reason, message), None);
        message = AS_READY.to_owned();
    }
    // Whatever the rest says, something is left to send.
    draft.set_unsynced(trouble.reason, message);
}
