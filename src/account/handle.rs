//! What the controllers hold of an account object.

use super::{
    AccountSettings, Connection, EnqueueTarget,
    limits::Reservations,
    rate_limiter::{Caller, Permit, PermitAnswer},
    session::Session,
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

/// The session, and what its calls go by.
pub(crate) type Connected = (Session, Arc<Connection>);

/// One account object. A clone is the same one; changes of the object show in all of them. Another
/// object of the same name is another account.
#[derive(Clone)]
pub struct Account {
    inner: Arc<AccountInner>,
}

struct AccountInner {
    key: AccountKey,
    uid: String,
    subscribers: Subscribers,
    /// What it has ordered, whatever it was connected to.
    reservations: Reservations,
    state: Mutex<AccountHandleState>,
}

/// What is in force for the object.
struct AccountHandleState {
    connected: Option<Connected>,
    settings: Arc<AccountSettings>,
    /// Whether account and Secret stay for as long as they are used.
    has_finalizers: bool,
    /// Since when this process leads, where it serves the account in that term.
    served_in: Option<Duration>,
}

impl Account {
    pub(crate) fn new(key: AccountKey, uid: String, audience: Subscribers) -> Self {
        let settings = Arc::new(AccountSettings::unread(&key));
        Self {
            inner: Arc::new(AccountInner {
                key,
                uid,
                subscribers: audience,
                reservations: Reservations::default(),
                state: Mutex::new(AccountHandleState {
                    connected: None,
                    settings,
                    has_finalizers: false,
                    served_in: None,
                }),
            }),
        }
    }

    /// The name of the account object.
    pub fn key(&self) -> &AccountKey {
        &self.inner.key
    }

    /// The UID of the account object.
    pub fn uid(&self) -> &str {
        &self.inner.uid
    }

    /// Wakes the controller of the account object.
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

    /// What an account object of this name would offer a namespace with these entries.
    pub fn terms_of(&self, entries: Option<&[AllowedNamespaces]>, namespace: &str) -> Terms {
        let labels = self.inner.subscribers.namespaces.labels(namespace);
        Terms::for_namespace(self.key(), entries, namespace, labels.as_deref())
    }

    pub(crate) fn subscribers(&self) -> &Subscribers {
        &self.inner.subscribers
    }

    /// Somebody uses the account.
    pub(crate) fn set_in_use(&self) {
        if let Some((live, _)) = self.connected() {
            live.core.set_in_use();
        }
    }

    pub(crate) fn connected(&self) -> Option<Connected> {
        self.state().connected.clone()
    }

    /// What the account object has ordered.
    pub(crate) fn reservations(&self) -> &Reservations {
        &self.inner.reservations
    }

    /// Whether this permit is for the connection of this word, and the account stands on it: what was concluded
    /// over another one is no ground for what is sent over this.
    pub fn is_current_permit_for(&self, permit: &Permit, connection: Option<&str>) -> bool {
        connection == Some(permit.connection().connection_hash.as_str())
            && self.is_current_permit(permit)
    }

    /// Whether a permit is for the connection that the account stands on.
    pub(crate) fn is_current_permit(&self, permit: &Permit) -> bool {
        let connected = self.connected();
        connected.is_some_and(|(_, present)| Arc::ptr_eq(&present, permit.connection()))
    }

    pub(crate) fn has_finalizers(&self) -> bool {
        self.state().has_finalizers
    }

    /// Whether this process serves the account in the term that began at this moment.
    pub(crate) fn is_served(&self, term: Duration) -> bool {
        self.state().served_in == Some(term)
    }

    /// Returns whether that is news.
    pub(crate) fn set_served(&self, term: Option<Duration>) -> bool {
        std::mem::replace(&mut self.state().served_in, term) != term
    }

    /// Returns whether that is news.
    pub(crate) fn set_finalizers(&self, held: bool) -> bool {
        std::mem::replace(&mut self.state().has_finalizers, held) != held
    }

    /// Puts settings into force, over a new connection or the one that there is. Returns whether those who use the
    /// account have to look again.
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

    /// It leads nowhere any more. Returns where it did.
    pub(crate) fn disconnect(&self) -> Option<Connected> {
        self.state().connected.take()
    }

    /// The object is gone. Returns where it led.
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

    /// The account at this moment.
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
            connection: None,
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
            view.connection = Some(connection.connection_hash.clone());
            // Before the lists: a look that answers one of these is in them then.
            view.refused = live.core.refusals.open();
            let (contents, errors) = live.core.lists.view();
            view.catalogue = contents.catalogue;
            view.servers = contents.servers;
            view.tags = contents.tags;
            view.ssh_keys = contents.ssh_keys;
            view.hosts = contents.hosts;
            let state = live.core.state();
            key = state.key.state().clone();
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

    /// Every machine that is known to have an order tag of this namespace and name, in any state.
    pub fn find_servers(&self, place: &str) -> Vec<SeenServer> {
        match self.connected() {
            Some((live, _)) => live
                .core
                .state()
                .servers
                .snapshot()
                .servers_by_name_hash(place),
            None => Vec::new(),
        }
    }

    /// A machine by its identity, whatever it bears.
    pub fn find_server(&self, id: &ServerId) -> Option<SeenServer> {
        let (live, _) = self.connected()?;
        let state = live.core.state();
        state.servers.snapshot().get(id).cloned()
    }

    /// A proof listing that starts at or after this monotonic moment is wanted. The object of this mark
    /// is woken when one is there, at once if one is there already. One listing serves all that wait.
    pub fn request_complete_list(&self, mark: &str, not_before: Duration) {
        let Some((live, _)) = self.connected() else {
            return;
        };
        live.core.set_in_use();
        let mut state = live.core.state();
        let proof = state.servers.complete_list();
        if proof.is_some_and(|p| p.began >= not_before) {
            drop(state);
            live.core.enqueue(&EnqueueTarget::NameHash(mark.to_owned()));
        } else if state.schedule.request_complete_list(mark, not_before) {
            drop(state);
            live.core.replan.notify_one();
        }
    }

    /// A look at a list that starts at or after this monotonic moment is wanted. The object is woken
    /// when it is there, or fails twice in a row; one look serves all that wait. It is woken at once
    /// if there is a look already that it was not told of.
    pub fn request_list(&self, list: ListKind, not_before: Duration, caller: &Caller) {
        if let Some((live, _)) = self.connected() {
            live.core.request_list(list, not_before, caller);
        }
    }

    /// Somebody asks for a look since this moment: what waits after a failure is tried once for that.
    pub fn request_retry(&self, since: Duration) {
        if let Some((live, _)) = self.connected() {
            live.core.request_retry(since);
        }
    }

    /// A look at the catalogue that starts at or after this moment is wanted, and nobody waits for it.
    pub fn refresh_catalogue(&self, not_before: Duration) {
        if let Some((live, _)) = self.connected() {
            live.core.lists.refresh_catalogue(not_before);
        }
    }

    /// A permit for so many calls, now; else the object is queued, and woken when it should ask again.
    /// Asking again keeps its place; asking for another lane or number moves it.
    ///
    /// # Errors
    /// The last refusal while the key is refused; [`Error::NotSent`] without a connection.
    pub fn request_permit(
        &self,
        lane: Priority,
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
            match live.core.rate_limiter.request_calls(lane, calls, caller) {
                true => PermitAnswer::Now(Permit::new(live, connection, lane, calls)),
                false => PermitAnswer::Queued,
            },
        )
    }
}
