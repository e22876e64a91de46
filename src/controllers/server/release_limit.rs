//! A release is counted at its account before it begins, where the account has a release limit: in the status of the
//! account object, on the version just read, so that neither a restart nor a second process counts it twice or not at all.

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

/// One at a time in this process: many that are deleted at once would only meet each other's versions.
static COUNT_LOCK: Mutex<()> = Mutex::const_new(());

/// Counts the release of this machine. An error says why it does not begin now.
pub(super) async fn count(
    ctx: &ServerContext,
    facts: &ServerFacts,
    uuid: &str,
) -> Result<(), ServerObservation> {
    let account = account_of(&facts.object);
    let client = ctx.client.clone();
    let namespace = facts.object.metadata.namespace.as_deref();
    let _turn = COUNT_LOCK.lock().await;
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
        // Somebody wrote the account in between.
        Err(failure) if failure.code() == Some(409) => Err(ServerObservation::Stale),
        Err(failure) => Err(ServerObservation::Failed(LastError::from_write(failure.explain()))),
    }
}

/// Whether the release may begin. What is gone has no release limit; `of` says what an account has.
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
