//! The decision: facts in, one decision out.
//!
//! Each step is a pass of its own. The list is read by the same permit right before, and what is sent follows from that
//! list alone; the next pass reads it again, and calls the key once more, before anything else is sent.

pub mod deletion;
pub mod descriptions;
pub mod desired_entries;
mod egress_condition;
pub mod list;
pub mod lockout_guard;
pub mod plan;
pub mod ranges;
#[cfg(test)]
pub(crate) mod tests;

use super::{facts::WhitelistFacts, memory::WhitelistSnapshot};
use crate::{
    account::priority::Priority,
    acknowledgement::{Situation, withdraw},
    explanation::Explanation,
    pass::{self, ReadSource},
    resolved_account::Purpose,
    wording::{WHEN_RATE_ALLOWS, counted, omitted},
};
use api::{
    Interval, Reason,
    conditions::{DesiredCondition, Type},
    whitelist::{EntryState, EntryStatus, IpWhitelistStatus, MOST_OTHERS, MOST_SHOWN},
};
use desired_entries::DesiredWhitelist;
use list::ProviderWhitelist;
use lockout_guard::WhitelistStep;
use plan::{AcknowledgedRisks, PlanBlocker, WhitelistPlan};
use std::time::Duration;

/// Most entries of a list that is judged. Each step is judged on all of them, each time; no list that people keep is
/// near that.
pub const MOST_LISTED: usize = MOST_OTHERS;

/// A decision about a whitelist.
pub type WhitelistDecision = pass::Decision<IpWhitelistStatus, WhitelistEffect>;

/// Something to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WhitelistEffect {
    /// Put the finalizer on.
    AddFinalizer,
    /// Read the list, and do the next step where that is told, permitted and not in doubt.
    ReadAndApply {
        /// How many calls it may take.
        calls: u32,
    },
    /// Take the finalizer off.
    RemoveFinalizer,
}

/// Decides what to do for one whitelist.
pub fn decide(facts: &WhitelistFacts) -> WhitelistDecision {
    match facts.subject.is_deleting() {
        true => deletion::decide_deletion(facts),
        false => reconcile_whitelist(facts).answering(&facts.subject, || read_source(facts)),
    }
}

/// A living object: the list becomes what is declared.
fn reconcile_whitelist(facts: &WhitelistFacts) -> WhitelistDecision {
    let needs_person =
        |reason, message: String| wait_with_reason(facts, Explanation::stalled(reason, message));
    if !facts.is_home {
        let message = "A ClusterProviderAccount serves whitelists of the operator's own namespace only. Create this one there, or use a ProviderAccount in spec.accountRef";
        return needs_person(Reason::NotAllowed, message.to_owned());
    }
    if !facts.is_listed {
        return unlisted(facts);
    }
    if let Some(owner) = &facts.conflicting_owners.owner {
        let message = format!(
            "Whitelist of API key {} belongs to the older {}. {}; this one takes over when the other is gone",
            facts.key(),
            owner.named("IpWhitelist", facts.subject.namespace()),
            owner.remedy(facts.subject.namespace())
        );
        return needs_person(Reason::OwnershipConflict, message);
    }
    if let Err(cause) = facts.subject.account.usable(Purpose::Change) {
        return wait_with_reason(facts, cause);
    }
    let target = match facts.target() {
        Ok(target) => target,
        Err(invalid) => return needs_person(Reason::InvalidSpec, invalid.0),
    };
    let (own, times) = (&facts.subject.memory.own, facts.times());
    let (active, idle) = (times.active_poll_interval, times.idle_poll_interval);
    if let Some(next) = own.next_key_check(active, idle) {
        let message = format!(
            "The account has no API key {} (spec.apiKeyID). Create this whitelist again with the number of one of its keys",
            facts.key()
        );
        let cause = Explanation::stalled(Reason::ReferenceNotFound, message);
        return read_list_at(facts, wait_with_reason(facts, cause), next);
    }
    if let Some(seen) = own.too_long {
        let cause = Explanation::stalled(Reason::TooManyEntries, too_long(facts));
        return read_list_at(facts, wait_with_reason(facts, cause), seen + idle);
    }
    let Some(look) = facts.usable_snapshot() else {
        return read_and_apply(facts);
    };
    let plan = facts.plan(&look.list, &target);
    let is_ours = plan.next.is_some() || look.list.own().next().is_some();
    if is_ours && !facts.subject.has_finalizer() {
        return facts.subject.add_finalizer(WhitelistEffect::AddFinalizer);
    }
    if let Some(decision) = unsettled(facts, look) {
        return decision;
    }
    let decision = WhitelistDecision::from_status(status(facts, look, &target, &plan)).and(
        egress_condition::condition(facts, &look.list, &target, &plan),
    );
    let idle = look.began + facts.times().idle_poll_interval;
    let Some(next) = &plan.next else {
        let cause = explain_idle(facts, &look.list, &target, &plan);
        return read_list_at(facts, decision.because(cause), idle);
    };
    if let Some(why) = facts.not_applied() {
        let cause = Explanation::stalled(Reason::EntryNotApplied, why);
        return read_list_at(facts, decision.because(cause), idle);
    }
    going_on(facts, decision, next, &look.list, &plan)
}

/// What a look at the list is for this object. What may not change it, or knows no target, does not read it.
fn read_source(facts: &WhitelistFacts) -> ReadSource<WhitelistEffect> {
    if !facts.is_home || facts.conflicting_owners.owner.is_some() || facts.target().is_err() {
        return ReadSource::NotNeeded;
    }
    match facts.is_listed {
        true => ReadSource::Own {
            last: facts.subject.memory.own.last_read_at(),
            effect: reading(facts),
        },
        false => ReadSource::Unavailable,
    }
}

/// Nothing is changed before all whitelists are known: an older one for the same key may be among them.
fn unlisted(facts: &WhitelistFacts) -> WhitelistDecision {
    let waits = facts.subject.now.mono.saturating_sub(facts.subject.since());
    // Soon after the start that is no news.
    if waits < LISTING {
        return WhitelistDecision::unchanged(&facts.subject).requeue_after(UNLISTED);
    }
    let message = "Not all IpWhitelists are listed yet; an older one for this key may be among them; continues as soon as they are. If this lasts, grant the operator list on IpWhitelists in all namespaces that it watches";
    wait_with_reason(
        facts,
        Explanation::waits(Reason::WaitingForListing, message),
    )
    .requeue_after(UNLISTED)
}

/// How soon it is asked again whether all whitelists are known, and how long that may take without a word.
const UNLISTED: Duration = Duration::from_secs(1);
const LISTING: Duration = Duration::from_secs(60);

fn too_long(facts: &WhitelistFacts) -> String {
    format!(
        "The whitelist of API key {} has more than {MOST_LISTED} entries; nothing is changed. Join or remove entries at the provider",
        facts.key()
    )
}

/// The next step is told of before it is sent.
fn going_on(
    facts: &WhitelistFacts,
    decision: WhitelistDecision,
    next: &WhitelistStep,
    list: &ProviderWhitelist,
    plan: &WhitelistPlan,
) -> WhitelistDecision {
    match facts
        .reported_steps()
        .contains(&descriptions::of_step(next, list))
    {
        true => read_and_apply(facts),
        false => {
            let left = counted(plan.steps.len(), "step");
            let message = format!("{left} to go; the next follows {WHEN_RATE_ALLOWS}");
            let cause = Explanation::waits(Reason::Progressing, message);
            decision.because(cause).requeue_now()
        }
    }
}

/// The step to send now, as the list that was read right before has it. Everything that permits a step is judged here.
pub fn sendable(facts: &WhitelistFacts, list: &ProviderWhitelist) -> Option<WhitelistStep> {
    let own = &facts.subject.memory.own;
    let spacing = facts.times().absence_check_interval;
    let is_end = facts.subject.is_deleting();
    let is_ready = facts.subject.has_finalizer()
        && own.is_settled()
        && own.is_believed(facts.had_entries(), spacing)
        && (is_end || facts.not_applied().is_none())
        && facts.conflicting_owners.owner.is_none()
        && facts.is_home
        && facts.is_listed
        && facts.subject.kind_deleting == Some(false);
    let target = facts.target().ok().filter(|_| is_ready)?;
    let next = facts.plan(list, &target).next?;
    let is_told = facts
        .reported_steps()
        .contains(&descriptions::of_step(&next, list));
    is_told.then_some(next)
}

/// A step whose effect is not known is waited for, and so is a second look at a list that has lost everything.
fn unsettled(facts: &WhitelistFacts, look: &WhitelistSnapshot) -> Option<WhitelistDecision> {
    let own = &facts.subject.memory.own;
    let times = facts.times();
    let spacing = times.absence_check_interval;
    let latest = own.waits_since() + spacing;
    let (cause, latest) = match own.is_settled() {
        false => {
            let message = format!(
                "A step may have been sent, and the list does not show its effect yet; nothing else is sent until it does, or for {}",
                Interval(spacing)
            );
            (Explanation::waits(Reason::OutcomeUnknown, message), latest)
        }
        true if !own.is_believed(facts.had_entries(), spacing) => {
            let message = format!(
                "The list shows none of the entries that were there; read again after {}, before they are added again",
                Interval(spacing)
            );
            (
                Explanation::waits(Reason::OutcomeUnknown, message),
                look.began + spacing,
            )
        }
        true => return None,
    };
    let is_unseen = own.sent.as_ref().is_some_and(|sent| !sent.has_later_list);
    let next = match is_unseen {
        true => look.began,
        false => latest.min(look.began + times.active_poll_interval),
    };
    // The first look after a step is no news.
    match is_unseen {
        true => Some(read_and_apply(facts)),
        false => Some(read_list_at(facts, wait_with_reason(facts, cause), next)),
    }
}

/// Nothing is to be sent: why.
fn explain_idle(
    facts: &WhitelistFacts,
    list: &ProviderWhitelist,
    target: &DesiredWhitelist,
    plan: &WhitelistPlan,
) -> Explanation {
    match &plan.blocked_by {
        Some(held) => {
            let (reason, message) =
                egress_condition::explain_blocker(facts, list, target, held, plan.steps.len());
            Explanation::stalled(reason, message)
        }
        None => Explanation::ready(Reason::Available, "The whitelist is as declared"),
    }
}

/// Everything that is told of the list.
fn status(
    facts: &WhitelistFacts,
    look: &WhitelistSnapshot,
    target: &DesiredWhitelist,
    plan: &WhitelistPlan,
) -> IpWhitelistStatus {
    let entries = target.entries.iter().map(|wished| {
        let of_name = || {
            look.list
                .own()
                .filter(|e| e.name.as_ref() == Some(&wished.name))
        };
        let met = of_name().find(|entry| wished.is_met_by(entry));
        let state = match (met, of_name().next()) {
            (Some(_), _) if wished.active => EntryState::Active,
            (Some(_), _) => EntryState::Inactive,
            (None, Some(_)) => EntryState::Different,
            (None, None) => EntryState::Missing,
        };
        let entry = met.or(of_name().next());
        EntryStatus {
            name: wished.name.clone(),
            id: entry.and_then(|entry| i64::try_from(entry.id.0).ok()),
            state,
        }
    });
    let mut status = facts.subject.status();
    // What was there stays on record to the end: an empty list alone does not say that it is gone.
    if !target.is_end {
        status.entries = entries.collect();
    }
    status.other_entry_count = i32::try_from(look.list.others().count()).ok();
    status.plan = descriptions::shown(plan, &look.list);
    if !plan.steps.is_empty() {
        status.account_ref = Some(facts.subject.object.account());
    }
    acknowledge(facts, &look.list, target, plan, &mut status);
    if !target.is_end {
        show_part(&mut status);
    }
    status
}

/// Leaves out entries that are too many to be shown, first those that are as declared. Where any is at the provider, one of
/// those stays: [`Facts::had_entries`] asks for that.
fn show_part(status: &mut IpWhitelistStatus) {
    // Four of other objects take the place of one.
    let most = MOST_SHOWN.saturating_sub(status.removable_entry_ids.len().div_ceil(4));
    let most = most.max(1);
    status.entries_omitted = omitted(status.entries.len(), most);
    if status.entries_omitted.is_none() {
        return;
    }
    status.entries.sort_by_key(|entry| match entry.state {
        EntryState::Different => 0,
        EntryState::Missing => 1,
        EntryState::Active | EntryState::Inactive => 2,
    });
    let there = status.entries.iter().position(|entry| entry.id.is_some());
    if let Some(there) = there.filter(|there| *there >= most) {
        status.entries.swap(there, most - 1);
    }
    status.entries.truncate(most);
}

/// What a user may acknowledge: what would be held otherwise, until it is done.
fn acknowledge(
    facts: &WhitelistFacts,
    list: &ProviderWhitelist,
    target: &DesiredWhitelist,
    plan: &WhitelistPlan,
    status: &mut IpWhitelistStatus,
) {
    let allowed = facts.acknowledged_risks(list, target);
    let held = |allowed| plan::plan(list, target, allowed).blocked_by;
    let of_others = |held: &PlanBlocker| matches!(held, PlanBlocker::OfOthers(_));
    let without_lockout = held(AcknowledgedRisks {
        lockout: false,
        ..allowed
    });
    let is_held = without_lockout.is_some_and(|held| !of_others(&held));
    let lockout = descriptions::lockout(facts.key(), list, target);
    settle(facts, &lockout, is_held, plan.steps.is_empty(), status);

    let without_others = held(AcknowledgedRisks {
        others: false,
        ..allowed
    });
    let is_held = without_others.is_some_and(|held| of_others(&held));
    let asked = facts.others(list);
    let removal = descriptions::removal(facts.key(), &asked);
    let is_done = list.of_others().next().is_none();
    match facts.removes_others(target) {
        true => settle(facts, &removal, is_held, is_done, status),
        false => withdraw(removal.effect, &mut status.pending_acknowledgements),
    }
    let mut pending = status.pending_acknowledgements.iter();
    status.removable_entry_ids = match pending.any(|entry| entry.effect == removal.effect) {
        true => asked,
        false => Vec::new(),
    };
}

/// Asks for one acknowledgement, or notes that what it was given for is done.
fn settle(
    facts: &WhitelistFacts,
    situation: &Situation,
    is_held: bool,
    is_done: bool,
    status: &mut IpWhitelistStatus,
) {
    let given = facts.acknowledgements();
    let pending = &mut status.pending_acknowledgements;
    if !is_done && (is_held || given.is_pending(situation)) {
        given.ask(situation, pending);
        return;
    }
    if is_done && given.is_given(situation) {
        given.use_up(situation.effect, pending, &mut status.acknowledged);
    }
    withdraw(situation.effect, pending);
}

/// Reads the list, and does what is next.
fn read_and_apply(facts: &WhitelistFacts) -> WhitelistDecision {
    let decision = WhitelistDecision::unchanged(&facts.subject).with(reading(facts));
    match &facts.subject.memory.last_error {
        // Shown where it persists: then no list counts.
        Some(trouble) => decision.and(unknown(trouble.reason, &trouble.message)),
        None => decision,
    }
}

fn reading(facts: &WhitelistFacts) -> WhitelistEffect {
    // The proof that the key still works, and the step itself.
    let calls = facts.calls_of_list() + 2;
    WhitelistEffect::ReadAndApply { calls }
}

/// No list counts, so nobody knows whether the operator stays admitted.
fn unknown(reason: Reason, message: &str) -> DesiredCondition {
    DesiredCondition {
        kind: Type::EgressCovered,
        status: None,
        reason,
        message: message.to_owned(),
    }
}

/// Says this until the list is to be read again.
fn read_list_at(
    facts: &WhitelistFacts,
    decision: WhitelistDecision,
    next: Duration,
) -> WhitelistDecision {
    match next
        .checked_sub(facts.subject.now.mono)
        .filter(|rest| !rest.is_zero())
    {
        Some(rest) => decision.requeue_after(rest),
        None => read_and_apply(facts),
    }
}

/// Says why nothing is done; what is known of the list stays.
fn wait_with_reason(facts: &WhitelistFacts, cause: Explanation) -> WhitelistDecision {
    let covered = unknown(cause.reason, &cause.message);
    WhitelistDecision::unchanged(&facts.subject)
        .because(cause)
        .and(covered)
}

/// The lane of an effect and the number of its calls.
pub fn permit_for(effect: &WhitelistEffect) -> Option<(Priority, u32)> {
    match effect {
        WhitelistEffect::AddFinalizer | WhitelistEffect::RemoveFinalizer => None,
        WhitelistEffect::ReadAndApply { calls } => Some((Priority::Change, *calls)),
    }
}
