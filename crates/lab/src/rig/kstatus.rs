//! The kstatus result of an object, as GitOps tools compute it.

use serde_json::Value;

/// The result of reading an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kstatus {
    /// The status matches the spec.
    Current,
    /// The status does not match the spec yet.
    InProgress,
    /// The object is stalled and needs a user.
    Failed,
    /// Being deleted.
    Terminating,
}

/// Reads an object by kstatus's generic rules, in this order: deletion, generation, the first true condition of
/// `Reconciling` and `Stalled` (in list order), then `Ready`.
pub fn health(object: &Value) -> Kstatus {
    let metadata = &object["metadata"];
    if !metadata["deletionTimestamp"].is_null() {
        return Kstatus::Terminating;
    }
    let observed = &object["status"]["observedGeneration"];
    if !observed.is_null() && *observed != metadata["generation"] {
        return Kstatus::InProgress;
    }
    let conditions = object["status"]["conditions"].as_array();
    for found in conditions.into_iter().flatten() {
        match found["type"].as_str() {
            Some("Reconciling") if found["status"] == "True" => return Kstatus::InProgress,
            Some("Stalled") if found["status"] == "True" => return Kstatus::Failed,
            _ => {}
        }
    }
    // An object without the condition counts as current. The status default of generation -1 prevents that.
    match condition(object, "Ready") {
        Some(ready) if ready["status"] != "True" => Kstatus::InProgress,
        _ => Kstatus::Current,
    }
}

/// A condition of an object by its type.
pub fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    let conditions = object["status"]["conditions"].as_array()?;
    conditions.iter().find(|found| found["type"] == kind)
}

#[test]
fn status_rules_apply_in_order() {
    use serde_json::json;

    let object = |generation: i64, conditions: Value| {
        json!({
            "metadata": {"generation": 2},
            "status": {"observedGeneration": generation, "conditions": conditions},
        })
    };
    let is = |kind: &str, status: &str| json!({"type": kind, "status": status});
    for (read, expected) in [
        (object(2, json!([])), Kstatus::Current),
        (object(-1, json!([])), Kstatus::InProgress),
        (object(1, json!([is("Ready", "True")])), Kstatus::InProgress),
        (object(2, json!([is("Ready", "True")])), Kstatus::Current),
        (
            object(2, json!([is("Ready", "False")])),
            Kstatus::InProgress,
        ),
        (
            object(2, json!([is("Ready", "Unknown")])),
            Kstatus::InProgress,
        ),
        (
            object(2, json!([is("Stalled", "True"), is("Ready", "False")])),
            Kstatus::Failed,
        ),
        (
            object(2, json!([is("Stalled", "True"), is("Reconciling", "True")])),
            Kstatus::Failed,
        ),
        (
            object(2, json!([is("Reconciling", "True"), is("Ready", "True")])),
            Kstatus::InProgress,
        ),
        (
            object(2, json!([is("Stalled", "False"), is("Ready", "True")])),
            Kstatus::Current,
        ),
    ] {
        assert_eq!(health(&read), expected, "{read}");
    }
    let mut leaving = object(2, json!([is("Stalled", "True")]));
    leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert_eq!(health(&leaving), Kstatus::Terminating);
}
