//! Account objects with the same URL and key: at the provider they are one account, whether or not they stand on one
//! live account here.

use super::AccountKey;
use hosting::{ApiKey, BaseUrl};
use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Where a connection leads.
#[derive(Clone)]
pub(crate) struct Destination {
    pub(crate) base_url: BaseUrl,
    pub(crate) key: ApiKey,
}

impl Destination {
    fn is_same_as(&self, other: &Self) -> bool {
        self.base_url == other.base_url && self.key.is_same_as(&other.key)
    }
}

/// Where every account object leads to. A clone is the same.
#[derive(Clone, Default)]
pub(crate) struct Siblings(Arc<Mutex<HashMap<AccountKey, Destination>>>);

impl Siblings {
    /// The account object leads there from here on.
    pub(crate) fn note(&self, key: &AccountKey, destination: Destination) {
        self.lock().insert(key.clone(), destination);
    }

    /// The account object is gone.
    pub(crate) fn forget(&self, key: &AccountKey) {
        self.lock().remove(key);
    }

    /// All that lead to where this one does, itself included.
    pub(crate) fn of(&self, key: &AccountKey) -> Vec<AccountKey> {
        let all = self.lock();
        let own = all.get(key);
        let is_same = |other: &Destination| own.is_some_and(|own| own.is_same_as(other));
        let same = all.iter().filter(|(_, other)| is_same(other));
        let mut names: Vec<AccountKey> = same.map(|(name, _)| name.clone()).collect();
        if !names.contains(key) {
            names.push(key.clone());
        }
        names
    }

    /// All that lead to where these do, these included. They share a live account, so the first one tells of all
    /// but those that have just left it.
    pub(crate) fn of_all(&self, keys: &[AccountKey]) -> HashSet<AccountKey> {
        let mut found = HashSet::new();
        for key in keys {
            if !found.contains(key) {
                found.extend(self.of(key));
            }
        }
        found
    }

    /// Whether two names lead to the same account.
    pub(crate) fn are_same(&self, one: &AccountKey, other: &AccountKey) -> bool {
        let all = self.lock();
        let both = all.get(one).zip(all.get(other));
        one == other || both.is_some_and(|(one, other)| one.is_same_as(other))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<AccountKey, Destination>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
