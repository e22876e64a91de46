//! A machine that has as many tags as it can have takes no further one: a person has to make room.

use super::{super::facts::Facts, Decision, Effect, release::showing};
use crate::{
    account::view::Sighting,
    cause::Cause,
    wording::{counted, listed},
};
use api::{Reason, names::RESERVED_PREFIX};
use hosting_types::tag::MOST_TAGS;

/// Holds an effect that the provider could only refuse.
pub fn check(facts: &Facts, decision: &mut Decision) {
    let Some(Effect::AddTag { uuid, tag, .. }) = &decision.effect else {
        return;
    };
    let former = facts.former.iter().flat_map(|f| &f.machines);
    let external = facts.external.iter().flat_map(|e| &e.shown);
    let mut seen = facts
        .own
        .iter()
        .chain(&facts.recorded)
        .chain(former)
        .chain(external);
    let Some(Sighting { server, .. }) = seen.find(|s| s.server.id.as_str() == uuid) else {
        return;
    };
    if server.tags.len() < MOST_TAGS || server.has_tag(tag) {
        return;
    }
    let others = server
        .tags
        .iter()
        .filter(|t| !t.starts_with(RESERVED_PREFIX));
    let cause = Cause::needs_person(
        Reason::TooManyEntries,
        format!(
            "machine {} has {}, as many as it can have, and the operator has to add {tag}; remove one of its other tags at the provider: {}",
            server.id,
            counted(server.tags.len(), "tag"),
            listed(others.map(String::as_str))
        ),
    );
    *decision = showing(facts, server, cause);
}
