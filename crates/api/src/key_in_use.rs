//! Which key of its Secret an account uses.

use super::names::{API_KEY_ENTRY, NEXT_KEY_ENTRY};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// An entry of a key Secret that holds a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum KeyEntry {
    /// The key of the account.
    #[serde(rename = "apiKey")]
    Present,
    /// The one that is to take its place.
    #[serde(rename = "apiKeyNext")]
    Next,
}

impl KeyEntry {
    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Present => API_KEY_ENTRY,
            Self::Next => NEXT_KEY_ENTRY,
        }
    }
}

impl fmt::Display for KeyEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The key that all calls are made with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeyInUse {
    /// The entry of the key Secret that holds it: `apiKey`, or `apiKeyNext` once that was tried and no call over the
    /// former key is under way any more. Unset: it stands in the Secret no more, and is used until another one works.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "KeyEntry")]
    pub entry: Option<KeyEntry>,
    /// Short hash of the key.
    pub key_hash: String,
}
