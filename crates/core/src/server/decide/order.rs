//! No machine, and no order that may still make one: may a new one start?
//!
//! Checks first, so that an object that waits has no intent. Each cause has a reason of its own,
//! and the object moves on by itself when the cause is gone.

use super::{
    super::facts::{Facts, Installation, account_of},
    Decision, Effect, NewOrder, control,
    draft::Draft,
    evidence::Evidence,
    expiry, external, order_account, remedy, replace,
    request::{self, Place},
    retained,
    sent::{self, Hashes},
    stock, terms,
};
use crate::{
    account::{
        marks,
        supply::CATALOGUE_AGE,
        view::{Proof, View},
    },
    account_facts::{AccountFacts, Purpose, held},
    backoff,
    cause::{Cause, Standing},
};
use api::{
    Interval, Reason,
    account::KnownServer,
    names::ACKNOWLEDGE,
    server::{OrderOutcome, OrderRecord},
};
use hosting_types::Order;
use jiff::Timestamp;
use std::time::Duration;

/// How the wait of an object begins that an earlier process may have ordered for.
pub const OLDER_THAN_PROCESS: &str = "this object is older than the operator's process";
/// The longest pause between two orders that are refused.
const SLOWEST: Duration = Duration::from_secs(1800);

/// Refusals for want of stock or quota say little of the request: their row grows no longer than this.
const LONGEST_ROW_OF_LACK: i32 = 3;

/// Decides for an object that may order.
pub fn next(facts: &Facts, evidence: &Evidence) -> Decision {
    // Whatever led here: who names a machine takes that one, or none.
    if let Some(external) = &facts.external {
        return external::decide(facts, evidence, external);
    }
    // What an account said that is not there any more holds nothing.
    let is_remembered =
        facts.object.spec.suspend.is_none() && !matches!(facts.account, AccountFacts::Found { .. });
    if facts.policies().suspend && !is_remembered {
        return Decision::hold(facts, Cause::suspended());
    }
    let view = match facts.account.usable(Purpose::Order) {
        Ok(view) => view,
        Err(cause) if cause.reason == Reason::Pending && cause.standing != Standing::Missing => {
            return Decision::hold_quietly(facts, cause);
        }
        Err(cause) => return Decision::hold(facts, cause),
    };
    if facts.policies().observe_only() {
        return Decision::hold(facts, remedy::observed(facts, "nothing is ordered"));
    }
    if let Some(cause) = expiry::against_order(facts)
        .or_else(|| replace::against_order(facts))
        .or_else(|| terms::against_order(facts))
    {
        return Decision::hold(facts, cause);
    }
    if let Some(wait) = unproved(facts, view, evidence) {
        return wait;
    }
    let against = retained::against_order(facts, view);
    let mut decision = against.unwrap_or_else(|| at_its_pace(facts, view, evidence));
    retained::ask(facts, &mut decision);
    decision
}

/// No machine of it can be there: when, where and with what the order goes out.
fn at_its_pace(facts: &Facts, view: &View, evidence: &Evidence) -> Decision {
    if let Some(wait) = paced(facts, view, evidence) {
        return wait;
    }
    let place = match place(facts, view, evidence) {
        Ok(place) => place,
        Err(wait) => return *wait,
    };
    let mut decision = match &facts.installation {
        None => Decision::unchanged(facts).at_once(),
        Some(Ok(installation)) => at_place(facts, view, evidence, &place, installation),
        Some(Err(cause)) => {
            Decision::hold(facts, cause.clone()).again(view.times.active_poll_interval)
        }
    };
    // Until the order is sent each pass needs it: one without it would not ask for its turn.
    decision.wants_installation = true;
    decision
}

/// Where the order goes, by a catalogue that is new enough.
fn place(facts: &Facts, view: &View, evidence: &Evidence) -> Result<Place, Box<Decision>> {
    // Newer than a refusal of the same, whosever order that was: this one would be refused as well.
    let refused = refused_at(facts, evidence).max(stock::refused(facts, view));
    let is_usable = |at: Duration| {
        facts.now.since(at) < CATALOGUE_AGE && refused.is_none_or(|refused| at >= refused)
    };
    let Some((_, catalogue)) = view.catalogue.as_ref().filter(|(at, _)| is_usable(*at)) else {
        let recent = facts.now.mono.saturating_sub(CATALOGUE_AGE / 2);
        let mut wait = waiting(facts, view);
        wait.wants_catalogue = Some(refused.map_or(recent, |refused| refused.max(recent)));
        return Err(Box::new(wait));
    };
    request::place(facts, catalogue).map_err(|cause| Box::new(beyond_reach(facts, view, cause)))
}

/// The request cannot be sent as it is, or cannot be had: the catalogue may say otherwise soon.
fn beyond_reach(facts: &Facts, view: &View, cause: Cause) -> Decision {
    let mut wait = Decision::hold(facts, cause).again(
        view.times
            .idle_poll_interval
            .min(view.times.active_poll_interval * 2),
    );
    wait.wants_catalogue = Some(facts.now.mono + view.times.active_poll_interval);
    wait
}

/// All that needs no call is there: what the request would be, and whether it can be sent.
fn at_place(
    facts: &Facts,
    view: &View,
    evidence: &Evidence,
    place: &Place,
    installation: &Installation,
) -> Decision {
    let order = match request::request(facts, place, installation) {
        Ok(order) => order,
        Err(cause) => return beyond_reach(facts, view, cause),
    };
    // Last: what is said of stock and of earlier orders stays true meanwhile.
    retained::unlisted(facts, view).unwrap_or_else(|| match &facts.denied {
        Some(why) => denied(facts, view, why),
        None => {
            let sent = sent::hashes(&facts.object.spec, installation);
            start(facts, evidence, order, sent)
        }
    })
}

fn start(facts: &Facts, evidence: &Evidence, order: Order, sent: Hashes) -> Decision {
    let (unknown_before, failures) = match evidence {
        Evidence::Own(attempt) => {
            let unknown = match attempt.record.outcome {
                Some(OrderOutcome::Absent) => attempt.record.intent.unknown_before + 1,
                _ => 0,
            };
            // An acknowledgement breaks the row of unknown outcomes, and another request that of refusals.
            let acknowledged = attempt.record.acknowledged;
            let changed = is_changed(facts, &attempt.record);
            (
                if acknowledged { 0 } else { unknown },
                match (changed, stock::was_lacking(facts, &attempt.record)) {
                    (true, _) => 0,
                    (false, Some(_)) => attempt.record.failures.min(LONGEST_ROW_OF_LACK - 1),
                    (false, None) => attempt.record.failures,
                },
            )
        }
        _ => (0, 0),
    };
    let Some(account) = order_account(facts) else {
        let cause = Cause::waits(
            Reason::Pending,
            "the account is being recorded; the order follows within seconds",
        );
        return Decision::hold_quietly(facts, cause);
    };
    let mut draft = Draft::holding(
        facts,
        Cause::waits(
            Reason::Ordering,
            "the machine is being ordered; the answer comes within seconds",
        ),
    );
    draft.status.account_ref = Some(account_of(&facts.object));
    // What an earlier life of the object left in its status is not true of the next machine.
    draft.forget_machine();
    Decision::of(draft).with(Effect::Order(Box::new(NewOrder {
        order,
        account,
        after_epoch: evidence.last_epoch().max(remembered_epoch(facts)),
        unknown_before,
        failures,
        request_hash: request::request_hash(facts),
        sent,
    })))
}

/// The epoch of the last order that this process knows of: an object that was stripped of every trace of a
/// refused one may order again in the same second.
fn remembered_epoch(facts: &Facts) -> i64 {
    let known = facts.memory.order.as_ref();
    known.map_or(0, |order| order.intent.epoch)
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

/// Waiting for a listing that shows that no machine of this object exists.
fn unproved(facts: &Facts, view: &View, evidence: &Evidence) -> Option<Decision> {
    // One of before may miss what was ordered for an object that this process did not know yet.
    let since = facts.first_seen.max(facts.acting_since);
    let proof = view.proof.as_ref().filter(|proof| proof.began >= since);
    let Some(proof) = proof else {
        return Some(waiting(facts, view).proof(since));
    };
    let is_first = !matches!(evidence, Evidence::Own(_));
    let must_show = |known: &KnownServer| known.live && !is_newer(facts, view, known, proof.began);
    if is_first && view.known.iter().any(must_show) && control(view).is_none() {
        let text = format!(
            "the last complete listing shows none of the servers that identify the account, so it is not believed, and nothing is ordered; if those machines are gone, set {ACKNOWLEDGE} of {} to the token in its status.pendingAcknowledgements",
            remedy::account(facts)
        );
        let next = proof.began + view.times.absence_check_interval;
        // One false listing is nothing that a person is needed for.
        let cause = Cause::missing(Reason::WaitingForListing, text);
        return Some(
            Decision::hold_quietly(facts, cause)
                .again(view.times.absence_check_interval)
                .proof(next),
        );
    }
    if !in_doubt(facts, view, evidence) {
        return None;
    }
    let settled = settled(facts, view);
    (proof.began < settled).then(|| {
        let cause = Cause::waits(
            Reason::WaitingForListing,
            format!(
                "{OLDER_THAN_PROCESS}; waiting until {} after that process began to act, the absence grace period, so that no earlier order can still arrive",
                Interval(view.times.absence_grace_period)
            ),
        );
        let rest = match settled.saturating_sub(facts.now.mono) {
            rest if rest.is_zero() => view.times.active_poll_interval,
            rest => rest,
        };
        Decision::hold(facts, cause).again(rest).proof(settled)
    })
}

/// Whether a known server was ordered when this list began, or since: the list need not show it.
fn is_newer(facts: &Facts, view: &View, known: &KnownServer, began: Duration) -> bool {
    let ago = facts.now.since(began) + view.times.send_window;
    let ago = i64::try_from(ago.as_secs()).unwrap_or(i64::MAX);
    let since = facts.now.wall.saturating_sub(ago);
    let ordered = marks::epoch(&known.order_tag);
    ordered.is_some_and(|ordered| (since..=facts.now.wall).contains(&ordered))
}

/// From when on no order of an earlier process can still arrive.
fn settled(facts: &Facts, view: &View) -> Duration {
    facts.acting_since + view.times.absence_grace_period
}

/// Whether an earlier process may have ordered for this object without a trace that tells of it.
///
/// An object without a trace that is older than this process may have been stripped of everything
/// while an order was on its way: what that process knew is lost, so only time tells. The same goes
/// for a finalizer alone, or beside the words of another object. Objects made since, and accounts that nobody
/// used before, need no such wait.
pub fn in_doubt(facts: &Facts, view: &View, evidence: &Evidence) -> bool {
    match evidence {
        Evidence::None => view.used_before && !facts.is_newcomer,
        Evidence::Bare | Evidence::Former(..) | Evidence::Stranger(..) | Evidence::Foreign(_) => {
            facts.has_finalizer() && !facts.is_newcomer
        }
        _ => false,
    }
}

/// Whether it is certain that this object, whose annotation speaks of another one, has never ordered.
pub fn never_ordered(facts: &Facts, view: &View, evidence: &Evidence) -> bool {
    let is_settled =
        |proof: &Proof| !in_doubt(facts, view, evidence) || proof.began >= settled(facts, view);
    matches!(evidence, Evidence::Former(..) | Evidence::Stranger(..))
        && view.proof.as_deref().is_some_and(is_settled)
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
fn paced(facts: &Facts, view: &View, evidence: &Evidence) -> Option<Decision> {
    let Evidence::Own(attempt) = evidence else {
        return None;
    };
    let record = &attempt.record;
    let failures = u32::try_from(record.failures.max(1)).unwrap_or(1);
    let (pause, reason, stalled) = match record.outcome? {
        OrderOutcome::Refused => {
            if stock::is_lacking_since(facts, view, record, refused_at(facts, evidence)) {
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
            let slow = match is_changed(facts, record) || goes_elsewhere(facts, view, record) {
                true => slow.min(view.times.active_poll_interval),
                false => slow,
            };
            match lacked {
                // It may be had again soon, or be said to be there and be refused each time.
                Some(reason) => (slow, reason, false),
                None => (slow, Reason::OrderRefused, true),
            }
        }
        OrderOutcome::NotSent => (
            backoff::delay(failures.saturating_sub(1), backoff::LONGEST_PAUSE)
                .min(view.times.active_poll_interval),
            Reason::ProviderUnreachable,
            false,
        ),
        OrderOutcome::Created | OrderOutcome::Absent => return None,
    };
    // Wall time, because the pause outlives a restart, and the monotonic clock beside it: whatever the other one
    // did, the pause is not longer than since this process first saw the outcome.
    let closed = record.outcome_at.unwrap_or_default();
    let by_wall = u64::try_from(facts.now.wall.saturating_sub(closed)).unwrap_or(0);
    let seen = facts.memory.closed.as_ref();
    let by_mono = seen.map_or(Duration::ZERO, |(_, since)| facts.now.since(*since));
    let waited = Duration::from_secs(by_wall).max(by_mono);
    let rest = pause.checked_sub(waited).filter(|r| !r.is_zero())?;
    let message = record
        .message
        .clone()
        .unwrap_or_else(|| "the order made no machine".into());
    // A moment and not a span, which would change with every look; none where the clock was turned back.
    let next = closed.saturating_add(i64::try_from(pause.as_secs()).unwrap_or(i64::MAX));
    let next = Timestamp::from_second(next).unwrap_or_default();
    let message = match reason {
        Reason::NoStock | Reason::QuotaExceeded => {
            format!("it may be had again, and the last order was refused: {message}")
        }
        _ => message,
    };
    let message = match stalled {
        true => format!("{message}; change what it names in the spec, or wait"),
        false => message,
    };
    let message = match closed <= facts.now.wall {
        true => format!("{message}; tried again at {next}"),
        false => format!("{message}; tried again within {}", Interval(pause)),
    };
    let cause = match stalled {
        true => Cause::needs_person(reason, message),
        false => Cause::waits(reason, message),
    };
    let mut wait = Decision::hold(facts, cause).again(rest);
    // By the next try it is known whether it was for want of stock or quota.
    let looked = view.catalogue.as_ref().map(|(at, _)| *at);
    wait.wants_catalogue = refused_at(facts, evidence).filter(|refused| looked < Some(*refused));
    Some(wait)
}

/// Since when this process knows that the last order of the object was refused.
fn refused_at(facts: &Facts, evidence: &Evidence) -> Option<Duration> {
    let Evidence::Own(attempt) = evidence else {
        return None;
    };
    let is_refused = attempt.record.outcome == Some(OrderOutcome::Refused);
    let seen = facts.memory.closed.as_ref().filter(|_| is_refused);
    seen.map(|(_, since)| *since)
}
