//! A change of power or of the restart token sends one command.

use super::*;
use crate::cause::Standing;

fn due(case: &Case) -> Option<(HostAction, i32)> {
    match case.effect() {
        Some(Effect::Command(new)) => Some((new.action, new.attempts)),
        _ => None,
    }
}

fn wish(power: Power) -> Case {
    Case::known().spec(|s| s.power = Some(power))
}

/// A command that this process sent for this wish; that the answer does not come was known then.
fn lost(action: HostAction, attempts: i32, since: Duration) -> Case {
    let case = noted(action, attempts, since);
    let last = command(&case, action, attempts);
    case.own(|own| own.note(Observation::Commanded(Box::new(last), since)))
        .recalled()
}

/// A command stands in status for this wish, which another process has noted; this one has seen it since then.
fn noted(action: HostAction, attempts: i32, since: Duration) -> Case {
    let (power, token) = match action {
        HostAction::Start => (Some(Power::On), None),
        HostAction::Stop => (Some(Power::Off), None),
        HostAction::Restart => (None, Some("t1".to_owned())),
    };
    let case = Case::known().spec(|s| {
        s.power = power;
        s.restart_token.clone_from(&token);
    });
    let last = command(&case, action, attempts);
    let case = case.status(|s| {
        let known = s.power.as_mut().unwrap();
        (known.wish, known.restart_token) = (power, token);
        known.last = Some(last);
    });
    case.own(|own| own.sought = vec![("c1".into(), since)])
        .recalled()
}

fn answered(action: HostAction, outcome: CommandOutcome) -> Case {
    let case = lost(action, 1, NOW);
    let mut last = command(&case, action, 1);
    last.outcome = Some(outcome);
    case.own(|own| own.note(Observation::Commanded(Box::new(last), NOW - secs(5))))
        .recalled()
}

#[test]
fn a_change_sends_one_command_and_what_stays_sends_none() {
    assert_eq!(due(&wish(Power::Off)), Some((HostAction::Stop, 1)));
    assert_eq!(due(&wish(Power::On)), Some((HostAction::Start, 1)));
    let token = Case::known().spec(|s| s.restart_token = Some("t1".into()));
    assert_eq!(due(&token), Some((HostAction::Restart, 1)));
    for action in [HostAction::Start, HostAction::Stop, HostAction::Restart] {
        let done = answered(action, CommandOutcome::Accepted).written();
        assert_eq!((due(&done), done.reason()), (None, Some(Reason::Available)));
    }
    // Taken out and set again is a change; a token that was there is none.
    let out = answered(HostAction::Stop, CommandOutcome::Accepted).written();
    let out = out.spec(|s| s.power = None).written();
    let again = out.spec(|s| s.power = Some(Power::Off));
    assert_eq!(due(&again), Some((HostAction::Stop, 1)));
    let out = answered(HostAction::Restart, CommandOutcome::Accepted).written();
    let out = out.spec(|s| s.restart_token = None).written();
    assert_eq!(
        due(&out.spec(|s| s.restart_token = Some("t1".into()))),
        None
    );
}

#[test]
fn an_installation_goes_first_and_the_wish_stays() {
    let case = sent(1, Some(CommandOutcome::Accepted)).spec(|s| s.power = Some(Power::Off));
    let runs = case
        .shown(|h| h.install_status = InstallStatus::Installing)
        .written();
    assert_eq!(due(&runs), None);
    assert_eq!(
        runs.power_status().wish,
        None,
        "it is heard when that is over"
    );
    let others = wish(Power::Off).shown(|h| h.install_status = InstallStatus::Created);
    assert_eq!(
        (due(&others), others.reason()),
        (None, Some(Reason::Reinstalling))
    );
}

#[test]
fn what_holds_back_an_installation_holds_back_a_command() {
    for (case, reason) in [
        (
            wish(Power::Off).spec(|s| s.suspend = Some(true)),
            Reason::Suspended,
        ),
        (
            wish(Power::Off).spec(|s| s.management_policy = Some(ManagementPolicy::ObserveOnly)),
            Reason::ObserveOnly,
        ),
    ] {
        assert_eq!((case.effect(), case.reason()), (None, Some(reason)));
        assert_eq!(
            case.decide().status.power.unwrap().wish,
            None,
            "the wish stays"
        );
    }
}

#[test]
fn a_lost_start_or_stop_is_seen_or_sent_again_a_few_times() {
    let window = secs(30);
    // No look began after it.
    let early = lost(HostAction::Stop, 1, NOW);
    assert_eq!(
        (due(&early), early.decide().wants),
        (None, Some((List::Hosts, NOW)))
    );
    let since = NOW - secs(2) - window;
    assert_eq!(
        due(&lost(HostAction::Stop, 1, since)),
        Some((HostAction::Stop, 2))
    );
    let seen = lost(HostAction::Stop, 1, since).shown(|h| h.status = "stopped".into());
    let seen = seen.written();
    assert_eq!((due(&seen), seen.reason()), (None, Some(Reason::Available)));
    let last = lost(HostAction::Stop, 3, since).written();
    assert_eq!(due(&last), None);
    assert_eq!(
        last.stands(),
        (Some(Reason::OutcomeUnknown), Some(Standing::Stalled))
    );
    // The next wish goes ahead.
    assert_eq!(
        due(&last.clone().spec(|s| s.power = Some(Power::On))),
        Some((HostAction::Start, 1))
    );
    assert_eq!(
        last.spec(|s| s.power = None).written().reason(),
        Some(Reason::Available)
    );
}

#[test]
fn a_start_or_stop_that_another_process_noted_is_looked_for_and_never_sent_again() {
    let window = secs(30);
    for age in [60, 3_600, 5 * 86_400] {
        let noted = |since| {
            let case = noted(HostAction::Stop, 1, since).status(|s| {
                let last = s.power.as_mut().unwrap().last.as_mut().unwrap();
                (last.started_at, last.send_by) = (WALL - age, WALL - age + 30);
            });
            case.recalled()
        };
        // Whether it is about to be sent, or may still show: whoever switched the host on since is not overruled.
        for since in [NOW, NOW - secs(10), NOW - secs(2) - window, NOW - secs(500)] {
            let case = noted(since);
            assert_eq!(
                (due(&case), case.reason()),
                (None, Some(Reason::OutcomeUnknown)),
                "{age} {since:?}"
            );
        }
        let late = noted(NOW - secs(602) - window).written();
        assert_eq!(
            (due(&late), late.stands()),
            (
                None,
                (Some(Reason::OutcomeUnknown), Some(Standing::Stalled))
            )
        );
        assert!(late.power_status().last.unwrap().given_up);
        let seen = noted(NOW - secs(2) - window).shown(|h| h.status = "stopped".into());
        assert_eq!(seen.written().reason(), Some(Reason::Available));
    }
    // Another lease, and this process is another one, too.
    let sent = lost(HostAction::Stop, 1, NOW - secs(2));
    assert_eq!(due(&sent), Some((HostAction::Stop, 2)));
    let anew = sent.facts(|f| f.subject.acting_since = NOW - secs(2));
    assert_eq!(due(&anew.recalled()), None);
    // Its own is not sent for ever.
    assert_eq!(
        due(&lost(HostAction::Stop, 1, NOW - secs(602)).written()),
        None
    );
}

#[test]
fn a_lost_stop_is_not_sent_again_when_the_host_was_installed_in_between() {
    let lost = lost(HostAction::Stop, 1, NOW - secs(2));
    let during = lost.shown(|h| h.install_status = InstallStatus::Installing);
    let during = during.written();
    assert!(during.power_status().last.unwrap().given_up);
    // It switched the host on.
    let after = during.shown(|h| h.install_status = InstallStatus::Finished);
    assert_eq!(due(&after.written()), None);
    let own = self::lost(HostAction::Stop, 1, NOW - secs(2)).installs(1);
    let own = own.written();
    assert!(matches!(own.effect(), Some(Effect::Install(_))));
    assert!(own.power_status().last.unwrap().given_up);
}

#[test]
fn a_restart_that_was_not_sent_is_not_lost_by_a_later_wish_for_power() {
    let not_sent = answered(HostAction::Restart, CommandOutcome::NotSent).written();
    let edited = not_sent.spec(|s| s.power = Some(Power::Off));
    let Some(Effect::Command(new)) = edited.effect() else {
        panic!("nothing is due");
    };
    assert_eq!((new.action, new.attempts), (HostAction::Restart, 2));
    let mut sent = command(&edited, HostAction::Restart, 2);
    (sent.attempt, sent.outcome) = ("c2".into(), Some(CommandOutcome::Accepted));
    let noted = sent.clone();
    let done = edited
        .clone()
        .status(|s| s.power.as_mut().unwrap().last = Some(noted));
    assert_eq!(due(&done.written()), Some((HostAction::Stop, 1)));
    // Who takes the word out asks for no restart any more.
    let out = edited.spec(|s| s.restart_token = None);
    assert_eq!(due(&out), Some((HostAction::Stop, 1)));
}

#[test]
fn a_restart_is_never_repeated_on_doubt() {
    let doubt = lost(HostAction::Restart, 1, secs(9_000)).written();
    assert_eq!(due(&doubt), None);
    assert_eq!(
        doubt.stands(),
        (Some(Reason::OutcomeUnknown), Some(Standing::Stalled))
    );
    assert!(doubt.message().contains("spec.restartToken"));
    let next = doubt.clone().spec(|s| s.restart_token = Some("t2".into()));
    assert_eq!(due(&next), Some((HostAction::Restart, 1)));
    let out = doubt.spec(|s| s.restart_token = None);
    assert_eq!(out.reason(), Some(Reason::Available));
    // What certainly was not sent is no repetition.
    let not_sent = answered(HostAction::Restart, CommandOutcome::NotSent).written();
    assert_eq!(due(&not_sent), Some((HostAction::Restart, 2)));
}

#[test]
fn what_was_refused_is_told_until_the_wish_changes() {
    let refused = answered(HostAction::Stop, CommandOutcome::Refused).written();
    assert_eq!(
        refused.stands(),
        (Some(Reason::RequestRefused), Some(Standing::Stalled))
    );
    assert_eq!(due(&refused), None);
    assert_eq!(
        due(&refused.spec(|s| s.power = Some(Power::On))),
        Some((HostAction::Start, 1))
    );
}

#[test]
fn what_changed_in_between_sends_no_command() {
    let case = wish(Power::Off);
    let Some(Effect::Command(new)) = case.effect() else {
        panic!("nothing is due");
    };
    assert!(power::may_start(&case.0, &new).is_some());
    // Another operator noted the same wish while this one looked at an older form of the object.
    for change in [
        (|p: &mut HostPowerStatus| p.wish = Some(Power::Off)) as fn(&mut HostPowerStatus),
        |p| p.uid = "uid-0".into(),
    ] {
        let overtaken = case.clone().status(|s| change(s.power.as_mut().unwrap()));
        assert_eq!(power::may_start(&overtaken.0, &new), None);
    }
    let token = Case::known().spec(|s| s.restart_token = Some("t1".into()));
    let Some(Effect::Command(restart)) = token.effect() else {
        panic!("nothing is due");
    };
    let overtaken = token.status(|s| s.power.as_mut().unwrap().restart_token = Some("t1".into()));
    assert_eq!(power::may_start(&overtaken.0, &restart), None);
    let noted = attempt::command(&new, "c1".into(), (case.0.subject.now, secs(30)));
    let case = case.status(|s| s.power.as_mut().unwrap().last = Some(noted.clone()));
    assert!(power::may_send(&case.0, &new, &noted));
    let installing = record(&case, 1, "a1");
    for (what, changed) in [
        ("the wish", case.clone().spec(|s| s.power = Some(Power::On))),
        (
            "suspended",
            case.clone()
                .facts(|f| f.is_namespace_suspended = Some(true)),
        ),
        (
            "not granted",
            case.clone().terms(Terms::Entry(Arc::default())),
        ),
        (
            "edited",
            case.clone().object(|o| o.metadata.generation = Some(2)),
        ),
        (
            "installed",
            case.clone().status(|s| {
                s.install.as_mut().unwrap().last = Some(installing.clone());
            }),
        ),
        (
            "another attempt",
            case.clone().status(|s| {
                s.power.as_mut().unwrap().last.as_mut().unwrap().attempt = "c2".into();
            }),
        ),
    ] {
        assert!(!power::may_send(&changed.0, &new, &noted), "{what}");
    }
}
