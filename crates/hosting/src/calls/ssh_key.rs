//! Stored SSH keys (sections 2.19 and 4.8 of `docs/contributing/hosting-api.md`).

use crate::{
    client::{Call, Client},
    record::{self, DecodeError, Record},
};
use hosting_types::{error::Error, identity::SshKeyId, request::InvalidRequest, ssh_key::*, text};
use http::Method;
use serde::Serialize;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SshKeyBody<'a> {
    name: &'a str,
    public_key: &'a str,
}

impl Client {
    /// All stored keys: `GET /v3/sshKey` (4.8-19), which has no pages.
    pub async fn ssh_keys(&self) -> Result<Vec<SshKey>, Error> {
        let answer = self.get_large(&["sshKey"]).await?;
        answer.decode_each(ssh_key)
    }

    /// One stored key: `GET /v3/sshKey/{uuid}` (4.8-22). [`Error::NotFound`]: no such key (4.8-25).
    /// [`Error::Undecodable`]: also if the answer shows another key.
    pub async fn ssh_key(&self, id: &SshKeyId) -> Result<SshKey, Error> {
        let answer = self.get(&["sshKey", id.as_str()]).await?;
        answer.decode(|body| {
            let found = ssh_key(&record::one(body)?)?;
            if found.id == *id {
                Ok(found)
            } else {
                Err("the answer shows a key other than the one asked for".to_owned())
            }
        })
    }

    /// Stores a key: `POST /v3/sshKey` (4.8-20). The same call twice stores it twice.
    ///
    /// # Errors
    /// [`Error::NotSent`]: an empty name, no public key, or a private one, whatever the API would do.
    /// [`Error::Refused`] with 422: the API cannot read the key (4.8-21). [`Error::Undecodable`]: also if the answer
    /// shows another key.
    pub async fn create_ssh_key(&self, name: &str, public_key: &str) -> Result<SshKey, Error> {
        if name.is_empty() {
            return Err(InvalidRequest::Empty { field: "name" }.into());
        }
        check_stored_key(public_key)?;
        let call = Call::new(Method::POST, &["sshKey"]).json(&SshKeyBody { name, public_key })?;
        self.call(call).await?.decode(|body| {
            let record = record::one(body)?;
            let stored = ssh_key(&record)?;
            // The API may change the comment, but not the key.
            let core = |key: &str| key.split_whitespace().nth(1).map(str::to_owned);
            if !record.is_given("publicKey") || core(&stored.public_key) == core(public_key) {
                Ok(stored)
            } else {
                Err("the answer shows a key other than the one sent".to_owned())
            }
        })
    }

    /// Removes a stored key: `DELETE /v3/sshKey/{uuid}` (4.8-23). Servers that have it keep it. [`Error::NotFound`]: no
    /// such key (4.8-25). The 400 for a text that is no UUID (4.8-24) cannot occur.
    pub async fn delete_ssh_key(&self, id: &SshKeyId) -> Result<(), Error> {
        let path = ["sshKey", id.as_str()];
        let call = Call::new(Method::DELETE, &path).idempotent();
        self.call(call).await?.done()
    }
}

fn ssh_key(record: &Record<'_>) -> Result<SshKey, DecodeError> {
    Ok(SshKey {
        id: SshKeyId::parse(record.raw_text("uuid"))
            .map_err(|_| "a stored key has no usable uuid".to_owned())?,
        name: record.text("name"),
        public_key: public_key(record),
        created_at: record.seconds("createdAt"),
    })
}

/// The key unchanged (2.19-5), or nothing: a cut or cleaned key would be a different one.
fn public_key(record: &Record<'_>) -> String {
    let raw = record.raw_text("publicKey");
    // The usual limit on texts would cut an RSA key.
    let cleaned = record.exact("publicKey", LONGEST);
    // A key that was stored from a file has its line end too.
    let line = raw.trim_end_matches(['\r', '\n']);
    if raw.len() <= LONGEST && text::has_words_of(line, &cleaned) {
        raw.to_owned()
    } else {
        String::new()
    }
}
