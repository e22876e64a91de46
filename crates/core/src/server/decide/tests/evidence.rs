//! What others may have written into the annotation.

use super::*;

fn intent(cluster: &str, uid: &str) -> Intent {
    Intent {
        cluster: cluster.into(),
        uid: uid.into(),
        mark: "0".repeat(24),
        epoch: EPOCH,
        attempt: "a1".into(),
        send_by: EPOCH,
        hostname: "web".into(),
        account: None,
        unknown_before: 0,
    }
}

#[test]
fn what_is_no_identity_is_not_repeated_at_length() {
    let long = "x".repeat(100_000);
    for written in [
        intent(&long, "uid"),
        intent(cluster().as_str(), &long),
        Intent {
            mark: long.clone(),
            ..intent(cluster().as_str(), "uid")
        },
    ] {
        let decision = decide(&Case::new().noted(&written).0);
        let ready = decision.draft.condition(Type::Ready).unwrap();
        assert_eq!(ready.reason, Reason::OwnershipConflict);
        assert!(ready.message.len() < 1000, "{} bytes", ready.message.len());
        assert_eq!(decision.effect, None);
    }
    let foreign = decide(&Case::new().noted(&intent("fedcba9876543210", "uid")).0);
    let ready = foreign.draft.condition(Type::Ready).unwrap();
    assert!(
        ready.message.contains("cluster fedcba9876543210"),
        "{}",
        ready.message
    );
}

#[test]
fn an_effect_that_keeps_failing_is_told_and_one_failure_is_not() {
    use crate::{server::memory::Observation, trouble::Trouble};
    // A released machine of a deleted object: the finalizer goes, if only it could be written.
    let facts = |failures: usize| {
        let mut facts = Case::new()
            .ordered(Some(OrderOutcome::Created), Some(1))
            .with(1, ServerStatus::Released)
            .object(|o| o.metadata.deletion_timestamp = o.metadata.creation_timestamp.clone())
            .0;
        for _ in 0..failures {
            let failed = Observation::Failed(Trouble::of_write("no right to patch".into()));
            facts.memory.note(failed, facts.now.mono, secs(60));
        }
        facts
    };
    for (failures, is_told) in [(0, false), (2, false), (3, true)] {
        let decision = decide(&facts(failures));
        assert!(decision.effect.is_some(), "it is tried on and on");
        let synced = decision.draft.condition(Type::Synced);
        let told = synced.is_some_and(|c| c.reason == Reason::WriteFailed);
        assert_eq!(told, is_told, "{failures}: {synced:?}");
    }
}

/// It is about to be ordered, time and again: what is in the way stands where everybody looks.
#[test]
fn an_order_that_cannot_be_written_down_says_so_in_ready() {
    use crate::{
        once::Closed,
        server::{answers, memory::Observation},
    };
    let record = Case::new()
        .ordered(None, None)
        .0
        .status()
        .records
        .order
        .unwrap();
    let refused = || Some("no right to patch".to_owned());
    let not_started = answers::of_unsent(record.clone(), Closed::NotStarted, refused(), 9);
    let mut facts = Case::new().0;
    for (failures, reason) in [
        (1, Reason::Ordering),
        (2, Reason::Ordering),
        (3, Reason::WriteFailed),
    ] {
        facts
            .memory
            .note(not_started.clone(), facts.now.mono, secs(60));
        let decision = decide(&facts);
        let ready = decision.draft.condition(Type::Ready).unwrap();
        assert_eq!(ready.reason, reason, "{failures}");
        assert!(matches!(decision.effect, Some(Effect::Order(_))));
        let words = ready.message.contains("no right to patch");
        assert_eq!(words, failures == 3, "{}", ready.message);
    }
    assert_eq!(facts.memory.backoff.failures(), 3);
    // What stands in metadata and not in status was not sent either, and is recorded with the reason.
    let not_sent = answers::of_unsent(record, Closed::NotSent, refused(), 9);
    let Observation::Ordered { order, .. } = not_sent else {
        panic!("{not_sent:?}")
    };
    assert!(order.message.unwrap().ends_with("no right to patch"));
}
