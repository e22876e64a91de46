//! An effect that fails repeatedly.

use super::*;
use crate::{last_error::LastError, server::memory::ServerObservation};

/// After this many writes that failed for lack of permission.
fn unwritten(case: Case, failures: usize) -> Case {
    case.memory(|m| {
        for _ in 0..failures {
            let failed =
                ServerObservation::Failed(LastError::from_write("no right to patch".into()));
            m.record_observation(failed, RUNNING);
        }
    })
}

#[test]
fn only_repeated_failures_are_reported() {
    // The finalizer would be removed if it could be written.
    let released = || super::release::deleted(ServerStatus::Released);
    for (failures, expected) in [(0, false), (2, false), (3, true)] {
        let decision = unwritten(released(), failures).decide();
        assert!(decision.effect.is_some(), "it is tried on and on");
        let synced = decision.desired.condition(Type::Synced);
        let is_reported = synced.is_some_and(|c| c.reason == Reason::WriteFailed);
        assert_eq!(is_reported, expected, "{failures}: {synced:?}");
    }
}

/// The release has not begun.
#[test]
fn unrecordable_release_is_reported_in_ready() {
    let delivered = super::release::deleted(ServerStatus::Delivered);
    let decision = unwritten(delivered, 3).decide();
    assert_eq!(
        short(&decision),
        (Some("Release"), Some(Reason::WriteFailed), false)
    );
    assert!(decision.desired.condition(Type::DeletionBlocked).is_some());
}

/// An order is about to start again and again; Ready reports the obstacle.
#[test]
fn unrecordable_order_is_reported_in_ready() {
    for (failures, reason) in [
        (1, Reason::Ordering),
        (2, Reason::Ordering),
        (3, Reason::WriteFailed),
    ] {
        let decision = unwritten(Case::new(), failures).decide();
        let ready = decision.desired.condition(Type::Ready).unwrap();
        assert_eq!(ready.reason, reason, "{failures}");
        assert!(matches!(decision.effect, Some(ServerEffect::Order(_))));
        let words = ready.message.contains("no right to patch");
        assert_eq!(words, failures == 3, "{}", ready.message);
    }
}
