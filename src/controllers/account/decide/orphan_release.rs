//! The release of a machine that no object claims: by the account's policy after a time, or by a person's word.
//!
//! It is noted in status before anything is sent, on the version just read, and counted at the brake with it. Only then
//! are all objects listed once more, live: an object that takes the machine on reads the account after it was made, so
//! either it is listed or it sees the note.

use super::super::facts::Facts;
use crate::{
    account::{AccountReport, KeyState, marks, orphans::Verdict},
    controllers::mark::ClusterId,
    kinds::{
        brake::{BrakeStatus, Braking},
        names::RESERVED_PREFIX,
        orphan::OrphanRelease,
    },
    runtime::Moment,
};
use hosting::{Server, ServerStatus};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use std::{collections::BTreeSet, sync::Arc, time::Duration};

/// The oldest machine that is to be released now.
pub(super) fn next<'a>(facts: &Facts, own: Option<&'a AccountReport>) -> Option<&'a Arc<Server>> {
    let report = own.filter(|report| report.key == KeyState::Accepted)?;
    let Verdict::Found { first, .. } = &report.verdict else {
        return None;
    };
    first.iter().find(|server| is_due(facts, server))
}

/// Whether this machine, which no object claimed when that was last judged, is to be released now.
pub fn is_due(facts: &Facts, server: &Server) -> bool {
    let uuid = server.id.as_str();
    let is_suspended = facts.spec.defaults.and_then(|d| d.suspend) == Some(true);
    let is_held = facts
        .orphans_seen
        .held
        .get(uuid)
        .is_some_and(|held| facts.now < held.until);
    let may_begin = facts.status.orphan_release.is_none()
        && !facts.deleting()
        && !is_suspended
        && facts.orphans_seen.is_alone
        && !facts.orphans_seen.over.contains(uuid)
        && !is_held;
    // As long as an order of unknown outcome is not believed absent: what this process has heard of the objects is
    // older than that.
    let grace = facts.times().absence_grace_period;
    let seen = facts.orphans_seen.since.get(uuid);
    let is_settled = seen.is_some_and(|since| facts.now.saturating_sub(*since) >= grace);
    may_begin
        && is_settled
        && can_be_released(facts, server)
        && (is_asked_for(facts, uuid) || is_overdue(facts, uuid))
}

/// Whether the operator may release such a machine at all: it is delivered, was ordered by an object of this cluster,
/// and no object of its mark lives.
pub(super) fn can_be_released(facts: &Facts, server: &Server) -> bool {
    server.status == ServerStatus::Delivered
        && marks::order_tag(server).is_some()
        && !marks::is_retained(server)
        && !facts.orphans_seen.living.contains(server.id.as_str())
}

/// Whether a person asks for the release.
fn is_asked_for(facts: &Facts, uuid: &str) -> bool {
    asked_for(facts).any(|asked| asked.eq_ignore_ascii_case(uuid))
}

fn asked_for(facts: &Facts) -> impl Iterator<Item = &str> {
    let asked = facts.asked_orphans().unwrap_or_default();
    asked
        .split(',')
        .map(str::trim)
        .filter(|uuid| !uuid.is_empty())
}

/// Whether it has been on record as an orphan for as long as the policy says, by the wall clock, as far as that was not
/// turned forward. An account without a brake releases nothing by itself.
fn is_overdue(facts: &Facts, uuid: &str) -> bool {
    let Some(after) = facts
        .releases_after
        .filter(|_| facts.spec.release_brake.is_some())
    else {
        return false;
    };
    let line = facts.status.orphans.iter().find(|o| o.uuid == uuid);
    let Some(since) = line.and_then(|line| line.since.as_ref()) else {
        return false;
    };
    let after = i64::try_from(after.as_secs()).unwrap_or(i64::MAX);
    facts.wall >= since.0.as_second().saturating_add(after)
}

/// What is to be put on record before the release of a machine is sent: on a fresh account object.
#[derive(Clone, Debug, PartialEq)]
pub enum Begin {
    /// It is not due any more.
    NotDue,
    /// The brake holds it; with what it has to remember, where that is new.
    Held(Option<BrakeStatus>),
    /// It may be sent until the moment of the note, once both are on record.
    Note(OrphanRelease, Option<BrakeStatus>),
}

/// What a fresh account object says of the release, which is sent within the window.
pub fn begin(fresh: &Facts, server: &Server, window: Duration) -> Begin {
    if !is_due(fresh, server) {
        return Begin::NotDue;
    }
    let uuid = server.id.as_str();
    let counted = fresh.status.release_brake.clone().unwrap_or_default();
    let counted = match fresh
        .spec
        .release_brake
        .map(|b| b.judge(&counted, uuid, fresh.wall))
    {
        None | Some(Braking::Counted) => None,
        Some(Braking::Count(next)) => Some(next),
        Some(Braking::Hold(next)) => return Begin::Held(next),
    };
    let window = i64::try_from(window.as_secs().max(1)).unwrap_or(i64::MAX);
    let send_by = Timestamp::from_second(fresh.wall.saturating_add(window));
    let note = OrphanRelease {
        uuid: uuid.to_owned(),
        send_by: Time(send_by.unwrap_or_default()),
    };
    Begin::Note(note, counted)
}

/// Whether an object stands for a machine, or speaks of it anywhere. `text` is all of it.
pub fn speaks_of(cluster: &ClusterId, meta: &ObjectMeta, text: &str, server: &Server) -> bool {
    let (namespace, name) = (meta.namespace.as_deref(), meta.name.as_deref());
    let uid = meta.uid.as_deref().unwrap_or_default();
    let own = cluster.object_mark(namespace.unwrap_or_default(), name.unwrap_or_default(), uid);
    let text = text.to_ascii_lowercase();
    text.contains(&server.id.as_str().to_ascii_lowercase())
        || marks::object_marks(server).any(|mark| mark == own.as_str() || text.contains(mark))
}

/// Whether the release of this machine may be sent: a record that was asked for at `since` shows what was judged, within
/// the window.
pub fn may_send(
    judged: &Server,
    record: &Server,
    since: Moment,
    now: Moment,
    window: Duration,
) -> bool {
    record.id == judged.id
        && record.status == ServerStatus::Delivered
        && bears_the_same(judged, record)
        && !marks::is_retained(record)
        && now.since(since.mono) < window
        && now.wall >= since.wall
}

fn bears_the_same(judged: &Server, record: &Server) -> bool {
    let operators = |server: &Server| -> BTreeSet<String> {
        let tags = server.tags.iter();
        tags.filter(|tag| tag.starts_with(RESERVED_PREFIX))
            .cloned()
            .collect()
    };
    operators(judged) == operators(record)
}

/// The note that stays in status: until this process knows how its release ended, or nobody can send it any more.
pub(super) fn note(facts: &Facts) -> Option<OrphanRelease> {
    let note = facts.status.orphan_release.as_ref()?;
    let grace = facts.times().absence_grace_period.as_secs();
    let grace = i64::try_from(grace).unwrap_or(i64::MAX);
    let until = note.send_by.0.as_second().saturating_add(grace);
    let is_over = facts.orphans_seen.ended.as_ref() == Some(note) || facts.wall >= until;
    (!is_over).then(|| note.clone())
}

/// Whether a person's word is used up: none of the machines is an orphan any more.
pub(super) fn is_used_up(facts: &Facts, own: Option<&AccountReport>) -> bool {
    let Some(Verdict::Found { count, first }) = own.map(|report| &report.verdict) else {
        return false;
    };
    let is_left = |asked: &str| {
        let is_it = |s: &Arc<Server>| s.id.as_str().eq_ignore_ascii_case(asked);
        first.iter().any(is_it)
    };
    facts.asked_orphans().is_some()
        && facts.status.orphan_release.is_none()
        && *count == first.len()
        && !asked_for(facts).any(is_left)
}
