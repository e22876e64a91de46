//! What a user has to do, in words for messages. The commands for it are in the docs.

use super::super::facts::{ServerFacts, account_of};
use crate::{account::key::AccountKey, explanation::Explanation};
use api::{Policies, Reason};

/// Text: set one field of the spec.
pub fn describe_edit(field: &str, value: &str) -> String {
    set_all(&[(field, value)])
}

/// Text: set these fields of the spec, in one edit.
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

/// Explains that the server is only observed, what follows, and how to resume.
pub fn explain_observe_only(facts: &ServerFacts, what: &str) -> Explanation {
    let stated = describe_observe_only(facts);
    let go_on = describe_edit("managementPolicy", "Full");
    let text = format!("{stated}; {what}. To resume, {go_on}");
    Explanation::stalled(Reason::ObserveOnly, text)
}

fn describe_observe_only(facts: &ServerFacts) -> &'static str {
    match facts.object.spec.management_policy {
        Some(_) => "Observe only, by spec.managementPolicy",
        None => "Observe only, by spec.defaults.managementPolicy of the account",
    }
}

/// Why nothing is sent for the object: it is suspended or observe-only.
pub fn explain_blocked(facts: &ServerFacts, what: &str) -> Option<Explanation> {
    let policies = facts.policies();
    if policies.suspend {
        let is_own = facts.object.spec.suspend.is_some();
        return Some(Explanation {
            message: facts.account.describe_suspension(is_own, what),
            ..Explanation::suspended()
        });
    }
    policies
        .observe_only()
        .then(|| explain_observe_only(facts, what))
}

/// The same for a deleted object, with both choices: retain the server, or release it.
pub fn explain_blocked_deletion(facts: &ServerFacts, server: &str) -> Option<Explanation> {
    let policies = facts.policies();
    if policies.suspend {
        let text = describe_suspended_deletion(facts, server);
        return Some(Explanation::waits(Reason::Suspended, text));
    }
    policies.observe_only().then(|| {
        let stated = describe_observe_only(facts);
        let text = describe_deletion_choices(facts, stated, server);
        Explanation::waits(Reason::ObserveOnly, text)
    })
}

/// Explains a suspended deletion, with both choices. Each is one edit: if a user only lifts the suspension, the
/// deletion policy applies at once.
fn describe_suspended_deletion(facts: &ServerFacts, server: &str) -> String {
    if let Some(why) = facts.account.suspension() {
        return why.to_owned();
    }
    let stated = name_policy_field(facts, "suspend", |p| p.suspend.is_some());
    describe_deletion_choices(facts, &format!("Suspended by {stated}"), server)
}

fn describe_deletion_choices(facts: &ServerFacts, stated: &str, server: &str) -> String {
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
        "{stated}; server {server} is billed. To release it, {}; to keep it, set deletionPolicy to Retain in that edit",
        set_all(&release),
    )
}

/// Name of the field that sets this policy to true.
pub fn name_policy_field(
    facts: &ServerFacts,
    field: &str,
    is_set: impl FnOnce(Policies) -> bool,
) -> String {
    match is_set(facts.object.spec.policies()) {
        true => format!("spec.{field}"),
        false => format!("spec.defaults.{field} of the account"),
    }
}

/// Key of the object's account.
pub fn account(facts: &ServerFacts) -> AccountKey {
    AccountKey::from_reference(&account_of(&facts.object), facts.namespace())
}
