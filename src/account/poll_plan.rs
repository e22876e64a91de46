//! When to poll an account next, and how. Pure.

use flexmetal_core::account::{key_state::KeyState, view::AccountTimes};
use std::time::Duration;

/// One kind of poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PollKind {
    /// One call that shows whether the key works.
    Probe,
    /// A complete list of the servers with the cluster's tag.
    CompleteList,
    /// A list of the delivered servers, and a read of each one that is missing from it.
    DeliveredList,
    /// The pending servers that are due: a read of each, or a complete list if that takes fewer calls.
    Pending,
}

impl PollKind {
    /// Its name, for the log.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Probe => "Probe",
            Self::CompleteList => "CompleteList",
            Self::DeliveredList => "DeliveredList",
            Self::Pending => "Pending",
        }
    }
}

/// When the last poll of each kind ended, with any result; for pending servers also when it began.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LastPolls {
    probe: Option<Duration>,
    complete_list: Option<Duration>,
    poll: Option<Duration>,
    pending: Option<(Duration, Duration)>,
}

impl LastPolls {
    pub(crate) fn record(&mut self, kind: PollKind, began: Duration, ended: Duration) {
        match kind {
            PollKind::Probe => self.probe = Some(ended),
            PollKind::CompleteList => self.complete_list = Some(ended),
            PollKind::DeliveredList => self.poll = Some(ended),
            PollKind::Pending => self.pending = Some((began, ended)),
        }
    }

    pub(crate) fn last(&self, kind: PollKind) -> Option<Duration> {
        match kind {
            PollKind::Probe => self.probe,
            PollKind::CompleteList => self.complete_list,
            PollKind::DeliveredList => self.poll,
            PollKind::Pending => self.pending.map(|(_, ended)| ended),
        }
    }
}

/// What the next poll depends on.
#[derive(Clone, Debug)]
pub(crate) struct PollInputs {
    pub(crate) key: KeyState,
    /// When a rejected key may be probed.
    pub(crate) probe_at: Duration,
    /// When to check whether the account answers, if the calls of its objects leave that open.
    pub(crate) check_at: Option<Duration>,
    /// No poll starts before this moment, after failures.
    pub(crate) retry_at: Duration,
    pub(crate) started: Duration,
    /// Whether an object uses the account, or servers identify it.
    pub(crate) in_use: bool,
    /// When the last complete list ended.
    pub(crate) complete_list_ended: Option<Duration>,
    /// The earliest start of a requested complete list.
    pub(crate) requested: Option<Duration>,
    /// No requested complete list starts before this moment: see [`spaced`].
    pub(crate) spaced: Option<Duration>,
    /// When the last poll that listed the delivered servers ended.
    pub(crate) polled: Option<Duration>,
    /// When to read the first pending server, and the interval between such polls: see [`pending_read_interval`].
    pub(crate) read: Option<(Duration, Duration)>,
    pub(crate) last_polls: LastPolls,
    pub(crate) now: Duration,
    /// Whether an unreleased server is not pending.
    pub(crate) has_servers: bool,
    pub(crate) times: AccountTimes,
    /// From [`LEAST_JITTER`] to as much above 1.
    pub(crate) jitter: f64,
}

/// The smallest factor of an interval. Jitter keeps accounts from polling at the same time.
pub(crate) const LEAST_JITTER: f64 = 0.8;

/// A requested list waits at most this long for more requests.
const JOINED_POLL_WINDOW: Duration = Duration::from_secs(5);
/// Requested lists take at most one call in this many, so that they leave calls for orders.
const SHARE: u32 = 4;

/// When the next requested list may start, for all that request one. `cost`: its duration at the account's rate.
pub(crate) fn next_requested_list_at(
    began: Duration,
    times: AccountTimes,
    cost: Duration,
) -> Duration {
    began
        + JOINED_POLL_WINDOW
            .min(times.active_poll_interval)
            .max(cost * SHARE)
}

/// Up to this many pending servers are each read four times as often.
pub(crate) const FAST_POLL_MAX: usize = 3;
/// A server that is pending for longer is read at the idle interval.
pub(crate) const SLOW_POLL_AFTER: Duration = Duration::from_secs(3600);

/// How long after its last read a server that is pending for less than [`LONG`] is read again.
pub(crate) fn pending_read_interval(is_few: bool, times: AccountTimes) -> Duration {
    match is_few {
        true => times.active_poll_interval / 4,
        false => times.active_poll_interval,
    }
}

/// The next poll and its moment, which may be in the past.
pub(crate) fn next(pace: &PollInputs) -> (Duration, PollKind) {
    match pace.key {
        KeyState::Rejected(_) => return (pace.probe_at.max(pace.retry_at), PollKind::Probe),
        // The first list shows as much as a probe.
        KeyState::Untried if !pace.in_use => {
            return (pace.started.max(pace.retry_at), PollKind::Probe);
        }
        _ => {}
    }
    let first = (pace.in_use && pace.complete_list_ended.is_none()).then_some(pace.started);
    let scan = pace.complete_list_ended.unwrap_or(pace.started) + pace.times.orphan_scan_interval;
    let wanted = pace.requested.map(|at| at.max(pace.spaced.unwrap_or(at)));
    let complete_list = [first, wanted, Some(scan)]
        .into_iter()
        .flatten()
        .min()
        .unwrap_or(scan);
    let poll = pace.has_servers.then(|| {
        let polled = pace.polled.unwrap_or(pace.started);
        polled + pace.times.idle_poll_interval.mul_f64(pace.jitter)
    });
    let read = pace.read.map(|(read, pause)| {
        // The next poll comes no sooner, even if the last one did not show the server; after a long one others go
        // first.
        let tried = pace.last_polls.pending.map(|(began, ended)| {
            (began + pause.mul_f64(pace.jitter)).max(ended + pause.mul_f64(pace.jitter / 2.0))
        });
        read.max(tried.unwrap_or(read))
    });
    let polls = [
        pace.check_at.map(|at| (at, PollKind::Probe)),
        Some((complete_list, PollKind::CompleteList)),
        poll.map(|at| (at, PollKind::DeliveredList)),
        read.map(|at| (at, PollKind::Pending)),
    ];
    let polls = || polls.into_iter().flatten();
    // A poll that fails must not delay the others that are due.
    let overdue = polls().filter(|(at, _)| *at <= pace.now);
    let first = overdue
        .min_by_key(|(_, kind)| pace.last_polls.last(*kind))
        .or_else(|| polls().min_by_key(|(at, _)| *at));
    let (due, kind) = first.unwrap_or((complete_list, PollKind::CompleteList));
    (due.max(pace.retry_at), kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secs(s: u64) -> Duration {
        Duration::from_secs(s)
    }

    fn pace() -> PollInputs {
        PollInputs {
            key: KeyState::Accepted,
            probe_at: Duration::ZERO,
            check_at: None,
            retry_at: Duration::ZERO,
            started: secs(10),
            in_use: true,
            complete_list_ended: Some(secs(20)),
            requested: None,
            spaced: None,
            polled: Some(secs(20)),
            read: None,
            last_polls: LastPolls::default(),
            now: Duration::ZERO,
            has_servers: true,
            times: AccountTimes::default(),
            jitter: 1.0,
        }
    }

    #[test]
    fn delivered_servers_are_polled_less_often() {
        assert_eq!(next(&pace()), (secs(320), PollKind::DeliveredList));
        let pause = Duration::from_millis(7500);
        for (read, tried, due) in [
            (25, None, (secs(25), PollKind::Pending)),
            (25, Some(20), (secs(20) + pause, PollKind::Pending)),
            (50, Some(20), (secs(50), PollKind::Pending)),
            (900, Some(20), (secs(320), PollKind::DeliveredList)),
        ] {
            let mut pending = PollInputs {
                read: Some((secs(read), pause)),
                ..pace()
            };
            pending.last_polls.pending = tried.map(|at| (secs(at), secs(at)));
            assert_eq!(next(&pending), due, "{read}");
        }
    }

    #[test]
    fn long_pending_read_delays_the_next_one() {
        let mut pending = PollInputs {
            read: Some((secs(25), secs(8))),
            ..pace()
        };
        pending.last_polls.pending = Some((secs(20), secs(60)));
        assert_eq!(next(&pending), (secs(64), PollKind::Pending));
    }

    #[test]
    fn failing_poll_does_not_block_other_polls() {
        let mut pace = PollInputs {
            read: Some((secs(30), secs(7))),
            requested: Some(secs(40)),
            now: secs(1000),
            retry_at: secs(1060),
            ..pace()
        };
        let mut order = Vec::new();
        for step in 0..6 {
            let (at, kind) = next(&pace);
            assert_eq!(at, pace.retry_at);
            order.push(kind);
            pace.now = at + secs(1);
            pace.retry_at = pace.now + secs(60);
            pace.last_polls.record(kind, pace.now, pace.now);
            assert_eq!(order[step % 3], kind);
        }
        for kind in [
            PollKind::CompleteList,
            PollKind::Pending,
            PollKind::DeliveredList,
        ] {
            assert!(order[..3].contains(&kind), "{order:?}");
        }
    }

    #[test]
    fn early_check_does_not_block_other_polls() {
        let mut doubted = PollInputs {
            check_at: Some(secs(30)),
            ..pace()
        };
        assert_eq!(next(&doubted), (secs(30), PollKind::Probe));
        doubted.retry_at = secs(31);
        assert_eq!(next(&doubted), (secs(31), PollKind::Probe));
        doubted.now = secs(900);
        doubted
            .last_polls
            .record(PollKind::Probe, secs(899), secs(899));
        assert_eq!(next(&doubted).1, PollKind::DeliveredList);
        doubted
            .last_polls
            .record(PollKind::DeliveredList, secs(900), secs(900));
        assert_eq!(next(&doubted).1, PollKind::Probe);
    }

    #[test]
    fn unused_account_is_probed_and_scanned() {
        let unused = PollInputs {
            key: KeyState::Untried,
            in_use: false,
            complete_list_ended: None,
            polled: None,
            has_servers: false,
            ..pace()
        };
        assert_eq!(next(&unused), (secs(10), PollKind::Probe));
        let accepted = PollInputs {
            key: KeyState::Accepted,
            ..unused.clone()
        };
        assert_eq!(next(&accepted), (secs(1810), PollKind::CompleteList));
        let used = PollInputs {
            in_use: true,
            ..unused
        };
        assert_eq!(next(&used), (secs(10), PollKind::CompleteList));
    }

    #[test]
    fn requested_complete_list_runs_when_due() {
        let wanted = PollInputs {
            requested: Some(secs(40)),
            ..pace()
        };
        assert_eq!(next(&wanted), (secs(40), PollKind::CompleteList));
        let failed = PollInputs {
            retry_at: secs(100),
            ..wanted
        };
        assert_eq!(next(&failed), (secs(100), PollKind::CompleteList));
    }

    #[test]
    fn requested_lists_are_spaced_by_their_cost() {
        let times = AccountTimes::default();
        let cheap = next_requested_list_at(secs(20), times, Duration::from_millis(100));
        assert_eq!(cheap, secs(25), "those that come together share one");
        let dear = next_requested_list_at(secs(20), times, secs(5));
        assert_eq!(dear, secs(40));
        let wanted = PollInputs {
            requested: Some(secs(21)),
            spaced: Some(dear),
            ..pace()
        };
        assert_eq!(next(&wanted), (secs(40), PollKind::CompleteList));
        let later = PollInputs {
            requested: Some(secs(60)),
            ..wanted
        };
        assert_eq!(next(&later), (secs(60), PollKind::CompleteList));
    }
}
