//! Writing a status: the difference to what is there, with the version it was read at.

use serde_json::{Map, Value, json};

/// The merge patch that turns one status into another, to be sent to the status subresource.
///
/// None when nothing differs. The resource version makes the API server refuse the write (409)
/// when somebody wrote in between: a decision on an old object must not be recorded on a new one.
pub fn patch(before: &Value, after: &Value, resource_version: Option<&str>) -> Option<Value> {
    let status = difference(before, after)?;
    let mut patch = json!({ "status": status });
    if let Some(version) = resource_version {
        patch["metadata"] = json!({ "resourceVersion": version });
    }
    Some(patch)
}

/// A JSON merge patch; None when the two are equal. Fields that went are set to null, since a merge
/// patch leaves alone what it does not name.
fn difference(before: &Value, after: &Value) -> Option<Value> {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            let mut changes = Map::new();
            for (name, new) in after {
                let change = match before.get(name) {
                    Some(old) => difference(old, new),
                    None => Some(new.clone()),
                };
                if let Some(change) = change {
                    changes.insert(name.clone(), change);
                }
            }
            for name in before.keys().filter(|name| !after.contains_key(*name)) {
                changes.insert(name.clone(), Value::Null);
            }
            (!changes.is_empty()).then_some(Value::Object(changes))
        }
        (before, after) => (before != after).then(|| after.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Merging as RFC 7396 defines it.
    fn merged(mut target: Value, patch: &Value) -> Value {
        let Value::Object(changes) = patch else {
            return patch.clone();
        };
        if !target.is_object() {
            target = json!({});
        }
        for (name, change) in changes {
            if change.is_null() {
                target.as_object_mut().unwrap().remove(name);
            } else {
                let old = target.get(name).cloned().unwrap_or(Value::Null);
                target[name] = merged(old, change);
            }
        }
        target
    }

    #[test]
    fn applied_to_the_first_it_gives_the_second() {
        let states = [
            json!({}),
            json!({"a": 1, "list": [1, 2], "in": {"x": 1, "y": 2}}),
            json!({"list": [2], "in": {"y": 3}}),
            json!({"in": {"x": 1, "y": 2, "z": {"deep": true}}}),
        ];
        for before in &states {
            for after in &states {
                match patch(before, after, Some("5")) {
                    None => assert_eq!(before, after),
                    Some(patch) => {
                        assert_ne!(before, after);
                        assert_eq!(patch["metadata"]["resourceVersion"], "5");
                        assert_eq!(&merged(before.clone(), &patch["status"]), after);
                    }
                }
            }
        }
    }
}
