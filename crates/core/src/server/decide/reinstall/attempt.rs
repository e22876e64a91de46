//! One attempt to install a machine again, but for its calls: what the list of its commands says right before, what the
//! status says from then on, and what an answer or a look comes to. Used by `act` and walked by the model check.

use super::{
    super::{super::facts::ServerFacts, desired_status::DesiredStatus, expiry::format_time},
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

/// What the list of a machine's re-installations says right before.
#[derive(Debug)]
pub enum ReinstallCheck {
    /// Nothing stands against it; with its re-installations up to now.
    Free(ListedCommands),
    /// It was installed again by somebody whom nobody here knows: in words.
    Repeated(ListedCommands, String),
    /// It cannot be installed now: in words.
    Busy(String),
}

/// Reads that list, at `now` by the wall clock.
pub fn check_commands(known: &InstallHistory, commands: &[Command], now: i64) -> ReinstallCheck {
    let machine = &known.machine;
    if let Some(other) = listed::running(commands, &[], now) {
        let other = other.id.as_str();
        return ReinstallCheck::Busy(format!("command {other} already installs server {machine}"));
    }
    let Some(noted) = listed::summarize_commands(commands, now) else {
        return ReinstallCheck::Busy(format!(
            "server {machine} had more re-installations within a minute than the record can hold"
        ));
    };
    let last = known.last.as_ref();
    let before = last.map(|last| &last.intent.listed);
    let its = last.and_then(|last| last.command_id.as_deref());
    let strange = listed::unaccounted(before, its, known.since, commands);
    if strange.is_empty() {
        return ReinstallCheck::Free(noted);
    }
    let ids = strange.iter().map(|command| command.id.as_str());
    let why = format!(
        "commands without a record here re-installed the server: {}",
        wording::first_named(ids)
    );
    ReinstallCheck::Repeated(noted, why)
}

/// The intent of an attempt that was started at `since`, by a nonce that nobody has used before.
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
        machine: new.server_uuid.clone(),
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

/// What status says once the attempt is on record.
pub fn record_attempt(known: InstallHistory, record: &InstallRecord) -> InstallHistory {
    InstallHistory {
        revision: known.performed(),
        last: Some(record.clone()),
        ..known
    }
}

/// The whole status that notes it: who reads it sees that the machine is being installed, before the request is sent.
pub fn status_with_attempt(fresh: &ServerFacts, install: InstallHistory) -> BareMetalServerStatus {
    let mut draft = DesiredStatus::unchanged(fresh);
    let send_by = install.last.as_ref().map_or(0, |last| last.intent.send_by);
    let message = format!(
        "Re-installing server {}; the request is sent by {} or cancelled",
        install.machine,
        format_time(send_by)
    );
    draft.status.records.install = Some(install);
    draft.set(
        fresh,
        Explanation::waits(Reason::Reinstalling, message),
        None,
    );
    let now = jiff::Timestamp::from_second(fresh.now.wall).unwrap_or_default();
    draft.finish(now)
}

/// What a read says of the attempt, after an answer that was lost.
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

/// It was not sent by this attempt, which has ended.
pub fn close_unsent(record: InstallRecord, why: &str) -> InstallRecord {
    InstallRecord {
        outcome: Some(CommandOutcome::NotSent),
        message: Some(why.to_owned()),
        ..record
    }
}

/// It is not sent at all: somebody else did that, or an operator whose record is lost.
pub fn close_not_repeated(intent: InstallIntent, why: String, now: i64) -> InstallRecord {
    InstallRecord {
        end: Some(InstallEnd::NotRepeated),
        ended_at: Some(now),
        message: Some(why),
        ..InstallRecord::open(intent)
    }
}

/// What the answer to the request says.
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
    // A 409 among them: what it says of is another request, or this one.
    if error.may_have_taken_effect() {
        return record;
    }
    let outcome = match error {
        // It goes on when the key works, or there is room, or there is a connection.
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

/// What the list of the machine's re-installations, begun at `at`, says of one whose command is not known.
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

/// What its command says. That is no answer to the request, which may be on its way still: the command may be another one's.
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
