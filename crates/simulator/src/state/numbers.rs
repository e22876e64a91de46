//! Numbers and addresses that are unique across accounts.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::super::profile::{Addresses, Switches};

/// Id of the first dedicated host.
const DEDICATED: u64 = 1_001;
/// Added to the order's number to make the id of an on-demand host.
const ON_DEMAND: u64 = 100_000;
/// First address of the network kept for benchmarks, and how many it has.
const V4: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
const V4_HOSTS: u64 = 131_070;

/// Counters over all accounts, shared by each. They are changed while the world is
/// locked, so that the same requests give the same numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Numbers(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    /// Dedicated hosts so far.
    hosts: AtomicU64,
    /// Machines so far, ordered or not.
    machines: AtomicU64,
}

impl Numbers {
    /// The id of one more dedicated host.
    pub(super) fn host(&self) -> u64 {
        DEDICATED + self.0.hosts.fetch_add(1, Ordering::Relaxed)
    }

    /// Records that a dedicated host exists.
    pub(super) fn knows_host(&self, id: u64) {
        let hosts = (id + 1).saturating_sub(DEDICATED);
        self.0.hosts.fetch_max(hosts, Ordering::Relaxed);
    }

    /// The number of one more machine, from 1: its `fmOrderId`.
    pub(super) fn machine(&self) -> u64 {
        self.0.machines.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Records that a machine exists.
    pub(super) fn knows_machine(&self, number: u64) {
        self.0.machines.fetch_max(number, Ordering::Relaxed);
    }
}

/// The id among the hosts of the machine of this number.
pub(super) fn host_id(machine: u64) -> u64 {
    ON_DEMAND + machine
}

/// The number of the machine that has this id among the hosts.
pub(super) fn of_host(id: u64) -> Option<u64> {
    id.checked_sub(ON_DEMAND)
}

/// Addresses of the machine of this number, from the ranges kept for
/// benchmarks and documentation, so that nobody reaches a real machine by mistake.
pub(super) fn addresses(machine: u64, switches: &Switches) -> Vec<String> {
    const V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
    let index = machine.saturating_sub(1);
    let v4 = benchmark(index % V4_HOSTS);
    let v6 = Ipv6Addr::from_bits(V6.to_bits() + u128::from(index)).to_string();
    match switches.addresses {
        Addresses::Two => vec![v4, v6],
        Addresses::One => vec![v4],
        Addresses::None => Vec::new(),
    }
}

/// The address of a dedicated host: from a documentation network until that is used
/// up, then from the far end of the machines' network.
pub(super) fn host_address(id: u64) -> String {
    const NEAR: u64 = 250;
    match id.saturating_sub(DEDICATED) {
        index @ ..NEAR => format!("198.51.100.{}", index + 1),
        index => benchmark(V4_HOSTS - 1 - (index - NEAR) % V4_HOSTS),
    }
}

fn benchmark(offset: u64) -> String {
    let offset = u32::try_from(offset).unwrap_or_default();
    Ipv4Addr::from_bits(V4.to_bits() + offset).to_string()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::super::options::Profile;
    use super::*;

    #[test]
    fn no_number_and_no_address_comes_twice() {
        let (one, switches) = (Numbers::default(), Switches::of(Profile::Document));
        let other = one.clone();
        let mut seen = BTreeSet::new();
        for _ in 0..5_000 {
            for numbers in [&one, &other] {
                let (host, machine) = (numbers.host(), numbers.machine());
                assert!(seen.insert(host.to_string()) && seen.insert(host_address(host)));
                assert!(seen.insert(host_id(machine).to_string()));
                assert_eq!(of_host(host_id(machine)), Some(machine));
                let both = addresses(machine, &switches);
                assert!(both.into_iter().all(|address| seen.insert(address)));
            }
        }
        other.knows_host(20_000);
        other.knows_machine(30_000);
        one.knows_host(1_001);
        assert_eq!((one.host(), one.machine()), (20_001, 30_001));
    }
}
