//! Which objects name which account, and which of them to enqueue.

use super::{Objects, ObservedObject, Uid, entry::ObjectEntry};
use crate::{
    account::{EnqueueTarget, Users},
    runtime::clock,
};
use api::Kind;
use flexmetal_core::account::{key::AccountKey, recorded::RecordedResources};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::{collections::HashMap, hash::Hash, sync::Arc};

/// The users of each account. Kept up to date, since every reconcile of an account reads it: with a count over all
/// objects, a tenant with many accounts would slow down all others.
#[derive(Default)]
pub(super) struct UserCounts {
    by_account: HashMap<Arc<AccountKey>, HashMap<Option<Arc<str>>, Number>>,
    /// Undecodable objects by namespace: each may name any account that it could use.
    undecodable: HashMap<Option<String>, usize>,
    all_undecodable: usize,
}

/// Number of objects of one namespace that name an account.
#[derive(Clone, Copy, Default)]
struct Number {
    all: usize,
    /// Those that have something recorded there.
    with_record: usize,
}

/// How an object counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Counted {
    User(AccountUser),
    Undecodable(Option<String>),
}

/// An object that names an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AccountUser {
    pub(super) account: Arc<AccountKey>,
    /// Its own namespace.
    pub(super) namespace: Option<Arc<str>>,
    /// Whether it has something recorded there.
    pub(super) has_record: bool,
}

impl UserCounts {
    /// Adds one object. Returns it with names that all objects of the account share.
    pub(super) fn more(&mut self, counted: Counted) -> Counted {
        match counted {
            Counted::User(user) => {
                let known = self.by_account.get_key_value(&user.account);
                let account = known.map_or(user.account, |(known, _)| known.clone());
                let all = self.by_account.entry(account.clone()).or_default();
                let known = all.get_key_value(&user.namespace);
                let namespace = known.map_or(user.namespace, |(known, _)| known.clone());
                let number = all.entry(namespace.clone()).or_default();
                number.all += 1;
                number.with_record += usize::from(user.has_record);
                Counted::User(AccountUser {
                    account,
                    namespace,
                    ..user
                })
            }
            Counted::Undecodable(namespace) => {
                self.all_undecodable += 1;
                *self.undecodable.entry(namespace.clone()).or_default() += 1;
                Counted::Undecodable(namespace)
            }
        }
    }

    /// Removes one object.
    pub(super) fn less(&mut self, counted: &Counted) {
        match counted {
            Counted::User(user) => {
                let Some(all) = self.by_account.get_mut(&user.account) else {
                    return;
                };
                if let Some(number) = all.get_mut(&user.namespace) {
                    number.all = number.all.saturating_sub(1);
                    let with_record = usize::from(user.has_record);
                    number.with_record = number.with_record.saturating_sub(with_record);
                    if number.all == 0 {
                        all.remove(&user.namespace);
                    }
                }
                if all.is_empty() {
                    self.by_account.remove(&user.account);
                }
            }
            Counted::Undecodable(namespace) => {
                self.all_undecodable = self.all_undecodable.saturating_sub(1);
                less(&mut self.undecodable, namespace);
            }
        }
    }

    /// Number of users: objects in a namespace that the account serves, or with something recorded there.
    fn count_users(&self, account: &AccountKey, serves: &dyn Fn(&str) -> bool) -> usize {
        let named = self.by_account.get(account).into_iter().flatten();
        let named: usize = named
            .map(
                |(namespace, number)| match namespace.as_deref().is_none_or(serves) {
                    true => number.all,
                    false => number.with_record,
                },
            )
            .sum();
        let perhaps = match &account.namespace {
            None => self.all_undecodable,
            namespace => self.undecodable.get(namespace).copied().unwrap_or_default(),
        };
        named + perhaps
    }
}

/// Namespace and name of an object, for messages.
fn display_name(meta: &ObjectMeta) -> String {
    let name = meta.name.as_deref().unwrap_or_default();
    match &meta.namespace {
        Some(namespace) => format!("{namespace}/{name}"),
        None => name.to_owned(),
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

impl<K, M> ObjectEntry<K, M> {
    /// The account that the object names, if the object decodes.
    pub(super) fn account(&self) -> Option<AccountKey> {
        self.names().cloned()
    }

    /// Whether it uses the account, or may use it because it does not decode.
    fn uses(&self, account: &AccountKey, serves: &dyn Fn(&str) -> bool) -> bool {
        match &self.counted {
            Some(Counted::User(user)) if *user.account == *account => {
                user.has_record || user.namespace.as_deref().is_none_or(serves)
            }
            Some(Counted::Undecodable(namespace)) => {
                account.namespace.is_none() || account.namespace == *namespace
            }
            _ => false,
        }
    }

    /// Whether it is in this namespace.
    fn is_in(&self, namespace: &str) -> bool {
        match &self.counted {
            Some(Counted::User(user)) => user.namespace.as_deref() == Some(namespace),
            _ => false,
        }
    }

    fn names(&self) -> Option<&AccountKey> {
        match &self.counted {
            Some(Counted::User(user)) => Some(&user.account),
            _ => None,
        }
    }
}

impl<K: Kind, M: Clone + Default + Send> Objects<K, M> {
    /// The account that an object names, if the object decodes.
    pub fn account(&self, uid: &str) -> Option<AccountKey> {
        self.lock().entries.get(uid)?.account()
    }

    /// The object with this alias, and the account that it names.
    pub fn named_by_alias(&self, alias: &str) -> Option<(Uid, Option<AccountKey>)> {
        let inner = self.lock();
        let uid = inner.aliases.get(alias)?.clone();
        let account = inner.entries.get(&uid)?.names().cloned();
        Some((uid, account))
    }

    /// The namespace of the object with this alias.
    pub fn namespace_by_alias(&self, alias: &str) -> Option<String> {
        let inner = self.lock();
        let uid = inner.aliases.get(alias)?;
        match inner.entries.get(uid)?.counted.as_ref()? {
            Counted::User(user) => user.namespace.as_deref().map(str::to_owned),
            Counted::Undecodable(namespace) => namespace.clone(),
        }
    }

    /// Whether an object has something recorded at its account, by fields that only the operator writes.
    pub fn has_record(&self, object: &K) -> bool {
        let mut all = RecordedResources::default();
        if let Some(on_record) = &self.options.on_record {
            on_record(object, &mut all);
        }
        all != RecordedResources::default() || (self.options.has_record)(object)
    }
}

impl<K: Kind, M: Clone + Default + Send> Users for Objects<K, M> {
    /// An undecodable object counts for every account that it could name.
    fn count(&self, account: &AccountKey, serves: &dyn Fn(&str) -> bool) -> Option<usize> {
        if self.options.account_of.is_none() {
            return Some(0);
        }
        self.is_complete()
            .then(|| self.lock().users.count_users(account, serves))
    }

    fn kind(&self) -> String {
        K::kind(&()).into_owned()
    }

    fn names(&self, account: &AccountKey, serves: &dyn Fn(&str) -> bool) -> Vec<String> {
        let forms: Vec<_> = {
            let inner = self.lock();
            let users = inner.entries.values();
            let users = users.filter(|entry| !entry.gone && entry.uses(account, serves));
            users.map(|entry| entry.form.clone()).collect()
        };
        // Outside the lock: decoding takes time.
        forms
            .iter()
            .map(|form| display_name(&form.meta()))
            .collect()
    }

    fn recorded_resources(&self, account: &AccountKey) -> Option<RecordedResources> {
        let mut all = RecordedResources::default();
        let Some(on_record) = &self.options.on_record else {
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
        // Outside the lock: decoding takes time.
        for form in forms {
            if let ObservedObject::Decoded(object) = form.unpack() {
                on_record(&object, &mut all);
            }
        }
        Some(all)
    }

    fn enqueue(&self, target: &EnqueueTarget) {
        let uids: Vec<Uid> = match target {
            EnqueueTarget::Object(uid) => vec![uid.as_str().into()],
            EnqueueTarget::NameHash(hash) => self.by_alias(hash).into_iter().collect(),
            EnqueueTarget::List(_, list) if !self.options.lists.contains(list) => return,
            EnqueueTarget::Namespace(namespace) => {
                let inner = self.lock();
                let all = inner.entries.iter();
                let all = all.filter(|(_, entry)| entry.is_in(namespace));
                all.map(|(uid, _)| uid.clone()).collect()
            }
            EnqueueTarget::Account(account) | EnqueueTarget::List(account, _) => {
                let inner = self.lock();
                let all = inner.entries.iter();
                let all = all.filter(|(_, entry)| entry.names() == Some(account));
                all.map(|(uid, _)| uid.clone()).collect()
            }
        };
        let now = clock::now().mono;
        let mut inner = self.lock();
        for uid in &uids {
            inner.enqueue_after(uid, now, self.options.debounce);
            // Its permit expires soon.
            if matches!(target, EnqueueTarget::Object(_)) {
                inner.prioritise_object(uid);
            }
        }
        drop(inner);
        self.changed.notify_one();
    }
}
