//! Messages about servers from before the namespace was recreated, and what a token for them permits.

use super::*;
use crate::server::decide::{order, precondition};
use api::{ExternalReleasePolicy, lifetime::Replaced};

const BLOCKED: Short = (None, Some(Reason::ServerExists), true);
const ORDERED: Short = (Some("Order"), Some(Reason::Ordering), false);

fn case_with_previous_servers(numbers: &[u8]) -> Case {
    Case::new().with_previous_servers(numbers)
}

fn planned(case: &Case) -> NewOrder {
    match case.decide().effect {
        Some(ServerEffect::Order(planned)) => *planned,
        other => panic!("nothing is ordered: {other:?}"),
    }
}

#[test]
fn token_allows_order_only_for_listed_live_servers() {
    let given = case_with_previous_servers(&[1, 2]).with_token(OrderAnother);
    assert_eq!(short(&given.decide()), ORDERED);
    let (one, other) = (uuid(1), uuid(2));
    let token = given.pending(OrderAnother).unwrap();
    for said in ["", ",", "yes", "*", &one, &format!("{one},{other}")] {
        let said_so = case_with_previous_servers(&[1, 2]).written().giving(said);
        assert_eq!(short(&said_so.decide()), BLOCKED, "{said:?}");
    }
    let unshown = case_with_previous_servers(&[1, 2]).giving(&token);
    assert_eq!(short(&unshown.decide()), BLOCKED, "status does not show it");
    // One server more, one less or another one voids the token, even if the original two return.
    for live in [&[1, 2, 3][..], &[1], &[2, 3]] {
        let changed = given.clone().with_previous_servers(live);
        assert_eq!(short(&changed.decide()), BLOCKED, "{live:?}");
        let reported = changed.written();
        assert_ne!(reported.pending(OrderAnother).unwrap(), token);
        assert_eq!(short(&reported.decide()), BLOCKED, "{live:?}");
        assert_eq!(
            short(&reported.with_previous_servers(&[1, 2]).decide()),
            BLOCKED,
            "{live:?}"
        );
    }
    // None of them is live any more.
    let free = given.with_previous_servers(&[]);
    assert_eq!(short(&free.decide()), ORDERED);
    assert_eq!(free.written().pending(OrderAnother), None);
}

#[test]
fn a_copied_manifest_and_its_status_order_nothing() {
    let given = case_with_previous_servers(&[1]).with_token(OrderAnother);
    let copied = given.object(|o| o.metadata.uid = Some("uid-2".into()));
    assert_eq!(short(&copied.decide()), BLOCKED);
    assert_eq!(short(&copied.written().decide()), BLOCKED);
}

#[test]
fn token_stays_valid_until_server_may_exist() {
    let given = || case_with_previous_servers(&[1]).with_token(OrderAnother);
    let token = given().pending(OrderAnother).unwrap();
    let record = order::open_record(&given().0, &planned(&given()), "nonce", secs(30));
    assert_eq!(record.acknowledgement.as_ref(), Some(&token));
    let started = order::starting_status(&given().0, &record);
    assert_eq!(
        started.pending_acknowledgements.len(),
        2,
        "it may be refused"
    );
    let by_token = |outcome, server| {
        let case = given().ordered(outcome, server);
        case.order(|record| record.acknowledgement = Some(token.clone()))
    };
    // A refused or unsent order is retried with the same token.
    for outcome in [OrderOutcome::Refused, OrderOutcome::NotSent] {
        let again = by_token(Some(outcome), None);
        assert_eq!(short(&again.decide()).0, Some("Order"), "{outcome:?}");
        let reported = again.written();
        assert_eq!(reported.pending(OrderAnother).as_ref(), Some(&token));
        assert!(reported.0.status().acknowledged.is_empty());
    }
    let made = by_token(Some(OrderOutcome::Created), Some(2));
    for case in [made.with(2, ServerStatus::Delivered), by_token(None, None)] {
        let reported = case.written();
        assert_eq!(reported.pending(OrderAnother), None, "{reported:?}");
        let used = reported.0.status().acknowledged;
        assert_eq!((used.len(), &used[0].token), (1, &token));
    }
}

/// A user releases the server that was ordered next to a previous one, and it is replaced.
#[test]
fn token_allows_one_order_and_no_replacement() {
    let given = case_with_previous_servers(&[1])
        .spec(|s| s.external_release_policy = Some(ExternalReleasePolicy::Reorder))
        .with_token(OrderAnother);
    let token = given.pending(OrderAnother).unwrap();
    let made = given
        .ordered(Some(OrderOutcome::Created), Some(2))
        .order(|record| record.acknowledgement = Some(token.clone()))
        .with(2, ServerStatus::Delivered);
    let over = server(2, ServerStatus::Released, &[&cluster().tag(), &own_tag()]);
    let due = made
        .written()
        .showing(over.clone())
        .seen_at(RUNNING)
        .memory(|m| m.record_ended_server(Some(&over), RUNNING - secs(700)))
        .object(|o| {
            o.status.as_mut().unwrap().replaced_servers = vec![Replaced {
                uuid: uuid(2),
                provider_status: "released".into(),
                location: "here".into(),
                instance_type: "small".into(),
                recorded_at: time(START),
            }];
        });
    assert_eq!(
        short(&due.clone().with_previous_servers(&[]).decide()).0,
        Some("Order")
    );
    assert_eq!(short(&due.decide()), BLOCKED);
    let reported = due.written();
    assert_ne!(reported.pending(OrderAnother).unwrap(), token);
    assert_eq!(short(&reported.decide()), BLOCKED);
    // The next token permits the next order.
    assert_eq!(
        short(&reported.with_token(OrderAnother).decide()).0,
        Some("Order")
    );
}

#[test]
fn newly_found_server_stops_order_before_sending() {
    let plan = planned(&Case::new());
    let may_start = |case: Case| precondition::may_start(&case.0, &plan);
    assert!(may_start(Case::new()));
    assert!(!may_start(case_with_previous_servers(&[1])));
    let given = case_with_previous_servers(&[1]).with_token(OrderAnother);
    let plan = planned(&given);
    assert!(precondition::may_start(&given.0, &plan));
    assert!(!precondition::may_start(
        &given.with_previous_servers(&[1, 2]).0,
        &plan
    ));
}

#[test]
fn any_server_count_gives_token_and_short_message() {
    for most in [1, 2, 4, 9, 60] {
        let numbers: Vec<u8> = (1..=most).collect();
        let case = case_with_previous_servers(&numbers);
        let message = message(&case.decide());
        assert!(message.len() < 900, "{}: {message}", message.len());
        let given = case.with_token(OrderAnother);
        assert_eq!(short(&given.decide()), ORDERED, "{message}");
        let asked = given.0.status().pending_acknowledgements;
        assert!(asked[0].subject.chars().count() <= 256, "{asked:?}");
        let others: Vec<u8> = (2..=most + 1).collect();
        assert_eq!(
            short(&given.with_previous_servers(&others).decide()),
            BLOCKED,
            "{message}"
        );
    }
}

#[test]
fn servers_of_previous_namespace_are_asked_about_once() {
    let bare = || protocol::alone(Case::new().met(300));
    assert!(bare().written().pending(AssumeAbsent).is_some());
    // Like known servers, they show that the list is not empty by mistake.
    let asked = bare().with_previous_servers(&[1]).written();
    assert_eq!(short(&asked.decide()), BLOCKED);
    assert_eq!(asked.pending(AssumeAbsent), None);
    let token = asked.pending(OrderAnother).unwrap();
    assert_eq!(short(&asked.giving(&token).decide()).0, Some("Order"));
}

#[test]
fn token_is_void_once_ordered_server_is_listed() {
    let given = protocol::alone(protocol::open()).with_token(AssumeAbsent);
    let token = given.pending(AssumeAbsent);
    let found = given.with(1, ServerStatus::Delivered).written();
    assert_eq!(short(&found.decide()).1, Some(Reason::Delivered));
    let reported = found.written();
    assert_eq!(
        (
            reported.pending(AssumeAbsent),
            reported.0.status().acknowledged
        ),
        (None, vec![])
    );
    // It is no longer shown, which is another situation.
    let lost = reported
        .facts(|f| f.own.clear())
        .met(300)
        .missed(&[800, 960]);
    assert_ne!(lost.clone().written().pending(AssumeAbsent), token);
    assert_eq!(short(&lost.decide()).1, Some(Reason::ServerNotFound));
}

#[test]
fn assume_absent_token_is_used_by_next_order() {
    let given = protocol::alone(Case::new().met(300)).with_token(AssumeAbsent);
    // Also if the order is queued or backs off, and only its status is written.
    for due in [given.clone(), given.written()] {
        let record = order::open_record(&due.0, &planned(&due), "nonce", secs(30));
        let started = order::starting_status(&due.0, &record);
        assert_eq!(started.pending_acknowledgements, []);
        assert_eq!(started.acknowledged.len(), 1);
    }
}

#[test]
fn message_names_live_servers_and_next_steps() {
    let case = case_with_previous_servers(&[1, 2]);
    let message = message(&case.decide());
    let (one, other) = (uuid(1), uuid(2));
    let asked = case.clone().written().0.status().pending_acknowledgements;
    assert_eq!(asked[0].subject, format!("next to {one}, {other}"));
    for words in [
        "2 servers of an earlier shop/web are live and billed; ",
        "nothing is ordered until released, checked every 2m",
        &format!("set spec.externalID to it: {one}, {other}"),
    ] {
        assert!(message.contains(words), "{words:?} is not in {message:?}");
    }
    let remedy = format!("set flexmetal.dev/acknowledge to {}", asked[0].token);
    assert!(
        message.ends_with(&remedy),
        "what costs comes last: {message}"
    );
    // It polls again by itself.
    assert_ne!(case.decide().requeue, Requeue::Now);
}

#[test]
fn message_names_the_tag_to_restore() {
    let message = message(&protocol::stripped(&[]).decide());
    assert!(message.contains(&own_tag()), "{message}");
}

#[test]
fn outdated_acknowledgement_is_removed() {
    let asked = case_with_previous_servers(&[1]).written();
    let named = asked.clone().named(1, None);
    let made = asked
        .with_token(OrderAnother)
        .ordered(Some(OrderOutcome::Created), Some(2));
    for case in [named, made.with(2, ServerStatus::Delivered)] {
        let pending = case.written().0.status().pending_acknowledgements;
        assert_eq!(pending, []);
    }
}
