//! What one process remembers of one whitelist between passes. To lose it is safe: what is to do follows from the list,
//! and status tells that steps may still be on their way.

use super::decide::{
    list::{ListedEntry, ProviderWhitelist},
    lockout_guard::WhitelistStep,
};
use hosting_types::WhitelistEntryId;
use std::{collections::BTreeSet, sync::Arc, time::Duration};

/// After so many steps in a row that the list does not show although they were answered, a person is needed.
const MOST_NOT_APPLIED: u8 = 2;

/// Memory of one object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct WhitelistMemory {
    /// Since when this process looks after the object; what it knew before that does not count.
    since: Option<Duration>,
    /// Since when the object rules the list, where another one did before: steps of that one may be on their way.
    rules_since: Option<Duration>,
    /// Whether another object rules the list.
    is_ruled: bool,
    /// Whether this process has seen that the object goes.
    is_ending: bool,
    /// The last complete list.
    pub snapshot: Option<WhitelistSnapshot>,
    /// The last step, until a list shows its effect, or it can have none any more.
    pub sent: Option<SentStep>,
    /// Whether nothing that another process has sent can still have an effect.
    is_clear: bool,
    /// Since which look the list shows nothing of ours.
    blank: Option<Duration>,
    /// Whether what this process removed last was all that was ours.
    has_emptied: bool,
    /// Steps in a row that were answered and are not shown.
    times_not_applied: u8,
    /// The provider does not keep what it is sent: for which generation, and what it does.
    pub not_applied: Option<(i64, String)>,
    /// Looks, apart from each other, that found no such key.
    pub missing: Vec<Duration>,
    /// The last look that found no such key, how many did in a row, and over which connection.
    missed: Option<(Duration, u32, Option<String>)>,
    /// Since which look the list has more entries than are kept.
    pub too_long: Option<Duration>,
    /// How many calls the last complete list took.
    pub calls: u32,
    /// How many entries a list had beyond what its permit allowed for.
    pub more: usize,
}

/// A complete list.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WhitelistSnapshot {
    /// What it showed.
    pub list: Arc<ProviderWhitelist>,
    /// When its first page was asked for.
    pub began: Duration,
    /// When its last page was there.
    pub ended: Duration,
    /// The connection over which it was made.
    pub connection: Option<String>,
}

/// A step that was sent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SentStep {
    /// The step.
    pub step: WhitelistStep,
    /// Whether the provider said that it is done.
    pub is_answered: bool,
    /// When the call was over.
    pub ended: Duration,
    /// The entries that were there before.
    pub before: BTreeSet<WhitelistEntryId>,
    /// What the entry was before, where it is changed: a list that shows it so is older than the change.
    pub previous: Option<ListedEntry>,
    /// Whether a list was read after it.
    pub has_later_list: bool,
}

/// What is known of a call that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StepAnswer {
    /// The provider says that it is done.
    Done,
    /// It had no effect, and can have none.
    NotDone,
    /// Nobody knows.
    Unknown,
}

/// What became of a step, as a list shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum StepOutcome {
    /// It had its effect, or what it was to act on is gone.
    Shown,
    /// It had another one: in words.
    Other(String),
    /// The entry is there, and does not bear our mark: another try would add one more.
    Unmarked(String),
    /// None so far.
    None,
}

impl WhitelistMemory {
    /// The start of a pass. `is_told`: status has steps that may be on their way.
    pub fn start_reconcile(&mut self, since: Duration, is_told: bool) {
        if self.since != Some(since) {
            *self = Self {
                since: Some(since),
                ..Self::default()
            };
        }
        // A process writes down its steps before the first one, so without any nothing is on its way, but for steps of
        // an object that ruled the list before.
        self.is_clear |= !is_told && self.rules_since.is_none();
    }

    /// Who rules the list. What was known under another one does not count.
    pub fn record_other_owner(&mut self, is_by_other: bool, now: Duration) {
        if self.is_ruled && !is_by_other {
            *self = Self {
                since: self.since,
                rules_since: Some(now),
                is_ending: self.is_ending,
                ..Self::default()
            };
        }
        self.is_ruled = is_by_other;
    }

    /// The object goes: that its key is missing has to be seen after that.
    pub fn start_deletion(&mut self) {
        if !self.is_ending {
            self.is_ending = true;
            self.missing.clear();
            self.missed = None;
        }
    }

    /// What was missing over another connection says nothing of this one.
    pub fn reset_for_connection(&mut self, connection: Option<&str>) {
        let is_same = |missed: &(Duration, u32, Option<String>)| missed.2.as_deref() == connection;
        if !self.missed.as_ref().is_some_and(is_same) {
            self.missing.clear();
            self.missed = None;
        }
    }

    /// When a key that was not there is looked for again: after pauses that grow from the first to the second.
    pub fn next_key_check(&self, least: Duration, most: Duration) -> Option<Duration> {
        let (last, misses, _) = self.missed.as_ref()?;
        let factor = 2_u32.saturating_pow(misses.saturating_sub(1));
        Some(*last + least.saturating_mul(factor).min(most).max(least))
    }

    /// When the last look began, whatever it found.
    pub fn last_read_at(&self) -> Option<Duration> {
        let looked = self.snapshot.as_ref().map(|look| look.began);
        let missed = self.missed.as_ref().map(|missed| missed.0);
        looked.max(missed).max(self.too_long)
    }

    /// Whether what this process removed last was all that was ours.
    pub fn has_emptied(&self) -> bool {
        self.has_emptied
    }

    /// The last list, where it came over this connection.
    pub fn snapshot_for_connection(&self, connection: Option<&str>) -> Option<&WhitelistSnapshot> {
        let is_same = |look: &&WhitelistSnapshot| look.connection.as_deref() == connection;
        self.snapshot.as_ref().filter(is_same)
    }

    /// Whether everything that was sent has had its effect, or can have none any more.
    pub fn is_settled(&self) -> bool {
        self.sent.is_none() && self.is_clear
    }

    /// Since when what is not settled is waited for.
    pub fn waits_since(&self) -> Duration {
        let sent = self.sent.as_ref().map(|sent| sent.ended);
        sent.or(self.starts_at()).unwrap_or_default()
    }

    fn starts_at(&self) -> Option<Duration> {
        self.since.max(self.rules_since)
    }

    /// Whether the list is believed although it shows nothing of ours, where status says that there was something: an
    /// empty answer alone does not say that entries are gone.
    pub fn is_believed(&self, was_there: bool, spacing: Duration) -> bool {
        let blank = self.blank.filter(|_| was_there && !self.has_emptied);
        let began = self.snapshot.as_ref().map(|look| look.began);
        blank.is_none_or(|first| began >= Some(first + spacing))
    }

    /// A call is over: what came of the step that was sent on this list. What is known of the list is older.
    pub fn record_sent_step(
        &mut self,
        step: &WhitelistStep,
        list: &ProviderWhitelist,
        answer: StepAnswer,
        ended: Duration,
    ) {
        if answer == StepAnswer::NotDone {
            return;
        }
        self.has_emptied = match step {
            WhitelistStep::Remove(id) => {
                let mut own = list.own().peekable();
                own.peek().is_some() && own.all(|entry| entry.id == *id)
            }
            WhitelistStep::Add(_) | WhitelistStep::Change(..) => false,
        };
        self.sent = Some(SentStep {
            step: step.clone(),
            is_answered: answer == StepAnswer::Done,
            ended,
            before: list.entries.iter().map(|entry| entry.id).collect(),
            previous: match step {
                WhitelistStep::Change(id, _) => list.get(*id).cloned(),
                WhitelistStep::Add(_) | WhitelistStep::Remove(_) => None,
            },
            has_later_list: false,
        });
    }

    /// The list has more entries than are kept, as a look shows that began at this moment.
    pub fn found_too_long(&mut self, at: Duration) {
        self.snapshot = None;
        self.too_long = Some(at);
    }

    /// There is no such key, or so the provider says to a look that began at this moment.
    pub fn found_no_key(&mut self, at: Duration, spacing: Duration, connection: Option<&str>) {
        self.reset_for_connection(connection);
        self.snapshot = None;
        self.too_long = None;
        let misses = self.missed.as_ref().map_or(0, |missed| missed.1);
        self.missed = Some((at, misses.saturating_add(1), connection.map(str::to_owned)));
        let is_apart = |last: &Duration| at >= *last + spacing;
        if self.missing.last().is_none_or(is_apart) && self.missing.len() < 8 {
            self.missing.push(at);
        }
    }

    /// A complete list was read. `spacing`: the time after which a call that is over can have no further effect.
    pub fn record_snapshot(&mut self, look: WhitelistSnapshot, generation: i64, spacing: Duration) {
        self.missing.clear();
        self.missed = None;
        self.too_long = None;
        self.more = 0;
        let has_own = look.list.own().next().is_some();
        self.blank = match (has_own, self.blank) {
            (true, _) => None,
            (false, blank) => blank.or(Some(look.began)),
        };
        self.is_clear |= self
            .starts_at()
            .is_some_and(|since| look.began >= since + spacing);
        // A pass does one thing after the other: this list was asked for after that call was over.
        if let Some(mut sent) = self.sent.take() {
            sent.has_later_list = true;
            let is_over = look.began >= sent.ended + spacing;
            match (outcome(&sent, &look.list), is_over) {
                (StepOutcome::Shown, _) => self.times_not_applied = 0,
                (StepOutcome::Unmarked(why), _) => {
                    self.times_not_applied = MOST_NOT_APPLIED;
                    self.count_not_applied(generation, &why);
                }
                // It is not seen who changed it: the provider, or a person right after.
                (StepOutcome::Other(why), _) if sent.is_answered => {
                    self.count_not_applied(generation, &why)
                }
                (StepOutcome::None, true) if sent.is_answered => {
                    let why = "What the provider accepts is not in the list".to_owned();
                    self.count_not_applied(generation, &why);
                }
                (_, true) => {}
                (_, false) => self.sent = Some(sent),
            }
        }
        // Something else of ours has come up since.
        self.has_emptied &= !has_own || self.sent.is_some();
        self.snapshot = Some(look);
    }

    fn count_not_applied(&mut self, generation: i64, why: &str) {
        self.times_not_applied += 1;
        if self.times_not_applied >= MOST_NOT_APPLIED {
            self.times_not_applied = 0;
            // With the remedy, since a later process takes the words from the status.
            let text = format!(
                "{why}; nothing more is sent until spec changes. Remove it at the provider, or correct the object"
            );
            self.not_applied = Some((generation, text));
        }
    }
}

fn outcome(sent: &SentStep, list: &ProviderWhitelist) -> StepOutcome {
    match &sent.step {
        WhitelistStep::Remove(id) => match list.get(*id) {
            None => StepOutcome::Shown,
            Some(_) => StepOutcome::None,
        },
        WhitelistStep::Change(id, wished) => match list.get(*id) {
            None => StepOutcome::Shown,
            Some(entry) if wished.is_met_by(entry) => StepOutcome::Shown,
            Some(entry) if sent.previous.as_ref() == Some(entry) => StepOutcome::None,
            Some(entry) => other(entry),
        },
        WhitelistStep::Add(wished) => {
            let is_new = |entry: &&ListedEntry| !sent.before.contains(&entry.id);
            let is_alike = |entry: &&ListedEntry| match &entry.name {
                Some(name) => *name == wished.name,
                None => entry.range == Some(wished.range),
            };
            let new = || list.entries.iter().filter(is_new);
            match new().any(|entry| wished.is_met_by(entry)) {
                true => StepOutcome::Shown,
                false => new().find(is_alike).map_or(StepOutcome::None, other),
            }
        }
    }
}

fn other(entry: &ListedEntry) -> StepOutcome {
    match entry.name {
        Some(_) => StepOutcome::Other(difference(entry)),
        None => StepOutcome::Unmarked(difference(entry)),
    }
}

/// What an entry has become.
fn difference(entry: &ListedEntry) -> String {
    let mark = match entry.name {
        Some(_) => "with the operator's tag",
        None => "without the operator's tag",
    };
    let active = match entry.active {
        Some(true) => "active",
        Some(false) => "inactive",
        None => "maybe active",
    };
    format!(
        "Entry {} is shown as {}, {active}, {mark}",
        entry.id,
        entry.words()
    )
}
