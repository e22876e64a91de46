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
use flexmetal_core::account::{facts::Calls, lane::Lane};
pub use permit::{Permit, Turn};

use super::users::Audience;
use state::{Own, State};
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
pub(crate) struct Turns {
    state: Mutex<State>,
    /// A request or a return changes when the next grant is due.
    changed: Notify,
    audience: Audience,
}

impl Turns {
    pub(crate) fn new(rate: Rate, audience: Audience) -> Self {
        Self {
            state: Mutex::new(State::new(rate, Instant::now())),
            changed: Notify::new(),
            audience,
        }
    }

    /// Hands out grants as tokens come and takes back what was not picked up. Never ends.
    pub(crate) async fn keep(&self) {
        loop {
            let due = self.hand_out();
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
    pub(crate) fn ask(&self, lane: Lane, calls: u32, caller: &Caller) -> bool {
        let mut state = self.state();
        // Late, but nobody took it back yet.
        if state.holds(lane, calls, &caller.uid) {
            return state.pick_up(&caller.uid);
        }
        state.lapse(Instant::now());
        state.ask(lane, calls, caller);
        let (mut woken, _) = state.hand_out(Instant::now());
        let is_taken = state.pick_up(&caller.uid);
        drop(state);
        woken.retain(|uid| *uid != caller.uid);
        self.audience.wake_objects(woken);
        self.changed.notify_one();
        is_taken
    }

    /// A permit is over; so many of its calls were not made.
    pub(crate) fn done(&self, lane: Lane, unused: u32) {
        self.state().done(lane, unused);
        self.changed.notify_one();
    }

    /// An object gives its place up, or a grant that it did not pick up.
    pub(crate) fn withdraw(&self, uid: &str) {
        if self.state().withdraw(uid) {
            self.changed.notify_one();
        }
    }

    /// No object has a place or a grant any more. Returns whom that concerns.
    pub(crate) fn dismiss(&self) -> Vec<String> {
        let dismissed = self.state().dismiss();
        self.changed.notify_one();
        dismissed
    }

    /// Waits for the permission to make one call of the account's own. Dropped on the way, it gives
    /// the place up.
    pub(crate) async fn wait(&self, lane: Lane) {
        let (place, granted) = self.state().wait(lane);
        let mut own = OwnPlace {
            turns: self,
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
    fn hand_out(&self) -> Option<Instant> {
        let now = Instant::now();
        let mut state = self.state();
        state.lapse(now);
        let (woken, due) = state.hand_out(now);
        drop(state);
        self.audience.wake_objects(woken);
        due
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place of the account's own.
struct OwnPlace<'a> {
    turns: &'a Turns,
    /// None once the call was granted and taken.
    own: Option<Own>,
}

impl Drop for OwnPlace<'_> {
    fn drop(&mut self) {
        if let Some((place, _)) = &self.own {
            self.turns.state().leave(place);
            self.turns.changed.notify_one();
        }
    }
}
