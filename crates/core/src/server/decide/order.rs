//! No machine, and no order that may still make one: may a new one start?
//!
//! Checks first, so that an object that waits has no record. Each cause has a reason of its own,
//! and the object moves on by itself when the cause is gone.

use super::{
    super::facts::{Facts, Installation, account_of},
    Decision, Effect, NewOrder, decide,
    draft::Draft,
    expiry, explain, external, order_account, remedy, replace,
    request::{self, Place},
    sent, stock, terms,
};
use crate::{
    account::{supply::CATALOGUE_AGE, view::View},
    account_facts::{AccountFacts, Purpose, held},
    backoff,
    cause::{Cause, Standing},
    protocol::order::next_seq,
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
const SLOWEST: Duration = Duration::from_secs(1800);

/// Refusals for want of stock or quota say little of the request: their row grows no longer than this.
const LONGEST_ROW_OF_LACK: i32 = 3;

/// Why the object neither orders nor takes a server now, whatever is known of servers.
pub fn against(facts: &Facts) -> Option<Decision> {
    let hold = |cause| Some(Decision::hold(facts, cause));
    // What an account said that is not there any more holds nothing.
    let is_remembered =
        facts.object.spec.suspend.is_none() && !matches!(facts.account, AccountFacts::Found { .. });
    if facts.policies().suspend && !is_remembered {
        return hold(Cause::suspended());
    }
    if facts.object.spec.external_id.is_some() {
        let shown = facts.named.as_ref().and_then(|named| named.shown.as_ref());
        let unseen = shown.and_then(|shown| external::against_sight(facts, &shown.server));
        let cause = expiry::against_order(facts).or(unseen)?;
        return Some(Decision::hold(facts, cause).again(external::idle(facts)));
    }
    match facts.account.usable(Purpose::Order) {
        Ok(_) => {}
        Err(cause) if cause.reason == Reason::Pending && cause.standing != Standing::Missing => {
            return Some(Decision::hold_quietly(facts, cause));
        }
        Err(cause) => return hold(cause),
    }
    if facts.policies().observe_only() {
        return hold(remedy::observed(facts, "nothing is ordered"));
    }
    against_terms(facts).and_then(hold)
}

fn against_terms(facts: &Facts) -> Option<Cause> {
    expiry::against_order(facts)
        .or_else(|| replace::against_order(facts))
        .or_else(|| terms::against_order(facts))
}

/// It is certain that no server of it is there: when, where and with what the order goes out.
pub fn next(facts: &Facts, view: &View, after: u32, lost: u8, cut: u8) -> Decision {
    // Of an object in whose place another server is ordered nothing of this was judged yet.
    if let Some(wait) = against(facts) {
        return wait;
    }
    if after == u32::MAX {
        let text = format!(
            "Order number {after} is the highest, so no further order can be tagged. Create this object under another name"
        );
        return Decision::hold(facts, Cause::needs_person(Reason::OrderRefused, text));
    }
    if let Some(wait) = paced(facts, view) {
        return wait;
    }
    let place = match place(facts, view) {
        Ok(place) => place,
        Err(wait) => return *wait,
    };
    let counts = (after, lost, cut);
    let mut decision = match &facts.installation {
        None => Decision::unchanged(facts).at_once(),
        Some(Ok(installation)) => at_place(facts, view, &place, installation, counts),
        Some(Err(cause)) => {
            let every = view.times.active_poll_interval;
            Decision::hold(facts, cause.clone().looked_at(every)).again(every)
        }
    };
    // Until the order is sent each pass needs it: one without it would not ask for its turn.
    decision.wants_installation = true;
    decision
}

/// Where the order goes, by a catalogue that is new enough.
fn place(facts: &Facts, view: &View) -> Result<Place, Box<Decision>> {
    // Newer than a refusal of the same, whosever order that was: this one would be refused as well.
    let refused = refused_at(facts).max(stock::refused(facts, view));
    // What a user has to correct is not looked up again and again.
    let most = match is_told_to_user(facts) {
        true => CATALOGUE_AGE.max(view.times.idle_poll_interval),
        false => CATALOGUE_AGE,
    };
    let is_usable =
        |at: Duration| facts.now.since(at) < most && refused.is_none_or(|refused| at >= refused);
    match view.catalogue.as_ref().filter(|(at, _)| is_usable(*at)) {
        Some((_, catalogue)) => request::place(facts, catalogue)
            .map_err(|cause| Box::new(beyond_reach(facts, view, cause))),
        None => Err(Box::new(look(facts, view, refused))),
    }
}

/// A look at the catalogue has to come first, newer than this refusal.
fn look(facts: &Facts, view: &View, refused: Option<Duration>) -> Decision {
    let recent = facts.now.mono.saturating_sub(CATALOGUE_AGE / 2);
    let mut wait = waiting(facts, view);
    wait.wants_catalogue = Some(refused.map_or(recent, |refused| refused.max(recent)));
    wait
}

/// Whether status says of this very spec that a user has to correct something.
fn is_told_to_user(facts: &Facts) -> bool {
    facts.object.status.as_ref().is_some_and(|status| {
        status.observed_generation == facts.object.metadata.generation
            && is_true(&status.conditions, Type::Stalled)
    })
}

/// The request cannot be sent as it is, or cannot be had: the catalogue may say otherwise, of stock and quota soon.
fn beyond_reach(facts: &Facts, view: &View, cause: Cause) -> Decision {
    let (idle, active) = (
        view.times.idle_poll_interval,
        view.times.active_poll_interval,
    );
    let now = facts.now.mono;
    let (again, next) = match cause.standing {
        Standing::Stalled => {
            let looked = view.catalogue.as_ref().map_or(now, |(at, _)| *at);
            (idle, looked + idle)
        }
        _ => (idle.min(active * 2), now + active),
    };
    let mut wait = Decision::hold(facts, cause).again(again);
    wait.wants_catalogue = Some(next);
    wait
}

/// All that needs no call is there: what the request would be, and whether it can be sent.
fn at_place(
    facts: &Facts,
    view: &View,
    place: &Place,
    installation: &Installation,
    counts: (u32, u8, u8),
) -> Decision {
    let order = match request::request(facts, place, installation) {
        Ok(order) => order,
        Err(cause) => return beyond_reach(facts, view, cause),
    };
    let is_recent = |(at, _): &(Duration, _)| facts.now.since(*at) < CATALOGUE_AGE;
    match &facts.denied {
        Some(why) => denied(facts, view, why),
        None if !view.catalogue.as_ref().is_some_and(is_recent) => look(facts, view, None),
        None => start(facts, view, order, installation, counts),
    }
}

fn start(
    facts: &Facts,
    view: &View,
    order: Order,
    installation: &Installation,
    (after, lost, cut): (u32, u8, u8),
) -> Decision {
    // Another request breaks the row of refusals.
    let failures = facts.order().map_or(0, |record| {
        match (is_changed(facts, record), stock::was_lacking(facts, record)) {
            (true, _) => 0,
            (false, Some(_)) => record.failures.min(LONGEST_ROW_OF_LACK - 1),
            (false, None) => record.failures,
        }
    });
    let Some(account) = order_account(facts) else {
        let cause = Cause::waits(
            Reason::Pending,
            "Waiting for the account to be recorded; then the order follows",
        );
        return Decision::hold_quietly(facts, cause);
    };
    let given = facts.acknowledgements();
    let asked = explain::order_another(facts)
        .into_iter()
        .chain([explain::assume_absent(facts)]);
    let acknowledgement = asked.filter_map(|asked| given.token(&asked)).next();
    let mut draft = Draft::holding(
        facts,
        Cause::waits(
            Reason::Ordering,
            format!(
                "Ordering the server; waiting for the answer, {} at most",
                Interval(view.times.order_timeout)
            ),
        ),
    );
    draft.status.account_ref = Some(account_of(&facts.object));
    // What an earlier life of the object left in its status is not true of the next machine.
    draft.forget_machine();
    Decision::of(draft).with(Effect::Order(Box::new(NewOrder {
        order,
        account,
        after,
        lost,
        cut,
        failures,
        acknowledgement: acknowledgement.map(str::to_owned),
        request_hash: request::request_hash(facts),
        sent: sent::hashes(&facts.object.spec, installation),
        key_uids: installation.key_uids(),
    })))
}

/// The record of an order that is about to be sent, on the facts that it was started on: no outcome yet.
pub fn open(fresh: &Facts, planned: &NewOrder, nonce: &str, window: Duration) -> OrderRecord {
    let now = fresh.now.wall;
    let window = i64::try_from(window.as_secs().max(1)).unwrap_or(i64::MAX);
    OrderRecord {
        uid: fresh.uid().to_owned(),
        seq: next_seq(now, planned.after),
        nonce: nonce.to_owned(),
        send_by: now.saturating_add(window),
        hostname: planned.order.name.clone(),
        account_id: planned.account.lineage.clone(),
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
pub fn status(fresh: &Facts, record: &OrderRecord) -> BareMetalServerStatus {
    let now = Timestamp::from_second(fresh.now.wall).unwrap_or_default();
    let mut draft = decide(fresh).draft;
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
pub(super) fn waiting(facts: &Facts, view: &View) -> Decision {
    match &view.last_error {
        Some((reason, message)) => Decision::hold(facts, Cause::waits(*reason, message.clone())),
        None => Decision::unchanged(facts),
    }
    .again(view.times.active_poll_interval)
}

/// The account lets no order start now.
fn denied(facts: &Facts, view: &View, (reason, message): &(Reason, String)) -> Decision {
    let pause = match reason {
        Reason::LimitReached => view.times.active_poll_interval,
        _ => Duration::from_secs(1),
    };
    Decision::hold(facts, held(*reason, message.clone())).again(pause)
}

/// Whether the spec asks for something else than that order did.
fn is_changed(facts: &Facts, record: &OrderRecord) -> bool {
    let asked = record.request_hash.as_deref();
    asked.is_some_and(|asked| asked != request::request_hash(facts))
}

/// Whether the next order would go to another place than that one, by what the catalogue says now.
fn goes_elsewhere(facts: &Facts, view: &View, record: &OrderRecord) -> bool {
    let ordered = record.location.as_ref().zip(record.instance_type.as_ref());
    let catalogue = view.catalogue.as_ref();
    let next = catalogue.and_then(|(_, catalogue)| request::place(facts, catalogue).ok());
    ordered
        .zip(next)
        .is_some_and(|((location, instance_type), next)| {
            !terms::is_same(location, &next.location)
                || !terms::is_same(instance_type, &next.instance_type)
        })
}

/// Waiting between an order that made no machine and the next.
pub(super) fn paced(facts: &Facts, view: &View) -> Option<Decision> {
    let record = facts.order()?;
    let failures = u32::try_from(record.failures.max(1)).unwrap_or(1);
    let (pause, reason, stalled) = match record.outcome? {
        OrderOutcome::Refused => {
            if stock::is_lacking_since(facts, view, record, refused_at(facts)) {
                return None;
            }
            let lacked = stock::was_lacking(facts, record);
            if let Some(refused) = stock::refused(facts, view) {
                let unlooked = || stock::unlooked(facts, view, record, refused);
                return lacked.is_none().then(unlooked);
            }
            let failures = match lacked {
                Some(_) => failures.min(LONGEST_ROW_OF_LACK.unsigned_abs()),
                None => failures,
            };
            let slow = view
                .times
                .active_poll_interval
                .saturating_mul(1u32 << (failures - 1).min(10))
                .min(SLOWEST);
            // Another request may be accepted. Not at any pace: each is a call that may cost.
            let is_another = is_changed(facts, record) || goes_elsewhere(facts, view, record);
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
        (Some((Reason::RateLimited, why)), _) => Cause::waits(Reason::RateLimited, why.as_str()),
        (Some((away, why)), false) if reason == Reason::ProviderUnreachable => {
            Cause::waits(*away, why.as_str())
        }
        (_, true) => Cause::needs_person(reason, message),
        (_, false) => Cause::waits(reason, message),
    };
    let mut wait = Decision::hold(facts, cause).again(rest);
    // By the next try it is known whether it was for want of stock or quota.
    let looked = view.catalogue.as_ref().map(|(at, _)| *at);
    wait.wants_catalogue = refused_at(facts).filter(|refused| looked < Some(*refused));
    Some(wait)
}

/// Whether the account lacked answers when the last order ended, and has them again.
fn has_answers_since(facts: &Facts, view: &View) -> bool {
    view.answers_since > Some(facts.memory.protocol.since())
}

/// Since when this process knows that the last order of the object was refused.
fn refused_at(facts: &Facts) -> Option<Duration> {
    let is_refused = facts.order()?.outcome == Some(OrderOutcome::Refused);
    is_refused.then(|| facts.memory.protocol.since())
}
