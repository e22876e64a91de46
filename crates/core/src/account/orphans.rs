//! Machines that cost and that nobody claims.

use super::ownership_tags;
use crate::{account::view::CompleteList, owner};
use api::{account::KnownServer, names::CLUSTER_TAG};
use hosting_types::Server;
use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

/// The result of a look for orphans.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OrphanScanResult {
    /// Not judged: not all namespaces are watched, or no complete listing was compared yet.
    NotChecked,
    /// The live machines of this cluster that no object claims, the oldest first; none is the good case.
    Found(Vec<Arc<Server>>),
}

/// Compares a complete listing with the claims, which must have been asked for after it: a machine
/// is there before the object forgets it, never the other way round.
///
/// `disowned` holds the machines whose mark is of an object that has another one, on another account.
/// `ordering` holds the marks with an order in flight. `untagged`: orphans without the cluster's tag, which no such listing
/// shows. None: the listing proves nothing, since it shows none of the machines that the account is known by. What else does
/// not bear the cluster's tag is not counted, whatever was asked for.
pub fn find_orphans(
    proof: &CompleteList,
    cluster_tag: &str,
    known: &[KnownServer],
    claims: Option<&HashSet<String>>,
    disowned: &HashSet<String>,
    ordering: &HashSet<String>,
    untagged: &[Arc<Server>],
) -> Option<OrphanScanResult> {
    let Some(claims) = claims else {
        return Some(OrphanScanResult::NotChecked);
    };
    let shown = |k: &KnownServer| proof.servers.iter().any(|s| s.id == *k.uuid);
    if !known.is_empty() && !known.iter().any(shown) {
        return None;
    }
    let claimed = |server: &Server| {
        let is_disowned = disowned.contains(server.id.as_str());
        ownership_tags::name_hashes(server)
            .any(|mark| ordering.contains(mark) || (claims.contains(mark) && !is_disowned))
    };
    let is_orphan = |s: &&Arc<Server>| {
        s.has_tag(cluster_tag)
            && s.status.is_live()
            && !ownership_tags::is_retained(s)
            && !claimed(s)
    };
    let listed = proof.servers.iter().filter(is_orphan);
    let is_listed = |server: &Arc<Server>| proof.servers.iter().any(|s| s.id == server.id);
    let untagged = untagged
        .iter()
        .filter(|server| !is_listed(server) && !claimed(server));
    let mut orphans: Vec<Arc<Server>> = listed.chain(untagged).cloned().collect();
    orphans.sort_by(|a, b| (a.created_at, &a.id).cmp(&(b.created_at, &b.id)));
    Some(OrphanScanResult::Found(orphans))
}

/// Most servers without a cluster's tag that are looked at for orphans.
pub const MOST_UNTAGGED: usize = 64;

/// Whether a server may be an orphan of which somebody took the cluster's tag: only a list of the whole account shows it.
pub fn is_untagged(server: &Server) -> bool {
    let has_cluster = || server.tags.iter().any(|tag| tag.starts_with(CLUSTER_TAG));
    server.status.is_live()
        && ownership_tags::order_tag(server).is_some()
        && !has_cluster()
        && !ownership_tags::is_retained(server)
}

/// Those of such servers that are orphans of this cluster: no object has their namespace and name, and their namespace is one
/// of these, or an object's. `namespaces`: as in order tags, by their hashes, which are of this cluster.
pub fn untagged(
    servers: Vec<Arc<Server>>,
    claims: Option<&HashSet<String>>,
    mut namespaces: HashSet<String>,
) -> Vec<Arc<Server>> {
    let Some(claims) = claims else {
        return Vec::new();
    };
    namespaces.extend(
        claims
            .iter()
            .map(|place| owner::namespace_of(place).to_owned()),
    );
    let is_ours = |place: &str| namespaces.contains(owner::namespace_of(place));
    let is_orphan = |server: &Arc<Server>| {
        ownership_tags::name_hashes(server).any(is_ours)
            && !ownership_tags::name_hashes(server).any(|it| claims.contains(it))
    };
    servers.into_iter().filter(is_orphan).collect()
}

/// How many live machines of a complete listing bear a mark that another live one bears, too.
pub fn count_duplicates(proof: &CompleteList) -> usize {
    let mut by_mark: HashMap<&str, usize> = HashMap::new();
    let live = proof.servers.iter().filter(|s| s.status.is_live());
    for owner in live.flat_map(|server| ownership_tags::owners(server).take(1)) {
        *by_mark.entry(owner).or_default() += 1;
    }
    by_mark.values().map(|bearing| bearing - 1).sum()
}

/// Live machines of an account that are not this cluster's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Others {
    /// Those of other clusters, by their tags.
    pub other_clusters: usize,
    /// Those that no operator has marked.
    pub unmanaged: usize,
}

impl Others {
    /// Counts a live machine, which is not of the cluster with this tag.
    pub fn add(&mut self, server: &Server) {
        match server
            .tags
            .iter()
            .any(|tag| ownership_tags::is_operators(tag))
        {
            true => self.other_clusters += 1,
            false => self.unmanaged += 1,
        }
    }
}
