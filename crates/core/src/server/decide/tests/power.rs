//! `spec.power`: one command for each change.

use super::{existing::with_status, *};
use crate::{
    power::KnownCommand as Known,
    server::{decide::power, memory::ServerObservation},
};
use api::{
    command::PowerAction,
    power::{Power, PowerCommandStatus, PowerRecord, PowerState},
};
use serde_json::json;

/// A delivered server without `spec.power`, observed before.
fn delivered() -> Case {
    written(with_status(ServerStatus::Delivered))
}

fn wishes(case: Case, desired: Option<Power>) -> Case {
    case.spec(|s| s.power = desired)
}

fn decided_power(decision: &ServerDecision) -> Option<PowerRecord> {
    decision.desired.status.records.power.clone()
}

/// The decided status is written.
fn written(case: Case) -> Case {
    let power = decided_power(&case.decide());
    case.object(|o| o.status.as_mut().unwrap().records.power = power)
}

fn command(case: &Case) -> Option<PowerCommandStatus> {
    decided_power(&case.decide())?.command
}

fn created(case: Case) -> Case {
    let Some(ServerEffect::Command { name, .. }) = case.decide().effect else {
        panic!("nothing is created: {:?}", case.decide());
    };
    let now = case.0.now.mono;
    case.memory(|m| m.record_observation(ServerObservation::Commanded(name), now))
}

/// The command of its last change was not executed.
pub(super) fn unswitched() -> Case {
    let sent = written(created(written(wishes(
        delivered(),
        Some(Power::PoweredOff),
    ))));
    sent.facts(|f| f.power = Known::Ended(false, "CommandFailed".into()))
}

#[test]
fn first_observation_sends_no_power_command() {
    let first = wishes(
        with_status(ServerStatus::Delivered),
        Some(Power::PoweredOff),
    );
    let decision = first.decide();
    assert_eq!(decision.effect, None);
    let power = decided_power(&decision).unwrap();
    assert_eq!(power.desired, Some(Power::PoweredOff));
    assert_eq!(power.command, None);
    let recorded = written(first);
    assert_eq!(recorded.decide().effect, None);
    assert_eq!(decided_power(&recorded.decide()), Some(power));
    // Its status was lost, or it has another server now.
    let another = written(wishes(delivered(), Some(Power::PoweredOff))).object(|o| {
        let status = o.status.as_mut().unwrap();
        status.records.power.as_mut().unwrap().target = uuid(9);
    });
    assert_eq!(command(&another), None);
    let on_its_way = wishes(
        with_status(ServerStatus::Provisioning),
        Some(Power::PoweredOff),
    );
    assert_eq!(decided_power(&on_its_way.decide()), None);
    let none = decided_power(&delivered().decide()).unwrap();
    assert_eq!(
        (none.desired, none.command),
        (None, None),
        "to set one is a change"
    );
}

/// Its timeout may pass in read-only mode.
#[test]
fn unsent_command_is_replaced_after_read_only_mode() {
    let changed = written(wishes(delivered(), Some(Power::PoweredOff)));
    let first = command(&changed).unwrap().name;
    let waits = written(created(changed)).memory(|m| m.power_command = None);
    let read_only = |known: Known| {
        waits.clone().facts(|f| {
            f.power = known;
            f.read_only = true;
        })
    };
    assert!(command(&read_only(Known::Running)).is_some());
    let after = written(read_only(Known::Unsent));
    assert_eq!((command(&after), after.decide().effect), (None, None));
    let synced = after.decide().desired.condition(Type::Synced).cloned();
    assert_eq!(synced.unwrap().reason, Reason::ReadOnly);
    let again = after.facts(|f| {
        (f.read_only, f.power) = (false, Known::Missing);
        f.now.wall += 3600;
    });
    let again = written(again);
    assert_ne!(command(&again).unwrap().name, first);
    assert!(matches!(
        again.decide().effect,
        Some(ServerEffect::Command { .. })
    ));
}

/// A command is unsent only if its records say so.
#[test]
fn command_without_status_may_have_been_sent() {
    let known = |metadata: serde_json::Value, sent: serde_json::Value| {
        let mut object = json!({
            "apiVersion": "flexmetal.dev/v1alpha1", "kind": "ServerCommand",
            "metadata": {"name": "web-off", "uid": "c", "ownerReferences": [{
                "apiVersion": "flexmetal.dev/v1alpha1", "kind": "BareMetalServer", "name": "web", "uid": "u",
            }]},
            "spec": {"targetRef": {"name": "web"}, "action": "PowerOff"},
            "status": {"records": {"sent": sent}},
        });
        object["metadata"]["annotations"] = metadata;
        let command = serde_json::from_value(object).unwrap();
        Known::from_command(Some("u"), Some(Some(command)))
    };
    let record = |outcome: &str| {
        json!([{
            "uid": "c", "action": "PowerOff", "server": "m", "attempt": "a",
            "startedAt": "1970-01-01T00:16:40Z", "sendBy": "1970-01-01T00:17:10Z", "listed": {},
            "account": {
                "kind": "ProviderAccount", "name": "default", "uid": "x", "accountID": "l", "credentialsHash": "c",
            },
            "outcome": outcome,
        }])
    };
    let annotated = json!({"flexmetal.dev/command": "{}"});
    for (annotations, sent, expected) in [
        (json!({}), json!([]), Known::Unsent),
        (annotated.clone(), json!([]), Known::Running),
        (annotated.clone(), record("NotSent"), Known::Unsent),
        (annotated, record("Accepted"), Known::Running),
    ] {
        assert_eq!(
            known(annotations.clone(), sent.clone()),
            expected,
            "{annotations} {sent}"
        );
    }
}

#[test]
fn power_change_is_recorded_then_commanded_once() {
    let changed = wishes(delivered(), Some(Power::PoweredOff));
    assert_eq!(changed.decide().effect, None, "not before it is on record");
    assert_eq!(changed.decide().requeue_once_written, Requeue::Now);
    let changed = written(changed);
    let command_of = command(&changed).unwrap();
    assert_eq!(command_of.state, PowerState::Recorded);
    let due = ServerEffect::Command {
        name: command_of.name.clone(),
        action: PowerAction::PowerOff,
    };
    assert_eq!(changed.decide().effect, Some(due.clone()));
    assert!(power::may_create(&changed.0, &command_of.name));
    // Time passes, and it is still the same command.
    let later = changed.clone().facts(|f| f.now.wall += 50);
    assert_eq!(later.decide().effect, Some(due));
    let created = created(changed);
    assert_eq!(created.decide().effect, None);
    let state = |case: &Case| command(case).unwrap().state;
    assert_eq!(state(&created), PowerState::Created);
    let created = written(created);
    assert!(!power::may_create(&created.0, &command_of.name));
    // The next process does not need this memory.
    let next = created.memory(|m| m.power_command = None);
    assert_eq!(next.decide().effect, None);
    for (known, expected) in [
        (Known::NotRead, PowerState::Created),
        (Known::Running, PowerState::Created),
        (Known::Unsent, PowerState::Created),
        (Known::Missing, PowerState::Deleted),
        (Known::Ended(true, "Completed".into()), PowerState::Complete),
        (
            Known::Ended(false, "CommandFailed".into()),
            PowerState::Failed,
        ),
    ] {
        let seen = next.clone().facts(|f| f.power = known.clone());
        assert_eq!(state(&seen), expected, "{known:?}");
        assert_eq!(seen.decide().effect, None);
    }
    let failed = next.facts(|f| f.power = Known::Ended(false, "CommandFailed".into()));
    let decision = failed.decide();
    let synced = decision.desired.condition(Type::Synced).unwrap();
    assert_eq!(
        (synced.status, synced.reason),
        (Some(false), Reason::CommandFailed)
    );
}

#[test]
fn every_change_counts_once() {
    let off = written(created(written(wishes(
        delivered(),
        Some(Power::PoweredOff),
    ))));
    let name = command(&off).unwrap().name;
    let is_new = |case: Case| {
        let case = case.facts(|f| f.now.wall += 7);
        command(&case).is_some_and(|c| c.name != name)
    };
    assert!(!is_new(off.clone()));
    assert!(is_new(wishes(off.clone(), Some(Power::PoweredOn))));
    let unset = written(wishes(off, None));
    assert_eq!(command(&unset), None);
    assert!(is_new(wishes(unset, Some(Power::PoweredOff))), "set again");
}

#[test]
fn suspended_or_outdated_power_change_sends_nothing() {
    let suspended = wishes(delivered(), Some(Power::PoweredOff)).spec(|s| s.suspend = Some(true));
    assert_eq!(command(&suspended), None);
    let synced = |case: &Case| {
        case.decide()
            .desired
            .condition(Type::Synced)
            .unwrap()
            .reason
    };
    assert_eq!(synced(&suspended), Reason::PendingChanges);
    let recorded = written(wishes(delivered(), Some(Power::PoweredOff)));
    let name = command(&recorded).unwrap().name;
    let blocked = recorded.clone().spec(|s| s.suspend = Some(true));
    assert_eq!(blocked.decide().effect, None);
    assert_eq!(synced(&blocked), Reason::PendingChanges);
    assert!(!power::may_create(&blocked.0, &name));
    assert!(!power::may_create(&recorded.clone().deleting().0, &name));
    assert!(!power::may_create(&recorded.0, "another"));
    // A change that was blocked for more than a day is recorded again.
    let gone = |f: &mut ServerFacts| {
        f.now.wall += 90_000;
        f.power = Known::Missing;
    };
    let blocked = written(blocked.facts(gone));
    assert_eq!(
        (command(&blocked), synced(&blocked)),
        (None, Reason::PendingChanges)
    );
    let lifted = written(blocked.spec(|s| s.suspend = None));
    assert_eq!(command(&lifted).unwrap().state, PowerState::Recorded);
    let reversed = wishes(recorded.clone(), Some(Power::PoweredOn));
    assert!(
        !power::may_create(&reversed.0, &name),
        "another wish by now"
    );
    let old = recorded.clone().facts(|f| f.now.wall += 86_401);
    assert!(!power::may_create(&old.0, &name));
    // After a day the change is outdated. The command may exist, so it is searched for first.
    let late = recorded.clone().facts(|f| f.now.wall += 86_401);
    assert_eq!(late.decide().effect, None);
    assert_eq!(command(&late).unwrap().state, PowerState::Recorded);
    let late = late.facts(|f| f.power = Known::Missing);
    assert_eq!(late.decide().effect, None);
    assert_eq!(command(&late).unwrap().state, PowerState::NotCreated);
}

#[test]
fn power_command_of_restored_object_is_not_sent() {
    let recorded = written(wishes(delivered(), Some(Power::PoweredOff)));
    assert!(command(&recorded).is_some());
    let restored = recorded.object(|o| {
        let order = o.status.as_mut().unwrap().records.order.as_mut().unwrap();
        order.uid = "uid-0".into();
    });
    let adopted = restored
        .written()
        .order(|record| record.outcome = Some(OrderOutcome::Created));
    assert_eq!(command(&adopted), None);
}
