//! The handle of an account object that the controllers use.

use super::{
    AccountSettings, Connection, EnqueueTarget,
    limits::Reservations,
    rate_limiter::{Caller, Permit, PermitAnswer},
    session::Session,
    usage::UsageReads,
    users::Subscribers,
};
use api::{Reason, allowed::AllowedNamespaces};
use flexmetal_core::account::{
    key::AccountKey,
    key_state::KeyState,
    priority::Priority,
    terms::Terms,
    view::{AccountState, AccountView, ListKind, SeenServer},
};
use hosting_types::{Error, ServerId, error::NotSent};
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// A session and the connection that its calls use.
pub(crate) type Connected = (Session, Arc<Connection>);

/// One account object. Clones share its state. A recreated object of the same name is another account.
#[derive(Clone)]
pub struct Account {
    inner: Arc<AccountInner>,
}

struct AccountInner {
    key: AccountKey,
    uid: String,
    subscribers: Subscribers,
    /// Orders of the object, over all its connections.
    reservations: Reservations,
    /// Its usage as last read, over all its connections.
    usage: UsageReads,
    state: Mutex<AccountHandleState>,
}

/// Session, settings and flags in force.
struct AccountHandleState {
    connected: Option<Connected>,
    settings: Arc<AccountSettings>,
    /// Whether account and Secret have our finalizer.
    has_finalizers: bool,
    /// Start of the leader term in which this process serves the account.
    served_in: Option<Duration>,
}

impl Account {
    pub(crate) fn new(key: AccountKey, uid: String, subscribers: Subscribers) -> Self {
        let settings = Arc::new(AccountSettings::unread(&key));
        Self {
            inner: Arc::new(AccountInner {
                key,
                uid,
                subscribers,
                reservations: Reservations::default(),
                usage: UsageReads::default(),
                state: Mutex::new(AccountHandleState {
                    connected: None,
                    settings,
                    has_finalizers: false,
                    served_in: None,
                }),
            }),
        }
    }

    /// Key of the account object.
    pub fn key(&self) -> &AccountKey {
        &self.inner.key
    }

    /// UID of the account object.
    pub fn uid(&self) -> &str {
        &self.inner.uid
    }

    pub(crate) fn enqueue_account_object(&self) {
        let uid = self.inner.uid.clone();
        self.inner.subscribers.enqueue(&EnqueueTarget::Object(uid));
    }

    pub(crate) fn settings(&self) -> Arc<AccountSettings> {
        self.state().settings.clone()
    }

    /// What the account object offers a namespace.
    pub fn terms(&self, namespace: &str) -> Terms {
        self.terms_of(self.settings().allowed.as_deref(), namespace)
    }

    /// What an account object of this name offers a namespace with these entries.
    pub fn terms_of(&self, entries: Option<&[AllowedNamespaces]>, namespace: &str) -> Terms {
        let labels = self.inner.subscribers.namespaces.labels(namespace);
        Terms::for_namespace(self.key(), entries, namespace, labels.as_deref())
    }

    pub(crate) fn subscribers(&self) -> &Subscribers {
        &self.inner.subscribers
    }

    /// Records that an object uses the account.
    pub(crate) fn set_in_use(&self) {
        if let Some((live, _)) = self.connected() {
            live.core.set_in_use();
        }
    }

    pub(crate) fn connected(&self) -> Option<Connected> {
        self.state().connected.clone()
    }

    /// Orders of the account object.
    pub(crate) fn reservations(&self) -> &Reservations {
        &self.inner.reservations
    }

    /// What the servers of the account object have used.
    pub(super) fn usage_reads(&self) -> &UsageReads {
        &self.inner.usage
    }

    /// Whether the permit's connection has this hash and is the one the account uses. A decision made over another
    /// connection does not count for this one.
    pub fn is_current_permit_for(&self, permit: &Permit, connection: Option<&str>) -> bool {
        connection == Some(permit.connection().connection_hash.as_str())
            && self.is_current_permit(permit)
    }

    /// Whether the permit is for the connection that the account uses.
    pub(crate) fn is_current_permit(&self, permit: &Permit) -> bool {
        let connected = self.connected();
        connected.is_some_and(|(_, present)| Arc::ptr_eq(&present, permit.connection()))
    }

    pub(crate) fn has_finalizers(&self) -> bool {
        self.state().has_finalizers
    }

    /// Whether this process serves the account in the leader term that began at this moment.
    pub(crate) fn is_served(&self, term: Duration) -> bool {
        self.state().served_in == Some(term)
    }

    /// Returns whether the value changed.
    pub(crate) fn set_served(&self, term: Option<Duration>) -> bool {
        std::mem::replace(&mut self.state().served_in, term) != term
    }

    /// Returns whether the value changed.
    pub(crate) fn set_finalizers(&self, has_finalizers: bool) -> bool {
        std::mem::replace(&mut self.state().has_finalizers, has_finalizers) != has_finalizers
    }

    /// Applies settings, over a new connection or the current one. Returns whether the objects that use the account
    /// must be reconciled.
    pub(crate) fn configure(&self, settings: AccountSettings, new: Option<Connected>) -> bool {
        let settings = Arc::new(settings);
        let is_new = new.is_some();
        let mut state = self.state();
        let is_news = is_new || settings.is_news_after(&state.settings);
        state.settings = settings.clone();
        if let Some(connected) = new {
            state.connected = Some(connected);
        }
        let connected = state.connected.clone();
        drop(state);
        if let Some((live, connection)) = connected {
            live.core.apply_settings(connection, settings);
        }
        is_news
    }

    /// Removes the connection, and returns it.
    pub(crate) fn disconnect(&self) -> Option<Connected> {
        self.state().connected.take()
    }

    /// Ends the account: its object is gone. Returns the previous connection.
    pub(crate) fn end(&self) -> Option<Connected> {
        let mut state = self.state();
        state.has_finalizers = false;
        state.settings = Arc::new(AccountSettings::gone(self.key()));
        state.connected.take()
    }

    fn state(&self) -> MutexGuard<'_, AccountHandleState> {
        let state = self.inner.state.lock();
        state.unwrap_or_else(PoisonError::into_inner)
    }

    /// The current view of the account.
    pub fn view(&self) -> AccountView {
        let settings = self.settings();
        let mut view = AccountView {
            state: AccountState::Usable,
            times: settings.times,
            complete_list: None,
            known: settings.known.clone(),
            catalogue: None,
            refused: Vec::new(),
            limits: settings.limits.clone(),
            servers: None,
            tags: None,
            ssh_keys: None,
            hosts: None,
            uid: self.inner.uid.clone(),
            credentials_hash: None,
            account_id: settings.account_id.clone(),
            last_error: None,
            outage: None,
            list_errors: Default::default(),
            is_unreachable: false,
            answers_since: None,
            no_orders: self.why_no_orders(),
            defaults: settings.defaults,
            install_form: settings.install_form,
            release_limit: settings.release_limit.clone(),
            egress: settings.egress.clone(),
        };
        let mut key = KeyState::Untried;
        if let Some((live, connection)) = self.connected() {
            view.credentials_hash = Some(connection.connection_hash.clone());
            // Read before the lists: the catalogue that settles a refusal is then in the lists.
            view.refused = live.core.refusals.list_unexplained();
            let (contents, errors) = live.core.lists.view();
            view.catalogue = contents.catalogue;
            view.servers = contents.servers;
            view.tags = contents.tags;
            view.ssh_keys = contents.ssh_keys;
            view.hosts = contents.hosts;
            let state = live.core.state();
            key = state.breaker.state().clone();
            view.complete_list = state.servers.complete_list().cloned();
            view.is_unreachable = state.schedule.is_unreachable();
            view.outage = state.schedule.outage().cloned();
            view.answers_since = state.schedule.answers_since();
            let of_orders = [ListKind::Catalogue, ListKind::Servers];
            let list_error = of_orders.map(|list| errors[list as usize].clone());
            let list_error = list_error.into_iter().flatten().next();
            view.last_error = state.schedule.error().cloned().or(list_error);
            view.list_errors = errors;
        }
        let reason = match (&settings.block, key) {
            (Some(block), _) => Some(block.clone()),
            (None, KeyState::Accepted) => None,
            (None, KeyState::Rejected(refusal)) => Some((
                Reason::KeyRejected,
                format!(
                    "The hosting API rejects the key of {}; {refusal}. Put a valid key into its Secret",
                    self.key(),
                ),
            )),
            (None, KeyState::Untried) => Some(view.last_error.clone().unwrap_or_else(|| {
                let text = format!(
                    "The key of {} is not tried yet; continues once its first call is answered",
                    self.key()
                );
                (Reason::Pending, text)
            })),
        };
        if let Some((reason, message)) = reason {
            view.state = AccountState::Blocked(reason, message);
        }
        view
    }

    /// All known servers with an order tag of this name hash, in any state.
    pub fn find_servers(&self, name_hash: &str) -> Vec<SeenServer> {
        match self.connected() {
            Some((live, _)) => live
                .core
                .state()
                .servers
                .snapshot()
                .servers_by_name_hash(name_hash),
            None => Vec::new(),
        }
    }

    /// The known server with this ID, whatever its tags.
    pub fn find_server(&self, id: &ServerId) -> Option<SeenServer> {
        let (live, _) = self.connected()?;
        let state = live.core.state();
        state.servers.snapshot().get(id).cloned()
    }

    /// Requests a complete list that starts at or after `not_before` (monotonic). Enqueues the object with this name
    /// hash once the list is available, at once if it already is.
    pub fn request_complete_list(&self, name_hash: &str, not_before: Duration) {
        let Some((live, _)) = self.connected() else {
            return;
        };
        live.core.set_in_use();
        let mut state = live.core.state();
        let complete_list = state.servers.complete_list();
        if complete_list.is_some_and(|p| p.began >= not_before) {
            drop(state);
            live.core
                .enqueue(&EnqueueTarget::NameHash(name_hash.to_owned()));
        } else if state.schedule.request_complete_list(name_hash, not_before) {
            drop(state);
            live.core.replan.notify_one();
        }
    }

    /// Requests a poll of a list that starts at or after `not_before` (monotonic). Enqueues the caller when it
    /// succeeds, fails twice in a row, or is available already and not yet reported to the caller.
    pub fn request_list(&self, list: ListKind, not_before: Duration, caller: &Caller) {
        if let Some((live, _)) = self.connected() {
            live.core.request_list(list, not_before, caller);
        }
    }

    /// Retries failed polls once for a request of this moment.
    pub fn request_retry(&self, since: Duration) {
        if let Some((live, _)) = self.connected() {
            live.core.request_retry(since);
        }
    }

    /// Requests a catalogue poll that starts at or after `not_before`. No object waits for it.
    pub fn refresh_catalogue(&self, not_before: Duration) {
        if let Some((live, _)) = self.connected() {
            live.core.lists.refresh_catalogue(not_before);
        }
    }

    /// Requests a permit for `calls` calls. If none is free, the caller is queued and reconciled when it should ask
    /// again. The same request keeps its position; another priority or number of calls moves it.
    ///
    /// # Errors
    /// The last refusal while the key is rejected; [`Error::NotSent`] without a connection.
    pub fn request_permit(
        &self,
        priority: Priority,
        calls: u32,
        caller: &Caller,
    ) -> Result<PermitAnswer, Error> {
        let (live, connection) = self.connected().ok_or_else(|| {
            let why = format!("{} has no usable key or base URL", self.key());
            Error::NotSent(NotSent::Build(why.into()))
        })?;
        if let Err(refused) = live.core.check_key() {
            live.core.rate_limiter.cancel_request(&caller.uid);
            return Err(refused);
        }
        Ok(
            match live
                .core
                .rate_limiter
                .request_calls(priority, calls, caller)
            {
                true => PermitAnswer::Now(Permit::new(live, connection, priority, calls)),
                false => PermitAnswer::Queued,
            },
        )
    }
}
