//! The commands that a person has to type, whole, for messages.

use super::{super::facts::Facts, machine};
use crate::{
    account::AccountKey,
    kinds::{
        Policies,
        names::{ORDER_ANNOTATION, SERVER_FINALIZER},
    },
};
use std::time::Duration;

/// Forget the order that the annotation tells of.
pub fn remove_annotation(facts: &Facts) -> String {
    command(facts, "annotate", &format!("{ORDER_ANNOTATION}-"))
}

/// Say something by an annotation, whatever it said before.
pub fn annotate(facts: &Facts, name: &str, value: &str) -> String {
    command(facts, "annotate", &format!("{name}={value} --overwrite"))
}

/// Set one field of the spec; `value` is JSON.
pub fn set(facts: &Facts, field: &str, value: &str) -> String {
    let patch = format!("--type=merge -p '{{\"spec\":{{\"{field}\":{value}}}}}'");
    command(facts, "patch", &patch)
}

/// Says that the object is suspended, what follows from it, and how to go on.
pub fn suspended(facts: &Facts, what: &str) -> String {
    let stated = stated(facts, "suspend", |p| p.suspend.is_some());
    let go_on = set(facts, "suspend", "false");
    format!("{stated}: {what}; to go on: {go_on}")
}

/// Says where a policy that is true comes from.
pub fn stated(facts: &Facts, field: &str, is_set: impl FnOnce(Policies) -> bool) -> String {
    match is_set(facts.object.spec.policies()) {
        true => format!("spec.{field} is true"),
        false => format!("{field} is true in spec.defaults of the account"),
    }
}

/// See why the account is as it is.
pub fn describe_account(facts: &Facts) -> String {
    let status = facts.object.status.as_ref();
    let pinned = status.and_then(|s| s.account.clone());
    let account = pinned.unwrap_or_else(|| machine::pinned(facts));
    AccountKey::of(&account, facts.namespace()).command("describe", "")
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

/// A span of time as in manifests: `30s`, `10m`.
pub fn span(span: Duration) -> String {
    let seconds = span.as_secs();
    if span.subsec_millis() > 0 {
        format!("{}ms", span.as_millis())
    } else if seconds > 0 && seconds.is_multiple_of(60) {
        format!("{}m", seconds / 60)
    } else {
        format!("{seconds}s")
    }
}

fn command(facts: &Facts, verb: &str, rest: &str) -> String {
    let (name, namespace) = (facts.name(), facts.namespace());
    format!("kubectl {verb} baremetalserver {name} -n {namespace} {rest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_written_as_in_manifests() {
        let cases = [
            (0, "0s"),
            (250, "250ms"),
            (1500, "1500ms"),
            (30_000, "30s"),
            (60_000, "1m"),
            (90_000, "90s"),
            (600_000, "10m"),
        ];
        for (millis, text) in cases {
            assert_eq!(span(Duration::from_millis(millis)), text);
        }
    }
}
