//! Decides whether a step may be sent: steps that could lock the operator out are blocked.

use super::{desired_entries::DesiredEntry, list::ProviderWhitelist, ranges::Addresses};
use hosting_types::WhitelistEntryId;

/// One change of the list.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum WhitelistStep {
    /// Add an entry.
    Add(DesiredEntry),
    /// Replace an entry.
    Change(WhitelistEntryId, DesiredEntry),
    /// Remove an entry.
    Remove(WhitelistEntryId),
}

/// Whether a step on this list may be sent. Undocumented behaviour is assumed to be the worse: the first active entry
/// enables the list, a list that loses its last one may admit nobody, and a change may be a removal and an addition.
pub fn permits(list: &ProviderWhitelist, egress: Option<&Addresses>, step: &WhitelistStep) -> bool {
    is_harmless(list, step) || egress.is_some_and(|egress| is_safe(list, egress, step))
}

/// Whether every address that is admitted before the step is admitted after it.
fn is_harmless(list: &ProviderWhitelist, step: &WhitelistStep) -> bool {
    match step {
        WhitelistStep::Add(desired) => !desired.active || list.is_enforced(),
        WhitelistStep::Remove(id) => is_spare(list, *id),
        WhitelistStep::Change(id, desired) => {
            let is_enforced = !list.admitted_without(*id).is_empty();
            is_spare(list, *id) && (!desired.active || is_enforced)
        }
    }
}

/// Whether other entries admit the entry's addresses for certain.
fn is_spare(list: &ProviderWhitelist, id: WhitelistEntryId) -> bool {
    let Some(entry) = list.get(id) else {
        return false;
    };
    match (entry.active, entry.range) {
        (Some(false), _) => true,
        // The same for an entry of another object, and for an unknown active state.
        (_, Some(range)) => list.admitted_without(id).covers(&range),
        (_, None) => false,
    }
}

/// Whether the operator's addresses are admitted in every state of the step, or no entry is active before and after it.
fn is_safe(list: &ProviderWhitelist, egress: &Addresses, step: &WhitelistStep) -> bool {
    let admits = |admitted: &Addresses| admitted.covers_all(egress);
    let with = |admitted: Addresses, desired: &DesiredEntry| -> Addresses {
        let new = Some(desired.range).filter(|_| desired.active);
        admitted.ranges().iter().copied().chain(new).collect()
    };
    match step {
        WhitelistStep::Add(desired) => {
            let stays_open = list.is_open() && !desired.active;
            stays_open || admits(&with(list.admitted(), desired))
        }
        WhitelistStep::Remove(id) => list.is_open() || admits(&list.admitted_without(*id)),
        WhitelistStep::Change(id, desired) => {
            let between = list.admitted_without(*id);
            let is_between_safe = list.is_open() || admits(&between);
            let stays_open = list.is_open() && !desired.active;
            is_between_safe && (stays_open || admits(&with(between, desired)))
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

    /// A range of the test addresses, eight of one family.
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
        let desired = || {
            (some_range(), any::<bool>()).prop_map(|(range, active)| desired_entry(range, active))
        };
        let id = || (1..4_u64).prop_map(WhitelistEntryId);
        prop_oneof![
            desired().prop_map(WhitelistStep::Add),
            (id(), desired()).prop_map(|(id, entry)| WhitelistStep::Change(id, entry)),
            id().prop_map(WhitelistStep::Remove),
        ]
    }

    /// A fully known entry: the addresses that it admits, or None if inactive.
    type AdmittedBits = Option<u8>;

    /// All fully known lists that a partly unknown list may represent.
    fn worlds(list: &ProviderWhitelist) -> Vec<Vec<(u64, AdmittedBits)>> {
        let mut worlds = vec![Vec::new()];
        for entry in &list.entries {
            let ranges: Vec<u8> = match entry.range {
                Some(range) => vec![bits(range)],
                // Examples of what an unreadable entry may admit.
                None => vec![0, 0b1111_0000, 0xff],
            };
            let active: Vec<bool> = entry
                .active
                .map_or(vec![false, true], |active| vec![active]);
            // Another object may remove its entry at any time.
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

    /// The addresses that a list admits. Without active entries: all of them, or none if `is_strict`.
    fn admitted(world: &[(u64, AdmittedBits)], is_strict: bool) -> u8 {
        let counting: Vec<u8> = world.iter().filter_map(|(_, plain)| *plain).collect();
        match counting.is_empty() {
            true if is_strict => 0,
            true => 0xff,
            false => counting.iter().fold(0, |all, bits| all | bits),
        }
    }

    /// The states during and after a step.
    fn states(
        world: &[(u64, AdmittedBits)],
        step: &WhitelistStep,
    ) -> Vec<Vec<(u64, AdmittedBits)>> {
        let without = |id: u64| -> Vec<(u64, AdmittedBits)> {
            world.iter().copied().filter(|(of, _)| *of != id).collect()
        };
        let plain = |desired: &DesiredEntry| desired.active.then(|| bits(desired.range));
        let with = |mut world: Vec<(u64, AdmittedBits)>, desired: &DesiredEntry| {
            world.push((9, plain(desired)));
            world
        };
        match step {
            WhitelistStep::Add(desired) => vec![with(world.to_vec(), desired)],
            WhitelistStep::Remove(id) => vec![without(id.0)],
            WhitelistStep::Change(id, desired) => vec![without(id.0), with(without(id.0), desired)],
        }
    }

    fn counts(world: &[(u64, AdmittedBits)]) -> bool {
        world.iter().any(|(_, plain)| plain.is_some())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        /// For every real list that the observed one may represent, a permitted step keeps either the operator admitted
        /// or all admitted addresses.
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
                    // An enabled list that loses its last active entry may admit nobody.
                    let after = admitted(&state, counts(&world));
                    let stays_in = before & !after == 0;
                    let is_in = egress.is_some_and(|egress| bits(egress) & !after == 0);
                    prop_assert!(stays_in || is_in, "{world:?} -> {state:?}");
                }
            }
        }
    }

    #[test]
    fn safe_change_is_never_blocked() {
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
