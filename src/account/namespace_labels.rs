//! The labels of the cluster's namespaces, for the selectors of cluster-scoped accounts.

use api::selector::Labels;
use std::{
    collections::{BTreeMap, HashSet},
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

/// The known namespaces with their labels. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Namespaces(Arc<RwLock<KnownNamespaces>>);

#[derive(Default)]
struct KnownNamespaces {
    labels: BTreeMap<String, Arc<Labels>>,
    /// A list of all namespaces is complete.
    is_complete: bool,
}

impl Namespaces {
    /// Labels of a namespace; None: not known.
    pub(crate) fn labels(&self, namespace: &str) -> Option<Arc<Labels>> {
        self.lock_read().labels.get(namespace).cloned()
    }

    /// Names of the namespaces for which `is_so` is true.
    pub(crate) fn names_matching(&self, is_so: impl Fn(&str, &Labels) -> bool) -> Vec<String> {
        let all = self.lock_read();
        let found = all
            .labels
            .iter()
            .filter(|(name, labels)| is_so(name, labels));
        found.map(|(name, _)| name.clone()).collect()
    }

    /// Sets the labels of a namespace. Returns whether they changed.
    pub(crate) fn set_labels(&self, namespace: &str, labels: Labels) -> bool {
        let all = &mut self.lock_write().labels;
        let is_known = all.get(namespace).is_some_and(|known| **known == labels);
        if !is_known {
            all.insert(namespace.to_owned(), Arc::new(labels));
        }
        !is_known
    }

    /// Removes a deleted namespace.
    pub(crate) fn forget(&self, namespace: &str) {
        self.lock_write().labels.remove(namespace);
    }

    /// Removes all namespaces but these. Returns whether this is the first complete list.
    pub(crate) fn retain_only(&self, names: &HashSet<String>) -> bool {
        let known = &mut *self.lock_write();
        known.labels.retain(|name, _| names.contains(name));
        !std::mem::replace(&mut known.is_complete, true)
    }

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
