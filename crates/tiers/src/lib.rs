//! Which part of the tests a run takes, by the environment variable `TEST_SLICE`: unset takes the representative part,
//! `0` to `9` also one tenth of the rest, `all` everything (`docs/contributing/tests.md`).

// clippy.toml allows these in test functions; all of this crate is for tests.
#![allow(
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "a test fails by panicking"
)]

use std::cmp::Reverse;
use std::io::Write;

/// Number of slices that together are everything.
pub const SLICES: usize = 10;
const VARIABLE: &str = "TEST_SLICE";

/// The part of the tests that a run takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tier {
    /// What every run takes, and nothing else.
    Representative,
    /// What every run takes, and one slice of everything else.
    Slice(usize),
    /// Everything.
    All,
}

impl Tier {
    /// The tier of this run. Panics if `TEST_SLICE` has an unknown value.
    pub fn of_this_run() -> Self {
        let value = std::env::var(VARIABLE).unwrap_or_default();
        let slices = SLICES - 1;
        Self::parse(&value).unwrap_or_else(|| {
            panic!("{VARIABLE} is {value:?}: set 0 to {slices}, all, or nothing")
        })
    }

    fn parse(value: &str) -> Option<Self> {
        match value {
            "" => Some(Self::Representative),
            "all" => Some(Self::All),
            number => {
                let slice = number.parse().ok().filter(|slice| *slice < SLICES)?;
                Some(Self::Slice(slice))
            }
        }
    }

    /// Whether this tier takes a unit of this slice; `None`: a unit of every run.
    fn takes(self, slice: Option<usize>) -> bool {
        match (self, slice) {
            (_, None) | (Self::All, _) => true,
            (Self::Slice(own), Some(slice)) => own == slice,
            (Self::Representative, Some(_)) => false,
        }
    }
}

/// The units of a fixed list that this run takes; panics if there are none. `seconds`: how long a unit takes, so that
/// slices take equally long; `None`: a unit of every run.
pub fn select<T>(list: &str, units: Vec<T>, seconds: impl Fn(&T) -> Option<u32>) -> Vec<T> {
    let seconds: Vec<_> = units.iter().map(seconds).collect();
    let slices = slices_by_seconds(list, &seconds);
    take(list, Tier::of_this_run(), units, &slices)
}

/// The units of a computed list that this run takes; panics if there are none. The name alone gives the slice, so no
/// unit moves when the list changes. `name`: `None` for a unit of every run.
pub fn select_by_name<T>(list: &str, units: Vec<T>, name: impl Fn(&T) -> Option<String>) -> Vec<T> {
    let names = units.iter().map(name);
    let slices: Vec<_> = names.map(|name| name.map(|it| slice_of(&it))).collect();
    take(list, Tier::of_this_run(), units, &slices)
}

/// Bypasses the capture of test output: every run's log shows what was tested.
fn print_line(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

fn take<T>(list: &str, tier: Tier, units: Vec<T>, slices: &[Option<usize>]) -> Vec<T> {
    let all = units.len();
    let with_slices = units.into_iter().zip(slices);
    let taken = with_slices.filter(|(_, slice)| tier.takes(**slice));
    let taken: Vec<T> = taken.map(|(unit, _)| unit).collect();
    let count = taken.len();
    print_line(&format!("{list}: {count} of {all} ({tier:?})"));
    assert!(
        count > 0,
        "{list}: {tier:?} takes none of {all}: set {VARIABLE}"
    );
    taken
}

/// Puts the longest unit first into the slice with the fewest seconds. The first slice differs by list, since otherwise
/// the longest units of all lists would share one.
fn slices_by_seconds(list: &str, seconds: &[Option<u32>]) -> Vec<Option<usize>> {
    let mut units: Vec<_> = seconds.iter().enumerate().collect();
    units.retain(|(_, seconds)| seconds.is_some());
    units.sort_by_key(|(_, seconds)| Reverse(**seconds));
    let mut loads = [0; SLICES];
    let mut slices = vec![None; seconds.len()];
    let first = slice_of(list);
    for (index, seconds) in units {
        let order = (0..SLICES).map(|slice| (first + slice) % SLICES);
        let least = order.min_by_key(|slice| loads[*slice]).unwrap_or(first);
        loads[least] += seconds.unwrap_or_default().max(1);
        slices[index] = Some(least);
    }
    slices
}

/// FNV-1a, mixed once more, since similar names would give similar hashes. The same with every compiler.
fn slice_of(name: &str) -> usize {
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mixed = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    usize::try_from((mixed >> 32) % SLICES as u64).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lists of many lengths with various seconds; every fifth unit is in every run.
    fn lists() -> impl Iterator<Item = Vec<Option<u32>>> {
        (0..100_u32).map(|length| {
            let units = 0..length;
            let seconds = units.map(|n| (n % 5 != 3).then(|| (n * 7919 + length) % 97));
            seconds.collect()
        })
    }

    fn taken(tier: Tier, slices: &[Option<usize>]) -> Vec<usize> {
        let all = slices.iter().enumerate();
        let taken = all.filter(|(_, slice)| tier.takes(**slice));
        taken.map(|(index, _)| index).collect()
    }

    #[test]
    fn every_unit_runs_always_or_in_one_slice() {
        for seconds in lists() {
            let by_seconds = slices_by_seconds("list", &seconds);
            let name = |n: usize| seconds[n].map(|seconds| slice_of(&format!("{n} {seconds}")));
            let by_name: Vec<_> = (0..seconds.len()).map(name).collect();
            for slices in [by_seconds, by_name] {
                let always = taken(Tier::Representative, &slices);
                let mut seen = vec![0; slices.len()];
                for slice in 0..SLICES {
                    let taken = taken(Tier::Slice(slice), &slices);
                    assert!(always.iter().all(|unit| taken.contains(unit)));
                    taken.iter().for_each(|unit| seen[*unit] += 1);
                }
                for (unit, seen) in seen.into_iter().enumerate() {
                    let expected = if always.contains(&unit) { SLICES } else { 1 };
                    assert_eq!(seen, expected);
                    assert_eq!(always.contains(&unit), seconds[unit].is_none());
                }
                assert_eq!(taken(Tier::All, &slices).len(), slices.len());
            }
        }
    }

    #[test]
    fn no_slice_takes_much_longer_than_another() {
        for seconds in lists() {
            let slices = slices_by_seconds("list", &seconds);
            let load = |slice| {
                let units = slices.iter().zip(&seconds);
                let own = units.filter(|(it, _)| **it == Some(slice));
                own.map(|(_, seconds)| seconds.unwrap().max(1)).sum::<u32>()
            };
            let loads: Vec<u32> = (0..SLICES).map(load).collect();
            let longest = seconds.iter().flatten().max().copied().unwrap_or(0).max(1);
            let difference = loads.iter().max().unwrap() - loads.iter().min().unwrap();
            assert!(difference <= longest, "{loads:?}, the longest {longest}");
        }
    }

    #[test]
    fn names_are_spread_over_all_slices() {
        let mut counts = [0; SLICES];
        for n in 0..1000 {
            counts[slice_of(&format!("Order: KillBefore at hosting POST servers #{n}"))] += 1;
        }
        assert!(
            counts.iter().all(|count| (60..140).contains(count)),
            "{counts:?}"
        );
    }

    #[test]
    fn what_is_no_tier_is_refused() {
        assert_eq!(Tier::parse(""), Some(Tier::Representative));
        assert_eq!(Tier::parse("0"), Some(Tier::Slice(0)));
        assert_eq!(Tier::parse("9"), Some(Tier::Slice(9)));
        assert_eq!(Tier::parse("all"), Some(Tier::All));
        for value in ["10", "-1", "every", "ALL", " 3"] {
            assert_eq!(Tier::parse(value), None, "{value}");
        }
    }

    #[test]
    #[should_panic(expected = "takes none of 2")]
    fn a_selection_of_nothing_fails() {
        take(
            "list",
            Tier::Representative,
            vec!['a', 'b'],
            &[Some(0), Some(7)],
        );
    }
}
