//! An account object read live, right before a call that costs money, a server or its data: the watch may be behind.

use super::{
    context::Process,
    writes::{ApiServerError, bounded},
};
use crate::{account::Account, runtime::kind_api::KindApi};
use api::{
    ClusterProviderAccount, ProviderAccount,
    account::{AccountSpec, AccountStatus},
    allowed::AllowedNamespaces,
    references::{AccountKind, PinnedAccount},
};
use flexmetal_core::{
    account::{decide::suspended, terms::Terms},
    resolved_account::LiveAccount,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// Reads the account object live. `None` if it does not exist, or if another operator serves it.
///
/// # Errors
/// The error of the API server.
pub async fn live_account(
    process: &Process,
    namespace: &str,
    reference: &PinnedAccount,
    account: &Account,
) -> Result<Option<LiveAccount>, ApiServerError> {
    let client = process.client.clone();
    let terms = |entries: Option<&[AllowedNamespaces]>| account.terms_of(entries, namespace);
    let live =
        |meta: &ObjectMeta, spec: &AccountSpec, status: Option<&AccountStatus>, terms: Terms| {
            LiveAccount {
                uid: meta.uid.clone().unwrap_or_default(),
                account_id: status.and_then(|s| s.account_id.clone()),
                defaults: spec.defaults.unwrap_or_default(),
                limits: spec.limits.clone(),
                stopped: suspended(account.key(), spec).or_else(|| terms.suspension()),
                terms,
            }
        };
    Ok(match reference.kind {
        AccountKind::ProviderAccount => {
            let api = ProviderAccount::api(client, Some(namespace));
            let found = bounded(api.get_opt(&reference.name)).await?;
            let found = found.filter(|a| is_own(process, a.status.as_ref()));
            found.map(|a| live(&a.metadata, &a.spec.account, a.status.as_ref(), terms(None)))
        }
        AccountKind::ClusterProviderAccount => {
            let api = ClusterProviderAccount::api(client, None);
            let found = bounded(api.get_opt(&reference.name)).await?;
            let found = found.filter(|a| is_own(process, a.status.as_ref()));
            found.map(|a| {
                let terms = terms(Some(&a.spec.allowed_namespaces));
                live(&a.metadata, &a.spec.account, a.status.as_ref(), terms)
            })
        }
    })
}

/// Whether this operator serves the account.
fn is_own(process: &Process, status: Option<&AccountStatus>) -> bool {
    status.and_then(|status| status.operator_lease.as_ref()) == Some(&process.lease)
}
