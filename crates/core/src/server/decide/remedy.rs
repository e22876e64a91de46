//! What a user has to do, in words, for messages. The commands for it are in the docs.

use super::super::facts::{Facts, account_of};
use crate::{account::key::AccountKey, cause::Cause};
use api::{Policies, Reason};

/// Set one field of the spec.
pub fn set(field: &str, value: &str) -> String {
    set_all(&[(field, value)])
}

/// Set these fields of the spec, in one edit.
fn set_all(fields: &[(&str, &str)]) -> String {
    let named = fields.iter();
    let named: Vec<String> = named
        .map(|(field, value)| format!("{field} to {value}"))
        .collect();
    match &named[..] {
        [] => String::new(),
        [one] => format!("set spec.{one}"),
        [others @ .., last] => format!("set spec.{} and {last} in one edit", others.join(", ")),
    }
}

/// Says that the object's machine is only looked at, what follows from it, and how to go on.
pub fn observed(facts: &Facts, what: &str) -> Cause {
    let stated = observe_only(facts);
    let go_on = set("managementPolicy", "Full");
    let text = format!("{stated}; {what}. To resume, {go_on}");
    Cause::needs_person(Reason::ObserveOnly, text)
}

fn observe_only(facts: &Facts) -> &'static str {
    match facts.object.spec.management_policy {
        Some(_) => "Observe only, by spec.managementPolicy",
        None => "Observe only, by spec.defaults.managementPolicy of the account",
    }
}

/// Why nothing is sent for the object: it is suspended, or its machine only looked at.
pub fn held(facts: &Facts, what: &str) -> Option<Cause> {
    let policies = facts.policies();
    if policies.suspend {
        let is_own = facts.object.spec.suspend.is_some();
        return Some(Cause {
            message: facts.account.describe_suspension(is_own, what),
            ..Cause::suspended()
        });
    }
    policies.observe_only().then(|| observed(facts, what))
}

/// The same while it is being deleted, with the two ways on: to keep the machine, or to release it.
pub fn held_at_the_end(facts: &Facts, machine: &str) -> Option<Cause> {
    let policies = facts.policies();
    if policies.suspend {
        let text = suspended_at_the_end(facts, machine);
        return Some(Cause::waits(Reason::Suspended, text));
    }
    policies.observe_only().then(|| {
        let stated = observe_only(facts);
        let text = at_the_end(facts, stated, machine);
        Cause::waits(Reason::ObserveOnly, text)
    })
}

/// Says that the object is suspended while it is being deleted, and the two ways on. Each is one edit: with the
/// suspension lifted alone, what the policy says of the machine would happen before anybody can say otherwise.
fn suspended_at_the_end(facts: &Facts, machine: &str) -> String {
    if let Some(why) = facts.account.stopped() {
        return why.to_owned();
    }
    let stated = stated(facts, "suspend", |p| p.suspend.is_some());
    at_the_end(facts, &format!("Suspended by {stated}"), machine)
}

fn at_the_end(facts: &Facts, stated: &str, machine: &str) -> String {
    let policies = facts.policies();
    let mut lift = Vec::new();
    if policies.observe_only() {
        lift.push(("managementPolicy", "Full"));
    }
    if policies.suspend {
        lift.push(("suspend", "false"));
    }
    let mut release = Vec::new();
    if policies.retain() {
        release.push(("deletionPolicy", "Release"));
    }
    if policies.deletion_protection {
        release.push(("deletionProtection", "false"));
    }
    release.extend(lift);
    format!(
        "{stated}; server {machine} is billed. To release it, {}; to keep it, set deletionPolicy to Retain in that edit",
        set_all(&release),
    )
}

/// The field in which a policy that is true is set.
pub fn stated(facts: &Facts, field: &str, is_set: impl FnOnce(Policies) -> bool) -> String {
    match is_set(facts.object.spec.policies()) {
        true => format!("spec.{field}"),
        false => format!("spec.defaults.{field} of the account"),
    }
}

/// The account of the object.
pub fn account(facts: &Facts) -> AccountKey {
    AccountKey::of(&account_of(&facts.object), facts.namespace())
}
