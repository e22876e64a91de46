//! Carries out one effect, and returns what this process knows after it.

use super::WhitelistContext;
use crate::{account::Permit, runtime::clock};
use flexmetal_core::{
    pass::Ended,
    trouble::Trouble,
    whitelist::{
        decide::{
            Effect, MOST_LISTED,
            ending::what_stays,
            guard::Step,
            list::{Entry, List},
            sendable,
        },
        facts::Facts,
        memory::{Answer, Look, Own},
    },
};
use futures::FutureExt as _;
use hosting::listing::Listing;
use hosting_types::{ApiKeyId, Error, error::NotSent, list::Gap};
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
    facts: &Facts,
    effect: &Effect,
    permit: Option<Permit>,
) -> (Own, Ended) {
    let subject = &facts.subject;
    let own = subject.memory.own.clone();
    let ended = match (effect, permit) {
        (Effect::Hold, _) => ctx.hold(subject, json!({})).await,
        (Effect::LetGo, _) => {
            let ended = ctx.let_go(subject).await;
            if ended == Ended::Done
                && let Some(news) = what_stays(facts)
            {
                ctx.publish(&*subject.object, news).await;
            }
            ended
        }
        (Effect::Work { .. }, Some(permit)) => {
            let _calling = ctx.objects.call_provider();
            return work(ctx, facts, own, permit).await;
        }
        (Effect::Work { .. }, None) => {
            Ended::Failed(Trouble::unexpected("Internal error; a call has no permit"))
        }
    };
    (own, ended)
}

/// Proves that the key still works, reads the list, and sends the step that follows from it.
async fn work(
    ctx: &WhitelistContext,
    facts: &Facts,
    mut own: Own,
    mut permit: Permit,
) -> (Own, Ended) {
    if own.sent.is_some() {
        let proof = permit.call(async |client| client.quota_usage().await);
        if let Err(error) = proof.await {
            return (own, Ended::Failed(Trouble::of_provider(&error)));
        }
    }
    let key = facts.key();
    let permit = Mutex::new(permit);
    let began = clock::now().mono;
    let (list, calls) = match read(&permit, facts, key).await {
        Ok(Read::Whole(list, calls)) => (list, calls),
        Ok(Read::TooLong) => {
            own.found_too_long(began);
            return (own, Ended::Done);
        }
        Err(gap) => return unread(facts, own, &gap, began),
    };
    let look = Look {
        list: Arc::new(list),
        began,
        ended: clock::now().mono,
        connection: facts
            .subject
            .view()
            .and_then(|view| view.connection.clone()),
    };
    let mut facts = facts.having_read(look);
    facts.subject.memory.own.calls = calls;
    // Who rules the list may be another one than at the start of the pass.
    facts.rivals = super::rivals(ctx, &facts.subject.object);
    own = facts.subject.memory.own.clone();
    let Some((step, list)) = next(ctx, &facts) else {
        return (own, Ended::Done);
    };
    tracing::info!(%key, ?step, "changing a whitelist");
    let answer = send(&permit, key, &step).await;
    let at = clock::now().mono;
    let (known, ended) = match &answer {
        Ok(()) => (Answer::Done, Ended::Done),
        Err(error) => {
            tracing::debug!(error = error.explain(), "cannot change a whitelist");
            let known = match error.may_have_taken_effect() {
                true => Answer::Unknown,
                false => Answer::NotDone,
            };
            (known, Ended::Failed(Trouble::of_provider(error)))
        }
    };
    own.has_sent(&step, &list, known, at);
    (own, ended)
}

/// The step to send now, where this process may.
fn next(ctx: &WhitelistContext, facts: &Facts) -> Option<(Step, Arc<List>)> {
    let list = facts.look()?.list.clone();
    let may_act = ctx.may_act();
    let step = sendable(facts, &list).filter(|_| may_act)?;
    Some((step, list))
}

/// What a look has brought.
enum Read {
    /// The whole list, and how many calls it took.
    Whole(List, u32),
    /// More entries than are judged.
    TooLong,
}

async fn read(permit: &Mutex<Permit>, facts: &Facts, key: ApiKeyId) -> Result<Read, Gap> {
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
    let mark = facts.mark();
    let mut entries = Vec::new();
    while let Some(records) = pages.next_page().await? {
        entries.extend(records.iter().map(|record| Entry::read(record, &mark)));
        if entries.len() > MOST_LISTED {
            return Ok(Read::TooLong);
        }
    }
    Ok(Read::Whole(List { entries }, calls.load(Ordering::Relaxed)))
}

/// What follows where the list could not be read.
fn unread(facts: &Facts, mut own: Own, gap: &Gap, began: Duration) -> (Own, Ended) {
    let ended = match gap {
        Gap::Failed(Error::NotFound(_)) => {
            let spacing = facts.times().absence_check_interval;
            own.found_no_key(began, spacing, facts.connection());
            Ended::Done
        }
        // All calls of the permit are made.
        Gap::Failed(Error::NotSent(NotSent::Build(_))) => {
            own.more = own.more * 2 + 200;
            Ended::Failed(Trouble::unexpected("The whitelist is longer than before"))
        }
        Gap::Failed(error) => Ended::Failed(Trouble::of_provider(error)),
        gap => Ended::Failed(Trouble::unexpected(&gap.to_string())),
    };
    (own, ended)
}

async fn send(permit: &Mutex<Permit>, key: ApiKeyId, step: &Step) -> Result<(), Error> {
    let mut permit = permit.lock().await;
    match step {
        Step::Add(wished) => {
            let rule = wished.rule();
            let answer = permit.call(async |client| client.add_to_whitelist(key, &rule).await);
            answer.await.map(drop)
        }
        Step::Change(id, wished) => {
            let rule = wished.rule();
            let answer = permit.call(async |client| client.change_whitelist(key, *id, &rule).await);
            answer.await.map(drop)
        }
        Step::Remove(id) => {
            let answer = permit.call(async |client| client.remove_from_whitelist(key, *id).await);
            answer.await
        }
    }
}
