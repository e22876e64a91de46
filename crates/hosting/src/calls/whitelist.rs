//! The addresses from which an API key may be used (sections 2.1 and 4.1 of
//! `docs/contributing/hosting-api.md`).

use crate::{
    answer::ApiAnswer,
    client::{Call, Client},
    record::{DecodeError, Record},
};
use hosting_types::{
    error::Error,
    identity::{ApiKeyId, WhitelistEntryId},
    page::Page,
    whitelist::*,
};
use http::Method;
use serde_json::Value;

impl Client {
    /// One page of a key's whitelist: `GET /v3/account/apiKey/{apiKeyId}/whitelist` (4.1-1). [`Error::NotFound`]: no
    /// such key (4.1-7).
    pub async fn whitelist(&self, key: ApiKeyId, page: Page) -> Result<Vec<WhitelistEntry>, Error> {
        let key = key.to_string();
        let path = ["account", "apiKey", key.as_str(), "whitelist"];
        let call = Call::new(Method::GET, &path).page(page);
        self.call(call).await?.decode_each(entry)
    }

    /// Adds an entry: `POST /v3/account/apiKey/{apiKeyId}/whitelist` (4.1-3). Returns the entries that the API shows:
    /// the new one or all. The first entry locks out every other address, also that of this program.
    ///
    /// # Errors
    /// [`Error::NotSent`]: a rule is broken. [`Error::NotFound`]: no such key. [`Error::Refused`] with 422 (4.1-9).
    pub async fn add_to_whitelist(
        &self,
        key: ApiKeyId,
        rule: &WhitelistRule,
    ) -> Result<Vec<WhitelistEntry>, Error> {
        rule.check()?;
        let key = key.to_string();
        let path = ["account", "apiKey", key.as_str(), "whitelist"];
        let call = Call::new(Method::POST, &path)
            .showing_all()
            .json(&rule.body())?;
        changed(&self.call(call).await?)
    }

    /// Changes an entry: `PUT /v3/account/apiKey/{apiKeyId}/whitelist/{apiKeyWhitelistId}` (4.1-4). Returns what
    /// [`Client::add_to_whitelist`] does.
    ///
    /// # Errors
    /// As there. [`Error::NotFound`]: also if there is no such entry (4.1-8).
    pub async fn change_whitelist(
        &self,
        key: ApiKeyId,
        entry: WhitelistEntryId,
        rule: &WhitelistRule,
    ) -> Result<Vec<WhitelistEntry>, Error> {
        rule.check()?;
        let (key, entry) = (key.to_string(), entry.to_string());
        let path = ["account", "apiKey", key.as_str(), "whitelist", &entry];
        let call = Call::new(Method::PUT, &path)
            .idempotent()
            .showing_all()
            .json(&rule.body())?;
        changed(&self.call(call).await?)
    }

    /// Removes an entry: `DELETE /v3/account/apiKey/{apiKeyId}/whitelist/{apiKeyWhitelistId}` (4.1-5).
    /// [`Error::NotFound`]: no such entry (4.1-8).
    pub async fn remove_from_whitelist(
        &self,
        key: ApiKeyId,
        entry: WhitelistEntryId,
    ) -> Result<(), Error> {
        let (key, entry) = (key.to_string(), entry.to_string());
        let path = ["account", "apiKey", key.as_str(), "whitelist", &entry];
        let call = Call::new(Method::DELETE, &path).idempotent();
        self.call(call).await?.done()
    }
}

/// An empty array does not show that the entry exists (1-6).
fn changed(answer: &ApiAnswer) -> Result<Vec<WhitelistEntry>, Error> {
    match answer.decode_each(entry)? {
        entries if entries.is_empty() => {
            Err(answer.misfit("the answer shows no whitelist entry".to_owned()))
        }
        entries => Ok(entries),
    }
}

fn entry(record: &Record<'_>) -> Result<WhitelistEntry, DecodeError> {
    let id = record
        .identity("id")
        .ok_or_else(|| "a whitelist entry has no usable id".to_owned())?;
    Ok(WhitelistEntry {
        id: WhitelistEntryId(id),
        ip_start: record.optional_text("ipStart"),
        ip_end: record.optional_text("ipEnd"),
        ip_range: record.optional_text("ipRange"),
        comments: record.optional_text("comments"),
        active: active(record),
        updated_at: record.seconds("updatedAt"),
    })
}

/// The document has an integer without its values (2.1-6): 0 is no, 1 is yes, and other numbers have no documented
/// meaning.
fn active(record: &Record<'_>) -> Option<bool> {
    if let Some(number) = record.number("active") {
        return match number {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        };
    }
    match record.value("active") {
        Value::Bool(flag) => Some(*flag),
        Value::String(word) => word.trim().to_ascii_lowercase().parse().ok(),
        _ => None,
    }
}
