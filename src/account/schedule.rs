//! When the rounds of an account go, and how the last ones went.

use super::{
    pace::{self, LastPolls, PollInputs, PollKind},
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
use hosting_types::{Error, list::Gap};
use jiff::Timestamp;
use std::{collections::HashMap, time::Duration};

/// Longest pause after failures.
const PAUSE: Duration = Duration::from_secs(60);
/// The same where the list only does not hold still.
const SHORT_PAUSE: Duration = Duration::from_secs(8);

/// The same where it has more than fits: to find that out costs thousands of calls.
const LONG_PAUSE: Duration = Duration::from_secs(600);

/// What comes so soon after the end of an outage is shown once it lasts, and its end brings no try forward: a provider that
/// answers every other call must not set all in motion each time.
const CALM: Duration = Duration::from_secs(300);

/// A pause that ends so much later is no other one.
const LITTLE: Duration = Duration::from_secs(5);

/// As many failures in a row for another reason than the one that is shown, and that one is shown.
const STEADY: u32 = 3;

/// Why something fails, as conditions show it. The reason stays until another one has come several times in a row: a
/// provider that answers now this and now that must not turn the conditions of every object each time.
#[derive(Debug, Default)]
pub(crate) struct ReportedError {
    shown: Option<(Reason, String)>,
    /// What was shown first of this reason. Objects show that: their status must not change with the words of each failure.
    first: Option<(Reason, String)>,
    other: Option<(Reason, u32)>,
}

impl ReportedError {
    pub(crate) fn get(&self) -> Option<&(Reason, String)> {
        self.shown.as_ref()
    }

    /// The same, in the words that came first.
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

    /// Shows this at once, whatever was shown before.
    fn show(&mut self, next: (Reason, String)) {
        self.clear();
        self.set(next);
    }
}

/// The plan of the rounds.
pub(crate) struct Schedule {
    started: Duration,
    in_use: bool,
    /// Who wants a proof listing that starts at or after which moment, by object mark.
    requests: HashMap<String, Duration>,
    /// When the last round ended that listed the delivered servers.
    polled: Option<Duration>,
    last_polls: LastPolls,
    /// When the last round began.
    began: Option<Duration>,
    backoff: Backoff,
    /// The end of the pause, with its jitter.
    retry_at: Duration,
    /// When it is checked whether the account answers; None: nothing speaks against it.
    check_at: Option<Duration>,
    /// The last of these moments.
    checked: Option<Duration>,
    /// Until when the provider wants no calls.
    paused_until: Duration,
    /// Since when the account has answers again; None: it never lacked them.
    answers_since: Option<Duration>,
    jitter: f64,
    error: ReportedError,
    /// The round that failed last; None: none fails.
    failed: Option<PollKind>,
    /// When it failed, where that may have been for want of an answer.
    unanswered: Option<Duration>,
    /// Whether the last listing of all showed a record twice. Polls go on then.
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

    /// The next round and its moment, which may lie in the past. `cost`: how long a proof listing takes.
    pub(crate) fn next(
        &self,
        key: &Breaker,
        machines: &ServerLists,
        times: AccountTimes,
        cost: Duration,
        now: Duration,
    ) -> (Duration, PollKind) {
        pace::next(&PollInputs {
            key: key.state().clone(),
            probe_at: key.probe_at(),
            check_at: self.check_at,
            retry_at: self.retry_at,
            started: self.started,
            in_use: self.in_use,
            complete_list_ended: machines.complete_list().map(|p| p.ended),
            requested: self.requests.values().min().copied(),
            spaced: machines
                .complete_list()
                .map(|p| pace::spaced(p.began, times, cost)),
            // A complete listing shows them, too.
            polled: self.polled.max(machines.complete_list().map(|p| p.ended)),
            read: machines.next_read(self.jitter, now, times),
            last_polls: self.last_polls,
            now,
            has_servers: machines.has_settled(),
            times,
            jitter: self.jitter,
        })
    }

    /// Somebody uses the account. Returns whether that is news.
    pub(crate) fn set_in_use(&mut self) -> bool {
        !std::mem::replace(&mut self.in_use, true)
    }

    /// A proof listing is wanted. Returns whether that is news.
    pub(crate) fn request_complete_list(&mut self, mark: &str, not_before: Duration) -> bool {
        self.requests.insert(mark.to_owned(), not_before) != Some(not_before)
    }

    /// The object of this mark is gone, or wants nothing any more.
    pub(crate) fn forget(&mut self, mark: &str) {
        self.requests.remove(mark);
    }

    /// Nobody wants anything any more.
    pub(crate) fn cancel_all(&mut self) {
        self.requests.clear();
    }

    /// Whether anybody waits for a proof listing.
    pub(crate) fn has_requests(&self) -> bool {
        !self.requests.is_empty()
    }

    /// The marks of those who have waited for this listing; they wait no more.
    pub(crate) fn answered_by(&mut self, proof: &CompleteList) -> Vec<String> {
        self.is_repeated = false;
        self.requests
            .extract_if(|_, not_before| *not_before <= proof.began)
            .map(|(mark, _)| mark)
            .collect()
    }

    /// The next round may go at this moment at the latest, where the last one may have failed for want of an answer.
    pub(crate) fn retry_by(&mut self, moment: Duration) {
        if self.unanswered.is_some() {
            self.retry_at = self.retry_at.min(moment);
        }
    }

    /// When a round may begin that answers a request of this moment; None: the last one does.
    pub(crate) fn answered_at(&self, since: Duration, pace: Duration) -> Option<Duration> {
        answered_at(since, self.began, pace)
    }

    /// Why the account has no answers, in words that stay while it lasts.
    pub(crate) fn outage(&self) -> Option<&(Reason, String)> {
        self.error.lasting().filter(|_| self.is_unreachable())
    }

    /// The rounds fail: why, for a person.
    pub(crate) fn error(&self) -> Option<&(Reason, String)> {
        self.error.get()
    }

    /// Since when the account has answers again; None: it never lacked them.
    pub(crate) fn answers_since(&self) -> Option<Duration> {
        self.answers_since
    }

    /// The account has answers again.
    pub(crate) fn answers_again(&mut self, now: Duration) {
        if !self.had_answers_lately(now) {
            self.answers_since = Some(now);
        }
    }

    /// Whether an outage ended a short time ago.
    fn had_answers_lately(&self, now: Duration) -> bool {
        self.answers_since.is_some_and(|since| now < since + CALM)
    }

    /// A call failed, or has no answer for long, and that may be the account: it is read ahead of its time, once in this
    /// time at most. Returns whether that is news.
    pub(crate) fn suspect_outage(&mut self, now: Duration, spacing: Duration) -> bool {
        // What fails already is tried again at its own pace.
        if self.check_at.is_some() || self.error.get().is_some() {
            return false;
        }
        self.check_at = Some(self.checked.map_or(now, |last| now.max(last + spacing)));
        self.checked = self.check_at;
        true
    }

    /// Whether that read is due for so long, and no call had an answer since.
    pub(crate) fn is_outage_suspected_for(&self, time: Duration, now: Duration) -> bool {
        self.check_at.is_some_and(|at| at + time <= now)
    }

    /// A call had an answer: nothing speaks against the account any more, and where its rounds fail the next one need not
    /// wait, once in this time at most. Returns whether that is news.
    pub(crate) fn answered(&mut self, now: Duration, spacing: Duration) -> bool {
        // What is shown is over when a round says so.
        let is_shown = self.error.get().is_some();
        self.check_at = self.check_at.filter(|at| is_shown || now < *at);
        let at = self.unanswered.map(|last| now.max(last + spacing));
        let at = at.filter(|at| *at < self.retry_at);
        self.retry_at = at.unwrap_or(self.retry_at);
        at.is_some()
    }

    /// The provider wants no calls until this moment: conditions show this, until a round has an answer after it. Returns
    /// whether that is news. A little later is none: each answer that comes in names another moment.
    pub(crate) fn show_pause(
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

    /// No call is answered: conditions show this. Returns whether that is news.
    pub(crate) fn show_silence(&mut self, why: (Reason, String), now: Duration) -> bool {
        let is_other = self.error.reason() != Some(why.0) && !self.had_answers_lately(now);
        if is_other {
            self.error.show(why);
        }
        is_other
    }

    /// Whether the servers have not been seen for a while.
    pub(crate) fn is_unreachable(&self) -> bool {
        self.error().is_some() && !self.is_repeated
    }

    fn is_failing_otherwise(&self) -> bool {
        self.failed.is_some_and(|round| round != PollKind::Probe)
    }

    /// Keeps count of failures. One alone says nothing; it is shown when it lasts, or at once where
    /// nothing else is known of the key. Returns whether what is shown is news.
    pub(crate) fn finish_poll(
        &mut self,
        (round, began): (PollKind, Duration),
        result: Result<(), Gap>,
        now: Duration,
        is_untried: bool,
    ) -> bool {
        self.jitter = rand::random_range(pace::LEAST_JITTER..=2.0 - pace::LEAST_JITTER);
        let before = self.error.reason();
        self.last_polls.record(round, began, now);
        self.began = Some(began);
        if round == PollKind::CompleteList {
            self.is_repeated = matches!(&result, Err(Gap::Repeated(_)));
        }
        if round == PollKind::Poll && result.is_ok() {
            self.polled = Some(now);
        }
        if round == PollKind::Probe && result.is_ok() {
            self.check_at = self.check_at.filter(|at| began < *at);
        }
        match result {
            // Others say nothing of the list of all.
            Ok(()) if self.is_repeated => {}
            // That the account answers does not show that its servers can be listed: that comes next.
            Ok(()) if round == PollKind::Probe && self.is_failing_otherwise() => {
                self.retry_at = Duration::ZERO;
            }
            Ok(()) => {
                self.backoff.reset();
                self.failed = None;
                self.unanswered = None;
                self.retry_at = Duration::ZERO;
                // An answer to a call that was on its way does not end a pause.
                if now >= self.paused_until && self.error.get().is_some() {
                    self.answers_again(now);
                    self.error.clear();
                }
            }
            // The breaker has its own pace and its own reason.
            Err(Gap::Failed(Error::AccessDenied(_))) => self.error.clear(),
            Err(error) => {
                // A list that does not hold still is a busy account, not a broken one.
                let (enough, shortest, longest) = match error {
                    Gap::Failed(_) => (2, Duration::ZERO, PAUSE),
                    // It gets no shorter by being read again.
                    Gap::TooMany | Gap::Endless => (1, LONG_PAUSE, LONG_PAUSE),
                    // There may be room soon, where others give theirs back.
                    Gap::OverMemoryBudget => (1, PAUSE, LONG_PAUSE),
                    _ => (6, Duration::ZERO, SHORT_PAUSE),
                };
                let pause = self.backoff.fail(now, longest).max(shortest);
                self.failed = Some(round);
                // Any other list is what it is, however soon it is read again.
                self.unanswered = matches!(error, Gap::Failed(_)).then_some(now);
                self.retry_at = now + pause.mul_f64(self.jitter).min(longest);
                let shown = explain_failure(&error, longest);
                tracing::debug!(?round, failures = self.backoff.failures(), "{}", shown.1);
                if self.backoff.failures() >= enough || is_untried {
                    self.error.set(shown);
                }
            }
        }
        // The words may differ from failure to failure; only the reason is news.
        before != self.error.reason()
    }
}

/// That a call had no answer for so long, as conditions show it.
pub(crate) fn explain_silence(waited: Duration, active: Duration) -> (Reason, String) {
    let text = format!(
        "The hosting API does not answer; a call had no answer for {}; a read is given up after {}, and the account is checked every {}",
        Interval(waited),
        Interval(READ_TIMEOUT),
        Interval(active),
    );
    (Reason::ProviderUnreachable, text)
}

/// That the provider wants no calls until this moment, as conditions show it.
pub(crate) fn explain_pause(error: &Error, until: i64) -> (Reason, String) {
    let reason = match error {
        Error::RateLimited(_) => Reason::RateLimited,
        _ => Reason::ProviderUnreachable,
    };
    let until = Timestamp::from_second(until).unwrap_or_default();
    let text = format!("{}; no calls until {until}", error.explain());
    (reason, text)
}

/// A failure as conditions show it. `longest`: the pause before the next try at the most.
pub(crate) fn explain_failure(error: &Gap, longest: Duration) -> (Reason, String) {
    let (reason, what) = match error {
        Gap::Failed(error @ Error::RateLimited { .. }) => (Reason::RateLimited, error.explain()),
        Gap::Failed(error) => (Reason::ProviderUnreachable, error.explain()),
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
        let away = || Gap::Failed(Error::NotSent(NotSent::Build("no".into())));
        let mut longest = Duration::ZERO;
        for _ in 0..30 {
            schedule.finish_poll((PollKind::Poll, now), Err(away()), now, false);
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
        let is_news =
            schedule.finish_poll((PollKind::CompleteList, now), Err(Gap::TooMany), now, false);
        assert!(is_news);
        let (reason, message) = schedule.error().unwrap();
        assert_eq!(*reason, Reason::ProviderUnreachable);
        assert!(message.contains("more than 100000 records"), "{message}");
        assert!(schedule.retry_at >= now + LONG_PAUSE.mul_f64(0.8));
    }
}
