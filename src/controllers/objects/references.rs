//! What the objects of a kind refer to, as words: who refers to something, and who has to hear of a change of it.

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

/// Who refers to what.
#[derive(Default)]
pub(super) struct References(HashMap<Box<str>, BTreeMap<Uid, Arc<Referrer>>>);

/// An object that refers to something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Referrer {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its account, where it can be read.
    pub account: Option<AccountKey>,
}

impl<K: Kind, M> ObjectsInner<K, M> {
    /// Notes what an object refers to from now on.
    pub(super) fn refer(&mut self, uid: &str, words: ReferenceKeys, meta: &ObjectMeta) {
        let Some((uid, _)) = self.entries.get_key_value(uid) else {
            return;
        };
        let uid = uid.clone();
        let Some(entry) = self.entries.get_mut(&uid) else {
            return;
        };
        let before = std::mem::replace(&mut entry.refers, words);
        for word in before.difference(&entry.refers) {
            if let Some(all) = self.references.0.get_mut(word) {
                all.remove(&uid);
                if all.is_empty() {
                    self.references.0.remove(word);
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
        for word in &entry.refers {
            let all = self.references.0.entry(word.clone()).or_default();
            if all.get(&uid) != Some(&referrer) {
                all.insert(uid.clone(), referrer.clone());
            }
        }
    }
}

impl<K: Kind, M: Clone + Default + Send> Objects<K, M> {
    /// What an object refers to.
    pub(super) fn refers(&self, shown: &ObservedObject<K>) -> ReferenceKeys {
        match (self.traits.refers, shown) {
            (Some(refers), ObservedObject::Decoded(object)) => refers(object),
            _ => ReferenceKeys::new(),
        }
    }

    /// Those who refer to this, the terminating ones included.
    pub fn referring(&self, word: &str) -> Vec<Arc<Referrer>> {
        let inner = self.lock();
        let all = inner.references.0.get(word).into_iter().flatten();
        all.map(|(_, referrer)| referrer.clone()).collect()
    }

    /// Wakes those who refer to this.
    pub fn enqueue_referrers(&self, word: &str) {
        self.enqueue_selected(|inner| {
            let all = inner.references.0.get(word).into_iter().flatten();
            all.map(|(uid, _)| uid.clone()).collect()
        });
    }

    /// Wakes those who refer to anything.
    pub fn enqueue_all_referrers(&self) {
        self.enqueue_selected(|inner| {
            let all = inner.entries.iter();
            let all = all.filter(|(_, entry)| !entry.refers.is_empty());
            all.map(|(uid, _)| uid.clone()).collect()
        });
    }

    fn enqueue_selected(&self, whom: impl FnOnce(&ObjectsInner<K, M>) -> Vec<Uid>) {
        let now = clock::now().mono;
        let mut inner = self.lock();
        for uid in whom(&inner) {
            inner.enqueue_after(&uid, now, Duration::ZERO);
        }
        drop(inner);
        self.changed.notify_one();
    }
}
