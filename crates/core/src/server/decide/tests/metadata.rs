//! Finalizer and annotation are put back first.

use super::*;
use crate::server::memory::Observation;
use api::order::OrderNote;

fn stripped(case: Case) -> Case {
    case.object(|o| {
        o.metadata.finalizers = None;
        o.metadata.annotations = None;
    })
}

fn created() -> Case {
    Case::new().ordered(Some(OrderOutcome::Created), Some(1))
}

#[test]
fn what_a_tool_took_off_is_put_back_in_every_state_but_deletion() {
    let unknown = || Case::new().open(300, &[]);
    let cases = [
        ("unknown", unknown()),
        ("unknown, blocked", unknown().blocked(Reason::KeyRejected)),
        (
            "unknown, no account",
            unknown().facts(|f| f.account = unsaid("default")),
        ),
        ("not shown", created()),
        (
            "not shown, blocked",
            created().blocked(Reason::AccountChanged),
        ),
        (
            "gone",
            created().memory(|m| m.missing = missing::tried(&[800, 900], &[800, 900])),
        ),
        ("marks missing", missing::stripped(&[])),
        ("suspended", created().spec(|s| s.suspend = Some(true))),
        ("tended", created().with(1, ServerStatus::Delivered)),
        (
            "everything but memory",
            unknown()
                .memory(|m| {
                    let intent = intent_of("web", "uid-1");
                    m.order = Some(OrderRecord::open(intent));
                })
                .object(|o| o.status = None),
        ),
    ];
    for (what, case) in cases {
        for only in ["finalizer", "annotation", "both"] {
            let case = case.clone().object(|o| {
                if only != "annotation" {
                    o.metadata.finalizers = None;
                }
                if only != "finalizer" {
                    o.metadata.annotations = None;
                }
            });
            let decision = case.decide();
            let Some(Effect::PutBack(note)) = decision.effect else {
                panic!("{what}, {only}: {:?}", decision.effect);
            };
            assert_eq!(*note, OrderNote::open(case.intent()), "{what}, {only}");
        }
    }
    let deleted = stripped(created().with(1, ServerStatus::Delivered)).deleting();
    assert_eq!(short(&deleted.decide()).0, Some("BeginRelease"));
}

#[test]
fn a_closed_order_is_written_down_and_never_put_back() {
    let refused = || {
        let case = Case::new().ordered(Some(OrderOutcome::Refused), None);
        case.facts(|f| f.now.wall = EPOCH + 5)
    };
    let open_note = refused().noted(&refused().intent());
    let Some(Effect::WriteNote(note)) = open_note.decide().effect else {
        panic!("not written down")
    };
    assert_eq!(note.outcome, Some(OrderOutcome::Refused));
    assert_eq!(refused().decide().effect, None, "it stands");
    assert_eq!(stripped(refused()).decide().effect, None, "not put back");
    // The annotation alone tells that nothing was made.
    let alone = refused()
        .object(|o| o.status = None)
        .facts(|f| f.now.wall = EPOCH + 900);
    assert_eq!(short(&alone.decide()).0, Some("Order"));
}

#[test]
fn a_tool_that_strips_again_and_again_meets_pauses_and_then_a_person_reads_of_it() {
    let mut case = stripped(created().with(1, ServerStatus::Delivered));
    let mut pauses = Vec::new();
    for turn in 1..=12 {
        let decision = case.decide();
        let contested = short(&decision).1 == Some(Reason::MetadataConflict);
        assert_eq!(contested, turn > 5, "{turn}");
        assert!(
            matches!(decision.effect, Some(Effect::PutBack(_))),
            "{turn}"
        );
        let now = case.0.now.mono;
        case.0.memory.note(Observation::PutBack, now, secs(60));
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
    let quiet = case
        .facts(|f| f.now.mono += secs(600))
        .ordered(Some(OrderOutcome::Created), Some(1));
    assert_eq!(
        short(&quiet.decide()),
        (None, Some(Reason::Delivered), false)
    );
}

#[test]
fn a_closed_outcome_is_written_down_as_soon_as_it_stands_in_status() {
    let intent = Case::new().intent();
    let record = OrderRecord {
        outcome: Some(OrderOutcome::Refused),
        outcome_at: Some(EPOCH),
        ..OrderRecord::open(intent.clone())
    };
    let case = Case::new()
        .ordered(None, None)
        .memory(|m| m.order = Some(record));
    let decision = case.facts(|f| f.now.wall = EPOCH + 5).decide();
    assert_eq!(
        (&decision.effect, decision.once_written),
        (&None, Again::AtOnce)
    );
}

#[test]
fn the_machine_of_an_answer_is_recorded_although_the_account_shows_none() {
    let record = OrderRecord {
        outcome: Some(OrderOutcome::Created),
        ..OrderRecord::open(Case::new().intent())
    };
    let case = Case::new().ordered(None, None).memory(|m| {
        m.order = Some(record);
        m.uuid = Some(uuid(1));
    });
    let status = case.decide().draft.status;
    assert_eq!(status.uuid, Some(uuid(1)));
    assert_eq!(
        status.records.order.unwrap().outcome,
        Some(OrderOutcome::Created)
    );
}
