//! One blow at one place.

use std::fmt;
use std::time::Duration;

use serde_json::Value;

use super::course::{Act, Place, Release, Watch};
use super::stage::{AT_ITS_END, Stage};
use lab::rig::eventually;

/// Without faults a place is reached within this time.
const REACHED_WITHIN: Duration = Duration::from_secs(25);

/// What strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blow {
    /// The operator is killed before the request is on its way; it never arrives.
    KillBefore,
    /// The operator is killed after the effect, before it has the answer.
    KillAfter,
    /// The operator is killed, and the request arrives when the next one already works.
    KillThenLate,
    /// The request is lost, the operator lives.
    LoseRequest,
    /// The answer is lost, the operator lives.
    LoseAnswer,
}

impl Blow {
    pub(crate) const ALL: [Self; 5] = [
        Self::KillBefore,
        Self::KillAfter,
        Self::KillThenLate,
        Self::LoseRequest,
        Self::LoseAnswer,
    ];

    /// How the trap is to act.
    pub(crate) fn act(self) -> Act {
        match self {
            Self::KillBefore | Self::KillThenLate => Act::HoldRequest,
            Self::KillAfter => Act::HoldAnswer,
            Self::LoseRequest => Act::DropRequest,
            Self::LoseAnswer => Act::DropAnswer,
        }
    }
}

/// In which part of a life a place lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// A server, from `create` to Ready.
    Order,
    /// A server, from `delete` to the end of the object.
    Release,
    /// An account, from `create` until it is held for its first user.
    Hold,
    /// An account, from the end of its last user to its own.
    LetGo,
}

/// A blow at a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Point {
    pub(crate) phase: Phase,
    pub(crate) place: Place,
    pub(crate) blow: Blow,
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {:?} at {}", self.phase, self.blow, self.place)
    }
}

/// Waits until the trap springs, and does what belongs to the blow. Returns
/// whether the place was reached.
pub(crate) async fn strike(stage: &mut Stage, point: Option<&Point>, watch: Option<Watch>) -> bool {
    let (Some(point), Some(mut watch)) = (point, watch) else {
        return true;
    };
    let Some(caught) = watch.caught(REACHED_WITHIN).await else {
        stage.course.disarm();
        return false;
    };
    match point.blow {
        Blow::LoseRequest | Blow::LoseAnswer => {}
        Blow::KillBefore | Blow::KillAfter => {
            stage.world.operator().kill9();
            caught.release(Release::Discard);
            stage.world.operator().restart();
        }
        Blow::KillThenLate => {
            stage.world.operator().kill9();
            let before = last_request(stage).await;
            stage.world.operator().restart();
            eventually(
                "the next operator looks at the account",
                AT_ITS_END,
                async || (last_request(stage).await > before).then_some(()),
            )
            .await;
            caught.release(Release::Forward);
        }
    }
    true
}

/// Number of the last request to the hosting API.
async fn last_request(stage: &Stage) -> u64 {
    let ledger = stage.world.simulator.ledger().await;
    let last = ledger.last();
    last.and_then(|entry: &Value| entry["seq"].as_u64())
        .unwrap_or_default()
}
