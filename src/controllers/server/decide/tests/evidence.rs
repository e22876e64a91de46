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
    use crate::controllers::{server::memory::Observation, trouble::Trouble};
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
