//! Which steps of a server's life are reported, from the status before and after.

use super::{existing::with_status, release::deleted, *};
use crate::{
    report::Severity,
    server::{
        decide::sent_hashes::{KEYS, keys_hash},
        events::{collect_events, find_unreported_release},
        facts::ServerKey,
        memory::ServerObservation,
    },
};

/// Event reasons for the decision of this case, and their notes.
fn events(case: &Case) -> (Vec<&'static str>, String) {
    let status = case
        .decide()
        .desired
        .finish(Timestamp::from_second(START).unwrap());
    let news = collect_events(&case.0, &status);
    let notes: Vec<&str> = news.iter().map(|n| n.note.as_str()).collect();
    (
        news.iter().map(|n| n.reason.as_str()).collect(),
        notes.join("\n"),
    )
}

/// An order sent moments ago: its status shows it without an outcome.
fn sent() -> Case {
    let ordering = Explanation::waits(
        Reason::Ordering,
        "Ordering the server; waiting for the answer, 1m at most",
    )
    .conditions();
    let shown = api::conditions::merge(
        &[],
        &ordering,
        api::conditions::Generations::same(Some(3)),
        Timestamp::MIN,
    );
    let case = Case::new().ordered(None, None);
    case.object(|o| o.status.get_or_insert_default().conditions = shown)
}

/// The same, with this answer in memory.
fn answered(change: impl FnOnce(&mut OrderRecord)) -> Case {
    let mut record = order_record(None, None);
    change(&mut record);
    let observation = ServerObservation::Ordered(Box::new(record));
    sent().memory(|m| m.record_observation(observation, RUNNING))
}

fn created(record: &mut OrderRecord) {
    record.outcome = Some(OrderOutcome::Created);
    record.server = Some(uuid(1));
}

#[test]
fn order_and_server_source_are_reported_once() {
    let lost = sent().order(|record| record.answer_lost = true);
    let order =
        protocol_facts::to_protocol_order(&order_record(Some(OrderOutcome::Created), Some(5)));
    let tags = [cluster().tag(), own_tag()];
    let tags: Vec<&str> = tags.iter().map(String::as_str).collect();
    let adopted = super::protocol::adopting().showing(server(5, ServerStatus::Created, &tags));
    let adopted =
        adopted.memory(|m| m.record_observation(ServerObservation::Adopted(order), RUNNING));
    for (case, reason) in [
        (adopted, "Adopted"),
        (answered(created), "Ordered"),
        (lost.with(1, ServerStatus::Created), "FoundByTag"),
    ] {
        let (reasons, note) = events(&case);
        assert_eq!(reasons, [reason]);
        assert!(note.contains(&own_tag()), "{note}");
        assert_eq!(events(&case.written()).0, [""; 0], "it was told");
    }
}

#[test]
fn order_event_names_the_placement() {
    let case = answered(created).with(1, ServerStatus::Created);
    let (_, note) = events(&case.shown(|s| s.location = "there".into()));
    assert!(note.contains("small at there"), "{note}");
}

#[test]
fn linux_server_without_key_is_a_warning() {
    let with = |keys: &[ServerKey]| {
        answered(|record| {
            created(record);
            record.sent = [(KEYS.to_owned(), keys_hash(keys))].into();
        })
    };
    let (reasons, note) = events(&with(&[]));
    assert_eq!(reasons, ["Ordered", "NoSSHKey"]);
    assert!(note.contains("spec.sshKeys"), "{note}");
    assert_eq!(events(&with(&[]).written()).0, [""; 0], "told once");
    let key = ServerKey {
        sent: "k".into(),
        known_by: "k".into(),
        object: None,
    };
    assert_eq!(events(&with(&[key])).0, ["Ordered"]);
    for slug in ["windows-2022", "talos-omni-1110", "custom-ipxe"] {
        let other = with(&[]).spec(|s| s.os.as_mut().unwrap().slug = slug.into());
        assert_eq!(events(&other).0, ["Ordered"], "{slug}");
    }
}

#[test]
fn a_lost_answer_and_a_refusal_are_warnings() {
    assert_eq!(events(&sent()).0, [""; 0]);
    let lost = answered(|record| record.answer_lost = true);
    let (reasons, note) = events(&lost);
    assert_eq!(reasons, ["AnswerLost"]);
    assert!(note.contains(&own_tag()), "{note}");
    assert_eq!(events(&lost.written()).0, [""; 0], "told once");

    let refused = answered(|record| {
        record.outcome = Some(OrderOutcome::Refused);
        record.message = Some("no such contract".into());
    });
    let status = refused.decide().desired.finish(Timestamp::MIN);
    let news = collect_events(&refused.0, &status);
    let news: Vec<_> = news
        .iter()
        .map(|n| (n.reason.as_str(), n.severity))
        .collect();
    assert_eq!(news, [("Refused", Severity::Warning)]);
    let (_, note) = events(&refused);
    assert!(note.contains("no such contract"), "{note}");
}

#[test]
fn order_refusal_is_reported_once() {
    let refused = answered(|record| {
        (record.outcome, record.outcome_at) = (Some(OrderOutcome::Refused), Some(START + 1000));
    });
    let reported = refused
        .written()
        .listed(1001)
        .facts(|f| f.now.mono += secs(2));
    assert_eq!(short(&reported.decide()).1, Some(Reason::OrderRefused));
    assert_eq!(events(&reported).0, [""; 0]);
}

#[test]
fn delivery_is_reported_once_despite_interruptions() {
    let delivered = || with_status(ServerStatus::Delivered);
    let (reasons, note) = events(&delivered());
    assert_eq!(reasons, ["Delivered"]);
    assert!(
        note.contains(&uuid(1)) && note.contains("192.0.2.1"),
        "{note}"
    );
    let shown = delivered().written();
    assert_eq!(events(&shown).0, [""; 0]);
    // Another problem for a while.
    let stalled = Explanation::stalled(Reason::MetadataConflict, "m").conditions();
    let back = shown.object(|o| {
        let status = o.status.as_mut().unwrap();
        status.conditions = api::conditions::merge(
            &[],
            &stalled,
            api::conditions::Generations::same(Some(3)),
            Timestamp::MIN,
        );
    });
    assert_eq!(events(&back).0, [""; 0]);
}

#[test]
fn suspension_is_reported_once_without_warning() {
    let shown = with_status(ServerStatus::Delivered).written();
    let suspended = shown.spec(|s| s.suspend = Some(true));
    let status = suspended.decide().desired.finish(Timestamp::MIN);
    let news = collect_events(&suspended.0, &status);
    let news: Vec<_> = news
        .iter()
        .map(|n| (n.reason.as_str(), n.severity))
        .collect();
    assert_eq!(news, [("Suspended", Severity::Normal)]);
    assert_eq!(events(&suspended.written()).0, [""; 0]);
}

#[test]
fn pending_edit_is_reported_once_with_values() {
    let shown = with_status(ServerStatus::Delivered).written();
    let edited = shown.spec(|s| s.os.as_mut().unwrap().slug = "other-os".into());
    let (reasons, note) = events(&edited);
    assert_eq!(reasons, ["PendingChanges"]);
    assert!(
        note.contains(&uuid(1))
            && note.contains("spec.os.slug is other-os, the server has some-os"),
        "{note}"
    );
    let edited = edited.written();
    assert_eq!(events(&edited).0, [""; 0]);
    let (again, _) = events(&edited.spec(|s| s.os.as_mut().unwrap().slug = "a-third".into()));
    assert_eq!(again, ["PendingChanges"], "another edit is news");
}

#[test]
fn user_action_is_reported_once_waiting_is_not() {
    let held = deleted(ServerStatus::Delivered).spec(|s| s.deletion_protection = Some(true));
    assert_eq!(events(&held).0, ["Protected"]);
    assert_eq!(events(&held.written()).0, [""; 0]);
    let waits = Case::new().blocked(Reason::ProviderUnreachable);
    assert_eq!(events(&waits).0, [""; 0]);
}

#[test]
fn recorded_release_is_reported_once() {
    let recorded = || deleted(ServerStatus::Delivered).begun(1);
    let shows = |case: Case, number, status: ServerStatus| {
        case.object(|o| {
            let shown = o.status.get_or_insert_default();
            shown.uuid = Some(uuid(number));
            shown.provider_status = Some(status.as_str().into());
        })
    };
    let reports = |case: Case| find_unreported_release(&case.0).is_some();
    assert!(reports(recorded()), "whether or not the write was answered");
    assert!(reports(shows(recorded(), 1, ServerStatus::Delivered)));
    assert!(!reports(deleted(ServerStatus::Delivered)));
    let by_this = |m: &mut ServerMemory| m.release_reported = Some(uuid(1));
    assert!(!reports(recorded().memory(by_this)));
    let followed = shows(recorded(), 1, ServerStatus::Releasing);
    assert!(!reports(followed), "a former process told it");
    // The status of another server does not count.
    let next = shows(recorded(), 2, ServerStatus::Releasing);
    assert!(reports(next.memory(|m| m.release_reported = Some(uuid(2)))));
    // The server of another object.
    assert!(!reports(deleted(ServerStatus::Delivered).begun(7)));
}
