//! The tables in `tests/fixtures/crds`: for each rule an object that satisfies it and one that violates it.

use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value, json};

/// One file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RuleTable {
    /// The kinds that it describes.
    pub(super) kinds: Vec<String>,
    /// A valid object, without apiVersion, kind and name.
    pub(super) valid: Value,
    /// Objects that the API accepts.
    pub(super) accepted: Vec<AcceptedObject>,
    /// For each rule, an edit that satisfies it and one that violates it.
    pub(super) rules: Vec<RuleCase>,
}

/// An object that the API accepts.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AcceptedObject {
    /// What is special about it.
    pub(super) what: String,
    /// Merge patch over the valid object.
    pub(super) object: Value,
}

/// A rule with an accepted and a rejected object.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RuleCase {
    /// Name of the rule, as [`super::rules::rules_of`] builds it.
    pub(super) rule: String,
    /// The patch of an object that is created first. The two others are then edits of it.
    pub(super) from: Option<Value>,
    /// The status that the operator writes to that object before the edits.
    pub(super) status: Option<Value>,
    /// Satisfies the rule.
    pub(super) accept: Value,
    /// Violates the rule.
    pub(super) reject: Value,
}

pub(super) fn tables() -> Vec<RuleTable> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/crds");
    std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| {
            let text = std::fs::read_to_string(&path).unwrap();
            let table: Value =
                serde_saphyr::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            serde_json::from_value(expanded(table))
                .unwrap_or_else(|e| panic!("{}: {e}", path.display()))
        })
        .collect()
}

impl RuleTable {
    /// The valid object of a kind, with patches applied.
    pub(super) fn object(&self, kind: &str, patches: &[&Value]) -> Value {
        let mut object = self.valid.clone();
        for patch in patches {
            merge(&mut object, patch);
        }
        object["apiVersion"] = json!("flexmetal.dev/v1alpha1");
        object["kind"] = json!(kind);
        if object["metadata"]["name"].is_null() {
            object["metadata"]["generateName"] = json!("fixture-");
        }
        object
    }
}

/// Expands the placeholders for long texts and lists.
fn expanded(value: Value) -> Value {
    match value {
        Value::Array(items) => items.into_iter().map(expanded).collect(),
        Value::Object(map) => {
            let times = map.get("times").and_then(Value::as_u64);
            let times = times.map(|n| usize::try_from(n).unwrap());
            match (
                times,
                map.get("repeat"),
                map.get("numbered"),
                map.get("copies"),
            ) {
                (Some(n), Some(text), None, None) => {
                    let end = map.get("end").and_then(Value::as_str).unwrap_or_default();
                    (text.as_str().unwrap().repeat(n) + end).into()
                }
                (Some(n), None, Some(word), None) => (0..n)
                    .map(|i| Value::from(format!("{}{i}", word.as_str().unwrap())))
                    .map(|word| match map.get("as").and_then(Value::as_str) {
                        Some(field) => {
                            let mut item = map.get("with").cloned().unwrap_or_else(|| json!({}));
                            item[field] = word;
                            item
                        }
                        None => word,
                    })
                    .collect(),
                (Some(n), None, None, Some(item)) => vec![item.clone(); n].into(),
                _ => map.into_iter().map(|(k, v)| (k, expanded(v))).collect(),
            }
        }
        other => other,
    }
}

/// A merge patch that keeps null, because the API server's handling of null is under test.
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Map::new().into();
    }
    for (name, value) in patch {
        merge(&mut target[name], value);
    }
}
