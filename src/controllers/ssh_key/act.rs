//! Carries out one effect, and returns what was observed.

use super::{KeyContext, Shared, observe::observe_related};
use crate::{account::Permit, runtime::clock};
use api::names::STORED_KEY_ANNOTATION;
use flexmetal_core::{
    last_error::LastError,
    reconcile::Ended,
    ssh_key::{
        decide::{NewKey, SshKeyEffect, decide},
        facts::{SshKeyFacts, is_named_by},
        memory::{KeyRefusal, SshKeyObservation, Stored},
    },
};
use hosting_types::{Error, SshKeyId, error::NotSent};
use serde_json::json;

/// Carries out an effect, by the permit that was given for it.
pub(super) async fn act(
    ctx: &KeyContext,
    shared: &Shared,
    facts: &SshKeyFacts,
    effect: &SshKeyEffect,
    permit: Option<Permit>,
) -> (Ended, SshKeyObservation) {
    match (effect, permit) {
        (SshKeyEffect::Store(new), Some(permit)) => store(ctx, shared, facts, new, permit).await,
        (SshKeyEffect::Delete { uuid }, Some(permit)) => {
            delete(ctx, shared, facts, uuid, permit).await
        }
        (SshKeyEffect::AddFinalizer, _) => (
            ctx.add_finalizer(&facts.subject, json!({})).await,
            SshKeyObservation::Nothing,
        ),
        (SshKeyEffect::RemoveFinalizer, _) => (
            ctx.remove_finalizer(&facts.subject).await,
            SshKeyObservation::Nothing,
        ),
        (SshKeyEffect::Store(_) | SshKeyEffect::Delete { .. }, None) => {
            failed("Internal error; a call has no permit")
        }
    }
}

fn failed(why: &str) -> (Ended, SshKeyObservation) {
    (
        Ended::Failed(LastError::check_failed(why)),
        SshKeyObservation::Nothing,
    )
}

/// Writes the annotation, then stores the key with one POST.
async fn store(
    ctx: &KeyContext,
    shared: &Shared,
    facts: &SshKeyFacts,
    new: &NewKey,
    mut permit: Permit,
) -> (Ended, SshKeyObservation) {
    // Another object may have stored this key since the list.
    let connection = facts.connection();
    let Some(mut started) = shared
        .posts
        .start_store(connection, &new.key, new.listed_at)
    else {
        return (Ended::Done, SshKeyObservation::Nothing);
    };
    if let Some(annotation) = &new.annotation {
        let text = serde_json::to_string(annotation).unwrap_or_default();
        let ended = ctx
            .add_finalizer(&facts.subject, json!({ STORED_KEY_ANNOTATION: text }))
            .await;
        if ended != Ended::Done {
            return (ended, SshKeyObservation::Nothing);
        }
    }
    if !ctx.may_act() {
        return (Ended::Done, SshKeyObservation::Nothing);
    }
    let _calling = ctx.objects.count_provider_call();
    tracing::info!(
        namespace = facts.subject.namespace(),
        name = facts.subject.name(),
        key = new.key.as_str(),
        "storing key"
    );
    started.send();
    let answer = permit
        .call(async |client| client.create_ssh_key(&new.name, &new.line).await)
        .await;
    let at = clock::now().mono;
    match answer {
        Ok(key) => (
            Ended::Done,
            SshKeyObservation::Stored(Stored::from_answer(&key, &new.line, at)),
        ),
        Err(error) => {
            tracing::warn!(
                namespace = facts.subject.namespace(),
                name = facts.subject.name(),
                error = error.explain(),
                "key store failed"
            );
            let ended = Ended::Failed(LastError::from_provider(&error));
            match &error {
                error if error.may_have_taken_effect() => (ended, SshKeyObservation::Unknown(at)),
                // A refused key has its own backoff, so other keys do not wait.
                Error::Refused(_) | Error::NotSent(NotSent::Request(_)) => {
                    let message = error.explain();
                    let refused = KeyRefusal { message, at };
                    (Ended::Done, SshKeyObservation::Refused(refused))
                }
                _ => (ended, SshKeyObservation::Nothing),
            }
        }
    }
}

/// Deletes a key that the object stored, if a read right before shows its owner hash and the deletion is still due.
async fn delete(
    ctx: &KeyContext,
    shared: &Shared,
    facts: &SshKeyFacts,
    uuid: &str,
    mut permit: Permit,
) -> (Ended, SshKeyObservation) {
    let Ok(id) = SshKeyId::parse(uuid) else {
        return failed("The recorded key UUID is not valid");
    };
    let object = match ctx.read_object(&facts.subject.object).await {
        Ok(Some(object)) => object,
        Ok(None) => return (Ended::Stale, SshKeyObservation::Nothing),
        Err(failure) => {
            let last_error = LastError::from_write(failure.explain());
            return (Ended::Failed(last_error), SshKeyObservation::Nothing);
        }
    };
    let mut fresh = facts.clone();
    fresh.subject.object = object;
    if fresh.subject.is_deleting() {
        fresh.subject.kind_deleting = ctx.is_kind_deleting().await;
    }
    // First of all: no object counts the key as stored from here on. An object that did before has a recorded claim,
    // which is checked below.
    let Some(mut leaving) = shared.posts.start_deletion(facts.connection(), uuid) else {
        return (Ended::Stale, SshKeyObservation::Nothing);
    };
    let _calling = ctx.objects.count_provider_call();
    match permit.call(async |client| client.ssh_key(&id).await).await {
        Ok(key) if is_named_by(&key.name, &facts.subject.owner_hash()) => {}
        Ok(_) => return failed("The key is not this object's by the record read right before"),
        Err(Error::NotFound(_)) => {
            leaving.send();
            return (Ended::Done, gone(uuid));
        }
        Err(error) => {
            let last_error = LastError::from_provider(&error);
            return (Ended::Failed(last_error), SshKeyObservation::Nothing);
        }
    }
    // Last of all: other objects that have the same key now.
    observe_related(ctx, shared, &mut fresh);
    let is_due = decide(&fresh).effect == decide(facts).effect;
    if !is_due || !ctx.may_act() {
        return (Ended::Stale, SshKeyObservation::Nothing);
    }
    tracing::info!(
        namespace = facts.subject.namespace(),
        name = facts.subject.name(),
        uuid,
        "deleting stored key"
    );
    leaving.send();
    let answer = permit.call(async |client| client.delete_ssh_key(&id).await);
    match answer.await {
        Ok(()) | Err(Error::NotFound(_)) => (Ended::Done, gone(uuid)),
        Err(error) => {
            tracing::warn!(
                namespace = facts.subject.namespace(),
                name = facts.subject.name(),
                error = error.explain(),
                "key deletion failed"
            );
            let observation = match error.may_have_taken_effect() {
                true => SshKeyObservation::NotKnownDeleted(clock::now().mono),
                false => SshKeyObservation::Nothing,
            };
            let last_error = LastError::from_provider(&error);
            (Ended::Failed(last_error), observation)
        }
    }
}

fn gone(uuid: &str) -> SshKeyObservation {
    SshKeyObservation::Deleted {
        uuid: uuid.to_owned(),
        at: clock::now().mono,
    }
}
