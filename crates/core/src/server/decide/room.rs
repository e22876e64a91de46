//! A machine that has as many tags as it can have takes no further one: a person has to make room.

use super::{
    super::{
        facts::{Facts, is_same_uuid},
        ownership,
    },
    Decision, Effect,
    release::showing,
};
use crate::{
    account::view::Sighting,
    cause::Cause,
    wording::{counted, listed},
};
use api::{
    Reason,
    names::{RESERVED_PREFIX, RETAINED_TAG},
};
use hosting_types::tag::MOST_TAGS;

/// Holds an effect that the provider could only refuse.
pub fn check(facts: &Facts, decision: &mut Decision) {
    let (uuid, tags) = match &decision.effect {
        Some(Effect::AddTag { uuid, tag }) => (uuid, vec![tag.clone()]),
        Some(Effect::Retain { uuid }) => (uuid, vec![RETAINED_TAG.to_owned()]),
        Some(Effect::Claim { uuid }) => (uuid, claimed(facts)),
        _ => return,
    };
    let is_it = |s: &&Sighting| is_same_uuid(s.server.id.as_str(), uuid);
    let Some(Sighting { server, .. }) = ownership::sightings(facts).find(is_it) else {
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
    let cause = Cause::needs_person(
        Reason::TooManyEntries,
        format!(
            "Server {} has {}; the operator has to add {}. Remove one of its other tags at the provider: {}",
            server.id,
            counted(server.tags.len(), "tag"),
            listed(missing),
            listed(others.map(String::as_str))
        ),
    );
    *decision = showing(facts, server, cause);
}

/// The tags that a server gets that is taken.
fn claimed(facts: &Facts) -> Vec<String> {
    let own = facts.order().and_then(|order| facts.order_tag(order));
    own.into_iter().chain([facts.cluster.tag()]).collect()
}
