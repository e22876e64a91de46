//! One watch: a list in pages, then the changes, without end. Unlike kube's `watcher`, requests have a deadline, signs
//! of life are reported, and a watch that ends at once is retried with backoff.

use super::{Guarded, Slim, WatchSignal, WatchTimes};
use crate::runtime::clock;
use flexmetal_core::backoff::Backoff;
use futures::{StreamExt as _, stream::BoxStream};
use kube::{
    Api, Resource, ResourceExt as _,
    api::{ListParams, WatchEvent, WatchParams},
    core::{ObjectList, Status},
    runtime::watcher::Event,
};
use serde::de::DeserializeOwned;
use std::{fmt::Debug, time::Duration, vec};
use tokio::sync::Semaphore;

/// Objects in one page of a list: pages of 500 objects would occupy several MiB of heap for good. A streaming list
/// needs no pages but may show an old state, and an absence counts only in a fresh list.
const PAGE: u32 = 25;
/// Pages read at once, over all kinds and namespaces.
static PAGES: Semaphore = Semaphore::const_new(2);
/// If the API server does not end a watch, we end it after this many watch periods.
const LATE: f64 = 1.025;
/// Longest backoff after failures.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Failures with more time between them are not in a row.
const IN_A_ROW: Duration = Duration::from_secs(120);
/// A shorter watch has failed, even if the API server ended it properly.
const LEAST: Duration = Duration::from_millis(500);

/// Why a list or a watch ended.
#[derive(Debug, thiserror::Error)]
enum Broken {
    #[error("the API server did not do it")]
    Api(#[from] kube::Error),
    #[error("the API server did not answer in time")]
    Deadline,
    #[error("the watch ended with an error: {}", .0.message)]
    WatchError(Box<Status>),
    #[error("the watch ended at once")]
    AtOnce,
    #[error("an answer has no resource version")]
    NoVersion,
}

impl Broken {
    /// Whether only a new list helps: an API server that refuses a watch may not know the version any more. A busy one
    /// (429) will know it later.
    fn needs_listing(&self) -> bool {
        matches!(self, Self::Api(kube::Error::Api(status)) if status.code != 429)
    }

    /// Whether the API server no longer knows the version, as happens where little changes.
    fn is_expired(&self) -> bool {
        match self {
            Self::WatchError(status) | Self::Api(kube::Error::Api(status)) => status.code == 410,
            _ => false,
        }
    }
}

/// The watch of a kind in one namespace, or in all.
pub(super) struct Follower<K> {
    api: Api<Guarded<K>>,
    times: WatchTimes,
    slim: Slim,
    at: FollowerState<K>,
    pause: Backoff,
    failed: Duration,
    /// Whether it has failed since the last event or bookmark.
    is_failing: bool,
    /// Events in a row that could not be read.
    unread: u32,
}

/// Progress of the watch.
enum FollowerState<K> {
    /// Nothing was read yet.
    Start,
    /// The page being processed. `None` before the first page.
    Listing(Option<ListPage<K>>),
    /// The list is complete at this version.
    Known(String),
    /// The watch runs since this moment, with the changes after this version.
    Watching {
        version: String,
        events: BoxStream<'static, kube::Result<WatchEvent<Guarded<K>>>>,
        since: Duration,
    },
}

struct ListPage<K> {
    objects: vec::IntoIter<Guarded<K>>,
    next: Option<String>,
    version: Option<String>,
}

impl<K> Follower<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    pub(super) fn new(api: Api<Guarded<K>>, times: WatchTimes, slim: Slim) -> Self {
        Self {
            api,
            times,
            slim,
            at: FollowerState::Start,
            pause: Backoff::default(),
            failed: Duration::ZERO,
            is_failing: false,
            unread: 0,
        }
    }

    /// The same watch from the start. Only the log depends on whether it was failing.
    pub(super) fn restarted(&self) -> Self {
        Self {
            is_failing: self.is_failing,
            ..Self::new(self.api.clone(), self.times, self.slim)
        }
    }

    /// The next signal. Errors are logged and signalled, and retried with backoff.
    pub(super) async fn next(&mut self) -> WatchSignal<K> {
        loop {
            clock::sleep_until(self.pause.not_before()).await;
            // A step that fails sets where to continue.
            let at = std::mem::replace(&mut self.at, FollowerState::Start);
            match self.step(at).await {
                Ok((signal, at)) => {
                    self.at = at;
                    if let Some(signal) = signal {
                        return signal;
                    }
                }
                Err(broken) => {
                    self.failed(&broken);
                    return WatchSignal::Failed;
                }
            }
        }
    }

    fn failed(&mut self, broken: &Broken) {
        let now = clock::now().mono;
        if now.saturating_sub(self.failed) > IN_A_ROW {
            self.pause.reset();
        }
        self.failed = now;
        let pause = self.pause.fail(now, LONGEST_PAUSE);
        let (kind, namespace) = (K::kind(&()), self.api.namespace());
        let error: &dyn std::error::Error = broken;
        let seconds = pause.as_secs_f64();
        // The first failure of a row is news.
        if broken.is_expired() || std::mem::replace(&mut self.is_failing, true) {
            tracing::debug!(%kind, namespace, error, retry_after_seconds = seconds, "watch failed");
        } else {
            tracing::warn!(%kind, namespace, error, retry_after_seconds = seconds, "watch failed");
        }
    }

    async fn step(
        &mut self,
        at: FollowerState<K>,
    ) -> Result<(Option<WatchSignal<K>>, FollowerState<K>), Broken> {
        Ok(match at {
            FollowerState::Start => (
                Some(WatchSignal::Event(Event::Init)),
                FollowerState::Listing(None),
            ),
            FollowerState::Listing(page) => self.list(page).await?,
            FollowerState::Known(version) => {
                let events = match self.start(&version).await {
                    Ok(events) => events,
                    Err(broken) => {
                        if !broken.needs_listing() {
                            self.at = FollowerState::Known(version);
                        }
                        return Err(broken);
                    }
                };
                let since = clock::now().mono;
                let watching = FollowerState::Watching {
                    version,
                    events,
                    since,
                };
                (Some(WatchSignal::Alive), watching)
            }
            FollowerState::Watching {
                version,
                events,
                since,
            } => self.follow(version, events, since).await?,
        })
    }

    async fn list(
        &mut self,
        page: Option<ListPage<K>>,
    ) -> Result<(Option<WatchSignal<K>>, FollowerState<K>), Broken> {
        let token = match page {
            None => None,
            Some(mut page) => {
                if let Some(object) = page.objects.next() {
                    let signal = WatchSignal::Event(Event::InitApply(object));
                    return Ok((Some(signal), FollowerState::Listing(Some(page))));
                }
                if page.next.is_none() {
                    let version = page.version.ok_or(Broken::NoVersion)?;
                    return Ok((
                        Some(WatchSignal::Event(Event::InitDone)),
                        FollowerState::Known(version),
                    ));
                }
                page.next
            }
        };
        let params = ListParams {
            limit: Some(PAGE),
            continue_token: token,
            ..ListParams::default()
        };
        let mut list: ObjectList<Guarded<K>> = {
            // The semaphore is never closed, and the read has a deadline.
            let _permit = PAGES.acquire().await;
            in_time(self.times.answer, self.api.list(&params)).await?
        };
        for object in &mut list.items {
            (self.slim)(object.meta_mut());
        }
        let is_some = |text: &String| !text.is_empty();
        let page = ListPage {
            objects: list.items.into_iter(),
            next: list.metadata.continue_.filter(is_some),
            version: list.metadata.resource_version.filter(is_some),
        };
        Ok((None, FollowerState::Listing(Some(page))))
    }

    async fn start(
        &mut self,
        version: &str,
    ) -> Result<BoxStream<'static, kube::Result<WatchEvent<Guarded<K>>>>, Broken> {
        let params = WatchParams::default().timeout(self.times.seconds());
        let events = in_time(self.times.answer, self.api.watch(&params, version)).await?;
        Ok(events.boxed())
    }

    async fn follow(
        &mut self,
        version: String,
        mut events: BoxStream<'static, kube::Result<WatchEvent<Guarded<K>>>>,
        since: Duration,
    ) -> Result<(Option<WatchSignal<K>>, FollowerState<K>), Broken> {
        let next = tokio::time::timeout(self.times.period.mul_f64(LATE), events.next()).await;
        let (signal, version) = match next {
            Ok(Some(Ok(WatchEvent::Added(object) | WatchEvent::Modified(object)))) => {
                let version = object.resource_version().ok_or(Broken::NoVersion)?;
                (WatchSignal::Event(Event::Apply(object)), version)
            }
            Ok(Some(Ok(WatchEvent::Deleted(object)))) => {
                let version = object.resource_version().ok_or(Broken::NoVersion)?;
                (WatchSignal::Event(Event::Delete(object)), version)
            }
            Ok(Some(Ok(WatchEvent::Bookmark(bookmark)))) => {
                (WatchSignal::Alive, bookmark.metadata.resource_version)
            }
            // Most often the version has expired. Then only a new list helps.
            Ok(Some(Ok(WatchEvent::Error(status)))) => {
                return Err(Broken::WatchError(status));
            }
            Ok(Some(Err(error))) => {
                /// After this many, an event after this version is unreadable, and a new list may help.
                const MOST_UNREAD: u32 = 3;
                self.unread += 1;
                if !self.unread.is_multiple_of(MOST_UNREAD) {
                    self.at = FollowerState::Known(version);
                }
                return Err(error.into());
            }
            Ok(None) if clock::now().mono.saturating_sub(since) < LEAST => {
                self.at = FollowerState::Known(version);
                return Err(Broken::AtOnce);
            }
            Ok(None) | Err(_) => return Ok((None, FollowerState::Known(version))),
        };
        let watching = FollowerState::Watching {
            version,
            events,
            since,
        };
        self.unread = 0;
        // A new watch may still end at once; an event or a bookmark shows that it works.
        if std::mem::take(&mut self.is_failing) {
            let namespace = self.api.namespace();
            tracing::info!(kind = %K::kind(&()), namespace, "watch recovered");
        }
        Ok((Some(signal), watching))
    }
}

/// An answer of the API server, or the head of a watch, in time. A load balancer may drop a request without an error.
async fn in_time<T>(
    limit: Duration,
    call: impl Future<Output = kube::Result<T>>,
) -> Result<T, Broken> {
    match tokio::time::timeout(limit, call).await {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(Broken::Deadline),
    }
}
