//! Reads and writes of objects, each write with a resource version as its precondition. A write without an answer may
//! have been done. Nothing here repeats one.

use super::context::{Context, Process};
use crate::runtime::{clients::patch_params, clock, kind_api::KindApi};
use api::{Kind, bounds::cut_status};
use hyper::{Request, header::DATE};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, Patch, Preconditions},
    client::Body,
};
use serde_json::{Map, Value, json};
use std::{future::Future, sync::Arc, time::Duration};
use tokio::sync::Semaphore;

/// How a write ended.
pub enum WriteOutcome<K> {
    /// Done, with the object as it is now.
    Done(Arc<K>),
    /// Rejected, because the object changed in between or is deleted.
    Stale,
    /// Not known, or failed otherwise.
    Unknown(ApiServerError),
}

/// A call to the API server without a result.
#[derive(Debug, thiserror::Error)]
pub enum ApiServerError {
    /// The API server refused, or was not reachable.
    #[error("The API server did not do it")]
    Api(#[source] Box<kube::Error>),
    /// The answer does not decode. The error is dropped, since it may quote a Secret.
    #[error("The answer of the API server does not decode")]
    Undecodable,
    /// The answer has no Date header.
    #[error("The answer of the API server has no Date header; a proxy may have removed it")]
    NoDate,
    /// No answer in time.
    #[error("The API server did not answer in time")]
    Deadline,
}

impl ApiServerError {
    /// Text for a condition or an event: the API server's message, if any. Never what was read, which other errors may
    /// quote.
    pub fn explain(&self) -> String {
        match self {
            Self::Api(error) => match &**error {
                kube::Error::Api(status) => status.message.chars().take(MOST_EXPLAINED).collect(),
                _ => "The API server gave no usable answer".into(),
            },
            Self::Undecodable | Self::NoDate | Self::Deadline => self.to_string(),
        }
    }

    /// The HTTP status, if the API server answered.
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Api(error) => match &**error {
                kube::Error::Api(status) => Some(status.code),
                _ => None,
            },
            Self::Undecodable | Self::NoDate | Self::Deadline => None,
        }
    }

    /// Whether the API server rejects the content, whoever writes it.
    pub fn is_of_content(&self) -> bool {
        matches!(self.code(), Some(400 | 413 | 422))
    }

    /// Whether the API server certainly did not do it: it refused, and not because of an error of its own. A conflict
    /// or a deleted object is [`WriteOutcome::Stale`] instead.
    pub fn is_refusal(&self) -> bool {
        matches!(
            self.code(),
            Some(400 | 401 | 403 | 405 | 413 | 415 | 422 | 429)
        )
    }
}

/// Maximum characters of the API server's message in conditions and events.
const MOST_EXPLAINED: usize = 300;
/// Timeout of a call to the API server.
const DEADLINE: Duration = Duration::from_secs(20);

/// Calls about objects at once, over all kinds. Each answer is in memory as text while it is decoded, and may have half
/// a MiB: users can add 256 KiB of annotations.
static AT_ONCE: Semaphore = Semaphore::const_new(12);

/// Limits the number of calls, and the time of each call once it starts.
pub async fn bounded<T>(
    call: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, ApiServerError> {
    // The semaphore is never closed, and no call with a permit waits for another permit.
    let _permit = AT_ONCE.acquire().await;
    match tokio::time::timeout(DEADLINE, call).await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(kube::Error::SerdeError(_))) => Err(ApiServerError::Undecodable),
        Ok(Err(error)) => Err(ApiServerError::Api(Box::new(error))),
        Err(_) => Err(ApiServerError::Deadline),
    }
}

/// Reads the API server's clock, in Unix seconds: every answer has the time, also a refusal.
pub async fn read_server_time(client: &Client) -> Result<i64, ApiServerError> {
    let request = Request::get("/version").body(Body::empty());
    let request = request.map_err(|_| ApiServerError::Undecodable)?;
    let answer = bounded(client.send(request)).await?;
    if answer.status().is_server_error() {
        // A proxy answers for an API server that it cannot connect to.
        return Err(ApiServerError::Undecodable);
    }
    let date = answer
        .headers()
        .get(DATE)
        .and_then(|date| date.to_str().ok());
    let date = date.and_then(|date| jiff::fmt::rfc2822::parse(date).ok());
    date.map(|date| date.timestamp().as_second())
        .ok_or(ApiServerError::NoDate)
}

impl<K: KindApi, M: Clone + Default + Send> Context<K, M> {
    /// Reads the object live. `None` if it is deleted or another object has its name.
    pub async fn read_object(&self, object: &K) -> Result<Option<Arc<K>>, ApiServerError> {
        let asked = clock::now().mono;
        let found = bounded(self.api(object).get_opt(&object.name_any())).await?;
        let found = found.filter(|o| o.meta().uid == object.meta().uid);
        Ok(found.map(|found| self.objects.record_read(found, asked)))
    }

    /// Changes metadata by a merge patch, with the version of `object` as the precondition.
    pub async fn write_metadata(&self, object: &K, mut metadata: Value) -> WriteOutcome<K> {
        metadata["resourceVersion"] = json!(object.meta().resource_version);
        metadata["uid"] = json!(object.meta().uid);
        let patch = Patch::Merge(json!({ "metadata": metadata }));
        let params = patch_params();
        let written = bounded(self.api(object).patch(&object.name_any(), &params, &patch)).await;
        self.settle_logged(object, written)
    }

    /// Deletes the object if it is unchanged since the read. Without finalizers it is gone at once, which is
    /// [`WriteOutcome::Stale`].
    pub async fn delete(&self, object: &K) -> WriteOutcome<K> {
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                uid: object.meta().uid.clone(),
                resource_version: object.meta().resource_version.clone(),
            }),
            ..DeleteParams::default()
        };
        let name = object.name_any();
        let call = self.api(object);
        match bounded(call.delete(&name, &params)).await {
            Ok(deleted) => match deleted.left() {
                Some(deleted) => self.settle(Ok(deleted)),
                None => WriteOutcome::Stale,
            },
            Err(failure) => self.settle_logged(object, Err(failure)),
        }
    }

    /// Updates the status by a merge patch, with the readable part of its records and cut to the bounds of its schema.
    /// `None` if nothing differs.
    pub async fn write_status(&self, object: &K, status: &K::Status) -> Option<WriteOutcome<K>> {
        let before = serde_json::to_value(object.status()).ok()?;
        let mut status = status.clone();
        K::show_records(&mut status);
        let mut after = serde_json::to_value(status).ok()?;
        cut_status::<K>(&mut after);
        let version = object.meta().resource_version.as_deref();
        let patch = Patch::Merge(status_patch(&before, &after, version)?);
        let params = patch_params();
        let call = self.api(object);
        let written = bounded(call.patch_status(&object.name_any(), &params, &patch)).await;
        Some(self.settle(written))
    }

    /// Whether the kind itself is being deleted. `None` if that cannot be read.
    pub async fn is_kind_deleting(&self) -> Option<bool> {
        self.is_deleting::<K>().await
    }

    fn settle_logged(&self, object: &K, result: Result<K, ApiServerError>) -> WriteOutcome<K> {
        let outcome = self.settle(result);
        if let WriteOutcome::Unknown(failure) = &outcome {
            tracing::warn!(
                kind = %K::kind(&()),
                namespace = object.meta().namespace,
                name = object.meta().name,
                error = failure.explain(),
                "object write failed"
            );
        }
        outcome
    }

    fn settle(&self, result: Result<K, ApiServerError>) -> WriteOutcome<K> {
        match result {
            Ok(object) => WriteOutcome::Done(self.objects.record_written(object)),
            Err(failure) if matches!(failure.code(), Some(404 | 409)) => WriteOutcome::Stale,
            Err(failure) => WriteOutcome::Unknown(failure),
        }
    }

    fn api(&self, object: &K) -> Api<K> {
        K::api(self.client.clone(), object.meta().namespace.as_deref())
    }
}

impl Process {
    /// Whether a kind is being deleted. `None` if that cannot be read. Read each time: an answer that comes too late
    /// would release servers that should stay.
    pub async fn is_deleting<K: Kind>(&self) -> Option<bool> {
        let api: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        let name = format!("{}.{}", K::plural(&()), K::group(&()));
        match bounded(api.get_metadata(&name)).await {
            Ok(crd) => Some(crd.metadata.deletion_timestamp.is_some()),
            Err(failure) if failure.code() == Some(404) => Some(true),
            Err(error) => {
                tracing::warn!(
                    kind = %K::kind(&()),
                    error = &error as &dyn std::error::Error,
                    "kind read failed"
                );
                None
            }
        }
    }
}

/// The finalizers of an object, with this one added.
pub fn with_finalizer<K: Kind>(object: &K, finalizer: &str) -> Vec<String> {
    let mut finalizers = without_finalizer(object, finalizer);
    finalizers.push(finalizer.into());
    finalizers
}

/// The finalizers of an object without this one.
pub fn without_finalizer(object: &impl kube::Resource, finalizer: &str) -> Vec<String> {
    let finalizers = object.meta().finalizers.iter().flatten();
    finalizers.filter(|f| *f != finalizer).cloned().collect()
}

/// The merge patch from one status to another. `None` if nothing differs. With the resource version, the API server
/// rejects it (409) after another write: a decision on an old object must not be recorded on a new one.
fn status_patch(before: &Value, after: &Value, resource_version: Option<&str>) -> Option<Value> {
    let status = difference(before, after)?;
    let mut patch = json!({ "status": status });
    if let Some(version) = resource_version {
        patch["metadata"] = json!({ "resourceVersion": version });
    }
    Some(patch)
}
/// A JSON merge patch. `None` if both are equal. Removed fields become null, since a merge patch keeps what it does not
/// name.
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

    /// Merges as RFC 7396 defines it.
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
                match status_patch(before, after, Some("5")) {
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
