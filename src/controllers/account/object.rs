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

/// An account object of either kind.
pub trait AccountObject: KindApi + HasStatus<Status = AccountStatus> {
    /// The kind.
    const KIND: AccountKind;

    /// The part of the spec that both kinds have.
    fn spec(&self) -> &AccountSpec;
    /// Which namespaces may use it. `None` for the kind that serves its own namespace.
    fn allowed(&self) -> Option<&[AllowedNamespaces]>;
}

/// The registry key of an object of this kind.
pub fn key<K: AccountObject>(meta: &ObjectMeta) -> AccountKey {
    let name = meta.name.as_deref().unwrap_or_default();
    AccountKey::named(K::KIND, meta.namespace.as_deref(), name)
}

/// The namespace of an account's key Secret; `own` is the operator's namespace.
pub fn secret_namespace(key: &AccountKey, own: &str) -> String {
    key.namespace.clone().unwrap_or_else(|| own.to_owned())
}

/// Announces an account object before its first reconcile.
pub fn announce<K: AccountObject>(accounts: &Accounts, shown: &ObservedObject<K>) {
    let meta = shown.meta();
    let uid = meta.uid.as_deref().unwrap_or_default();
    let key = key::<K>(meta);
    accounts.add_account(&key, uid);
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
