//! The objects of a kind as this process knows them: one entry an object, with its newest form,
//! what is remembered of it, and when it gets its next pass.
//!
//! Passes start first come, first served. An object never has two passes at once; a wake during
//! a pass leads to another pass after it.

mod claims;
mod enqueue;
mod entry;
mod listings;
mod packed_object;
mod queues;
mod references;
mod reports;
mod schedule;
#[cfg(test)]
mod tests;
mod users;

pub use entry::ObservedObject;
pub use listings::FirstObservation;
pub(in crate::controllers) use packed_object::{slim, slim_but_labels};
pub use queues::QueueRequest;
pub use references::{ReferenceKeys, Referrer};
pub(in crate::controllers) use reports::FailedStatusWrite;
pub use schedule::{Calling, WorkItem, WorkItemResult};

use super::streams::{self, Guarded};
use crate::runtime::clock;
use api::Kind;
use claims::{ClaimIndex, ObjectClaim};
use entry::ObjectEntry;
use flexmetal_core::account::{key::AccountKey, on_record::OnRecord, view::ListKind};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource as _, runtime::watcher::Event};
use listings::WatchListing;
use packed_object::{PackedObject, version};
use queues::Queues;
use references::References;
use std::{
    collections::{BTreeSet, HashMap, HashSet, VecDeque, hash_map::DefaultHasher},
    hash::Hash as _,
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::AtomicUsize},
    time::Duration,
};
use tokio::sync::{Notify, watch};
use users::{AccountUser, Counted, UserCounts};

/// UID of an object.
pub type Uid = Arc<str>;

/// Gives an object's second name.
pub type AliasOf = Box<dyn Fn(&ObjectMeta) -> Option<String> + Send + Sync>;
/// Adds what an object has on record at its account.
pub type RecordOf<K> = Box<dyn Fn(&K, &mut OnRecord) + Send + Sync>;
/// Hears of an object that is new.
pub type OnFirstObservation<K> = Box<dyn Fn(&ObservedObject<K>) + Send + Sync>;

/// What the entries of a kind depend on.
pub struct KindOptions<K> {
    /// The account that an object uses; None for a kind that uses none. An object that uses none yet says None, too.
    pub account_of: Option<fn(&K) -> Option<AccountKey>>,
    /// What of its account an object wants for itself; None for a kind whose objects are never in each other's way.
    pub claim: Option<fn(&K) -> Option<String>>,
    /// The row in which an object waits for its turn; None for a kind whose objects do not wait for each other.
    pub queue_request: Option<fn(&K) -> Option<QueueRequest>>,
    /// Adds what an object has on record at its account; None for a kind that has nothing there.
    pub on_record: Option<RecordOf<K>>,
    /// Whether an object has something of its own at its account on record, for a kind that has no machine there. Read
    /// from what only the operator writes.
    pub has_record: fn(&K) -> bool,
    /// A second name by which an object is woken and claimed, such as its mark.
    pub alias: AliasOf,
    /// Called when an object is shown for the first time, before its first pass.
    pub on_first_observation: OnFirstObservation<K>,
    /// What an object refers to, as words; None for a kind that refers to nothing.
    pub refers: Option<fn(&K) -> ReferenceKeys>,
    /// What of an object triggers a pass, besides all that people say by it.
    pub triggers: fn(&K, &mut DefaultHasher),
    /// The lists of an account whose change concerns every object of it.
    pub lists: &'static [ListKind],
    /// How long a wake waits for others that come together with it.
    pub debounce: Duration,
}

impl<K> Default for KindOptions<K> {
    fn default() -> Self {
        Self {
            account_of: None,
            claim: None,
            queue_request: None,
            on_record: None,
            has_record: |_| false,
            alias: Box::new(|_| None),
            on_first_observation: Box::new(|_| ()),
            refers: None,
            triggers: |_, _| (),
            lists: &[],
            debounce: Duration::ZERO,
        }
    }
}

/// The objects of a kind, in all watched namespaces.
pub struct Objects<K: Kind, M> {
    traits: KindOptions<K>,
    inner: Mutex<ObjectsInner<K, M>>,
    /// There may be a pass to start.
    changed: Notify,
    complete: watch::Sender<bool>,
    /// Counts the wishes for fresh listings.
    relists: watch::Sender<u64>,
    /// Passes that wait for an answer of the provider.
    calling: AtomicUsize,
}

struct ObjectsInner<K: Kind, M> {
    /// Each in a box: a table has room for twice as many as it holds.
    entries: HashMap<Uid, Box<ObjectEntry<K, M>>>,
    aliases: HashMap<Arc<str>, Uid>,
    /// Who gets a pass next.
    queue: VecDeque<Uid>,
    /// Who gets one at which moment, unless woken before.
    due: BTreeSet<(Duration, Uid)>,
    listings: Vec<WatchListing>,
    users: UserCounts,
    claims: ClaimIndex,
    references: References,
    queues: Queues,
}

impl<K: Kind, M: Clone + Default + Send> Objects<K, M> {
    /// No objects yet. So many watches have to list theirs before anything is judged by absence.
    pub fn new(traits: KindOptions<K>, watches: usize) -> Self {
        Self {
            traits,
            inner: Mutex::new(ObjectsInner {
                entries: HashMap::new(),
                aliases: HashMap::new(),
                queue: VecDeque::new(),
                due: BTreeSet::new(),
                listings: vec![WatchListing::default(); watches],
                users: UserCounts::default(),
                claims: ClaimIndex::default(),
                references: References::default(),
                queues: Queues::default(),
            }),
            changed: Notify::new(),
            complete: watch::Sender::new(false),
            relists: watch::Sender::new(0),
            calling: AtomicUsize::new(0),
        }
    }

    /// Takes in what a watch shows. Returns the accounts that have one user more or less now.
    pub fn apply_event(&self, watch: usize, event: Event<Guarded<K>>) -> BTreeSet<AccountKey> {
        let now = clock::now().mono;
        let mut touched = BTreeSet::new();
        let mut new = None;
        {
            let mut inner = self.lock();
            // A listing that begins is no answer yet.
            if !matches!(event, Event::Init) {
                inner.listings[watch].is_stale = false;
            }
            match event {
                Event::Init => {
                    let listing = &mut inner.listings[watch];
                    listing.number += 1;
                    listing.started = now;
                }
                Event::InitApply(object) => {
                    new = self.upsert_object(&mut inner, watch, true, object, &mut touched);
                }
                Event::Apply(object) => {
                    new = self.upsert_object(&mut inner, watch, false, object, &mut touched);
                }
                Event::Delete(object) => {
                    let uid = object.meta().uid.clone().unwrap_or_default();
                    self.remove_object(&mut inner, &uid, &mut touched);
                }
                Event::InitDone => {
                    let number = inner.listings[watch].number;
                    let is_missing =
                        |e: &ObjectEntry<K, M>| e.watch == watch && e.listing != number && !e.gone;
                    let missing: Vec<Uid> = inner
                        .entries
                        .iter()
                        .filter(|(_, entry)| is_missing(entry))
                        .map(|(uid, _)| uid.clone())
                        .collect();
                    for uid in missing {
                        self.remove_object(&mut inner, &uid, &mut touched);
                    }
                    let listing = &mut inner.listings[watch];
                    listing.completed = Some(listing.started);
                    if inner.listings.iter().all(|l| l.completed.is_some()) {
                        self.complete.send_replace(true);
                    }
                }
            }
        }
        // Not under the lock: the callee may wake objects.
        if let Some(new) = new {
            (self.traits.on_first_observation)(&new);
        }
        self.changed.notify_one();
        touched
    }

    /// Returns the object where it is new.
    fn upsert_object(
        &self,
        inner: &mut ObjectsInner<K, M>,
        watch: usize,
        listed: bool,
        object: Guarded<K>,
        touched: &mut BTreeSet<AccountKey>,
    ) -> Option<ObservedObject<K>> {
        let shown = ObservedObject::from_guarded(object);
        let uid = shown.meta().uid.as_deref().map(Uid::from)?;
        let triggers = match &shown {
            ObservedObject::Decoded(object) => {
                streams::triggers(object.meta(), |hash| (self.traits.triggers)(object, hash))
            }
            // Whether it decodes is a part of it: a repair of the status alone counts too.
            ObservedObject::Undecodable(object) => {
                streams::triggers(&object.metadata, |hash| "undecodable".hash(hash))
            }
        };
        let counted = self.counted(&shown);
        let claim = self.claim(&shown);
        let refers = self.refers(&shown);
        let standing = self.queue_position(&shown);
        let listing = inner.listings[watch];
        let alias = (self.traits.alias)(shown.meta()).map(Arc::from);
        let now = clock::now().mono;
        let Some(entry) = inner.entries.get_mut(&uid) else {
            let sight = FirstObservation {
                first_seen: now,
                absent_from: listing.completed,
            };
            let mut entry =
                ObjectEntry::new(PackedObject::from_observed(&shown), watch, triggers, sight);
            entry.listing = listing.number;
            entry.alias.clone_from(&alias);
            entry.counted = counted.map(|counted| inner.users.more(counted));
            touched.extend(entry.account());
            inner.entries.insert(uid.clone(), Box::new(entry));
            inner
                .aliases
                .extend(alias.map(|alias| (alias, uid.clone())));
            inner.enqueue_after(&uid, now, Duration::ZERO);
            inner.claim(&uid, claim);
            inner.enter_queue(&uid, standing);
            inner.refer(&uid, refers, shown.meta());
            return Some(shown);
        };
        if listed && entry.watch == watch {
            entry.listing = listing.number;
        }
        // Shown again, though it was gone: the API server was restored. It lives.
        let is_back = std::mem::replace(&mut entry.gone, false);
        if is_back {
            entry.alias.clone_from(&alias);
            entry.triggers = triggers;
            inner
                .aliases
                .extend(alias.map(|alias| (alias, uid.clone())));
        }
        // This process may know the object better than its watch does. A listing that started
        // after it was last read or written is newer all the same, whatever its number says: then
        // the API server was restored.
        let is_authoritative = listed && listing.started > entry.learned;
        let is_newer = is_back || version(shown.meta()) >= entry.form.version() || is_authoritative;
        if is_newer {
            entry.form = PackedObject::from_observed(&shown);
            entry.learned = now;
            if is_back || entry.counted != counted {
                touched.extend(entry.account());
                // Of one that was gone nothing was counted any more.
                if let Some(before) = entry.counted.take().filter(|_| !is_back) {
                    inner.users.less(&before);
                }
                entry.counted = counted.map(|counted| inner.users.more(counted));
                touched.extend(entry.account());
            }
        }
        let entry = inner.entries.get_mut(&uid)?;
        if std::mem::replace(&mut entry.triggers, triggers) != triggers || is_back {
            inner.enqueue_after(&uid, now, Duration::ZERO);
        }
        if is_newer {
            inner.claim(&uid, claim);
            inner.enter_queue(&uid, standing);
            inner.refer(&uid, refers, shown.meta());
        }
        None
    }

    fn remove_object(
        &self,
        inner: &mut ObjectsInner<K, M>,
        uid: &str,
        touched: &mut BTreeSet<AccountKey>,
    ) {
        let Some(entry) = inner.entries.get_mut(uid).filter(|e| !e.gone) else {
            return;
        };
        entry.gone = true;
        touched.extend(entry.account());
        if let Some(counted) = &entry.counted {
            inner.users.less(counted);
        }
        // In a listing, an object that follows another under its name may be shown before that one is missed.
        if let Some(alias) = entry.alias.take()
            && inner.aliases.get(&alias).is_some_and(|of| **of == *uid)
        {
            inner.aliases.remove(&alias);
        }
        inner.enqueue_gone(uid);
        inner.claim(uid, None);
        inner.enter_queue(uid, None);
        inner.refer(uid, ReferenceKeys::new(), &ObjectMeta::default());
    }

    /// What an object claims.
    fn claim(&self, shown: &ObservedObject<K>) -> Option<ObjectClaim> {
        let (claim, account_of) = (self.traits.claim?, self.traits.account_of?);
        let ObservedObject::Decoded(object) = shown else {
            return None;
        };
        Some(ObjectClaim::new(
            claim(object)?,
            account_of(object)?,
            object.meta(),
        ))
    }

    /// What an object counts as among the users of accounts.
    fn counted(&self, shown: &ObservedObject<K>) -> Option<Counted> {
        let account_of = self.traits.account_of?;
        Some(match shown {
            ObservedObject::Decoded(object) => Counted::User(AccountUser {
                account: Arc::new(account_of(object)?),
                namespace: object.meta().namespace.as_deref().map(Arc::from),
                has_record: self.has_record(object),
            }),
            ObservedObject::Undecodable(object) => {
                Counted::Undecodable(object.metadata.namespace.clone())
            }
        })
    }

    /// Whether all watches have had a listing.
    pub fn is_complete(&self) -> bool {
        *self.complete.borrow()
    }

    /// Whether all watches have had a listing, and every one hears something.
    pub fn is_ready(&self) -> bool {
        self.is_complete() && !self.is_stale()
    }

    /// Waits until all watches have had a listing.
    pub async fn completed(&self) {
        // The sender lives as long as `self`.
        let _ = self.complete.subscribe().wait_for(|done| *done).await;
    }

    /// The second names of all objects, those that are being deleted included.
    pub fn aliases(&self) -> HashSet<String> {
        let inner = self.lock();
        inner.aliases.keys().map(|alias| (**alias).into()).collect()
    }

    /// The UID of the object with this second name.
    pub fn by_alias(&self, alias: &str) -> Option<Uid> {
        self.lock().aliases.get(alias).cloned()
    }

    /// All objects that can be read.
    pub fn decoded(&self) -> Vec<Arc<K>> {
        let forms: Vec<_> = {
            let inner = self.lock();
            let entries = inner.entries.values().filter(|entry| !entry.gone);
            entries.map(|entry| entry.form.clone()).collect()
        };
        // Not under the lock: to decode them takes a while.
        let decoded = forms.iter().filter_map(|form| match form.shown() {
            ObservedObject::Decoded(object) => Some(object),
            ObservedObject::Undecodable(_) => None,
        });
        decoded.collect()
    }

    /// The newest form of an object: what the watch shows, or what this process knows better.
    /// None when it is gone.
    pub fn newest(&self, uid: &str) -> Option<ObservedObject<K>> {
        let inner = self.lock();
        let entry = inner.entries.get(uid).filter(|e| !e.gone)?;
        let form = entry.form.clone();
        // To decode it takes a while.
        drop(inner);
        Some(form.shown())
    }

    /// This process wrote the object: it never goes back behind that.
    pub fn record_written(&self, object: K) -> Arc<K> {
        self.learn(object, Duration::ZERO)
    }

    /// This process read the object, which it asked for at this moment: it never goes back behind that. What it learned before
    /// is older, whatever its version: where that is higher, the API server was restored.
    pub fn record_read(&self, object: K, asked: Duration) -> Arc<K> {
        self.learn(object, asked)
    }

    fn learn(&self, mut object: K, asked: Duration) -> Arc<K> {
        slim(object.meta_mut());
        let object = Arc::new(object);
        let uid = object.meta().uid.as_deref().unwrap_or_default();
        let shown = ObservedObject::Decoded(object.clone());
        let counted = self.counted(&shown);
        let claim = self.claim(&shown);
        let refers = self.refers(&shown);
        let standing = self.queue_position(&shown);
        let mut guard = self.lock();
        let inner = &mut *guard;
        if let Some(entry) = inner.entries.get_mut(uid)
            && (version(shown.meta()) >= entry.form.version() || asked > entry.learned)
        {
            entry.form = PackedObject::from_observed(&shown);
            entry.learned = clock::now().mono;
            if entry.counted != counted {
                // Of one that is gone nothing is counted any more.
                if let Some(before) = entry.counted.take().filter(|_| !entry.gone) {
                    inner.users.less(&before);
                }
                entry.counted = match entry.gone {
                    true => counted,
                    false => counted.map(|counted| inner.users.more(counted)),
                };
            }
            if !entry.gone {
                inner.claim(uid, claim);
                inner.enter_queue(uid, standing);
                inner.refer(uid, refers, shown.meta());
            }
        }
        drop(guard);
        // Who is woken by it must not wait until the watch shows it, too.
        self.changed.notify_one();
        object
    }

    /// What is remembered of an object.
    pub fn memory(&self, uid: &str) -> M {
        let inner = self.lock();
        let entry = inner.entries.get(uid);
        entry.map(|e| e.memory.clone()).unwrap_or_default()
    }

    /// Changes what is remembered of an object. Of one that is gone nothing is.
    pub fn remember(&self, uid: &str, change: impl FnOnce(&mut M)) {
        if let Some(entry) = self.lock().entries.get_mut(uid) {
            change(&mut entry.memory);
        }
    }

    fn lock(&self) -> MutexGuard<'_, ObjectsInner<K, M>> {
        // A panic elsewhere does not make plain data wrong.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
