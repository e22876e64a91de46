//! What the controllers hold of an account object.

use super::{
    AccountKey, Contact, Denied, Wake,
    budget::Lane,
    live::Live,
    orders::Orders,
    view::{Sighting, State, Times, View},
};
use crate::{
    kinds::{
        Reason,
        account::{AllowedNamespaces, KnownMachine},
        names::ACCOUNT_FINALIZER,
    },
    runtime::clock,
};
use hosting::{
    Client, Error, Order, OrderOutcome, Server, ServerId, error::NotSent, listing::Gap,
    server::ServerStatus,
};
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::sync::{Notify, watch};

/// How long an order waits for its turn.
const TURN: Duration = Duration::from_secs(10);

/// One account object. A clone is the same one; changes of the object show in all of them.
#[derive(Clone)]
pub struct Account {
    inner: Arc<Inner>,
}

struct Inner {
    key: AccountKey,
    changed: Arc<Notify>,
    settings: Mutex<Settings>,
}

/// What the object's controller last said.
pub(super) struct Settings {
    /// The live account and the client to speak to it with.
    pub(super) connection: Option<(Live, Client)>,
    /// Nothing may change.
    pub(super) block: Option<(Reason, String)>,
    /// Nothing may be ordered; releases go on.
    pub(super) no_orders: Option<(Reason, String)>,
    pub(super) allowed: Option<AllowedNamespaces>,
    /// Whether account and Secret stay for as long as they are used.
    pub(super) held: watch::Sender<bool>,
    pub(super) times: Times,
    pub(super) known: Vec<KnownMachine>,
    pub(super) used_before: bool,
}

impl Account {
    pub(super) fn new(key: AccountKey, settings: Settings) -> Self {
        Self {
            inner: Arc::new(Inner {
                key,
                changed: Arc::new(Notify::new()),
                settings: Mutex::new(settings),
            }),
        }
    }

    /// The name of the account object.
    pub fn key(&self) -> &AccountKey {
        &self.inner.key
    }

    /// Wakes the controller of the account object.
    pub(super) fn changed(&self) -> &Arc<Notify> {
        &self.inner.changed
    }

    pub(super) fn settings(&self) -> MutexGuard<'_, Settings> {
        self.inner
            .settings
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn live(&self) -> Option<Live> {
        self.settings()
            .connection
            .as_ref()
            .map(|(live, _)| live.clone())
    }

    /// The account at this moment.
    pub fn view(&self) -> View {
        let settings = self.settings();
        let mut view = View {
            state: State::Usable,
            times: settings.times,
            proof: None,
            known: settings.known.clone(),
            catalogue: None,
            used_before: settings.used_before,
            last_error: None,
        };
        let mut contact = Contact::Untried;
        if let Some((live, _)) = &settings.connection {
            let knowledge = live.core.knowledge();
            contact = knowledge.breaker.contact().clone();
            view.proof = knowledge.proof.clone();
            view.catalogue = knowledge.catalogue.clone();
            view.last_error = knowledge
                .error
                .clone()
                .or_else(|| knowledge.catalogue_error.clone());
        }
        let reason = match (&settings.block, contact) {
            (Some(block), _) => Some(block.clone()),
            (None, Contact::Accepted) => None,
            (None, Contact::Rejected(refusal)) => Some((
                Reason::KeyRejected,
                format!(
                    "the hosting API rejects the key of {} ({refusal}): put a valid key into its Secret",
                    self.key()
                ),
            )),
            (None, Contact::Untried) => Some(view.last_error.clone().unwrap_or_else(|| {
                let text = format!("the key of {} was not tried yet", self.key());
                (Reason::Pending, text)
            })),
        };
        if let Some((reason, message)) = reason {
            view.state = State::Blocked(reason, message);
        }
        view
    }

    /// Every machine that is known to bear this object mark, in any epoch and any state.
    pub fn sightings(&self, mark: &str) -> Vec<Sighting> {
        self.live()
            .map(|live| live.core.knowledge().snapshot.by_mark(mark))
            .unwrap_or_default()
    }

    /// A machine by its identity, whatever it bears.
    pub fn sighting(&self, id: &ServerId) -> Option<Sighting> {
        self.live()?.core.knowledge().snapshot.get(id).cloned()
    }

    /// A proof listing that begins at or after this monotonic moment is wanted. The object of this mark
    /// is woken when one is there, at once if one is there already. One listing serves all that wait.
    pub fn want_proof(&self, mark: &str, not_before: Duration) {
        let Some(live) = self.live() else { return };
        let mut knowledge = live.core.knowledge();
        knowledge.cared = true;
        let is_there = knowledge
            .proof
            .as_ref()
            .is_some_and(|p| p.began >= not_before);
        if is_there {
            drop(knowledge);
            live.core.wake(Wake::Mark(mark.to_owned()));
            return;
        }
        if knowledge.wants.insert(mark.to_owned(), not_before) != Some(not_before) {
            drop(knowledge);
            live.core.replan.notify_one();
        }
    }

    /// A look at the catalogue that begins at or after this monotonic moment is wanted. All objects of
    /// the account are woken when it is there; nothing happens if one is there already.
    pub fn want_catalogue(&self, not_before: Duration) {
        if let Some(live) = self.live() {
            live.core.want_catalogue(not_before);
        }
    }

    /// Reserves one order for the object of this mark and waits for its turn among the calls.
    ///
    /// # Errors
    /// [`Denied`] says whether a limit, the state of the account, or only time stands against it.
    pub async fn reserve(&self, mark: &str) -> Result<OrderPermit, Denied> {
        let (live, client) = self.may_order()?;
        self.hold().await?;
        let now = clock::now();
        let id = {
            let mut knowledge = live.core.knowledge();
            let knowledge = &mut *knowledge;
            // The account that orders is named first, so that the message speaks of it.
            let mut members: Vec<_> = knowledge.members.iter().collect();
            members.sort_by_key(|(key, _)| **key != *self.key());
            let limits = members
                .into_iter()
                .map(|(key, m)| (key.to_string(), &m.limits));
            knowledge
                .orders
                .admit(mark, &knowledge.snapshot, limits, now)?
        };
        let permit = OrderPermit { live, client, id };
        let turn = permit.live.core.budget.take(Lane::Order);
        if tokio::time::timeout(TURN, turn).await.is_err() {
            return Err(Denied::Busy);
        }
        self.may_order()?;
        Ok(permit)
    }

    /// Waits until account and Secret are kept from vanishing. Without the key nothing that is ordered
    /// could be released.
    async fn hold(&self) -> Result<(), Denied> {
        let mut held = self.settings().held.subscribe();
        if *held.borrow_and_update() {
            return Ok(());
        }
        self.changed().notify_one();
        match tokio::time::timeout(TURN, held.wait_for(|held| *held)).await {
            Ok(Ok(_)) => Ok(()),
            _ => Err(Denied::Blocked(
                Reason::Pending,
                format!(
                    "the finalizer {ACCOUNT_FINALIZER} is not yet on {} and its Secret; see the account's events",
                    self.key()
                ),
            )),
        }
    }

    fn may_order(&self) -> Result<(Live, Client), Denied> {
        if let State::Blocked(reason, message) = self.view().state {
            return Err(Denied::Blocked(reason, message));
        }
        let settings = self.settings();
        if let Some((reason, message)) = &settings.no_orders {
            return Err(Denied::Blocked(*reason, message.clone()));
        }
        settings.connection.clone().ok_or(Denied::Busy)
    }

    /// Sends the order, at once and at most once. On success the machine is known from here on.
    ///
    /// Once polled it must be polled to its end, like [`Client::order`].
    pub async fn order(&self, permit: OrderPermit, order: &Order, order_tag: &str) -> OrderOutcome {
        let core = &permit.live.core;
        let sent = clock::now().mono;
        core.knowledge().orders.sent(permit.id, order_tag, sent);
        let outcome = permit.client.order(order, order_tag).await;
        match &outcome {
            OrderOutcome::Created(server) => {
                core.heard(Ok(()));
                // As of now, not of the send: no earlier look can have shown it.
                core.took_in((**server).clone(), clock::now().mono);
            }
            OrderOutcome::Refused(error) => core.heard(Err(error)),
            OrderOutcome::NotSent(_) | OrderOutcome::Unknown(_) => {}
        }
        core.knowledge().orders.ended(permit.id, &outcome);
        outcome
    }

    /// Reads one machine.
    ///
    /// # Errors
    /// As [`Client::server`]; the last refusal while the key is refused.
    pub async fn read(&self, id: &ServerId, lane: Lane) -> Result<Server, Error> {
        let (live, client) = self.connection()?;
        let server = live.core.read(&client, id, lane).await?;
        Ok((*server).clone())
    }

    /// Waits for the turn of one call, so that the call itself need not wait.
    ///
    /// # Errors
    /// The last refusal while the key is refused.
    pub async fn turn(&self, lane: Lane) -> Result<Turn, Error> {
        let (live, _) = self.connection()?;
        live.core.turn(lane).await?;
        Ok(Turn(()))
    }

    /// Releases one machine, at once.
    ///
    /// # Errors
    /// As [`Client::release`]; the last refusal while the key is refused.
    pub async fn release(&self, turn: Turn, id: &ServerId) -> Result<Server, Error> {
        let Turn(()) = turn;
        let (live, client) = self.connection()?;
        let server = live.core.call_now(client.release(id)).await?;
        Ok(self.changed_record(&live, server))
    }

    /// Whether the account's list of tags holds this one.
    ///
    /// # Errors
    /// As [`Client::tag`], without 404.
    pub async fn tag_exists(&self, tag: &str) -> Result<bool, Error> {
        let (live, client) = self.connection()?;
        match live.core.call(Lane::Resolve, client.tag(tag)).await {
            Ok(_) => Ok(true),
            Err(Error::NotFound(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Adds a tag to a machine.
    ///
    /// # Errors
    /// As [`Client::add_tag`]; the last refusal while the key is refused.
    pub async fn add_tag(&self, id: &ServerId, tag: &str) -> Result<Server, Error> {
        let (live, client) = self.connection()?;
        let server = live
            .core
            .call(Lane::Resolve, client.add_tag(id, tag))
            .await?;
        Ok(self.changed_record(&live, server))
    }

    /// Takes a tag off a machine.
    ///
    /// # Errors
    /// As [`Client::remove_tag`]; the last refusal while the key is refused.
    pub async fn remove_tag(&self, id: &ServerId, tag: &str) -> Result<Server, Error> {
        let (live, client) = self.connection()?;
        let server = live
            .core
            .call(Lane::Resolve, client.remove_tag(id, tag))
            .await?;
        Ok(self.changed_record(&live, server))
    }

    /// Every machine of the account, whatever it bears, read to an empty page. Costly and rare.
    ///
    /// # Errors
    /// As [`Client::servers`]; [`Error::Undecodable`] when the list changed while it was read.
    pub async fn all_servers(&self) -> Result<Vec<Server>, Error> {
        let (live, client) = self.connection()?;
        match live.core.list_all(&client).await {
            Ok(all) => Ok(all.into_records()),
            Err(Gap::Failed(error)) => Err(error),
            Err(other) => Err(Error::Undecodable {
                status: 200,
                why: other.to_string(),
                idempotent: true,
            }),
        }
    }

    /// The answer to a change is as of now: whatever was asked for before is older.
    fn changed_record(&self, live: &Live, server: Server) -> Server {
        let kept = live.core.took_in(server, clock::now().mono);
        (*kept).clone()
    }

    fn connection(&self) -> Result<(Live, Client), Error> {
        let connection = self.settings().connection.clone();
        connection.ok_or_else(|| {
            let why = format!("{} has no usable key or base URL", self.key());
            Error::NotSent(NotSent::Build(why.into()))
        })
    }
}

/// The turn of one call, taken from the budget.
#[must_use]
pub struct Turn(());

/// The permission for one order. Dropped unused, it gives its place back.
pub struct OrderPermit {
    live: Live,
    client: Client,
    id: u64,
}

impl Drop for OrderPermit {
    fn drop(&mut self) {
        Orders::given_up(&mut self.live.core.knowledge().orders, self.id);
    }
}

/// How many machines of the cluster an account has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Live ones.
    pub live: usize,
    /// Live ones that were let go by policy Retain.
    pub retained: usize,
}

impl Counts {
    pub(super) fn of<'a>(machines: impl Iterator<Item = &'a Sighting>) -> Self {
        let mut counts = Self::default();
        for machine in machines.filter(|m| ServerStatus::is_live(&m.server.status)) {
            counts.live += 1;
            counts.retained += usize::from(super::marks::is_retained(&machine.server));
        }
        counts
    }
}
