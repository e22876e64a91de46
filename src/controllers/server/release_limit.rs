//! Counts a release in the status of its account object before it starts, if the account has a release limit. The write
//! is on the version just read, so each release counts once across restarts and processes.

use super::ServerContext;
use crate::{
    controllers::writes::{ApiServerError, bounded, read_server_time},
    runtime::{clients::patch_params, kind_api::KindApi},
};
use api::{
    ClusterProviderAccount, ProviderAccount, Reason,
    account::AccountStatus,
    references::AccountKind,
    release_limit::{Admission, ReleaseLimit},
};
use flexmetal_core::{
    last_error::LastError,
    server::{
        facts::{ServerFacts, account_of},
        memory::ServerObservation,
    },
};
use kube::{Api, api::Patch, core::object::HasStatus};
use serde_json::json;
use tokio::sync::Mutex;

/// One at a time in this process: parallel counts would only conflict.
static COUNT_LOCK: Mutex<()> = Mutex::const_new(());

/// Counts the release of this server. Err: why it does not start now.
pub(super) async fn count(
    ctx: &ServerContext,
    facts: &ServerFacts,
    uuid: &str,
) -> Result<(), ServerObservation> {
    let account = account_of(&facts.object);
    let client = ctx.client.clone();
    let namespace = facts.object.metadata.namespace.as_deref();
    let _guard = COUNT_LOCK.lock().await;
    let counted = match account.kind {
        AccountKind::ProviderAccount => {
            let api = ProviderAccount::api(client, namespace);
            let of = |a: &ProviderAccount| a.spec.account.release_limit;
            count_at(ctx, &api, &account.name, of, (facts.namespace(), uuid)).await
        }
        AccountKind::ClusterProviderAccount => {
            let api = ClusterProviderAccount::api(client, None);
            let of = |a: &ClusterProviderAccount| a.spec.account.release_limit;
            count_at(ctx, &api, &account.name, of, (facts.namespace(), uuid)).await
        }
    };
    match counted {
        Ok(true) => Ok(()),
        Ok(false) => Err(ServerObservation::Failed(LastError {
            reason: Reason::ReleaseLimited,
            message:
                "The release limit of the account is reached. See status.pendingAcknowledgements of the account"
                    .into(),
        })),
        // Another write changed the account in between.
        Err(failure) if failure.code() == Some(409) => Err(ServerObservation::Stale),
        Err(failure) => Err(ServerObservation::Failed(LastError::from_write(failure.explain()))),
    }
}

/// Whether the release may start. A missing account has no release limit; `of` returns the limit of an account.
async fn count_at<K: KindApi + HasStatus<Status = AccountStatus>>(
    ctx: &ServerContext,
    api: &Api<K>,
    name: &str,
    of: impl Fn(&K) -> Option<ReleaseLimit>,
    (namespace, uuid): (&str, &str),
) -> Result<bool, ApiServerError> {
    let Some(account) = bounded(api.get_opt(name)).await? else {
        return Ok(true);
    };
    let Some(limit) = of(&account) else {
        return Ok(true);
    };
    let now = read_server_time(&ctx.client).await?;
    let status = account.status().and_then(|s| s.release_limit.clone());
    let (next, is_let) = match limit.admit(&status.unwrap_or_default(), namespace, uuid, now) {
        Admission::AlreadyCounted => return Ok(true),
        Admission::Block(None) => return Ok(false),
        Admission::Count(next) => (next, true),
        Admission::Block(Some(next)) => (next, false),
    };
    let patch = Patch::Merge(json!({
        "metadata": { "resourceVersion": account.meta().resource_version },
        "status": { "releaseLimit": next },
    }));
    let params = patch_params();
    bounded(api.patch_status(name, &params, &patch)).await?;
    Ok(is_let)
}
