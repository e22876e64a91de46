//! Another key in the Secret than the one in use: it is tried beside that, and takes its place once it has shown a
//! server on record, or where none is on record that it would have to show. Pure.

use super::{
    super::facts::{AccountFacts, KeyFault, SecretFact},
    account_identity,
};
use crate::{account::on_record::OnRecord, acknowledgement::Situation, backoff::LONGEST_PAUSE};
use api::{
    Interval, Reason,
    account::{AccountStatus, Credentials, Endpoint},
    conditions::{DesiredCondition, Type},
    names::{API_KEY_ENTRY, API_KEY_SECRET},
};
use hosting_types::{Refusal, ServerId, request::CHANGE_TIMEOUT};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use std::time::Duration;

/// Most servers that a key is asked for in one trial.
const MOST: usize = 5;
/// Longest pause between two trials of a key that only waits for orders.
pub const LONGEST_ORDERS_PAUSE: Duration = Duration::from_secs(15);
/// Time between two looks while calls over the former key come to their end.
const DRAINING: Duration = Duration::from_secs(1);

/// A server by which a key shows that it is of the same account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerificationServer {
    /// The server.
    pub id: ServerId,
    /// The place in the order tag that it has to have, of the object that has it on record; None: the account remembers it itself.
    pub name_hash: Option<String>,
}

/// What came of the trial of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TrialResult {
    /// It lists servers, and shows one of those asked for.
    Shows,
    /// It lists servers, and none had to be shown.
    Accepted,
    /// It lists servers, and shows none of those asked for.
    ShowsNone,
    /// 401 or 403.
    Refused(Refusal),
    /// Nobody knows yet. Says why.
    Failed(String),
}

/// The key in use and its candidate, for the decision of an account.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccountKeys {
    /// The Secret has another key than the one in use, or none any more that can be used.
    pub candidate: Option<CandidateKeyState>,
    /// Whether the key in use showed a server on record when it was a candidate.
    pub is_verified: bool,
    /// Whether calls over the former key may still follow.
    pub is_draining: bool,
}

/// A key that is tried beside the one in use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CandidateKeyState {
    /// What came of the trial; None: nothing yet.
    pub tried: Option<TrialResult>,
    /// The trial told nothing against it, and an order has to be settled first.
    pub waits_for_orders: bool,
    /// How long until the next trial; None: none is due, or one is under way.
    pub retry_after: Option<Duration>,
}

/// What follows from a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CandidateStep {
    /// It takes the place of the key in use, and what is known goes on.
    SwitchOver,
    /// It takes that place as the key of another account does: nothing is on record that it would have to show.
    ReplaceAccount,
    /// An order has to be settled first.
    WaitForOrders,
    /// It is tried again.
    Retry,
}

/// What a switch to a candidate depends on besides its trial.
#[derive(Clone, Copy, Debug, Default)]
pub struct KeyInUse {
    /// An order is under way or not settled.
    pub has_open_order: bool,
    /// The key in use is refused, so that nothing can be settled over it.
    pub is_refused: bool,
}

/// Says what follows from a trial.
pub fn next_step(
    tried: &TrialResult,
    status: &AccountStatus,
    on_record: &OnRecord,
    in_use: KeyInUse,
) -> CandidateStep {
    let must_show = || {
        let machines = account_identity::list_expected_servers(status, on_record);
        machines.iter().any(|machine| machine.live)
    };
    let is_open = in_use.has_open_order || !on_record.open_orders.is_empty();
    match tried {
        TrialResult::Shows => CandidateStep::SwitchOver,
        TrialResult::Accepted | TrialResult::ShowsNone if must_show() => CandidateStep::Retry,
        TrialResult::Accepted | TrialResult::ShowsNone if is_open && !in_use.is_refused => {
            CandidateStep::WaitForOrders
        }
        TrialResult::Accepted | TrialResult::ShowsNone => CandidateStep::ReplaceAccount,
        TrialResult::Refused(_) | TrialResult::Failed(_) => CandidateStep::Retry,
    }
}

/// The servers that a key is asked for in this round, few at a time: those that the key in use shows first, then live
/// ones, and all of them in their turn.
pub fn select_verification_servers(
    status: &AccountStatus,
    on_record: &OnRecord,
    is_shown: impl Fn(&str) -> bool,
    round: usize,
) -> Vec<VerificationServer> {
    let mut machines = account_identity::list_expected_servers(status, on_record);
    machines.sort_by_cached_key(|machine| (!is_shown(&machine.uuid), !machine.live));
    let rounds = machines.len().div_ceil(MOST).max(1);
    let machines = machines.into_iter().skip(round % rounds * MOST);
    let ids = machines.filter_map(|machine| {
        let id = ServerId::parse(&machine.uuid).ok()?;
        Some(VerificationServer {
            id,
            name_hash: machine.name_hash,
        })
    });
    ids.take(MOST).collect()
}

/// What is remembered of a trial: a failure says nothing against what was known, and other words for the same are no news.
pub fn merge_trial_result(before: Option<TrialResult>, tried: TrialResult) -> TrialResult {
    match (before, tried) {
        (Some(before), TrialResult::Failed(_)) => before,
        (Some(before @ TrialResult::Refused(_)), TrialResult::Refused(_)) => before,
        (_, tried) => tried,
    }
}

/// The key in use, for the status: once no call over the former one follows any more. None: as before.
pub(super) fn credentials(facts: &AccountFacts, accepted: bool) -> Option<Credentials> {
    let in_force = facts.in_force.as_ref()?;
    let before = facts.status.credentials.as_ref();
    let is_new = before.is_none_or(|before| before.hash != in_force.credentials_hash);
    (accepted && is_new && !facts.keys.is_draining).then(|| Credentials {
        hash: in_force.credentials_hash.clone(),
        in_use_since: Timestamp::from_second(facts.wall).ok().map(Time),
    })
}

/// When to look again.
pub(super) fn retry_after(facts: &AccountFacts) -> Option<Duration> {
    let draining = facts.keys.is_draining.then_some(DRAINING);
    let candidate = facts.keys.candidate.as_ref();
    let trial = candidate.and_then(|candidate| candidate.retry_after);
    [draining, trial].into_iter().flatten().min()
}

/// The condition of an account while its Secret has another key than the one in use, or calls over a former one end.
pub(super) fn condition(facts: &AccountFacts) -> Option<DesiredCondition> {
    let (status, reason, message) = match (&facts.keys.candidate, &facts.secret) {
        (
            Some(_),
            SecretFact::Found {
                key: Err(fault), ..
            },
        ) => unusable(facts, fault),
        (Some(candidate), _) => describe_candidate(facts, candidate),
        (None, _) if facts.keys.is_draining => {
            let text = format!(
                "Using the new key in {}; the last calls with the former key end within {}. Keep the former key valid until status.credentials shows the new one",
                facts.secret_name(),
                // The last ones need not be orders.
                Interval(facts.times().order_timeout.max(CHANGE_TIMEOUT))
            );
            (None, Reason::Pending, text)
        }
        (None, _) => return None,
    };
    Some(DesiredCondition {
        kind: Type::CandidateAccepted,
        status,
        reason,
        message,
    })
}

type ConditionParts = (Option<bool>, Reason, String);

const STAYS: &str = "the key in use stays, and is lost when the operator restarts";

/// The situation of a candidate that shows none of the servers on record. Only while nothing is ordered or released through
/// the account: else its servers, which are given up by that, would be others before anybody acknowledges them.
pub(super) fn situation(facts: &AccountFacts) -> Option<Situation> {
    let candidate = facts
        .keys
        .candidate
        .as_ref()
        .filter(|_| facts.spec.suspend)?;
    let on_record = facts.on_record.as_ref()?;
    let word = candidate_word(facts)?;
    let shows_none = candidate.tried == Some(TrialResult::ShowsNone) && !candidate.waits_for_orders;
    shows_none.then(|| account_identity::new_account(&facts.status, &word, on_record))
}

/// The word for a connection with the candidate.
fn candidate_word(facts: &AccountFacts) -> Option<String> {
    let SecretFact::Found { key: Ok(hash), .. } = &facts.secret else {
        return None;
    };
    let endpoint = Endpoint {
        base_url: facts.in_force.as_ref()?.base_url.clone(),
        credentials_hash: hash.clone(),
    };
    Some(endpoint.hash_credentials(facts.uid()))
}

fn unusable(facts: &AccountFacts, fault: &KeyFault) -> ConditionParts {
    let (reason, why) = match fault {
        KeyFault::Invalid(why) => (Reason::InvalidKey, format!("key {API_KEY_ENTRY:?}: {why}")),
        KeyFault::Absent => {
            let why = format!("it has no key {API_KEY_ENTRY:?}");
            (Reason::ReferenceNotFound, why)
        }
        KeyFault::OtherType => {
            let why = format!("it is not of type {API_KEY_SECRET}");
            (Reason::InvalidKey, why)
        }
    };
    let text = format!(
        "Cannot use the new key in {}; {why}; {STAYS}. Put a valid API key there",
        facts.secret_name(),
    );
    (Some(false), reason, text)
}

fn describe_candidate(facts: &AccountFacts, candidate: &CandidateKeyState) -> ConditionParts {
    let key = format!("new key in {}", facts.secret_name());
    let most = match candidate.waits_for_orders {
        true => LONGEST_ORDERS_PAUSE,
        false => LONGEST_PAUSE,
    };
    let again = format!(
        "retrying at growing intervals of at most {}",
        Interval(most)
    );
    match &candidate.tried {
        Some(_) if candidate.waits_for_orders => {
            let text = format!(
                "The {key} works; used once no order is open, because no recorded server shows that it is of the same account; {again}"
            );
            (None, Reason::Pending, text)
        }
        None => {
            let text = format!("The {key} is not in use yet; a try follows");
            (None, Reason::Pending, text)
        }
        // A server came on record since, which it is asked for in a moment.
        Some(TrialResult::Shows | TrialResult::Accepted) => {
            let text = format!("The {key} is not in use yet; {again}");
            (None, Reason::Pending, text)
        }
        Some(TrialResult::Refused(refusal)) => {
            let text = format!(
                "The hosting API rejects the {key}; {refusal}; {STAYS}; {again}. Put a valid API key there"
            );
            (Some(false), Reason::KeyRejected, text)
        }
        Some(TrialResult::ShowsNone) => {
            let remedy = match situation(facts) {
                Some(asked) => facts.acknowledgements().remedy(&asked),
                None => "first set spec.suspend to true to get a token".to_owned(),
            };
            let or = format!(", or, to give those servers up, {remedy}");
            let text = format!(
                "The {key} is of another account; it shows no recorded server; {STAYS}; {again}. Put a key of this account there{or}"
            );
            (Some(false), Reason::AccountChanged, text)
        }
        Some(TrialResult::Failed(why)) => {
            let text = format!("Cannot try the {key}; {why}; {again}");
            (None, Reason::ProviderUnreachable, text)
        }
    }
}
