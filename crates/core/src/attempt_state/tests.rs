//! Every transition by table, and the one property that all of it is for.

use super::*;
use proptest::{collection::vec, prelude::*};

const REPLIES: [Reply; 7] = [
    Reply::Done,
    Reply::Stale,
    Reply::Unknown,
    shows(false, false),
    shows(true, false),
    shows(false, true),
    shows(true, true),
];

const fn shows(metadata: bool, status: bool) -> Reply {
    Reply::Shows { metadata, status }
}

#[test]
fn every_transition_is_as_the_protocol_says() {
    use AttemptState::{ReadMetadata, ReadStatus, Send, WriteMetadata, WriteStatus};
    let none = AttemptState::Closed(Closed::NotStarted);
    let not = AttemptState::Closed(Closed::NotSent);
    // In the order of REPLIES.
    let table = [
        (
            WriteMetadata,
            [WriteStatus, none, ReadMetadata, not, not, not, not],
        ),
        (
            ReadMetadata,
            [not, not, not, not, WriteStatus, not, WriteStatus],
        ),
        (WriteStatus, [Send, not, ReadStatus, not, not, not, not]),
        (ReadStatus, [not, not, not, not, not, not, Send]),
        (Send, [Send; 7]),
        (none, [none; 7]),
        (not, [not; 7]),
    ];
    for (stage, expected) in table {
        let next = REPLIES.map(|reply| stage.after(reply));
        assert_eq!(next, expected, "{stage:?}");
    }
    assert_eq!(AttemptState::default(), WriteMetadata);
}

proptest! {
    /// No path leads to the send but through two writes of this very attempt, each of them confirmed
    /// by its answer, or by a read that shows it.
    #[test]
    fn nothing_is_sent_without_two_confirmed_writes(path in vec(prop::sample::select(&REPLIES[..]), 0..8)) {
        let mut stage = AttemptState::default();
        let (mut metadata, mut status) = (false, false);
        for reply in path {
            match (stage, reply) {
                (AttemptState::WriteMetadata, Reply::Done) => metadata = true,
                (AttemptState::ReadMetadata, Reply::Shows { metadata: shown, .. }) => metadata = shown,
                (AttemptState::WriteStatus, Reply::Done) => status = true,
                (AttemptState::ReadStatus, Reply::Shows { metadata: first, status: second }) => {
                    (metadata, status) = (first, second);
                }
                _ => {}
            }
            let was = stage;
            stage = stage.after(reply);
            prop_assert!(stage != AttemptState::Send || (metadata && status), "{was:?} {reply:?}");
            prop_assert!(!matches!(was, AttemptState::Closed(_)) || stage == was, "closed for good");
        }
    }
}

#[test]
fn the_permission_ends_by_either_clock() {
    let at = |wall, mono| Moment {
        wall,
        mono: Duration::from_secs(mono),
    };
    let may = |now| may_send(at(1000, 50), 1030, now, Duration::from_secs(30));
    assert!(may(at(1000, 50)) && may(at(1029, 79)));
    assert!(!may(at(1001, 80)), "by the monotonic clock");
    assert!(!may(at(1031, 51)), "by the wall clock");
    assert!(!may(at(999, 51)), "the wall clock was turned back");
}

#[test]
fn the_record_follows_from_the_answer() {
    let entry = |outcome, outcome_at, message: Option<&str>, failures| AttemptResult {
        outcome,
        outcome_at,
        message: message.map(str::to_owned),
        failures,
    };
    for (answer, expected) in [
        (
            AttemptAnswer::Done,
            entry(Some(AttemptOutcome::Done), Some(7), None, 0),
        ),
        (
            AttemptAnswer::Refused("no".into()),
            entry(Some(AttemptOutcome::Refused), Some(7), Some("no"), 3),
        ),
        (
            AttemptAnswer::NotSent("late".into()),
            entry(Some(AttemptOutcome::NotSent), Some(7), Some("late"), 3),
        ),
        (AttemptAnswer::Unknown, entry(None, None, None, 2)),
    ] {
        assert_eq!(answer.clone().entry(2, 7), expected, "{answer:?}");
    }
    assert_eq!(
        AttemptAnswer::NotSent(String::new())
            .entry(i32::MAX, 7)
            .failures,
        i32::MAX
    );
}
