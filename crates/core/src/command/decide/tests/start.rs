//! Tests: when a command is sent, and when it is not.

use super::*;
use crate::{
    command::facts::{add, is_under_way, last_sent_record},
    provider_commands::{FIRST_PAGES, MOST_PAGES},
};
use api::server::{BareMetalServerStatus, OrderOutcome};

#[test]
fn command_is_sent_only_to_a_ready_server() {
    let waits = |reason| (None, Some(reason), None);
    let fails = |reason| (None, Some(reason), Some(false));
    let due = (Some("send"), Some(Reason::Progressing), None);
    let missing = reboot().facts(|f| f.target = TargetFact::Missing);
    let unreadable = reboot().facts(|f| f.target = TargetFact::Unreadable("no".into()));
    let word = |word: &'static str| {
        reboot().server(move |s| s.status.as_mut().unwrap().provider_status = Some(word.into()))
    };
    let behind = reboot().facts(|f| f.is_first = false);
    let busy = reboot().own(|own| {
        own.record_observation(CommandObservation::Busy(
            Reason::Queued,
            "it runs another".into(),
            NOW,
        ))
    });
    let was_busy = reboot().own(|own| {
        own.record_observation(CommandObservation::Busy(
            Reason::Queued,
            "it runs another".into(),
            NOW - secs(30),
        ));
    });
    let observed = reboot().server(|s| {
        s.spec.management_policy = Some(ManagementPolicy::ObserveOnly);
    });
    let suspended = reboot().stopped();
    let suspended = suspended.server(|s| s.spec.suspend = Some(false));
    for (what, case, expected) in [
        ("all is well", reboot(), due),
        ("no server", missing, waits(Reason::ReferenceNotFound)),
        (
            "one that cannot be read",
            unreadable,
            waits(Reason::ChecksFailed),
        ),
        (
            "not delivered",
            word("created"),
            waits(Reason::ReferenceNotReady),
        ),
        (
            "released by others",
            word("released"),
            waits(Reason::ReferenceNotReady),
        ),
        (
            "being deleted",
            reboot().server(|s| s.metadata.deletion_timestamp = moment(WALL)),
            fails(Reason::Superseded),
        ),
        ("only looked at", observed, waits(Reason::ObserveOnly)),
        (
            "suspended",
            reboot().server(|s| s.spec.suspend = Some(true)),
            waits(Reason::Suspended),
        ),
        (
            "stopped at the account, whatever the server says",
            suspended,
            waits(Reason::Suspended),
        ),
        ("behind another one", behind, waits(Reason::Queued)),
        ("a busy machine", busy, waits(Reason::Queued)),
        ("without its tag", untagged(), waits(Reason::TagsMissing)),
        ("it was busy", was_busy, due),
        ("too late", reboot().late(), fails(Reason::CommandFailed)),
        ("deleted", reboot().deleted(), (None, None, None)),
    ] {
        assert_eq!(case.short(), expected, "{what}");
    }
}

#[test]
fn account_is_in_status_before_the_send() {
    let other = reboot().server(|s| {
        let account = s.status.as_mut().unwrap().account_ref.as_mut().unwrap();
        account.name = "other".into();
    });
    let decision = other.decide();
    assert_eq!(decision.effect, None);
    assert!(decision.requeue_once_written);
    assert_eq!(decision.status.account_ref.unwrap().name, "other");
}

#[test]
fn command_applies_only_to_its_first_server() {
    let first = reboot().object(|o| o.status = None).server(|s| {
        s.status.as_mut().unwrap().uuid = None;
    });
    let decision = first.decide();
    assert_eq!(
        (decision.effect, decision.requeue_once_written),
        (None, true)
    );
    let seen = decision.status.records.target.clone().unwrap();
    assert_eq!((seen.uid.as_str(), &seen.server), ("server-1", &None));
    // The object's first server is the one, once the object has it.
    let later = reboot()
        .object(|o| o.status = Some(decision.status))
        .decide();
    assert!(later.requeue_once_written);
    assert_eq!(
        later.status.records.target.unwrap().server.as_deref(),
        Some(SERVER_UUID)
    );
    let over = (None, Some(Reason::Superseded), Some(false));
    let again = reboot().server(|s| s.metadata.uid = Some("server-2".into()));
    assert_eq!(again.short(), over);
    let replaced = reboot().server(|s| {
        s.status.as_mut().unwrap().uuid = Some("00000000-0000-4000-8000-000000000002".into());
    });
    assert_eq!(replaced.short(), over);
    // A server that is missing for now is not another one.
    let none = reboot().server(|s| s.status.as_mut().unwrap().uuid = None);
    assert_eq!(none.short().1, Some(Reason::ReferenceNotReady));
}

#[test]
fn copied_or_restored_command_is_not_sent() {
    let fails = (None, Some(Reason::NotRepeated), Some(false));
    let mut other = attempt(PowerAction::Reboot, "a1", 9);
    other.intent.uid = "uid-0".into();
    let copy = reboot().sent(&[other]);
    assert_eq!(copy.short(), fails);
    let restored = copy.object(|o| o.status = None);
    assert_eq!(restored.short(), fails);
    let invalid = reboot().with_annotation("?");
    assert_eq!(invalid.short(), fails);
    // The object lost its status: the intent in the annotation may have been sent.
    let text = serde_json::to_string(&attempt(PowerAction::Reboot, "a1", 9).intent).unwrap();
    let lost = reboot().with_annotation(&text).object(|o| o.status = None);
    assert_eq!(lost.short(), fails);
    assert!(!needs_target(&lost.0) && lost.decide().status.records.sent.is_empty());
}

/// The command and its server come from a backup without status, as from a Git repository.
#[test]
fn command_older_than_an_adoption_is_not_sent() {
    let fails = (None, Some(Reason::NotRepeated), Some(false));
    let due = (Some("send"), Some(Reason::Progressing), None);
    let with_record = |nonce: &'static str, at: i64| {
        reboot().server(move |s| {
            let order = s.status.as_mut().unwrap().records.order.as_mut().unwrap();
            (order.nonce, order.outcome_at) = (nonce.into(), Some(at));
        })
    };
    let adopted = || with_record("", WALL - 1);
    let of_another = adopted().changed_server(|s| {
        let order = s.status.as_mut().unwrap().records.order.as_mut().unwrap();
        order.uid = "server-0".into();
    });
    let waits = (None, Some(Reason::ReferenceNotReady), None);
    let name = reboot().0.subject.object.metadata.name.clone();
    let power = of_power(name.as_deref()).changed_server(|s| {
        let order = s.status.as_mut().unwrap().records.order.as_mut().unwrap();
        (order.nonce, order.outcome_at) = (String::new(), Some(WALL - 1));
    });
    // The command was created at WALL - 60.
    for (what, case, expected) in [
        ("adopted later", with_record("", WALL - 1), fails),
        ("adopted in that second", with_record("", WALL - 60), fails),
        ("adopted before", with_record("", WALL - 61), due),
        ("by a clock ahead", with_record("", WALL + 3600), due),
        ("ordered later", with_record("a", WALL - 1), due),
        ("the record of another object", of_another, waits),
        ("by spec.power of this object", power, due),
    ] {
        assert_eq!(case.short(), expected, "{what}");
        if let Some(CommandEffect::Send(new)) = reboot().decide().effect {
            assert_eq!(may_send(&case.0, &new), expected == due, "{what}");
        }
    }
}

/// A command that waited would fail later: nothing tells a new one from a restored one.
#[test]
fn command_before_an_adoption_fails_at_once() {
    let fails = (None, Some(Reason::NotRepeated), Some(false));
    let waits = (None, Some(Reason::ReferenceNotReady), None);
    let without_record = |change: fn(&mut BareMetalServer)| {
        reboot().object(|o| o.status = None).server(move |s| {
            let status = s.status.as_mut().unwrap();
            (status.uuid, status.records.order) = (None, None);
            change(s);
        })
    };
    let imported = without_record(|s| s.spec.external_id = Some(SERVER_UUID.into()));
    let asked = without_record(|s| {
        let pending = json!({
            "token": "t", "effect": "Adopt", "subject": "it", "since": "2026-01-01T00:00:00Z",
        });
        let pending = serde_json::from_value(pending).unwrap();
        s.status.as_mut().unwrap().pending_acknowledgements = vec![pending];
    });
    let adopting = reboot().server(|s| {
        let order = s.status.as_mut().unwrap().records.order.as_mut().unwrap();
        (order.nonce, order.outcome) = (String::new(), Some(OrderOutcome::Adopting));
    });
    for (what, case) in [
        ("imported", imported),
        ("asked", asked),
        ("adopting", adopting),
    ] {
        assert_eq!(case.short(), fails, "{what}");
    }
    let ordering = without_record(|_| {});
    let seen = ordering.decide().status;
    let ordering = ordering.object(|o| o.status = Some(seen));
    assert_eq!(ordering.short(), waits);
    let message = ordering.decide().explanation.unwrap().message;
    assert!(
        message.contains("when one is ordered and delivered"),
        "{message}"
    );
}

#[test]
fn attempt_only_in_annotation_is_ignored() {
    // Nothing is sent before status shows the attempt: this one ended between the two writes, or is forged.
    let text = serde_json::to_string(&attempt(PowerAction::Reboot, "a1", 9).intent).unwrap();
    let annotated = reboot().with_annotation(&text);
    assert_eq!(annotated.short().0, Some("send"));
    assert!(annotated.decide().status.records.sent.is_empty());
    assert!(annotated.0.open_attempt().is_none());
    assert!(!is_under_way(&annotated.0.subject.object));
    // If status shows a record, the annotation does not count either, whatever is in it.
    let sent = reboot().sent(&[accepted(PowerAction::Reboot, "pending", 9)]);
    for text in [
        "?".to_owned(),
        text.replace("uid-1", "uid-0"),
        text.replace(SERVER_UUID, "other"),
    ] {
        let forged = sent.clone().with_annotation(&text);
        assert_eq!(forged.short(), sent.short());
        assert_eq!(
            forged.decide().status.records.sent,
            sent.decide().status.records.sent
        );
    }
    let due = shutdown(300).sent(&[accepted(PowerAction::Shutdown, "pending", 300)]);
    assert_eq!(due.with_annotation("?").short().0, Some("send power-off"));
}

#[test]
fn unsent_attempts_are_skipped_and_dropped() {
    let outcome = |outcome, name| CommandRecord {
        outcome: Some(outcome),
        ..attempt(PowerAction::PowerOff, name, 5)
    };
    let shut = accepted(PowerAction::Shutdown, "pending", 90);
    let unsent = outcome(CommandOutcome::NotSent, "a2");
    let refused = outcome(CommandOutcome::Refused, "a3");
    let records = [shut.clone(), unsent.clone()];
    assert_eq!(last_sent_record(&records, "uid-1"), Some(&shut));
    assert_eq!(last_sent_record(&records, "uid-0"), None);
    let case = shutdown(300).sent(&records);
    assert_eq!(case.decide().status.command_id, shut.id);
    for (records, under_way) in [
        (vec![unsent.clone()], false),
        (vec![refused.clone()], false),
        (vec![shut.clone(), unsent], true),
        (vec![shut.clone(), refused.clone()], false),
    ] {
        let case = shutdown(300).sent(&records);
        assert_eq!(
            is_under_way(&case.0.subject.object),
            under_way,
            "{records:?}"
        );
    }
    let mut many = vec![
        shut,
        refused.clone(),
        outcome(CommandOutcome::NotSent, "a4"),
    ];
    add(&mut many, attempt(PowerAction::PowerOff, "a5", 1));
    let names: Vec<&str> = many.iter().map(|r| r.intent.attempt.as_str()).collect();
    assert_eq!(names, ["a3", "a5"]);
}

#[test]
fn longer_command_list_gets_more_pages() {
    let pages = |case: &Case| match case.decide().effect {
        Some(CommandEffect::Send(new)) => new.pages,
        other => panic!("{other:?}"),
    };
    assert_eq!(pages(&reboot()), FIRST_PAGES);
    let mut case = reboot();
    for _ in 0..5 {
        let few = pages(&case);
        case = case.own(|own| own.record_observation(CommandObservation::Longer(few)));
    }
    assert_eq!(pages(&case), MOST_PAGES);
    let effect = case.decide().effect.unwrap();
    assert_eq!(
        crate::command::decide::permit_for(&effect).unwrap().1,
        MOST_PAGES + 2
    );
    let open = attempt(PowerAction::Reboot, "a1", 9);
    let search = case.sent(&[open]).searched(30, None).decide().effect;
    assert!(matches!(
        search,
        Some(CommandEffect::Search {
            calls: MOST_PAGES,
            ..
        })
    ));
}

#[test]
fn recorded_command_needs_unchanged_server() {
    let decision = reboot().decide();
    let Some(CommandEffect::Send(new)) = decision.effect else {
        panic!("{decision:?}");
    };
    // The intent is recorded: a decision on it would search for the command.
    let recorded = |case: Case| case.sent(&[attempt(PowerAction::Reboot, "a1", 0)]);
    let may = |case: Case| may_send(&recorded(case).0, &new);
    let status = |change: fn(&mut BareMetalServerStatus)| {
        reboot().server(move |s| change(s.status.as_mut().unwrap()))
    };
    assert!(may(reboot()));
    for (what, case) in [
        ("late", reboot().late()),
        ("gone", reboot().facts(|f| f.target = TargetFact::Missing)),
        (
            "not read",
            reboot().facts(|f| f.target = TargetFact::Unreadable("no".into())),
        ),
        (
            "deleted",
            reboot().server(|s| s.metadata.deletion_timestamp = moment(WALL)),
        ),
        (
            "suspended",
            reboot().server(|s| s.spec.suspend = Some(true)),
        ),
        (
            "stopped at the account, whatever the server says",
            reboot().stopped(),
        ),
        (
            "another object",
            reboot().server(|s| s.metadata.uid = Some("server-2".into())),
        ),
        (
            "another machine",
            status(|s| s.uuid = Some("00000000-0000-4000-8000-000000000002".into())),
        ),
        ("no machine", status(|s| s.uuid = None)),
        (
            "not delivered",
            status(|s| s.provider_status = Some("releasing".into())),
        ),
        ("itself deleted", reboot().deleted()),
        (
            "another command has begun",
            reboot().facts(|f| f.is_first = false),
        ),
    ] {
        assert!(!may(case), "{what}");
    }
}

#[test]
fn target_is_needed_only_before_a_send() {
    let sent = |state: &str| reboot().sent(&[accepted(PowerAction::Reboot, state, 9)]);
    let shut = |ago| shutdown(300).sent(&[accepted(PowerAction::Shutdown, "pending", ago)]);
    let open = reboot().sent(&[attempt(PowerAction::Reboot, "a1", 9)]);
    for (what, case, expected) in [
        ("not sent", reboot(), true),
        ("behind", reboot().facts(|f| f.is_first = false), false),
        ("late", reboot().late(), false),
        ("deleted", reboot().deleted(), false),
        ("a copy", reboot().with_annotation("?"), false),
        ("sent", sent("pending"), false),
        ("unknown", open, false),
        ("a shutdown in its time", shut(299), false),
        ("a shutdown past its time", shut(300), true),
    ] {
        assert_eq!(needs_target(&case.0), expected, "{what}");
    }
}

#[test]
fn waiting_command_is_checked_again() {
    let long = Some(Interval(secs(24 * 3600)));
    let behind = reboot().object(|o| o.spec.timeout = long);
    let behind = behind.facts(|f| f.is_first = false).decide();
    assert!(
        behind.requeue_after <= secs(600),
        "{:?}",
        behind.requeue_after
    );
    let message = behind.explanation.unwrap().message;
    assert!(!message.contains("older"), "{message}");
}

#[test]
fn read_only_command_neither_sent_nor_ended() {
    let read_only = |case: Case| case.facts(|f| f.subject.read_only = true);
    let late = (reboot().late(), "would fail this command");
    for (case, words) in [(reboot(), "would send Reboot"), late] {
        let (effect, _, ended) = case.short();
        assert!(effect == Some("send") || ended == Some(false));
        let case = read_only(case);
        assert_eq!(case.short(), (None, Some(Reason::ReadOnly), None));
        let decision = case.decide();
        assert!(decision.requeue_after > secs(1));
        let message = decision.explanation.unwrap().message;
        assert!(message.contains(words), "{message}");
    }
}
