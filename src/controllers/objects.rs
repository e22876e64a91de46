//! The objects of one kind as this process knows them: the newest form, the memory and the schedule of each. Objects
//! are reconciled in the order in which they are enqueued, and never two times at once.

mod claims;
mod enqueue;
mod entry;
mod listings;
mod packed_object;
mod queues;
mod references;
mod reports;
mod schedule;
mod summary;
#[cfg(test)]
mod tests;
mod users;

pub use entry::ObservedObject;
pub use listings::FirstObservation;
pub(in crate::controllers) use packed_object::{slim, slim_but_labels};
pub use queues::QueueRequest;
pub use references::{ReferenceKeys, Referrer};
pub(in crate::controllers) use reports::FailedStatusWrite;
pub use schedule::{ProviderCallGuard, WorkItem, WorkItemResult};
pub use summary::{ObjectDetails, ObjectSummary, seconds_between};

use super::streams::{self, Guarded};
use crate::runtime::clock;
use api::Kind;
use claims::{ClaimIndex, ObjectClaim};
use entry::ObjectEntry;
use flexmetal_core::account::{key::AccountKey, recorded::RecordedResources, view::ListKind};
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

/// Returns the alias of an object.
pub type AliasOf = Box<dyn Fn(&ObjectMeta) -> Option<String> + Send + Sync>;
/// Adds what an object has recorded at its account.
pub type RecordOf<K> = Box<dyn Fn(&K, &mut RecordedResources) + Send + Sync>;
/// Called with an object that is new.
pub type OnFirstObservation<K> = Box<dyn Fn(&ObservedObject<K>) + Send + Sync>;

/// What differs between the kinds.
pub struct KindOptions<K> {
    /// The account that an object uses. `None` for a kind without accounts, and for an object that uses none yet.
    pub account_of: Option<fn(&K) -> Option<AccountKey>>,
    /// What an object claims for itself at its account. `None` for a kind without conflicting claims.
    pub claim: Option<fn(&K) -> Option<String>>,
    /// The queue in which an object waits. `None` for a kind whose objects do not wait for each other.
    pub queue_request: Option<fn(&K) -> Option<QueueRequest>>,
    /// Adds what an object has recorded at its account. `None` for a kind without such records.
    pub on_record: Option<RecordOf<K>>,
    /// Whether an object has something recorded at its account, for a kind without servers. Reads only fields that the
    /// operator alone writes.
    pub has_record: fn(&K) -> bool,
    /// A second name to find and enqueue an object by, such as its owner hash.
    pub alias: AliasOf,
    /// Called when an object is first observed, before its first reconcile.
    pub on_first_observation: OnFirstObservation<K>,
    /// The lookup keys of what an object refers to. `None` for a kind without references.
    pub refers: Option<fn(&K) -> ReferenceKeys>,
    /// What gauges show of an object besides its conditions.
    pub details: fn(&K) -> ObjectDetails,
    /// Adds to the hash what triggers a reconcile besides changes by users.
    pub triggers: fn(&K, &mut DefaultHasher),
    /// The account lists whose change enqueues every object of the account.
    pub lists: &'static [ListKind],
    /// How long an enqueue waits for others, to reconcile once.
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
            details: |_| ObjectDetails::default(),
            triggers: |_, _| (),
            lists: &[],
            debounce: Duration::ZERO,
        }
    }
}

/// The objects of a kind, in all watched namespaces.
pub struct Objects<K: Kind, M> {
    options: KindOptions<K>,
    inner: Mutex<ObjectsInner<K, M>>,
    /// A work item may be ready.
    changed: Notify,
    complete: watch::Sender<bool>,
    /// Counts the requests for fresh lists.
    relists: watch::Sender<u64>,
    /// Number of reconciles that wait for an answer of the provider.
    calling: AtomicUsize,
}

struct ObjectsInner<K: Kind, M> {
    /// Boxed: a hash table allocates space for up to twice as many entries.
    entries: HashMap<Uid, Box<ObjectEntry<K, M>>>,
    aliases: HashMap<Arc<str>, Uid>,
    /// The objects to reconcile now, in this order.
    queue: VecDeque<Uid>,
    /// When an object is due, unless it is enqueued earlier.
    due: BTreeSet<(Duration, Uid)>,
    listings: Vec<WatchListing>,
    users: UserCounts,
    claims: ClaimIndex,
    references: References,
    queues: Queues,
}

impl<K: Kind, M: Clone + Default + Send> Objects<K, M> {
    /// Starts without objects. It is complete once each of this many watches has listed its objects.
    pub fn new(traits: KindOptions<K>, watches: usize) -> Self {
        Self {
            options: traits,
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

    /// Applies a watch event. Returns the accounts whose number of users changed.
    pub fn apply_event(&self, watch: usize, event: Event<Guarded<K>>) -> BTreeSet<AccountKey> {
        let now = clock::now().mono;
        let mut touched = BTreeSet::new();
        let mut new = None;
        {
            let mut inner = self.lock();
            // The start of a list is no answer yet.
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
        // Outside the lock: the callback may enqueue objects.
        if let Some(new) = new {
            (self.options.on_first_observation)(&new);
        }
        self.changed.notify_one();
        touched
    }

    /// Returns the object if it is new.
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
                streams::triggers(object.meta(), |hash| (self.options.triggers)(object, hash))
            }
            // Part of the hash, so that a repair of the status alone triggers a reconcile too.
            ObservedObject::Undecodable(object) => {
                streams::triggers(&object.metadata, |hash| "undecodable".hash(hash))
            }
        };
        let counted = self.counted(&shown);
        let summary = ObjectSummary::new(&shown, self.options.details);
        let claim = self.claim(&shown);
        let refers = self.refers(&shown);
        let queue_position = self.queue_position(&shown);
        let listing = inner.listings[watch];
        let alias = (self.options.alias)(shown.meta()).map(Arc::from);
        let now = clock::now().mono;
        let Some(entry) = inner.entries.get_mut(&uid) else {
            let first_observation = FirstObservation {
                first_seen: now,
                absent_from: listing.completed,
            };
            let mut entry = ObjectEntry::new(
                PackedObject::from_observed(&shown),
                watch,
                triggers,
                first_observation,
            );
            entry.listing = listing.number;
            entry.summary = summary;
            entry.alias.clone_from(&alias);
            entry.counted = counted.map(|counted| inner.users.more(counted));
            touched.extend(entry.account());
            inner.entries.insert(uid.clone(), Box::new(entry));
            inner
                .aliases
                .extend(alias.map(|alias| (alias, uid.clone())));
            inner.enqueue_after(&uid, now, Duration::ZERO);
            inner.claim(&uid, claim);
            inner.enter_queue(&uid, queue_position);
            inner.refer(&uid, refers, shown.meta());
            return Some(shown);
        };
        if listed && entry.watch == watch {
            entry.listing = listing.number;
        }
        // Shown again after its deletion: the API server was restored from a backup.
        let is_back = std::mem::replace(&mut entry.gone, false);
        if is_back {
            entry.alias.clone_from(&alias);
            entry.triggers = triggers;
            inner
                .aliases
                .extend(alias.map(|alias| (alias, uid.clone())));
        }
        // This process may know a newer version than its watch. But a list that started after the last read or write is
        // newer at any version: then the API server was restored.
        let is_authoritative = listed && listing.started > entry.learned;
        let is_newer = is_back || version(shown.meta()) >= entry.form.version() || is_authoritative;
        if is_newer {
            entry.form = PackedObject::from_observed(&shown);
            entry.summary = summary;
            entry.learned = now;
            if is_back || entry.counted != counted {
                touched.extend(entry.account());
                // A deleted object was not counted any more.
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
            inner.enter_queue(&uid, queue_position);
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
        // A list may show a recreated object before the old one is found missing.
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

    /// The claim of an object.
    fn claim(&self, shown: &ObservedObject<K>) -> Option<ObjectClaim> {
        let (claim, account_of) = (self.options.claim?, self.options.account_of?);
        let ObservedObject::Decoded(object) = shown else {
            return None;
        };
        Some(ObjectClaim::new(
            claim(object)?,
            account_of(object)?,
            object.meta(),
        ))
    }

    /// How an object counts among the users of accounts.
    fn counted(&self, shown: &ObservedObject<K>) -> Option<Counted> {
        let account_of = self.options.account_of?;
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

    /// Whether all watches have completed a list.
    pub fn is_complete(&self) -> bool {
        *self.complete.borrow()
    }

    /// Whether all watches have completed a list and none is stale.
    pub fn is_ready(&self) -> bool {
        self.is_complete() && !self.is_stale()
    }

    /// Waits until all watches have completed a list.
    pub async fn completed(&self) {
        // The sender lives as long as `self`.
        let _ = self.complete.subscribe().wait_for(|done| *done).await;
    }

    /// The aliases of all objects, including those being deleted.
    pub fn aliases(&self) -> HashSet<String> {
        let inner = self.lock();
        inner.aliases.keys().map(|alias| (**alias).into()).collect()
    }

    /// The UID of the object with this alias.
    pub fn by_alias(&self, alias: &str) -> Option<Uid> {
        self.lock().aliases.get(alias).cloned()
    }

    /// All objects that decode.
    pub fn decoded(&self) -> Vec<Arc<K>> {
        let forms: Vec<_> = {
            let inner = self.lock();
            let entries = inner.entries.values().filter(|entry| !entry.gone);
            entries.map(|entry| entry.form.clone()).collect()
        };
        // Outside the lock: decoding takes time.
        let decoded = forms.iter().filter_map(|form| match form.unpack() {
            ObservedObject::Decoded(object) => Some(object),
            ObservedObject::Undecodable(_) => None,
        });
        decoded.collect()
    }

    /// The newest form of an object, from the watch or from a read or write of this process. `None` if it is deleted.
    pub fn newest(&self, uid: &str) -> Option<ObservedObject<K>> {
        let inner = self.lock();
        let entry = inner.entries.get(uid).filter(|e| !e.gone)?;
        let form = entry.form.clone();
        // Decoding takes time.
        drop(inner);
        Some(form.unpack())
    }

    /// Records the object as this process wrote it. An older version never replaces it.
    pub fn record_written(&self, object: K) -> Arc<K> {
        self.learn(object, Duration::ZERO)
    }

    /// Records the object as read by a request that was sent at `asked`. It replaces a form learned before that at any
    /// version: a higher one means that the API server was restored.
    pub fn record_read(&self, object: K, asked: Duration) -> Arc<K> {
        self.learn(object, asked)
    }

    fn learn(&self, mut object: K, asked: Duration) -> Arc<K> {
        slim(object.meta_mut());
        let object = Arc::new(object);
        let uid = object.meta().uid.as_deref().unwrap_or_default();
        let shown = ObservedObject::Decoded(object.clone());
        let counted = self.counted(&shown);
        let summary = ObjectSummary::new(&shown, self.options.details);
        let claim = self.claim(&shown);
        let refers = self.refers(&shown);
        let queue_position = self.queue_position(&shown);
        let mut guard = self.lock();
        let inner = &mut *guard;
        if let Some(entry) = inner.entries.get_mut(uid)
            && (version(shown.meta()) >= entry.form.version() || asked > entry.learned)
        {
            entry.form = PackedObject::from_observed(&shown);
            entry.summary = summary;
            entry.learned = clock::now().mono;
            if entry.counted != counted {
                // A deleted object is not counted any more.
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
                inner.enter_queue(uid, queue_position);
                inner.refer(uid, refers, shown.meta());
            }
        }
        drop(guard);
        // Enqueued objects need not wait until the watch shows the change too.
        self.changed.notify_one();
        object
    }

    /// What is remembered of an object.
    pub fn memory(&self, uid: &str) -> M {
        let inner = self.lock();
        let entry = inner.entries.get(uid);
        entry.map(|e| e.memory.clone()).unwrap_or_default()
    }

    /// Changes what is remembered of an object. Does nothing if the object is unknown.
    pub fn remember(&self, uid: &str, change: impl FnOnce(&mut M)) {
        if let Some(entry) = self.lock().entries.get_mut(uid) {
            change(&mut entry.memory);
        }
    }

    fn lock(&self) -> MutexGuard<'_, ObjectsInner<K, M>> {
        // Plain data stays valid after a panic elsewhere.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
