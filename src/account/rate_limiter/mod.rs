//! The rate limiter of a session. Objects never wait in here: they ask, and are reconciled when they have a grant,
//! which expires if unclaimed. The account's own polls await theirs in the same queue.

mod bucket;
mod permit;
mod queue;
mod state;

#[cfg(test)]
mod tests;

pub(super) use bucket::LONGEST_PAUSE;
pub use bucket::Rate;
use flexmetal_core::account::{facts::Calls, priority::Priority};
pub use permit::{Permit, PermitAnswer};

use super::users::Subscribers;
use crate::runtime::metrics::{Metric, Samples, count, flag};
use state::{AccountCall, RateLimiterState};
use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

/// The object that asks.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Caller {
    /// Its UID, by which it is enqueued.
    pub uid: String,
    /// Its namespace; objects of one namespace queue behind each other.
    pub namespace: String,
}

/// The rate limiter of one session.
pub(crate) struct RateLimiter {
    state: Mutex<RateLimiterState>,
    /// Signals that the moment of the next grant may have changed.
    changed: Notify,
    subscribers: Subscribers,
}

impl RateLimiter {
    pub(crate) fn new(rate: Rate, subscribers: Subscribers) -> Self {
        Self {
            state: Mutex::new(RateLimiterState::new(rate, Instant::now())),
            changed: Notify::new(),
            subscribers,
        }
    }

    /// Grants calls as tokens arrive, and expires unclaimed grants. Never returns.
    pub(crate) async fn grant_permits(&self) {
        loop {
            let due = self.grant_waiting();
            match due {
                Some(due) => tokio::select! {
                    () = self.changed.notified() => {}
                    () = sleep_until(due) => {}
                },
                None => self.changed.notified().await,
            }
        }
    }

    /// Requests calls for an object. True: granted, until [`Self::end_permit`]. False: the object is queued, and is
    /// reconciled when it should ask again. The same request keeps its position, another one moves it.
    pub(crate) fn request_calls(&self, priority: Priority, calls: u32, caller: &Caller) -> bool {
        let mut state = self.state();
        // The grant may be overdue, but it was not taken back yet.
        if state.has_grant(priority, calls, &caller.uid) {
            return state.claim_grant(&caller.uid);
        }
        state.expire_grants(Instant::now());
        state.request_calls(priority, calls, caller);
        let (mut enqueued, _) = state.grant_waiting(Instant::now());
        let is_taken = state.claim_grant(&caller.uid);
        drop(state);
        enqueued.retain(|uid| *uid != caller.uid);
        self.subscribers.enqueue_objects(enqueued);
        self.changed.notify_one();
        is_taken
    }

    /// Ends a permit; `unused` of its calls were not made.
    pub(crate) fn end_permit(&self, priority: Priority, unused: u32) {
        self.state().end_permit(priority, unused);
        self.changed.notify_one();
    }

    /// Removes the queue position or unclaimed grant of an object.
    pub(crate) fn cancel_request(&self, uid: &str) {
        if self.state().cancel_request(uid) {
            self.changed.notify_one();
        }
    }

    /// Removes all positions and grants of objects. Returns the objects.
    pub(crate) fn cancel_all(&self) -> Vec<String> {
        let dismissed = self.state().cancel_all();
        self.changed.notify_one();
        dismissed
    }

    /// Waits for one call of the account itself. Dropping the future leaves the queue.
    pub(crate) async fn wait(&self, priority: Priority) {
        let (position, granted) = self.state().wait(priority);
        let mut own = AccountCallGuard {
            rate_limiter: self,
            own: Some((position, granted)),
        };
        self.changed.notify_one();
        if let Some((_, granted)) = &mut own.own {
            // The sender is never dropped unused.
            let _ = granted.await;
        }
        own.own = None;
    }

    /// How many calls may be made per minute.
    pub(crate) fn calls(&self) -> Calls {
        self.state().calls(Instant::now())
    }

    /// Adds the gauges of this rate limiter.
    pub(crate) fn collect(&self, samples: &mut Samples, account: &str) {
        let now = Instant::now();
        let mut state = self.state();
        let calls = f64::from(state.calls(now).in_force) / 60.0;
        samples.set(Metric::RateLimiterCalls, &[account], calls);
        samples.max(Metric::RateLimited, &[account], flag(state.is_closed()));
        for (priority, number, oldest) in state.waiting() {
            let labels = [account, priority.as_str()];
            let waited =
                oldest.map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
            samples.set(Metric::RateLimiterQueue, &labels, count(number));
            samples.set(Metric::RateLimiterOldest, &labels, waited.as_secs_f64());
        }
    }

    /// How long so many calls take at the current rate, without other callers.
    pub(crate) fn time_for(&self, calls: u32) -> Duration {
        self.state().time_for(Instant::now(), calls)
    }

    /// Slows down, as the API asks. Unclaimed grants go back into the queue.
    pub(crate) fn slow_down(&self, retry_after: Option<Duration>) {
        self.state().slow_down(Instant::now(), retry_after);
        self.changed.notify_one();
    }

    /// Grants what is possible. Returns when time alone allows more.
    fn grant_waiting(&self) -> Option<Instant> {
        let now = Instant::now();
        let mut state = self.state();
        state.expire_grants(now);
        let (enqueued, due) = state.grant_waiting(now);
        drop(state);
        self.subscribers.enqueue_objects(enqueued);
        due
    }

    fn state(&self) -> MutexGuard<'_, RateLimiterState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Leaves the queue when a waiting call of the account is dropped.
struct AccountCallGuard<'a> {
    rate_limiter: &'a RateLimiter,
    /// None once the call was granted and taken.
    own: Option<AccountCall>,
}

impl Drop for AccountCallGuard<'_> {
    fn drop(&mut self) {
        if let Some((position, _)) = &self.own {
            self.rate_limiter.state().leave(position);
            self.rate_limiter.changed.notify_one();
        }
    }
}
