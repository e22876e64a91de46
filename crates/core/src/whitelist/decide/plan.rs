//! The steps from the list that there is to the one that is wished for, and which of them is next. Pure.
//!
//! Derived from the list alone, so that a process that dies anywhere leaves nothing behind that the next one would
//! have to know. Added first, then changed, then removed; what no object added goes last.

use super::{
    desired_entries::{DesiredEntry, DesiredWhitelist},
    list::{ListedEntry, ProviderWhitelist},
    lockout_guard::{WhitelistStep, permits},
    ranges::{Addresses, Range},
};
use api::whitelist::EntryPolicy;
use hosting_types::WhitelistEntryId;
use std::{cmp::Reverse, collections::BTreeSet};

/// What is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WhitelistPlan {
    /// Every step that is left, in order.
    pub steps: Vec<WhitelistStep>,
    /// The one to send now.
    pub next: Option<WhitelistStep>,
    /// Why none of those that are left may be sent.
    pub blocked_by: Option<PlanBlocker>,
}

/// Why no step may be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanBlocker {
    /// Nobody has said from where the operator calls.
    EgressUnknown,
    /// The wished list would not admit these addresses of the operator.
    NotCovered(Vec<Range>),
    /// No entry would be left that counts.
    NothingLeft,
    /// The list is not enforced yet, and no single entry admits all addresses of the operator.
    NoFirstEntry,
    /// Entries of other objects are there, which this one would remove.
    OfOthers(Vec<WhitelistEntryId>),
}

/// What a user acknowledges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AcknowledgedRisks {
    /// The operator may lock itself out.
    pub lockout: bool,
    /// The entries of other objects may be removed.
    pub others: bool,
}

/// Plans.
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
    let is_held = |next: &Option<WhitelistStep>| next.is_none() && !work.is_done();
    let held = is_held(&next).then(|| of_others().unwrap_or_else(|| find_blocker(list, target)));
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
        blocked_by: held,
    }
}

/// The entry to remove now. What belongs to other objects goes by an acknowledgement only, and what no object added only where
/// the rest admits the operator: before that, it may be what keeps the operator in.
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

/// The steps by what they are for.
struct PlannedSteps {
    /// Additions and changes.
    build_up: Vec<WhitelistStep>,
    /// Entries of ours that are not wished for.
    surplus: Vec<WhitelistStep>,
    /// Entries that no object added.
    without_owner: Vec<WhitelistStep>,
    /// Entries of other objects.
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
            .filter(|wished| !list.own().any(|entry| wished.is_met_by(entry)))
            .collect();
        let goal = with_all(list, &unmet);
        let (mut adds, mut changes) = (Vec::new(), Vec::new());
        for wished in &unmet {
            match replacement(list, &goal, target, wished) {
                Some(change) => changes.push(change),
                None => adds.push(WhitelistStep::Add((*wished).clone())),
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
        let kept = kept(list, target);
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

/// How an entry comes to be as wished where one of its name is there: by a change in place, or, None, by another one
/// beside it, after which the old one goes. So it is where the change could uncover the operator on its way and the
/// old one may go in the end.
///
/// `goal`: the list with everything that is wished for.
fn replacement(
    list: &ProviderWhitelist,
    goal: &ProviderWhitelist,
    target: &DesiredWhitelist,
    wished: &DesiredEntry,
) -> Option<WhitelistStep> {
    let egress = target.egress.as_ref();
    let of_name = || list.own().filter(|e| e.name.as_ref() == Some(&wished.name));
    let in_place = |entry: &ListedEntry| WhitelistStep::Change(entry.id, wished.clone());
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

/// The list with everything that is wished for beside what there is.
fn with_all(list: &ProviderWhitelist, unmet: &[&DesiredEntry]) -> ProviderWhitelist {
    // The numbers matter to nobody, and are none of the list's.
    let mut entries = list.entries.clone();
    let free = (0..).map(|n| WhitelistEntryId(u64::MAX - n));
    entries.extend(unmet.iter().zip(free).map(|(wished, id)| ListedEntry {
        id,
        range: Some(wished.range),
        active: Some(wished.active),
        comments: wished.comments.clone(),
        name: Some(wished.name.clone()),
        is_of_other: false,
    }));
    ProviderWhitelist { entries }
}

/// The entries of ours by which wishes are met, one for each.
fn kept(list: &ProviderWhitelist, target: &DesiredWhitelist) -> BTreeSet<WhitelistEntryId> {
    let met = |wished: &DesiredEntry| list.own().find(|entry| wished.is_met_by(entry));
    target
        .entries
        .iter()
        .filter_map(met)
        .map(|e| e.id)
        .collect()
}

/// Entries that admit the operator are added first.
fn rank(step: &WhitelistStep, egress: Option<&Addresses>) -> u8 {
    let WhitelistStep::Add(wished) = step else {
        return 3;
    };
    let own: Addresses = [wished.range].into_iter().collect();
    match egress {
        _ if !wished.active => 3,
        Some(egress) if own.covers_all(egress) => 0,
        Some(egress) if egress.meets(&wished.range) => 1,
        _ => 2,
    }
}

/// What does not count goes first, and the narrowest of those that admit the operator last.
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

/// Whom the list admits for certain once everything is done.
pub fn end(list: &ProviderWhitelist, target: &DesiredWhitelist) -> Addresses {
    let is_left = |entry: &&ListedEntry| {
        entry.name.is_none() && (target.mode == EntryPolicy::Additive || target.is_end)
    };
    let left = list.entries.iter().filter(is_left);
    let left = left
        .filter(|entry| entry.is_certain())
        .filter_map(|entry| entry.range);
    let wished = target.entries.iter().filter(|wished| wished.active);
    left.chain(wished.map(|wished| wished.range)).collect()
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
