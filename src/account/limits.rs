//! Order limits: counts servers and open orders against the limits of the account and of the namespace's entry. Orders
//! belong to the account object and not to its connection, so a new key keeps them.

use super::{namespace_labels::Namespaces, server_owners::Owners, servers::Snapshot};
use api::limits::Limits;
use flexmetal_core::{
    account::{
        key::AccountKey,
        order_limits::{EntryCount, OrderLimits},
        ownership_tags::creation_time,
        terms::Terms,
        view::CompleteList,
    },
    moment::Moment,
};
use hosting_types::{OrderResult, Server};
use std::{
    collections::{BTreeMap, HashSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// The span of `maxOrdersPerHour`.
const HOUR: Duration = Duration::from_secs(3600);

/// Reservations and recent orders of one account object. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Reservations(Arc<Mutex<ReservationsInner>>);

#[derive(Default)]
struct ReservationsInner {
    next: u64,
    open: BTreeMap<u64, OpenReservation>,
    recent: VecDeque<RecentOrder>,
}

/// A reservation that is not settled.
struct OpenReservation {
    name_hash: String,
    namespace: Arc<str>,
    /// Order tag and send time, once sent.
    sent: Option<(String, Duration)>,
    /// The call has ended, and the snapshot does not have its server.
    unknown: bool,
}

impl OpenReservation {
    /// An object that orders again knows the outcome of its previous orders.
    fn is_settled_for(&self, ordering: &str) -> bool {
        self.unknown && self.name_hash == ordering
    }

    /// Whether no server in the snapshot has the order's tag.
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
    /// The order tag, once sent.
    tag: Option<String>,
    /// The API created a server.
    made: bool,
}

/// An order to check, and the data to check it against.
pub(super) struct ProposedOrder<'a> {
    pub(super) name_hash: &'a str,
    pub(super) account: &'a AccountKey,
    pub(super) limits: &'a Limits,
    /// What the account offers the object's namespace.
    pub(super) terms: &'a Terms,
    /// Interval at which a blocked object asks again.
    pub(super) every: Duration,
    pub(super) reservations: &'a Reservations,
    pub(super) owners: &'a Owners,
    pub(super) namespaces: &'a Namespaces,
    /// Hashes of namespaces with retained servers that count for the entry.
    pub(super) retained_hashes: &'a HashSet<String>,
    pub(super) now: Moment,
}

impl ProposedOrder<'_> {
    /// Whether the entry limits servers or orders.
    pub(super) fn counts_by_namespace(&self) -> bool {
        self.terms
            .entry()
            .is_some_and(|(_, limits)| limits.has_counters())
    }

    /// Checks the order against the limits. The error names the field, the numbers and the remedy.
    pub(super) fn check(&self, snapshot: &Snapshot) -> Result<(), String> {
        let (live, made) = self.sums(snapshot);
        let unseen = self.reservations.most();
        let limits = self.order_limits(None, self.limits);
        limits.check_servers(live + unseen, || live + self.unseen(snapshot, |_| true))?;
        limits.check_orders(made + unseen, || {
            made + self.reservations.attempts(snapshot, self.now)
        })?;
        self.check_entry(snapshot)
    }

    fn check_entry(&self, snapshot: &Snapshot) -> Result<(), String> {
        let Terms::Entry(entry) = self.terms else {
            return Ok(());
        };
        let count = EntryCount {
            entry,
            namespace_for: &|server| self.owners.namespace_for(server),
            labels: &|namespace| self.namespaces.labels(namespace),
            retained_hashes: self.retained_hashes,
        };
        let own = || snapshot.own_servers().map(|s| &*s.server);
        let theirs = || own().filter(|server| count.counts_server(server));
        let (live, made) = self.sums(snapshot);
        // Of all namespaces: counted exactly only if that could reach the limit, so that many orders do not take
        // quadratic time.
        let unseen = self.reservations.most();
        let limits = self.order_limits(Some(&entry.name), &entry.limits);
        limits.check_servers(live + unseen, || {
            let servers = theirs().filter(|server| server.status.is_live()).count();
            servers + self.unseen(snapshot, |namespace| count.counts_namespace(namespace))
        })?;
        limits.check_orders(made + unseen, || {
            let is_of_entry = |namespace: &str| count.counts_namespace(namespace);
            let (orders, tags) = self.reservations.attempts_of(self.now, is_of_entry);
            let since = an_hour_before(self.now);
            let is_recent = |server: &&Server| {
                creation_time(server).is_some_and(|at| at >= since)
                    && !server.tags.iter().any(|tag| tags.contains(tag.as_str()))
            };
            orders + theirs().filter(is_recent).count()
        })
    }

    fn order_limits<'b>(&'b self, entry: Option<&'b str>, limits: &'b Limits) -> OrderLimits<'b> {
        OrderLimits {
            account: self.account,
            entry,
            limits,
            every: self.every,
        }
    }

    /// The live servers, and those created within an hour.
    fn sums(&self, snapshot: &Snapshot) -> (usize, usize) {
        let sums = snapshot.sums();
        let made = sums.created_since(an_hour_before(self.now));
        (sums.counts().live, made)
    }

    /// Number of orders without a known server, in namespaces for which `counts` is true.
    fn unseen(&self, snapshot: &Snapshot, counts: impl Fn(&str) -> bool) -> usize {
        self.reservations.unseen(self.name_hash, snapshot, counts)
    }
}

impl Reservations {
    /// Reserves one order for an object.
    pub(super) fn admit(&self, name_hash: &str, namespace: &str, now: Duration) -> u64 {
        let namespace: Arc<str> = namespace.into();
        let inner = &mut *self.lock();
        // The object orders again, so its previous orders are settled.
        inner.open.retain(|_, o| !o.is_settled_for(name_hash));
        inner.recent.retain(|a| a.is_recent(now));
        let id = inner.next;
        inner.next += 1;
        let open = OpenReservation {
            name_hash: name_hash.to_owned(),
            namespace: namespace.clone(),
            sent: None,
            unknown: false,
        };
        inner.open.insert(id, open);
        inner.recent.push_back(RecentOrder {
            id,
            at: now,
            name_hash: name_hash.to_owned(),
            namespace,
            tag: None,
            made: false,
        });
        id
    }

    /// Records that the order is about to be sent.
    pub(super) fn record_sent(&self, id: u64, order_tag: &str, now: Duration) {
        let inner = &mut *self.lock();
        if let Some(open) = inner.open.get_mut(&id) {
            open.sent = Some((order_tag.to_owned(), now));
        }
        if let Some(attempt) = inner.recent.iter_mut().rfind(|a| a.id == id) {
            attempt.tag = Some(order_tag.to_owned());
        }
    }

    /// Records the outcome. `is_seen`: the snapshot of the current session has the server and counts it.
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

    /// Drops a reservation. If its order was sent it may have created a server, so it stays with unknown outcome.
    pub(super) fn give_up(&self, id: u64) {
        let inner = &mut *self.lock();
        match inner.open.get_mut(&id) {
            Some(open) if open.sent.is_some() => open.unknown = true,
            Some(_) => inner.forget(id),
            None => {}
        }
    }

    /// Reopens recent orders for a new session, whose snapshot is empty. They count until a complete list settles them.
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

    /// Settles orders of unknown outcome that were sent long enough before the list began: the snapshot has their
    /// server, or none exists.
    pub(super) fn settle_by_list(&self, complete_list: &CompleteList, grace: Duration) {
        self.lock().open.retain(|_, open| match &open.sent {
            Some((_, sent)) if open.unknown => complete_list.began < *sent + grace,
            _ => true,
        });
    }

    /// Name hashes of objects with an order that is not settled.
    pub(super) fn ordering_name_hashes(&self) -> HashSet<String> {
        self.lock()
            .open
            .values()
            .map(|o| o.name_hash.clone())
            .collect()
    }

    /// Upper bound of the orders without a known server.
    fn most(&self) -> usize {
        let inner = self.lock();
        inner.open.len().max(inner.recent.len())
    }

    /// What counts against `maxServers` and `maxOrdersPerHour` of the account.
    pub(super) fn used(&self, snapshot: &Snapshot, now: Moment) -> (usize, usize) {
        let live = snapshot.sums().counts().live;
        let made = snapshot.sums().created_since(an_hour_before(now));
        // No object has an empty name hash: none of the open orders counts as settled for it.
        let unseen = self.unseen("", snapshot, |_| true);
        (live + unseen, made + self.attempts(snapshot, now))
    }

    /// Number of orders without a known server, in namespaces for which `counts` is true.
    fn unseen(&self, ordering: &str, snapshot: &Snapshot, counts: impl Fn(&str) -> bool) -> usize {
        let inner = self.lock();
        let open = inner.open.values();
        let open = open.filter(|o| !o.is_settled_for(ordering) && o.is_unseen(snapshot));
        open.filter(|o| counts(&o.namespace)).count()
    }

    /// Number of attempts of the last hour that the snapshot does not count as servers of that hour. Their age is by
    /// this process's clock, not the provider's.
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

    /// Number and order tags of the last hour's attempts in namespaces for which `counts` is true. Namespaces are known
    /// here even when the object is gone.
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
