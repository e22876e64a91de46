//! SSH keys that servers and hosts reference, and the objects that reference a key.

use crate::wording::counted;
use api::references::PinnedAccount;
use std::collections::BTreeSet;

/// What is known of a referenced SshKey object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum KeyLookup {
    /// SshKeys are not listed yet.
    NotKnown,
    /// No SshKey has this name.
    Missing,
    /// It exists, and is being deleted.
    Ending,
    /// It exists, and its status is not usable yet. Says why.
    NotReady(String),
    /// It is stored, as of its newest generation.
    Ready(StoredKey),
}

impl KeyLookup {
    /// What the key shows to an object of the account with this ID. A key that is stored in an account with another ID
    /// is not ready, even if the account's name is the same.
    #[must_use]
    pub fn for_account(self, account_id: Option<&str>) -> Self {
        match self {
            Self::Ready(stored) if account_id != Some(stored.account_id.as_str()) => {
                let why = match account_id {
                    Some(_) => "key and URL of the account now lead to another account",
                    None => "the account behind key and URL is not known yet",
                };
                Self::NotReady(why.to_owned())
            }
            found => found,
        }
    }
}

/// A key as its object shows it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StoredKey {
    /// UID of its object: a recreated object of the same name is another key.
    pub uid: String,
    /// The provider's identifier.
    pub uuid: String,
    /// Its fingerprint.
    pub fingerprint: String,
    /// The account that stores it.
    pub account: PinnedAccount,
    /// ID of that account. The provider's identifier is valid only there.
    pub account_id: String,
}

/// A server or a host that refers to a key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyUser {
    /// Its namespace.
    pub namespace: String,
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
}

/// Most objects that the event names.
const MOST_NAMED: usize = 5;

/// Text of the event for a deleted key of this namespace that objects still reference; None if there are none. Objects
/// of other namespaces are only counted.
pub fn still_referring(namespace: &str, users: &BTreeSet<KeyUser>) -> Option<String> {
    let (here, elsewhere): (Vec<_>, Vec<_>) = users.iter().partition(|u| u.namespace == namespace);
    let mut parts: Vec<String> = here
        .iter()
        .take(MOST_NAMED)
        .map(|user| format!("{} {}", user.kind, user.name))
        .collect();
    if here.len() > MOST_NAMED {
        parts.push(format!("{} more", here.len() - MOST_NAMED));
    }
    if !elsewhere.is_empty() {
        let objects = counted(elsewhere.len(), "object");
        parts.push(format!("{objects} of other namespaces"));
    }
    let last = parts.pop()?;
    let users = match parts.is_empty() {
        true => last,
        false => format!("{} and {last}", parts.join(", ")),
    };
    Some(format!(
        "This SshKey is deleted, but {users} still refer to it. Set another key in spec.sshKeys of a server, or spec.sshKeyRef of a host"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_names_five_users_and_counts_others() {
        let user = |namespace: &str, kind: &str, name: &str| KeyUser {
            namespace: namespace.into(),
            kind: kind.into(),
            name: name.into(),
        };
        let said = |users: &[KeyUser]| {
            let text = still_referring("shop", &users.iter().cloned().collect())?;
            let (_, users) = text.split_once("deleted, but ")?;
            Some(users.split_once(" still refer to it. ")?.0.to_owned())
        };
        assert_eq!(said(&[]), None);
        let web = user("shop", "BareMetalServer", "web");
        let db = user("shop", "DedicatedHost", "db");
        let vault = user("bank", "BareMetalServer", "vault");
        let one = said(std::slice::from_ref(&web)).unwrap();
        assert_eq!(one, "BareMetalServer web");
        assert_eq!(
            said(&[web.clone(), db, vault.clone()]).unwrap(),
            "BareMetalServer web, DedicatedHost db and 1 object of other namespaces"
        );
        let none_here = said(std::slice::from_ref(&vault)).unwrap();
        assert_eq!(none_here, "1 object of other namespaces");
        let many = (0..7).map(|n| user("shop", "BareMetalServer", &format!("w{n}")));
        let text = said(&many.chain([vault]).collect::<Vec<_>>()).unwrap();
        assert!(text.contains("w4, 2 more and 1 object"), "{text}");
        assert!(!text.contains("w5") && !text.contains("vault"), "{text}");
    }
}
