//! Which steps of a machine's life are told, by what was written before and after.

use super::{machine::kept, release::deleted, *};
use crate::{
    report::Severity,
    server::{
        memory::Observation,
        steps::{release_to_tell, told},
    },
};

/// The reasons of the events that go with the decision of this case, and their words.
fn events(case: &Case) -> (Vec<&'static str>, String) {
    let status = case
        .decide()
        .draft
        .finish(Timestamp::from_second(START).unwrap());
    let news = told(&case.0, &status);
    let notes: Vec<&str> = news.iter().map(|n| n.note.as_str()).collect();
    (
        news.iter().map(|n| n.reason.as_str()).collect(),
        notes.join("\n"),
    )
}

/// The case once what it decided stands in its status.
fn written(case: Case) -> Case {
    let status = case
        .decide()
        .draft
        .finish(Timestamp::from_second(START).unwrap());
    case.object(|o| o.status = Some(status))
}

/// An order that was sent a moment ago: its status says so, and no outcome.
fn sent() -> Case {
    let ordering = Cause::waits(
        Reason::Ordering,
        "the machine is being ordered; the answer comes within seconds",
    )
    .conditions();
    let shown = api::conditions::merge(
        &[],
        &ordering,
        api::conditions::Generations::same(Some(3)),
        Timestamp::MIN,
    );
    let case = Case::new().open(300, &[]);
    case.object(|o| o.status.get_or_insert_default().conditions = shown)
}

/// The same, with the answer to it.
fn answered(outcome: OrderOutcome, machine: Option<u8>) -> Case {
    let order = OrderRecord {
        outcome: Some(outcome),
        outcome_at: Some(START + 1000),
        failures: 1,
        message: (outcome == OrderOutcome::Refused).then(|| "no such contract".into()),
        ..OrderRecord::open(sent().intent())
    };
    let uuid = machine.map(uuid);
    sent().memory(|m| m.note(Observation::Ordered { order, uuid }, RUNNING, secs(60)))
}

#[test]
fn an_order_is_told_once_and_so_is_how_its_machine_came_to_be_known() {
    let taken = answered(OrderOutcome::Created, Some(1)).with(1, ServerStatus::Created);
    let (reasons, note) = events(&taken);
    assert_eq!(reasons, ["Ordered"]);
    assert!(
        note.contains(&uuid(1)) && note.contains(&own_tag()),
        "{note}"
    );
    assert_eq!(events(&written(taken)).0, [""; 0], "it was told");

    // No answer is remembered: the machine was found by its tag.
    let found = sent().with(1, ServerStatus::Created);
    let (reasons, note) = events(&found);
    assert_eq!(reasons, ["FoundByMark"]);
    assert!(
        note.contains(&uuid(1)) && note.contains(&own_tag()),
        "{note}"
    );
    assert_eq!(events(&written(found)).0, [""; 0]);
}

#[test]
fn a_lost_answer_and_a_refusal_are_warnings() {
    let (reasons, note) = events(&sent());
    assert_eq!(reasons, ["AnswerLost"]);
    assert!(note.contains(&own_tag()), "{note}");
    assert_eq!(events(&written(sent())).0, [""; 0], "told once");

    let refused = answered(OrderOutcome::Refused, None);
    let status = refused.decide().draft.finish(Timestamp::MIN);
    let news = told(&refused.0, &status);
    let news: Vec<_> = news
        .iter()
        .map(|n| (n.reason.as_str(), n.severity))
        .collect();
    assert_eq!(
        news,
        [("Refused", Severity::Warning)],
        "and not Stalled as well"
    );
    let (_, note) = events(&refused);
    assert!(note.contains("no such contract"), "{note}");
}

#[test]
fn delivery_is_told_once_whatever_holds_the_object_meanwhile() {
    let delivered = || kept(ServerStatus::Delivered);
    let (reasons, note) = events(&delivered());
    assert_eq!(reasons, ["Delivered"]);
    assert!(
        note.contains(&uuid(1)) && note.contains("192.0.2.1"),
        "{note}"
    );
    let shown = written(delivered());
    assert_eq!(events(&shown).0, [""; 0]);
    // Something else was the matter for a while.
    let held = Cause::needs_person(Reason::MetadataConflict, "m").conditions();
    let back = shown.object(|o| {
        let status = o.status.as_mut().unwrap();
        status.conditions = api::conditions::merge(
            &[],
            &held,
            api::conditions::Generations::same(Some(3)),
            Timestamp::MIN,
        );
    });
    assert_eq!(events(&back).0, [""; 0]);
}

#[test]
fn a_suspension_is_told_once_and_is_no_warning() {
    let shown = written(kept(ServerStatus::Delivered));
    let suspended = shown.spec(|s| s.suspend = Some(true));
    let status = suspended.decide().draft.finish(Timestamp::MIN);
    let news = told(&suspended.0, &status);
    let news: Vec<_> = news
        .iter()
        .map(|n| (n.reason.as_str(), n.severity))
        .collect();
    assert_eq!(news, [("Suspended", Severity::Normal)]);
    assert_eq!(events(&written(suspended)).0, [""; 0]);
}

#[test]
fn an_edit_that_nothing_acts_on_is_told_with_its_values_and_once() {
    let shown = written(kept(ServerStatus::Delivered));
    let edited = shown.spec(|s| s.os.as_mut().unwrap().slug = "other-os".into());
    let (reasons, note) = events(&edited);
    assert_eq!(reasons, ["PendingChanges"]);
    assert!(
        note.contains(&uuid(1))
            && note.contains("spec.os.slug is other-os, the machine has some-os"),
        "{note}"
    );
    let edited = written(edited);
    assert_eq!(events(&edited).0, [""; 0]);
    let (again, _) = events(&edited.spec(|s| s.os.as_mut().unwrap().slug = "a-third".into()));
    assert_eq!(again, ["PendingChanges"], "another edit is news");
}

#[test]
fn a_person_is_called_once_and_waiting_is_no_event() {
    let held = deleted(ServerStatus::Delivered).spec(|s| s.deletion_protection = Some(true));
    assert_eq!(events(&held).0, ["Protected"]);
    assert_eq!(events(&written(held)).0, [""; 0]);
    let waits = Case::new().blocked(Reason::ProviderUnreachable);
    assert_eq!(events(&waits).0, [""; 0]);
}

#[test]
fn a_release_is_told_by_its_note_once() {
    let noted = || deleted(ServerStatus::Delivered).begun(1);
    let shows = |case: Case, number, status: ServerStatus| {
        case.object(|o| {
            let shown = o.status.get_or_insert_default();
            shown.uuid = Some(uuid(number));
            shown.provider_status = Some(status.as_str().into());
        })
    };
    let told = |case: Case| release_to_tell(&case.0).is_some();
    assert!(told(noted()), "whether or not the write was answered");
    assert!(told(shows(noted(), 1, ServerStatus::Delivered)));
    assert!(!told(deleted(ServerStatus::Delivered)));
    let by_this = |m: &mut Memory| m.release_told = Some(uuid(1));
    assert!(!told(noted().memory(by_this)));
    let followed = shows(noted(), 1, ServerStatus::Releasing);
    assert!(!told(followed), "a former process told it");
    // What is shown of another machine says nothing of this one's.
    let next = shows(noted(), 2, ServerStatus::Releasing);
    assert!(told(next.memory(|m| m.release_told = Some(uuid(2)))));
    // Of a server that is not the object's.
    assert!(!told(deleted(ServerStatus::Delivered).begun(7)));
}
