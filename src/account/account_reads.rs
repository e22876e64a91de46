//! Reads of servers, tags and hosts: one record, one page or a whole list.

use super::{
    Connection,
    memory_budget::MemoryReservation,
    servers::{PutOutcome, server_size},
    session::Core,
};
use crate::runtime::clock;
use api::names::RESERVED_PREFIX;
use flexmetal_core::{
    account::{
        order_tags::OldOrderTags,
        orphan_scan::{MOST_UNTAGGED, Others, is_untagged},
        priority::Priority,
        view::{HostsById, TagsByName},
    },
    moment::Moment,
};
use futures::{FutureExt as _, future::BoxFuture};
use hosting::listing::Listing;
use hosting_types::{
    Error, Page, Server, ServerFilter, ServerId, ServerStatus, TagRecord,
    list::{ListGap, list_size},
};
use std::{
    borrow::Borrow,
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::Ordering},
    time::Duration,
};

/// Bytes by which a list recognises a record again: 16 in a set that grows by doubling.
const SEEN: usize = 40;

/// How often a list is read if it shifts meanwhile.
const TRIES: usize = 3;

impl Core {
    /// Reads one server for the account itself.
    pub(crate) async fn read_server(
        &self,
        by: &Connection,
        id: &ServerId,
        priority: Priority,
    ) -> Result<Arc<Server>, Error> {
        // Taken before the wait for the rate limiter: an earlier moment is the safe side.
        let asked_for = clock::now().mono;
        let answer = self.call(by, priority, by.client.server(id)).await;
        self.record_read(id, answer, asked_for)
    }

    /// Records the answer to a read. A server that the API does not know leaves the snapshot.
    pub(crate) fn record_read(
        &self,
        id: &ServerId,
        answer: Result<Server, Error>,
        asked_for: Duration,
    ) -> Result<Arc<Server>, Error> {
        if let Err(Error::NotFound(_)) = &answer {
            let touched = self.state().servers.drop_unknown(id, asked_for);
            self.enqueue_touched(touched);
        }
        answer.map(|server| self.record_server(server, asked_for))
    }

    /// Records servers that were requested at `seen`, and enqueues the objects concerned.
    fn record_servers(
        &self,
        servers: Vec<Server>,
        seen: Duration,
    ) -> Vec<(Arc<Server>, PutOutcome)> {
        let now = steady_now();
        let mut state = self.state();
        let times = state.times().unwrap_or_default();
        let (touched, kept) = state.servers.record_servers(servers, seen, (now, times));
        drop(state);
        self.enqueue_touched(touched);
        kept
    }

    pub(crate) fn record_server(&self, server: Server, seen: Duration) -> Arc<Server> {
        let fallback = server.clone();
        let kept = self.record_servers(vec![server], seen).pop();
        kept.map_or_else(|| Arc::new(fallback), |(kept, _)| kept)
    }

    /// Lists the servers that match a filter. Each page is recorded as it arrives.
    pub(crate) fn list_servers<'a>(
        &'a self,
        by: &'a Connection,
        filter: &'a ServerFilter,
        priority: Priority,
    ) -> Listing<'a, ListedRecord<Arc<Server>>> {
        let reservation = Arc::new(Mutex::new(self.memory_budget.empty_reservation()));
        let pages = Listing::of_servers(move |page| {
            let reservation = reservation.clone();
            async move {
                let seen = clock::now().mono;
                let servers = self.page(by, filter, page, priority).await?;
                let taken = self.record_servers(servers, seen).into_iter();
                let listed = taken.map(|(server, outcome)| ListedRecord { server, outcome });
                let listed = check_fit(listed.collect())?;
                // The snapshot's reservation covers the records that it stored.
                let not_kept = |listed: &&ListedRecord<_>| listed.outcome == PutOutcome::NotNeeded;
                let not_kept = listed.iter().filter(not_kept).count();
                locked(&reservation).reserve_bytes(SEEN * not_kept)?;
                Ok(listed)
            }
            .boxed()
        });
        let pages = pages.without(|listed| listed.outcome == PutOutcome::NotNeeded);
        self.fitted(pages, |listed| is_released(&listed.server))
    }

    /// All servers of the account, whatever their tags, read to an empty page. They stay out of the snapshot. Also
    /// returns when the read began.
    pub(crate) async fn list_all_servers(
        &self,
        by: &Connection,
    ) -> Result<(Duration, Reserved<Vec<Server>>), ListGap> {
        let filter = &ServerFilter::default();
        let read = || {
            async move {
                let reservation = Mutex::new(self.memory_budget.empty_reservation());
                let pages_reservation = &reservation;
                let pages = Listing::of_servers(move |page| {
                    async move {
                        let servers = self.page(by, filter, page, Priority::Resolve).await?;
                        locked(pages_reservation).reserve_bytes(SEEN * servers.len())?;
                        let servers = servers.into_iter();
                        check_fit(
                            servers
                                .map(|server| reserve_record(pages_reservation, server))
                                .collect(),
                        )
                    }
                    .boxed()
                });
                let pages = pages.without(|listed| listed.outcome == PutOutcome::NotNeeded);
                let all = self.fitted(pages, |listed| is_released(&listed.server));
                let all = all.collect().await.map_err(|it| it.gap)?;
                let all = all.into_records().into_iter().map(|it| it.server);
                let all: Vec<Server> = all.collect();
                let mut reservation = into_inner(reservation);
                reservation.shrink_to(all.iter().map(server_size).sum());
                Ok((all, reservation))
            }
            .boxed()
        };
        read_with_restarts(read).await
    }

    /// Counts the servers that are not this cluster's, and drops the order tags from `old` that an unreleased server
    /// has. Returns only servers that may be orphans without the cluster's tag.
    pub(crate) async fn count_others(
        &self,
        by: &Connection,
        old: Option<&OldOrderTags>,
    ) -> Result<(Others, Option<OldOrderTags>, Vec<Arc<Server>>), ListGap> {
        let filter = &ServerFilter::default();
        let read = || {
            async move {
                let reservation = Mutex::new(self.memory_budget.empty_reservation());
                let pages_reservation = &reservation;
                let pages = Listing::of_servers(move |page| {
                    async move {
                        let servers = self.page(by, filter, page, Priority::OrphanScan).await?;
                        locked(pages_reservation).reserve_bytes(SEEN * servers.len())?;
                        Ok(servers)
                    }
                    .boxed()
                });
                let mut pages = self.fitted(pages, is_released);
                let mut others = Others::default();
                let mut old = old.cloned();
                let mut untagged = Vec::new();
                while let Some(page) = pages.next_page().await? {
                    let live = page.iter().filter(|s| s.status.is_live());
                    let of_others = live.filter(|s| !s.has_tag(&self.cluster_tag));
                    of_others.for_each(|server| others.add(server));
                    let capacity = MOST_UNTAGGED.saturating_sub(untagged.len());
                    let found = page.iter().filter(|s| is_untagged(s)).take(capacity);
                    untagged.extend(found.map(|server| Arc::new(server.clone())));
                    if let Some(old) = &mut old {
                        page.iter().for_each(|server| old.add_server(server));
                    }
                }
                Ok((others, old, untagged))
            }
            .boxed()
        };
        let (_, counted) = read_with_restarts(read).await?;
        Ok(counted)
    }

    /// All tags of the account but the operator's own, read to an empty page. Also returns when the read began, and how
    /// many tags it read.
    pub(crate) async fn list_all_tags(
        &self,
        by: &Connection,
    ) -> Result<(Duration, usize, Reserved<TagsByName>), ListGap> {
        let read = || {
            async move {
                let reservation = Mutex::new(self.memory_budget.empty_reservation());
                let pages_reservation = &reservation;
                let pages = Listing::of_tags(move |page| {
                    async move {
                        let tags = self
                            .call(by, Priority::Catalogue, by.client.tags(page))
                            .await?;
                        locked(pages_reservation).reserve(&tags)?;
                        Ok(tags)
                    }
                    .boxed()
                });
                // Orders create tags during the read. The operator's own tags come and go with every order.
                let pages = pages.leaving_out(is_own_tag).growing();
                let all = pages.collect().await.map_err(|it| it.gap)?;
                Ok((all.into_records(), into_inner(reservation)))
            }
            .boxed()
        };
        let (started, (all, mut reservation)) = read_with_restarts(read).await?;
        let read = all.len();
        let mut others = all;
        others.retain(|tag| !is_own_tag(tag));
        reservation.shrink_to(list_size(&others));
        let by_name = others.into_iter().map(|tag| (tag.tag.clone(), tag));
        let by_name = by_name.collect();
        Ok((started, read, (by_name, reservation)))
    }

    /// All hosts of the account, read to the end. Also returns when the read began.
    pub(crate) async fn list_all_hosts(
        &self,
        by: &Connection,
    ) -> Result<(Duration, Reserved<HostsById>), ListGap> {
        let read = || {
            async move {
                let reservation = Mutex::new(self.memory_budget.empty_reservation());
                let pages_reservation = &reservation;
                let pages = Listing::of_hosts(move |cursor| {
                    async move {
                        let call = by.client.hosts(None, &cursor);
                        let page = self.call(by, Priority::Catalogue, call).await?;
                        locked(pages_reservation).reserve(&page.hosts)?;
                        Ok(page)
                    }
                    .boxed()
                });
                let all = pages.growing().collect().await.map_err(|it| it.gap)?;
                Ok((all.into_records(), into_inner(reservation)))
            }
            .boxed()
        };
        let (started, (all, reservation)) = read_with_restarts(read).await?;
        let by_number = all.into_iter().map(|host| (host.id.0, host));
        Ok((started, (by_number.collect(), reservation)))
    }

    async fn page(
        &self,
        by: &Connection,
        filter: &ServerFilter,
        page: Page,
        priority: Priority,
    ) -> Result<Vec<Server>, Error> {
        let servers = self
            .call(by, priority, by.client.servers(filter, page))
            .await?;
        self.record_page_limit(page, u32::try_from(servers.len()).unwrap_or(u32::MAX));
        Ok(servers)
    }

    /// Learns the most records that the API returns per page. A list that grows during the read looks like such a
    /// limit, so lists ask for full pages first, and a larger page, or a list that ends at the limit, resets it.
    fn record_page_limit(&self, page: Page, came: u32) {
        let limit = self.page_limit.load(Ordering::Relaxed);
        let is_end = came == 1 && page.start() + 1 == limit;
        if came > limit || is_end {
            self.page_limit.store(Page::MOST, Ordering::Relaxed);
        } else if came == page.results() && came < limit {
            self.page_limit.store(came, Ordering::Relaxed);
        }
    }

    /// Adapts a list to the API's page size, to growth during the read, and to the memory budget.
    fn fitted<'a, T: Send + 'a>(
        &self,
        pages: Listing<'a, T>,
        is_over: fn(&T) -> bool,
    ) -> Listing<'a, T> {
        let limit = self.page_limit.load(Ordering::Relaxed);
        pages.with_known_limit(limit).leaving_out(is_over).growing()
    }
}

/// The current moment, by a wall clock that ignores forward jumps since the process started.
pub(crate) fn steady_now() -> Moment {
    Moment {
        wall: clock::steady_wall(),
        ..clock::now()
    }
}

/// Content of a list, with the memory reserved for it.
pub(crate) type Reserved<T> = (T, MemoryReservation);

/// A listed server, and whether it was stored.
#[derive(Debug)]
pub(crate) struct ListedRecord<S> {
    pub(crate) server: S,
    outcome: PutOutcome,
}

impl Borrow<Server> for ListedRecord<Server> {
    fn borrow(&self) -> &Server {
        &self.server
    }
}

impl Borrow<Server> for ListedRecord<Arc<Server>> {
    fn borrow(&self) -> &Server {
        &self.server
    }
}

/// Fails if a record of the page exceeds the memory budget.
fn check_fit<S>(page: Vec<ListedRecord<S>>) -> Result<Vec<ListedRecord<S>>, ListGap> {
    match page.iter().any(|listed| listed.outcome == PutOutcome::Full) {
        true => Err(ListGap::OverMemoryBudget),
        false => Ok(page),
    }
}

/// Reserves memory for one server.
fn reserve_record(reservation: &Mutex<MemoryReservation>, server: Server) -> ListedRecord<Server> {
    let size = server_size(&server);
    let mut reservation = locked(reservation);
    let outcome = match is_released(&server) {
        true if reservation.grow_optional(size) => PutOutcome::Stored,
        true => PutOutcome::NotNeeded,
        false if reservation.grow(size) => PutOutcome::Stored,
        false => PutOutcome::Full,
    };
    ListedRecord { server, outcome }
}

fn locked(reservation: &Mutex<MemoryReservation>) -> MutexGuard<'_, MemoryReservation> {
    reservation.lock().unwrap_or_else(PoisonError::into_inner)
}

fn into_inner(reservation: Mutex<MemoryReservation>) -> MemoryReservation {
    reservation
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner)
}

/// Whether a server is released. Only a limited number of such records is kept.
fn is_released(server: &Server) -> bool {
    server.status == ServerStatus::Released
}

/// Whether a tag is one of the operator's own.
pub(super) fn is_own_tag(tag: &TagRecord) -> bool {
    tag.tag.starts_with(RESERVED_PREFIX)
}

/// Reads a list, and starts again if it shifts meanwhile. Also returns when the read began.
pub(crate) async fn read_with_restarts<'a, T>(
    read: impl Fn() -> BoxFuture<'a, Result<T, ListGap>>,
) -> Result<(Duration, T), ListGap> {
    let mut tries = 1;
    loop {
        let started = clock::now().mono;
        match read().await {
            Err(ListGap::Shifted | ListGap::Repeated(_) | ListGap::Short) if tries < TRIES => {
                tries += 1
            }
            result => return Ok((started, result?)),
        }
    }
}
