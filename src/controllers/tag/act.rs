//! Carries out one effect, and returns what was observed.

use super::{TagContext, rivals};
use crate::{account::Permit, runtime::clock};
use api::{names::TAG_ANNOTATION, tag::TagNote};
use flexmetal_core::{
    pass::Ended,
    tag::{
        decide::{Effect, decide},
        facts::{Facts, Observation, Refused, Rename, rename_of, users},
    },
    trouble::Trouble,
};
use hosting_types::Error;
use serde_json::json;

/// Carries out an effect.
pub(super) async fn act(
    ctx: &TagContext,
    facts: &Facts,
    effect: &Effect,
    permit: Option<Permit>,
) -> Observation {
    let subject = &facts.subject;
    let _calling = permit.is_some().then(|| ctx.objects.call_provider());
    match (effect, permit) {
        (Effect::Hold { note }, _) => hold(ctx, facts, note.as_ref()).await,
        (Effect::LetGo, _) => Observation::Wrote(ctx.let_go(subject).await),
        (Effect::Make { tag }, Some(permit)) => make(permit, tag).await,
        (Effect::Rename { rename, .. }, Some(permit)) => {
            change(ctx, facts, effect, permit, &rename.from).await
        }
        (Effect::Delete { tag, .. }, Some(permit)) => change(ctx, facts, effect, permit, tag).await,
        (Effect::Make { .. } | Effect::Rename { .. } | Effect::Delete { .. }, None) => {
            Observation::Wrote(Ended::Failed(Trouble::unexpected(
                "Internal error; a call has no permit",
            )))
        }
    }
}

async fn hold(ctx: &TagContext, facts: &Facts, note: Option<&TagNote>) -> Observation {
    let mut annotations = json!({});
    if let Some(note) = note {
        match serde_json::to_string(note) {
            Ok(text) => annotations[TAG_ANNOTATION] = json!(text),
            Err(_) => return Observation::Wrote(Ended::Stale),
        }
    }
    match ctx.hold(&facts.subject, annotations).await {
        Ended::Done => Observation::Noted(note.and_then(rename_of)),
        other => Observation::Wrote(other),
    }
}

async fn make(mut permit: Permit, tag: &str) -> Observation {
    tracing::debug!(tag, "creating a tag");
    let answer = permit.call(async |client| client.create_tag(tag).await);
    let answer = answer.await;
    answered(answer.map(drop), tag, Some(tag), None)
}

/// Renames or deletes a tag, after a look at it by the same permit: it is there, nothing bears it where that is asked
/// for, and all that was decided still stands.
async fn change(
    ctx: &TagContext,
    facts: &Facts,
    effect: &Effect,
    mut permit: Permit,
    tag: &str,
) -> Observation {
    let (rename, only_unused) = match effect {
        Effect::Rename {
            rename,
            only_unused,
        } => (Some(rename), *only_unused),
        Effect::Delete { only_unused, .. } => (None, *only_unused),
        Effect::Hold { .. } | Effect::Make { .. } | Effect::LetGo => {
            return Observation::Wrote(Ended::Stale);
        }
    };
    let shown = permit.call(async |client| client.tag(tag).await);
    match shown.await {
        Ok(record) if only_unused && users(&record) != Some(0) => {
            return Observation::Differs {
                at: clock::now().mono,
            };
        }
        Ok(_) => {}
        Err(error) => return answered(Err(error), tag, None, None),
    }
    if let Err(ended) = still(ctx, facts, effect).await {
        return Observation::Wrote(ended);
    }
    tracing::info!(tag, to = rename.map(|r| &*r.to), "changing a tag");
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

/// Whether the effect is what follows from the object as it is now, and this process may carry it out.
async fn still(ctx: &TagContext, facts: &Facts, effect: &Effect) -> Result<(), Ended> {
    let object = match ctx.read(&facts.subject.object).await {
        Ok(Some(object)) => object,
        Ok(None) => return Err(Ended::Stale),
        Err(failure) => return Err(Ended::Failed(Trouble::of_write(failure.explain()))),
    };
    let mut fresh = facts.clone();
    fresh.subject.object = object;
    if fresh.subject.is_deleting() {
        fresh.subject.kind_deleting = ctx.kind_is_deleting().await;
    }
    fresh.rivals = rivals(ctx, &fresh.subject);
    let stands = decide(&fresh).effect.as_ref() == Some(effect);
    match stands && ctx.may_act() {
        true => Ok(()),
        false => Err(Ended::Stale),
    }
}

/// What an answer says. `made`: the tag that is there afterwards. A look that was answered badly is told as a
/// request without a rename: nothing is in doubt.
fn answered(
    answer: Result<(), Error>,
    tag: &str,
    made: Option<&str>,
    rename: Option<&Rename>,
) -> Observation {
    let at = clock::now().mono;
    let error = match (answer, made) {
        (Ok(()), Some(tag)) => {
            let tag = tag.to_owned();
            return Observation::Made { tag, at };
        }
        (Ok(()), None) => {
            let tag = tag.to_owned();
            return Observation::Deleted { tag, at };
        }
        (Err(error), _) => error,
    };
    tracing::debug!(error = error.explain(), "cannot change a tag");
    let is_open = error.may_have_taken_effect();
    match (&error, made) {
        (Error::NotFound(_), _) => Observation::Differs { at },
        // 409 says that the new name exists.
        (Error::Refused(_), Some(tag)) if !is_open || error.status() == Some(409) => {
            Observation::Refused(Refused {
                tag: tag.to_owned(),
                message: error.explain(),
                at,
            })
        }
        _ if is_open => Observation::Unknown {
            rename: rename.cloned(),
            at,
            trouble: Trouble::of_provider(&error),
        },
        _ => Observation::Wrote(Ended::Failed(Trouble::of_provider(&error))),
    }
}
