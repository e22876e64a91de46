//! Plans the steps from the current list to the desired one. The plan follows from the list alone, so a restart loses
//! nothing. Order: additions, changes, removals of own entries, then removals of entries without an owner.

use super::{
    desired_entries::{DesiredEntry, DesiredWhitelist},
    list::{ListedEntry, ProviderWhitelist},
    lockout_guard::{WhitelistStep, permits},
    ranges::{Addresses, Range},
};
use api::whitelist::EntryPolicy;
use hosting_types::WhitelistEntryId;
use std::{cmp::Reverse, collections::BTreeSet};

/// The plan from a list to the desired one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WhitelistPlan {
    /// All remaining steps, in order.
    pub steps: Vec<WhitelistStep>,
    /// The step to send now.
    pub next: Option<WhitelistStep>,
    /// Why none of the remaining steps may be sent.
    pub blocked_by: Option<PlanBlocker>,
}

/// Why no step may be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanBlocker {
    /// The operator's own addresses are not configured.
    EgressUnknown,
    /// The desired list would not admit these addresses of the operator.
    NotCovered(Vec<Range>),
    /// No active entry would be left.
    NothingLeft,
    /// The list is not enforced yet, and no single entry admits all addresses of the operator.
    NoFirstEntry,
    /// The plan would remove entries of other objects.
    OfOthers(Vec<WhitelistEntryId>),
}

/// The risks that a user has acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AcknowledgedRisks {
    /// The operator may lock itself out.
    pub lockout: bool,
    /// The entries of other objects may be removed.
    pub others: bool,
}

/// Plans the steps and picks the next one.
pub fn plan(
    list: &ProviderWhitelist,
    target: &DesiredWhitelist,
    allowed: AcknowledgedRisks,
) -> WhitelistPlan {
    let egress = target.egress.as_ref();
    let work = PlannedSteps::new(list, target);
    let is_free = allowed.lockout || !target.is_guarded;
    let next = match work.build_up.is_empty() {
        false => {
            let may = |step: &&WhitelistStep| permits(list, egress, step);
            let first = work.build_up.iter().find(may);
            first.or_else(|| work.build_up.first().filter(|_| is_free))
        }
        true => removal(list, target, &work, is_free, allowed.others),
    };
    let next = next.cloned();
    let of_others = || {
        let others = [&work.build_up, &work.surplus, &work.without_owner];
        let is_all = !allowed.others && others.into_iter().all(Vec::is_empty);
        is_all.then(|| PlanBlocker::OfOthers(list.of_others().map(|entry| entry.id).collect()))
    };
    let is_blocked = |next: &Option<WhitelistStep>| next.is_none() && !work.is_done();
    let blocked_by =
        is_blocked(&next).then(|| of_others().unwrap_or_else(|| find_blocker(list, target)));
    let steps = [
        work.build_up,
        work.surplus,
        work.without_owner,
        work.of_others,
    ]
    .concat();
    WhitelistPlan {
        steps,
        next,
        blocked_by,
    }
}

/// The entry to remove now. Entries of other objects need an acknowledgement. Entries without an owner need a final
/// list that admits the operator, because until then they may be what admits it.
fn removal<'a>(
    list: &ProviderWhitelist,
    target: &DesiredWhitelist,
    work: &'a PlannedSteps,
    is_free: bool,
    may_remove_others: bool,
) -> Option<&'a WhitelistStep> {
    let egress = target.egress.as_ref();
    let may = |step: &&WhitelistStep| permits(list, egress, step);
    let is_end_covered = egress.is_none_or(|egress| end(list, target).covers_all(egress));
    let without_owner: &[WhitelistStep] = match is_end_covered || is_free {
        true => &work.without_owner,
        false => &[],
    };
    let of_others: &[WhitelistStep] = match may_remove_others {
        true => &work.of_others,
        false => &[],
    };
    let all = || work.surplus.iter().chain(without_owner).chain(of_others);
    all().find(may).or_else(|| all().next().filter(|_| is_free))
}

/// The steps, grouped by purpose.
struct PlannedSteps {
    /// Additions and changes.
    build_up: Vec<WhitelistStep>,
    /// Removals of own entries that are not desired.
    surplus: Vec<WhitelistStep>,
    /// Removals of entries that no object added.
    without_owner: Vec<WhitelistStep>,
    /// Removals of entries of other objects.
    of_others: Vec<WhitelistStep>,
}

impl PlannedSteps {
    fn is_done(&self) -> bool {
        let all = [
            &self.build_up,
            &self.surplus,
            &self.without_owner,
            &self.of_others,
        ];
        all.into_iter().all(Vec::is_empty)
    }

    fn new(list: &ProviderWhitelist, target: &DesiredWhitelist) -> Self {
        let unmet: Vec<&DesiredEntry> = target
            .entries
            .iter()
            .filter(|desired| !list.own().any(|entry| desired.is_met_by(entry)))
            .collect();
        let goal = with_all(list, &unmet);
        let (mut adds, mut changes) = (Vec::new(), Vec::new());
        for desired in &unmet {
            match replacement(list, &goal, target, desired) {
                Some(change) => changes.push(change),
                None => adds.push(WhitelistStep::Add((*desired).clone())),
            }
        }
        adds.sort_by_key(|step| rank(step, target.egress.as_ref()));
        let changed: Vec<WhitelistEntryId> = changes
            .iter()
            .filter_map(|step| match step {
                WhitelistStep::Change(id, _) => Some(*id),
                WhitelistStep::Add(_) | WhitelistStep::Remove(_) => None,
            })
            .collect();
        let kept = kept_entry_ids(list, target);
        let mut surplus: Vec<&ListedEntry> = list
            .own()
            .filter(|entry| !kept.contains(&entry.id) && !changed.contains(&entry.id))
            .collect();
        surplus.sort_by_key(|entry| leaves_at(entry, target.egress.as_ref()));
        let is_exclusive = target.mode == EntryPolicy::Exact && !target.is_end;
        let mut others: Vec<&ListedEntry> = list.others().filter(|_| is_exclusive).collect();
        others.sort_by_key(|entry| leaves_at(entry, target.egress.as_ref()));
        let (of_others, without_owner) = others.into_iter().partition(|entry| entry.is_of_other);
        let remove = |entries: Vec<&ListedEntry>| {
            entries
                .iter()
                .map(|e| WhitelistStep::Remove(e.id))
                .collect()
        };
        Self {
            build_up: [adds, changes].concat(),
            surplus: remove(surplus),
            without_owner: remove(without_owner),
            of_others: remove(of_others),
        }
    }
}

/// The change in place of an entry with this name, or None to add a new entry and remove the old one later. None if
/// changes could lock the operator out, but the old entries may be removed from `goal`, the list with all additions.
fn replacement(
    list: &ProviderWhitelist,
    goal: &ProviderWhitelist,
    target: &DesiredWhitelist,
    desired: &DesiredEntry,
) -> Option<WhitelistStep> {
    let egress = target.egress.as_ref();
    let of_name = || {
        list.own()
            .filter(|e| e.name.as_ref() == Some(&desired.name))
    };
    let in_place = |entry: &ListedEntry| WhitelistStep::Change(entry.id, desired.clone());
    let first = of_name().next()?;
    let permitted = of_name()
        .map(in_place)
        .find(|step| permits(list, egress, step));
    let may_go = |entry: &ListedEntry| permits(goal, egress, &WhitelistStep::Remove(entry.id));
    match permitted {
        Some(step) => Some(step),
        None if of_name().all(may_go) => None,
        None => Some(in_place(first)),
    }
}

/// The list with all desired entries added.
fn with_all(list: &ProviderWhitelist, unmet: &[&DesiredEntry]) -> ProviderWhitelist {
    // Placeholder numbers that are not in the list.
    let mut entries = list.entries.clone();
    let free = (0..).map(|n| WhitelistEntryId(u64::MAX - n));
    entries.extend(unmet.iter().zip(free).map(|(desired, id)| ListedEntry {
        id,
        range: Some(desired.range),
        active: Some(desired.active),
        comments: desired.comments.clone(),
        name: Some(desired.name.clone()),
        is_of_other: false,
    }));
    ProviderWhitelist { entries }
}

/// The own entries that match desired entries, one for each.
fn kept_entry_ids(
    list: &ProviderWhitelist,
    target: &DesiredWhitelist,
) -> BTreeSet<WhitelistEntryId> {
    let met = |desired: &DesiredEntry| list.own().find(|entry| desired.is_met_by(entry));
    target
        .entries
        .iter()
        .filter_map(met)
        .map(|e| e.id)
        .collect()
}

/// Sort key of additions: entries that admit the operator first.
fn rank(step: &WhitelistStep, egress: Option<&Addresses>) -> u8 {
    let WhitelistStep::Add(desired) = step else {
        return 3;
    };
    let own: Addresses = [desired.range].into_iter().collect();
    match egress {
        _ if !desired.active => 3,
        Some(egress) if own.covers_all(egress) => 0,
        Some(egress) if egress.meets(&desired.range) => 1,
        _ => 2,
    }
}

/// Sort key of removals: inactive entries first, and the narrowest that admits the operator last.
fn leaves_at(
    entry: &ListedEntry,
    egress: Option<&Addresses>,
) -> (bool, bool, Reverse<Option<u128>>) {
    let meets = entry
        .range
        .is_none_or(|range| egress.is_none_or(|egress| egress.meets(&range)));
    let width = entry.range.map(|range| range.width());
    (entry.active != Some(false), meets, Reverse(width))
}

/// The addresses that the list admits for certain after all steps.
pub fn end(list: &ProviderWhitelist, target: &DesiredWhitelist) -> Addresses {
    let is_left = |entry: &&ListedEntry| {
        entry.name.is_none() && (target.mode == EntryPolicy::Additive || target.is_end)
    };
    let left = list.entries.iter().filter(is_left);
    let left = left
        .filter(|entry| entry.is_certain())
        .filter_map(|entry| entry.range);
    let desired = target.entries.iter().filter(|desired| desired.active);
    left.chain(desired.map(|desired| desired.range)).collect()
}

fn find_blocker(list: &ProviderWhitelist, target: &DesiredWhitelist) -> PlanBlocker {
    let Some(egress) = &target.egress else {
        return PlanBlocker::EgressUnknown;
    };
    let end = end(list, target);
    if end.is_empty() {
        return PlanBlocker::NothingLeft;
    }
    let missing = egress.not_covered_by(&end);
    match missing.is_empty() {
        false => PlanBlocker::NotCovered(missing),
        true => PlanBlocker::NoFirstEntry,
    }
}
