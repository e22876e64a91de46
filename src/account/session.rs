//! The session of one account object: what is known of the account, and the one way by which calls go out.

use super::{
    AccountSettings, Connection, EnqueueTarget, Rate,
    limits::Reservations,
    lists::Lists,
    memory_budget::NamespaceBudget,
    rate_limiter::{LONGEST_PAUSE, RateLimiter},
    reading::steady_now,
    schedule::{self, Schedule},
    servers::{ServerLists, Touched},
    users::Subscribers,
};
use crate::runtime::clock;
use api::account::KnownServer;
use flexmetal_core::account::{
    key::AccountKey,
    key_state::{Breaker, KeyState},
    ownership_tags,
    priority::Priority,
    supply::Refusals,
    view::AccountTimes,
};
use hosting_types::{Error, Page, ServerId};
use std::{
    ptr,
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::AtomicU32},
    time::Duration,
};
use tokio::{
    sync::{Notify, watch},
    task::JoinSet,
};

/// The session of one account object. A clone is the same one; with the last clone its tasks end.
#[derive(Clone)]
pub(crate) struct Session {
    pub(crate) core: Arc<Core>,
    /// Ends with the last clone.
    _tasks: Arc<JoinSet<()>>,
}

/// What the clones share with the tasks.
pub(crate) struct Core {
    /// The account object that this is the session of.
    pub(crate) account: SessionAccount,
    /// The cluster's identity.
    pub(crate) cluster: Arc<str>,
    pub(crate) cluster_tag: String,
    pub(crate) rate_limiter: RateLimiter,
    pub(crate) lists: Lists,
    /// Orders that may have been refused for want of stock or quota.
    pub(crate) refusals: Refusals,
    /// Where there is room for what it shows.
    pub(crate) memory_budget: NamespaceBudget,
    pub(crate) subscribers: Subscribers,
    /// The rounds have to be planned again.
    pub(crate) replan: Notify,
    /// The order tags that the last scan found to be needed by nobody.
    pub(crate) unneeded_tags: watch::Sender<Vec<String>>,
    /// The most records that the API gives at once, as far as is known.
    pub(crate) page_limit: AtomicU32,
    state: Mutex<SessionState>,
}

/// An account object.
pub(crate) struct SessionAccount {
    pub(crate) key: AccountKey,
    pub(crate) uid: String,
    /// What it has ordered, over whatever connection.
    pub(crate) reservations: Reservations,
}

/// What is known of an account, each part with an owner. Locked for moments only, never across a call
/// or a wake.
pub(crate) struct SessionState {
    pub(crate) key: Breaker,
    pub(crate) servers: ServerLists,
    pub(crate) schedule: Schedule,
    /// When all tags were listed, and none was left that nobody needs.
    pub(crate) order_tags_listed: Option<Duration>,
    /// None: before it begins, and once it has ended.
    config: Option<SessionConfig>,
}

/// What the calls go by, and when they are made.
struct SessionConfig {
    connection: Arc<Connection>,
    settings: Arc<AccountSettings>,
}

impl SessionState {
    /// What calls go by from here on.
    pub(crate) fn connection(&self) -> Option<Arc<Connection>> {
        let in_force = self.config.as_ref();
        in_force.map(|in_force| in_force.connection.clone())
    }

    /// The same where the account may be changed for its own sake, and not for an object.
    pub(crate) fn connection_for_changes(&self) -> Option<Arc<Connection>> {
        let in_force = self.config.as_ref();
        let in_force = in_force.filter(|in_force| in_force.settings.may_change_account());
        in_force.map(|in_force| in_force.connection.clone())
    }

    /// The account's times.
    pub(crate) fn times(&self) -> Option<AccountTimes> {
        let in_force = self.config.as_ref();
        in_force.map(|in_force| in_force.settings.times)
    }

    /// The machines that the account is known by.
    pub(crate) fn known(&self) -> &[KnownServer] {
        let in_force = self.config.as_ref();
        in_force.map_or(&[], |in_force| &in_force.settings.known)
    }

    fn uses(&self, connection: &Connection) -> bool {
        let in_force = self.config.as_ref();
        in_force.is_some_and(|in_force| ptr::eq(&*in_force.connection, connection))
    }
}

impl Session {
    /// Starts one. What it shows takes of this part of the room.
    pub(crate) fn start(
        of: SessionAccount,
        cluster: Arc<str>,
        rate: Rate,
        room: &NamespaceBudget,
        audience: Subscribers,
    ) -> Self {
        let cluster_tag = ownership_tags::cluster_tag(&cluster);
        let core = Arc::new(Core {
            account: of,
            rate_limiter: RateLimiter::new(rate, audience.clone()),
            lists: Lists::default(),
            refusals: Refusals::default(),
            memory_budget: room.clone(),
            subscribers: audience,
            replan: Notify::new(),
            unneeded_tags: watch::Sender::default(),
            page_limit: AtomicU32::new(Page::MOST),
            state: Mutex::new(SessionState {
                key: Breaker::default(),
                servers: ServerLists::new(cluster_tag.clone(), room.empty_reservation()),
                schedule: Schedule::new(clock::now().mono),
                order_tags_listed: None,
                config: None,
            }),
            cluster,
            cluster_tag,
        });
        let mut tasks = JoinSet::new();
        let (turns, rounds, lists) = (core.clone(), core.clone(), core.clone());
        let tags = core.clone();
        tasks.spawn(async move { turns.rate_limiter.grant_permits().await });
        tasks.spawn(async move { rounds.run_polls().await });
        tasks.spawn(async move { lists.run_list_pollers().await });
        tasks.spawn(async move { tags.run_tag_removal().await });
        Self {
            core,
            _tasks: Arc::new(tasks),
        }
    }
}

/// How long a call may wait for its answer before that is a sign.
const UNANSWERED: Duration = Duration::from_secs(4);
/// A shorter pause that the provider asks for is not shown.
const SHOWN_PAUSE: Duration = Duration::from_secs(10);

impl Core {
    pub(crate) fn state(&self) -> MutexGuard<'_, SessionState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a call of the account's own when its turn has come. While the key is refused no call goes
    /// out: the refusal is the answer.
    pub(crate) async fn call<T>(
        &self,
        by: &Connection,
        lane: Priority,
        call: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        self.check_key()?;
        self.rate_limiter.wait(lane).await;
        // It may have been refused while this call waited.
        self.check_key()?;
        let result = self.await_answer(call).await;
        self.record_answer(by, result.as_ref().map(drop));
        result
    }

    /// What a refused key is tried with.
    pub(crate) async fn probe_call<T>(
        &self,
        by: &Connection,
        call: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        self.rate_limiter.wait(Priority::Resolve).await;
        let result = self.await_answer(call).await;
        self.record_answer(by, result.as_ref().map(drop));
        result
    }

    /// Waits for the answer to a call. While it does not come, the account is checked; where that has no answer either,
    /// conditions say so.
    pub(crate) async fn await_answer<T>(&self, call: impl Future<Output = T>) -> T {
        let mut call = std::pin::pin!(call);
        loop {
            if let Ok(answer) = tokio::time::timeout(UNANSWERED, &mut call).await {
                return answer;
            }
            self.suspect_outage();
            let mut state = self.state();
            let is_silent = state
                .schedule
                .is_outage_suspected_for(UNANSWERED, clock::now().mono);
            let active = state.times().unwrap_or_default().active_poll_interval;
            let why = schedule::explain_silence(2 * UNANSWERED, active);
            let is_news = is_silent && state.schedule.show_silence(why, clock::now().mono);
            drop(state);
            if is_news {
                self.enqueue_users();
            }
        }
    }

    /// A call of an object, or a look at a list, ended in this way.
    pub(crate) fn record_call_error(&self, error: &Error) {
        if error.is_outage() {
            self.suspect_outage();
        }
    }

    /// It may be that the account does not answer.
    pub(crate) fn suspect_outage(&self) {
        let mut state = self.state();
        let spacing = state.times().unwrap_or_default().active_poll_interval;
        if state.schedule.suspect_outage(clock::now().mono, spacing) {
            drop(state);
            self.replan.notify_one();
        }
    }

    /// The provider wants no calls for so long.
    fn slow_down(&self, error: &Error) {
        let pause = error.retry_after();
        self.rate_limiter.slow_down(pause);
        // Where it refuses one call alone, the account works.
        let shown = pause.filter(|pause| *pause >= SHOWN_PAUSE && error.is_outage());
        let Some(pause) = shown else {
            return;
        };
        let (pause, now) = (pause.min(LONGEST_PAUSE), clock::now());
        let until = now.wall.saturating_add_unsigned(pause.as_secs());
        let why = schedule::explain_pause(error, until);
        let is_news = self
            .state()
            .schedule
            .show_pause(now.mono + pause, why, now.mono);
        match is_news {
            true => self.enqueue_users(),
            false => self.replan.notify_one(),
        }
    }

    /// The refusal, while the key is refused.
    pub(crate) fn check_key(&self) -> Result<(), Error> {
        match self.state().key.state() {
            KeyState::Rejected(refusal) => Err(Error::AccessDenied(refusal.clone())),
            _ => Ok(()),
        }
    }

    /// What an answer says of the account itself. That to a former key says nothing of the present one.
    pub(crate) fn record_answer(&self, by: &Connection, result: Result<(), &Error>) {
        // Whatever is refused may come with a wait: 503 above all.
        if let Err(error) = result
            && (matches!(error, Error::RateLimited(_)) || error.retry_after().is_some())
        {
            self.slow_down(error);
        }
        let refusal = match result {
            Ok(()) => None,
            Err(Error::AccessDenied(refusal)) => Some(refusal.clone()),
            Err(error) => {
                if !error.is_outage() {
                    self.answered();
                }
                return;
            }
        };
        let is_refused = refusal.is_some();
        let now = clock::now().mono;
        let is_news = {
            let mut state = self.state();
            let was_refused = matches!(state.key.state(), KeyState::Rejected(_));
            let is_news = match refusal {
                _ if !state.uses(by) => false,
                Some(refusal) => state.key.rejected(refusal, now),
                None => state.key.accepted(),
            };
            if is_news && was_refused && !is_refused {
                state.schedule.answers_again(now);
            }
            is_news
        };
        self.answered();
        if is_news && is_refused {
            // Nobody waits for a call that cannot be made: the refusal is their answer.
            let dismissed = self.rate_limiter.cancel_all();
            self.subscribers.enqueue_objects(dismissed);
        }
        if is_news {
            self.enqueue_users();
        }
    }

    /// A call had an answer, whatever it said.
    fn answered(&self) {
        let mut state = self.state();
        let spacing = state.times().unwrap_or_default().active_poll_interval;
        if state.schedule.answered(clock::now().mono, spacing) {
            drop(state);
            self.replan.notify_one();
        }
    }

    /// Somebody asks for a look since this moment: what waits after a failure is tried once for that, at the pace of the
    /// account.
    pub(crate) fn request_retry(&self, since: Duration) {
        let mut state = self.state();
        let pace = state.times().unwrap_or_default().active_poll_interval;
        if let Some(at) = state.schedule.answered_at(since, pace) {
            state.key.probe_by(at);
            state.schedule.retry_by(at);
        }
        drop(state);
        self.lists.request_retry(since, pace);
        self.plan_again();
    }

    /// Everybody who uses the account looks again.
    pub(crate) fn enqueue_users(&self) {
        self.enqueue_account_object();
        self.enqueue(&EnqueueTarget::Account(self.account.key.clone()));
        self.plan_again();
    }

    /// The account object looks again; those who use it need not.
    pub(crate) fn enqueue_account_object(&self) {
        self.enqueue(&EnqueueTarget::Object(self.account.uid.clone()));
    }

    /// The release of a server was taken, or may have been.
    pub(crate) fn record_release(&self, id: &ServerId) {
        let mut state = self.state();
        let times = state.times().unwrap_or_default();
        state.servers.record_release(id, steady_now(), times);
        drop(state);
        self.replan.notify_one();
    }

    pub(crate) fn enqueue(&self, wake: &EnqueueTarget) {
        self.subscribers.enqueue(wake);
    }

    /// Those whose machines changed look again.
    pub(crate) fn enqueue_touched(&self, touched: Touched) {
        if touched.is_empty() {
            return;
        }
        self.replan.notify_one();
        self.enqueue_account_object();
        for mark in touched {
            self.enqueue(&EnqueueTarget::NameHash(mark));
        }
    }

    /// Somebody uses the account.
    pub(crate) fn set_in_use(&self) {
        if self.state().schedule.set_in_use() {
            self.replan.notify_one();
        }
    }

    /// This connection and these settings are in force from here on.
    pub(crate) fn apply_settings(
        &self,
        connection: Arc<Connection>,
        settings: Arc<AccountSettings>,
    ) {
        let mut state = self.state();
        let times = state.times();
        if !settings.known.is_empty() {
            state.schedule.set_in_use();
        }
        state.config = Some(SessionConfig {
            connection,
            settings,
        });
        let now = state.times();
        if let Some(now) = now.filter(|_| now != times) {
            state.servers.plan_reads(steady_now(), now);
        }
        drop(state);
        self.plan_again();
    }

    /// The session ends, and its queues are empty; returns whom that concerns.
    #[must_use]
    pub(crate) fn end(&self) -> Vec<String> {
        let mut state = self.state();
        state.config = None;
        state.schedule.cancel_all();
        drop(state);
        let mut dismissed = self.rate_limiter.cancel_all();
        dismissed.extend(self.lists.cancel_all());
        dismissed
    }

    /// An object is gone, or does not want anything any more that it asked for.
    pub(crate) fn forget(&self, uid: &str) {
        self.rate_limiter.cancel_request(uid);
        self.lists.forget(uid);
    }

    /// The object of this mark is gone: no listing is made for it.
    pub(crate) fn forget_name_hash(&self, mark: &str) {
        self.state().schedule.forget(mark);
    }

    /// Whether the object of this mark has left a live machine, or an order whose outcome is not settled.
    pub(crate) fn has_server_or_open_order(&self, mark: &str) -> bool {
        let state = self.state();
        let machines = state.servers.snapshot().servers_by_name_hash(mark);
        machines.iter().any(|s| s.server.status.is_live())
            || self
                .account
                .reservations
                .ordering_name_hashes()
                .contains(mark)
    }

    /// What was planned rests on something that has changed.
    pub(crate) fn plan_again(&self) {
        self.replan.notify_one();
        self.lists.plan_again();
    }
}
