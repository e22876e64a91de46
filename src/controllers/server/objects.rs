//! The server objects as this process knows them: stores, marks, and what is remembered of each.

use super::{
    mark::{ClusterId, Mark},
    memory::{Memory, Observation},
};
use crate::{
    account::{AccountKey, Claims},
    controllers::streams::Guarded,
    kinds::{BareMetalServer, references::AccountKind},
};
use kube::{
    ResourceExt as _,
    runtime::reflector::{ObjectRef, Store},
};
use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

/// An object as the watch shows it, decoded or not.
pub type Shown = Guarded<BareMetalServer>;

/// The server objects of all watched namespaces.
pub struct Objects {
    cluster: ClusterId,
    all_namespaces: bool,
    stores: RwLock<Vec<Store<Shown>>>,
    /// Stores whose first listing is still to come.
    unlisted: AtomicUsize,
    remembered: Mutex<HashMap<String, Remembered>>,
    /// Marks of living objects, by which the account wakes them.
    marks: Mutex<HashMap<String, ObjectRef<Shown>>>,
}

#[derive(Default)]
struct Remembered {
    memory: Memory,
    /// The object as this process last read or wrote it; the watch may still show an older one.
    latest: Option<Arc<BareMetalServer>>,
}

impl Objects {
    /// No objects yet. `stores` listings must come in before anything is judged by absence.
    pub fn new(cluster: ClusterId, all_namespaces: bool, stores: usize) -> Self {
        Self {
            cluster,
            all_namespaces,
            stores: RwLock::default(),
            unlisted: AtomicUsize::new(stores),
            remembered: Mutex::default(),
            marks: Mutex::default(),
        }
    }

    /// Adds the store of one watch.
    pub fn add_store(&self, store: Store<Shown>) {
        self.stores
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .push(store);
    }

    /// One of the stores has a listing.
    pub fn listed(&self) {
        // What a last write left behind of an object that is gone by now.
        let living: HashSet<String> = self.state().iter().filter_map(|o| o.uid()).collect();
        lock(&self.remembered).retain(|uid, _| living.contains(uid));
        // Never below zero: later listings of the same store do not count.
        let _ = self
            .unlisted
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |n| n.checked_sub(1));
    }

    /// Whether all stores have had a listing.
    pub fn is_complete(&self) -> bool {
        self.unlisted.load(Ordering::Acquire) == 0
    }

    /// An object was seen. True when it is new.
    pub fn seen(&self, object: &Shown) -> bool {
        self.mark_of(object).is_some_and(|mark| {
            lock(&self.marks)
                .insert(mark.as_str().into(), ObjectRef::from_obj(object))
                .is_none()
        })
    }

    /// An object is gone.
    pub fn gone(&self, object: &Shown) {
        if let Some(mark) = self.mark_of(object) {
            lock(&self.marks).remove(mark.as_str());
        }
        if let Some(uid) = object.uid() {
            lock(&self.remembered).remove(&uid);
        }
    }

    /// The object that bears a mark.
    pub fn by_mark(&self, mark: &str) -> Option<ObjectRef<Shown>> {
        lock(&self.marks).get(mark).cloned()
    }

    /// The objects that name an account.
    pub fn of_account(&self, account: &AccountKey) -> Vec<ObjectRef<Shown>> {
        self.state()
            .iter()
            .filter(|o| uses(o, account))
            .map(|o| ObjectRef::from_obj(&**o))
            .collect()
    }

    /// Whether a living object other than the one with this UID bears the mark; None where that cannot be seen.
    pub fn is_claimed(&self, mark: &Mark, except: &str) -> Option<bool> {
        if !self.all_namespaces || !self.is_complete() {
            return None;
        }
        let holder = self.by_mark(mark.as_str());
        Some(holder.is_some_and(|h| h.extra.uid.as_deref() != Some(except)))
    }

    /// What is remembered of an object.
    pub fn memory(&self, uid: &str) -> Memory {
        lock(&self.remembered)
            .get(uid)
            .map(|r| r.memory.clone())
            .unwrap_or_default()
    }

    /// Changes what is remembered of an object.
    pub fn remember(&self, uid: &str, change: impl FnOnce(&mut Memory)) {
        change(&mut lock(&self.remembered).entry(uid.into()).or_default().memory);
    }

    /// Takes in what came to light of an object.
    pub fn note(&self, uid: &str, observation: Observation, spacing: Duration) {
        self.remember(uid, |memory| memory.note(observation, spacing));
    }

    /// This process read or wrote the object: never go back behind it.
    pub fn keep_latest(&self, mut object: Arc<BareMetalServer>) {
        Arc::make_mut(&mut object).metadata.managed_fields = None;
        let Some(uid) = object.uid() else { return };
        let mut remembered = lock(&self.remembered);
        let entry = remembered.entry(uid).or_default();
        entry.latest = Some(newer(entry.latest.take(), object));
    }

    /// The newest form of an object: what the watch shows, or what this process knows better.
    pub fn newest(&self, shown: &Arc<BareMetalServer>) -> Arc<BareMetalServer> {
        let Some(uid) = shown.uid() else {
            return shown.clone();
        };
        let mut remembered = lock(&self.remembered);
        let Some(entry) = remembered.get_mut(&uid) else {
            return shown.clone();
        };
        let newest = newer(entry.latest.take(), shown.clone());
        // Kept only while the watch is behind; the store holds the rest.
        if version(&newest) > version(shown) {
            entry.latest = Some(newest.clone());
        }
        newest
    }

    fn mark_of(&self, object: &Shown) -> Option<Mark> {
        Some(
            self.cluster
                .object_mark(&object.namespace()?, &object.name_any(), &object.uid()?),
        )
    }

    fn state(&self) -> Vec<Arc<Shown>> {
        self.stores
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
            .flat_map(Store::state)
            .collect()
    }
}

impl Claims for Objects {
    fn marks(&self) -> Option<HashSet<String>> {
        (self.all_namespaces && self.is_complete())
            .then(|| lock(&self.marks).keys().cloned().collect())
    }

    fn users(&self, account: &AccountKey) -> Option<usize> {
        self.is_complete()
            .then(|| self.state().iter().filter(|o| uses(o, account)).count())
    }
}

/// The account that an object names; None where it does not decode.
pub fn account_of(object: &Shown) -> Option<AccountKey> {
    let server = object.0.as_ref().ok()?;
    let reference = server.spec.account_ref.clone().unwrap_or_default();
    let namespaced = reference.kind == AccountKind::ProviderAccount;
    Some(AccountKey {
        kind: reference.kind,
        namespace: object.namespace().filter(|_| namespaced),
        name: reference.name,
    })
}

/// Whether an object names an account; one that does not decode may name any that it could.
fn uses(object: &Shown, account: &AccountKey) -> bool {
    match account_of(object) {
        Some(named) => named == *account,
        None => account.namespace.is_none() || account.namespace == object.namespace(),
    }
}

/// Resource versions are opaque by contract and ordered numbers in fact; one that is no number counts as oldest.
fn version(object: &BareMetalServer) -> u64 {
    object
        .metadata
        .resource_version
        .as_deref()
        .and_then(|v| v.parse().ok())
        .unwrap_or(0)
}

fn newer(known: Option<Arc<BareMetalServer>>, shown: Arc<BareMetalServer>) -> Arc<BareMetalServer> {
    match known {
        Some(known) if version(&known) > version(&shown) => known,
        _ => shown,
    }
}

/// A panic elsewhere does not make plain data wrong.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
