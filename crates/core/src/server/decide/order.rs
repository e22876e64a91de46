//! No server, and no order that may still create one: decides whether, when and with what the next order goes out.
//! Checks come before the record, so a waiting object has no record.

use super::{
    super::facts::{Installation, ServerFacts, account_of},
    NewOrder, ServerDecision, ServerEffect, decide,
    desired_status::DesiredStatus,
    expiry, explain, external, order_account, remedy, replace,
    request_checks::{self, OrderPlacement},
    sent_hashes, stock, terms,
};
use crate::{
    account::{order_supply::CATALOGUE_AGE, view::AccountView},
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

/// Longest pause between two refused orders.
const LONGEST_ORDER_PAUSE: Duration = Duration::from_secs(1800);

/// Refusals for lack of stock or quota say little about the request, so the backoff counts no more than these.
const MOST_LACK_FAILURES: i32 = 3;

/// Why the object neither orders nor adopts now, for any server.
pub fn block_order(facts: &ServerFacts) -> Option<ServerDecision> {
    let wait_for = |explanation| Some(ServerDecision::wait_with_reason(facts, explanation));
    // A suspension by the defaults of an account that is not found does not count.
    let is_remembered = facts.object.spec.suspend.is_none()
        && !matches!(facts.account, ResolvedAccount::Found { .. });
    if facts.policies().suspend && !is_remembered {
        return wait_for(Explanation::suspended());
    }
    if facts.object.spec.external_id.is_some() {
        let shown = facts
            .external
            .as_ref()
            .and_then(|named| named.shown.as_ref());
        let unseen = shown.and_then(|shown| external::explain_not_visible(facts, &shown.server));
        let explanation = expiry::explain_blocked_order(facts).or(unseen)?;
        return Some(
            ServerDecision::wait_with_reason(facts, explanation)
                .requeue_after(external::idle_poll_interval(facts)),
        );
    }
    match facts.account.usable(Purpose::Order) {
        Ok(_) => {}
        Err(explanation)
            if explanation.reason == Reason::Pending
                && explanation.ready_state != ReadyState::Missing =>
        {
            return Some(ServerDecision::wait_quietly(facts, explanation));
        }
        Err(explanation) => return wait_for(explanation),
    }
    if facts.policies().observe_only() {
        return wait_for(remedy::explain_observe_only(facts, "nothing is ordered"));
    }
    explain_blocked_order(facts).and_then(wait_for)
}

fn explain_blocked_order(facts: &ServerFacts) -> Option<Explanation> {
    expiry::explain_blocked_order(facts)
        .or_else(|| replace::explain_blocked_order(facts))
        .or_else(|| terms::explain_blocked_order(facts))
}

/// No server of the object exists: decides when, where and with what to order.
pub fn decide_next_order(
    facts: &ServerFacts,
    view: &AccountView,
    after: u32,
    lost: u8,
    cut: u8,
) -> ServerDecision {
    // For a replacement, nothing of this is checked yet.
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
    let placement = match find_placement(facts, view) {
        Ok(placement) => placement,
        Err(wait) => return *wait,
    };
    let counts = (after, lost, cut);
    let mut decision = match &facts.installation {
        None => ServerDecision::unchanged(facts).requeue_now(),
        Some(Ok(installation)) => {
            decide_at_placement(facts, view, &placement, installation, counts)
        }
        Some(Err(explanation)) => {
            let every = view.times.active_poll_interval;
            ServerDecision::wait_with_reason(facts, explanation.clone().checked_every(every))
                .requeue_after(every)
        }
    };
    // Each reconcile needs it until the order is sent: without it, the object requests no permit.
    decision.wants_installation = true;
    decision
}

/// Where the order goes, by a recent catalogue.
fn find_placement(
    facts: &ServerFacts,
    view: &AccountView,
) -> Result<OrderPlacement, Box<ServerDecision>> {
    // Newer than a refusal of the same demand, by any object: this order would be refused as well.
    let refused = refused_at(facts).max(stock::find_unexplained_refusal(facts, view));
    // While a user has to correct the spec, the catalogue is polled less often.
    let most = match is_reported_to_user(facts) {
        true => CATALOGUE_AGE.max(view.times.idle_poll_interval),
        false => CATALOGUE_AGE,
    };
    let is_usable = |at: Duration| {
        facts.now.elapsed_since(at) < most && refused.is_none_or(|refused| at >= refused)
    };
    match view.catalogue.as_ref().filter(|(at, _)| is_usable(*at)) {
        Some((_, catalogue)) => request_checks::choose_placement(facts, catalogue)
            .map_err(|explanation| Box::new(wait_until_orderable(facts, view, explanation))),
        None => Err(Box::new(wait_for_catalogue(facts, view, refused))),
    }
}

/// Waits for a catalogue that is newer than this refusal.
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

/// Whether status already reports this generation of the spec as Stalled.
fn is_reported_to_user(facts: &ServerFacts) -> bool {
    facts.object.status.as_ref().is_some_and(|status| {
        status.observed_generation == facts.object.metadata.generation
            && is_true(&status.conditions, Type::Stalled)
    })
}

/// The request is invalid or unavailable: waits for a new catalogue, which comes sooner for stock and quota.
fn wait_until_orderable(
    facts: &ServerFacts,
    view: &AccountView,
    explanation: Explanation,
) -> ServerDecision {
    let (idle, active) = (
        view.times.idle_poll_interval,
        view.times.active_poll_interval,
    );
    let now = facts.now.mono;
    let (again, next) = match explanation.ready_state {
        ReadyState::Stalled => {
            let polled_at = view.catalogue.as_ref().map_or(now, |(at, _)| *at);
            (idle, polled_at + idle)
        }
        _ => (idle.min(active * 2), now + active),
    };
    let mut wait = ServerDecision::wait_with_reason(facts, explanation).requeue_after(again);
    wait.wants_catalogue = Some(next);
    wait
}

/// Builds the request, then orders if there is a permit and a recent catalogue.
fn decide_at_placement(
    facts: &ServerFacts,
    view: &AccountView,
    placement: &OrderPlacement,
    installation: &Installation,
    counts: (u32, u8, u8),
) -> ServerDecision {
    let order = match request_checks::build_order(facts, placement, installation) {
        Ok(order) => order,
        Err(explanation) => return wait_until_orderable(facts, view, explanation),
    };
    let is_recent = |(at, _): &(Duration, _)| facts.now.elapsed_since(*at) < CATALOGUE_AGE;
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
    // A changed request resets the count of refusals.
    let failures = facts.order().map_or(0, |record| {
        match (is_changed(facts, record), stock::was_lacking(facts, record)) {
            (true, _) => 0,
            (false, Some(_)) => record.failures.min(MOST_LACK_FAILURES - 1),
            (false, None) => record.failures,
        }
    });
    let Some(account) = order_account(facts) else {
        let explanation = Explanation::waits(
            Reason::Pending,
            "Waiting for the account to be recorded; then the order follows",
        );
        return ServerDecision::wait_quietly(facts, explanation);
    };
    let given = facts.acknowledgements();
    let asked = explain::order_another_situation(facts)
        .into_iter()
        .chain([explain::assume_absent_situation(facts)]);
    let acknowledgement = asked.filter_map(|asked| given.token(&asked)).next();
    let mut desired = DesiredStatus::waiting(
        facts,
        Explanation::waits(
            Reason::Ordering,
            format!(
                "Ordering the server; waiting for the answer, {} at most",
                Interval(view.times.order_timeout)
            ),
        ),
    );
    desired.status.account_ref = Some(account_of(&facts.object));
    ServerDecision::from_status(desired).with_effect(ServerEffect::Order(Box::new(NewOrder {
        order,
        account,
        after,
        lost,
        cut,
        failures,
        acknowledgement: acknowledgement.map(str::to_owned),
        request_hash: request_checks::request_hash(facts),
        sent: sent_hashes::hashes(&facts.object.spec, installation),
        key_uids: installation.key_uids(),
    })))
}

/// The open record of an order that is about to be sent.
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

/// The whole status that records the start of an order.
pub fn starting_status(fresh: &ServerFacts, record: &OrderRecord) -> BareMetalServerStatus {
    let now = Timestamp::from_second(fresh.now.wall).unwrap_or_default();
    let mut desired = decide(fresh).desired;
    // The fields of an earlier server do not describe the next one.
    desired.forget_server();
    desired.show_spec(&fresh.object.spec);
    desired.record_acknowledged(fresh, AssumeAbsent);
    let mut tags = fresh.object.spec.tags.clone();
    tags.sort_unstable();
    let mut status = desired.finish(now);
    status.records.order = Some(record.clone());
    // The tags of the request, recorded before it is sent: neither a lost answer nor a crash hides which tags this
    // object added.
    status.records.tags = tags;
    status
}

/// Waits for a poll by the account, and reports only its failure.
pub(super) fn wait_for_poll(facts: &ServerFacts, view: &AccountView) -> ServerDecision {
    match &view.last_error {
        Some((reason, message)) => {
            ServerDecision::wait_with_reason(facts, Explanation::waits(*reason, message.clone()))
        }
        None => ServerDecision::unchanged(facts),
    }
    .requeue_after(view.times.active_poll_interval)
}

/// The account permits no order now.
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

/// Whether the spec asks for something else than this order did.
fn is_changed(facts: &ServerFacts, record: &OrderRecord) -> bool {
    let asked = record.request_hash.as_deref();
    asked.is_some_and(|asked| asked != request_checks::request_hash(facts))
}

/// Whether the next order would go to another placement than this one, by the present catalogue.
fn has_other_placement(facts: &ServerFacts, view: &AccountView, record: &OrderRecord) -> bool {
    let ordered = record.location.as_ref().zip(record.instance_type.as_ref());
    let catalogue = view.catalogue.as_ref();
    let next = catalogue
        .and_then(|(_, catalogue)| request_checks::choose_placement(facts, catalogue).ok());
    ordered
        .zip(next)
        .is_some_and(|((location, instance_type), next)| {
            !terms::is_same(location, &next.location)
                || !terms::is_same(instance_type, &next.instance_type)
        })
}

/// Waits between an order that created no server and the next one. None: the wait is over.
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
                let wait_for_check = || stock::wait_for_stock_check(facts, view, record, refused);
                return lacked.is_none().then(wait_for_check);
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
            // Another request may be accepted, but each call may cost.
            let is_another = is_changed(facts, record) || has_other_placement(facts, view, record);
            let slow = match is_another {
                true => slow.min(view.times.active_poll_interval),
                false => slow,
            };
            match lacked {
                // Stock may return soon, or may be shown while each order is refused.
                Some(reason) => (slow, reason, false),
                None => (slow, Reason::OrderRefused, true),
            }
        }
        // What kept it from being sent is over.
        OrderOutcome::NotSent if has_answers_since(facts, view) => return None,
        OrderOutcome::NotSent => (
            backoff::delay(failures.saturating_sub(1), backoff::LONGEST_PAUSE)
                .min(view.times.active_poll_interval),
            Reason::ProviderUnreachable,
            false,
        ),
        OrderOutcome::Created | OrderOutcome::Absent | OrderOutcome::Adopting => return None,
    };
    // The wall clock counts because the pause outlives a restart. The monotonic clock bounds the pause if the wall
    // clock was turned back.
    let closed = record.outcome_at.unwrap_or_default();
    let by_wall = u64::try_from(facts.now.wall.saturating_sub(closed)).unwrap_or(0);
    let by_mono = facts
        .now
        .elapsed_since(facts.memory.protocol.unchanged_since());
    let waited = Duration::from_secs(by_wall).max(by_mono);
    let rest = pause.checked_sub(waited).filter(|r| !r.is_zero())?;
    let message = record
        .message
        .clone()
        .unwrap_or_else(|| "The order created no server".into());
    // A time, not a span that changes with every reconcile; no time if the clock was turned back.
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
    let explanation = match (&view.last_error, stalled) {
        // The rate limit may be the only reason for the refusal.
        (Some((Reason::RateLimited, why)), _) => {
            Explanation::waits(Reason::RateLimited, why.as_str())
        }
        (Some((away, why)), false) if reason == Reason::ProviderUnreachable => {
            Explanation::waits(*away, why.as_str())
        }
        (_, true) => Explanation::stalled(reason, message),
        (_, false) => Explanation::waits(reason, message),
    };
    let mut wait = ServerDecision::wait_with_reason(facts, explanation).requeue_after(rest);
    // The next try then knows whether stock or quota was missing.
    let polled_at = view.catalogue.as_ref().map(|(at, _)| *at);
    wait.wants_catalogue = refused_at(facts).filter(|refused| polled_at < Some(*refused));
    Some(wait)
}

/// Whether the account lacked answers when the last order ended, and has them again.
fn has_answers_since(facts: &ServerFacts, view: &AccountView) -> bool {
    view.answers_since > Some(facts.memory.protocol.unchanged_since())
}

/// Since when this process knows that the last order of the object was refused.
fn refused_at(facts: &ServerFacts) -> Option<Duration> {
    let is_refused = facts.order()?.outcome == Some(OrderOutcome::Refused);
    is_refused.then(|| facts.memory.protocol.unchanged_since())
}
