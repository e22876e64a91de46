//! One fault at one position.

use std::fmt;
use std::time::Duration;

use super::{
    call_trace::{HeldCallOutcome, TargetApi, TracePosition, TrapAction, TrapListener},
    proxied_world::{AT_ITS_END, ProxiedWorld},
};

/// Maximum time to reach a position without faults.
const REACHED_WITHIN: Duration = Duration::from_secs(25);

/// The kinds of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallFault {
    /// The operator is killed before the request is sent. The request never arrives.
    KillBefore,
    /// The operator is killed after the effect, before it gets the answer.
    KillAfter,
    /// The operator is killed. The request arrives while the next operator waits for its first read,
    /// whose answer does not show the effect.
    KillThenLate,
    /// The request is lost. The operator continues.
    LoseRequest,
    /// The answer is lost. The operator continues.
    LoseAnswer,
}

impl CallFault {
    pub(crate) const ALL: [Self; 5] = [
        Self::KillBefore,
        Self::KillAfter,
        Self::KillThenLate,
        Self::LoseRequest,
        Self::LoseAnswer,
    ];

    /// What the trap does for this fault.
    pub(crate) fn trap_action(self) -> TrapAction {
        match self {
            Self::KillBefore | Self::KillThenLate => TrapAction::HoldRequest,
            Self::KillAfter => TrapAction::HoldAnswer,
            Self::LoseRequest => TrapAction::DropRequest,
            Self::LoseAnswer => TrapAction::DropAnswer,
        }
    }
}

/// A fault at a position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FaultPoint {
    /// The lifecycle phase of the position.
    pub(crate) phase: &'static str,
    pub(crate) place: TracePosition,
    pub(crate) fault: CallFault,
}

impl fmt::Display for FaultPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {:?} at {}", self.phase, self.fault, self.place)
    }
}

/// Waits until the trap catches the call, then injects the fault. Returns whether the position was reached.
pub(crate) async fn inject(
    proxied: &mut ProxiedWorld,
    point: Option<&FaultPoint>,
    watch: Option<TrapListener>,
) -> bool {
    let (Some(point), Some(mut watch)) = (point, watch) else {
        return true;
    };
    let Some(caught) = watch.wait_for_call(REACHED_WITHIN).await else {
        proxied.trace.disarm();
        return false;
    };
    match point.fault {
        CallFault::LoseRequest | CallFault::LoseAnswer => {}
        CallFault::KillBefore | CallFault::KillAfter => {
            proxied.world.operator().kill9();
            caught.release(HeldCallOutcome::Discard);
            proxied.world.operator().restart();
        }
        CallFault::KillThenLate => {
            proxied.world.operator().kill9();
            let mut read = proxied.trace.hold_next_read(collection_path(&point.place));
            proxied.world.operator().restart();
            let read = read.wait_for_call(AT_ITS_END).await;
            let read = read.expect("the next operator looks at what the request is about");
            caught.release_and_wait().await;
            read.release(HeldCallOutcome::Forward);
        }
    }
    true
}

/// Prefix of the hosting API's path to the objects that a call is about.
fn collection_path(place: &TracePosition) -> &'static str {
    let is_of = |word: &str| place.api == TargetApi::Hosting && place.kind.contains(word);
    match () {
        () if is_of(" sshKey") => "/v3/sshKey",
        () if is_of(" whitelist") => "/v3/account/apiKey",
        () if is_of(" host/") => "/v3/host",
        () if is_of(" tags") => "/v3/flexMetal/tags",
        () => "/v3/flexMetal/servers",
    }
}
