//! Lists of an account that are polled on request; one poll serves all objects that wait. A new list needs a variant of
//! [`ListKind`], a field of [`Contents`] and an arm of `Core::poll_list`.

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
use hosting_types::{Server, list::ListGap, ssh_key::SshKey};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::sync::Notify;

/// Longest backoff while an object waits.
const PAUSE: Duration = Duration::from_secs(60);
/// Longest backoff while no object waits.
const LONG_PAUSE: Duration = Duration::from_secs(600);
/// Consecutive failures after which a list's error is reported.
const SHOWN: u32 = 2;

/// Content of a list, with the moment at which its poll began.
pub(crate) type Dated<T> = (Duration, Arc<T>);

/// The error of each list's last polls.
pub(crate) type ListErrors = [Option<(Reason, String)>; ListKind::ALL.len()];

/// Content of each list's last successful poll.
#[derive(Clone, Default)]
pub(crate) struct Contents {
    pub(crate) catalogue: Option<Dated<Catalogue>>,
    pub(crate) servers: Option<Dated<Vec<Server>>>,
    pub(crate) tags: Option<Dated<TagsByName>>,
    pub(crate) ssh_keys: Option<Dated<Vec<SshKey>>>,
    pub(crate) hosts: Option<Dated<HostsById>>,
}

/// The lists of one session, and the objects that wait for them.
#[derive(Default)]
pub(crate) struct Lists {
    state: Mutex<ListsState>,
    /// Signals that the next poll of a list must be planned again.
    replan: [Notify; ListKind::ALL.len()],
}

#[derive(Default)]
struct ListsState {
    contents: Contents,
    /// Memory reserved for the content of each list.
    reservations: [Option<MemoryReservation>; ListKind::ALL.len()],
    waiting: [ListWaiters; ListKind::ALL.len()],
}

/// Waiting objects and poll results of one list.
#[derive(Default)]
struct ListWaiters {
    /// A poll also answers requests that start up to this much later. Idle objects with different start times then
    /// share polls.
    tolerance: Duration,
    by_uid: HashMap<String, ListRequest>,
    /// Earliest start of a requested poll that no object waits for.
    refresh: Option<Duration>,
    /// Start of the last successful poll that an object waited for. Decisions rest on no other poll.
    polled: Option<Duration>,
    backoff: Backoff,
    /// When the last failed poll ended.
    failed: Option<Duration>,
    error: ReportedError,
    /// Number of records that the last successful poll read.
    read: usize,
}

#[derive(Clone, Copy, PartialEq)]
enum ListRequest {
    /// Waits for a poll that starts at or after this moment.
    Open(Duration),
    /// Was notified of the poll of this moment.
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
        let requests = self.by_uid.iter();
        requests.filter_map(|(uid, request)| request.open().map(|moment| (uid, moment)))
    }

    /// Answers the requests that the poll of this moment serves. Returns the objects that waited.
    fn answered(&mut self, read_at: Duration) -> Vec<String> {
        self.backoff.reset();
        self.error.clear();
        self.refresh = self.refresh.filter(|moment| *moment > read_at);
        let until = read_at + self.tolerance;
        if self.open().any(|(_, moment)| moment <= until) {
            self.polled = Some(read_at);
        }
        let is_answered =
            |request: &ListRequest| request.open().is_some_and(|moment| moment <= until);
        let answered = self
            .by_uid
            .iter_mut()
            .filter(|(_, request)| is_answered(request));
        answered
            .map(|(uid, request)| {
                *request = ListRequest::Notified(read_at);
                uid.clone()
            })
            .collect()
    }
}

/// Result of a successful poll.
struct ListPollOutcome {
    enqueued: Vec<String>,
    is_another: bool,
}

impl Lists {
    /// Contents and reported errors. The catalogue has the date of the last poll that an object waited for.
    pub(crate) fn view(&self) -> (Contents, ListErrors) {
        let state = self.state();
        let errors = ListKind::ALL.map(|list| state.waiting[list as usize].error.get().cloned());
        let mut contents = state.contents.clone();
        let read_at = state.waiting[ListKind::Catalogue as usize].polled;
        contents.catalogue = read_at.zip(contents.catalogue.map(|(_, catalogue)| catalogue));
        (contents, errors)
    }

    /// The newest catalogue, even if no object waited for its poll.
    pub(crate) fn newest_catalogue(&self) -> Option<Dated<Catalogue>> {
        self.state().contents.catalogue.clone()
    }

    /// Number of records that the last successful poll read.
    fn record_count(&self, list: ListKind) -> usize {
        self.state().waiting[list as usize].read
    }

    fn set_record_count(&self, list: ListKind, records: usize) {
        self.state().waiting[list as usize].read = records;
    }

    /// Requests a poll for an object. Returns whether the object must be enqueued now: the list is available and not
    /// yet reported to it.
    fn request_list(&self, list: ListKind, not_before: Duration, uid: &str) -> bool {
        let mut state = self.state();
        let waiting = &mut state.waiting[list as usize];
        let available = waiting.polled.filter(|read_at| *read_at >= not_before);
        let request = available.map_or(ListRequest::Open(not_before), ListRequest::Notified);
        if available.is_none() && waiting.open().next().is_none() {
            // A failure from before any object waited must not delay this one.
            waiting.backoff.reset();
        }
        let is_news = waiting.by_uid.insert(uid.to_owned(), request) != Some(request);
        drop(state);
        if is_news && available.is_none() {
            self.replan[list as usize].notify_one();
        }
        is_news && available.is_some()
    }

    /// Requests a catalogue poll that no object waits for. Its failure is not reported.
    pub(crate) fn refresh_catalogue(&self, not_before: Duration) {
        let list = ListKind::Catalogue as usize;
        let mut state = self.state();
        let newest = state
            .contents
            .catalogue
            .as_ref()
            .map(|(read_at, _)| *read_at);
        let wanted = (newest < Some(not_before)).then_some(not_before);
        let is_news = std::mem::replace(&mut state.waiting[list].refresh, wanted) != wanted;
        drop(state);
        if is_news {
            self.replan[list].notify_one();
        }
    }

    /// Retries failed polls for a request of this moment, at the earliest `pace` after the last failure.
    pub(crate) fn request_retry(&self, since: Duration, pace: Duration) {
        for waiting in &mut self.state().waiting {
            if let Some(at) = answered_at(since, waiting.failed, pace) {
                waiting.backoff.retry_by(at);
            }
        }
    }

    /// Sets how much later than a poll a request may start and still be answered by it.
    fn set_tolerance(&self, list: ListKind, early: Duration) {
        self.state().waiting[list as usize].tolerance = early;
    }

    /// When the next poll of a list is due; None: none is requested.
    fn due(&self, list: ListKind, spacing: Duration) -> Option<Duration> {
        let state = self.state();
        let waiting = &state.waiting[list as usize];
        let wanted = waiting.open().map(|(_, moment)| moment);
        let wanted = wanted.chain(waiting.refresh).min()?;
        let spaced = waiting.polled.map_or(Duration::ZERO, |at| at + spacing);
        Some(wanted.max(spaced).max(waiting.backoff.not_before()))
    }

    /// Stores the content of a successful poll with its memory reservation.
    fn store_content<T: PartialEq>(
        &self,
        list: ListKind,
        read_at: Duration,
        (content, reservation): (T, MemoryReservation),
        slot: impl FnOnce(&mut Contents) -> &mut Option<Dated<T>>,
    ) -> ListPollOutcome {
        let mut state = self.state();
        let slot = slot(&mut state.contents);
        let is_another = slot
            .as_ref()
            .is_none_or(|(_, previous)| **previous != content);
        *slot = Some((read_at, Arc::new(content)));
        state.reservations[list as usize] = Some(reservation);
        ListPollOutcome {
            enqueued: state.waiting[list as usize].answered(read_at),
            is_another,
        }
    }

    /// Records a failed poll. Returns the waiting objects if the reason is new. A rejected key is reported elsewhere.
    fn record_failure(
        &self,
        list: ListKind,
        error: &ListGap,
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
        tracing::debug!(
            list = list.as_str(),
            failures,
            cause = shown.1,
            "list failed"
        );
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

    /// Ends the backoff of all lists, once the account answers again.
    pub(crate) fn reset_backoff(&self) {
        for waiting in &mut self.state().waiting {
            waiting.backoff.reset();
        }
    }

    /// Removes the requests of an object. An error that no object waits for any more is cleared.
    pub(crate) fn forget(&self, uid: &str) {
        for waiting in &mut self.state().waiting {
            if waiting.by_uid.remove(uid).is_some() && waiting.open().next().is_none() {
                waiting.error.clear();
            }
        }
    }

    /// Removes all requests. Returns the objects that waited.
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
