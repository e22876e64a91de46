//! Whose machines there are: the namespaces of the objects that ordered them.

use super::Claims;
use flexmetal_core::account::{ownership_tags, view::SeenServer};
use hosting_types::Server;
use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// The namespaces of those who ordered machines, by object mark. They are remembered beyond the end of their objects: a
/// machine that nobody claims any more goes on to count for those who ordered it. A clone is the same.
#[derive(Clone, Default)]
pub(crate) struct Owners(Arc<Mutex<HashMap<String, Arc<str>>>>);

impl Owners {
    /// The object of this mark is of this namespace.
    pub(crate) fn record(&self, mark: &str, namespace: &str) {
        self.lock().insert(mark.to_owned(), namespace.into());
    }

    /// The object marks of machines of which it is not known yet.
    pub(crate) fn unknown<'a>(
        &self,
        machines: impl Iterator<Item = &'a SeenServer>,
    ) -> HashSet<String> {
        let known = self.lock();
        let marks = machines.flat_map(|s| ownership_tags::name_hashes(&s.server));
        let unknown = marks.filter(|mark| !known.contains_key(*mark));
        unknown.map(str::to_owned).collect()
    }

    /// Asks whose machines these are. Never with the lock of an account held.
    pub(crate) fn ask(&self, marks: HashSet<String>, claims: &dyn Claims) {
        for mark in marks {
            if let Some(namespace) = claims.namespace(&mark) {
                self.record(&mark, &namespace);
            }
        }
    }

    /// The namespace of who ordered a machine, where that is known.
    pub(crate) fn namespace_for(&self, server: &Server) -> Option<Arc<str>> {
        let known = self.lock();
        ownership_tags::name_hashes(server).find_map(|mark| known.get(mark).cloned())
    }

    /// Nothing of this object is left.
    pub(crate) fn forget(&self, mark: &str) {
        self.lock().remove(mark);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<str>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
