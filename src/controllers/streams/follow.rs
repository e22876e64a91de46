//! One watch: a listing in pages, and after it what changes, for ever.
//!
//! It does what kube's `watcher` does, and three things that it does not: listings and the starts of
//! watches have a deadline, signs of life are passed on, and a watch that ends at once has a pause.

use super::{Guarded, Slim, WatchSignal, WatchTimes};
use crate::runtime::clock;
use flexmetal_core::backoff::Backoff;
use futures::{StreamExt as _, stream::BoxStream};
use kube::{
    Api, Resource, ResourceExt as _,
    api::{ListParams, WatchEvent, WatchParams},
    core::ObjectList,
    runtime::watcher::Event,
};
use serde::de::DeserializeOwned;
use std::{fmt::Debug, time::Duration, vec};
use tokio::sync::Semaphore;

/// Objects in one page of a listing. A page is held as text and decoded at once, and what that leaves
/// behind in the heap stays: pages of 500, the usual size, cost several MiB for good. An object may have half a MiB,
/// most of which is dropped once it is decoded.
///
/// A listing by the watch itself would need no pages, but it may show any state that the API server
/// has cached, however old. What this process concludes from an absence needs a listing that is as
/// new as its start.
const PAGE: u32 = 25;
/// Pages that are read at a time, over all kinds and places.
static PAGES: Semaphore = Semaphore::const_new(2);
/// The API server ends a watch; where its end does not come, we do after this many of its periods.
const LATE: f64 = 1.025;
/// Longest pause after failures.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Failures that are this far apart are not in a row.
const IN_A_ROW: Duration = Duration::from_secs(120);
/// A watch that lasts less has failed, even where the API server ended it in good order.
const LEAST: Duration = Duration::from_millis(500);

/// Why a listing or a watch ended.
#[derive(Debug, thiserror::Error)]
enum Broken {
    #[error("the API server did not do it")]
    Api(#[from] kube::Error),
    #[error("the API server did not answer in time")]
    Deadline,
    #[error("the watch ended with an error: {0}")]
    WatchError(String),
    #[error("the watch ended at once")]
    AtOnce,
    #[error("an answer has no resource version")]
    NoVersion,
}

impl Broken {
    /// Whether the start of a watch failed in such a way that another one may fail for ever: an API
    /// server that says no may know nothing of the version. One that is busy will know it later.
    fn needs_listing(&self) -> bool {
        matches!(self, Self::Api(kube::Error::Api(status)) if status.code != 429)
    }
}

/// The watch of a kind at one place.
pub(super) struct Follower<K> {
    api: Api<Guarded<K>>,
    times: WatchTimes,
    slim: Slim,
    at: FollowerState<K>,
    pause: Backoff,
    failed: Duration,
    /// Events in a row that could not be read.
    unread: u32,
}

/// How far it is.
enum FollowerState<K> {
    /// Nothing is known.
    Start,
    /// A page was read; None: the first is still to be.
    Listing(Option<ListPage<K>>),
    /// All is known as it was at this version.
    Known(String),
    /// What changes after this version is shown, since this moment.
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
            unread: 0,
        }
    }

    /// What comes next. Errors end here: they are logged, and after a pause it goes on.
    pub(super) async fn next(&mut self) -> WatchSignal<K> {
        loop {
            clock::sleep_until(self.pause.not_before()).await;
            // A step that fails leaves where to go on.
            let at = std::mem::replace(&mut self.at, FollowerState::Start);
            match self.step(at).await {
                Ok((heard, at)) => {
                    self.at = at;
                    if let Some(heard) = heard {
                        return heard;
                    }
                }
                Err(broken) => self.failed(&broken),
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
        tracing::warn!(
            kind = %K::kind(&()),
            error = broken as &dyn std::error::Error,
            ?pause,
            "a watch failed; restarting with backoff"
        );
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
                    let heard = WatchSignal::Event(Event::InitApply(object));
                    return Ok((Some(heard), FollowerState::Listing(Some(page))));
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
            // Never closed, so this is only a wait; the one who reads has a deadline.
            let _turn = PAGES.acquire().await;
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
        let (heard, version) = match next {
            Ok(Some(Ok(WatchEvent::Added(object) | WatchEvent::Modified(object)))) => {
                let version = object.resource_version().ok_or(Broken::NoVersion)?;
                (WatchSignal::Event(Event::Apply(object)), version)
            }
            Ok(Some(Ok(WatchEvent::Deleted(object)))) => {
                let version = object.resource_version().ok_or(Broken::NoVersion)?;
                (WatchSignal::Event(Event::Delete(object)), version)
            }
            Ok(Some(Ok(WatchEvent::Bookmark(mark)))) => {
                (WatchSignal::Alive, mark.metadata.resource_version)
            }
            // Most often: it does not know the version any more. Then only a listing helps.
            Ok(Some(Ok(WatchEvent::Error(status)))) => {
                return Err(Broken::WatchError(status.message.clone()));
            }
            Ok(Some(Err(error))) => {
                /// Then what comes after this version cannot be read, and a listing may help.
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
        Ok((Some(heard), watching))
    }
}

/// An answer of the API server, or its head where it is a watch. A load balancer may have swallowed
/// the request, and nothing else would ever tell.
async fn in_time<T>(
    limit: Duration,
    call: impl Future<Output = kube::Result<T>>,
) -> Result<T, Broken> {
    match tokio::time::timeout(limit, call).await {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(Broken::Deadline),
    }
}
