//! A machine that came to nothing, and the order in its place.

use super::*;
use crate::{
    account::view::Catalogue,
    server::{
        decide::fence,
        memory::{ReleaseAnswer, Sent},
    },
};
use api::{
    ExternalReleasePolicy, FailurePolicy,
    lifetime::{Provisioning, Replaced},
    server::Alternative,
};

/// It was made by an order of before the present one.
fn earlier(number: u8, status: ServerStatus) -> Server {
    let tag = mark().order_tag(EPOCH - 100);
    server(number, status, &[&cluster().tag(), &tag])
}

fn noted(number: u8, word: &str) -> Replaced {
    Replaced {
        uuid: uuid(number),
        provider_status: word.into(),
        location: "here".into(),
        instance_type: "small".into(),
        recorded_at: time(START),
    }
}

/// Its machine is seen so for so many seconds.
fn over(status: ServerStatus, since: u64) -> Case {
    let case = super::machine::kept(status).spec(|s| {
        s.failure_policy = Some(FailurePolicy::Replace);
        s.external_release_policy = Some(ExternalReleasePolicy::Reorder);
    });
    let server = case.0.own[0].server.clone();
    case.memory(|m| m.over_seen(Some(&server), RUNNING - secs(since)))
        .facts(|f| f.own[0].seen = RUNNING)
}

fn sent(case: Case, answer: ReleaseAnswer, ago: u64) -> Case {
    case.memory(|m| {
        m.release.sent = Some(Sent {
            uuid: uuid(1),
            failed: true,
            answer,
            at: RUNNING - secs(ago),
        });
    })
}

fn row(case: Case, replaced: Vec<Replaced>) -> Case {
    case.object(|o| o.status.get_or_insert_default().replaced_servers = replaced)
}

#[test]
fn a_failed_machine_is_released_noted_and_replaced_in_this_order() {
    let failed = |since| over(ServerStatus::Failed, since);
    let why = Some(Reason::ProvisioningFailed);
    let hold = |c: Case| c.spec(|s| s.failure_policy = None);
    let done = row(
        sent(failed(700), ReleaseAnswer::Refused, 60),
        vec![noted(1, "failed")],
    );
    let released = row(
        over(ServerStatus::Released, 10).spec(|s| s.external_release_policy = None),
        vec![noted(1, "failed")],
    );
    table(vec![
        ("by default it is held", hold(failed(700)), None, why, true),
        (
            "it may be delivered after all",
            failed(599),
            None,
            why,
            false,
        ),
        (
            "seen so for long enough, but not since",
            failed(700).facts(|f| f.own[0].seen = RUNNING - secs(200)),
            Some("Read"),
            why,
            false,
        ),
        (
            "it is released",
            failed(600),
            Some("ReleaseFailed"),
            why,
            false,
        ),
        (
            "the answer is lost: a pause",
            sent(failed(700), ReleaseAnswer::Unknown, 5),
            None,
            why,
            false,
        ),
        (
            "and again",
            sent(failed(700), ReleaseAnswer::Unknown, 15),
            Some("ReleaseFailed"),
            why,
            false,
        ),
        (
            "refused: noted first",
            sent(failed(700), ReleaseAnswer::Refused, 60),
            None,
            why,
            false,
        ),
        (
            "noted: the order",
            done.clone(),
            Some("Order"),
            Some(Reason::Ordering),
            false,
        ),
        (
            "noted, and released by us since",
            released,
            Some("Order"),
            Some(Reason::Ordering),
            false,
        ),
        ("noted, and held since", hold(done.clone()), None, why, true),
        (
            "suspended",
            failed(700).spec(|s| s.suspend = Some(true)),
            None,
            why,
            true,
        ),
        (
            "the spec names the machine",
            failed(700).spec(|s| s.external_id = Some(uuid(1))),
            None,
            why,
            true,
        ),
    ]);
    let first = sent(failed(700), ReleaseAnswer::Refused, 60).decide();
    assert_eq!(first.draft.status.replaced_servers.len(), 1);
    assert_eq!(first.once_written, Again::AtOnce);
    // The next one is not what was noted.
    let Some(Effect::Order(_)) = done.decide().effect else {
        panic!("no order");
    };
    let next = done.decide().draft.status;
    assert_eq!((next.uuid, next.replaced_servers.len()), (None, 1));
}

#[test]
fn what_was_delivered_once_is_not_given_up() {
    let mut once = server(1, ServerStatus::Failed, &[&cluster().tag(), &own_tag()]);
    once.delivered_at = Some(EPOCH + 60);
    let case = over(ServerStatus::Failed, 700).facts(|f| {
        f.own[0].server = Arc::new(once.clone());
    });
    assert_eq!(
        short(&case.decide()),
        (None, Some(Reason::ProvisioningFailed), true)
    );
    let now = case.0.now;
    assert!(!fence::may_release_failed(&case.0, &once, now, now));
}

#[test]
fn a_failed_machine_is_released_for_who_lives_and_wants_another_one_and_by_a_new_read() {
    let case = over(ServerStatus::Failed, 700);
    let failed = || server(1, ServerStatus::Failed, &[&cluster().tag(), &own_tag()]);
    let may = |case: &Case, record: &Server| {
        fence::may_release_failed(&case.0, record, case.0.now, case.0.now)
    };
    assert!(may(&case, &failed()));
    assert!(!may(&case.clone().deleting(), &failed()));
    assert!(!may(
        &case.clone().spec(|s| s.suspend = Some(true)),
        &failed()
    ));
    assert!(!may(
        &case.clone().spec(|s| s.failure_policy = None),
        &failed()
    ));
    let live = server(1, ServerStatus::Delivered, &[&cluster().tag(), &own_tag()]);
    assert!(!may(&case, &live), "it came to life");
    assert!(!may(
        &case,
        &server(1, ServerStatus::Failed, &[&cluster().tag()])
    ));
    let mut later = case.0.now;
    later.mono += secs(30);
    later.wall += 30;
    assert!(!fence::may_release_failed(
        &case.0,
        &failed(),
        case.0.now,
        later
    ));
}

#[test]
fn what_others_released_is_replaced_where_the_policy_says_so() {
    let released = |since| over(ServerStatus::Released, since);
    let why = Some(Reason::ReleasedExternally);
    table(vec![
        (
            "by default it is held",
            released(700).spec(|s| s.external_release_policy = None),
            None,
            why,
            true,
        ),
        ("not at once", released(10), None, why, false),
        (
            "not while it is being released",
            over(ServerStatus::Releasing, 700),
            None,
            why,
            false,
        ),
        ("noted first", released(600), None, why, false),
        (
            "then ordered",
            row(released(700), vec![noted(1, "released")]),
            Some("Order"),
            Some(Reason::Ordering),
            false,
        ),
    ]);
    assert_eq!(
        released(600).decide().draft.status.replaced_servers.len(),
        1
    );
}

#[test]
fn a_row_of_machines_ends() {
    let second = || {
        let case = row(over(ServerStatus::Failed, 700), vec![noted(2, "failed")]);
        sent(case, ReleaseAnswer::Refused, 60)
    };
    let spent = second().decide();
    assert_eq!(
        short(&spent),
        (None, Some(Reason::ProvisioningFailed), true)
    );
    let said = &spent.draft.condition(Type::Ready).unwrap().message;
    assert!(said.contains("maxAttempts to 3"), "{said}");
    let more = second().spec(|s| {
        s.provisioning = Some(Provisioning {
            max_attempts: Some(3),
            ..Provisioning::default()
        });
    });
    assert_eq!(more.decide().draft.status.replaced_servers.len(), 2);
    // An order in the place of another is held like that, too, whatever became of it.
    let refused = row(
        Case::new().ordered(Some(OrderOutcome::Absent), None),
        vec![noted(2, "failed"), noted(3, "failed")],
    )
    .spec(|s| s.failure_policy = Some(FailurePolicy::Replace));
    assert!(short(&refused.decide()).2);
    // One that has been delivered for a day ends it.
    let lives = |ago: i64| {
        let case = row(
            super::machine::kept(ServerStatus::Delivered),
            vec![noted(2, "failed")],
        );
        let case = case.facts(|f| {
            let mut server = (*f.own[0].server).clone();
            server.delivered_at = Some(START + 1000 - ago);
            f.own[0].server = Arc::new(server);
        });
        case.decide().draft.status.replaced_servers.len()
    };
    assert_eq!((lives(86_399), lives(86_400)), (1, 0));
    // And one that came to life is none of them.
    let back = row(
        super::machine::kept(ServerStatus::Provisioning),
        vec![noted(1, "failed")],
    );
    assert_eq!(back.decide().draft.status.replaced_servers, []);
}

#[test]
fn the_next_place_is_tried_first() {
    let case = row(
        sent(over(ServerStatus::Failed, 700), ReleaseAnswer::Refused, 60),
        vec![noted(1, "failed")],
    )
    .spec(|s| {
        s.alternatives = vec![Alternative {
            location: Some("there".into()),
            instance_type: None,
        }];
    })
    .view(|v| v.catalogue = Some((secs(990), Arc::new(Catalogue::default()))));
    let Some(Effect::Order(planned)) = case.decide().effect else {
        panic!("no order");
    };
    assert_eq!(planned.order.location, "there");
}

#[test]
fn what_an_earlier_order_made_is_no_outcome_of_the_present_one() {
    let evidence_of = |case: &Case| evidence(&case.0);
    let open = Case::new().ordered(None, None);
    let is_earlier =
        |case: &Case, server: &Server| evidence_of(case).is_of_earlier(&mark(), server);
    assert!(is_earlier(&open, &earlier(1, ServerStatus::Failed)));
    assert!(is_earlier(&open, &earlier(1, ServerStatus::Released)));
    assert!(
        !is_earlier(&open, &earlier(1, ServerStatus::Delivered)),
        "it lives"
    );
    let present = server(2, ServerStatus::Failed, &[&own_tag()]);
    assert!(!is_earlier(&open, &present), "of the present order");
    let recorded = Case::new().ordered(Some(OrderOutcome::Created), Some(1));
    assert!(!is_earlier(&recorded, &earlier(1, ServerStatus::Failed)));
    assert!(!is_earlier(&Case::new(), &earlier(1, ServerStatus::Failed)));
}

#[test]
fn a_machine_that_came_to_life_after_it_was_replaced_is_the_second() {
    let case = super::machine::kept(ServerStatus::Delivered)
        .with(2, ServerStatus::Delivered)
        .object(|o| {
            o.status.get_or_insert_default().replaced_servers = vec![noted(1, "failed")];
        });
    let kept = crate::server::decide::machine::kept(&case.0, &evidence(&case.0));
    let kept = kept.unwrap();
    assert_eq!(
        (kept.server.id.as_str(), kept.others),
        (&*uuid(2), vec![uuid(1)])
    );
}

#[test]
fn a_delivery_that_takes_too_long_needs_a_person() {
    let since = |created: i64| {
        let case = super::machine::kept(ServerStatus::Provisioning);
        case.object(|o| o.metadata.creation_timestamp = Some(time(created)))
    };
    let case = |ago: i64| {
        since(START - 9000).facts(|f| {
            let mut server = (*f.own[0].server).clone();
            server.created_at = Some(START + 1000 - ago);
            f.own[0].server = Arc::new(server);
            f.own[0].seen = RUNNING;
        })
    };
    let why = |case: Case| {
        let decision = case.decide();
        let (_, reason, stalled) = short(&decision);
        (reason.unwrap(), stalled, decision.again)
    };
    let nearly = why(case(2699));
    assert_eq!((nearly.0, nearly.1), (Reason::Provisioning, false));
    assert_eq!(nearly.2, Again::After(secs(1)));
    let late = why(case(2700));
    assert_eq!((late.0, late.1), (Reason::ProvisioningTimeout, true));
    assert_ne!(late.2, Again::AtOnce);
    let longer = case(2700).spec(|s| {
        s.provisioning = Some(Provisioning {
            timeout: Some(Interval(secs(2701))),
            ..Provisioning::default()
        });
    });
    assert_eq!(why(longer).0, Reason::Provisioning);
    // One that was taken on was there long before its object.
    let taken_on = case(9000).object(|o| {
        o.metadata.creation_timestamp = Some(time(START));
    });
    assert_eq!(why(taken_on).0, Reason::Provisioning);
    let turned = case(0).facts(|f| f.now.wall += 90_000);
    assert_eq!(why(turned).0, Reason::Provisioning, "its clock was turned");
}
