//! How many orders may go out: what is there and being ordered, against the limits of the account object that orders
//! and of the entry that allows it the namespace.
//!
//! Orders belong to the account object and not to its connection: a new key forgets none of them. Every server of the
//! cluster that the key shows counts, whoever ordered it.

use super::{
    namespaces::Namespaces,
    owners::Owners,
    servers::{Snapshot, sums::creation_time},
};
use api::{Interval, allowed::AllowedNamespaces, limits::Limits};
use flexmetal_core::{
    account::{key::AccountKey, ownership_tags, terms::Terms, view::CompleteList},
    moment::Moment,
    owner,
    wording::counted,
};
use hosting_types::{OrderResult, Server};
use std::{
    collections::{BTreeMap, HashSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// Who may change the account is often somebody else than who waits.
const RAISE: &str = "or ask an administrator of the account to raise the limit";
/// The span of `maxOrdersPerHour`.
const HOUR: Duration = Duration::from_secs(3600);

/// What one account object has ordered: reservations and recent attempts. A clone is the same.
#[derive(Clone, Default)]
pub(crate) struct Reservations(Arc<Mutex<ReservationsInner>>);

#[derive(Default)]
struct ReservationsInner {
    next: u64,
    open: BTreeMap<u64, OpenReservation>,
    recent: VecDeque<RecentOrder>,
}

/// A reservation that has not been settled.
struct OpenReservation {
    name_hash: String,
    /// Namespace of the object.
    namespace: Arc<str>,
    /// Tag and moment of the send, once it was sent.
    sent: Option<(String, Duration)>,
    /// Its call has ended, and what it made is not seen.
    unknown: bool,
}

impl OpenReservation {
    /// An object that orders again knows what became of its former orders.
    fn is_settled_for(&self, ordering: &str) -> bool {
        self.unknown && self.name_hash == ordering
    }

    /// Whether it counts beside the machines that are seen.
    fn is_unseen(&self, snapshot: &Snapshot) -> bool {
        let shown =
            |(tag, _): &(String, Duration)| snapshot.has_tagged_server(&self.name_hash, tag);
        !self.sent.as_ref().is_some_and(shown)
    }
}

/// An order of the last hour.
struct RecentOrder {
    id: u64,
    at: Duration,
    name_hash: String,
    namespace: Arc<str>,
    /// Its tag, once it was sent.
    tag: Option<String>,
    /// A machine came of it.
    made: bool,
}

/// An order that somebody wants to send, and what it is judged by.
pub(super) struct ProposedOrder<'a> {
    /// Mark of the object.
    pub(super) name_hash: &'a str,
    /// The account object that orders.
    pub(super) account: &'a AccountKey,
    pub(super) limits: &'a Limits,
    /// What it offers the namespace of the object.
    pub(super) terms: &'a Terms,
    /// How often who waits asks again.
    pub(super) every: Duration,
    pub(super) reservations: &'a Reservations,
    pub(super) owners: &'a Owners,
    pub(super) namespaces: &'a Namespaces,
    /// The marks of namespaces that left a machine behind, of those that count for the entry.
    pub(super) retained_hashes: &'a HashSet<String>,
    pub(super) now: Moment,
}

impl ProposedOrder<'_> {
    /// Whether the servers or orders of single namespaces are counted.
    pub(super) fn counts_by_namespace(&self) -> bool {
        self.terms
            .entry()
            .is_some_and(|(_, limits)| limits.has_counters())
    }

    /// Whether the order would keep within the limits. The error names the field, the numbers and the remedy.
    pub(super) fn check(&self, snapshot: &Snapshot) -> Result<(), String> {
        let account = self.account;
        let live = snapshot.sums().counts().live;
        let reached = self.reached(self.limits.max_servers, live, || {
            live + self.unseen(snapshot, |_| true)
        });
        if let Some((most, machines)) = reached {
            return Err(format!(
                "{account} has {}; its spec.limits.maxServers is {most}, and servers being ordered count. Delete a server, {RAISE}; checked every {}",
                counted(machines, "server"),
                Interval(self.every),
            ));
        }
        let since = an_hour_before(self.now);
        let made = snapshot.sums().created_since(since);
        let reached = self.reached(self.limits.max_orders_per_hour, made, || {
            made + self.reservations.attempts(snapshot, self.now)
        });
        if let Some((most, recent)) = reached {
            return Err(format!(
                "{account} has made {} within an hour; its spec.limits.maxOrdersPerHour is {most}. Wait, {RAISE}; checked every {}",
                counted(recent, "order"),
                Interval(self.every),
            ));
        }
        self.check_entry(snapshot)
    }

    fn check_entry(&self, snapshot: &Snapshot) -> Result<(), String> {
        let Terms::Entry(entry) = self.terms else {
            return Ok(());
        };
        let is_theirs = |server: &&Server| match self.owners.namespace_for(server) {
            Some(namespace) => self.may_be_of_entry(entry, &namespace),
            None => {
                ownership_tags::retained_in(server).any(|mark| self.retained_hashes.contains(mark))
            }
        };
        let theirs = || snapshot.own_servers().map(|s| &*s.server).filter(is_theirs);
        let live = snapshot.sums().counts().live;
        let reached = self.reached(entry.limits.max_servers, live, || {
            let machines = theirs().filter(|server| server.status.is_live()).count();
            machines + self.unseen(snapshot, |namespace| self.may_be_of_entry(entry, namespace))
        });
        if let Some((most, machines)) = reached {
            return Err(format!(
                "Entry {:?} of {} has {}; its limits.maxServers in spec.allowedNamespaces is {most}, and servers being ordered count. Delete a server, {RAISE}; checked every {}",
                entry.name,
                self.account,
                counted(machines, "server"),
                Interval(self.every),
            ));
        }
        let since = an_hour_before(self.now);
        let made = snapshot.sums().created_since(since);
        let reached = self.reached(entry.limits.max_orders_per_hour, made, || {
            let is_of_entry = |namespace: &str| self.may_be_of_entry(entry, namespace);
            let (orders, tags) = self.reservations.attempts_of(self.now, is_of_entry);
            let is_recent = |server: &&Server| {
                creation_time(server).is_some_and(|at| at >= since)
                    && !server.tags.iter().any(|tag| tags.contains(tag.as_str()))
            };
            orders + theirs().filter(is_recent).count()
        });
        if let Some((most, recent)) = reached {
            return Err(format!(
                "Entry {:?} of {} has made {} within an hour; its limits.maxOrdersPerHour in spec.allowedNamespaces is {most}. Wait, {RAISE}; checked every {}",
                entry.name,
                self.account,
                counted(recent, "order"),
                Interval(self.every),
            ));
        }
        Ok(())
    }

    /// The limit and the count, if the count reaches it. No count is above `most_seen` and the orders that are not
    /// seen: below that nothing is counted, as many orders must not cost the square of their number.
    fn reached(
        &self,
        limit: Option<i32>,
        most_seen: usize,
        count: impl FnOnce() -> usize,
    ) -> Option<(i32, usize)> {
        let limit = limit?;
        let is_reached = |count| usize::try_from(limit).is_ok_and(|most| count >= most);
        if !is_reached(most_seen + self.reservations.most()) {
            return None;
        }
        let count = count();
        is_reached(count).then_some((limit, count))
    }

    /// Orders whose machine is not seen yet, of namespaces of which this is so.
    fn unseen(&self, snapshot: &Snapshot, counts: impl Fn(&str) -> bool) -> usize {
        self.reservations.unseen(self.name_hash, snapshot, counts)
    }

    /// Whether the entry speaks of a namespace. The labels of one that is gone are not known: it counts for each
    /// entry that may have spoken of it, or its end would make room that its machines still take.
    fn may_be_of_entry(&self, entry: &AllowedNamespaces, namespace: &str) -> bool {
        let labels = self.namespaces.labels(namespace);
        entry.selects_namespace(namespace, labels.as_deref()) != Some(false)
    }
}

/// Those of these marks of namespaces that count for an entry among all of its account: all but those of namespaces
/// of which it is known that it does not speak. A mark does not tell the name of a namespace that is gone.
pub(super) fn filter_hashes_for_entry(
    mut marks: HashSet<String>,
    entry: &AllowedNamespaces,
    entries: &[AllowedNamespaces],
    cluster: &str,
    namespaces: &Namespaces,
) -> HashSet<String> {
    let mark = |namespace: &String| owner::namespace_hash(cluster, namespace);
    if marks.is_empty() || entry.namespaces.iter().any(|name| name == "*") {
        return marks;
    }
    let named: HashSet<String> = entry.namespaces.iter().map(mark).collect();
    if entry.namespace_selector.is_none() {
        marks.retain(|mark| named.contains(mark));
        return marks;
    }
    let others = entries.iter().filter(|other| other.name != entry.name);
    let mut others: HashSet<String> = others.flat_map(|e| &e.namespaces).map(mark).collect();
    let not_of_it =
        |name: &str, labels: &_| entry.selects_namespace(name, Some(labels)) == Some(false);
    others.extend(namespaces.which(not_of_it).iter().map(mark));
    marks.retain(|mark| named.contains(mark) || !others.contains(mark));
    marks
}

/// The marks of the namespaces that left one of the live machines behind.
pub(super) fn retained_namespace_hashes(snapshot: &Snapshot) -> HashSet<String> {
    let live = snapshot.own_servers().filter(|s| s.server.status.is_live());
    let marks = live.flat_map(|s| ownership_tags::retained_in(&s.server).map(str::to_owned));
    marks.collect()
}

impl Reservations {
    /// Reserves one order for an object.
    pub(super) fn admit(&self, mark: &str, namespace: &str, now: Duration) -> u64 {
        let namespace: Arc<str> = namespace.into();
        let inner = &mut *self.lock();
        // A new order of this object means that its former ones are settled.
        inner.open.retain(|_, o| !o.is_settled_for(mark));
        inner.recent.retain(|a| a.is_recent(now));
        let id = inner.next;
        inner.next += 1;
        let open = OpenReservation {
            name_hash: mark.to_owned(),
            namespace: namespace.clone(),
            sent: None,
            unknown: false,
        };
        inner.open.insert(id, open);
        inner.recent.push_back(RecentOrder {
            id,
            at: now,
            name_hash: mark.to_owned(),
            namespace,
            tag: None,
            made: false,
        });
        id
    }

    /// The order is about to be sent.
    pub(super) fn record_sent(&self, id: u64, order_tag: &str, now: Duration) {
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
    pub(super) fn record_outcome(&self, id: u64, outcome: &OrderResult, is_seen: bool) {
        match outcome {
            OrderResult::NotSent(_) => self.lock().forget(id),
            OrderResult::Refused(_) => drop(self.lock().open.remove(&id)),
            OrderResult::Created(_) => {
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
            OrderResult::Unknown(_) => self.give_up(id),
        }
    }

    /// The reservation was dropped. One that was sent may have made a machine.
    pub(super) fn give_up(&self, id: u64) {
        let inner = &mut *self.lock();
        match inner.open.get_mut(&id) {
            Some(open) if open.sent.is_some() => open.unknown = true,
            Some(_) => inner.forget(id),
            None => {}
        }
    }

    /// The account object has another session now, where nothing is seen yet: what was made
    /// within the hour counts by itself until a listing there settles it.
    pub(super) fn reopen_recent_orders(&self) {
        let inner = &mut *self.lock();
        for attempt in inner.recent.iter().filter(|a| a.made) {
            let Some(tag) = attempt.tag.clone() else {
                continue;
            };
            inner
                .open
                .entry(attempt.id)
                .or_insert_with(|| OpenReservation {
                    name_hash: attempt.name_hash.clone(),
                    namespace: attempt.namespace.clone(),
                    sent: Some((tag, attempt.at)),
                    unknown: true,
                });
        }
    }

    /// A listing that began long enough after an order of unknown outcome settles it: what it made
    /// is in the snapshot, or there is nothing.
    pub(super) fn settle_by_list(&self, proof: &CompleteList, grace: Duration) {
        self.lock().open.retain(|_, open| match &open.sent {
            Some((_, sent)) if open.unknown => proof.began < *sent + grace,
            _ => true,
        });
    }

    /// The marks of objects with an order that is not settled.
    pub(super) fn ordering_name_hashes(&self) -> HashSet<String> {
        self.lock()
            .open
            .values()
            .map(|o| o.name_hash.clone())
            .collect()
    }

    /// How many orders there are at most that no machine shows.
    fn most(&self) -> usize {
        let inner = self.lock();
        inner.open.len().max(inner.recent.len())
    }

    /// Orders whose machine is not seen yet, of namespaces of which this is so.
    fn unseen(&self, ordering: &str, snapshot: &Snapshot, counts: impl Fn(&str) -> bool) -> usize {
        let inner = self.lock();
        let open = inner.open.values();
        let open = open.filter(|o| !o.is_settled_for(ordering) && o.is_unseen(snapshot));
        open.filter(|o| counts(&o.namespace)).count()
    }

    /// The attempts of the last hour that are not counted as machines of it: by this process' own clock,
    /// whatever that of the provider says.
    fn attempts(&self, snapshot: &Snapshot, now: Moment) -> usize {
        let since = an_hour_before(now);
        let is_counted = |a: &RecentOrder| {
            let tag = a.tag.as_deref();
            tag.is_some_and(|tag| snapshot.has_tagged_server_since(&a.name_hash, tag, since))
        };
        let inner = self.lock();
        let recent = inner.recent.iter().filter(|a| a.is_recent(now.mono));
        recent.filter(|a| !is_counted(a)).count()
    }

    /// How many attempts of the last hour are of namespaces of which this is so, and the tags of their orders: who
    /// ordered is remembered here even where nothing of the object is left.
    fn attempts_of(&self, now: Moment, counts: impl Fn(&str) -> bool) -> (usize, HashSet<String>) {
        let inner = self.lock();
        let recent = inner.recent.iter().filter(|a| a.is_recent(now.mono));
        let recent: Vec<_> = recent.filter(|a| counts(&a.namespace)).collect();
        let tags = recent.iter().filter_map(|a| a.tag.clone()).collect();
        (recent.len(), tags)
    }

    fn lock(&self) -> MutexGuard<'_, ReservationsInner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReservationsInner {
    fn forget(&mut self, id: u64) {
        self.open.remove(&id);
        self.recent.retain(|a| a.id != id);
    }
}

impl RecentOrder {
    fn is_recent(&self, now: Duration) -> bool {
        now.saturating_sub(self.at) < HOUR
    }
}

fn an_hour_before(now: Moment) -> i64 {
    now.wall - i64::try_from(HOUR.as_secs()).unwrap_or(i64::MAX)
}
