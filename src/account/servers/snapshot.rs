//! The servers of an account, by ID and by name hash.

use super::{super::memory_budget::MemoryReservation, counts::LiveServerCounts};
use flexmetal_core::account::{
    ownership_tags::{self, creation_time},
    view::SeenServer,
};
use hosting_types::{
    Server, ServerId, ServerStatus,
    list::{MOST_OVER, record_size},
};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

/// How long a delivered server without an address counts as changing, in seconds.
const ADDRESS_WAIT: i64 = 3600;

/// The servers of an account, each as last read.
pub(crate) struct Snapshot {
    cluster_tag: String,
    records: HashMap<ServerId, SeenServer>,
    /// IDs of the servers that an object ordered or adopted, by its name hash; sorted, and usually one.
    by_name_hash: BTreeMap<Box<str>, Vec<ServerId>>,
    /// Over the servers with the cluster's tag.
    sums: LiveServerCounts,
    /// How many of the records are released.
    released_count: usize,
    /// Twice each record, since the last list may keep another version of it, and `listed_only_size`.
    reservation: MemoryReservation,
    /// What the list may keep beyond that: removed records, and larger versions.
    listed_only_size: usize,
}

/// Outcome of [`Snapshot::put`].
pub(crate) struct Put {
    /// The name hashes, old and new, of a record that changed.
    pub(crate) touched: Touched,
    /// The record to keep.
    pub(crate) kept: Arc<Server>,
    /// Whether the record is new, or differs from the one before.
    pub(crate) is_news: bool,
    /// Whether the record was stored.
    pub(crate) outcome: PutOutcome,
}

/// Whether a record was stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PutOutcome {
    /// It is stored, in this version or a newer one.
    Stored,
    /// It does not fit, and is not needed: the server is released.
    NotNeeded,
    /// It does not fit.
    Full,
}

/// The name hashes of the objects whose servers changed.
pub(crate) type Touched = BTreeSet<String>;

impl Snapshot {
    /// The tag that each server of the cluster has.
    pub(crate) fn cluster_tag(&self) -> &str {
        &self.cluster_tag
    }

    pub(crate) fn new(cluster_tag: String, reservation: MemoryReservation) -> Self {
        Self {
            cluster_tag,
            records: HashMap::new(),
            by_name_hash: BTreeMap::new(),
            sums: LiveServerCounts::default(),
            released_count: 0,
            reservation,
            listed_only_size: 0,
        }
    }

    /// Stores a record that was requested at `seen`, unless a newer one is known: a read may overtake a list. Memory is
    /// bounded: a record that does not fit changes nothing, and released servers fit only if they are few.
    pub(crate) fn put(&mut self, server: Server, seen: Duration) -> Put {
        let unchanged = |kept, outcome| Put {
            touched: Touched::new(),
            kept,
            is_news: false,
            outcome,
        };
        let is_released = server.status == ServerStatus::Released;
        let known = self.records.get_mut(&server.id);
        let is_needed = known.is_some() || !is_released;
        if let Some(known) = known {
            if known.seen > seen {
                return unchanged(Arc::new(server), PutOutcome::Stored);
            }
            if *known.server == server {
                known.seen = seen;
                return unchanged(known.server.clone(), PutOutcome::Stored);
            }
        }
        let size = reserved_size(&server);
        if is_needed {
            let before = self.records.get(&server.id);
            let before = before.map_or(0, |known| reserved_size(&known.server));
            let fits = match before {
                0 => self.reservation.grow(size),
                before => self.reservation.grow_by_change(size.saturating_sub(before)),
            };
            if !fits {
                return unchanged(Arc::new(server), PutOutcome::Full);
            }
            self.listed_only_size += before.saturating_sub(size);
        } else if self.released_count >= MOST_OVER || !self.reservation.grow_optional(size) {
            return unchanged(Arc::new(server), PutOutcome::NotNeeded);
        }
        let mut touched = self.take_record(&server.id);
        self.released_count += usize::from(is_released);
        let server = Arc::new(server);
        for name_hash in ownership_tags::name_hashes(&server) {
            touched.insert(name_hash.to_owned());
            match self.by_name_hash.get_mut(name_hash) {
                Some(ids) => {
                    if let Err(at) = ids.binary_search(&server.id) {
                        ids.insert(at, server.id.clone());
                    }
                }
                None => {
                    self.by_name_hash
                        .insert(name_hash.into(), vec![server.id.clone()]);
                }
            }
        }
        if server.has_tag(&self.cluster_tag) {
            self.sums.add(&server);
        }
        let seen_server = SeenServer {
            server: server.clone(),
            seen,
        };
        self.records.insert(server.id.clone(), seen_server);
        Put {
            touched,
            kept: server,
            is_news: true,
            outcome: PutOutcome::Stored,
        }
    }

    /// Frees memory that no record needs, given all records that the last list keeps.
    pub(crate) fn recount(&mut self, listed: &[Arc<Server>]) {
        let beyond = |server: &Arc<Server>| {
            let now = self.records.get(&server.id).map(|known| &known.server);
            match now {
                Some(now) if Arc::ptr_eq(now, server) => 0,
                now => server_size(server).saturating_sub(now.map_or(0, |now| server_size(now))),
            }
        };
        let listed_only = listed.iter().map(beyond).sum();
        self.reservation
            .shrink(self.listed_only_size.saturating_sub(listed_only));
        self.listed_only_size = self.listed_only_size.min(listed_only);
    }

    /// Removes a server that the API does not know.
    pub(crate) fn remove(&mut self, id: &ServerId) -> Touched {
        if let Some(old) = self.records.get(id) {
            self.listed_only_size += reserved_size(&old.server);
        }
        self.take_record(id)
    }

    /// Removes a record, and frees none of its memory.
    fn take_record(&mut self, id: &ServerId) -> Touched {
        let mut touched = Touched::new();
        if let Some(old) = self.records.remove(id) {
            self.released_count -= usize::from(old.server.status == ServerStatus::Released);
            for name_hash in ownership_tags::name_hashes(&old.server) {
                if let Some(ids) = self.by_name_hash.get_mut(name_hash) {
                    ids.retain(|other| other != id);
                    if ids.is_empty() {
                        self.by_name_hash.remove(name_hash);
                    }
                }
                touched.insert(name_hash.to_owned());
            }
            if old.server.has_tag(&self.cluster_tag) {
                self.sums.remove(&old.server);
            }
        }
        touched
    }

    /// Sums over the servers with the cluster's tag.
    pub(crate) fn sums(&self) -> &LiveServerCounts {
        &self.sums
    }

    /// The server with this UUID, if it has the cluster's tag.
    pub(crate) fn own_server(&self, uuid: &str) -> Option<&SeenServer> {
        let found = self.records.get(&ServerId::parse(uuid).ok()?)?;
        found.server.has_tag(&self.cluster_tag).then_some(found)
    }

    pub(crate) fn get(&self, id: &ServerId) -> Option<&SeenServer> {
        self.records.get(id)
    }

    /// The servers that objects of this name hash ordered or adopted.
    pub(crate) fn servers_by_name_hash(&self, name_hash: &str) -> Vec<SeenServer> {
        let ids = self.by_name_hash.get(name_hash).into_iter().flatten();
        let found = ids.filter_map(|id| self.records.get(id).cloned());
        found.collect()
    }

    /// Whether a server of this name hash has this tag.
    pub(crate) fn has_tagged_server(&self, name_hash: &str, tag: &str) -> bool {
        self.servers_with_tag(name_hash, tag).next().is_some()
    }

    /// Whether such a server is one of ours, created at or after this Unix second.
    pub(crate) fn has_tagged_server_since(&self, name_hash: &str, tag: &str, since: i64) -> bool {
        let ours = |s: &&Server| s.has_tag(&self.cluster_tag);
        let mut tagged = self.servers_with_tag(name_hash, tag).filter(ours);
        tagged.any(|s| creation_time(s).is_some_and(|at| at >= since))
    }

    fn servers_with_tag(&self, name_hash: &str, tag: &str) -> impl Iterator<Item = &Server> {
        let ids = self.by_name_hash.get(name_hash).into_iter().flatten();
        let servers = ids.filter_map(|id| self.records.get(id));
        servers.map(|s| &*s.server).filter(move |s| s.has_tag(tag))
    }

    /// The servers with the cluster's tag.
    pub(crate) fn own_servers(&self) -> impl Iterator<Item = &SeenServer> {
        self.records
            .values()
            .filter(|s| s.server.has_tag(&self.cluster_tag))
    }

    /// The servers with the cluster's tag that are not released.
    pub(crate) fn unreleased_servers(&self) -> impl Iterator<Item = &SeenServer> {
        self.own_servers()
            .filter(|s| s.server.status != ServerStatus::Released)
    }

    /// Unreleased servers of ours that were not read since `since`, oldest first.
    pub(crate) fn unseen_since(&self, since: Duration) -> Vec<ServerId> {
        let mut unseen: Vec<_> = self
            .unreleased_servers()
            .filter(|s| s.seen < since)
            .collect();
        unseen.sort_by_key(|s| s.seen);
        unseen.into_iter().map(|s| s.server.id.clone()).collect()
    }
}

/// Bytes reserved for a record and its index entries, in steps, so that another status rarely needs more.
fn reserved_size(server: &Server) -> usize {
    let index_size = 96 * ownership_tags::name_hashes(server).count();
    (2 * server_size(server) + index_size).next_multiple_of(256)
}

/// Approximate memory of a record in bytes. Short strings take more than their length.
pub(crate) fn server_size(server: &Server) -> usize {
    record_size(server) + 24 * (server.tags.len() + server.addresses.len())
}

/// Whether a record is about to change by itself.
pub(super) fn is_changing(server: &Server, wall: i64) -> bool {
    match server.status {
        ServerStatus::Failed | ServerStatus::Released => false,
        ServerStatus::Delivered => {
            server.addresses.is_empty()
                && server
                    .delivered_at
                    .is_some_and(|at| wall - at < ADDRESS_WAIT)
        }
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::memory_budget::MemoryBudget;

    const CLUSTER: &str = "fmo-cluster:0123456789abcdef";

    fn endless() -> MemoryReservation {
        MemoryBudget::without_floors(usize::MAX)
            .namespace_budget(None)
            .empty_reservation()
    }

    fn server(number: u8, status: &str, tags: &[&str]) -> Server {
        Server {
            id: ServerId::parse(&format!("00000000-0000-4000-8000-0000000000{number:02x}"))
                .unwrap(),
            name: "n".into(),
            status: ServerStatus::parse(status),
            status_message: String::new(),
            location_id: None,
            location: String::new(),
            instance_type_id: None,
            instance_type: String::new(),
            os_slug: String::new(),
            addresses: Vec::new(),
            tags: tags.iter().map(|&tag| tag.into()).collect(),
            created_at: Some(i64::from(number / 2)),
            delivered_at: None,
            released_at: None,
            contract_id: None,
        }
    }

    /// The sums, counted over all servers.
    fn walked(snapshot: &Snapshot) -> LiveServerCounts {
        let mut sums = LiveServerCounts::default();
        snapshot.own_servers().for_each(|s| sums.add(&s.server));
        sums
    }

    #[test]
    fn sums_match_records_after_every_change() {
        let mut snapshot = Snapshot::new(CLUSTER.into(), endless());
        let words = ["created", "delivered", "failed", "released"];
        let tags: [&[&str]; 3] = [&[CLUSTER], &[CLUSTER, api::names::RETAINED_TAG], &[]];
        for step in 0..200_u8 {
            let number = step.wrapping_mul(7) % 16;
            let word = words[usize::from(step / 16) % words.len()];
            let server = server(number, word, tags[usize::from(step) % tags.len()]);
            let seen = Duration::from_secs(u64::from(step));
            match step % 5 {
                4 => drop(snapshot.remove(&server.id)),
                // An overtaken record changes nothing.
                3 => drop(snapshot.put(server, Duration::ZERO)),
                _ => drop(snapshot.put(server, seen)),
            }
            assert_eq!(*snapshot.sums(), walked(&snapshot), "step {step}");
        }
        let since = |at| {
            snapshot
                .own_servers()
                .filter(|s| s.server.created_at >= Some(at))
                .count()
        };
        assert_eq!(snapshot.sums().created_since(4), since(4));
        assert!(since(4) > 0 && since(4) < since(0));
    }

    #[test]
    fn stored_released_servers_are_bounded() {
        let mut snapshot = Snapshot::new(CLUSTER.into(), endless());
        let numbered = |number: usize, status: &str| {
            let mut server = server(0, status, &[CLUSTER]);
            server.id = ServerId::parse(&format!("00000000-0000-4000-8000-{number:012x}")).unwrap();
            server
        };
        for number in 0..MOST_OVER + 10 {
            snapshot.put(numbered(number, "released"), Duration::ZERO);
        }
        assert_eq!(snapshot.records.len(), MOST_OVER);
        snapshot.put(numbered(MOST_OVER + 10, "delivered"), Duration::ZERO);
        snapshot.put(numbered(MOST_OVER + 10, "released"), Duration::from_secs(1));
        assert_eq!(
            snapshot.records.len(),
            MOST_OVER + 1,
            "one that is known stays known"
        );
        snapshot.remove(&numbered(0, "released").id);
        snapshot.remove(&numbered(1, "released").id);
        snapshot.put(numbered(MOST_OVER + 11, "released"), Duration::ZERO);
        assert_eq!(snapshot.records.len(), MOST_OVER, "there is room again");
    }

    #[test]
    fn record_beyond_the_budget_is_not_stored() {
        let mut snapshot = Snapshot::new(
            CLUSTER.into(),
            MemoryBudget::without_floors(20_000)
                .namespace_budget(None)
                .empty_reservation(),
        );
        let mut put = |number: u8, status: &str, name: &str| {
            let mut server = server(number, status, &[CLUSTER]);
            name.clone_into(&mut server.name);
            snapshot.put(server, Duration::from_secs(1)).outcome
        };
        let outcomes: Vec<PutOutcome> = (0..40).map(|n| put(n, "delivered", "n")).collect();
        let fit = outcomes
            .iter()
            .filter(|outcome| **outcome == PutOutcome::Stored)
            .count();
        assert!((5..30).contains(&fit), "{outcomes:?}");
        assert_eq!(outcomes[39], PutOutcome::Full);
        assert_eq!(put(50, "released", "n"), PutOutcome::NotNeeded);
        assert_eq!(put(0, "delivered", &"n".repeat(20_000)), PutOutcome::Full);
        assert_eq!(put(0, "delivered", "n"), PutOutcome::Stored, "it is known");
        assert_eq!(snapshot.records.len(), fit);
        let first = server(0, "delivered", &[CLUSTER]).id;
        assert_eq!(snapshot.get(&first).unwrap().server.name, "n");
        snapshot.remove(&first);
        snapshot.recount(&[]);
        let again = server(41, "delivered", &[CLUSTER]);
        assert_eq!(
            snapshot.put(again, Duration::from_secs(1)).outcome,
            PutOutcome::Stored,
            "there is room again"
        );
    }

    #[test]
    fn status_change_needs_no_more_memory() {
        let budget = MemoryBudget::without_floors(100_000);
        let mut snapshot = Snapshot::new(
            CLUSTER.into(),
            budget.namespace_budget(None).empty_reservation(),
        );
        let mut others: Vec<_> = (0..9)
            .map(|number| {
                budget
                    .namespace_budget(Some(&format!("n-{number}")))
                    .empty_reservation()
            })
            .collect();
        let seconds = Duration::from_secs;
        let puts = (0..10).map(|n| snapshot.put(server(n, "delivered", &[CLUSTER]), seconds(1)));
        assert!(
            puts.map(|put| put.outcome)
                .all(|outcome| outcome == PutOutcome::Stored)
        );
        for other in &mut others {
            while other.grow(100) {}
        }
        let new = server(10, "delivered", &[CLUSTER]);
        assert_eq!(snapshot.put(new, seconds(1)).outcome, PutOutcome::Full);
        let reserved = budget.reserved_bytes();
        for (step, status) in ["releasing", "delivered", "created"]
            .into_iter()
            .enumerate()
        {
            for number in 0..10 {
                let put =
                    snapshot.put(server(number, status, &[CLUSTER]), seconds(2 + step as u64));
                assert_eq!(
                    (put.outcome, &put.kept.status),
                    (PutOutcome::Stored, &ServerStatus::parse(status))
                );
            }
            assert_eq!(budget.reserved_bytes(), reserved);
        }
        let larger = server(0, &"x".repeat(1000), &[CLUSTER]);
        assert_eq!(snapshot.put(larger, seconds(9)).outcome, PutOutcome::Full);
        drop(snapshot);
        drop(others);
        assert_eq!(budget.reserved_bytes(), 0);
    }

    #[test]
    fn what_a_listing_keeps_counts_until_the_next() {
        let budget = MemoryBudget::without_floors(100_000);
        let mut snapshot = Snapshot::new(
            CLUSTER.into(),
            budget.namespace_budget(None).empty_reservation(),
        );
        let form = |number: u8, letters: usize| {
            let mut server = server(number, "delivered", &[CLUSTER]);
            server.name = "n".repeat(letters);
            server
        };
        let large = [0, 1].map(|n| snapshot.put(form(n, 5000), Duration::from_secs(1)).kept);
        let reserved = budget.reserved_bytes();
        let small = snapshot.put(form(0, 1), Duration::from_secs(2)).kept;
        snapshot.remove(&large[1].id);
        assert_eq!(budget.reserved_bytes(), reserved);
        snapshot.recount(&large);
        let both: usize = large.iter().map(|server| server_size(server)).sum();
        assert!(
            budget.reserved_bytes() >= both && budget.reserved_bytes() < reserved,
            "{}",
            budget.reserved_bytes()
        );
        snapshot.recount(std::slice::from_ref(&small));
        assert_eq!(budget.reserved_bytes(), reserved_size(&small));
        snapshot.remove(&small.id);
        snapshot.recount(&[]);
        assert_eq!(budget.reserved_bytes(), 0);
    }

    #[test]
    fn servers_of_a_name_are_unique_and_sorted() {
        let tag = format!("fmo-order:{}", "0".repeat(52));
        let mut snapshot = Snapshot::new(CLUSTER.into(), endless());
        for number in [3, 1, 2, 1] {
            // The same name hash twice, as two orders of one object have.
            let other = format!("fmo-order:{}{}", "0".repeat(44), "1".repeat(8));
            let server = server(number, "delivered", &[CLUSTER, &tag, &other]);
            snapshot.put(server, Duration::from_secs(u64::from(number)));
        }
        let name_hash = "0".repeat(28);
        let found: Vec<ServerId> = snapshot
            .servers_by_name_hash(&name_hash)
            .iter()
            .map(|s| s.server.id.clone())
            .collect();
        assert_eq!(found, [1, 2, 3].map(|n| server(n, "created", &[]).id));
        for id in found {
            snapshot.remove(&id);
        }
        assert!(
            snapshot.servers_by_name_hash(&name_hash).is_empty()
                && snapshot.by_name_hash.is_empty()
        );
    }
}
