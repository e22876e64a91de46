//! The finalizer is restored first.

use super::{protocol::*, *};
use crate::server::memory::ServerObservation;

fn without_finalizer(case: Case) -> Case {
    case.object(|o| o.metadata.finalizers = None)
}

#[test]
fn removed_finalizer_is_restored_unless_deleting() {
    let kept = || super::existing::with_status(ServerStatus::Delivered);
    for (what, case) in [
        ("unknown", open()),
        ("unknown, blocked", open().blocked(Reason::KeyRejected)),
        (
            "unknown, no account",
            open().facts(|f| f.account = unsaid("default")),
        ),
        (
            "refused",
            Case::new().ordered(Some(OrderOutcome::Refused), None),
        ),
        ("not shown", created()),
        (
            "not shown, blocked",
            created().blocked(Reason::AccountChanged),
        ),
        ("gone", gone()),
        ("tags missing", stripped(&[])),
        ("suspended", created().spec(|s| s.suspend = Some(true))),
        ("tended", kept()),
    ] {
        let effect = without_finalizer(case).decide().effect;
        assert_eq!(effect, Some(ServerEffect::AddFinalizer), "{what}");
    }
    assert_eq!(without_finalizer(kept()).deleting().decide().effect, None);
}

#[test]
fn repeated_finalizer_removal_backs_off_and_stalls() {
    let mut case = without_finalizer(super::existing::with_status(ServerStatus::Delivered));
    let mut pauses = Vec::new();
    for attempt in 1..=12 {
        let decision = case.decide();
        let is_conflict = short(&decision).1 == Some(Reason::MetadataConflict);
        assert_eq!(is_conflict, attempt > 5, "{attempt}");
        assert_eq!(
            decision.effect,
            Some(ServerEffect::AddFinalizer),
            "{attempt}"
        );
        let now = case.0.now.mono;
        case.0
            .memory
            .record_observation(ServerObservation::FinalizerRestored, now);
        // It is removed at once, and is not restored during the backoff.
        let waiting = case.decide();
        assert_eq!(waiting.effect, None);
        let Requeue::After(rest) = waiting.requeue else {
            panic!("{:?}", waiting.requeue)
        };
        pauses.push(rest.as_secs());
        case.0.now.mono += rest;
    }
    assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]);
    // Ten quiet minutes after the last restore the conflict is over, even without a watch event.
    let quiet = case.facts(|f| f.now.mono += secs(600));
    let quiet = quiet.object(|o| o.metadata.finalizers = Some(vec![SERVER_FINALIZER.into()]));
    assert_eq!(
        short(&quiet.decide()),
        (None, Some(Reason::Delivered), false)
    );
}
