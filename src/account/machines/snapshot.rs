//! What is known of an account's machines, by identity and by object mark.

use super::{super::view::Sighting, marks};
use hosting::{Server, ServerId, ServerStatus};
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
    records: HashMap<ServerId, Sighting>,
    by_mark: BTreeMap<String, BTreeSet<ServerId>>,
}

/// The object marks whose objects have something new to look at.
pub(crate) type Touched = BTreeSet<String>;

impl Snapshot {
    pub(crate) fn new(cluster_tag: String) -> Self {
        Self {
            cluster_tag,
            records: HashMap::new(),
            by_mark: BTreeMap::new(),
        }
    }

    /// Takes a record in that was asked for at `seen`. Returns the marks, old and new, of a record that
    /// changed, and the record to keep. An answer older than what is known changes nothing: listings
    /// take their time, and a read may have overtaken one.
    pub(crate) fn put(&mut self, server: Server, seen: Duration) -> (Touched, Arc<Server>) {
        if let Some(known) = self.records.get_mut(&server.id) {
            if known.seen > seen {
                return (Touched::new(), Arc::new(server));
            }
            if *known.server == server {
                known.seen = seen;
                return (Touched::new(), known.server.clone());
            }
        }
        let mut touched = self.remove(&server.id);
        let server = Arc::new(server);
        for mark in marks::object_marks(&server) {
            touched.insert(mark.to_owned());
            self.by_mark
                .entry(mark.to_owned())
                .or_default()
                .insert(server.id.clone());
        }
        let sighting = Sighting {
            server: server.clone(),
            seen,
        };
        self.records.insert(server.id.clone(), sighting);
        (touched, server)
    }

    /// Drops a machine that the API says it does not know.
    pub(crate) fn remove(&mut self, id: &ServerId) -> Touched {
        let mut touched = Touched::new();
        if let Some(old) = self.records.remove(id) {
            for mark in marks::object_marks(&old.server) {
                if let Some(ids) = self.by_mark.get_mut(mark) {
                    ids.remove(id);
                    if ids.is_empty() {
                        self.by_mark.remove(mark);
                    }
                }
                touched.insert(mark.to_owned());
            }
        }
        touched
    }

    pub(crate) fn get(&self, id: &ServerId) -> Option<&Sighting> {
        self.records.get(id)
    }

    pub(crate) fn by_mark(&self, mark: &str) -> Vec<Sighting> {
        let ids = self.by_mark.get(mark).into_iter().flatten();
        ids.filter_map(|id| self.records.get(id).cloned()).collect()
    }

    /// The machines that bear this cluster's mark.
    pub(crate) fn ours(&self) -> impl Iterator<Item = &Sighting> {
        self.records
            .values()
            .filter(|s| s.server.has_tag(&self.cluster_tag))
    }

    /// The machines of ours that are not over and done with.
    pub(crate) fn present(&self) -> impl Iterator<Item = &Sighting> {
        self.ours()
            .filter(|s| s.server.status != ServerStatus::Released)
    }

    /// The machines whose record is about to change by itself.
    pub(crate) fn moving(&self, wall: i64) -> impl Iterator<Item = &Sighting> {
        self.present().filter(move |s| is_moving(&s.server, wall))
    }

    /// Those of ours that no look since `since` has shown. Released ones need not be shown.
    pub(crate) fn unseen_since(&self, since: Duration) -> Vec<ServerId> {
        let mut unseen: Vec<_> = self.present().filter(|s| s.seen < since).collect();
        unseen.sort_by_key(|s| s.seen);
        unseen.into_iter().map(|s| s.server.id.clone()).collect()
    }
}

fn is_moving(server: &Server, wall: i64) -> bool {
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
