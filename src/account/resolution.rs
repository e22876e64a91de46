//! What a reference to an account leads to.

use super::{Account, AccountKey, Accounts};
use crate::kinds::references::AccountRef;

/// What an account reference leads to.
pub enum Resolution {
    /// There is no such object.
    Missing,
    /// There is one, and it does not allow the namespace. That stops orders, never releases.
    NotAllowed {
        /// The account.
        account: Account,
        /// What a person should read.
        message: String,
    },
    /// The account.
    Found(Account),
}

impl Accounts {
    /// Resolves the reference of an object in this namespace.
    pub fn resolve(&self, namespace: &str, reference: &AccountRef) -> Resolution {
        let key = AccountKey::of(reference, namespace);
        let Some(account) = self.get(&key) else {
            return Resolution::Missing;
        };
        if let Some((live, _)) = account.connected() {
            live.core.mark_in_use();
        }
        let allowed = &account.settings().allowed;
        if allowed.as_ref().is_none_or(|a| a.allows(namespace)) {
            return Resolution::Found(account);
        }
        let message = format!(
            "{key} does not allow namespace {namespace}: add it to spec.allowedNamespaces.names of the account"
        );
        Resolution::NotAllowed { account, message }
    }
}
