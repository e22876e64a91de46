//! Orphans: live servers of this cluster without an object. Also counts duplicates and servers of others.

use super::{key::AccountKey, ownership_tags};
use crate::{account::view::CompleteList, owner};
use api::{account::KnownServer, names::CLUSTER_TAG};
use hosting_types::{Server, identity::is_same_uuid};
use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

/// The result of an orphan scan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OrphanScanResult {
    /// Not all namespaces are watched, or no complete list was compared yet.
    NotChecked,
    /// The live servers of this cluster without an object, the oldest first; empty if all is well.
    Found(Vec<Arc<Server>>),
}

/// Compares a complete list with the claims, which must be read after it, or a new server would count as an orphan.
/// None: it shows no known server, so it does not count. `ordering`: owners with an order in flight.
pub fn find_orphans(
    list: &CompleteList,
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
    let shown = |k: &KnownServer| list.servers.iter().any(|s| s.id == *k.uuid);
    if !known.is_empty() && !known.iter().any(shown) {
        return None;
    }
    // The object of a disowned server has another server, on another account.
    let claimed = |server: &Server| {
        let is_disowned = disowned.contains(server.id.as_str());
        ownership_tags::name_hashes(server)
            .any(|hash| ordering.contains(hash) || (claims.contains(hash) && !is_disowned))
    };
    let is_orphan = |s: &&Arc<Server>| {
        s.has_tag(cluster_tag)
            && s.status.is_live()
            && !ownership_tags::is_retained(s)
            && !claimed(s)
    };
    let listed = list.servers.iter().filter(is_orphan);
    let is_listed = |server: &Arc<Server>| list.servers.iter().any(|s| s.id == server.id);
    // A list by the cluster tag does not show these.
    let untagged = untagged
        .iter()
        .filter(|server| !is_listed(server) && !claimed(server));
    let mut orphans: Vec<Arc<Server>> = listed.chain(untagged).cloned().collect();
    orphans.sort_by(|a, b| (a.created_at, &a.id).cmp(&(b.created_at, &b.id)));
    Some(OrphanScanResult::Found(orphans))
}

/// An object with the name in an order tag, and what tells whether the servers with the tag are its own.
#[derive(Clone, Copy, Debug)]
pub struct TaggedOwner<'a> {
    /// The account that it uses, if known.
    pub account: Option<&'a AccountKey>,
    /// UUID of the server in its order record.
    pub recorded: Option<&'a str>,
    /// The owner that its order tags name, if the UID of its namespace is known.
    pub owner: Option<&'a str>,
}

impl TaggedOwner<'_> {
    /// Whether the object disowns a server of this account whose tag names `owner`: the object has another server, on
    /// another account, or the tag is of a previous namespace with the same name.
    pub fn disowns(&self, owner: &str, account: &AccountKey, uuid: &str) -> bool {
        if self.recorded.is_some_and(|own| is_same_uuid(own, uuid)) {
            return false;
        }
        let is_elsewhere = self.account.is_some_and(|own| own != account);
        (self.recorded.is_some() && is_elsewhere) || self.owner.is_some_and(|own| own != owner)
    }
}

/// Most servers without a cluster tag that a scan checks for orphans.
pub const MOST_UNTAGGED: usize = 64;

/// Whether a server may be an orphan that lost its cluster tag; only a list of the whole account shows such a server.
pub fn is_untagged(server: &Server) -> bool {
    let has_cluster = || server.tags.iter().any(|tag| tag.starts_with(CLUSTER_TAG));
    server.status.is_live()
        && ownership_tags::order_tag(server).is_some()
        && !has_cluster()
        && !ownership_tags::is_retained(server)
}

/// The servers among these that are orphans of this cluster: no object has their namespace and name, but their
/// namespace is one of `namespaces`, or of a claim. `namespaces`: this cluster's hashes of them, as in order tags.
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
            .map(|hash| owner::namespace_of(hash).to_owned()),
    );
    let is_ours = |hash: &str| namespaces.contains(owner::namespace_of(hash));
    let is_orphan = |server: &Arc<Server>| {
        ownership_tags::name_hashes(server).any(is_ours)
            && !ownership_tags::name_hashes(server).any(|it| claims.contains(it))
    };
    servers.into_iter().filter(is_orphan).collect()
}

/// How many live servers of a complete list have the same owner as another one before them.
pub fn count_duplicates(list: &CompleteList) -> usize {
    let mut by_owner: HashMap<&str, usize> = HashMap::new();
    let live = list.servers.iter().filter(|s| s.status.is_live());
    for owner in live.flat_map(|server| ownership_tags::owners(server).take(1)) {
        *by_owner.entry(owner).or_default() += 1;
    }
    by_owner.values().map(|count| count - 1).sum()
}

/// Live servers of an account that are not this cluster's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Others {
    /// Those of other clusters, by their tags.
    pub other_clusters: usize,
    /// Those without a tag of any operator.
    pub unmanaged: usize,
}

impl Others {
    /// Counts a live server that is not of this cluster.
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
