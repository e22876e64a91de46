//! What an account of the cluster allows the namespace of the object: it stops orders, never releases.

use super::{
    super::facts::{Facts, account_of},
    candidates::candidates,
};
use crate::{account::terms::Terms, account_facts::closed, cause::Cause};
use api::{Reason, allowed::NamespaceLimits, policies::DeletionPolicy};

/// Why the limits of the namespace's entry stand against the order of the object.
pub fn against_order(facts: &Facts) -> Option<Cause> {
    let terms = facts.account.terms()?;
    let (_, limits) = terms.entry()?;
    let refusal = refusal(facts, limits).or_else(|| {
        let policy = facts.policies().deletion_policy;
        (!terms.allow(policy)).then(|| not_policy(limits, policy))
    });
    refusal.map(|refusal| not_allowed(facts, terms, &refusal))
}

/// Why a machine is not retained that the policy in force would retain.
pub fn against_retain(facts: &Facts) -> Option<Cause> {
    let terms = facts.account.terms()?;
    if terms.let_retain() {
        return None;
    }
    if let Terms::Unknown(_) = terms {
        return closed(terms);
    }
    let (_, limits) = terms.entry()?;
    let refusal = not_policy(limits, DeletionPolicy::Retain);
    Some(not_allowed(facts, terms, &refusal))
}

/// A field of the spec, the field of the limits that stands against it, and what is allowed.
struct Refusal {
    field: String,
    limit: &'static str,
    allowed: String,
}

fn refusal(facts: &Facts, limits: &NamespaceLimits) -> Option<Refusal> {
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
    let is_against = limits.overflow == Some(false) && spec.overflow == Some(true);
    is_against.then(|| Refusal {
        field: "spec.overflow".to_owned(),
        limit: "overflow",
        allowed: "false".to_owned(),
    })
}

/// Whether two names of the provider are the same: case and blanks around them do not matter.
pub(super) fn is_same(one: &str, other: &str) -> bool {
    one.trim().eq_ignore_ascii_case(other.trim())
}

fn not_policy(limits: &NamespaceLimits, policy: DeletionPolicy) -> Refusal {
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

fn not_allowed(facts: &Facts, terms: &Terms, refusal: &Refusal) -> Cause {
    let account = account_of(&facts.object);
    let entry = terms.entry().map_or("", |(name, _)| name);
    let Refusal {
        field,
        limit,
        allowed,
    } = refusal;
    let text = format!(
        "{field}: the entry {entry:?} of spec.allowedNamespaces of {} {} allows this namespace {allowed} only: set {field} to that, or have limits.{limit} of the entry changed",
        account.kind.as_str(),
        account.name
    );
    Cause::needs_person(Reason::NotAllowed, text)
}
