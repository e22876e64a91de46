//! The tags by which machines are known as ours (see `docs/architecture.md`).

use api::names::{CLUSTER_TAG, ORDER_TAG, RESERVED_PREFIX, RETAINED_PREFIX};
use hosting_types::Server;
use sha2::{Digest as _, Sha256};

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

/// A mark: 24 hex digits of a hash over the cluster's identity, a namespace, a name and a UID. Of an object all are
/// given; of a namespace the name is empty, and of a place in it the UID.
pub fn mark(cluster: &str, namespace: &str, name: &str, uid: &str) -> String {
    let mut hash = Sha256::new();
    // Kubernetes names hold no NUL, so the parts cannot run into each other.
    for part in [cluster, namespace, name, uid] {
        hash.update(part.as_bytes());
        hash.update([0]);
    }
    let digits = hash.finalize();
    digits[..MARK / 2]
        .iter()
        .map(|b| format!("{b:02x}"))
        .collect()
}

/// The mark of a namespace, which no object has: no object has an empty name.
pub fn namespace_mark(cluster: &str, namespace: &str) -> String {
    mark(cluster, namespace, "", "")
}

/// The tag of a machine that the object of this namespace and name leaves behind.
pub fn tag_of_retained(cluster: &str, namespace: &str, name: &str) -> String {
    let place = mark(cluster, namespace, name, "");
    format!(
        "{RETAINED_PREFIX}:{}{place}",
        namespace_mark(cluster, namespace)
    )
}

/// The first tag by which a machine is known as retained.
pub fn retained_tag(server: &Server) -> Option<&str> {
    let mut tags = server.tags.iter().map(String::as_str);
    tags.find(|tag| tag.starts_with(RETAINED_PREFIX))
}

/// Whether the machine was retained by policy.
pub fn is_retained(server: &Server) -> bool {
    retained_tag(server).is_some()
}

/// The marks of the namespaces whose objects left the machine behind; none where nothing tells.
pub fn retained_in(server: &Server) -> impl Iterator<Item = &str> {
    left_behind(server).map(|(namespace, _)| namespace)
}

/// The marks of the places, namespace and name, whose objects left the machine behind.
pub fn retained_at(server: &Server) -> impl Iterator<Item = &str> {
    left_behind(server).map(|(_, place)| place)
}

/// What the tags of a retained machine tell: the marks of namespace and place of each object that left it behind.
fn left_behind(server: &Server) -> impl Iterator<Item = (&str, &str)> {
    server.tags.iter().filter_map(|tag| {
        let digits = tag.strip_prefix(RETAINED_PREFIX)?.strip_prefix(':')?;
        let is_hex = |b| matches!(b, b'0'..=b'9' | b'a'..=b'f');
        let is_own = digits.len() == 2 * MARK && digits.bytes().all(is_hex);
        is_own.then(|| digits.split_at(MARK))
    })
}

/// Whether a tag is one of the operator's own, of whichever cluster.
pub fn is_mark(tag: &str) -> bool {
    tag.starts_with(RESERVED_PREFIX)
}

/// All marks by which a machine is looked up: those of its objects, and those of the places that left it behind.
pub fn looked_up_by(server: &Server) -> impl Iterator<Item = &str> {
    object_marks(server).chain(retained_at(server))
}
