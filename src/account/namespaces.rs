//! The labels of the cluster's namespaces, by which accounts of the cluster may select them.

use crate::kinds::selector::Labels;
use std::{
    collections::{BTreeMap, HashSet},
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

/// The namespaces that are known, with their labels. A clone is the same.
#[derive(Clone, Default)]
pub(crate) struct Namespaces(Arc<RwLock<BTreeMap<String, Arc<Labels>>>>);

impl Namespaces {
    /// The labels of a namespace; None: they are not known.
    pub(crate) fn labels(&self, namespace: &str) -> Option<Arc<Labels>> {
        self.read().get(namespace).cloned()
    }

    /// The namespaces of which this is so.
    pub(crate) fn which(&self, is_so: impl Fn(&str, &Labels) -> bool) -> Vec<String> {
        let all = self.read();
        let found = all.iter().filter(|(name, labels)| is_so(name, labels));
        found.map(|(name, _)| name.clone()).collect()
    }

    /// A namespace has these labels. Returns whether that is news.
    pub(crate) fn show(&self, namespace: &str, labels: Labels) -> bool {
        let mut all = self.write();
        let is_known = all.get(namespace).is_some_and(|known| **known == labels);
        if !is_known {
            all.insert(namespace.to_owned(), Arc::new(labels));
        }
        !is_known
    }

    /// A namespace is gone.
    pub(crate) fn forget(&self, namespace: &str) {
        self.write().remove(namespace);
    }

    /// There are no others than these.
    pub(crate) fn keep(&self, names: &HashSet<String>) {
        self.write().retain(|name, _| names.contains(name));
    }

    fn read(&self) -> RwLockReadGuard<'_, BTreeMap<String, Arc<Labels>>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, BTreeMap<String, Arc<Labels>>> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}
