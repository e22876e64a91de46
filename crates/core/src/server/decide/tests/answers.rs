//! What the answers of the provider are noted as.

use super::*;
use crate::{
    once::Closed,
    server::{
        answers,
        decide::intent,
        memory::{Observation, Obstacle, ReleaseAnswer},
    },
};
use hosting_types::{
    Error, Refusal,
    error::{Interruption, NotSent},
};

fn refusal(status: u16) -> Refusal {
    Refusal {
        status,
        code: None,
        message: String::new(),
        fields: Vec::new(),
        retry_after: None,
        idempotent: false,
    }
}

/// An error as the client makes it of a status.
fn error(status: u16) -> Error {
    let refusal = refusal(status);
    match status {
        401 | 403 => Error::AccessDenied(refusal),
        404 => Error::NotFound(refusal),
        429 => Error::RateLimited(refusal),
        400..=499 => Error::Refused(refusal),
        500..=599 => Error::Server(refusal),
        _ => Error::Unexpected(refusal),
    }
}

fn lost() -> Error {
    Error::Interrupted(Interruption {
        cause: "no answer".into(),
        idempotent: true,
    })
}

fn unsent() -> Error {
    Error::NotSent(NotSent::Connect("no route".into()))
}

#[test]
fn a_delete_is_refused_only_for_what_the_machine_is() {
    use ReleaseAnswer::{Refused, Unknown};
    // What is noted while the machine is delivered, and while it is failed; none: asked again in its time.
    for (error, live, failed) in [
        (error(422), Some(Refused), Some(Refused)),
        (error(400), Some(Refused), Some(Refused)),
        // Perhaps it was done all the same, which is no proof that a failed machine stays.
        (error(409), Some(Refused), Some(Unknown)),
        (error(404), Some(Unknown), Some(Unknown)),
        (error(500), Some(Unknown), Some(Unknown)),
        (error(302), Some(Unknown), Some(Unknown)),
        (lost(), Some(Unknown), Some(Unknown)),
        (error(401), None, None),
        (error(403), None, None),
        (error(429), None, None),
        (unsent(), None, None),
    ] {
        let answer = Err(error);
        for (status, expected) in [
            (ServerStatus::Delivered, live),
            (ServerStatus::Failed, failed),
        ] {
            let is_failed = status == ServerStatus::Failed;
            let record = server(1, status, &[]);
            let noted = answers::of_release(&answer, &record, secs(7));
            match (noted, expected) {
                (Observation::Failed(_), None) => {}
                (Observation::Released(sent), Some(expected)) => {
                    assert_eq!(sent.answer, expected, "{answer:?}");
                    assert_eq!((sent.uuid, sent.failed), (uuid(1), is_failed));
                    assert_eq!(sent.at, secs(7));
                }
                (noted, _) => panic!("{answer:?}: {noted:?}"),
            }
        }
    }
    let record = server(1, ServerStatus::Delivered, &[]);
    let taken = answers::of_release(&Ok(record.clone()), &record, secs(7));
    assert!(matches!(taken, Observation::Released(sent) if sent.answer == ReleaseAnswer::Accepted));
}

#[test]
fn only_a_clean_404_says_that_a_machine_is_not_there() {
    let at = secs(7);
    let listing = Some(secs(3));
    let of = |answer| answers::of_read(&answer, listing, at);
    assert_eq!(of(Err(error(404))), Observation::NotFound { at, listing });
    for error in [error(401), error(429), error(500), lost(), unsent()] {
        let noted = of(Err(error));
        assert!(matches!(noted, Observation::Failed(_)), "{noted:?}");
    }
    let failed = server(1, ServerStatus::Failed, &[]);
    let once_delivered = Server {
        delivered_at: Some(EPOCH),
        ..failed.clone()
    };
    let live = server(1, ServerStatus::Delivered, &[]);
    for (record, failed) in [(failed, true), (once_delivered, false), (live, false)] {
        assert_eq!(of(Ok(record)), Observation::Found { at, failed });
    }
}

#[test]
fn a_look_finds_the_heaviest_obstacle_first() {
    let Some(Effect::LookForOrder(clear)) = Case::new().open(300, &[]).decide().effect else {
        panic!("no look")
    };
    let suspect = LookUp {
        suspect: Some(uuid(1)),
        ..clear.clone()
    };
    let unmarked = Some(Obstacle::Unmarked(uuid(1)));
    for (look, order_tag, control_tag, expected) in [
        (&clear, false, true, None),
        (&suspect, false, true, unmarked),
        (&suspect, false, false, Some(Obstacle::NoControl)),
        (&suspect, true, false, Some(Obstacle::TagExists)),
    ] {
        let noted = answers::of_look(look, order_tag, control_tag);
        let expected = Observation::Looked {
            attempt: "nonce".into(),
            proof_began: secs(990),
            obstacle: expected,
        };
        assert_eq!(noted, expected);
    }
}

#[test]
fn an_order_is_noted_by_what_is_certain() {
    use hosting_types::OrderOutcome::{Created, NotSent, Refused, Unknown};
    let record = OrderRecord {
        outcome: None,
        outcome_at: None,
        failures: 2,
        ..Case::new()
            .ordered(None, None)
            .0
            .status()
            .records
            .order
            .unwrap()
    };
    let made = Created(Box::new(server(1, ServerStatus::Created, &[])));
    for (answer, outcome, outcome_at, failures, machine) in [
        (made, Some(OrderOutcome::Created), Some(9), 0, Some(uuid(1))),
        (
            Refused(error(422)),
            Some(OrderOutcome::Refused),
            Some(9),
            3,
            None,
        ),
        (
            NotSent(unsent()),
            Some(OrderOutcome::NotSent),
            Some(9),
            3,
            None,
        ),
        (Unknown("lost".into()), None, None, 2, None),
    ] {
        let Observation::Ordered { order, uuid } = answers::of_order(record.clone(), &answer, 9)
        else {
            panic!("{answer:?}")
        };
        assert_eq!((order.outcome, order.outcome_at), (outcome, outcome_at));
        assert_eq!((order.failures, uuid), (failures, machine), "{answer:?}");
        assert_eq!(order.intent, record.intent);
    }
    let given_up = answers::of_unsent(record.clone(), Closed::NotSent, None, 9);
    assert!(
        matches!(given_up, Observation::Ordered { order, uuid: None }
            if order.outcome == Some(OrderOutcome::NotSent) && order.failures == 3)
    );
    let nothing = answers::of_unsent(record, Closed::NotStarted, None, 9);
    assert!(matches!(nothing, Observation::Failed(_)), "{nothing:?}");
}

#[test]
fn an_attempt_is_shown_by_its_nonce_alone() {
    use crate::once::Reply;
    let case = Case::new().ordered(None, None);
    let intent = case.intent();
    let shown = |case: &Case, intent: &Intent| intent::shown(Some(&case.0.object), intent);
    let shows = |metadata, status| Reply::Shows { metadata, status };
    assert_eq!(shown(&case, &intent), shows(true, true));
    let other = Intent {
        attempt: "another".into(),
        ..intent.clone()
    };
    assert_eq!(shown(&case, &other), shows(false, false));
    let noted = Case::new().noted(&intent);
    assert_eq!(shown(&noted, &intent), shows(true, false));
    let stripped = case.object(|o| o.metadata.annotations = None);
    assert_eq!(shown(&stripped, &intent), shows(false, true));
    assert_eq!(intent::shown(None, &intent), shows(false, false));
}

#[test]
fn a_machine_that_may_not_be_marked_as_kept_any_more_counts_as_not_kept() {
    let kept = "fmo-retained:somewhere";
    let record = server(7, ServerStatus::Delivered, &["web", kept]);
    let after = |tag: &str, adds, answer| answers::after_tag(record.clone(), tag, adds, &answer);
    for error in [lost(), error(500)] {
        let left = after(kept, false, Err(error)).expect("it may be gone");
        assert_eq!(left.tags, ["web"]);
    }
    assert_eq!(
        after(kept, false, Err(error(403))),
        None,
        "it is there still"
    );
    assert_eq!(after(kept, true, Err(lost())), None, "nor one that may be");
    assert_eq!(after("web", false, Err(lost())), None, "no mark");
    let said = server(7, ServerStatus::Delivered, &["web"]);
    assert_eq!(after(kept, false, Ok(said.clone())), Some(said));
}
