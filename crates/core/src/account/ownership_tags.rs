//! The tags that show which servers are ours (see `docs/contributing/architecture.md`).

use crate::owner;
use api::names::{CLUSTER_TAG, ORDER_TAG, RESERVED_PREFIX, RETAINED_TAG};
use hosting_types::Server;
use sha2::{Digest as _, Sha256};

/// Hex digits of the owner hash of an object that is no server.
const OWNER_HASH_DIGITS: usize = 24;

/// The tag of every server of a cluster. `cluster`: its ID, 16 hex digits.
pub fn cluster_tag(cluster: &str) -> String {
    format!("{CLUSTER_TAG}{cluster}")
}

/// The owner in an order tag; none for any other tag.
pub fn owner(tag: &str) -> Option<&str> {
    owner::parse_order_tag(tag).map(|(owner, _)| owner)
}

/// The name hash in an order tag, 28 hex digits for namespace and name; none for any other tag. The servers of an
/// object are found by it.
pub fn name_hash(tag: &str) -> Option<&str> {
    owner(tag).map(|owner| &owner[..owner::NAME_HASH])
}

/// All name hashes in a server's tags; normally one.
pub fn name_hashes(server: &Server) -> impl Iterator<Item = &str> {
    server.tags.iter().filter_map(|tag| name_hash(tag))
}

/// Whether a server has this name hash.
pub fn has_name_hash(server: &Server, of: &str) -> bool {
    // Checks the prefix first: this runs for every server of a list.
    let could_be = |tag: &&str| {
        tag.get(ORDER_TAG.len()..)
            .is_some_and(|it| it.starts_with(of))
    };
    let mut tags = server.tags.iter().map(String::as_str).filter(could_be);
    tags.any(|tag| name_hash(tag) == Some(of))
}

/// The number in an order tag, a Unix second; none for any other tag.
pub fn seq(tag: &str) -> Option<i64> {
    owner::parse_order_tag(tag).map(|(_, seq)| i64::from(seq))
}

/// All owners in a server's tags; normally one.
pub fn owners(server: &Server) -> impl Iterator<Item = &str> {
    server.tags.iter().filter_map(|tag| owner(tag))
}

/// The first order tag of a server.
pub fn order_tag(server: &Server) -> Option<&str> {
    let mut tags = server.tags.iter().map(String::as_str);
    tags.find(|tag| owner(tag).is_some())
}

/// The owner hash: 24 hex digits of a hash over cluster ID, namespace, name and UID.
pub fn owner_hash(cluster: &str, namespace: &str, name: &str, uid: &str) -> String {
    let mut hash = Sha256::new();
    // Kubernetes names have no NUL, so the parts cannot run into each other.
    for part in [cluster, namespace, name, uid] {
        hash.update(part.as_bytes());
        hash.update([0]);
    }
    let digits = hash.finalize();
    digits[..OWNER_HASH_DIGITS / 2]
        .iter()
        .map(|b| format!("{b:02x}"))
        .collect()
}

/// Whether the server was retained by policy.
pub fn is_retained(server: &Server) -> bool {
    server.has_tag(RETAINED_TAG)
}

/// The namespaces, as in an owner, whose objects retained the server; none if it is not retained.
pub fn retained_in(server: &Server) -> impl Iterator<Item = &str> {
    let owners = owners(server).filter(|_| is_retained(server));
    owners.map(owner::namespace_of)
}

/// The most that two set clocks differ, in seconds. An order tag that differs more is ignored.
const DAY: i64 = 24 * 3600;

/// When a server was created, in Unix seconds: the later of the provider's time and the time in its order tag, which is
/// of our own clock. A slow provider clock then makes no server look old.
pub fn creation_time(server: &Server) -> Option<i64> {
    let created = server.created_at?;
    let ordered = server.tags.iter().filter_map(|tag| seq(tag));
    let near = ordered.filter(|at| at.abs_diff(created) <= DAY.unsigned_abs());
    Some(near.fold(created, i64::max))
}

/// Whether a tag is an operator's own, of any cluster.
pub fn is_operators(tag: &str) -> bool {
    tag.starts_with(RESERVED_PREFIX)
}
