//! The commands that a person has to type, whole, for messages.

use super::super::facts::Facts;
use crate::kinds::names::{ORDER_ANNOTATION, SERVER_FINALIZER};

/// Forget the order that the annotation tells of.
pub fn remove_annotation(facts: &Facts) -> String {
    command(facts, "annotate", &format!("{ORDER_ANNOTATION}-"))
}

/// Say something by an annotation.
pub fn annotate(facts: &Facts, name: &str, value: &str) -> String {
    command(facts, "annotate", &format!("{name}={value}"))
}

/// Set one field of the spec; `value` is JSON.
pub fn set(facts: &Facts, field: &str, value: &str) -> String {
    let patch = format!("--type=merge -p '{{\"spec\":{{\"{field}\":{value}}}}}'");
    command(facts, "patch", &patch)
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
