//! Tests: every transition in a table, and that every send follows two confirmed writes.

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
    for (state, expected) in table {
        let next = REPLIES.map(|reply| state.after(reply));
        assert_eq!(next, expected, "{state:?}");
    }
    assert_eq!(AttemptState::default(), WriteMetadata);
}

proptest! {
    /// Every path to the send has two writes of this attempt. The answer or a read confirms each of them.
    #[test]
    fn nothing_is_sent_without_two_confirmed_writes(path in vec(prop::sample::select(&REPLIES[..]), 0..8)) {
        let mut state = AttemptState::default();
        let (mut metadata, mut status) = (false, false);
        for reply in path {
            match (state, reply) {
                (AttemptState::WriteMetadata, Reply::Done) => metadata = true,
                (AttemptState::ReadMetadata, Reply::Shows { metadata: shown, .. }) => metadata = shown,
                (AttemptState::WriteStatus, Reply::Done) => status = true,
                (AttemptState::ReadStatus, Reply::Shows { metadata: first, status: second }) => {
                    (metadata, status) = (first, second);
                }
                _ => {}
            }
            let was = state;
            state = state.after(reply);
            prop_assert!(state != AttemptState::Send || (metadata && status), "{was:?} {reply:?}");
            prop_assert!(!matches!(was, AttemptState::Closed(_)) || state == was, "closed for good");
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
