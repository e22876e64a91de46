//! Decides what to do for an IpWhitelist from its facts. Each reconcile sends at most one step.
//! The list is read right before a step with the same permit, and again before the next one.

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
    read_only::Effect,
    reconcile::{self, ReadSource},
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

/// Most entries of a list that is planned, because every step is checked against all of them.
pub const MOST_LISTED: usize = MOST_OTHERS;

/// A decision about a whitelist.
pub type WhitelistDecision = reconcile::Decision<IpWhitelistStatus, WhitelistEffect>;

/// What a decision asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WhitelistEffect {
    /// Add the finalizer.
    AddFinalizer,
    /// Read the list, and send the next step if it is reported, permitted and certain.
    ReadAndApply {
        /// Most calls it may make.
        calls: u32,
    },
    /// Remove the finalizer.
    RemoveFinalizer,
}

impl Effect for WhitelistEffect {
    fn change(&self) -> Option<String> {
        match self {
            Self::AddFinalizer => Some("write metadata of this object".to_owned()),
            // In read-only mode no step is sendable.
            Self::ReadAndApply { .. } => None,
            Self::RemoveFinalizer => {
                Some("remove the finalizer, which ends this object".to_owned())
            }
        }
    }
}

/// Decides what to do for one whitelist.
pub fn decide(facts: &WhitelistFacts) -> WhitelistDecision {
    match facts.subject.is_deleting() {
        true => deletion::decide_deletion(facts).block_change(&facts.subject, None),
        false => reconcile_whitelist(facts)
            .block_change(&facts.subject, None)
            .answering(&facts.subject, || read_source(facts)),
    }
}

/// Reconciles an object that is not being deleted: makes the list match the spec.
fn reconcile_whitelist(facts: &WhitelistFacts) -> WhitelistDecision {
    let stalled =
        |reason, message: String| wait_with_reason(facts, Explanation::stalled(reason, message));
    if !facts.is_account_in_namespace {
        let message = "A ClusterProviderAccount serves whitelists of the operator's own namespace only. Create this one there, or use a ProviderAccount in spec.accountRef";
        return stalled(Reason::NotAllowed, message.to_owned());
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
        return stalled(Reason::OwnershipConflict, message);
    }
    if let Err(explanation) = facts.subject.account.usable(Purpose::Change) {
        return wait_with_reason(facts, explanation);
    }
    let target = match facts.target() {
        Ok(target) => target,
        Err(invalid) => return stalled(Reason::InvalidSpec, invalid.0),
    };
    let (own, times) = (&facts.subject.memory.own, facts.times());
    let (active, idle) = (times.active_poll_interval, times.idle_poll_interval);
    if let Some(next) = own.next_key_check(active, idle) {
        let message = format!(
            "The account has no API key {} (spec.apiKeyID). Create this whitelist again with the number of one of its keys",
            facts.key()
        );
        let explanation = Explanation::stalled(Reason::ReferenceNotFound, message);
        return read_list_at(facts, wait_with_reason(facts, explanation), next);
    }
    if let Some(seen) = own.too_long {
        let explanation = Explanation::stalled(Reason::TooManyEntries, too_long(facts));
        return read_list_at(facts, wait_with_reason(facts, explanation), seen + idle);
    }
    let Some(snapshot) = facts.usable_snapshot() else {
        return read_and_apply(facts);
    };
    let plan = facts.plan(&snapshot.list, &target);
    let is_ours = plan.next.is_some() || snapshot.list.own().next().is_some();
    if is_ours && !facts.subject.has_finalizer() {
        return facts.subject.add_finalizer(WhitelistEffect::AddFinalizer);
    }
    if let Some(decision) = unsettled(facts, snapshot) {
        return decision;
    }
    let decision = WhitelistDecision::from_status(status(facts, snapshot, &target, &plan)).and(
        egress_condition::condition(facts, &snapshot.list, &target, &plan),
    );
    let idle = snapshot.began + facts.times().idle_poll_interval;
    let Some(next) = &plan.next else {
        let explanation = explain_idle(facts, &snapshot.list, &target, &plan);
        return read_list_at(facts, decision.because(explanation), idle);
    };
    if let Some(why) = facts.not_applied() {
        let explanation = Explanation::stalled(Reason::EntryNotApplied, why);
        return read_list_at(facts, decision.because(explanation), idle);
    }
    going_on(facts, decision, next, &snapshot.list, &plan)
}

/// How a requested poll reads the list. An object that may not change the list, or has no valid spec, does not read it.
fn read_source(facts: &WhitelistFacts) -> ReadSource<WhitelistEffect> {
    if !facts.is_account_in_namespace
        || facts.conflicting_owners.owner.is_some()
        || facts.target().is_err()
    {
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

/// Waits until all IpWhitelists are listed, because an older one for the same key may be among them.
fn unlisted(facts: &WhitelistFacts) -> WhitelistDecision {
    let waits = facts
        .subject
        .now
        .mono
        .saturating_sub(facts.subject.observations_count_from());
    // Shortly after a start this is normal and not reported.
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

/// Requeue delay while not all whitelists are listed.
const UNLISTED: Duration = Duration::from_secs(1);
/// Time after which that wait is reported.
const LISTING: Duration = Duration::from_secs(60);

fn too_long(facts: &WhitelistFacts) -> String {
    format!(
        "The whitelist of API key {} has more than {MOST_LISTED} entries; nothing is changed. Join or remove entries at the provider",
        facts.key()
    )
}

/// Reports the next step in status first, then sends it, unless the operator is read-only.
fn going_on(
    facts: &WhitelistFacts,
    decision: WhitelistDecision,
    next: &WhitelistStep,
    list: &ProviderWhitelist,
    plan: &WhitelistPlan,
) -> WhitelistDecision {
    let step = descriptions::of_step(next, list);
    if facts.subject.read_only {
        let read_at = facts.usable_snapshot().map(|snapshot| snapshot.began);
        let again = read_at.unwrap_or_default() + facts.times().idle_poll_interval;
        let blocked = Explanation::read_only(&format!("would {step}"));
        return read_list_at(facts, decision.with_blocked(blocked), again);
    }
    match facts.reported_steps().contains(&step) {
        true => read_and_apply(facts),
        false => {
            let left = counted(plan.steps.len(), "step");
            let message = format!("{left} to go; the next follows {WHEN_RATE_ALLOWS}");
            let explanation = Explanation::waits(Reason::Progressing, message);
            decision.because(explanation).requeue_once_written()
        }
    }
}

/// The step to send now for a list that was just read. All preconditions of a step are checked here.
pub fn sendable(facts: &WhitelistFacts, list: &ProviderWhitelist) -> Option<WhitelistStep> {
    let own = &facts.subject.memory.own;
    let spacing = facts.times().absence_check_interval;
    let is_end = facts.subject.is_deleting();
    let is_ready = !facts.subject.read_only
        && facts.subject.has_finalizer()
        && own.is_settled()
        && own.is_absence_confirmed(facts.had_entries(), spacing)
        && (is_end || facts.not_applied().is_none())
        && facts.conflicting_owners.owner.is_none()
        && facts.is_account_in_namespace
        && facts.is_listed
        && facts.subject.kind_deleting == Some(false);
    let target = facts.target().ok().filter(|_| is_ready)?;
    let next = facts.plan(list, &target).next?;
    let is_reported = facts
        .reported_steps()
        .contains(&descriptions::of_step(&next, list));
    is_reported.then_some(next)
}

/// Waits while the effect of a step is unknown, or until a second list confirms that all own entries are gone.
fn unsettled(facts: &WhitelistFacts, snapshot: &WhitelistSnapshot) -> Option<WhitelistDecision> {
    let own = &facts.subject.memory.own;
    let times = facts.times();
    let spacing = times.absence_check_interval;
    let latest = own.waits_since() + spacing;
    let (explanation, latest) = match own.is_settled() {
        false => {
            let message = format!(
                "A step may have been sent, and the list does not show its effect yet; nothing else is sent until it does, or for {}",
                Interval(spacing)
            );
            (Explanation::waits(Reason::OutcomeUnknown, message), latest)
        }
        true if !own.is_absence_confirmed(facts.had_entries(), spacing) => {
            let message = format!(
                "The list shows none of the entries that were there; read again after {}, before they are added again",
                Interval(spacing)
            );
            (
                Explanation::waits(Reason::OutcomeUnknown, message),
                snapshot.began + spacing,
            )
        }
        true => return None,
    };
    let is_unseen = own.sent.as_ref().is_some_and(|sent| !sent.has_later_list);
    let next = match is_unseen {
        true => snapshot.began,
        false => latest.min(snapshot.began + times.active_poll_interval),
    };
    // The first list after a step is read without a report.
    match is_unseen {
        true => Some(read_and_apply(facts)),
        false => Some(read_list_at(
            facts,
            wait_with_reason(facts, explanation),
            next,
        )),
    }
}

/// Explains why nothing is sent.
fn explain_idle(
    facts: &WhitelistFacts,
    list: &ProviderWhitelist,
    target: &DesiredWhitelist,
    plan: &WhitelistPlan,
) -> Explanation {
    match &plan.blocked_by {
        Some(blocker) => {
            let (reason, message) =
                egress_condition::explain_blocker(facts, list, target, blocker, plan.steps.len());
            Explanation::stalled(reason, message)
        }
        None => Explanation::ready(Reason::Available, "The whitelist is as declared"),
    }
}

/// The status for a list.
fn status(
    facts: &WhitelistFacts,
    snapshot: &WhitelistSnapshot,
    target: &DesiredWhitelist,
    plan: &WhitelistPlan,
) -> IpWhitelistStatus {
    let entries = target.entries.iter().map(|desired| {
        let of_name = || {
            snapshot
                .list
                .own()
                .filter(|e| e.name.as_ref() == Some(&desired.name))
        };
        let met = of_name().find(|entry| desired.is_met_by(entry));
        let state = match (met, of_name().next()) {
            (Some(_), _) if desired.active => EntryState::Active,
            (Some(_), _) => EntryState::Inactive,
            (None, Some(_)) => EntryState::Different,
            (None, None) => EntryState::Missing,
        };
        let entry = met.or(of_name().next());
        EntryStatus {
            name: desired.name.clone(),
            id: entry.and_then(|entry| i64::try_from(entry.id.0).ok()),
            state,
        }
    });
    let mut status = facts.subject.status();
    // During a deletion the recorded entries stay, because an empty list alone does not mean that they are gone.
    if !target.is_end {
        status.entries = entries.collect();
    }
    status.other_entry_count = i32::try_from(snapshot.list.others().count()).ok();
    status.plan = descriptions::shown(plan, &snapshot.list);
    if !plan.steps.is_empty() {
        status.account_ref = Some(facts.subject.object.account());
    }
    acknowledge(facts, &snapshot.list, target, plan, &mut status);
    if !target.is_end {
        show_part(&mut status);
    }
    status
}

/// Truncates the entries in status; entries that match the spec are left out first. Keeps at least one that exists at
/// the provider, for [`WhitelistFacts::had_entries`].
fn show_part(status: &mut IpWhitelistStatus) {
    // Four entry IDs of other objects take the space of one entry.
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

/// Updates the acknowledgements that a user can give: for steps that are blocked without one, until they are done.
fn acknowledge(
    facts: &WhitelistFacts,
    list: &ProviderWhitelist,
    target: &DesiredWhitelist,
    plan: &WhitelistPlan,
    status: &mut IpWhitelistStatus,
) {
    let allowed = facts.acknowledged_risks(list, target);
    let blocker = |allowed| plan::plan(list, target, allowed).blocked_by;
    let of_others = |blocker: &PlanBlocker| matches!(blocker, PlanBlocker::OfOthers(_));
    let without_lockout = blocker(AcknowledgedRisks {
        lockout: false,
        ..allowed
    });
    let is_blocked = without_lockout.is_some_and(|blocker| !of_others(&blocker));
    let lockout = descriptions::lockout(facts.key(), list, target);
    settle(facts, &lockout, is_blocked, plan.steps.is_empty(), status);

    let without_others = blocker(AcknowledgedRisks {
        others: false,
        ..allowed
    });
    let is_blocked = without_others.is_some_and(|blocker| of_others(&blocker));
    let asked = facts.others(list);
    let removal = descriptions::removal(facts.key(), &asked);
    let is_done = list.of_others().next().is_none();
    match facts.removes_others(target) {
        true => settle(facts, &removal, is_blocked, is_done, status),
        false => withdraw(removal.effect, &mut status.pending_acknowledgements),
    }
    let mut pending = status.pending_acknowledgements.iter();
    status.removable_entry_ids = match pending.any(|entry| entry.effect == removal.effect) {
        true => asked,
        false => Vec::new(),
    };
}

/// Asks for one acknowledgement, or records it as used once its steps are done.
fn settle(
    facts: &WhitelistFacts,
    situation: &Situation,
    is_blocked: bool,
    is_done: bool,
    status: &mut IpWhitelistStatus,
) {
    let given = facts.acknowledgements();
    let pending = &mut status.pending_acknowledgements;
    if !is_done && (is_blocked || given.is_pending(situation)) {
        given.ask(situation, pending);
        return;
    }
    if is_done && given.is_given(situation) {
        given.use_up(situation.effect, pending, &mut status.acknowledged);
    }
    withdraw(situation.effect, pending);
}

/// Reads the list and sends the next step.
fn read_and_apply(facts: &WhitelistFacts) -> WhitelistDecision {
    let decision = WhitelistDecision::unchanged(&facts.subject).with(reading(facts));
    match &facts.subject.memory.last_error {
        // After a failed read no list counts, so the coverage is unknown.
        Some(last_error) => decision.and(unknown(last_error.reason, &last_error.message)),
        None => decision,
    }
}

fn reading(facts: &WhitelistFacts) -> WhitelistEffect {
    // Two more calls: the check that the key still works, and the step itself.
    let calls = facts.calls_of_list() + 2;
    WhitelistEffect::ReadAndApply { calls }
}

/// The EgressCovered condition while no list counts: unknown.
fn unknown(reason: Reason, message: &str) -> DesiredCondition {
    DesiredCondition {
        kind: Type::EgressCovered,
        status: None,
        reason,
        message: message.to_owned(),
    }
}

/// Waits with this decision until the list is due, then reads it.
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

/// The unchanged status with this explanation.
fn wait_with_reason(facts: &WhitelistFacts, explanation: Explanation) -> WhitelistDecision {
    let covered = unknown(explanation.reason, &explanation.message);
    WhitelistDecision::unchanged(&facts.subject)
        .because(explanation)
        .and(covered)
}

/// Priority and number of calls of an effect.
pub fn permit_for(effect: &WhitelistEffect) -> Option<(Priority, u32)> {
    match effect {
        WhitelistEffect::AddFinalizer | WhitelistEffect::RemoveFinalizer => None,
        WhitelistEffect::ReadAndApply { calls } => Some((Priority::Change, *calls)),
    }
}
