//! What this process remembers of an IpWhitelist between reconciles. Losing it is safe: the plan follows from the list,
//! and status shows whether steps may still be in progress.

use super::decide::{
    list::{ListedEntry, ProviderWhitelist},
    lockout_guard::WhitelistStep,
};
use hosting_types::WhitelistEntryId;
use std::{collections::BTreeSet, sync::Arc, time::Duration};

/// Consecutive accepted steps without effect after which the object stalls.
const MOST_NOT_APPLIED: u8 = 2;

/// Memory of one object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct WhitelistMemory {
    /// Since when this process is responsible for the object. A change resets the memory.
    since: Option<Duration>,
    /// Since when the object owns the list, if it took over from another one whose steps may still be in progress.
    rules_since: Option<Duration>,
    /// Whether another object owns the list.
    is_ruled: bool,
    /// Whether this process has seen the deletion of the object.
    is_ending: bool,
    /// The last complete list.
    pub snapshot: Option<WhitelistSnapshot>,
    /// The last step, until a list shows its effect or it can have no effect any more.
    pub sent: Option<SentStep>,
    /// Whether no step of another process can still have an effect.
    is_clear: bool,
    /// Start of the first list without own entries.
    blank: Option<Duration>,
    /// Whether the last step of this process removed the last own entries.
    has_emptied: bool,
    /// Consecutive accepted steps that no list shows.
    times_not_applied: u8,
    /// The provider does not apply accepted steps: the generation and the message.
    pub not_applied: Option<(i64, String)>,
    /// Spaced reads that found no such key.
    pub missing: Vec<Duration>,
    /// The last read that found no such key, the number of consecutive ones, and their credentials hash.
    missed: Option<(Duration, u32, Option<String>)>,
    /// Start of the last read that found too many entries.
    pub too_long: Option<Duration>,
    /// How many calls the last complete list took.
    pub calls: u32,
    /// How many entries a list had beyond what its permit allowed to read.
    pub more: usize,
}

/// A complete list.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WhitelistSnapshot {
    /// Its entries.
    pub list: Arc<ProviderWhitelist>,
    /// When its first page was requested.
    pub began: Duration,
    /// When its last page was received.
    pub ended: Duration,
    /// The credentials hash it was read with.
    pub connection: Option<String>,
}

/// A step that was sent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SentStep {
    /// The step.
    pub step: WhitelistStep,
    /// Whether the provider accepted it.
    pub is_answered: bool,
    /// When the call ended.
    pub ended: Duration,
    /// The entries before the step.
    pub before: BTreeSet<WhitelistEntryId>,
    /// The entry before a change. A list that still shows it is older than the change.
    pub previous: Option<ListedEntry>,
    /// Whether a list was read after it.
    pub has_later_list: bool,
}

/// The outcome of a call that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StepAnswer {
    /// The provider accepted the step.
    Done,
    /// The step had no effect and will have none.
    NotDone,
    /// The outcome is unknown.
    Unknown,
}

/// The effect of a step that a list shows.
#[derive(Clone, Debug, PartialEq, Eq)]
enum StepOutcome {
    /// The expected effect, or the entry to act on is gone.
    Shown,
    /// Another effect, with a description.
    Other(String),
    /// The entry exists without our owner comment, so a retry would add another one.
    WithoutOwnerComment(String),
    /// No effect yet.
    None,
}

impl WhitelistMemory {
    /// Starts a reconcile. `may_have_steps`: steps that status reports may still be in progress.
    pub fn start_reconcile(&mut self, since: Duration, may_have_steps: bool) {
        if self.since != Some(since) {
            *self = Self {
                since: Some(since),
                ..Self::default()
            };
        }
        // Steps are written to status before the first one is sent. Without any, only steps of a previous owner may be
        // in progress.
        self.is_clear |= !may_have_steps && self.rules_since.is_none();
    }

    /// Records whether another object owns the list. A takeover resets the memory.
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

    /// Starts a deletion: a missing key only counts if it is missing after this.
    pub fn start_deletion(&mut self) {
        if !self.is_ending {
            self.is_ending = true;
            self.missing.clear();
            self.missed = None;
        }
    }

    /// Resets the missing key if it was observed with other credentials.
    pub fn reset_for_connection(&mut self, connection: Option<&str>) {
        let is_same = |missed: &(Duration, u32, Option<String>)| missed.2.as_deref() == connection;
        if !self.missed.as_ref().is_some_and(is_same) {
            self.missing.clear();
            self.missed = None;
        }
    }

    /// When a missing key is checked again: with backoff from `least` to `most`.
    pub fn next_key_check(&self, least: Duration, most: Duration) -> Option<Duration> {
        let (last, misses, _) = self.missed.as_ref()?;
        let factor = 2_u32.saturating_pow(misses.saturating_sub(1));
        Some(*last + least.saturating_mul(factor).min(most).max(least))
    }

    /// When the last read began, with any result.
    pub fn last_read_at(&self) -> Option<Duration> {
        let listed = self.snapshot.as_ref().map(|snapshot| snapshot.began);
        let missed = self.missed.as_ref().map(|missed| missed.0);
        listed.max(missed).max(self.too_long)
    }

    /// Whether the last step of this process removed the last own entries.
    pub fn has_emptied(&self) -> bool {
        self.has_emptied
    }

    /// The last list, if it was read with these credentials.
    pub fn snapshot_for_connection(&self, connection: Option<&str>) -> Option<&WhitelistSnapshot> {
        let is_same = |snapshot: &&WhitelistSnapshot| snapshot.connection.as_deref() == connection;
        self.snapshot.as_ref().filter(is_same)
    }

    /// Whether all sent steps have had their effect or can have none any more.
    pub fn is_settled(&self) -> bool {
        self.sent.is_none() && self.is_clear
    }

    /// Since when the object waits for unsettled steps.
    pub fn waits_since(&self) -> Duration {
        let sent = self.sent.as_ref().map(|sent| sent.ended);
        sent.or(self.starts_at()).unwrap_or_default()
    }

    fn starts_at(&self) -> Option<Duration> {
        self.since.max(self.rules_since)
    }

    /// Whether a list without own entries counts. If status had some, a second list must confirm that they are gone.
    pub fn is_absence_confirmed(&self, was_there: bool, spacing: Duration) -> bool {
        let blank = self.blank.filter(|_| was_there && !self.has_emptied);
        let began = self.snapshot.as_ref().map(|snapshot| snapshot.began);
        blank.is_none_or(|first| began >= Some(first + spacing))
    }

    /// Records a step that was sent for this list. The list is older than the step.
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

    /// Records that a list that began at `at` has too many entries.
    pub fn found_too_long(&mut self, at: Duration) {
        self.snapshot = None;
        self.too_long = Some(at);
    }

    /// Records that a read that began at `at` found no such key.
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

    /// Records a complete list. `spacing` is the time after which an ended call can have no further effect.
    pub fn record_snapshot(
        &mut self,
        snapshot: WhitelistSnapshot,
        generation: i64,
        spacing: Duration,
    ) {
        self.missing.clear();
        self.missed = None;
        self.too_long = None;
        self.more = 0;
        let has_own = snapshot.list.own().next().is_some();
        self.blank = match (has_own, self.blank) {
            (true, _) => None,
            (false, blank) => blank.or(Some(snapshot.began)),
        };
        self.is_clear |= self
            .starts_at()
            .is_some_and(|since| snapshot.began >= since + spacing);
        // A reconcile is sequential, so this list was requested after that call ended.
        if let Some(mut sent) = self.sent.take() {
            sent.has_later_list = true;
            let is_over = snapshot.began >= sent.ended + spacing;
            match (outcome(&sent, &snapshot.list), is_over) {
                (StepOutcome::Shown, _) => self.times_not_applied = 0,
                (StepOutcome::WithoutOwnerComment(why), _) => {
                    self.times_not_applied = MOST_NOT_APPLIED;
                    self.count_not_applied(generation, &why);
                }
                // The provider or a user may have changed it.
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
        // False if other own entries have appeared since.
        self.has_emptied &= !has_own || self.sent.is_some();
        self.snapshot = Some(snapshot);
    }

    fn count_not_applied(&mut self, generation: i64, why: &str) {
        self.times_not_applied += 1;
        if self.times_not_applied >= MOST_NOT_APPLIED {
            self.times_not_applied = 0;
            // Includes the remedy, because a later process reads the text from the status.
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
        WhitelistStep::Change(id, desired) => match list.get(*id) {
            None => StepOutcome::Shown,
            Some(entry) if desired.is_met_by(entry) => StepOutcome::Shown,
            Some(entry) if sent.previous.as_ref() == Some(entry) => StepOutcome::None,
            Some(entry) => other(entry),
        },
        WhitelistStep::Add(desired) => {
            let is_new = |entry: &&ListedEntry| !sent.before.contains(&entry.id);
            let is_alike = |entry: &&ListedEntry| match &entry.name {
                Some(name) => *name == desired.name,
                None => entry.range == Some(desired.range),
            };
            let new = || list.entries.iter().filter(is_new);
            match new().any(|entry| desired.is_met_by(entry)) {
                true => StepOutcome::Shown,
                false => new().find(is_alike).map_or(StepOutcome::None, other),
            }
        }
    }
}

fn other(entry: &ListedEntry) -> StepOutcome {
    match entry.name {
        Some(_) => StepOutcome::Other(difference(entry)),
        None => StepOutcome::WithoutOwnerComment(difference(entry)),
    }
}

/// Describes an entry that differs from what was sent.
fn difference(entry: &ListedEntry) -> String {
    let tag = match entry.name {
        Some(_) => "with the operator's tag",
        None => "without the operator's tag",
    };
    let active = match entry.active {
        Some(true) => "active",
        Some(false) => "inactive",
        None => "maybe active",
    };
    format!(
        "Entry {} is shown as {}, {active}, {tag}",
        entry.id,
        entry.words()
    )
}
