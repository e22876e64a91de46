//! How much memory everything takes that hosting APIs have shown, over all accounts of the process.
//!
//! An API that shows more than fits costs its own account a look that fails, and nobody else anything. Whoever
//! takes more leaves room for others: the accounts of one namespace may grow as long as they hold no more than stays
//! free. So the first namespace gets half of all at most, a second one half of what that left, and two that grow
//! together a third each: there is always some left for the next. What is held stays, and a little each namespace
//! gets whatever others hold, so that small accounts always work.

use hosting_types::list::{Gap, list_size};
use std::{
    collections::HashMap,
    fmt::Debug,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// All that is shared, in bytes. With the floors, 14 MiB of bodies that come in, 16 of a record that is decoded and 14 of what
/// is read of a body, it leaves the process its own 18 of the 128 MiB of the chart.
pub(crate) const MOST: usize = 62 << 20;

/// What each namespace may hold whatever others hold, in bytes.
const FLOOR: usize = 512 << 10;

/// How much the floors may add to all, in bytes: memory has an end, whoever makes namespaces.
const FLOORS: usize = 4 << 20;

/// The room of this process. A clone is the same.
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
    /// A room of so many bytes, where all of it is shared.
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

    /// The part of the accounts of one namespace; None: those of the cluster.
    pub(crate) fn namespace_budget(&self, namespace: Option<&str>) -> NamespaceBudget {
        NamespaceBudget {
            budget: self.clone(),
            // No namespace has this name.
            tenant: namespace.unwrap_or_default().into(),
        }
    }

    /// How much is held.
    #[cfg(test)]
    pub(crate) fn reserved_bytes(&self) -> usize {
        self.taken().all
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        let taken = self.inner.taken.lock();
        taken.unwrap_or_else(PoisonError::into_inner)
    }
}

/// The room of the accounts of one namespace.
#[derive(Clone)]
pub(crate) struct NamespaceBudget {
    budget: MemoryBudget,
    tenant: Arc<str>,
}

impl NamespaceBudget {
    /// Nothing yet, to grow.
    pub(crate) fn empty_reservation(&self) -> MemoryReservation {
        MemoryReservation {
            part: self.clone(),
            bytes: 0,
        }
    }
}

/// So much of the room. Dropped, it is free again.
pub(crate) struct MemoryReservation {
    part: NamespaceBudget,
    bytes: usize,
}

impl MemoryReservation {
    /// Takes so many bytes more. False: they do not fit, and nothing was taken.
    #[must_use]
    pub(crate) fn grow(&mut self, more: usize) -> bool {
        self.take(more, 1, 1)
    }

    /// The same for another form of what is held already: others that hold as much do not keep it out.
    #[must_use]
    pub(crate) fn grow_by_change(&mut self, more: usize) -> bool {
        self.take(more, 1, 3)
    }

    /// The same for what is good to have and no more: it leaves room for what is needed.
    #[must_use]
    pub(crate) fn grow_optional(&mut self, more: usize) -> bool {
        self.take(more, 3, 1)
    }

    /// Takes so many bytes more, where so many times what the namespace holds is no more than so many times what this leaves
    /// free, or the namespace holds little.
    fn take(&mut self, more: usize, own_times: usize, free_times: usize) -> bool {
        if more == 0 {
            return true;
        }
        let room = &self.part.budget;
        let mut taken = room.taken();
        let own = taken.by_tenant.get(&self.part.tenant);
        let own = own.copied().unwrap_or(0).saturating_add(more);
        let all = taken.all.saturating_add(more);
        let inner = &room.inner;
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

    /// Takes as many bytes more as a list needs.
    pub(crate) fn reserve(&mut self, list: &[impl Debug]) -> Result<(), Gap> {
        self.reserve_bytes(list_size(list))
    }

    /// Takes so many bytes more.
    pub(crate) fn reserve_bytes(&mut self, more: usize) -> Result<(), Gap> {
        match self.grow(more) {
            true => Ok(()),
            false => Err(Gap::OverMemoryBudget),
        }
    }

    /// Gives back what is more than so many bytes.
    pub(crate) fn shrink_to(&mut self, bytes: usize) {
        self.shrink(self.bytes.saturating_sub(bytes));
    }

    /// Gives so many bytes back.
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

    /// Takes steps of ten bytes until no more fit.
    fn fill(held: &mut MemoryReservation) -> usize {
        while held.grow(10) {}
        held.bytes
    }

    #[test]
    fn namespace_holds_no_more_than_stays_free() {
        let room = MemoryBudget::without_floors(1000);
        let mut first = room.namespace_budget(Some("greedy")).empty_reservation();
        assert_eq!(fill(&mut first), 500);
        let mut second = room.namespace_budget(Some("greedy")).empty_reservation();
        assert_eq!(fill(&mut second), 0);
        let mut other = room.namespace_budget(Some("other")).empty_reservation();
        assert_eq!(fill(&mut other), 250);
        let mut cluster = room.namespace_budget(None).empty_reservation();
        assert_eq!(fill(&mut cluster), 120);
        drop(first);
        assert!(fill(&mut second) > 250);
        drop((second, other, cluster));
        assert_eq!(room.taken().all, 0);
        assert!(room.taken().by_tenant.is_empty());
    }

    #[test]
    fn what_is_given_back_can_be_taken_again() {
        let room = MemoryBudget::without_floors(1000);
        let mut held = room.namespace_budget(None).empty_reservation();
        assert!(held.grow(500) && !held.grow(1));
        held.shrink(100);
        assert!(held.grow(100));
        assert!(!held.grow(usize::MAX));
    }

    #[test]
    fn namespace_floors_end_at_a_total_limit() {
        let room = MemoryBudget::with_floors(1000, 50, 100);
        let mut greedy: Vec<_> = (0..6)
            .map(|number| {
                room.namespace_budget(Some(&format!("greedy-{number}")))
                    .empty_reservation()
            })
            .collect();
        greedy.iter_mut().for_each(|held| {
            fill(held);
        });
        assert!(room.reserved_bytes() >= 1000, "{}", room.reserved_bytes());
        let mut small = room.namespace_budget(Some("small")).empty_reservation();
        assert_eq!(fill(&mut small), 50);
        // Two accounts of one namespace share what it gets.
        assert_eq!(
            fill(&mut room.namespace_budget(Some("small")).empty_reservation()),
            0
        );
        assert!(!greedy[0].grow(1));
        let mut others: Vec<_> = (0..20)
            .map(|number| {
                room.namespace_budget(Some(&format!("other-{number}")))
                    .empty_reservation()
            })
            .collect();
        others.iter_mut().for_each(|held| {
            fill(held);
        });
        assert_eq!(room.reserved_bytes(), 1100);
    }

    #[test]
    fn greedy_namespace_blocks_no_record_change() {
        let room = MemoryBudget::without_floors(100_000);
        let mut held = room.namespace_budget(Some("honest")).empty_reservation();
        assert!(held.grow(40_000));
        let mut greedy = room.namespace_budget(Some("greedy")).empty_reservation();
        fill(&mut greedy);
        assert!(!held.grow(1) && held.grow(0));
        assert!(held.grow_by_change(10_000));
        while greedy.grow_by_change(10) {}
        let mut third = room.namespace_budget(Some("third")).empty_reservation();
        assert!(fill(&mut third) > 1000, "there is some left for others");
    }

    #[test]
    fn optional_data_yields_to_required_data() {
        let mut held = MemoryBudget::without_floors(1000)
            .namespace_budget(None)
            .empty_reservation();
        while held.grow_optional(10) {}
        assert_eq!(held.bytes, 250);
        assert_eq!(fill(&mut held), 500);
    }
}
