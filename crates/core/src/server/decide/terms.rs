//! What the limits of the account and of the namespace's entry allow. They never block a release.

use super::{
    super::facts::{ServerFacts, account_of},
    placement_candidates::list_candidates,
};
use crate::{
    account::terms::Terms, explanation::Explanation, resolved_account::closed, wording::listed,
};
use api::{Reason, limits::Limits, policies::DeletionPolicy};
use std::collections::BTreeMap;

/// Why limits block the order of the object.
pub fn explain_blocked_order(facts: &ServerFacts) -> Option<Explanation> {
    let policy = facts.policies().deletion_policy;
    explain_violations(facts, |limits| {
        let not_policy = (!limits.allows_policy(policy)).then(|| policy_violation(limits, policy));
        let mut all = find_violations(facts, limits);
        all.extend(not_policy);
        all
    })
}

/// Why limits block retaining the server. An account that no longer serves the namespace blocks nothing; while the
/// entry is unknown, nothing irreversible happens.
pub fn explain_blocked_retain(facts: &ServerFacts) -> Option<Explanation> {
    if let Some(terms @ Terms::Unknown(_)) = facts.account.terms() {
        return closed(terms);
    }
    explain_violations(facts, |limits| {
        let retain = DeletionPolicy::Retain;
        let not_policy = (!limits.allows_policy(retain)).then(|| policy_violation(limits, retain));
        not_policy.into_iter().collect()
    })
}

/// Whether the limits allow an order at this location.
pub(super) fn allow_location(facts: &ServerFacts, location: &str) -> bool {
    list_limits(facts).all(|(_, limits)| {
        let mut allowed = limits.locations.iter();
        limits.locations.is_empty() || allowed.any(|allowed| is_same(allowed, location))
    })
}

/// The limits of the account, and of the namespace's entry with its name.
fn list_limits(facts: &ServerFacts) -> impl Iterator<Item = (Option<&str>, &Limits)> {
    let of_account = facts.view().map(|view| (None, &view.limits));
    let entry = facts.account.terms().and_then(Terms::entry);
    let of_entry = entry.map(|(name, limits)| (Some(name), limits));
    of_account.into_iter().chain(of_entry)
}

/// All violations of the limits, in one message.
fn explain_violations(
    facts: &ServerFacts,
    refused: impl Fn(&Limits) -> Vec<LimitViolation>,
) -> Option<Explanation> {
    let found = list_limits(facts).map(|(entry, limits)| (entry, refused(limits)));
    let found: Vec<(Option<&str>, Vec<LimitViolation>)> =
        found.filter(|(_, refusals)| !refusals.is_empty()).collect();
    if found.is_empty() {
        return None;
    }
    let fields = found.iter().flat_map(|(_, refusals)| refusals);
    let fields = listed(fields.map(|refusal| refusal.field.as_str()));
    let allowed: Vec<String> = found
        .iter()
        .map(|(entry, refusals)| describe_allowed(facts, *entry, refusals))
        .collect();
    let text = format!(
        "Not allowed: {fields}; {}. Change the spec, or have the limits changed",
        allowed.join("; ")
    );
    Some(Explanation::stalled(Reason::NotAllowed, text))
}

/// A field of the spec, the field of the limits that excludes it, and what is allowed.
struct LimitViolation {
    field: String,
    limit: &'static str,
    allowed: String,
}

fn find_violations(facts: &ServerFacts, limits: &Limits) -> Vec<LimitViolation> {
    let spec = &facts.object.spec;
    let mut all = Vec::new();
    let excludes = |allowed: &[String], asked: &str| {
        !allowed.is_empty() && !allowed.iter().any(|allowed| is_same(allowed, asked))
    };
    let refused = |field: String, limit: &'static str, allowed: &[String]| LimitViolation {
        field,
        limit,
        allowed: listed(allowed.iter().map(String::as_str)),
    };
    for candidate in list_candidates(spec) {
        let of_type = &limits.instance_types;
        if excludes(of_type, candidate.instance_type) {
            let field = candidate.field("instanceType");
            all.push(refused(field, "instanceTypes", of_type));
        }
        if excludes(&limits.locations, candidate.location) {
            let field = candidate.field("location");
            all.push(refused(field, "locations", &limits.locations));
        }
    }
    let contract = spec.contract_id.as_deref().unwrap_or_default();
    if excludes(&limits.contract_ids, contract) {
        let field = "spec.contractID".to_owned();
        all.push(refused(field, "contractIDs", &limits.contract_ids));
    }
    let is_against = limits.allow_overflow == Some(false) && spec.overflow == Some(true);
    all.extend(is_against.then(|| LimitViolation {
        field: "spec.overflow".to_owned(),
        limit: "allowOverflow",
        allowed: "false".to_owned(),
    }));
    all
}

/// Whether two names of the provider are the same, apart from case and surrounding blanks.
pub(super) fn is_same(one: &str, other: &str) -> bool {
    one.trim().eq_ignore_ascii_case(other.trim())
}

fn policy_violation(limits: &Limits, policy: DeletionPolicy) -> LimitViolation {
    let allowed = limits.deletion_policies.iter().filter(|p| **p != policy);
    let words: Vec<&str> = allowed
        .map(|policy| match policy {
            DeletionPolicy::Release => "Release",
            DeletionPolicy::Retain => "Retain",
        })
        .collect();
    LimitViolation {
        field: "spec.deletionPolicy".to_owned(),
        limit: "deletionPolicies",
        allowed: words.join(", "),
    }
}

/// What the violated limits allow, in words.
fn describe_allowed(
    facts: &ServerFacts,
    entry: Option<&str>,
    refusals: &[LimitViolation],
) -> String {
    let account = account_of(&facts.object);
    let account = format!("{} {}", account.kind.as_str(), account.name);
    let limits = match entry {
        Some(entry) => format!("the entry {entry:?} of spec.allowedNamespaces of {account}"),
        None => format!("spec.limits of {account}"),
    };
    let all: BTreeMap<&str, &str> = refusals.iter().map(|r| (r.limit, &*r.allowed)).collect();
    let all: Vec<String> = all
        .into_iter()
        .map(|(limit, allowed)| format!("{limit} {allowed}"))
        .collect();
    format!("{limits} allows only {}", all.join("; "))
}
