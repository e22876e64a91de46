//! The machines that an account is known by: they show that a key or URL still
//! leads to the same account, and that a listing tells the truth.

use super::snapshot::Snapshot;
use api::account::KnownServer;
use flexmetal_core::account::{marks, on_record::OnRecord, view::Proof};
use hosting_types::Server;
use std::{collections::HashSet, time::Duration};

/// How many are remembered.
const MOST: usize = 3;

/// The machines to remember from now on: live ones of before, then other live ones, then the rest.
/// As stable as can be, since each change is a write; a released machine gives way to a live one, since
/// the provider may clear old records and tags away.
///
/// A listing that shows none of those of before forgets none of them: it may be false. New ones are those that an object of
/// the account has on record: what somebody else ordered says nothing of whether its lists are complete for us.
pub(crate) fn refresh(
    before: &[KnownServer],
    snapshot: &Snapshot,
    proof: Option<&Proof>,
    on_record: Option<&OnRecord>,
) -> Vec<KnownServer> {
    let trusted = proof.filter(|proof| before.iter().any(|k| shows(proof, k)));
    // A machine that was ordered after the listing started is not missing from it.
    let stays = |k: &KnownServer| {
        trusted.is_none_or(|proof| shows(proof, k) || is_newer(snapshot, k, proof.began))
    };
    let (live_before, rest_before): (Vec<_>, Vec<_>) = before
        .iter()
        .filter(|k| stays(k))
        .partition(|k| is_live(snapshot, k));
    let (live, rest) = match on_record {
        Some(on_record) => oldest_others(before, snapshot, on_record),
        None => (Vec::new(), Vec::new()),
    };
    // A take-over changes the mark, and what it was before shows nothing any more.
    let as_now = |k: &KnownServer| {
        let now = snapshot.one_of_ours(&k.uuid);
        now.and_then(|s| remember(&s.server))
            .unwrap_or_else(|| k.clone())
    };
    live_before
        .into_iter()
        .map(as_now)
        .chain(live.into_iter().filter_map(remember))
        .chain(rest_before.into_iter().map(as_now))
        .chain(rest.into_iter().filter_map(remember))
        .take(MOST)
        .collect()
}

/// Whether there is room for others than these.
pub(crate) fn has_room(before: &[KnownServer], snapshot: &Snapshot) -> bool {
    before.iter().filter(|k| is_live(snapshot, k)).count() < MOST
}

fn is_live(snapshot: &Snapshot, known: &KnownServer) -> bool {
    let now = snapshot.one_of_ours(&known.uuid);
    now.is_some_and(|s| s.server.status.is_live())
}

/// Machines on record with a mark that were not known before, the live ones and the rest: of each the oldest, as
/// many as are remembered. A machine that has lasted is likely to last.
fn oldest_others<'a>(
    before: &[KnownServer],
    snapshot: &'a Snapshot,
    on_record: &OnRecord,
) -> (Vec<&'a Server>, Vec<&'a Server>) {
    let (mut live, mut rest) = (Vec::new(), Vec::new());
    let recorded = on_record.machines.iter().map(|it| it.uuid.as_str());
    let recorded: HashSet<&str> = recorded.collect();
    let others = snapshot.ours().map(|s| &*s.server);
    let is_new = |s: &&Server| {
        recorded.contains(s.id.as_str())
            && marks::order_tag(s).is_some()
            && !before.iter().any(|k| is(k, s))
    };
    for server in others.filter(is_new) {
        let oldest = match server.status.is_live() {
            true => &mut live,
            false => &mut rest,
        };
        let age = |s: &&Server| (s.created_at, &s.id) <= (server.created_at, &server.id);
        let place = oldest.partition_point(age);
        if place < MOST {
            oldest.insert(place, server);
            oldest.truncate(MOST);
        }
    }
    (live, rest)
}

fn remember(server: &Server) -> Option<KnownServer> {
    marks::order_tag(server).map(|tag| KnownServer {
        uuid: server.id.as_str().to_owned(),
        order_tag: tag.to_owned(),
        live: server.status.is_live(),
    })
}

fn is(known: &KnownServer, server: &Server) -> bool {
    known.uuid == server.id.as_str()
}

fn shows(proof: &Proof, known: &KnownServer) -> bool {
    proof.servers.iter().any(|s| is(known, s))
}

fn is_newer(snapshot: &Snapshot, known: &KnownServer, began: Duration) -> bool {
    let now = snapshot.one_of_ours(&known.uuid);
    now.is_some_and(|s| s.seen > began)
}
