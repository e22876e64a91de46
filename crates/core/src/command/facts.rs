//! What a decision on a command rests on, as plain data, and what this process remembers of one.

use crate::{
    ownership::ConflictingOwners, pass::Subject, provider_commands as pages,
    provider_commands::Search,
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

/// All that one decision may know.
#[derive(Clone)]
pub struct CommandFacts {
    /// What every kind knows of its object.
    pub subject: Subject<ServerCommand, CommandMemory>,
    /// The wall clock, without what it was turned forward since the process started.
    pub steady: i64,
    /// The target, where this pass had to look.
    pub target: TargetFact,
    /// Who else wants the host, where the target is one.
    pub conflicting_owners: ConflictingOwners,
    /// Whether it is this command's turn among those for the same target, and no other one has begun.
    pub is_first: bool,
}

/// The server or host that a command names.
#[derive(Clone, Debug, PartialEq)]
pub enum TargetFact {
    /// It was not looked at.
    NotRead,
    /// There is none of this name.
    Missing,
    /// It could not be read. Says why.
    Unreadable(String),
    /// There is one.
    Found(Target),
}

/// What this process remembers of a command. To lose it is always safe.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CommandMemory {
    /// The last command, as far as this process knows what came of it.
    pub sent: Option<CommandRecord>,
    /// Whether status has shown that: another form of it there is newer.
    pub is_in_status: bool,
    /// The search for one of unknown outcome.
    pub search: Option<Search>,
    /// When the last command was last looked at.
    pub last_read: Option<Duration>,
    /// The machine took no command: when, why, and in words.
    pub busy: Option<(Duration, Reason, String)>,
    /// So many pages of its commands were too few to read all of them.
    pub too_few_pages: Option<u32>,
}

/// Most records of what was sent that an object bears.
pub const MOST_RECORDS: usize = 2;

/// What an effect brought to light.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandObservation {
    /// Nothing.
    Nothing,
    /// The machine cannot take a command now: why, and in words.
    Busy(Reason, String, Duration),
    /// A command was sent, or was about to be, with what came of it by then.
    Sent(CommandRecord, Duration),
    /// A command was looked at.
    CommandRead(CommandRecord, Duration),
    /// The machine has more commands than so many pages show.
    Longer(u32),
    /// The list of commands, begun then, does not show the one of this attempt.
    NotListed(String, Duration),
    /// It shows several that may be it.
    Several(String, String),
}

impl CommandMemory {
    /// Takes in what an effect brought to light.
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

    /// Starts the search for an attempt, or goes on with it; None: nothing is searched for.
    pub fn searches_for(&mut self, attempt: Option<&str>, now: Duration) {
        Search::follow(&mut self.search, attempt, now);
    }
}

impl CommandFacts {
    /// The kind of the target.
    pub fn kind(&self) -> TargetKind {
        self.subject.object.spec.target_ref.kind()
    }

    /// The target, in words.
    pub fn target_name(&self) -> String {
        let name = &self.subject.object.spec.target_ref.name;
        format!("{} {name}", self.kind().as_str())
    }

    /// What is switched, in words.
    pub fn describe_server(&self, id: &str) -> String {
        match self.kind() {
            TargetKind::BareMetalServer => format!("server {id}"),
            TargetKind::DedicatedHost => format!("host {id}"),
        }
    }

    /// What was or may have been sent, the last one last: by the status, and by what this process knows itself.
    ///
    /// The annotation is no proof. Anybody may write it who may write the object, and nothing is sent before the status
    /// shows the same, which nobody but an operator writes.
    pub fn records(&self) -> Vec<CommandRecord> {
        let mut records = self.subject.status().records.sent;
        records.retain(|record| record.intent.uid == self.subject.uid());
        let own = &self.subject.memory.own;
        if let Some(record) = own.sent.clone() {
            let attempt = &record.intent.attempt;
            match records.iter_mut().find(|r| r.intent.attempt == *attempt) {
                // Two processes would write what each has seen against each other for ever.
                Some(known) if own.is_in_status && known.outcome.is_some() => {}
                Some(known) if record.outcome.is_some() => *known = record,
                Some(_) => {}
                // One that this process did not send, and that the object does not show any more: another process may have
                // sent one since, which this must not hide.
                None if record.outcome == Some(CommandOutcome::NotSent) => {}
                None => add(&mut records, record),
            }
        }
        records
    }

    /// The attempt of which nobody knows what came of it, by its nonce.
    pub fn open_attempt(&self) -> Option<String> {
        let records = self.records();
        let last = last_sent_record(&records, self.subject.uid());
        let open = last.filter(|record| record.outcome.is_none());
        open.map(|record| record.intent.attempt.clone())
    }

    /// Whether the object bears traces of a command that is not known to be its own: it is a copy, or was restored, or lost
    /// its status. Such a command may have been sent.
    ///
    /// An attempt of this very object that only the annotation shows was never sent, as long as the status is there: nothing
    /// is sent before the status has it, too.
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
        let Some(noted) = self.subject.annotation(COMMAND_ANNOTATION) else {
            return !status.records.sent.is_empty();
        };
        let noted = serde_json::from_str(noted).ok();
        // The account stands in status before anything is noted.
        let is_of_now = noted.is_some_and(|intent| is_own(&intent)) && status.account_ref.is_some();
        !is_of_now || !status.records.sent.is_empty()
    }

    /// How many pages of the machine's commands are allowed for.
    pub fn pages(&self) -> u32 {
        pages::pages(self.subject.memory.own.too_few_pages)
    }

    /// Whether the object has come to its end, well or badly.
    pub fn is_finished(&self) -> bool {
        is_finished(&self.subject.object)
    }

    /// Whether the time is over that the command may take: by the wall clock, or because this process has seen the object for
    /// so long.
    pub fn is_late(&self) -> bool {
        self.time_left().is_zero()
    }

    /// How long the command may still take.
    pub fn time_left(&self) -> Duration {
        let timeout = self.subject.object.spec.timeout().0;
        let created = self.subject.object.metadata.creation_timestamp.as_ref();
        let created = created.map_or(self.subject.now.wall, |time| time.0.as_second());
        let age = self.subject.now.wall.saturating_sub(created);
        let age = Duration::from_secs(u64::try_from(age).unwrap_or(0));
        let seen = self.subject.now.since(self.subject.first_seen);
        timeout.saturating_sub(age.max(seen))
    }
}

/// Adds a new attempt, in the place of those that sent nothing. The object bears the last two.
pub fn add(records: &mut Vec<CommandRecord>, record: CommandRecord) {
    records.retain(|r| r.outcome != Some(CommandOutcome::NotSent));
    records.push(record);
    let excess = records.len().saturating_sub(MOST_RECORDS);
    records.drain(..excess);
}

/// Where the command of this object stands: the last one that was, or may have been, sent. What was not sent is no step.
pub fn last_sent_record<'a>(records: &'a [CommandRecord], uid: &str) -> Option<&'a CommandRecord> {
    let is_step =
        |r: &&CommandRecord| r.intent.uid == uid && r.outcome != Some(CommandOutcome::NotSent);
    records.iter().rev().find(is_step)
}

/// Whether a command may be under way: by its status alone, and until the object is over.
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

/// The number of the host that a command may be switching: it is that of the host under whatever object.
pub fn host_switched(object: &ServerCommand) -> Option<String> {
    if object.spec.target_ref.kind() != TargetKind::DedicatedHost || !is_under_way(object) {
        return None;
    }
    let uid = object.metadata.uid.as_deref().unwrap_or_default();
    let last = last_sent_record(&object.status.as_ref()?.records.sent, uid);
    last.map(|record| record.intent.server.clone())
}

/// The commands for one target, as a word.
pub fn place(kind: TargetKind, namespace: &str, name: &str) -> String {
    format!("{}/{namespace}/{name}", kind.as_str())
}

/// Whether a command has come to its end, well or badly.
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
            let open = install.and_then(InstallHistory::open);
            open.is_some_and(|record| Some(&record.intent.uid) == uid)
        }
        Target::Host(host) => {
            let install = host
                .status
                .as_ref()
                .and_then(|s| s.records.install.as_ref());
            let open = install.and_then(HostInstallHistory::open);
            open.is_some_and(|record| Some(&record.intent.uid) == uid)
        }
    }
}

/// Whether the target is being deleted. No server is released before that.
pub fn is_ending(target: &Target) -> bool {
    target.meta().deletion_timestamp.is_some()
}
