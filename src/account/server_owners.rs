//! The namespaces of the objects that ordered servers.

use super::Claims;
use flexmetal_core::account::{ownership_tags, view::SeenServer};
use hosting_types::Server;
use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Namespaces of the objects that ordered servers, by name hash. They outlive their objects, whose servers still count
/// for the namespace. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Owners(Arc<Mutex<HashMap<String, Arc<str>>>>);

impl Owners {
    pub(crate) fn record(&self, name_hash: &str, namespace: &str) {
        self.lock().insert(name_hash.to_owned(), namespace.into());
    }

    /// Name hashes of these servers whose namespace is not known.
    pub(crate) fn unknown<'a>(
        &self,
        servers: impl Iterator<Item = &'a SeenServer>,
    ) -> HashSet<String> {
        let known = self.lock();
        let hashes = servers.flat_map(|s| ownership_tags::name_hashes(&s.server));
        let unknown = hashes.filter(|hash| !known.contains_key(*hash));
        unknown.map(str::to_owned).collect()
    }

    /// Looks up the namespaces of these name hashes. Call it without a lock of an account.
    pub(crate) fn ask(&self, hashes: HashSet<String>, claims: &dyn Claims) {
        for hash in hashes {
            if let Some(namespace) = claims.namespace(&hash) {
                self.record(&hash, &namespace);
            }
        }
    }

    /// Namespace of the object that ordered a server, if known.
    pub(crate) fn namespace_for(&self, server: &Server) -> Option<Arc<str>> {
        let known = self.lock();
        ownership_tags::name_hashes(server).find_map(|hash| known.get(hash).cloned())
    }

    /// Removes an object that has no server and no open order.
    pub(crate) fn forget(&self, name_hash: &str) {
        self.lock().remove(name_hash);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<str>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
