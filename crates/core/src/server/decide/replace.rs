//! The machine of a living object is over: the provider could not deliver it, or somebody else released it. Where the
//! policy says so, another one is ordered in its place.
//!
//! Not before it was seen so for the absence grace period, since a failed machine may be delivered after all; a failed one
//! is released first, or the provider refuses that; and what is replaced is noted in status before the order, so that no
//! restart counts a machine twice or not at all.

use super::{
    super::facts::{Facts, is_same_uuid},
    Decision, Effect,
    draft::Draft,
    machine::{self, said},
    remedy, sending,
};
use crate::{
    account::view::{Sighting, View},
    cause::Cause,
    wording::{counted, first_named},
};
use api::{
    ExternalReleasePolicy, FailurePolicy, Interval, Reason, lifetime::Replaced,
    server::MOST_REPLACED,
};
use hosting_types::{Server, ServerStatus};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use std::time::Duration;

/// A machine that has been delivered for so long ends the row.
const ROW_ENDS: i64 = 86_400;

/// What the policies say of a machine that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Nothing is ordered in its place.
    Wait,
    /// It failed after it was delivered: what is on it may be wanted.
    WasDelivered,
    /// So many were ordered in a row that no other one is.
    Spent,
    /// Another one is ordered in its place.
    Replace,
}

/// What the policies say of a machine that is over.
pub fn wish(facts: &Facts, server: &Server) -> Wish {
    let policies = facts.policies();
    let is_wished = match server.status {
        ServerStatus::Failed => policies.failure_policy == FailurePolicy::Replace,
        ServerStatus::Releasing | ServerStatus::Released => match noted(facts, server) {
            Some(noted) => is_still_wished(facts, noted),
            // It failed, and this operator released it.
            None if is_given_up(facts, server) => policies.failure_policy == FailurePolicy::Replace,
            None => policies.external_release_policy == ExternalReleasePolicy::Reorder,
        },
        _ => false,
    };
    // Whoever names a machine never orders one.
    if !is_wished || !policies.let_send() || facts.object.spec.external_id.is_some() {
        Wish::Wait
    } else if server.status == ServerStatus::Failed && server.delivered_at.is_some() {
        Wish::WasDelivered
    } else if row(facts, server) >= most(facts) {
        Wish::Spent
    } else {
        Wish::Replace
    }
}

/// Whether the release of a failed machine is on record, so that another one can be ordered in its place.
fn is_given_up(facts: &Facts, server: &Server) -> bool {
    let begun = facts.release_begun().filter(|release| !release.deleting);
    begun.is_some_and(|release| is_same_uuid(&release.server, server.id.as_str()))
}

/// Whether the policies in force would replace a machine that was noted as replaced.
fn is_still_wished(facts: &Facts, noted: &Replaced) -> bool {
    let policies = facts.policies();
    match ServerStatus::parse(&noted.provider_status) {
        ServerStatus::Failed => policies.failure_policy == FailurePolicy::Replace,
        _ => policies.external_release_policy == ExternalReleasePolicy::Reorder,
    }
}

/// Most machines in a row.
fn most(facts: &Facts) -> usize {
    let provisioning = facts.object.spec.provisioning;
    provisioning.unwrap_or_default().max_attempts()
}

/// How many machines there were in a row, this one included.
fn row(facts: &Facts, server: &Server) -> usize {
    let status = facts.object.status.as_ref();
    let all = status.map_or(&[][..], |s| &s.replaced_servers);
    let others = all
        .iter()
        .filter(|r| !is_same_uuid(&r.uuid, server.id.as_str()));
    others.count() + 1
}

fn noted<'a>(facts: &'a Facts, server: &Server) -> Option<&'a Replaced> {
    let status = facts.object.status.as_ref()?;
    let mut all = status.replaced_servers.iter();
    all.find(|r| is_same_uuid(&r.uuid, server.id.as_str()))
}

/// Whether the machine of a living object is over, and another one is ordered in its place now.
pub fn is_due(facts: &Facts) -> bool {
    let Some(server) = machine::kept(facts).map(|kept| kept.server) else {
        return false;
    };
    let is_over = !server.status.is_live() && server.status != ServerStatus::Releasing;
    let Some(due) = due(facts, &server).filter(|_| is_over) else {
        return false;
    };
    let is_seen = stood(facts, &server).is_some_and(|(_, seen)| seen >= due);
    !facts.deleting() && facts.now.mono >= due && is_seen
}

/// From when on another one may be ordered in the place of this machine; none: none is.
fn due(facts: &Facts, server: &Server) -> Option<Duration> {
    if wish(facts, server) != Wish::Replace {
        return None;
    }
    let (since, _) = stood(facts, server)?;
    // Noted, it was seen so for long enough; this process must only have seen that it still is.
    match noted(facts, server).is_some() || is_given_up(facts, server) {
        true => Some(facts.first_seen.max(facts.acting_since)),
        false => Some(since + facts.view()?.times.absence_grace_period),
    }
}

/// What is done about a machine that is over until another one may be ordered; `decision` says how it stands.
pub fn wait(facts: &Facts, view: &View, server: &Server, mut decision: Decision) -> Decision {
    let Some(due) = due(facts, server) else {
        return decision;
    };
    if facts.now.mono < due {
        return decision.again(due.saturating_sub(facts.now.mono));
    }
    if stood(facts, server).is_none_or(|(_, seen)| seen < due) {
        let uuid = server.id.as_str().to_owned();
        return decision.with(Effect::Read { uuid });
    }
    decision.again = super::Again::After(view.times.active_poll_interval);
    decision
}

/// Releases the failed machine of a living object.
pub fn release(facts: &Facts, view: &View, uuid: &str) -> Decision {
    let Some(kept) = machine::kept(facts) else {
        return Decision::unchanged(facts);
    };
    let decision = machine::tend(facts, &kept);
    if !facts.policies().let_send() {
        return decision;
    }
    let pause = view.times.active_poll_interval;
    match sending::answer(facts, &kept.server) {
        Some((_, at)) if facts.now.since(at) < pause => decision.again(pause),
        _ => Decision {
            effect: Some(Effect::Release {
                uuid: uuid.to_owned(),
            }),
            ..decision
        },
    }
}

/// What is replaced is noted before another one is ordered; none: it is noted, or nothing is replaced.
pub fn note_first(facts: &Facts) -> Option<Decision> {
    let kept = machine::kept(facts)?;
    if noted(facts, &kept.server).is_some() {
        return None;
    }
    let mut decision = machine::tend(facts, &kept);
    decision.effect = None;
    note(facts, &kept.server, &mut decision.draft);
    decision.once_written = super::Again::AtOnce;
    Some(decision)
}

/// Since when the machine is seen as it is, and when it was last seen.
fn stood(facts: &Facts, server: &Server) -> Option<(Duration, Duration)> {
    let over = facts.memory.over.as_ref()?;
    let is_it = |s: &&Sighting| s.server.id == server.id;
    let seen = facts.own.iter().chain(&facts.recorded).filter(is_it);
    let seen = seen.map(|s| s.seen).max()?;
    over.is(server).then_some((over.since, seen))
}

fn note(facts: &Facts, server: &Server, draft: &mut Draft) {
    let recorded_at = Timestamp::from_second(facts.now.wall).unwrap_or_default();
    let all = &mut draft.status.replaced_servers;
    all.push(Replaced {
        uuid: server.id.as_str().to_owned(),
        provider_status: match is_given_up(facts, server) {
            true => ServerStatus::Failed.as_str().to_owned(),
            false => server.status.as_str().to_owned(),
        },
        location: server.location.clone(),
        instance_type: server.instance_type.clone(),
        recorded_at: Time(recorded_at),
    });
    let surplus = all.len().saturating_sub(MOST_REPLACED);
    all.drain(..surplus);
}

/// Forgets what was replaced where it is not true any more, or long ago.
pub fn forget(facts: &Facts, server: &Server, draft: &mut Draft) {
    if !server.status.is_live() {
        return;
    }
    let all = &mut draft.status.replaced_servers;
    // It came to life after all.
    all.retain(|r| !is_same_uuid(&r.uuid, server.id.as_str()));
    let is_long_ago = |at: i64| facts.steady_wall().saturating_sub(at) >= ROW_ENDS;
    if server.status == ServerStatus::Delivered && server.delivered_at.is_some_and(is_long_ago) {
        all.clear();
    }
}

/// Why no order in the place of another machine starts, if this one is such an order.
pub fn against_order(facts: &Facts) -> Option<Cause> {
    let status = facts.object.status.as_ref()?;
    let last = status.replaced_servers.last()?;
    let is_failed = ServerStatus::parse(&last.provider_status) == ServerStatus::Failed;
    let reason = match is_failed {
        true => Reason::ProvisioningFailed,
        false => Reason::ReleasedExternally,
    };
    if facts.object.spec.external_id.is_none() && !is_still_wished(facts, last) {
        let (field, word) = match is_failed {
            true => ("failurePolicy", "Replace"),
            false => ("externalReleasePolicy", "Reorder"),
        };
        let text = format!(
            "Server {} is {:?}; none is ordered in its place ({field} is Wait). To order another one, {}",
            last.uuid,
            last.provider_status,
            remedy::set(field, word)
        );
        return Some(Cause::needs_person(reason, text));
    }
    (status.replaced_servers.len() >= most(facts)).then(|| {
        let uuids = status.replaced_servers.iter().map(|r| r.uuid.as_str());
        Cause::needs_person(reason, spent(uuids, status.replaced_servers.len()))
    })
}

fn spent<'a>(uuids: impl IntoIterator<Item = &'a str>, row: usize) -> String {
    let more = row.saturating_add(1);
    let next = match row < MOST_REPLACED {
        true => format!("To order one more, raise spec.provisioning.maxAttempts to {more}"),
        false => "Delete this object".to_owned(),
    };
    format!(
        "{} in a row failed or were released; no further server is ordered: {}. {next}",
        counted(row, "server"),
        first_named(uuids)
    )
}

/// How an object stands whose machine is over.
pub fn cause(facts: &Facts, server: &Server) -> Cause {
    let why = match said(facts, server).as_str() {
        "" => String::new(),
        said => format!("; it says{said}"),
    };
    let (reason, what) = match server.status {
        ServerStatus::Failed => (
            Reason::ProvisioningFailed,
            format!("The provider could not deliver server {}{why}", server.id),
        ),
        _ => (
            Reason::ReleasedExternally,
            format!("Server {} was released outside this object", server.id),
        ),
    };
    match wish(facts, server) {
        Wish::Wait => Cause::needs_person(
            reason,
            match server.status {
                ServerStatus::Failed => {
                    format!("{what}; none is ordered in its place. Delete this object")
                }
                _ => format!(
                    "{what}; none is ordered in its place. For another server, delete this object and create it again"
                ),
            },
        ),
        Wish::WasDelivered => Cause::needs_person(
            reason,
            format!(
                "{what}; it was delivered before, so none is ordered in its place. Ask the provider, or delete this object"
            ),
        ),
        Wish::Spent => {
            let status = facts.status();
            let others = status.replaced_servers.iter().map(|r| r.uuid.as_str());
            let others = others.filter(|uuid| !is_same_uuid(uuid, server.id.as_str()));
            let row = row(facts, server);
            let text = spent(others.chain([server.id.as_str()]), row);
            Cause::needs_person(reason, format!("{what}. {text}"))
        }
        Wish::Replace => {
            let grace = facts.view().map(|v| v.times.absence_grace_period);
            Cause::waits(
                reason,
                format!(
                    "{what}; another one is ordered in its place once this has lasted {}",
                    Interval(grace.unwrap_or_default())
                ),
            )
        }
    }
}
