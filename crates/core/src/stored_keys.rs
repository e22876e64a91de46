//! What is known of the keys that servers and hosts name, and of who names a key.

use api::references::PinnedAccount;
use std::collections::HashMap;

/// What is known of an SshKey object that somebody names.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Found {
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
    /// The provider's identifier.
    pub uuid: String,
    /// What the key is.
    pub fingerprint: String,
    /// Where it is stored.
    pub account: PinnedAccount,
    /// The lineage of that account. In another one the identifier says nothing.
    pub lineage: String,
}

/// A server or a host that refers to a key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyUser {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Whether an order or an installation of it may be under way, which names what the keys of its namespace were when it
    /// started.
    pub is_ordering: bool,
    /// Whether it is a host.
    pub is_host: bool,
}

/// Who refers to an SshKey object, and to stored keys by their identifiers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyUsers {
    /// Servers that name the object, those of its namespace that are being ordered, whatever they name by now, and
    /// those of which nobody can say.
    pub by_name: Vec<KeyUser>,
    /// Servers that name a stored key, by its identifier in lower case.
    pub by_uuid: HashMap<String, Vec<KeyUser>>,
}

impl KeyUsers {
    /// Those who refer to a stored key by its identifier.
    pub fn of(&self, uuid: &str) -> &[KeyUser] {
        let found = self.by_uuid.get(&uuid.to_ascii_lowercase());
        found.map(Vec::as_slice).unwrap_or_default()
    }
}
