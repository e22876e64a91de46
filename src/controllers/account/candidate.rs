//! Candidate credentials: an API key in the Secret that differs from the one in use, and the trials of it.

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

/// What is remembered of the trials between two reconciles.
#[derive(Clone, Default)]
pub(super) struct Trials {
    /// What the trials are valid for. `None` if there is no candidate.
    of: Option<TrialSubject>,
    /// The last result that says something new, see `merge_trial_result`.
    tried: Option<TrialResult>,
    /// The switch waits until an open order is settled.
    waits_for_orders: bool,
    is_under_way: bool,
    backoff: Backoff,
    /// Number of trials in a row that showed none of the requested servers.
    empty_trials: usize,
    /// Credentials that showed a recorded server and are in use now, with the account ID, until status records them.
    verified: Option<(Endpoint, Option<String>)>,
}

/// What a trial is valid for: its result means nothing for another account ID or other credentials in use.
#[derive(Clone, PartialEq)]
struct TrialSubject {
    candidate: Endpoint,
    in_use: Option<Endpoint>,
    account_id: Option<String>,
}

/// A candidate: the parameters of its connection, and the connection.
pub(super) struct CandidateConnection {
    pub(super) ingredients: ConnectionParams,
    pub(super) connection: Connection,
}

/// The account object whose candidate is tried.
pub(super) struct TrialAccount<'a> {
    pub(super) key: &'a AccountKey,
    pub(super) uid: &'a str,
    pub(super) status: &'a AccountStatus,
    pub(super) in_use: Option<Endpoint>,
    /// The acknowledgements on the object.
    pub(super) acknowledgements: Acknowledgements<'a>,
}

impl Trials {
    /// Forgets the candidate and ends its trial.
    pub(super) fn clear(&mut self, accounts: &Accounts, key: &AccountKey) {
        if self.of.is_some() {
            accounts.end_trial(key);
        }
        *self = Self {
            verified: self.verified.take(),
            ..Self::default()
        };
    }

    /// Skips the backoff before the next trial.
    pub(super) fn try_again(&mut self) {
        self.backoff.reset();
    }

    /// Records that the credentials in use have shown the account with this ID.
    pub(super) fn record_verified(&mut self, in_use: Endpoint, account_id: Option<String>) {
        self.verified = Some((in_use, account_id));
    }

    /// Drops the verification if status records it, or if other credentials are in use.
    pub(super) fn drop_verified(&mut self, status: &AccountStatus, in_use: Option<&Endpoint>) {
        let is_over = |(shown, _): &(Endpoint, _)| {
            status.verified.as_ref() == Some(shown) || in_use != Some(shown)
        };
        if self.verified.as_ref().is_some_and(is_over) {
            self.verified = None;
        }
    }

    /// Whether the credentials in use have shown the account with this ID.
    pub(super) fn is_verified(&self, account_id: Option<&str>, in_use: Option<&Endpoint>) -> bool {
        let verified = self.verified.as_ref();
        verified.is_some_and(|(of, under)| {
            in_use == Some(of) && account_id.is_some() && under.as_deref() == account_id
        })
    }

    /// The state of the candidate, for decisions.
    pub(super) fn fact(&self, now: Duration) -> candidate::CandidateKeyState {
        let waits = self.of.is_some() && !self.is_under_way;
        candidate::CandidateKeyState {
            tried: self.tried.clone(),
            waits_for_orders: self.waits_for_orders,
            retry_after: waits.then(|| self.backoff.remaining(now).unwrap_or(LONGEST_ORDERS_PAUSE)),
        }
    }

    /// Evaluates a trial that has ended. `None` if nothing new follows.
    fn ended(
        &mut self,
        accounts: &Accounts,
        of: &TrialAccount<'_>,
        connection_hash: &str,
        now: Duration,
    ) -> Option<CandidateStep> {
        let tried = match accounts.trial_result(of.key, connection_hash) {
            Some(None) => return None,
            ended => ended.flatten().filter(|_| self.is_under_way),
        };
        self.is_under_way = false;
        let tried = tried?;
        accounts.end_trial(of.key);
        let Some(on_record) = accounts.recorded_resources(of.key) else {
            // Not all objects are listed yet.
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
        // A failed trial shows nothing about open orders.
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

    /// Starts a trial if one is due.
    fn start(
        &mut self,
        accounts: &Accounts,
        of: &TrialAccount<'_>,
        candidate: &CandidateConnection,
        now: Duration,
    ) {
        if self.is_under_way || self.backoff.remaining(now).is_some() {
            return;
        }
        let Some(on_record) = accounts.recorded_resources(of.key) else {
            return;
        };
        self.is_under_way = true;
        let shown = accounts.live_servers(of.key);
        let is_shown = |uuid: &str| shown.contains(uuid);
        let servers = candidate::select_verification_servers(
            of.status,
            &on_record,
            is_shown,
            self.empty_trials,
        );
        let Connection {
            client,
            connection_hash,
            ..
        } = &candidate.connection;
        let by = (of.key, of.uid);
        accounts.try_candidate(by, connection_hash.clone(), client.clone(), servers);
    }
}

/// Manages the candidate. Returns it with the next step if it goes into use.
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
    let connection_hash = candidate.connection.connection_hash.clone();
    match trials.ended(accounts, of, &connection_hash, now) {
        Some(step @ (CandidateStep::SwitchOver | CandidateStep::ReplaceAccount)) => {
            Some((candidate, step))
        }
        _ if trials.tried == Some(TrialResult::ShowsNone)
            && is_meant(accounts, of, &connection_hash) =>
        {
            Some((candidate, CandidateStep::ReplaceAccount))
        }
        Some(CandidateStep::WaitForOrders | CandidateStep::Retry) | None => {
            trials.start(accounts, of, &candidate, now);
            None
        }
    }
}

/// Whether a user has acknowledged that the connection with this hash leads to another account.
fn is_meant(accounts: &Accounts, of: &TrialAccount<'_>, connection_hash: &str) -> bool {
    // Not all objects may be listed yet.
    let on_record = accounts.recorded_resources(of.key);
    on_record.is_some_and(|on_record| {
        let situation = account_identity::new_account(of.status, connection_hash, &on_record);
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

    fn status(key: &str, account_id: &str) -> AccountStatus {
        AccountStatus {
            verified: Some(endpoint(key)),
            account_id: Some(account_id.into()),
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
        assert_eq!(trials.backoff.remaining(now), None);
        assert_eq!(trials.fact(now).tried, trials.tried);
    }
}
