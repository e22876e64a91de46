//! Which objects name which account, and who of them is woken.

use super::{Objects, Uid, entry::Entry};
use crate::{
    account::{AccountKey, Users, Wake},
    kinds::Kind,
    runtime::clock,
};
use std::collections::HashMap;

/// Who names which account. Kept, since every pass over an account asks: a count over all objects
/// would let one tenant's many accounts hold up everybody.
#[derive(Default)]
pub(super) struct Counts {
    by_account: HashMap<AccountKey, usize>,
    /// Objects that do not decode, by namespace: each may name any account that it could.
    undecodable: HashMap<Option<String>, usize>,
    all_undecodable: usize,
}

/// What an object counts as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Counted {
    User(AccountKey),
    Undecodable(Option<String>),
}

impl Counts {
    pub(super) fn change(&mut self, counted: &Counted, is_more: bool) {
        let count = match counted {
            Counted::User(account) => self.by_account.entry(account.clone()).or_default(),
            Counted::Undecodable(namespace) => {
                step(&mut self.all_undecodable, is_more);
                self.undecodable.entry(namespace.clone()).or_default()
            }
        };
        step(count, is_more);
        if *count == 0 {
            match counted {
                Counted::User(account) => drop(self.by_account.remove(account)),
                Counted::Undecodable(namespace) => drop(self.undecodable.remove(namespace)),
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

fn step(count: &mut usize, is_more: bool) {
    *count = if is_more {
        *count + 1
    } else {
        count.saturating_sub(1)
    };
}

impl<K: Kind, M: Clone + Default + Send> Users for Objects<K, M> {
    /// An object that does not decode may name any account that it could, and counts for each.
    fn count(&self, account: &AccountKey) -> Option<usize> {
        if self.traits.account_of.is_none() {
            return Some(0);
        }
        self.is_complete().then(|| self.lock().users.of(account))
    }

    fn wake(&self, wake: &Wake) {
        let uids: Vec<Uid> = match wake {
            Wake::Object(uid) => vec![uid.as_str().into()],
            Wake::Mark(mark) => self.by_alias(mark).into_iter().collect(),
            Wake::List(_, list) if !self.traits.lists.contains(list) => return,
            Wake::Account(account) | Wake::List(account, _) => {
                let inner = self.lock();
                let of_it = |e: &Entry<K, M>| self.account_of(&e.shown).as_ref() == Some(account);
                let all = inner.entries.iter().filter(|(_, entry)| of_it(entry));
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
