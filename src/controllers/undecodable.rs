//! An object that does not decode: say so on that object alone; all others go on.

use super::{context::Context, writes::bounded};
use crate::runtime::{clients::patch_params, kind_api::KindApi};
use api::{Reason, bounds::cut_status, conditions};
use flexmetal_core::{
    explanation::Explanation,
    report::{News, Severity},
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

/// Such an object waits for its next version; this is the backstop.
const BACKSTOP: Duration = Duration::from_secs(600);
/// Most characters that are quoted of an error.
const MOST_QUOTED: usize = 220;
/// The remedy in the message of such an object.
const REMEDY: &str = "Correct the field, or apply the manifest again";

impl<K: KindApi, M: Clone + Default + Send> Context<K, M> {
    /// Reports it in log, event and status, which needs no decoded object; once for each version of
    /// it, since whoever it may concern wakes it. Returns the message, and when to look again.
    pub async fn report_undecodable(&self, object: &InvalidObject) -> (String, Requeue) {
        let InvalidObject { error, metadata } = object;
        let uid = metadata.uid.as_deref().unwrap_or_default();
        if let Some(note) = self.objects.reported_defect(uid, metadata) {
            return (note, Requeue::After(BACKSTOP));
        }
        let name = metadata.name.as_deref().unwrap_or_default();
        let api = self.dynamic(metadata);
        // The watch's own error has no path; the object is read once more to find it.
        let read = bounded(api.get(name)).await.ok();
        let found = read.as_ref().and_then(defect::<K>);
        // It may quote a whole field.
        let error = found.unwrap_or_else(|| error.clone());
        let error: String = error.chars().take(MOST_QUOTED).collect();
        let note = format!("The object does not decode; {error}. {REMEDY}");
        let before = read.as_ref().map(shown_conditions).unwrap_or_default();
        let Some(patch) = status_patch::<K>(metadata, &before, &note) else {
            self.objects.record_defect(uid, metadata, &note);
            return (note, Requeue::After(BACKSTOP));
        };
        let news = News {
            severity: Severity::Warning,
            reason: Reason::InvalidSpec.into(),
            action: "Wait",
            note: note.clone(),
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
                        "an object does not decode, and its status cannot be written"
                    );
                    if failure.is_of_content() {
                        // All that users see of it.
                        self.events.publish(&news, &reference::<K>(metadata)).await;
                    }
                }
                return (note, Requeue::Backoff);
            }
        };
        self.objects.reported(uid);
        self.objects.record_defect(uid, &written.metadata, &note);
        tracing::warn!(
            kind = %K::kind(&()),
            namespace = metadata.namespace,
            name,
            error,
            "an object does not decode"
        );
        self.events.publish(&news, &reference::<K>(metadata)).await;
        (note, Requeue::After(BACKSTOP))
    }

    fn dynamic(&self, meta: &ObjectMeta) -> Api<DynamicObject> {
        let kind = ApiResource::erase::<K>(&());
        match &meta.namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &kind),
            None => Api::all_with(self.client.clone(), &kind),
        }
    }
}

/// The status to write; None when it stands already.
fn status_patch<K: KindApi>(
    meta: &ObjectMeta,
    before: &[Condition],
    note: &str,
) -> Option<Patch<Value>> {
    let cause = Explanation::stalled(Reason::InvalidSpec, note);
    let now = jiff::Timestamp::now();
    let shown = cause.shown(None, before, meta.deletion_timestamp.is_some());
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

/// The conditions that such an object shows, as far as they can be read.
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

/// Where the object does not decode, and why.
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
        let told = defect::<BareMetalServer>(&object).unwrap();
        assert!(told.starts_with("spec.os: "), "{told}");
    }
}
