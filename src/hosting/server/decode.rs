//! Reading server records.

use crate::hosting::record::{Misfit, Record};
use crate::hosting::server::{Server, ServerId, ServerStatus};

/// Reads one server. Only two fields can spoil it: `uuid`, without which the
/// record says nothing, and `tags`, which tell whose the machine is.
pub(in crate::hosting) fn server(record: &Record<'_>) -> Result<Server, Misfit> {
    let id = ServerId::parse(record.raw_text("uuid"))
        .map_err(|_| "a server record has no usable uuid".to_owned())?;
    Ok(Server {
        name: record.text("name"),
        status: ServerStatus::parse(&record.text("status")),
        status_message: record.message("statusMessage"),
        location: record.inner_text("location", "name"),
        instance_type: record.inner_text("instanceType", "name"),
        os_slug: record.inner_text("os", "slug"),
        addresses: addresses(record),
        tags: record.texts("tags")?,
        created_at: record.seconds("createdAt"),
        delivered_at: record.seconds("deliveredAt"),
        released_at: record.seconds("releasedAt"),
        contract_id: record.optional_text("contractId"),
        id,
    })
}

fn addresses(record: &Record<'_>) -> Vec<String> {
    let objects = record.records("ipAddresses");
    if objects.is_empty() {
        // Plain texts; anything else is as good as no address.
        let texts = record.texts("ipAddresses").unwrap_or_default();
        return texts.into_iter().filter(|text| !text.is_empty()).collect();
    }
    objects
        .iter()
        .filter_map(|address| address.optional_text("ipAddress"))
        .collect()
}
