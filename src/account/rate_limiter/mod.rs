//! Who may call the hosting API, and when: one bucket and one queue for each
//! session.
//!
//! Objects never wait here. They ask, and are woken when their grant is there;
//! a grant that is not picked up in its term goes back whole. The account's own
//! looks wait in the same queue by awaiting.

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
use state::{AccountCall, RateLimiterState};
use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

/// Which object asks.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Caller {
    /// Its UID, by which it is woken.
    pub uid: String,
    /// Its namespace; objects of one namespace queue behind each other.
    pub namespace: String,
}

/// The turns of one session.
pub(crate) struct RateLimiter {
    state: Mutex<RateLimiterState>,
    /// A request or a return changes when the next grant is due.
    changed: Notify,
    subscribers: Subscribers,
}

impl RateLimiter {
    pub(crate) fn new(rate: Rate, audience: Subscribers) -> Self {
        Self {
            state: Mutex::new(RateLimiterState::new(rate, Instant::now())),
            changed: Notify::new(),
            subscribers: audience,
        }
    }

    /// Hands out grants as tokens come and takes back what was not picked up. Never ends.
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

    /// Asks for so many calls for an object. True: they are its own from here on, and come back by
    /// [`Turns::done`]. False: the object is queued, and woken when it should ask again.
    ///
    /// An object has one place. The same question again keeps it; another one moves it.
    pub(crate) fn request_calls(&self, lane: Priority, calls: u32, caller: &Caller) -> bool {
        let mut state = self.state();
        // Late, but nobody took it back yet.
        if state.has_grant(lane, calls, &caller.uid) {
            return state.claim_grant(&caller.uid);
        }
        state.expire_grants(Instant::now());
        state.request_calls(lane, calls, caller);
        let (mut woken, _) = state.grant_waiting(Instant::now());
        let is_taken = state.claim_grant(&caller.uid);
        drop(state);
        woken.retain(|uid| *uid != caller.uid);
        self.subscribers.enqueue_objects(woken);
        self.changed.notify_one();
        is_taken
    }

    /// A permit is over; so many of its calls were not made.
    pub(crate) fn end_permit(&self, lane: Priority, unused: u32) {
        self.state().end_permit(lane, unused);
        self.changed.notify_one();
    }

    /// An object gives its place up, or a grant that it did not pick up.
    pub(crate) fn cancel_request(&self, uid: &str) {
        if self.state().cancel_request(uid) {
            self.changed.notify_one();
        }
    }

    /// No object has a place or a grant any more. Returns whom that concerns.
    pub(crate) fn cancel_all(&self) -> Vec<String> {
        let dismissed = self.state().cancel_all();
        self.changed.notify_one();
        dismissed
    }

    /// Waits for the permission to make one call of the account's own. Dropped on the way, it gives
    /// the place up.
    pub(crate) async fn wait(&self, lane: Priority) {
        let (place, granted) = self.state().wait(lane);
        let mut own = AccountCallGuard {
            rate_limiter: self,
            own: Some((place, granted)),
        };
        self.changed.notify_one();
        if let Some((_, granted)) = &mut own.own {
            // Nobody drops the other end unused.
            let _ = granted.await;
        }
        own.own = None;
    }

    /// How many calls may be made each minute.
    pub(crate) fn calls(&self) -> Calls {
        self.state().calls(Instant::now())
    }

    /// How long so many calls take at the present rate, with nobody else calling.
    pub(crate) fn time_for(&self, calls: u32) -> Duration {
        self.state().time_for(Instant::now(), calls)
    }

    /// The API asked for fewer calls. What was granted and not picked up waits again.
    pub(crate) fn slow_down(&self, retry_after: Option<Duration>) {
        self.state().slow_down(Instant::now(), retry_after);
        self.changed.notify_one();
    }

    /// Grants what can be granted. Returns when time alone makes a difference again.
    fn grant_waiting(&self) -> Option<Instant> {
        let now = Instant::now();
        let mut state = self.state();
        state.expire_grants(now);
        let (woken, due) = state.grant_waiting(now);
        drop(state);
        self.subscribers.enqueue_objects(woken);
        due
    }

    fn state(&self) -> MutexGuard<'_, RateLimiterState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place of the account's own.
struct AccountCallGuard<'a> {
    rate_limiter: &'a RateLimiter,
    /// None once the call was granted and taken.
    own: Option<AccountCall>,
}

impl Drop for AccountCallGuard<'_> {
    fn drop(&mut self) {
        if let Some((place, _)) = &self.own {
            self.rate_limiter.state().leave(place);
            self.rate_limiter.changed.notify_one();
        }
    }
}
