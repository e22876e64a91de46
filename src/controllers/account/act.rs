//! Effects of the account controller: finalizers on account and Secret, so that the key exists until the last release.

use super::{object::AccountObject, reconcile::AccountContext, secret::is_key_secret};
use crate::{
    controllers::{
        context::Process,
        writes::{ApiServerError, WriteOutcome, bounded, with_finalizer, without_finalizer},
    },
    runtime::clients::patch_params,
};
use api::names::{ACCOUNT_FINALIZER, SECRET_WITH_FINALIZER};
use flexmetal_core::account::decide::AccountEffect;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, api::Patch};
use serde_json::{Value, json};
use std::sync::Arc;

/// The account and its key Secret.
pub struct FinalizerTarget<'a, K> {
    /// The account, as last read.
    pub object: &'a Arc<K>,
    /// Namespace of the Secret.
    pub secret_namespace: &'a str,
    /// Name of the Secret that the spec refers to.
    pub secret: &'a str,
}

/// Carries out one effect. Returns false if another writer changed the account in between.
///
/// # Errors
/// The error of the API server, also a conflict on the Secret: the next reconcile reads the current state.
pub async fn act<K: AccountObject>(
    ctx: &AccountContext<K>,
    target: &FinalizerTarget<'_, K>,
    effect: &AccountEffect,
) -> Result<bool, ApiServerError> {
    let namespace = target.secret_namespace;
    match effect {
        AccountEffect::AddAccountFinalizer => write_account(ctx, target, Some(target.secret)).await,
        AccountEffect::AddSecretFinalizer => {
            write_secret(ctx, namespace, target.secret, FinalizerChange::Add)
                .await
                .map(|()| true)
        }
        AccountEffect::RemoveSecretFinalizer { name } => {
            write_secret(ctx, namespace, name, FinalizerChange::Remove)
                .await
                .map(|()| true)
        }
        AccountEffect::ClearWrongSecret => {
            write_secret(ctx, namespace, target.secret, FinalizerChange::Clear)
                .await
                .map(|()| true)
        }
        AccountEffect::MoveSecretFinalizer { from } => {
            if let Some(from) = from {
                write_secret(ctx, namespace, from, FinalizerChange::Remove).await?;
            }
            write_account(ctx, target, Some(target.secret)).await
        }
        AccountEffect::RemoveAccountFinalizer => write_account(ctx, target, None).await,
    }
}

/// Adds the account's finalizer and records the name of the Secret that has one too. `None` removes both.
async fn write_account<K: AccountObject>(
    ctx: &AccountContext<K>,
    target: &FinalizerTarget<'_, K>,
    secret: Option<&str>,
) -> Result<bool, ApiServerError> {
    let object = &**target.object;
    let finalizers = match secret {
        Some(_) => with_finalizer(object, ACCOUNT_FINALIZER),
        None => without_finalizer(object, ACCOUNT_FINALIZER),
    };
    let metadata = json!({
        "finalizers": finalizers,
        "annotations": { SECRET_WITH_FINALIZER: secret },
    });
    settle(ctx, target, ctx.write_metadata(object, metadata).await).await
}

async fn settle<K: AccountObject>(
    ctx: &AccountContext<K>,
    target: &FinalizerTarget<'_, K>,
    written: WriteOutcome<K>,
) -> Result<bool, ApiServerError> {
    match written {
        WriteOutcome::Done(_) => Ok(true),
        // The watch may be behind: without this read, the next reconcile would repeat the same write.
        WriteOutcome::Stale => ctx.read_object(&**target.object).await.map(|_| false),
        WriteOutcome::Unknown(failure) => Err(failure),
    }
}

/// A change of the finalizer on a Secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FinalizerChange {
    /// Add it if this is a key Secret.
    Add,
    /// Remove it.
    Remove,
    /// Remove it if this is no key Secret.
    Clear,
}

async fn write_secret(
    process: &Process,
    namespace: &str,
    name: &str,
    change: FinalizerChange,
) -> Result<(), ApiServerError> {
    let Some(fresh) = process.secret(namespace, name).await? else {
        return Ok(());
    };
    let finalizers = fresh.metadata.finalizers.iter().flatten();
    let has = finalizers.into_iter().any(|f| f == ACCOUNT_FINALIZER);
    let is_added = change == FinalizerChange::Add;
    if has == is_added {
        return Ok(());
    }
    // The Secret may have been replaced. The next reconcile reports what is wrong with it.
    match change {
        FinalizerChange::Add if !is_key_secret(&fresh) => return Ok(()),
        FinalizerChange::Clear if is_key_secret(&fresh) => return Ok(()),
        FinalizerChange::Add | FinalizerChange::Remove | FinalizerChange::Clear => {}
    }
    let mut finalizers = without_finalizer(&fresh, ACCOUNT_FINALIZER);
    if is_added {
        finalizers.push(ACCOUNT_FINALIZER.into());
    }
    // The write fails if the Secret has changed since the read.
    let patch: Patch<Value> = Patch::Merge(json!({"metadata": {
        "resourceVersion": fresh.metadata.resource_version,
        "finalizers": finalizers,
    }}));
    let api = Api::<Secret>::namespaced(process.client.clone(), namespace);
    match bounded(api.patch(name, &patch_params(), &patch)).await {
        Ok(_) => Ok(()),
        // A missing Secret is an error too: the next reconcile reads it after a backoff. Counted as success, a read and
        // a write that contradict each other would loop without a delay.
        Err(failure) => Err(failure),
    }
}

/// Removes the finalizer from the Secret of a deleted account.
///
/// # Errors
/// The error of the API server.
pub async fn remove_from_secret(
    process: &Process,
    namespace: &str,
    name: &str,
) -> Result<(), ApiServerError> {
    write_secret(process, namespace, name, FinalizerChange::Remove).await
}

/// Text of a failure for a condition or an event, with the remedy if a permission is missing.
pub fn explain(failure: &ApiServerError) -> String {
    let why = failure.explain();
    match failure.code() {
        Some(403) => format!("{why} (grant the operator the verbs get and patch on it)"),
        _ => why,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controllers::api_server_tests::{Answer, TestApiServer, no};
    use api::names::API_KEY_SECRET;

    #[tokio::test]
    async fn secret_of_other_type_keeps_no_finalizer() {
        let secret = |finalizers: &[&str]| {
            let metadata = json!({"name": "s", "namespace": "n", "finalizers": finalizers});
            Answer::Says(200, json!({ "metadata": metadata, "type": "Opaque" }))
        };
        let finalized = || secret(&[ACCOUNT_FINALIZER]);
        let answers = [
            secret(&[]),
            finalized(),
            secret(&[]),
            finalized(),
            secret(&[]),
        ];
        let floor = TestApiServer::start(answers).await;
        let write = async |change| write_secret(&floor.ctx, "n", "s", change).await.unwrap();
        write(FinalizerChange::Add).await;
        assert_eq!(floor.requests().len(), 1, "it was only read");
        write(FinalizerChange::Remove).await;
        assert_eq!(floor.requests().len(), 3, "read and written");
        write(FinalizerChange::Clear).await;
        assert_eq!(floor.requests().len(), 5, "read and written");
    }

    #[tokio::test]
    async fn replacement_key_secret_keeps_its_finalizer() {
        let metadata = json!({"name": "s", "namespace": "n", "finalizers": [ACCOUNT_FINALIZER]});
        let secret = json!({ "metadata": metadata, "type": API_KEY_SECRET });
        let floor = TestApiServer::start([Answer::Says(200, secret)]).await;
        write_secret(&floor.ctx, "n", "s", FinalizerChange::Clear)
            .await
            .unwrap();
        assert_eq!(floor.requests().len(), 1, "it was only read");
    }

    #[tokio::test]
    async fn invalid_secret_name_sends_no_request() {
        let floor = TestApiServer::start([]).await;
        // Any user who can edit the account can set the annotation `secret-with-finalizer`.
        for forged in ["../../pods/x", "a/b", "..", "", "x?limit=1", "%2e%2e", "A"] {
            for change in [FinalizerChange::Add, FinalizerChange::Remove] {
                write_secret(&floor.ctx, "n", forged, change).await.unwrap();
            }
            remove_from_secret(&floor.ctx, "n", forged).await.unwrap();
        }
        assert!(floor.requests().is_empty(), "{:?}", floor.requests());
    }

    #[tokio::test]
    async fn finalizer_write_to_missing_secret_fails() {
        let secret = |finalizers: &[&str]| {
            let metadata = json!({"name": "s", "namespace": "n", "finalizers": finalizers});
            Answer::Says(200, json!({ "metadata": metadata, "type": API_KEY_SECRET }))
        };
        let answers = [
            secret(&[]),
            no(404, "not found"),
            secret(&[ACCOUNT_FINALIZER]),
            no(404, "not found"),
            no(404, "not found"),
        ];
        let floor = TestApiServer::start(answers).await;
        for change in [FinalizerChange::Add, FinalizerChange::Remove] {
            let failure = write_secret(&floor.ctx, "n", "s", change)
                .await
                .unwrap_err();
            assert_eq!(failure.code(), Some(404));
        }
        // A missing Secret has no finalizer, so nothing is written.
        write_secret(&floor.ctx, "n", "s", FinalizerChange::Remove)
            .await
            .unwrap();
        assert_eq!(floor.requests().len(), 5);
    }
}
