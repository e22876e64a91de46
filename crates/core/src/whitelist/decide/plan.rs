//! The steps from the list that there is to the one that is wished for, and which of them is next. Pure.
//!
//! Derived from the list alone, so that a process that dies anywhere leaves nothing behind that the next one would
//! have to know. Added first, then changed, then removed; what no object added goes last.

use super::{
    guard::{Step, permits},
    list::{Entry, List},
    ranges::{Addresses, Range},
    wish::{Target, Wished},
};
use api::whitelist::EntryPolicy;
use hosting_types::WhitelistEntryId;
use std::{cmp::Reverse, collections::BTreeSet};

/// What is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Every step that is left, in order.
    pub steps: Vec<Step>,
    /// The one to send now.
    pub next: Option<Step>,
    /// Why none of those that are left may be sent.
    pub held: Option<Held>,
}

/// Why no step may be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Held {
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
pub struct Allowed {
    /// The operator may lock itself out.
    pub lockout: bool,
    /// The entries of other objects may be removed.
    pub others: bool,
}

/// Plans.
pub fn plan(list: &List, target: &Target, allowed: Allowed) -> Plan {
    let egress = target.egress.as_ref();
    let work = Work::of(list, target);
    let is_free = allowed.lockout || !target.is_guarded;
    let next = match work.build_up.is_empty() {
        false => {
            let may = |step: &&Step| permits(list, egress, step);
            let first = work.build_up.iter().find(may);
            first.or_else(|| work.build_up.first().filter(|_| is_free))
        }
        true => removal(list, target, &work, is_free, allowed.others),
    };
    let next = next.cloned();
    let of_others = || {
        let others = [&work.build_up, &work.surplus, &work.without_owner];
        let is_all = !allowed.others && others.into_iter().all(Vec::is_empty);
        is_all.then(|| Held::OfOthers(list.of_others().map(|entry| entry.id).collect()))
    };
    let is_held = |next: &Option<Step>| next.is_none() && !work.is_done();
    let held = is_held(&next).then(|| of_others().unwrap_or_else(|| why_held(list, target)));
    let steps = [
        work.build_up,
        work.surplus,
        work.without_owner,
        work.of_others,
    ]
    .concat();
    Plan { steps, next, held }
}

/// The entry to remove now. What belongs to other objects goes by an acknowledgement only, and what no object added only where
/// the rest admits the operator: before that, it may be what keeps the operator in.
fn removal<'a>(
    list: &List,
    target: &Target,
    work: &'a Work,
    is_free: bool,
    may_remove_others: bool,
) -> Option<&'a Step> {
    let egress = target.egress.as_ref();
    let may = |step: &&Step| permits(list, egress, step);
    let is_end_covered = egress.is_none_or(|egress| end(list, target).covers_all(egress));
    let without_owner: &[Step] = match is_end_covered || is_free {
        true => &work.without_owner,
        false => &[],
    };
    let of_others: &[Step] = match may_remove_others {
        true => &work.of_others,
        false => &[],
    };
    let all = || work.surplus.iter().chain(without_owner).chain(of_others);
    all().find(may).or_else(|| all().next().filter(|_| is_free))
}

/// The steps by what they are for.
struct Work {
    /// Additions and changes.
    build_up: Vec<Step>,
    /// Entries of ours that are not wished for.
    surplus: Vec<Step>,
    /// Entries that no object added.
    without_owner: Vec<Step>,
    /// Entries of other objects.
    of_others: Vec<Step>,
}

impl Work {
    fn is_done(&self) -> bool {
        let all = [
            &self.build_up,
            &self.surplus,
            &self.without_owner,
            &self.of_others,
        ];
        all.into_iter().all(Vec::is_empty)
    }

    fn of(list: &List, target: &Target) -> Self {
        let unmet: Vec<&Wished> = target
            .entries
            .iter()
            .filter(|wished| !list.own().any(|entry| wished.is_met_by(entry)))
            .collect();
        let goal = with_all(list, &unmet);
        let (mut adds, mut changes) = (Vec::new(), Vec::new());
        for wished in &unmet {
            match replacement(list, &goal, target, wished) {
                Some(change) => changes.push(change),
                None => adds.push(Step::Add((*wished).clone())),
            }
        }
        adds.sort_by_key(|step| rank(step, target.egress.as_ref()));
        let changed: Vec<WhitelistEntryId> = changes
            .iter()
            .filter_map(|step| match step {
                Step::Change(id, _) => Some(*id),
                Step::Add(_) | Step::Remove(_) => None,
            })
            .collect();
        let kept = kept(list, target);
        let mut surplus: Vec<&Entry> = list
            .own()
            .filter(|entry| !kept.contains(&entry.id) && !changed.contains(&entry.id))
            .collect();
        surplus.sort_by_key(|entry| leaves_at(entry, target.egress.as_ref()));
        let is_exclusive = target.mode == EntryPolicy::Exact && !target.is_end;
        let mut others: Vec<&Entry> = list.others().filter(|_| is_exclusive).collect();
        others.sort_by_key(|entry| leaves_at(entry, target.egress.as_ref()));
        let (of_others, without_owner) = others.into_iter().partition(|entry| entry.is_of_other);
        let remove = |entries: Vec<&Entry>| entries.iter().map(|e| Step::Remove(e.id)).collect();
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
fn replacement(list: &List, goal: &List, target: &Target, wished: &Wished) -> Option<Step> {
    let egress = target.egress.as_ref();
    let of_name = || list.own().filter(|e| e.name.as_ref() == Some(&wished.name));
    let in_place = |entry: &Entry| Step::Change(entry.id, wished.clone());
    let first = of_name().next()?;
    let permitted = of_name()
        .map(in_place)
        .find(|step| permits(list, egress, step));
    let may_go = |entry: &Entry| permits(goal, egress, &Step::Remove(entry.id));
    match permitted {
        Some(step) => Some(step),
        None if of_name().all(may_go) => None,
        None => Some(in_place(first)),
    }
}

/// The list with everything that is wished for beside what there is.
fn with_all(list: &List, unmet: &[&Wished]) -> List {
    // The numbers matter to nobody, and are none of the list's.
    let mut entries = list.entries.clone();
    let free = (0..).map(|n| WhitelistEntryId(u64::MAX - n));
    entries.extend(unmet.iter().zip(free).map(|(wished, id)| Entry {
        id,
        range: Some(wished.range),
        active: Some(wished.active),
        comments: wished.comments.clone(),
        name: Some(wished.name.clone()),
        is_of_other: false,
    }));
    List { entries }
}

/// The entries of ours by which wishes are met, one for each.
fn kept(list: &List, target: &Target) -> BTreeSet<WhitelistEntryId> {
    let met = |wished: &Wished| list.own().find(|entry| wished.is_met_by(entry));
    target
        .entries
        .iter()
        .filter_map(met)
        .map(|e| e.id)
        .collect()
}

/// Entries that admit the operator are added first.
fn rank(step: &Step, egress: Option<&Addresses>) -> u8 {
    let Step::Add(wished) = step else { return 3 };
    let own: Addresses = [wished.range].into_iter().collect();
    match egress {
        _ if !wished.active => 3,
        Some(egress) if own.covers_all(egress) => 0,
        Some(egress) if egress.meets(&wished.range) => 1,
        _ => 2,
    }
}

/// What does not count goes first, and the narrowest of those that admit the operator last.
fn leaves_at(entry: &Entry, egress: Option<&Addresses>) -> (bool, bool, Reverse<Option<u128>>) {
    let meets = entry
        .range
        .is_none_or(|range| egress.is_none_or(|egress| egress.meets(&range)));
    let width = entry.range.map(|range| range.width());
    (entry.active != Some(false), meets, Reverse(width))
}

/// Whom the list admits for certain once everything is done.
pub fn end(list: &List, target: &Target) -> Addresses {
    let is_left = |entry: &&Entry| {
        entry.name.is_none() && (target.mode == EntryPolicy::Additive || target.is_end)
    };
    let left = list.entries.iter().filter(is_left);
    let left = left
        .filter(|entry| entry.is_certain())
        .filter_map(|entry| entry.range);
    let wished = target.entries.iter().filter(|wished| wished.active);
    left.chain(wished.map(|wished| wished.range)).collect()
}

fn why_held(list: &List, target: &Target) -> Held {
    let Some(egress) = &target.egress else {
        return Held::EgressUnknown;
    };
    let end = end(list, target);
    if end.is_empty() {
        return Held::NothingLeft;
    }
    let missing = egress.not_covered_by(&end);
    match missing.is_empty() {
        false => Held::NotCovered(missing),
        true => Held::NoFirstEntry,
    }
}
