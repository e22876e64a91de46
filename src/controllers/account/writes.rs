//! The effects of the account controller: finalizers on the account and its Secret.

use super::{decide::Effect, object::AccountObject, secret};
use crate::kinds::names::{ACCOUNT_FINALIZER, HELD_SECRET};
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api, Client, Resource, ResourceExt as _,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};

/// What the effects are done to.
pub struct Target<'a, K> {
    /// The account, as last read.
    pub object: &'a K,
    /// Namespace of the Secret.
    pub secret_namespace: &'a str,
    /// Name of the Secret that the account asks for now.
    pub secret: &'a str,
}

/// Performs one effect. Returns the account where it was written.
///
/// # Errors
/// What the API server said. A conflict is one too: the next pass stands on what is there then.
pub async fn perform<K: AccountObject>(
    client: &Client,
    target: &Target<'_, K>,
    effect: &Effect,
) -> Result<Option<K>, kube::Error> {
    match effect {
        Effect::HoldAccount => write_account(client, target, true, Some(target.secret)).await,
        Effect::HoldSecret => {
            write_secret(client, target.secret_namespace, target.secret, true).await?;
            Ok(None)
        }
        Effect::LetSecretGo { name } => {
            write_secret(client, target.secret_namespace, name, false).await?;
            Ok(None)
        }
        Effect::MoveHold { from } => {
            if let Some(from) = from {
                write_secret(client, target.secret_namespace, from, false).await?;
            }
            write_account(client, target, true, Some(target.secret)).await
        }
        Effect::LetAccountGo => write_account(client, target, false, None).await,
    }
}

async fn write_account<K: AccountObject>(
    client: &Client,
    target: &Target<'_, K>,
    held: bool,
    secret: Option<&str>,
) -> Result<Option<K>, kube::Error> {
    let meta = target.object.meta();
    let api = K::api(client.clone(), meta.namespace.as_deref());
    let mut patch = finalizer_patch(target.object, held);
    patch["metadata"]["annotations"] = json!({ HELD_SECRET: secret });
    let written = api
        .patch(
            &target.object.name_any(),
            &PatchParams::default(),
            &Patch::Merge(patch),
        )
        .await;
    gone_is_done(written.map(Some))
}

async fn write_secret(
    client: &Client,
    namespace: &str,
    name: &str,
    held: bool,
) -> Result<(), kube::Error> {
    let api = Api::<Secret>::namespaced(client.clone(), namespace);
    let Some(fresh) = api.get_opt(name).await? else {
        return Ok(());
    };
    let has = fresh.finalizers().iter().any(|f| f == ACCOUNT_FINALIZER);
    if has == held {
        return Ok(());
    }
    let patch = Patch::Merge(finalizer_patch(&fresh, held));
    let written = api.patch(name, &PatchParams::default(), &patch).await;
    gone_is_done(written.map(drop))
}

/// The finalizers with ours put on or taken off, under the condition that nobody wrote meanwhile.
fn finalizer_patch(object: &impl Resource, held: bool) -> Value {
    let others = object.meta().finalizers.iter().flatten();
    let mut finalizers: Vec<&str> = others
        .map(String::as_str)
        .filter(|f| *f != ACCOUNT_FINALIZER)
        .collect();
    if held {
        finalizers.push(ACCOUNT_FINALIZER);
    }
    json!({"metadata": {
        "resourceVersion": object.meta().resource_version,
        "finalizers": finalizers,
    }})
}

fn gone_is_done<T: Default>(result: Result<T, kube::Error>) -> Result<T, kube::Error> {
    match result {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(T::default()),
        other => other,
    }
}

/// Takes the finalizer off the Secret of an account that is gone. Nobody remembers it after this.
pub async fn let_go_after(client: &Client, namespace: &str, name: &str) {
    if let Err(error) = write_secret(client, namespace, name, false).await {
        tracing::warn!(
            namespace,
            name,
            cause = secret::explain(&error),
            "the Secret of an account that is gone keeps its finalizer"
        );
    }
}
