//! What an account object and a namespace say at this moment, read live: right before what costs money, a machine or its
//! data. Their watches may be behind.

use super::{
    context::Process,
    namespaces,
    writes::{Failure, bounded},
};
use crate::{account::Account, runtime::kind_api::KindApi};
use api::{
    ClusterProviderAccount, ProviderAccount,
    account::{AccountSpec, AccountStatus},
    allowed::AllowedNamespaces,
    references::{AccountKind, PinnedAccount},
};
use flexmetal_core::account_facts::LiveAccount;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// What the account object and the namespace say now. None: the account is not there.
///
/// # Errors
/// When the API server does not give it.
pub async fn live_account(
    process: &Process,
    namespace: &str,
    reference: &PinnedAccount,
    account: &Account,
) -> Result<Option<LiveAccount>, Failure> {
    let client = process.client.clone();
    let is_namespace_suspended = namespaces::is_suspended(process, namespace).await?;
    let terms = |entries: Option<&[AllowedNamespaces]>| account.terms_of(entries, namespace);
    let live = |meta: &ObjectMeta, spec: &AccountSpec, status: Option<&AccountStatus>, terms| {
        LiveAccount {
            uid: meta.uid.clone().unwrap_or_default(),
            lineage: status.and_then(|s| s.lineage.clone()),
            defaults: spec.defaults.unwrap_or_default(),
            is_namespace_suspended,
            terms,
        }
    };
    Ok(match reference.kind {
        AccountKind::ProviderAccount => {
            let api = ProviderAccount::api(client, Some(namespace));
            let found = bounded(api.get_opt(&reference.name)).await?;
            found.map(|a| live(&a.metadata, &a.spec.account, a.status.as_ref(), terms(None)))
        }
        AccountKind::ClusterProviderAccount => {
            let api = ClusterProviderAccount::api(client, None);
            let found = bounded(api.get_opt(&reference.name)).await?;
            found.map(|a| {
                let terms = terms(Some(&a.spec.allowed_namespaces));
                live(&a.metadata, &a.spec.account, a.status.as_ref(), terms)
            })
        }
    })
}
