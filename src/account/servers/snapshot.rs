//! What is known of an account's machines, by identity and by object mark.

use super::{
    super::memory_budget::MemoryReservation,
    sums::{self, Sums},
};
use flexmetal_core::account::{ownership_tags, view::SeenServer};
use hosting_types::{
    Server, ServerId, ServerStatus,
    list::{MOST_OVER, record_size},
};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

/// How long a delivered machine without an address is looked at often, in seconds.
const ADDRESS_WAIT: i64 = 3600;

/// The machines of an account, each as last seen.
pub(crate) struct Snapshot {
    cluster_tag: String,
    records: HashMap<ServerId, SeenServer>,
    /// By the place, namespace and name, of who ordered or took it. In the order of their identity; one in a healthy world.
    by_name_hash: BTreeMap<Box<str>, Vec<ServerId>>,
    /// Over the machines that bear this cluster's mark.
    sums: Sums,
    /// How many of the records are over and done with.
    released_count: usize,
    /// Twice each record, since the last listing may keep another form of it, and `former`.
    reservation: MemoryReservation,
    /// What the listing may keep beyond that: records that left, and forms that were larger.
    listed_only_size: usize,
}

/// What became of a record.
pub(crate) struct Put {
    /// The marks, old and new, of one that changed.
    pub(crate) touched: Touched,
    /// The record to keep.
    pub(crate) kept: Arc<Server>,
    /// Whether it is new, or differs from the one before.
    pub(crate) is_news: bool,
    /// Whether it is known by now.
    pub(crate) outcome: PutOutcome,
}

/// Whether there is a place for a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PutOutcome {
    /// It is known, in this form or a newer one.
    Stored,
    /// There is none, and it is not needed: the machine is over and done with.
    NotNeeded,
    /// There is none.
    Full,
}

/// The object marks whose objects have something new to look at.
pub(crate) type Touched = BTreeSet<String>;

impl Snapshot {
    /// The tag that each machine of the cluster bears.
    pub(crate) fn cluster_tag(&self) -> &str {
        &self.cluster_tag
    }

    pub(crate) fn new(cluster_tag: String, held: MemoryReservation) -> Self {
        Self {
            cluster_tag,
            records: HashMap::new(),
            by_name_hash: BTreeMap::new(),
            sums: Sums::default(),
            released_count: 0,
            reservation: held,
            listed_only_size: 0,
        }
    }

    /// Takes a record in that was asked for at `seen`. An answer older than what is known changes nothing:
    /// listings take their time, and a read may have overtaken one. Memory is bounded: released machines that
    /// were not known before stay out where there is no room for them, since nothing is done with them any
    /// more; any other record for which there is none changes nothing either.
    pub(crate) fn put(&mut self, server: Server, seen: Duration) -> Put {
        let unchanged = |kept, place| Put {
            touched: Touched::new(),
            kept,
            is_news: false,
            outcome: place,
        };
        let is_over = server.status == ServerStatus::Released;
        let known = self.records.get_mut(&server.id);
        let is_needed = known.is_some() || !is_over;
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
        self.released_count += usize::from(is_over);
        let server = Arc::new(server);
        for mark in ownership_tags::name_hashes(&server) {
            touched.insert(mark.to_owned());
            match self.by_name_hash.get_mut(mark) {
                Some(ids) => {
                    if let Err(at) = ids.binary_search(&server.id) {
                        ids.insert(at, server.id.clone());
                    }
                }
                None => {
                    self.by_name_hash
                        .insert(mark.into(), vec![server.id.clone()]);
                }
            }
        }
        if server.has_tag(&self.cluster_tag) {
            self.sums.add(&server);
        }
        let sighting = SeenServer {
            server: server.clone(),
            seen,
        };
        self.records.insert(server.id.clone(), sighting);
        Put {
            touched,
            kept: server,
            is_news: true,
            outcome: PutOutcome::Stored,
        }
    }

    /// These are the only records that a listing keeps: gives back what no other one needs.
    pub(crate) fn recount(&mut self, listed: &[Arc<Server>]) {
        let beyond = |server: &Arc<Server>| {
            let now = self.records.get(&server.id).map(|known| &known.server);
            match now {
                Some(now) if Arc::ptr_eq(now, server) => 0,
                now => server_size(server).saturating_sub(now.map_or(0, |now| server_size(now))),
            }
        };
        let former = listed.iter().map(beyond).sum();
        self.reservation
            .shrink(self.listed_only_size.saturating_sub(former));
        self.listed_only_size = self.listed_only_size.min(former);
    }

    /// Drops a machine that the API says it does not know.
    pub(crate) fn remove(&mut self, id: &ServerId) -> Touched {
        if let Some(old) = self.records.get(id) {
            self.listed_only_size += reserved_size(&old.server);
        }
        self.take_record(id)
    }

    /// Takes a record out, and gives none of its room back.
    fn take_record(&mut self, id: &ServerId) -> Touched {
        let mut touched = Touched::new();
        if let Some(old) = self.records.remove(id) {
            self.released_count -= usize::from(old.server.status == ServerStatus::Released);
            for mark in ownership_tags::name_hashes(&old.server) {
                if let Some(ids) = self.by_name_hash.get_mut(mark) {
                    ids.retain(|other| other != id);
                    if ids.is_empty() {
                        self.by_name_hash.remove(mark);
                    }
                }
                touched.insert(mark.to_owned());
            }
            if old.server.has_tag(&self.cluster_tag) {
                self.sums.remove(&old.server);
            }
        }
        touched
    }

    /// Sums over the machines that bear this cluster's mark.
    pub(crate) fn sums(&self) -> &Sums {
        &self.sums
    }

    /// A machine that bears this cluster's mark, by its identity.
    pub(crate) fn own_server(&self, uuid: &str) -> Option<&SeenServer> {
        let found = self.records.get(&ServerId::parse(uuid).ok()?)?;
        found.server.has_tag(&self.cluster_tag).then_some(found)
    }

    pub(crate) fn get(&self, id: &ServerId) -> Option<&SeenServer> {
        self.records.get(id)
    }

    /// The machines that objects of this place ordered or took.
    pub(crate) fn servers_by_name_hash(&self, place: &str) -> Vec<SeenServer> {
        let ids = self.by_name_hash.get(place).into_iter().flatten();
        let found = ids.filter_map(|id| self.records.get(id).cloned());
        found.collect()
    }

    /// Whether a machine of this object mark bears this tag.
    pub(crate) fn has_tagged_server(&self, mark: &str, tag: &str) -> bool {
        self.servers_with_tag(mark, tag).next().is_some()
    }

    /// Whether such a machine is one of ours, made at or after this Unix second.
    pub(crate) fn has_tagged_server_since(&self, mark: &str, tag: &str, since: i64) -> bool {
        let ours = |s: &&Server| s.has_tag(&self.cluster_tag);
        let mut bearing = self.servers_with_tag(mark, tag).filter(ours);
        bearing.any(|s| sums::creation_time(s).is_some_and(|at| at >= since))
    }

    fn servers_with_tag(&self, mark: &str, tag: &str) -> impl Iterator<Item = &Server> {
        let ids = self.by_name_hash.get(mark).into_iter().flatten();
        let servers = ids.filter_map(|id| self.records.get(id));
        servers.map(|s| &*s.server).filter(move |s| s.has_tag(tag))
    }

    /// The machines that bear this cluster's mark.
    pub(crate) fn own_servers(&self) -> impl Iterator<Item = &SeenServer> {
        self.records
            .values()
            .filter(|s| s.server.has_tag(&self.cluster_tag))
    }

    /// The machines of ours that are not over and done with.
    pub(crate) fn unreleased_servers(&self) -> impl Iterator<Item = &SeenServer> {
        self.own_servers()
            .filter(|s| s.server.status != ServerStatus::Released)
    }

    /// Those of ours that no look since `since` has shown. Released ones need not be shown.
    pub(crate) fn unseen_since(&self, since: Duration) -> Vec<ServerId> {
        let mut unseen: Vec<_> = self
            .unreleased_servers()
            .filter(|s| s.seen < since)
            .collect();
        unseen.sort_by_key(|s| s.seen);
        unseen.into_iter().map(|s| s.server.id.clone()).collect()
    }
}

/// What is reserved for a record, with its places in the index: in steps, so that another status of it rarely takes more.
fn reserved_size(server: &Server) -> usize {
    let places = 96 * ownership_tags::name_hashes(server).count();
    (2 * server_size(server) + places).next_multiple_of(256)
}

/// About how much memory a record of a server takes, in bytes. Its short texts take more than they say.
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

    /// The sums as a walk over all machines gives them.
    fn walked(snapshot: &Snapshot) -> Sums {
        let mut sums = Sums::default();
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
                // One that was overtaken changes nothing.
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
        let places: Vec<PutOutcome> = (0..40).map(|n| put(n, "delivered", "n")).collect();
        let fit = places
            .iter()
            .filter(|place| **place == PutOutcome::Stored)
            .count();
        assert!((5..30).contains(&fit), "{places:?}");
        assert_eq!(places[39], PutOutcome::Full);
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
        let room = MemoryBudget::without_floors(100_000);
        let mut snapshot = Snapshot::new(
            CLUSTER.into(),
            room.namespace_budget(None).empty_reservation(),
        );
        let mut others: Vec<_> = (0..9)
            .map(|number| {
                room.namespace_budget(Some(&format!("n-{number}")))
                    .empty_reservation()
            })
            .collect();
        let seconds = Duration::from_secs;
        let places = (0..10).map(|n| snapshot.put(server(n, "delivered", &[CLUSTER]), seconds(1)));
        assert!(
            places
                .map(|put| put.outcome)
                .all(|place| place == PutOutcome::Stored)
        );
        for other in &mut others {
            while other.grow(100) {}
        }
        let new = server(10, "delivered", &[CLUSTER]);
        assert_eq!(snapshot.put(new, seconds(1)).outcome, PutOutcome::Full);
        let held = room.reserved_bytes();
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
            assert_eq!(room.reserved_bytes(), held);
        }
        let larger = server(0, &"x".repeat(1000), &[CLUSTER]);
        assert_eq!(snapshot.put(larger, seconds(9)).outcome, PutOutcome::Full);
        drop(snapshot);
        drop(others);
        assert_eq!(room.reserved_bytes(), 0);
    }

    #[test]
    fn what_a_listing_keeps_counts_until_the_next() {
        let room = MemoryBudget::without_floors(100_000);
        let mut snapshot = Snapshot::new(
            CLUSTER.into(),
            room.namespace_budget(None).empty_reservation(),
        );
        let form = |number: u8, letters: usize| {
            let mut server = server(number, "delivered", &[CLUSTER]);
            server.name = "n".repeat(letters);
            server
        };
        let large = [0, 1].map(|n| snapshot.put(form(n, 5000), Duration::from_secs(1)).kept);
        let held = room.reserved_bytes();
        let small = snapshot.put(form(0, 1), Duration::from_secs(2)).kept;
        snapshot.remove(&large[1].id);
        assert_eq!(room.reserved_bytes(), held);
        snapshot.recount(&large);
        let both: usize = large.iter().map(|server| server_size(server)).sum();
        assert!(
            room.reserved_bytes() >= both && room.reserved_bytes() < held,
            "{}",
            room.reserved_bytes()
        );
        snapshot.recount(std::slice::from_ref(&small));
        assert_eq!(room.reserved_bytes(), reserved_size(&small));
        snapshot.remove(&small.id);
        snapshot.recount(&[]);
        assert_eq!(room.reserved_bytes(), 0);
    }

    #[test]
    fn servers_of_a_name_are_unique_and_sorted() {
        let tag = format!("fmo-order:{}", "0".repeat(52));
        let mut snapshot = Snapshot::new(CLUSTER.into(), endless());
        for number in [3, 1, 2, 1] {
            // The same mark twice, as two orders of one object would have.
            let other = format!("fmo-order:{}{}", "0".repeat(44), "1".repeat(8));
            let server = server(number, "delivered", &[CLUSTER, &tag, &other]);
            snapshot.put(server, Duration::from_secs(u64::from(number)));
        }
        let mark = "0".repeat(28);
        let found: Vec<ServerId> = snapshot
            .servers_by_name_hash(&mark)
            .iter()
            .map(|s| s.server.id.clone())
            .collect();
        assert_eq!(found, [1, 2, 3].map(|n| server(n, "created", &[]).id));
        for id in found {
            snapshot.remove(&id);
        }
        assert!(
            snapshot.servers_by_name_hash(&mark).is_empty() && snapshot.by_name_hash.is_empty()
        );
    }
}
