//! Reconciles one server object.

use super::{
    ServerContext,
    act::act,
    observe::{GatheredServerFacts, observe},
    permits::{self, EffectPermit, PermissionAnswer},
    report, root_password,
};
use crate::{
    account::{Account, Caller},
    controllers::{objects::WorkItem, report::Reported},
    runtime::clock,
};
use api::{BareMetalServer, target::TargetKind};
use flexmetal_core::{
    account::view::ListKind,
    requeue::Requeue,
    server::{
        decide::{ServerDecision, ServerEffect, decide},
        events,
        facts::ServerFacts,
        memory::ServerObservation,
        protocol_facts,
    },
};
use std::{sync::Arc, time::Duration};

/// Requeue of an object that waits for a permit; its account enqueues it earlier. Long, since thousands may wait at
/// once and each reconcile of a waiting object costs as much as of another one.
const QUEUED: Duration = Duration::from_secs(600);

/// Handles one work item.
pub(super) async fn reconcile(ctx: Arc<ServerContext>, seen: WorkItem<BareMetalServer>) -> Requeue {
    match seen {
        // The facts are large.
        WorkItem::Object(object) => Box::pin(reconcile_server(&ctx, object)).await,
        WorkItem::Undecodable(object) => {
            if let Some(again) = ctx.requeue_if_standby() {
                return again;
            }
            let uid = object.metadata.uid.as_deref().unwrap_or_default();
            ctx.accounts.forget(uid);
            ctx.report_undecodable(&object).await.1
        }
        // Its server was handled before the finalizer was removed, and its memory goes with it.
        WorkItem::Gone(last) => {
            let kind = TargetKind::BareMetalServer;
            ctx.server_commands.target_changed(kind, last.meta());
            // Unless another object has its name by now.
            let place = super::name_hash_of(&ctx.cluster, last.meta());
            let uid = last.meta().uid.as_deref().unwrap_or_default();
            let is_free = |place: &String| {
                let there = ctx.objects.by_alias(place);
                there.is_none_or(|there| *there == *uid)
            };
            if let Some(place) = place.filter(is_free) {
                ctx.accounts.forget_name_hash(&place);
            }
            Requeue::After(Duration::ZERO)
        }
    }
}

async fn reconcile_server(ctx: &ServerContext, object: Arc<BareMetalServer>) -> Requeue {
    if let Some(again) = pause_as_standby(ctx, &object) {
        return again;
    }
    Box::pin(observe_and_act(ctx, object)).await
}

async fn observe_and_act(ctx: &ServerContext, object: Arc<BareMetalServer>) -> Requeue {
    let gathered = observe(ctx, object).await;
    report_release(ctx, &gathered.facts).await;
    Box::pin(carry_out(ctx, gathered)).await
}

async fn carry_out(ctx: &ServerContext, gathered: GatheredServerFacts) -> Requeue {
    let GatheredServerFacts { mut facts, account } = gathered;
    let decision = decide(&facts);
    request_lists(ctx, &facts, account.as_ref(), &decision);
    ctx.objects.remember(facts.uid(), |memory| {
        memory.wants_installation = decision.wants_installation;
        memory
            .reference_grace
            .record_awaited(decision.desired.waiting_reason, facts.now.mono);
    });
    let Some(effect) = &decision.effect else {
        if !waits_for_facts(&decision) {
            cancel_request(ctx, &facts);
        }
        return report_status(ctx, &facts, &decision, decision.requeue).await;
    };
    // An object in backoff does not queue.
    if let Some(rest) = ctx.retry_after(facts.memory.remaining_backoff(effect, facts.now.mono)) {
        cancel_request(ctx, &facts);
        return report_status(ctx, &facts, &decision, Requeue::After(rest)).await;
    }
    let asked = permits::request_permission(&facts, account.as_ref(), effect);
    let is_queued = matches!(asked, PermissionAnswer::Queued);
    ctx.objects
        .remember(facts.uid(), |memory| memory.queued = is_queued);
    let observation = match asked {
        PermissionAnswer::Queued => {
            let mut waiting = decision.clone();
            // The first steps of a new object are not worth a status update.
            if let Some(rest) = waiting.report_queued(&facts) {
                return Requeue::After(rest);
            }
            let grace_left = decision.desired.grace_left.unwrap_or(QUEUED);
            let mut again = Requeue::After(QUEUED.min(grace_left));
            // A password fetch goes before another step, which may be due earlier.
            if let (ServerEffect::FetchPassword { .. }, Requeue::After(rest)) =
                (effect, decision.requeue)
            {
                again = again.cap_delay(rest);
            }
            return report_status(ctx, &facts, &waiting, again).await;
        }
        PermissionAnswer::Denied(reason, message) => {
            facts.denied = Some((reason, message));
            return Box::pin(carry_out(ctx, GatheredServerFacts { facts, account })).await;
        }
        PermissionAnswer::Refused(observation) => root_password::refused(effect, observation),
        PermissionAnswer::Now(permission) => {
            // An order and a release write status themselves before the request.
            let writes_status = matches!(
                effect,
                ServerEffect::Order(_) | ServerEffect::Release { .. }
            );
            let calls = matches!(permission, EffectPermit::Calls(_)) && !writes_status;
            let asked = account.as_ref().filter(|_| calls);
            let acting = act(ctx, &facts, account.as_ref(), effect, permission);
            Box::pin(ctx.await_effect(&*facts.object, asked, acting)).await
        }
    };
    if observation == ServerObservation::Stale {
        // The watch may lag. The live read keeps the next reconcile from trying the same again.
        let _ = ctx.read_object(&facts.object).await;
    }
    let over = *effect == ServerEffect::RemoveFinalizer && observation == ServerObservation::Done;
    if over {
        report::ended(ctx, &facts).await;
    }
    if let ServerEffect::Expire { at } = effect
        && observation == ServerObservation::Done
    {
        report::expired(ctx, &facts, *at).await;
    }
    let now = clock::now().mono;
    ctx.objects.remember(facts.uid(), |memory| {
        memory.record_observation(observation, now)
    });
    if over {
        // If others have finalizers on it, the watch shows the rest.
        return Requeue::After(QUEUED);
    }
    Requeue::Now
}

/// Reports a release that the object records. It reads the object, since the answer to the write may be lost.
async fn report_release(ctx: &ServerContext, facts: &ServerFacts) {
    let Some(uuid) = events::find_unreported_release(facts) else {
        return;
    };
    report::release_started(ctx, facts, uuid).await;
    ctx.objects.remember(facts.uid(), |memory| {
        memory.release_reported = Some(uuid.to_owned());
    });
}

/// Whether the effect may follow once a fact is known; its queue position or grant is then kept.
fn waits_for_facts(decision: &ServerDecision) -> bool {
    decision.wants_installation
        || decision.wants_complete_list.is_some()
        || decision.wants_catalogue.is_some()
        || decision.wants_servers.is_some()
}

/// Cancels the queued request, if there is one.
fn cancel_request(ctx: &ServerContext, facts: &ServerFacts) {
    if facts.memory.queued {
        ctx.accounts.cancel_requests(facts.uid());
        ctx.objects
            .remember(facts.uid(), |memory| memory.queued = false);
    }
}

/// On a standby nothing is done or reported, except the outcome of an order that this process sent. Returns when to
/// requeue; None: continue.
fn pause_as_standby(ctx: &ServerContext, object: &BareMetalServer) -> Option<Requeue> {
    let uid = object.metadata.uid.as_deref()?;
    let again = ctx.requeue_if_not_serving(uid)?;
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

/// Writes the decided status; `again` is the requeue after it.
async fn report_status(
    ctx: &ServerContext,
    facts: &ServerFacts,
    decision: &ServerDecision,
    again: Requeue,
) -> Requeue {
    if let Some(again) = pause_as_standby(ctx, &facts.object) {
        return again;
    }
    let reported = report::report(ctx, facts, decision).await;
    if reported == Reported::Written {
        remember_record(ctx, facts, decision);
    }
    match reported {
        Reported::Written if decision.requeue_once_written == Requeue::Now => Requeue::Now,
        Reported::Unchanged | Reported::Written => again,
        Reported::Stale => Requeue::Now,
        Reported::Later(rest) if ctx.is_shutting_down() => {
            tracing::debug!(
                namespace = facts.namespace(),
                name = facts.name(),
                retry_after_seconds = rest.as_secs_f64(),
                "final status update"
            );
            Requeue::Backoff
        }
        Reported::Later(rest) => again.cap_delay(rest),
    }
}

/// Remembers the order record that this process wrote.
fn remember_record(ctx: &ServerContext, facts: &ServerFacts, decision: &ServerDecision) {
    let written = decision.desired.status.records.order.as_ref();
    let shown = facts.object.status.as_ref();
    if written == shown.and_then(|status| status.records.order.as_ref()) {
        return;
    }
    let own = written.filter(|order| order.uid == facts.uid());
    let (order, now) = (
        own.map(protocol_facts::to_protocol_order),
        clock::now().mono,
    );
    ctx.objects.remember(facts.uid(), |memory| {
        memory.record_written_order(order, now)
    });
}

/// Requests the lists that the decision needs from the account.
fn request_lists(
    ctx: &ServerContext,
    facts: &ServerFacts,
    account: Option<&Account>,
    decision: &ServerDecision,
) {
    let Some(account) = account else { return };
    // A list that exists was a fact of this decision; requesting it again would only enqueue the object again.
    let newest = facts
        .view()
        .and_then(|v| v.complete_list.as_ref())
        .map(|p| p.began);
    if let Some(not_before) = decision
        .wants_complete_list
        .filter(|wanted| newest.is_none_or(|n| n < *wanted))
    {
        let place = super::name_hash_of(&ctx.cluster, &facts.object.metadata);
        account.request_complete_list(&place.unwrap_or_default(), not_before);
    }
    let handled = decision.desired.status.last_handled_reconcile_at.as_deref();
    if let Some((_, since)) = facts.memory.asked.unhandled(handled) {
        account.request_retry(since);
    }
    let caller = caller(facts);
    if let Some(not_before) = decision.wants_catalogue {
        account.request_list(ListKind::Catalogue, not_before, &caller);
    }
    if let Some(not_before) = decision.wants_servers {
        account.request_list(ListKind::Servers, not_before, &caller);
    }
}

/// The object as the caller of its account.
pub(super) fn caller(facts: &ServerFacts) -> Caller {
    Caller {
        uid: facts.uid().to_owned(),
        namespace: facts.namespace().to_owned(),
    }
}
