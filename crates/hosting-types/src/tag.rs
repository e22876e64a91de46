//! Tags of the account (sections 2.13 and 4.6 of `docs/contributing/hosting-api.md`).

use super::request::InvalidRequest;

/// The most tags that a server can have (8-1).
pub const MOST_TAGS: usize = 60;

/// One tag in the account's list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TagRecord {
    /// The name. An invalid one is cleaned, and never equals a valid tag.
    pub tag: String,
    /// How many resources of any kind have it, if the answer has that.
    pub resources: Option<i64>,
    /// How many on-demand servers have it, if the answer has that.
    pub servers: Option<i64>,
}

/// Whether a text is a tag by the API's rule, `^[A-Za-z0-9_:-]{1,64}$` (8-2).
pub fn is_tag(text: &str) -> bool {
    (1..=64).contains(&text.len())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b':' | b'-'))
}

/// Checks the tag of a call.
pub fn check_tag(tag: &str) -> Result<(), InvalidRequest> {
    if is_tag(tag) {
        return Ok(());
    }
    let field = "a tag".to_owned();
    Err(InvalidRequest::Tag { field })
}
