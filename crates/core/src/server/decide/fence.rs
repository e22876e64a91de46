//! The checks that an effect repeats on fresh data, right before it does what cannot be undone.
//!
//! Pure, and used by the model check as well as by `act`: what is proved there holds here.

use super::{
    super::facts::{Facts, is_same_uuid},
    Effect, NewOrder, decide,
    evidence::evidence,
    expiry, external, reinstall,
    replace::{self, Wish},
    rivals, terms,
};
use crate::{
    account::marks,
    mark::{Mark, marks_of, parse_order_tag},
    moment::Moment,
};
use api::{PoliciesInForce, names::ORDER_TAG, server::Intent};
use hosting_types::{Server, ServerStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use std::time::Duration;

/// The intent to write for an order, when the same decision still stands on fresh facts.
///
/// `attempt` is a nonce that nobody has used before: only who finds its own nonce on the
/// object afterwards may send the order.
pub fn start(fresh: &Facts, planned: &NewOrder, attempt: &str, window: Duration) -> Option<Intent> {
    match decide(fresh).effect {
        Some(Effect::Order(plan)) if *plan == *planned => {}
        _ => return None,
    }
    let epoch = fresh.now.wall.max(planned.after_epoch + 1);
    let window = i64::try_from(window.as_secs().max(1)).unwrap_or(i64::MAX);
    Some(Intent {
        cluster: fresh.cluster.as_str().into(),
        uid: fresh.uid().into(),
        mark: fresh.mark().as_str().into(),
        epoch,
        attempt: attempt.into(),
        send_by: fresh.now.wall.saturating_add(window),
        hostname: planned.order.name.clone(),
        account: Some(planned.account.clone()),
        unknown_before: planned.unknown_before,
    })
}

/// Whether the release of this machine may begin: fresh object, fresh record.
pub fn may_begin_release(fresh: &Facts, record: &Server) -> bool {
    fresh.deleting()
        && fresh.kind_deleting == Some(false)
        && fresh
            .known_policies()
            .is_some_and(PoliciesInForce::allow_release)
        && !reinstall::may_be_on_its_way(fresh)
        && (is_due(fresh) || !record.status.is_live())
        && is_sole(fresh, record)
        && !marks::is_retained(record)
}

/// Whether the machine bears the object's mark, and no other but that of objects that are gone.
fn is_sole(object: &Facts, record: &Server) -> bool {
    let found = evidence(object);
    let is_left = |mark: &Mark| rivals::is_left(object, &found, mark);
    let is_recorded = object.is_recorded_elsewhere(record);
    bears(record, &object.mark())
        && !is_recorded
        && marks_of(&record.tags).all(|(mark, _)| is_left(&mark))
}

/// Why a machine, as it was read right before, is not installed again for this object; None: it may be.
pub fn against_reinstall(fresh: &Facts, record: &Server) -> Option<String> {
    let id = &record.id;
    if !is_sole(fresh, record) || marks::is_retained(record) {
        let why = format!("machine {id} does not bear the tag of this object alone");
        return Some(why);
    }
    match &record.status {
        ServerStatus::Delivered => None,
        other => Some(format!(
            "the provider says of machine {id}: {}",
            other.as_str()
        )),
    }
}

/// Whether the root password of this machine may be asked for: it is delivered, and the object's alone.
pub fn may_read_password(fresh: &Facts, record: &Server) -> bool {
    record.status == ServerStatus::Delivered
        && is_sole(fresh, record)
        && !marks::is_retained(record)
}

/// Whether the delay of the release is over: by the wall clock, as far as that was not turned forward; or because this
/// process has seen the object deleted for so long, whatever its wall clock says.
pub fn is_due(object: &Facts) -> bool {
    let Some(due) = object.release_due() else {
        return true;
    };
    let delay = object.policies().release_delay.unwrap_or_default().0;
    let seen = object.memory.delayed_since;
    object.steady_wall() >= due || seen.is_some_and(|since| object.now.since(since) >= delay)
}

/// Whether the machine is over: there is nothing left to release.
pub fn is_over(record: &Server) -> bool {
    record.status == ServerStatus::Released
}

/// Whether the DELETE follows the note of the release at once, on the same record. A machine that is
/// not live may need none: the next pass judges it.
pub fn follows_the_note(record: &Server) -> bool {
    record.status.is_live()
}

/// Whether this machine may be tagged as retained, on a fresh object: its release must not have been noted
/// in the meantime. That of another machine of the object is another matter.
pub fn may_retain(fresh: &Facts, uuid: &str) -> bool {
    let is_let = fresh.account.terms().is_some() && terms::against_retain(fresh).is_none();
    let by_policy = |policies: PoliciesInForce| policies.retain() && policies.let_send() && is_let;
    let is_due = fresh.kind_deleting == Some(true) || fresh.known_policies().is_some_and(by_policy);
    let is_still = !reinstall::may_be_on_its_way(fresh);
    fresh.deleting() && !is_begun(fresh, uuid) && is_due && is_still
}

/// Whether a decision rests on the object as it is now: a watch may be behind, and so may the listing of a process that
/// just started.
pub fn is_newest(decided: &Facts, fresh: &Facts) -> bool {
    let version = |facts: &Facts| facts.object.metadata.resource_version.clone();
    decided.object.metadata.uid == fresh.object.metadata.uid && version(decided) == version(fresh)
}

/// Whether a machine that only its marks show to be the object's may be put on record: a listing may be from before the
/// object gave way to another one, in a process that acts beside this one.
pub fn may_claim(facts: &Facts, record: &Server) -> bool {
    let found = evidence(facts);
    bears(record, &facts.mark()) && rivals::settle(facts, &found, record).is_none()
}

/// Whether the release of this machine was noted.
pub fn is_begun(object: &Facts, uuid: &str) -> bool {
    let begun = object.release_begun();
    begun.is_some_and(|begun| is_same_uuid(begun, uuid))
}

/// Whether this machine may be released: the object says so, and a record that was asked for at
/// `since`, no longer ago than the window, bears its mark and is not retained. Suspension holds a release
/// that has begun, too.
pub fn may_release(
    object: &Facts,
    record: &Server,
    since: Moment,
    now: Moment,
    window: Duration,
) -> bool {
    object.deleting()
        && is_begun(object, record.id.as_str())
        && object.policies().let_send()
        && is_sole(object, record)
        && !marks::is_retained(record)
        && is_within(since, now, window)
}

/// Whether the object may be deleted because it is past its end.
pub fn may_expire(fresh: &Facts, at: i64) -> bool {
    let is_let = |policies: PoliciesInForce| policies.let_send() && !policies.deletion_protection;
    !fresh.deleting()
        && fresh.expires_at() == Some(at)
        && expiry::is_over(fresh)
        && fresh.known_policies().is_some_and(is_let)
}

/// Whether a deletion at this moment, by the API server's clock, comes after the end.
pub fn is_expired_at(deleted: Option<&Time>, at: i64) -> bool {
    deleted.is_some_and(|time| time.0.as_second() >= at)
}

/// Whether this machine may be released for an object that lives and wants another one: it failed before it was
/// delivered, is the object's alone, and the read of it is no older than the window.
pub fn may_release_failed(fresh: &Facts, record: &Server, since: Moment, now: Moment) -> bool {
    let window = fresh.view().map(|view| view.times.send_window);
    !fresh.deleting()
        && record.status == ServerStatus::Failed
        && replace::wish(fresh, record) == Wish::Replace
        && is_sole(fresh, record)
        && !marks::is_retained(record)
        && window.is_some_and(|window| is_within(since, now, window))
}

/// Whether no more than the window has passed by either clock: the monotonic one may stand still with its machine.
fn is_within(since: Moment, now: Moment, window: Duration) -> bool {
    let by_wall = u64::try_from(now.wall - since.wall).map(Duration::from_secs);
    now.since(since.mono) < window && by_wall.is_ok_and(|passed| passed <= window)
}

/// How far the provider's clock may be from ours, in seconds.
const CLOCK_SLACK: i64 = 300;

/// A live machine of this host name, made since the start of the order, that bears no order mark: perhaps ours, with
/// that tag lost. The cluster's mark alone does not clear it: it says whose cluster, not whose order.
pub fn is_suspect(server: &Server, hostname: &str, since: i64) -> bool {
    server.status.is_live()
        && may_be_of(server, hostname, since)
        && !server.tags.iter().any(|t| t.starts_with(ORDER_TAG))
}

/// Whether a machine may be that of an order of this host name, started at `since`.
pub fn may_be_of(server: &Server, hostname: &str, since: i64) -> bool {
    let earliest = since.saturating_sub(CLOCK_SLACK);
    server.name.trim().eq_ignore_ascii_case(hostname)
        && server.created_at.is_none_or(|at| at >= earliest)
}

/// What a fresh read must show before a tag is put on or taken off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TagProof {
    /// The machine bears this object's mark.
    OwnMark,
    /// It bears this very tag.
    Bears(String),
    /// It bears the mark of the earlier object that this one continues.
    FormerMark(Mark),
    /// It bears this cluster's mark, and no object's.
    ClusterMarkOnly,
    /// Nothing stands against taking it on.
    Unowned,
    /// It bears this object's mark and is another object's, and this one, read right before, has it not on record.
    GivesWay,
}

impl TagProof {
    /// Whether the record shows it.
    pub fn holds(&self, object: &Facts, record: &Server) -> bool {
        match self {
            Self::OwnMark => bears(record, &object.mark()),
            Self::Bears(tag) => record.has_tag(tag),
            Self::FormerMark(mark) => {
                bears(record, mark) && rivals::rival(object, &evidence(object), record).is_none()
            }
            Self::Unowned => external::against(object, record).is_none(),
            Self::GivesWay => bears(record, &object.mark()) && rivals::may_give_way(object, record),
            Self::ClusterMarkOnly => {
                record.has_tag(&object.cluster.tag())
                    && !record.tags.iter().any(|t| t.starts_with(ORDER_TAG))
            }
        }
    }
}

/// Whether a machine bears this mark, of any epoch.
pub fn bears(server: &Server, mark: &Mark) -> bool {
    marks_of(&server.tags).any(|(m, _)| m == *mark)
}

/// The order tag by which a machine bears this mark.
pub fn order_tag_of<'a>(server: &'a Server, mark: &Mark) -> Option<&'a str> {
    server
        .tags
        .iter()
        .find(|t| parse_order_tag(t).is_some_and(|(m, _)| m == *mark))
        .map(String::as_str)
}
