//! Whether a step may be sent: nothing that could lock the operator out is. Pure.
//!
//! A step is safe when the operator's addresses are admitted for certain in every state that it passes through, or
//! when no entry counts before and after it. One that nobody can be locked out by is harmless, whatever the
//! operator's addresses are. Everything else is held.
//!
//! Not documented, and so assumed the worse way: the first entry that counts switches the list on; a list whose
//! last one is gone may admit nobody; and a change may be carried out as a removal and an addition.

use super::{list::List, ranges::Addresses, wish::Wished};
use hosting_types::WhitelistEntryId;

/// One change of the list.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// An entry is added.
    Add(Wished),
    /// An entry is replaced.
    Change(WhitelistEntryId, Wished),
    /// An entry is removed.
    Remove(WhitelistEntryId),
}

/// Whether a step on this list may be sent.
pub fn permits(list: &List, egress: Option<&Addresses>, step: &Step) -> bool {
    is_harmless(list, step) || egress.is_some_and(|egress| is_safe(list, egress, step))
}

/// Whether nobody who is admitted before the step is refused after it.
fn is_harmless(list: &List, step: &Step) -> bool {
    match step {
        Step::Add(wished) => !wished.active || list.is_enforced(),
        Step::Remove(id) => is_spare(list, *id),
        Step::Change(id, wished) => {
            let is_enforced = !list.admitted_without(*id).is_empty();
            is_spare(list, *id) && (!wished.active || is_enforced)
        }
    }
}

/// Whether an entry admits nobody whom others do not admit for certain.
fn is_spare(list: &List, id: WhitelistEntryId) -> bool {
    let Some(entry) = list.get(id) else {
        return false;
    };
    match (entry.active, entry.range) {
        (Some(false), _) => true,
        // What another object adds and removes is nobody's to take for spare but where others admit the same.
        (_, Some(range)) => list.admitted_without(id).covers(&range),
        (_, None) => false,
    }
}

/// Whether the operator's addresses are admitted in every state of the step, or nothing is enforced before and after.
fn is_safe(list: &List, egress: &Addresses, step: &Step) -> bool {
    let admits = |admitted: &Addresses| admitted.covers_all(egress);
    let with = |admitted: Addresses, wished: &Wished| -> Addresses {
        let new = Some(wished.range).filter(|_| wished.active);
        admitted.ranges().iter().copied().chain(new).collect()
    };
    match step {
        Step::Add(wished) => {
            let stays_open = list.is_open() && !wished.active;
            stays_open || admits(&with(list.admitted(), wished))
        }
        Step::Remove(id) => list.is_open() || admits(&list.admitted_without(*id)),
        Step::Change(id, wished) => {
            let between = list.admitted_without(*id);
            let is_between_safe = list.is_open() || admits(&between);
            let stays_open = list.is_open() && !wished.active;
            is_between_safe && (stays_open || admits(&with(between, wished)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{list::Entry, ranges::Range, wish::Form},
        *,
    };
    use proptest::prelude::*;

    /// Addresses of the small world: eight of one family.
    fn range(first: u8, last: u8) -> Range {
        let at = |n: u8| core::net::IpAddr::V4(u32::from(n).into());
        Range::between(at(first), at(last)).unwrap()
    }

    fn entry(id: u64, range: Option<Range>, active: Option<bool>) -> Entry {
        Entry {
            id: WhitelistEntryId(id),
            range,
            active,
            comments: String::new(),
            name: None,
            is_of_other: false,
        }
    }

    fn wished(range: Range, active: bool) -> Wished {
        Wished {
            name: "w".into(),
            form: Form::Span,
            range,
            active,
            comments: String::new(),
        }
    }

    fn some_range() -> impl Strategy<Value = Range> {
        (0..8_u8, 0..8_u8).prop_map(|(a, b)| range(a.min(b), a.max(b)))
    }

    fn lists() -> impl Strategy<Value = List> {
        let one = (
            prop::option::weighted(0.9, some_range()),
            prop::option::weighted(0.9, any::<bool>()),
            prop::bool::weighted(0.2),
        );
        prop::collection::vec(one, 0..4).prop_map(|all| List {
            entries: (1..)
                .zip(all)
                .map(|(id, (range, active, is_of_other))| Entry {
                    is_of_other,
                    ..entry(id, range, active)
                })
                .collect(),
        })
    }

    fn steps() -> impl Strategy<Value = Step> {
        let wish =
            || (some_range(), any::<bool>()).prop_map(|(range, active)| wished(range, active));
        let id = || (1..4_u64).prop_map(WhitelistEntryId);
        prop_oneof![
            wish().prop_map(Step::Add),
            (id(), wish()).prop_map(|(id, wish)| Step::Change(id, wish)),
            id().prop_map(Step::Remove),
        ]
    }

    /// An entry of a plain world in which all is known: the addresses that it admits, where it counts.
    type Plain = Option<u8>;

    /// Every plain world that a list may stand for.
    fn worlds(list: &List) -> Vec<Vec<(u64, Plain)>> {
        let mut worlds = vec![Vec::new()];
        for entry in &list.entries {
            let ranges: Vec<u8> = match entry.range {
                Some(range) => vec![bits(range)],
                // Whatever an unreadable entry stands for.
                None => vec![0, 0b1111_0000, 0xff],
            };
            let active: Vec<bool> = entry
                .active
                .map_or(vec![false, true], |active| vec![active]);
            // What another object adds may be gone at the next moment.
            let active = match entry.is_of_other && entry.active != Some(false) {
                true => vec![false, true],
                false => active,
            };
            let mut next = Vec::new();
            for world in &worlds {
                for bits in &ranges {
                    for active in &active {
                        let mut world: Vec<(u64, Plain)> = world.clone();
                        world.push((entry.id.0, active.then_some(*bits)));
                        next.push(world);
                    }
                }
            }
            worlds = next;
        }
        worlds
    }

    fn bits(range: Range) -> u8 {
        let all: Addresses = [range].into_iter().collect();
        (0..8)
            .filter(|at| all.covers(&self::range(*at, *at)))
            .fold(0, |bits, at| bits | 1 << at)
    }

    /// Whom a plain world admits: everybody where nothing counts. `is_strict`: then nobody.
    fn admitted(world: &[(u64, Plain)], is_strict: bool) -> u8 {
        let counting: Vec<u8> = world.iter().filter_map(|(_, plain)| *plain).collect();
        match counting.is_empty() {
            true if is_strict => 0,
            true => 0xff,
            false => counting.iter().fold(0, |all, bits| all | bits),
        }
    }

    /// The states that a step passes through.
    fn states(world: &[(u64, Plain)], step: &Step) -> Vec<Vec<(u64, Plain)>> {
        let without = |id: u64| -> Vec<(u64, Plain)> {
            world.iter().copied().filter(|(of, _)| *of != id).collect()
        };
        let plain = |wished: &Wished| wished.active.then(|| bits(wished.range));
        let with = |mut world: Vec<(u64, Plain)>, wished: &Wished| {
            world.push((9, plain(wished)));
            world
        };
        match step {
            Step::Add(wished) => vec![with(world.to_vec(), wished)],
            Step::Remove(id) => vec![without(id.0)],
            Step::Change(id, wished) => vec![without(id.0), with(without(id.0), wished)],
        }
    }

    fn counts(world: &[(u64, Plain)]) -> bool {
        world.iter().any(|(_, plain)| plain.is_some())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        /// In every world that the list may stand for: who knows where the operator is keeps it in, and who does
        /// not keeps everybody in.
        #[test]
        fn no_step_that_is_permitted_locks_anybody_out(
            list in lists(),
            egress in prop::option::of(some_range()),
            step in steps(),
        ) {
            let known: Option<Addresses> = egress.map(|range| [range].into_iter().collect());
            if !permits(&list, known.as_ref(), &step) {
                return Ok(());
            }
            for world in worlds(&list) {
                let before = admitted(&world, false);
                for state in states(&world, &step) {
                    // A list that was switched on and loses its last entry may admit nobody.
                    let after = admitted(&state, counts(&world));
                    let stays_in = before & !after == 0;
                    let is_in = egress.is_some_and(|egress| bits(egress) & !after == 0);
                    prop_assert!(stays_in || is_in, "{world:?} -> {state:?}");
                }
            }
        }
    }

    #[test]
    fn what_cannot_lock_out_is_never_held() {
        let narrow = || vec![entry(1, Some(range(0, 1)), Some(true))];
        let open = List::default();
        let enforced = List { entries: narrow() };
        let double = List {
            entries: [narrow(), vec![entry(2, Some(range(0, 1)), Some(true))]].concat(),
        };
        let (add, quiet) = (wished(range(4, 5), true), wished(range(4, 5), false));
        let of = |n| WhitelistEntryId(n);
        for (list, step, free, known) in [
            (&open, Step::Add(add.clone()), false, false),
            (&open, Step::Add(quiet.clone()), true, true),
            (&open, Step::Add(wished(range(0, 7), true)), false, true),
            (&enforced, Step::Add(add.clone()), true, true),
            (&enforced, Step::Add(quiet.clone()), true, true),
            (&enforced, Step::Remove(of(1)), false, false),
            (&enforced, Step::Remove(of(7)), false, true),
            (
                &enforced,
                Step::Change(of(1), wished(range(0, 3), true)),
                false,
                false,
            ),
            (&double, Step::Remove(of(1)), true, true),
            (&double, Step::Change(of(1), add.clone()), true, true),
            (&double, Step::Change(of(1), quiet), true, true),
        ] {
            let egress: Addresses = [range(0, 1)].into_iter().collect();
            assert_eq!(permits(list, None, &step), free, "{list:?} {step:?}");
            assert_eq!(
                permits(list, Some(&egress), &step),
                known,
                "{list:?} {step:?}"
            );
        }
    }
}
