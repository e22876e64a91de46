//! One attempt to send a command: the intent in metadata and in status, then the request, then its outcome.
//! [`AttemptState`] has the order of the steps.

use super::CommandContext;
use crate::{
    controllers::writes::{WriteOutcome, with_finalizer},
    runtime::clock,
};
use api::{
    command::{
        CommandIntent, CommandOutcome, CommandRecord, ListedCommands, ServerCommand,
        ServerCommandStatus,
    },
    names::{COMMAND_ANNOTATION, OBJECT_FINALIZER},
};
use flexmetal_core::{
    attempt_state::{self, AttemptState, Closed, Reply},
    command::{
        decide::NewCommand,
        facts::{CommandFacts, CommandObservation, add},
    },
    last_error::LastError,
    moment::Moment,
    provider_commands::may_answer,
    reconcile::Ended,
};
use hosting_types::{Error, command::Command, host::HostResult};
use serde_json::json;
use std::{sync::Arc, time::Duration};

/// The result of a start.
// Short-lived; a box would save nothing.
#[allow(clippy::large_enum_variant)]
pub(super) enum CommandStart {
    /// Both writes succeeded; with the object after the second one.
    Send(CommandRecord, Arc<ServerCommand>),
    /// Nothing is sent; with the attempt, if its intent may be recorded.
    Closed(Option<CommandRecord>),
}

/// Writes the intent of a new attempt, step by step.
pub(super) async fn start(
    ctx: &CommandContext,
    fresh: &CommandFacts,
    new: &NewCommand,
    listed: ListedCommands,
    (since, window): (Moment, Duration),
) -> CommandStart {
    // Nothing is sent after the command's timeout.
    let left = window.min(fresh.time_left());
    let seconds = i64::try_from(left.as_secs()).unwrap_or(i64::MAX);
    let intent = CommandIntent {
        uid: fresh.subject.uid().to_owned(),
        action: new.action,
        server: new.server.clone(),
        attempt: uuid::Uuid::new_v4().simple().to_string(),
        started_at: since.wall,
        send_by: since.wall.saturating_add(seconds),
        account: new.account.clone(),
        listed,
    };
    let record = CommandRecord::new_open(intent);
    let mut records = fresh.records();
    add(&mut records, record.clone());
    let mut status = fresh.subject.status();
    status.records.sent = records;
    let mut attempt = CommandAttempt {
        object: fresh.subject.object.clone(),
        record,
        status,
    };
    match attempt.write(ctx).await {
        AttemptState::Closed(Closed::NotStarted) => CommandStart::Closed(None),
        AttemptState::Send => CommandStart::Send(attempt.record, attempt.object),
        _ => CommandStart::Closed(Some(attempt.record)),
    }
}

/// Whether the clocks still allow the request; checked right before it.
pub(super) fn may_send(since: Moment, record: &CommandRecord, window: Duration) -> bool {
    attempt_state::may_send(since, record.intent.send_by, clock::now(), window)
}

/// An attempt of this work item.
struct CommandAttempt {
    /// The object version that the next write is based on.
    object: Arc<ServerCommand>,
    record: CommandRecord,
    status: ServerCommandStatus,
}

impl CommandAttempt {
    async fn write(&mut self, ctx: &CommandContext) -> AttemptState {
        let mut state = AttemptState::default();
        loop {
            let reply = match state {
                AttemptState::WriteMetadata => {
                    let Ok(text) = serde_json::to_string(&self.record.intent) else {
                        return AttemptState::Closed(Closed::NotStarted);
                    };
                    let finalizers = with_finalizer(&*self.object, OBJECT_FINALIZER);
                    let metadata = json!({
                        "annotations": { COMMAND_ANNOTATION: text },
                        "finalizers": finalizers,
                    });
                    let written = ctx.write_metadata(&self.object, metadata).await;
                    self.reply(written)
                }
                AttemptState::WriteStatus => {
                    match ctx.write_status(&self.object, &self.status).await {
                        Some(written) => self.reply(written),
                        // A new nonce is always a difference, so None means that nothing was written.
                        None => Reply::Stale,
                    }
                }
                AttemptState::ReadMetadata | AttemptState::ReadStatus => {
                    self.read_object(ctx).await
                }
                AttemptState::Send | AttemptState::Closed(_) => return state,
            };
            state = state.after(reply);
        }
    }

    /// The reply of a write; the next write is based on its result.
    fn reply(&mut self, written: WriteOutcome<ServerCommand>) -> Reply {
        match written {
            WriteOutcome::Done(object) => {
                self.object = object;
                Reply::Done
            }
            WriteOutcome::Stale => Reply::Stale,
            WriteOutcome::Unknown(failure) => {
                tracing::warn!(
                    namespace = self.object.metadata.namespace,
                    name = self.object.metadata.name,
                    error = &failure as &dyn std::error::Error,
                    "command record unconfirmed"
                );
                Reply::Unknown
            }
        }
    }

    /// The reply of a read; the next write is based on what it shows.
    async fn read_object(&mut self, ctx: &CommandContext) -> Reply {
        let Ok(found) = ctx.read_object(&self.object).await else {
            return Reply::Unknown;
        };
        let reply = shown(found.as_deref(), &self.record.intent);
        if let Some(found) = found {
            self.object = found;
        }
        reply
    }
}

/// Where the object records this very attempt.
fn shown(object: Option<&ServerCommand>, intent: &CommandIntent) -> Reply {
    let annotations = object.and_then(|o| o.metadata.annotations.as_ref());
    let recorded = annotations.and_then(|all| all.get(COMMAND_ANNOTATION));
    let recorded = recorded.and_then(|text| serde_json::from_str::<CommandIntent>(text).ok());
    let status = object.and_then(|o| o.status.as_ref());
    let last = status.and_then(|status| status.records.sent.last());
    Reply::Shows {
        metadata: recorded.as_ref() == Some(intent),
        status: last.is_some_and(|record| record.intent == *intent),
    }
}

/// The record of an attempt that was certainly not sent.
pub(super) fn unsent(record: CommandRecord) -> CommandRecord {
    CommandRecord {
        outcome: Some(CommandOutcome::NotSent),
        ..record
    }
}

/// The record of a command that the provider accepted.
pub(super) fn accepted(record: CommandRecord, command: &Command) -> CommandRecord {
    CommandRecord {
        outcome: Some(CommandOutcome::Accepted),
        id: Some(command.id.as_str().to_owned()),
        state: Some(command.state.as_str().to_owned()),
        ..record
    }
}

/// The observation from an answer.
pub(super) fn answered(
    record: CommandRecord,
    answer: Result<Command, Error>,
) -> (Ended, CommandObservation) {
    let at = clock::now().mono;
    let error = match answer {
        Ok(command) if may_answer(&record.intent.listed, &command, record.intent.action) => {
            let record = accepted(record, &command);
            return (Ended::Done, CommandObservation::Sent(record, at));
        }
        // An answer about another command counts as lost.
        Ok(command) => {
            tracing::warn!(
                attempt = record.intent.attempt,
                command = command.id.as_str(),
                "command answer mismatched"
            );
            return (Ended::Done, CommandObservation::Sent(record, at));
        }
        Err(error) => error,
    };
    refused(record, &error, at)
}

/// The observation from an answer about a host. Its text is not documented, so it is not stored.
pub(super) fn answered_by_host(
    record: CommandRecord,
    answer: Result<HostResult, Error>,
) -> (Ended, CommandObservation) {
    let at = clock::now().mono;
    match answer {
        Ok(_) => {
            let record = CommandRecord {
                outcome: Some(CommandOutcome::Accepted),
                ..record
            };
            (Ended::Done, CommandObservation::Sent(record, at))
        }
        Err(error) => refused(record, &error, at),
    }
}

/// The observation from an error.
fn refused(record: CommandRecord, error: &Error, at: Duration) -> (Ended, CommandObservation) {
    let ended = Ended::Failed(LastError::from_provider(error));
    // Includes a 409, which may be about another command or about this one.
    if error.may_have_taken_effect() {
        return (ended, CommandObservation::Sent(record, at));
    }
    let closed = |outcome| CommandRecord {
        outcome: Some(outcome),
        message: Some(error.explain()),
        ..record.clone()
    };
    match error {
        // Sent again once the key works, the rate limit allows it, or a connection succeeds.
        Error::AccessDenied(_) | Error::RateLimited(_) | Error::NotSent(_) => {
            let record = closed(CommandOutcome::NotSent);
            (ended, CommandObservation::Sent(record, at))
        }
        _ => {
            let record = closed(CommandOutcome::Refused);
            (Ended::Done, CommandObservation::Sent(record, at))
        }
    }
}
