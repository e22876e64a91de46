//! How many orders may go out: reservations and recent orders against the limits of the account.

use super::{AccountKey, machines::Snapshot, view::Proof};
use crate::{kinds::account::Limits, runtime::Moment};
use hosting::OrderOutcome;
use std::{
    collections::{BTreeMap, HashSet, VecDeque},
    time::Duration,
};

/// The span of `maxOrdersPerHour`.
const HOUR: Duration = Duration::from_secs(3600);

/// Reservations and recent attempts.
#[derive(Default)]
pub(crate) struct Reservations {
    next: u64,
    open: BTreeMap<u64, Open>,
    recent: VecDeque<Attempt>,
}

/// A reservation that has not been settled.
struct Open {
    mark: String,
    /// Tag and moment of the send, once it was sent.
    sent: Option<(String, Duration)>,
    /// Its call has ended, and nobody knows what it made.
    unknown: bool,
}

impl Open {
    /// An object that orders again knows what became of its former orders.
    fn is_settled_for(&self, ordering: &str) -> bool {
        self.unknown && self.mark == ordering
    }
}

/// An order of the last hour.
struct Attempt {
    id: u64,
    at: Duration,
}

impl Reservations {
    /// Whether an order of this object would keep within limits that each come with the name of the
    /// account that sets them. The error names the field, the numbers and the remedy; of another
    /// account than the ordering one it tells no name, which may be another tenant's.
    pub(crate) fn check(
        &self,
        mark: &str,
        snapshot: &Snapshot,
        ordering: &AccountKey,
        limits: &[(String, &Limits)],
        now: Moment,
    ) -> Result<(), String> {
        let machines = self.machines(mark, snapshot);
        let recent = self.recent(snapshot, now);
        for (account, limits) in limits {
            let own = (*account == ordering.to_string()).then_some(ordering);
            let account = own.map_or("another account object with the same key", |_| account);
            if let Some(most) = reached(limits.max_servers, machines) {
                return Err(format!(
                    "spec.limits.maxServers of {account} is {most}, and {machines} machines are there or being ordered; raise it or delete servers{}",
                    raise(own, "maxServers", machines)
                ));
            }
            if let Some(most) = reached(limits.max_orders_per_hour, recent) {
                return Err(format!(
                    "spec.limits.maxOrdersPerHour of {account} is {most}, and {recent} orders were made within the last hour; raise it or wait{}",
                    raise(own, "maxOrdersPerHour", recent)
                ));
            }
        }
        Ok(())
    }

    /// Reserves one order for an object.
    pub(crate) fn admit(
        &mut self,
        mark: &str,
        snapshot: &Snapshot,
        ordering: &AccountKey,
        limits: &[(String, &Limits)],
        now: Moment,
    ) -> Result<u64, String> {
        // A new order of this object means that its former ones are settled.
        self.open.retain(|_, o| !o.is_settled_for(mark));
        self.recent.retain(|a| now.since(a.at) < HOUR);
        self.check(mark, snapshot, ordering, limits, now)?;
        let id = self.next;
        self.next += 1;
        let open = Open {
            mark: mark.to_owned(),
            sent: None,
            unknown: false,
        };
        self.open.insert(id, open);
        self.recent.push_back(Attempt { id, at: now.mono });
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
                    self.recent.retain(|a| a.id != id);
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
    pub(crate) fn compare(&mut self, proof: &Proof, grace: Duration) {
        self.open.retain(|_, open| match &open.sent {
            Some((_, sent)) if open.unknown => proof.began < *sent + grace,
            _ => true,
        });
    }

    /// The marks of objects with an order that is not settled.
    pub(crate) fn marks(&self) -> HashSet<String> {
        self.open.values().map(|o| o.mark.clone()).collect()
    }

    fn forget(&mut self, id: u64) {
        self.open.remove(&id);
        self.recent.retain(|a| a.id != id);
    }

    /// Live machines of the cluster that are not retained, and orders whose machine is not seen yet.
    fn machines(&self, ordering: &str, snapshot: &Snapshot) -> usize {
        let counts = snapshot.sums().counts();
        let live = counts.live - counts.retained;
        let open = self.open.values();
        let open = open.filter(|o| !o.is_settled_for(ordering));
        let unseen = open.filter(|open| match &open.sent {
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
        let made = snapshot.sums().created_since(since);
        let attempts = self.recent.iter();
        made + attempts.filter(|a| now.since(a.at) < HOUR).count()
    }
}

/// The limit, if so many reach it.
fn reached(limit: Option<i32>, count: usize) -> Option<i32> {
    limit.filter(|most| usize::try_from(*most).is_ok_and(|most| count >= most))
}

/// How to raise a limit of this account so far that one more goes out.
fn raise(account: Option<&AccountKey>, field: &str, count: usize) -> String {
    let Some(account) = account else {
        return String::new();
    };
    let more = count + 1;
    let patch = format!("--type=merge -p '{{\"spec\":{{\"limits\":{{\"{field}\":{more}}}}}}}'");
    format!("; to raise it: {}", account.command("patch", &patch))
}
