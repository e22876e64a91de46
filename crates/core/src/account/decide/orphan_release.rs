//! The release of a machine that no object claims: by the account's policy after a time, or by a person's word.
//!
//! It is noted in status before anything is sent, on the version just read, and counted at the brake with it. Only then
//! are all objects listed once more, live: an object that takes the machine on reads the account after it was made, so
//! either it is listed or it sees the note.

use super::{super::facts::Facts, orphans};
use crate::{
    account::{facts::AccountReport, key_state::KeyState, marks, orphans::Verdict},
    mark::ClusterId,
    moment::Moment,
};
use api::{
    brake::{BrakeStatus, Braking},
    names::{CLUSTER_TAG, RESERVED_PREFIX, SUSPEND_LABEL},
    orphan::OrphanRelease,
};
use hosting_types::{Server, ServerStatus};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use std::{collections::BTreeSet, sync::Arc, time::Duration};

/// How long this process has seen an orphan at least that it releases by policy, where that is not to be sooner.
const LEAST_SEEN: Duration = Duration::from_secs(3600);

/// The oldest machine that is to be released now.
pub(super) fn next<'a>(facts: &Facts, own: Option<&'a AccountReport>) -> Option<&'a Arc<Server>> {
    let report = own.filter(|report| report.key == KeyState::Accepted)?;
    let Verdict::Found(orphans) = &report.verdict else {
        return None;
    };
    orphans.iter().find(|server| is_due(facts, server))
}

/// Whether this machine, which no object claimed when that was last judged, is to be released now.
pub fn is_due(facts: &Facts, server: &Server) -> bool {
    let uuid = server.id.as_str();
    let memory = &facts.orphan_memory;
    let is_held = memory
        .held
        .get(uuid)
        .is_some_and(|held| facts.now < held.until);
    // An order of unknown outcome, or an object that this process has not heard of yet, may still claim it.
    let grace = facts.times().absence_grace_period;
    let since = memory.since.get(uuid);
    let is_settled = since.is_some_and(|since| facts.now.saturating_sub(*since) >= grace);
    facts.status.orphan_release.is_none()
        && hindrance(facts).is_none()
        && facts.now >= memory.rest
        && !is_braked(facts, uuid)
        && !is_held
        && is_settled
        && can_be_released(facts, server)
        && (is_asked_for(facts, uuid) || is_overdue(facts, uuid))
}

/// Whether the brake is engaged, and this release not among those that it counts.
fn is_braked(facts: &Facts, uuid: &str) -> bool {
    let counted = facts.status.release_brake.as_ref();
    let Some((brake, counted)) = facts.spec.release_brake.zip(counted) else {
        return false;
    };
    brake.holds(counted) && !counted.counts(uuid)
}

/// What keeps the operator from releasing any orphan of the account, in words.
pub(super) fn hindrance(facts: &Facts) -> Option<String> {
    if !orphans::are_told(facts) {
        return Some("spec.orphanPolicy.mode is Off".to_owned());
    }
    if facts.deleting() {
        return Some("the account is being deleted".to_owned());
    }
    if facts.spec.defaults.and_then(|d| d.suspend) == Some(true) {
        return Some("suspend is true in spec.defaults".to_owned());
    }
    match facts.is_namespace_suspended {
        Some(false) => {}
        Some(true) => return Some(format!("the namespace has the label {SUSPEND_LABEL}")),
        None => return Some("the labels of the namespace were not read yet".to_owned()),
    }
    (!facts.is_only_account)
        .then(|| "another account object leads to the same account of the provider".to_owned())
}

/// Whether the operator may release such a machine at all: it is delivered, bears this cluster's tag, no other
/// cluster's and the mark of an object, and no object of its marks lives.
pub(super) fn can_be_released(facts: &Facts, server: &Server) -> bool {
    let cluster_tag = facts.cluster.tag();
    let is_of_cluster = |tag: &String| !tag.starts_with(CLUSTER_TAG) || *tag == cluster_tag;
    server.status == ServerStatus::Delivered
        && server.has_tag(&cluster_tag)
        && server.tags.iter().all(is_of_cluster)
        && marks::order_tag(server).is_some()
        && !marks::is_retained(server)
        && !facts.orphans_of_living.contains(server.id.as_str())
}

/// Whether a person asks for the release.
fn is_asked_for(facts: &Facts, uuid: &str) -> bool {
    asked_for(facts).any(|asked| asked.eq_ignore_ascii_case(uuid))
}

/// The machines whose release a person asks for.
pub(super) fn asked_for(facts: &Facts) -> impl Iterator<Item = &str> {
    let asked = facts.asked_orphans().unwrap_or_default().split(',');
    asked.map(str::trim).filter(|uuid| !uuid.is_empty())
}

/// How long after it was first shown a machine is released by policy; None: it is not. An account without a brake
/// releases nothing by itself.
pub(super) fn by_policy(facts: &Facts) -> Option<Duration> {
    facts
        .releases_after
        .filter(|_| facts.spec.release_brake.is_some())
}

/// Whether it has been on record as an orphan for as long as the policy says, by the wall clock, as far as that was not
/// turned forward.
fn is_overdue(facts: &Facts, uuid: &str) -> bool {
    let line = facts.status.orphans.iter().find(|o| o.uuid == uuid);
    let since = line.and_then(|line| line.since.as_ref());
    let Some((after, since)) = by_policy(facts).zip(since) else {
        return false;
    };
    // The wall clock may have been wrong when this process started.
    let seen = facts.orphan_memory.since.get(uuid).copied();
    let is_seen = seen.is_some_and(|seen| facts.now.saturating_sub(seen) >= after.min(LEAST_SEEN));
    let after = i64::try_from(after.as_secs()).unwrap_or(i64::MAX);
    is_seen && facts.wall >= since.0.as_second().saturating_add(after)
}

/// What is to be put on record before the release of a machine is sent: on a fresh account object.
#[derive(Clone, Debug, PartialEq)]
pub enum Start {
    /// It is not due any more.
    NotDue,
    /// The brake holds it; with what it has to remember, where that is new.
    Held(Option<BrakeStatus>),
    /// It may be sent within the window, once both are on record.
    Note(OrphanRelease, Option<BrakeStatus>),
}

/// What a fresh account object says of the release, which is sent within the window. `attempt`: a word that no other note
/// has, so that nobody takes the end of one for that of another.
pub fn start(fresh: &Facts, server: &Server, attempt: &str, window: Duration) -> Start {
    if !is_due(fresh, server) {
        return Start::NotDue;
    }
    let uuid = server.id.as_str();
    let counted = fresh.status.release_brake.clone().unwrap_or_default();
    let brake = fresh.spec.release_brake;
    let counted = match brake.map(|brake| brake.judge(&counted, uuid, fresh.wall)) {
        None | Some(Braking::Counted) => None,
        Some(Braking::Count(next)) => Some(next),
        Some(Braking::Hold(next)) => return Start::Held(next),
    };
    let window = i64::try_from(window.as_secs().max(1)).unwrap_or(i64::MAX);
    let send_by = Timestamp::from_second(fresh.wall.saturating_add(window));
    let note = OrphanRelease {
        uuid: uuid.to_owned(),
        attempt: attempt.to_owned(),
        send_by: Time(send_by.unwrap_or_default()),
    };
    Start::Note(note, counted)
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

/// Whether a fresh record still shows the machine that was judged.
pub fn is_unchanged(judged: &Server, record: &Server) -> bool {
    let operators = |server: &Server| -> BTreeSet<String> {
        let tags = server.tags.iter();
        let operators = tags.filter(|tag| tag.starts_with(RESERVED_PREFIX));
        operators.cloned().collect()
    };
    record.id == judged.id
        && record.status == ServerStatus::Delivered
        && !marks::is_retained(record)
        && operators(judged) == operators(record)
}

/// Whether the release may be sent at this moment, by what was decided on at `since`.
pub fn is_in_time(since: Moment, now: Moment, window: Duration) -> bool {
    now.since(since.mono) < window && now.wall >= since.wall
}

/// The note that stays in status: until this process knows how its release ended, or nobody can send it any more, by
/// the wall clock or because this process has seen it for so long.
pub fn note(facts: &Facts) -> Option<OrphanRelease> {
    let note = facts.status.orphan_release.as_ref()?;
    let times = facts.times();
    let grace = i64::try_from(times.absence_grace_period.as_secs()).unwrap_or(i64::MAX);
    let until = note.send_by.0.as_second().saturating_add(grace);
    let longest = times.send_window + times.absence_grace_period;
    let memory = &facts.orphan_memory;
    let is_old = |(noted, since): &(OrphanRelease, Duration)| {
        noted == note && facts.now.saturating_sub(*since) > longest
    };
    let is_over = memory
        .ended
        .as_ref()
        .is_some_and(|(ended, _)| ended == note)
        || facts.wall >= until
        || memory.noted.as_ref().is_some_and(is_old);
    (!is_over).then(|| note.clone())
}

/// What the brake has counted, without a release that came to nothing: in the write that takes its note off.
pub(super) fn counted(facts: &Facts, mut brake: BrakeStatus) -> BrakeStatus {
    let note = facts.status.orphan_release.as_ref();
    if let Some((ended, is_kept)) = &facts.orphan_memory.ended
        && *is_kept
        && note == Some(ended)
    {
        brake.begun.retain(|begun| begun.uuid != ended.uuid);
    }
    brake
}

/// Whether a person's word is used up: none of the machines is an orphan any more.
pub(super) fn is_used_up(facts: &Facts, own: Option<&AccountReport>) -> bool {
    let Some(Verdict::Found(orphans)) = own.map(|report| &report.verdict) else {
        return false;
    };
    let is_left = |asked: &str| {
        let is_it = |s: &Arc<Server>| s.id.as_str().eq_ignore_ascii_case(asked);
        orphans.iter().any(is_it)
    };
    facts.asked_orphans().is_some()
        && facts.status.orphan_release.is_none()
        && !asked_for(facts).any(is_left)
}
