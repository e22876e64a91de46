//! `spec.power` and `spec.powerRevision`: one ServerCommand for each change, and none at first sight of a machine.
//!
//! The provider does not say whether a machine is on, so there is no state to bring about again: what counts is the
//! change of the wish. It is noted in status first, with the name of the command to come, so that whoever goes on creates
//! that one and no other; what is sent, and that it is sent once, is the matter of that object.

use super::{
    super::facts::{Facts, KnownCommand},
    Effect, reinstall,
};
use api::{
    Reason,
    power::{PowerCommand, PowerState, PowerStatus},
    reinstall::InstallStatus,
};
use hosting_types::{Server, ServerStatus};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// What was noted and is not created after so many seconds is not created any more: nobody expects it then.
const LATEST: i64 = 86_400;

/// What a change of the wish comes to.
pub struct Wished {
    /// What is noted of it.
    pub status: Option<PowerStatus>,
    /// What is due, once that is noted.
    pub effect: Option<Effect>,
}

/// What is to be noted and done for a machine. Only of a delivered one the wish is heard: before, there is nothing to
/// switch.
pub fn wished(facts: &Facts, server: &Server) -> Wished {
    let nothing = |status| Wished {
        status,
        effect: None,
    };
    let spec = &facts.object.spec;
    let revision = spec.power_revision.unwrap_or_default();
    let id = server.id.as_str();
    let status = facts.status();
    // That of an earlier object is no wish of this one.
    let shown = status
        .power
        .filter(|_| facts.has_own_status())
        .map(|mut power| {
            if let Some(command) = &mut power.command {
                follow(facts, command);
            }
            power
        });
    let is_delivered = server.status == ServerStatus::Delivered;
    let Some(mut known) = shown
        .clone()
        .filter(|power| power.machine == id && is_delivered)
    else {
        // The first sight of the machine. That there is no wish is noted as well: to set one is a change then.
        let first = PowerStatus {
            wish: spec.power,
            revision,
            ..PowerStatus::new(id)
        };
        return nothing(match is_delivered {
            true => Some(first),
            false => shown,
        });
    };
    let Some(wish) = spec.power else {
        return nothing(Some(PowerStatus::new(id)));
    };
    let is_changed = known.wish != Some(wish) || known.revision < revision;
    // A machine that is being installed again takes no command; the wish is heard when that is over.
    if is_changed && facts.policies().let_send() && !is_installing(facts, id) {
        let generation = facts.object.metadata.generation.unwrap_or_default();
        known.wish = Some(wish);
        known.revision = known.revision.max(revision);
        known.command = Some(PowerCommand {
            name: format!(
                "{}-{}-{}-{generation}",
                facts.name(),
                wish.as_str(),
                facts.now.wall
            ),
            started_at: moment(facts),
            state: PowerState::Noted,
            reason: None,
        });
        return nothing(Some(known));
    }
    let is_due = |c: &&PowerCommand| {
        c.state == PowerState::Noted && !is_late(facts, c) && !is_installing(facts, id)
    };
    let noted = known.command.as_ref().filter(is_due);
    let effect = noted.map(|c| Effect::Command {
        name: c.name.clone(),
        action: wish.action(),
    });
    Wished {
        effect,
        status: Some(known),
    }
}

/// Whether the machine is being installed again, or may be.
fn is_installing(facts: &Facts, machine: &str) -> bool {
    let known = reinstall::known(facts, machine);
    known.as_ref().and_then(InstallStatus::open).is_some()
}

/// Takes in what is known of the command.
fn follow(facts: &Facts, command: &mut PowerCommand) {
    let is_created = facts.memory.powered.as_deref() == Some(command.name.as_str());
    match (command.state, &facts.power) {
        (PowerState::Noted | PowerState::Created, KnownCommand::Ended(is_complete, reason)) => {
            command.state = match is_complete {
                true => PowerState::Complete,
                false => PowerState::Failed,
            };
            command.reason = Some(reason.clone());
        }
        (PowerState::Noted, KnownCommand::Running) => command.state = PowerState::Created,
        (PowerState::Noted, _) if is_created => command.state = PowerState::Created,
        (PowerState::Noted, KnownCommand::Missing) if is_late(facts, command) => {
            command.state = PowerState::NotCreated;
        }
        (PowerState::Created, KnownCommand::Missing) => command.state = PowerState::Deleted,
        _ => {}
    }
}

fn is_late(facts: &Facts, command: &PowerCommand) -> bool {
    facts
        .now
        .wall
        .saturating_sub(command.started_at.0.as_second())
        > LATEST
}

fn moment(facts: &Facts) -> Time {
    Time(Timestamp::from_second(facts.now.wall).unwrap_or_default())
}

/// Whether a command may still be created: judged again on the object as it is right before.
pub fn may_create(fresh: &Facts, name: &str) -> bool {
    let status = fresh.status();
    let Some(power) = status.power else {
        return false;
    };
    let is_it =
        |c: &PowerCommand| c.name == name && c.state == PowerState::Noted && !is_late(fresh, c);
    let is_wished = power.wish.is_some() && power.wish == fresh.object.spec.power;
    power.command.as_ref().is_some_and(is_it)
        && is_wished
        && status.uuid.as_ref() == Some(&power.machine)
        && !is_installing(fresh, &power.machine)
        && !fresh.deleting()
        && fresh.policies().let_send()
}

/// What Synced says where the wish came to nothing.
pub fn unsynced(status: Option<&PowerStatus>) -> Option<(bool, Reason, String)> {
    let command = status?.command.as_ref()?;
    let why = match command.state {
        PowerState::Failed => command.reason.as_deref().unwrap_or("Failed"),
        PowerState::NotCreated => "it was not created within a day",
        _ => return None,
    };
    let text = format!(
        "spec.power: ServerCommand {} was not carried out ({why}); for another try, raise spec.powerRevision",
        command.name
    );
    Some((false, Reason::CommandFailed, text))
}
