//! The registry of all account objects and their sessions.

mod trial;

use flexmetal_core::account::{
    facts::{AccountReport, UsedBy},
    key::AccountKey,
    recorded::RecordedResources,
    terms::Terms,
};

use super::{
    Account, AccountSettings, Claims, EnqueueTarget, Rate, Users,
    handle::Connected,
    memory_budget::MemoryBudget,
    servers::MOST_KNOWN,
    session::{Core, Session, SessionAccount},
    users::Subscribers,
};
use api::{account::KnownServer, references::PinnedAccount, selector::Labels};
use hosting::Client;
use hosting_types::{ApiKey, BaseUrl};
use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};
use trial::Trial;

/// The account objects of the cluster. Clones share the registry.
#[derive(Clone)]
pub struct Accounts {
    inner: Arc<Registry>,
}

/// What an account reference resolves to.
pub enum Resolution {
    /// The account object does not exist.
    Missing,
    /// The account object exists.
    Found {
        /// The account.
        account: Account,
        /// What it offers the namespace.
        terms: Terms,
    },
}

struct Registry {
    cluster: Arc<str>,
    rate: Rate,
    memory_budget: MemoryBudget,
    subscribers: Subscribers,
    entries: Mutex<HashMap<AccountKey, RegistryEntry>>,
}

/// One account object. It changes only under the lock of the entries, so a late reconcile of a previous object never
/// touches its successor.
struct RegistryEntry {
    account: Account,
    /// The previous connection, until its last call has ended.
    previous_connection: Weak<Connection>,
    /// The last previous keys of the session, known to belong to the same account.
    previous_keys: Vec<(BaseUrl, ApiKey)>,
    /// The trial of candidate credentials.
    trial: Option<Trial>,
}

/// Most previous keys that are kept of an account object.
const MOST_PREVIOUS_KEYS: usize = 4;

/// URL and credentials of an account.
pub struct Connection {
    /// Base URL of the hosting API.
    pub base_url: BaseUrl,
    /// API key.
    pub key: ApiKey,
    /// Client with URL and key.
    pub client: Client,
    /// Hash of URL, key and account UID, which each order records.
    pub connection_hash: String,
}

impl Connection {
    fn is_same_endpoint(&self, other: &Self) -> bool {
        self.base_url == other.base_url && self.key.is_same_as(&other.key)
    }
}

/// An ended session, and the objects that waited in it. Dropping it may end its tasks, so drop it without a lock.
#[derive(Default)]
struct EndedSession {
    waited: Vec<String>,
    session: Option<Session>,
}

impl Accounts {
    /// Resolves the reference of an object in this namespace.
    pub fn resolve(&self, namespace: &str, reference: &PinnedAccount) -> Resolution {
        let key = AccountKey::from_reference(reference, namespace);
        let Some(account) = self.get(&key) else {
            return Resolution::Missing;
        };
        let terms = account.terms(namespace);
        if terms.is_served() {
            account.set_in_use();
        }
        Resolution::Found { account, terms }
    }

    /// A registry for the cluster with this ID (16 hex digits). Each account may make calls at this rate.
    pub fn new(cluster: &str, rate: Rate) -> Self {
        Self {
            inner: Arc::new(Registry {
                cluster: cluster.into(),
                rate,
                memory_budget: MemoryBudget::default(),
                subscribers: Subscribers::default(),
                entries: Mutex::default(),
            }),
        }
    }

    #[cfg(test)]
    pub(crate) fn memory_budget(&self) -> MemoryBudget {
        self.inner.memory_budget.clone()
    }

    /// Adds a kind of object that uses accounts, or is one. Every kind receives every [`EnqueueTarget`].
    pub fn add_users(&self, kind: Arc<dyn Users>) {
        self.inner.subscribers.add(kind);
    }

    /// Sets who knows which servers have an owner. No server counts as an orphan before. Only the first call counts.
    pub fn set_claims(&self, claims: Arc<dyn Claims>) {
        self.inner.subscribers.set_claims(claims);
    }

    /// Number of objects that use an account, over all kinds; None while any kind does not know. Objects of a namespace
    /// that the account does not serve count only if they recorded something there.
    pub fn users(&self, key: &AccountKey) -> Option<usize> {
        let used_by = self.used_by(key)?;
        Some(used_by.iter().map(|kind| kind.count).sum())
    }

    /// Like [`Self::users`], by kind, without zeros, sorted by kind.
    pub fn used_by(&self, key: &AccountKey) -> Option<Vec<UsedBy>> {
        self.inner.subscribers.count(key, &self.serves(key))
    }

    /// The first names of the objects that use an account, by kind, with their namespaces.
    pub fn name_users(&self, key: &AccountKey, most: usize) -> Vec<(String, Vec<String>)> {
        self.inner.subscribers.names(key, &self.serves(key), most)
    }

    /// Whether the account serves a namespace, as far as known.
    fn serves(&self, key: &AccountKey) -> impl Fn(&str) -> bool {
        let account = self.get(key);
        move |namespace: &str| {
            let terms = account.as_ref().map(|account| account.terms(namespace));
            !matches!(terms, Some(Terms::Refused(_)))
        }
    }

    /// What all objects that name an account have recorded there; None while that is not known.
    pub fn recorded_resources(&self, key: &AccountKey) -> Option<RecordedResources> {
        self.inner.subscribers.recorded_resources(key)
    }

    /// The handle of an account object.
    pub fn get(&self, key: &AccountKey) -> Option<Account> {
        self.entries().get(key).map(|e| e.account.clone())
    }

    pub(super) fn all(&self) -> Vec<Account> {
        let entries = self.entries();
        entries
            .values()
            .map(|entry| entry.account.clone())
            .collect()
    }

    /// Whether two names lead to the same account: one object, or two with the same URL and key.
    pub fn is_same(&self, one: &AccountKey, other: &AccountKey) -> bool {
        one == other || self.names_of(one).contains(other)
    }

    /// All names that lead to the same account as this one, itself included.
    pub fn names_of(&self, key: &AccountKey) -> Vec<AccountKey> {
        let entries = self.entries();
        let own = entries
            .get(key)
            .map(RegistryEntry::keys)
            .unwrap_or_default();
        let is_same = |entry: &RegistryEntry| {
            let others = entry.keys();
            let is_own = |(url, key): &(BaseUrl, ApiKey)| {
                own.iter()
                    .any(|(at, with)| at == url && with.is_same_as(key))
            };
            others.iter().any(is_own)
        };
        let others = entries
            .iter()
            .filter(|(name, entry)| *name != key && is_same(entry));
        let others = others.map(|(name, _)| name.clone());
        [key.clone()].into_iter().chain(others).collect()
    }

    /// All names of accounts with the base URL of this one, itself included. What their objects recorded may belong to
    /// the same account.
    pub fn names_at_url_of(&self, key: &AccountKey) -> Vec<AccountKey> {
        let entries = self.entries();
        let own = entries
            .get(key)
            .map(RegistryEntry::keys)
            .unwrap_or_default();
        let is_there = |entry: &RegistryEntry| {
            let mut others = entry.keys().into_iter();
            others.any(|(url, _)| own.iter().any(|(at, _)| *at == url))
        };
        let others = entries
            .iter()
            .filter(|(name, entry)| *name != key && is_there(entry));
        let others = others.map(|(name, _)| name.clone());
        [key.clone()].into_iter().chain(others).collect()
    }

    /// Whether objects of this namespace may use the account. True while its terms are not known.
    pub fn allows(&self, key: &AccountKey, namespace: &str) -> bool {
        let terms = self.get(key).map(|account| account.terms(namespace));
        terms.is_some_and(|terms| match terms {
            Terms::Own => key.namespace.as_deref() == Some(namespace),
            Terms::Entry(_) | Terms::Unknown(_) => true,
            Terms::Refused(_) => false,
        })
    }

    /// Whether the account's terms for this namespace are known.
    pub fn has_terms(&self, key: &AccountKey, namespace: &str) -> bool {
        let terms = self.get(key).map(|account| account.terms(namespace));
        !matches!(terms, Some(Terms::Unknown(_)))
    }

    /// Whether objects of this namespace may use a host of the account. True while its terms are not known.
    pub fn allows_host(&self, key: &AccountKey, namespace: &str, host: i64) -> bool {
        let terms = self.get(key).map(|account| account.terms(namespace));
        terms.is_some_and(|terms| match terms {
            Terms::Own => key.namespace.as_deref() == Some(namespace),
            Terms::Unknown(_) => true,
            Terms::Entry(_) | Terms::Refused(_) => terms.may_use_host(host),
        })
    }

    /// Sets the labels of a namespace.
    pub fn show_namespace(&self, namespace: &str, labels: Labels) {
        let subscribers = &self.inner.subscribers;
        if subscribers.namespaces.set_labels(namespace, labels) {
            subscribers.enqueue(&EnqueueTarget::Namespace(namespace.to_owned()));
        }
    }

    /// Removes a deleted namespace.
    pub fn forget_namespace(&self, namespace: &str) {
        self.inner.subscribers.namespaces.forget(namespace);
    }

    /// Removes all namespaces but these.
    pub fn retain_namespaces(&self, names: &HashSet<String>) {
        let subscribers = &self.inner.subscribers;
        if !subscribers.namespaces.retain_only(names) {
            return;
        }
        // Orders may wait for the namespaces that count for an entry.
        let of_cluster: Vec<AccountKey> = {
            let entries = self.entries();
            let of_cluster = entries.keys().filter(|key| key.namespace.is_none());
            of_cluster.cloned().collect()
        };
        for key in of_cluster {
            subscribers.enqueue(&EnqueueTarget::Account(key));
        }
    }

    /// Enqueues the account object: the number of its users changed.
    pub fn users_changed(&self, key: &AccountKey) {
        if let Some(account) = self.get(key) {
            account.enqueue_account_object();
        }
    }

    /// Enqueues an object for a reason outside its account.
    pub fn enqueue_object(&self, uid: &str) {
        self.inner
            .subscribers
            .enqueue(&EnqueueTarget::Object(uid.to_owned()));
    }

    /// Adds an account object before anything else is known of it. A previous object of the same name ends.
    pub fn add_account(&self, key: &AccountKey, uid: &str) {
        let mut entries = self.entries();
        let ended = match entries.remove(key) {
            Some(entry) if entry.account.uid() == uid => {
                entries.insert(key.clone(), entry);
                return;
            }
            Some(entry) => entry.end(),
            None => EndedSession::default(),
        };
        let subscribers = self.inner.subscribers.clone();
        let account = Account::new(key.clone(), uid.to_owned(), subscribers);
        let entry = RegistryEntry {
            account,
            previous_connection: Weak::new(),
            previous_keys: Vec::new(),
            trial: None,
        };
        entries.insert(key.clone(), entry);
        drop(entries);
        self.enqueue_users(key, ended);
    }

    /// Applies the settings of an account object, over a new connection or the current one. Another URL or key starts
    /// another session. Does nothing if the UID is not the current object's.
    pub fn configure(
        &self,
        key: &AccountKey,
        uid: &str,
        settings: AccountSettings,
        connection: Option<Connection>,
    ) {
        let mut entries = self.entries();
        let Some(entry) = entries.get_mut(key).filter(|e| e.account.uid() == uid) else {
            return;
        };
        let (mut connected, mut ended) = (None, EndedSession::default());
        if let Some(connection) = connection {
            let live = match entry.account.connected() {
                Some((live, present)) if present.is_same_endpoint(&connection) => live,
                _ => {
                    ended = entry.disconnect();
                    self.start_session(&entry.account)
                }
            };
            connected = Some(entry.replace(live, connection));
        }
        let is_news = entry.account.configure(settings, connected);
        drop(entries);
        // An ended session has a successor here, which is news.
        if is_news {
            self.enqueue_users(key, ended);
        }
    }

    /// Switches the session to another key, which is known to belong to the same account. Objects with a permit finish
    /// over the previous connection.
    pub fn replace_key(&self, key: &AccountKey, uid: &str, connection: Connection) {
        let mut entries = self.entries();
        let Some(entry) = entries.get_mut(key).filter(|e| e.account.uid() == uid) else {
            return;
        };
        let Some((live, _)) = entry.account.connected() else {
            return;
        };
        live.core.state().breaker.accepted();
        entry.previous_keys = entry.keys();
        let beyond = entry.previous_keys.len().saturating_sub(MOST_PREVIOUS_KEYS);
        entry.previous_keys.drain(..beyond);
        let connected = entry.replace(live, connection);
        let settings = AccountSettings::clone(&entry.account.settings());
        entry.account.configure(settings, Some(connected));
        drop(entries);
        self.enqueue_users(key, EndedSession::default());
    }

    /// Removes the connection of an account object: its key must not be sent there any more. Does nothing if the UID is
    /// not the current object's.
    pub fn disconnect(&self, key: &AccountKey, uid: &str) {
        let mut entries = self.entries();
        let Some(entry) = entries.get_mut(key).filter(|e| e.account.uid() == uid) else {
            return;
        };
        let ended = entry.disconnect();
        drop(entries);
        if ended.session.is_some() {
            self.enqueue_users(key, ended);
        }
    }

    /// Sets whether account and Secret have our finalizer. Without it nothing is ordered.
    pub fn set_finalizers(&self, key: &AccountKey, uid: &str, has_finalizers: bool) {
        let account = self.get(key).filter(|a| a.uid() == uid);
        if account.is_some_and(|a| a.set_finalizers(has_finalizers)) && has_finalizers {
            self.inner
                .subscribers
                .enqueue(&EnqueueTarget::Account(key.clone()));
        }
    }

    /// Whether this process serves the account in the leader term that began at this moment. True if the account does
    /// not exist.
    pub fn is_served(&self, key: &AccountKey, term: Duration) -> bool {
        self.get(key).is_none_or(|account| account.is_served(term))
    }

    /// Sets the leader term in which this process serves the account; None: another operator does, or it is not known.
    pub fn set_served(&self, key: &AccountKey, uid: &str, term: Option<Duration>) {
        let account = self.get(key).filter(|a| a.uid() == uid);
        if account.is_some_and(|a| a.set_served(term)) {
            self.inner
                .subscribers
                .enqueue(&EnqueueTarget::Account(key.clone()));
        }
    }

    /// Stops serving the account: its session ends, and makes no more calls.
    pub fn stop_serving(&self, key: &AccountKey, uid: &str) {
        self.set_served(key, uid, None);
        self.disconnect(key, uid);
    }

    /// Tries a rejected key at once, since the key or the spec changed.
    pub fn probe_now(&self, key: &AccountKey) {
        if let Some((live, _)) = self.get(key).and_then(|a| a.connected()) {
            let mut state = live.core.state();
            state.breaker.probe_by(Duration::ZERO);
            state.schedule.retry_by(Duration::ZERO);
            drop(state);
            live.core.replan.notify_one();
        }
    }

    /// Removes an account object. Does nothing if another object has its name by now.
    pub fn remove(&self, key: &AccountKey, uid: &str) {
        let mut entries = self.entries();
        if entries.get(key).is_none_or(|e| e.account.uid() != uid) {
            return;
        }
        let ended = entries.remove(key).map(RegistryEntry::end);
        drop(entries);
        self.enqueue_users(key, ended.unwrap_or_default());
    }

    /// Removes the queue position, grant and list requests of an object that is gone.
    pub fn forget(&self, uid: &str) {
        for core in self.cores() {
            core.forget(uid);
        }
    }

    /// Removes the list requests of the object with this name hash, which is gone.
    pub fn forget_name_hash(&self, name_hash: &str) {
        let mut is_left = false;
        for core in self.cores() {
            core.forget_name_hash(name_hash);
            is_left |= core.has_server_or_open_order(name_hash);
        }
        if !is_left {
            self.inner.subscribers.owners.forget(name_hash);
        }
    }

    /// Removes the queue position and unclaimed grant of an object whose reconcile ended without asking for a permit.
    pub fn cancel_requests(&self, uid: &str) {
        for core in self.cores() {
            core.rate_limiter.cancel_request(uid);
        }
    }

    /// Since when the account answers again; None: it never stopped, or it has no connection.
    pub fn answers_since(&self, key: &AccountKey) -> Option<Duration> {
        let (live, _) = self.get(key)?.connected()?;
        live.core.state().schedule.answers_since()
    }

    /// State of the account, given the servers that identify it. None without a connection.
    pub fn report(&self, key: &AccountKey, known: &[KnownServer]) -> Option<AccountReport> {
        let (live, _) = self.get(key)?.connected()?;
        let (catalogue, calls) = (
            live.core.lists.newest_catalogue(),
            live.core.rate_limiter.calls(),
        );
        // Servers that others ordered do not show that the lists are complete for us. Asked without the session's lock,
        // as the objects have their own.
        let others = live.core.state().servers.not_known(known).into_iter();
        let others = others.filter(|other| self.inner.subscribers.is_recorded(&other.uuid, key));
        let others = others.take(MOST_KNOWN).collect();
        let usage = live.core.usage();
        let state = live.core.state();
        Some(AccountReport {
            key: state.breaker.state().clone(),
            error: state.schedule.error().cloned(),
            complete_list: state.servers.complete_list().cloned(),
            orphan_scan: state.servers.orphan_scan().clone(),
            counts: state.servers.counts(),
            known: state.servers.known_after(known, others),
            are_known_lost: state.servers.are_known_lost(known),
            catalogue,
            calls,
            usage,
        })
    }

    /// Starts an empty session for an account object.
    fn start_session(&self, account: &Account) -> Session {
        let session_account = SessionAccount {
            key: account.key().clone(),
            uid: account.uid().to_owned(),
            reservations: account.reservations().clone(),
            usage: account.usage_reads().clone(),
        };
        let registry = &self.inner;
        let budget = registry
            .memory_budget
            .namespace_budget(account.key().namespace.as_deref());
        let (cluster, subscribers) = (registry.cluster.clone(), registry.subscribers.clone());
        Session::start(
            session_account,
            cluster,
            registry.rate,
            &budget,
            subscribers,
        )
    }

    /// The cores of all sessions.
    fn cores(&self) -> Vec<Arc<Core>> {
        let entries = self.entries();
        let connected = entries.values().filter_map(|e| e.account.connected());
        connected.map(|(live, _)| live.core).collect()
    }

    /// Enqueues the objects that use the account, and those that waited in its ended session.
    fn enqueue_users(&self, key: &AccountKey, ended: EndedSession) {
        self.inner.subscribers.enqueue_objects(ended.waited);
        self.inner
            .subscribers
            .enqueue(&EnqueueTarget::Account(key.clone()));
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<AccountKey, RegistryEntry>> {
        let entries = self.inner.entries.lock();
        entries.unwrap_or_else(PoisonError::into_inner)
    }
}

impl RegistryEntry {
    /// The key in use and the previous ones, with their base URLs.
    fn keys(&self) -> Vec<(BaseUrl, ApiKey)> {
        let in_use = self.account.connected();
        let in_use = in_use.map(|(_, c)| (c.base_url.clone(), c.key.clone()));
        self.previous_keys.iter().cloned().chain(in_use).collect()
    }

    /// Switches the calls of this session to this connection.
    fn replace(&mut self, live: Session, connection: Connection) -> Connected {
        self.trial = None;
        if let Some((_, previous)) = self.account.connected() {
            self.previous_connection = Arc::downgrade(&previous);
        }
        (live, Arc::new(connection))
    }

    fn disconnect(&mut self) -> EndedSession {
        self.trial = None;
        self.previous_keys.clear();
        let Some((live, connection)) = self.account.disconnect() else {
            return EndedSession::default();
        };
        self.previous_connection = Arc::downgrade(&connection);
        self.account.reservations().reopen_recent_orders();
        EndedSession::end_session(live)
    }

    fn end(self) -> EndedSession {
        let connected = self.account.end();
        connected
            .map(|(live, _)| EndedSession::end_session(live))
            .unwrap_or_default()
    }
}

impl EndedSession {
    fn end_session(live: Session) -> Self {
        Self {
            waited: live.core.end(),
            session: Some(live),
        }
    }
}
