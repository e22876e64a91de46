//! The tags of a server follow `spec.tags`, one change per reconcile.
//! Tags with the operator's prefix are its own and are never changed here.

use super::{
    super::facts::{ServerFacts, is_same_uuid},
    ServerEffect,
};
use crate::{
    account::ownership_tags::is_operators,
    backoff::LONGEST_PAUSE,
    explanation::Explanation,
    resolved_account::Purpose,
    wording::{counted, listed},
};
use api::{
    Interval, Reason,
    server::{OrderRecord, TagPolicy},
};
use hosting_types::{
    Server,
    tag::{MOST_TAGS, is_tag},
};
use std::{collections::BTreeSet, time::Duration};

/// How many tags of a server are reserved for the operator: one for retained servers, one for an object that adopts it.
const RESERVED_TAGS: usize = 2;

/// What to record, do and report for the tags of a server.
#[derive(Clone, Debug, Default)]
pub struct SpecTagPlan {
    /// The tags that this object added, for status.
    pub added: Vec<String>,
    /// Whether status must record one of them before the next change: a crash would hide that this object added it.
    pub is_to_record: bool,
    /// The change that is due.
    pub effect: Option<ServerEffect>,
    /// How long until the next change may be due.
    pub rest: Option<Duration>,
    /// What Synced reports.
    pub unsynced: Option<UnsyncedTags>,
}

/// What is reported of tags that differ from the spec.
#[derive(Clone, Debug)]
pub struct UnsyncedTags {
    /// The reason.
    pub reason: Reason,
    /// In words.
    pub message: String,
    /// A short form, if this lasts until a user acts.
    pub lasting: Option<String>,
}

/// Compares the tags of a server with the spec.
pub fn plan_tags(facts: &ServerFacts, record: &OrderRecord, server: &Server) -> SpecTagPlan {
    if !server.status.is_live() {
        return SpecTagPlan {
            added: facts.status().records.tags,
            ..SpecTagPlan::default()
        };
    }
    let put_on = added_tags(facts, record, server);
    let changes = Changes::for_server(facts, &put_on, server);
    let is_to_record = is_to_record(facts, &put_on, server);
    let (effect, rest) = match is_to_record {
        true => (None, None),
        false => changes.next_change(facts, server),
    };
    let said = changes.explain(facts, server);
    let reported_for = reverted_tags(facts, &changes, server).map(|(_, rest)| rest);
    SpecTagPlan {
        added: put_on,
        is_to_record,
        effect,
        rest: rest.into_iter().chain(reported_for.min()).min(),
        unsynced: said,
    }
}

/// Whether a change is still due on the server as just read: a list may be stale. The reserved tags are not used for
/// the spec.
pub fn is_due(record: &Server, tag: &str, adds: bool) -> bool {
    let has_space = is_operators(tag) || record.tags.len() < MOST_TAGS - RESERVED_TAGS;
    record.has_tag(tag) != adds && (!adds || has_space)
}

/// The tags that this object added to this server: with its order, and since then. If the order is not the server's, or
/// status was lost, it counts none, and the server keeps its tags.
fn added_tags(facts: &ServerFacts, record: &OrderRecord, server: &Server) -> Vec<String> {
    let uuid = server.id.as_str();
    let recorded = facts.object.status.as_ref().filter(|status| {
        let is_order = |known: &OrderRecord| {
            (&known.uid, known.seq, &known.nonce) == (&record.uid, record.seq, &record.nonce)
        };
        let is_same_server = status.uuid.as_deref().is_none_or(|u| is_same_uuid(u, uuid));
        is_same_server
            && status.records.order.as_ref().is_some_and(is_order)
            && facts
                .order_tag(record)
                .is_some_and(|tag| server.has_tag(&tag))
    });
    let recorded = recorded.iter().flat_map(|status| &status.records.tags);
    let all = recorded.map(String::as_str);
    let all: BTreeSet<&str> = all.chain(facts.memory.tags.added(uuid)).collect();
    let wanted = wanted_tags(facts);
    let is_of_use = |tag: &&str| wanted.contains(tag) || server.has_tag(tag);
    let kept = all.into_iter().filter(is_of_use).take(MOST_TAGS);
    kept.map(str::to_owned).collect()
}

fn is_to_record(facts: &ServerFacts, put_on: &[String], server: &Server) -> bool {
    let recorded = facts.object.status.as_ref().map(|s| &*s.records.tags);
    let is_recorded = |tag: &str| recorded.is_some_and(|tags| tags.iter().any(|t| t == tag));
    let mut new = facts
        .memory
        .tags
        .just_added(server.id.as_str(), facts.now.mono);
    new.any(|tag| put_on.iter().any(|put| put == tag) && !is_recorded(tag))
}

/// The tags that the spec asks for.
fn wanted_tags(facts: &ServerFacts) -> BTreeSet<&str> {
    let tags = facts.object.spec.tags.iter().map(String::as_str);
    tags.filter(|tag| !is_operators(tag)).collect()
}

/// The surplus and the missing tags of a server.
struct Changes<'a> {
    gone: Vec<&'a str>,
    missing: Vec<&'a str>,
    wanted: BTreeSet<&'a str>,
}

impl<'a> Changes<'a> {
    fn for_server(facts: &'a ServerFacts, put_on: &[String], server: &'a Server) -> Self {
        let wanted = wanted_tags(facts);
        let is_exact = facts.object.spec.tag_policy.unwrap_or_default() == TagPolicy::Exact;
        let shown: BTreeSet<&str> = server.tags.iter().map(String::as_str).collect();
        let goes = |tag: &&str| {
            let is_ours = || put_on.iter().any(|put| put == tag);
            // A text that is not a tag by the API's rule cannot be in a call.
            !wanted.contains(tag) && !is_operators(tag) && is_tag(tag) && (is_exact || is_ours())
        };
        Self {
            gone: shown.iter().copied().filter(goes).collect(),
            missing: wanted.difference(&shown).copied().collect(),
            wanted,
        }
    }

    /// Whether none of the missing tags fits. Removals go first and free space.
    fn are_too_many(&self, server: &Server) -> bool {
        let has_space = |tag: &&str| is_due(server, tag, true);
        !self.missing.is_empty() && self.gone.is_empty() && !self.missing.iter().any(has_space)
    }

    /// The next change, or how long until one is due. Removals go first and free space.
    fn next_change(
        &self,
        facts: &ServerFacts,
        server: &Server,
    ) -> (Option<ServerEffect>, Option<Duration>) {
        let Ok(view) = facts.account.usable(Purpose::Change) else {
            return (None, None);
        };
        let uuid = server.id.as_str();
        let gone = self.gone.iter().map(|tag| (*tag, false));
        let missing = self.missing.iter().map(|tag| (*tag, true));
        let missing = missing.filter(|(tag, adds)| is_due(server, tag, *adds));
        let changes = &facts.memory.tags;
        let mut all: Vec<(&str, bool)> = gone.chain(missing).collect();
        // A tag that is refused each time must not block the others.
        all.sort_by_key(|(tag, adds)| changes.refusals(uuid, tag, *adds));
        let mut least: Option<Duration> = None;
        for (tag, adds) in all {
            let interval = view.times.active_poll_interval;
            match changes.remaining_wait(uuid, tag, adds, facts.now.mono, interval) {
                None => return (Some(change_effect(uuid, tag, adds)), None),
                Some(rest) => least = Some(least.map_or(rest, |least| least.min(rest))),
            }
        }
        (None, least)
    }

    fn explain(&self, facts: &ServerFacts, server: &Server) -> Option<UnsyncedTags> {
        let said = |reason, message, lasting: Option<String>| UnsyncedTags {
            reason,
            message,
            lasting,
        };
        let differ = !self.gone.is_empty() || !self.missing.is_empty();
        if let Err(explanation) = facts.account.usable(Purpose::Change) {
            return differ.then(|| said(explanation.reason, explanation.message, None));
        }
        let uuid = server.id.as_str();
        if differ && facts.policies().suspend {
            let message = format!(
                "Tags of server {uuid} differ from spec.tags; changes follow once suspend is lifted (see the condition Suspended)"
            );
            let short = "spec.tags follows once suspend is lifted (see the condition Suspended)";
            return Some(said(
                Reason::PendingChanges,
                message,
                Some(short.to_owned()),
            ));
        }
        if differ && facts.read_only {
            let blocked = Explanation::read_only(&format!(
                "would change tags of server {uuid}; add: {}; remove: {}",
                listed(self.missing.iter().copied()),
                listed(self.gone.iter().copied()),
            ));
            return Some(said(blocked.reason, blocked.message, None));
        }
        if self.are_too_many(server) {
            let message = format!(
                "No room for {} of spec.tags on server {uuid}; missing: {}. It has {} of at most {MOST_TAGS}, and {RESERVED_TAGS} are reserved for the operator. Remove tags from it at the provider, or from spec.tags",
                counted(self.missing.len(), "tag"),
                listed(self.missing.iter().copied()),
                server.tags.len(),
            );
            let short = format!(
                "spec.tags: the server has {} of at most {MOST_TAGS} tags; remove some at the provider",
                server.tags.len()
            );
            return Some(said(Reason::TooManyEntries, message, Some(short)));
        }
        let undone: Vec<&str> = reverted_tags(facts, self, server)
            .map(|(tag, _)| tag)
            .collect();
        if !undone.is_empty() {
            let message = format!(
                "Something keeps reverting tags of server {uuid}; affected: {}. Find and stop it, or change spec.tags; retrying at growing intervals of at most {}",
                listed(undone),
                Interval(LONGEST_PAUSE),
            );
            let short = "spec.tags: something keeps reverting tags; find and stop it";
            return Some(said(Reason::Progressing, message, Some(short.to_owned())));
        }
        // No names: each change of them would be a write.
        differ.then(|| {
            let message = format!(
                "Tags of server {uuid} differ from spec.tags; they change one by one, as soon as the account accepts each call"
            );
            said(Reason::Progressing, message, None)
        })
    }
}

/// Tags that something keeps reverting and that still differ, with how long this is still reported.
fn reverted_tags<'a>(
    facts: &'a ServerFacts,
    changes: &'a Changes<'_>,
    server: &Server,
) -> impl Iterator<Item = (&'a str, Duration)> {
    let all = facts
        .memory
        .tags
        .reverted(server.id.as_str(), facts.now.mono);
    let still = all.filter(|(tag, adds, _)| changes.wanted.contains(tag) == *adds);
    still.map(|(tag, _, rest)| (tag, rest))
}

fn change_effect(uuid: &str, tag: &str, adds: bool) -> ServerEffect {
    let (uuid, tag) = (uuid.to_owned(), tag.to_owned());
    match adds {
        true => ServerEffect::AddTag { uuid, tag },
        false => ServerEffect::RemoveTag { uuid, tag },
    }
}
