//! What is wrong with an account, and what that stops.

use super::{
    super::facts::{AccountFacts, BundleFact, KeyFault, SecretFact},
    LONGEST_WRITE_PAUSE,
    account_identity::{self, AccountIdentity},
};
use crate::{
    account::{
        key_state::{KeyState, LONGEST_PROBE_PAUSE},
        recheck_interval::LONGEST_RECHECK,
    },
    explanation::Explanation,
    last_error::PERSISTS,
    wording::first_named,
};
use api::{
    Interval, Reason,
    names::{ACCOUNT_FINALIZER, API_KEY_ENTRY, API_KEY_SECRET, BASE_URL_ENTRY},
};

/// A key of which nothing is known yet.
pub(super) const UNTRIED: &str =
    "The key is not tried yet; continues as soon as the first call is answered";

/// The first thing that is wrong, in the order in which a person would repair it.
pub(super) fn find_problem(facts: &AccountFacts, identity: AccountIdentity) -> Option<Explanation> {
    let waits = |reason, message: String| Some(Explanation::waits(reason, message));
    let fault = fault(facts, identity);
    if fault.is_some() {
        return fault;
    }
    if is_key_untried(facts, identity) {
        return waits(Reason::Pending, UNTRIED.into());
    }
    let report = facts.report.as_ref()?;
    if identity == AccountIdentity::Unchecked {
        let error = report.error.clone();
        let text = || {
            format!(
                "Checking whether the new base URL or key is of the same account; checked every {}",
                Interval(facts.times().absence_check_interval)
            )
        };
        let (reason, message) = error.unwrap_or_else(|| (Reason::Pending, text()));
        return waits(reason, with_hint(facts, reason, &message));
    }
    match &report.error {
        Some((reason, message)) => waits(*reason, with_hint(facts, *reason, message)),
        None => failing(facts),
    }
}

/// Whether nothing is wrong but that the key was not tried yet.
pub(super) fn is_untried_alone(facts: &AccountFacts, identity: AccountIdentity) -> bool {
    fault(facts, identity).is_none() && is_key_untried(facts, identity)
}

fn is_key_untried(facts: &AccountFacts, identity: AccountIdentity) -> bool {
    facts.report.as_ref().is_none_or(|report| {
        let is_untried = report.error.is_none() && report.key == KeyState::Untried;
        is_untried && identity != AccountIdentity::Unchecked
    })
}

/// What is wrong with what the account is made of: URL, certificates, Secret and key.
fn fault(facts: &AccountFacts, identity: AccountIdentity) -> Option<Explanation> {
    if facts.endpoint.is_err() {
        return find_key_problem(facts, identity);
    }
    let bundle = unusable_bundle(facts);
    if bundle.is_some() {
        return bundle;
    }
    if let SecretFact::Unread(why) = &facts.secret {
        let text = format!(
            "Cannot read {}; {why}; retrying within {}",
            facts.secret_name(),
            Interval(LONGEST_RECHECK)
        );
        return Some(Explanation::waits(Reason::Pending, text));
    }
    find_key_problem(facts, identity)
}

/// What the account's reads came to, with the field to check where they never came to anything with this base URL.
fn with_hint(facts: &AccountFacts, reason: Reason, message: &str) -> String {
    let before = facts.status.verified.as_ref();
    let is_known = before.is_some_and(|before| {
        (facts.in_force.as_ref()).is_none_or(|now| now.base_url == before.base_url)
    });
    let is_unanswered = reason == Reason::ProviderUnreachable;
    match is_unanswered && !is_known && !message.contains("baseURL") {
        true => format!("{message}; check baseURL"),
        false => message.to_owned(),
    }
}

/// What is wrong with the key, its Secret or the URL in it, whatever else is: the condition KeyAccepted is of that alone.
pub(super) fn find_key_problem(
    facts: &AccountFacts,
    identity: AccountIdentity,
) -> Option<Explanation> {
    let needs_person = |reason, message: String| Some(Explanation::stalled(reason, message));
    let awaits = |reason, message: String| Some(Explanation::missing(reason, message));
    if let Err(message) = &facts.endpoint {
        return needs_person(Reason::InvalidEndpoint, message.clone());
    }
    let entry = API_KEY_ENTRY;
    let again = format!("checked within {}", Interval(LONGEST_RECHECK));
    match &facts.secret {
        SecretFact::Unread(_) => return None,
        SecretFact::Missing => {
            let text = format!(
                "{} does not exist. Correct spec.apiKeySecretRef, or create it with type {API_KEY_SECRET}, the API key in {entry:?} and the base URL in {BASE_URL_ENTRY:?}; {again}",
                facts.secret_name(),
            );
            return awaits(Reason::ReferenceNotFound, text);
        }
        // The key in use goes on, and the condition of its candidate says it.
        SecretFact::Found { .. } if facts.keys.candidate.is_some() => {}
        SecretFact::Found {
            key: Err(KeyFault::OtherType),
            ..
        } => {
            let text = format!(
                "{} is not of type {API_KEY_SECRET}, so it is not used. Correct spec.apiKeySecretRef, or create it again (its type cannot be changed); {again}",
                facts.secret_name(),
            );
            return needs_person(Reason::InvalidKey, text);
        }
        SecretFact::Found {
            key: Err(KeyFault::Absent),
            ..
        } => {
            let text = format!(
                "{} has no key {entry:?}. Correct spec.apiKeySecretRef, or add it with the API key; {again}",
                facts.secret_name(),
            );
            return awaits(Reason::ReferenceNotFound, text);
        }
        SecretFact::Found {
            key: Err(KeyFault::Invalid(why)),
            ..
        } => {
            let text = format!(
                "Key {entry:?} of {} is not usable; {why}. Put a valid API key there; {again}",
                facts.secret_name(),
            );
            return needs_person(Reason::InvalidKey, text);
        }
        SecretFact::Found { key: Ok(_), .. } => {}
    }
    let report = facts.report.as_ref()?;
    // A refused key says more than what was not seen with it.
    if let KeyState::Rejected(refusal) = &report.key {
        let which = match facts.keys.candidate.is_some() {
            true => "the key in use, no longer in",
            false => "the API key in",
        };
        let text = format!(
            "The hosting API rejects {which} {}; {refusal}. Put a valid API key into {entry:?} there ({again}); the rejected key is retried at growing intervals of at most {}",
            facts.secret_name(),
            Interval(LONGEST_PROBE_PAUSE),
        );
        return needs_person(Reason::KeyRejected, text);
    }
    let is_changed = identity == AccountIdentity::Changed;
    is_changed.then(|| Explanation::stalled(Reason::AccountChanged, changed(facts, identity)))
}

/// What is wrong with the CA bundle that the spec refers to.
fn unusable_bundle(facts: &AccountFacts) -> Option<Explanation> {
    let (object, key) = facts.bundle_name()?;
    let missing = |text| Some(Explanation::missing(Reason::ReferenceNotFound, text));
    let goes_on = match facts.connected {
        true => "; until then the former certificates stay in use, and nothing is ordered",
        false => "",
    };
    let again = format!("(checked within {})", Interval(LONGEST_RECHECK));
    match &facts.bundle {
        BundleFact::Known => None,
        BundleFact::Unread(why) => Some(Explanation::waits(
            Reason::Pending,
            format!(
                "Cannot read {object}; {why}; retrying within {}",
                Interval(LONGEST_RECHECK)
            ),
        )),
        BundleFact::NoObject => missing(format!(
            "{object} does not exist. Create it with PEM certificates in key {key:?}, correct spec.caBundleRef, or set spec.caBundle {again}{goes_on}"
        )),
        BundleFact::NoKey => missing(format!(
            "{object} has no key {key:?}. Add it with PEM certificates, or correct spec.caBundleRef.key {again}{goes_on}"
        )),
        BundleFact::Unusable(why) => missing(format!(
            "Cannot use {object} of spec.caBundleRef; {why} {again}{goes_on}"
        )),
    }
}

/// A write of a finalizer keeps failing.
fn failing(facts: &AccountFacts) -> Option<Explanation> {
    let (failures, why) = facts.failed.as_ref()?;
    (*failures >= PERSISTS).then(|| {
        let text = format!(
            "Cannot write the metadata of {} or {}; finalizer {ACCOUNT_FINALIZER} or annotations: {why}; retrying at growing intervals of at most {}",
            facts.key,
            facts.secret_name(),
            Interval(LONGEST_WRITE_PAUSE)
        );
        Explanation::waits(Reason::Pending, text)
    })
}

fn changed(facts: &AccountFacts, identity: AccountIdentity) -> String {
    let before = facts.status.verified.as_ref();
    let or = account_identity::changed(facts, identity).map(|asked| {
        format!(
            ", or, to give those servers up, {}",
            facts.acknowledgements().remedy(&asked)
        )
    });
    let shown = account_identity::to_be_shown(facts);
    if facts.status.account_id.is_none() && shown.is_empty() {
        return format!(
            "The status of the account was lost, and it shows no server of the open orders. Restore the base URL and the key of that time{}",
            or.unwrap_or_default()
        );
    }
    format!(
        "The new key or URL belongs to another account; it shows none of the recorded servers ({}). Restore base URL {} and key hash {}{}",
        first_named(shown.iter().map(String::as_str)),
        before.map_or("unknown", |e| &e.base_url),
        before.map_or("unknown", |e| &e.credentials_hash),
        or.unwrap_or_default(),
    )
}

/// Whether the trouble stops every change. A last good key goes on releasing; an account that cannot
/// be reached is for the caller to find out.
pub(super) fn blocks(
    facts: &AccountFacts,
    trouble: &Explanation,
    identity: AccountIdentity,
) -> Option<(Reason, String)> {
    let blocks = match trouble.reason {
        Reason::InvalidEndpoint | Reason::AccountChanged => true,
        Reason::ReferenceNotFound | Reason::InvalidKey | Reason::Pending => {
            !facts.connected || !identity.is_settled()
        }
        Reason::ProviderUnreachable | Reason::RateLimited => !identity.is_settled(),
        // The breaker says it itself.
        _ => false,
    };
    blocks.then(|| (trouble.reason, trouble.message.clone()))
}

/// Why nothing may be ordered through the account.
pub(super) fn no_orders(
    facts: &AccountFacts,
    trouble: Option<&Explanation>,
    identity: AccountIdentity,
) -> Option<(Reason, String)> {
    if facts.is_deleting() {
        let text = format!(
            "{} is being deleted, so nothing is ordered through it",
            facts.key
        );
        return Some((Reason::AccountNotReady, text));
    }
    if let SecretFact::Found { deleting: true, .. } = facts.secret {
        let text = format!(
            "{} is being deleted, so nothing is ordered with it",
            facts.secret_name()
        );
        return Some((Reason::ReferenceNotFound, text));
    }
    if let Some(t) = trouble
        && matches!(t.reason, Reason::ReferenceNotFound | Reason::InvalidKey)
    {
        return Some((t.reason, t.message.clone()));
    }
    // An order names the lineage, which must be on record before.
    matches!(identity, AccountIdentity::New | AccountIdentity::Recovered).then(|| {
        let text = format!(
            "The account ID of {} is being recorded; orders follow when it is",
            facts.key
        );
        (Reason::Pending, text)
    })
}
