//! A server that failed or was released, and the order that replaces it.

use super::{release::unanswered, *};
use crate::server::{
    decide::precondition::{self, ReleaseObstacle},
    memory::{ReleaseAnswer, SentRelease, ServerObservation},
};
use api::{
    ExternalReleasePolicy, FailurePolicy,
    lifetime::{Provisioning, Replaced},
    server::Alternative,
};

fn replaced_record(number: u8, word: &str) -> Replaced {
    Replaced {
        uuid: uuid(number),
        provider_status: word.into(),
        location: "here".into(),
        instance_type: "small".into(),
        recorded_at: time(START),
    }
}

/// Its server has this status, seen for this many seconds.
pub(super) fn ended(status: ServerStatus, since: u64) -> Case {
    let case = super::existing::with_status(status).spec(|s| {
        s.failure_policy = Some(FailurePolicy::Replace);
        s.external_release_policy = Some(ExternalReleasePolicy::Reorder);
    });
    let server = case.0.own[0].server.clone();
    case.memory(|m| m.record_ended_server(Some(&server), RUNNING - secs(since)))
        .seen_at(RUNNING)
}

/// A DELETE of it was sent this many seconds ago.
fn sent(case: Case, answer: ReleaseAnswer, ago: u64) -> Case {
    let sent = SentRelease {
        uuid: uuid(1),
        failed: true,
        answer,
        at: RUNNING - secs(ago),
    };
    case.memory(|m| m.record_observation(ServerObservation::Released(sent), RUNNING - secs(ago)))
}

/// Its release was refused often enough to end it.
fn refused(case: Case) -> Case {
    sent(
        sent(case, ReleaseAnswer::Refused, 80),
        ReleaseAnswer::Refused,
        60,
    )
}

/// The default policies, with which the object waits for a user.
fn blocked(case: Case) -> Case {
    case.spec(|s| (s.failure_policy, s.external_release_policy) = (None, None))
}

fn row(case: Case, replaced: Vec<Replaced>) -> Case {
    case.object(|o| o.status.get_or_insert_default().replaced_servers = replaced)
}

#[test]
fn uncertain_replacement_needs_acknowledgement_after_restart() {
    let over = row(
        ended(ServerStatus::Released, 700),
        vec![replaced_record(1, "released")],
    );
    let asked = over.met(300).suspecting(2).written();
    let message = message(&asked.decide());
    assert!(
        message.contains("was released or failed; another one may have been ordered"),
        "{message}"
    );
    let token = asked.pending(AssumeAbsent).unwrap();
    let later = asked.written();
    assert_eq!(later.pending(AssumeAbsent), Some(token.clone()));
    assert_eq!(short(&later.giving(&token).decide()).0, Some("Order"));
}

#[test]
fn failed_server_is_released_recorded_then_replaced() {
    use ReleaseAnswer::{Accepted, Refused};
    let failed = |since| ended(ServerStatus::Failed, since);
    let why = Some(Reason::ProvisioningFailed);
    let done = row(refused(failed(700)), vec![replaced_record(1, "failed")]);
    let released = row(
        ended(ServerStatus::Released, 10).spec(|s| s.external_release_policy = None),
        vec![replaced_record(1, "failed")],
    );
    let unseen = failed(700).seen_at(RUNNING - secs(200));
    let suspended = failed(700).spec(|s| s.suspend = Some(true));
    let named = failed(700).spec(|s| s.external_id = Some(uuid(1)));
    let ordering = Some(Reason::Ordering);
    come_to(
        (None, why, true),
        vec![
            ("by default it is held", blocked(failed(700))),
            ("noted, and held since", blocked(done.clone())),
            ("suspended", suspended),
            ("the spec names the machine", named),
        ],
    );
    come_to(
        (None, why, false),
        vec![
            ("it may be delivered after all", failed(599)),
            (
                "the answer is lost: a pause",
                sent(failed(700), unanswered(), 5),
            ),
            ("taken: a pause", sent(failed(700), Accepted, 5)),
            ("refused twice: noted first", refused(failed(700))),
        ],
    );
    come_to(
        (Some("Read"), why, false),
        vec![("seen so for long enough, but not since", unseen)],
    );
    come_to(
        (Some("Release"), why, false),
        vec![
            ("it is released", failed(600)),
            ("and again", sent(failed(700), unanswered(), 15)),
            ("refused: once more", sent(failed(700), Refused, 15)),
        ],
    );
    come_to(
        (Some("Order"), ordering, false),
        vec![
            ("noted: the order", done.clone()),
            ("noted, and released by us since", released),
        ],
    );
    let first = refused(failed(700)).decide();
    assert_eq!(first.desired.status.replaced_servers.len(), 1);
    assert_eq!(first.requeue_once_written, Requeue::Now);
    // The next server is not the recorded one.
    let Some(ServerEffect::Order(planned)) = done.decide().effect else {
        panic!("no order")
    };
    let record = crate::server::decide::order::open_record(&done.0, &planned, "nonce", secs(30));
    let next = crate::server::decide::order::starting_status(&done.0, &record);
    assert_eq!((next.uuid, next.replaced_servers.len()), (None, 1));
    assert_eq!(next.instance_type, done.0.object.spec.instance_type);
}

/// Its release is recorded, and the provider accepted it.
#[test]
fn released_failed_server_is_replaced() {
    let case = ended(ServerStatus::Released, 10).begun(1);
    let case = case.spec(|s| s.external_release_policy = None).decide();
    assert_eq!(case.desired.status.replaced_servers.len(), 1);
    assert_eq!(case.requeue_once_written, Requeue::Now);
}

#[test]
fn nothing_is_released_for_a_suspended_object() {
    let begun = ended(ServerStatus::Failed, 700).begun(1);
    let suspended = begun.spec(|s| s.suspend = Some(true)).decide();
    assert_eq!(short(&suspended).0, None);
}

#[test]
fn delivered_server_is_never_replaced() {
    let case = ended(ServerStatus::Failed, 700).shown(|s| s.delivered_at = Some(EPOCH + 60));
    assert_eq!(
        short(&case.decide()),
        (None, Some(Reason::ProvisioningFailed), true)
    );
    assert!(!precondition::may_record_release(&case.0, &uuid(1)));
}

#[test]
fn failed_server_release_needs_policy_and_read() {
    let case = || ended(ServerStatus::Failed, 700);
    let records = |case: Case| precondition::may_record_release(&case.0, &uuid(1));
    assert!(records(case()));
    assert!(!records(case().spec(|s| s.suspend = Some(true))));
    assert!(!records(blocked(case())));
    let tags = [cluster().tag(), own_tag()];
    let tags: Vec<&str> = tags.iter().map(String::as_str).collect();
    let (begun, now) = (case().begun(1), case().0.now);
    let may = |record: &Server| precondition::check_release(&begun.0, record, now, now).is_ok();
    assert!(may(&server(1, ServerStatus::Failed, &tags)));
    assert!(
        !may(&server(1, ServerStatus::Delivered, &tags)),
        "it came to life"
    );
    assert!(!may(&server(1, ServerStatus::Failed, &tags[..1])));
    assert!(!may(&server(2, ServerStatus::Failed, &tags)));
    let mut later = now;
    later.mono += secs(30);
    let failed = server(1, ServerStatus::Failed, &tags);
    assert_eq!(
        precondition::check_release(&begun.0, &failed, now, later),
        Err(ReleaseObstacle::TooLate)
    );
}

#[test]
fn externally_released_server_is_replaced_by_policy() {
    let released = |since| ended(ServerStatus::Released, since);
    let why = Some(Reason::ReleasedExternally);
    come_to(
        (None, why, true),
        vec![("by default it is held", blocked(released(700)))],
    );
    come_to(
        (None, why, false),
        vec![
            ("not at once", released(10)),
            (
                "not while it is being released",
                ended(ServerStatus::Releasing, 700),
            ),
            ("noted first", released(600)),
        ],
    );
    come_to(
        (Some("Order"), Some(Reason::Ordering), false),
        vec![(
            "then ordered",
            row(released(700), vec![replaced_record(1, "released")]),
        )],
    );
    assert_eq!(
        released(600).decide().desired.status.replaced_servers.len(),
        1
    );
}

#[test]
fn replacement_stops_after_max_attempts() {
    let second = || {
        refused(row(
            ended(ServerStatus::Failed, 700),
            vec![replaced_record(2, "failed")],
        ))
    };
    let spent = second().decide();
    assert_eq!(
        short(&spent),
        (None, Some(Reason::ProvisioningFailed), true)
    );
    let said = &spent.desired.condition(Type::Ready).unwrap().message;
    assert!(said.contains("maxAttempts to 3"), "{said}");
    let more = second().spec(|s| {
        s.provisioning = Some(Provisioning {
            max_attempts: Some(3),
            ..Provisioning::default()
        });
    });
    assert_eq!(more.decide().desired.status.replaced_servers.len(), 2);
    // A replacement order is limited too, with any outcome.
    let absent = row(
        Case::new().ordered(Some(OrderOutcome::Absent), None),
        vec![replaced_record(2, "failed"), replaced_record(3, "failed")],
    )
    .spec(|s| s.failure_policy = Some(FailurePolicy::Replace));
    assert!(short(&absent.decide()).2);
    // A server that has been delivered for a day resets the count.
    let lives = |ago: i64| {
        let case = row(
            super::existing::with_status(ServerStatus::Delivered),
            vec![replaced_record(2, "failed")],
        );
        let case = case.shown(|s| s.delivered_at = Some(START + 1000 - ago));
        case.decide().desired.status.replaced_servers.len()
    };
    assert_eq!((lives(86_399), lives(86_400)), (1, 0));
    // A server that is live again does not count.
    let back = row(
        super::existing::with_status(ServerStatus::Provisioning),
        vec![replaced_record(1, "failed")],
    );
    assert_eq!(back.decide().desired.status.replaced_servers, []);
}

#[test]
fn the_next_place_is_tried_first() {
    let case = row(
        refused(ended(ServerStatus::Failed, 700)),
        vec![replaced_record(1, "failed")],
    )
    .spec(|s| {
        s.alternatives = vec![Alternative {
            location: Some("there".into()),
            instance_type: None,
        }];
    })
    .view(|v| v.catalogue = Some((secs(990), Arc::new(Catalogue::default()))));
    let Some(ServerEffect::Order(planned)) = case.decide().effect else {
        panic!("no order");
    };
    assert_eq!(planned.order.location, "there");
}

#[test]
fn late_delivery_stalls_with_provisioning_timeout() {
    let since = |created: i64| {
        let case = super::existing::with_status(ServerStatus::Provisioning);
        case.object(|o| o.metadata.creation_timestamp = Some(time(created)))
    };
    let case = |ago: i64| {
        let case = since(START - 9000).shown(|s| s.created_at = Some(START + 1000 - ago));
        case.seen_at(RUNNING)
    };
    let why = |case: Case| {
        let decision = case.decide();
        let (_, reason, stalled) = short(&decision);
        (reason.unwrap(), stalled, decision.requeue)
    };
    let nearly = why(case(2699));
    assert_eq!((nearly.0, nearly.1), (Reason::Provisioning, false));
    assert_eq!(nearly.2, Requeue::After(secs(1)));
    let late = why(case(2700));
    assert_eq!((late.0, late.1), (Reason::ProvisioningTimeout, true));
    assert_ne!(late.2, Requeue::Now);
    let longer = case(2700).spec(|s| {
        s.provisioning = Some(Provisioning {
            timeout: Some(Interval(secs(2701))),
            ..Provisioning::default()
        });
    });
    assert_eq!(why(longer).0, Reason::Provisioning);
    // An adopted server existed long before its object.
    let adopted = case(9000).object(|o| {
        o.metadata.creation_timestamp = Some(time(START));
    });
    assert_eq!(why(adopted).0, Reason::Provisioning);
    let forwarded = case(0).facts(|f| f.now.wall += 90_000);
    assert_eq!(
        why(forwarded).0,
        Reason::Provisioning,
        "its clock was turned"
    );
}

#[test]
fn ended_server_is_replaced_without_its_tags() {
    for status in [ServerStatus::Failed, ServerStatus::Released] {
        let bare = ended(status.clone(), 700).facts(|f| {
            let mut shown = seen(server(1, status.clone(), &[]));
            shown.seen = RUNNING;
            f.own.clear();
            f.recorded = Some(shown);
        });
        let effect = short(&bare.written().decide()).0;
        assert_eq!(effect, Some("Order"), "{status:?}");
    }
}
