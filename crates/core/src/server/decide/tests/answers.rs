//! How the provider's answers are recorded.

use super::*;
use crate::{
    last_error::LastError,
    server::{
        answers,
        memory::{ReleaseAnswer, ServerObservation},
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

/// The client's error for an HTTP status.
fn error(status: u16) -> Error {
    let refusal = refusal(status);
    match status {
        401 => Error::AccessDenied(refusal),
        403 => Error::Forbidden {
            call: "GET /v3/a".into(),
            refusal,
        },
        404 => Error::NotFound(refusal),
        429 => Error::RateLimited(refusal),
        400..=499 => Error::Refused(refusal),
        500..=599 => Error::Server(refusal),
        _ => Error::Unexpected(refusal),
    }
}

fn lost() -> Error {
    Error::Interrupted(Interruption {
        source: "no answer".into(),
        idempotent: true,
    })
}

fn unsent() -> Error {
    Error::NotSent(NotSent::Connect("no route".into()))
}

#[test]
fn release_answer_depends_on_error_and_server_state() {
    let refused = || Some(ReleaseAnswer::Refused);
    let unknown = |error: &Error| Some(ReleaseAnswer::Unknown(LastError::from_provider(error)));
    // The recorded answer for a delivered and for a failed server; none: retried later.
    for (error, live, failed) in [
        (error(422), refused(), refused()),
        (error(400), refused(), refused()),
        // It may have been done, which does not confirm that a failed server stays.
        (error(409), refused(), unknown(&error(409))),
        (error(404), unknown(&error(404)), unknown(&error(404))),
        (error(500), unknown(&error(500)), unknown(&error(500))),
        (error(302), unknown(&error(302)), unknown(&error(302))),
        (lost(), unknown(&lost()), unknown(&lost())),
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
            let observation = answers::observe_release_answer(&answer, &record, secs(7));
            match (observation, expected) {
                (ServerObservation::Failed(_), None) => {}
                (ServerObservation::Released(sent), Some(expected)) => {
                    assert_eq!(sent.answer, expected, "{answer:?}");
                    assert_eq!((sent.uuid, sent.failed), (uuid(1), is_failed));
                    assert_eq!(sent.at, secs(7));
                }
                (observation, _) => panic!("{answer:?}: {observation:?}"),
            }
        }
    }
    let record = server(1, ServerStatus::Delivered, &[]);
    let taken = answers::observe_release_answer(&Ok(record.clone()), &record, secs(7));
    assert!(
        matches!(taken, ServerObservation::Released(sent) if sent.answer == ReleaseAnswer::Accepted)
    );
}

#[test]
fn only_404_means_server_is_absent() {
    let observe = |answer| answers::observe_read_answer(&uuid(1), &answer, secs(7));
    let read = |is_there| ServerObservation::Read {
        uuid: uuid(1),
        at: secs(7),
        is_there,
    };
    assert_eq!(observe(Err(error(404))), read(false));
    assert_eq!(
        observe(Ok(server(1, ServerStatus::Failed, &[]))),
        read(true)
    );
    for error in [error(401), error(429), error(500), lost(), unsent()] {
        let observation = observe(Err(error));
        assert!(
            matches!(observation, ServerObservation::Failed(_)),
            "{observation:?}"
        );
    }
}

#[test]
fn order_outcome_is_recorded_only_when_certain() {
    use hosting_types::OrderResult::{Created, NotSent, Refused, Unknown};
    let record = || OrderRecord {
        failures: 2,
        ..order_record(None, None)
    };
    let made = Created(Box::new(server(1, ServerStatus::Created, &[])));
    for (answer, outcome, failures, server_number, is_lost) in [
        (made, Some(OrderOutcome::Created), 0, Some(1), false),
        (
            Refused(error(422)),
            Some(OrderOutcome::Refused),
            3,
            None,
            false,
        ),
        (
            NotSent(unsent()),
            Some(OrderOutcome::NotSent),
            3,
            None,
            false,
        ),
        (Unknown("lost".into()), None, 2, None, true),
    ] {
        let ServerObservation::Ordered(recorded) =
            answers::observe_order_answer(record(), &answer, 9)
        else {
            panic!("{answer:?}")
        };
        let expected = OrderRecord {
            outcome,
            outcome_at: outcome.map(|_| 9),
            server: server_number.map(uuid),
            failures,
            answer_lost: is_lost,
            message: recorded.message.clone(),
            ..record()
        };
        assert_eq!(*recorded, expected, "{answer:?}");
    }
    let ServerObservation::Ordered(given_up) =
        answers::observe_unsent_order(record(), "too late", 9)
    else {
        panic!("not noted")
    };
    assert_eq!(
        (given_up.outcome, given_up.failures),
        (Some(OrderOutcome::NotSent), 3)
    );
    assert!(given_up.message.unwrap().ends_with("too late"));
}

#[test]
fn created_or_refused_resets_lost_order_counts() {
    use hosting_types::OrderResult::{Created, NotSent, Refused};
    let counts = |answer| {
        let record = OrderRecord {
            lost: 1,
            cut: 3,
            ..order_record(None, None)
        };
        match answers::observe_order_answer(record, &answer, 9) {
            ServerObservation::Ordered(recorded) => (recorded.lost, recorded.cut),
            recorded => panic!("{recorded:?}"),
        }
    };
    let made = Created(Box::new(server(1, ServerStatus::Created, &[])));
    assert_eq!(counts(NotSent(unsent())), (1, 3));
    assert_eq!(counts(made), (0, 0));
    assert_eq!(counts(Refused(error(422))), (0, 0));
}

#[test]
fn failed_tag_change_names_tag_and_remedy() {
    use crate::server::tag_changes::TagEnd;
    let message_of = |tag: &str, adds, answer| match answers::observe_tag_answer(
        "u",
        tag,
        adds,
        Some(&Err(answer)),
    ) {
        ServerObservation::TagChanged(change) => match change.end {
            TagEnd::Refused(error) | TagEnd::Unknown(error) => error.message,
            end => panic!("{end:?}"),
        },
        ServerObservation::Failed(error) => error.message,
        other => panic!("{other:?}"),
    };
    let removal = message_of("billing", false, error(422));
    assert!(
        removal.starts_with("Could not remove tag \"billing\"; "),
        "{removal}"
    );
    assert!(
        removal.ends_with("Remove it at the provider, or list it in spec.tags"),
        "{removal}"
    );
    let added = message_of("billing", true, error(422));
    assert!(
        added.starts_with("Could not add tag") && added.contains("spec.tags"),
        "{added}"
    );
    let own = message_of(RETAINED_TAG, false, error(422));
    assert!(
        own.contains(RETAINED_TAG) && !own.contains("spec.tags"),
        "{own}"
    );
    // A missing answer is not blamed on the tag, and the change may have been made.
    for (adds, what) in [(true, "add"), (false, "remove")] {
        let unknown = message_of("billing", adds, lost());
        let first = format!("The request to {what} tag \"billing\" has an unknown outcome; ");
        assert!(unknown.starts_with(&first), "{unknown}");
        assert!(!unknown.contains("spec.tags"), "{unknown}");
    }
    assert!(message_of("billing", false, unsent()).starts_with("Could not remove tag"));
}

#[test]
fn unknown_untag_answer_counts_as_not_retained() {
    let record = server(7, ServerStatus::Delivered, &["web", RETAINED_TAG]);
    let after = |tag: &str, adds, answer| {
        answers::record_after_tag_change(record.clone(), tag, adds, &answer)
    };
    for error in [lost(), error(500)] {
        let left = after(RETAINED_TAG, false, Err(error)).expect("it may be gone");
        assert_eq!(left.tags, ["web"]);
    }
    assert_eq!(
        after(RETAINED_TAG, false, Err(error(403))),
        None,
        "it is there still"
    );
    assert_eq!(
        after(RETAINED_TAG, true, Err(lost())),
        None,
        "nor one that may be"
    );
    assert_eq!(after("web", false, Err(lost())), None, "no tag of ours");
    let said = server(7, ServerStatus::Delivered, &["web"]);
    assert_eq!(after(RETAINED_TAG, false, Ok(said.clone())), Some(said));
}
