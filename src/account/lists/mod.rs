//! Slow lists of an account: looked at when somebody wants them, once for all who do.
//!
//! Another list is one variant of [`List`], one field of [`Contents`] and one
//! arm of `Core::look_at`.

mod poller;

use super::{
    memory_budget::MemoryReservation,
    schedule::{ReportedError, explain_failure},
};
use api::Reason;
use flexmetal_core::{
    account::view::{Catalogue, HostsById, ListKind, TagsByName},
    backoff::Backoff,
    reconcile_request::answered_at,
};
use hosting_types::{Server, list::Gap, ssh_key::SshKey};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::sync::Notify;

/// Longest pause after failures.
const PAUSE: Duration = Duration::from_secs(60);
/// The same where nobody waits.
const LONG_PAUSE: Duration = Duration::from_secs(600);
/// One failure alone says nothing; so many are shown.
const SHOWN: u32 = 2;

/// What a look showed, with its moment.
pub(crate) type Dated<T> = (Duration, Arc<T>);

/// Why the last looks at each list failed.
pub(crate) type ListErrors = [Option<(Reason, String)>; ListKind::ALL.len()];

/// What the last looks showed.
#[derive(Clone, Default)]
pub(crate) struct Contents {
    pub(crate) catalogue: Option<Dated<Catalogue>>,
    pub(crate) servers: Option<Dated<Vec<Server>>>,
    pub(crate) tags: Option<Dated<TagsByName>>,
    pub(crate) ssh_keys: Option<Dated<Vec<SshKey>>>,
    pub(crate) hosts: Option<Dated<HostsById>>,
}

/// The lists of one session, and who waits for them.
#[derive(Default)]
pub(crate) struct Lists {
    state: Mutex<ListsState>,
    /// The looks at a list have to be planned again.
    replan: [Notify; ListKind::ALL.len()],
}

#[derive(Default)]
struct ListsState {
    contents: Contents,
    /// What of the room each of the contents takes.
    reservations: [Option<MemoryReservation>; ListKind::ALL.len()],
    waiting: [ListWaiters; ListKind::ALL.len()],
}

/// Who waits for one list, and how the looks at it went.
#[derive(Default)]
struct ListWaiters {
    /// How much later a look may be wanted that one answers all the same. Objects at rest that came at different
    /// times fall into step by that, so that many of them cost what one costs.
    tolerance: Duration,
    by_uid: HashMap<String, ListRequest>,
    /// A look that starts at or after this moment is wanted, and nobody waits for it.
    refresh: Option<Duration>,
    /// The moment of the last good look that somebody waited for. What nobody waited for decides nothing.
    polled: Option<Duration>,
    backoff: Backoff,
    /// When the last look that failed ended.
    failed: Option<Duration>,
    error: ReportedError,
    /// How many records the last good look read.
    read: usize,
}

#[derive(Clone, Copy, PartialEq)]
enum ListRequest {
    /// A look that starts at or after this moment.
    Open(Duration),
    /// It was told of the look of this moment.
    Notified(Duration),
}

impl ListRequest {
    fn open(self) -> Option<Duration> {
        match self {
            Self::Open(not_before) => Some(not_before),
            Self::Notified(_) => None,
        }
    }
}

impl ListWaiters {
    fn open(&self) -> impl Iterator<Item = (&String, Duration)> {
        let wants = self.by_uid.iter();
        wants.filter_map(|(uid, want)| want.open().map(|moment| (uid, moment)))
    }

    /// Those who have waited for the look of this moment; they wait no more.
    fn answered(&mut self, looked: Duration) -> Vec<String> {
        self.backoff.reset();
        self.error.clear();
        self.refresh = self.refresh.filter(|moment| *moment > looked);
        let until = looked + self.tolerance;
        if self.open().any(|(_, moment)| moment <= until) {
            self.polled = Some(looked);
        }
        let is_answered = |want: &ListRequest| want.open().is_some_and(|moment| moment <= until);
        let answered = self.by_uid.iter_mut().filter(|(_, want)| is_answered(want));
        answered
            .map(|(uid, want)| {
                *want = ListRequest::Notified(looked);
                uid.clone()
            })
            .collect()
    }
}

/// What became of a good look.
struct ListPollOutcome {
    enqueued: Vec<String>,
    is_another: bool,
}

impl Lists {
    /// What the last looks showed that somebody waited for, and the failures of those that somebody waits for.
    pub(crate) fn view(&self) -> (Contents, ListErrors) {
        let state = self.state();
        let errors = ListKind::ALL.map(|list| state.waiting[list as usize].error.get().cloned());
        let mut contents = state.contents.clone();
        let looked = state.waiting[ListKind::Catalogue as usize].polled;
        contents.catalogue = looked.zip(contents.catalogue.map(|(_, catalogue)| catalogue));
        (contents, errors)
    }

    /// What the last look at the catalogue showed, whoever wanted it.
    pub(crate) fn newest_catalogue(&self) -> Option<Dated<Catalogue>> {
        self.state().contents.catalogue.clone()
    }

    /// How many records the last good look at a list read.
    fn record_count(&self, list: ListKind) -> usize {
        self.state().waiting[list as usize].read
    }

    fn set_record_count(&self, list: ListKind, records: usize) {
        self.state().waiting[list as usize].read = records;
    }

    /// An object wants a look. Returns whether it has to be woken at once: there is one that it was
    /// not told of.
    fn request_list(&self, list: ListKind, not_before: Duration, uid: &str) -> bool {
        let mut state = self.state();
        let waiting = &mut state.waiting[list as usize];
        let there = waiting.polled.filter(|looked| *looked >= not_before);
        let want = there.map_or(ListRequest::Open(not_before), ListRequest::Notified);
        if there.is_none() && waiting.open().next().is_none() {
            // What failed before anybody waited keeps nobody waiting.
            waiting.backoff.reset();
        }
        let is_news = waiting.by_uid.insert(uid.to_owned(), want) != Some(want);
        drop(state);
        if is_news && there.is_none() {
            self.replan[list as usize].notify_one();
        }
        is_news && there.is_some()
    }

    /// A look at the catalogue is wanted, and nobody waits for it: its failure is shown to nobody.
    pub(crate) fn refresh_catalogue(&self, not_before: Duration) {
        let list = ListKind::Catalogue as usize;
        let mut state = self.state();
        let newest = state.contents.catalogue.as_ref().map(|(looked, _)| *looked);
        let wanted = (newest < Some(not_before)).then_some(not_before);
        let is_news = std::mem::replace(&mut state.waiting[list].refresh, wanted) != wanted;
        drop(state);
        if is_news {
            self.replan[list].notify_one();
        }
    }

    /// Somebody asks for a look since this moment: one that failed before is made again, at this pace.
    pub(crate) fn request_retry(&self, since: Duration, pace: Duration) {
        for waiting in &mut self.state().waiting {
            if let Some(at) = answered_at(since, waiting.failed, pace) {
                waiting.backoff.retry_by(at);
            }
        }
    }

    /// A look answers who wants one so much later.
    fn set_tolerance(&self, list: ListKind, early: Duration) {
        self.state().waiting[list as usize].tolerance = early;
    }

    /// When the next look at a list is due. Many may wait; one look serves them all.
    fn due(&self, list: ListKind, spacing: Duration) -> Option<Duration> {
        let state = self.state();
        let waiting = &state.waiting[list as usize];
        let wanted = waiting.open().map(|(_, moment)| moment);
        let wanted = wanted.chain(waiting.refresh).min()?;
        let spaced = waiting.polled.map_or(Duration::ZERO, |at| at + spacing);
        Some(wanted.max(spaced).max(waiting.backoff.not_before()))
    }

    /// A look was good. `held`: what the content takes.
    fn store_content<T: PartialEq>(
        &self,
        list: ListKind,
        looked: Duration,
        (content, held): (T, MemoryReservation),
        place: impl FnOnce(&mut Contents) -> &mut Option<Dated<T>>,
    ) -> ListPollOutcome {
        let mut state = self.state();
        let place = place(&mut state.contents);
        let is_another = place.as_ref().is_none_or(|(_, former)| **former != content);
        *place = Some((looked, Arc::new(content)));
        state.reservations[list as usize] = Some(held);
        ListPollOutcome {
            enqueued: state.waiting[list as usize].answered(looked),
            is_another,
        }
    }

    /// A look failed. Returns those who wait, if there is something new to show them. A refused key has its own reason.
    fn record_failure(
        &self,
        list: ListKind,
        error: &Gap,
        is_refused: bool,
        now: Duration,
    ) -> Vec<String> {
        let mut state = self.state();
        let waiting = &mut state.waiting[list as usize];
        let is_awaited = waiting.open().next().is_some();
        let longest = if is_awaited { PAUSE } else { LONG_PAUSE };
        waiting.backoff.fail(now, longest);
        waiting.failed = Some(now);
        let failures = waiting.backoff.failures();
        let shown = explain_failure(error, longest);
        tracing::debug!(?list, failures, "{}", shown.1);
        let is_shown = failures >= SHOWN && !is_refused && is_awaited;
        let before = waiting.error.reason();
        match is_shown {
            true => waiting.error.set(shown),
            false => waiting.error.clear(),
        }
        let now = waiting.error.reason();
        let is_news = now.is_some() && now != before;
        match is_news {
            true => waiting.open().map(|(uid, _)| uid.clone()).collect(),
            false => Vec::new(),
        }
    }

    /// The account has answers again: no look waits for a pause after failures.
    pub(crate) fn reset_backoff(&self) {
        for waiting in &mut self.state().waiting {
            waiting.backoff.reset();
        }
    }

    /// An object wants nothing any more. A failure that nobody waits out is not shown.
    pub(crate) fn forget(&self, uid: &str) {
        for waiting in &mut self.state().waiting {
            if waiting.by_uid.remove(uid).is_some() && waiting.open().next().is_none() {
                waiting.error.clear();
            }
        }
    }

    /// Nobody wants anything any more. Returns those who waited.
    pub(crate) fn cancel_all(&self) -> Vec<String> {
        let mut dismissed = Vec::new();
        for waiting in &mut self.state().waiting {
            dismissed.extend(waiting.open().map(|(uid, _)| uid.clone()));
            waiting.by_uid.clear();
            waiting.refresh = None;
            waiting.error.clear();
        }
        dismissed
    }

    pub(crate) fn plan_again(&self) {
        for list in &self.replan {
            list.notify_one();
        }
    }

    fn state(&self) -> MutexGuard<'_, ListsState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
