//! Objects that do not decode: each reports this itself, and all others are reconciled as usual.

use super::{context::Context, writes::bounded};
use crate::runtime::{clients::patch_params, kind_api::KindApi};
use api::{Reason, bounds::cut_status, conditions};
use flexmetal_core::{
    explanation::Explanation,
    report::{EventRecord, Severity},
    requeue::Requeue,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use kube::{
    Api,
    api::{ApiResource, DynamicObject, Patch},
    core::error_boundary::InvalidObject,
};
use serde_json::{Value, json};
use std::time::Duration;

/// Backstop: such an object waits for its next version.
const BACKSTOP: Duration = Duration::from_secs(600);
/// Maximum characters quoted from an error.
const MOST_QUOTED: usize = 220;
/// The remedy in the message of such an object.
const REMEDY: &str = "Correct the field, or apply the manifest again";

impl<K: KindApi, M: Clone + Default + Send> Context<K, M> {
    /// Reports the object in log, event and status, once for each version, without decoding it. Returns the message and
    /// when to requeue.
    pub async fn report_undecodable(&self, object: &InvalidObject) -> (String, Requeue) {
        let InvalidObject { error, metadata } = object;
        let uid = metadata.uid.as_deref().unwrap_or_default();
        if let Some(message) = self.objects.reported_defect(uid, metadata) {
            return (message, Requeue::After(BACKSTOP));
        }
        let name = metadata.name.as_deref().unwrap_or_default();
        let api = self.dynamic(metadata);
        // The watch's error has no path: read the object again to find it.
        let read = bounded(api.get(name)).await.ok();
        let found = read.as_ref().and_then(defect::<K>);
        // The error may quote a whole field.
        let error = found.unwrap_or_else(|| error.clone());
        let error: String = error.chars().take(MOST_QUOTED).collect();
        let message = format!("The object does not decode; {error}. {REMEDY}");
        let before = read.as_ref().map(shown_conditions).unwrap_or_default();
        let Some(patch) = status_patch::<K>(metadata, &before, &message) else {
            self.objects.record_defect(uid, metadata, &message);
            return (message, Requeue::After(BACKSTOP));
        };
        let news = EventRecord {
            severity: Severity::Warning,
            reason: Reason::InvalidSpec.into(),
            action: "Wait",
            note: message.clone(),
        };
        let params = patch_params();
        let written = match bounded(api.patch_status(name, &params, &patch)).await {
            Ok(written) => written,
            Err(failure) => {
                let cause = format!("{error}: {}", failure.explain());
                if self.objects.report_failed(uid, &cause).is_news {
                    tracing::warn!(
                        kind = %K::kind(&()),
                        namespace = metadata.namespace,
                        name,
                        cause,
                        "object undecodable"
                    );
                    if failure.is_of_content() {
                        // The only report that users get.
                        self.events.publish(&news, &reference::<K>(metadata)).await;
                    }
                }
                return (message, Requeue::Backoff);
            }
        };
        self.objects.reported(uid);
        self.objects.record_defect(uid, &written.metadata, &message);
        tracing::warn!(
            kind = %K::kind(&()),
            namespace = metadata.namespace,
            name,
            cause = error,
            "object undecodable"
        );
        self.events.publish(&news, &reference::<K>(metadata)).await;
        (message, Requeue::After(BACKSTOP))
    }

    fn dynamic(&self, meta: &ObjectMeta) -> Api<DynamicObject> {
        let kind = ApiResource::erase::<K>(&());
        match &meta.namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &kind),
            None => Api::all_with(self.client.clone(), &kind),
        }
    }
}

/// The status patch. `None` if the status shows this already.
fn status_patch<K: KindApi>(
    meta: &ObjectMeta,
    before: &[Condition],
    message: &str,
) -> Option<Patch<Value>> {
    let explanation = Explanation::stalled(Reason::InvalidSpec, message);
    let now = jiff::Timestamp::now();
    let shown = explanation.to_conditions(None, before, meta.deletion_timestamp.is_some());
    let conditions = conditions::merge(
        before,
        &shown,
        conditions::Generations::same(meta.generation),
        now,
    );
    (conditions != before).then(|| {
        let mut status = json!({ "conditions": conditions, "observedGeneration": meta.generation });
        cut_status::<K>(&mut status);
        Patch::Merge(json!({
            "metadata": { "resourceVersion": meta.resource_version },
            "status": status,
        }))
    })
}

/// The conditions of such an object, as far as they are readable.
fn shown_conditions(object: &DynamicObject) -> Vec<Condition> {
    let conditions = object.data["status"]["conditions"].clone();
    serde_json::from_value(conditions).unwrap_or_default()
}

fn reference<K: KindApi>(meta: &ObjectMeta) -> k8s_openapi::api::core::v1::ObjectReference {
    k8s_openapi::api::core::v1::ObjectReference {
        api_version: Some(K::api_version(&()).into()),
        kind: Some(K::kind(&()).into()),
        name: meta.name.clone(),
        namespace: meta.namespace.clone(),
        uid: meta.uid.clone(),
        resource_version: meta.resource_version.clone(),
        field_path: None,
    }
}

/// Where and why the object does not decode.
fn defect<K: KindApi>(object: &DynamicObject) -> Option<String> {
    let object = serde_json::to_value(object).ok()?;
    let read: Result<K, _> = serde_path_to_error::deserialize(&object);
    let error = read.err()?;
    Some(format!("{}: {}", error.path(), error.inner()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::BareMetalServer;

    #[test]
    fn decode_error_is_reported_with_its_path() {
        let object = json!({
            "apiVersion": "flexmetal.dev/v1alpha1", "kind": "BareMetalServer",
            "metadata": {"name": "n", "namespace": "n"},
            "spec": {"location": "l", "instanceType": "t", "os": "word"},
        });
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        let message = defect::<BareMetalServer>(&object).unwrap();
        assert!(message.starts_with("spec.os: "), "{message}");
    }
}
