//! Whether a step may be sent: nothing that could lock the operator out is. Pure.
//!
//! A step is safe when the operator's addresses are admitted for certain in every state that it passes through, or
//! when no entry counts before and after it. One that nobody can be locked out by is harmless, whatever the
//! operator's addresses are. Everything else is held.
//!
//! Not documented, and so assumed the worse way: the first entry that counts switches the list on; a list whose
//! last one is gone may admit nobody; and a change may be carried out as a removal and an addition.

use super::{desired_entries::DesiredEntry, list::ProviderWhitelist, ranges::Addresses};
use hosting_types::WhitelistEntryId;

/// One change of the list.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum WhitelistStep {
    /// An entry is added.
    Add(DesiredEntry),
    /// An entry is replaced.
    Change(WhitelistEntryId, DesiredEntry),
    /// An entry is removed.
    Remove(WhitelistEntryId),
}

/// Whether a step on this list may be sent.
pub fn permits(list: &ProviderWhitelist, egress: Option<&Addresses>, step: &WhitelistStep) -> bool {
    is_harmless(list, step) || egress.is_some_and(|egress| is_safe(list, egress, step))
}

/// Whether nobody who is admitted before the step is refused after it.
fn is_harmless(list: &ProviderWhitelist, step: &WhitelistStep) -> bool {
    match step {
        WhitelistStep::Add(wished) => !wished.active || list.is_enforced(),
        WhitelistStep::Remove(id) => is_spare(list, *id),
        WhitelistStep::Change(id, wished) => {
            let is_enforced = !list.admitted_without(*id).is_empty();
            is_spare(list, *id) && (!wished.active || is_enforced)
        }
    }
}

/// Whether an entry admits nobody whom others do not admit for certain.
fn is_spare(list: &ProviderWhitelist, id: WhitelistEntryId) -> bool {
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
fn is_safe(list: &ProviderWhitelist, egress: &Addresses, step: &WhitelistStep) -> bool {
    let admits = |admitted: &Addresses| admitted.covers_all(egress);
    let with = |admitted: Addresses, wished: &DesiredEntry| -> Addresses {
        let new = Some(wished.range).filter(|_| wished.active);
        admitted.ranges().iter().copied().chain(new).collect()
    };
    match step {
        WhitelistStep::Add(wished) => {
            let stays_open = list.is_open() && !wished.active;
            stays_open || admits(&with(list.admitted(), wished))
        }
        WhitelistStep::Remove(id) => list.is_open() || admits(&list.admitted_without(*id)),
        WhitelistStep::Change(id, wished) => {
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
        super::{desired_entries::AddressForm, list::ListedEntry, ranges::Range},
        *,
    };
    use proptest::prelude::*;

    /// Addresses of the small world: eight of one family.
    fn range(first: u8, last: u8) -> Range {
        let at = |n: u8| core::net::IpAddr::V4(u32::from(n).into());
        Range::between(at(first), at(last)).unwrap()
    }

    fn entry(id: u64, range: Option<Range>, active: Option<bool>) -> ListedEntry {
        ListedEntry {
            id: WhitelistEntryId(id),
            range,
            active,
            comments: String::new(),
            name: None,
            is_of_other: false,
        }
    }

    fn desired_entry(range: Range, active: bool) -> DesiredEntry {
        DesiredEntry {
            name: "w".into(),
            form: AddressForm::Span,
            range,
            active,
            comments: String::new(),
        }
    }

    fn some_range() -> impl Strategy<Value = Range> {
        (0..8_u8, 0..8_u8).prop_map(|(a, b)| range(a.min(b), a.max(b)))
    }

    fn lists() -> impl Strategy<Value = ProviderWhitelist> {
        let one = (
            prop::option::weighted(0.9, some_range()),
            prop::option::weighted(0.9, any::<bool>()),
            prop::bool::weighted(0.2),
        );
        prop::collection::vec(one, 0..4).prop_map(|all| ProviderWhitelist {
            entries: (1..)
                .zip(all)
                .map(|(id, (range, active, is_of_other))| ListedEntry {
                    is_of_other,
                    ..entry(id, range, active)
                })
                .collect(),
        })
    }

    fn steps() -> impl Strategy<Value = WhitelistStep> {
        let wish = || {
            (some_range(), any::<bool>()).prop_map(|(range, active)| desired_entry(range, active))
        };
        let id = || (1..4_u64).prop_map(WhitelistEntryId);
        prop_oneof![
            wish().prop_map(WhitelistStep::Add),
            (id(), wish()).prop_map(|(id, wish)| WhitelistStep::Change(id, wish)),
            id().prop_map(WhitelistStep::Remove),
        ]
    }

    /// An entry of a plain world in which all is known: the addresses that it admits, where it counts.
    type AdmittedBits = Option<u8>;

    /// Every plain world that a list may stand for.
    fn worlds(list: &ProviderWhitelist) -> Vec<Vec<(u64, AdmittedBits)>> {
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
                        let mut world: Vec<(u64, AdmittedBits)> = world.clone();
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
    fn admitted(world: &[(u64, AdmittedBits)], is_strict: bool) -> u8 {
        let counting: Vec<u8> = world.iter().filter_map(|(_, plain)| *plain).collect();
        match counting.is_empty() {
            true if is_strict => 0,
            true => 0xff,
            false => counting.iter().fold(0, |all, bits| all | bits),
        }
    }

    /// The states that a step passes through.
    fn states(
        world: &[(u64, AdmittedBits)],
        step: &WhitelistStep,
    ) -> Vec<Vec<(u64, AdmittedBits)>> {
        let without = |id: u64| -> Vec<(u64, AdmittedBits)> {
            world.iter().copied().filter(|(of, _)| *of != id).collect()
        };
        let plain = |wished: &DesiredEntry| wished.active.then(|| bits(wished.range));
        let with = |mut world: Vec<(u64, AdmittedBits)>, wished: &DesiredEntry| {
            world.push((9, plain(wished)));
            world
        };
        match step {
            WhitelistStep::Add(wished) => vec![with(world.to_vec(), wished)],
            WhitelistStep::Remove(id) => vec![without(id.0)],
            WhitelistStep::Change(id, wished) => vec![without(id.0), with(without(id.0), wished)],
        }
    }

    fn counts(world: &[(u64, AdmittedBits)]) -> bool {
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
        let open = ProviderWhitelist::default();
        let enforced = ProviderWhitelist { entries: narrow() };
        let double = ProviderWhitelist {
            entries: [narrow(), vec![entry(2, Some(range(0, 1)), Some(true))]].concat(),
        };
        let (add, quiet) = (
            desired_entry(range(4, 5), true),
            desired_entry(range(4, 5), false),
        );
        let of = |n| WhitelistEntryId(n);
        for (list, step, free, known) in [
            (&open, WhitelistStep::Add(add.clone()), false, false),
            (&open, WhitelistStep::Add(quiet.clone()), true, true),
            (
                &open,
                WhitelistStep::Add(desired_entry(range(0, 7), true)),
                false,
                true,
            ),
            (&enforced, WhitelistStep::Add(add.clone()), true, true),
            (&enforced, WhitelistStep::Add(quiet.clone()), true, true),
            (&enforced, WhitelistStep::Remove(of(1)), false, false),
            (&enforced, WhitelistStep::Remove(of(7)), false, true),
            (
                &enforced,
                WhitelistStep::Change(of(1), desired_entry(range(0, 3), true)),
                false,
                false,
            ),
            (&double, WhitelistStep::Remove(of(1)), true, true),
            (
                &double,
                WhitelistStep::Change(of(1), add.clone()),
                true,
                true,
            ),
            (&double, WhitelistStep::Change(of(1), quiet), true, true),
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
