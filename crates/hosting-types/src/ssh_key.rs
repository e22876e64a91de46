//! Stored SSH keys (sections 2.19 and 4.8 of `docs/contributing/hosting-api.md`).

use super::{identity::SshKeyId, request::InvalidRequest};

/// The longest public key, in bytes.
pub const LONGEST: usize = 16384;

/// A stored SSH key. It cannot be changed (2.19-7).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SshKey {
    /// Its UUID, for orders and installations.
    pub id: SshKeyId,
    /// The name for users; not unique (2.19-6).
    pub name: String,
    /// The public key with its comment, as stored (2.19-5); empty if the answer's text cannot be one: more than 16384
    /// bytes, or characters that no key has.
    pub public_key: String,
    /// Unix seconds.
    pub created_at: Option<i64>,
}

/// Whether a text is one line of a public key in OpenSSH form, as orders need it (2.7-23). The API checks the key
/// itself.
pub fn is_key_line(key: &str) -> bool {
    let mut words = key.split(' ').filter(|word| !word.is_empty());
    let kind = words.next().is_some_and(|kind| {
        ["ssh-", "ecdsa-", "sk-ssh-", "sk-ecdsa-"]
            .iter()
            .any(|begin| kind.starts_with(begin))
    });
    let blob = words.next().is_some_and(|blob| blob.starts_with("AAAA"));
    kind && blob && key.len() <= LONGEST && !key.chars().any(char::is_control)
}

/// Whether a text contains a private key, which must never be sent.
pub fn is_private_key(key: &str) -> bool {
    key.contains("PRIVATE KEY")
}

/// Checks a public key to be stored: one line in OpenSSH form (2.19-3).
pub fn check_stored_key(key: &str) -> Result<(), InvalidRequest> {
    if is_private_key(key) {
        let field = "publicKey".to_owned();
        return Err(InvalidRequest::PrivateKey { field });
    }
    if is_key_line(key) {
        Ok(())
    } else {
        Err(InvalidRequest::PublicKey)
    }
}
