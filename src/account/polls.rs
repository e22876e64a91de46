//! The looks at an account, one after the other, for as long as it lives.

use super::{
    Connection, EnqueueTarget,
    pace::{self, PollKind},
    reading::{read_with_restarts, steady_now},
    session::Core,
};
use crate::runtime::clock;
use flexmetal_core::{
    account::{
        key_state::KeyState,
        orphans,
        priority::Priority,
        view::{CompleteList, SeenServer},
    },
    owner::namespace_hash,
};
use futures::{FutureExt as _, TryFutureExt as _};
use hosting_types::{Error, Page, ServerFilter, ServerId, ServerStatus, StatusFilter, list::Gap};
use std::{sync::Arc, time::Duration};

/// Most servers that are read one by one since a list does not show them; for more another listing is cheaper.
const ONE_BY_ONE: usize = 10;
/// So many reads of a round may fail before it ends.
const MOST_FAILURES: usize = 2;
/// Others are counted at least this often.
const DAY: Duration = Duration::from_secs(86_400);
/// How many new records a page shows: pages overlap by one.
const EACH: usize = Page::MOST as usize - 1;
/// How long a look is put off while there is no connection.
const NO_CONNECTION: Duration = Duration::from_secs(3600);

/// About how many calls it takes to read a list of so many records to its end.
pub(crate) fn calls_for_list(records: usize) -> u32 {
    u32::try_from(records / EACH + 2).unwrap_or(u32::MAX)
}

impl Core {
    /// Makes one round after the other. Never ends.
    pub(crate) async fn run_polls(&self) {
        loop {
            let (due, round) = self.plan();
            // What is due goes ahead, however often the plan changes.
            if due > clock::now().mono {
                tokio::select! {
                    biased;
                    () = self.replan.notified() => continue,
                    () = clock::sleep_until(due) => {}
                }
            }
            let Some(connection) = self.state().connection() else {
                continue;
            };
            let by = &*connection;
            let began = clock::now().mono;
            let result = match round {
                PollKind::Probe => self.probe(by).await.map_err(Gap::Failed),
                PollKind::CompleteList => self.fetch_complete_list(by, Priority::OrphanScan).await,
                PollKind::Poll => self.poll(by).await,
                PollKind::Pending => match self.due_reads() {
                    // A round without a call would say of an account that it works.
                    due if due.is_empty() => continue,
                    due => self.read_pending(by, &due).await,
                },
            };
            self.finish_poll((round, began), result);
        }
    }

    /// Tries the key. One that was refused has to show the list of servers, too: it may be that which it may not read.
    async fn probe(&self, by: &Connection) -> Result<(), Error> {
        let is_refused = self.check_key().is_err();
        let calls = async {
            by.client.quota_usage().await?;
            if is_refused {
                self.rate_limiter.wait(Priority::Resolve).await;
                let all = ServerFilter::default();
                by.client.servers(&all, Page::new(0, 1)).await?;
            }
            Ok(())
        };
        self.probe_call(by, calls).await
    }

    fn plan(&self) -> (Duration, PollKind) {
        let state = self.state();
        match state.times() {
            Some(times) => {
                let shown = state.servers.complete_list().map_or(0, |p| p.servers.len());
                let cost = self.rate_limiter.time_for(calls_for_list(shown));
                state
                    .schedule
                    .next(&state.key, &state.servers, times, cost, clock::now().mono)
            }
            None => (clock::now().mono + NO_CONNECTION, PollKind::Probe),
        }
    }

    fn finish_poll(&self, round: (PollKind, Duration), result: Result<(), Gap>) {
        let now = clock::now();
        let mut state = self.state();
        if let Some(times) = state.times() {
            state.servers.plan_reads(steady_now(), times);
        }
        if matches!(result, Err(Gap::OverMemoryBudget)) {
            state.servers.recount();
        }
        let is_untried = *state.key.state() == KeyState::Untried;
        let since = state.schedule.answers_since();
        let is_news = state
            .schedule
            .finish_poll(round, result, now.mono, is_untried);
        let is_back = state.schedule.answers_since() != since;
        drop(state);
        if is_back {
            self.lists.reset_backoff();
        }
        if is_news {
            self.enqueue_users();
        }
    }

    /// The pending servers that are to be read by now; where there are none, it is planned anew when there will be.
    fn due_reads(&self) -> Vec<ServerId> {
        let now = steady_now();
        let mut state = self.state();
        let times = state.times().unwrap_or_default();
        let due = state.servers.due_reads(now, times);
        if due.is_empty() {
            state.servers.plan_reads(now, times);
        }
        due
    }

    /// A read of each of these servers while they are few, else that or one listing of the cluster's servers, whichever is
    /// fewer calls.
    async fn read_pending(&self, by: &Connection, due: &[ServerId]) -> Result<(), Gap> {
        let listed = self
            .state()
            .servers
            .complete_list()
            .map_or(0, |p| p.servers.len());
        let is_fewer = u32::try_from(due.len()).is_ok_and(|reads| reads <= calls_for_list(listed));
        match is_fewer || due.len() <= pace::FEW {
            true => self.read_servers(by, due).await,
            false => self.fetch_list_with_fallback(by).await,
        }
    }

    /// A listing of the cluster's servers for what it shows. One that proves nothing, since it shows a record twice, is read to
    /// its end all the same.
    async fn fetch_list_with_fallback(&self, by: &Connection) -> Result<(), Gap> {
        let proved = self.fetch_complete_list(by, Priority::Poll).await;
        if matches!(&proved, Err(Gap::Repeated(_))) {
            let ours = &self.filter(None);
            let listing = || self.list_servers(by, ours, Priority::Poll);
            read_with_restarts(|| listing().glance().boxed()).await?;
        }
        proved
    }

    /// What is delivered by one listing, and a read of each server that should have been in it. Pending ones have their
    /// own pace. When there are many others, one listing of all shows more for less.
    async fn poll(&self, by: &Connection) -> Result<(), Gap> {
        let started = clock::now().mono;
        let delivered = {
            let state = self.state();
            let is_delivered = |s: &SeenServer| s.server.status == ServerStatus::Delivered;
            state
                .servers
                .snapshot()
                .unreleased_servers()
                .any(is_delivered)
        };
        if delivered {
            let delivered = &self.filter(Some(StatusFilter::Delivered));
            let listing = || self.list_servers(by, delivered, Priority::Poll);
            read_with_restarts(|| listing().glance().boxed()).await?;
        }
        let unseen: Vec<ServerId> = {
            let state = self.state();
            let unseen = state.servers.snapshot().unseen_since(started);
            let is_settled = |id: &ServerId| !state.servers.is_pending(id);
            unseen.into_iter().filter(is_settled).collect()
        };
        match unseen.len() > ONE_BY_ONE {
            true => self.fetch_list_with_fallback(by).await,
            false => self.read_servers(by, &unseen).await,
        }
    }

    /// A proof listing: every machine of the cluster, complete or worthless.
    async fn fetch_complete_list(&self, by: &Connection, lane: Priority) -> Result<(), Gap> {
        let is_wanted = self.state().schedule.has_requests();
        let lane = if is_wanted { Priority::Resolve } else { lane };
        let ours = &self.filter(None);
        let listing = || self.list_servers(by, ours, lane);
        let read = || listing().collect().map_err(|it| it.gap).boxed();
        let (began, all) = read_with_restarts(read).await?;
        if all.left_out() > 0 {
            let left_out = all.left_out();
            tracing::info!(left_out, "released servers left out of memory");
        }
        let proof = Arc::new(CompleteList {
            began,
            ended: clock::now().mono,
            servers: all.into_records().into_iter().map(|it| it.server).collect(),
        });
        // The provider first, then the cluster: an object that is made meanwhile is seen, and its
        // machine is not reported as an orphan.
        let claims = self.subscribers.claimed_name_hashes();
        let disowned = self.subscribers.disowned(&proof, &self.account.key);
        let ordering = self.account.reservations.ordering_name_hashes();
        let (is_first, answered) = {
            let mut state = self.state();
            let known = state.known().to_vec();
            state
                .servers
                .update_orphans(&proof, &known, claims.as_ref(), &disowned, &ordering);
            if let Some(times) = state.times() {
                let reservations = &self.account.reservations;
                reservations.settle_by_list(&proof, times.absence_grace_period);
            }
            let answered = state.schedule.answered_by(&proof);
            (state.servers.set_complete_list(proof), answered)
        };
        if is_first {
            self.enqueue_users();
        } else {
            self.enqueue_account_object();
        }
        for mark in answered {
            self.enqueue(&EnqueueTarget::NameHash(mark));
        }
        let unseen = self.unseen_since(began);
        let first = unseen.get(..ONE_BY_ONE).unwrap_or(&unseen);
        self.read_servers(by, first).await?;
        self.count_others_if_due(by, lane).await
    }

    /// Counts the machines of others, once in the time between two looks for orphans, and once a day in any case. Nothing rests on that: where it
    /// fails, the last count stands until the next.
    async fn count_others_if_due(&self, by: &Connection, lane: Priority) -> Result<(), Gap> {
        let now = clock::now().mono;
        let is_due = {
            let mut state = self.state();
            let interval = state.times().map(|t| t.orphan_scan_interval);
            // Where somebody always waits for a listing, no round is a look for orphans.
            let interval = interval.map(|interval| match lane {
                Priority::OrphanScan => interval,
                _ => interval.max(DAY),
            });
            interval.is_some_and(|interval| state.servers.counts_others(now, interval))
        };
        if !is_due {
            return Ok(());
        }
        let old = self.old_order_tags(by).await?;
        match self.count_others(by, old.as_ref()).await {
            Ok((others, old, untagged)) => {
                let names = self.subscribers.namespaces.which(|_, _| true).into_iter();
                let hashes = names
                    .map(|name| namespace_hash(&self.cluster, &name))
                    .collect();
                let claims = self.subscribers.claimed_name_hashes();
                let untagged = orphans::untagged(untagged, claims.as_ref(), hashes);
                self.state().servers.set_others(others, untagged);
                self.enqueue_account_object();
                old.into_iter().for_each(|old| self.remove_order_tags(old));
            }
            Err(Gap::Failed(error @ Error::AccessDenied(_))) => return Err(error.into()),
            Err(gap) => tracing::debug!(%gap, "cannot count the servers of others"),
        }
        Ok(())
    }

    /// The machines that bear the cluster's mark.
    fn filter(&self, status: Option<StatusFilter>) -> ServerFilter {
        ServerFilter {
            status,
            tags: vec![self.cluster_tag.clone()],
        }
    }

    /// Reads servers one by one. Only such a read tells that one is gone.
    async fn read_servers(&self, by: &Connection, servers: &[ServerId]) -> Result<(), Gap> {
        let (mut failures, mut last) = (0, None);
        let mut is_forbidden = false;
        for id in servers {
            match self.read_server(by, id, Priority::Poll).await {
                Ok(_) | Err(Error::NotFound(_)) => {}
                Err(Error::Forbidden { .. }) => is_forbidden = true,
                Err(error @ Error::AccessDenied(_)) => return Err(error.into()),
                Err(error) => {
                    failures += 1;
                    last = Some(error);
                }
            }
            // One server may be at fault, more than that is the account: it backs off.
            if failures > MOST_FAILURES {
                break;
            }
        }
        // A server that the key may not read, or a key that is refused: the quota tells which.
        if is_forbidden {
            self.call(by, Priority::Poll, by.client.quota_usage())
                .await?;
        }
        last.map_or(Ok(()), |error| Err(error.into()))
    }

    fn unseen_since(&self, since: Duration) -> Vec<ServerId> {
        self.state().servers.snapshot().unseen_since(since)
    }
}
