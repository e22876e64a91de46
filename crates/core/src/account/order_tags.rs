//! Order tags that nobody needs any more.
//!
//! Each order makes a tag, and the provider keeps it when the server is released. It is removed once the order is older
//! than a day and a released server of the cluster has it: an order of unknown outcome, and that of another cluster, has a
//! tag that no such server shows, and looks for it.

use super::{on_record::OnRecord, ownership_tags};
use api::account::KnownServer;
use hosting_types::{Server, ServerStatus, TagRecord};
use std::collections::{BTreeSet, HashSet};

/// How old the order of a tag that is removed is at least, in seconds.
const LEAST_AGE: i64 = 86_400;
/// The most tags that one scan removes.
pub const MOST_REMOVED: usize = 50;

/// The order tags of an account that are old, and the released servers that have them.
#[derive(Clone, Debug)]
pub struct OldOrderTags {
    now: i64,
    known: Vec<KnownServer>,
    /// By the second of their order.
    tags: BTreeSet<(i64, String)>,
    /// Those of released servers of the cluster.
    ended: HashSet<String>,
    cluster_tag: String,
    is_known_shown: bool,
}

impl OldOrderTags {
    /// None yet. `now`: Unix second by a clock that was not turned forward; `known`: servers of which a list that tells the
    /// truth shows one.
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

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.tags.is_empty()
    }

    /// Takes in a tag of the account's list.
    pub fn add_tag(&mut self, record: &TagRecord) {
        let counts = [record.resources, record.servers];
        let is_in_use = counts.into_iter().flatten().any(|count| count > 0);
        let ordered = ownership_tags::seq(&record.tag);
        let ordered = ordered.filter(|at| at.saturating_add(LEAST_AGE) < self.now);
        if let Some(ordered) = ordered.filter(|_| !is_in_use) {
            self.tags.insert((ordered, record.tag.clone()));
        }
    }

    /// Takes in a server of a list of the whole account, which began after that of the tags.
    pub fn add_server(&mut self, server: &Server) {
        let is_it = |known: &KnownServer| server.id.as_str().eq_ignore_ascii_case(&known.uuid);
        self.is_known_shown |= self.known.iter().any(is_it);
        let is_released = server.status == ServerStatus::Released;
        let is_own = server.has_tag(&self.cluster_tag);
        for tag in &server.tags {
            match ownership_tags::seq(tag) {
                // A released server is found by its identifier alone.
                Some(_) if is_released && is_own => _ = self.ended.insert(tag.clone()),
                Some(ordered) if !is_released => _ = self.tags.remove(&(ordered, tag.clone())),
                _ => {}
            }
        }
    }

    /// The tags to remove, the oldest first, once both lists are complete.
    pub fn to_remove(self, on_record: &OnRecord) -> Vec<String> {
        if !self.known.is_empty() && !self.is_known_shown {
            return Vec::new();
        }
        let recorded = on_record.servers.iter().map(|machine| &machine.name_hash);
        let open = on_record.open_orders.iter().map(|order| &order.name_hash);
        let recorded = recorded.chain(open).map(String::as_str);
        let recorded: HashSet<&str> = recorded.collect();
        // A search for an order looks up the tag of a known server, too: of a live one, where there is one.
        let has_live = self.known.iter().any(|known| known.live);
        let is_looked_up =
            |tag: &str| !has_live && self.known.iter().any(|known| known.order_tag == tag);
        let is_needed = |tag: &str| {
            ownership_tags::name_hash(tag).is_none_or(|mark| recorded.contains(mark))
                || is_looked_up(tag)
        };
        let tags = self.tags.iter().map(|(_, tag)| tag);
        let unneeded = tags
            .filter(|tag| self.ended.contains(*tag) && !is_needed(tag.as_str()))
            .take(MOST_REMOVED);
        unneeded.cloned().collect()
    }
}
