//! Decides the deletion of an IpWhitelist: removes its entries, except those that the operator needs for access.

use super::{
    super::facts::WhitelistFacts, WhitelistDecision, WhitelistEffect, going_on, read_and_apply,
    read_list_at, status, too_long, unlisted, unsettled, wait_with_reason,
};
use crate::{
    explanation::Explanation,
    reconcile::CRD_RETRY,
    report::{EventReason, EventRecord, Severity},
    resolved_account::Purpose,
    whitelist::memory::WhitelistSnapshot,
    wording::MOST_NAMES,
};
use api::{Interval, Reason, names::OBJECT_FINALIZER};

/// Most entries that an event names.
const MOST_NAMED: usize = MOST_NAMES;

/// Decides what to do for an object that is being deleted.
pub(super) fn decide_deletion(facts: &WhitelistFacts) -> WhitelistDecision {
    let subject = &facts.subject;
    let remove_finalizer =
        || WhitelistDecision::unchanged(subject).with(WhitelistEffect::RemoveFinalizer);
    if !subject.has_finalizer() {
        return WhitelistDecision::unchanged(subject);
    }
    match subject.is_crd_deleting() {
        Ok(true) => return remove_finalizer(),
        Ok(false) => {}
        Err(explanation) => return wait_with_reason(facts, explanation).requeue_after(CRD_RETRY),
    }
    // Only the owning object changes a list: two could each remove entries that the other relies on.
    if facts.conflicting_owners.owner.is_some() || !facts.is_account_in_namespace {
        return remove_finalizer();
    }
    if !facts.is_listed {
        return unlisted(facts);
    }
    if let Err(mut explanation) = subject.account.usable(Purpose::End) {
        explanation.message = format!("{}; {}", explanation.message, by_hand());
        return wait_with_reason(facts, explanation);
    }
    let Ok(target) = facts.target() else {
        return remove_finalizer();
    };
    let own = &subject.memory.own;
    if let Some(last) = own.missing.last() {
        return match own.missing.len() {
            1 => {
                let spacing = facts.times().absence_check_interval;
                let message = format!(
                    "The account shows no such API key; checked again after {}, and this object ends if it is still missing",
                    Interval(spacing)
                );
                let explanation = Explanation::waits(Reason::ReferenceNotFound, message);
                let next = *last + spacing;
                read_list_at(facts, wait_with_reason(facts, explanation), next)
            }
            _ => remove_finalizer(),
        };
    }
    if let Some(seen) = own.too_long {
        let message = format!("{}; {}", too_long(facts), by_hand());
        let explanation = Explanation::stalled(Reason::TooManyEntries, message);
        let next = seen + facts.times().idle_poll_interval;
        return read_list_at(facts, wait_with_reason(facts, explanation), next);
    }
    let Some(snapshot) = facts
        .usable_snapshot()
        .filter(|snapshot| snapshot.began >= facts.not_before())
    else {
        return read_and_apply(facts);
    };
    if let Some(decision) = unsettled(facts, snapshot) {
        return decision;
    }
    let plan = facts.plan(&snapshot.list, &target);
    match &plan.next {
        Some(next) => {
            let decision = WhitelistDecision::from_status(status(facts, snapshot, &target, &plan));
            going_on(facts, decision, next, &snapshot.list, &plan)
        }
        None => remove_finalizer(),
    }
}

/// The event for an object that ends while its entries may stay at the provider.
pub fn retained_entries_event(facts: &WhitelistFacts) -> Option<EventRecord> {
    let own = |snapshot: &WhitelistSnapshot| -> Vec<String> {
        let own = snapshot.list.own();
        own.map(|entry| format!("entry {} ({})", entry.id, entry.words()))
            .collect()
    };
    let has_emptied = facts.subject.memory.own.has_emptied();
    let shown = facts.usable_snapshot().map(own);
    let (mut left, omitted) = match shown.filter(|own| !own.is_empty() || has_emptied) {
        Some(own) => (own, None),
        // A list without own entries only counts if this process removed them.
        None => {
            let status = facts.subject.status();
            let ids = status.entries.into_iter().filter_map(|entry| entry.id);
            let recorded = ids.map(|id| format!("entry {id}")).collect();
            (recorded, status.entries_omitted)
        }
    };
    if left.is_empty() {
        return None;
    }
    let unnamed = left.len().saturating_sub(MOST_NAMED);
    left.truncate(MOST_NAMED);
    // Entries that status leaves out may exist at the provider or were never added.
    let more = match (
        unnamed,
        omitted.and_then(|omitted| usize::try_from(omitted).ok()),
    ) {
        (0, None) => String::new(),
        (more, None) => format!(" and {more} more"),
        (more, Some(omitted)) => format!(" and up to {} more", more + omitted),
    };
    Some(EventRecord {
        severity: Severity::Warning,
        reason: EventReason::Retained,
        action: "Delete",
        note: format!(
            "Entries of API key {} may stay at the provider, to lock nobody out; {}{more}. Remove them there once they are not needed",
            facts.key(),
            left.join(", ")
        ),
    })
}

/// How a user ends the object without the provider.
fn by_hand() -> String {
    format!(
        "or, to delete the object and keep its entries, remove its finalizer {OBJECT_FINALIZER}"
    )
}
