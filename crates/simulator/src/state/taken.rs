//! How many machines of each kind hold hardware now.

use std::collections::BTreeMap;

use super::super::catalogue::Offer;
use super::machine::Machine;
use super::quota::Pool;

/// Machines that hold hardware, by offer and by the pool they came from. No
/// entry is zero.
///
/// Updated with each change of a machine, because an order must not read all
/// machines; [`Taken::count`] computes the same numbers.
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

    /// A machine was added, or its state has changed; `held` is whether it held
    /// hardware before.
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

    /// Those of an offer that came from one pool.
    pub(crate) fn from(&self, offer: Offer, pool: &Pool) -> usize {
        let pools = self.0.get(&offer);
        let number = pools.and_then(|pools| pools.get(pool));
        number.copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use uuid::Uuid;

    use super::super::super::clock::Moment;
    use super::super::machine::{Birth, Cause, Step};
    use super::super::status::Status;
    use super::*;

    #[test]
    fn what_is_kept_is_what_would_be_counted() {
        let offer = Offer {
            location: 6,
            instance_type: 1,
        };
        let at = Moment::from_unix(0);
        let birth = |contract: Option<&str>| Birth {
            number: 1,
            uuid: Uuid::nil(),
            name: "n".to_owned(),
            offer,
            slug: "debian-13".to_owned(),
            contract: contract.map(str::to_owned),
            tags: Vec::new(),
            at,
            addresses: Vec::new(),
            ordered: true,
        };
        let contracts = [None, Some("C"), Some("C")];
        let mut machines = contracts.map(|contract| Machine::new(birth(contract), VecDeque::new()));
        let mut taken = Taken::default();
        for machine in &machines {
            taken.moved(machine, false);
        }
        let pool = Some("C".to_owned());
        assert_eq!((taken.from(offer, &None), taken.from(offer, &pool)), (1, 2));
        // Even back from failed: the control port can do that.
        let way = [Status::Failed, Status::Delivered, Status::Released];
        for (status, left) in way.into_iter().zip([1, 2, 1]) {
            let machine = &mut machines[1];
            let held = machine.status().holds_hardware();
            machine.enter(Step::new(at, status, Cause::Control), 0);
            taken.moved(machine, held);
            assert_eq!(taken.from(offer, &pool), left, "{status:?}");
            assert_eq!(taken, Taken::count(&machines), "{status:?}");
        }
        for machine in &mut machines {
            let held = machine.status().holds_hardware();
            machine.enter(Step::new(at, Status::Released, Cause::Control), 0);
            taken.moved(machine, held);
        }
        assert_eq!(taken, Taken::default());
    }
}
