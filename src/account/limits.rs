//! How many orders may go out: what each account object has ordered, against the limits of the objects
//! that stand on a live account.
//!
//! Orders belong to the account object and not to its connection: a new key forgets none of them.

use super::{AccountKey, machines::Snapshot, members::Member, view::Proof};
use crate::runtime::Moment;
use hosting::OrderOutcome;
use std::{
    collections::{BTreeMap, HashSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// The span of `maxOrdersPerHour`.
const HOUR: Duration = Duration::from_secs(3600);

/// What one account object has ordered: reservations and recent attempts. A clone is the same.
#[derive(Clone, Default)]
pub(crate) struct Reservations(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    next: u64,
    open: BTreeMap<u64, Open>,
    recent: VecDeque<Attempt>,
}

/// A reservation that has not been settled.
struct Open {
    mark: String,
    /// Tag and moment of the send, once it was sent.
    sent: Option<(String, Duration)>,
    /// Its call has ended, and what it made is not seen.
    unknown: bool,
}

impl Open {
    /// An object that orders again knows what became of its former orders.
    fn is_settled_for(&self, ordering: &str) -> bool {
        self.unknown && self.mark == ordering
    }

    /// Whether it counts beside the machines that are seen.
    fn is_unseen(&self, snapshot: &Snapshot) -> bool {
        let shown = |(tag, _): &(String, Duration)| snapshot.shows(&self.mark, tag);
        !self.sent.as_ref().is_some_and(shown)
    }
}

/// An order of the last hour.
struct Attempt {
    id: u64,
    at: Duration,
    mark: String,
    /// Its tag, once it was sent.
    tag: Option<String>,
    /// A machine came of it.
    made: bool,
}

/// Whether an order of this object would keep within the limits of all account objects on the live
/// account, that of the ordering one first. The error names the field, the numbers and the remedy; of
/// another account than the ordering one it tells no name, which may be another tenant's.
pub(super) fn check<'a>(
    mark: &str,
    snapshot: &Snapshot,
    ordering: &AccountKey,
    members: impl Iterator<Item = (&'a AccountKey, &'a Member)> + Clone,
    now: Moment,
) -> Result<(), String> {
    let all = || members.clone().map(|(_, member)| member);
    // Counted where a limit asks for it: many orders must not cost the square of their number.
    let machines = all().any(|m| m.limits().max_servers.is_some()).then(|| {
        let unseen = all().map(|m| m.reservations.unseen(mark, snapshot));
        snapshot.sums().counts().live + unseen.sum::<usize>()
    });
    let by_hour = |m: &Member| m.limits().max_orders_per_hour.is_some();
    let recent = all().any(by_hour).then(|| {
        let attempts = all().map(|m| m.reservations.attempts(snapshot, now));
        snapshot.sums().created_since(an_hour_before(now)) + attempts.sum::<usize>()
    });
    for (key, member) in members {
        let own = (key == ordering).then_some(ordering);
        let account = own.map_or("another account object with the same key".into(), |own| {
            own.to_string()
        });
        let limits = member.limits();
        let (machines, recent) = (machines.unwrap_or(0), recent.unwrap_or(0));
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

impl Reservations {
    /// Reserves one order for an object.
    pub(super) fn admit(&self, mark: &str, now: Duration) -> u64 {
        let inner = &mut *self.lock();
        // A new order of this object means that its former ones are settled.
        inner.open.retain(|_, o| !o.is_settled_for(mark));
        inner.recent.retain(|a| a.is_recent(now));
        let id = inner.next;
        inner.next += 1;
        let open = Open {
            mark: mark.to_owned(),
            sent: None,
            unknown: false,
        };
        inner.open.insert(id, open);
        inner.recent.push_back(Attempt {
            id,
            at: now,
            mark: mark.to_owned(),
            tag: None,
            made: false,
        });
        id
    }

    /// The order is about to be sent.
    pub(super) fn sent(&self, id: u64, order_tag: &str, now: Duration) {
        let inner = &mut *self.lock();
        if let Some(open) = inner.open.get_mut(&id) {
            open.sent = Some((order_tag.to_owned(), now));
        }
        if let Some(attempt) = inner.recent.iter_mut().rfind(|a| a.id == id) {
            attempt.tag = Some(order_tag.to_owned());
        }
    }

    /// The order has ended. `is_seen`: the snapshot of the present connection has what came of it, and
    /// it is counted from there.
    pub(super) fn ended(&self, id: u64, outcome: &OrderOutcome, is_seen: bool) {
        match outcome {
            OrderOutcome::NotSent(_) => self.lock().forget(id),
            OrderOutcome::Refused(_) => drop(self.lock().open.remove(&id)),
            OrderOutcome::Created(_) => {
                let inner = &mut *self.lock();
                if let Some(attempt) = inner.recent.iter_mut().rfind(|a| a.id == id) {
                    attempt.made = true;
                }
                if is_seen {
                    inner.open.remove(&id);
                } else if let Some(open) = inner.open.get_mut(&id) {
                    open.unknown = true;
                }
            }
            OrderOutcome::Unknown(_) => self.given_up(id),
        }
    }

    /// The reservation was dropped. One that was sent may have made a machine.
    pub(super) fn given_up(&self, id: u64) {
        let inner = &mut *self.lock();
        match inner.open.get_mut(&id) {
            Some(open) if open.sent.is_some() => open.unknown = true,
            Some(_) => inner.forget(id),
            None => {}
        }
    }

    /// The account object stands on another connection now, where nothing is seen yet: what was made
    /// within the hour counts by itself until a listing there settles it.
    pub(super) fn moved(&self) {
        let inner = &mut *self.lock();
        for attempt in inner.recent.iter().filter(|a| a.made) {
            let Some(tag) = attempt.tag.clone() else {
                continue;
            };
            inner.open.entry(attempt.id).or_insert_with(|| Open {
                mark: attempt.mark.clone(),
                sent: Some((tag, attempt.at)),
                unknown: true,
            });
        }
    }

    /// A listing that began long enough after an order of unknown outcome settles it: what it made
    /// is in the snapshot, or there is nothing.
    pub(super) fn compare(&self, proof: &Proof, grace: Duration) {
        self.lock().open.retain(|_, open| match &open.sent {
            Some((_, sent)) if open.unknown => proof.began < *sent + grace,
            _ => true,
        });
    }

    /// The marks of objects with an order that is not settled.
    pub(super) fn marks(&self) -> HashSet<String> {
        self.lock().open.values().map(|o| o.mark.clone()).collect()
    }

    /// Orders whose machine is not seen yet.
    fn unseen(&self, ordering: &str, snapshot: &Snapshot) -> usize {
        let inner = self.lock();
        let open = inner.open.values();
        open.filter(|o| !o.is_settled_for(ordering) && o.is_unseen(snapshot))
            .count()
    }

    /// The attempts of the last hour that are not counted as machines of it: by this process' own clock,
    /// whatever that of the provider says.
    fn attempts(&self, snapshot: &Snapshot, now: Moment) -> usize {
        let since = an_hour_before(now);
        let is_counted = |a: &Attempt| {
            let tag = a.tag.as_deref();
            tag.is_some_and(|tag| snapshot.shows_since(&a.mark, tag, since))
        };
        let inner = self.lock();
        let recent = inner.recent.iter().filter(|a| a.is_recent(now.mono));
        recent.filter(|a| !is_counted(a)).count()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn forget(&mut self, id: u64) {
        self.open.remove(&id);
        self.recent.retain(|a| a.id != id);
    }
}

impl Attempt {
    fn is_recent(&self, now: Duration) -> bool {
        now.saturating_sub(self.at) < HOUR
    }
}

fn an_hour_before(now: Moment) -> i64 {
    now.wall - i64::try_from(HOUR.as_secs()).unwrap_or(i64::MAX)
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
