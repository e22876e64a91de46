//! Brings what this process knows of an object's servers up to the moment of its facts.
//!
//! Pure, so that an effect can do it again right before what cannot be undone.

use super::{
    decide::{existing, reinstall},
    facts::{ExternalServer, ServerFacts, is_same_uuid},
    ownership,
};
use crate::{
    account::{
        ownership_tags,
        view::{AccountState, AccountView, SeenServer},
    },
    owner::{Owner, parse_order_tag},
    protocol::resolve,
};
use api::{install::InstallHistory, names::ORDER_TAG};
use hosting_types::{Server, ServerId};
use std::sync::Arc;

/// What is known outside of the object.
pub trait ServerIndex {
    /// Every server with an order tag of this namespace and name, from whichever life of the namespace, any state.
    fn servers_by_namespaced_name_hash(&self, place: &str) -> Vec<SeenServer>;
    /// A server by its identifier, whatever it bears.
    fn find_server(&self, uuid: &str) -> Option<SeenServer>;
    /// Whether an object with this owner exists, other than the one with this UID; none: that cannot be seen.
    fn is_owner(&self, owner: &str, except: &str) -> Option<bool>;
    /// Whether an object other than the one with this UID has this server on record.
    fn is_recorded(&self, uuid: &str, except: &str) -> bool;
    /// Whether a living object of the namespace other than the one with this UID names this server.
    fn is_named(&self, uuid: &str, namespace: &str, except: &str) -> bool;
}

/// Fills in the servers, and what is remembered from now on. None for `known`: there is no account, and what was known of
/// servers stays.
///
/// Changes `facts.memory`, which the caller keeps.
pub fn refresh_facts(facts: &mut ServerFacts, known: Option<&impl ServerIndex>) {
    let now = facts.now.mono;
    facts.memory.record_leadership(facts.leader_since);
    let asked = facts.reconcile_request().map(str::to_owned);
    facts.memory.asked.record_request(asked.as_deref(), now);
    let installs = reinstall::find_history_of_status(facts);
    let open = installs.as_ref().and_then(InstallHistory::open);
    facts.memory.install.follow_open(open, now);
    if let Some(connection) = facts.view().and_then(|v| v.connection.clone()) {
        facts.memory.record_connection(&connection);
    }
    if let Some(since) = facts.view().map(|view| view.answers_since) {
        facts.memory.record_answers_since(since);
    }
    match facts.release_due() {
        Some(_) => _ = facts.memory.delayed_since.get_or_insert(now),
        None => facts.memory.delayed_since = None,
    }
    if facts.view().is_some_and(is_blocked) {
        // Meanwhile it may be shown again, and nobody would see it: what was collected before proves nothing after it.
        facts.memory.protocol.reset_absence();
    }
    let recorded = facts.object.status.as_ref().map(|s| &*s.records.tags);
    let (named, tags) = (&facts.object.spec.tags, &mut facts.memory.tags);
    tags.forget(now, named, recorded.unwrap_or_default());
    let order = facts.order().map(ownership::to_protocol_order);
    let object = ownership::to_protocol_object(facts);
    facts
        .memory
        .protocol
        .see(&object, order, facts.created_since_leading, now);
    let (Some(known), Some(owner)) = (known, facts.owner()) else {
        return;
    };
    refresh_servers(facts, known, &owner);
    refresh_claims_of_others(facts, known, &owner);
    let over = existing::find_existing(facts).map(|kept| kept.server);
    let over = over.filter(|server| !server.status.is_live());
    facts.memory.record_ended_server(over.as_deref(), now);
    let Some(account) = facts.view().cloned() else {
        return;
    };
    let shown = ownership::collect_servers(facts, &owner);
    let observed =
        ownership::to_protocol_view(facts, &account, &shown).map(|view| resolve::observed(&view));
    if let Some(observed) = observed {
        facts.memory.protocol = observed;
    }
}

/// Whether nobody looks at the servers of the account now.
fn is_blocked(view: &AccountView) -> bool {
    matches!(view.state, AccountState::Blocked(..))
}

fn refresh_servers(facts: &mut ServerFacts, known: &impl ServerIndex, owner: &Owner) {
    let recorded = facts.order().and_then(|order| order.server.clone());
    // From reads and polls alone: a list of long ago may show what is gone.
    facts.recorded = recorded.and_then(|uuid| known.find_server(&uuid));
    let is_own = |server: &Server| has_order_tag(server, owner);
    let mut place = known.servers_by_namespaced_name_hash(owner.name_hash());
    // What the lists show on which it is decided counts, whatever a read said since: gone is proved, and never taken from one
    // answer. Who has a live server on record needs none of that.
    let has_one = facts
        .recorded
        .as_ref()
        .is_some_and(|s| s.server.status.is_live());
    if !has_one {
        // Of the one on record only reads and polls are believed.
        let is_its = |s: &Server| {
            ownership_tags::has_name_hash(s, owner.name_hash())
                && !facts.has_recorded(s.id.as_str())
        };
        for row in list_from_account(facts, is_its)
            .into_iter()
            .chain(list_from_cluster(facts, is_its))
        {
            keep_newer(&mut place, row);
        }
    }
    if let Some(recorded) = facts.recorded.clone().filter(|s| is_own(&s.server)) {
        keep_newer(&mut place, recorded);
    }
    facts.external = find_external_server(facts, known);
    if let Some(shown) = facts
        .external
        .as_ref()
        .and_then(|named| named.shown.clone())
        && is_own(&shown.server)
        && !facts.has_recorded(shown.server.id.as_str())
    {
        keep_newer(&mut place, shown);
    }
    (facts.own, facts.previous) = place.into_iter().partition(|s| is_own(&s.server));
    facts.previous.retain(|s| s.server.status.is_live());
    facts.previous.sort_by(|a, b| a.server.id.cmp(&b.server.id));
    facts.suspects = find_suspects(facts);
}

/// Servers of the newest list of the whole account of which this is so.
fn list_from_account(facts: &ServerFacts, is_it: impl Fn(&Server) -> bool) -> Vec<SeenServer> {
    let Some((seen, servers)) = facts.view().and_then(|view| view.servers.as_ref()) else {
        return Vec::new();
    };
    let found = servers.iter().filter(|server| is_it(server));
    let found = found.map(|server| SeenServer {
        server: Arc::new(server.clone()),
        seen: *seen,
    });
    found.collect()
}

/// Servers of the newest list of the cluster's tag of which this is so.
fn list_from_cluster(facts: &ServerFacts, is_it: impl Fn(&Server) -> bool) -> Vec<SeenServer> {
    let Some(proof) = facts.view().and_then(|view| view.complete_list.as_ref()) else {
        return Vec::new();
    };
    let found = proof.servers.iter().filter(|server| is_it(server));
    let found = found.map(|server| SeenServer {
        server: server.clone(),
        seen: proof.began,
    });
    found.collect()
}

/// Of two sightings of a server the newer one stays.
fn keep_newer(all: &mut Vec<SeenServer>, new: SeenServer) {
    match all.iter_mut().find(|s| s.server.id == new.server.id) {
        Some(known) if known.seen < new.seen => *known = new,
        Some(_) => {}
        None => all.push(new),
    }
}

/// Whether a server has an order tag of this owner.
pub fn has_order_tag(server: &Server, owner: &Owner) -> bool {
    let mut owners = server.tags.iter().filter_map(|tag| parse_order_tag(tag));
    owners.any(|(it, _)| it == owner.as_str())
}

/// The server that the spec names, as a read, a poll or the list of every server showed it last.
fn find_external_server(facts: &ServerFacts, known: &impl ServerIndex) -> Option<ExternalServer> {
    let uuid = facts.object.spec.external_id.clone()?;
    let is_it = |id: &str| is_same_uuid(id, &uuid);
    let listed = facts.view().and_then(|view| view.servers.as_ref());
    let on_list = listed.and_then(|(at, all)| {
        let server = all.iter().find(|s| is_it(s.id.as_str()))?;
        let server = Arc::new(server.clone());
        Some(SeenServer { server, seen: *at })
    });
    let looked = listed.map(|(at, _)| *at);
    // What a later list does not show is not there any more.
    let read = known.find_server(&uuid);
    let read = read.filter(|s| on_list.is_some() || looked.is_none_or(|at| s.seen >= at));
    let shown = on_list.into_iter().chain(read).max_by_key(|s| s.seen);
    Some(ExternalServer {
        uuid,
        shown,
        listed_at: looked,
    })
}

/// Live servers of the object's host name without an order tag, on the newest list of all. Of an order that is open: made
/// since.
fn find_suspects(facts: &ServerFacts) -> Vec<SeenServer> {
    let open = facts.order().filter(|order| order.outcome.is_none());
    // By whichever is earlier: a number may be ahead of the clock.
    let since = open.map_or(i64::MIN, |order| i64::from(order.seq).min(order.send_by));
    let hostname = open.map(|order| order.hostname.as_str());
    let hostname = hostname.filter(|name| !name.is_empty());
    let hostname = hostname.unwrap_or_else(|| facts.hostname());
    list_from_account(facts, |server| is_suspect(server, hostname, since))
}

/// How far the provider's clock may be from ours, in seconds.
const CLOCK_SLACK: i64 = 300;

/// A live server of this host name, made since, that has no order tag: perhaps the object's, with that tag lost. The cluster's
/// tag alone does not clear it: it says whose cluster, not whose order.
pub fn is_suspect(server: &Server, hostname: &str, since: i64) -> bool {
    let earliest = since.saturating_sub(CLOCK_SLACK);
    server.status.is_live()
        && server.name.trim().eq_ignore_ascii_case(hostname)
        && server.created_at.is_none_or(|at| at >= earliest)
        && !server.tags.iter().any(|tag| tag.starts_with(ORDER_TAG))
}

/// What others have of all those servers.
fn refresh_claims_of_others(facts: &mut ServerFacts, known: &impl ServerIndex, owner: &Owner) {
    let uid = facts.uid();
    let is_recorded = |server: &Server| known.is_recorded(server.id.as_str(), uid);
    // Of a former life of the namespace there is no object any more.
    let is_owned = |server: &Server| {
        let owners = server.tags.iter().filter_map(|tag| parse_order_tag(tag));
        let mut others = owners
            .map(|(it, _)| it)
            .filter(|it| !it.starts_with(owner.name_hash()));
        others.any(|it| known.is_owner(it, uid) != Some(false))
    };
    let which = |is_so: &dyn Fn(&Server) -> bool| -> Vec<ServerId> {
        let found = ownership::list_seen_servers(facts).filter(|s| is_so(&s.server));
        found.map(|s| s.server.id.clone()).collect()
    };
    let (recorded, owned) = (which(&is_recorded), which(&is_owned));
    let handed = facts.order().and_then(|order| order.created());
    let is_handed_over =
        handed.is_some_and(|server| known.is_named(server, facts.namespace(), uid));
    facts.recorded_elsewhere = recorded;
    facts.owned_elsewhere = owned;
    facts.is_handed_over = is_handed_over;
}
