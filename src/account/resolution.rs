//! What a reference to an account leads to.

use super::{Account, AccountKey, Accounts};
use crate::kinds::references::PinnedAccount;

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
    pub fn resolve(&self, namespace: &str, reference: &PinnedAccount) -> Resolution {
        let key = AccountKey::of(reference, namespace);
        let Some(account) = self.get(&key) else {
            return Resolution::Missing;
        };
        if let Some((live, _)) = account.connected() {
            live.core.mark_in_use();
        }
        let settings = account.settings();
        let Some(allowed) = settings.allowed.as_ref().filter(|a| !a.allows(namespace)) else {
            return Resolution::Found(account);
        };
        // A JSON patch adds to a list that is there, and a merge patch would drop its other names.
        let patch = if allowed.names.is_empty() {
            format!(
                "--type=merge -p '{{\"spec\":{{\"allowedNamespaces\":{{\"names\":[\"{namespace}\"]}}}}}}'"
            )
        } else {
            format!(
                "--type=json -p '[{{\"op\":\"add\",\"path\":\"/spec/allowedNamespaces/names/-\",\"value\":\"{namespace}\"}}]'"
            )
        };
        let message = format!(
            "{key} does not allow namespace {namespace}: add it to spec.allowedNamespaces.names of the account: {}",
            key.command("patch", &patch)
        );
        Resolution::NotAllowed { account, message }
    }
}
