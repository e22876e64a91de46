//! The trace of the operator's calls about one object, in order of arrival at the two proxies.
//! A trap can be set for one of them.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use super::{clock_skew::ApiServerClock, random_faults::RandomFaults};

/// The API that a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TargetApi {
    /// The hosting API.
    Hosting,
    /// The Kubernetes API.
    Cluster,
}

/// A position in the trace: the nth request of its kind. Counted by kind, so that
/// one more status write on a slow computer does not shift all later positions.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TracePosition {
    pub(crate) api: TargetApi,
    /// Method and path, with variable parts replaced: `DELETE servers/{uuid}`.
    pub(crate) kind: String,
    /// Counted from 1.
    pub(crate) nth: u32,
}

impl TracePosition {
    /// Whether it only reads.
    pub(crate) fn is_read(&self) -> bool {
        self.kind.starts_with("GET ")
    }
}

impl fmt::Display for TracePosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = match self.api {
            TargetApi::Hosting => "hosting",
            TargetApi::Cluster => "cluster",
        };
        write!(f, "{side} {} #{}", self.kind, self.nth)
    }
}

/// What happens to the request in the trap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TrapAction {
    /// Delayed before it is forwarded.
    HoldRequest,
    /// Forwarded. The answer is delayed.
    HoldAnswer,
    /// Never forwarded. The proxy closes the connection.
    DropRequest,
    /// Forwarded. The proxy closes the connection instead of answering.
    DropAnswer,
}

/// What happens to a delayed call after its release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeldCallOutcome {
    /// The proxy forwards it.
    Forward,
    /// It never arrives. The proxy closes the connection.
    Discard,
}

/// A request in the trap, which may be delayed until its release.
pub(crate) struct TrappedCall {
    release: oneshot::Sender<HeldCallOutcome>,
    underway: oneshot::Receiver<Infallible>,
}

impl TrappedCall {
    /// Releases the call.
    pub(crate) fn release(self, release: HeldCallOutcome) {
        // The proxy's task may have ended with the operator's connection.
        let _ = self.release.send(release);
    }

    /// Forwards a delayed request, and waits until it is answered.
    pub(crate) async fn release_and_wait(self) {
        let _ = self.release.send(HeldCallOutcome::Forward);
        // Nothing is ever sent: the proxy drops its end with the answer.
        let _ = self.underway.await;
    }
}

/// The proxy keeps this until a caught request is answered.
pub(crate) struct InFlightGuard(
    #[expect(dead_code, reason = "only its end is seen")] oneshot::Sender<Infallible>,
);

/// The proxy's side of the trap: what to do with one request.
pub(crate) struct ArmedTrap {
    pub(crate) act: TrapAction,
    sender: mpsc::UnboundedSender<TrappedCall>,
}

impl ArmedTrap {
    /// Reports the request to the test. If the request is to be delayed, waits for the test's answer.
    /// Discards the request if the test has ended.
    pub(crate) async fn catch_call(self) -> (HeldCallOutcome, InFlightGuard) {
        let (release, released) = oneshot::channel();
        let (ends, underway) = oneshot::channel();
        // The test may have ended.
        let _ = self.sender.send(TrappedCall { release, underway });
        let release = match self.act {
            TrapAction::HoldRequest | TrapAction::HoldAnswer => {
                released.await.unwrap_or(HeldCallOutcome::Discard)
            }
            TrapAction::DropRequest | TrapAction::DropAnswer => HeldCallOutcome::Discard,
        };
        (release, InFlightGuard(ends))
    }
}

#[derive(Default)]
struct CallTraceState {
    subject: String,
    seen: Vec<TracePosition>,
    counts: BTreeMap<(TargetApi, String), u32>,
    trap: Option<(TracePosition, ArmedTrap)>,
    /// A trap for the next read of a collection of the hosting API.
    read_trap: Option<(String, ArmedTrap)>,
}

/// The trace of one world. Both its proxies write into it.
pub(crate) struct CallTrace {
    log: Mutex<CallTraceState>,
    /// Random faults. None at first.
    pub(crate) random_faults: RandomFaults,
    /// The time that the API server reports.
    pub(crate) clock: ApiServerClock,
}

/// Receives the calls that the trap catches.
pub(crate) struct TrapListener(mpsc::UnboundedReceiver<TrappedCall>);

impl TrapListener {
    /// Waits for a call in the trap. `None` if there is none within this time.
    pub(crate) async fn wait_for_call(&mut self, within: Duration) -> Option<TrappedCall> {
        let caught = tokio::time::timeout(within, self.0.recv()).await;
        caught.ok().flatten()
    }

    /// The call in the trap, if there is one already.
    pub(crate) fn try_get_call(&mut self) -> Option<TrappedCall> {
        self.0.try_recv().ok()
    }
}

impl CallTrace {
    pub(crate) fn new() -> Self {
        Self {
            log: Mutex::default(),
            random_faults: RandomFaults::default(),
            clock: ApiServerClock::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, CallTraceState> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a new trace about the object `subject`, without a trap.
    pub(crate) fn start(&self, subject: &str) {
        *self.lock() = CallTraceState {
            subject: subject.to_owned(),
            ..CallTraceState::default()
        };
    }

    /// Like [`CallTrace::start`], with a trap at `place`.
    pub(crate) fn start_with_trap(
        &self,
        subject: &str,
        place: &TracePosition,
        act: TrapAction,
    ) -> TrapListener {
        let (sender, caught) = mpsc::unbounded_channel();
        *self.lock() = CallTraceState {
            subject: subject.to_owned(),
            trap: Some((place.clone(), ArmedTrap { act, sender })),
            ..CallTraceState::default()
        };
        TrapListener(caught)
    }

    /// Sets a trap for the next GET to the hosting API whose path begins with `collection`:
    /// its answer is delayed.
    pub(crate) fn hold_next_read(&self, collection: &str) -> TrapListener {
        let (sender, caught) = mpsc::unbounded_channel();
        let act = TrapAction::HoldAnswer;
        self.lock().read_trap = Some((collection.to_owned(), ArmedTrap { act, sender }));
        TrapListener(caught)
    }

    /// Removes and returns the trap for a read of `path` at the hosting API, if it is set.
    pub(crate) fn take_read_trap(&self, path: &str) -> Option<ArmedTrap> {
        let mut log = self.lock();
        let matches_path =
            |(collection, _): &mut (String, ArmedTrap)| path.starts_with(&**collection);
        log.read_trap
            .take_if(matches_path)
            .map(|(_, trapped)| trapped)
    }

    /// Removes the trap.
    pub(crate) fn disarm(&self) {
        self.lock().trap = None;
    }

    /// All positions so far.
    pub(crate) fn seen(&self) -> Vec<TracePosition> {
        self.lock().seen.clone()
    }

    /// Records a request. `sorts` maps the subject's name to the kinds of this request, if it is about the subject.
    /// Returns the trap if it is set for one of these positions.
    pub(crate) fn record_call(
        &self,
        side: TargetApi,
        sorts: impl FnOnce(&str) -> Vec<String>,
    ) -> Option<ArmedTrap> {
        let mut log = self.lock();
        let sorts = sorts(&log.subject);
        let mut trapped = None;
        for sort in sorts {
            let count = log.counts.entry((side, sort.clone())).or_default();
            *count += 1;
            let nth = *count;
            let place = TracePosition {
                api: side,
                kind: sort,
                nth,
            };
            log.seen.push(place.clone());
            trapped = trapped.or(log.trap.take_if(|(trap, _)| *trap == place));
        }
        trapped.map(|(_, trapped)| trapped)
    }
}
