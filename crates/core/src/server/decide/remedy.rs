//! The commands that a person has to type, whole, for messages.

use super::super::facts::{Facts, account_of};
use crate::{account::key::AccountKey, cause::Cause};
use api::{
    Policies, Reason,
    names::{ORDER_ANNOTATION, SERVER_FINALIZER},
};

/// Forget the order that the annotation tells of.
pub fn remove_annotation(facts: &Facts) -> String {
    command(facts, "annotate", &format!("{ORDER_ANNOTATION}-"))
}

/// See which programs write the object.
pub fn show_writers(facts: &Facts) -> String {
    command(facts, "get", "-o yaml --show-managed-fields")
}

/// Set one field of the spec; `value` is JSON.
pub fn set(facts: &Facts, field: &str, value: &str) -> String {
    set_all(facts, &format!("\"{field}\":{value}"))
}

/// Set these fields of the spec at once; `fields` are those of a JSON object.
fn set_all(facts: &Facts, fields: &str) -> String {
    let patch = format!("--type=merge -p '{{\"spec\":{{{fields}}}}}'");
    command(facts, "patch", &patch)
}

/// Says that the object is suspended, what follows from it, and how to go on.
pub fn suspended(facts: &Facts, what: &str) -> String {
    if let Some(why) = facts.account.stopped() {
        return why.to_owned();
    }
    let stated = stated(facts, "suspend", |p| p.suspend.is_some());
    let go_on = set(facts, "suspend", "false");
    format!("{stated}: {what}; to go on: {go_on}")
}

/// Says that the object's machine is only looked at, what follows from it, and how to go on.
pub fn observed(facts: &Facts, what: &str) -> Cause {
    let stated = observe_only(facts);
    let go_on = set(facts, "managementPolicy", "\"Full\"");
    let text = format!("{stated}: {what}; to go on: {go_on}");
    Cause::needs_person(Reason::ObserveOnly, text)
}

fn observe_only(facts: &Facts) -> &'static str {
    match facts.object.spec.management_policy {
        Some(_) => "spec.managementPolicy is ObserveOnly",
        None => "managementPolicy is ObserveOnly in spec.defaults of the account",
    }
}

/// Why nothing is sent for the object: it is suspended, or its machine only looked at.
pub fn held(facts: &Facts, what: &str) -> Option<Cause> {
    let policies = facts.policies();
    if policies.suspend {
        return Some(Cause::suspended(suspended(facts, what)));
    }
    policies.observe_only().then(|| observed(facts, what))
}

/// The same while it is being deleted, with the two ways on: to keep the machine, or to release it.
pub fn held_at_the_end(facts: &Facts, machine: &str) -> Option<Cause> {
    let policies = facts.policies();
    if policies.suspend {
        return Some(Cause::suspended(suspended_at_the_end(facts, machine)));
    }
    policies.observe_only().then(|| {
        let stated = observe_only(facts);
        let text = at_the_end(facts, stated, machine);
        Cause::needs_person(Reason::ObserveOnly, text)
    })
}

/// Says that the object is suspended while it is being deleted, and the two ways on. Both are one command: with the
/// suspension lifted alone, what the policy says of the machine would happen before anybody can say otherwise.
fn suspended_at_the_end(facts: &Facts, machine: &str) -> String {
    if let Some(why) = facts.account.stopped() {
        return why.to_owned();
    }
    let stated = match facts.object.spec.suspend {
        Some(_) => "spec.suspend is true",
        None => "suspend is true in spec.defaults of the account",
    };
    at_the_end(facts, stated, machine)
}

fn at_the_end(facts: &Facts, stated: &str, machine: &str) -> String {
    let policies = facts.policies();
    let mut lift = Vec::new();
    if policies.observe_only() {
        lift.push("\"managementPolicy\":\"Full\"");
    }
    if policies.suspend {
        lift.push("\"suspend\":false");
    }
    let mut release = Vec::new();
    if policies.retain() {
        release.push("\"deletionPolicy\":\"Release\"");
    }
    if policies.deletion_protection {
        release.push("\"deletionProtection\":false");
    }
    release.extend(&lift);
    let keep = ["\"deletionPolicy\":\"Retain\"", &lift.join(",")].join(",");
    format!(
        "{stated}: nothing is released, and machine {machine} stays and is still billed; to release it: {}; to keep it and let this object go: {}",
        set_all(facts, &release.join(",")),
        set_all(facts, &keep),
    )
}

/// Says where a policy that is true comes from.
pub fn stated(facts: &Facts, field: &str, is_set: impl FnOnce(Policies) -> bool) -> String {
    match is_set(facts.object.spec.policies()) {
        true => format!("spec.{field} is true"),
        false => {
            let patch =
                format!("--type=merge -p '{{\"spec\":{{\"defaults\":{{\"{field}\":false}}}}}}'");
            let lift = account(facts).command("patch", &patch);
            format!(
                "{field} is true in spec.defaults of the account (to lift it for all its servers: {lift}; what follows is for this one alone)"
            )
        }
    }
}

/// See why the account is as it is.
pub fn describe_account(facts: &Facts) -> String {
    account(facts).command("describe", "")
}

/// The account of the object.
pub fn account(facts: &Facts) -> AccountKey {
    AccountKey::of(&account_of(&facts.object), facts.namespace())
}

/// Delete the object.
pub fn delete(facts: &Facts) -> String {
    command(facts, "delete", "").trim_end().to_owned()
}

/// Take our finalizer off.
pub fn remove_finalizer(facts: &Facts) -> String {
    let finalizers = facts.object.metadata.finalizers.iter().flatten();
    let rest: Vec<&String> = finalizers.filter(|f| *f != SERVER_FINALIZER).collect();
    let rest = serde_json::json!({"metadata": {"finalizers": rest}});
    command(facts, "patch", &format!("--type=merge -p '{rest}'"))
}

fn command(facts: &Facts, verb: &str, rest: &str) -> String {
    let (name, namespace) = (facts.name(), facts.namespace());
    format!("kubectl {verb} baremetalserver {name} -n {namespace} {rest}")
}
