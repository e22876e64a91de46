//! Tags of the account (sections 2.13 and 4.6 of `docs/contributing/hosting-api.md`).

use crate::{
    client::{Call, Client},
    record::{self, Body, DecodeError, Record},
};
use hosting_types::{error::Error, page::Page, tag::*};
use http::Method;
use serde::Serialize;
use serde_json::Value;

#[derive(Serialize)]
struct TagBody<'a> {
    tag: &'a str,
}

impl Client {
    /// One page of the account's tags: `GET /v3/flexMetal/tags` (4.6-1). [`Error::Undecodable`]: one record or more
    /// cannot be read.
    pub async fn tags(&self, page: Page) -> Result<Vec<TagRecord>, Error> {
        let call = Call::new(Method::GET, &["flexMetal", "tags"]).page(page);
        let answer = self.call(call).await?;
        answer.decode_each(|record| match decode(record) {
            tag if tag.tag.is_empty() => Err("a tag has no name".to_owned()),
            tag => Ok(tag),
        })
    }

    /// Creates a tag: `POST /v3/flexMetal/tags` (4.6-3). Using a tag on an order or a server creates it too.
    ///
    /// # Errors
    /// [`Error::NotSent`]: the tag breaks the rule. [`Error::Refused`] with 422: it exists (4.6-4).
    pub async fn create_tag(&self, tag: &str) -> Result<TagRecord, Error> {
        check_tag(tag)?;
        let call = Call::new(Method::POST, &["flexMetal", "tags"]).json(&TagBody { tag })?;
        self.call(call).await?.decode(|body| this(body, tag))
    }

    /// Renames a tag: `PUT /v3/flexMetal/tags/{tag}` (4.6-6). The effect on servers that have it is not documented.
    ///
    /// # Errors
    /// [`Error::NotSent`]: a tag breaks the rule. [`Error::NotFound`]: no such tag (4.6-12). [`Error::Refused`]: 409 if
    /// the new name exists (4.6-7), 422 if it breaks the API's rule (4.6-8).
    pub async fn rename_tag(&self, tag: &str, new: &str) -> Result<TagRecord, Error> {
        for tag in [tag, new] {
            check_tag(tag)?;
        }
        let path = ["flexMetal", "tags", tag];
        let call = Call::new(Method::PUT, &path).json(&TagBody { tag: new })?;
        self.call(call).await?.decode(|body| this(body, new))
    }

    /// Reads one tag: `GET /v3/flexMetal/tags/{tag}` (4.6-5).
    ///
    /// # Errors
    /// [`Error::NotFound`]: the account has no such tag (4.6-12). [`Error::NotSent`]: the tag breaks the rule.
    /// [`Error::Undecodable`]: also if the answer shows another tag.
    pub async fn tag(&self, tag: &str) -> Result<TagRecord, Error> {
        check_tag(tag)?;
        let answer = self.get(&["flexMetal", "tags", tag]).await?;
        answer.decode(|body| this(body, tag))
    }

    /// Removes a tag from the account's list: `DELETE /v3/flexMetal/tags/{tag}` (4.6-10). Remove only unused tags: the
    /// effect on servers that have it is not documented.
    ///
    /// # Errors
    /// As [`Client::tag`], but the answer has no tag.
    pub async fn delete_tag(&self, tag: &str) -> Result<(), Error> {
        check_tag(tag)?;
        let path = ["flexMetal", "tags", tag];
        let call = Call::new(Method::DELETE, &path).idempotent();
        self.call(call).await?.done()
    }
}

/// The only tag of an answer, which must be this one.
fn this(body: Body<'_>, tag: &str) -> Result<TagRecord, DecodeError> {
    let found = decode(&record::one(body)?);
    if found.tag == tag {
        Ok(found)
    } else {
        Err("the answer shows a tag other than this one".to_owned())
    }
}

/// A cleaned tag of an answer. If only cleaning made it valid, it gets a character that no tag has, so it never equals
/// a valid tag: tags decide who owns a server.
pub(super) fn clean_tag(raw: &Value, cleaned: String) -> String {
    let came_so = raw.as_str().is_none_or(|raw| raw == cleaned);
    if came_so || !is_tag(&cleaned) {
        cleaned
    } else {
        cleaned + "\u{fffd}"
    }
}

fn decode(record: &Record<'_>) -> TagRecord {
    let resources = record.record("resources");
    TagRecord {
        tag: clean_tag(record.value("tag"), record.text("tag")),
        resources: resources.as_ref().and_then(|all| all.number("count")),
        servers: resources
            .and_then(|all| all.record("flexMetalServers"))
            .and_then(|servers| servers.number("count")),
    }
}
