//! The preconditions that an effect checks on fresh data, right before it does what cannot be undone.

use super::{
    super::{
        facts::{ServerFacts, is_same_uuid},
        memory::ServerMemory,
        protocol_facts,
    },
    NewOrder, ServerEffect, decide, expiry,
};
use crate::{account::ownership_tags, moment::Moment, protocol};
use api::PoliciesInForce;
use hosting_types::{Server, ServerStatus};
use std::time::Duration;

/// Whether fresh facts lead to the same order.
pub fn may_start(fresh: &ServerFacts, planned: &NewOrder) -> bool {
    matches!(decide(fresh).effect, Some(ServerEffect::Order(plan)) if *plan == *planned)
}

/// Whether the release of this server may be recorded, also once more: fresh facts lead to the same release.
pub fn may_record_release(fresh: &ServerFacts, uuid: &str) -> bool {
    due_release(fresh).is_some_and(|due| is_same_uuid(&due, uuid))
}

/// The server that the decision on these facts releases now, apart from pauses.
fn due_release(fresh: &ServerFacts) -> Option<String> {
    let paced = ServerFacts {
        memory: ServerMemory {
            sent: None,
            ..fresh.memory.clone()
        },
        ..fresh.clone()
    };
    match decide(&paced).effect? {
        ServerEffect::Release { uuid } => Some(uuid),
        _ => None,
    }
}

/// Why the DELETE of a recorded release may not be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseObstacle {
    /// The object, its policies or the server as read do not allow it.
    NotAllowed,
    /// It is past the latest time of the record, or the read is older than the send window.
    TooLate,
}

/// Whether the DELETE of a recorded release may be sent. `record` is the server as read at `since`.
pub fn check_release(
    object: &ServerFacts,
    record: &Server,
    since: Moment,
    now: Moment,
) -> Result<(), ReleaseObstacle> {
    let (Some(release), Some(owner), Some(view)) =
        (object.release_begun(), object.owner(), object.view())
    else {
        return Err(ReleaseObstacle::NotAllowed);
    };
    let begun = protocol_facts::to_protocol_release(release);
    let server = protocol_facts::to_protocol_server(object, &owner, record);
    let is_allowed = is_same_uuid(&release.server, record.id.as_str())
        && release.deleting == object.deleting()
        && object.policies().may_send()
        && protocol::release::may_delete(&server, &begun);
    let is_late = now.wall > begun.send_by || !is_within_window(since, now, view.times.send_window);
    match (is_allowed, is_late) {
        (false, _) => Err(ReleaseObstacle::NotAllowed),
        (true, true) => Err(ReleaseObstacle::TooLate),
        (true, false) => Ok(()),
    }
}

/// Whether this server, as just read, may be tagged as retained: fresh facts lead to the same effect.
pub fn may_retain(fresh: &ServerFacts, record: &Server) -> bool {
    let is_it = |uuid: &str| is_same_uuid(uuid, record.id.as_str());
    let is_due =
        matches!(decide(fresh).effect, Some(ServerEffect::Retain { uuid }) if is_it(&uuid));
    let is_its = fresh.owner().is_some_and(|owner| {
        protocol::release::may_retain(&protocol_facts::to_protocol_server(fresh, &owner, record))
    });
    is_due && is_its
}

/// Whether the server has the object's order tag, and no other owner's.
pub fn is_sole(object: &ServerFacts, record: &Server) -> bool {
    object
        .owner()
        .is_some_and(|owner| protocol_facts::to_protocol_server(object, &owner, record).is_sole())
}

/// Why a server, as just read, may not be re-installed for this object. None: it may.
pub fn explain_blocked_reinstall(fresh: &ServerFacts, record: &Server) -> Option<String> {
    let id = &record.id;
    if !is_sole(fresh, record) || ownership_tags::is_retained(record) {
        return Some(format!(
            "server {id} lacks this object's order tag, or also has another object's"
        ));
    }
    match &record.status {
        ServerStatus::Delivered => None,
        other => Some(format!("server {id} is {:?}", other.as_str())),
    }
}

/// Whether the root password of this server may be fetched: it is delivered, and only this object's.
pub fn may_read_password(fresh: &ServerFacts, record: &Server) -> bool {
    record.status == ServerStatus::Delivered
        && is_sole(fresh, record)
        && !ownership_tags::is_retained(record)
}

/// Whether the release delay is over: by the wall clock without forward jumps, or because this process has seen the
/// deletion for that long.
pub fn is_release_due(object: &ServerFacts) -> bool {
    let Some(due) = object.release_due() else {
        return true;
    };
    let delay = object.policies().release_delay.unwrap_or_default().0;
    let seen = object.memory.delayed_since;
    object.steady_wall() >= due
        || seen.is_some_and(|since| object.now.elapsed_since(since) >= delay)
}

/// Whether the decision used the newest version of the object: a watch, or the list of a new process, may be behind.
pub fn is_newest(decided: &ServerFacts, fresh: &ServerFacts) -> bool {
    let version = |facts: &ServerFacts| facts.object.metadata.resource_version.clone();
    decided.object.metadata.uid == fresh.object.metadata.uid && version(decided) == version(fresh)
}

/// Whether the release of this server is recorded, for the same reason as now: deletion or replacement.
pub fn is_release_begun(object: &ServerFacts, uuid: &str) -> bool {
    let begun = object.release_begun();
    begun.is_some_and(|begun| {
        is_same_uuid(&begun.server, uuid) && begun.deleting == object.deleting()
    })
}

/// Whether the object may be deleted because it is expired.
pub fn may_expire(fresh: &ServerFacts, at: i64) -> bool {
    let is_let = |policies: PoliciesInForce| policies.may_send() && !policies.deletion_protection;
    !fresh.deleting()
        && fresh.expires_at() == Some(at)
        && expiry::is_over(fresh)
        && fresh.known_policies().is_some_and(is_let)
}

/// Whether both clocks are within the window: the monotonic one stops while its host is suspended.
fn is_within_window(since: Moment, now: Moment, window: Duration) -> bool {
    let by_wall = u64::try_from(now.wall - since.wall).map(Duration::from_secs);
    now.elapsed_since(since.mono) < window && by_wall.is_ok_and(|passed| passed <= window)
}
