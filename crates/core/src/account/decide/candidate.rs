//! The candidate key: a key in the Secret that is not in use yet. It replaces the key in use once it shows a recorded
//! server, or if no live server is recorded.

use super::{
    super::facts::{AccountFacts, KeyFault, SecretFact},
    account_identity,
};
use crate::{
    account::recorded::RecordedResources, acknowledgement::Situation, backoff::LONGEST_PAUSE,
};
use api::{
    Interval, Reason,
    account::{AccountStatus, Credentials, Endpoint},
    conditions::{DesiredCondition, Type},
    names::{API_KEY_DATA_KEY, API_KEY_SECRET},
};
use hosting_types::{Refusal, ServerId, request::CHANGE_TIMEOUT};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use std::time::Duration;

/// Most servers that one trial asks for.
const MOST: usize = 5;
/// Longest pause between two trials of a candidate that only waits for orders.
pub const LONGEST_ORDERS_PAUSE: Duration = Duration::from_secs(15);
/// Time between two reconciles while the last calls with the previous key finish.
const DRAINING: Duration = Duration::from_secs(1);

/// A server that shows that a key belongs to the same account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerificationServer {
    /// UUID of the server.
    pub id: ServerId,
    /// Name hash in its order tag, from the object that recorded it. None: only the account recorded it.
    pub name_hash: Option<String>,
}

/// The result of a key's trial.
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
    /// Not known yet. Has the reason.
    Failed(String),
}

/// The key in use and the candidate key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccountKeys {
    /// The candidate: the Secret has another key than the one in use, or no usable key any more.
    pub candidate: Option<CandidateKeyState>,
    /// Whether the key in use showed a recorded server while it was a candidate.
    pub is_verified: bool,
    /// Whether calls with the previous key may still follow.
    pub is_draining: bool,
}

/// State of the candidate key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CandidateKeyState {
    /// Result of its trial. None: no result yet.
    pub tried: Option<TrialResult>,
    /// The key works, but an open order must be settled before it is used.
    pub waits_for_orders: bool,
    /// Time until the next trial. None: none is due, or one is running.
    pub retry_after: Option<Duration>,
}

/// What follows from a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CandidateStep {
    /// It replaces the key in use, and the account ID stays.
    SwitchOver,
    /// It replaces the key in use under a new account ID: no live recorded server has to be shown.
    ReplaceAccount,
    /// An open order must be settled first.
    WaitForOrders,
    /// It is tried again.
    Retry,
}

/// State of the key in use, on which a switch to the candidate depends.
#[derive(Clone, Copy, Debug, Default)]
pub struct KeyInUse {
    /// An order is in flight, or its outcome is unknown.
    pub has_open_order: bool,
    /// The key in use is refused, so no order can be settled with it.
    pub is_refused: bool,
}

/// Decides what follows from a trial.
pub fn next_step(
    tried: &TrialResult,
    status: &AccountStatus,
    on_record: &RecordedResources,
    in_use: KeyInUse,
) -> CandidateStep {
    let must_show = || {
        let servers = account_identity::list_expected_servers(status, on_record);
        servers.iter().any(|server| server.live)
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

/// The servers that this trial asks for: first those that the key in use shows, then live ones. Later trials ask for
/// the rest.
pub fn select_verification_servers(
    status: &AccountStatus,
    on_record: &RecordedResources,
    is_shown: impl Fn(&str) -> bool,
    trial: usize,
) -> Vec<VerificationServer> {
    let mut servers = account_identity::list_expected_servers(status, on_record);
    servers.sort_by_cached_key(|server| (!is_shown(&server.uuid), !server.live));
    let batches = servers.len().div_ceil(MOST).max(1);
    let servers = servers.into_iter().skip(trial % batches * MOST);
    let ids = servers.filter_map(|server| {
        let id = ServerId::parse(&server.uuid).ok()?;
        Some(VerificationServer {
            id,
            name_hash: server.name_hash,
        })
    });
    ids.take(MOST).collect()
}

/// Merges a trial's result into the previous one. A failure changes nothing, nor does another wording of a refusal.
pub fn merge_trial_result(before: Option<TrialResult>, tried: TrialResult) -> TrialResult {
    match (before, tried) {
        (Some(before), TrialResult::Failed(_)) => before,
        (Some(before @ TrialResult::Refused(_)), TrialResult::Refused(_)) => before,
        (_, tried) => tried,
    }
}

/// The key in use, for the status, once no call uses the previous one. None: unchanged.
pub(super) fn credentials(facts: &AccountFacts, accepted: bool) -> Option<Credentials> {
    let in_force = facts.in_force.as_ref()?;
    let before = facts.status.credentials.as_ref();
    let is_new = before.is_none_or(|before| before.hash != in_force.credentials_hash);
    (accepted && is_new && !facts.keys.is_draining).then(|| Credentials {
        hash: in_force.credentials_hash.clone(),
        in_use_since: Timestamp::from_second(facts.wall).ok().map(Time),
    })
}

/// Time until the next reconcile that the keys need.
pub(super) fn retry_after(facts: &AccountFacts) -> Option<Duration> {
    let draining = facts.keys.is_draining.then_some(DRAINING);
    let candidate = facts.keys.candidate.as_ref();
    let trial = candidate.and_then(|candidate| candidate.retry_after);
    [draining, trial].into_iter().flatten().min()
}

/// The condition `CandidateAccepted`: while there is a candidate, or calls with the previous key finish.
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
                // The last call may be an order or another change.
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

/// The situation of a candidate that shows no recorded server. Only while the account is suspended: each order and
/// release changes the servers that are given up, and with them the token.
pub(super) fn situation(facts: &AccountFacts) -> Option<Situation> {
    let candidate = facts
        .keys
        .candidate
        .as_ref()
        .filter(|_| facts.spec.suspend)?;
    let on_record = facts.on_record.as_ref()?;
    let hash = candidate_word(facts)?;
    let shows_none = candidate.tried == Some(TrialResult::ShowsNone) && !candidate.waits_for_orders;
    shows_none.then(|| account_identity::new_account(&facts.status, &hash, on_record))
}

/// The hash of the candidate credentials.
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
        KeyFault::Invalid(why) => (
            Reason::InvalidKey,
            format!("key {API_KEY_DATA_KEY:?}: {why}"),
        ),
        KeyFault::Absent => {
            let why = format!("it has no key {API_KEY_DATA_KEY:?}");
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
        // A server was recorded since. The next trial asks for it.
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
