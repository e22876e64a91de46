//! Refreshes servers and memory in the facts. Pure, so that an effect can repeat it right before an irreversible step.

use super::{
    decide::{existing, reinstall},
    facts::{ExternalServer, ServerFacts, is_same_uuid},
    protocol_facts,
};
use crate::{
    account::{
        ownership_tags,
        view::{AccountState, AccountView, SeenServer},
    },
    owner::{Owner, parse_order_tag},
    protocol::resolve,
};
use api::{install::InstallHistory, names::ORDER_TAG, server::OrderRecord};
use hosting_types::{Server, ServerId};
use std::sync::Arc;

/// Index of servers and owners outside of the object.
pub trait ServerIndex {
    /// All servers with an order tag of this namespace and name, in any state, including those from before the
    /// namespace was recreated.
    fn servers_by_namespaced_name_hash(&self, place: &str) -> Vec<SeenServer>;
    /// The server with this UUID, with any tags.
    fn find_server(&self, uuid: &str) -> Option<SeenServer>;
    /// Whether another object than `except` (a UID) has this owner; none if unknown.
    fn is_owner(&self, owner: &str, except: &str) -> Option<bool>;
    /// Whether another object than `except` (a UID) has recorded this server.
    fn is_recorded(&self, uuid: &str, except: &str) -> bool;
    /// Whether another live object of the namespace than `except` (a UID) names this server in `spec.externalID`.
    fn is_named(&self, uuid: &str, namespace: &str, except: &str) -> bool;
}

/// Fills in the servers and updates `facts.memory`, which the caller keeps. Without `known` there is no account, and
/// the servers stay as they are.
pub fn refresh_facts(facts: &mut ServerFacts, known: Option<&impl ServerIndex>) {
    let now = facts.now.mono;
    facts.memory.record_leadership(facts.leader_since);
    let asked = facts.reconcile_request().map(str::to_owned);
    facts.memory.asked.record_request(asked.as_deref(), now);
    let installs = reinstall::find_history_of_status(facts);
    let open = installs.as_ref().and_then(InstallHistory::unfinished);
    facts.memory.install.follow_open(open, now);
    if let Some(connection) = facts.view().and_then(|v| v.credentials_hash.clone()) {
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
        // A blocked account is not read: the server may be listed meanwhile, so the collected absence does not count.
        facts.memory.protocol.reset_absence();
    }
    let recorded = facts.object.status.as_ref().map(|s| &*s.records.tags);
    let (named, tags) = (&facts.object.spec.tags, &mut facts.memory.tags);
    tags.forget(now, named, recorded.unwrap_or_default());
    let order = facts.order().map(protocol_facts::to_protocol_order);
    let object = protocol_facts::to_protocol_object(facts);
    facts
        .memory
        .protocol
        .observe_object(&object, order, facts.created_since_leading, now);
    let (Some(known), Some(owner)) = (known, facts.owner()) else {
        return;
    };
    refresh_servers(facts, known, &owner);
    refresh_claims_of_others(facts, known, &owner);
    let ended = existing::find_existing(facts).map(|kept| kept.server);
    let ended = ended.filter(|server| !server.status.is_live());
    facts.memory.record_ended_server(ended.as_deref(), now);
    let Some(account) = facts.view().cloned() else {
        return;
    };
    let shown = protocol_facts::collect_servers(facts, &owner);
    let observed = protocol_facts::to_protocol_view(facts, &account, &shown)
        .map(|view| resolve::observed(&view));
    if let Some(observed) = observed {
        facts.memory.protocol = observed;
    }
}

/// Whether the account's servers are not read now.
fn is_blocked(view: &AccountView) -> bool {
    matches!(view.state, AccountState::Blocked(..))
}

fn refresh_servers(facts: &mut ServerFacts, known: &impl ServerIndex, owner: &Owner) {
    let recorded = facts.order().and_then(|order| order.server.clone());
    // Only from reads and polls: an old list may show a deleted server.
    facts.recorded = recorded.and_then(|uuid| known.find_server(&uuid));
    let is_own = |server: &Server| has_order_tag(server, owner);
    let mut servers = known.servers_by_namespaced_name_hash(owner.name_hash());
    // Unless a live server is recorded, the deciding lists count too: a single read does not confirm an absence.
    let has_one = facts
        .recorded
        .as_ref()
        .is_some_and(|s| s.server.status.is_live());
    if !has_one {
        // For the recorded server only reads and polls count.
        let is_its = |s: &Server| {
            ownership_tags::has_name_hash(s, owner.name_hash())
                && !facts.has_recorded(s.id.as_str())
        };
        for seen in list_from_account(facts, is_its)
            .into_iter()
            .chain(list_from_cluster(facts, is_its))
        {
            keep_newer(&mut servers, seen);
        }
    }
    if let Some(recorded) = facts.recorded.clone().filter(|s| is_own(&s.server)) {
        keep_newer(&mut servers, recorded);
    }
    facts.external = find_external_server(facts, known);
    if let Some(shown) = facts
        .external
        .as_ref()
        .and_then(|named| named.shown.clone())
        && is_own(&shown.server)
        && !facts.has_recorded(shown.server.id.as_str())
    {
        keep_newer(&mut servers, shown);
    }
    (facts.own, facts.previous) = servers.into_iter().partition(|s| is_own(&s.server));
    facts.previous.retain(|s| s.server.status.is_live());
    facts.previous.sort_by(|a, b| a.server.id.cmp(&b.server.id));
    facts.suspects = find_suspects(facts);
}

/// Servers of the newest list of the whole account that match.
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

/// Servers of the newest list by cluster tag that match.
fn list_from_cluster(facts: &ServerFacts, is_it: impl Fn(&Server) -> bool) -> Vec<SeenServer> {
    let Some(list) = facts.view().and_then(|view| view.complete_list.as_ref()) else {
        return Vec::new();
    };
    let found = list.servers.iter().filter(|server| is_it(server));
    let found = found.map(|server| SeenServer {
        server: server.clone(),
        seen: list.began,
    });
    found.collect()
}

/// Adds a seen server; if it is known already, the newer one stays.
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

/// The server that the spec names, as the latest read, poll or complete list shows it.
fn find_external_server(facts: &ServerFacts, known: &impl ServerIndex) -> Option<ExternalServer> {
    let uuid = facts.object.spec.external_id.clone()?;
    let is_it = |id: &str| is_same_uuid(id, &uuid);
    let listed = facts.view().and_then(|view| view.servers.as_ref());
    let on_list = listed.and_then(|(at, all)| {
        let server = all.iter().find(|s| is_it(s.id.as_str()))?;
        let server = Arc::new(server.clone());
        Some(SeenServer { server, seen: *at })
    });
    let listed_at = listed.map(|(at, _)| *at);
    // A server that a later list lacks no longer exists.
    let read = known.find_server(&uuid);
    let read = read.filter(|s| on_list.is_some() || listed_at.is_none_or(|at| s.seen >= at));
    let shown = on_list.into_iter().chain(read).max_by_key(|s| s.seen);
    Some(ExternalServer {
        uuid,
        shown,
        listed_at,
    })
}

/// Live servers with the object's host name and no order tag, on the newest list of the account. For an open order:
/// created since then.
fn find_suspects(facts: &ServerFacts) -> Vec<SeenServer> {
    let open = facts.order().filter(|order| order.outcome.is_none());
    let since = open.map_or(i64::MIN, OrderRecord::started_at);
    let hostname = open.map(|order| order.hostname.as_str());
    let hostname = hostname.filter(|name| !name.is_empty());
    let hostname = hostname.unwrap_or_else(|| facts.hostname());
    list_from_account(facts, |server| is_suspect(server, hostname, since))
}

/// Maximum difference between the provider's clock and ours, in seconds.
const CLOCK_SLACK: i64 = 300;

/// Whether this is a live server with this host name, created since then, without an order tag. A cluster tag does not
/// exclude it: its order tag may be lost.
pub fn is_suspect(server: &Server, hostname: &str, since: i64) -> bool {
    let earliest = since.saturating_sub(CLOCK_SLACK);
    server.status.is_live()
        && server.name.trim().eq_ignore_ascii_case(hostname)
        && server.created_at.is_none_or(|at| at >= earliest)
        && !server.tags.iter().any(|tag| tag.starts_with(ORDER_TAG))
}

/// Finds which of these servers belong to other objects.
fn refresh_claims_of_others(facts: &mut ServerFacts, known: &impl ServerIndex, owner: &Owner) {
    let uid = facts.uid();
    let is_recorded = |server: &Server| known.is_recorded(server.id.as_str(), uid);
    // No object is left from before the namespace was recreated.
    let is_owned = |server: &Server| {
        let owners = server.tags.iter().filter_map(|tag| parse_order_tag(tag));
        let mut others = owners
            .map(|(it, _)| it)
            .filter(|it| !it.starts_with(owner.name_hash()));
        others.any(|it| known.is_owner(it, uid) != Some(false))
    };
    let which = |is_so: &dyn Fn(&Server) -> bool| -> Vec<ServerId> {
        let found = protocol_facts::list_seen_servers(facts).filter(|s| is_so(&s.server));
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
