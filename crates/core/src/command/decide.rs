//! The decision on a command. It is sent at most once, on the target as read right before. If its answer is lost, the
//! operator searches for it and never sends it again: it is found, or the object fails.

mod completion;
mod follow;
mod start;
#[cfg(test)]
pub(crate) mod tests;

pub use start::may_send;

use super::facts::{CommandFacts, last_sent_record};
use crate::{
    account::priority::Priority,
    explanation::Explanation,
    read_only::Effect,
    reconcile::{self, ReadSource},
};
use api::{
    command::{CommandOutcome, CommandRecord, PowerAction, ServerCommandStatus},
    order::OrderAccount,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// A decision about a command.
pub type CommandDecision = reconcile::Decision<ServerCommandStatus, CommandEffect>;

/// Something to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandEffect {
    /// Start an attempt, and send the command once.
    Send(Box<NewCommand>),
    /// Read a command that the provider has.
    ReadCommand(Box<CommandRecord>),
    /// Search for a command of unknown outcome: among the server's commands, or by the power of the host.
    Search {
        /// The command.
        record: Box<CommandRecord>,
        /// Most calls: pages of the server's commands, or one for a host.
        calls: u32,
    },
    /// Remove the finalizer.
    RemoveFinalizer,
    /// Delete the object: it is finished, and its time to live is over.
    Delete,
}

impl Effect for CommandEffect {
    fn change(&self) -> Option<String> {
        match self {
            Self::Send(new) => Some(format!("send {} to {}", new.action.as_str(), new.server)),
            Self::ReadCommand(_) | Self::Search { .. } => None,
            Self::RemoveFinalizer => Some("remove the finalizer, which ends this object".into()),
            Self::Delete => Some("delete this object".into()),
        }
    }
}

/// A command that is due.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NewCommand {
    /// The action.
    pub action: PowerAction,
    /// UID of the target.
    pub target: String,
    /// The provider's identifier of the server, or the number of the host.
    pub server: String,
    /// The provider's number of the server behind a host, as last read.
    pub server_id: Option<i64>,
    /// The account that it goes to.
    pub account: OrderAccount,
    /// Most pages of the server's commands to read; a host has none.
    pub pages: u32,
}

/// Decides what to do for one command.
pub fn decide(facts: &CommandFacts) -> CommandDecision {
    by_records(facts)
        .block_change(&facts.subject, None)
        .answering(&facts.subject, || ReadSource::NotNeeded)
}

/// Whether the decision needs the target: a command may be about to be sent. A queued, running or finished command
/// needs no read.
pub fn needs_target(facts: &CommandFacts) -> bool {
    let is_out = facts.is_finished() || facts.subject.is_deleting() || facts.is_late();
    if is_out || !facts.is_first {
        return false;
    }
    match last_sent_record(&facts.records(), facts.subject.uid()) {
        None => !facts.is_repeated(),
        Some(last) => follow::is_escalated(facts, last),
    }
}

fn by_records(facts: &CommandFacts) -> CommandDecision {
    if facts.is_finished() {
        return completion::finished(facts);
    }
    let records = facts.records();
    let last = last_sent_record(&records, facts.subject.uid());
    match last.map(|last| (last, last.outcome)) {
        Some((last, None)) => follow::search(facts, last),
        Some((last, Some(CommandOutcome::Accepted))) => follow::follow(facts, last),
        Some((last, Some(CommandOutcome::Refused))) => completion::refused(facts, last),
        Some((_, Some(CommandOutcome::NotSent))) | None => start::start(facts, None),
    }
}

/// Waits for this reason, and records what was sent.
fn wait_with_reason(facts: &CommandFacts, explanation: Explanation) -> CommandDecision {
    CommandDecision::from_status(status(facts)).because(explanation)
}

/// The status with what is known of the sent commands.
fn status(facts: &CommandFacts) -> ServerCommandStatus {
    let mut status = facts.subject.status();
    status.records.sent = facts.records();
    let last = last_sent_record(&status.records.sent, facts.subject.uid());
    status.command_id = last.and_then(|record| record.id.clone());
    let word = last.and_then(|record| record.state.clone());
    status.provider_state = word.filter(|word| !word.is_empty());
    let is_step = |record: &&CommandRecord| record.outcome != Some(CommandOutcome::NotSent);
    let first = status.records.sent.iter().find(is_step);
    status.started_at = first.and_then(|record| moment(record.intent.started_at));
    status
}

fn moment(unix: i64) -> Option<Time> {
    Timestamp::from_second(unix).ok().map(Time)
}

/// Priority and calls of an effect.
pub fn permit_for(effect: &CommandEffect) -> Option<(Priority, u32)> {
    match effect {
        // Reads the server and its commands first; the request has a call of its own, which no list uses up.
        CommandEffect::Send(new) => Some((Priority::Change, 2 + new.pages)),
        CommandEffect::ReadCommand(_) => Some((Priority::Poll, 1)),
        CommandEffect::Search { calls, .. } => Some((Priority::Resolve, *calls)),
        CommandEffect::RemoveFinalizer | CommandEffect::Delete => None,
    }
}
