//! `spec.power` of servers and dedicated hosts: each change creates one ServerCommand, and the first observation none.
//! Status records the change and the command's name first, so that a retry creates the same command and no other.

use api::{
    Reason, ServerCommand,
    command::{CommandOutcome, CommandRecord, PowerAction},
    conditions::{Type, found_true},
    names::COMMAND_ANNOTATION,
    power::{Power, PowerCommandStatus, PowerRecord, PowerState, is_command_of},
};
use hosting_types::identity::is_same_uuid;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// Seconds after which a recorded command is not created any more.
const LATEST: i64 = 86_400;

/// State of the ServerCommand that status names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KnownCommand {
    /// It was not read, or the read failed.
    NotRead,
    /// No ServerCommand has this name.
    Missing,
    /// It has not ended, and nothing was sent for it.
    Unsent,
    /// It has not ended, and may have been sent.
    Running,
    /// It has ended: whether it is complete, and the reason.
    Ended(bool, String),
}

impl KnownCommand {
    /// State of a command of the object with this UID, as read from the API server; None: it was not read.
    pub fn from_command(uid: Option<&str>, read: Option<Option<ServerCommand>>) -> Self {
        let command = match read {
            None => return Self::NotRead,
            Some(None) => return Self::Missing,
            Some(Some(command)) => command,
        };
        if !is_command_of(uid, &command) {
            return Self::Ended(false, Reason::NameTaken.as_str().to_owned());
        }
        let is_unsent = is_unsent_command(&command);
        let conditions = command.status.unwrap_or_default().conditions;
        let end = |kind: Type| {
            let ended = |reason: &str| Self::Ended(kind == Type::Complete, reason.to_owned());
            found_true(&conditions, kind).map(|condition| ended(&condition.reason))
        };
        end(Type::Complete)
            .or_else(|| end(Type::Failed))
            .unwrap_or(match is_unsent {
                true => Self::Unsent,
                false => Self::Running,
            })
    }
}

/// Whether the records of a command rule out that it was sent. A command without records may have lost its status.
fn is_unsent_command(command: &ServerCommand) -> bool {
    let status = command.status.as_ref();
    let sent = status.map_or(&[][..], |status| &status.records.sent);
    let annotations = command.metadata.annotations.as_ref();
    let is_annotated = annotations.is_some_and(|it| it.contains_key(COMMAND_ANNOTATION));
    let was_not_sent = |record: &CommandRecord| record.outcome == Some(CommandOutcome::NotSent);
    (!sent.is_empty() || !is_annotated) && sent.iter().all(was_not_sent)
}

/// The facts about `spec.power` of an object.
pub struct PowerFacts<'a> {
    /// Name of the object.
    pub name: &'a str,
    /// Generation of the object.
    pub generation: i64,
    /// `spec.power`.
    pub desired: Option<Power>,
    /// The recorded change, if this very object recorded it.
    pub record: Option<PowerRecord>,
    /// The provider's identifier of the server, or the number of the host.
    pub target_id: &'a str,
    /// Whether the server or host exists. If not, `spec.power` has no effect yet.
    pub is_there: bool,
    /// Whether a command may be created now: the policies allow it, and no installation runs.
    pub may_send: bool,
    /// Whether the operator is read-only, so that the command is not sent.
    pub is_read_only: bool,
    /// The command that status names.
    pub command: &'a KnownCommand,
    /// The command that this process created, by its name.
    pub created: Option<&'a str>,
    /// Unix second of now.
    pub now: i64,
}

/// What `spec.power` leads to.
pub struct PowerChange {
    /// The next record.
    pub record: Option<PowerRecord>,
    /// The command to create once the record is written: its name and its action.
    pub due: Option<(String, PowerAction)>,
}

/// Plans what to record and what to create.
pub fn plan_power_change(facts: &PowerFacts<'_>) -> PowerChange {
    let nothing = |record| PowerChange { record, due: None };
    let shown = facts.record.clone().map(|power| follow(facts, power));
    let is_it =
        |power: &PowerRecord| is_same_uuid(&power.target, facts.target_id) && facts.is_there;
    let Some(mut known) = shown.clone().filter(is_it) else {
        // First observation. An absent `spec.power` is recorded too, so that setting it later is a change.
        let first = PowerRecord {
            desired: facts.desired,
            ..PowerRecord::new(facts.target_id)
        };
        return nothing(match facts.is_there {
            true => Some(first),
            false => shown,
        });
    };
    let Some(desired) = facts.desired else {
        return nothing(Some(PowerRecord::new(facts.target_id)));
    };
    if known.desired != Some(desired) && facts.may_send {
        known.desired = Some(desired);
        known.command = Some(PowerCommandStatus {
            name: format!(
                "{}-{}-{}-{}",
                facts.name,
                desired.as_str(),
                facts.now,
                facts.generation
            ),
            started_at: Time(Timestamp::from_second(facts.now).unwrap_or_default()),
            state: PowerState::Recorded,
            reason: None,
        });
        return nothing(Some(known));
    }
    let is_due = |c: &&PowerCommandStatus| c.state == PowerState::Recorded && !is_late(facts, c);
    let recorded = known.command.as_ref().filter(is_due);
    let recorded = recorded.filter(|_| facts.may_send && known.desired == Some(desired));
    PowerChange {
        due: recorded.map(|c| (c.name.clone(), desired.action())),
        record: Some(known),
    }
}

/// Updates the record from the state of the command.
fn follow(facts: &PowerFacts<'_>, mut power: PowerRecord) -> PowerRecord {
    let Some(command) = &mut power.command else {
        return power;
    };
    let is_created = facts.created == Some(command.name.as_str());
    match (command.state, facts.command) {
        (PowerState::Recorded | PowerState::Created, KnownCommand::Ended(is_complete, reason)) => {
            command.state = match is_complete {
                true => PowerState::Complete,
                false => PowerState::Failed,
            };
            command.reason = Some(reason.clone());
        }
        // It may reach its timeout before it is sent; the change is recorded again after read-only mode.
        (PowerState::Recorded | PowerState::Created, KnownCommand::Unsent)
            if facts.is_read_only =>
        {
            return PowerRecord::new(&power.target);
        }
        (PowerState::Recorded, KnownCommand::Unsent | KnownCommand::Running) => {
            command.state = PowerState::Created;
        }
        (PowerState::Recorded, _) if is_created => command.state = PowerState::Created,
        (PowerState::Recorded, KnownCommand::Missing) if is_late(facts, command) => {
            if !facts.may_send {
                // The change is recorded again once a command may be created.
                return PowerRecord::new(&power.target);
            }
            command.state = PowerState::NotCreated;
        }
        (PowerState::Created, KnownCommand::Missing) => command.state = PowerState::Deleted,
        _ => {}
    }
    power
}

fn is_late(facts: &PowerFacts<'_>, command: &PowerCommandStatus) -> bool {
    facts.now.saturating_sub(command.started_at.0.as_second()) > LATEST
}

/// Whether a command may still be created, checked on the live object right before.
pub fn may_create(fresh: &PowerFacts<'_>, name: &str) -> bool {
    let Some(power) = &fresh.record else {
        return false;
    };
    let is_it = |c: &PowerCommandStatus| {
        c.name == name && c.state == PowerState::Recorded && !is_late(fresh, c)
    };
    power.command.as_ref().is_some_and(is_it)
        && power.desired.is_some()
        && power.desired == fresh.desired
        && is_same_uuid(&power.target, fresh.target_id)
        && fresh.may_send
}

/// Whether `spec.power` has changed, and no command was created for the change yet.
pub fn is_unsent(desired: Option<Power>, status: Option<&PowerRecord>) -> bool {
    let is_recorded = |command: &PowerCommandStatus| command.state == PowerState::Recorded;
    desired.is_some()
        && status.is_some_and(|known| {
            known.desired != desired || known.command.as_ref().is_some_and(is_recorded)
        })
}

/// Why the last change of `spec.power` failed, if it did.
pub fn failed(record: Option<&PowerRecord>) -> Option<String> {
    let command = record?.command.as_ref()?;
    let why = match command.state {
        PowerState::Failed => {
            let reason = command.reason.as_deref().unwrap_or("Failed");
            format!("failed ({reason})")
        }
        PowerState::NotCreated => "was not created within a day".to_owned(),
        _ => return None,
    };
    Some(format!(
        "ServerCommand {} of spec.power {why}. To try again, create another ServerCommand, or remove spec.power and set it again",
        command.name
    ))
}
