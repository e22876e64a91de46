//! Another key in the Secret than the one in use: when it is tried, and what follows.

use super::memory::{AccountMemory, ConnectionParams};
use crate::account::{Accounts, Connection};
use api::account::{AccountStatus, Endpoint};
use flexmetal_core::{
    account::{
        decide::{
            account_identity,
            candidate::{self, CandidateStep, KeyInUse, LONGEST_ORDERS_PAUSE, TrialResult},
        },
        key::AccountKey,
    },
    acknowledgement::Acknowledgements,
    backoff::{Backoff, LONGEST_PAUSE},
};
use std::time::Duration;

/// What is remembered of it between two passes.
#[derive(Clone, Default)]
pub(super) struct Trials {
    /// What the trials speak of; None: there is no candidate.
    of: Option<TrialSubject>,
    /// What came of it, as it was told first.
    tried: Option<TrialResult>,
    /// An order has to be settled before it takes its place.
    waits_for_orders: bool,
    is_under_way: bool,
    backoff: Backoff,
    /// How often it showed none of the servers that it was asked for.
    empty_trials: usize,
    /// One that showed a server on record and took its place, and the lineage of that, until it is on record itself.
    verified: Option<(Endpoint, Option<String>)>,
}

/// What a trial speaks of: its result says nothing of another lineage, nor beside another key in use.
#[derive(Clone, PartialEq)]
struct TrialSubject {
    candidate: Endpoint,
    in_use: Option<Endpoint>,
    account_id: Option<String>,
}

/// A key that is tried, with the connection that it would make.
pub(super) struct CandidateConnection {
    pub(super) ingredients: ConnectionParams,
    pub(super) connection: Connection,
}

/// The account object for which it is tried.
pub(super) struct TrialAccount<'a> {
    pub(super) key: &'a AccountKey,
    pub(super) uid: &'a str,
    pub(super) status: &'a AccountStatus,
    pub(super) in_use: Option<Endpoint>,
    /// What it has of acknowledgements.
    pub(super) acknowledgements: Acknowledgements<'a>,
}

impl Trials {
    /// There is no candidate.
    pub(super) fn clear(&mut self, accounts: &Accounts, key: &AccountKey) {
        if self.of.is_some() {
            accounts.end_trial(key);
        }
        *self = Self {
            verified: self.verified.take(),
            ..Self::default()
        };
    }

    /// It may be tried again at once.
    pub(super) fn try_again(&mut self) {
        self.backoff.reset();
    }

    /// The key in use has shown the account of this lineage.
    pub(super) fn record_verified(&mut self, in_use: Endpoint, lineage: Option<String>) {
        self.verified = Some((in_use, lineage));
    }

    /// What was shown is over once it is on record, and with any other connection.
    pub(super) fn drop_verified(&mut self, status: &AccountStatus, in_use: Option<&Endpoint>) {
        let is_over = |(shown, _): &(Endpoint, _)| {
            status.verified.as_ref() == Some(shown) || in_use != Some(shown)
        };
        if self.verified.as_ref().is_some_and(is_over) {
            self.verified = None;
        }
    }

    /// Whether the key in use has shown the account of this lineage.
    pub(super) fn is_verified(&self, lineage: Option<&str>, in_use: Option<&Endpoint>) -> bool {
        let verified = self.verified.as_ref();
        verified.is_some_and(|(of, under)| {
            in_use == Some(of) && lineage.is_some() && under.as_deref() == lineage
        })
    }

    /// The candidate, for a decision.
    pub(super) fn fact(&self, now: Duration) -> candidate::CandidateKeyState {
        let waits = self.of.is_some() && !self.is_under_way;
        candidate::CandidateKeyState {
            tried: self.tried.clone(),
            waits_for_orders: self.waits_for_orders,
            retry_after: waits.then(|| self.backoff.rest(now).unwrap_or(LONGEST_ORDERS_PAUSE)),
        }
    }

    /// What follows from the trial that has ended; None: nothing new.
    fn ended(
        &mut self,
        accounts: &Accounts,
        of: &TrialAccount<'_>,
        word: &str,
        now: Duration,
    ) -> Option<CandidateStep> {
        let tried = match accounts.trial_result(of.key, word) {
            Some(None) => return None,
            ended => ended.flatten().filter(|_| self.is_under_way),
        };
        self.is_under_way = false;
        let tried = tried?;
        accounts.end_trial(of.key);
        let Some(on_record) = accounts.on_record(of.key) else {
            // Not every object is known yet.
            self.backoff.fail(now, LONGEST_ORDERS_PAUSE);
            return None;
        };
        self.empty_trials = match tried {
            TrialResult::ShowsNone => self.empty_trials.wrapping_add(1),
            _ => 0,
        };
        let in_use = KeyInUse {
            has_open_order: accounts.is_ordering(of.key),
            is_refused: accounts.is_refused(of.key),
        };
        let step = candidate::next_step(&tried, of.status, &on_record, in_use);
        // A failure says nothing of what was known.
        if !matches!(tried, TrialResult::Failed(_)) {
            self.waits_for_orders = step == CandidateStep::WaitForOrders;
        }
        let longest = match self.waits_for_orders {
            true => LONGEST_ORDERS_PAUSE,
            false => LONGEST_PAUSE,
        };
        self.backoff.fail(now, longest);
        self.tried = Some(candidate::merge_trial_result(self.tried.take(), tried));
        Some(step)
    }

    /// Starts a trial where one is due.
    fn start(
        &mut self,
        accounts: &Accounts,
        of: &TrialAccount<'_>,
        candidate: &CandidateConnection,
        now: Duration,
    ) {
        if self.is_under_way || self.backoff.rest(now).is_some() {
            return;
        }
        let Some(on_record) = accounts.on_record(of.key) else {
            return;
        };
        self.is_under_way = true;
        let shown = accounts.live_servers(of.key);
        let is_shown = |uuid: &str| shown.contains(uuid);
        let evidence = candidate::select_verification_servers(
            of.status,
            &on_record,
            is_shown,
            self.empty_trials,
        );
        let Connection {
            client,
            connection_hash: word,
            ..
        } = &candidate.connection;
        let by = (of.key, of.uid);
        accounts.try_candidate(by, word.clone(), client.clone(), evidence);
    }
}

/// Looks after a key beside the one in use. Returns it, where it takes the place of that, with the way in which it does.
pub(super) fn reconcile_candidate(
    accounts: &Accounts,
    memory: &mut AccountMemory,
    of: &TrialAccount<'_>,
    candidate: CandidateConnection,
    now: Duration,
) -> Option<(CandidateConnection, CandidateStep)> {
    let trials = &mut memory.trials;
    let subject = TrialSubject {
        candidate: candidate.ingredients.endpoint(),
        in_use: of.in_use.clone(),
        account_id: of.status.account_id.clone(),
    };
    if trials.of.as_ref() != Some(&subject) {
        trials.clear(accounts, of.key);
        trials.of = Some(subject);
    }
    let word = candidate.connection.connection_hash.clone();
    match trials.ended(accounts, of, &word, now) {
        Some(step @ (CandidateStep::SwitchOver | CandidateStep::ReplaceAccount)) => {
            Some((candidate, step))
        }
        _ if trials.tried == Some(TrialResult::ShowsNone) && is_meant(accounts, of, &word) => {
            Some((candidate, CandidateStep::ReplaceAccount))
        }
        Some(CandidateStep::WaitForOrders | CandidateStep::Retry) | None => {
            trials.start(accounts, of, &candidate, now);
            None
        }
    }
}

/// Whether a user acknowledges that the connection of this word is used as another account.
fn is_meant(accounts: &Accounts, of: &TrialAccount<'_>, word: &str) -> bool {
    // Not every object may be known yet.
    let on_record = accounts.on_record(of.key);
    on_record.is_some_and(|on_record| {
        let situation = account_identity::new_account(of.status, word, &on_record);
        of.acknowledgements.is_given(&situation)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(key: &str) -> Endpoint {
        Endpoint {
            base_url: "https://h".into(),
            credentials_hash: key.into(),
        }
    }

    fn status(key: &str, lineage: &str) -> AccountStatus {
        AccountStatus {
            verified: Some(endpoint(key)),
            account_id: Some(lineage.into()),
            ..AccountStatus::default()
        }
    }

    #[test]
    fn key_verification_lasts_until_recorded_or_replaced() {
        let mut trials = Trials::default();
        let b = endpoint("b");
        trials.record_verified(b.clone(), Some("L1".into()));
        trials.drop_verified(&status("a", "L1"), Some(&b));
        assert!(trials.is_verified(Some("L1"), Some(&b)));
        assert!(!trials.is_verified(Some("L2"), Some(&b)) && !trials.is_verified(None, Some(&b)));
        assert!(!trials.is_verified(Some("L1"), Some(&endpoint("c"))));
        for (recorded, in_use) in [("b", "b"), ("a", "c")] {
            let mut trials = trials.clone();
            trials.drop_verified(&status(recorded, "L1"), Some(&endpoint(in_use)));
            let is_verified = trials.is_verified(Some("L1"), Some(&b));
            assert!(!is_verified, "{recorded} {in_use}");
        }
    }

    #[test]
    fn requested_trial_skips_backoff_and_keeps_last_result() {
        let now = Duration::from_secs(7);
        let mut trials = Trials {
            of: Some(TrialSubject {
                candidate: endpoint("b"),
                in_use: Some(endpoint("a")),
                account_id: Some("L1".into()),
            }),
            tried: Some(TrialResult::Failed("no route".into())),
            ..Trials::default()
        };
        for _ in 0..5 {
            trials.backoff.fail(now, LONGEST_PAUSE);
        }
        assert_eq!(trials.fact(now).retry_after, Some(Duration::from_secs(16)));
        trials.try_again();
        assert_eq!(trials.backoff.rest(now), None);
        assert_eq!(trials.fact(now).tried, trials.tried);
    }
}
