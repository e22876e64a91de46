//! Reading machines: one by one, page by page, whole lists.

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
        orphans::{MOST_UNTAGGED, Others, is_untagged},
        priority::Priority,
        view::{HostsById, TagsByName},
    },
    moment::Moment,
};
use futures::{FutureExt as _, future::BoxFuture};
use hosting::listing::Listing;
use hosting_types::{
    Error, Page, Server, ServerFilter, ServerId, ServerStatus, TagRecord,
    list::{Gap, list_size},
};
use std::{
    borrow::Borrow,
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::Ordering},
    time::Duration,
};

/// What a listing remembers of a record to know it again, in bytes: 16 in a set that grows by doubling.
const SEEN: usize = 40;

/// How often a listing that shifted is started again at once.
const TRIES: usize = 3;

impl Core {
    /// Reads one machine for the account itself.
    pub(crate) async fn read_server(
        &self,
        by: &Connection,
        id: &ServerId,
        lane: Priority,
    ) -> Result<Arc<Server>, Error> {
        // Looked at before the turn is waited for: older is the safe side.
        let asked_for = clock::now().mono;
        let answer = self.call(by, lane, by.client.server(id)).await;
        self.record_read(id, answer, asked_for)
    }

    /// Takes in the answer to a read. A machine that the API does not know leaves the snapshot.
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

    /// Takes records in that were asked for at `seen`, and wakes whom they concern.
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

    /// Takes one record in.
    pub(crate) fn record_server(&self, server: Server, seen: Duration) -> Arc<Server> {
        let fallback = server.clone();
        let kept = self.record_servers(vec![server], seen).pop();
        kept.map_or_else(|| Arc::new(fallback), |(kept, _)| kept)
    }

    /// The list of machines that a filter lets through; each page is taken in as it comes.
    pub(crate) fn list_servers<'a>(
        &'a self,
        by: &'a Connection,
        filter: &'a ServerFilter,
        lane: Priority,
    ) -> Listing<'a, ListedRecord<Arc<Server>>> {
        let seen_ones = Arc::new(Mutex::new(self.memory_budget.empty_reservation()));
        let pages = Listing::of_servers(move |page| {
            let seen_ones = seen_ones.clone();
            async move {
                let seen = clock::now().mono;
                let servers = self.page(by, filter, page, lane).await?;
                let taken = self.record_servers(servers, seen).into_iter();
                let listed = taken.map(|(server, place)| ListedRecord {
                    server,
                    outcome: place,
                });
                let listed = check_fit(listed.collect())?;
                // The snapshot's allowance for a record covers this, too.
                let not_kept = |listed: &&ListedRecord<_>| listed.outcome == PutOutcome::NotNeeded;
                let not_kept = listed.iter().filter(not_kept).count();
                locked(&seen_ones).reserve_bytes(SEEN * not_kept)?;
                Ok(listed)
            }
            .boxed()
        });
        let pages = pages.without(|listed| listed.outcome == PutOutcome::NotNeeded);
        self.fitted(pages, |listed| is_released(&listed.server))
    }

    /// Every machine of the account, whatever it bears, read to an empty page. They stay out of the
    /// snapshot. Gives the moment of the start as well.
    pub(crate) async fn list_all_servers(
        &self,
        by: &Connection,
    ) -> Result<(Duration, Reserved<Vec<Server>>), Gap> {
        let filter = &ServerFilter::default();
        let read = || {
            async move {
                let held = Mutex::new(self.memory_budget.empty_reservation());
                let of_pages = &held;
                let pages = Listing::of_servers(move |page| {
                    async move {
                        let servers = self.page(by, filter, page, Priority::Resolve).await?;
                        locked(of_pages).reserve_bytes(SEEN * servers.len())?;
                        let servers = servers.into_iter();
                        check_fit(
                            servers
                                .map(|server| reserve_record(of_pages, server))
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
                let mut held = into_inner(held);
                held.shrink_to(all.iter().map(server_size).sum());
                Ok((all, held))
            }
            .boxed()
        };
        read_with_restarts(read).await
    }

    /// Counts the machines of the account that are not this cluster's, and finds out which of these order tags no machine
    /// bears. None of the machines is kept but those that may be orphans without the cluster's tag.
    pub(crate) async fn count_others(
        &self,
        by: &Connection,
        old: Option<&OldOrderTags>,
    ) -> Result<(Others, Option<OldOrderTags>, Vec<Arc<Server>>), Gap> {
        let filter = &ServerFilter::default();
        let read = || {
            async move {
                let held = Mutex::new(self.memory_budget.empty_reservation());
                let of_pages = &held;
                let pages = Listing::of_servers(move |page| {
                    async move {
                        let servers = self.page(by, filter, page, Priority::OrphanScan).await?;
                        locked(of_pages).reserve_bytes(SEEN * servers.len())?;
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
                    let room = MOST_UNTAGGED.saturating_sub(untagged.len());
                    let found = page.iter().filter(|s| is_untagged(s)).take(room);
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

    /// Every tag of the account but the operator's own, read to an empty page. Gives the moment of the start and how
    /// many were read as well.
    pub(crate) async fn list_all_tags(
        &self,
        by: &Connection,
    ) -> Result<(Duration, usize, Reserved<TagsByName>), Gap> {
        let read = || {
            async move {
                let held = Mutex::new(self.memory_budget.empty_reservation());
                let of_pages = &held;
                let pages = Listing::of_tags(move |page| {
                    async move {
                        let tags = self
                            .call(by, Priority::Catalogue, by.client.tags(page))
                            .await?;
                        locked(of_pages).reserve(&tags)?;
                        Ok(tags)
                    }
                    .boxed()
                });
                // Orders make tags while it is read. Those of this operator come and go with every order.
                let pages = pages.leaving_out(is_own_tag).growing();
                let all = pages.collect().await.map_err(|it| it.gap)?;
                Ok((all.into_records(), into_inner(held)))
            }
            .boxed()
        };
        let (started, (all, mut held)) = read_with_restarts(read).await?;
        let read = all.len();
        let mut others = all;
        others.retain(|tag| !is_own_tag(tag));
        held.shrink_to(list_size(&others));
        let by_name = others.into_iter().map(|tag| (tag.tag.clone(), tag));
        let by_name = by_name.collect();
        Ok((started, read, (by_name, held)))
    }

    /// Every host of the account, read to an empty page or to where it says that it ends.
    pub(crate) async fn list_all_hosts(
        &self,
        by: &Connection,
    ) -> Result<(Duration, Reserved<HostsById>), Gap> {
        let read = || {
            async move {
                let held = Mutex::new(self.memory_budget.empty_reservation());
                let of_pages = &held;
                let pages = Listing::of_hosts(move |cursor| {
                    async move {
                        let call = by.client.hosts(None, &cursor);
                        let page = self.call(by, Priority::Catalogue, call).await?;
                        locked(of_pages).reserve(&page.hosts)?;
                        Ok(page)
                    }
                    .boxed()
                });
                let all = pages.growing().collect().await.map_err(|it| it.gap)?;
                Ok((all.into_records(), into_inner(held)))
            }
            .boxed()
        };
        let (started, (all, held)) = read_with_restarts(read).await?;
        let by_number = all.into_iter().map(|host| (host.id.0, host));
        Ok((started, (by_number.collect(), held)))
    }

    async fn page(
        &self,
        by: &Connection,
        filter: &ServerFilter,
        page: Page,
        lane: Priority,
    ) -> Result<Vec<Server>, Error> {
        let servers = self.call(by, lane, by.client.servers(filter, page)).await?;
        self.record_page_limit(page, u32::try_from(servers.len()).unwrap_or(u32::MAX));
        Ok(servers)
    }

    /// A listing goes over to smaller pages where the API gives no more at once. A full one of these shows
    /// that they fit. But a list that grows while it is read looks the same: so each listing asks for
    /// full pages first, and one page with more, or a list that ends right there, takes the limit back.
    fn record_page_limit(&self, page: Page, came: u32) {
        let limit = self.page_limit.load(Ordering::Relaxed);
        let is_end = came == 1 && page.start() + 1 == limit;
        if came > limit || is_end {
            self.page_limit.store(Page::MOST, Ordering::Relaxed);
        } else if came == page.results() && came < limit {
            self.page_limit.store(came, Ordering::Relaxed);
        }
    }

    /// A listing that takes the API as it is: its pages, and what of its records fits into memory.
    fn fitted<'a, T: Send + 'a>(
        &self,
        pages: Listing<'a, T>,
        is_over: fn(&T) -> bool,
    ) -> Listing<'a, T> {
        let limit = self.page_limit.load(Ordering::Relaxed);
        pages.with_known_limit(limit).leaving_out(is_over).growing()
    }
}

/// The present moment, by a wall clock that was not turned forward since the process started.
pub(crate) fn steady_now() -> Moment {
    Moment {
        wall: clock::steady_wall(),
        ..clock::now()
    }
}

/// What is kept of a list, with the room reserved for it.
pub(crate) type Reserved<T> = (T, MemoryReservation);

/// A machine of a listing, and whether there is a place for it.
#[derive(Debug)]
pub(crate) struct ListedRecord<S> {
    /// The record.
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

/// A page for which there is room.
fn check_fit<S>(page: Vec<ListedRecord<S>>) -> Result<Vec<ListedRecord<S>>, Gap> {
    match page.iter().any(|listed| listed.outcome == PutOutcome::Full) {
        true => Err(Gap::OverMemoryBudget),
        false => Ok(page),
    }
}

/// Takes room for one machine more.
fn reserve_record(held: &Mutex<MemoryReservation>, server: Server) -> ListedRecord<Server> {
    let size = server_size(&server);
    let mut held = locked(held);
    let place = match is_released(&server) {
        true if held.grow_optional(size) => PutOutcome::Stored,
        true => PutOutcome::NotNeeded,
        false if held.grow(size) => PutOutcome::Stored,
        false => PutOutcome::Full,
    };
    ListedRecord {
        server,
        outcome: place,
    }
}

fn locked(held: &Mutex<MemoryReservation>) -> MutexGuard<'_, MemoryReservation> {
    held.lock().unwrap_or_else(PoisonError::into_inner)
}

fn into_inner(held: Mutex<MemoryReservation>) -> MemoryReservation {
    held.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a machine is over and done with: beyond a bound such a record is not kept.
fn is_released(server: &Server) -> bool {
    server.status == ServerStatus::Released
}

/// Whether a tag is one of this program's own.
pub(super) fn is_own_tag(tag: &TagRecord) -> bool {
    tag.tag.starts_with(RESERVED_PREFIX)
}

/// Reads a list, and starts again when it moved meanwhile. Gives the moment of the start as well.
pub(crate) async fn read_with_restarts<'a, T>(
    read: impl Fn() -> BoxFuture<'a, Result<T, Gap>>,
) -> Result<(Duration, T), Gap> {
    let mut tries = 1;
    loop {
        let started = clock::now().mono;
        match read().await {
            Err(Gap::Shifted | Gap::Repeated(_) | Gap::Short) if tries < TRIES => tries += 1,
            result => return Ok((started, result?)),
        }
    }
}
