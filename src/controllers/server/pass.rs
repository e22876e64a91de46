//! One pass over one server object.

use super::{
    ServerContext,
    act::act,
    observe::{Gathered, observe},
    report, root_password,
    turn::{self, Asked, Permission},
};
use crate::{
    account::{Account, Caller},
    controllers::{objects::Seen, report::Reported},
    runtime::clock,
};
use api::{BareMetalServer, target::TargetKind};
use flexmetal_core::{
    account::view::List,
    again::Again,
    server::{
        decide::{Decision, Effect, decide},
        facts::Facts,
        memory::Observation,
        ownership, steps,
    },
};
use std::{sync::Arc, time::Duration};

/// The backstop of an object that waits for its turn: its account wakes it before. Long, since thousands
/// may wait at once, and each pass of one that waits costs as much as one that acts.
const QUEUED: Duration = Duration::from_secs(600);

/// One pass.
pub(super) async fn pass(ctx: Arc<ServerContext>, seen: Seen<BareMetalServer>) -> Again {
    match seen {
        // Its facts are large.
        Seen::Object(object) => Box::pin(tend(&ctx, object)).await,
        Seen::Undecodable(object) => {
            if let Some(again) = ctx.stand_by() {
                return again;
            }
            let uid = object.metadata.uid.as_deref().unwrap_or_default();
            ctx.accounts.forget(uid);
            ctx.report_undecodable(&object).await.1
        }
        // Its machine was dealt with before the finalizer went, and its memory goes with it.
        Seen::Gone(last) => {
            let kind = TargetKind::BareMetalServer;
            ctx.server_commands.target_changed(kind, last.meta());
            // Unless another object has its name by now.
            let place = super::place(&ctx.cluster, last.meta());
            let uid = last.meta().uid.as_deref().unwrap_or_default();
            let is_free = |place: &String| {
                let there = ctx.objects.by_alias(place);
                there.is_none_or(|there| *there == *uid)
            };
            if let Some(place) = place.filter(is_free) {
                ctx.accounts.forget_mark(&place);
            }
            Again::After(Duration::ZERO)
        }
    }
}

async fn tend(ctx: &ServerContext, object: Arc<BareMetalServer>) -> Again {
    if let Some(again) = stand_by(ctx, &object) {
        return again;
    }
    Box::pin(go_on(ctx, object)).await
}

async fn go_on(ctx: &ServerContext, object: Arc<BareMetalServer>) -> Again {
    let gathered = observe(ctx, object).await;
    tell_release(ctx, &gathered.facts).await;
    Box::pin(carry_out(ctx, gathered)).await
}

async fn carry_out(ctx: &ServerContext, gathered: Gathered) -> Again {
    let Gathered { mut facts, account } = gathered;
    let decision = decide(&facts);
    ask(ctx, &facts, account.as_ref(), &decision);
    ctx.objects.remember(facts.uid(), |memory| {
        memory.wants_installation = decision.wants_installation;
        memory
            .patience
            .note(decision.draft.patience_for, facts.now.mono);
    });
    let Some(effect) = &decision.effect else {
        if !waits_for_facts(&decision) {
            withdraw(ctx, &facts);
        }
        return say(ctx, &facts, &decision, decision.again).await;
    };
    // An object in back-off does not queue.
    if let Some(rest) = ctx.hold_back(facts.memory.holds_back(effect, facts.now.mono)) {
        withdraw(ctx, &facts);
        return say(ctx, &facts, &decision, Again::After(rest)).await;
    }
    let asked = turn::ask(&facts, account.as_ref(), effect);
    let is_queued = matches!(asked, Asked::Queued);
    ctx.objects
        .remember(facts.uid(), |memory| memory.queued = is_queued);
    let observation = match asked {
        Asked::Queued => {
            let mut waiting = decision.clone();
            // The first steps of a new object are not worth a write.
            if let Some(rest) = waiting.queued(&facts) {
                return Again::After(rest);
            }
            let patience = decision.draft.patience.unwrap_or(QUEUED);
            let mut again = Again::After(QUEUED.min(patience));
            // It took the place of something else, which may be due before.
            if let (Effect::FetchPassword { .. }, Again::After(rest)) = (effect, decision.again) {
                again = again.within(rest);
            }
            return say(ctx, &facts, &waiting, again).await;
        }
        Asked::Denied(reason, message) => {
            facts.denied = Some((reason, message));
            return Box::pin(carry_out(ctx, Gathered { facts, account })).await;
        }
        Asked::Refused(observation) => root_password::refused(effect, observation),
        Asked::Now(permission) => {
            // An order and a release write a status of their own before they are sent.
            let is_told = matches!(effect, Effect::Order(_) | Effect::Release { .. });
            let calls = matches!(permission, Permission::Calls(_)) && !is_told;
            let asked = account.as_ref().filter(|_| calls);
            let acting = act(ctx, &facts, account.as_ref(), effect, permission);
            Box::pin(ctx.awaiting(&*facts.object, asked, acting)).await
        }
    };
    if observation == Observation::Stale {
        // The watch may be behind for a while; the next pass must not try the same again.
        let _ = ctx.read(&facts.object).await;
    }
    let over = *effect == Effect::RemoveFinalizer && observation == Observation::Done;
    if over {
        report::ended(ctx, &facts).await;
    }
    if let Effect::Expire { at } = effect
        && observation == Observation::Done
    {
        report::expired(ctx, &facts, *at).await;
    }
    let now = clock::now().mono;
    ctx.objects
        .remember(facts.uid(), |memory| memory.note(observation, now));
    if over {
        // The watch shows what is left of it, if others hold it.
        return Again::After(QUEUED);
    }
    Again::AtOnce
}

/// Tells people of a release whose note the object bears: by what it bears and not by the write, whose answer may be
/// lost.
async fn tell_release(ctx: &ServerContext, facts: &Facts) {
    let Some(uuid) = steps::release_to_tell(facts) else {
        return;
    };
    report::release_started(ctx, facts, uuid).await;
    ctx.objects.remember(facts.uid(), |memory| {
        memory.release_told = Some(uuid.to_owned());
    });
}

/// Whether the effect may follow as soon as something is known: the place that it has in the queue,
/// or its grant, is kept for it.
fn waits_for_facts(decision: &Decision) -> bool {
    decision.wants_installation
        || decision.wants_proof.is_some()
        || decision.wants_catalogue.is_some()
        || decision.wants_servers.is_some()
}

/// The place in the queue goes back, where there is one.
fn withdraw(ctx: &ServerContext, facts: &Facts) {
    if facts.memory.queued {
        ctx.accounts.withdraw(facts.uid());
        ctx.objects
            .remember(facts.uid(), |memory| memory.queued = false);
    }
}

/// Where another process acts nothing is done or said, but for one thing: the outcome of an order that
/// this one has sent is recorded. Returns when to look again; None: go on.
fn stand_by(ctx: &ServerContext, object: &BareMetalServer) -> Option<Again> {
    let uid = object.metadata.uid.as_deref()?;
    let again = ctx.stand_by_for(uid)?;
    let known = ctx.objects.memory(uid).answer;
    let recorded = object
        .status
        .as_ref()
        .and_then(|status| status.records.order.as_ref());
    let is_unrecorded = known.zip(recorded).is_some_and(|(known, recorded)| {
        let is_it = (known.seq, &known.nonce) == (recorded.seq, &recorded.nonce);
        is_it && recorded.outcome.is_none() && known.outcome.is_some()
    });
    (!is_unrecorded).then_some(again)
}

/// Writes the decided status; `again` is when to look if it stands.
async fn say(ctx: &ServerContext, facts: &Facts, decision: &Decision, again: Again) -> Again {
    if let Some(again) = stand_by(ctx, &facts.object) {
        return again;
    }
    let reported = report::report(ctx, facts, decision).await;
    if reported == Reported::Written {
        remember_record(ctx, facts, decision);
    }
    match reported {
        Reported::Written if decision.once_written == Again::AtOnce => Again::AtOnce,
        Reported::Stands | Reported::Written => again,
        Reported::Stale => Again::AtOnce,
        Reported::Later(rest) if ctx.is_ending() => {
            tracing::debug!(?rest, "updating a status before the process ends");
            Again::Backoff
        }
        Reported::Later(rest) => again.within(rest),
    }
}

/// What this process wrote of the order it knows.
fn remember_record(ctx: &ServerContext, facts: &Facts, decision: &Decision) {
    let written = decision.draft.status.records.order.as_ref();
    let shown = facts.object.status.as_ref();
    if written == shown.and_then(|status| status.records.order.as_ref()) {
        return;
    }
    let own = written.filter(|order| order.uid == facts.uid());
    let (order, now) = (own.map(ownership::order), clock::now().mono);
    ctx.objects
        .remember(facts.uid(), |memory| memory.recorded(order, now));
}

/// Passes the decision's wishes on to the account.
fn ask(ctx: &ServerContext, facts: &Facts, account: Option<&Account>, decision: &Decision) {
    let Some(account) = account else { return };
    // One that is there already was a fact of this decision; asking again would only wake the
    // object again.
    let newest = facts.view().and_then(|v| v.proof.as_ref()).map(|p| p.began);
    if let Some(not_before) = decision
        .wants_proof
        .filter(|wanted| newest.is_none_or(|n| n < *wanted))
    {
        let place = super::place(&ctx.cluster, &facts.object.metadata);
        account.want_proof(&place.unwrap_or_default(), not_before);
    }
    let handled = decision.draft.status.last_handled_reconcile_at.as_deref();
    if let Some((_, since)) = facts.memory.asked.open(handled) {
        account.retry_asked(since);
    }
    let caller = caller(facts);
    if let Some(not_before) = decision.wants_catalogue {
        account.want_list(List::Catalogue, not_before, &caller);
    }
    if let Some(not_before) = decision.wants_servers {
        account.want_list(List::Servers, not_before, &caller);
    }
}

/// Who asks the account.
pub(super) fn caller(facts: &Facts) -> Caller {
    Caller {
        uid: facts.uid().to_owned(),
        namespace: facts.namespace().to_owned(),
    }
}
