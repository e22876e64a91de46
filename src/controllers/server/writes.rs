//! Writes to a server object, each with the resource version that it rests on.
//!
//! A write whose answer is lost may have been done. Nothing here repeats one.

use super::run::Context;
use crate::kinds::{
    BareMetalServer,
    names::{ORDER_ANNOTATION, RELEASE_ANNOTATION, SERVER_FINALIZER},
    server::{BareMetalServerStatus, Intent},
};
use kube::{
    Api, ResourceExt as _,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};
use std::{future::Future, sync::Arc, time::Duration};

/// How a write ended.
pub enum Written {
    /// Done; the object as it is now.
    Done(Arc<BareMetalServer>),
    /// Refused, because the object changed in between or is gone.
    Stale,
    /// Not known, or failed otherwise.
    Unknown(Failure),
}

/// A call to the API server that gave no result.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The API server said no, or could not be reached.
    #[error("the API server did not do it")]
    Api(#[source] Box<kube::Error>),
    /// No answer in time.
    #[error("the API server did not answer in time")]
    Deadline,
}

/// No call to the API server is worth a longer wait.
const DEADLINE: Duration = Duration::from_secs(20);

/// Bounds a call in time.
pub async fn bounded<T>(call: impl Future<Output = Result<T, kube::Error>>) -> Result<T, Failure> {
    match tokio::time::timeout(DEADLINE, call).await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(error)) => Err(Failure::Api(Box::new(error))),
        Err(_) => Err(Failure::Deadline),
    }
}

/// The object as the API server has it now; None when it is gone or another one has its name.
pub async fn read(
    ctx: &Context,
    object: &BareMetalServer,
) -> Result<Option<Arc<BareMetalServer>>, Failure> {
    let found = bounded(api(ctx, object).get_opt(&object.name_any())).await?;
    let found = found.filter(|o| o.uid() == object.uid()).map(Arc::new);
    if let Some(found) = &found {
        ctx.objects.keep_latest(found.clone());
    }
    Ok(found)
}

/// Finalizer and order annotation, in one write.
pub async fn intent(ctx: &Context, object: &BareMetalServer, intent: &Intent) -> Written {
    let text = match serde_json::to_string(intent) {
        Ok(text) => text,
        Err(_) => return Written::Stale,
    };
    let annotations = json!({ ORDER_ANNOTATION: text, RELEASE_ANNOTATION: Value::Null });
    metadata(
        ctx,
        object,
        json!({ "annotations": annotations, "finalizers": with_finalizer(object) }),
    )
    .await
}

/// The finalizer alone.
pub async fn hold(ctx: &Context, object: &BareMetalServer) -> Written {
    metadata(ctx, object, json!({ "finalizers": with_finalizer(object) })).await
}

/// The machine whose release begins.
pub async fn release_begun(ctx: &Context, object: &BareMetalServer, uuid: &str) -> Written {
    metadata(
        ctx,
        object,
        json!({ "annotations": { RELEASE_ANNOTATION: uuid } }),
    )
    .await
}

/// Takes our finalizer off.
pub async fn let_go(ctx: &Context, object: &BareMetalServer) -> Written {
    let rest: Vec<&String> = object
        .metadata
        .finalizers
        .iter()
        .flatten()
        .filter(|f| *f != SERVER_FINALIZER)
        .collect();
    metadata(ctx, object, json!({ "finalizers": rest })).await
}

/// The status, as the difference to what is there. None when there is none.
pub async fn status(
    ctx: &Context,
    object: &BareMetalServer,
    status: &BareMetalServerStatus,
) -> Option<Written> {
    let before = serde_json::to_value(&object.status).ok()?;
    let after = serde_json::to_value(status).ok()?;
    let patch = crate::controllers::status::patch(
        &before,
        &after,
        object.metadata.resource_version.as_deref(),
    )?;
    let params = PatchParams::default();
    Some(settle(
        ctx,
        bounded(api(ctx, object).patch_status(&object.name_any(), &params, &Patch::Merge(&patch)))
            .await,
    ))
}

async fn metadata(ctx: &Context, object: &BareMetalServer, mut metadata: Value) -> Written {
    metadata["resourceVersion"] = json!(object.metadata.resource_version);
    metadata["uid"] = json!(object.metadata.uid);
    let patch = Patch::Merge(json!({ "metadata": metadata }));
    settle(
        ctx,
        bounded(api(ctx, object).patch(&object.name_any(), &PatchParams::default(), &patch)).await,
    )
}

fn settle(ctx: &Context, result: Result<BareMetalServer, Failure>) -> Written {
    match result {
        Ok(object) => {
            let object = Arc::new(object);
            ctx.objects.keep_latest(object.clone());
            Written::Done(object)
        }
        Err(Failure::Api(error)) => match *error {
            kube::Error::Api(ref status) if status.code == 409 || status.code == 404 => {
                Written::Stale
            }
            _ => Written::Unknown(Failure::Api(error)),
        },
        Err(failure) => Written::Unknown(failure),
    }
}

fn with_finalizer(object: &BareMetalServer) -> Vec<String> {
    let mut finalizers = object.metadata.finalizers.clone().unwrap_or_default();
    if !finalizers.iter().any(|f| f == SERVER_FINALIZER) {
        finalizers.push(SERVER_FINALIZER.into());
    }
    finalizers
}

fn api(ctx: &Context, object: &BareMetalServer) -> Api<BareMetalServer> {
    Api::namespaced(ctx.client.clone(), &object.namespace().unwrap_or_default())
}
