//! A server with the maximum number of tags takes no further one: a user has to remove one.

use super::{
    super::{
        facts::{ServerFacts, is_same_uuid},
        protocol_facts,
    },
    ServerDecision, ServerEffect,
    release::wait_and_show_server,
};
use crate::{
    account::view::SeenServer,
    explanation::Explanation,
    wording::{counted, listed},
};
use api::{
    Reason,
    names::{RESERVED_PREFIX, RETAINED_TAG},
};
use hosting_types::tag::MOST_TAGS;

/// Blocks an effect that the provider would refuse because the server has too many tags.
pub fn block_over_tag_limit(facts: &ServerFacts, decision: &mut ServerDecision) {
    let (uuid, tags) = match &decision.effect {
        Some(ServerEffect::AddTag { uuid, tag }) => (uuid, vec![tag.clone()]),
        Some(ServerEffect::Retain { uuid }) => (uuid, vec![RETAINED_TAG.to_owned()]),
        Some(ServerEffect::Claim { uuid }) => (uuid, tags_to_claim(facts)),
        _ => return,
    };
    let is_it = |s: &&SeenServer| is_same_uuid(s.server.id.as_str(), uuid);
    let Some(SeenServer { server, .. }) = protocol_facts::list_seen_servers(facts).find(is_it)
    else {
        return;
    };
    let missing: Vec<&str> = tags
        .iter()
        .map(String::as_str)
        .filter(|tag| !server.has_tag(tag))
        .collect();
    if missing.is_empty() || server.tags.len() + missing.len() <= MOST_TAGS {
        return;
    }
    let others = server
        .tags
        .iter()
        .filter(|t| !t.starts_with(RESERVED_PREFIX));
    let explanation = Explanation::stalled(
        Reason::TooManyEntries,
        format!(
            "Server {} has {}; the operator has to add {}. Remove one of its other tags at the provider: {}",
            server.id,
            counted(server.tags.len(), "tag"),
            listed(missing),
            listed(others.map(String::as_str))
        ),
    );
    *decision = wait_and_show_server(facts, server, explanation);
}

/// The tags that an adopted server gets.
fn tags_to_claim(facts: &ServerFacts) -> Vec<String> {
    let own = facts.order().and_then(|order| facts.order_tag(order));
    own.into_iter().chain([facts.cluster.tag()]).collect()
}
