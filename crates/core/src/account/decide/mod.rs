//! What to say of an account, and what to do about it. Pure.

mod acknowledge;
mod ask;
pub mod candidate;
mod catalog;
mod conditions;
mod finalizers;
pub mod lineage;
mod orphans;
mod release_limit;
mod trouble;
mod uses;

use super::facts::{Facts, SecretFact};
use crate::{
    account::{key::AccountKey, key_state::KeyState, looks::LONGEST_REST},
    cause::{Cause, Standing},
};
use api::{
    Reason,
    account::{AccountSpec, Credentials, Endpoint, KnownServer, ServerCounts},
    account_use::{CallBudget, KindUsers},
    acknowledgement::{Acknowledged, PendingAcknowledgement},
    conditions::{Type, Wanted, is_true},
    orphan::Orphan,
    release_limit::ReleaseLimitStatus,
};
pub use catalog::Offer;
use lineage::{Identity, identity};
use std::time::Duration;

/// Time between two reads of the Secret while all is well.
const SECRET_AT_REST: Duration = LONGEST_REST;
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
pub struct Decision {
    /// Why no object of the account may change state.
    pub block: Option<(Reason, String)>,
    /// Why nothing may be ordered; releases go on.
    pub no_orders: Option<(Reason, String)>,
    /// Whether account and Secret stay for as long as they are used. None: as before.
    pub held: Option<bool>,
    /// What to do. One thing a pass.
    pub effect: Option<Effect>,
    /// The conditions.
    pub conditions: Vec<Wanted>,
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
    pub patience_for: Option<Reason>,
    /// When to look again.
    pub again: Duration,
    /// What is looked for then, more and more rarely the longer it does not come; None: nothing in particular.
    pub looks_for: Option<Reason>,
    /// A complete listing that begins at or after this moment is wanted: to see where URL and key lead, or since
    /// somebody asks for a look.
    pub wants_proof: Option<Duration>,
    /// The request for a look that is acknowledged; None: as before.
    pub handled: Option<String>,
}

/// Something to do in Kubernetes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Put the finalizer on the account, with the name of the Secret that will bear it too.
    HoldAccount,
    /// Put the finalizer on the Secret.
    HoldSecret,
    /// Take the finalizer off a Secret.
    LetSecretGo {
        /// Its name.
        name: String,
    },
    /// Take the finalizer off the account's Secret while that is of another type, whoever stands on it. One that was
    /// made in its place meanwhile may be held for others.
    ClearSecret,
    /// The account names another Secret now: let the former one go (if it may), note the new one.
    MoveHold {
        /// The former Secret, unless others need it.
        from: Option<String>,
    },
    /// Take the finalizer off the account.
    LetAccountGo,
}

/// Decides.
pub fn decide(facts: &Facts) -> Decision {
    let identity = identity(facts);
    let (trouble, patience_for) = judged(facts, trouble::trouble(facts, identity));
    let stopped = suspended(&facts.key, &facts.spec);
    let block = stopped
        .map(|why| (Reason::Suspended, why))
        .or_else(|| trouble::blocks(facts, trouble.as_ref()?, identity));
    let no_orders = trouble::no_orders(facts, trouble.as_ref(), identity);
    // What is seen through a wrong key or URL says nothing of this account.
    let own = facts.report.as_ref().filter(|_| identity == Identity::Same);
    let accepted = matches!(&facts.report, Some(r) if r.key == KeyState::Accepted);
    let begins = accepted && identity == Identity::New;
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
        let proof = facts.report.as_ref().and_then(|r| r.proof.as_ref());
        proof.map_or(Duration::ZERO, |proof| proof.began + spacing)
    });
    let (asked, handled) = ask::answer(facts);
    Decision {
        looks_for: looks_for(facts, trouble.as_ref(), block.is_some()),
        block,
        no_orders,
        held,
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
            Identity::New if accepted => Some(facts.fresh_word.clone()),
            Identity::Recovered if accepted => recovered(facts),
            _ => None,
        },
        account_id_in_force: own.and(facts.status.account_id.clone()),
        known,
        patience_for,
        again: again(facts, trouble.as_ref()),
        wants_proof: [sought, asked].into_iter().flatten().min(),
        handled,
    }
}

/// Whether the conditions of an account stand that was ready over this very connection: a process that has just begun to act
/// has not seen the account yet, and that alone is no news.
fn is_as_shown(facts: &Facts, trouble: Option<&Cause>, identity: Identity) -> bool {
    let (status, report) = (&facts.status, facts.report.as_ref());
    let is_unseen = report.is_none_or(|report| report.proof.is_none());
    facts.now < facts.acting_since + UNSEEN
        && is_unseen
        && (trouble.is_none() || trouble::is_untried_alone(facts, identity))
        && !is_ending(facts)
        && status.observed_generation == facts.meta.generation
        && status.verified.is_some()
        && status.verified == facts.in_force
        && is_true(&status.conditions, Type::Ready)
}

/// The account ID that the objects know of.
fn recovered(facts: &Facts) -> Option<String> {
    let proof = facts.report.as_ref()?.proof.as_deref()?;
    lineage::recovered(facts.on_record.as_ref()?, proof)
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
fn judged(facts: &Facts, trouble: Option<Cause>) -> (Option<Cause>, Option<Reason>) {
    let Some(trouble) = trouble else {
        return (None, None);
    };
    let patience_for = (trouble.standing == Standing::Missing).then_some(trouble.reason);
    // An absent Secret is looked for more often than patience lasts: nobody has to look for its end.
    let (trouble, _) = trouble.judged(&facts.patience, facts.now, &facts.status.conditions);
    (Some(trouble), patience_for)
}

fn again(facts: &Facts, trouble: Option<&Cause>) -> Duration {
    let again = match trouble {
        _ if is_ending(facts) => ENDING,
        Some(t) if repair_is_awaited(t.reason) => SECRET_AWAITED,
        _ => SECRET_AT_REST,
    };
    candidate::again(facts).map_or(again, |soon| again.min(soon))
}

/// Whoever ends is told when the last user is gone, and a repair of the Secret need not come at all: neither may cost
/// a read every second for as long as it pleases somebody. Also not of an account that still works by its last good key.
fn looks_for(facts: &Facts, trouble: Option<&Cause>, is_blocked: bool) -> Option<Reason> {
    if is_ending(facts) {
        return Some(Reason::InUse);
    }
    let reason = trouble?.reason;
    (is_blocked || repair_is_awaited(reason)).then_some(reason)
}

/// Whether account or Secret is being deleted.
fn is_ending(facts: &Facts) -> bool {
    facts.deleting() || matches!(facts.secret, SecretFact::Found { deleting: true, .. })
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
