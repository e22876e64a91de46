//! When to look at an account next, and how closely. Pure.

use flexmetal_core::account::{key_state::KeyState, view::Times};
use std::time::Duration;

/// One look at an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Round {
    /// One call that tells whether the key works.
    Probe,
    /// A complete listing of what bears the cluster's mark.
    Proof,
    /// What is delivered, and a read of each server that this should show and does not.
    Poll,
    /// The pending servers that are due: a read of each, or a complete listing, whichever is fewer calls.
    Pending,
}

/// When the last round of each sort ended, whatever came of it; of reads of pending servers also when it began.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tried {
    probe: Option<Duration>,
    proof: Option<Duration>,
    poll: Option<Duration>,
    pending: Option<(Duration, Duration)>,
}

impl Tried {
    /// A round has ended.
    pub(crate) fn record(&mut self, round: Round, began: Duration, ended: Duration) {
        match round {
            Round::Probe => self.probe = Some(ended),
            Round::Proof => self.proof = Some(ended),
            Round::Poll => self.poll = Some(ended),
            Round::Pending => self.pending = Some((began, ended)),
        }
    }

    pub(crate) fn last(&self, round: Round) -> Option<Duration> {
        match round {
            Round::Probe => self.probe,
            Round::Proof => self.proof,
            Round::Poll => self.poll,
            Round::Pending => self.pending.map(|(_, ended)| ended),
        }
    }
}

/// What the next look depends on.
#[derive(Clone, Debug)]
pub(crate) struct Pace {
    pub(crate) key: KeyState,
    /// When a refused key may be probed.
    pub(crate) probe_at: Duration,
    /// When it may be checked whether the account answers, which the calls of its objects leave open.
    pub(crate) check_at: Option<Duration>,
    /// No round before this moment, after failures.
    pub(crate) retry_at: Duration,
    pub(crate) started: Duration,
    /// Whether anybody uses the account, or machines of it are remembered.
    pub(crate) in_use: bool,
    /// When the last proof listing ended.
    pub(crate) proved: Option<Duration>,
    /// The earliest moment at which a wanted proof listing may start.
    pub(crate) wanted: Option<Duration>,
    /// No wanted proof listing starts before this moment: see [`spaced`].
    pub(crate) spaced: Option<Duration>,
    /// When the last round ended that listed the delivered servers.
    pub(crate) polled: Option<Duration>,
    /// When the first pending server is to be read, and how long two rounds of such reads are apart: see [`of_pending`].
    pub(crate) read: Option<(Duration, Duration)>,
    pub(crate) tried: Tried,
    pub(crate) now: Duration,
    /// Whether there are machines that are not released.
    pub(crate) machines: bool,
    pub(crate) times: Times,
    /// From [`LEAST_JITTER`] to as much above 1.
    pub(crate) jitter: f64,
}

/// The least that a pause is multiplied by, so that accounts do not fall into step.
pub(crate) const LEAST_JITTER: f64 = 0.8;

/// Wishes that come one after the other wait so long for each other at most.
const TOGETHER: Duration = Duration::from_secs(5);
/// Listings that are wanted take this part of the calls at most, so that many who search leave room for
/// those who order.
const SHARE: u32 = 4;

/// When the next listing may start that somebody wants: common to all who do, however many they are.
/// `cost`: how long it takes at the rate of the account.
pub(crate) fn spaced(began: Duration, times: Times, cost: Duration) -> Duration {
    began + TOGETHER.min(times.active_poll_interval).max(cost * SHARE)
}

/// While at most so many servers are pending, each is read four times as often.
pub(crate) const FEW: usize = 3;
/// A server that is pending for longer is read at the idle interval.
pub(crate) const LONG: Duration = Duration::from_secs(3600);

/// How long after it was seen a server that is pending for less than [`LONG`] is read again.
pub(crate) fn of_pending(is_few: bool, times: Times) -> Duration {
    match is_few {
        true => times.active_poll_interval / 4,
        false => times.active_poll_interval,
    }
}

/// The next round and its moment, which may lie in the past.
pub(crate) fn next(pace: &Pace) -> (Duration, Round) {
    match pace.key {
        KeyState::Rejected(_) => return (pace.probe_at.max(pace.retry_at), Round::Probe),
        // The first listing tells as much as a probe would.
        KeyState::Untried if !pace.in_use => {
            return (pace.started.max(pace.retry_at), Round::Probe);
        }
        _ => {}
    }
    let first = (pace.in_use && pace.proved.is_none()).then_some(pace.started);
    let scan = pace.proved.unwrap_or(pace.started) + pace.times.orphan_scan_interval;
    let wanted = pace.wanted.map(|at| at.max(pace.spaced.unwrap_or(at)));
    let proof = [first, wanted, Some(scan)]
        .into_iter()
        .flatten()
        .min()
        .unwrap_or(scan);
    let poll = pace.machines.then(|| {
        let polled = pace.polled.unwrap_or(pace.started);
        polled + pace.times.idle_poll_interval.mul_f64(pace.jitter)
    });
    let read = pace.read.map(|(read, pause)| {
        // Whatever a look does not show, the next one comes no sooner; after one that took long others have their turns.
        let tried = pace.tried.pending.map(|(began, ended)| {
            (began + pause.mul_f64(pace.jitter)).max(ended + pause.mul_f64(pace.jitter / 2.0))
        });
        read.max(tried.unwrap_or(read))
    });
    let rounds = [
        pace.check_at.map(|at| (at, Round::Probe)),
        Some((proof, Round::Proof)),
        poll.map(|at| (at, Round::Poll)),
        read.map(|at| (at, Round::Pending)),
    ];
    let rounds = || rounds.into_iter().flatten();
    // However one fails, the others that are due have their turn.
    let overdue = rounds().filter(|(at, _)| *at <= pace.now);
    let first = overdue
        .min_by_key(|(_, round)| pace.tried.last(*round))
        .or_else(|| rounds().min_by_key(|(at, _)| *at));
    let (due, round) = first.unwrap_or((proof, Round::Proof));
    (due.max(pace.retry_at), round)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secs(s: u64) -> Duration {
        Duration::from_secs(s)
    }

    fn pace() -> Pace {
        Pace {
            key: KeyState::Accepted,
            probe_at: Duration::ZERO,
            check_at: None,
            retry_at: Duration::ZERO,
            started: secs(10),
            in_use: true,
            proved: Some(secs(20)),
            wanted: None,
            spaced: None,
            polled: Some(secs(20)),
            read: None,
            tried: Tried::default(),
            now: Duration::ZERO,
            machines: true,
            times: Times::default(),
            jitter: 1.0,
        }
    }

    #[test]
    fn delivered_servers_are_polled_less_often() {
        assert_eq!(next(&pace()), (secs(320), Round::Poll));
        let pause = Duration::from_millis(7500);
        for (read, tried, due) in [
            (25, None, (secs(25), Round::Pending)),
            (25, Some(20), (secs(20) + pause, Round::Pending)),
            (50, Some(20), (secs(50), Round::Pending)),
            (900, Some(20), (secs(320), Round::Poll)),
        ] {
            let mut pending = Pace {
                read: Some((secs(read), pause)),
                ..pace()
            };
            pending.tried.pending = tried.map(|at| (secs(at), secs(at)));
            assert_eq!(next(&pending), due, "{read}");
        }
    }

    #[test]
    fn long_pending_read_delays_the_next_one() {
        let mut pending = Pace {
            read: Some((secs(25), secs(8))),
            ..pace()
        };
        pending.tried.pending = Some((secs(20), secs(60)));
        assert_eq!(next(&pending), (secs(64), Round::Pending));
    }

    #[test]
    fn failing_poll_does_not_block_other_polls() {
        let mut pace = Pace {
            read: Some((secs(30), secs(7))),
            wanted: Some(secs(40)),
            now: secs(1000),
            retry_at: secs(1060),
            ..pace()
        };
        let mut turns = Vec::new();
        for turn in 0..6 {
            let (at, round) = next(&pace);
            assert_eq!(at, pace.retry_at);
            turns.push(round);
            pace.now = at + secs(1);
            pace.retry_at = pace.now + secs(60);
            pace.tried.record(round, pace.now, pace.now);
            assert_eq!(turns[turn % 3], round);
        }
        turns.truncate(3);
        turns.sort_by_key(|round| format!("{round:?}"));
        assert_eq!(turns, [Round::Pending, Round::Poll, Round::Proof]);
    }

    #[test]
    fn early_check_does_not_block_other_polls() {
        let mut doubted = Pace {
            check_at: Some(secs(30)),
            ..pace()
        };
        assert_eq!(next(&doubted), (secs(30), Round::Probe));
        doubted.retry_at = secs(31);
        assert_eq!(next(&doubted), (secs(31), Round::Probe));
        doubted.now = secs(900);
        doubted.tried.record(Round::Probe, secs(899), secs(899));
        assert_eq!(next(&doubted).1, Round::Poll);
        doubted.tried.record(Round::Poll, secs(900), secs(900));
        assert_eq!(next(&doubted).1, Round::Probe);
    }

    #[test]
    fn unused_account_is_probed_and_scanned() {
        let unused = Pace {
            key: KeyState::Untried,
            in_use: false,
            proved: None,
            polled: None,
            machines: false,
            ..pace()
        };
        assert_eq!(next(&unused), (secs(10), Round::Probe));
        let accepted = Pace {
            key: KeyState::Accepted,
            ..unused.clone()
        };
        assert_eq!(next(&accepted), (secs(1810), Round::Proof));
        let used = Pace {
            in_use: true,
            ..unused
        };
        assert_eq!(next(&used), (secs(10), Round::Proof));
    }

    #[test]
    fn requested_complete_list_runs_when_due() {
        let wanted = Pace {
            wanted: Some(secs(40)),
            ..pace()
        };
        assert_eq!(next(&wanted), (secs(40), Round::Proof));
        let failed = Pace {
            retry_at: secs(100),
            ..wanted
        };
        assert_eq!(next(&failed), (secs(100), Round::Proof));
    }

    #[test]
    fn wanted_proofs_are_spaced_by_what_they_cost() {
        let times = Times::default();
        let cheap = spaced(secs(20), times, Duration::from_millis(100));
        assert_eq!(cheap, secs(25), "those that come together share one");
        let dear = spaced(secs(20), times, secs(5));
        assert_eq!(dear, secs(40));
        let wanted = Pace {
            wanted: Some(secs(21)),
            spaced: Some(dear),
            ..pace()
        };
        assert_eq!(next(&wanted), (secs(40), Round::Proof));
        let later = Pace {
            wanted: Some(secs(60)),
            ..wanted
        };
        assert_eq!(next(&later), (secs(60), Round::Proof));
    }
}
