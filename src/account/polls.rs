//! The polls of an account, one after the other, for as long as its session lives.

use super::{
    Connection, EnqueueTarget,
    account_reads::{read_with_restarts, steady_now},
    poll_plan::{self, PollKind},
    session::Core,
};
use crate::runtime::clock;
use flexmetal_core::{
    account::{
        key_state::KeyState,
        orphan_scan,
        priority::Priority,
        view::{CompleteList, SeenServer},
    },
    owner::namespace_hash,
};
use futures::{FutureExt as _, TryFutureExt as _};
use hosting_types::{
    Error, Page, ServerFilter, ServerId, ServerStatus, StatusFilter, list::ListGap,
};
use std::{sync::Arc, time::Duration};

/// Most servers that are read one by one because a list does not show them; for more, another list is cheaper.
const ONE_BY_ONE: usize = 10;
/// A poll ends when more reads than this fail.
const MOST_FAILURES: usize = 2;
/// The servers of others are counted at least this often.
const DAY: Duration = Duration::from_secs(86_400);
/// New records per page: pages overlap by one.
const EACH: usize = Page::MOST as usize - 1;
/// How long the next poll is delayed while there is no connection.
const NO_CONNECTION: Duration = Duration::from_secs(3600);

/// Approximate number of calls to read a list of so many records to its end.
pub(crate) fn calls_for_list(records: usize) -> u32 {
    u32::try_from(records / EACH + 2).unwrap_or(u32::MAX)
}

impl Core {
    /// Makes the polls. Never returns.
    pub(crate) async fn run_polls(&self) {
        loop {
            let (due, kind) = self.plan();
            // Changes of the plan do not delay a poll that is due.
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
            let result = match kind {
                PollKind::Probe => self.probe(by).await.map_err(ListGap::Failed),
                PollKind::CompleteList => self.fetch_complete_list(by, Priority::OrphanScan).await,
                PollKind::DeliveredList => self.poll(by).await,
                PollKind::Pending => match self.due_reads() {
                    // A poll without a call would report that the account works.
                    due if due.is_empty() => continue,
                    due => self.read_pending(by, &due).await,
                },
            };
            self.finish_poll((kind, began), result);
        }
    }

    /// Tries the key. A rejected key must also list servers: that may be what it was rejected for.
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
                state.schedule.next(
                    &state.breaker,
                    &state.servers,
                    times,
                    cost,
                    clock::now().mono,
                )
            }
            None => (clock::now().mono + NO_CONNECTION, PollKind::Probe),
        }
    }

    fn finish_poll(&self, poll: (PollKind, Duration), result: Result<(), ListGap>) {
        let now = clock::now();
        let mut state = self.state();
        if let Some(times) = state.times() {
            state.servers.plan_reads(steady_now(), times);
        }
        if matches!(result, Err(ListGap::OverMemoryBudget)) {
            state.servers.recount();
        }
        let is_untried = *state.breaker.state() == KeyState::Untried;
        let since = state.schedule.answers_since();
        let is_news = state
            .schedule
            .finish_poll(poll, result, now.mono, is_untried);
        let is_back = state.schedule.answers_since() != since;
        drop(state);
        if is_back {
            self.lists.reset_backoff();
        }
        if is_news {
            self.enqueue_users();
        }
    }

    /// The pending servers that are due. If there are none, their reads are planned again.
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

    /// Reads the servers one by one if they are few or that takes fewer calls; else lists the cluster's servers.
    async fn read_pending(&self, by: &Connection, due: &[ServerId]) -> Result<(), ListGap> {
        let listed = self
            .state()
            .servers
            .complete_list()
            .map_or(0, |p| p.servers.len());
        let is_fewer = u32::try_from(due.len()).is_ok_and(|reads| reads <= calls_for_list(listed));
        match is_fewer || due.len() <= poll_plan::FAST_POLL_MAX {
            true => self.read_servers(by, due).await,
            false => self.fetch_list_with_fallback(by).await,
        }
    }

    /// Lists the cluster's servers to update the snapshot. A list that is not complete, since it repeats a record, is
    /// read to its end anyway.
    async fn fetch_list_with_fallback(&self, by: &Connection) -> Result<(), ListGap> {
        let result = self.fetch_complete_list(by, Priority::Poll).await;
        if matches!(&result, Err(ListGap::Repeated(_))) {
            let ours = &self.filter(None);
            let listing = || self.list_servers(by, ours, Priority::Poll);
            read_with_restarts(|| listing().read_to_short_page().boxed()).await?;
        }
        result
    }

    /// Lists the delivered servers, and reads each server that is missing and not pending. If many are missing, lists
    /// the cluster's servers instead.
    async fn poll(&self, by: &Connection) -> Result<(), ListGap> {
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
            read_with_restarts(|| listing().read_to_short_page().boxed()).await?;
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

    /// Reads a complete list of the cluster's servers, or fails.
    async fn fetch_complete_list(
        &self,
        by: &Connection,
        priority: Priority,
    ) -> Result<(), ListGap> {
        let is_wanted = self.state().schedule.has_requests();
        let priority = if is_wanted {
            Priority::Resolve
        } else {
            priority
        };
        let ours = &self.filter(None);
        let listing = || self.list_servers(by, ours, priority);
        let read = || listing().collect().map_err(|it| it.gap).boxed();
        let (began, all) = read_with_restarts(read).await?;
        if all.left_out() > 0 {
            tracing::info!(
                account = %self.account.key,
                count = all.left_out(),
                "released servers omitted"
            );
        }
        let complete_list = Arc::new(CompleteList {
            began,
            ended: clock::now().mono,
            servers: all.into_records().into_iter().map(|it| it.server).collect(),
        });
        // First the provider, then the cluster: an object that is created meanwhile is known, and its server is no
        // orphan.
        let claims = self.subscribers.claimed_name_hashes();
        let disowned = self.subscribers.disowned(&complete_list, &self.account.key);
        let ordering = self.account.reservations.ordering_name_hashes();
        let (is_first, answered) = {
            let mut state = self.state();
            let known = state.known().to_vec();
            state.servers.update_orphans(
                &self.account.key,
                &complete_list,
                &known,
                claims.as_ref(),
                &disowned,
                &ordering,
            );
            if let Some(times) = state.times() {
                let reservations = &self.account.reservations;
                reservations.settle_by_list(&complete_list, times.absence_grace_period);
            }
            let answered = state.schedule.answered_by(&complete_list);
            (state.servers.set_complete_list(complete_list), answered)
        };
        if is_first {
            self.enqueue_users();
        }
        for name_hash in answered {
            self.enqueue(&EnqueueTarget::NameHash(name_hash));
        }
        // Known servers first, because one that a read shows is not lost.
        let asked = self.ask_for_missing_known_servers(by, began).await;
        self.enqueue_account_object();
        asked?;
        let unseen = self.unseen_since(began);
        let first = unseen.get(..ONE_BY_ONE).unwrap_or(&unseen);
        self.read_servers(by, first).await?;
        self.count_others_if_due(by, priority).await
    }

    /// If the complete list from this time shows no known server, reads the live ones, also those that this process
    /// never saw.
    async fn ask_for_missing_known_servers(
        &self,
        by: &Connection,
        began: Duration,
    ) -> Result<(), ListGap> {
        let missing = {
            let state = self.state();
            let known = state.known();
            if state.servers.lists_known_server(known) {
                return Ok(());
            }
            let live = known.iter().filter(|known| known.live);
            let ids = live.filter_map(|known| ServerId::parse(&known.uuid).ok());
            ids.collect::<Vec<_>>()
        };
        self.read_servers(by, &missing).await?;
        self.state().servers.record_known_asked_for(began);
        Ok(())
    }

    /// Counts the servers of others, once per orphan scan interval and at least once a day. No decision needs the
    /// count; if this fails, the last one stays.
    async fn count_others_if_due(
        &self,
        by: &Connection,
        priority: Priority,
    ) -> Result<(), ListGap> {
        let now = clock::now().mono;
        let is_due = {
            let mut state = self.state();
            let interval = state.times().map(|t| t.orphan_scan_interval);
            // While objects always wait for a list, no poll is an orphan scan.
            let interval = interval.map(|interval| match priority {
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
                let names = self
                    .subscribers
                    .namespaces
                    .names_matching(|_, _| true)
                    .into_iter();
                let hashes = names
                    .map(|name| namespace_hash(&self.cluster, &name))
                    .collect();
                let claims = self.subscribers.claimed_name_hashes();
                let untagged = orphan_scan::untagged(untagged, claims.as_ref(), hashes);
                self.state().servers.set_others(others, untagged);
                self.enqueue_account_object();
                old.into_iter().for_each(|old| self.remove_order_tags(old));
            }
            Err(ListGap::Failed(error @ Error::AccessDenied(_))) => return Err(error.into()),
            Err(gap) => {
                tracing::debug!(account = %self.account.key, error = %gap, "server count failed");
            }
        }
        Ok(())
    }

    /// The servers with the cluster's tag.
    fn filter(&self, status: Option<StatusFilter>) -> ServerFilter {
        ServerFilter {
            status,
            tags: vec![self.cluster_tag.clone()],
        }
    }

    /// Reads servers one by one. Only such a read shows that a server is gone.
    async fn read_servers(&self, by: &Connection, servers: &[ServerId]) -> Result<(), ListGap> {
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
            // One server may be at fault; more failures mean the account, which then backs off.
            if failures > MOST_FAILURES {
                break;
            }
        }
        // The key may not read a server, or is rejected: a read of the quota shows which.
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
