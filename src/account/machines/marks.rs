//! The tags by which machines are known as ours (see `docs/architecture.md`).

use crate::kinds::names::{CLUSTER_TAG, ORDER_TAG, RETAINED_TAG};
use hosting::Server;

/// Hex digits of an object mark.
const MARK: usize = 24;
/// Hex digits of an epoch.
const EPOCH: usize = 8;

/// The tag that every machine of a cluster bears. `cluster` is its identity, 16 hex digits.
pub fn cluster_tag(cluster: &str) -> String {
    format!("{CLUSTER_TAG}{cluster}")
}

/// Reads an order tag: the digits of the object mark and of the epoch; None for any other tag.
pub fn parts(tag: &str) -> Option<(&str, &str)> {
    let digits = tag.strip_prefix(ORDER_TAG)?;
    let is_hex = |b| matches!(b, b'0'..=b'9' | b'a'..=b'f');
    (digits.len() == MARK + EPOCH && digits.bytes().all(is_hex)).then(|| digits.split_at(MARK))
}

/// The object mark in an order tag; None for any other tag.
pub fn object_mark(tag: &str) -> Option<&str> {
    parts(tag).map(|(mark, _)| mark)
}

/// The epoch in an order tag, a Unix second; None for any other tag.
pub fn epoch(tag: &str) -> Option<i64> {
    let (_, epoch) = parts(tag)?;
    u32::from_str_radix(epoch, 16).ok().map(i64::from)
}

/// All object marks that a machine bears; one in a healthy world.
pub fn object_marks(server: &Server) -> impl Iterator<Item = &str> {
    server.tags.iter().filter_map(|tag| object_mark(tag))
}

/// The first order tag that a machine bears.
pub fn order_tag(server: &Server) -> Option<&str> {
    server
        .tags
        .iter()
        .map(String::as_str)
        .find(|tag| object_mark(tag).is_some())
}

/// Whether the machine was retained by policy.
pub fn is_retained(server: &Server) -> bool {
    server.has_tag(RETAINED_TAG)
}
