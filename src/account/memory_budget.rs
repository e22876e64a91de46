//! Memory budget for what the hosting APIs return, shared by all accounts of the process. A namespace may grow while it
//! takes no more than stays free, so that some is always left for the next one.

use hosting_types::list::{ListGap, list_size};
use std::{
    collections::HashMap,
    fmt::Debug,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Shared budget in bytes. With the floors, 14 MiB of incoming bodies, 16 MiB of a record being decoded and 14 MiB of
/// parsed bodies, it leaves the process 18 MiB of the chart's 128 MiB.
pub(crate) const MOST: usize = 62 << 20;

/// What each namespace may always reserve, in bytes.
const FLOOR: usize = 512 << 10;

/// How much the floors may add to the total, in bytes, however many namespaces exist.
const FLOORS: usize = 4 << 20;

/// The budget of this process. Clones share it.
#[derive(Clone)]
pub(crate) struct MemoryBudget {
    inner: Arc<MemoryBudgetInner>,
}

struct MemoryBudgetInner {
    most: usize,
    floor: usize,
    floors: usize,
    taken: Mutex<Taken>,
}

#[derive(Default)]
struct Taken {
    all: usize,
    by_tenant: HashMap<Arc<str>, usize>,
}

impl Default for MemoryBudget {
    fn default() -> Self {
        Self::with_floors(MOST, FLOOR, FLOORS)
    }
}

impl MemoryBudget {
    #[cfg(test)]
    pub(crate) fn without_floors(most: usize) -> Self {
        Self::with_floors(most, 0, 0)
    }

    fn with_floors(most: usize, floor: usize, floors: usize) -> Self {
        Self {
            inner: Arc::new(MemoryBudgetInner {
                most,
                floor,
                floors,
                taken: Mutex::default(),
            }),
        }
    }

    /// The budget of one namespace's accounts; None: of the cluster-scoped accounts.
    pub(crate) fn namespace_budget(&self, namespace: Option<&str>) -> NamespaceBudget {
        NamespaceBudget {
            budget: self.clone(),
            // No namespace has an empty name.
            tenant: namespace.unwrap_or_default().into(),
        }
    }

    #[cfg(test)]
    pub(crate) fn reserved_bytes(&self) -> usize {
        self.taken().all
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        let taken = self.inner.taken.lock();
        taken.unwrap_or_else(PoisonError::into_inner)
    }
}

/// The budget of one namespace's accounts.
#[derive(Clone)]
pub(crate) struct NamespaceBudget {
    budget: MemoryBudget,
    tenant: Arc<str>,
}

impl NamespaceBudget {
    pub(crate) fn empty_reservation(&self) -> MemoryReservation {
        MemoryReservation {
            part: self.clone(),
            bytes: 0,
        }
    }
}

/// Reserved bytes of the budget. Dropping it frees them.
pub(crate) struct MemoryReservation {
    part: NamespaceBudget,
    bytes: usize,
}

impl MemoryReservation {
    /// Reserves more bytes. False: they do not fit, and nothing changes.
    #[must_use]
    pub(crate) fn grow(&mut self, more: usize) -> bool {
        self.take(more, 1, 1)
    }

    /// Like [`Self::grow`], for a new version of a stored record: the namespace may take three times what stays free.
    #[must_use]
    pub(crate) fn grow_by_change(&mut self, more: usize) -> bool {
        self.take(more, 1, 3)
    }

    /// Like [`Self::grow`], for optional data: three times what the namespace takes must stay free.
    #[must_use]
    pub(crate) fn grow_optional(&mut self, more: usize) -> bool {
        self.take(more, 3, 1)
    }

    /// Reserves more bytes if `own_times` times what the namespace takes is at most `free_times` times what stays free,
    /// or if the namespace stays within its floor.
    fn take(&mut self, more: usize, own_times: usize, free_times: usize) -> bool {
        if more == 0 {
            return true;
        }
        let budget = &self.part.budget;
        let mut taken = budget.taken();
        let own = taken.by_tenant.get(&self.part.tenant);
        let own = own.copied().unwrap_or(0).saturating_add(more);
        let all = taken.all.saturating_add(more);
        let inner = &budget.inner;
        let free = inner.most.saturating_sub(all);
        let is_shared = own.saturating_mul(own_times) <= free.saturating_mul(free_times);
        let is_little = own <= inner.floor && all <= inner.most.saturating_add(inner.floors);
        if !is_shared && !is_little {
            return false;
        }
        taken.all = all;
        taken.by_tenant.insert(self.part.tenant.clone(), own);
        drop(taken);
        self.bytes += more;
        true
    }

    /// Reserves the memory of a list.
    pub(crate) fn reserve(&mut self, list: &[impl Debug]) -> Result<(), ListGap> {
        self.reserve_bytes(list_size(list))
    }

    pub(crate) fn reserve_bytes(&mut self, more: usize) -> Result<(), ListGap> {
        match self.grow(more) {
            true => Ok(()),
            false => Err(ListGap::OverMemoryBudget),
        }
    }

    /// Frees what exceeds so many bytes.
    pub(crate) fn shrink_to(&mut self, bytes: usize) {
        self.shrink(self.bytes.saturating_sub(bytes));
    }

    pub(crate) fn shrink(&mut self, less: usize) {
        let less = less.min(self.bytes);
        self.bytes -= less;
        let mut taken = self.part.budget.taken();
        taken.all -= less;
        if let Some(own) = taken.by_tenant.get_mut(&self.part.tenant) {
            *own -= less;
            if *own == 0 {
                taken.by_tenant.remove(&self.part.tenant);
            }
        }
    }
}

impl Drop for MemoryReservation {
    fn drop(&mut self) {
        self.shrink(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reserves ten bytes at a time until no more fit.
    fn fill(reservation: &mut MemoryReservation) -> usize {
        while reservation.grow(10) {}
        reservation.bytes
    }

    #[test]
    fn namespace_holds_no_more_than_stays_free() {
        let budget = MemoryBudget::without_floors(1000);
        let mut first = budget.namespace_budget(Some("greedy")).empty_reservation();
        assert_eq!(fill(&mut first), 500);
        let mut second = budget.namespace_budget(Some("greedy")).empty_reservation();
        assert_eq!(fill(&mut second), 0);
        let mut other = budget.namespace_budget(Some("other")).empty_reservation();
        assert_eq!(fill(&mut other), 250);
        let mut cluster = budget.namespace_budget(None).empty_reservation();
        assert_eq!(fill(&mut cluster), 120);
        drop(first);
        assert!(fill(&mut second) > 250);
        drop((second, other, cluster));
        assert_eq!(budget.taken().all, 0);
        assert!(budget.taken().by_tenant.is_empty());
    }

    #[test]
    fn released_memory_can_be_reserved_again() {
        let budget = MemoryBudget::without_floors(1000);
        let mut reservation = budget.namespace_budget(None).empty_reservation();
        assert!(reservation.grow(500) && !reservation.grow(1));
        reservation.shrink(100);
        assert!(reservation.grow(100));
        assert!(!reservation.grow(usize::MAX));
    }

    #[test]
    fn namespace_floors_end_at_a_total_limit() {
        let budget = MemoryBudget::with_floors(1000, 50, 100);
        let mut greedy: Vec<_> = (0..6)
            .map(|number| {
                budget
                    .namespace_budget(Some(&format!("greedy-{number}")))
                    .empty_reservation()
            })
            .collect();
        greedy.iter_mut().for_each(|reservation| {
            fill(reservation);
        });
        assert!(
            budget.reserved_bytes() >= 1000,
            "{}",
            budget.reserved_bytes()
        );
        let mut small = budget.namespace_budget(Some("small")).empty_reservation();
        assert_eq!(fill(&mut small), 50);
        // Two accounts of one namespace share its floor.
        assert_eq!(
            fill(&mut budget.namespace_budget(Some("small")).empty_reservation()),
            0
        );
        assert!(!greedy[0].grow(1));
        let mut others: Vec<_> = (0..20)
            .map(|number| {
                budget
                    .namespace_budget(Some(&format!("other-{number}")))
                    .empty_reservation()
            })
            .collect();
        others.iter_mut().for_each(|reservation| {
            fill(reservation);
        });
        assert_eq!(budget.reserved_bytes(), 1100);
    }

    #[test]
    fn greedy_namespace_blocks_no_record_change() {
        let budget = MemoryBudget::without_floors(100_000);
        let mut reservation = budget.namespace_budget(Some("honest")).empty_reservation();
        assert!(reservation.grow(40_000));
        let mut greedy = budget.namespace_budget(Some("greedy")).empty_reservation();
        fill(&mut greedy);
        assert!(!reservation.grow(1) && reservation.grow(0));
        assert!(reservation.grow_by_change(10_000));
        while greedy.grow_by_change(10) {}
        let mut third = budget.namespace_budget(Some("third")).empty_reservation();
        assert!(fill(&mut third) > 1000, "there is some left for others");
    }

    #[test]
    fn optional_data_yields_to_required_data() {
        let mut reservation = MemoryBudget::without_floors(1000)
            .namespace_budget(None)
            .empty_reservation();
        while reservation.grow_optional(10) {}
        assert_eq!(reservation.bytes, 250);
        assert_eq!(fill(&mut reservation), 500);
    }
}
