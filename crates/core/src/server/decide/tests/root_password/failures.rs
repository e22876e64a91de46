//! Failures: retried with backoff, warned about in time, and missed if the provider says so.

use super::*;

#[test]
fn failed_password_fetch_backs_off_and_warns() {
    for failure in [
        PasswordFailure::Absent,
        PasswordFailure::Error("the hosting API does not answer".into()),
    ] {
        let mut case = at(with_root_password(), 600);
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
        // Before the first attempt there is no warning.
        assert_eq!(warned(&at(with_root_password(), 23 * HOUR)), None);
        // No other effect of the object waits for it.
        let tagged = case.spec(|s| s.tags = vec!["team:web".into()]);
        assert!(matches!(
            tagged.decide().effect,
            Some(ServerEffect::AddTag { .. })
        ));
    }
}

#[test]
fn password_is_missed_only_by_provider_answer() {
    let over = at(with_root_password(), 25 * HOUR);
    assert_eq!(
        (step(&over), password_condition(&over).reason),
        ("fetch", Reason::Pending)
    );
    // An answer from before the end of the window does not count.
    let before = at(
        failed(at(with_root_password(), 23 * HOUR), PasswordFailure::Absent),
        25 * HOUR,
    );
    assert_eq!(
        (step(&before), password_condition(&before).reason),
        ("fetch", Reason::Pending)
    );
    let missed = written(failed(over.clone(), PasswordFailure::Absent));
    let condition = password_condition(&missed);
    assert_eq!(
        (condition.status, condition.reason),
        (Some(false), Reason::PasswordMissed)
    );
    assert!(
        condition.message.contains("spec.install.revision"),
        "{}",
        condition.message
    );
    // Once recorded, it is not fetched again, not even after a restart.
    for still in [missed.clone(), restarted(missed.clone())] {
        let still = later(still, HOUR);
        assert_eq!(
            (step(&still), password_condition(&still).reason),
            ("none", Reason::PasswordMissed)
        );
    }
    // A re-installation with an unknown end may have set a password; the provider's answer decides.
    let doubted = installed_again(later(missed.clone(), HOUR), Some(InstallEnd::Unknown));
    assert_eq!(
        (step(&doubted), password_condition(&doubted).reason),
        ("fetch", Reason::Pending)
    );
    let none = failed(later(doubted, 60), PasswordFailure::Absent);
    assert_eq!(
        (step(&none), password_condition(&none).reason),
        ("none", Reason::PasswordMissed)
    );
    // A clock that was ahead recorded it: with the right time it is fetched, and warnings start again.
    let early = at(restarted(missed), 600);
    assert_eq!(step(&early), "find");
    let record = early.decide().desired.status.records.root_password.unwrap();
    assert_eq!(record.warned, None);
    // A missing answer is not an absent password, however often.
    let mut silent = at(with_root_password(), 47 * HOUR);
    for _ in 0..9 {
        silent = failed(silent, PasswordFailure::Error("no answer".into()));
    }
    let once_more = at(silent, 48 * HOUR);
    assert_eq!(
        (step(&once_more), password_condition(&once_more).reason),
        ("fetch", Reason::Pending)
    );
    // A password that this process stored, or found stored, is not missed.
    let stored = stored_in(over, "pass");
    assert_eq!(password_condition(&stored).reason, Reason::InSync);
}

#[test]
fn taken_secret_name_is_reported_until_changed() {
    let absent = failed(with_root_password(), PasswordFailure::Absent);
    let taken = failed(absent, PasswordFailure::Taken("pass".into()));
    assert_eq!(step(&taken), "none");
    let condition = password_condition(&taken);
    assert_eq!(
        (condition.status, condition.reason),
        (Some(false), Reason::NameTaken)
    );
    for word in ["spec.rootPassword.secretRef", "delete it"] {
        assert!(condition.message.contains(word), "{}", condition.message);
    }
    assert_eq!(step(&named(taken.clone(), "free")), "find");
    let later = later(taken, 600);
    assert_eq!(step(&later), "find");
    // The name is free now.
    assert_eq!(step(&free(later)), "fetch");
}

#[test]
fn other_failures_do_not_delay_password_steps() {
    let at_once = Some(OutputRef { name: "out".into() });
    let outputs = Outputs {
        config_map_ref: at_once,
        secret_ref: None,
    };
    let output = with_root_password()
        .spec(|s| s.outputs = Some(outputs))
        .holding(OutputKind::ConfigMap, "out");
    assert!(matches!(
        output.decide().effect,
        Some(ServerEffect::WriteOutput(_))
    ));
    let tagged = with_root_password().spec(|s| s.tags = vec!["team:web".into()]);
    let first = at(tagged.clone(), 23 * HOUR).decide();
    assert!(matches!(first.effect, Some(ServerEffect::AddTag { .. })));
    let record = first.desired.status.records.root_password.unwrap();
    assert_eq!(record.warned, Some(PasswordWarning::Hour));
    let now = tagged.0.now.mono;
    let refused = tagged.memory(|m| {
        m.record_observation(
            ServerObservation::Failed(LastError::check_failed("no")),
            now,
        );
    });
    assert_eq!(step(&refused), "fetch");
    let effect = refused.decide().effect.unwrap();
    assert_eq!(refused.0.memory.remaining_backoff(&effect, now), None);
}
