//! Decides what to do for an account, and what its status reports.

pub mod account_identity;
mod acknowledge;
pub mod candidate;
mod catalog;
mod conditions;
mod finalizers;
mod orphans;
pub mod problem;
mod reconcile_request;
mod release_limit;
mod uses;

use super::facts::{AccountFacts, SecretFact};
use crate::{
    account::{key::AccountKey, key_state::KeyState, recheck_interval::LONGEST_RECHECK},
    explanation::{Explanation, ReadyState},
};
use account_identity::{AccountIdentity, identify_account};
use api::{
    Reason,
    account::{AccountSpec, Credentials, Endpoint, KnownServer, ServerCounts},
    account_use::{CallBudget, KindUsers},
    acknowledgement::{Acknowledged, PendingAcknowledgement},
    conditions::{DesiredCondition, Type, is_true},
    orphan::Orphan,
    release_limit::ReleaseLimitStatus,
};
pub use catalog::{Offer, build_catalog};
use std::time::Duration;

/// Time between two reads of the Secret while nothing is wrong.
const SECRET_IDLE_INTERVAL: Duration = LONGEST_RECHECK;
/// The same while a user has to repair it.
const SECRET_AWAITED: Duration = Duration::from_secs(2);
/// Longest backoff after failed writes.
pub const LONGEST_WRITE_PAUSE: Duration = Duration::from_secs(60);
/// How long a new leader keeps the shown conditions while it has not seen the account yet.
const UNREAD_OBJECT_INTERVAL: Duration = Duration::from_secs(30);
/// Time between two reconciles while the account or its Secret is being deleted.
const FINALIZER_RECHECK: Duration = Duration::from_secs(1);

/// What follows from the facts.
#[derive(Clone, Debug, PartialEq)]
pub struct AccountDecision {
    /// Why no object of the account may change state.
    pub block: Option<(Reason, String)>,
    /// Why nothing may be ordered; releases go on.
    pub no_orders: Option<(Reason, String)>,
    /// Whether account and Secret have their finalizers. None: unchanged.
    pub has_finalizers: Option<bool>,
    /// What to do: one effect per reconcile.
    pub effect: Option<AccountEffect>,
    /// The conditions.
    pub conditions: Vec<DesiredCondition>,
    /// The server counts; None: unchanged.
    pub servers: Option<ServerCounts>,
    /// The objects that use it, by kind; None: unchanged.
    pub users: Option<Vec<KindUsers>>,
    /// What can be ordered.
    pub offer: Offer,
    /// Wants a read of the catalogue that begins at or after this moment, only for the status. None: not now.
    pub wants_catalogue: Option<Duration>,
    /// The call budget; None: unchanged.
    pub calls: Option<CallBudget>,
    /// The oldest orphans; None: unchanged.
    pub orphans: Option<Vec<Orphan>>,
    /// What the release limit has counted.
    pub release_limit: Option<ReleaseLimitStatus>,
    /// The situations that wait for an acknowledgement.
    pub pending: Vec<PendingAcknowledgement>,
    /// The acknowledgements that were acted on.
    pub acknowledged: Vec<Acknowledged>,
    /// The verified base URL and key; None: unchanged.
    pub verified: Option<Endpoint>,
    /// The key in use; None: unchanged.
    pub credentials: Option<Credentials>,
    /// The account ID to record; None: unchanged.
    pub account_id: Option<String>,
    /// The account ID in force, once it is recorded.
    pub account_id_in_force: Option<String>,
    /// The known servers: each list must show one of them.
    pub known: Vec<KnownServer>,
    /// What the account waits for within its [`ReferenceGrace`](crate::reference_grace::ReferenceGrace).
    pub grace_reason: Option<Reason>,
    /// Time until the next reconcile.
    pub requeue_after: Duration,
    /// What is rechecked then, at growing intervals. None: nothing in particular.
    pub recheck_reason: Option<Reason>,
    /// Wants a complete list that begins at or after this moment: to identify the account, or for a reconcile request.
    pub wants_complete_list: Option<Duration>,
    /// The handled reconcile request; None: unchanged.
    pub handled: Option<String>,
}

/// A write to Kubernetes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccountEffect {
    /// Adds the finalizer to the account, and records the name of the Secret that gets it too.
    AddAccountFinalizer,
    /// Adds the finalizer to the Secret.
    AddSecretFinalizer,
    /// Removes the finalizer from a Secret.
    RemoveSecretFinalizer {
        /// Name of the Secret.
        name: String,
    },
    /// Removes the finalizer from the account's Secret if that has the wrong type, even if other accounts share it. A
    /// Secret recreated with the right type keeps it.
    ClearWrongSecret,
    /// The account names another Secret now: removes the finalizer from the previous one, and records the new one.
    MoveSecretFinalizer {
        /// The previous Secret; None: none was recorded, or other accounts need it.
        from: Option<String>,
    },
    /// Removes the finalizer from the account.
    RemoveAccountFinalizer,
}

impl AccountEffect {
    /// Its name, for the log.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::AddAccountFinalizer => "AddAccountFinalizer",
            Self::AddSecretFinalizer => "AddSecretFinalizer",
            Self::RemoveSecretFinalizer { .. } => "RemoveSecretFinalizer",
            Self::ClearWrongSecret => "ClearWrongSecret",
            Self::MoveSecretFinalizer { .. } => "MoveSecretFinalizer",
            Self::RemoveAccountFinalizer => "RemoveAccountFinalizer",
        }
    }
}

/// Decides from the facts.
pub fn decide(facts: &AccountFacts) -> AccountDecision {
    let identity = identify_account(facts);
    let (explanation, grace_reason) = apply_grace(facts, problem::find_problem(facts, identity));
    let stopped = suspended(&facts.key, &facts.spec);
    let block = stopped
        .map(|why| (Reason::Suspended, why))
        .or_else(|| problem::blocks(facts, explanation.as_ref()?, identity));
    let no_orders = problem::no_orders(facts, explanation.as_ref(), identity);
    // What a wrong key or URL shows is not about this account.
    let own = facts
        .report
        .as_ref()
        .filter(|_| identity == AccountIdentity::Same);
    let accepted = matches!(&facts.report, Some(r) if r.key == KeyState::Accepted);
    let begins = accepted && identity == AccountIdentity::New;
    let known = match own {
        Some(report) => report.known.clone(),
        // The known servers belong to the previous account ID.
        None if begins => Vec::new(),
        None => facts.status.records.known_servers.clone(),
    };
    let verified = (accepted && identity.is_settled())
        .then(|| facts.in_force.clone())
        .flatten();
    let (effect, has_finalizers) = finalizers::decide_finalizers(facts);
    let effect = effect.filter(|_| !facts.read_only);
    // A read-only operator adds none, and nothing may wait for them: it shows what it would order.
    let has_finalizers = has_finalizers.map(|has| has || facts.read_only);
    let (pending, acknowledged) = acknowledge::decide_acknowledgements(facts, identity, begins);
    let sought = (!identity.is_settled()).then(|| {
        let spacing = facts.times().absence_check_interval;
        let list = facts.report.as_ref().and_then(|r| r.complete_list.as_ref());
        list.map_or(Duration::ZERO, |list| list.began + spacing)
    });
    let (asked, handled) = reconcile_request::answer(facts);
    AccountDecision {
        recheck_reason: recheck_reason(facts, explanation.as_ref(), block.is_some()),
        block,
        no_orders,
        has_finalizers,
        effect,
        conditions: match is_as_shown(facts, explanation.as_ref(), identity) {
            true => Vec::new(),
            false => conditions::conditions(facts, explanation.as_ref(), identity, accepted, own),
        },
        servers: conditions::counts(facts, own),
        users: uses::users(facts),
        offer: catalog::offer(facts, own),
        wants_catalogue: catalog::catalog_refresh_at(facts, own),
        calls: uses::calls(facts),
        orphans: orphans::list_orphans(facts, own),
        release_limit: release_limit::decide_release_limit(facts),
        pending,
        acknowledged,
        credentials: candidate::credentials(facts, verified.is_some()),
        verified,
        account_id: match identity {
            AccountIdentity::New if accepted => Some(facts.next_account_id.clone()),
            AccountIdentity::Recovered if accepted => recover_account_id(facts),
            _ => None,
        },
        account_id_in_force: own.and(facts.status.account_id.clone()),
        known,
        grace_reason,
        requeue_after: requeue_after(facts, explanation.as_ref()),
        wants_complete_list: [sought, asked].into_iter().flatten().min(),
        handled,
    }
}

/// Whether a new leader, which has not seen the account yet, keeps the conditions: it was ready with these credentials.
fn is_as_shown(
    facts: &AccountFacts,
    explanation: Option<&Explanation>,
    identity: AccountIdentity,
) -> bool {
    let (status, report) = (&facts.status, facts.report.as_ref());
    let is_unseen = report.is_none_or(|report| report.complete_list.is_none());
    facts.now < facts.leader_since + UNREAD_OBJECT_INTERVAL
        && is_unseen
        && (explanation.is_none() || problem::is_untried_alone(facts, identity))
        && !is_account_or_secret_deleting(facts)
        && status.observed_generation == facts.meta.generation
        && status.verified.is_some()
        && status.verified == facts.in_force
        && is_true(&status.conditions, Type::Ready)
}

/// The account ID that objects recorded.
fn recover_account_id(facts: &AccountFacts) -> Option<String> {
    let list = facts.report.as_ref()?.complete_list.as_deref()?;
    account_identity::recover_account_id(facts.on_record.as_ref()?, list)
}

/// Why an account is suspended; None: it is not.
pub fn suspended(key: &AccountKey, spec: &AccountSpec) -> Option<String> {
    spec.suspend.then(|| {
        format!(
            "Suspended by spec.suspend of {key}; nothing is ordered, changed or released through it. To resume, set spec.suspend of the account to false"
        )
    })
}

/// The explanation with the grace period applied, and what the account waits for within it.
fn apply_grace(
    facts: &AccountFacts,
    explanation: Option<Explanation>,
) -> (Option<Explanation>, Option<Reason>) {
    let Some(explanation) = explanation else {
        return (None, None);
    };
    let grace_reason =
        (explanation.ready_state == ReadyState::Missing).then_some(explanation.reason);
    // A missing Secret is read more often than the grace period lasts, so its end needs no requeue of its own.
    let (explanation, _) =
        explanation.apply_grace(&facts.grace, facts.now, &facts.status.conditions);
    (Some(explanation), grace_reason)
}

fn requeue_after(facts: &AccountFacts, explanation: Option<&Explanation>) -> Duration {
    let again = match explanation {
        _ if is_account_or_secret_deleting(facts) => FINALIZER_RECHECK,
        Some(t) if repair_is_awaited(t.reason) => SECRET_AWAITED,
        _ => SECRET_IDLE_INTERVAL,
    };
    candidate::retry_after(facts).map_or(again, |soon| again.min(soon))
}

/// What to recheck at growing intervals, even while the account works: the deletion of the last user enqueues the
/// account anyway, and a repair of the Secret may never come.
fn recheck_reason(
    facts: &AccountFacts,
    explanation: Option<&Explanation>,
    is_blocked: bool,
) -> Option<Reason> {
    if is_account_or_secret_deleting(facts) {
        return Some(Reason::InUse);
    }
    let reason = explanation?.reason;
    (is_blocked || repair_is_awaited(reason)).then_some(reason)
}

/// Whether account or Secret is being deleted.
fn is_account_or_secret_deleting(facts: &AccountFacts) -> bool {
    facts.is_deleting() || matches!(facts.secret, SecretFact::Found { deleting: true, .. })
}

/// Whether a change of the Secret or of the CA bundle would help.
fn repair_is_awaited(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::ReferenceNotFound
            | Reason::InvalidKey
            | Reason::InvalidEndpoint
            | Reason::KeyRejected
            | Reason::AccountChanged
            | Reason::Pending
    )
}
