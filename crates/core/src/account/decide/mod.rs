//! What to say of an account, and what to do about it. Pure.

pub mod account_identity;
mod acknowledge;
pub mod candidate;
mod catalog;
mod conditions;
mod finalizers;
mod orphans;
mod problem;
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
pub use catalog::Offer;
use std::time::Duration;

/// Time between two reads of the Secret while all is well.
const SECRET_AT_REST: Duration = LONGEST_RECHECK;
/// The same while a person is expected to repair it.
const SECRET_AWAITED: Duration = Duration::from_secs(2);
/// Longest pause after writes that failed.
pub const LONGEST_WRITE_PAUSE: Duration = Duration::from_secs(60);
/// How long after a process begins to act an account stands as it was shown, while nothing is seen of it.
const UNSEEN: Duration = Duration::from_secs(30);
/// Time between two looks while something is being deleted.
const ENDING: Duration = Duration::from_secs(1);

/// What follows from the facts.
#[derive(Clone, Debug, PartialEq)]
pub struct AccountDecision {
    /// Why no object of the account may change state.
    pub block: Option<(Reason, String)>,
    /// Why nothing may be ordered; releases go on.
    pub no_orders: Option<(Reason, String)>,
    /// Whether account and Secret stay for as long as they are used. None: as before.
    pub has_finalizers: Option<bool>,
    /// What to do. One thing a pass.
    pub effect: Option<AccountEffect>,
    /// The conditions.
    pub conditions: Vec<DesiredCondition>,
    /// The counts; None: as before.
    pub servers: Option<ServerCounts>,
    /// The objects that use it, kind by kind; None: as before.
    pub users: Option<Vec<KindUsers>>,
    /// What can be ordered.
    pub offer: Offer,
    /// A look at the catalogue that begins at or after this moment is wanted, for status alone.
    pub wants_catalogue: Option<Duration>,
    /// How many calls may be made; None: as before.
    pub calls: Option<CallBudget>,
    /// The first orphans; None: as before.
    pub orphans: Option<Vec<Orphan>>,
    /// What the release limit has counted.
    pub release_limit: Option<ReleaseLimitStatus>,
    /// What waits for an acknowledgement.
    pub pending: Vec<PendingAcknowledgement>,
    /// The acknowledgements that were acted on.
    pub acknowledged: Vec<Acknowledged>,
    /// Base URL and key that are verified; None: as before.
    pub verified: Option<Endpoint>,
    /// The key in use; None: as before.
    pub credentials: Option<Credentials>,
    /// Its account ID; None: as before.
    pub account_id: Option<String>,
    /// The account ID that is in force, once it is on record.
    pub account_id_in_force: Option<String>,
    /// The machines that it is known by.
    pub known: Vec<KnownServer>,
    /// What the account waits for with [`Patience`](crate::patience::Patience).
    pub grace_reason: Option<Reason>,
    /// When to look again.
    pub requeue_after: Duration,
    /// What is looked for then, more and more rarely the longer it does not come; None: nothing in particular.
    pub recheck_reason: Option<Reason>,
    /// A complete listing that begins at or after this moment is wanted: to see where URL and key lead, or since
    /// somebody asks for a look.
    pub wants_complete_list: Option<Duration>,
    /// The request for a look that is acknowledged; None: as before.
    pub handled: Option<String>,
}

/// Something to do in Kubernetes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccountEffect {
    /// Put the finalizer on the account, with the name of the Secret that will bear it too.
    AddAccountFinalizer,
    /// Put the finalizer on the Secret.
    AddSecretFinalizer,
    /// Take the finalizer off a Secret.
    RemoveSecretFinalizer {
        /// Its name.
        name: String,
    },
    /// Take the finalizer off the account's Secret while that is of another type, whoever stands on it. One that was
    /// made in its place meanwhile may be held for others.
    ClearWrongSecret,
    /// The account names another Secret now: let the former one go (if it may), note the new one.
    MoveSecretFinalizer {
        /// The former Secret, unless others need it.
        from: Option<String>,
    },
    /// Take the finalizer off the account.
    RemoveAccountFinalizer,
}

/// Decides.
pub fn decide(facts: &AccountFacts) -> AccountDecision {
    let identity = identify_account(facts);
    let (trouble, patience_for) = apply_grace(facts, problem::find_problem(facts, identity));
    let stopped = suspended(&facts.key, &facts.spec);
    let block = stopped
        .map(|why| (Reason::Suspended, why))
        .or_else(|| problem::blocks(facts, trouble.as_ref()?, identity));
    let no_orders = problem::no_orders(facts, trouble.as_ref(), identity);
    // What is seen through a wrong key or URL says nothing of this account.
    let own = facts
        .report
        .as_ref()
        .filter(|_| identity == AccountIdentity::Same);
    let accepted = matches!(&facts.report, Some(r) if r.key == KeyState::Accepted);
    let begins = accepted && identity == AccountIdentity::New;
    let known = match own {
        Some(report) => report.known.clone(),
        // What was known before is not of the new lineage.
        None if begins => Vec::new(),
        None => facts.status.records.known_servers.clone(),
    };
    let verified = (accepted && identity.is_settled())
        .then(|| facts.in_force.clone())
        .flatten();
    let (effect, held) = finalizers::finalizers(facts);
    let (pending, acknowledged) = acknowledge::next(facts, identity, begins);
    let sought = (!identity.is_settled()).then(|| {
        let spacing = facts.times().absence_check_interval;
        let proof = facts.report.as_ref().and_then(|r| r.complete_list.as_ref());
        proof.map_or(Duration::ZERO, |proof| proof.began + spacing)
    });
    let (asked, handled) = reconcile_request::answer(facts);
    AccountDecision {
        recheck_reason: recheck_reason(facts, trouble.as_ref(), block.is_some()),
        block,
        no_orders,
        has_finalizers: held,
        effect,
        conditions: match is_as_shown(facts, trouble.as_ref(), identity) {
            true => Vec::new(),
            false => conditions::conditions(facts, trouble.as_ref(), identity, accepted, own),
        },
        servers: conditions::counts(facts, own),
        users: uses::users(facts),
        offer: catalog::offer(facts, own),
        wants_catalogue: catalog::refresh(facts, own),
        calls: uses::calls(facts),
        orphans: orphans::lines(facts, own),
        release_limit: release_limit::next(facts),
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
        grace_reason: patience_for,
        requeue_after: requeue_after(facts, trouble.as_ref()),
        wants_complete_list: [sought, asked].into_iter().flatten().min(),
        handled,
    }
}

/// Whether the conditions of an account stand that was ready over this very connection: a process that has just begun to act
/// has not seen the account yet, and that alone is no news.
fn is_as_shown(
    facts: &AccountFacts,
    trouble: Option<&Explanation>,
    identity: AccountIdentity,
) -> bool {
    let (status, report) = (&facts.status, facts.report.as_ref());
    let is_unseen = report.is_none_or(|report| report.complete_list.is_none());
    facts.now < facts.leader_since + UNSEEN
        && is_unseen
        && (trouble.is_none() || problem::is_untried_alone(facts, identity))
        && !is_ending(facts)
        && status.observed_generation == facts.meta.generation
        && status.verified.is_some()
        && status.verified == facts.in_force
        && is_true(&status.conditions, Type::Ready)
}

/// The account ID that the objects know of.
fn recover_account_id(facts: &AccountFacts) -> Option<String> {
    let proof = facts.report.as_ref()?.complete_list.as_deref()?;
    account_identity::recover_account_id(facts.on_record.as_ref()?, proof)
}

/// Why everything through an account is stopped; None: it is not.
pub fn suspended(key: &AccountKey, spec: &AccountSpec) -> Option<String> {
    spec.suspend.then(|| {
        format!(
            "Suspended by spec.suspend of {key}; nothing is ordered, changed or released through it. To resume, set spec.suspend of the account to false"
        )
    })
}

/// The trouble as it reads by now, and what is awaited in it.
fn apply_grace(
    facts: &AccountFacts,
    trouble: Option<Explanation>,
) -> (Option<Explanation>, Option<Reason>) {
    let Some(trouble) = trouble else {
        return (None, None);
    };
    let patience_for = (trouble.ready_state == ReadyState::Missing).then_some(trouble.reason);
    // An absent Secret is looked for more often than patience lasts: nobody has to look for its end.
    let (trouble, _) = trouble.apply_grace(&facts.grace, facts.now, &facts.status.conditions);
    (Some(trouble), patience_for)
}

fn requeue_after(facts: &AccountFacts, trouble: Option<&Explanation>) -> Duration {
    let again = match trouble {
        _ if is_ending(facts) => ENDING,
        Some(t) if repair_is_awaited(t.reason) => SECRET_AWAITED,
        _ => SECRET_AT_REST,
    };
    candidate::retry_after(facts).map_or(again, |soon| again.min(soon))
}

/// Whoever ends is told when the last user is gone, and a repair of the Secret need not come at all: neither may cost
/// a read every second for as long as it pleases somebody. Also not of an account that still works by its last good key.
fn recheck_reason(
    facts: &AccountFacts,
    trouble: Option<&Explanation>,
    is_blocked: bool,
) -> Option<Reason> {
    if is_ending(facts) {
        return Some(Reason::InUse);
    }
    let reason = trouble?.reason;
    (is_blocked || repair_is_awaited(reason)).then_some(reason)
}

/// Whether account or Secret is being deleted.
fn is_ending(facts: &AccountFacts) -> bool {
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
