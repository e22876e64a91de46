//! The finalizer is put back first.

use super::{protocol::*, *};
use crate::server::memory::Observation;

fn without_finalizer(case: Case) -> Case {
    case.object(|o| o.metadata.finalizers = None)
}

#[test]
fn what_a_tool_took_off_is_put_back_in_every_state_but_deletion() {
    let kept = || super::machine::kept(ServerStatus::Delivered);
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
        assert_eq!(effect, Some(Effect::AddFinalizer), "{what}");
    }
    assert_eq!(without_finalizer(kept()).deleting().decide().effect, None);
}

#[test]
fn a_tool_that_strips_again_and_again_meets_pauses_and_then_a_person_reads_of_it() {
    let mut case = without_finalizer(super::machine::kept(ServerStatus::Delivered));
    let mut pauses = Vec::new();
    for turn in 1..=12 {
        let decision = case.decide();
        let contested = short(&decision).1 == Some(Reason::MetadataConflict);
        assert_eq!(contested, turn > 5, "{turn}");
        assert_eq!(decision.effect, Some(Effect::AddFinalizer), "{turn}");
        let now = case.0.now.mono;
        case.0.memory.note(Observation::PutBack, now);
        // It is taken off at once, and stays off for the pause.
        let waiting = case.decide();
        assert_eq!(waiting.effect, None);
        let Again::After(rest) = waiting.again else {
            panic!("{:?}", waiting.again)
        };
        pauses.push(rest.as_secs());
        case.0.now.mono += rest;
    }
    assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]);
    // Ten quiet minutes after the last one the row is over, whether or not anything wakes it.
    let quiet = case.facts(|f| f.now.mono += secs(600));
    let quiet = quiet.object(|o| o.metadata.finalizers = Some(vec![SERVER_FINALIZER.into()]));
    assert_eq!(
        short(&quiet.decide()),
        (None, Some(Reason::Delivered), false)
    );
}
