//! What the limits of the account and of the entry for the namespace allow: they stop orders, never releases.

use super::{
    super::facts::{Facts, account_of},
    candidates::candidates,
};
use crate::{account::terms::Terms, account_facts::closed, cause::Cause};
use api::{Reason, limits::Limits, policies::DeletionPolicy};

/// Why limits stand against the order of the object.
pub fn against_order(facts: &Facts) -> Option<Cause> {
    let policy = facts.policies().deletion_policy;
    against(facts, |limits| {
        let not_policy = || (!limits.allows_policy(policy)).then(|| not_policy(limits, policy));
        refusal(facts, limits).or_else(not_policy)
    })
}

/// Why a server is not retained that the policy in force would retain. An account that does not serve the namespace any
/// more takes nothing away; while the entry is unknown, nothing that cannot be undone is done.
pub fn against_retain(facts: &Facts) -> Option<Cause> {
    if let Some(terms @ Terms::Unknown(_)) = facts.account.terms() {
        return closed(terms);
    }
    against(facts, |limits| {
        let retain = DeletionPolicy::Retain;
        (!limits.allows_policy(retain)).then(|| not_policy(limits, retain))
    })
}

/// Whether the limits allow an order at this location.
pub(super) fn allow_location(facts: &Facts, location: &str) -> bool {
    all(facts).all(|(_, limits)| {
        let mut allowed = limits.locations.iter();
        limits.locations.is_empty() || allowed.any(|allowed| is_same(allowed, location))
    })
}

/// The limits of the account, and those of the entry with its name.
fn all(facts: &Facts) -> impl Iterator<Item = (Option<&str>, &Limits)> {
    let of_account = facts.view().map(|view| (None, &view.limits));
    let entry = facts.account.terms().and_then(Terms::entry);
    let of_entry = entry.map(|(name, limits)| (Some(name), limits));
    of_account.into_iter().chain(of_entry)
}

/// What the first of them refuses.
fn against(facts: &Facts, refused: impl Fn(&Limits) -> Option<Refusal>) -> Option<Cause> {
    all(facts).find_map(|(entry, limits)| Some(not_allowed(facts, entry, &refused(limits)?)))
}

/// A field of the spec, the field of the limits that stands against it, and what is allowed.
struct Refusal {
    field: String,
    limit: &'static str,
    allowed: String,
}

fn refusal(facts: &Facts, limits: &Limits) -> Option<Refusal> {
    let spec = &facts.object.spec;
    let stands_against = |allowed: &[String], asked: &str| {
        !allowed.is_empty() && !allowed.iter().any(|allowed| is_same(allowed, asked))
    };
    let refused = |field: String, limit: &'static str, allowed: &[String]| Refusal {
        field,
        limit,
        allowed: allowed.join(", "),
    };
    for candidate in candidates(spec) {
        let of_type = &limits.instance_types;
        if stands_against(of_type, candidate.instance_type) {
            let field = candidate.field("instanceType");
            return Some(refused(field, "instanceTypes", of_type));
        }
        if stands_against(&limits.locations, candidate.location) {
            let field = candidate.field("location");
            return Some(refused(field, "locations", &limits.locations));
        }
    }
    let contract = spec.contract_id.as_deref().unwrap_or_default();
    if stands_against(&limits.contract_ids, contract) {
        let field = "spec.contractID".to_owned();
        return Some(refused(field, "contractIDs", &limits.contract_ids));
    }
    let is_against = limits.allow_overflow == Some(false) && spec.overflow == Some(true);
    is_against.then(|| Refusal {
        field: "spec.overflow".to_owned(),
        limit: "allowOverflow",
        allowed: "false".to_owned(),
    })
}

/// Whether two names of the provider are the same: case and blanks around them do not matter.
pub(super) fn is_same(one: &str, other: &str) -> bool {
    one.trim().eq_ignore_ascii_case(other.trim())
}

fn not_policy(limits: &Limits, policy: DeletionPolicy) -> Refusal {
    let allowed = limits.deletion_policies.iter().filter(|p| **p != policy);
    let words: Vec<&str> = allowed
        .map(|policy| match policy {
            DeletionPolicy::Release => "Release",
            DeletionPolicy::Retain => "Retain",
        })
        .collect();
    Refusal {
        field: "spec.deletionPolicy".to_owned(),
        limit: "deletionPolicies",
        allowed: words.join(", "),
    }
}

fn not_allowed(facts: &Facts, entry: Option<&str>, refusal: &Refusal) -> Cause {
    let account = account_of(&facts.object);
    let account = format!("{} {}", account.kind.as_str(), account.name);
    let Refusal {
        field,
        limit,
        allowed,
    } = refusal;
    let text = match entry {
        Some(entry) => format!(
            "{field}: the entry {entry:?} of spec.allowedNamespaces of {account} allows this namespace {allowed} only: set {field} to that, or have limits.{limit} of the entry changed"
        ),
        None => format!(
            "{field}: spec.limits.{limit} of {account} allows {allowed} only: set {field} to that, or have the limit changed"
        ),
    };
    Cause::needs_person(Reason::NotAllowed, text)
}
