//! What is wrong with an account, and what that stops.

use super::{
    super::facts::{AccountFacts, BundleFact, KeyFault, SecretFact},
    LONGEST_WRITE_PAUSE,
    account_identity::{self, AccountIdentity},
    suspended,
};
use crate::{
    account::{
        key::AccountKey,
        key_state::{KeyState, LONGEST_PROBE_PAUSE},
        recheck_interval::LONGEST_RECHECK,
        view::AccountState,
    },
    explanation::Explanation,
    last_error::REPORTED_AFTER_FAILURES,
    wording::first_named,
};
use api::{
    Interval, Reason,
    account::{AccountSpec, AccountStatus},
    conditions::{Type, find_condition},
    names::{ACCOUNT_FINALIZER, API_KEY_DATA_KEY, API_KEY_SECRET, BASE_URL_DATA_KEY},
};

/// The message for a key that is not tried yet.
pub(super) const UNTRIED: &str =
    "The key is not tried yet; continues as soon as the first call is answered";

/// The first problem, in the order in which a user would repair them.
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

/// Whether the only problem is that the key is not tried yet.
pub(super) fn is_untried_alone(facts: &AccountFacts, identity: AccountIdentity) -> bool {
    fault(facts, identity).is_none() && is_key_untried(facts, identity)
}

fn is_key_untried(facts: &AccountFacts, identity: AccountIdentity) -> bool {
    facts.report.as_ref().is_none_or(|report| {
        let is_untried = report.error.is_none() && report.key == KeyState::Untried;
        is_untried && identity != AccountIdentity::Unchecked
    })
}

/// What is wrong with the parts of an account: URL, certificates, Secret and key.
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

/// The error of the account's reads. Names the field to check if no read with this base URL ever succeeded.
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

/// What is wrong with the key, its Secret or the URL in it; the condition `KeyAccepted` covers only these.
pub(super) fn find_key_problem(
    facts: &AccountFacts,
    identity: AccountIdentity,
) -> Option<Explanation> {
    let stalled = |reason, message: String| Some(Explanation::stalled(reason, message));
    let missing = |reason, message: String| Some(Explanation::missing(reason, message));
    if let Err(message) = &facts.endpoint {
        return stalled(Reason::InvalidEndpoint, message.clone());
    }
    let entry = API_KEY_DATA_KEY;
    let again = format!("checked within {}", Interval(LONGEST_RECHECK));
    match &facts.secret {
        SecretFact::Unread(_) => return None,
        SecretFact::Missing => {
            let text = format!(
                "{} does not exist. Correct spec.apiKeySecretRef, or create it with type {API_KEY_SECRET}, the API key in {entry:?} and the base URL in {BASE_URL_DATA_KEY:?}; {again}",
                facts.secret_name(),
            );
            return missing(Reason::ReferenceNotFound, text);
        }
        // The key in use still works, and `CandidateAccepted` reports the candidate.
        SecretFact::Found { .. } if facts.keys.candidate.is_some() => {}
        SecretFact::Found {
            key: Err(KeyFault::OtherType),
            ..
        } => {
            let text = format!(
                "{} is not of type {API_KEY_SECRET}, so it is not used. Correct spec.apiKeySecretRef, or create it again (its type cannot be changed); {again}",
                facts.secret_name(),
            );
            return stalled(Reason::InvalidKey, text);
        }
        SecretFact::Found {
            key: Err(KeyFault::Absent),
            ..
        } => {
            let text = format!(
                "{} has no key {entry:?}. Correct spec.apiKeySecretRef, or add it with the API key; {again}",
                facts.secret_name(),
            );
            return missing(Reason::ReferenceNotFound, text);
        }
        SecretFact::Found {
            key: Err(KeyFault::Invalid(why)),
            ..
        } => {
            let text = format!(
                "Key {entry:?} of {} is not usable; {why}. Put a valid API key there; {again}",
                facts.secret_name(),
            );
            return stalled(Reason::InvalidKey, text);
        }
        SecretFact::Found { key: Ok(_), .. } => {}
    }
    let report = facts.report.as_ref()?;
    // A refused key comes first: it explains why the account shows nothing.
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
        return stalled(Reason::KeyRejected, text);
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

/// Reports that metadata writes keep failing.
fn failing(facts: &AccountFacts) -> Option<Explanation> {
    let (failures, why) = facts.failed.as_ref()?;
    (*failures >= REPORTED_AFTER_FAILURES).then(|| {
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

/// Whether the problem stops every change. With the last good key releases go on, and a caller notices by itself that
/// the account is unreachable.
pub(super) fn blocks(
    facts: &AccountFacts,
    explanation: &Explanation,
    identity: AccountIdentity,
) -> Option<(Reason, String)> {
    let blocks = stops_changes(explanation.reason, facts.connected, identity.is_settled());
    blocks.then(|| (explanation.reason, explanation.message.clone()))
}

fn stops_changes(reason: Reason, is_connected: bool, is_settled: bool) -> bool {
    match reason {
        Reason::InvalidEndpoint | Reason::AccountChanged => true,
        Reason::ReferenceNotFound | Reason::InvalidKey | Reason::Pending => {
            !is_connected || !is_settled
        }
        Reason::ProviderUnreachable | Reason::RateLimited => !is_settled,
        // The breaker stops the calls itself.
        _ => false,
    }
}

/// Whether a problem that does not stop every change stops orders.
fn stops_orders(reason: Reason) -> bool {
    matches!(reason, Reason::ReferenceNotFound | Reason::InvalidKey)
}

fn deleting(key: &AccountKey) -> (Reason, String) {
    let text = format!("{key} is being deleted, so nothing is ordered through it");
    (Reason::AccountNotReady, text)
}

/// What the operator reported as wrong with an account: what stops everything, and what stops orders. For a reader that
/// calls the provider itself.
pub fn find_reported_problem(
    key: &AccountKey,
    spec: &AccountSpec,
    status: &AccountStatus,
    is_deleting: bool,
) -> (AccountState, Option<(Reason, String)>) {
    if let Some(why) = suspended(key, spec) {
        return (AccountState::Blocked(Reason::Suspended, why), None);
    }
    let ready = find_condition(&status.conditions, Type::Ready).filter(|it| it.status != "True");
    let problem = ready.and_then(|it| Some((Reason::parse(&it.reason)?, it.message.clone())));
    // Such a reader notices by itself that the provider is unreachable; but not a breaker.
    let has_worked = status.verified.is_some();
    let stops = |reason| match reason {
        Reason::KeyRejected => true,
        Reason::Pending | Reason::ProviderUnreachable | Reason::RateLimited => false,
        reason => stops_changes(reason, has_worked, has_worked),
    };
    match problem {
        Some((reason, why)) if stops(reason) => (AccountState::Blocked(reason, why), None),
        _ if is_deleting => (AccountState::Usable, Some(deleting(key))),
        problem => (
            AccountState::Usable,
            problem.filter(|(reason, _)| stops_orders(*reason)),
        ),
    }
}

/// Why nothing may be ordered through the account.
pub(super) fn no_orders(
    facts: &AccountFacts,
    explanation: Option<&Explanation>,
    identity: AccountIdentity,
) -> Option<(Reason, String)> {
    if facts.is_deleting() {
        return Some(deleting(&facts.key));
    }
    if let SecretFact::Found { deleting: true, .. } = facts.secret {
        let text = format!(
            "{} is being deleted, so nothing is ordered with it",
            facts.secret_name()
        );
        return Some((Reason::ReferenceNotFound, text));
    }
    if let Some(t) = explanation
        && stops_orders(t.reason)
    {
        return Some((t.reason, t.message.clone()));
    }
    // An order names the account ID, which must be recorded first.
    matches!(identity, AccountIdentity::New | AccountIdentity::Recovered).then(|| {
        let text = format!(
            "The account ID of {} is being recorded; orders follow when it is",
            facts.key
        );
        (Reason::Pending, text)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::references::AccountKind;
    use serde_json::{Value, json};

    fn find(spec: Value, status: Value, is_deleting: bool) -> (Option<Reason>, Option<Reason>) {
        let mut spec = spec;
        spec["apiKeySecretRef"] = json!({"name": "key"});
        let key = AccountKey::named(AccountKind::ProviderAccount, Some("a"), "default");
        let spec = serde_json::from_value(spec).unwrap();
        let status = serde_json::from_value(status).unwrap();
        let (state, no_orders) = find_reported_problem(&key, &spec, &status, is_deleting);
        let blocked = match state {
            AccountState::Blocked(reason, _) => Some(reason),
            AccountState::Usable => None,
        };
        (blocked, no_orders.map(|(reason, _)| reason))
    }

    fn not_ready(reason: &str, is_verified: bool) -> Value {
        let mut status = json!({"conditions": [{"type": "Ready", "status": "False",
            "reason": reason, "message": "why", "lastTransitionTime": "2026-01-01T00:00:00Z"}]});
        if is_verified {
            status["verified"] = json!({"baseURL": "https://a.example", "credentialsHash": "c"});
        }
        status
    }

    #[test]
    fn reported_problems_block_as_in_the_operator() {
        let reported = |reason, is_verified| find(json!({}), not_ready(reason, is_verified), false);
        let stopped = |reason| (Some(reason), None);
        assert_eq!(find(json!({}), json!({}), false), (None, None));
        let suspended = find(json!({"suspend": true}), json!({}), false);
        assert_eq!(suspended, stopped(Reason::Suspended));
        let deleting = find(json!({}), json!({}), true);
        assert_eq!(deleting, (None, Some(Reason::AccountNotReady)));
        let rejected = reported("KeyRejected", true);
        assert_eq!(rejected, stopped(Reason::KeyRejected));
        let missing = reported("ReferenceNotFound", false);
        assert_eq!(missing, stopped(Reason::ReferenceNotFound));
        let missing = reported("ReferenceNotFound", true);
        assert_eq!(missing, (None, Some(Reason::ReferenceNotFound)));
        assert_eq!(reported("ProviderUnreachable", false), (None, None));
    }
}
