//! What a reference to an account leads to.

use super::{Account, Accounts};
use api::references::PinnedAccount;
use flexmetal_core::account::{key::AccountKey, terms::Terms};

/// What an account reference leads to.
pub enum Resolution {
    /// There is no such object.
    Missing,
    /// There is one.
    Found {
        /// The account.
        account: Account,
        /// What it offers the namespace.
        terms: Terms,
    },
}

impl Accounts {
    /// Resolves the reference of an object in this namespace.
    pub fn resolve(&self, namespace: &str, reference: &PinnedAccount) -> Resolution {
        let key = AccountKey::from_reference(reference, namespace);
        let Some(account) = self.get(&key) else {
            return Resolution::Missing;
        };
        let terms = account.terms(namespace);
        if terms.is_served() {
            account.set_in_use();
        }
        Resolution::Found { account, terms }
    }
}
