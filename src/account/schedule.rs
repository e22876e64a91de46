//! When the polls of an account are due, and how the last ones ended.

use super::{
    poll_plan::{self, LastPolls, PollInputs, PollKind},
    servers::ServerLists,
};
use api::{Interval, Reason};
use flexmetal_core::{
    account::{
        key_state::Breaker,
        view::{AccountTimes, CompleteList},
    },
    backoff::Backoff,
    reconcile_request::answered_at,
};
use hosting::READ_TIMEOUT;
use hosting_types::{Error, list::ListGap};
use jiff::Timestamp;
use std::{collections::HashMap, time::Duration};

/// Longest backoff after failures.
const PAUSE: Duration = Duration::from_secs(60);
/// The same if the list only changes while it is read.
const SHORT_PAUSE: Duration = Duration::from_secs(8);

/// The same if the list is too long: finding that out takes thousands of calls.
const LONG_PAUSE: Duration = Duration::from_secs(600);

/// An error this soon after an outage is reported only if it lasts, and its end brings no retry forward. An API that
/// answers every other call must not enqueue all objects each time.
const FAILURES_FORGOTTEN_AFTER: Duration = Duration::from_secs(300);

/// A pause that ends at most this much later is not news.
const LITTLE: Duration = Duration::from_secs(5);

/// Consecutive failures for another reason after which that reason is reported.
const STEADY: u32 = 3;

/// An error as conditions report it. Its reason changes only after several failures for another reason, so that
/// alternating failures do not change the conditions of all objects.
#[derive(Debug, Default)]
pub(crate) struct ReportedError {
    shown: Option<(Reason, String)>,
    /// The first message of this reason. Objects report it, so that their status does not change with each failure.
    first: Option<(Reason, String)>,
    other: Option<(Reason, u32)>,
}

impl ReportedError {
    pub(crate) fn get(&self) -> Option<&(Reason, String)> {
        self.shown.as_ref()
    }

    /// The error with the first message of its reason.
    pub(crate) fn lasting(&self) -> Option<&(Reason, String)> {
        self.first.as_ref()
    }

    pub(crate) fn reason(&self) -> Option<Reason> {
        self.get().map(|(reason, _)| *reason)
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    pub(crate) fn set(&mut self, next: (Reason, String)) {
        let is_other = self.reason().is_some_and(|shown| shown != next.0);
        let row = match self.other {
            Some((reason, row)) if reason == next.0 => row + 1,
            _ => 1,
        };
        if is_other && row < STEADY {
            self.other = Some((next.0, row));
            return;
        }
        self.first = self.first.take().filter(|first| first.0 == next.0);
        self.first.get_or_insert_with(|| next.clone());
        self.shown = Some(next);
        self.other = None;
    }

    /// Reports this error at once.
    fn show(&mut self, next: (Reason, String)) {
        self.clear();
        self.set(next);
    }
}

/// The schedule of the polls.
pub(crate) struct Schedule {
    started: Duration,
    in_use: bool,
    /// Requests for a complete list: the earliest start, by name hash.
    requests: HashMap<String, Duration>,
    /// When the last poll that listed the delivered servers ended.
    polled: Option<Duration>,
    last_polls: LastPolls,
    /// When the last poll began.
    began: Option<Duration>,
    backoff: Backoff,
    /// End of the backoff, with its jitter.
    retry_at: Duration,
    /// When to check whether the account answers; None: no reason to doubt it.
    check_at: Option<Duration>,
    /// The last `check_at`.
    checked: Option<Duration>,
    /// Until when the provider wants no calls.
    paused_until: Duration,
    /// Since when the account answers again; None: it never stopped.
    answers_since: Option<Duration>,
    jitter: f64,
    error: ReportedError,
    /// The poll that failed last; None: none fails.
    failed: Option<PollKind>,
    /// When it failed, if the account may not have answered.
    unanswered: Option<Duration>,
    /// Whether the last complete list repeated a record. Other polls continue then.
    is_repeated: bool,
}

impl Schedule {
    pub(crate) fn new(now: Duration) -> Self {
        Self {
            started: now,
            in_use: false,
            requests: HashMap::new(),
            polled: None,
            last_polls: LastPolls::default(),
            began: None,
            backoff: Backoff::default(),
            retry_at: Duration::ZERO,
            check_at: None,
            checked: None,
            paused_until: Duration::ZERO,
            answers_since: None,
            jitter: 1.0,
            error: ReportedError::default(),
            failed: None,
            unanswered: None,
            is_repeated: false,
        }
    }

    /// The next poll and its moment, which may be in the past. `cost`: duration of a complete list.
    pub(crate) fn next(
        &self,
        key: &Breaker,
        servers: &ServerLists,
        times: AccountTimes,
        cost: Duration,
        now: Duration,
    ) -> (Duration, PollKind) {
        poll_plan::next(&PollInputs {
            key: key.state().clone(),
            probe_at: key.probe_at(),
            check_at: self.check_at,
            retry_at: self.retry_at,
            started: self.started,
            in_use: self.in_use,
            complete_list_ended: servers.complete_list().map(|p| p.ended),
            requested: self.requests.values().min().copied(),
            spaced: servers
                .complete_list()
                .map(|p| poll_plan::next_requested_list_at(p.began, times, cost)),
            // A complete list shows the delivered servers, too.
            polled: self.polled.max(servers.complete_list().map(|p| p.ended)),
            read: servers.next_read(self.jitter, now, times),
            last_polls: self.last_polls,
            now,
            has_servers: servers.has_settled(),
            times,
            jitter: self.jitter,
        })
    }

    /// Records that an object uses the account. Returns whether that is news.
    pub(crate) fn set_in_use(&mut self) -> bool {
        !std::mem::replace(&mut self.in_use, true)
    }

    /// Requests a complete list. Returns whether that is news.
    pub(crate) fn request_complete_list(&mut self, name_hash: &str, not_before: Duration) -> bool {
        self.requests.insert(name_hash.to_owned(), not_before) != Some(not_before)
    }

    /// Removes the request for a complete list of the object with this name hash.
    pub(crate) fn forget(&mut self, name_hash: &str) {
        self.requests.remove(name_hash);
    }

    pub(crate) fn cancel_all(&mut self) {
        self.requests.clear();
    }

    pub(crate) fn has_requests(&self) -> bool {
        !self.requests.is_empty()
    }

    /// Removes the requests that this list answers, and returns their name hashes.
    pub(crate) fn answered_by(&mut self, complete_list: &CompleteList) -> Vec<String> {
        self.is_repeated = false;
        self.requests
            .extract_if(|_, not_before| *not_before <= complete_list.began)
            .map(|(name_hash, _)| name_hash)
            .collect()
    }

    /// Brings the next poll forward to this moment, if the last one may have failed without an answer.
    pub(crate) fn retry_by(&mut self, moment: Duration) {
        if self.unanswered.is_some() {
            self.retry_at = self.retry_at.min(moment);
        }
    }

    /// When a poll may begin that answers a request of this moment; None: the last one does.
    pub(crate) fn answered_at(&self, since: Duration, pace: Duration) -> Option<Duration> {
        answered_at(since, self.began, pace)
    }

    /// Why the account does not answer, in a message that stays the same while that lasts.
    pub(crate) fn outage(&self) -> Option<&(Reason, String)> {
        self.error.lasting().filter(|_| self.is_unreachable())
    }

    /// Why the polls fail.
    pub(crate) fn error(&self) -> Option<&(Reason, String)> {
        self.error.get()
    }

    /// Since when the account has answers again; None: it never lacked them.
    pub(crate) fn answers_since(&self) -> Option<Duration> {
        self.answers_since
    }

    /// Records that the account answers again.
    pub(crate) fn answers_again(&mut self, now: Duration) {
        if !self.had_answers_lately(now) {
            self.answers_since = Some(now);
        }
    }

    /// Whether an outage ended a short time ago.
    fn had_answers_lately(&self, now: Duration) -> bool {
        self.answers_since
            .is_some_and(|since| now < since + FAILURES_FORGOTTEN_AFTER)
    }

    /// Schedules a check whether the account answers, at most once per `spacing`: a call failed, or has had no answer
    /// for long. Returns whether that is news.
    pub(crate) fn suspect_outage(&mut self, now: Duration, spacing: Duration) -> bool {
        // Failing polls have their own backoff.
        if self.check_at.is_some() || self.error.get().is_some() {
            return false;
        }
        self.check_at = Some(self.checked.map_or(now, |last| now.max(last + spacing)));
        self.checked = self.check_at;
        true
    }

    /// Whether that check has been due for this long, and no call was answered since.
    pub(crate) fn is_outage_suspected_for(&self, time: Duration, now: Duration) -> bool {
        self.check_at.is_some_and(|at| at + time <= now)
    }

    /// Records an answer: cancels a check that is due, and retries a failing poll, at most once per `spacing`. Returns
    /// whether a poll is brought forward.
    pub(crate) fn answered(&mut self, now: Duration, spacing: Duration) -> bool {
        // A reported error ends only with a successful poll.
        let is_shown = self.error.get().is_some();
        self.check_at = self.check_at.filter(|at| is_shown || now < *at);
        let at = self.unanswered.map(|last| now.max(last + spacing));
        let at = at.filter(|at| *at < self.retry_at);
        self.retry_at = at.unwrap_or(self.retry_at);
        at.is_some()
    }

    /// Reports that the provider wants no calls until this moment. The report ends with a successful poll after it.
    /// Returns whether that is news; a slightly later end is not.
    pub(crate) fn report_pause(
        &mut self,
        until: Duration,
        why: (Reason, String),
        now: Duration,
    ) -> bool {
        let is_other = self.error.reason() != Some(why.0);
        if !is_other && until <= self.paused_until + LITTLE || self.had_answers_lately(now) {
            return false;
        }
        self.paused_until = self.paused_until.max(until);
        self.check_at = Some(self.paused_until);
        self.error.show(why);
        true
    }

    /// Reports that no call is answered. Returns whether that is news.
    pub(crate) fn report_silence(&mut self, why: (Reason, String), now: Duration) -> bool {
        let is_other = self.error.reason() != Some(why.0) && !self.had_answers_lately(now);
        if is_other {
            self.error.show(why);
        }
        is_other
    }

    /// Whether polls fail, other than by a repeated record.
    pub(crate) fn is_unreachable(&self) -> bool {
        self.error().is_some() && !self.is_repeated
    }

    fn is_failing_otherwise(&self) -> bool {
        self.failed.is_some_and(|kind| kind != PollKind::Probe)
    }

    /// Records the result of a poll. An error is reported if it lasts, or at once while the key is untried. Returns
    /// whether the reported reason changed.
    pub(crate) fn finish_poll(
        &mut self,
        (kind, began): (PollKind, Duration),
        result: Result<(), ListGap>,
        now: Duration,
        is_untried: bool,
    ) -> bool {
        self.jitter = rand::random_range(poll_plan::LEAST_JITTER..=2.0 - poll_plan::LEAST_JITTER);
        let before = self.error.reason();
        self.last_polls.record(kind, began, now);
        self.began = Some(began);
        if kind == PollKind::CompleteList {
            self.is_repeated = matches!(&result, Err(ListGap::Repeated(_)));
        }
        if kind == PollKind::DeliveredList && result.is_ok() {
            self.polled = Some(now);
        }
        if kind == PollKind::Probe && result.is_ok() {
            self.check_at = self.check_at.filter(|at| began < *at);
        }
        match result {
            // Other polls do not show that the complete list works again.
            Ok(()) if self.is_repeated => {}
            // A successful probe does not show that servers can be listed, so the failing poll comes next.
            Ok(()) if kind == PollKind::Probe && self.is_failing_otherwise() => {
                self.retry_at = Duration::ZERO;
            }
            Ok(()) => {
                self.backoff.reset();
                self.failed = None;
                self.unanswered = None;
                self.retry_at = Duration::ZERO;
                // The answer to a call from before the pause does not end the pause.
                if now >= self.paused_until && self.error.get().is_some() {
                    self.answers_again(now);
                    self.error.clear();
                }
            }
            // A rejected key has its own backoff and its own reason.
            Err(ListGap::Failed(Error::AccessDenied(_))) => self.error.clear(),
            Err(error) => {
                // A list that changes while it is read means a busy account, not a broken one.
                let (enough, shortest, longest) = match error {
                    ListGap::Failed(_) => (2, Duration::ZERO, PAUSE),
                    // Another read does not make it shorter.
                    ListGap::TooMany | ListGap::Endless => (1, LONG_PAUSE, LONG_PAUSE),
                    // Other accounts may free memory soon.
                    ListGap::OverMemoryBudget => (1, PAUSE, LONG_PAUSE),
                    _ => (6, Duration::ZERO, SHORT_PAUSE),
                };
                let pause = self.backoff.fail(now, longest).max(shortest);
                self.failed = Some(kind);
                // Other errors do not end when the account answers.
                self.unanswered = matches!(error, ListGap::Failed(_)).then_some(now);
                self.retry_at = now + pause.mul_f64(self.jitter).min(longest);
                let shown = explain_failure(&error, longest);
                let failures = self.backoff.failures();
                tracing::debug!(
                    poll = kind.as_str(),
                    failures,
                    cause = shown.1,
                    "poll failed"
                );
                if failures >= enough || is_untried {
                    self.error.set(shown);
                }
            }
        }
        // Messages may differ between failures; only the reason is news.
        before != self.error.reason()
    }
}

/// The error for a call that has had no answer for so long.
pub(crate) fn explain_silence(waited: Duration, active: Duration) -> (Reason, String) {
    let text = format!(
        "The hosting API does not answer; a call had no answer for {}; a read is given up after {}, and the account is checked every {}",
        Interval(waited),
        Interval(READ_TIMEOUT),
        Interval(active),
    );
    (Reason::ProviderUnreachable, text)
}

/// The error for a pause until this Unix second.
pub(crate) fn explain_pause(error: &Error, until: i64) -> (Reason, String) {
    let reason = match error {
        Error::RateLimited(_) => Reason::RateLimited,
        _ => Reason::ProviderUnreachable,
    };
    let until = Timestamp::from_second(until).unwrap_or_default();
    let text = format!("{}; no calls until {until}", error.explain());
    (reason, text)
}

/// The error for a failed list. `longest`: the longest backoff.
pub(crate) fn explain_failure(error: &ListGap, longest: Duration) -> (Reason, String) {
    let (reason, what) = match error {
        ListGap::Failed(error @ Error::RateLimited { .. }) => {
            (Reason::RateLimited, error.explain())
        }
        ListGap::Failed(error) => (Reason::ProviderUnreachable, error.explain()),
        other => (
            Reason::ProviderUnreachable,
            format!("Cannot list the servers; {other}"),
        ),
    };
    let most = Interval(longest);
    let again = format!("{what}; retrying at growing intervals of at most {most}");
    (reason, again)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hosting_types::error::NotSent;

    #[test]
    fn reason_changes_after_repeated_failures() {
        let mut error = ReportedError::default();
        let words = |reason| (reason, "no".to_owned());
        let (away, busy) = (Reason::ProviderUnreachable, Reason::RateLimited);
        for _ in 0..9 {
            for reason in [away, busy, busy] {
                error.set(words(reason));
                assert_eq!(error.reason(), Some(away), "it does not flip");
            }
        }
        for (row, shown) in [(1, away), (2, away), (3, busy), (4, busy)] {
            if row == 1 {
                error.set(words(away));
            }
            error.set(words(busy));
            assert_eq!(error.reason(), Some(shown), "{row}");
        }
        error.clear();
        error.set(words(away));
        assert_eq!(error.reason(), Some(away));
    }

    #[test]
    fn message_names_the_longest_retry_interval() {
        let (mut schedule, mut now) = (Schedule::new(Duration::ZERO), Duration::ZERO);
        let away = || ListGap::Failed(Error::NotSent(NotSent::Build("no".into())));
        let mut longest = Duration::ZERO;
        for _ in 0..30 {
            schedule.finish_poll((PollKind::DeliveredList, now), Err(away()), now, false);
            longest = longest.max(schedule.retry_at - now);
            now = schedule.retry_at;
        }
        assert!(longest <= PAUSE && longest > PAUSE / 2, "{longest:?}");
        let (_, message) = schedule.error().unwrap();
        assert!(message.ends_with("of at most 1m"), "{message}");
    }

    #[test]
    fn overlong_list_is_reported_at_once() {
        let now = Duration::from_secs(1000);
        let mut schedule = Schedule::new(now);
        let is_news = schedule.finish_poll(
            (PollKind::CompleteList, now),
            Err(ListGap::TooMany),
            now,
            false,
        );
        assert!(is_news);
        let (reason, message) = schedule.error().unwrap();
        assert_eq!(*reason, Reason::ProviderUnreachable);
        assert!(message.contains("more than 100000 records"), "{message}");
        assert!(schedule.retry_at >= now + LONG_PAUSE.mul_f64(0.8));
    }
}
