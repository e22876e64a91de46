//! Reads server records.

use crate::record::{DecodeError, Record};
use hosting_types::{
    server::{Server, ServerId, ServerStatus},
    tag,
};

/// The most addresses of one server.
const MOST_ADDRESSES: usize = 64;

/// Reads one server. Only a bad `uuid`, bad `tags` (they show the owner), or more tags or addresses than a server can
/// have make it unreadable.
pub(crate) fn server(record: &Record<'_>) -> Result<Server, DecodeError> {
    let id = ServerId::parse(record.raw_text("uuid"))
        .map_err(|_| "a server record has no usable uuid".to_owned())?;
    Ok(Server {
        name: record.text("name"),
        status: ServerStatus::parse(&record.text("status")),
        status_message: record.message("statusMessage"),
        location_id: record.inner_number("location", "id"),
        location: record.inner_text("location", "name"),
        instance_type_id: record.inner_number("instanceType", "id"),
        instance_type: record.inner_text("instanceType", "name"),
        os_slug: record.inner_text("os", "slug"),
        addresses: addresses(record)?,
        tags: tags(record)?,
        created_at: record.seconds("createdAt"),
        delivered_at: record.seconds("deliveredAt"),
        released_at: record.seconds("releasedAt"),
        contract_id: record.optional_text("contractId"),
        id,
    })
}

/// Tags decide who owns a server, so a text that only cleaning turned into a tag is no tag.
fn tags(record: &Record<'_>) -> Result<Vec<String>, DecodeError> {
    let texts = record.texts("tags", tag::MOST_TAGS)?.into_iter();
    let mut tags: Vec<String> = texts
        .map(|(raw, cleaned)| crate::calls::tag::clean_tag(raw, cleaned))
        .collect();
    // Collected in place, it has capacity for a third more; thousands of records are kept.
    tags.shrink_to_fit();
    Ok(tags)
}

fn addresses(record: &Record<'_>) -> Result<Vec<String>, DecodeError> {
    let objects = record.records_up_to("ipAddresses", MOST_ADDRESSES)?;
    if objects.is_empty() {
        // Plain texts; anything else counts as no address.
        let texts = record.texts("ipAddresses", MOST_ADDRESSES);
        let texts = texts.unwrap_or_default().into_iter().map(|(_, text)| text);
        return Ok(texts.filter(|text| !text.is_empty()).collect());
    }
    let addresses = objects.iter();
    Ok(addresses
        .filter_map(|address| address.optional_text("ipAddress"))
        .collect())
}
