//! Stored SSH keys (sections 2.19 and 4.8 of `docs/hosting-api.md`).

use http::Method;
use serde::Serialize;

use super::client::{Call, Client};
use super::error::Error;
use super::identity::SshKeyId;
use super::record::{self, Misfit, Record};
use super::request::{InvalidRequest, is_free_text};

/// The longest public key, in bytes.
const LONGEST: usize = 16384;

/// A stored SSH key. It cannot be changed (2.19-7).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SshKey {
    /// What orders and installations refer to.
    pub id: SshKeyId,
    /// The name for people; not unique (2.19-6).
    pub name: String,
    /// The public key with its comment, as it was stored (2.19-5).
    pub public_key: String,
    /// Unix seconds.
    pub created_at: Option<i64>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SshKeyBody<'a> {
    name: &'a str,
    public_key: &'a str,
}

/// Checks a public key by its form (2.19-3). Whether the key itself is sound
/// is left to the API.
///
/// # Errors
///
/// [`InvalidRequest`] says what it is instead.
pub fn check_public_key(key: &str) -> Result<(), InvalidRequest> {
    if key.contains("PRIVATE KEY") {
        return Err(InvalidRequest::PrivateKey);
    }
    let mut words = key.split(' ').filter(|word| !word.is_empty());
    let kind = words.next().is_some_and(|kind| {
        ["ssh-", "ecdsa-", "sk-ssh-", "sk-ecdsa-"]
            .iter()
            .any(|begin| kind.starts_with(begin))
    });
    let blob = words.next().is_some_and(|blob| blob.starts_with("AAAA"));
    if kind && blob && key.len() <= LONGEST && !key.chars().any(char::is_control) {
        Ok(())
    } else {
        Err(InvalidRequest::PublicKey)
    }
}

impl Client {
    /// All stored keys: `GET /v3/sshKey` (4.8-19), which has no pages.
    ///
    /// # Errors
    ///
    /// As the answer says; 403 and 500 are known.
    pub async fn ssh_keys(&self) -> Result<Vec<SshKey>, Error> {
        let answer = self.get_large(&["sshKey"]).await?;
        answer.decode(|body| record::all(body)?.iter().map(ssh_key).collect())
    }

    /// One stored key: `GET /v3/sshKey/{uuid}` (4.8-22).
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`] where it is not there (4.8-25);
    /// [`Error::Undecodable`] also when the answer shows another key.
    pub async fn ssh_key(&self, id: &SshKeyId) -> Result<SshKey, Error> {
        let answer = self.get(&["sshKey", id.as_str()]).await?;
        answer.decode(|body| {
            let found = ssh_key(&record::one(body)?)?;
            if found.id.is_same_as(id) {
                Ok(found)
            } else {
                Err("the answer shows another key than the one asked for".to_owned())
            }
        })
    }

    /// Stores a key: `POST /v3/sshKey` (4.8-20). The same call twice stores it
    /// twice.
    ///
    /// # Errors
    ///
    /// [`Error::NotSent`] for a name or key that cannot be one,
    /// [`Error::Refused`] with 422 for a key that the API cannot read (4.8-21);
    /// [`Error::Undecodable`] also when the answer shows another key.
    pub async fn create_ssh_key(&self, name: &str, public_key: &str) -> Result<SshKey, Error> {
        if !is_free_text(name) {
            return Err(InvalidRequest::Text { field: "name" }.into());
        }
        check_public_key(public_key)?;
        let call = Call::new(Method::POST, &["sshKey"]).json(&SshKeyBody { name, public_key })?;
        self.call(call).await?.decode(|body| {
            let stored = ssh_key(&record::one(body)?)?;
            // The comment may change on the way, the key may not.
            let core = |key: &str| key.split_whitespace().nth(1).map(str::to_owned);
            if stored.public_key.is_empty() || core(&stored.public_key) == core(public_key) {
                Ok(stored)
            } else {
                Err("the answer shows another key than the one sent".to_owned())
            }
        })
    }

    /// Removes a stored key: `DELETE /v3/sshKey/{uuid}` (4.8-23). Machines that
    /// have it keep it.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`] where it is not there (4.8-25).
    pub async fn delete_ssh_key(&self, id: &SshKeyId) -> Result<(), Error> {
        let path = ["sshKey", id.as_str()];
        let call = Call::new(Method::DELETE, &path).idempotent();
        self.call(call).await?.done()
    }
}

fn ssh_key(record: &Record<'_>) -> Result<SshKey, Misfit> {
    let public_key = record.raw_text("publicKey");
    if public_key.len() > LONGEST {
        return Err("a stored key is longer than any key".to_owned());
    }
    Ok(SshKey {
        id: SshKeyId::parse(record.raw_text("uuid"))
            .map_err(|_| "a stored key has no usable uuid".to_owned())?,
        name: record.text("name"),
        // The usual cap on texts would cut an RSA key.
        public_key: record.long_text("publicKey", LONGEST),
        created_at: record.seconds("createdAt"),
    })
}
