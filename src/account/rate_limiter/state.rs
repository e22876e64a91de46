//! Queue positions, grants and calls in flight of one session. Pure, on tokio's time.

use super::{
    Caller, Calls, Rate,
    bucket::Bucket,
    queue::{CallPosition, Group, Queue},
};
use flexmetal_core::account::priority::Priority;
use std::{collections::HashMap, time::Duration};
use tokio::{sync::oneshot, time::Instant};

/// How long a grant may stay unclaimed.
pub(super) const GRANT_TTL: Duration = Duration::from_secs(10);
/// Most permits of objects at once, granted or in use.
pub(super) const IN_FLIGHT: usize = 48;
/// Most of them for orders: leaves permits for releases, and bounds the orders of unknown outcome after a crash (O3 of
/// the protocol).
pub(super) const ORDERS: usize = 8;

/// The queue position of a call of the account itself, and the signal of its grant.
pub(super) type AccountCall = (CallPosition, oneshot::Receiver<()>);

pub(super) struct RateLimiterState {
    bucket: Bucket,
    queue: Queue<Waiter>,
    /// The queue positions of objects, and how many calls each asked for.
    queued: HashMap<String, (CallPosition, u32)>,
    granted: HashMap<String, Grant>,
    in_flight: CallsInFlight,
}

/// A waiting call, and since when it waits.
struct Waiter {
    caller: WaitingCaller,
    since: Instant,
}

enum WaitingCaller {
    Object { uid: String, calls: u32 },
    Own(oneshot::Sender<()>),
}

/// Calls that an object may claim.
struct Grant {
    place: CallPosition,
    calls: u32,
    until: Instant,
}

#[derive(Clone, Copy, Default)]
struct CallsInFlight {
    all: usize,
    orders: usize,
}

impl CallsInFlight {
    fn has_capacity(self, priority: Priority, group: &Group) -> bool {
        *group == Group::Account
            || self.all < IN_FLIGHT && (priority != Priority::Order || self.orders < ORDERS)
    }
}

impl RateLimiterState {
    pub(super) fn new(rate: Rate, now: Instant) -> Self {
        Self {
            bucket: Bucket::new(rate, now),
            queue: Queue::new(),
            queued: HashMap::new(),
            granted: HashMap::new(),
            in_flight: CallsInFlight::default(),
        }
    }

    /// Makes sure that the object has a grant or a queue position for exactly this request.
    pub(super) fn request_calls(&mut self, priority: Priority, calls: u32, caller: &Caller) {
        let uid = &caller.uid;
        let calls = calls.max(1);
        let is_same = |place: &CallPosition, n: u32| (place.priority, n) == (priority, calls);
        let has_it = self
            .granted
            .get(uid)
            .is_some_and(|g| is_same(&g.place, g.calls))
            || self.queued.get(uid).is_some_and(|(p, n)| is_same(p, *n));
        if has_it {
            return;
        }
        self.cancel_request(uid);
        let waiter = Waiter {
            caller: WaitingCaller::Object {
                uid: uid.clone(),
                calls,
            },
            since: Instant::now(),
        };
        let group = Group::Namespace(caller.namespace.clone());
        let place = self.queue.join(priority, group, waiter);
        self.queued.insert(uid.clone(), (place, calls));
    }

    /// Whether the object has a grant for exactly this request.
    pub(super) fn has_grant(&self, priority: Priority, calls: u32, uid: &str) -> bool {
        let grant = self.granted.get(uid);
        grant.is_some_and(|g| (g.place.priority, g.calls) == (priority, calls.max(1)))
    }

    /// Claims the object's grant. False: it has none.
    pub(super) fn claim_grant(&mut self, uid: &str) -> bool {
        self.granted.remove(uid).is_some()
    }

    pub(super) fn end_permit(&mut self, priority: Priority, unused: u32) {
        self.bucket.refund(f64::from(unused));
        self.in_flight.all -= 1;
        self.in_flight.orders -= usize::from(priority == Priority::Order);
    }

    /// Returns whether there was anything to cancel.
    pub(super) fn cancel_request(&mut self, uid: &str) -> bool {
        if let Some((place, _)) = self.queued.remove(uid) {
            self.queue.leave(&place);
            return true;
        }
        let grant = self.granted.remove(uid);
        if let Some(grant) = &grant {
            self.end_permit(grant.place.priority, grant.calls);
        }
        grant.is_some()
    }

    pub(super) fn cancel_all(&mut self) -> Vec<String> {
        let uids: Vec<String> = self
            .queued
            .keys()
            .chain(self.granted.keys())
            .cloned()
            .collect();
        for uid in &uids {
            self.cancel_request(uid);
        }
        uids
    }

    /// Takes back unclaimed grants whose term is over.
    pub(super) fn expire_grants(&mut self, now: Instant) {
        let expired: Vec<String> = self
            .granted
            .iter()
            .filter(|(_, g)| g.until <= now)
            .map(|(uid, _)| uid.clone())
            .collect();
        for uid in expired {
            tracing::debug!(uid, "permit grant expired");
            self.cancel_request(&uid);
        }
    }

    /// Queues a call of the account itself.
    pub(super) fn wait(&mut self, priority: Priority) -> AccountCall {
        let (sender, granted) = oneshot::channel();
        let waiter = Waiter {
            caller: WaitingCaller::Own(sender),
            since: Instant::now(),
        };
        let place = self.queue.join(priority, Group::Account, waiter);
        (place, granted)
    }

    /// Removes a call of the account itself, or returns its token if it was granted.
    pub(super) fn leave(&mut self, place: &CallPosition) {
        if self.queue.leave(place).is_none() {
            self.bucket.refund(1.0);
        }
    }

    /// Grants what tokens and capacity allow, in the order of the queue. Returns the objects to enqueue, and when time
    /// alone allows more.
    pub(super) fn grant_waiting(&mut self, now: Instant) -> (Vec<String>, Option<Instant>) {
        self.bucket.refill(now);
        let mut enqueued = Vec::new();
        let tokens_at = loop {
            let in_flight = self.in_flight;
            let has_capacity =
                |priority: Priority, group: &Group| in_flight.has_capacity(priority, group);
            let Some((place, waiter)) = self.queue.first(has_capacity) else {
                break None;
            };
            let calls = match waiter.caller {
                WaitingCaller::Object { calls, .. } => calls,
                WaitingCaller::Own(_) => 1,
            };
            if let Some(at) = self.bucket.ready_at(calls) {
                break Some(at);
            }
            match self.queue.dequeue(&place, has_capacity).map(|it| it.caller) {
                Some(WaitingCaller::Object { uid, calls }) => {
                    self.grant(&uid, place, calls, now);
                    enqueued.push(uid);
                }
                Some(WaitingCaller::Own(granted)) => {
                    self.bucket.take(1);
                    // The receiver waits to the end, or has left the queue first.
                    let _ = granted.send(());
                }
                None => {}
            }
        };
        let terms = self.granted.values().map(|g| g.until);
        (enqueued, terms.chain(tokens_at).min())
    }

    fn grant(&mut self, uid: &str, place: CallPosition, calls: u32, now: Instant) {
        self.bucket.take(calls);
        self.in_flight.all += 1;
        self.in_flight.orders += usize::from(place.priority == Priority::Order);
        self.queued.remove(uid);
        let grant = Grant {
            place,
            calls,
            until: now + GRANT_TTL,
        };
        self.granted.insert(uid.to_owned(), grant);
    }

    pub(super) fn slow_down(&mut self, now: Instant, retry_after: Option<Duration>) {
        // The latest grant first, so that the earliest one ends up in front.
        let mut granted: Vec<(String, Grant)> = self.granted.drain().collect();
        granted.sort_by_key(|(_, g)| std::cmp::Reverse(g.until));
        for (uid, Grant { place, calls, .. }) in granted {
            self.end_permit(place.priority, calls);
            let waiter = Waiter {
                caller: WaitingCaller::Object {
                    uid: uid.clone(),
                    calls,
                },
                since: now,
            };
            self.queue.requeue_front(&place, waiter);
            self.queued.insert(uid, (place, calls));
        }
        self.bucket.slow_down(now, retry_after);
    }

    /// Whether the API asked for a pause, as of the last refill.
    pub(super) fn is_closed(&self) -> bool {
        self.bucket.is_closed()
    }

    /// How many calls of each priority wait, and since when the first of them.
    pub(super) fn waiting(&self) -> [(Priority, usize, Option<Instant>); Priority::ALL.len()] {
        Priority::ALL.map(|priority| {
            let waiters = || self.queue.waiters(priority);
            (
                priority,
                waiters().count(),
                waiters().map(|it| it.since).min(),
            )
        })
    }

    /// How many calls may be made per minute.
    pub(super) fn calls(&mut self, now: Instant) -> Calls {
        self.bucket.refill(now);
        self.bucket.calls()
    }

    pub(super) fn time_for(&mut self, now: Instant, calls: u32) -> Duration {
        self.bucket.refill(now);
        self.bucket.time_for(calls)
    }

    #[cfg(test)]
    pub(super) fn bucket(&mut self, now: Instant) -> &mut Bucket {
        self.bucket.refill(now);
        &mut self.bucket
    }

    #[cfg(test)]
    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.all
    }
}
