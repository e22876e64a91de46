//! Which objects name which account, and who of them is woken.

use super::{Objects, Shown, Uid, entry::Entry};
use crate::{
    account::{AccountKey, OnRecord, Users, Wake},
    kinds::Kind,
    runtime::clock,
};
use std::{collections::HashMap, hash::Hash, sync::Arc};

/// Who names which account. Kept, since every pass over an account asks: a count over all objects
/// would let one tenant's many accounts hold up everybody.
#[derive(Default)]
pub(super) struct Counts {
    by_account: HashMap<Arc<AccountKey>, usize>,
    /// Objects that do not decode, by namespace: each may name any account that it could.
    undecodable: HashMap<Option<String>, usize>,
    all_undecodable: usize,
}

/// What an object counts as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Counted {
    User(Arc<AccountKey>),
    Undecodable(Option<String>),
}

impl Counts {
    /// One more of them. Returns the same, with a name that all objects of the account share.
    pub(super) fn more(&mut self, counted: Counted) -> Counted {
        match counted {
            Counted::User(account) => {
                let known = self.by_account.get_key_value(&account);
                let account = known.map_or(account, |(known, _)| known.clone());
                *self.by_account.entry(account.clone()).or_default() += 1;
                Counted::User(account)
            }
            Counted::Undecodable(namespace) => {
                self.all_undecodable += 1;
                *self.undecodable.entry(namespace.clone()).or_default() += 1;
                Counted::Undecodable(namespace)
            }
        }
    }

    /// One less of them.
    pub(super) fn less(&mut self, counted: &Counted) {
        match counted {
            Counted::User(account) => less(&mut self.by_account, account),
            Counted::Undecodable(namespace) => {
                self.all_undecodable = self.all_undecodable.saturating_sub(1);
                less(&mut self.undecodable, namespace);
            }
        }
    }

    fn of(&self, account: &AccountKey) -> usize {
        let named = self.by_account.get(account).copied().unwrap_or_default();
        let perhaps = match &account.namespace {
            None => self.all_undecodable,
            namespace => self.undecodable.get(namespace).copied().unwrap_or_default(),
        };
        named + perhaps
    }
}

fn less<T: Eq + Hash>(counts: &mut HashMap<T, usize>, what: &T) {
    if let Some(count) = counts.get_mut(what) {
        *count = count.saturating_sub(1);
        if *count == 0 {
            counts.remove(what);
        }
    }
}

impl<K, M> Entry<K, M> {
    /// The account that the object names, where it can be read.
    pub(super) fn account(&self) -> Option<AccountKey> {
        self.names().cloned()
    }

    fn names(&self) -> Option<&AccountKey> {
        match &self.counted {
            Some(Counted::User(account)) => Some(account),
            _ => None,
        }
    }
}

impl<K: Kind, M: Clone + Default + Send> Objects<K, M> {
    /// The object with this second name, and the account that it names.
    pub fn named_by_alias(&self, alias: &str) -> Option<(Uid, Option<AccountKey>)> {
        let inner = self.lock();
        let uid = inner.aliases.get(alias)?.clone();
        let account = inner.entries.get(&uid)?.names().cloned();
        Some((uid, account))
    }
}

impl<K: Kind, M: Clone + Default + Send> Users for Objects<K, M> {
    /// An object that does not decode may name any account that it could, and counts for each.
    fn count(&self, account: &AccountKey) -> Option<usize> {
        if self.traits.account_of.is_none() {
            return Some(0);
        }
        self.is_complete().then(|| self.lock().users.of(account))
    }

    fn on_record(&self, account: &AccountKey) -> Option<OnRecord> {
        let mut all = OnRecord::default();
        let Some(on_record) = &self.traits.on_record else {
            return Some(all);
        };
        if !self.is_complete() {
            return None;
        }
        let forms: Vec<_> = {
            let inner = self.lock();
            let entries = inner.entries.values().filter(|e| !e.gone);
            let entries = entries.filter(|entry| entry.names() == Some(account));
            entries.map(|entry| entry.form.clone()).collect()
        };
        // Not under the lock: to decode them takes a while.
        for form in forms {
            if let Shown::Decoded(object) = form.shown() {
                on_record(&object, &mut all);
            }
        }
        Some(all)
    }

    fn wake(&self, wake: &Wake) {
        let uids: Vec<Uid> = match wake {
            Wake::Object(uid) => vec![uid.as_str().into()],
            Wake::Mark(mark) => self.by_alias(mark).into_iter().collect(),
            Wake::List(_, list) if !self.traits.lists.contains(list) => return,
            Wake::Account(account) | Wake::List(account, _) => {
                let inner = self.lock();
                let all = inner.entries.iter();
                let all = all.filter(|(_, entry)| entry.names() == Some(account));
                all.map(|(uid, _)| uid.clone()).collect()
            }
        };
        let now = clock::now().mono;
        let mut inner = self.lock();
        for uid in &uids {
            inner.want(uid, now, self.traits.together);
            // What it was granted lapses soon.
            if matches!(wake, Wake::Object(_)) {
                inner.goes_next(uid);
            }
        }
        drop(inner);
        self.changed.notify_one();
    }
}
