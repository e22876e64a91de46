//! One blow at one place of an order or a release, and the wait for its end.

use std::fmt;
use std::time::Duration;

use serde_json::Value;

use super::course::{Act, Place, Release};
use super::judge::{self, Findings};
use super::stage::{AT_ITS_END, Stage};
use crate::deadline::eventually;
use crate::rig::server;

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

/// In which part of an object's life a place lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// From `create` to Ready.
    Order,
    /// From `delete` to the end of the object.
    Release,
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

/// Whether the place of a blow was reached.
pub(crate) type Reached = bool;

/// One object from creation to its end, with at most one blow in each half.
///
/// # Panics
/// If it does not come to its end, or the judge finds something.
pub(crate) async fn life(
    stage: &mut Stage,
    name: &str,
    order: Option<&Point>,
    release: Option<&Point>,
) -> (Reached, Reached) {
    let watch = stage.arm(name, order);
    stage.world.create(&server(name)).await;
    let ordered = strike(stage, order, watch).await;
    let object = stage.world.wait_ready(name, AT_ITS_END).await;
    judged(order, &judge::after_order(&stage.world, &object).await);

    let watch = stage.arm(name, release);
    stage.world.delete(name).await;
    let released = strike(stage, release, watch).await;
    stage.world.wait_gone(name, AT_ITS_END).await;
    judged(release, &judge::after_release(&stage.world, &object).await);
    (ordered, released)
}

fn judged(point: Option<&Point>, findings: &Findings) {
    let point = point.map_or("without a blow".to_owned(), Point::to_string);
    assert!(findings.is_empty(), "{point}: {findings:#?}");
}

/// Waits until the trap springs, and does what belongs to the blow.
async fn strike(
    stage: &mut Stage,
    point: Option<&Point>,
    watch: Option<super::course::Watch>,
) -> Reached {
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
    ledger
        .last()
        .and_then(|entry: &Value| entry["seq"].as_u64())
        .unwrap_or_default()
}
