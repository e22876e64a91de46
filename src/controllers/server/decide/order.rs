//! No machine, and no order that may still make one: may a new one begin?
//!
//! Checks first, so that an object that waits has no intent. Each cause has a reason of its own,
//! and the object moves on by itself when the cause is gone.

use super::{
    super::facts::{Facts, Hold},
    Decision, Effect, NewOrder,
    draft::Draft,
    evidence::Evidence,
    machine::pinned,
    usable_account,
};
use crate::{
    account::view::{Catalogue, View},
    controllers::server::memory,
    hosting::{Order, catalogue::Availability},
    kinds::{Reason, conditions::Type, server::OrderOutcome},
};
use sha2::{Digest as _, Sha256};
use std::time::Duration;

/// The catalogue may be this old when an order begins.
const CATALOGUE_AGE: Duration = Duration::from_secs(60);
/// The slowest pace of orders that are refused again and again.
const SLOWEST: Duration = Duration::from_secs(1800);

/// Decides for an object that may order.
pub fn next(facts: &Facts, evidence: &Evidence) -> Decision {
    if facts.object.spec.suspend {
        return Decision::hold(
            facts,
            Hold {
                reason: Reason::Suspended,
                message: "spec.suspend is true: nothing is ordered".into(),
                stalled: true,
            },
        );
    }
    let view = match usable_account(facts, true) {
        Ok(view) => view,
        Err(hold) if hold.reason == Reason::Pending => return Decision::hold_quietly(facts, hold),
        Err(hold) => return Decision::hold(facts, hold),
    };
    if let Some(wait) = unproved(facts, view, evidence) {
        return wait;
    }
    if let Some(wait) = paced(facts, view, evidence) {
        return wait;
    }
    if let Some(wait) = denied(facts, view) {
        return wait;
    }
    let keys = match &facts.ssh_keys {
        Ok(keys) => keys.clone(),
        Err(hold) => return Decision::hold(facts, hold.clone()).again(view.times.poll_moving),
    };
    let Some((_, catalogue)) = view
        .catalogue
        .as_ref()
        .filter(|(at, _)| facts.now.since(*at) < CATALOGUE_AGE)
    else {
        let mut wait = waiting(facts, view);
        wait.wants_catalogue = Some(facts.now.mono.saturating_sub(CATALOGUE_AGE / 2));
        return wait;
    };
    let order = match request(facts, catalogue, keys) {
        Ok(order) => order,
        Err(hold) => {
            let mut wait = Decision::hold(facts, hold)
                .again(view.times.poll_still.min(view.times.poll_moving * 2));
            wait.wants_catalogue = Some(facts.now.mono + view.times.poll_moving);
            return wait;
        }
    };
    begin(facts, evidence, order)
}

fn begin(facts: &Facts, evidence: &Evidence, order: Order) -> Decision {
    let (unknown_before, failures) = match evidence {
        Evidence::Own(attempt) => {
            let unknown = match attempt.record.outcome {
                Some(OrderOutcome::Absent) => attempt.record.intent.unknown_before + 1,
                _ => 0,
            };
            // A person's word breaks the row of unknown outcomes.
            let acknowledged = super::resolve::acknowledged(facts, evidence);
            (
                if acknowledged { 0 } else { unknown },
                attempt.record.failures,
            )
        }
        _ => (0, 0),
    };
    let mut draft = Draft::holding(
        facts,
        Hold::waits(Reason::Ordering, "the machine is being ordered"),
    );
    draft.status.account = Some(pinned(facts));
    // What an earlier life of the object left in its status is not true of the next machine.
    draft.status.uuid = None;
    Decision::of(draft).with(Effect::Order(Box::new(NewOrder {
        order,
        after_epoch: evidence.last_epoch(),
        unknown_before,
        failures,
    })))
}

/// Waiting for a look that the account makes by itself: no news, unless that look fails.
fn waiting(facts: &Facts, view: &View) -> Decision {
    match &view.last_error {
        Some((reason, message)) => Decision::hold(facts, Hold::waits(*reason, message.clone())),
        None => Decision::unchanged(facts),
    }
    .again(view.times.poll_moving)
}

/// The account did not let an order begin a moment ago.
fn denied(facts: &Facts, view: &View) -> Option<Decision> {
    let denied = facts.memory.denied.as_ref()?;
    let stalled = denied.reason == Reason::LimitReached;
    let pause = if stalled {
        view.times.poll_moving
    } else {
        Duration::from_secs(1)
    };
    if facts.now.since(denied.at) >= pause {
        return None;
    }
    let hold = Hold {
        reason: denied.reason,
        message: denied.message.clone(),
        stalled,
    };
    let wait = if denied.reason == Reason::Ordering {
        Decision::hold_quietly(facts, hold)
    } else {
        Decision::hold(facts, hold)
    };
    Some(wait.again(pause))
}

/// Waiting for a listing that shows that no machine of this object exists.
fn unproved(facts: &Facts, view: &View, evidence: &Evidence) -> Option<Decision> {
    let Some(proof) = &view.proof else {
        return Some(waiting(facts, view).proof(Duration::ZERO));
    };
    // An object without a trace that is older than this process may have been stripped of
    // everything while an earlier process's order was on its way: what that process knew is lost,
    // so only time tells. Objects made since, and accounts that nobody used before, need no such wait.
    let settle = view.times.settle;
    let in_doubt = *evidence == Evidence::None && view.used_before && !known_bare(facts, settle);
    (in_doubt && proof.began < settle).then(|| {
        let hold = Hold::waits(
            Reason::WaitingForListing,
            "this object is older than the operator's process; waiting for the settle time, so that no earlier order can still arrive",
        );
        let rest = settle.saturating_sub(facts.now.mono).max(Duration::from_millis(100));
        Decision::hold(facts, hold).again(rest).proof(settle)
    })
}

/// Whether this object is known to have had no order for at least the settle time, or is younger than this process.
fn known_bare(facts: &Facts, settle: Duration) -> bool {
    let started = facts.now.wall - i64::try_from(facts.now.mono.as_secs()).unwrap_or(i64::MAX);
    let created = facts
        .object
        .metadata
        .creation_timestamp
        .as_ref()
        .map_or(0, |t| t.0.as_second());
    if created > started {
        return true;
    }
    let settle = i64::try_from(settle.as_secs()).unwrap_or(i64::MAX);
    facts
        .object
        .status
        .iter()
        .flat_map(|s| &s.conditions)
        .any(|c| {
            c.type_ == Type::Ready.as_str()
                && facts
                    .now
                    .wall
                    .saturating_sub(c.last_transition_time.0.as_second())
                    > settle
        })
}

/// Waiting between an order that came to nothing and the next.
fn paced(facts: &Facts, view: &View, evidence: &Evidence) -> Option<Decision> {
    let Evidence::Own(attempt) = evidence else {
        return None;
    };
    let record = &attempt.record;
    let failures = u32::try_from(record.failures.max(1)).unwrap_or(1);
    let (pause, reason, stalled) = match record.outcome? {
        OrderOutcome::Refused => {
            let slow = view
                .times
                .poll_moving
                .saturating_mul(1u32 << (failures - 1).min(10))
                .min(SLOWEST);
            (slow, Reason::OrderRefused, true)
        }
        OrderOutcome::NotSent => (
            memory::pace(failures).min(view.times.poll_moving),
            Reason::OrderNotSent,
            false,
        ),
        OrderOutcome::Created | OrderOutcome::Absent => return None,
    };
    // Wall time, because the pause outlives a restart; a clock that was turned back must not make it endless.
    let settled = record.settled_at.unwrap_or_default().min(facts.now.wall);
    let waited = Duration::from_secs(u64::try_from(facts.now.wall - settled).unwrap_or(0));
    let rest = pause.checked_sub(waited).filter(|r| !r.is_zero())?;
    let message = record
        .message
        .clone()
        .unwrap_or_else(|| "the order came to nothing".into());
    let hold = Hold {
        reason,
        message: format!("{message}; the next order follows in its time"),
        stalled,
    };
    Some(Decision::hold(facts, hold).again(rest))
}

/// The request, checked against the catalogue and the API's rules.
fn request(facts: &Facts, catalogue: &Catalogue, ssh_keys: Vec<String>) -> Result<Order, Hold> {
    let spec = &facts.object.spec;
    let invalid = |message: String| Hold::needs_person(Reason::InvalidSpec, message);
    let same = |a: &str, b: &str| a.trim().eq_ignore_ascii_case(b.trim());

    if !catalogue.locations.is_empty()
        && !catalogue
            .locations
            .iter()
            .any(|l| same(&l.name, &spec.location))
    {
        let known = catalogue.locations.iter().map(|l| l.name.as_str());
        return Err(invalid(format!(
            "spec.location: the provider has no location {:?}; it has {}; location is immutable, so create the object anew",
            spec.location,
            some_of(known)
        )));
    }
    if !catalogue.plans.is_empty() {
        let Some(plan) = catalogue
            .plans
            .iter()
            .find(|p| same(&p.name, &spec.instance_type))
        else {
            let known = catalogue.plans.iter().map(|p| p.name.as_str());
            return Err(invalid(format!(
                "spec.instanceType: the provider has no type {:?}; it has {}; instanceType is immutable, so create the object anew",
                spec.instance_type,
                some_of(known)
            )));
        };
        let Some(place) = plan
            .locations
            .iter()
            .find(|l| same(&l.name, &spec.location))
        else {
            return Err(invalid(format!(
                "spec.instanceType: {:?} is not offered at {:?}; it is at {}; both are immutable, so create the object anew",
                spec.instance_type,
                spec.location,
                some_of(plan.locations.iter().map(|l| l.name.as_str()))
            )));
        };
        if place.availability == Availability::Unavailable {
            return Err(Hold::waits(
                Reason::NoStock,
                format!(
                    "the provider has no {} at {} now; the order follows when there is one",
                    spec.instance_type, spec.location
                ),
            ));
        }
    }
    let offered = |slug: &str| {
        catalogue
            .systems
            .iter()
            .any(|s| s.for_servers && s.active && s.slug == slug)
    };
    if !catalogue.systems.is_empty() && !offered(&spec.os.slug) {
        let known = catalogue
            .systems
            .iter()
            .filter(|s| s.for_servers && s.active)
            .map(|s| s.slug.as_str());
        return Err(invalid(format!(
            "spec.os.slug: the provider has no system {:?}; it has {}",
            spec.os.slug,
            some_of(known)
        )));
    }
    quota(facts, catalogue)?;
    let order = Order {
        name: facts.hostname().into(),
        location: spec.location.clone(),
        instance_type: spec.instance_type.clone(),
        os_slug: spec.os.slug.clone(),
        ssh_keys,
        tags: spec.tags.clone(),
        contract_id: spec.contract_id.clone().filter(|c| !c.is_empty()),
        overflow: spec.overflow,
        ..Order::default()
    };
    order
        .check()
        .map_err(|e| invalid(format!("{e}; correct the field of that name in spec")))?;
    Ok(order)
}

/// Quota of the pool that would pay. What the provider does not list is left to its answer.
fn quota(facts: &Facts, catalogue: &Catalogue) -> Result<(), Hold> {
    let spec = &facts.object.spec;
    let contract = spec.contract_id.as_deref().filter(|c| !c.is_empty());
    let free = |contract: Option<&str>| {
        catalogue
            .quotas
            .iter()
            .filter(|q| q.location.trim().eq_ignore_ascii_case(spec.location.trim()))
            .flat_map(|q| &q.usages)
            .filter(|u| {
                u.instance_type
                    .eq_ignore_ascii_case(spec.instance_type.trim())
            })
            .find(|u| u.contract_id.as_deref().filter(|c| !c.is_empty()) == contract)
            .and_then(|u| Some((u.quota?, u.usage?)))
    };
    let exhausted = |pool: Option<(i64, i64)>| pool.filter(|(quota, usage)| usage >= quota);
    let Some((quota, usage)) = exhausted(free(contract)) else {
        return Ok(());
    };
    if contract.is_some() && spec.overflow && exhausted(free(None)).is_none() {
        return Ok(());
    }
    Err(Hold::needs_person(
        Reason::QuotaExceeded,
        format!(
            "the quota for {} at {} is used up ({usage} of {quota}); raise it at the provider or release a machine; the order follows by itself",
            spec.instance_type, spec.location
        ),
    ))
}

fn some_of<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut names: Vec<&str> = names.collect();
    names.sort_unstable();
    let more = names.len() > 8;
    names.truncate(8);
    format!("{}{}", names.join(", "), if more { ", …" } else { "" })
}

/// Hash of the keys that an order sends, by which later edits are seen.
pub fn keys_hash(keys: &[String]) -> String {
    let mut hash = Sha256::new();
    for key in keys {
        hash.update(key.as_bytes());
        hash.update([0]);
    }
    hash.finalize()
        .iter()
        .take(8)
        .map(|b| format!("{b:02x}"))
        .collect()
}
