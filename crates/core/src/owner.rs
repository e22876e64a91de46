//! The owner of a server: a namespace, by its UID, and an object name in it. A recreated object of the same name is the
//! same owner. An order has the tags `fmo-cluster:<16 hex>` and `fmo-order:<44 hex owner><8 hex number>`.

use crate::cluster_id::ClusterId;
use api::names::ORDER_TAG;
use sha2::{Digest as _, Sha256};
use std::{fmt, time::Duration};

/// Hex digits of the hash of a namespace, and of a name in it.
const NAME: usize = 14;
/// Hex digits of the hash of a namespace's UID.
const UID: usize = 16;
/// Hex digits of the number of an order.
const SEQ: usize = 8;
/// Hex digits that stay the same when a namespace is recreated: its name, and the object's name.
pub const NAME_HASH: usize = 2 * NAME;
/// Hex digits of an owner.
pub const OWNER: usize = NAME_HASH + UID;
/// Delay after which a namespace is read again if its UID could not be read.
pub const READ_NAMESPACE_AGAIN: Duration = Duration::from_secs(5);

/// An owner: 44 hex digits.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Owner(String);

impl Owner {
    /// The owner of all servers that the object of this name orders.
    pub fn new(cluster: &ClusterId, namespace: &str, name: &str, namespace_uid: &str) -> Self {
        let cluster = cluster.as_str();
        let mut digits = namespace_hash(cluster, namespace);
        digits.push_str(&hash(&[cluster, namespace, name], NAME));
        digits.push_str(&hash(&[cluster, namespace_uid], UID));
        Self(digits)
    }

    /// The 44 digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The part that stays the same when the namespace is recreated.
    pub fn name_hash(&self) -> &str {
        &self.0[..NAME_HASH]
    }

    /// The tag of an order.
    pub fn order_tag(&self, seq: u32) -> String {
        format!("{ORDER_TAG}{}{seq:08x}", self.0)
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Owner and order number of an order tag; None for any other tag.
pub fn parse_order_tag(tag: &str) -> Option<(&str, u32)> {
    let digits = tag.strip_prefix(ORDER_TAG)?;
    let is_hex = |b| matches!(b, b'0'..=b'9' | b'a'..=b'f');
    if digits.len() != OWNER + SEQ || !digits.bytes().all(is_hex) {
        return None;
    }
    let (owner, seq) = digits.split_at(OWNER);
    Some((owner, u32::from_str_radix(seq, 16).ok()?))
}

/// The part of an owner that is the hash of the namespace's name.
pub fn namespace_of(owner: &str) -> &str {
    owner.get(..NAME).unwrap_or_default()
}

/// The same part for a namespace. `cluster`: 16 hex digits.
pub fn namespace_hash(cluster: &str, namespace: &str) -> String {
    hash(&[cluster, namespace], NAME)
}

fn hash(parts: &[&str], digits: usize) -> String {
    let mut hash = Sha256::new();
    // Kubernetes names contain no NUL, so NUL separates the parts.
    for part in parts {
        hash.update(part.as_bytes());
        hash.update([0]);
    }
    let mut text = format!("{:x}", hash.finalize());
    text.truncate(digits);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(namespace: &str, name: &str, uid: &str) -> Owner {
        Owner::new(&ClusterId::from_namespace_uid("u"), namespace, name, uid)
    }

    #[test]
    fn order_tag_parses_back_and_fits_the_api() {
        let owner = owner("shop", "web", "1");
        let tag = owner.order_tag(1_790_000_000);
        assert_eq!(tag.len(), 62);
        let is_let = |b: u8| b.is_ascii_alphanumeric() || b"_:-".contains(&b);
        assert!(tag.bytes().all(is_let));
        assert_eq!(parse_order_tag(&tag), Some((owner.as_str(), 1_790_000_000)));
    }

    #[test]
    fn recreated_namespace_keeps_only_name_hash() {
        let (one, again) = (owner("shop", "web", "1"), owner("shop", "web", "2"));
        assert_ne!(one, again);
        assert_eq!(one.name_hash(), again.name_hash());
        assert_ne!(one.name_hash(), owner("shop", "db", "1").name_hash());
        assert_ne!(
            owner("a", "bc", "1").name_hash(),
            owner("ab", "c", "1").name_hash()
        );
        let cluster = ClusterId::from_namespace_uid("u");
        let namespace = namespace_hash(cluster.as_str(), "shop");
        assert_eq!(namespace_of(one.as_str()), namespace);
    }

    #[test]
    fn other_tags_are_no_order_tags() {
        let short = format!("fmo-order:{}", "0".repeat(51));
        let other = format!("fmo-order:{}g", "0".repeat(51));
        for tag in ["fmo-order:", "order:0123", &short, &other] {
            assert_eq!(parse_order_tag(tag), None, "{tag}");
        }
    }
}
