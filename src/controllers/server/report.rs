//! The one place that writes a server's status and publishes its events.

use super::{
    Context,
    decide::{Decision, Effect},
    facts::Facts,
    memory::Observation,
    objects::Shown,
    writes::{self, Written},
};
use crate::{
    controllers::events::Severity,
    kinds::{
        BareMetalServer, Reason,
        conditions::{self, Type, Wanted},
    },
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{
    Api, Resource as _, ResourceExt as _,
    api::{ApiResource, DynamicObject, Patch, PatchParams},
};
use serde_json::json;

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

/// Tells people what a status write does not show them: what an effect ended.
pub async fn ended(ctx: &Context, facts: &Facts, effect: &Effect, observation: &Observation) {
    if *effect != Effect::LetGo || *observation != Observation::Done {
        return;
    }
    let retained =
        facts.object.spec.deletion_policy == crate::kinds::server::DeletionPolicy::Retain;
    let (reason, note) = match (&facts.object.status, retained) {
        (Some(status), true) if status.uuid.is_some() => {
            (Reason::Retained, "the machine stays at the provider")
        }
        (Some(status), false) if status.uuid.is_some() => {
            (Reason::Released, "the machine is released")
        }
        _ => return,
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

/// Marks an object that does not decode, by what can be written without reading it.
pub async fn undecodable(ctx: &Context, shown: &Shown, note: &str) {
    let now = jiff::Timestamp::now();
    let generation = shown.meta().generation;
    let wanted = [
        Wanted::new(Type::Ready, false, Reason::Undecodable, note),
        Wanted::new(Type::Reconciling, false, Reason::Settled, ""),
        Wanted::new(Type::Stalled, true, Reason::Undecodable, note),
    ];
    let conditions = conditions::merge(&[], &wanted, generation, now);
    let patch = Patch::Merge(json!({
        "metadata": { "resourceVersion": shown.meta().resource_version },
        "status": { "conditions": conditions, "observedGeneration": generation },
    }));
    let api: Api<DynamicObject> = Api::namespaced_with(
        ctx.client.clone(),
        &shown.namespace().unwrap_or_default(),
        &ApiResource::erase::<BareMetalServer>(&()),
    );
    if let Err(error) =
        writes::bounded(api.patch_status(&shown.name_any(), &PatchParams::default(), &patch)).await
    {
        tracing::warn!(
            error = &error as &dyn std::error::Error,
            "a status could not be written"
        );
    }
}
