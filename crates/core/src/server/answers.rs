//! What an answer of the provider means: from what the client returned to what is noted of it.
//!
//! Pure, and used by the model check as well as by `act`.

use super::{
    decide::{LookUp, tags},
    memory::{Observation, Obstacle, ReleaseAnswer, Sent},
    tag_changes::{TagChange, TagEnd},
};
use crate::{
    once::{Answer, Closed, Outcome, Reply, Settlement},
    trouble::Trouble,
};
use api::{
    names::RETAINED_PREFIX,
    server::{OrderOutcome, OrderRecord},
};
use hosting_types::{Error, Server, ServerStatus};
use std::time::Duration;

/// What is noted of the answer to an order. What the client cannot call created, refused or not
/// sent is unknown.
pub fn of_order(
    record: OrderRecord,
    answer: &hosting_types::OrderOutcome,
    now: i64,
) -> Observation {
    use hosting_types::OrderOutcome::{Created, NotSent, Refused, Unknown};
    let (answer, uuid) = match answer {
        Created(server) => (Answer::Done, Some(server.id.as_str().to_owned())),
        Refused(error) => (Answer::Refused(error.explain()), None),
        NotSent(error) => (Answer::NotSent(error.explain()), None),
        Unknown(_) => (Answer::Unknown, None),
    };
    let order = settled(record, answer, now);
    Observation::Ordered { order, uuid }
}

/// What is noted of an order that was given up before it was sent. `refusal`: why the API server did not write it down, or
/// what else stood against it.
pub fn of_unsent(
    record: OrderRecord,
    closed: Closed,
    refusal: Option<String>,
    now: i64,
) -> Observation {
    match closed {
        Closed::NotStarted => {
            let why = match refusal {
                Some(why) => format!(
                    "that an order is under way cannot be noted on the object, so none is sent: {why}"
                ),
                None => "somebody else changed the object at the same time".into(),
            };
            Observation::Failed(Trouble::of_write(why))
        }
        Closed::NotSent => {
            let why = refusal.unwrap_or_else(|| "it did not come in time".to_owned());
            let why = format!("the order was not sent: {why}");
            let order = settled(record, Answer::NotSent(why), now);
            Observation::Ordered { order, uuid: None }
        }
    }
}

fn settled(record: OrderRecord, answer: Answer, now: i64) -> OrderRecord {
    let Settlement {
        outcome,
        outcome_at,
        message,
        failures,
    } = answer.entry(record.failures, now);
    let outcome = outcome.map(|outcome| match outcome {
        Outcome::Done => OrderOutcome::Created,
        Outcome::Refused => OrderOutcome::Refused,
        Outcome::NotSent => OrderOutcome::NotSent,
    });
    OrderRecord {
        outcome,
        outcome_at,
        message,
        failures,
        ..record
    }
}

/// What is noted of the answer to the DELETE of a machine, whose record was read right before.
pub fn of_release(answer: &Result<Server, Error>, record: &Server, at: Duration) -> Observation {
    let is_failed = record.status == ServerStatus::Failed;
    let answer = match answer {
        Ok(_) => ReleaseAnswer::Accepted,
        // Neither done nor refused for what the machine is: asked again in its time.
        Err(error @ (Error::AccessDenied(_) | Error::NotSent(_) | Error::RateLimited(_))) => {
            return Observation::Failed(Trouble::of_provider(error));
        }
        // Not in this state. Where it did take effect all the same, the next read shows it.
        Err(Error::Refused(_)) if !is_failed => ReleaseAnswer::Refused,
        // The refusal of a failed machine is part of the proof that its object may go, so it must be
        // certain. A machine that the provider does not know was not refused for what it is.
        Err(error @ Error::Refused(_)) if !error.may_have_taken_effect() => ReleaseAnswer::Refused,
        Err(_) => ReleaseAnswer::Unknown,
    };
    Observation::Released(Sent {
        uuid: record.id.as_str().to_owned(),
        failed: is_failed,
        answer,
        at,
    })
}

/// What is noted of the answer to the read of a machine that was asked for at this moment.
/// `not_listed`: start of the newest proof listing, with control, that does not show it.
pub fn of_read(
    answer: &Result<Server, Error>,
    not_listed: Option<Duration>,
    at: Duration,
) -> Observation {
    match answer {
        Ok(record) => Observation::Found {
            at,
            failed: record.status == ServerStatus::Failed && record.delivered_at.is_none(),
        },
        Err(Error::NotFound(_)) => Observation::NotFound {
            at,
            listing: not_listed,
        },
        Err(error) => Observation::Failed(Trouble::of_provider(error)),
    }
}

/// What is noted of the look for an order: whether the account's tags show the order's, and the control's.
pub fn of_look(look: &LookUp, order_tag: bool, control_tag: bool) -> Observation {
    let obstacle = if order_tag {
        Some(Obstacle::TagExists)
    } else if !control_tag {
        Some(Obstacle::NoControl)
    } else {
        look.suspect.clone().map(Obstacle::Unmarked)
    };
    Observation::Looked {
        attempt: look.attempt.clone(),
        proof_began: look.proof_began,
        obstacle,
    }
}

/// What is noted of the change of a tag of a machine; no answer: a read right before showed that it is not to be made.
pub fn of_tag(
    uuid: &str,
    tag: &str,
    adds: bool,
    answer: Option<&Result<Server, Error>>,
) -> Observation {
    let end = match answer {
        None => TagEnd::NotDue,
        Some(Ok(_)) => TagEnd::Made,
        Some(Err(error)) if error.may_have_taken_effect() => {
            TagEnd::Unknown(Trouble::of_provider(error))
        }
        Some(Err(error)) => TagEnd::Refused(Trouble::of_provider(error)),
    };
    match (end, tags::is_operators(tag)) {
        (end, false) => Observation::TagChanged(TagChange {
            uuid: uuid.to_owned(),
            tag: tag.to_owned(),
            adds,
            end,
        }),
        (TagEnd::Made | TagEnd::NotDue, true) => Observation::Done,
        (TagEnd::Unknown(trouble) | TagEnd::Refused(trouble), true) => Observation::Failed(trouble),
    }
}

/// The record to go by after the change of a tag of a machine, read right before; None: that record. Where it is not known
/// whether a machine is still marked as kept it counts as not: whoever lets it stay marks it again then.
pub fn after_tag(
    mut record: Server,
    tag: &str,
    adds: bool,
    answer: &Result<Server, Error>,
) -> Option<Server> {
    match answer {
        Ok(server) => Some(server.clone()),
        Err(error)
            if error.may_have_taken_effect() && !adds && tag.starts_with(RETAINED_PREFIX) =>
        {
            record.tags.retain(|known| known != tag);
            Some(record)
        }
        Err(_) => None,
    }
}

/// What is noted of a single write that an effect consists of; `why` says what stood against it.
pub fn of_write(reply: Reply, why: impl FnOnce() -> String) -> Observation {
    match reply {
        Reply::Done => Observation::Done,
        Reply::Stale => Observation::Stale,
        Reply::Unknown | Reply::Shows { .. } => Observation::Failed(Trouble::of_write(why())),
    }
}
