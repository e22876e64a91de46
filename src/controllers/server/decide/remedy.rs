//! The commands that a person has to type, whole, for messages.

use super::super::facts::Facts;
use crate::kinds::names::{ORDER_ANNOTATION, SERVER_FINALIZER};
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
    let go_on = set(facts, "suspend", "false");
    format!("spec.suspend is true: {what}; to go on: {go_on}")
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
