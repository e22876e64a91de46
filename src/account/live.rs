//! One account as it is: what is known of it, and the one way by which calls go out.

use super::{
    Rate, Wake,
    lists::Lists,
    machines::{Machines, Touched},
    members::{Member, Members},
    reading::steady_now,
    room::Part,
    schedule::Schedule,
    turns::Turns,
    users::Audience,
};
use crate::runtime::clock;
use flexmetal_core::account::{
    key::AccountKey,
    key_state::{Breaker, KeyState},
    lane::Lane,
    marks,
    supply::Refusals,
};
use hosting_types::{Error, Page, ServerId};
use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU32, Ordering},
};
use tokio::{sync::Notify, task::JoinSet};

/// A live account. A clone is the same one; with the last clone its tasks end.
#[derive(Clone)]
pub(crate) struct Live {
    pub(crate) core: Arc<Core>,
    /// Ends with the last clone.
    _tasks: Arc<JoinSet<()>>,
}

/// What the clones share with the tasks.
pub(crate) struct Core {
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
    /// The most records that the API gives at once, as far as is known.
    pub(crate) page_limit: AtomicU32,
    state: Mutex<State>,
}

/// What is known of an account, each part with an owner. Locked for moments only, never across a call
/// or a wake.
pub(crate) struct State {
    pub(crate) key: Breaker,
    pub(crate) machines: Machines,
    pub(crate) members: Members,
    pub(crate) schedule: Schedule,
}

impl Live {
    /// Starts one. What it shows takes of this part of the room.
    pub(crate) fn start(cluster: Arc<str>, rate: Rate, room: &Part, audience: Audience) -> Self {
        let cluster_tag = marks::cluster_tag(&cluster);
        let core = Arc::new(Core {
            turns: Turns::new(rate, audience.clone()),
            lists: Lists::default(),
            refusals: Refusals::default(),
            room: room.clone(),
            audience,
            replan: Notify::new(),
            page_limit: AtomicU32::new(Page::MOST),
            state: Mutex::new(State {
                key: Breaker::default(),
                machines: Machines::new(cluster_tag.clone(), room.nothing()),
                members: Members::default(),
                schedule: Schedule::new(clock::now().mono),
            }),
            cluster,
            cluster_tag,
        });
        let mut tasks = JoinSet::new();
        let (turns, rounds, lists) = (core.clone(), core.clone(), core.clone());
        tasks.spawn(async move { turns.turns.keep().await });
        tasks.spawn(async move { rounds.keep_watch().await });
        tasks.spawn(async move { lists.keep_lists().await });
        Self {
            core,
            _tasks: Arc::new(tasks),
        }
    }
}

impl Core {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Comes after a live account of the same account of the provider, by a key that showed it: what is known, and how
    /// often it may be called, goes on. One that others still stand on keeps its own.
    pub(crate) fn succeed(&self, former: &Self, is_left: bool) -> bool {
        let part = (!is_left).then_some(&self.room);
        let machines = former.state().machines.hand_over(part);
        let mut state = self.state();
        state.key.accepted();
        let is_known = machines.is_some();
        if let Some(machines) = machines {
            state.machines = machines;
        }
        drop(state);
        if is_left {
            self.lists.succeed(&former.lists);
        }
        self.turns.succeed(&former.turns);
        let limit = former.page_limit.load(Ordering::Relaxed);
        self.page_limit.store(limit, Ordering::Relaxed);
        is_known
    }

    /// All that it showed was handed over.
    pub(crate) fn empty(&self) {
        let mut state = self.state();
        if state.members.is_empty() {
            state.machines = Machines::new(self.cluster_tag.clone(), self.room.nothing());
            drop(state);
            self.lists.empty();
        }
    }

    /// Makes a call of the account's own when its turn has come. While the key is refused no call goes
    /// out: the refusal is the answer.
    pub(crate) async fn call<T>(
        &self,
        lane: Lane,
        call: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        self.check_key()?;
        self.turns.wait(lane).await;
        // It may have been refused while this call waited.
        self.check_key()?;
        let result = call.await;
        self.record_answer(result.as_ref().map(drop));
        result
    }

    /// The one call that a refused key is tried with.
    pub(crate) async fn probe_call<T>(
        &self,
        call: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        self.turns.wait(Lane::Resolve).await;
        let result = call.await;
        self.record_answer(result.as_ref().map(drop));
        result
    }

    /// The refusal, while the key is refused.
    pub(crate) fn check_key(&self) -> Result<(), Error> {
        match self.state().key.state() {
            KeyState::Rejected(refusal) => Err(Error::AccessDenied(refusal.clone())),
            _ => Ok(()),
        }
    }

    /// What an answer says of the account itself.
    pub(crate) fn record_answer(&self, result: Result<(), &Error>) {
        // Whatever is refused may come with a wait: 503 above all.
        if let Err(error) = result
            && (matches!(error, Error::RateLimited(_)) || error.retry_after().is_some())
        {
            self.turns.slow_down(error.retry_after());
        }
        let is_news = match result {
            Ok(()) => self.state().key.accepted(),
            Err(Error::AccessDenied(refusal)) => {
                let now = clock::now().mono;
                let is_news = self.state().key.rejected(refusal.clone(), now);
                if is_news {
                    // Nobody waits for a call that cannot be made: the refusal is their answer.
                    let dismissed = self.turns.dismiss();
                    self.audience.wake_objects(dismissed);
                }
                is_news
            }
            Err(_) => false,
        };
        if is_news {
            self.tell_users();
        }
    }

    /// Everybody who uses the account looks again.
    pub(crate) fn tell_users(&self) {
        self.tell_members();
        let keys = self.state().members.keys();
        for key in keys {
            self.wake(&Wake::Account(key));
        }
        self.plan_again();
    }

    /// The account objects look again; those who use them need not.
    pub(crate) fn tell_members(&self) {
        let uids = self.state().members.uids();
        self.audience.wake_objects(uids);
    }

    /// The release of a server was taken, or may have been.
    pub(crate) fn note_release(&self, id: &ServerId) {
        let mut state = self.state();
        let times = state.members.times().unwrap_or_default();
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
        self.tell_members();
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

    /// An account object stands on this account from here on, or has other settings.
    pub(crate) fn join(&self, key: &AccountKey, member: Member) {
        let mut state = self.state();
        let times = state.members.times();
        if !member.known().is_empty() {
            state.schedule.mark_in_use();
        }
        state.members.join(key, member);
        let now = state.members.times();
        if let Some(now) = now.filter(|_| now != times) {
            state.machines.plan_reads(steady_now(), now);
        }
        drop(state);
        self.plan_again();
    }

    /// An account object stands on this account no more. With the last one the queue is empty; returns
    /// whom that concerns.
    #[must_use]
    pub(crate) fn leave(&self, key: &AccountKey) -> Vec<String> {
        let mut state = self.state();
        state.members.leave(key);
        let is_last = state.members.is_empty();
        if is_last {
            state.schedule.dismiss();
        }
        drop(state);
        if !is_last {
            return Vec::new();
        }
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
        let machines = state.machines.snapshot().by_mark(mark);
        machines.iter().any(|s| s.server.status.is_live())
            || state.members.ordering().contains(mark)
    }

    /// What was planned rests on something that has changed.
    pub(crate) fn plan_again(&self) {
        self.replan.notify_one();
        self.lists.plan_again();
    }
}
