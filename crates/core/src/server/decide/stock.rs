//! An order that is unavailable for lack of stock or quota. A refusal shows no reason, so the catalogue is polled after
//! it: if it lacks the demand, the object waits without an order; else the refusal had another reason.

use super::{
    super::facts::ServerFacts,
    ServerDecision,
    order::wait_for_poll,
    placement_candidates::{PlacementCandidate, find_ordered_candidate, sort_candidates},
    terms::{self, is_same},
};
use crate::{
    account::{
        order_supply::Shortage,
        view::{AccountView, Catalogue},
    },
    explanation::Explanation,
    wording::listed,
};
use api::{
    Interval, Reason,
    conditions::Type,
    server::{OrderOutcome, OrderRecord},
};
use std::{sync::Arc, time::Duration};

/// When an order for one of the candidates, by any object, was last refused with no catalogue read since.
pub(super) fn find_unexplained_refusal(
    facts: &ServerFacts,
    view: &AccountView,
) -> Option<Duration> {
    if view.refused.is_empty() {
        return None;
    }
    let spec = &facts.object.spec;
    let mut newest = None;
    for asked in sort_candidates(facts).iter().map(|c| c.demand(spec)) {
        let open = view.refused.iter();
        let open = open.filter(|(refused, _)| *refused == asked);
        newest = newest.max(open.map(|(_, at)| *at).max());
        let catalogue = view.catalogue.as_ref();
        // Candidates after an available one are not ordered.
        let can_be_had = |(_, catalogue): &(Duration, Arc<Catalogue>)| {
            asked.find_shortage(catalogue).is_none() && !asked.is_without_contract(catalogue)
        };
        if catalogue.is_none_or(can_be_had) {
            break;
        }
    }
    newest
}

/// Whether a catalogue since then lacks what this order was for.
pub(super) fn is_lacking_since(
    facts: &ServerFacts,
    view: &AccountView,
    record: &OrderRecord,
    since: Option<Duration>,
) -> bool {
    let spec = &facts.object.spec;
    let newer = |(at, _): &&(Duration, _)| since.is_some_and(|since| *at >= since);
    let catalogue = view.catalogue.as_ref().filter(newer);
    let asked = find_ordered_candidate(spec, record).map(|candidate| candidate.demand(spec));
    asked
        .zip(catalogue)
        .is_some_and(|(asked, (_, catalogue))| asked.find_shortage(catalogue).is_some())
}

/// What the catalogue lacked after this refusal. The condition Ready shows it, also after a restart.
pub(super) fn was_lacking(facts: &ServerFacts, record: &OrderRecord) -> Option<Reason> {
    let status = facts.object.status.as_ref()?;
    // The start of an order reports something else, so this reason next to a refused outcome was reported after it.
    let is_refused = record.outcome == Some(OrderOutcome::Refused);
    let is_after_it = status.records.order.as_ref().is_some_and(|shown| {
        (shown.seq, &shown.nonce) == (record.seq, &record.nonce)
            && shown.outcome == Some(OrderOutcome::Refused)
    });
    let ready = status
        .conditions
        .iter()
        .find(|c| c.type_ == Type::Ready.as_str());
    let reason = ready.and_then(|c| Reason::parse(&c.reason))?;
    let is_said = matches!(reason, Reason::NoStock | Reason::QuotaExceeded);
    (is_refused && is_after_it && is_said).then_some(reason)
}

/// Waits for the catalogue, which shows why the order was refused.
pub(super) fn wait_for_stock_check(
    facts: &ServerFacts,
    view: &AccountView,
    record: &OrderRecord,
    refused: Duration,
) -> ServerDecision {
    let mut wait = match &view.last_error {
        Some(_) => wait_for_poll(facts, view),
        None => {
            let said = record.message.as_deref();
            let said = said.unwrap_or("The provider refused the order");
            let text = format!(
                "{said}; retrying once stock and quota are checked, within {}",
                Interval(view.times.active_poll_interval)
            );
            ServerDecision::wait_with_reason(facts, Explanation::waits(Reason::OrderRefused, text))
        }
    }
    .requeue_after(view.times.active_poll_interval);
    wait.wants_catalogue = Some(refused);
    wait
}

/// Explains an unavailable order by what its first candidate lacks. The order follows by itself.
pub(super) fn explain_lack(
    facts: &ServerFacts,
    first: &PlacementCandidate<'_>,
    lack: Shortage,
) -> Explanation {
    let spec = &facts.object.spec;
    let (kind, location) = (first.instance_type, first.location);
    let every = facts.view().map(|v| v.times.active_poll_interval);
    let nor = match spec.alternatives.is_empty() {
        true => "",
        false => "; nor is any of spec.alternatives available",
    };
    let follows = format!(
        "{nor}; checked every {}, then ordered as soon as available",
        Interval(every.unwrap_or_default())
    );
    match lack {
        Shortage::Stock { mut elsewhere } => {
            elsewhere
                .retain(|there| terms::allow_location(facts, there) && !is_same(there, location));
            let choice = match elsewhere.is_empty() {
                false => format!(
                    "Available at {}. To order there, set spec.location in the manifest",
                    listed(elsewhere.iter().map(String::as_str)),
                ),
                true => "None at any other location that you may use: set another spec.instanceType, or wait"
                    .into(),
            };
            let text = format!("No {kind} in stock at {location}{follows}. {choice}");
            Explanation::waits(Reason::NoStock, text)
        }
        Shortage::Quota {
            contract_id,
            usage,
            quota,
        } => {
            let pool = contract_id.map_or("on-demand servers".into(), |id| {
                format!("servers on contract {id}")
            });
            let text = format!(
                "No quota left for {kind} at {location}; {usage} of {quota} {pool}{follows}. Ask the provider for a higher quota, or delete a server of this type there"
            );
            Explanation::waits(Reason::QuotaExceeded, text)
        }
    }
}
