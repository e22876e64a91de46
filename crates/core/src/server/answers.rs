//! Converts the client's answers to observations for the memory.

use super::{
    memory::{ReleaseAnswer, SentRelease, ServerObservation},
    tag_changes::{TagChange, TagEnd},
};
use crate::{account::ownership_tags, attempt_state::Reply, last_error::LastError};
use api::{
    Reason,
    names::RETAINED_TAG,
    server::{OrderOutcome, OrderRecord},
};
use hosting_types::{Error, Server, ServerStatus};
use std::time::Duration;

/// Observation of the answer to an order. If the outcome is unknown, the record stays open with `answer_lost`.
pub fn observe_order_answer(
    record: OrderRecord,
    answer: &hosting_types::OrderResult,
    now: i64,
) -> ServerObservation {
    use hosting_types::OrderResult::{Created, NotSent, Refused, Unknown};
    let record = match answer {
        Created(server) => OrderRecord {
            outcome: Some(OrderOutcome::Created),
            outcome_at: Some(now),
            server: Some(server.id.as_str().to_owned()),
            failures: 0,
            lost: 0,
            cut: 0,
            ..record
        },
        Refused(error) => {
            let record = OrderRecord {
                lost: 0,
                cut: 0,
                ..record
            };
            failed(record, OrderOutcome::Refused, error.explain(), now)
        }
        NotSent(error) => failed(record, OrderOutcome::NotSent, error.explain(), now),
        Unknown(_) => OrderRecord {
            answer_lost: true,
            ..record
        },
    };
    ServerObservation::Ordered(Box::new(record))
}

/// Observation of an order that was recorded but never sent.
pub fn observe_unsent_order(record: OrderRecord, why: &str, now: i64) -> ServerObservation {
    let why = format!("The order was not sent; {why}");
    let record = failed(record, OrderOutcome::NotSent, why, now);
    ServerObservation::Ordered(Box::new(record))
}

fn failed(record: OrderRecord, outcome: OrderOutcome, why: String, now: i64) -> OrderRecord {
    OrderRecord {
        outcome: Some(outcome),
        outcome_at: Some(now),
        message: Some(why),
        failures: record.failures.saturating_add(1),
        ..record
    }
}

/// Observation of the answer to a DELETE. `record` is the server, read right before.
pub fn observe_release_answer(
    answer: &Result<Server, Error>,
    record: &Server,
    at: Duration,
) -> ServerObservation {
    let is_failed = record.status == ServerStatus::Failed;
    let answer = match answer {
        Ok(_) => ReleaseAnswer::Accepted,
        // The DELETE was not done, and not refused because of the server's state: retried later.
        Err(
            error @ (Error::AccessDenied(_)
            | Error::Forbidden { .. }
            | Error::NotSent(_)
            | Error::RateLimited(_)),
        ) => return ServerObservation::Failed(LastError::from_provider(error)),
        // Refused in this state. If it took effect anyway, the next read shows it.
        Err(Error::Refused(_)) if !is_failed => ReleaseAnswer::Refused,
        // Only a certain refusal of a failed server counts towards removing its finalizer. The answer that the server
        // is unknown is no such refusal.
        Err(error @ Error::Refused(_)) if !error.may_have_taken_effect() => ReleaseAnswer::Refused,
        Err(error) => ReleaseAnswer::Unknown(LastError::from_provider(error)),
    };
    ServerObservation::Released(SentRelease {
        uuid: record.id.as_str().to_owned(),
        failed: is_failed,
        answer,
        at,
    })
}

/// Observation of the answer to a server read that started at `at`.
pub fn observe_read_answer(
    uuid: &str,
    answer: &Result<Server, Error>,
    at: Duration,
) -> ServerObservation {
    let read = |is_there| ServerObservation::Read {
        uuid: uuid.to_owned(),
        at,
        is_there,
    };
    match answer {
        Ok(_) => read(true),
        Err(Error::NotFound(_)) => read(false),
        Err(error) => ServerObservation::Failed(LastError::from_provider(error)),
    }
}

/// Observation of a tag change; no answer: a read right before showed that the change is not due.
pub fn observe_tag_answer(
    uuid: &str,
    tag: &str,
    adds: bool,
    answer: Option<&Result<Server, Error>>,
) -> ServerObservation {
    let end = match answer {
        None => TagEnd::NotDue,
        Some(Ok(_)) => TagEnd::Made,
        Some(Err(error)) if error.may_have_taken_effect() => {
            TagEnd::Unknown(explain_tag_error(tag, adds, error))
        }
        Some(Err(error)) => TagEnd::Refused(explain_tag_error(tag, adds, error)),
    };
    match (end, ownership_tags::is_operators(tag)) {
        (end, false) => ServerObservation::TagChanged(TagChange {
            uuid: uuid.to_owned(),
            tag: tag.to_owned(),
            adds,
            end,
        }),
        (TagEnd::Made | TagEnd::NotDue, true) => ServerObservation::Done,
        (TagEnd::Unknown(error) | TagEnd::Refused(error), true) => ServerObservation::Failed(error),
    }
}

/// The error of a tag change, with the tag in its message.
fn explain_tag_error(tag: &str, adds: bool, error: &Error) -> LastError {
    let last_error = LastError::from_provider(error);
    let is_refused = last_error.reason == Reason::RequestRefused;
    let (what, remedy) = match (adds, ownership_tags::is_operators(tag)) {
        (true, false) => ("add", ". Correct it in spec.tags, or remove it there"),
        (true, true) => ("add", ""),
        (false, false) => (
            "remove",
            ". Remove it at the provider, or list it in spec.tags",
        ),
        (false, true) => ("remove", ". Remove it at the provider"),
    };
    let summary = match error.may_have_taken_effect() {
        true => format!("The request to {what} tag {tag:?} has an unknown outcome"),
        false => format!("Could not {what} tag {tag:?}"),
    };
    LastError {
        message: format!(
            "{summary}; {}{}",
            last_error.message,
            if is_refused { remedy } else { "" }
        ),
        ..last_error
    }
}

/// The server after a tag change; none: `record` is still valid. If the removal of the retained tag has an unknown
/// outcome, the tag counts as removed, so that it is added again.
pub fn record_after_tag_change(
    mut record: Server,
    tag: &str,
    adds: bool,
    answer: &Result<Server, Error>,
) -> Option<Server> {
    match answer {
        Ok(server) => Some(server.clone()),
        Err(error) if error.may_have_taken_effect() && !adds && tag == RETAINED_TAG => {
            record.tags.retain(|known| known != tag);
            Some(record)
        }
        Err(_) => None,
    }
}

/// Observation of a single write; `why` explains a failure.
pub fn observe_write_reply(reply: Reply, why: impl FnOnce() -> String) -> ServerObservation {
    match reply {
        Reply::Done => ServerObservation::Done,
        Reply::Stale => ServerObservation::Stale,
        Reply::Unknown | Reply::Shows { .. } => {
            ServerObservation::Failed(LastError::from_write(why()))
        }
    }
}
