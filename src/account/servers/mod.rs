//! What is known of an account's servers.

pub(super) mod counts;
mod known;
mod snapshot;

pub(crate) use known::MOST as MOST_KNOWN;
use snapshot::is_changing;
pub(crate) use snapshot::{Put, PutOutcome, Snapshot, Touched, server_size};

use super::{memory_budget::MemoryReservation, poll_plan};
use api::account::KnownServer;
use flexmetal_core::{
    account::{
        facts::CountedServers,
        key::AccountKey,
        orphan_scan::{OrphanScanResult, Others},
        view::{AccountTimes, CompleteList},
    },
    moment::Moment,
};
use hosting_types::{Server, ServerId, ServerStatus};
use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

/// Most orphans that one log line names.
const LOGGED: usize = 20;

/// The servers of one session, each as last read, and what is derived from them.
pub(crate) struct ServerLists {
    snapshot: Snapshot,
    complete_list: Option<Arc<CompleteList>>,
    /// When the last complete list began after which every missing known server was asked for.
    known_asked_for: Option<Duration>,
    orphan_scan: OrphanScanResult,
    /// Servers whose record is about to change.
    pending: HashMap<ServerId, Pending>,
    /// When to read the first of them.
    next_read: Option<Due>,
    /// Whether an unreleased server is not pending.
    has_settled: bool,
    /// Servers of the last complete list that share their object with another one.
    duplicates: usize,
    others: Option<Others>,
    /// Orphans without the cluster's tag, as of the last count of `others`.
    untagged: Vec<Arc<Server>>,
    /// When `others` was last due.
    counting: Option<Duration>,
}

impl ServerLists {
    pub(crate) fn new(cluster_tag: String, reservation: MemoryReservation) -> Self {
        Self {
            snapshot: Snapshot::new(cluster_tag, reservation),
            complete_list: None,
            known_asked_for: None,
            orphan_scan: OrphanScanResult::NotChecked,
            pending: HashMap::new(),
            next_read: None,
            has_settled: false,
            duplicates: 0,
            others: None,
            untagged: Vec::new(),
            counting: None,
        }
    }

    pub(crate) fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    pub(crate) fn complete_list(&self) -> Option<&Arc<CompleteList>> {
        self.complete_list.as_ref()
    }

    pub(crate) fn orphan_scan(&self) -> &OrphanScanResult {
        &self.orphan_scan
    }

    /// When to read the first pending server, with its delay multiplied by `factor`, and the interval between such
    /// polls. None: none is pending.
    pub(crate) fn next_read(
        &self,
        factor: f64,
        now: Duration,
        times: AccountTimes,
    ) -> Option<(Duration, Duration)> {
        let due = self.next_read?;
        let apart = poll_plan::pending_read_interval(self.is_few(now), times);
        Some((due.seen + due.pause.mul_f64(factor), apart))
    }

    /// Plans the reads of pending servers again. This visits all servers, so between polls only changes are planned.
    pub(crate) fn plan_reads(&mut self, now: Moment, times: AccountTimes) {
        let snapshot = &self.snapshot;
        self.pending.retain(|id, pending| {
            let known = snapshot.get(id);
            // A release that the API did not accept must not stay pending.
            let is_released = pending.is_released && !pending.is_late(now.mono);
            known.is_some_and(|s| {
                is_changing(&s.server, now.wall) || (is_released && s.server.status.is_live())
            })
        });
        let all = self.reads(now, times).map(|(_, due)| due);
        self.next_read = all.min_by_key(Due::at);
        let mut present = self.snapshot.unreleased_servers();
        self.has_settled = present.any(|s| !self.is_pending(&s.server.id));
    }

    /// The pending servers that are due.
    pub(crate) fn due_reads(&self, now: Moment, times: AccountTimes) -> Vec<ServerId> {
        let is_due = |due: &Due| due.seen + due.pause.mul_f64(poll_plan::LEAST_JITTER) <= now.mono;
        let due = self.reads(now, times).filter(|(_, due)| is_due(due));
        due.map(|(id, _)| id.clone()).collect()
    }

    /// Whether the last plan had an unreleased server that is not pending.
    pub(crate) fn has_settled(&self) -> bool {
        self.has_settled
    }

    /// Whether the record of this server is about to change.
    pub(crate) fn is_pending(&self, id: &ServerId) -> bool {
        self.pending.contains_key(id)
    }

    fn reads(&self, now: Moment, times: AccountTimes) -> impl Iterator<Item = (&ServerId, Due)> {
        let is_few = self.is_few(now.mono);
        self.pending.iter().filter_map(move |(id, pending)| {
            let due = pending.due(self.snapshot.get(id)?.seen, now.mono, is_few, times);
            Some((id, due))
        })
    }

    fn is_few(&self, now: Duration) -> bool {
        let recent = self.pending.values().filter(|p| !p.is_late(now));
        recent.take(poll_plan::FAST_POLL_MAX + 1).count() <= poll_plan::FAST_POLL_MAX
    }

    /// Makes a server pending: the API accepted its release, or may have.
    pub(crate) fn record_release(&mut self, id: &ServerId, now: Moment, times: AccountTimes) {
        let known = self.snapshot.get(id);
        if let Some(known) = known.filter(|known| known.server.status != ServerStatus::Released) {
            let server = known.server.clone();
            let pending = Pending {
                since: now.mono,
                status: server.status.clone(),
                is_released: true,
            };
            self.pending.insert(id.clone(), pending);
            self.read_in_time(&server, now, times);
        }
    }

    /// Brings the next read forward if this pending server is due earlier.
    fn read_in_time(&mut self, server: &Server, now: Moment, times: AccountTimes) {
        let pending = self.pending.get(&server.id);
        if let Some((pending, known)) = pending.zip(self.snapshot.get(&server.id)) {
            let due = pending.due(known.seen, now.mono, self.is_few(now.mono), times);
            let first = self.next_read.filter(|first| first.at() <= due.at());
            self.next_read = Some(first.unwrap_or(due));
        }
    }

    pub(crate) fn counts(&self) -> CountedServers {
        CountedServers {
            duplicates: self.duplicates,
            others: self.others,
            ..self.snapshot.sums().counts()
        }
    }

    /// Whether to count the servers of others now: once per interval, and not with the first list, for which objects
    /// wait.
    pub(crate) fn counts_others(&mut self, now: Duration, interval: Duration) -> bool {
        let last = *self.counting.get_or_insert(now);
        let is_due = now >= last + interval;
        if is_due {
            self.counting = Some(now);
        }
        is_due
    }

    /// Stores the count of others, and the orphans without the cluster's tag that the same list showed.
    pub(crate) fn set_others(&mut self, others: Others, untagged: Vec<Arc<Server>>) {
        self.others = Some(others);
        self.untagged = untagged;
    }

    /// The servers that identify the account from now on, given the current ones and new ones.
    pub(crate) fn known_after(
        &self,
        before: &[KnownServer],
        others: Vec<KnownServer>,
    ) -> Vec<KnownServer> {
        known::refresh(
            before,
            &self.snapshot,
            self.complete_list.as_deref(),
            others,
        )
    }

    /// Whether the live known servers were asked for after a complete list without any known one, and none of these
    /// was found.
    pub(crate) fn are_known_lost(&self, known: &[KnownServer]) -> bool {
        self.complete_list.as_deref().is_some_and(|list| {
            let is_found = |server| known::is_seen_after(&self.snapshot, server, list.began);
            self.known_asked_for == Some(list.began) && !known.iter().any(is_found)
        })
    }

    /// Whether the complete list shows one of these servers.
    pub(crate) fn lists_known_server(&self, known: &[KnownServer]) -> bool {
        let list = self.complete_list.as_deref();
        list.is_some_and(|list| known.iter().any(|known| known::is_listed(list, known)))
    }

    /// Records that every live known server was asked for after the complete list from this time.
    pub(crate) fn record_known_asked_for(&mut self, list_began: Duration) {
        self.known_asked_for = Some(list_began);
    }

    /// Further servers that may identify the account, the best first.
    pub(crate) fn not_known(&self, before: &[KnownServer]) -> Vec<KnownServer> {
        known::others(before, &self.snapshot)
    }

    /// Records servers that were requested at `seen`. Returns the name hashes that changed, and the outcome of each
    /// record.
    pub(crate) fn record_servers(
        &mut self,
        servers: Vec<Server>,
        seen: Duration,
        (now, times): (Moment, AccountTimes),
    ) -> (Touched, Vec<(Arc<Server>, PutOutcome)>) {
        let mut touched = Touched::new();
        let mut kept = Vec::with_capacity(servers.len());
        for server in servers {
            let put: Put = self.snapshot.put(server, seen);
            if put.is_news {
                self.changed(&put.kept, now, times);
            }
            touched.extend(put.touched);
            kept.push((put.kept, put.outcome));
        }
        (touched, kept)
    }

    /// Updates the pending servers for a new or changed record.
    fn changed(&mut self, server: &Arc<Server>, now: Moment, times: AccountTimes) {
        let known = self.pending.get(&server.id);
        let is_released = server.status.is_live() && known.is_some_and(|p| p.is_released);
        // A server whose release was accepted stays pending without the cluster's tag.
        let is_ours = server.has_tag(self.snapshot.cluster_tag()) || known.is_some();
        if is_ours && (is_released || is_changing(server, now.wall)) {
            // Another status starts another wait.
            let same = known.filter(|p| p.status == server.status);
            let pending = Pending {
                since: same.map_or(now.mono, |p| p.since),
                status: server.status.clone(),
                is_released,
            };
            self.pending.insert(server.id.clone(), pending);
            self.read_in_time(server, now, times);
        } else {
            self.pending.remove(&server.id);
        }
    }

    /// Drops a server that the API did not know when asked at `seen`, unless it was read since.
    pub(crate) fn drop_unknown(&mut self, id: &ServerId, seen: Duration) -> Touched {
        if self.snapshot.get(id).is_none_or(|s| s.seen > seen) {
            return Touched::new();
        }
        self.pending.remove(id);
        self.snapshot.remove(id)
    }

    /// Stores a complete list. Returns whether it is the first.
    pub(crate) fn set_complete_list(&mut self, complete_list: Arc<CompleteList>) -> bool {
        self.snapshot.recount(&complete_list.servers);
        self.duplicates = flexmetal_core::account::orphan_scan::count_duplicates(&complete_list);
        self.complete_list.replace(complete_list).is_none()
    }

    /// Frees the memory of records that the last complete list does not keep any more.
    pub(crate) fn recount(&mut self) {
        let listed = self
            .complete_list
            .as_ref()
            .map(|complete_list| &*complete_list.servers);
        self.snapshot.recount(listed.unwrap_or_default());
    }

    /// Finds the orphans in a complete list. `account`: as logged.
    pub(crate) fn update_orphans(
        &mut self,
        account: &AccountKey,
        complete_list: &CompleteList,
        known: &[KnownServer],
        claims: Option<&HashSet<String>>,
        disowned: &HashSet<String>,
        ordering: &HashSet<String>,
    ) {
        let Some(verdict) = flexmetal_core::account::orphan_scan::find_orphans(
            complete_list,
            self.snapshot.cluster_tag(),
            known,
            claims,
            disowned,
            ordering,
            &self.untagged,
        ) else {
            return;
        };
        if self.orphan_scan != verdict
            && let OrphanScanResult::Found(orphans) = &verdict
            && !orphans.is_empty()
        {
            let first = orphans.iter().take(LOGGED);
            let first: Vec<&str> = first.map(|s| s.id.as_str()).collect();
            let count = orphans.len();
            tracing::warn!(%account, count, servers = first.join(","), "orphans found");
        }
        self.orphan_scan = verdict;
    }
}

/// A server whose record is about to change: it is being delivered or released.
#[derive(Clone, Debug)]
struct Pending {
    /// Since when it has this status, as far as this process has seen.
    since: Duration,
    status: ServerStatus,
    /// Whether the API accepted its release, or may have. The record may not show it yet.
    is_released: bool,
}

impl Pending {
    /// Whether it is pending for so long that it is read as rarely as other servers.
    fn is_late(&self, now: Duration) -> bool {
        now.saturating_sub(self.since) >= poll_plan::SLOW_POLL_AFTER
    }

    fn due(&self, seen: Duration, now: Duration, is_few: bool, times: AccountTimes) -> Due {
        let pause = match self.is_late(now) {
            true => times.idle_poll_interval,
            false => poll_plan::pending_read_interval(is_few, times),
        };
        Due { seen, pause }
    }
}

/// When a server was last read, and how long after that it is read again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Due {
    seen: Duration,
    pause: Duration,
}

impl Due {
    fn at(&self) -> Duration {
        self.seen + self.pause
    }
}
