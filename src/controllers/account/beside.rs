//! The key beside the one in use: when it is tried, and what follows.

use super::memory::{Ingredients, Memory};
use crate::account::{Accounts, Connection};
use api::{
    account::{AccountStatus, Endpoint},
    key_in_use::KeyEntry,
};
use flexmetal_core::{
    account::{
        decide::next_key::{self, Step},
        key::AccountKey,
        next_key::Tried,
    },
    backoff::{Backoff, LONGEST_PAUSE},
};
use std::time::Duration;

/// Longest pause between two looks at a key that only waits for orders.
const ORDERS: Duration = Duration::from_secs(15);

/// What is remembered of it between two passes.
#[derive(Clone, Default)]
pub(super) struct Beside {
    /// Where it leads.
    of: Option<Endpoint>,
    /// What came of it, as it was told first.
    pub(super) tried: Option<Tried>,
    /// An order has to be settled before it takes its place.
    pub(super) waits_for_orders: bool,
    is_under_way: bool,
    /// The pace of each key, by its hash.
    pace: Vec<(String, Backoff)>,
    /// How often this key showed none of the machines that it was asked for.
    rounds: usize,
    /// Keys that took the place of one that was refused, since either was written.
    changes: Changes,
    /// The hash of a next key that was in use and refused.
    pub(super) given_up: Option<String>,
    /// The hash of a next key that was of no use while the key in use stood in the Secret no more.
    pub(super) is_of_no_use: Option<String>,
    /// That of the key in `apiKey` while the next key was in use.
    pub(super) left: Option<String>,
    /// For what account the trial was started.
    under: Option<Under>,
    /// One that showed a machine on record and took its place, and the lineage of that, until it is on record itself.
    shown: Option<(Endpoint, Option<String>)>,
}

/// What the result of a trial speaks of: the same result says nothing of another lineage, nor beside another key.
#[derive(Clone, PartialEq)]
pub(super) struct Under {
    pub(super) lineage: Option<String>,
    pub(super) in_use: Option<Endpoint>,
    /// Whether the key in use is known to lead to the account of this lineage.
    pub(super) is_settled: bool,
}

impl Under {
    pub(super) fn of(status: &AccountStatus, in_use: Option<Endpoint>) -> Self {
        let is_recorded = in_use.is_some() && status.endpoint == in_use;
        Self {
            lineage: status.lineage.clone(),
            is_settled: is_recorded && status.lineage.is_some(),
            in_use,
        }
    }
}

/// How often one of two keys took the place of the other because that was refused. Two that are refused by turns do so ever
/// more rarely.
#[derive(Clone, Default)]
struct Changes {
    /// The hashes of both, in their order.
    between: [String; 2],
    backoff: Backoff,
}

impl Changes {
    /// How long until the next one; None: at once.
    fn rest(&self, one: &str, other: &str, now: Duration) -> Option<Duration> {
        let rest = self.backoff.rest(now);
        rest.filter(|_| self.between == in_order(one, other))
    }

    fn note(&mut self, one: &str, other: &str, now: Duration) {
        let between = in_order(one, other);
        if self.between != between {
            *self = Self {
                between,
                ..Self::default()
            };
        }
        self.backoff.fail(now, LONGEST_PAUSE);
    }
}

fn in_order(one: &str, other: &str) -> [String; 2] {
    [one.min(other).to_owned(), one.max(other).to_owned()]
}

/// A key that is tried.
pub(super) struct Candidate {
    /// What its connection is made of.
    pub(super) ingredients: Ingredients,
    /// The connection.
    pub(super) connection: Connection,
}

/// The account object for which it is tried.
pub(super) struct Of<'a> {
    /// Where the key that is tried stands.
    pub(super) entry: KeyEntry,
    pub(super) key: &'a AccountKey,
    pub(super) uid: &'a str,
    pub(super) status: &'a AccountStatus,
    /// Whether the key in use is refused.
    pub(super) is_refused: bool,
    /// What a trial is made for now.
    pub(super) under: Under,
}

impl Beside {
    /// There is none.
    pub(super) fn clear(&mut self, accounts: &Accounts, key: &AccountKey) {
        if self.of.take().is_some() {
            accounts.end_trial(key);
        }
        self.tried = None;
        self.waits_for_orders = false;
        self.under = None;
        self.is_under_way = false;
        self.rounds = 0;
    }

    /// It takes the place of one that is refused.
    pub(super) fn note_change(&mut self, former: &str, key: &str, now: Duration) {
        self.changes.note(former, key, now);
    }

    /// This key has shown the account of this lineage, and is in use.
    pub(super) fn note_shown(&mut self, endpoint: Endpoint, lineage: Option<String>) {
        self.shown = Some((endpoint, lineage));
    }

    /// What was shown is over once it is on record, and with any other connection.
    pub(super) fn drop_shown(&mut self, status: &AccountStatus, in_use: Option<&Endpoint>) {
        let is_over = |(shown, _): &(Endpoint, _)| {
            status.endpoint.as_ref() == Some(shown) || in_use != Some(shown)
        };
        if self.shown.as_ref().is_some_and(is_over) {
            self.shown = None;
        }
    }

    /// Whether the key in use has shown the account of this lineage.
    pub(super) fn is_shown(&self, lineage: Option<&str>, in_use: Option<&Endpoint>) -> bool {
        let shown = self.shown.as_ref();
        shown.is_some_and(|(of, under)| {
            in_use == Some(of) && lineage.is_some() && under.as_deref() == lineage
        })
    }

    /// All may be tried again at once.
    pub(super) fn try_again(&mut self) {
        self.pace.clear();
        self.changes.backoff.reset();
        self.given_up = None;
        self.is_of_no_use = None;
    }

    /// The keys of the Secret are these: what is remembered of others is over.
    pub(super) fn keep(&mut self, present: Option<&String>, next: Option<&String>) {
        self.pace
            .retain(|(hash, _)| Some(hash) == present || Some(hash) == next);
        for word in [&mut self.given_up, &mut self.is_of_no_use] {
            *word = word.take().filter(|hash| Some(hash) == next);
        }
    }

    /// How long until it is tried again.
    pub(super) fn again(&self, of: &Of<'_>, now: Duration) -> Option<Duration> {
        let waits = self.of.is_some() && !self.is_under_way;
        waits.then(|| self.rest(of, now).unwrap_or(ORDERS))
    }

    fn rest(&self, of: &Of<'_>, now: Duration) -> Option<Duration> {
        let (tried, in_use) = (self.of.as_ref()?, of.under.in_use.as_ref()?);
        let changes = match of.is_refused {
            true => self.changes.rest(&tried.key_hash, &in_use.key_hash, now),
            false => None,
        };
        let mut pace = self.pace.iter();
        let pace = pace.find(|(hash, _)| *hash == tried.key_hash);
        pace.and_then(|(_, pace)| pace.rest(now)).max(changes)
    }

    /// It has to be tried again, and not at once.
    fn slow_down(&mut self, now: Duration, longest: Duration) {
        let Some(hash) = self.of.as_ref().map(|of| &of.key_hash) else {
            return;
        };
        match self.pace.iter_mut().find(|(of, _)| of == hash) {
            Some((_, pace)) => _ = pace.fail(now, longest),
            None => {
                let mut pace = Backoff::default();
                pace.fail(now, longest);
                self.pace.push((hash.clone(), pace));
            }
        }
    }

    /// What follows from the trial that has ended; None: nothing new.
    fn ended(
        &mut self,
        accounts: &Accounts,
        of: &Of<'_>,
        word: &str,
        now: Duration,
    ) -> Option<Step> {
        let tried = match accounts.tried_beside(of.key, word) {
            Some(None) => return None,
            ended => ended.flatten().filter(|_| self.is_under_way),
        };
        self.is_under_way = false;
        let tried = tried?;
        accounts.end_trial(of.key);
        if self.under.take().as_ref() != Some(&of.under) {
            return None;
        }
        let Some(on_record) = accounts.on_record(of.key) else {
            // Not every object is known yet.
            self.slow_down(now, ORDERS);
            return None;
        };
        let is_ordering = accounts.is_ordering(of.key);
        self.rounds = match tried {
            Tried::ShowsNone => self.rounds.wrapping_add(1),
            _ => 0,
        };
        let step = next_key::step(&tried, of.status, &on_record, is_ordering, of.is_refused);
        let longest = match step {
            Step::Waits => ORDERS,
            _ => LONGEST_PAUSE,
        };
        self.slow_down(now, longest);
        // A failure says nothing of what was known.
        if !matches!(tried, Tried::Failed(_)) {
            self.waits_for_orders = step == Step::Waits;
        }
        self.is_of_no_use = match (of.entry, &tried) {
            (KeyEntry::Next, Tried::Refused(_) | Tried::ShowsNone) => {
                self.of.as_ref().map(|of| of.key_hash.clone())
            }
            // Neither is of use: they are tried by turns, each at its own pace.
            _ => None,
        };
        self.tried = Some(next_key::verdict(self.tried.take(), tried));
        Some(step)
    }

    /// Starts a trial where one is due.
    fn start(&mut self, accounts: &Accounts, of: &Of<'_>, candidate: &Candidate, now: Duration) {
        // By what is on record under its lineage the account is known again.
        let can_be_known = of.status.lineage.is_some() || of.is_refused;
        if self.is_under_way || !can_be_known || self.rest(of, now).is_some() {
            return;
        }
        let Some(on_record) = accounts.on_record(of.key) else {
            return;
        };
        self.is_under_way = true;
        self.under = Some(of.under.clone());
        let shown = accounts.live_machines(of.key);
        let is_shown = |uuid: &str| shown.contains(uuid);
        let evidence = next_key::evidence(of.status, &on_record, is_shown, self.rounds);
        let Connection { client, word, .. } = &candidate.connection;
        let by = (of.key, of.uid);
        accounts.try_beside(by, word.clone(), client.clone(), evidence);
    }
}

/// Looks after a key beside the one in use. Returns it, where it takes the place of that, with the way in which it does.
pub(super) fn look_after(
    accounts: &Accounts,
    memory: &mut Memory,
    of: &Of<'_>,
    candidate: Candidate,
    now: Duration,
) -> Option<(Candidate, Step)> {
    let beside = &mut memory.beside;
    let endpoint = candidate.ingredients.endpoint();
    if beside.of.as_ref() != Some(&endpoint) {
        beside.clear(accounts, of.key);
        beside.of = Some(endpoint);
    }
    match beside.ended(accounts, of, &candidate.connection.word, now) {
        Some(step @ (Step::Succeeds | Step::Replaces)) => Some((candidate, step)),
        Some(Step::Waits | Step::Again) | None => {
            beside.start(accounts, of, &candidate, now);
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(key: &str) -> Endpoint {
        Endpoint {
            base_url: "https://h".into(),
            key_hash: key.into(),
        }
    }

    fn status(key: &str, lineage: &str) -> AccountStatus {
        AccountStatus {
            endpoint: Some(endpoint(key)),
            lineage: Some(lineage.into()),
            ..AccountStatus::default()
        }
    }

    #[test]
    fn a_trial_speaks_of_one_lineage_and_one_key_in_use_and_settled_is_what_is_on_record() {
        let under = |key, lineage, in_use| Under::of(&status(key, lineage), Some(endpoint(in_use)));
        assert!(under("a", "L1", "a").is_settled);
        // The key in use is that of another account, or was not looked at.
        assert!(!under("a", "L1", "c").is_settled);
        assert!(!Under::of(&AccountStatus::default(), None).is_settled);
        let begun = under("a", "L1", "c");
        // A person acknowledges it meanwhile; another one is connected.
        assert!(begun != under("c", "L2", "c") && begun != under("a", "L1", "a"));
        assert!(begun == under("a", "L1", "c"));
    }

    #[test]
    fn what_a_key_has_shown_counts_for_its_lineage_until_it_is_on_record_or_left() {
        let mut beside = Beside::default();
        let b = endpoint("b");
        beside.note_shown(b.clone(), Some("L1".into()));
        beside.drop_shown(&status("a", "L1"), Some(&b));
        assert!(beside.is_shown(Some("L1"), Some(&b)));
        assert!(!beside.is_shown(Some("L2"), Some(&b)) && !beside.is_shown(None, Some(&b)));
        assert!(!beside.is_shown(Some("L1"), Some(&endpoint("c"))));
        for (recorded, in_use) in [("b", "b"), ("a", "c")] {
            let mut beside = beside.clone();
            beside.drop_shown(&status(recorded, "L1"), Some(&endpoint(in_use)));
            assert!(
                !beside.is_shown(Some("L1"), Some(&b)),
                "{recorded} {in_use}"
            );
        }
    }

    #[test]
    fn two_keys_that_are_refused_by_turns_change_ever_more_rarely() {
        let at = Duration::from_secs;
        let mut changes = Changes::default();
        assert_eq!(changes.rest("a", "b", at(0)), None, "the first one at once");
        let mut now = at(0);
        let pauses: Vec<u64> = (0..12)
            .map(|round| {
                let (former, key) = [("a", "b"), ("b", "a")][round % 2];
                changes.note(former, key, now);
                let rest = changes.rest(key, former, now).unwrap_or_default();
                now += rest;
                rest.as_secs()
            })
            .collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]);
        // Another key is another matter.
        assert_eq!(changes.rest("a", "c", now - at(1)), None);
        changes.note("a", "c", now);
        assert_eq!(changes.rest("c", "a", now), Some(at(1)));
    }

    #[test]
    fn each_key_keeps_its_pace_while_it_stands_in_the_secret() {
        let at = Duration::from_secs;
        let mut beside = Beside::default();
        let slow_down = |beside: &mut Beside, key: &str| {
            beside.of = Some(endpoint(key));
            beside.slow_down(at(0), LONGEST_PAUSE);
            beside
                .pace
                .iter()
                .map(|(_, pace)| pace.failures())
                .collect::<Vec<_>>()
        };
        assert_eq!(slow_down(&mut beside, "b"), [1]);
        assert_eq!(slow_down(&mut beside, "a"), [1, 1]);
        assert_eq!(slow_down(&mut beside, "b"), [2, 1]);
        beside.given_up = Some("b".into());
        let (a, b, c) = ("a".to_owned(), "b".to_owned(), "c".to_owned());
        beside.keep(Some(&a), Some(&b));
        assert_eq!(beside.given_up.as_deref(), Some("b"));
        // It was taken out, and what is put back is tried as if it were new.
        beside.keep(Some(&a), Some(&c));
        assert_eq!((beside.given_up, beside.pace.len()), (None, 1));
    }
}
