//! The machine of a living object is over: the provider could not deliver it, or somebody else released it. Where the
//! policy says so, another one is ordered in its place.
//!
//! Not before it was seen so for the absence grace period, since a failed machine may be delivered after all; a failed one
//! is released first, or the provider refuses that; and what is replaced is noted in status before the order, so that no
//! restart counts a machine twice or not at all.

use super::{
    super::facts::{ServerFacts, is_same_uuid},
    ServerDecision, ServerEffect, delete_request,
    desired_status::DesiredStatus,
    existing::{self, quote_status_message},
    remedy,
};
use crate::{
    account::view::{AccountView, SeenServer},
    explanation::Explanation,
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
const RESET_AFTER: i64 = 86_400;

/// What the policies say of a machine that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplaceRequest {
    /// Nothing is ordered in its place.
    Wait,
    /// It failed after it was delivered: what is on it may be wanted.
    WasDelivered,
    /// So many were ordered in a row that no other one is.
    Exhausted,
    /// Another one is ordered in its place.
    Replace,
}

/// What the policies say of a machine that is over.
pub fn decide_replacement(facts: &ServerFacts, server: &Server) -> ReplaceRequest {
    let policies = facts.policies();
    let is_wished = match server.status {
        ServerStatus::Failed => policies.failure_policy == FailurePolicy::Replace,
        ServerStatus::Releasing | ServerStatus::Released => match find_replaced(facts, server) {
            Some(noted) => is_still_wanted(facts, noted),
            // It failed, and this operator released it.
            None if is_release_recorded(facts, server) => {
                policies.failure_policy == FailurePolicy::Replace
            }
            None => policies.external_release_policy == ExternalReleasePolicy::Reorder,
        },
        _ => false,
    };
    // Whoever names a machine never orders one.
    if !is_wished || !policies.let_send() || facts.object.spec.external_id.is_some() {
        ReplaceRequest::Wait
    } else if server.status == ServerStatus::Failed && server.delivered_at.is_some() {
        ReplaceRequest::WasDelivered
    } else if count_attempts(facts, server) >= max_attempts(facts) {
        ReplaceRequest::Exhausted
    } else {
        ReplaceRequest::Replace
    }
}

/// Whether the release of a failed machine is on record, so that another one can be ordered in its place.
fn is_release_recorded(facts: &ServerFacts, server: &Server) -> bool {
    let begun = facts.release_begun().filter(|release| !release.deleting);
    begun.is_some_and(|release| is_same_uuid(&release.server, server.id.as_str()))
}

/// Whether the policies in force would replace a machine that was noted as replaced.
fn is_still_wanted(facts: &ServerFacts, noted: &Replaced) -> bool {
    let policies = facts.policies();
    match ServerStatus::parse(&noted.provider_status) {
        ServerStatus::Failed => policies.failure_policy == FailurePolicy::Replace,
        _ => policies.external_release_policy == ExternalReleasePolicy::Reorder,
    }
}

/// Most machines in a row.
fn max_attempts(facts: &ServerFacts) -> usize {
    let provisioning = facts.object.spec.provisioning;
    provisioning.unwrap_or_default().max_attempts()
}

/// How many machines there were in a row, this one included.
fn count_attempts(facts: &ServerFacts, server: &Server) -> usize {
    let status = facts.object.status.as_ref();
    let all = status.map_or(&[][..], |s| &s.replaced_servers);
    let others = all
        .iter()
        .filter(|r| !is_same_uuid(&r.uuid, server.id.as_str()));
    others.count() + 1
}

fn find_replaced<'a>(facts: &'a ServerFacts, server: &Server) -> Option<&'a Replaced> {
    let status = facts.object.status.as_ref()?;
    let mut all = status.replaced_servers.iter();
    all.find(|r| is_same_uuid(&r.uuid, server.id.as_str()))
}

/// Whether the machine of a living object is over, and another one is ordered in its place now.
pub fn is_due(facts: &ServerFacts) -> bool {
    let Some(server) = existing::find_existing(facts).map(|kept| kept.server) else {
        return false;
    };
    let is_over = !server.status.is_live() && server.status != ServerStatus::Releasing;
    let Some(due) = replacement_due_at(facts, &server).filter(|_| is_over) else {
        return false;
    };
    let is_seen = seen_unchanged(facts, &server).is_some_and(|(_, seen)| seen >= due);
    !facts.deleting() && facts.now.mono >= due && is_seen
}

/// From when on another one may be ordered in the place of this machine; none: none is.
fn replacement_due_at(facts: &ServerFacts, server: &Server) -> Option<Duration> {
    if decide_replacement(facts, server) != ReplaceRequest::Replace {
        return None;
    }
    let (since, _) = seen_unchanged(facts, server)?;
    // Noted, it was seen so for long enough; this process must only have seen that it still is.
    match find_replaced(facts, server).is_some() || is_release_recorded(facts, server) {
        true => Some(facts.first_seen.max(facts.leader_since)),
        false => Some(since + facts.view()?.times.absence_grace_period),
    }
}

/// What is done about a machine that is over until another one may be ordered; `decision` says how it stands.
pub fn wait_for_replacement(
    facts: &ServerFacts,
    view: &AccountView,
    server: &Server,
    mut decision: ServerDecision,
) -> ServerDecision {
    let Some(due) = replacement_due_at(facts, server) else {
        return decision;
    };
    if facts.now.mono < due {
        return decision.requeue_after(due.saturating_sub(facts.now.mono));
    }
    if seen_unchanged(facts, server).is_none_or(|(_, seen)| seen < due) {
        let uuid = server.id.as_str().to_owned();
        return decision.with_effect(ServerEffect::Read { uuid });
    }
    decision.requeue = super::Requeue::After(view.times.active_poll_interval);
    decision
}

/// Releases the failed machine of a living object.
pub fn release_failed_server(
    facts: &ServerFacts,
    view: &AccountView,
    uuid: &str,
) -> ServerDecision {
    let Some(kept) = existing::find_existing(facts) else {
        return ServerDecision::unchanged(facts);
    };
    let decision = existing::reconcile_existing(facts, &kept);
    if !facts.policies().let_send() {
        return decision;
    }
    let pause = view.times.active_poll_interval;
    match delete_request::last_answer(facts, &kept.server) {
        Some((_, at)) if facts.now.since(at) < pause => decision.requeue_after(pause),
        _ => ServerDecision {
            effect: Some(ServerEffect::Release {
                uuid: uuid.to_owned(),
            }),
            ..decision
        },
    }
}

/// What is replaced is noted before another one is ordered; none: it is noted, or nothing is replaced.
pub fn record_replaced_first(facts: &ServerFacts) -> Option<ServerDecision> {
    let kept = existing::find_existing(facts)?;
    if find_replaced(facts, &kept.server).is_some() {
        return None;
    }
    let mut decision = existing::reconcile_existing(facts, &kept);
    decision.effect = None;
    record_replaced(facts, &kept.server, &mut decision.desired);
    decision.requeue_once_written = super::Requeue::Now;
    Some(decision)
}

/// Since when the machine is seen as it is, and when it was last seen.
fn seen_unchanged(facts: &ServerFacts, server: &Server) -> Option<(Duration, Duration)> {
    let over = facts.memory.ended_server.as_ref()?;
    let is_it = |s: &&SeenServer| s.server.id == server.id;
    let seen = facts.own.iter().chain(&facts.recorded).filter(is_it);
    let seen = seen.map(|s| s.seen).max()?;
    over.matches(server).then_some((over.since, seen))
}

fn record_replaced(facts: &ServerFacts, server: &Server, draft: &mut DesiredStatus) {
    let recorded_at = Timestamp::from_second(facts.now.wall).unwrap_or_default();
    let all = &mut draft.status.replaced_servers;
    all.push(Replaced {
        uuid: server.id.as_str().to_owned(),
        provider_status: match is_release_recorded(facts, server) {
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
pub fn forget_replaced(facts: &ServerFacts, server: &Server, draft: &mut DesiredStatus) {
    if !server.status.is_live() {
        return;
    }
    let all = &mut draft.status.replaced_servers;
    // It came to life after all.
    all.retain(|r| !is_same_uuid(&r.uuid, server.id.as_str()));
    let is_long_ago = |at: i64| facts.steady_wall().saturating_sub(at) >= RESET_AFTER;
    if server.status == ServerStatus::Delivered && server.delivered_at.is_some_and(is_long_ago) {
        all.clear();
    }
}

/// Why no order in the place of another machine starts, if this one is such an order.
pub fn explain_blocked_order(facts: &ServerFacts) -> Option<Explanation> {
    let status = facts.object.status.as_ref()?;
    let last = status.replaced_servers.last()?;
    let is_failed = ServerStatus::parse(&last.provider_status) == ServerStatus::Failed;
    let reason = match is_failed {
        true => Reason::ProvisioningFailed,
        false => Reason::ReleasedExternally,
    };
    if facts.object.spec.external_id.is_none() && !is_still_wanted(facts, last) {
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
        return Some(Explanation::stalled(reason, text));
    }
    (status.replaced_servers.len() >= max_attempts(facts)).then(|| {
        let uuids = status.replaced_servers.iter().map(|r| r.uuid.as_str());
        Explanation::stalled(
            reason,
            describe_exhausted(uuids, status.replaced_servers.len()),
        )
    })
}

fn describe_exhausted<'a>(uuids: impl IntoIterator<Item = &'a str>, row: usize) -> String {
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
pub fn explain_ended_server(facts: &ServerFacts, server: &Server) -> Explanation {
    let why = match quote_status_message(facts, server).as_str() {
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
    match decide_replacement(facts, server) {
        ReplaceRequest::Wait => Explanation::stalled(
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
        ReplaceRequest::WasDelivered => Explanation::stalled(
            reason,
            format!(
                "{what}; it was delivered before, so none is ordered in its place. Ask the provider, or delete this object"
            ),
        ),
        ReplaceRequest::Exhausted => {
            let status = facts.status();
            let others = status.replaced_servers.iter().map(|r| r.uuid.as_str());
            let others = others.filter(|uuid| !is_same_uuid(uuid, server.id.as_str()));
            let row = count_attempts(facts, server);
            let text = describe_exhausted(others.chain([server.id.as_str()]), row);
            Explanation::stalled(reason, format!("{what}. {text}"))
        }
        ReplaceRequest::Replace => {
            let grace = facts.view().map(|v| v.times.absence_grace_period);
            Explanation::waits(
                reason,
                format!(
                    "{what}; another one is ordered in its place once this has lasted {}",
                    Interval(grace.unwrap_or_default())
                ),
            )
        }
    }
}
