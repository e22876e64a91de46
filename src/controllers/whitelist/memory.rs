//! What one process remembers of one whitelist between passes. To lose it is safe: what is to do follows from the list,
//! and status tells that steps may still be on their way.

use super::decide::{
    guard::Step,
    list::{Entry, List},
};
use hosting::WhitelistEntryId;
use std::{collections::BTreeSet, sync::Arc, time::Duration};

/// After so many steps in a row that the list does not show although they were answered, a person is needed.
const MOST_STRIKES: u8 = 2;

/// Memory of one object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Own {
    /// Since when this process looks after the object; what it knew before that does not count.
    since: Option<Duration>,
    /// The last complete list.
    pub look: Option<Look>,
    /// The last step, until a list shows its effect, or it can have none any more.
    pub sent: Option<Sent>,
    /// Whether nothing that another process has sent can still have an effect.
    is_clear: bool,
    /// Since which look the list shows nothing of ours.
    blank: Option<Duration>,
    /// Whether this process has removed entries of ours.
    has_removed: bool,
    /// Steps in a row that were answered and are not shown.
    strikes: u8,
    /// The provider does not keep what it is sent: for which generation, and what it does.
    pub unkept: Option<(i64, String)>,
    /// Looks, apart from each other, that found no such key.
    pub missing: Vec<Duration>,
    /// When a person's word was last taken off.
    pub used_up: Option<Duration>,
    /// How many entries a list had beyond what its permit allowed for.
    pub more: usize,
}

/// A complete list.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Look {
    /// What it showed.
    pub list: Arc<List>,
    /// When its first page was asked for.
    pub began: Duration,
    /// When its last page was there.
    pub ended: Duration,
    /// The connection over which it was made.
    pub connection: Option<String>,
}

/// A step that was sent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Sent {
    /// The step.
    pub step: Step,
    /// Whether the provider said that it is done.
    pub is_answered: bool,
    /// When the call was over.
    pub ended: Duration,
    /// The entries that were there before.
    pub before: BTreeSet<WhitelistEntryId>,
    /// Whether a list was read after it.
    pub is_looked_for: bool,
}

/// What is known of a call that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// The provider says that it is done.
    Done,
    /// It had no effect, and can have none.
    NotDone,
    /// Nobody knows.
    Unknown,
}

/// What became of a step, as a list shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Outcome {
    /// It had its effect, or what it was to act on is gone.
    Shown,
    /// It had another one: in words.
    Other(String),
    /// The entry is there, and does not bear our mark: another try would add one more.
    Unmarked(String),
    /// None so far.
    None,
}

impl Own {
    /// The start of a pass. `is_told`: status has steps that may be on their way.
    pub fn starts(&mut self, since: Duration, is_told: bool) {
        if self.since != Some(since) {
            *self = Self {
                since: Some(since),
                ..Self::default()
            };
        }
        // A process writes down its steps before the first one, so without any nothing is on its way.
        self.is_clear |= !is_told;
    }

    /// The last list, where it came over this connection.
    pub fn look_over(&self, connection: Option<&str>) -> Option<&Look> {
        let is_same = |look: &&Look| look.connection.as_deref() == connection;
        self.look.as_ref().filter(is_same)
    }

    /// Whether everything that was sent has had its effect, or can have none any more.
    pub fn is_settled(&self) -> bool {
        self.sent.is_none() && self.is_clear
    }

    /// Since when what is not settled is waited for.
    pub fn waits_since(&self) -> Duration {
        let sent = self.sent.as_ref().map(|sent| sent.ended);
        sent.or(self.since).unwrap_or_default()
    }

    /// Whether the list is believed although it shows nothing of ours, where status says that there was something: an
    /// empty answer alone does not say that entries are gone.
    pub fn is_believed(&self, was_there: bool, spacing: Duration) -> bool {
        let blank = self.blank.filter(|_| was_there && !self.has_removed);
        let began = self.look.as_ref().map(|look| look.began);
        blank.is_none_or(|first| began >= Some(first + spacing))
    }

    /// A call is over: what came of the step that was sent on this list. What is known of the list is older.
    pub fn has_sent(&mut self, step: &Step, list: &List, answer: Answer, ended: Duration) {
        if answer == Answer::NotDone {
            return;
        }
        self.has_removed |= matches!(step, Step::Remove(_));
        self.sent = Some(Sent {
            step: step.clone(),
            is_answered: answer == Answer::Done,
            ended,
            before: list.entries.iter().map(|entry| entry.id).collect(),
            is_looked_for: false,
        });
    }

    /// There is no such key, or so the provider says.
    pub fn found_no_key(&mut self, at: Duration, spacing: Duration) {
        self.look = None;
        let is_apart = |last: &Duration| at >= *last + spacing;
        if self.missing.last().is_none_or(is_apart) && self.missing.len() < 8 {
            self.missing.push(at);
        }
    }

    /// A complete list was read. `spacing`: the time after which a call that is over can have no further effect.
    pub fn looked(&mut self, look: Look, generation: i64, spacing: Duration) {
        self.missing.clear();
        self.more = 0;
        let has_own = look.list.own().next().is_some();
        self.blank = match (has_own, self.blank) {
            (true, _) => None,
            (false, blank) => blank.or(Some(look.began)),
        };
        self.is_clear |= self
            .since
            .is_some_and(|since| look.began >= since + spacing);
        // A pass does one thing after the other: this list was asked for after that call was over.
        if let Some(mut sent) = self.sent.take() {
            sent.is_looked_for = true;
            let is_over = look.began >= sent.ended + spacing;
            match (outcome(&sent, &look.list), is_over) {
                (Outcome::Shown, _) => self.strikes = 0,
                (Outcome::Unmarked(why), _) => {
                    self.strikes = MOST_STRIKES;
                    self.strike(generation, why);
                }
                // It is not seen who changed it: the provider, or a person right after.
                (Outcome::Other(why), _) if sent.is_answered => self.strike(generation, why),
                (Outcome::None, true) if sent.is_answered => {
                    let why = "what it accepts is not in the list".to_owned();
                    self.strike(generation, why);
                }
                (_, true) => {}
                (_, false) => self.sent = Some(sent),
            }
        }
        self.look = Some(look);
    }

    fn strike(&mut self, generation: i64, why: String) {
        self.strikes += 1;
        if self.strikes >= MOST_STRIKES {
            self.strikes = 0;
            self.unkept = Some((generation, why));
        }
    }
}

fn outcome(sent: &Sent, list: &List) -> Outcome {
    match &sent.step {
        Step::Remove(id) => match list.get(*id) {
            None => Outcome::Shown,
            Some(_) => Outcome::None,
        },
        Step::Change(id, wished) => match list.get(*id) {
            None => Outcome::Shown,
            Some(entry) if wished.is_met_by(entry) => Outcome::Shown,
            Some(entry) => other(entry),
        },
        Step::Add(wished) => {
            let is_new = |entry: &&Entry| !sent.before.contains(&entry.id);
            let is_alike = |entry: &&Entry| match &entry.name {
                Some(name) => *name == wished.name,
                None => entry.range == Some(wished.range),
            };
            let new = || list.entries.iter().filter(is_new);
            match new().any(|entry| wished.is_met_by(entry)) {
                true => Outcome::Shown,
                false => new().find(is_alike).map_or(Outcome::None, other),
            }
        }
    }
}

fn other(entry: &Entry) -> Outcome {
    match entry.name {
        Some(_) => Outcome::Other(difference(entry)),
        None => Outcome::Unmarked(difference(entry)),
    }
}

/// What an entry has become.
fn difference(entry: &Entry) -> String {
    let mark = match entry.name {
        Some(_) => "with our mark",
        None => "without our mark in its comments",
    };
    let active = match entry.active {
        Some(true) => "active",
        Some(false) => "inactive",
        None => "without saying whether it counts",
    };
    format!(
        "entry {} is shown as {}, {active}, {mark}",
        entry.id,
        entry.words()
    )
}
