//! What the two kinds of account object have in common.

use crate::{
    account::AccountKey,
    kinds::{
        ClusterProviderAccount, ProviderAccount,
        account::{AccountSpec, AccountStatus, AllowedNamespaces},
        references::AccountKind,
    },
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use std::fmt::Debug;

/// One of the two kinds.
pub trait AccountObject:
    Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static
{
    /// Which of the two.
    const KIND: AccountKind;

    /// What both kinds ask for.
    fn spec(&self) -> &AccountSpec;
    /// What is written of it.
    fn status(&self) -> Option<&AccountStatus>;
    /// Which namespaces may use it; None for the kind that serves its own.
    fn allowed(&self) -> Option<&AllowedNamespaces>;
    /// The API to write one of these.
    fn api(client: Client, namespace: Option<&str>) -> Api<Self>;
}

/// The name in the registry of an object of this kind.
pub fn key(kind: AccountKind, meta: &ObjectMeta) -> AccountKey {
    AccountKey {
        kind,
        namespace: meta.namespace.clone(),
        name: meta.name.clone().unwrap_or_default(),
    }
}

impl AccountObject for ProviderAccount {
    const KIND: AccountKind = AccountKind::ProviderAccount;

    fn spec(&self) -> &AccountSpec {
        &self.spec.account
    }

    fn status(&self) -> Option<&AccountStatus> {
        self.status.as_ref()
    }

    fn allowed(&self) -> Option<&AllowedNamespaces> {
        None
    }

    fn api(client: Client, namespace: Option<&str>) -> Api<Self> {
        Api::namespaced(client, namespace.unwrap_or_default())
    }
}

impl AccountObject for ClusterProviderAccount {
    const KIND: AccountKind = AccountKind::ClusterProviderAccount;

    fn spec(&self) -> &AccountSpec {
        &self.spec.account
    }

    fn status(&self) -> Option<&AccountStatus> {
        self.status.as_ref()
    }

    fn allowed(&self) -> Option<&AllowedNamespaces> {
        Some(&self.spec.allowed_namespaces)
    }

    fn api(client: Client, _: Option<&str>) -> Api<Self> {
        Api::all(client)
    }
}
