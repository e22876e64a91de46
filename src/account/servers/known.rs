//! The machines that an account is known by: they show that a key or URL still
//! leads to the same account, and that a listing tells the truth.

use super::snapshot::Snapshot;
use api::account::KnownServer;
use flexmetal_core::account::{ownership_tags, view::CompleteList};
use hosting_types::Server;
use std::time::Duration;

/// How many are remembered.
pub(crate) const MOST: usize = 3;

/// The machines to remember from now on: live ones of before, then other live ones, then the rest.
/// As stable as can be, since each change is a write; a released machine gives way to a live one, since
/// the provider may clear old records and tags away.
///
/// A listing that shows none of those of before forgets none of them: it may be false. `others`: the new ones.
pub(crate) fn refresh(
    before: &[KnownServer],
    snapshot: &Snapshot,
    proof: Option<&CompleteList>,
    others: Vec<KnownServer>,
) -> Vec<KnownServer> {
    let trusted = proof.filter(|proof| before.iter().any(|k| is_listed(proof, k)));
    // A machine that was ordered after the listing started is not missing from it.
    let stays = |k: &KnownServer| {
        trusted.is_none_or(|proof| is_listed(proof, k) || is_seen_after(snapshot, k, proof.began))
    };
    let (live_before, rest_before): (Vec<_>, Vec<_>) = before
        .iter()
        .filter(|k| stays(k))
        .partition(|k| is_live(snapshot, k));
    let (live, rest): (Vec<_>, Vec<_>) = others.into_iter().partition(|other| other.live);
    // A take-over changes the mark, and what it was before shows nothing any more.
    let as_now = |k: &KnownServer| {
        let now = snapshot.own_server(&k.uuid);
        now.and_then(|s| to_known_server(&s.server))
            .unwrap_or_else(|| k.clone())
    };
    live_before
        .into_iter()
        .map(as_now)
        .chain(live)
        .chain(rest_before.into_iter().map(as_now))
        .chain(rest)
        .take(MOST)
        .collect()
}

/// Machines with a mark that were not known before, the live ones first, each oldest first: one that has lasted is likely to
/// last. None where there is no room for any.
pub(crate) fn others(before: &[KnownServer], snapshot: &Snapshot) -> Vec<KnownServer> {
    if before.iter().filter(|k| is_live(snapshot, k)).count() >= MOST {
        return Vec::new();
    }
    let others = snapshot.own_servers().map(|s| &*s.server);
    let others = others.filter(|s| !before.iter().any(|k| is_same_server(k, s)));
    let mut others: Vec<&Server> = others.collect();
    others.sort_unstable_by_key(|s| (!s.status.is_live(), s.created_at, &s.id));
    others.into_iter().filter_map(to_known_server).collect()
}

fn is_live(snapshot: &Snapshot, known: &KnownServer) -> bool {
    let now = snapshot.own_server(&known.uuid);
    now.is_some_and(|s| s.server.status.is_live())
}

fn to_known_server(server: &Server) -> Option<KnownServer> {
    ownership_tags::order_tag(server).map(|tag| KnownServer {
        uuid: server.id.as_str().to_owned(),
        order_tag: tag.to_owned(),
        live: server.status.is_live(),
    })
}

fn is_same_server(known: &KnownServer, server: &Server) -> bool {
    server.id == *known.uuid
}

fn is_listed(proof: &CompleteList, known: &KnownServer) -> bool {
    proof.servers.iter().any(|s| is_same_server(known, s))
}

fn is_seen_after(snapshot: &Snapshot, known: &KnownServer, began: Duration) -> bool {
    let now = snapshot.own_server(&known.uuid);
    now.is_some_and(|s| s.seen > began)
}
