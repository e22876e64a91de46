//! Carries out one effect, and returns what was observed.

use super::{TagContext, conflicting_owners};
use crate::{account::Permit, runtime::clock};
use api::{names::TAG_ANNOTATION, tag::TagAnnotation};
use flexmetal_core::{
    last_error::LastError,
    reconcile::Ended,
    tag::{
        decide::{TagEffect, decide},
        facts::{Rename, TagFacts, TagObservation, TagRefusal, rename_of, users},
    },
};
use hosting_types::Error;
use serde_json::json;

/// Carries out an effect.
pub(super) async fn act(
    ctx: &TagContext,
    facts: &TagFacts,
    effect: &TagEffect,
    permit: Option<Permit>,
) -> TagObservation {
    let subject = &facts.subject;
    let _calling = permit.is_some().then(|| ctx.objects.count_provider_call());
    match (effect, permit) {
        (TagEffect::AddFinalizer { annotation }, _) => {
            add_finalizer(ctx, facts, annotation.as_ref()).await
        }
        (TagEffect::RemoveFinalizer, _) => {
            TagObservation::Wrote(ctx.remove_finalizer(subject).await)
        }
        (TagEffect::Make { tag }, Some(permit)) => make(permit, tag).await,
        (TagEffect::Rename { rename, .. }, Some(permit)) => {
            change(ctx, facts, effect, permit, &rename.from).await
        }
        (TagEffect::Delete { tag, .. }, Some(permit)) => {
            change(ctx, facts, effect, permit, tag).await
        }
        (TagEffect::Make { .. } | TagEffect::Rename { .. } | TagEffect::Delete { .. }, None) => {
            TagObservation::Wrote(Ended::Failed(LastError::check_failed(
                "Internal error; a call has no permit",
            )))
        }
    }
}

async fn add_finalizer(
    ctx: &TagContext,
    facts: &TagFacts,
    annotation: Option<&TagAnnotation>,
) -> TagObservation {
    let mut annotations = json!({});
    if let Some(annotation) = annotation {
        match serde_json::to_string(annotation) {
            Ok(text) => annotations[TAG_ANNOTATION] = json!(text),
            Err(_) => return TagObservation::Wrote(Ended::Stale),
        }
    }
    match ctx.add_finalizer(&facts.subject, annotations).await {
        Ended::Done => TagObservation::Annotated(annotation.and_then(rename_of)),
        other => TagObservation::Wrote(other),
    }
}

async fn make(mut permit: Permit, tag: &str) -> TagObservation {
    tracing::debug!(tag, "creating tag");
    let answer = permit.call(async |client| client.create_tag(tag).await);
    let answer = answer.await;
    answered(answer.map(drop), tag, Some(tag), None)
}

/// Renames or deletes a tag. A read with the same permit must show that the tag exists, and is unused if that is
/// required; the effect must still be due.
async fn change(
    ctx: &TagContext,
    facts: &TagFacts,
    effect: &TagEffect,
    mut permit: Permit,
    tag: &str,
) -> TagObservation {
    let (rename, only_unused) = match effect {
        TagEffect::Rename {
            rename,
            only_unused,
        } => (Some(rename), *only_unused),
        TagEffect::Delete { only_unused, .. } => (None, *only_unused),
        TagEffect::AddFinalizer { .. } | TagEffect::Make { .. } | TagEffect::RemoveFinalizer => {
            return TagObservation::Wrote(Ended::Stale);
        }
    };
    let shown = permit.call(async |client| client.tag(tag).await);
    match shown.await {
        Ok(record) if only_unused && users(&record) != Some(0) => {
            return TagObservation::Differs {
                at: clock::now().mono,
            };
        }
        Ok(_) => {}
        Err(error) => return answered(Err(error), tag, None, None),
    }
    if let Err(ended) = check_still_due(ctx, facts, effect).await {
        return TagObservation::Wrote(ended);
    }
    tracing::info!(
        namespace = facts.subject.namespace(),
        name = facts.subject.name(),
        tag,
        to = rename.map(|r| &*r.to),
        "changing tag"
    );
    match rename {
        Some(Rename { to, .. }) => {
            let answer = permit.call(async |client| client.rename_tag(tag, to).await);
            let answer = answer.await;
            answered(answer.map(drop), tag, Some(to), rename)
        }
        None => {
            let answer = permit.call(async |client| client.delete_tag(tag).await);
            let answer = answer.await;
            answered(answer, tag, None, None)
        }
    }
}

/// Whether the live object still leads to this effect, and this process may carry it out.
async fn check_still_due(
    ctx: &TagContext,
    facts: &TagFacts,
    effect: &TagEffect,
) -> Result<(), Ended> {
    let object = match ctx.read_object(&facts.subject.object).await {
        Ok(Some(object)) => object,
        Ok(None) => return Err(Ended::Stale),
        Err(failure) => return Err(Ended::Failed(LastError::from_write(failure.explain()))),
    };
    let mut fresh = facts.clone();
    fresh.subject.object = object;
    if fresh.subject.is_deleting() {
        fresh.subject.kind_deleting = ctx.is_kind_deleting().await;
    }
    fresh.conflicting_owners = conflicting_owners(ctx, &fresh.subject);
    let is_due = decide(&fresh).effect.as_ref() == Some(effect);
    match is_due && ctx.may_act() {
        true => Ok(()),
        false => Err(Ended::Stale),
    }
}

/// The observation from an answer. `made`: the tag that exists afterwards. A failed read is reported without a rename,
/// since nothing changed.
fn answered(
    answer: Result<(), Error>,
    tag: &str,
    made: Option<&str>,
    rename: Option<&Rename>,
) -> TagObservation {
    let at = clock::now().mono;
    let error = match (answer, made) {
        (Ok(()), Some(tag)) => {
            let tag = tag.to_owned();
            return TagObservation::Made { tag, at };
        }
        (Ok(()), None) => {
            let tag = tag.to_owned();
            return TagObservation::Deleted { tag, at };
        }
        (Err(error), _) => error,
    };
    tracing::debug!(tag, error = error.explain(), "tag change failed");
    let is_open = error.may_have_taken_effect();
    match (&error, made) {
        (Error::NotFound(_), _) => TagObservation::Differs { at },
        // 409 means that the new name exists.
        (Error::Refused(_), Some(tag)) if !is_open || error.status() == Some(409) => {
            TagObservation::Refused(TagRefusal {
                tag: tag.to_owned(),
                message: error.explain(),
                at,
            })
        }
        _ if is_open => TagObservation::Unknown {
            rename: rename.cloned(),
            at,
            last_error: LastError::from_provider(&error),
        },
        _ => TagObservation::Wrote(Ended::Failed(LastError::from_provider(&error))),
    }
}
