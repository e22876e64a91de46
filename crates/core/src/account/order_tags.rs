//! Order tags to remove from an account: older than a day, on a released server of this cluster and on no other server.
//! The tag of an order with an unknown outcome, or of another cluster, is on no such server, so it stays.

use super::{ownership_tags, recorded::RecordedResources};
use api::account::KnownServer;
use hosting_types::{Server, ServerStatus, TagRecord};
use std::collections::{BTreeSet, HashSet};

/// Least age of an order whose tag is removed, in seconds.
const LEAST_AGE: i64 = 86_400;
/// The most tags that one scan removes.
pub const MOST_REMOVED: usize = 50;

/// The old order tags of an account, and the released servers that have them.
#[derive(Clone, Debug)]
pub struct OldOrderTags {
    now: i64,
    known: Vec<KnownServer>,
    /// By the Unix second of their order.
    tags: BTreeSet<(i64, String)>,
    /// The tags of the cluster's released servers.
    ended: HashSet<String>,
    cluster_tag: String,
    is_known_shown: bool,
}

impl OldOrderTags {
    /// Starts without tags. `now`: Unix seconds by a clock without forward jumps; `known`: the list of servers must
    /// show one of them.
    pub fn new(now: i64, known: Vec<KnownServer>, cluster_tag: &str) -> Self {
        Self {
            now,
            known,
            tags: BTreeSet::new(),
            ended: HashSet::new(),
            cluster_tag: cluster_tag.to_owned(),
            is_known_shown: false,
        }
    }

    /// Whether there are no old tags.
    pub fn is_empty(&self) -> bool {
        self.tags.is_empty()
    }

    /// Adds a tag from the account's list of tags.
    pub fn add_tag(&mut self, record: &TagRecord) {
        let counts = [record.resources, record.servers];
        let is_in_use = counts.into_iter().flatten().any(|count| count > 0);
        let ordered = ownership_tags::seq(&record.tag);
        let ordered = ordered.filter(|at| at.saturating_add(LEAST_AGE) < self.now);
        if let Some(ordered) = ordered.filter(|_| !is_in_use) {
            self.tags.insert((ordered, record.tag.clone()));
        }
    }

    /// Adds a server from a list of the whole account that began after the list of tags.
    pub fn add_server(&mut self, server: &Server) {
        let is_it = |known: &KnownServer| server.id.as_str().eq_ignore_ascii_case(&known.uuid);
        self.is_known_shown |= self.known.iter().any(is_it);
        let is_released = server.status == ServerStatus::Released;
        let is_own = server.has_tag(&self.cluster_tag);
        for tag in &server.tags {
            match ownership_tags::seq(tag) {
                // A released server is read only by its UUID, so it does not need the tag.
                Some(_) if is_released && is_own => _ = self.ended.insert(tag.clone()),
                Some(ordered) if !is_released => _ = self.tags.remove(&(ordered, tag.clone())),
                _ => {}
            }
        }
    }

    /// The tags to remove, the oldest first, once both lists are complete.
    pub fn to_remove(self, on_record: &RecordedResources) -> Vec<String> {
        if !self.known.is_empty() && !self.is_known_shown {
            return Vec::new();
        }
        let recorded = on_record.servers.iter().map(|server| &server.name_hash);
        let open = on_record.open_orders.iter().map(|order| &order.name_hash);
        let recorded = recorded.chain(open).map(String::as_str);
        let recorded: HashSet<&str> = recorded.collect();
        // The search for an order also lists by the tag of a known server: of a live one, if there is one.
        let has_live = self.known.iter().any(|known| known.live);
        let is_looked_up =
            |tag: &str| !has_live && self.known.iter().any(|known| known.order_tag == tag);
        let is_needed = |tag: &str| {
            ownership_tags::name_hash(tag).is_none_or(|hash| recorded.contains(hash))
                || is_looked_up(tag)
        };
        let tags = self.tags.iter().map(|(_, tag)| tag);
        let unneeded = tags
            .filter(|tag| self.ended.contains(*tag) && !is_needed(tag.as_str()))
            .take(MOST_REMOVED);
        unneeded.cloned().collect()
    }
}
