//! What the two kinds of account object have in common.

use crate::{account::Accounts, controllers::objects::ObservedObject, runtime::kind_api::KindApi};
use api::{
    ClusterProviderAccount, ProviderAccount,
    account::{AccountSpec, AccountStatus},
    allowed::AllowedNamespaces,
    references::AccountKind,
};
use flexmetal_core::account::key::AccountKey;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::object::HasStatus;

/// One of the two kinds.
pub trait AccountObject: KindApi + HasStatus<Status = AccountStatus> {
    /// Which of the two.
    const KIND: AccountKind;

    /// What both kinds ask for.
    fn spec(&self) -> &AccountSpec;
    /// Which namespaces may use it; None for the kind that serves its own.
    fn allowed(&self) -> Option<&[AllowedNamespaces]>;
}

/// The name in the registry of an object of this kind.
pub fn key<K: AccountObject>(meta: &ObjectMeta) -> AccountKey {
    let name = meta.name.as_deref().unwrap_or_default();
    AccountKey::named(K::KIND, meta.namespace.as_deref(), name)
}

/// Where the key Secret of an account lies; `own` is the operator's namespace.
pub fn secret_namespace(key: &AccountKey, own: &str) -> String {
    key.namespace.clone().unwrap_or_else(|| own.to_owned())
}

/// Makes an account object known before its first pass.
pub fn announce<K: AccountObject>(accounts: &Accounts, shown: &ObservedObject<K>) {
    let meta = shown.meta();
    let uid = meta.uid.as_deref().unwrap_or_default();
    let key = key::<K>(meta);
    accounts.announce(&key, uid);
}

impl AccountObject for ProviderAccount {
    const KIND: AccountKind = AccountKind::ProviderAccount;

    fn spec(&self) -> &AccountSpec {
        &self.spec.account
    }

    fn allowed(&self) -> Option<&[AllowedNamespaces]> {
        None
    }
}

impl AccountObject for ClusterProviderAccount {
    const KIND: AccountKind = AccountKind::ClusterProviderAccount;

    fn spec(&self) -> &AccountSpec {
        &self.spec.account
    }

    fn allowed(&self) -> Option<&[AllowedNamespaces]> {
        Some(&self.spec.allowed_namespaces)
    }
}
