//! The one place that writes a server's status and publishes its events.

use super::{
    Context,
    decide::{Decision, Effect},
    facts::Facts,
    memory::Observation,
    writes::{self, Written},
};
use crate::{
    controllers::events::Severity,
    kinds::{
        BareMetalServer, Reason,
        conditions::{self, Type},
    },
};
use hosting::ServerStatus;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::Resource as _;

/// How reporting ended.
pub enum Reported {
    /// The status stands as decided.
    Stands,
    /// The object changed in between, or the write failed: decide again.
    Again,
}

/// Writes the decided status, where it differs, and tells what changed.
pub async fn report(ctx: &Context, facts: &Facts, decision: &Decision) -> Reported {
    let status = decision.draft.finish(jiff::Timestamp::now());
    let before = facts
        .object
        .status
        .as_ref()
        .map(|s| s.conditions.clone())
        .unwrap_or_default();
    match writes::status(ctx, &facts.object, &status).await {
        None => Reported::Stands,
        Some(Written::Done(_)) => {
            announce(ctx, &facts.object, &before, &status.conditions).await;
            Reported::Stands
        }
        Some(Written::Stale) => {
            // Where the object is gone there is nothing left to tell.
            let _ = writes::read(ctx, &facts.object).await;
            Reported::Again
        }
        Some(Written::Unknown(failure)) => {
            tracing::warn!(
                namespace = facts.namespace(),
                name = facts.name(),
                error = &failure as &dyn std::error::Error,
                "a status could not be written"
            );
            Reported::Again
        }
    }
}

/// Tells people what a status write does not show them: how the object's machine ended.
pub async fn ended(ctx: &Context, facts: &Facts, effect: &Effect, observation: &Observation) {
    if *effect != Effect::LetGo || *observation != Observation::Done {
        return;
    }
    let machines = || facts.own.iter().map(|s| &s.server);
    let (reason, note) = if machines().any(|s| s.status.is_live()) {
        (Reason::Retained, "the machine stays at the provider")
    } else if machines().any(|s| s.status == ServerStatus::Released) {
        (Reason::Released, "the machine is released")
    } else {
        return;
    };
    ctx.events
        .publish(
            Severity::Normal,
            reason,
            "Release",
            note,
            &facts.object.object_ref(&()),
        )
        .await;
}

/// Events for the turns that people wait for or must act on.
async fn announce(
    ctx: &Context,
    object: &BareMetalServer,
    before: &[Condition],
    after: &[Condition],
) {
    let turned =
        |kind: Type| conditions::is_true(after, kind) && !conditions::is_true(before, kind);
    let find = |kind: Type| after.iter().find(|c| c.type_ == kind.as_str());
    for (kind, severity, action) in [
        (Type::Ready, Severity::Normal, "Deliver"),
        (Type::Stalled, Severity::Warning, "Hold"),
    ] {
        if let Some(condition) = find(kind).filter(|_| turned(kind)) {
            let reason = Reason::ALL
                .iter()
                .copied()
                .find(|r| r.as_str() == condition.reason);
            if let Some(reason) = reason {
                ctx.events
                    .publish(
                        severity,
                        reason,
                        action,
                        &condition.message,
                        &object.object_ref(&()),
                    )
                    .await;
            }
        }
    }
}
