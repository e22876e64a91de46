//! How many orders may go out: limits of the account, orders in flight.

use super::{marks, snapshot::Snapshot, view::Proof};
use crate::{
    kinds::{Reason, account::Limits},
    runtime::Moment,
};
use hosting::OrderOutcome;
use std::{
    collections::{BTreeMap, HashSet, VecDeque},
    time::Duration,
};

/// Most orders on their way at once.
const IN_FLIGHT: usize = 32;
/// The span of `maxOrdersPerHour`.
const HOUR: Duration = Duration::from_secs(3600);

/// Why an order may not go out now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Denied {
    /// A limit of the account is reached. The text names the field and the numbers.
    Limit(String),
    /// The account may not order.
    Blocked(Reason, String),
    /// Too much is under way; soon it may.
    Busy,
}

/// Reservations and recent attempts.
#[derive(Default)]
pub(crate) struct Orders {
    next: u64,
    open: BTreeMap<u64, Open>,
    begun: VecDeque<Begun>,
}

/// A reservation that has not been settled.
struct Open {
    mark: String,
    /// Tag and moment of the send, once it was sent.
    sent: Option<(String, Duration)>,
    /// Its call has ended, and nobody knows what it made.
    unknown: bool,
}

struct Begun {
    id: u64,
    at: Duration,
}

impl Orders {
    /// Reserves one order for an object, against limits that each come with the name of the account
    /// that sets them.
    pub(crate) fn admit<'a>(
        &mut self,
        mark: &str,
        snapshot: &Snapshot,
        limits: impl Iterator<Item = (String, &'a Limits)>,
        now: Moment,
    ) -> Result<u64, Denied> {
        // A new order of this object means that its former ones are settled.
        self.open.retain(|_, o| !(o.unknown && o.mark == mark));
        self.begun.retain(|b| now.since(b.at) < HOUR);
        if self.open.values().filter(|o| !o.unknown).count() >= IN_FLIGHT {
            return Err(Denied::Busy);
        }
        let machines = self.machines(snapshot);
        let recent = self.recent(snapshot, now);
        for (account, limits) in limits {
            if let Some(most) = reached(limits.max_servers, machines) {
                return Err(Denied::Limit(format!(
                    "spec.limits.maxServers of {account} is {most}, and {machines} machines are there or being ordered; raise it or delete servers"
                )));
            }
            if let Some(most) = reached(limits.max_orders_per_hour, recent) {
                return Err(Denied::Limit(format!(
                    "spec.limits.maxOrdersPerHour of {account} is {most}, and {recent} orders were made within the last hour; raise it or wait"
                )));
            }
        }
        let id = self.next;
        self.next += 1;
        let open = Open {
            mark: mark.to_owned(),
            sent: None,
            unknown: false,
        };
        self.open.insert(id, open);
        self.begun.push_back(Begun { id, at: now.mono });
        Ok(id)
    }

    /// The order is about to be sent.
    pub(crate) fn sent(&mut self, id: u64, order_tag: &str, now: Duration) {
        if let Some(open) = self.open.get_mut(&id) {
            open.sent = Some((order_tag.to_owned(), now));
        }
    }

    /// The order has ended. A machine that was made is counted from the snapshot from here on.
    pub(crate) fn ended(&mut self, id: u64, outcome: &OrderOutcome) {
        match outcome {
            OrderOutcome::NotSent(_) => self.forget(id),
            OrderOutcome::Refused(_) => drop(self.open.remove(&id)),
            OrderOutcome::Created(server) => {
                self.open.remove(&id);
                if server.created_at.is_some() {
                    self.begun.retain(|b| b.id != id);
                }
            }
            OrderOutcome::Unknown(_) => self.given_up(id),
        }
    }

    /// The reservation was dropped. One that was sent may have made a machine.
    pub(crate) fn given_up(&mut self, id: u64) {
        match self.open.get_mut(&id) {
            Some(open) if open.sent.is_some() => open.unknown = true,
            Some(_) => self.forget(id),
            None => {}
        }
    }

    /// A listing that began long enough after an order of unknown outcome settles it: what it made
    /// is in the snapshot, or there is nothing.
    pub(crate) fn compare(&mut self, proof: &Proof, settle: Duration) {
        self.open.retain(|_, open| match &open.sent {
            Some((_, sent)) if open.unknown => proof.began < *sent + settle,
            _ => true,
        });
    }

    /// The marks of objects with an order that is not settled.
    pub(crate) fn marks(&self) -> HashSet<String> {
        self.open.values().map(|o| o.mark.clone()).collect()
    }

    fn forget(&mut self, id: u64) {
        self.open.remove(&id);
        self.begun.retain(|b| b.id != id);
    }

    /// Live machines of the cluster that are not let go, and orders whose machine is not seen yet.
    fn machines(&self, snapshot: &Snapshot) -> usize {
        let live = snapshot
            .ours()
            .filter(|s| s.server.status.is_live() && !marks::is_retained(&s.server))
            .count();
        let unseen = self.open.values().filter(|open| match &open.sent {
            Some((tag, _)) => !snapshot
                .by_mark(&open.mark)
                .iter()
                .any(|s| s.server.has_tag(tag)),
            None => true,
        });
        live + unseen.count()
    }

    /// Machines made within the hour, and attempts that made none (that we know of).
    fn recent(&self, snapshot: &Snapshot, now: Moment) -> usize {
        let since = now.wall - i64::try_from(HOUR.as_secs()).unwrap_or(i64::MAX);
        let made = snapshot
            .ours()
            .filter(|s| s.server.created_at.is_some_and(|at| at >= since))
            .count();
        made + self.begun.len()
    }
}

/// The limit, if so many reach it.
fn reached(limit: Option<i32>, count: usize) -> Option<i32> {
    limit.filter(|most| usize::try_from(*most).is_ok_and(|most| count >= most))
}
