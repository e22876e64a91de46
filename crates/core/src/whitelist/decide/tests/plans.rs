//! The planned steps and their order.

use super::{
    super::{
        descriptions,
        lockout_guard::{WhitelistStep, permits},
        plan::{AcknowledgedRisks, PlanBlocker, plan},
        ranges::Addresses,
    },
    *,
};
use proptest::prelude::*;

/// Carries steps out until none is left. Each one must be permitted.
fn walk(
    mut now: ProviderWhitelist,
    target: &DesiredWhitelist,
    is_acknowledged: bool,
) -> (ProviderWhitelist, Vec<String>, Option<PlanBlocker>) {
    let mut done = Vec::new();
    let mut next_id = 1000;
    loop {
        let allowed = AcknowledgedRisks {
            lockout: is_acknowledged,
            others: is_acknowledged,
        };
        let plan = plan(&now, target, allowed);
        let Some(step) = plan.next else {
            return (now, done, plan.blocked_by);
        };
        assert!(done.len() < 60, "no end: {done:?}");
        let may = permits(&now, target.egress.as_ref(), &step);
        assert!(
            may || is_acknowledged || !target.is_guarded,
            "{step:?} on {now:?}"
        );
        done.push(descriptions::of_step(&step, &now));
        next_id += 1;
        match step {
            WhitelistStep::Add(desired) => now.entries.push(entry(next_id, &desired)),
            WhitelistStep::Change(id, desired) => {
                let place = now.entries.iter().position(|e| e.id == id).unwrap();
                now.entries[place] = entry(id.0, &desired);
            }
            WhitelistStep::Remove(id) => now.entries.retain(|e| e.id != id),
        }
    }
}

#[test]
fn operator_entry_is_first_in_and_last_out() {
    let (me, other) = (
        desired_entry("me", range(8, 15)),
        desired_entry("other", range(100, 200)),
    );
    let target = target(&[other.clone(), me.clone()], &[range(8, 8)]);
    let (end, done, blocked_by) = walk(ProviderWhitelist::default(), &target, false);
    assert_eq!(
        done,
        ["add me: 192.0.2.8/29", "add other: 192.0.2.100-192.0.2.200"]
    );
    assert_eq!(blocked_by, None);
    let ending = DesiredWhitelist {
        entries: Vec::new(),
        is_end: true,
        ..target
    };
    let (left, done, blocked_by) = walk(end, &ending, false);
    assert_eq!(done, ["remove other (entry 1002): 192.0.2.100-192.0.2.200"]);
    assert_eq!(left.entries.len(), 1);
    assert_eq!(blocked_by, Some(PlanBlocker::NothingLeft));
}

#[test]
fn uncovering_change_becomes_add_and_remove() {
    let (old, new) = (
        desired_entry("me", range(8, 15)),
        desired_entry("me", range(0, 15)),
    );
    let target = target(&[new], &[range(8, 8)]);
    let (end, done, blocked_by) = walk(list(&[entry(1, &old)]), &target, false);
    assert_eq!(
        done,
        ["add me: 192.0.2.0/28", "remove me (entry 1): 192.0.2.8/29"]
    );
    assert_eq!((end.entries.len(), blocked_by), (1, None));
    // If another entry admits the operator, the entry is changed in place.
    let (_, done, _) = walk(
        list(&[entry(1, &old), foreign(2, range(0, 255))]),
        &target,
        false,
    );
    assert_eq!(done, ["change me (entry 1): 192.0.2.0/28"]);
}

#[test]
fn split_addresses_need_one_covering_entry() {
    let halves = [
        desired_entry("low", range(0, 127)),
        desired_entry("high", range(128, 255)),
    ];
    let egress = [range(100, 110), range(130, 140)];
    let (end, done, blocked_by) = walk(
        ProviderWhitelist::default(),
        &target(&halves, &egress),
        false,
    );
    assert_eq!((end.entries.len(), done.len()), (0, 0));
    assert_eq!(blocked_by, Some(PlanBlocker::NoFirstEntry));
    let whole = [desired_entry("own", range(100, 140))];
    let covered = target(&[&halves[..], &whole].concat(), &egress);
    let (end, done, blocked_by) = walk(ProviderWhitelist::default(), &covered, false);
    assert_eq!(done[0], "add own: 192.0.2.100-192.0.2.140");
    assert_eq!((end.entries.len(), blocked_by), (3, None));
}

#[test]
fn two_families_need_one_common_entry() {
    let v6 = Range::of_net("2001:db8::/64".parse().unwrap());
    let entries = [
        desired_entry("four", range(0, 255)),
        desired_entry("six", v6),
    ];
    let target = target(&entries, &[range(8, 8), v6]);
    let (end, done, blocked_by) = walk(ProviderWhitelist::default(), &target, false);
    assert_eq!((end.entries.len(), done.len()), (0, 0));
    assert_eq!(blocked_by, Some(PlanBlocker::NoFirstEntry));
    let (end, _, blocked_by) = walk(ProviderWhitelist::default(), &target, true);
    assert_eq!((end.entries.len(), blocked_by), (2, None));
    // On an enforced list, more entries lock nobody out.
    let (end, _, blocked_by) = walk(list(&[foreign(1, range(0, 255))]), &target, false);
    assert_eq!((end.entries.len(), blocked_by), (3, None));
}

#[test]
fn unknown_egress_permits_only_safe_steps() {
    let (a, b) = (
        desired_entry("a", range(0, 9)),
        desired_entry("b", range(20, 29)),
    );
    let mut quiet = desired_entry("quiet", range(40, 49));
    quiet.active = false;
    let all = target(&[a.clone(), b.clone(), quiet], &[]);
    let (end, done, blocked_by) = walk(ProviderWhitelist::default(), &all, false);
    assert_eq!(done, ["add quiet: 192.0.2.40-192.0.2.49, inactive"]);
    assert_eq!(
        (end.entries.len(), blocked_by),
        (1, Some(PlanBlocker::EgressUnknown))
    );
    // On an enforced list, additions are harmless and removals are not.
    let (end, done, blocked_by) = walk(list(&[foreign(1, range(0, 255))]), &all, false);
    assert_eq!((done.len(), blocked_by), (3, None));
    let one = target(&[a], &[]);
    let (_, done, blocked_by) = walk(end, &one, false);
    // Entries whose addresses others also admit are removed anyway.
    assert_eq!(done.len(), 2, "{done:?}");
    assert_eq!(blocked_by, None);
    let (_, done, blocked_by) = walk(list(&[entry(1, &b)]), &one, false);
    assert_eq!(done, ["add a: 192.0.2.0-192.0.2.9"]);
    assert_eq!(blocked_by, Some(PlanBlocker::EgressUnknown));
}

#[test]
fn unowned_entries_go_last_only_with_exact() {
    let me = desired_entry("me", range(0, 15));
    let there = [foreign(1, range(0, 255)), foreign(2, range(50, 60))];
    let mut target = target(&[me], &[range(8, 8)]);
    let (end, done, _) = walk(list(&there), &target, false);
    assert_eq!((end.entries.len(), done.len()), (3, 1));
    target.mode = EntryPolicy::Exact;
    let (end, done, blocked_by) = walk(list(&there), &target, false);
    assert_eq!(
        done,
        [
            "add me: 192.0.2.0/28",
            "remove entry 2, which no object added: 192.0.2.50-192.0.2.60",
            "remove entry 1, which no object added: 192.0.2.0/24",
        ]
    );
    assert_eq!((end.entries.len(), blocked_by), (1, None));
    target.egress = None;
    let (end, _, blocked_by) = walk(list(&there), &target, false);
    let left: Vec<u64> = end.others().map(|entry| entry.id.0).collect();
    assert_eq!(
        (left, blocked_by),
        (vec![1], Some(PlanBlocker::EgressUnknown))
    );
}

#[test]
fn entries_of_others_stay_and_never_count() {
    let me = desired_entry("me", range(0, 15));
    let there = [entry(1, &me), of_other(2, range(0, 255))];
    let mut target = target(&[], &[range(8, 8)]);
    target.is_end = true;
    let (_, done, blocked_by) = walk(list(&there), &target, false);
    assert_eq!(
        (done.len(), blocked_by),
        (0, Some(PlanBlocker::NothingLeft))
    );
    target.is_end = false;
    target.entries = vec![me];
    target.mode = EntryPolicy::Exact;
    let foreign = [foreign(3, range(8, 8))];
    let (end, done, blocked_by) = walk(list(&[&there[..], &foreign].concat()), &target, false);
    assert_eq!(
        done,
        ["remove entry 3, which no object added: 192.0.2.8/32"]
    );
    assert_eq!(end.of_others().count(), 1);
    assert_eq!(
        blocked_by,
        Some(PlanBlocker::OfOthers(vec![WhitelistEntryId(2)]))
    );
    // Turning the guard off does not remove them either. Only an acknowledgement does.
    target.is_guarded = false;
    let (_, done, _) = walk(list(&there), &target, false);
    assert!(done.is_empty(), "{done:?}");
    let only_lockout = AcknowledgedRisks {
        lockout: true,
        others: false,
    };
    let left = plan(&list(&there), &target, only_lockout);
    let text = descriptions::of_step(&left.steps[0], &list(&there));
    assert_eq!(text, "remove entry 2 of another object: 192.0.2.0/24");
    assert_eq!(
        left.blocked_by,
        Some(PlanBlocker::OfOthers(vec![WhitelistEntryId(2)]))
    );
    let (end, _, blocked_by) = walk(list(&there), &target, true);
    assert_eq!((end.entries.len(), blocked_by), (1, None));
}

#[test]
fn unowned_entries_stay_while_needed() {
    let there = [foreign(1, range(0, 255)), foreign(2, range(50, 60))];
    let me = desired_entry("me", range(0, 7));
    let mut target = target(&[me], &[range(8, 8)]);
    target.mode = EntryPolicy::Exact;
    let (end, done, blocked_by) = walk(list(&there), &target, false);
    assert_eq!(done, ["add me: 192.0.2.0/29"]);
    assert_eq!(end.others().count(), 2);
    assert_eq!(blocked_by, Some(PlanBlocker::NotCovered(vec![range(8, 8)])));
    let (end, _, blocked_by) = walk(list(&there), &target, true);
    assert_eq!((end.others().count(), blocked_by), (0, None));
}

#[test]
fn a_list_at_the_cap_is_planned() {
    let foreign = |n: u64| {
        let at = u32::try_from(n * 2).unwrap();
        let at = core::net::IpAddr::V4(at.into());
        foreign(n, Range::between(at, at).unwrap())
    };
    let there: Vec<ListedEntry> = (1..=500).map(foreign).collect();
    let mut target = target(
        &[desired_entry("me", range(0, 7))],
        &[range(8, 8), range(20, 20)],
    );
    target.mode = EntryPolicy::Exact;
    for egress in [target.egress.clone(), None] {
        target.egress = egress;
        let blocked = plan(&list(&there), &target, AcknowledgedRisks::default());
        assert_eq!(blocked.steps.len(), 501);
        let removes = |step: &Option<WhitelistStep>| matches!(step, Some(WhitelistStep::Remove(_)));
        assert!(
            !removes(&blocked.next),
            "nothing foreign goes: {:?}",
            blocked.next
        );
    }
}

#[test]
fn duplicate_entry_is_removed() {
    let me = desired_entry("me", range(0, 15));
    let target = target(std::slice::from_ref(&me), &[range(8, 8)]);
    let there = [
        entry(1, &me),
        entry(2, &me),
        entry(3, &desired_entry("gone", range(30, 40))),
    ];
    let (end, done, blocked_by) = walk(list(&there), &target, false);
    assert_eq!(
        done,
        [
            "remove gone (entry 3): 192.0.2.30-192.0.2.40",
            "remove me (entry 2): 192.0.2.0/28"
        ]
    );
    assert_eq!((end.entries.len(), blocked_by), (1, None));
}

#[test]
fn last_active_entry_stays_active() {
    let mut me = desired_entry("me", range(0, 15));
    let there = list(&[entry(1, &me)]);
    let none = target(&[], &[range(8, 8)]);
    let (_, done, blocked_by) = walk(there.clone(), &none, false);
    assert_eq!(
        (done.len(), blocked_by),
        (0, Some(PlanBlocker::NothingLeft))
    );
    me.active = false;
    let off = target(&[me], &[range(8, 8)]);
    let (end, done, blocked_by) = walk(there.clone(), &off, false);
    assert_eq!(
        (done.len(), blocked_by),
        (0, Some(PlanBlocker::NothingLeft)),
        "{end:?}"
    );
    let (end, _, blocked_by) = walk(there, &off, true);
    assert_eq!(
        (end.is_open(), end.entries.len(), blocked_by),
        (true, 1, None)
    );
}

#[test]
fn acknowledgement_covers_only_the_result() {
    let key = hosting_types::ApiKeyId(7);
    let (a, b) = (
        desired_entry("a", range(0, 9)),
        desired_entry("b", range(20, 29)),
    );
    let both = target(&[a.clone(), b.clone()], &[range(50, 50)]);
    let asked = |now: &ProviderWhitelist, target: &DesiredWhitelist| {
        descriptions::lockout(key, now, target)
    };
    let empty = asked(&ProviderWhitelist::default(), &both);
    assert_eq!(asked(&list(&[entry(1, &a)]), &both), empty);
    let swapped = target(&[b.clone(), a.clone()], &[range(50, 50)]);
    assert_eq!(asked(&ProviderWhitelist::default(), &swapped), empty);
    for other in [
        target(std::slice::from_ref(&a), &[range(50, 50)]),
        target(&[a.clone(), b.clone()], &[range(51, 51)]),
        target(&[a, b], &[]),
    ] {
        assert_ne!(asked(&ProviderWhitelist::default(), &other), empty);
    }
    let with_foreign = list(&[foreign(9, range(0, 255))]);
    assert_ne!(asked(&with_foreign, &both), empty);
    let exclusive = |mut target: DesiredWhitelist| {
        target.mode = EntryPolicy::Exact;
        target
    };
    let both = exclusive(both);
    assert_eq!(
        asked(&with_foreign, &both),
        asked(&ProviderWhitelist::default(), &both)
    );
}

fn some_range() -> impl Strategy<Value = Range> {
    (0..12_u8, 0..12_u8).prop_map(|(a, b)| range(a.min(b), a.max(b)))
}

fn some_desired() -> impl Strategy<Value = Vec<DesiredEntry>> {
    let one = (some_range(), prop::bool::weighted(0.8));
    prop::collection::vec(one, 0..4).prop_map(|all| {
        all.into_iter()
            .zip(["a", "b", "c", "d"])
            .map(|((range, active), name)| {
                let mut desired = desired_entry(name, range);
                desired.active = active;
                desired
            })
            .collect()
    })
}

fn some_list() -> impl Strategy<Value = ProviderWhitelist> {
    let active = || prop::option::weighted(0.9, prop::bool::weighted(0.8));
    let one = (
        some_range(),
        active(),
        prop::option::of(0..4_usize),
        any::<bool>(),
    );
    prop::collection::vec(one, 0..5).prop_map(|all| ProviderWhitelist {
        entries: (1..)
            .zip(all)
            .map(|(id, (range, active, name, is_readable))| {
                let name = name.map(|at| ["a", "b", "gone", "lost"][at]);
                let mut entry = match name {
                    Some(name) => entry(id, &desired_entry(name, range)),
                    None => foreign(id, range),
                };
                entry.active = active;
                entry.range = entry.range.filter(|_| is_readable || id > 2);
                entry
            })
            .collect(),
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    /// Every plan ends. If all entries are certain and the desired list admits the operator, nothing stays blocked.
    /// The tests of `lockout_guard` check the steps.
    #[test]
    fn every_plan_ends(
        now in some_list(),
        entries in some_desired(),
        egress in prop::option::of(some_range()),
        is_exclusive in any::<bool>(),
        is_end in any::<bool>(),
        is_acknowledged in any::<bool>(),
        of_others in prop::collection::btree_set(1..6_u64, 0..3),
    ) {
        let mut now = now;
        for entry in now.entries.iter_mut().filter(|e| e.name.is_none()) {
            entry.is_of_other = of_others.contains(&entry.id.0);
        }
        let target = DesiredWhitelist {
            entries: if is_end { Vec::new() } else { entries },
            mode: if is_exclusive { EntryPolicy::Exact } else { EntryPolicy::Additive },
            egress: egress.map(|range| [range].into_iter().collect()),
            is_guarded: true,
            is_end,
            owner_hash: owner_hash(),
        };
        // An entry of another object is not certain either.
        let is_certain = |e: &ListedEntry| e.active.is_some() && e.range.is_some() && !e.is_of_other;
        let certain = now.entries.iter().all(is_certain);
        let (end, _, blocked_by) = walk(now, &target, is_acknowledged);
        if blocked_by.is_none() {
            let is_met = target.entries.iter().all(|w| end.own().any(|e| w.is_met_by(e)));
            prop_assert!(is_met, "{end:?}");
            prop_assert_eq!(end.own().count(), target.entries.len());
            let has_foreign = end.others().next().is_some();
            prop_assert!(!has_foreign || is_end || !is_exclusive);
        }
        prop_assert!(!is_acknowledged || blocked_by.is_none(), "an acknowledgement counts");
        let admitted = super::super::plan::end(&end, &target);
        let is_covered = target.egress.as_ref().is_some_and(|egress| admitted.covers_all(egress));
        let certain = certain || matches!(blocked_by, Some(PlanBlocker::OfOthers(_)));
        let mut active = target.entries.iter().filter(|desired| desired.active);
        let by_itself = target.egress.as_ref().is_some_and(|egress| {
            active.any(|desired| Addresses::from_iter([desired.range]).covers_all(egress))
        });
        let has_no_first = blocked_by == Some(PlanBlocker::NoFirstEntry) && end.is_open() && !by_itself;
        let is_free = blocked_by.is_none() || has_no_first || matches!(blocked_by, Some(PlanBlocker::OfOthers(_)));
        prop_assert!(!(certain && is_covered) || is_free, "{blocked_by:?} on {end:?}");
    }
}
