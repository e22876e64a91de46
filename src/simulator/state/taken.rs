//! How many machines of each kind stand on hardware now.

use std::collections::BTreeMap;

use super::super::catalogue::Offer;
use super::machine::Machine;
use super::quota::Pool;

/// Machines that hold hardware, by offer and by the pool they came from. No
/// entry is zero.
///
/// Kept with each change of a machine, because an order must not read all
/// machines; [`Taken::count`] says what it has to be.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Taken(BTreeMap<Offer, BTreeMap<Pool, usize>>);

impl Taken {
    /// Counted from the machines themselves.
    pub(super) fn count(machines: &[Machine]) -> Self {
        let mut taken = Self::default();
        for machine in machines {
            taken.moved(machine, false);
        }
        taken
    }

    /// A machine is there, or has come into another state; `held` is whether
    /// it stood on hardware before.
    pub(super) fn moved(&mut self, machine: &Machine, held: bool) {
        let holds = machine.status().holds_hardware();
        if holds == held {
            return;
        }
        let pools = self.0.entry(machine.offer).or_default();
        let number = pools.entry(machine.contract.clone()).or_default();
        if holds {
            *number += 1;
            return;
        }
        *number = number.saturating_sub(1);
        if *number == 0 {
            pools.remove(&machine.contract);
        }
        if pools.is_empty() {
            self.0.remove(&machine.offer);
        }
    }

    /// All of an offer.
    pub(crate) fn of(&self, offer: Offer) -> usize {
        let pools = self.0.get(&offer).into_iter().flatten();
        pools.map(|(_, number)| number).sum()
    }

    /// Those of one pool.
    pub(super) fn from(&self, offer: Offer, pool: &Pool) -> usize {
        let pools = self.0.get(&offer);
        let number = pools.and_then(|pools| pools.get(pool));
        number.copied().unwrap_or_default()
    }
}
