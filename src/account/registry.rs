//! All account objects, with their sessions.

mod trial;

use flexmetal_core::account::{
    facts::{AccountReport, UsedBy},
    key::AccountKey,
    on_record::OnRecord,
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
use api::{account::KnownServer, selector::Labels};
use hosting::Client;
use hosting_types::{ApiKey, BaseUrl};
use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};
use trial::Trial;

/// The account objects of the cluster. A clone is the same registry.
#[derive(Clone)]
pub struct Accounts {
    inner: Arc<Registry>,
}

struct Registry {
    cluster: Arc<str>,
    rate: Rate,
    memory_budget: MemoryBudget,
    subscribers: Subscribers,
    entries: Mutex<HashMap<AccountKey, RegistryEntry>>,
}

/// One account object. Everything that changes one does so under the lock of the entries, so that a
/// late pass of a former object never touches its successor.
struct RegistryEntry {
    account: Account,
    /// What the calls went by before, until the last one over that has ended.
    previous_connection: Weak<Connection>,
    /// Former keys of the session, the last ones: they are known to be of the same account.
    previous_keys: Vec<(BaseUrl, ApiKey)>,
    /// A key that is tried beside the one in use.
    trial: Option<Trial>,
}

/// Most former keys that are remembered of an account object.
const MOST_PREVIOUS_KEYS: usize = 4;

/// How to reach an account.
pub struct Connection {
    /// Where it is.
    pub base_url: BaseUrl,
    /// Its key.
    pub key: ApiKey,
    /// A client with both.
    pub client: Client,
    /// The word for both, which orders name.
    pub connection_hash: String,
}

impl Connection {
    fn is_same_endpoint(&self, other: &Self) -> bool {
        self.base_url == other.base_url && self.key.is_same_as(&other.key)
    }
}

/// What is left of a session: whoever waited in it has to look again. Its tasks may end with it, so it is kept until no
/// lock is held.
#[derive(Default)]
struct EndedSession {
    waited: Vec<String>,
    session: Option<Session>,
}

impl Accounts {
    /// A registry for the cluster of this identity (16 hex digits). Each account may make calls at this rate.
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

    /// Where there is room for what all of them show.
    #[cfg(test)]
    pub(crate) fn memory_budget(&self) -> MemoryBudget {
        self.inner.memory_budget.clone()
    }

    /// Adds a kind of object that uses accounts, or is one. Every kind is told of every wake.
    pub fn add_users(&self, kind: Arc<dyn Users>) {
        self.inner.subscribers.add(kind);
    }

    /// Says who knows which machines are claimed. Until then nothing is judged. Only the first call counts.
    pub fn set_claims(&self, claims: Arc<dyn Claims>) {
        self.inner.subscribers.set_claims(claims);
    }

    /// How many objects use an account, over all kinds; None while any of them does not know. Those of a namespace that
    /// it does not serve use it only with something of their own on record there.
    pub fn users(&self, key: &AccountKey) -> Option<usize> {
        let used_by = self.used_by(key)?;
        Some(used_by.iter().map(|kind| kind.count).sum())
    }

    /// The same, kind by kind: those that have any, in the order of their names.
    pub fn used_by(&self, key: &AccountKey) -> Option<Vec<UsedBy>> {
        self.inner.subscribers.count(key, &self.serves(key))
    }

    /// The names of those who use an account, kind by kind, each with its namespace: the first ones in their order.
    pub fn name_users(&self, key: &AccountKey, most: usize) -> Vec<(String, Vec<String>)> {
        self.inner.subscribers.names(key, &self.serves(key), most)
    }

    /// Whether the account serves a namespace, as far as is known.
    fn serves(&self, key: &AccountKey) -> impl Fn(&str) -> bool {
        let account = self.get(key);
        move |namespace: &str| {
            let terms = account.as_ref().map(|account| account.terms(namespace));
            !matches!(terms, Some(Terms::Refused(_)))
        }
    }

    /// What all objects that name an account have on record there; None while that is not known.
    pub fn on_record(&self, key: &AccountKey) -> Option<OnRecord> {
        self.inner.subscribers.on_record(key)
    }

    /// The account of an object.
    pub fn get(&self, key: &AccountKey) -> Option<Account> {
        self.entries().get(key).map(|e| e.account.clone())
    }

    /// Whether two names lead to the same account: they are one object, or two with the same URL and key.
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

    /// All names of accounts with the base URL of this one, itself included, whatever their keys: what objects of theirs have
    /// on record may be of the same account. What another URL answers says nothing.
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

    /// Whether objects of this namespace may use the account. Taken for granted while that is not known.
    pub fn allows(&self, key: &AccountKey, namespace: &str) -> bool {
        let terms = self.get(key).map(|account| account.terms(namespace));
        terms.is_some_and(|terms| match terms {
            Terms::Own => key.namespace.as_deref() == Some(namespace),
            Terms::Entry(_) | Terms::Unknown(_) => true,
            Terms::Refused(_) => false,
        })
    }

    /// Whether it is known by now what the account lets objects of this namespace do.
    pub fn has_terms(&self, key: &AccountKey, namespace: &str) -> bool {
        let terms = self.get(key).map(|account| account.terms(namespace));
        !matches!(terms, Some(Terms::Unknown(_)))
    }

    /// Whether objects of this namespace may take a host of the account. Taken for granted while that is not known.
    pub fn lets_host(&self, key: &AccountKey, namespace: &str, host: i64) -> bool {
        let terms = self.get(key).map(|account| account.terms(namespace));
        terms.is_some_and(|terms| match terms {
            Terms::Own => key.namespace.as_deref() == Some(namespace),
            Terms::Unknown(_) => true,
            Terms::Entry(_) | Terms::Refused(_) => terms.may_use_host(host),
        })
    }

    /// A namespace has these labels.
    pub fn show_namespace(&self, namespace: &str, labels: Labels) {
        let audience = &self.inner.subscribers;
        if audience.namespaces.show(namespace, labels) {
            audience.enqueue(&EnqueueTarget::Namespace(namespace.to_owned()));
        }
    }

    /// A namespace is gone.
    pub fn forget_namespace(&self, namespace: &str) {
        self.inner.subscribers.namespaces.forget(namespace);
    }

    /// There are no other namespaces than these.
    pub fn retain_namespaces(&self, names: &HashSet<String>) {
        let audience = &self.inner.subscribers;
        if !audience.namespaces.retain_only(names) {
            return;
        }
        // Orders may have waited for what counts for an entry.
        let of_cluster: Vec<AccountKey> = {
            let entries = self.entries();
            let of_cluster = entries.keys().filter(|key| key.namespace.is_none());
            of_cluster.cloned().collect()
        };
        for key in of_cluster {
            audience.enqueue(&EnqueueTarget::Account(key));
        }
    }

    /// The account has a user more or less: its controller looks again.
    pub fn users_changed(&self, key: &AccountKey) {
        if let Some(account) = self.get(key) {
            account.enqueue_account_object();
        }
    }

    /// What an object waits for has come, and is not of its account: it looks again.
    pub fn enqueue_object(&self, uid: &str) {
        self.inner
            .subscribers
            .enqueue(&EnqueueTarget::Object(uid.to_owned()));
    }

    /// Makes an account object known, before anything else is known of it. A former object of the same
    /// name is gone by that.
    pub fn announce(&self, key: &AccountKey, uid: &str) {
        let mut entries = self.entries();
        let former = match entries.remove(key) {
            Some(entry) if entry.account.uid() == uid => {
                entries.insert(key.clone(), entry);
                return;
            }
            Some(entry) => entry.end(),
            None => EndedSession::default(),
        };
        let audience = self.inner.subscribers.clone();
        let account = Account::new(key.clone(), uid.to_owned(), audience);
        let entry = RegistryEntry {
            account,
            previous_connection: Weak::new(),
            previous_keys: Vec::new(),
            trial: None,
        };
        entries.insert(key.clone(), entry);
        drop(entries);
        self.enqueue_users(key, former);
    }

    /// Puts into force what the controller has made of an account object; without a connection, over the one that there
    /// is. Another URL or key begins another session. Nothing happens if this object is not the present one.
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
        let (mut connected, mut former) = (None, EndedSession::default());
        if let Some(connection) = connection {
            let live = match entry.account.connected() {
                Some((live, present)) if present.is_same_endpoint(&connection) => live,
                _ => {
                    former = entry.disconnect();
                    self.start_session(&entry.account)
                }
            };
            connected = Some(entry.replace(live, connection));
        }
        let is_news = entry.account.configure(settings, connected);
        drop(entries);
        // Whoever left a session has another one, which is news.
        if is_news {
            self.enqueue_users(key, former);
        }
    }

    /// Another key takes the place of the one in use, and the session goes on: the key has shown that it is of the same
    /// account. Whoever holds a permit ends over the former connection.
    pub fn replace_key(&self, key: &AccountKey, uid: &str, connection: Connection) {
        let mut entries = self.entries();
        let Some(entry) = entries.get_mut(key).filter(|e| e.account.uid() == uid) else {
            return;
        };
        let Some((live, _)) = entry.account.connected() else {
            return;
        };
        live.core.state().key.accepted();
        entry.previous_keys = entry.keys();
        let beyond = entry.previous_keys.len().saturating_sub(MOST_PREVIOUS_KEYS);
        entry.previous_keys.drain(..beyond);
        let connected = entry.replace(live, connection);
        let settings = AccountSettings::clone(&entry.account.settings());
        entry.account.configure(settings, Some(connected));
        drop(entries);
        self.enqueue_users(key, EndedSession::default());
    }

    /// The account object leads nowhere any more: its key may not be sent where it was. Nothing happens if this object
    /// is not the present one.
    pub fn disconnect(&self, key: &AccountKey, uid: &str) {
        let mut entries = self.entries();
        let Some(entry) = entries.get_mut(key).filter(|e| e.account.uid() == uid) else {
            return;
        };
        let former = entry.disconnect();
        drop(entries);
        if former.session.is_some() {
            self.enqueue_users(key, former);
        }
    }

    /// Says whether account and Secret are kept from vanishing. Without that nothing is ordered.
    pub fn set_finalizers(&self, key: &AccountKey, uid: &str, held: bool) {
        let account = self.get(key).filter(|a| a.uid() == uid);
        if account.is_some_and(|a| a.set_finalizers(held)) && held {
            self.inner
                .subscribers
                .enqueue(&EnqueueTarget::Account(key.clone()));
        }
    }

    /// Whether an account is served by this process in the term that began at this moment, and not by another operator. One
    /// that is not there is nobody's.
    pub fn is_served(&self, key: &AccountKey, term: Duration) -> bool {
        self.get(key).is_none_or(|account| account.is_served(term))
    }

    /// Says in which term this process serves the account; None: another operator does, or nobody knows.
    pub fn set_served(&self, key: &AccountKey, uid: &str, term: Option<Duration>) {
        let account = self.get(key).filter(|a| a.uid() == uid);
        if account.is_some_and(|a| a.set_served(term)) {
            self.inner
                .subscribers
                .enqueue(&EnqueueTarget::Account(key.clone()));
        }
    }

    /// Stops serving the account: its session ends, and no call of it follows.
    pub fn stop_serving(&self, key: &AccountKey, uid: &str) {
        self.set_served(key, uid, None);
        self.disconnect(key, uid);
    }

    /// The key or the spec changed: a refused key is tried at once.
    pub fn probe_now(&self, key: &AccountKey) {
        if let Some((live, _)) = self.get(key).and_then(|a| a.connected()) {
            let mut state = live.core.state();
            state.key.probe_by(Duration::ZERO);
            state.schedule.retry_by(Duration::ZERO);
            drop(state);
            live.core.replan.notify_one();
        }
    }

    /// The account object is gone. Nothing happens if another one is there by now.
    pub fn remove(&self, key: &AccountKey, uid: &str) {
        let mut entries = self.entries();
        if entries.get(key).is_none_or(|e| e.account.uid() != uid) {
            return;
        }
        let former = entries.remove(key).map(RegistryEntry::end);
        drop(entries);
        self.enqueue_users(key, former.unwrap_or_default());
    }

    /// An object that uses accounts is gone: its place, its grant and its wants go back.
    pub fn forget(&self, uid: &str) {
        for core in self.cores() {
            core.forget(uid);
        }
    }

    /// The object of this mark is gone: no listing is made for it any more.
    pub fn forget_name_hash(&self, mark: &str) {
        let mut is_left = false;
        for core in self.cores() {
            core.forget_name_hash(mark);
            is_left |= core.has_server_or_open_order(mark);
        }
        if !is_left {
            self.inner.subscribers.owners.forget(mark);
        }
    }

    /// An object's pass ended and it asked for no turn: its place in the queue and a grant that it did
    /// not pick up go back.
    pub fn cancel_requests(&self, uid: &str) {
        for core in self.cores() {
            core.rate_limiter.cancel_request(uid);
        }
    }

    /// Since when the account has answers again; None: it never lacked them, or there is no connection.
    pub fn answers_since(&self, key: &AccountKey) -> Option<Duration> {
        let (live, _) = self.get(key)?.connected()?;
        live.core.state().schedule.answers_since()
    }

    /// How the account stands, given the machines that it was known by. None without a connection.
    pub fn report(&self, key: &AccountKey, known: &[KnownServer]) -> Option<AccountReport> {
        let (live, _) = self.get(key)?.connected()?;
        let (catalogue, calls) = (
            live.core.lists.newest_catalogue(),
            live.core.rate_limiter.calls(),
        );
        // What somebody else ordered says nothing of whether the lists of the account are complete for us. Asked without the
        // lock: the objects have one of their own.
        let others = live.core.state().servers.not_known(known).into_iter();
        let others = others.filter(|other| self.inner.subscribers.is_recorded(&other.uuid, key));
        let others = others.take(MOST_KNOWN).collect();
        let state = live.core.state();
        Some(AccountReport {
            key: state.key.state().clone(),
            error: state.schedule.error().cloned(),
            complete_list: state.servers.complete_list().cloned(),
            orphan_scan: state.servers.orphan_scan().clone(),
            counts: state.servers.counts(),
            known: state.servers.known_after(known, others),
            catalogue,
            calls,
        })
    }

    /// A session of an account object that knows nothing yet.
    fn start_session(&self, account: &Account) -> Session {
        let of = SessionAccount {
            key: account.key().clone(),
            uid: account.uid().to_owned(),
            reservations: account.reservations().clone(),
        };
        let registry = &self.inner;
        let room = registry
            .memory_budget
            .namespace_budget(account.key().namespace.as_deref());
        let (cluster, audience) = (registry.cluster.clone(), registry.subscribers.clone());
        Session::start(of, cluster, registry.rate, &room, audience)
    }

    /// The sessions that there are.
    fn cores(&self) -> Vec<Arc<Core>> {
        let entries = self.entries();
        let connected = entries.values().filter_map(|e| e.account.connected());
        connected.map(|(live, _)| live.core).collect()
    }

    /// Those who use the account look again, and those who waited on its former connection.
    fn enqueue_users(&self, key: &AccountKey, former: EndedSession) {
        self.inner.subscribers.enqueue_objects(former.waited);
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
    /// The key in use and its former ones, with where they lead.
    fn keys(&self) -> Vec<(BaseUrl, ApiKey)> {
        let in_use = self.account.connected();
        let in_use = in_use.map(|(_, c)| (c.base_url.clone(), c.key.clone()));
        self.previous_keys.iter().cloned().chain(in_use).collect()
    }

    /// The calls of this session go by this connection from here on.
    fn replace(&mut self, live: Session, connection: Connection) -> Connected {
        self.trial = None;
        if let Some((_, former)) = self.account.connected() {
            self.previous_connection = Arc::downgrade(&former);
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

    /// The object is gone.
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
