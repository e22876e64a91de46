//! What the objects of a kind refer to, by lookup key, and which objects to enqueue after a change of it.

use super::{Objects, ObjectsInner, ObservedObject, Uid};
use crate::runtime::clock;
use api::Kind;
use flexmetal_core::account::key::AccountKey;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

/// What one object refers to.
pub type ReferenceKeys = BTreeSet<Box<str>>;

/// The referrers of each key.
#[derive(Default)]
pub(super) struct References(HashMap<Box<str>, BTreeMap<Uid, Arc<Referrer>>>);

/// An object that refers to something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Referrer {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its account, if it is known.
    pub account: Option<AccountKey>,
}

impl<K: Kind, M> ObjectsInner<K, M> {
    /// Records what an object refers to.
    pub(super) fn refer(&mut self, uid: &str, keys: ReferenceKeys, meta: &ObjectMeta) {
        let Some((uid, _)) = self.entries.get_key_value(uid) else {
            return;
        };
        let uid = uid.clone();
        let Some(entry) = self.entries.get_mut(&uid) else {
            return;
        };
        let before = std::mem::replace(&mut entry.refers, keys);
        for key in before.difference(&entry.refers) {
            if let Some(all) = self.references.0.get_mut(key) {
                all.remove(&uid);
                if all.is_empty() {
                    self.references.0.remove(key);
                }
            }
        }
        if entry.refers.is_empty() {
            return;
        }
        let referrer = Arc::new(Referrer {
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: meta.name.clone().unwrap_or_default(),
            account: entry.account(),
        });
        for key in &entry.refers {
            let all = self.references.0.entry(key.clone()).or_default();
            if all.get(&uid) != Some(&referrer) {
                all.insert(uid.clone(), referrer.clone());
            }
        }
    }
}

impl<K: Kind, M: Clone + Default + Send> Objects<K, M> {
    /// What an object refers to.
    pub(super) fn refers(&self, shown: &ObservedObject<K>) -> ReferenceKeys {
        match (self.options.refers, shown) {
            (Some(refers), ObservedObject::Decoded(object)) => refers(object),
            _ => ReferenceKeys::new(),
        }
    }

    /// The objects that refer to this, including those being deleted.
    pub fn referring(&self, key: &str) -> Vec<Arc<Referrer>> {
        let inner = self.lock();
        let all = inner.references.0.get(key).into_iter().flatten();
        all.map(|(_, referrer)| referrer.clone()).collect()
    }

    /// Enqueues the objects that refer to this.
    pub fn enqueue_referrers(&self, key: &str) {
        self.enqueue_selected(|inner| {
            let all = inner.references.0.get(key).into_iter().flatten();
            all.map(|(uid, _)| uid.clone()).collect()
        });
    }

    /// Enqueues the objects that refer to anything.
    pub fn enqueue_all_referrers(&self) {
        self.enqueue_selected(|inner| {
            let all = inner.entries.iter();
            let all = all.filter(|(_, entry)| !entry.refers.is_empty());
            all.map(|(uid, _)| uid.clone()).collect()
        });
    }

    fn enqueue_selected(&self, select: impl FnOnce(&ObjectsInner<K, M>) -> Vec<Uid>) {
        let now = clock::now().mono;
        let mut inner = self.lock();
        for uid in select(&inner) {
            inner.enqueue_after(&uid, now, Duration::ZERO);
        }
        drop(inner);
        self.changed.notify_one();
    }
}
