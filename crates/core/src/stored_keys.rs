//! What is known of the keys that servers and hosts name, and of who names a key.

use crate::wording::counted;
use api::references::PinnedAccount;
use std::collections::BTreeSet;

/// What is known of an SshKey object that somebody names.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum KeyLookup {
    /// Its kind was not listed yet.
    NotKnown,
    /// There is none of this name.
    Missing,
    /// There is one, and it is being deleted.
    Ending,
    /// There is one, and nothing may rest on what it shows yet. Says why.
    NotReady(String),
    /// It is stored, as of its newest generation.
    Ready(StoredKey),
}

/// A key as its object shows it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StoredKey {
    /// UID of its object: one that was made again under the same name is another key.
    pub uid: String,
    /// The provider's identifier.
    pub uuid: String,
    /// What the key is.
    pub fingerprint: String,
    /// Where it is stored.
    pub account: PinnedAccount,
    /// The lineage of that account. In another one the identifier says nothing.
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

/// So many of those who refer to a key are named.
const MOST_NAMED: usize = 5;

/// What an event says of those who refer to a key of this namespace that was deleted; None where nobody does. Those of
/// other namespaces are only counted.
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
