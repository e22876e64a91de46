//! `spec.power` of servers and dedicated hosts: one ServerCommand for each change, and none at first sight.
//!
//! There is no state to bring about again: what counts is the change of the wish. It is recorded in status first, with the
//! name of the command to come, so that whoever goes on creates that one and no other; what is sent, and that it is sent
//! once, is the matter of that object.

use api::{
    Reason, ServerCommand,
    command::PowerAction,
    conditions::{Type, found_true},
    power::{Power, PowerCommandStatus, PowerRecord, PowerState, is_command_of},
};
use hosting_types::identity::is_same_uuid;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// What was recorded and is not created after so many seconds is not created any more: nobody expects it then.
const LATEST: i64 = 86_400;

/// What is known of the ServerCommand that status names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KnownCommand {
    /// It was not looked for, or the API server did not say.
    NotRead,
    /// There is none of this name.
    Missing,
    /// It has not ended.
    Running,
    /// It has ended, well or not, for this reason.
    Ended(bool, String),
}

impl KnownCommand {
    /// What the command shows to the object with this UID, as the API server has it; None: it was not read.
    pub fn from_command(uid: Option<&str>, read: Option<Option<ServerCommand>>) -> Self {
        let command = match read {
            None => return Self::NotRead,
            Some(None) => return Self::Missing,
            Some(Some(command)) => command,
        };
        if !is_command_of(uid, &command) {
            return Self::Ended(false, Reason::NameTaken.as_str().to_owned());
        }
        let conditions = command.status.unwrap_or_default().conditions;
        let end = |kind: Type| {
            let ended = |reason: &str| Self::Ended(kind == Type::Complete, reason.to_owned());
            found_true(&conditions, kind).map(|condition| ended(&condition.reason))
        };
        end(Type::Complete)
            .or_else(|| end(Type::Failed))
            .unwrap_or(Self::Running)
    }
}

/// What the wish of an object is judged by.
pub struct PowerFacts<'a> {
    /// Name of the object.
    pub name: &'a str,
    /// Generation of the object.
    pub generation: i64,
    /// `spec.power`.
    pub desired: Option<Power>,
    /// What is on record, where this very object wrote it.
    pub record: Option<PowerRecord>,
    /// The provider's identifier of the server, or the number of the host.
    pub target_id: &'a str,
    /// Whether it is there to be switched: only then the wish is heard.
    pub is_there: bool,
    /// Whether a command may be created now: the policies let it, and nothing is installed.
    pub may_send: bool,
    /// The command that status names.
    pub command: &'a KnownCommand,
    /// The command that this process created, by its name.
    pub created: Option<&'a str>,
    /// Unix second of now.
    pub now: i64,
}

/// What a change of the wish comes to.
pub struct PowerChange {
    /// What is recorded of it.
    pub record: Option<PowerRecord>,
    /// The command to create, once that is recorded: its name, and what it does.
    pub due: Option<(String, PowerAction)>,
}

/// What is to be recorded and done.
pub fn plan_power_change(facts: &PowerFacts<'_>) -> PowerChange {
    let nothing = |record| PowerChange { record, due: None };
    let shown = facts.record.clone().map(|power| follow(facts, power));
    let is_it =
        |power: &PowerRecord| is_same_uuid(&power.machine, facts.target_id) && facts.is_there;
    let Some(mut known) = shown.clone().filter(is_it) else {
        // First sight. That there is no wish is recorded as well: to set one is a change then.
        let first = PowerRecord {
            wish: facts.desired,
            ..PowerRecord::new(facts.target_id)
        };
        return nothing(match facts.is_there {
            true => Some(first),
            false => shown,
        });
    };
    let Some(wish) = facts.desired else {
        return nothing(Some(PowerRecord::new(facts.target_id)));
    };
    if known.wish != Some(wish) && facts.may_send {
        known.wish = Some(wish);
        known.command = Some(PowerCommandStatus {
            name: format!(
                "{}-{}-{}-{}",
                facts.name,
                wish.as_str(),
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
    let noted = known.command.as_ref().filter(is_due);
    let noted = noted.filter(|_| facts.may_send && known.wish == Some(wish));
    PowerChange {
        due: noted.map(|c| (c.name.clone(), wish.action())),
        record: Some(known),
    }
}

/// Takes in what is known of the command.
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
        (PowerState::Recorded, KnownCommand::Running) => command.state = PowerState::Created,
        (PowerState::Recorded, _) if is_created => command.state = PowerState::Created,
        (PowerState::Recorded, KnownCommand::Missing) if is_late(facts, command) => {
            if !facts.may_send {
                // The change is recorded anew once it may be sent.
                return PowerRecord::new(&power.machine);
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

/// Whether a command may still be created: judged again on the object as it is right before.
pub fn may_create(fresh: &PowerFacts<'_>, name: &str) -> bool {
    let Some(power) = &fresh.record else {
        return false;
    };
    let is_it = |c: &PowerCommandStatus| {
        c.name == name && c.state == PowerState::Recorded && !is_late(fresh, c)
    };
    power.command.as_ref().is_some_and(is_it)
        && power.wish.is_some()
        && power.wish == fresh.desired
        && is_same_uuid(&power.machine, fresh.target_id)
        && fresh.may_send
}

/// Whether the wish has changed, and no command was created for that yet.
pub fn is_unsent(wish: Option<Power>, status: Option<&PowerRecord>) -> bool {
    let is_noted = |command: &PowerCommandStatus| command.state == PowerState::Recorded;
    wish.is_some()
        && status
            .is_some_and(|known| known.wish != wish || known.command.as_ref().is_some_and(is_noted))
}

/// Why the wish came to nothing, if it did.
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
