//! What stands against it: it is tried at growing pauses, told in time, and missed when the provider says so.

use super::*;

#[test]
fn failed_password_fetch_backs_off_and_warns() {
    for failure in [
        PasswordFailure::Absent,
        PasswordFailure::Error("the hosting API does not answer".into()),
    ] {
        let mut case = at(wanted(), 600);
        let mut pauses = Vec::new();
        for _ in 0..7 {
            assert_eq!(step(&case), "fetch");
            case = failed(case, failure.clone());
            assert_eq!(step(&case), "none");
            let Requeue::After(pause) = case.decide().requeue else {
                panic!("{:?}", case.decide().requeue);
            };
            pauses.push(pause.as_secs());
            case = later(case, i64::try_from(pause.as_secs()).unwrap());
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64]);
        let warned = |case: &Case| {
            let record = case.decide().desired.status.records.root_password.unwrap();
            record.warned
        };
        assert_eq!(warned(&case), None);
        let near = at(case.clone(), 18 * HOUR);
        assert_eq!(warned(&near), Some(PasswordWarning::SixHours));
        let hour = at(case.clone(), 23 * HOUR);
        assert_eq!(warned(&hour), Some(PasswordWarning::Hour));
        // Before the first try there is nothing to warn of.
        assert_eq!(warned(&at(wanted(), 23 * HOUR)), None);
        // Nothing else of the object waits for it.
        let tagged = case.spec(|s| s.tags = vec!["team:web".into()]);
        assert!(matches!(
            tagged.decide().effect,
            Some(ServerEffect::AddTag { .. })
        ));
    }
}

#[test]
fn password_is_missed_only_by_provider_answer() {
    let over = at(wanted(), 25 * HOUR);
    assert_eq!(
        (step(&over), said(&over).reason),
        ("fetch", Reason::Pending)
    );
    // What was said before the end says nothing of it.
    let before = at(
        failed(at(wanted(), 23 * HOUR), PasswordFailure::Absent),
        25 * HOUR,
    );
    assert_eq!(
        (step(&before), said(&before).reason),
        ("fetch", Reason::Pending)
    );
    let missed = written(failed(over.clone(), PasswordFailure::Absent));
    let told = said(&missed);
    assert_eq!(
        (told.status, told.reason),
        (Some(false), Reason::PasswordMissed)
    );
    assert!(
        told.message.contains("spec.install.revision"),
        "{}",
        told.message
    );
    // Noted, nobody asks again, in another process neither.
    for still in [missed.clone(), restarted(missed.clone())] {
        let still = later(still, HOUR);
        assert_eq!(
            (step(&still), said(&still).reason),
            ("none", Reason::PasswordMissed)
        );
    }
    // A re-installation whose end nobody knows may have brought one, and the provider says so or not.
    let doubted = installed_again(later(missed.clone(), HOUR), Some(InstallEnd::Unknown));
    assert_eq!(
        (step(&doubted), said(&doubted).reason),
        ("fetch", Reason::Pending)
    );
    let none = failed(later(doubted, 60), PasswordFailure::Absent);
    assert_eq!(
        (step(&none), said(&none).reason),
        ("none", Reason::PasswordMissed)
    );
    // By a clock that was ahead: with the right one it is asked for, and a warning is a warning again.
    let early = at(restarted(missed), 600);
    assert_eq!(step(&early), "find");
    let record = early.decide().desired.status.records.root_password.unwrap();
    assert_eq!(record.warned, None);
    // No answer is none, however often.
    let mut silent = at(wanted(), 47 * HOUR);
    for _ in 0..9 {
        silent = failed(silent, PasswordFailure::Error("no answer".into()));
    }
    let once_more = at(silent, 48 * HOUR);
    assert_eq!(
        (step(&once_more), said(&once_more).reason),
        ("fetch", Reason::Pending)
    );
    // One that this process stored, or found stored, is not missed.
    let stored = kept_in(over, "pass");
    assert_eq!(said(&stored).reason, Reason::InSync);
}

#[test]
fn taken_secret_name_is_reported_until_changed() {
    let absent = failed(wanted(), PasswordFailure::Absent);
    let taken = failed(absent, PasswordFailure::Taken("pass".into()));
    assert_eq!(step(&taken), "none");
    let told = said(&taken);
    assert_eq!((told.status, told.reason), (Some(false), Reason::NameTaken));
    for word in ["spec.rootPassword.secretRef", "delete it"] {
        assert!(told.message.contains(word), "{}", told.message);
    }
    assert_eq!(step(&named(taken.clone(), "free")), "find");
    let later = later(taken, 600);
    assert_eq!(step(&later), "find");
    // It came free.
    assert_eq!(step(&free(later)), "fetch");
}

#[test]
fn other_failures_do_not_delay_password_steps() {
    let at_once = Some(OutputRef { name: "out".into() });
    let outputs = Outputs {
        config_map_ref: at_once,
        secret_ref: None,
    };
    let output = wanted()
        .spec(|s| s.outputs = Some(outputs))
        .holding(OutputPlace::ConfigMap, "out");
    assert!(matches!(
        output.decide().effect,
        Some(ServerEffect::WriteOutput(_))
    ));
    let tagged = wanted().spec(|s| s.tags = vec!["team:web".into()]);
    let first = at(tagged.clone(), 23 * HOUR).decide();
    assert!(matches!(first.effect, Some(ServerEffect::AddTag { .. })));
    let record = first.desired.status.records.root_password.unwrap();
    assert_eq!(record.warned, Some(PasswordWarning::Hour));
    let now = tagged.0.now.mono;
    let refused = tagged.memory(|m| {
        m.record_observation(ServerObservation::Failed(LastError::unexpected("no")), now);
    });
    assert_eq!(step(&refused), "fetch");
    let effect = refused.decide().effect.unwrap();
    assert_eq!(refused.0.memory.remaining_backoff(&effect, now), None);
}
