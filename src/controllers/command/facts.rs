//! What a decision on a command rests on, as plain data, and what this process remembers of one.

use crate::{
    controllers::pass::Subject,
    kinds::{
        BareMetalServer,
        command::{CommandIntent, CommandOutcome, CommandRecord, ServerCommand},
        conditions::{self, Type},
        names::{COMMAND_ANNOTATION, RELEASE_ANNOTATION},
    },
};
use std::{sync::Arc, time::Duration};

/// All that one decision may know.
#[derive(Clone)]
pub struct Facts {
    /// What every kind knows of its object.
    pub subject: Subject<ServerCommand, CommandMemory>,
    /// The wall clock, without what it was turned forward since the process started.
    pub steady: i64,
    /// The server, where this pass had to look.
    pub server: ServerFact,
    /// Whether the labels of the namespace suspend its servers.
    pub is_namespace_suspended: bool,
    /// The older command for the same server that goes first.
    pub ahead: Option<String>,
}

/// The server that a command names.
#[derive(Clone, Debug, PartialEq)]
pub enum ServerFact {
    /// It was not looked at.
    NotRead,
    /// There is none of this name.
    Missing,
    /// It could not be read. Says why.
    Unreadable(String),
    /// There is one.
    Found(Arc<BareMetalServer>),
}

/// What this process remembers of a command. To lose it is always safe.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CommandMemory {
    /// The last command, as far as this process knows what came of it.
    pub sent: Option<CommandRecord>,
    /// The search for one of unknown outcome.
    pub search: Option<Search>,
    /// When the last command was last looked at.
    pub looked: Option<Duration>,
    /// The machine was running a command of somebody else, or had too many of them: when, and in words.
    pub busy: Option<(Duration, String)>,
}

/// The search for a command of unknown outcome.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Search {
    /// The attempt, by its nonce.
    pub attempt: String,
    /// This process's first sight of it.
    pub first_seen: Duration,
    /// Start of the last list that did not show it.
    pub missed: Option<Duration>,
    /// Several commands may be it.
    pub several: Option<String>,
}

/// What an effect brought to light.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Observation {
    /// Nothing.
    Nothing,
    /// The machine cannot take a command now: in words.
    Busy(String, Duration),
    /// A command was sent, or was about to be, with what came of it by then.
    Sent(CommandRecord, Duration),
    /// A command was looked at.
    Looked(CommandRecord, Duration),
    /// The list of commands, begun then, does not show the one of this attempt.
    NotListed(String, Duration),
    /// It shows several that may be it.
    Several(String, String),
}

impl CommandMemory {
    /// Takes in what an effect brought to light.
    pub fn note(&mut self, observation: Observation) {
        match observation {
            Observation::Nothing => {}
            Observation::Busy(why, at) => self.busy = Some((at, why)),
            Observation::Sent(record, at) => {
                self.sent = Some(record);
                self.busy = None;
                self.looked = Some(at);
            }
            Observation::Looked(record, at) => {
                self.sent = Some(record);
                self.looked = Some(at);
            }
            Observation::NotListed(attempt, at) => {
                if let Some(search) = self.search_of(&attempt) {
                    search.missed = Some(at);
                    search.several = None;
                }
            }
            Observation::Several(attempt, ids) => {
                if let Some(search) = self.search_of(&attempt) {
                    search.several = Some(ids);
                }
            }
        }
    }

    /// Starts the search for an attempt, or goes on with it; None: nothing is searched for.
    pub fn searches_for(&mut self, attempt: Option<&str>, now: Duration) {
        let is_same = |search: &Search| attempt == Some(search.attempt.as_str());
        if self.search.as_ref().is_some_and(is_same) {
            return;
        }
        self.search = attempt.map(|attempt| Search {
            attempt: attempt.to_owned(),
            first_seen: now,
            missed: None,
            several: None,
        });
    }

    fn search_of(&mut self, attempt: &str) -> Option<&mut Search> {
        self.search.as_mut().filter(|s| s.attempt == attempt)
    }
}

impl Facts {
    /// What was sent, the last one last: by the status, the annotation, and what this process knows. Each alone proves an
    /// attempt.
    pub fn records(&self) -> Vec<CommandRecord> {
        let mut records = self.subject.status().sent;
        records.retain(|record| self.is_own(&record.intent));
        let noted = self.intent().filter(|intent| self.is_own(intent));
        let noted = noted.map(CommandRecord::open);
        for record in noted
            .into_iter()
            .chain(self.subject.memory.own.sent.clone())
        {
            let attempt = &record.intent.attempt;
            match records.iter_mut().find(|r| r.intent.attempt == *attempt) {
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

    /// The intent in the annotation, whosever it is.
    pub fn intent(&self) -> Option<CommandIntent> {
        serde_json::from_str(self.subject.annotation(COMMAND_ANNOTATION)?).ok()
    }

    /// Whether the annotation is that of another object: this one is a copy, or was restored; or it cannot be read.
    pub fn is_repeated(&self) -> bool {
        let is_noted = self.subject.annotation(COMMAND_ANNOTATION).is_some();
        let is_of_another = |intent: &CommandIntent| !self.is_own(intent);
        let shown = self.subject.status().sent;
        is_noted && self.intent().as_ref().is_none_or(is_of_another)
            || shown.iter().any(|record| is_of_another(&record.intent))
    }

    fn is_own(&self, intent: &CommandIntent) -> bool {
        intent.uid == self.subject.uid()
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

/// Puts a new attempt in the place of one that sent nothing, else behind it.
pub fn add(records: &mut Vec<CommandRecord>, record: CommandRecord) {
    let sent_nothing = |r: &CommandRecord| r.outcome == Some(CommandOutcome::NotSent);
    if records.last().is_some_and(sent_nothing) {
        records.pop();
    }
    records.push(record);
}

/// Whether a command has come to its end, well or badly.
pub fn is_finished(object: &ServerCommand) -> bool {
    let conditions = object.status.as_ref().map(|s| s.conditions.as_slice());
    let is = |kind| conditions::is_true(conditions.unwrap_or_default(), kind);
    is(Type::Complete) || is(Type::Failed)
}

/// Whether the release of a server has begun, or is about to.
pub fn is_ending(server: &BareMetalServer) -> bool {
    let annotations = server.metadata.annotations.as_ref();
    let is_released = annotations.is_some_and(|all| all.contains_key(RELEASE_ANNOTATION));
    server.metadata.deletion_timestamp.is_some() || is_released
}
