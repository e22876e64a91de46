//! An effect that fails repeatedly: status reports why.

use super::{
    super::facts::ServerFacts, ServerDecision, ServerEffect, existing::report_out_of_touch,
    precondition,
};
use crate::{
    explanation::{AS_READY, Explanation},
    last_error::REPORTED_AFTER_FAILURES,
};
use api::conditions::Type;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

/// Reports the repeated failure of an effect.
pub fn report_repeated_failure(facts: &ServerFacts, decision: &mut ServerDecision) {
    let memory = &facts.memory;
    let Some(last_error) = &memory.last_error else {
        return;
    };
    if memory.backoff.failures() < REPORTED_AFTER_FAILURES {
        return;
    }
    let is_synced = |c: &&Condition| c.type_ == Type::Synced.as_str();
    let said = facts.status().conditions;
    let was_reported =
        said.iter().find(is_synced).map(|c| c.reason.as_str()) == Some(last_error.reason.as_str());
    let is_pending = decision
        .desired
        .condition(Type::Synced)
        .is_some_and(|c| c.status == Some(false));
    // An effect in backoff has not succeeded, so its reason stays.
    if decision.effect.is_none() && !(was_reported && is_pending) {
        return;
    }
    if last_error.is_account_error() && facts.status().uuid.is_some() && !facts.deleting() {
        report_out_of_touch(facts, &mut decision.desired);
        return;
    }
    let mut message = last_error.describe_retry();
    // An order that is sent now, or a release that begins now, has been in that state for too long.
    let is_stuck = match &decision.effect {
        Some(ServerEffect::Order(_)) => true,
        Some(ServerEffect::Release { uuid }) => !precondition::is_release_begun(facts, uuid),
        _ => false,
    };
    let desired = &mut decision.desired;
    if desired.conditions.is_empty() || is_stuck {
        desired.set(facts, Explanation::waits(last_error.reason, message), None);
        message = AS_READY.to_owned();
    }
    // Something is left to send, even if another condition is reported.
    desired.set_unsynced(last_error.reason, message);
}
