//! The identity of a cluster, and the hashes that name its objects at the provider. Servers have a [`crate::owner`]
//! instead.

use crate::account::ownership_tags;
use sha2::{Digest as _, Sha256};
use std::fmt;

/// Identity of the cluster: 16 hex digits.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClusterId(String);

/// A cluster identity that is not 16 hex digits.
#[derive(Debug, thiserror::Error)]
#[error("a cluster identity is 16 lower-case hex digits, not {0:?}")]
pub struct InvalidClusterId(String);

impl ClusterId {
    /// The identity that follows from the UID of the namespace `kube-system`.
    pub fn from_namespace_uid(uid: &str) -> Self {
        Self(hex(&Sha256::digest(uid.as_bytes()), 16))
    }

    /// Parses an identity that a user sets. Fails unless the text is 16 lower-case hex digits.
    pub fn parse(text: &str) -> Result<Self, InvalidClusterId> {
        if text.len() == 16 && is_hex(text) {
            Ok(Self(text.into()))
        } else {
            Err(InvalidClusterId(text.into()))
        }
    }

    /// The 16 digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The tag that every server of this cluster has.
    pub fn tag(&self) -> String {
        ownership_tags::cluster_tag(&self.0)
    }

    /// Hash that names one object: over this identity, namespace, name and UID.
    pub fn object_hash(&self, namespace: &str, name: &str, uid: &str) -> OwnerHash {
        OwnerHash(ownership_tags::owner_hash(&self.0, namespace, name, uid))
    }

    /// Hash that names every object of this name: over this identity, namespace and name.
    pub fn name_hash(&self, namespace: &str, name: &str) -> OwnerHash {
        // No object has an empty UID, so this is no object's own hash.
        self.object_hash(namespace, name, "")
    }
}

/// Hash that names an object at the provider: 24 hex digits.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OwnerHash(String);

impl OwnerHash {
    /// Parses a recorded hash; None unless the text is 24 hex digits.
    pub fn parse(text: &str) -> Option<Self> {
        (text.len() == 24 && is_hex(text)).then(|| Self(text.into()))
    }

    /// The 24 digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for OwnerHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

fn hex(bytes: &[u8], digits: usize) -> String {
    let mut text: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
    text.truncate(digits);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash_separates_namespace_and_name() {
        let cluster = ClusterId::from_namespace_uid("u");
        assert_ne!(
            cluster.object_hash("a", "bc", "d"),
            cluster.object_hash("ab", "c", "d")
        );
    }
}
