//! The servers that identify an account: they show that a key or URL still leads to it, and that a list is complete.

use super::snapshot::Snapshot;
use api::account::KnownServer;
use flexmetal_core::account::{ownership_tags, view::CompleteList};
use hosting_types::Server;
use std::time::Duration;

/// Most servers that identify an account.
pub(crate) const MOST: usize = 3;

/// The servers to keep: live `before`, other live ones, then the rest; as stable as possible, since each change is a
/// write. A list that shows none of `before` may be wrong, so it drops none. `others`: new ones.
pub(crate) fn refresh(
    before: &[KnownServer],
    snapshot: &Snapshot,
    complete_list: Option<&CompleteList>,
    others: Vec<KnownServer>,
) -> Vec<KnownServer> {
    let trusted =
        complete_list.filter(|complete_list| before.iter().any(|k| is_listed(complete_list, k)));
    // A server that was ordered after the list began is not missing from it.
    let stays = |k: &KnownServer| {
        trusted.is_none_or(|complete_list| {
            is_listed(complete_list, k) || is_seen_after(snapshot, k, complete_list.began)
        })
    };
    let (live_before, rest_before): (Vec<_>, Vec<_>) = before
        .iter()
        .filter(|k| stays(k))
        .partition(|k| is_live(snapshot, k));
    let (live, rest): (Vec<_>, Vec<_>) = others.into_iter().partition(|other| other.live);
    // An adoption changes the order tag; the previous one shows nothing any more.
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

/// Servers with an order tag that are not in `before`, the live ones first, each oldest first: old ones are likely to
/// last. Empty if enough of `before` are live.
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

pub(crate) fn is_listed(complete_list: &CompleteList, known: &KnownServer) -> bool {
    complete_list
        .servers
        .iter()
        .any(|s| is_same_server(known, s))
}

pub(crate) fn is_seen_after(snapshot: &Snapshot, known: &KnownServer, began: Duration) -> bool {
    let now = snapshot.own_server(&known.uuid);
    now.is_some_and(|s| s.seen > began)
}
