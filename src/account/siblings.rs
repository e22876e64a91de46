//! Account objects with the same URL and key: at the provider they are one account, whether or not they stand on one
//! live account here.

use flexmetal_core::account::key::AccountKey;
use hosting_types::{ApiKey, BaseUrl};
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

/// Whether any of these is one of the others.
fn are_same(one: &[Destination], other: &[Destination]) -> bool {
    one.iter().any(|a| other.iter().any(|b| a.is_same_as(b)))
}

/// Where every account object leads to, and what was known to be the same account before. A clone is the same.
#[derive(Clone, Default)]
pub(crate) struct Siblings(Arc<Mutex<HashMap<AccountKey, Vec<Destination>>>>);

/// Most destinations that are remembered of one account object, the last ones.
const MOST: usize = 4;

impl Siblings {
    /// The account object leads there from here on.
    pub(crate) fn note(&self, key: &AccountKey, destination: Destination) {
        let mut all = self.lock();
        let known = all.entry(key.clone()).or_default();
        // The same again forgets none of those that are known to be the same account.
        if !known.iter().any(|other| other.is_same_as(&destination)) {
            *known = vec![destination];
        }
    }

    /// The account object leads there from here on, and that is known to be the account that it led to before.
    pub(crate) fn note_another(&self, key: &AccountKey, destination: Destination) {
        let mut all = self.lock();
        let known = all.entry(key.clone()).or_default();
        known.retain(|other| !other.is_same_as(&destination));
        known.push(destination);
        let beyond = known.len().saturating_sub(MOST);
        known.drain(..beyond);
    }

    /// The account object is gone.
    pub(crate) fn forget(&self, key: &AccountKey) {
        self.lock().remove(key);
    }

    /// All that lead to where this one does, itself included.
    pub(crate) fn of(&self, key: &AccountKey) -> Vec<AccountKey> {
        let all = self.lock();
        let own = all.get(key);
        let is_same = |other: &Vec<Destination>| own.is_some_and(|own| are_same(own, other));
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
        one == other || both.is_some_and(|(one, other)| are_same(one, other))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<AccountKey, Vec<Destination>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
