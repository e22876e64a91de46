//! What to say of an account, and what to do about it. Pure.

use super::facts::{Facts, KeyFault, SecretFact};
use crate::{
    account::{Contact, Identity, Standing, identity, orphans::Verdict},
    kinds::{
        Reason,
        account::{Endpoint, KnownMachine, Orphan, ServerCounts},
        conditions::{Type, Wanted},
        names::ACCOUNT_FINALIZER,
    },
};
use std::time::Duration;

/// Time between two reads of the Secret while all is well.
const SECRET_AT_REST: Duration = Duration::from_secs(15);
/// The same while a person is expected to repair it.
const SECRET_AWAITED: Duration = Duration::from_secs(2);
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
    /// The first orphans; None: as before.
    pub orphans: Option<Vec<Orphan>>,
    /// Where the account is; None: as before.
    pub endpoint: Option<Endpoint>,
    /// The machines that it is known by.
    pub known: Vec<KnownMachine>,
    /// When to look again.
    pub again: Duration,
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
    /// The account names another Secret now: let the former one go (if it may), note the new one.
    MoveHold {
        /// The former Secret, unless others need it.
        from: Option<String>,
    },
    /// Take the finalizer off the account.
    LetAccountGo,
}

/// Why the account does not work.
struct Trouble {
    reason: Reason,
    message: String,
    /// Whether a person is needed.
    stalled: bool,
}

/// Decides.
pub fn decide(facts: &Facts) -> Decision {
    let identity = known_identity(facts);
    let trouble = trouble(facts, identity);
    let block = trouble.as_ref().and_then(|t| blocks(facts, t));
    let no_orders = no_orders(facts, trouble.as_ref());
    // What is seen through a wrong key or URL says nothing of this account.
    let own = facts
        .standing
        .as_ref()
        .filter(|_| identity == Identity::Same);
    let known = match own {
        Some(standing) => standing.known.clone(),
        None => facts.status.known_machines.clone(),
    };
    let accepted = matches!(&facts.standing, Some(s) if s.contact == Contact::Accepted);
    let endpoint = (accepted && identity == Identity::Same)
        .then(|| facts.present_endpoint())
        .flatten();
    let (effect, held) = holding(facts);
    Decision {
        block,
        no_orders,
        held,
        effect,
        conditions: conditions(facts, trouble.as_ref(), accepted, own),
        servers: own.and_then(|s| counts(facts, s)),
        orphans: own.and_then(|s| match &s.verdict {
            Verdict::Found { first, .. } => Some(first.clone()),
            Verdict::NotChecked => None,
        }),
        endpoint,
        known,
        again: again(facts, trouble.as_ref()),
    }
}

fn known_identity(facts: &Facts) -> Identity {
    let Some(present) = facts.present_endpoint() else {
        return Identity::Same;
    };
    let proof = facts.standing.as_ref().and_then(|s| s.proof.as_deref());
    identity(
        facts.status.endpoint.as_ref(),
        &present,
        &facts.status.known_machines,
        proof,
    )
}

/// The first thing that is wrong, in the order in which a person would repair it.
fn trouble(facts: &Facts, identity: Identity) -> Option<Trouble> {
    let needs_person = |reason, message: String| {
        Some(Trouble {
            reason,
            message,
            stalled: true,
        })
    };
    let waits = |reason, message: String| {
        Some(Trouble {
            reason,
            message,
            stalled: false,
        })
    };
    if let Err(message) = &facts.endpoint {
        return needs_person(Reason::InvalidEndpoint, format!("spec.{message}"));
    }
    let entry = &facts.spec.api_key_secret_ref.key;
    match &facts.secret {
        SecretFact::Unread(why) => {
            let text = format!("{} could not be read: {why}", facts.secret_name());
            return waits(Reason::Pending, text);
        }
        SecretFact::Missing => {
            let text = format!(
                "{} does not exist: create it with the API key in {entry:?}, or correct spec.apiKeySecretRef",
                facts.secret_name()
            );
            return needs_person(Reason::SecretNotFound, text);
        }
        SecretFact::Found {
            key: Err(KeyFault::Absent),
            ..
        } => {
            let text = format!(
                "{} has no entry {entry:?}: add it, or correct spec.apiKeySecretRef.key",
                facts.secret_name()
            );
            return needs_person(Reason::SecretNotFound, text);
        }
        SecretFact::Found {
            key: Err(KeyFault::Invalid(why)),
            ..
        } => {
            let text = format!("entry {entry:?} of {}: {why}", facts.secret_name());
            return needs_person(Reason::InvalidKey, text);
        }
        SecretFact::Found { key: Ok(_), .. } => {}
    }
    let Some(standing) = &facts.standing else {
        return waits(Reason::Pending, "the key was not tried yet".into());
    };
    // A refused key says more than what was not seen with it.
    if let Contact::Rejected(refusal) = &standing.contact {
        let text = format!(
            "the hosting API rejects the key in {} ({refusal}): put a valid key into entry {entry:?}",
            facts.secret_name()
        );
        return needs_person(Reason::KeyRejected, text);
    }
    match identity {
        Identity::Same => {}
        Identity::Changed => return needs_person(Reason::AccountChanged, changed(facts)),
        Identity::Unchecked => {
            let error = standing.error.clone();
            let text = "checking whether the new base URL or key leads to the same account";
            let (reason, message) = error.unwrap_or((Reason::Pending, text.into()));
            return waits(reason, message);
        }
    }
    match (&standing.error, &standing.contact) {
        (Some((reason, message)), _) => waits(*reason, message.clone()),
        (None, Contact::Untried) => waits(Reason::Pending, "the key was not tried yet".into()),
        (None, _) => None,
    }
}

fn changed(facts: &Facts) -> String {
    let known = facts.status.known_machines.iter();
    let known: Vec<_> = known.map(|k| k.uuid.as_str()).collect();
    let before = facts.status.endpoint.as_ref();
    let place = match &facts.key.namespace {
        Some(namespace) => format!(" -n {namespace}"),
        None => String::new(),
    };
    format!(
        "base URL and key lead to an account that shows none of the machines that this one is known by ({}). Either put back the former ones (base URL {}, key hash {}), or, if those machines are given up, clear what it is known by: kubectl patch {} {}{place} --subresource=status --type=merge -p '{{\"status\":{{\"knownMachines\":null}}}}'",
        known.join(", "),
        before.map_or("unknown", |e| &e.base_url),
        before.map_or("unknown", |e| &e.key_hash),
        facts.key.kind.as_str().to_lowercase(),
        facts.key.name,
    )
}

/// Whether the trouble stops every change. A last good key goes on releasing; an account that cannot
/// be reached is for the caller to find out.
fn blocks(facts: &Facts, trouble: &Trouble) -> Option<(Reason, String)> {
    let blocks = match trouble.reason {
        Reason::InvalidEndpoint | Reason::AccountChanged => true,
        Reason::SecretNotFound | Reason::InvalidKey => !facts.connected,
        Reason::Pending => !facts.connected || known_identity(facts) != Identity::Same,
        Reason::ProviderUnreachable | Reason::RateLimited => {
            known_identity(facts) != Identity::Same
        }
        // The breaker says it itself.
        _ => false,
    };
    blocks.then(|| (trouble.reason, trouble.message.clone()))
}

fn no_orders(facts: &Facts, trouble: Option<&Trouble>) -> Option<(Reason, String)> {
    if facts.deleting() {
        let text = format!("{} is being deleted", facts.key);
        return Some((Reason::AccountNotReady, text));
    }
    if let SecretFact::Found { deleting: true, .. } = facts.secret {
        let text = format!("{} is being deleted", facts.secret_name());
        return Some((Reason::SecretNotFound, text));
    }
    trouble
        .filter(|t| matches!(t.reason, Reason::SecretNotFound | Reason::InvalidKey))
        .map(|t| (t.reason, t.message.clone()))
}

/// The finalizers: on the account first, which remembers the Secret, then on the Secret; off in the
/// other order. So there is never one on a Secret that nobody remembers.
fn holding(facts: &Facts) -> (Option<Effect>, Option<bool>) {
    let Some(users) = facts.users else {
        return (None, None);
    };
    let name = &facts.spec.api_key_secret_ref.name;
    let (secret_held, secret_deleting) = match facts.secret {
        SecretFact::Found {
            has_finalizer,
            deleting,
            ..
        } => (has_finalizer, deleting),
        _ => (false, false),
    };
    if users > 0 {
        let effect = match (facts.has_finalizer(), facts.held_secret()) {
            // Nothing can be put on an object that is being deleted.
            (false, _) => (!facts.deleting()).then_some(Effect::HoldAccount),
            (true, held) if held != Some(name) => Some(Effect::MoveHold {
                from: held.filter(|_| !facts.secret_is_shared).map(str::to_owned),
            }),
            (true, _) => {
                let can = matches!(facts.secret, SecretFact::Found { .. });
                (can && !secret_held && !secret_deleting).then_some(Effect::HoldSecret)
            }
        };
        let held = facts.has_finalizer() && facts.held_secret() == Some(name) && secret_held;
        return (effect, Some(held));
    }
    let effect = match facts.held_secret() {
        _ if !facts.has_finalizer() => None,
        Some(held) if held != name => Some(Effect::MoveHold {
            from: (!facts.secret_is_shared).then(|| held.to_owned()),
        }),
        Some(_) if secret_held && !facts.secret_is_shared => {
            Some(Effect::LetSecretGo { name: name.clone() })
        }
        // Whether it bears the finalizer is not known: do not forget it.
        Some(_) if matches!(facts.secret, SecretFact::Unread(_)) => None,
        _ => Some(Effect::LetAccountGo),
    };
    (effect, Some(false))
}

fn conditions(
    facts: &Facts,
    trouble: Option<&Trouble>,
    accepted: bool,
    own: Option<&Standing>,
) -> Vec<Wanted> {
    let deleting =
        facts.deleting() || matches!(facts.secret, SecretFact::Found { deleting: true, .. });
    let users = facts.users.unwrap_or_default();
    let (ready, busy, stalled) = match trouble {
        Some(t) => (
            Wanted::new(Type::Ready, false, t.reason, t.message.clone()),
            (!t.stalled).then(|| (t.reason, t.message.clone())),
            t.stalled.then(|| (t.reason, t.message.clone())),
        ),
        None if deleting => {
            let text = format!(
                "the account or its Secret is being deleted; {users} servers still use it, and {ACCOUNT_FINALIZER} keeps it for them"
            );
            (
                Wanted::new(Type::Ready, false, Reason::InUse, text.clone()),
                Some((Reason::InUse, text)),
                None,
            )
        }
        None => (
            Wanted::new(Type::Ready, true, Reason::AccountReady, "the account works"),
            None,
            None,
        ),
    };
    let flag = |kind, state: Option<(Reason, String)>, rest: &str| match state {
        Some((reason, message)) => Wanted::new(kind, true, reason, message),
        None => Wanted::new(kind, false, Reason::Settled, rest),
    };
    vec![
        ready,
        flag(Type::Reconciling, busy, "nothing is under way"),
        flag(Type::Stalled, stalled, "nobody is needed"),
        key_accepted(trouble, accepted),
        orphans_found(own),
    ]
}

fn key_accepted(trouble: Option<&Trouble>, accepted: bool) -> Wanted {
    let about_key = trouble.filter(|t| {
        matches!(
            t.reason,
            Reason::KeyRejected
                | Reason::AccountChanged
                | Reason::InvalidKey
                | Reason::SecretNotFound
                | Reason::InvalidEndpoint
        )
    });
    match about_key {
        Some(t) => Wanted::new(Type::KeyAccepted, false, t.reason, t.message.clone()),
        None if accepted => Wanted::new(
            Type::KeyAccepted,
            true,
            Reason::KeyAccepted,
            "the hosting API accepts the key",
        ),
        None => Wanted {
            kind: Type::KeyAccepted,
            status: None,
            reason: Reason::Pending,
            message: "the key was not tried yet".into(),
        },
    }
}

fn orphans_found(own: Option<&Standing>) -> Wanted {
    match own.map(|s| &s.verdict) {
        None | Some(Verdict::NotChecked) => Wanted {
            kind: Type::OrphansFound,
            status: None,
            reason: Reason::NotChecked,
            message: "not judged: no complete listing was compared yet, or not all namespaces are watched".into(),
        },
        Some(Verdict::Found { count: 0, .. }) => Wanted::new(
            Type::OrphansFound,
            false,
            Reason::NoOrphans,
            "every live machine of this cluster has an object",
        ),
        Some(Verdict::Found { count, .. }) => Wanted::new(
            Type::OrphansFound,
            true,
            Reason::OrphansFound,
            format!(
                "{count} live machines bear this cluster's mark and no object claims them, so they cost unseen; status.orphans names the first: release them at the provider, or tag them fmo-retained to keep them"
            ),
        ),
    }
}

fn counts(facts: &Facts, standing: &Standing) -> Option<ServerCounts> {
    let int = |n: usize| i32::try_from(n).unwrap_or(i32::MAX);
    Some(ServerCounts {
        objects: int(facts.users?),
        live: int(standing.counts.live),
        retained: int(standing.counts.retained),
        orphans: match &standing.verdict {
            Verdict::Found { count, .. } => int(*count),
            Verdict::NotChecked => facts.status.servers.as_ref().map_or(0, |s| s.orphans),
        },
    })
}

fn again(facts: &Facts, trouble: Option<&Trouble>) -> Duration {
    let ending =
        facts.deleting() || matches!(facts.secret, SecretFact::Found { deleting: true, .. });
    match trouble {
        _ if ending => ENDING,
        Some(t) if secret_is_awaited(t.reason) => SECRET_AWAITED,
        _ => SECRET_AT_REST,
    }
}

/// Whether a change of the Secret would help.
fn secret_is_awaited(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::SecretNotFound
            | Reason::InvalidKey
            | Reason::KeyRejected
            | Reason::AccountChanged
            | Reason::Pending
    )
}
