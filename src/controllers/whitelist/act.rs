//! Carries out one effect, and returns what this process knows after it.

use super::WhitelistContext;
use crate::{account::Permit, runtime::clock};
use flexmetal_core::{
    last_error::LastError,
    reconcile::Ended,
    whitelist::{
        decide::{
            MOST_LISTED, WhitelistEffect,
            deletion::retained_entries_event,
            list::{ListedEntry, ProviderWhitelist},
            lockout_guard::WhitelistStep,
            sendable,
        },
        facts::WhitelistFacts,
        memory::{StepAnswer, WhitelistMemory, WhitelistSnapshot},
    },
};
use futures::FutureExt as _;
use hosting::listing::Listing;
use hosting_types::{ApiKeyId, Error, error::NotSent, list::ListGap};
use serde_json::json;
use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};
use tokio::sync::Mutex;

/// Carries out an effect.
pub(super) async fn act(
    ctx: &WhitelistContext,
    facts: &WhitelistFacts,
    effect: &WhitelistEffect,
    permit: Option<Permit>,
) -> (WhitelistMemory, Ended) {
    let subject = &facts.subject;
    let own = subject.memory.own.clone();
    let ended = match (effect, permit) {
        (WhitelistEffect::AddFinalizer, _) => ctx.add_finalizer(subject, json!({})).await,
        (WhitelistEffect::RemoveFinalizer, _) => {
            let ended = ctx.remove_finalizer(subject).await;
            if ended == Ended::Done
                && let Some(news) = retained_entries_event(facts)
            {
                ctx.publish(&*subject.object, news).await;
            }
            ended
        }
        (WhitelistEffect::ReadAndApply { .. }, Some(permit)) => {
            let _calling = ctx.objects.count_provider_call();
            return work(ctx, facts, own, permit).await;
        }
        (WhitelistEffect::ReadAndApply { .. }, None) => Ended::Failed(LastError::check_failed(
            "Internal error; a call has no permit",
        )),
    };
    (own, ended)
}

/// Checks that the API key still works after a change, reads the list, and sends the next step.
async fn work(
    ctx: &WhitelistContext,
    facts: &WhitelistFacts,
    mut own: WhitelistMemory,
    mut permit: Permit,
) -> (WhitelistMemory, Ended) {
    if own.sent.is_some() {
        let check = permit.call(async |client| client.quota_usage().await);
        if let Err(error) = check.await {
            return (own, Ended::Failed(LastError::from_provider(&error)));
        }
    }
    let key = facts.key();
    let permit = Mutex::new(permit);
    let began = clock::now().mono;
    let (list, calls) = match read_whitelist(&permit, facts, key).await {
        Ok(WhitelistRead::Whole(list, calls)) => (list, calls),
        Ok(WhitelistRead::TooLong) => {
            own.found_too_long(began);
            return (own, Ended::Done);
        }
        Err(gap) => return unread(facts, own, &gap, began),
    };
    let snapshot = WhitelistSnapshot {
        list: Arc::new(list),
        began,
        ended: clock::now().mono,
        connection: facts
            .subject
            .view()
            .and_then(|view| view.credentials_hash.clone()),
    };
    let mut facts = facts.with_snapshot(snapshot);
    facts.subject.memory.own.calls = calls;
    // The owner of the list may have changed since the work item started.
    facts.conflicting_owners = super::conflicting_owners(ctx, &facts.subject.object);
    own = facts.subject.memory.own.clone();
    let Some((step, list)) = next(ctx, &facts) else {
        return (own, Ended::Done);
    };
    let (action, entry) = match &step {
        WhitelistStep::Add(_) => ("Add", None),
        WhitelistStep::Change(id, _) => ("Change", Some(id.0)),
        WhitelistStep::Remove(id) => ("Remove", Some(id.0)),
    };
    tracing::info!(
        namespace = facts.subject.namespace(),
        name = facts.subject.name(),
        api_key_id = key.0,
        action,
        entry,
        "sending whitelist change"
    );
    let answer = send(&permit, key, &step).await;
    let at = clock::now().mono;
    let (known, ended) = match &answer {
        Ok(()) => (StepAnswer::Done, Ended::Done),
        Err(error) => {
            tracing::debug!(error = error.explain(), "whitelist change failed");
            let known = match error.may_have_taken_effect() {
                true => StepAnswer::Unknown,
                false => StepAnswer::NotDone,
            };
            (known, Ended::Failed(LastError::from_provider(error)))
        }
    };
    own.record_sent_step(&step, &list, known, at);
    (own, ended)
}

/// The step to send now, if this process is the leader.
fn next(
    ctx: &WhitelistContext,
    facts: &WhitelistFacts,
) -> Option<(WhitelistStep, Arc<ProviderWhitelist>)> {
    let list = facts.usable_snapshot()?.list.clone();
    let may_act = ctx.may_act();
    let step = sendable(facts, &list).filter(|_| may_act)?;
    Some((step, list))
}

/// The result of reading a list.
enum WhitelistRead {
    /// The whole list, and how many calls it took.
    Whole(ProviderWhitelist, u32),
    /// More entries than the operator handles.
    TooLong,
}

async fn read_whitelist(
    permit: &Mutex<Permit>,
    facts: &WhitelistFacts,
    key: ApiKeyId,
) -> Result<WhitelistRead, ListGap> {
    let calls = AtomicU32::new(0);
    let count = &calls;
    let mut pages = Listing::of_whitelist(move |page| {
        async move {
            count.fetch_add(1, Ordering::Relaxed);
            let mut permit = permit.lock().await;
            let page = permit.call(async |client| client.whitelist(key, page).await);
            Ok(page.await?)
        }
        .boxed()
    });
    let owner_hash = facts.owner_hash();
    let mut entries = Vec::new();
    while let Some(records) = pages.next_page().await? {
        entries.extend(
            records
                .iter()
                .map(|record| ListedEntry::from_record(record, &owner_hash)),
        );
        if entries.len() > MOST_LISTED {
            return Ok(WhitelistRead::TooLong);
        }
    }
    Ok(WhitelistRead::Whole(
        ProviderWhitelist { entries },
        calls.load(Ordering::Relaxed),
    ))
}

/// The result if the list could not be read.
fn unread(
    facts: &WhitelistFacts,
    mut own: WhitelistMemory,
    gap: &ListGap,
    began: Duration,
) -> (WhitelistMemory, Ended) {
    let ended = match gap {
        ListGap::Failed(Error::NotFound(_)) => {
            let spacing = facts.times().absence_check_interval;
            own.found_no_key(began, spacing, facts.connection());
            Ended::Done
        }
        // The permit has no calls left.
        ListGap::Failed(Error::NotSent(NotSent::Build(_))) => {
            own.more = own.more * 2 + 200;
            Ended::Failed(LastError::check_failed(
                "The whitelist is longer than before",
            ))
        }
        ListGap::Failed(error) => Ended::Failed(LastError::from_provider(error)),
        gap => Ended::Failed(LastError::check_failed(&gap.to_string())),
    };
    (own, ended)
}

async fn send(permit: &Mutex<Permit>, key: ApiKeyId, step: &WhitelistStep) -> Result<(), Error> {
    let mut permit = permit.lock().await;
    match step {
        WhitelistStep::Add(desired) => {
            let rule = desired.rule();
            let answer = permit.call(async |client| client.add_to_whitelist(key, &rule).await);
            answer.await.map(drop)
        }
        WhitelistStep::Change(id, desired) => {
            let rule = desired.rule();
            let answer = permit.call(async |client| client.change_whitelist(key, *id, &rule).await);
            answer.await.map(drop)
        }
        WhitelistStep::Remove(id) => {
            let answer = permit.call(async |client| client.remove_from_whitelist(key, *id).await);
            answer.await
        }
    }
}
