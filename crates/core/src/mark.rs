//! Marks: how a machine at the provider says which cluster and which object ordered it.
//!
//! An order carries two tags: `fmo-cluster:<16 hex>` and `fmo-order:<24 hex object mark><8 hex epoch>`.
//! No two living objects share namespace and name, so no two share a mark.

use crate::account::marks;
use api::names::ORDER_TAG;
use sha2::{Digest as _, Sha256};
use std::fmt;

/// Identity of the cluster: 16 hex digits.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClusterId(String);

/// A cluster identity that is not 16 hex digits.
#[derive(Debug, thiserror::Error)]
#[error("a cluster identity is 16 lower-case hex digits, not {0:?}")]
pub struct InvalidClusterId(String);

impl ClusterId {
    /// The identity that follows from the UID of the namespace `kube-system`.
    pub fn of_namespace_uid(uid: &str) -> Self {
        Self(hex(&Sha256::digest(uid.as_bytes()), 16))
    }

    /// An identity given by a person.
    ///
    /// # Errors
    /// When the text is not 16 lower-case hex digits.
    pub fn parse(text: &str) -> Result<Self, InvalidClusterId> {
        if text.len() == 16 && is_hex(text) {
            Ok(Self(text.into()))
        } else {
            Err(InvalidClusterId(text.into()))
        }
    }

    /// The 16 digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The tag that every machine of this cluster bears.
    pub fn tag(&self) -> String {
        marks::cluster_tag(&self.0)
    }

    /// The mark of an object: a hash of this identity, namespace, name and UID.
    pub fn object_mark(&self, namespace: &str, name: &str, uid: &str) -> Mark {
        Mark(marks::mark(&self.0, namespace, name, uid))
    }

    /// The tag of a machine that the object of this namespace and name leaves behind.
    pub fn tag_of_retained(&self, namespace: &str, name: &str) -> String {
        marks::tag_of_retained(&self.0, namespace, name)
    }

    /// The mark of what stands at this place, whichever object that is: a hash of this identity, namespace and name.
    pub fn place_mark(&self, namespace: &str, name: &str) -> Mark {
        // No object has an empty UID, so this is nobody's own mark.
        self.object_mark(namespace, name, "")
    }
}

/// Mark of an object: 24 hex digits.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Mark(String);

impl Mark {
    /// A mark that was written down before. Anything but 24 hex digits is none.
    pub fn parse(text: &str) -> Option<Self> {
        (text.len() == 24 && is_hex(text)).then(|| Self(text.into()))
    }

    /// The 24 digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The tag of one order of this object.
    pub fn order_tag(&self, epoch: i64) -> String {
        format!(
            "{ORDER_TAG}{}{:08x}",
            self.0,
            epoch.clamp(0, i64::from(u32::MAX))
        )
    }

    /// The common prefix of all order tags of this object.
    pub fn tag_prefix(&self) -> String {
        format!("{ORDER_TAG}{}", self.0)
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Reads an order tag: the object mark and the epoch.
pub fn parse_order_tag(tag: &str) -> Option<(Mark, i64)> {
    let (mark, epoch) = marks::parts(tag)?;
    Some((Mark(mark.into()), i64::from_str_radix(epoch, 16).ok()?))
}

/// The order marks among a machine's tags.
pub fn marks_of(tags: &[String]) -> impl Iterator<Item = (Mark, i64)> + '_ {
    tags.iter().filter_map(|t| parse_order_tag(t))
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

fn hex(bytes: &[u8], digits: usize) -> String {
    let mut text: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
    text.truncate(digits);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_tag_is_read_back_and_fits_the_api() {
        let mark = ClusterId::of_namespace_uid("u").object_mark("ns", "name", "uid");
        let tag = mark.order_tag(1_790_000_000);
        assert_eq!(tag.len(), "fmo-order:".len() + 32);
        assert!(
            tag.len() <= 64
                && tag
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b"_:-".contains(&b))
        );
        assert_eq!(parse_order_tag(&tag), Some((mark, 1_790_000_000)));
    }

    #[test]
    fn the_tag_of_what_is_left_behind_tells_the_namespace_and_fits_the_api() {
        let cluster = ClusterId::of_namespace_uid("u");
        let tag = cluster.tag_of_retained("shop", "web");
        assert!(tag.len() <= 64, "{tag}");
        let namespace = marks::namespace_mark(cluster.as_str(), "shop");
        let place = cluster.place_mark("shop", "web");
        assert_eq!(tag, format!("fmo-retained:{namespace}{place}"));
        assert_ne!(tag, cluster.tag_of_retained("shop", "db"));
        assert_ne!(
            namespace,
            marks::namespace_mark(cluster.as_str(), "workshop")
        );
    }

    #[test]
    fn parts_of_a_name_do_not_run_into_each_other() {
        let cluster = ClusterId::of_namespace_uid("u");
        assert_ne!(
            cluster.object_mark("a", "bc", "d"),
            cluster.object_mark("ab", "c", "d")
        );
    }

    #[test]
    fn other_tags_are_no_order_tags() {
        for tag in [
            "fmo-order:",
            "fmo-order:xyz",
            "order:0123",
            "fmo-order:0123456789abcdef0123456789abcdeg",
        ] {
            assert_eq!(parse_order_tag(tag), None, "{tag}");
        }
    }
}
