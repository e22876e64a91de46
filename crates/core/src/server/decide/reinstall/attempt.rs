//! One attempt to re-install a server, without its calls: the check before it, its records, its answers and polls.
//! `act` uses this, and the model check covers it.

use super::{
    super::{super::facts::ServerFacts, desired_status::DesiredStatus, expiry::to_timestamp},
    NewReinstall,
};
use crate::{
    attempt_state::Reply,
    explanation::Explanation,
    moment::Moment,
    provider_commands as listed,
    provider_commands::RequestedCommand,
    server::{facts::has_finalizer, install_memory::InstallObservation},
    wording,
};
use api::{
    BareMetalServer, Reason,
    command::{CommandOutcome, ListedCommands},
    install::{InstallEnd, InstallHistory, InstallIntent, InstallRecord},
    server::BareMetalServerStatus,
};
use hosting_types::{Error, Server, command::Command};
use std::time::Duration;

/// What the list of a server's re-installations shows right before the request.
#[derive(Debug)]
pub enum ReinstallCheck {
    /// The server may be re-installed. With its re-installations up to now.
    Free(ListedCommands),
    /// Commands without a record here re-installed it; in words.
    Repeated(ListedCommands, String),
    /// It cannot be re-installed now; in words.
    Busy(String),
}

/// Checks that list. `now` is wall time in seconds since 1970.
pub fn check_commands(known: &InstallHistory, commands: &[Command], now: i64) -> ReinstallCheck {
    let server_uuid = &known.server;
    if let Some(other) = listed::running(commands, &[], now) {
        let other = other.id.as_str();
        return ReinstallCheck::Busy(format!(
            "command {other} already installs server {server_uuid}"
        ));
    }
    let Some(summary) = listed::summarize_commands(commands, now) else {
        return ReinstallCheck::Busy(format!(
            "server {server_uuid} had more re-installations within a minute than the record can hold"
        ));
    };
    let last = known.last.as_ref();
    let before = last.map(|last| &last.intent.listed);
    let its = last.and_then(|last| last.command_id.as_deref());
    let unaccounted = listed::unaccounted(before, its, known.since, commands);
    if unaccounted.is_empty() {
        return ReinstallCheck::Free(summary);
    }
    let ids = unaccounted.iter().map(|command| command.id.as_str());
    let why = format!(
        "commands without a record here re-installed the server: {}",
        wording::first_named(ids)
    );
    ReinstallCheck::Repeated(summary, why)
}

/// The intent of an attempt that started at `since`. `attempt` is a nonce that was never used before.
pub fn build_intent(
    fresh: &ServerFacts,
    new: &NewReinstall,
    attempt: String,
    (since, window): (Moment, Duration),
    listed: ListedCommands,
) -> InstallIntent {
    let window = i64::try_from(window.as_secs()).unwrap_or(i64::MAX);
    InstallIntent {
        uid: fresh.uid().to_owned(),
        server: new.server_uuid.clone(),
        revision: new.revision,
        wipe_disk: fresh.object.spec.install.unwrap_or_default().wipes_disk(),
        attempt,
        started_at: since.wall,
        send_by: since.wall.saturating_add(window),
        account: new.account.clone(),
        listed,
        sent: new.sent.clone(),
        key_uids: new.key_uids.clone(),
        secret_texts: fresh.object.spec.has_secret_texts(),
    }
}

/// The history that records the attempt.
pub fn record_attempt(known: InstallHistory, record: &InstallRecord) -> InstallHistory {
    InstallHistory {
        revision: known.performed(),
        last: Some(record.clone()),
        ..known
    }
}

/// The whole status that records the attempt. It reports the re-installation before the request is sent.
pub fn status_with_attempt(fresh: &ServerFacts, install: InstallHistory) -> BareMetalServerStatus {
    let mut desired = DesiredStatus::unchanged(fresh);
    let send_by = install.last.as_ref().map_or(0, |last| last.intent.send_by);
    let message = format!(
        "Re-installing server {}; the request is sent by {} or cancelled",
        install.server,
        to_timestamp(send_by)
    );
    desired.status.records.install = Some(install);
    desired.set(
        fresh,
        Explanation::waits(Reason::Reinstalling, message),
        None,
    );
    let now = jiff::Timestamp::from_second(fresh.now.wall).unwrap_or_default();
    desired.finish(now)
}

/// What a read shows of the recorded attempt, after the answer to the write was lost.
pub fn reply_from_read(object: &BareMetalServer, intent: &InstallIntent) -> Reply {
    let status = object
        .status
        .as_ref()
        .and_then(|s| s.records.install.as_ref());
    let last = status.and_then(|install| install.last.as_ref());
    Reply::Shows {
        metadata: has_finalizer(object),
        status: last.is_some_and(|last| last.intent == *intent),
    }
}

/// Closes the attempt as not sent.
pub fn close_unsent(record: InstallRecord, why: &str) -> InstallRecord {
    InstallRecord {
        outcome: Some(CommandOutcome::NotSent),
        message: Some(why.to_owned()),
        ..record
    }
}

/// Closes the attempt without a request: another client re-installed the server, or an operator whose record is lost.
pub fn close_not_repeated(intent: InstallIntent, why: String, now: i64) -> InstallRecord {
    InstallRecord {
        end: Some(InstallEnd::NotRepeated),
        ended_at: Some(now),
        message: Some(why),
        ..InstallRecord::unfinished(intent)
    }
}

/// Records the answer to the request.
pub fn record_answer(record: InstallRecord, answer: &Result<Server, Error>) -> InstallRecord {
    let error = match answer {
        Ok(_) => {
            return InstallRecord {
                outcome: Some(CommandOutcome::Accepted),
                ..record
            };
        }
        Err(error) => error,
    };
    // This includes a 409: it may be about another request, or about this one.
    if error.may_have_taken_effect() {
        return record;
    }
    let outcome = match error {
        // It continues once the key works, the rate limit allows it, or a connection is possible.
        Error::AccessDenied(_) | Error::RateLimited(_) | Error::NotSent(_) => {
            CommandOutcome::NotSent
        }
        _ => CommandOutcome::Refused,
    };
    InstallRecord {
        outcome: Some(outcome),
        message: Some(error.explain()),
        ..record
    }
}

/// What the list of re-installations, started at `at`, shows of an attempt whose command is unknown.
pub fn observe_command_list(
    record: &InstallRecord,
    commands: &[Command],
    at: Duration,
) -> InstallObservation {
    let intent = &record.intent;
    let attempt = intent.attempt.clone();
    match listed::since(&intent.listed, commands, RequestedCommand::Installation).as_slice() {
        [] => InstallObservation::NotListed(attempt, at),
        [one] => observe_command(record, one, at),
        several => {
            let ids = several.iter().map(|command| command.id.as_str());
            InstallObservation::Several(attempt, wording::first_named(ids))
        }
    }
}

/// What its command shows. That is no answer to the request, which may still be in flight: the command may be another
/// one's.
pub fn observe_command(
    record: &InstallRecord,
    command: &Command,
    at: Duration,
) -> InstallObservation {
    let record = InstallRecord {
        command_id: Some(command.id.as_str().to_owned()),
        state: Some(command.state.as_str().to_owned()),
        ..record.clone()
    };
    InstallObservation::Polled(Box::new(record), at)
}
