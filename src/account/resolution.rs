//! What a reference to an account leads to.

use super::{Account, AccountKey, Accounts};
use crate::kinds::{
    allowed::{Allowed, AllowedNamespaces},
    references::PinnedAccount,
};
use serde_json::json;

/// What an account reference leads to.
pub enum Resolution {
    /// There is no such object.
    Missing,
    /// There is one, and it does not allow the namespace, or in two ways at once. That stops orders, never releases.
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
        let Some(entries) = settings.allowed.as_deref() else {
            return Resolution::Found(account);
        };
        let message = match AllowedNamespaces::look_up(entries, namespace) {
            Allowed::By(_) => return Resolution::Found(account),
            Allowed::Nowhere => format!(
                "{key} does not allow namespace {namespace}: add it to spec.allowedNamespaces of the account: {}",
                key.command("patch", &adding(entries, namespace))
            ),
            Allowed::Twice(first, second) => format!(
                "{key} speaks of namespace {namespace} twice, in the entries {:?} and {:?} of spec.allowedNamespaces: take it out of one of them: {}",
                first.name,
                second.name,
                key.command("edit", "")
            ),
        };
        Resolution::NotAllowed { account, message }
    }
}

/// The patch that allows a namespace. A JSON patch adds to a list that is there, and a merge patch would
/// drop its other entries; two entries of one name would be refused.
fn adding(entries: &[AllowedNamespaces], namespace: &str) -> String {
    let namesake = entries
        .iter()
        .enumerate()
        .find(|(_, e)| e.name == namespace);
    let own = json!({"name": namespace, "names": [namespace]});
    let (path, value) = match namesake {
        _ if entries.is_empty() => {
            let merge = json!({"spec": {"allowedNamespaces": [own]}});
            return format!("--type=merge -p '{merge}'");
        }
        None => ("-".to_owned(), own),
        Some((at, entry)) if entry.names.is_empty() => (format!("{at}/names"), json!([namespace])),
        Some((at, _)) => (format!("{at}/names/-"), json!(namespace)),
    };
    let add =
        json!({"op": "add", "path": format!("/spec/allowedNamespaces/{path}"), "value": value});
    // A place in a list that may have changed meanwhile: never into the entry of somebody else.
    let patch = match namesake {
        Some((at, entry)) => {
            let path = format!("/spec/allowedNamespaces/{at}/name");
            json!([{"op": "test", "path": path, "value": entry.name}, add])
        }
        None => json!([add]),
    };
    format!("--type=json -p '{patch}'")
}
