//! One pass over one server object.

use super::{
    ServerContext,
    act::act,
    decide::{Decision, Effect, decide},
    facts::Facts,
    memory::Observation,
    observe::{Gathered, observe},
    report,
    turn::{self, Asked},
};
use crate::{
    account::{Account, Caller, List},
    controllers::{again::Again, objects::Seen, report::Reported},
    kinds::BareMetalServer,
    runtime::clock,
};
use std::{sync::Arc, time::Duration};

/// The backstop of an object that waits for its turn: its account wakes it before.
const QUEUED: Duration = Duration::from_secs(60);

/// One pass.
pub(super) async fn pass(ctx: Arc<ServerContext>, seen: Seen<BareMetalServer>) -> Again {
    match seen {
        Seen::Object(object) => tend(&ctx, object).await,
        Seen::Undecodable(object) => ctx.report_undecodable(&object).await.1,
        // Its machine was dealt with before the finalizer went, and its memory goes with it.
        Seen::Gone(_) => Again::After(Duration::ZERO),
    }
}

async fn tend(ctx: &ServerContext, object: Arc<BareMetalServer>) -> Again {
    let Gathered { facts, account } = observe(ctx, object).await;
    let decision = decide(&facts);
    ask(&facts, account.as_ref(), &decision);
    ctx.objects.remember(facts.uid(), |memory| {
        memory.wants_keys = decision.wants_keys;
    });
    let Some(effect) = &decision.effect else {
        // A later pass of this row may still need the place.
        if decision.again != Again::AtOnce {
            ctx.accounts.withdraw(facts.uid());
        }
        return say(ctx, &facts, &decision, decision.again).await;
    };
    // An object in back-off does not queue.
    if let Some(rest) = ctx.hold_back(facts.memory.backoff.rest(facts.now.mono)) {
        ctx.accounts.withdraw(facts.uid());
        return say(ctx, &facts, &decision, Again::After(rest)).await;
    }
    let observation = match turn::ask(&facts, account.as_ref(), effect) {
        Asked::Queued => {
            tracing::debug!(name = facts.name(), ?effect, "waits for its turn");
            return say(ctx, &facts, &decision, Again::After(QUEUED)).await;
        }
        Asked::Refused(observation) => observation,
        Asked::Now(permission) => act(ctx, &facts, account.as_ref(), effect, permission).await,
    };
    if observation == Observation::Stale {
        // The watch may be behind for a while; the next pass must not try the same again.
        let _ = ctx.read(&facts.object).await;
    }
    let over = *effect == Effect::LetGo && observation == Observation::Done;
    if over {
        report::ended(ctx, &facts).await;
    }
    let spacing = facts
        .view()
        .map_or(Duration::from_secs(60), |v| v.times.listing_spacing);
    let now = clock::now().mono;
    ctx.objects
        .remember(facts.uid(), |memory| memory.note(observation, now, spacing));
    if over {
        // The watch shows what is left of it, if others hold it.
        return Again::After(QUEUED);
    }
    Again::AtOnce
}

/// Writes the decided status; `again` is when to look if it stands.
async fn say(ctx: &ServerContext, facts: &Facts, decision: &Decision, again: Again) -> Again {
    match report::report(ctx, facts, decision).await {
        Reported::Stands | Reported::Written => again,
        Reported::Stale => Again::AtOnce,
        Reported::Failed => Again::Backoff,
    }
}

/// Passes the decision's wishes on to the account.
fn ask(facts: &Facts, account: Option<&Account>, decision: &Decision) {
    let Some(account) = account else { return };
    // One that is there already was a fact of this decision; asking again would only wake the
    // object again.
    let newest = facts.view().and_then(|v| v.proof.as_ref()).map(|p| p.began);
    if let Some(not_before) = decision
        .wants_proof
        .filter(|wanted| newest.is_none_or(|n| n < *wanted))
    {
        account.want_proof(facts.mark().as_str(), not_before);
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
