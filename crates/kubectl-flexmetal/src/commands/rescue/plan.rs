//! What keeps the server of a deleted object, and the object to create again.

use crate::{exit::PluginError, objects::Object};
use api::{BareMetalServer, GROUP, server::BareMetalServerStatus};
use hosting_types::ServerStatus;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

/// What is done to keep the server.
#[derive(Debug)]
pub struct RescuePlan {
    /// The object as it was read.
    pub object: Object,
    /// UUID of its server.
    pub uuid: String,
    /// Host name of its server.
    pub hostname: String,
    /// Fields of the spec that let the object go without its server. Empty: they are so already.
    pub edit: Map<String, Value>,
    /// The object to create again.
    pub manifest: Value,
    /// What the new object has instead, in words.
    pub differences: Vec<String>,
}

/// What is to be done, or why the server cannot be kept.
pub fn build_plan(value: &Value, now: Timestamp) -> Result<RescuePlan, PluginError> {
    let server: BareMetalServer = serde_json::from_value(value.clone())
        .map_err(|error| PluginError::Other(format!("the object cannot be read: {error}")))?;
    let status = server.status.clone().unwrap_or_default();
    let object = Object::from(server.clone());
    let title = object.title();
    let refuse = |why: String| Err(PluginError::Other(format!("{title} {why}")));
    if object.deleted_at().is_none() {
        return refuse("is not being deleted, so there is nothing to rescue".to_owned());
    }
    let Some(uuid) = status.uuid.clone() else {
        return refuse("has no server that could be kept".to_owned());
    };
    if let Some(why) = find_end(&object, &status) {
        return refuse(format!("cannot be rescued any more: {why}"));
    }
    let policies = status.policies.unwrap_or_default();
    let policies = server.spec.policies().over(policies);
    let mut wanted = Map::new();
    wanted.insert("deletionPolicy".into(), json!("Retain"));
    if policies.suspend {
        wanted.insert("suspend".into(), json!(false));
    }
    if policies.observe_only() {
        wanted.insert("managementPolicy".into(), json!("Full"));
    }
    let mut spec = value["spec"].as_object().cloned().unwrap_or_default();
    let edit: Map<_, _> = wanted
        .into_iter()
        .filter(|(field, wanted)| spec.get(field) != Some(wanted))
        .collect();
    let mut differences = Vec::new();
    for (field, wanted) in &edit {
        let before = spec.insert(field.clone(), wanted.clone());
        let before = before.map_or_else(|| "unset".to_owned(), |before| plain(&before));
        differences.push(format!("spec.{field} is {}, not {before}", plain(wanted)));
    }
    let expiry = server.spec.expires_at.as_ref();
    if let Some(at) = expiry.filter(|at| at.0 <= now) {
        spec.remove("expiresAt");
        differences.push(format!("spec.expiresAt is unset, as {} is over", at.0));
    }
    if server.spec.root_password.is_some() {
        differences.push(
            "the Secret of spec.rootPassword goes with the old object; after 24 hours the provider gives the password no more"
                .to_owned(),
        );
    }
    Ok(RescuePlan {
        manifest: build_manifest(value, &spec),
        hostname: status.hostname.unwrap_or_else(|| object.name().to_owned()),
        object,
        uuid,
        edit,
        differences,
    })
}

/// A value without the quotes of a text.
fn plain(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

/// Why the server of the object cannot be kept: its release was recorded, or it is no longer usable.
pub fn find_end(object: &Object, status: &BareMetalServerStatus) -> Option<String> {
    let uuid = status.uuid.as_deref().unwrap_or_default();
    let uid = object.metadata().uid.as_deref();
    let release = status.records.release.as_ref();
    if release.is_some_and(|release| Some(release.uid.as_str()) == uid) {
        return Some(format!(
            "the release of server {uuid} has begun; to be able to take back the next one, set spec.releaseDelay or spec.deletionProtection"
        ));
    }
    let word = status.provider_status.as_deref()?;
    matches!(
        ServerStatus::parse(word),
        ServerStatus::Failed | ServerStatus::Releasing | ServerStatus::Released
    )
    .then(|| format!("server {uuid} is {word}"))
}

/// The object without what the API server and the operator add. Owners and finalizers of others stay away: they might
/// delete or block it again.
fn build_manifest(value: &Value, spec: &Map<String, Value>) -> Value {
    let mut metadata = Map::new();
    for field in ["name", "namespace", "labels", "annotations"] {
        if let Some(part) = value["metadata"].get(field) {
            metadata.insert(field.to_owned(), part.clone());
        }
    }
    if let Some(annotations) = metadata
        .get_mut("annotations")
        .and_then(Value::as_object_mut)
    {
        annotations.retain(|name, _| name.split('/').next() != Some(GROUP));
    }
    json!({
        "apiVersion": value["apiVersion"],
        "kind": value["kind"],
        "metadata": metadata,
        "spec": spec,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object_changes::ObjectChange;

    const NOW: i64 = 1_790_000_000;

    /// A deleted server with Release, with these changes.
    fn plan(spec: &Value, status: &Value) -> Result<RescuePlan, String> {
        let mut value = json!({
            "apiVersion": "flexmetal.dev/v1alpha1", "kind": "BareMetalServer",
            "metadata": {
                "name": "web", "namespace": "a", "uid": "1", "resourceVersion": "7",
                "deletionTimestamp": "2026-09-21T00:00:00Z", "finalizers": ["flexmetal.dev/server"],
                "ownerReferences": [{"apiVersion": "v1", "kind": "X", "name": "x", "uid": "2"}],
                "labels": {"l": "1"},
                "annotations": {"flexmetal.dev/acknowledge": "t", "team/note": "n"},
            },
            "spec": {"location": "EU: Rotterdam", "unknownField": 1},
            "status": {"uuid": "u-1", "providerStatus": "delivered"},
        });
        for (part, changes) in [("spec", spec), ("status", status)] {
            for (field, change) in changes.as_object().unwrap() {
                value[part][field] = change.clone();
            }
        }
        let now = Timestamp::from_second(NOW).unwrap();
        build_plan(&value, now).map_err(|error| error.to_string())
    }

    #[test]
    fn manifest_is_the_spec_that_retains() {
        let plan = plan(&json!({}), &json!({})).unwrap();
        assert_eq!(
            plan.manifest,
            json!({
                "apiVersion": "flexmetal.dev/v1alpha1", "kind": "BareMetalServer",
                "metadata": {
                    "name": "web", "namespace": "a", "labels": {"l": "1"},
                    "annotations": {"team/note": "n"},
                },
                "spec": {
                    "location": "EU: Rotterdam", "unknownField": 1, "deletionPolicy": "Retain",
                },
            })
        );
        let change = ObjectChange::guarded(&plan.object, json!({"spec": plan.edit}), "");
        assert_eq!(
            *change.patch(),
            json!({"metadata": {"resourceVersion": "7"}, "spec": {"deletionPolicy": "Retain"}})
        );
    }

    #[test]
    fn what_blocks_the_deletion_is_lifted() {
        let plan = plan(
            &json!({"deletionPolicy": "Retain", "suspend": true}),
            &json!({"policies": {"managementPolicy": "ObserveOnly"}}),
        )
        .unwrap();
        let edit = json!({"suspend": false, "managementPolicy": "Full"});
        assert_eq!(json!(plan.edit), edit);
        assert_eq!(plan.manifest["spec"]["suspend"], false);
        assert_eq!(plan.differences.len(), 2);
    }

    #[test]
    fn retained_server_needs_no_edit() {
        let plan = plan(&json!({"deletionPolicy": "Retain"}), &json!({})).unwrap();
        assert!(plan.edit.is_empty() && plan.differences.is_empty());
    }

    #[test]
    fn passed_expiry_would_delete_it_again() {
        let expiry = |at: &str| {
            let plan = plan(&json!({"expiresAt": at}), &json!({})).unwrap();
            plan.manifest["spec"]["expiresAt"].clone()
        };
        assert_eq!(expiry("2026-09-21T14:13:20Z"), Value::Null);
        assert_eq!(expiry("2026-09-21T14:13:21Z"), "2026-09-21T14:13:21Z");
    }

    #[test]
    fn begun_release_cannot_be_taken_back() {
        let release = |uid: &str| {
            json!({"records": {"release": {
                "uid": uid, "server": "u-1", "sendBy": "2026-09-21T00:00:00Z", "deleting": true,
            }}})
        };
        let error = plan(&json!({}), &release("1")).unwrap_err();
        assert!(error.contains("release of server u-1 has begun"), "{error}");
        assert!(plan(&json!({}), &release("2")).is_ok(), "a restored record");
        let error = plan(&json!({}), &json!({"providerStatus": "releasing"})).unwrap_err();
        assert!(error.contains("is releasing"), "{error}");
        let error = plan(&json!({}), &json!({"uuid": null})).unwrap_err();
        assert!(error.contains("no server"), "{error}");
    }
}
