//! The session of one account object: what is known of the account, and how its calls are sent.

use super::{
    AccountSettings, Connection, EnqueueTarget, Rate,
    account_reads::steady_now,
    limits::Reservations,
    lists::Lists,
    memory_budget::NamespaceBudget,
    rate_limiter::{LONGEST_PAUSE, RateLimiter},
    schedule::{self, Schedule},
    servers::{ServerLists, Touched},
    usage::UsageReads,
    users::Subscribers,
};
use crate::runtime::clock;
use api::account::KnownServer;
use flexmetal_core::account::{
    key::AccountKey,
    key_state::{Breaker, KeyState},
    order_supply::Refusals,
    ownership_tags,
    priority::Priority,
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

/// The session of one account object. Clones share it; its tasks end with the last clone.
#[derive(Clone)]
pub(crate) struct Session {
    pub(crate) core: Arc<Core>,
    _tasks: Arc<JoinSet<()>>,
}

/// What the clones share with the tasks.
pub(crate) struct Core {
    pub(crate) account: SessionAccount,
    /// The cluster ID.
    pub(crate) cluster: Arc<str>,
    pub(crate) cluster_tag: String,
    pub(crate) rate_limiter: RateLimiter,
    pub(crate) lists: Lists,
    /// Orders that may have been refused for lack of stock or quota.
    pub(crate) refusals: Refusals,
    /// Memory budget for what the API returns.
    pub(crate) memory_budget: NamespaceBudget,
    pub(crate) subscribers: Subscribers,
    /// Signals that the next poll must be planned again.
    pub(crate) replan: Notify,
    /// Order tags that the last scan found unneeded.
    pub(crate) unneeded_tags: watch::Sender<Vec<String>>,
    /// The most records that the API returns per page, as far as known.
    pub(crate) page_limit: AtomicU32,
    state: Mutex<SessionState>,
}

/// The account object of a session.
pub(crate) struct SessionAccount {
    pub(crate) key: AccountKey,
    pub(crate) uid: String,
    /// Its orders, over all connections.
    pub(crate) reservations: Reservations,
    /// Its usage as last read, over all connections.
    pub(crate) usage: UsageReads,
}

/// What is known of an account. Locked only briefly, never during a call or while objects are enqueued.
pub(crate) struct SessionState {
    pub(crate) breaker: Breaker,
    pub(crate) servers: ServerLists,
    pub(crate) schedule: Schedule,
    /// When all tags were last listed, if no unneeded one was left.
    pub(crate) order_tags_listed: Option<Duration>,
    /// None before the session is configured, and once it has ended.
    config: Option<SessionConfig>,
}

/// Connection and settings in force.
struct SessionConfig {
    connection: Arc<Connection>,
    settings: Arc<AccountSettings>,
}

impl SessionState {
    /// The connection for calls.
    pub(crate) fn connection(&self) -> Option<Arc<Connection>> {
        let config = self.config.as_ref();
        config.map(|config| config.connection.clone())
    }

    /// The connection for changes of the account itself, if its settings allow them.
    pub(crate) fn connection_for_changes(&self) -> Option<Arc<Connection>> {
        let config = self.config.as_ref();
        let config = config.filter(|config| config.settings.may_change_account());
        config.map(|config| config.connection.clone())
    }

    /// The account's intervals.
    pub(crate) fn times(&self) -> Option<AccountTimes> {
        let config = self.config.as_ref();
        config.map(|config| config.settings.times)
    }

    /// The servers that identify the account.
    pub(crate) fn known(&self) -> &[KnownServer] {
        let config = self.config.as_ref();
        config.map_or(&[], |config| &config.settings.known)
    }

    /// Whether to read what the servers have used.
    pub(crate) fn reads_usage(&self) -> bool {
        let config = self.config.as_ref();
        config.is_some_and(|config| config.settings.reads_usage)
    }

    fn uses(&self, connection: &Connection) -> bool {
        let config = self.config.as_ref();
        config.is_some_and(|config| ptr::eq(&*config.connection, connection))
    }
}

impl Session {
    /// Starts a session. What it reads counts against this budget.
    pub(crate) fn start(
        account: SessionAccount,
        cluster: Arc<str>,
        rate: Rate,
        budget: &NamespaceBudget,
        subscribers: Subscribers,
    ) -> Self {
        let cluster_tag = ownership_tags::cluster_tag(&cluster);
        let core = Arc::new(Core {
            account,
            rate_limiter: RateLimiter::new(rate, subscribers.clone()),
            lists: Lists::default(),
            refusals: Refusals::default(),
            memory_budget: budget.clone(),
            subscribers,
            replan: Notify::new(),
            unneeded_tags: watch::Sender::default(),
            page_limit: AtomicU32::new(Page::MOST),
            state: Mutex::new(SessionState {
                breaker: Breaker::default(),
                servers: ServerLists::new(cluster_tag.clone(), budget.empty_reservation()),
                schedule: Schedule::new(clock::now().mono),
                order_tags_listed: None,
                config: None,
            }),
            cluster,
            cluster_tag,
        });
        let mut tasks = JoinSet::new();
        let (permits, polls, lists) = (core.clone(), core.clone(), core.clone());
        let (tags, usage) = (core.clone(), core.clone());
        tasks.spawn(async move { permits.rate_limiter.grant_permits().await });
        tasks.spawn(async move { polls.run_polls().await });
        tasks.spawn(async move { lists.run_list_pollers().await });
        tasks.spawn(async move { tags.run_tag_removal().await });
        tasks.spawn(async move { usage.run_usage_reads().await });
        Self {
            core,
            _tasks: Arc::new(tasks),
        }
    }
}

/// A call that waits longer for its answer may mean an outage.
const UNANSWERED: Duration = Duration::from_secs(4);
/// Shorter pauses that the provider asks for are not reported.
const SHOWN_PAUSE: Duration = Duration::from_secs(10);

impl Core {
    pub(crate) fn state(&self) -> MutexGuard<'_, SessionState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a call for the account itself when the rate limiter grants it. While the key is rejected no call is sent,
    /// and the refusal is the answer.
    pub(crate) async fn call<T>(
        &self,
        by: &Connection,
        priority: Priority,
        call: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        self.check_key()?;
        self.rate_limiter.wait(priority).await;
        // The key may have been rejected while this call waited.
        self.check_key()?;
        let result = self.await_answer(call).await;
        self.record_answer(by, result.as_ref().map(drop));
        result
    }

    /// Makes a call even while the key is rejected.
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

    /// Waits for the answer to a call. If it takes long the account is checked; if that has no answer either,
    /// conditions report it.
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
            let is_news = is_silent && state.schedule.report_silence(why, clock::now().mono);
            drop(state);
            if is_news {
                self.enqueue_users();
            }
        }
    }

    /// Records the error of an object's call, or of a list poll.
    pub(crate) fn record_call_error(&self, error: &Error) {
        if error.is_outage() {
            self.suspect_outage();
        }
    }

    /// Schedules a check whether the account answers.
    pub(crate) fn suspect_outage(&self) {
        let mut state = self.state();
        let spacing = state.times().unwrap_or_default().active_poll_interval;
        if state.schedule.suspect_outage(clock::now().mono, spacing) {
            drop(state);
            self.replan.notify_one();
        }
    }

    /// Slows the calls down, as the provider asks.
    fn slow_down(&self, error: &Error) {
        let pause = error.retry_after();
        self.rate_limiter.slow_down(pause);
        // If the provider refuses one call only, the account works.
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
            .report_pause(now.mono + pause, why, now.mono);
        match is_news {
            true => self.enqueue_users(),
            false => self.replan.notify_one(),
        }
    }

    /// Fails with the refusal while the key is rejected.
    pub(crate) fn check_key(&self) -> Result<(), Error> {
        match self.state().breaker.state() {
            KeyState::Rejected(refusal) => Err(Error::AccessDenied(refusal.clone())),
            _ => Ok(()),
        }
    }

    /// Records what an answer shows of the account. An answer to a previous key shows nothing of the current one.
    pub(crate) fn record_answer(&self, by: &Connection, result: Result<(), &Error>) {
        // Any refusal may ask for a pause, above all 503.
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
            let was_refused = matches!(state.breaker.state(), KeyState::Rejected(_));
            let is_news = match refusal {
                _ if !state.uses(by) => false,
                Some(refusal) => state.breaker.rejected(refusal, now),
                None => state.breaker.accepted(),
            };
            if is_news && was_refused && !is_refused {
                state.schedule.answers_again(now);
            }
            is_news
        };
        self.answered();
        if is_news && is_refused {
            // Calls cannot be made now, so the queued objects get the refusal.
            let dismissed = self.rate_limiter.cancel_all();
            self.subscribers.enqueue_objects(dismissed);
        }
        if is_news {
            self.enqueue_users();
        }
    }

    /// Records that a call was answered, even if with an error.
    fn answered(&self) {
        let mut state = self.state();
        let spacing = state.times().unwrap_or_default().active_poll_interval;
        if state.schedule.answered(clock::now().mono, spacing) {
            drop(state);
            self.replan.notify_one();
        }
    }

    /// Retries failed polls once for a request of this moment, at the active poll interval at most.
    pub(crate) fn request_retry(&self, since: Duration) {
        let mut state = self.state();
        let pace = state.times().unwrap_or_default().active_poll_interval;
        if let Some(at) = state.schedule.answered_at(since, pace) {
            state.breaker.probe_by(at);
            state.schedule.retry_by(at);
        }
        drop(state);
        self.lists.request_retry(since, pace);
        self.plan_again();
    }

    /// Enqueues the account object and every object that uses it.
    pub(crate) fn enqueue_users(&self) {
        self.enqueue_account_object();
        self.enqueue(&EnqueueTarget::Account(self.account.key.clone()));
        self.plan_again();
    }

    /// Enqueues the account object only.
    pub(crate) fn enqueue_account_object(&self) {
        self.enqueue(&EnqueueTarget::Object(self.account.uid.clone()));
    }

    /// Records that the API accepted the release of a server, or may have.
    pub(crate) fn record_release(&self, id: &ServerId) {
        let mut state = self.state();
        let times = state.times().unwrap_or_default();
        state.servers.record_release(id, steady_now(), times);
        drop(state);
        self.replan.notify_one();
    }

    pub(crate) fn enqueue(&self, target: &EnqueueTarget) {
        self.subscribers.enqueue(target);
    }

    /// Enqueues the account object and the objects whose servers changed.
    pub(crate) fn enqueue_touched(&self, touched: Touched) {
        if touched.is_empty() {
            return;
        }
        self.replan.notify_one();
        self.enqueue_account_object();
        for name_hash in touched {
            self.enqueue(&EnqueueTarget::NameHash(name_hash));
        }
    }

    /// Records that an object uses the account.
    pub(crate) fn set_in_use(&self) {
        if self.state().schedule.set_in_use() {
            self.replan.notify_one();
        }
    }

    /// Applies a connection and settings.
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

    /// Ends the session and empties its queues. Returns the objects that waited.
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

    /// Removes all requests of an object.
    pub(crate) fn forget(&self, uid: &str) {
        self.rate_limiter.cancel_request(uid);
        self.lists.forget(uid);
    }

    /// Removes the request for a complete list of the object with this name hash.
    pub(crate) fn forget_name_hash(&self, name_hash: &str) {
        self.state().schedule.forget(name_hash);
    }

    /// Whether the object with this name hash has a live server, or an order that is not settled.
    pub(crate) fn has_server_or_open_order(&self, name_hash: &str) -> bool {
        let state = self.state();
        let servers = state.servers.snapshot().servers_by_name_hash(name_hash);
        servers.iter().any(|s| s.server.status.is_live())
            || self
                .account
                .reservations
                .ordering_name_hashes()
                .contains(name_hash)
    }

    /// Plans all polls again.
    pub(crate) fn plan_again(&self) {
        self.replan.notify_one();
        self.account.usage.replan().notify_one();
        self.lists.plan_again();
    }
}
