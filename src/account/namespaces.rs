//! The labels of the cluster's namespaces, by which accounts of the cluster may select them.

use api::selector::Labels;
use std::{
    collections::{BTreeMap, HashSet},
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

/// The namespaces that are known, with their labels. A clone is the same.
#[derive(Clone, Default)]
pub(crate) struct Namespaces(Arc<RwLock<KnownNamespaces>>);

#[derive(Default)]
struct KnownNamespaces {
    labels: BTreeMap<String, Arc<Labels>>,
    /// A listing was read to its end.
    is_complete: bool,
}

impl Namespaces {
    /// The labels of a namespace; None: they are not known.
    pub(crate) fn labels(&self, namespace: &str) -> Option<Arc<Labels>> {
        self.lock_read().labels.get(namespace).cloned()
    }

    /// The namespaces of which this is so.
    pub(crate) fn which(&self, is_so: impl Fn(&str, &Labels) -> bool) -> Vec<String> {
        let all = self.lock_read();
        let found = all
            .labels
            .iter()
            .filter(|(name, labels)| is_so(name, labels));
        found.map(|(name, _)| name.clone()).collect()
    }

    /// A namespace has these labels. Returns whether that is news.
    pub(crate) fn show(&self, namespace: &str, labels: Labels) -> bool {
        let all = &mut self.lock_write().labels;
        let is_known = all.get(namespace).is_some_and(|known| **known == labels);
        if !is_known {
            all.insert(namespace.to_owned(), Arc::new(labels));
        }
        !is_known
    }

    /// A namespace is gone.
    pub(crate) fn forget(&self, namespace: &str) {
        self.lock_write().labels.remove(namespace);
    }

    /// There are no others than these. Returns whether that was not known of any before.
    pub(crate) fn retain_only(&self, names: &HashSet<String>) -> bool {
        let known = &mut *self.lock_write();
        known.labels.retain(|name, _| names.contains(name));
        !std::mem::replace(&mut known.is_complete, true)
    }

    /// Whether all namespaces are known.
    pub(crate) fn are_all_known(&self) -> bool {
        self.lock_read().is_complete
    }

    fn lock_read(&self) -> RwLockReadGuard<'_, KnownNamespaces> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_write(&self) -> RwLockWriteGuard<'_, KnownNamespaces> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}
