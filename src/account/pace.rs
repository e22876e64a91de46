//! When to look at an account next, and how closely. Pure.

use api::delivery::Usual;
use flexmetal_core::account::{key_state::KeyState, view::Times};
use std::time::Duration;

/// One look at an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Round {
    /// One call that tells whether the key works.
    Probe,
    /// A complete listing of what bears the cluster's mark.
    Proof,
    /// What is delivered, and a look at each machine that is not.
    Poll,
}

/// What the next look depends on.
#[derive(Clone, Debug)]
pub(crate) struct Pace {
    pub(crate) key: KeyState,
    /// When a refused key may be probed.
    pub(crate) probe_at: Duration,
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
    /// When the last round ended that looked at machines.
    pub(crate) looked: Option<Duration>,
    /// When what is in motion is to be looked at: see [`pause`].
    pub(crate) motion: Option<Duration>,
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

/// A machine that is on its way may fail at any time, so it is looked at within this, however rarely one at rest is.
const RAREST: Duration = Duration::from_secs(300);

/// How long after its last look a machine in motion is looked at again: closely when its delivery is to be expected, and
/// rarely while it cannot be there, or long after it should have been. `age`: since its order, at that look.
pub(crate) fn pause(age: Duration, usual: Option<Usual>, times: Times) -> Duration {
    let close = times.active_poll_interval;
    let rare = times.idle_poll_interval.min(RAREST);
    let Some(Usual { soonest, latest }) = usual else {
        return close;
    };
    let near = soonest * 4 / 5;
    let late = age.saturating_sub(latest);
    // It comes as likely in the next minute as in the one before: the later it is, the less a look would tell.
    let pause = near.saturating_sub(age).max(late / 4);
    pause.min(rare).max(close)
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
        let looked = pace.looked.unwrap_or(pace.started);
        let still = looked + pace.times.idle_poll_interval.mul_f64(pace.jitter);
        let active = pace.times.active_poll_interval.mul_f64(pace.jitter);
        // Whatever a look does not show, the next one comes no sooner.
        pace.motion
            .map_or(still, |motion| still.min(motion.max(looked + active)))
    });
    let (due, round) = match poll {
        Some(poll) if poll < proof => (poll, Round::Poll),
        _ => (proof, Round::Proof),
    };
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
            retry_at: Duration::ZERO,
            started: secs(10),
            in_use: true,
            proved: Some(secs(20)),
            wanted: None,
            spaced: None,
            looked: Some(secs(20)),
            motion: None,
            machines: true,
            times: Times::default(),
            jitter: 1.0,
        }
    }

    #[test]
    fn slow_at_rest_fast_in_motion() {
        assert_eq!(next(&pace()), (secs(320), Round::Poll));
        for (motion, due) in [(15, 50), (50, 50), (230, 230), (900, 320)] {
            let moving = Pace {
                motion: Some(secs(motion)),
                ..pace()
            };
            assert_eq!(next(&moving), (secs(due), Round::Poll), "{motion}");
        }
    }

    #[test]
    fn a_machine_is_looked_at_closely_when_its_delivery_is_near_and_rarely_else() {
        let usual = Some(Usual {
            soonest: secs(700),
            latest: secs(960),
        });
        let times = Times::default();
        for (age, rest) in [
            (0, 300),
            (300, 260),
            (540, 30),
            (700, 30),
            (960, 30),
            (1080, 30),
            (1360, 100),
            (90_000, 300),
        ] {
            assert_eq!(pause(secs(age), usual, times), secs(rest), "{age}");
            assert_eq!(pause(secs(age), None, times), secs(30), "nothing is known");
        }
        // However it is set, it is never looked at more often than the account allows.
        let odd = Times {
            active_poll_interval: secs(60),
            idle_poll_interval: secs(30),
            ..times
        };
        assert_eq!(pause(secs(0), usual, odd), secs(60));
        let still = Times {
            idle_poll_interval: secs(3600),
            ..times
        };
        assert_eq!(pause(secs(0), usual, still), RAREST);
    }

    #[test]
    fn an_account_that_nobody_uses_is_probed_once_and_scanned() {
        let unused = Pace {
            key: KeyState::Untried,
            in_use: false,
            proved: None,
            looked: None,
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
    fn a_wanted_proof_goes_first_when_its_time_has_come() {
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
