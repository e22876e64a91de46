//! The session of one account object: what is known of the account, and the one way by which calls go out.

use super::{
    Connection, Rate, Settings, Wake,
    limits::Reservations,
    lists::Lists,
    machines::{Machines, Touched},
    reading::steady_now,
    room::Part,
    schedule::{self, Schedule},
    turns::{LONGEST_PAUSE, Turns},
    users::Audience,
};
use crate::runtime::clock;
use api::account::KnownServer;
use flexmetal_core::account::{
    key::AccountKey,
    key_state::{Breaker, KeyState},
    lane::Lane,
    marks,
    supply::Refusals,
    view::Times,
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
pub(crate) struct Live {
    pub(crate) core: Arc<Core>,
    /// Ends with the last clone.
    _tasks: Arc<JoinSet<()>>,
}

/// What the clones share with the tasks.
pub(crate) struct Core {
    /// The account object that this is the session of.
    pub(crate) of: Of,
    /// The cluster's identity.
    pub(crate) cluster: Arc<str>,
    pub(crate) cluster_tag: String,
    pub(crate) turns: Turns,
    pub(crate) lists: Lists,
    /// Orders that may have been refused for want of stock or quota.
    pub(crate) refusals: Refusals,
    /// Where there is room for what it shows.
    pub(crate) room: Part,
    pub(crate) audience: Audience,
    /// The rounds have to be planned again.
    pub(crate) replan: Notify,
    /// The order tags that the last scan found to be needed by nobody.
    pub(crate) unneeded_tags: watch::Sender<Vec<String>>,
    /// The most records that the API gives at once, as far as is known.
    pub(crate) page_limit: AtomicU32,
    state: Mutex<State>,
}

/// An account object.
pub(crate) struct Of {
    pub(crate) key: AccountKey,
    pub(crate) uid: String,
    /// What it has ordered, over whatever connection.
    pub(crate) reservations: Reservations,
}

/// What is known of an account, each part with an owner. Locked for moments only, never across a call
/// or a wake.
pub(crate) struct State {
    pub(crate) key: Breaker,
    pub(crate) machines: Machines,
    pub(crate) schedule: Schedule,
    /// When all tags were listed, and none was left that nobody needs.
    pub(crate) order_tags_listed: Option<Duration>,
    /// None: before it begins, and once it has ended.
    in_force: Option<InForce>,
}

/// What the calls go by, and when they are made.
struct InForce {
    connection: Arc<Connection>,
    settings: Arc<Settings>,
}

impl State {
    /// What calls go by from here on.
    pub(crate) fn connection(&self) -> Option<Arc<Connection>> {
        let in_force = self.in_force.as_ref();
        in_force.map(|in_force| in_force.connection.clone())
    }

    /// The same where the account may be changed for its own sake, and not for an object.
    pub(crate) fn connection_for_changes(&self) -> Option<Arc<Connection>> {
        let in_force = self.in_force.as_ref();
        let in_force = in_force.filter(|in_force| in_force.settings.let_change());
        in_force.map(|in_force| in_force.connection.clone())
    }

    /// The account's times.
    pub(crate) fn times(&self) -> Option<Times> {
        let in_force = self.in_force.as_ref();
        in_force.map(|in_force| in_force.settings.times)
    }

    /// The machines that the account is known by.
    pub(crate) fn known(&self) -> &[KnownServer] {
        let in_force = self.in_force.as_ref();
        in_force.map_or(&[], |in_force| &in_force.settings.known)
    }

    fn uses(&self, connection: &Connection) -> bool {
        let in_force = self.in_force.as_ref();
        in_force.is_some_and(|in_force| ptr::eq(&*in_force.connection, connection))
    }
}

impl Live {
    /// Starts one. What it shows takes of this part of the room.
    pub(crate) fn start(
        of: Of,
        cluster: Arc<str>,
        rate: Rate,
        room: &Part,
        audience: Audience,
    ) -> Self {
        let cluster_tag = marks::cluster_tag(&cluster);
        let core = Arc::new(Core {
            of,
            turns: Turns::new(rate, audience.clone()),
            lists: Lists::default(),
            refusals: Refusals::default(),
            room: room.clone(),
            audience,
            replan: Notify::new(),
            unneeded_tags: watch::Sender::default(),
            page_limit: AtomicU32::new(Page::MOST),
            state: Mutex::new(State {
                key: Breaker::default(),
                machines: Machines::new(cluster_tag.clone(), room.nothing()),
                schedule: Schedule::new(clock::now().mono),
                order_tags_listed: None,
                in_force: None,
            }),
            cluster,
            cluster_tag,
        });
        let mut tasks = JoinSet::new();
        let (turns, rounds, lists) = (core.clone(), core.clone(), core.clone());
        let tags = core.clone();
        tasks.spawn(async move { turns.turns.keep().await });
        tasks.spawn(async move { rounds.keep_watch().await });
        tasks.spawn(async move { lists.keep_lists().await });
        tasks.spawn(async move { tags.keep_tags_few().await });
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
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a call of the account's own when its turn has come. While the key is refused no call goes
    /// out: the refusal is the answer.
    pub(crate) async fn call<T>(
        &self,
        by: &Connection,
        lane: Lane,
        call: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        self.check_key()?;
        self.turns.wait(lane).await;
        // It may have been refused while this call waited.
        self.check_key()?;
        let result = self.answer_to(call).await;
        self.record_answer(by, result.as_ref().map(drop));
        result
    }

    /// What a refused key is tried with.
    pub(crate) async fn probe_call<T>(
        &self,
        by: &Connection,
        call: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        self.turns.wait(Lane::Resolve).await;
        let result = self.answer_to(call).await;
        self.record_answer(by, result.as_ref().map(drop));
        result
    }

    /// Waits for the answer to a call. While it does not come, the account is checked; where that has no answer either,
    /// conditions say so.
    pub(crate) async fn answer_to<T>(&self, call: impl Future<Output = T>) -> T {
        let mut call = std::pin::pin!(call);
        loop {
            if let Ok(answer) = tokio::time::timeout(UNANSWERED, &mut call).await {
                return answer;
            }
            self.doubt();
            let mut state = self.state();
            let is_silent = state.schedule.is_doubted_for(UNANSWERED, clock::now().mono);
            let active = state.times().unwrap_or_default().active_poll_interval;
            let why = schedule::silence(2 * UNANSWERED, active);
            let is_news = is_silent && state.schedule.show_silence(why, clock::now().mono);
            drop(state);
            if is_news {
                self.tell_users();
            }
        }
    }

    /// A call of an object, or a look at a list, ended in this way.
    pub(crate) fn judge(&self, error: &Error) {
        if error.is_outage() {
            self.doubt();
        }
    }

    /// It may be that the account does not answer.
    pub(crate) fn doubt(&self) {
        let mut state = self.state();
        let spacing = state.times().unwrap_or_default().active_poll_interval;
        if state.schedule.doubt(clock::now().mono, spacing) {
            drop(state);
            self.replan.notify_one();
        }
    }

    /// The provider wants no calls for so long.
    fn slow_down(&self, error: &Error) {
        let pause = error.retry_after();
        self.turns.slow_down(pause);
        // Where it refuses one call alone, the account works.
        let shown = pause.filter(|pause| *pause >= SHOWN_PAUSE && error.is_outage());
        let Some(pause) = shown else {
            return;
        };
        let (pause, now) = (pause.min(LONGEST_PAUSE), clock::now());
        let until = now.wall.saturating_add_unsigned(pause.as_secs());
        let why = schedule::pause(error, until);
        let is_news = self
            .state()
            .schedule
            .show_pause(now.mono + pause, why, now.mono);
        match is_news {
            true => self.tell_users(),
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
            let dismissed = self.turns.dismiss();
            self.audience.wake_objects(dismissed);
        }
        if is_news {
            self.tell_users();
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
    pub(crate) fn retry_asked(&self, since: Duration) {
        let mut state = self.state();
        let pace = state.times().unwrap_or_default().active_poll_interval;
        if let Some(at) = state.schedule.answered_at(since, pace) {
            state.key.probe_by(at);
            state.schedule.retry_by(at);
        }
        drop(state);
        self.lists.retry_asked(since, pace);
        self.plan_again();
    }

    /// Everybody who uses the account looks again.
    pub(crate) fn tell_users(&self) {
        self.tell_object();
        self.wake(&Wake::Account(self.of.key.clone()));
        self.plan_again();
    }

    /// The account object looks again; those who use it need not.
    pub(crate) fn tell_object(&self) {
        self.wake(&Wake::Object(self.of.uid.clone()));
    }

    /// The release of a server was taken, or may have been.
    pub(crate) fn note_release(&self, id: &ServerId) {
        let mut state = self.state();
        let times = state.times().unwrap_or_default();
        state.machines.note_release(id, steady_now(), times);
        drop(state);
        self.replan.notify_one();
    }

    pub(crate) fn wake(&self, wake: &Wake) {
        self.audience.wake(wake);
    }

    /// Those whose machines changed look again.
    pub(crate) fn tell_touched(&self, touched: Touched) {
        if touched.is_empty() {
            return;
        }
        self.replan.notify_one();
        self.tell_object();
        for mark in touched {
            self.wake(&Wake::Mark(mark));
        }
    }

    /// Somebody uses the account.
    pub(crate) fn mark_in_use(&self) {
        if self.state().schedule.mark_in_use() {
            self.replan.notify_one();
        }
    }

    /// This connection and these settings are in force from here on.
    pub(crate) fn put_into_force(&self, connection: Arc<Connection>, settings: Arc<Settings>) {
        let mut state = self.state();
        let times = state.times();
        if !settings.known.is_empty() {
            state.schedule.mark_in_use();
        }
        state.in_force = Some(InForce {
            connection,
            settings,
        });
        let now = state.times();
        if let Some(now) = now.filter(|_| now != times) {
            state.machines.plan_reads(steady_now(), now);
        }
        drop(state);
        self.plan_again();
    }

    /// The session ends, and its queues are empty; returns whom that concerns.
    #[must_use]
    pub(crate) fn end(&self) -> Vec<String> {
        let mut state = self.state();
        state.in_force = None;
        state.schedule.dismiss();
        drop(state);
        let mut dismissed = self.turns.dismiss();
        dismissed.extend(self.lists.dismiss());
        dismissed
    }

    /// An object is gone, or does not want anything any more that it asked for.
    pub(crate) fn forget(&self, uid: &str) {
        self.turns.withdraw(uid);
        self.lists.forget(uid);
    }

    /// The object of this mark is gone: no listing is made for it.
    pub(crate) fn forget_mark(&self, mark: &str) {
        self.state().schedule.forget(mark);
    }

    /// Whether the object of this mark has left a live machine, or an order whose outcome is not settled.
    pub(crate) fn has_left(&self, mark: &str) -> bool {
        let state = self.state();
        let machines = state.machines.snapshot().of_place(mark);
        machines.iter().any(|s| s.server.status.is_live())
            || self.of.reservations.marks().contains(mark)
    }

    /// What was planned rests on something that has changed.
    pub(crate) fn plan_again(&self) {
        self.replan.notify_one();
        self.lists.plan_again();
    }
}
