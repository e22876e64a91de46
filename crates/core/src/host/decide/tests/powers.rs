//! Each change of `spec.power` creates one ServerCommand.

use super::*;
use crate::explanation::ReadyState;
use crate::resolved_account::suspend_view;

/// The command that is to be created.
fn due(case: &Case) -> Option<PowerAction> {
    match case.effect() {
        Some(HostEffect::Power { action, .. }) => Some(action),
        _ => None,
    }
}

pub(super) fn case_with_power(power: Power) -> Case {
    Case::known().spec(|s| s.power = Some(power))
}

/// The command for `power` was created, and `known` is its state.
pub(super) fn commanded(power: Power, known: KnownCommand) -> Case {
    let recorded = case_with_power(power).written();
    let Some(HostEffect::Power { name, .. }) = recorded.effect() else {
        panic!("nothing is created: {:?}", recorded.decide());
    };
    let created = recorded.own(|own| own.record_observation(HostObservation::Powered(name)));
    created.written().facts(|f| f.power = known)
}

fn last(case: &Case) -> PowerCommandStatus {
    case.power_record().command.unwrap()
}

#[test]
fn power_change_is_recorded_then_commanded() {
    let changed = case_with_power(Power::PoweredOff);
    assert_eq!(changed.effect(), None, "not before it is on record");
    assert!(changed.decide().requeue_once_written);
    let recorded = changed.written();
    assert_eq!(due(&recorded), Some(PowerAction::PowerOff));
    assert_eq!(last(&recorded).state, PowerState::Recorded);
    let name = last(&recorded).name;
    assert!(power::may_create(&recorded.0, &name));
    assert!(!power::may_create(&recorded.0, "another"));
    let running = commanded(Power::PoweredOff, KnownCommand::Running);
    assert_eq!(due(&running), None);
    assert_eq!(
        running.reason_and_state(),
        (Some(Reason::Progressing), Some(ReadyState::Reconciling))
    );
    // The same in a new process without memory.
    let next = running.own(|own| *own = HostMemory::default()).written();
    assert_eq!((due(&next), last(&next).state), (None, PowerState::Created));
    let done = commanded(
        Power::PoweredOff,
        KnownCommand::Ended(true, "Completed".into()),
    );
    let done = done.list(NOW + secs(1), &[host()]).written();
    assert_eq!((due(&done), done.reason()), (None, Some(Reason::Available)));
    let done = done.facts(|f| f.power = KnownCommand::NotRead);
    // Removing the field and setting it again is a change.
    let out = done.clone().spec(|s| s.power = None).written();
    // The API server counts each change.
    let out = out.object(|o| o.metadata.generation = Some(3));
    let again = out.spec(|s| s.power = Some(Power::PoweredOff)).written();
    assert_eq!(due(&again), Some(PowerAction::PowerOff));
    let turned = done.spec(|s| s.power = Some(Power::PoweredOn)).written();
    assert_eq!(due(&turned), Some(PowerAction::PowerOn));
}

#[test]
fn unsent_command_is_withdrawn_in_read_only_mode() {
    let unsent = commanded(Power::PoweredOff, KnownCommand::Unsent);
    assert_eq!(last(&unsent).state, PowerState::Created);
    let read_only = unsent.facts(|f| f.subject.read_only = true).written();
    assert_eq!(read_only.power_record().command, None);
    let after = read_only.facts(|f| {
        (f.subject.read_only, f.power) = (false, KnownCommand::Missing);
        f.subject.now.wall += 3600;
    });
    assert_eq!(due(&after.written()), Some(PowerAction::PowerOff));
}

#[test]
fn failed_power_is_reported_until_changed() {
    let failed = commanded(
        Power::PoweredOff,
        KnownCommand::Ended(false, "OutcomeUnknown".into()),
    );
    let failed = failed.list(NOW + secs(1), &[host()]).written();
    assert_eq!(
        failed.reason_and_state(),
        (Some(Reason::CommandFailed), Some(ReadyState::Stalled))
    );
    assert_eq!(due(&failed), None);
    let out = failed.spec(|s| s.power = None).written();
    assert_eq!(out.reason(), Some(Reason::Available));
}

#[test]
fn command_end_is_reported_with_newer_list() {
    let running = commanded(Power::PoweredOff, KnownCommand::Running).written();
    assert!(running.0.hosts().is_some());
    let done = running.facts(|f| f.power = KnownCommand::Ended(true, "Completed".into()));
    let done = done.refreshed();
    assert_eq!(done.decide().wants, Some((ListKind::Hosts, NOW)));
    let done = done.written();
    assert_eq!(last(&done).state, PowerState::Created);
    let mut stopped = host();
    stopped.status = "stopped".into();
    let seen = done.list(NOW, &[stopped]).written();
    assert_eq!(last(&seen).state, PowerState::Complete);
    assert!(seen.message().contains("stopped"), "{}", seen.message());
}

#[test]
fn installation_precedes_the_power_change() {
    let case = sent(1, Some(CommandOutcome::Accepted)).spec(|s| s.power = Some(Power::PoweredOff));
    let runs = case
        .shown(|h| h.install_status = InstallStatus::Installing)
        .written();
    assert_eq!(due(&runs), None);
    assert_eq!(
        runs.power_record().desired,
        None,
        "it is heard when that is over"
    );
    let others =
        case_with_power(Power::PoweredOff).shown(|h| h.install_status = InstallStatus::Created);
    assert_eq!(
        (due(&others), others.reason()),
        (None, Some(Reason::Reinstalling))
    );
}

#[test]
fn install_blockers_also_block_power() {
    for (case, reason) in [
        (
            case_with_power(Power::PoweredOff).spec(|s| s.suspend = Some(true)),
            Reason::Suspended,
        ),
        (
            case_with_power(Power::PoweredOff)
                .spec(|s| s.management_policy = Some(ManagementPolicy::ObserveOnly)),
            Reason::ObserveOnly,
        ),
    ] {
        assert_eq!((case.effect(), case.reason()), (None, Some(reason)));
        assert_eq!(
            case.decide().status.records.power.unwrap().desired,
            None,
            "the wish stays"
        );
    }
    // The command is recorded but not created yet.
    let recorded = case_with_power(Power::PoweredOff).written();
    let suspended = recorded.spec(|s| s.suspend = Some(true));
    assert_eq!(
        (suspended.effect(), suspended.reason()),
        (None, Some(Reason::Suspended))
    );
}

#[test]
fn what_changed_in_between_creates_no_command() {
    let recorded = case_with_power(Power::PoweredOff).written();
    let name = last(&recorded).name;
    let installing = record(&recorded, 1, "a1");
    for (what, changed) in [
        (
            "the wish",
            recorded.clone().spec(|s| s.power = Some(Power::PoweredOn)),
        ),
        (
            "suspended",
            recorded.clone().view(|v| {
                suspend_view(
                    v,
                    Some("the account is stopped; ask for the end of it".into()),
                )
            }),
        ),
        (
            "installed",
            recorded.clone().status(|s| {
                s.records.install.as_mut().unwrap().last = Some(installing.clone());
            }),
        ),
        (
            "a status of an earlier object",
            recorded
                .clone()
                .object(|o| o.metadata.uid = Some("uid-2".into())),
        ),
    ] {
        assert!(!power::may_create(&changed.0, &name), "{what}");
    }
}

#[test]
fn installation_waits_for_running_command() {
    for commands in [
        RunningCommand::NotListed,
        RunningCommand::Command("off".into()),
    ] {
        let case = Case::known()
            .installs(1)
            .facts(|f| f.commands = commands.clone());
        assert_eq!(
            (case.effect(), case.reason()),
            (None, Some(Reason::Queued)),
            "{commands:?}"
        );
        assert_eq!(case.written().install_status().performed(), 0);
    }
}

#[test]
fn install_waits_for_power_of_same_edit() {
    let late = |case: Case| case.view(|v| v.catalogue = None);
    // The list of systems is missing, so power is recorded first.
    let both = late(case_with_power(Power::PoweredOff).installs(1)).written();
    assert_eq!(due(&both), Some(PowerAction::PowerOff));
    let listed = |case: Case| {
        let catalogue = Case::new().0.subject.view().unwrap().catalogue.clone();
        case.view(|v| v.catalogue = catalogue)
    };
    let recorded = listed(both);
    assert_eq!(due(&recorded), Some(PowerAction::PowerOff));
    assert_eq!(recorded.reason(), Some(Reason::Queued));
    let name = last(&recorded).name;
    let created = recorded
        .own(|own| own.record_observation(HostObservation::Powered(name)))
        .written();
    assert_eq!(
        (created.effect(), created.reason()),
        (None, Some(Reason::Queued))
    );
    let over = created.facts(|f| f.power = KnownCommand::Ended(true, "Completed".into()));
    let over = over.list(NOW + secs(1), &[host()]).written();
    assert!(
        matches!(over.effect(), Some(HostEffect::Install(_))),
        "{:?}",
        over.decide()
    );
}

#[test]
fn no_host_changes_in_read_only_mode() {
    let read_only = |case: Case| case.facts(|f| f.subject.read_only = true);
    let switched = case_with_power(Power::PoweredOff);
    let recorded = switched.0.subject.status().records.power;
    assert_ne!(switched.decide().status.records.power, recorded);
    let installed = Case::known().installs(5);
    for (case, words) in [(switched, "switched off"), (installed, "installed")] {
        let case = read_only(case);
        assert_eq!(
            (case.effect(), case.reason()),
            (None, Some(Reason::ReadOnly))
        );
        assert!(case.message().contains(words), "{}", case.message());
        assert_eq!(
            case.decide().status.records,
            case.0.subject.status().records
        );
    }
}
