//! The facts of a decision on a command, and what this process remembers of one.

use crate::{
    ownership::ConflictingOwners, provider_commands as pages, provider_commands::Search,
    reconcile::Subject,
};
use api::{
    Reason,
    command::{CommandIntent, CommandOutcome, CommandRecord, ServerCommand},
    conditions::{self, Type},
    host_install::HostInstallHistory,
    install::InstallHistory,
    names::COMMAND_ANNOTATION,
    target::{Target, TargetKind},
};
use std::time::Duration;

/// All facts of one decision.
#[derive(Clone)]
pub struct CommandFacts {
    /// What every kind knows of its object.
    pub subject: Subject<ServerCommand, CommandMemory>,
    /// The wall clock, without jumps forward since the process started.
    pub steady: i64,
    /// The target, if this reconcile read it.
    pub target: TargetFact,
    /// Other owners of the host, if the target is one.
    pub conflicting_owners: ConflictingOwners,
    /// Whether this command is the first of those for its target, and no other one has begun.
    pub is_first: bool,
}

/// The server or host that a command names.
#[derive(Clone, Debug, PartialEq)]
pub enum TargetFact {
    /// It was not read.
    NotRead,
    /// No object has this name.
    Missing,
    /// It could not be read. Says why.
    Unreadable(String),
    /// It exists.
    Found(Target),
}

/// What this process remembers of a command. Losing it is always safe.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CommandMemory {
    /// The last command, with the outcome as far as this process knows it.
    pub sent: Option<CommandRecord>,
    /// Whether status has shown that record: another form of it there is newer.
    pub is_in_status: bool,
    /// The search for a command of unknown outcome.
    pub search: Option<Search>,
    /// When the last command was last read.
    pub last_read: Option<Duration>,
    /// The server took no command: when, the reason, and the message.
    pub busy: Option<(Duration, Reason, String)>,
    /// So many pages did not show all of its commands.
    pub too_few_pages: Option<u32>,
}

/// Most records of sent commands that a status has.
pub const MOST_RECORDS: usize = 2;

/// What an effect found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandObservation {
    /// Nothing.
    Nothing,
    /// The server cannot take a command now: the reason, the message, and when.
    Busy(Reason, String, Duration),
    /// A command was sent, or was about to be: its record, and when.
    Sent(CommandRecord, Duration),
    /// A command was read: its record, and when.
    CommandRead(CommandRecord, Duration),
    /// The server has more commands than this many pages show.
    Longer(u32),
    /// The list of commands, begun then, does not show the command of this attempt.
    NotListed(String, Duration),
    /// The list shows several commands that may be the one of this attempt.
    Several(String, String),
}

impl CommandMemory {
    /// Records what an effect found.
    pub fn record_observation(&mut self, observation: CommandObservation) {
        match observation {
            CommandObservation::Nothing => {}
            CommandObservation::Busy(reason, why, at) => self.busy = Some((at, reason, why)),
            CommandObservation::Sent(record, at) => {
                self.sent = Some(record);
                self.is_in_status = false;
                self.busy = None;
                self.last_read = Some(at);
            }
            CommandObservation::CommandRead(record, at) => {
                self.sent = Some(record);
                self.is_in_status = false;
                self.last_read = Some(at);
            }
            CommandObservation::Longer(pages) => self.too_few_pages = Some(pages),
            CommandObservation::NotListed(attempt, at) => {
                Search::record_missed(&mut self.search, &attempt, at);
            }
            CommandObservation::Several(attempt, ids) => {
                Search::record_several(&mut self.search, &attempt, ids);
            }
        }
    }

    /// Compares what this process knows with what status has, and when this process last wrote that.
    pub fn compare(&mut self, sent: &[CommandRecord], written: Option<Duration>) {
        let is_shown = self.sent.as_ref().is_some_and(|own| sent.contains(own));
        let is_written = self
            .last_read
            .is_some_and(|at| written.is_some_and(|written| written > at));
        self.is_in_status |= is_shown || is_written;
    }

    /// Starts or continues the search for an attempt; None ends the search.
    pub fn searches_for(&mut self, attempt: Option<&str>, now: Duration) {
        Search::follow(&mut self.search, attempt, now);
    }
}

impl CommandFacts {
    /// The kind of the target.
    pub fn kind(&self) -> TargetKind {
        self.subject.object.spec.target_ref.kind()
    }

    /// The target in words.
    pub fn target_name(&self) -> String {
        let name = &self.subject.object.spec.target_ref.name;
        format!("{} {name}", self.kind().as_str())
    }

    /// The server or host in words.
    pub fn describe_server(&self, id: &str) -> String {
        match self.kind() {
            TargetKind::BareMetalServer => format!("server {id}"),
            TargetKind::DedicatedHost => format!("host {id}"),
        }
    }

    /// All commands that were, or may have been, sent, from status and this process; the last one is last. The
    /// annotation does not count: users may write it, and nothing is sent before status shows the same.
    pub fn records(&self) -> Vec<CommandRecord> {
        let mut records = self.subject.status().records.sent;
        records.retain(|record| record.intent.uid == self.subject.uid());
        let own = &self.subject.memory.own;
        if let Some(record) = own.sent.clone() {
            let attempt = &record.intent.attempt;
            match records.iter_mut().find(|r| r.intent.attempt == *attempt) {
                // Two processes would overwrite each other's records for ever.
                Some(known) if own.is_in_status && known.outcome.is_some() => {}
                Some(known) if record.outcome.is_some() => *known = record,
                Some(_) => {}
                // This attempt was not sent, and the object no longer shows it. It must not hide a command that another
                // process may have sent since.
                None if record.outcome == Some(CommandOutcome::NotSent) => {}
                None => add(&mut records, record),
            }
        }
        records
    }

    /// The attempt of unknown outcome, by its nonce.
    pub fn open_attempt(&self) -> Option<String> {
        let records = self.records();
        let last = last_sent_record(&records, self.subject.uid());
        let open = last.filter(|record| record.outcome.is_none());
        open.map(|record| record.intent.attempt.clone())
    }

    /// Whether the object has records of a command that may have been sent before: it is a copy, was restored, or lost
    /// its status. An own attempt only in the annotation was never sent, as long as there is a status.
    pub fn is_repeated(&self) -> bool {
        let status = self.subject.status();
        let is_own = |intent: &CommandIntent| intent.uid == self.subject.uid();
        if status
            .records
            .sent
            .iter()
            .any(|record| is_own(&record.intent))
        {
            return false;
        }
        let Some(annotation) = self.subject.annotation(COMMAND_ANNOTATION) else {
            return !status.records.sent.is_empty();
        };
        let intent = serde_json::from_str(annotation).ok();
        // Status has the account before any intent is recorded.
        let is_of_now =
            intent.is_some_and(|intent| is_own(&intent)) && status.account_ref.is_some();
        !is_of_now || !status.records.sent.is_empty()
    }

    /// How many pages of the server's commands may be read.
    pub fn pages(&self) -> u32 {
        pages::pages(self.subject.memory.own.too_few_pages)
    }

    /// Whether the command has ended, well or badly.
    pub fn is_finished(&self) -> bool {
        is_finished(&self.subject.object)
    }

    /// Whether the command has reached its timeout: by the wall clock, or by how long this process has seen the object.
    pub fn is_late(&self) -> bool {
        self.time_left().is_zero()
    }

    /// How long the command may still take.
    pub fn time_left(&self) -> Duration {
        // In read-only mode none times out.
        match self.subject.read_only {
            true => self.subject.object.spec.timeout().0,
            false => self.time_until_timeout(),
        }
    }

    /// Whether the command would have timed out by now if the operator were not read-only.
    pub fn will_time_out(&self) -> bool {
        self.subject.read_only && self.time_until_timeout().is_zero()
    }

    fn time_until_timeout(&self) -> Duration {
        let timeout = self.subject.object.spec.timeout().0;
        let created = self.subject.object.metadata.creation_timestamp.as_ref();
        let created = created.map_or(self.subject.now.wall, |time| time.0.as_second());
        let age = self.subject.now.wall.saturating_sub(created);
        let age = Duration::from_secs(u64::try_from(age).unwrap_or(0));
        let seen = self.subject.now.elapsed_since(self.subject.first_seen);
        timeout.saturating_sub(age.max(seen))
    }
}

/// Adds a new attempt, which replaces those that sent nothing. The object keeps the last two.
pub fn add(records: &mut Vec<CommandRecord>, record: CommandRecord) {
    records.retain(|r| r.outcome != Some(CommandOutcome::NotSent));
    records.push(record);
    let excess = records.len().saturating_sub(MOST_RECORDS);
    records.drain(..excess);
}

/// The last command of this object that was, or may have been, sent. An attempt that was not sent does not count.
pub fn last_sent_record<'a>(records: &'a [CommandRecord], uid: &str) -> Option<&'a CommandRecord> {
    let is_step =
        |r: &&CommandRecord| r.intent.uid == uid && r.outcome != Some(CommandOutcome::NotSent);
    records.iter().rev().find(is_step)
}

/// Whether a command may be under way, by its status and until it ends.
pub fn is_under_way(object: &ServerCommand) -> bool {
    let sent = object
        .status
        .as_ref()
        .map(|status| status.records.sent.as_slice());
    let uid = object.metadata.uid.as_deref().unwrap_or_default();
    let last = last_sent_record(sent.unwrap_or_default(), uid);
    let runs = |r: &CommandRecord| matches!(r.outcome, None | Some(CommandOutcome::Accepted));
    !is_finished(object) && last.is_some_and(runs)
}

/// Number of the host that a command may be switching, even if another object has the host by now.
pub fn host_switched(object: &ServerCommand) -> Option<String> {
    if object.spec.target_ref.kind() != TargetKind::DedicatedHost || !is_under_way(object) {
        return None;
    }
    let uid = object.metadata.uid.as_deref().unwrap_or_default();
    let last = last_sent_record(&object.status.as_ref()?.records.sent, uid);
    last.map(|record| record.intent.server.clone())
}

/// The key of all commands for one target.
pub fn queue_of_target(kind: TargetKind, namespace: &str, name: &str) -> String {
    format!("{}/{namespace}/{name}", kind.as_str())
}

/// The queue of a command.
pub fn target_queue(object: &ServerCommand) -> String {
    let namespace = object.metadata.namespace.as_deref().unwrap_or_default();
    let target = &object.spec.target_ref;
    queue_of_target(target.kind(), namespace, &target.name)
}

/// Whether a command in a queue has begun. A finished command is in no queue, nor is one that is deleted before it was
/// sent.
pub fn has_begun(object: &ServerCommand) -> Option<bool> {
    let has_begun = is_under_way(object);
    let waits = !is_finished(object) && object.metadata.deletion_timestamp.is_none();
    (has_begun || waits).then_some(has_begun)
}

/// Whether a command has ended, well or badly.
pub fn is_finished(object: &ServerCommand) -> bool {
    let conditions = object.status.as_ref().map(|s| s.conditions.as_slice());
    let is = |kind| conditions::is_true(conditions.unwrap_or_default(), kind);
    is(Type::Complete) || is(Type::Failed)
}

/// Whether the target is being installed, or may be.
pub fn is_installing(target: &Target) -> bool {
    let uid = target.meta().uid.as_ref();
    match target {
        Target::Server(server) => {
            let install = server
                .status
                .as_ref()
                .and_then(|s| s.records.install.as_ref());
            let open = install.and_then(InstallHistory::unfinished);
            open.is_some_and(|record| Some(&record.intent.uid) == uid)
        }
        Target::Host(host) => {
            let install = host
                .status
                .as_ref()
                .and_then(|s| s.records.install.as_ref());
            let open = install.and_then(HostInstallHistory::unfinished);
            open.is_some_and(|record| Some(&record.intent.uid) == uid)
        }
    }
}

/// Whether the target is being deleted. No server is released before that.
pub fn is_target_deleting(target: &Target) -> bool {
    target.meta().deletion_timestamp.is_some()
}
