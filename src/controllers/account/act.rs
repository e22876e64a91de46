//! The effects of the account controller: finalizers on the account and its Secret.

use super::{object::AccountObject, pass::AccountContext, secret::is_key_secret};
use crate::{
    controllers::{
        context::Process,
        writes::{ApiServerError, WriteOutcome, bounded, with_finalizer, without_finalizer},
    },
    runtime::clients::patch_params,
};
use api::names::{ACCOUNT_FINALIZER, HELD_SECRET};
use flexmetal_core::account::decide::AccountEffect;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, api::Patch};
use serde_json::{Value, json};
use std::sync::Arc;

/// What the effects are done to.
pub struct FinalizerTarget<'a, K> {
    /// The account, as last read.
    pub object: &'a Arc<K>,
    /// Namespace of the Secret.
    pub secret_namespace: &'a str,
    /// Name of the Secret that the account asks for now.
    pub secret: &'a str,
}

/// Carries out one effect. False: somebody else wrote the account in between.
///
/// # Errors
/// What the API server said. A conflict on the Secret is one too: the next pass reads the present state.
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

/// The finalizer of an account, with the name of the Secret that bears it too; None takes both off.
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
        "annotations": { HELD_SECRET: secret },
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
        // The watch may be behind: the next pass must not try the same again.
        WriteOutcome::Stale => ctx.read_object(&**target.object).await.map(|_| false),
        WriteOutcome::Unknown(failure) => Err(failure),
    }
}

/// What to do with the finalizer of a Secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FinalizerChange {
    /// Put it on, if this is a key Secret.
    Add,
    /// Take it off.
    Remove,
    /// Take it off, if this is no key Secret.
    Clear,
}

async fn write_secret(
    process: &Process,
    namespace: &str,
    name: &str,
    hold: FinalizerChange,
) -> Result<(), ApiServerError> {
    let Some(fresh) = process.secret(namespace, name).await? else {
        return Ok(());
    };
    let finalizers = fresh.metadata.finalizers.iter().flatten();
    let has = finalizers.into_iter().any(|f| f == ACCOUNT_FINALIZER);
    let is_held = hold == FinalizerChange::Add;
    if has == is_held {
        return Ok(());
    }
    // Another Secret of that name may be there by now. The next pass says what is wrong with it.
    match hold {
        FinalizerChange::Add if !is_key_secret(&fresh) => return Ok(()),
        FinalizerChange::Clear if is_key_secret(&fresh) => return Ok(()),
        FinalizerChange::Add | FinalizerChange::Remove | FinalizerChange::Clear => {}
    }
    let mut finalizers = without_finalizer(&fresh, ACCOUNT_FINALIZER);
    if is_held {
        finalizers.push(ACCOUNT_FINALIZER.into());
    }
    // Under the condition that nobody wrote meanwhile.
    let patch: Patch<Value> = Patch::Merge(json!({"metadata": {
        "resourceVersion": fresh.metadata.resource_version,
        "finalizers": finalizers,
    }}));
    let api = Api::<Secret>::namespaced(process.client.clone(), namespace);
    match bounded(api.patch(name, &patch_params(), &patch)).await {
        Ok(_) => Ok(()),
        // Also where the Secret is gone: the next pass reads that, after a pause. Taken for done, an
        // answer that contradicts the read before it would come again and again.
        Err(failure) => Err(failure),
    }
}

/// Takes the finalizer off the Secret of an account that is gone. Nobody remembers it after this.
///
/// # Errors
/// What the API server said.
pub async fn remove_from_secret(
    process: &Process,
    namespace: &str,
    name: &str,
) -> Result<(), ApiServerError> {
    write_secret(process, namespace, name, FinalizerChange::Remove).await
}

/// A failure for a condition or an event, with the remedy where a right is missing.
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
        let held = || secret(&[ACCOUNT_FINALIZER]);
        let answers = [secret(&[]), held(), secret(&[]), held(), secret(&[])];
        let floor = TestApiServer::start(answers).await;
        let write = async |hold| write_secret(&floor.ctx, "n", "s", hold).await.unwrap();
        write(FinalizerChange::Add).await;
        assert_eq!(floor.asked().len(), 1, "it was only read");
        write(FinalizerChange::Remove).await;
        assert_eq!(floor.asked().len(), 3, "read and written");
        write(FinalizerChange::Clear).await;
        assert_eq!(floor.asked().len(), 5, "read and written");
    }

    #[tokio::test]
    async fn replacement_key_secret_keeps_its_finalizer() {
        let metadata = json!({"name": "s", "namespace": "n", "finalizers": [ACCOUNT_FINALIZER]});
        let secret = json!({ "metadata": metadata, "type": API_KEY_SECRET });
        let floor = TestApiServer::start([Answer::Says(200, secret)]).await;
        write_secret(&floor.ctx, "n", "s", FinalizerChange::Clear)
            .await
            .unwrap();
        assert_eq!(floor.asked().len(), 1, "it was only read");
    }

    #[tokio::test]
    async fn invalid_secret_name_sends_no_request() {
        let floor = TestApiServer::start([]).await;
        // What stands in the annotation `held-secret` may have been written by anybody.
        for forged in ["../../pods/x", "a/b", "..", "", "x?limit=1", "%2e%2e", "A"] {
            for hold in [FinalizerChange::Add, FinalizerChange::Remove] {
                write_secret(&floor.ctx, "n", forged, hold).await.unwrap();
            }
            remove_from_secret(&floor.ctx, "n", forged).await.unwrap();
        }
        assert!(floor.asked().is_empty(), "{:?}", floor.asked());
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
        for hold in [FinalizerChange::Add, FinalizerChange::Remove] {
            let failure = write_secret(&floor.ctx, "n", "s", hold).await.unwrap_err();
            assert_eq!(failure.code(), Some(404));
        }
        // One that is not even shown bears no finalizer.
        write_secret(&floor.ctx, "n", "s", FinalizerChange::Remove)
            .await
            .unwrap();
        assert_eq!(floor.asked().len(), 5);
    }
}
