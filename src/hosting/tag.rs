//! Tags of the account (sections 2.13 and 4.6 of the API).

use http::Method;

use super::client::{Call, Client};
use super::error::Error;
use super::record::{self, Record};

/// One tag in the account's list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TagRecord {
    /// The name.
    pub tag: String,
    /// How many resources of any kind bear it, where the answer says so.
    pub resources: Option<i64>,
    /// How many on-demand servers bear it, where the answer says so.
    pub servers: Option<i64>,
}

/// A tag that the API would not take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a tag must have 1 to 64 characters out of letters, digits, `_`, `:` and `-`")]
pub struct InvalidTag;

/// Checks a tag by the API's rule, `^[A-Za-z0-9_:-]{1,64}$` (section 8).
///
/// # Errors
///
/// [`InvalidTag`] states the rule.
pub fn check_tag(tag: &str) -> Result<(), InvalidTag> {
    let fits = (1..=64).contains(&tag.len())
        && tag
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b':' | b'-'));
    if fits { Ok(()) } else { Err(InvalidTag) }
}

impl Client {
    /// Looks one tag up: `GET /v3/flexMetal/tags/{tag}`.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`] where the account has no such tag;
    /// [`Error::NotSent`] for a tag that breaks the rule. 403, 404 and 500 are
    /// documented.
    pub async fn tag(&self, tag: &str) -> Result<TagRecord, Error> {
        check_tag(tag).map_err(|rule| Error::NotSent(rule.into()))?;
        let answer = self.get(&["flexMetal", "tags", tag]).await?;
        answer.decode(|body| {
            let found = decode(&record::one(body)?);
            if found.tag == tag {
                Ok(found)
            } else {
                Err("the answer shows another tag than the one asked for".to_owned())
            }
        })
    }

    /// Takes a tag out of the account's list:
    /// `DELETE /v3/flexMetal/tags/{tag}`. What that does to servers that bear
    /// it is not documented, so only tags out of use may go this way.
    ///
    /// # Errors
    ///
    /// As [`Client::tag`].
    pub async fn delete_tag(&self, tag: &str) -> Result<(), Error> {
        check_tag(tag).map_err(|rule| Error::NotSent(rule.into()))?;
        let path = ["flexMetal", "tags", tag];
        self.call(Call::new(Method::DELETE, &path)).await.map(drop)
    }
}

fn decode(record: &Record<'_>) -> TagRecord {
    let resources = record.record("resources");
    TagRecord {
        tag: record.text("tag"),
        resources: resources.as_ref().and_then(|all| all.number("count")),
        servers: resources
            .and_then(|all| all.record("flexMetalServers"))
            .and_then(|servers| servers.number("count")),
    }
}
