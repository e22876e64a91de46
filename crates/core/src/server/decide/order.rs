//! No machine, and no order that may still make one: may a new one start?
//!
//! Checks first, so that an object that waits has no record. Each cause has a reason of its own,
//! and the object moves on by itself when the cause is gone.

use super::{
    super::facts::{Installation, ServerFacts, account_of},
    NewOrder, ServerDecision, ServerEffect, decide,
    desired_status::DesiredStatus,
    expiry, explain, external, order_account, remedy, replace,
    request::{self, OrderPlacement},
    sent_hashes, stock, terms,
};
use crate::{
    account::{supply::CATALOGUE_AGE, view::AccountView},
    backoff,
    explanation::{Explanation, ReadyState},
    protocol::order::next_seq,
    resolved_account::{Purpose, ResolvedAccount, explain_blocked},
};
use api::{
    Interval, Reason,
    acknowledgement::AcknowledgementEffect::AssumeAbsent,
    conditions::{Type, is_true},
    server::{BareMetalServerStatus, OrderOutcome, OrderRecord},
};
use hosting_types::Order;
use jiff::Timestamp;
use std::time::Duration;

/// The longest pause between two orders that are refused.
const LONGEST_ORDER_PAUSE: Duration = Duration::from_secs(1800);

/// Refusals for want of stock or quota say little of the request: their row grows no longer than this.
const MOST_LACK_FAILURES: i32 = 3;

/// Why the object neither orders nor takes a server now, whatever is known of servers.
pub fn block_order(facts: &ServerFacts) -> Option<ServerDecision> {
    let hold = |cause| Some(ServerDecision::wait_with_reason(facts, cause));
    // What an account said that is not there any more holds nothing.
    let is_remembered = facts.object.spec.suspend.is_none()
        && !matches!(facts.account, ResolvedAccount::Found { .. });
    if facts.policies().suspend && !is_remembered {
        return hold(Explanation::suspended());
    }
    if facts.object.spec.external_id.is_some() {
        let shown = facts
            .external
            .as_ref()
            .and_then(|named| named.shown.as_ref());
        let unseen = shown.and_then(|shown| external::explain_not_visible(facts, &shown.server));
        let cause = expiry::explain_blocked_order(facts).or(unseen)?;
        return Some(
            ServerDecision::wait_with_reason(facts, cause)
                .requeue_after(external::idle_poll_interval(facts)),
        );
    }
    match facts.account.usable(Purpose::Order) {
        Ok(_) => {}
        Err(cause)
            if cause.reason == Reason::Pending && cause.ready_state != ReadyState::Missing =>
        {
            return Some(ServerDecision::wait_quietly(facts, cause));
        }
        Err(cause) => return hold(cause),
    }
    if facts.policies().observe_only() {
        return hold(remedy::explain_observe_only(facts, "nothing is ordered"));
    }
    explain_blocked_order(facts).and_then(hold)
}

fn explain_blocked_order(facts: &ServerFacts) -> Option<Explanation> {
    expiry::explain_blocked_order(facts)
        .or_else(|| replace::explain_blocked_order(facts))
        .or_else(|| terms::explain_blocked_order(facts))
}

/// It is certain that no server of it is there: when, where and with what the order goes out.
pub fn decide_next_order(
    facts: &ServerFacts,
    view: &AccountView,
    after: u32,
    lost: u8,
    cut: u8,
) -> ServerDecision {
    // Of an object in whose place another server is ordered nothing of this was judged yet.
    if let Some(wait) = block_order(facts) {
        return wait;
    }
    if after == u32::MAX {
        let text = format!(
            "Order number {after} is the highest, so no further order can be tagged. Create this object under another name"
        );
        return ServerDecision::wait_with_reason(
            facts,
            Explanation::stalled(Reason::OrderRefused, text),
        );
    }
    if let Some(wait) = wait_between_orders(facts, view) {
        return wait;
    }
    let place = match find_placement(facts, view) {
        Ok(place) => place,
        Err(wait) => return *wait,
    };
    let counts = (after, lost, cut);
    let mut decision = match &facts.installation {
        None => ServerDecision::unchanged(facts).requeue_now(),
        Some(Ok(installation)) => decide_at_placement(facts, view, &place, installation, counts),
        Some(Err(cause)) => {
            let every = view.times.active_poll_interval;
            ServerDecision::wait_with_reason(facts, cause.clone().checked_every(every))
                .requeue_after(every)
        }
    };
    // Until the order is sent each pass needs it: one without it would not ask for its turn.
    decision.wants_installation = true;
    decision
}

/// Where the order goes, by a catalogue that is new enough.
fn find_placement(
    facts: &ServerFacts,
    view: &AccountView,
) -> Result<OrderPlacement, Box<ServerDecision>> {
    // Newer than a refusal of the same, whosever order that was: this one would be refused as well.
    let refused = refused_at(facts).max(stock::find_unexplained_refusal(facts, view));
    // What a user has to correct is not looked up again and again.
    let most = match is_reported_to_user(facts) {
        true => CATALOGUE_AGE.max(view.times.idle_poll_interval),
        false => CATALOGUE_AGE,
    };
    let is_usable =
        |at: Duration| facts.now.since(at) < most && refused.is_none_or(|refused| at >= refused);
    match view.catalogue.as_ref().filter(|(at, _)| is_usable(*at)) {
        Some((_, catalogue)) => request::choose_placement(facts, catalogue)
            .map_err(|cause| Box::new(wait_until_orderable(facts, view, cause))),
        None => Err(Box::new(wait_for_catalogue(facts, view, refused))),
    }
}

/// A look at the catalogue has to come first, newer than this refusal.
fn wait_for_catalogue(
    facts: &ServerFacts,
    view: &AccountView,
    refused: Option<Duration>,
) -> ServerDecision {
    let recent = facts.now.mono.saturating_sub(CATALOGUE_AGE / 2);
    let mut wait = wait_for_poll(facts, view);
    wait.wants_catalogue = Some(refused.map_or(recent, |refused| refused.max(recent)));
    wait
}

/// Whether status says of this very spec that a user has to correct something.
fn is_reported_to_user(facts: &ServerFacts) -> bool {
    facts.object.status.as_ref().is_some_and(|status| {
        status.observed_generation == facts.object.metadata.generation
            && is_true(&status.conditions, Type::Stalled)
    })
}

/// The request cannot be sent as it is, or cannot be had: the catalogue may say otherwise, of stock and quota soon.
fn wait_until_orderable(
    facts: &ServerFacts,
    view: &AccountView,
    cause: Explanation,
) -> ServerDecision {
    let (idle, active) = (
        view.times.idle_poll_interval,
        view.times.active_poll_interval,
    );
    let now = facts.now.mono;
    let (again, next) = match cause.ready_state {
        ReadyState::Stalled => {
            let looked = view.catalogue.as_ref().map_or(now, |(at, _)| *at);
            (idle, looked + idle)
        }
        _ => (idle.min(active * 2), now + active),
    };
    let mut wait = ServerDecision::wait_with_reason(facts, cause).requeue_after(again);
    wait.wants_catalogue = Some(next);
    wait
}

/// All that needs no call is there: what the request would be, and whether it can be sent.
fn decide_at_placement(
    facts: &ServerFacts,
    view: &AccountView,
    place: &OrderPlacement,
    installation: &Installation,
    counts: (u32, u8, u8),
) -> ServerDecision {
    let order = match request::build_order(facts, place, installation) {
        Ok(order) => order,
        Err(cause) => return wait_until_orderable(facts, view, cause),
    };
    let is_recent = |(at, _): &(Duration, _)| facts.now.since(*at) < CATALOGUE_AGE;
    match &facts.denied {
        Some(why) => wait_for_permit(facts, view, why),
        None if !view.catalogue.as_ref().is_some_and(is_recent) => {
            wait_for_catalogue(facts, view, None)
        }
        None => start_order(facts, view, order, installation, counts),
    }
}

fn start_order(
    facts: &ServerFacts,
    view: &AccountView,
    order: Order,
    installation: &Installation,
    (after, lost, cut): (u32, u8, u8),
) -> ServerDecision {
    // Another request breaks the row of refusals.
    let failures = facts.order().map_or(0, |record| {
        match (is_changed(facts, record), stock::was_lacking(facts, record)) {
            (true, _) => 0,
            (false, Some(_)) => record.failures.min(MOST_LACK_FAILURES - 1),
            (false, None) => record.failures,
        }
    });
    let Some(account) = order_account(facts) else {
        let cause = Explanation::waits(
            Reason::Pending,
            "Waiting for the account to be recorded; then the order follows",
        );
        return ServerDecision::wait_quietly(facts, cause);
    };
    let given = facts.acknowledgements();
    let asked = explain::order_another_situation(facts)
        .into_iter()
        .chain([explain::assume_absent_situation(facts)]);
    let acknowledgement = asked.filter_map(|asked| given.token(&asked)).next();
    let mut draft = DesiredStatus::waiting(
        facts,
        Explanation::waits(
            Reason::Ordering,
            format!(
                "Ordering the server; waiting for the answer, {} at most",
                Interval(view.times.order_timeout)
            ),
        ),
    );
    draft.status.account_ref = Some(account_of(&facts.object));
    // What an earlier life of the object left in its status is not true of the next machine.
    draft.forget_server();
    ServerDecision::from_status(draft).with_effect(ServerEffect::Order(Box::new(NewOrder {
        order,
        account,
        after,
        lost,
        cut,
        failures,
        acknowledgement: acknowledgement.map(str::to_owned),
        request_hash: request::request_hash(facts),
        sent: sent_hashes::hashes(&facts.object.spec, installation),
        key_uids: installation.key_uids(),
    })))
}

/// The record of an order that is about to be sent, on the facts that it was started on: no outcome yet.
pub fn open_record(
    fresh: &ServerFacts,
    planned: &NewOrder,
    nonce: &str,
    window: Duration,
) -> OrderRecord {
    let now = fresh.now.wall;
    let window = i64::try_from(window.as_secs().max(1)).unwrap_or(i64::MAX);
    OrderRecord {
        uid: fresh.uid().to_owned(),
        seq: next_seq(now, planned.after),
        nonce: nonce.to_owned(),
        send_by: now.saturating_add(window),
        hostname: planned.order.name.clone(),
        account_id: planned.account.account_id.clone(),
        outcome: None,
        server: None,
        outcome_at: None,
        answer_lost: false,
        lost: planned.lost,
        cut: planned.cut,
        message: None,
        failures: planned.failures,
        acknowledgement: planned.acknowledgement.clone(),
        request_hash: Some(planned.request_hash.clone()),
        location: Some(planned.order.location.clone()),
        instance_type: Some(planned.order.instance_type.clone()),
        sent: planned.sent.clone(),
        key_uids: planned.key_uids.clone(),
        secret_texts: fresh.object.spec.has_secret_texts(),
    }
}

/// The whole status that an order starts with.
pub fn starting_status(fresh: &ServerFacts, record: &OrderRecord) -> BareMetalServerStatus {
    let now = Timestamp::from_second(fresh.now.wall).unwrap_or_default();
    let mut draft = decide(fresh).desired;
    draft.use_up(fresh, AssumeAbsent);
    let mut tags = fresh.object.spec.tags.clone();
    tags.sort_unstable();
    let mut status = draft.finish(now);
    status.records.order = Some(record.clone());
    // Those of the request: it is decided on these very facts. Recorded before it is sent, so no lost answer and no crash
    // hides which tags of the machine came from this object.
    status.records.tags = tags;
    status
}

/// Waiting for a look that the account makes by itself: no news, unless that look fails.
pub(super) fn wait_for_poll(facts: &ServerFacts, view: &AccountView) -> ServerDecision {
    match &view.last_error {
        Some((reason, message)) => {
            ServerDecision::wait_with_reason(facts, Explanation::waits(*reason, message.clone()))
        }
        None => ServerDecision::unchanged(facts),
    }
    .requeue_after(view.times.active_poll_interval)
}

/// The account lets no order start now.
fn wait_for_permit(
    facts: &ServerFacts,
    view: &AccountView,
    (reason, message): &(Reason, String),
) -> ServerDecision {
    let pause = match reason {
        Reason::LimitReached => view.times.active_poll_interval,
        _ => Duration::from_secs(1),
    };
    ServerDecision::wait_with_reason(facts, explain_blocked(*reason, message.clone()))
        .requeue_after(pause)
}

/// Whether the spec asks for something else than that order did.
fn is_changed(facts: &ServerFacts, record: &OrderRecord) -> bool {
    let asked = record.request_hash.as_deref();
    asked.is_some_and(|asked| asked != request::request_hash(facts))
}

/// Whether the next order would go to another place than that one, by what the catalogue says now.
fn has_other_placement(facts: &ServerFacts, view: &AccountView, record: &OrderRecord) -> bool {
    let ordered = record.location.as_ref().zip(record.instance_type.as_ref());
    let catalogue = view.catalogue.as_ref();
    let next =
        catalogue.and_then(|(_, catalogue)| request::choose_placement(facts, catalogue).ok());
    ordered
        .zip(next)
        .is_some_and(|((location, instance_type), next)| {
            !terms::is_same(location, &next.location)
                || !terms::is_same(instance_type, &next.instance_type)
        })
}

/// Waiting between an order that made no machine and the next.
pub(super) fn wait_between_orders(
    facts: &ServerFacts,
    view: &AccountView,
) -> Option<ServerDecision> {
    let record = facts.order()?;
    let failures = u32::try_from(record.failures.max(1)).unwrap_or(1);
    let (pause, reason, stalled) = match record.outcome? {
        OrderOutcome::Refused => {
            if stock::is_lacking_since(facts, view, record, refused_at(facts)) {
                return None;
            }
            let lacked = stock::was_lacking(facts, record);
            if let Some(refused) = stock::find_unexplained_refusal(facts, view) {
                let unlooked = || stock::wait_for_stock_check(facts, view, record, refused);
                return lacked.is_none().then(unlooked);
            }
            let failures = match lacked {
                Some(_) => failures.min(MOST_LACK_FAILURES.unsigned_abs()),
                None => failures,
            };
            let slow = view
                .times
                .active_poll_interval
                .saturating_mul(1u32 << (failures - 1).min(10))
                .min(LONGEST_ORDER_PAUSE);
            // Another request may be accepted. Not at any pace: each is a call that may cost.
            let is_another = is_changed(facts, record) || has_other_placement(facts, view, record);
            let slow = match is_another {
                true => slow.min(view.times.active_poll_interval),
                false => slow,
            };
            match lacked {
                // It may be had again soon, or be said to be there and be refused each time.
                Some(reason) => (slow, reason, false),
                None => (slow, Reason::OrderRefused, true),
            }
        }
        // Whatever kept it from being sent is over.
        OrderOutcome::NotSent if has_answers_since(facts, view) => return None,
        OrderOutcome::NotSent => (
            backoff::delay(failures.saturating_sub(1), backoff::LONGEST_PAUSE)
                .min(view.times.active_poll_interval),
            Reason::ProviderUnreachable,
            false,
        ),
        OrderOutcome::Created | OrderOutcome::Absent | OrderOutcome::Adopting => return None,
    };
    // Wall time, because the pause outlives a restart, and the monotonic clock beside it: whatever the other one
    // did, the pause is not longer than since this process first saw the outcome.
    let closed = record.outcome_at.unwrap_or_default();
    let by_wall = u64::try_from(facts.now.wall.saturating_sub(closed)).unwrap_or(0);
    let by_mono = facts.now.since(facts.memory.protocol.since());
    let waited = Duration::from_secs(by_wall).max(by_mono);
    let rest = pause.checked_sub(waited).filter(|r| !r.is_zero())?;
    let message = record
        .message
        .clone()
        .unwrap_or_else(|| "The order created no server".into());
    // A moment and not a span, which would change with every look; none where the clock was turned back.
    let next = closed.saturating_add(i64::try_from(pause.as_secs()).unwrap_or(i64::MAX));
    let next = Timestamp::from_second(next).unwrap_or_default();
    let message = match reason {
        Reason::NoStock | Reason::QuotaExceeded => {
            format!("The last order was refused; stock or quota is shown again since; {message}")
        }
        _ => message,
    };
    let message = match stalled {
        true => format!("{message}. Correct the field it names in the spec, or wait"),
        false => message,
    };
    let message = match closed <= facts.now.wall {
        true => format!("{message}; retrying at {next}"),
        false => format!("{message}; retrying within {}", Interval(pause)),
    };
    let cause = match (&view.last_error, stalled) {
        // Which may be all that the order was refused for.
        (Some((Reason::RateLimited, why)), _) => {
            Explanation::waits(Reason::RateLimited, why.as_str())
        }
        (Some((away, why)), false) if reason == Reason::ProviderUnreachable => {
            Explanation::waits(*away, why.as_str())
        }
        (_, true) => Explanation::stalled(reason, message),
        (_, false) => Explanation::waits(reason, message),
    };
    let mut wait = ServerDecision::wait_with_reason(facts, cause).requeue_after(rest);
    // By the next try it is known whether it was for want of stock or quota.
    let looked = view.catalogue.as_ref().map(|(at, _)| *at);
    wait.wants_catalogue = refused_at(facts).filter(|refused| looked < Some(*refused));
    Some(wait)
}

/// Whether the account lacked answers when the last order ended, and has them again.
fn has_answers_since(facts: &ServerFacts, view: &AccountView) -> bool {
    view.answers_since > Some(facts.memory.protocol.since())
}

/// Since when this process knows that the last order of the object was refused.
fn refused_at(facts: &ServerFacts) -> Option<Duration> {
    let is_refused = facts.order()?.outcome == Some(OrderOutcome::Refused);
    is_refused.then(|| facts.memory.protocol.since())
}
