//! The decision: facts in, one decision out.
//!
//! A command is sent at most once, on the server as it is read right before. One whose answer was lost is looked for and
//! never sent again: it is found, or the object fails and says so.

mod end;
mod follow;
mod start;
#[cfg(test)]
pub(crate) mod tests;

use super::facts::Facts;
use crate::{
    controllers::{
        cause::Cause,
        pass::{self, Sight},
    },
    kinds::{
        command::{CommandOutcome, CommandRecord, PowerAction, ServerCommandStatus},
        order::OrderAccount,
    },
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// A decision about a command.
pub type Decision = pass::Decision<ServerCommandStatus, Effect>;

/// Something to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Start an attempt, and send the command once.
    Send(Box<NewCommand>),
    /// Look at a command that the provider has.
    Look(Box<CommandRecord>),
    /// Look for a command of unknown outcome among those of the machine.
    Search(Box<CommandRecord>),
    /// Take the finalizer off.
    LetGo,
    /// Delete the object: it is over, and its time has passed.
    Delete,
}

/// A command that is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewCommand {
    /// What is done.
    pub action: PowerAction,
    /// UID of the server.
    pub server: String,
    /// The provider's identifier of its machine.
    pub machine: String,
    /// The account that it goes to.
    pub account: OrderAccount,
}

/// Decides what to do for one command.
pub fn decide(facts: &Facts) -> Decision {
    by_records(facts).answering(&facts.subject, || Sight::Unneeded)
}

fn by_records(facts: &Facts) -> Decision {
    if facts.is_finished() {
        return end::finished(facts);
    }
    let records = facts.records();
    // What was not sent is no step: the one before it is where the command stands.
    let sent_nothing = |r: &&CommandRecord| r.outcome == Some(CommandOutcome::NotSent);
    let last = records.iter().rev().find(|r| !sent_nothing(r));
    match last.map(|last| (last, last.outcome)) {
        Some((last, None)) => follow::search(facts, last),
        Some((last, Some(CommandOutcome::Accepted))) => follow::follow(facts, last),
        Some((last, Some(CommandOutcome::Refused))) => end::refused(facts, last),
        Some((_, Some(CommandOutcome::NotSent))) | None => start::start(facts, None),
    }
}

/// Waits, and says why, with what was sent on record.
fn hold(facts: &Facts, cause: Cause) -> Decision {
    Decision::of(status(facts)).because(cause)
}

/// The status with what is known of what was sent.
fn status(facts: &Facts) -> ServerCommandStatus {
    let mut status = facts.subject.status();
    status.sent = facts.records();
    let last = status.sent.last();
    status.command_id = last.and_then(|record| record.id.clone());
    status.state = last.and_then(|record| record.state.clone());
    let first = status.sent.first();
    let first = first.filter(|record| record.outcome != Some(CommandOutcome::NotSent));
    status.started_at = first.and_then(|record| moment(record.intent.started_at));
    status
}

fn moment(unix: i64) -> Option<Time> {
    Timestamp::from_second(unix).ok().map(Time)
}
