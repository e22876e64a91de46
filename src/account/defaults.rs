//! Which account an object uses that names none: the ProviderAccount `default` of its namespace, or else the account of
//! the cluster that is marked as the default.
//!
//! What stands here is what watches show, and only chooses. Before an object is bound to a choice, its controller reads
//! both accounts live.

use super::{Account, Accounts};
use crate::runtime::clock;
use api::references::{AccountKind, PinnedAccount};
use flexmetal_core::account::{key::AccountKey, terms::Terms};
use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

/// Who knows whether every account object is known.
pub trait Listing: Send + Sync {
    /// Whether the first listings of both kinds are in, and their watches hear something: only then an account that is
    /// not shown is not there.
    fn is_known(&self) -> bool;
}

/// What an object uses that names no account.
pub enum Choice {
    /// The ProviderAccount `default` of its namespace, also one that is being deleted.
    Own,
    /// Nobody can say yet. Says why.
    Unknown(String),
    /// No account of the cluster is a default for the namespace.
    Nothing,
    /// This account of the cluster.
    One {
        /// The account.
        account: Account,
        /// Since when the namespace is known to have none of its own.
        missed_since: Duration,
    },
    /// Several accounts of the cluster are defaults for the namespace: none of them is used.
    Several(Vec<AccountKey>),
}

/// What is remembered beside the accounts themselves.
#[derive(Default)]
pub(super) struct Defaults {
    listing: OnceLock<Arc<dyn Listing>>,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    /// The accounts of the cluster that are marked, by name and UID.
    marked: HashMap<AccountKey, String>,
    /// Since when a namespace was seen to have no default of its own.
    missed: HashMap<String, Duration>,
    /// The UIDs of the objects that wait for an account to stand in.
    waiting: HashSet<String>,
}

impl Defaults {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_known(&self) -> bool {
        self.listing.get().is_some_and(|listing| listing.is_known())
    }

    /// Who waited. Each is named once: whoever still waits after its next pass is noted again.
    pub(super) fn take_waiting(&self) -> HashSet<String> {
        std::mem::take(&mut self.seen().waiting)
    }

    /// An object is gone.
    pub(super) fn forget(&self, uid: &str) {
        self.seen().waiting.remove(uid);
    }

    /// An account object appeared: its namespace has a default of its own, if it is that.
    pub(super) fn appeared(&self, key: &AccountKey) {
        if let Some(namespace) = key.namespace.as_deref().filter(|_| is_own_default(key)) {
            self.seen().missed.remove(namespace);
        }
    }

    /// An account object is gone. Returns whether it was marked.
    pub(super) fn vanished(&self, key: &AccountKey, uid: &str) -> bool {
        let mut seen = self.seen();
        let was_marked = seen.marked.get(key).is_some_and(|of| of == uid);
        if was_marked {
            seen.marked.remove(key);
        }
        was_marked
    }

    pub(super) fn is_marked(&self, key: &AccountKey) -> bool {
        self.seen().marked.contains_key(key)
    }
}

impl Accounts {
    /// Says who knows whether every account object is known. Until then no account of the cluster stands in. Only the
    /// first call counts.
    pub fn set_listing(&self, listing: Arc<dyn Listing>) {
        let _ = self.defaults().listing.set(listing);
    }

    /// Whether an account of the cluster is marked as the default, as its object shows now.
    pub fn note_default(&self, key: &AccountKey, uid: &str, is_marked: bool) {
        if key.kind != AccountKind::ClusterProviderAccount {
            return;
        }
        let mut seen = self.defaults().seen();
        let before = match is_marked {
            true => seen.marked.insert(key.clone(), uid.to_owned()),
            false => seen.marked.remove(key),
        };
        drop(seen);
        if before.is_some() != is_marked {
            self.wake_waiting();
        }
    }

    /// Those who wait for an account to stand in look again.
    pub(super) fn wake_waiting(&self) {
        let waiting = self.defaults().take_waiting();
        self.audience().wake_objects(waiting);
    }

    /// What the object of this UID uses, which names no account. While nothing is found it is woken when that may have
    /// changed.
    pub fn default_for(&self, namespace: &str, uid: &str) -> Choice {
        // Before anything is looked at: what changes from here on wakes it.
        self.defaults().seen().waiting.insert(uid.to_owned());
        let choice = self.choose(namespace);
        if matches!(choice, Choice::Own) {
            let mut seen = self.defaults().seen();
            seen.waiting.remove(uid);
            seen.missed.remove(namespace);
        }
        choice
    }

    /// The object uses an account from here on, or ends.
    pub fn waits_no_more(&self, uid: &str) {
        self.defaults().forget(uid);
    }

    fn choose(&self, namespace: &str) -> Choice {
        let own = AccountKey::of(&PinnedAccount::of(None), namespace);
        if self.get(&own).is_some() {
            return Choice::Own;
        }
        if !self.defaults().is_known() {
            return Choice::Unknown("the accounts are not all known yet".into());
        }
        let now = clock::now().mono;
        let (missed_since, marked) = {
            let mut seen = self.defaults().seen();
            let since = *seen.missed.entry(namespace.to_owned()).or_insert(now);
            let marked: Vec<AccountKey> = seen.marked.keys().cloned().collect();
            (since, marked)
        };
        let marked = marked.iter().filter_map(|key| self.get(key));
        let of = marked.map(|account| (account.terms(namespace), account));
        let (mut serving, mut unknown) = (Vec::new(), None);
        for (terms, account) in of {
            match terms {
                Terms::Own | Terms::Entry(_) => serving.push(account),
                Terms::Unknown(why) => unknown = Some(why),
                // It is none for this namespace.
                Terms::Refused(_) => {}
            }
        }
        if serving.len() > 1 {
            let mut keys: Vec<_> = serving.iter().map(|a| a.key().clone()).collect();
            keys.sort_unstable();
            return Choice::Several(keys);
        }
        match (unknown, serving.pop()) {
            // It may be the one, or one too many.
            (Some(why), _) => Choice::Unknown(why),
            (None, Some(account)) => Choice::One {
                account,
                missed_since,
            },
            (None, None) => Choice::Nothing,
        }
    }
}

/// Whether this is the name of what objects of its namespace use that name none.
fn is_own_default(key: &AccountKey) -> bool {
    let PinnedAccount { kind, name } = PinnedAccount::of(None);
    key.kind == kind && key.name == name
}
