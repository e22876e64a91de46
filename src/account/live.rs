//! One account as it is: what is known of it, and the one way by which calls go out.

use super::{
    AccountKey, Claims, Wake,
    breaker::{Breaker, Contact},
    budget::{Budget, Lane, Rate},
    orders::Orders,
    orphans::Verdict,
    snapshot::{Snapshot, Touched},
    view::{Catalogue, Proof, Times},
};
use crate::{
    kinds::{
        Reason,
        account::{KnownMachine, Limits},
    },
    runtime::{Moment, clock},
};
use futures::FutureExt as _;
use hosting::{
    Client, Error, Page, Server, ServerFilter, ServerId,
    listing::{Complete, Gap, Listing},
};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};
use tokio::{
    sync::{Notify, mpsc::UnboundedSender},
    task::JoinSet,
};

/// Who knows the objects; set once, when the controllers are there.
pub(super) type ClaimsCell = Arc<OnceLock<Arc<dyn Claims>>>;

/// A live account. A clone is the same one; with the last clone its rounds end.
#[derive(Clone)]
pub(super) struct Live {
    pub(super) core: Arc<Core>,
    /// Ends with the last clone.
    _rounds: Arc<JoinSet<()>>,
}

/// What the clones share with the rounds.
pub(super) struct Core {
    pub(super) cluster_tag: String,
    pub(super) budget: Budget,
    pub(super) claims: ClaimsCell,
    /// The rounds have to be planned anew.
    pub(super) replan: Notify,
    /// A look at the catalogue is wanted.
    pub(super) restock: Notify,
    wakes: UnboundedSender<Wake>,
    knowledge: Mutex<Knowledge>,
}

/// All that is known of an account. Locked for moments only, never across a call.
pub(super) struct Knowledge {
    pub(super) breaker: Breaker,
    pub(super) snapshot: Snapshot,
    pub(super) orders: Orders,
    pub(super) members: BTreeMap<AccountKey, Member>,
    /// Whether anybody uses the account.
    pub(super) cared: bool,
    pub(super) proof: Option<Arc<Proof>>,
    pub(super) verdict: Verdict,
    /// Who wants a proof listing that begins at or after which moment.
    pub(super) wants: HashMap<String, Duration>,
    pub(super) catalogue: Option<(Duration, Arc<Catalogue>)>,
    pub(super) catalogue_wants: BTreeSet<Duration>,
    pub(super) catalogue_error: Option<(Reason, String)>,
    /// The rounds fail.
    pub(super) error: Option<(Reason, String)>,
    pub(super) failures: u32,
    pub(super) retry_at: Duration,
    pub(super) started: Duration,
    pub(super) looked: Option<Duration>,
    pub(super) moving_since: Option<Duration>,
    pub(super) page_size: u32,
    pub(super) jitter: f64,
}

/// One account object that stands on a live account.
pub(super) struct Member {
    pub(super) client: Client,
    pub(super) times: Times,
    pub(super) limits: Limits,
    pub(super) known: Vec<KnownMachine>,
    /// Wakes the controller of the account object.
    pub(super) changed: Arc<Notify>,
}

impl Live {
    pub(super) fn begin(
        cluster_tag: String,
        rate: Rate,
        claims: ClaimsCell,
        wakes: UnboundedSender<Wake>,
    ) -> Self {
        let now = clock::now().mono;
        let core = Arc::new(Core {
            budget: Budget::new(rate),
            claims,
            replan: Notify::new(),
            restock: Notify::new(),
            wakes,
            knowledge: Mutex::new(Knowledge {
                breaker: Breaker::new(),
                snapshot: Snapshot::new(cluster_tag.clone()),
                orders: Orders::default(),
                members: BTreeMap::new(),
                cared: false,
                proof: None,
                verdict: Verdict::NotChecked,
                wants: HashMap::new(),
                catalogue: None,
                catalogue_wants: BTreeSet::new(),
                catalogue_error: None,
                error: None,
                failures: 0,
                retry_at: Duration::ZERO,
                started: now,
                looked: None,
                moving_since: None,
                page_size: Page::MOST,
                jitter: 1.0,
            }),
            cluster_tag,
        });
        let looking = core.clone();
        let mut rounds = JoinSet::new();
        rounds.spawn(async move {
            tokio::join!(looking.keep_watch(), looking.keep_stock());
        });
        Self {
            core,
            _rounds: Arc::new(rounds),
        }
    }
}

impl Core {
    pub(super) fn knowledge(&self) -> MutexGuard<'_, Knowledge> {
        self.knowledge
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a call when its turn has come. While the key is refused no call goes out: the refusal
    /// is the answer.
    pub(super) async fn call<T>(
        &self,
        lane: Lane,
        call: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        self.turn(lane).await?;
        self.call_now(call).await
    }

    /// Waits for the turn of a call.
    pub(super) async fn turn(&self, lane: Lane) -> Result<(), Error> {
        self.check_key()?;
        self.budget.take(lane).await;
        Ok(())
    }

    /// Makes a call whose turn was taken before.
    pub(super) async fn call_now<T>(
        &self,
        call: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        // It may have been refused while this call waited.
        self.check_key()?;
        let result = call.await;
        self.heard(result.as_ref().map(drop));
        result
    }

    /// The one call that a refused key is tried with.
    pub(super) async fn probe_call<T>(
        &self,
        call: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        self.budget.take(Lane::Resolve).await;
        let result = call.await;
        self.heard(result.as_ref().map(drop));
        result
    }

    fn check_key(&self) -> Result<(), Error> {
        match self.knowledge().breaker.contact() {
            Contact::Rejected(refusal) => Err(Error::AccessDenied(refusal.clone())),
            _ => Ok(()),
        }
    }

    /// What an answer says of the account itself.
    pub(super) fn heard(&self, result: Result<(), &Error>) {
        // Whatever is refused may come with a wait: 503 above all.
        if let Err(error) = result
            && (matches!(error, Error::RateLimited(_)) || error.retry_after().is_some())
        {
            self.budget.slow_down(error.retry_after());
        }
        let news = match result {
            Ok(()) => self.knowledge().breaker.accepted(),
            Err(Error::AccessDenied(refusal)) => self
                .knowledge()
                .breaker
                .rejected(refusal.clone(), clock::now().mono),
            Err(_) => false,
        };
        if news {
            self.announce();
        }
    }

    /// Everybody who uses the account looks again.
    pub(super) fn announce(&self) {
        let members: Vec<_> = {
            let knowledge = self.knowledge();
            let members = knowledge.members.iter();
            members
                .map(|(key, m)| (key.clone(), m.changed.clone()))
                .collect()
        };
        for (key, changed) in members {
            changed.notify_one();
            self.wake(Wake::Account(key));
        }
        self.replan.notify_one();
        self.restock.notify_one();
    }

    /// The controllers of the account objects look again; the servers need not.
    pub(super) fn tell_members(&self) {
        for member in self.knowledge().members.values() {
            member.changed.notify_one();
        }
    }

    pub(super) fn wake(&self, wake: Wake) {
        // Nobody listens while the process ends.
        let _ = self.wakes.send(wake);
    }

    fn wake_marks(&self, touched: Touched) {
        for mark in touched {
            self.wake(Wake::Mark(mark));
        }
    }

    /// Takes records in that were asked for at `seen`, and wakes whom they concern.
    pub(super) fn take_in(&self, servers: Vec<Server>, seen: Duration) -> Vec<Arc<Server>> {
        let mut touched = Touched::new();
        let kept = {
            let mut knowledge = self.knowledge();
            let mut put = |server| {
                let (marks, kept) = knowledge.snapshot.put(server, seen);
                touched.extend(marks);
                kept
            };
            servers.into_iter().map(&mut put).collect()
        };
        self.after_change(touched);
        kept
    }

    fn after_change(&self, touched: Touched) {
        if touched.is_empty() {
            return;
        }
        self.knowledge().note_motion(clock::now());
        self.replan.notify_one();
        self.tell_members();
        self.wake_marks(touched);
    }

    /// Reads one machine. One that the API does not know leaves the snapshot.
    pub(super) async fn read(
        &self,
        client: &Client,
        id: &ServerId,
        lane: Lane,
    ) -> Result<Arc<Server>, Error> {
        // Looked at before the budget is waited for: older is the safe side.
        let seen = clock::now().mono;
        match self.call(lane, client.server(id)).await {
            Ok(server) => Ok(self.took_in(server, seen)),
            Err(error) => {
                if matches!(error, Error::NotFound(_)) {
                    let touched = {
                        let mut knowledge = self.knowledge();
                        let older = |s: &super::view::Sighting| s.seen <= seen;
                        match knowledge.snapshot.get(id).is_some_and(older) {
                            true => knowledge.snapshot.remove(id),
                            false => Touched::new(),
                        }
                    };
                    self.after_change(touched);
                }
                Err(error)
            }
        }
    }

    /// Takes one record in.
    pub(super) fn took_in(&self, server: Server, seen: Duration) -> Arc<Server> {
        let fallback = server.clone();
        let kept = self.take_in(vec![server], seen).pop();
        kept.unwrap_or_else(|| Arc::new(fallback))
    }

    /// The list of machines that a filter lets through; each page is taken in as it comes.
    pub(super) fn machines<'a>(
        &'a self,
        client: &'a Client,
        filter: &'a ServerFilter,
        lane: Lane,
    ) -> Listing<'a, Arc<Server>> {
        let size = self.knowledge().page_size;
        let pages = Listing::of_servers(move |page| {
            async move {
                let seen = clock::now().mono;
                let servers = self.page(client, filter, page, lane).await?;
                Ok(self.take_in(servers, seen))
            }
            .boxed()
        });
        pages.with_page_size(size).growing()
    }

    /// Reads the list of all machines of the account, whatever they bear. They stay out of the snapshot.
    pub(super) async fn list_all(&self, client: &Client) -> Result<Complete<Server>, Gap> {
        let filter = &ServerFilter::default();
        let size = self.knowledge().page_size;
        let pages =
            Listing::of_servers(move |page| self.page(client, filter, page, Lane::Resolve).boxed());
        let all = pages.with_page_size(size).growing().collect().await;
        all.map_err(|incomplete| incomplete.gap)
    }

    async fn page(
        &self,
        client: &Client,
        filter: &ServerFilter,
        page: Page,
        lane: Lane,
    ) -> Result<Vec<Server>, Error> {
        let servers = self.call(lane, client.servers(filter, page)).await?;
        // A listing goes over to smaller pages where the API gives no more at once. A full one shows
        // that they fit, and the next listing begins with them: finding out costs calls.
        if servers.len() == page.results() as usize {
            self.knowledge().page_size = page.results();
        }
        Ok(servers)
    }

    /// Somebody uses the account.
    pub(super) fn care(&self) {
        let mut knowledge = self.knowledge();
        if !knowledge.cared {
            knowledge.cared = true;
            drop(knowledge);
            self.replan.notify_one();
        }
    }
}

impl Knowledge {
    /// Keeps since when machines are in motion.
    pub(super) fn note_motion(&mut self, now: Moment) {
        let moving = self.snapshot.moving(now.wall).next().is_some();
        self.moving_since = moving.then(|| self.moving_since.unwrap_or(now.mono));
    }

    /// The client of any member: they differ in time-outs at most.
    pub(super) fn client(&self) -> Option<Client> {
        self.members.values().next().map(|m| m.client.clone())
    }

    /// The members' times in one: the most frequent looks, the longest waits.
    pub(super) fn times(&self) -> Option<Times> {
        self.members.values().map(|m| m.times).reduce(|a, b| Times {
            settle: a.settle.max(b.settle),
            listing_spacing: a.listing_spacing.max(b.listing_spacing),
            send_window: a.send_window.min(b.send_window),
            order_timeout: a.order_timeout.max(b.order_timeout),
            poll_moving: a.poll_moving.min(b.poll_moving),
            poll_still: a.poll_still.min(b.poll_still),
            sweep: a.sweep.min(b.sweep),
        })
    }

    /// The machines that any member is known by.
    pub(super) fn known(&self) -> Vec<KnownMachine> {
        let known = self.members.values().flat_map(|m| &m.known);
        known.cloned().collect()
    }
}
