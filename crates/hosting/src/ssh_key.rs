//! Stored SSH keys (sections 2.19 and 4.8 of `docs/hosting-api.md`).

use http::Method;
use serde::Serialize;

use super::client::{Call, Client};
use super::error::Error;
use super::identity::SshKeyId;
use super::record::{self, Misfit, Record};
use super::request::InvalidRequest;
use super::text;

/// The longest public key, in bytes.
const LONGEST: usize = 16384;

/// A stored SSH key. It cannot be changed (2.19-7).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SshKey {
    /// What orders and installations refer to.
    pub id: SshKeyId,
    /// The name for people; not unique (2.19-6).
    pub name: String,
    /// The public key with its comment, as it was stored (2.19-5); empty if the
    /// answer's text cannot be one: more than 16384 bytes, or characters that no
    /// key has.
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

/// Whether a text is one line of a public key in OpenSSH form, as an order
/// needs it (2.7-23). Whether the key itself is sound is left to the API.
pub(super) fn is_key_line(key: &str) -> bool {
    let mut words = key.split(' ').filter(|word| !word.is_empty());
    let kind = words.next().is_some_and(|kind| {
        ["ssh-", "ecdsa-", "sk-ssh-", "sk-ecdsa-"]
            .iter()
            .any(|begin| kind.starts_with(begin))
    });
    let blob = words.next().is_some_and(|blob| blob.starts_with("AAAA"));
    kind && blob && key.len() <= LONGEST && !key.chars().any(char::is_control)
}

pub(super) fn is_private_key(key: &str) -> bool {
    key.contains("PRIVATE KEY")
}

/// Checks a public key to be stored. The OpenSSH form is preferred (2.19-3), so
/// the blocks that other programs write pass as well.
fn check_stored_key(key: &str) -> Result<(), InvalidRequest> {
    if is_private_key(key) {
        let field = "publicKey".to_owned();
        return Err(InvalidRequest::PrivateKey { field });
    }
    if is_key_line(key) || is_key_block(key) {
        Ok(())
    } else {
        Err(InvalidRequest::PublicKey)
    }
}

/// Whether a text is a public key in a block of lines, as PEM or RFC 4716 has it.
fn is_key_block(text: &str) -> bool {
    let first = text.trim_start().lines().next().unwrap_or_default();
    let is_block =
        first.starts_with("----") && first.contains("BEGIN") && first.contains("PUBLIC KEY");
    is_block && text.len() <= LONGEST
}

impl Client {
    /// All stored keys: `GET /v3/sshKey` (4.8-19), which has no pages.
    ///
    /// # Errors
    ///
    /// Those of any call, see [`crate`].
    pub async fn ssh_keys(&self) -> Result<Vec<SshKey>, Error> {
        let answer = self.get_large(&["sshKey"]).await?;
        answer.decode_each(ssh_key)
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
                Err("the answer shows a key other than the one asked for".to_owned())
            }
        })
    }

    /// Stores a key: `POST /v3/sshKey` (4.8-20). The same call twice stores it
    /// twice.
    ///
    /// # Errors
    ///
    /// [`Error::NotSent`] for an empty name, for a text that is not a public key,
    /// and above all for a private one, whatever the API would do with it;
    /// [`Error::Refused`] with 422 for a key that the API cannot read (4.8-21);
    /// [`Error::Undecodable`] also when the answer shows another key.
    pub async fn create_ssh_key(&self, name: &str, public_key: &str) -> Result<SshKey, Error> {
        if name.is_empty() {
            return Err(InvalidRequest::Empty { field: "name" }.into());
        }
        check_stored_key(public_key)?;
        let call = Call::new(Method::POST, &["sshKey"]).json(&SshKeyBody { name, public_key })?;
        self.call(call).await?.decode(|body| {
            let record = record::one(body)?;
            let stored = ssh_key(&record)?;
            // The comment may change on the way, the key may not. A block may
            // come back in OpenSSH form, so it is not compared.
            let core = |key: &str| key.split_whitespace().nth(1).map(str::to_owned);
            let untold = !record.is_given("publicKey") || is_key_block(public_key);
            if untold || core(&stored.public_key) == core(public_key) {
                Ok(stored)
            } else {
                Err("the answer shows a key other than the one sent".to_owned())
            }
        })
    }

    /// Removes a stored key: `DELETE /v3/sshKey/{uuid}` (4.8-23). Machines that
    /// have it keep it.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`] where it does not exist (4.8-25). The 400 for a text that
    /// is not a UUID (4.8-24) cannot occur: an [`SshKeyId`] is one.
    pub async fn delete_ssh_key(&self, id: &SshKeyId) -> Result<(), Error> {
        let path = ["sshKey", id.as_str()];
        let call = Call::new(Method::DELETE, &path).idempotent();
        self.call(call).await?.done()
    }
}

fn ssh_key(record: &Record<'_>) -> Result<SshKey, Misfit> {
    Ok(SshKey {
        id: SshKeyId::parse(record.raw_text("uuid"))
            .map_err(|_| "a stored key has no usable uuid".to_owned())?,
        name: record.text("name"),
        public_key: public_key(record),
        created_at: record.seconds("createdAt"),
    })
}

/// The key unchanged (2.19-5), or nothing: a cut or cleaned key would be a
/// different one.
fn public_key(record: &Record<'_>) -> String {
    let raw = record.raw_text("publicKey");
    // The usual cap on texts would cut an RSA key.
    let cleaned = record.exact("publicKey", LONGEST);
    let line = match is_key_block(raw) {
        true => raw.replace(['\r', '\n'], " "),
        // A key that was stored from a file has its line end too.
        false => raw.trim_end_matches(['\r', '\n']).to_owned(),
    };
    if raw.len() <= LONGEST && text::has_words_of(&line, &cleaned) {
        raw.to_owned()
    } else {
        String::new()
    }
}
