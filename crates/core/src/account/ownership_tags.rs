//! The tags by which servers are known as ours (see `docs/contributing/architecture.md`).

use crate::owner;
use api::names::{CLUSTER_TAG, ORDER_TAG, RESERVED_PREFIX, RETAINED_TAG};
use hosting_types::Server;
use sha2::{Digest as _, Sha256};

/// Hex digits of the mark of an object that is no server.
const OWNER_HASH_DIGITS: usize = 24;

/// The tag that every server of a cluster has. `cluster` is its identity, 16 hex digits.
pub fn cluster_tag(cluster: &str) -> String {
    format!("{CLUSTER_TAG}{cluster}")
}

/// The owner in an order tag; none for any other tag.
pub fn owner(tag: &str) -> Option<&str> {
    owner::parse_order_tag(tag).map(|(owner, _)| owner)
}

/// The namespace and name in an order tag, 28 hex digits, by which the servers of an object are looked up; none for any
/// other tag.
pub fn name_hash(tag: &str) -> Option<&str> {
    owner(tag).map(|owner| &owner[..owner::NAME_HASH])
}

/// All of those of a server; one in a healthy world.
pub fn name_hashes(server: &Server) -> impl Iterator<Item = &str> {
    server.tags.iter().filter_map(|tag| name_hash(tag))
}

/// Whether a server is of this namespace and name.
pub fn has_name_hash(server: &Server, of: &str) -> bool {
    // Compared first: every server of a list is asked.
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

/// All owners of a server by its tags; one in a healthy world.
pub fn owners(server: &Server) -> impl Iterator<Item = &str> {
    server.tags.iter().filter_map(|tag| owner(tag))
}

/// The first order tag of a server.
pub fn order_tag(server: &Server) -> Option<&str> {
    let mut tags = server.tags.iter().map(String::as_str);
    tags.find(|tag| owner(tag).is_some())
}

/// A mark: 24 hex digits of a hash over the cluster's identity, a namespace, a name and a UID.
pub fn owner_hash(cluster: &str, namespace: &str, name: &str, uid: &str) -> String {
    let mut hash = Sha256::new();
    // Kubernetes names hold no NUL, so the parts cannot run into each other.
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

/// The namespaces, as in an owner, whose objects left a retained server behind; none where nothing tells.
pub fn retained_in(server: &Server) -> impl Iterator<Item = &str> {
    let owners = owners(server).filter(|_| is_retained(server));
    owners.map(owner::namespace_of)
}

/// Whether a tag is one of the operator's own, of whichever cluster.
pub fn is_operators(tag: &str) -> bool {
    tag.starts_with(RESERVED_PREFIX)
}
