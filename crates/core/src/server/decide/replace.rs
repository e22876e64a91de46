//! The server of a living object has ended: it failed, or was released outside. By policy another one is ordered.
//! It must stay so for a grace period. Before the order, a failed one is released and status records the replaced one.

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

/// A server that was delivered this long ago resets the count of attempts.
const RESET_AFTER: i64 = 86_400;

/// What the policies decide for a server that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replacement {
    /// None is ordered in its place.
    Wait,
    /// It failed after its delivery: a user may need its data.
    WasDelivered,
    /// The maximum of attempts is reached.
    Exhausted,
    /// Another one is ordered in its place.
    Replace,
}

/// Decides by the policies what follows for a server that has ended.
pub fn decide_replacement(facts: &ServerFacts, server: &Server) -> Replacement {
    let policies = facts.policies();
    let is_wanted = match server.status {
        ServerStatus::Failed => policies.failure_policy == FailurePolicy::Replace,
        ServerStatus::Releasing | ServerStatus::Released => match find_replaced(facts, server) {
            Some(recorded) => is_still_wanted(facts, recorded),
            // It failed, and the operator released it.
            None if is_release_recorded(facts, server) => {
                policies.failure_policy == FailurePolicy::Replace
            }
            None => policies.external_release_policy == ExternalReleasePolicy::Reorder,
        },
        _ => false,
    };
    // A spec that names a server never orders one.
    if !is_wanted || !policies.may_send() || facts.object.spec.external_id.is_some() {
        Replacement::Wait
    } else if server.status == ServerStatus::Failed && server.delivered_at.is_some() {
        Replacement::WasDelivered
    } else if count_attempts(facts, server) >= max_attempts(facts) {
        Replacement::Exhausted
    } else {
        Replacement::Replace
    }
}

/// Whether the release of a failed server is recorded, so that another one can be ordered.
fn is_release_recorded(facts: &ServerFacts, server: &Server) -> bool {
    let begun = facts.release_begun().filter(|release| !release.deleting);
    begun.is_some_and(|release| is_same_uuid(&release.server, server.id.as_str()))
}

/// Whether the effective policies would replace a server that is recorded as replaced.
fn is_still_wanted(facts: &ServerFacts, recorded: &Replaced) -> bool {
    let policies = facts.policies();
    match ServerStatus::parse(&recorded.provider_status) {
        ServerStatus::Failed => policies.failure_policy == FailurePolicy::Replace,
        _ => policies.external_release_policy == ExternalReleasePolicy::Reorder,
    }
}

/// Most attempts in a row.
fn max_attempts(facts: &ServerFacts) -> usize {
    let provisioning = facts.object.spec.provisioning;
    provisioning.unwrap_or_default().max_attempts()
}

/// Number of attempts in a row, this server included.
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

/// Whether the server of a living object has ended, and another one is ordered now.
pub fn is_due(facts: &ServerFacts) -> bool {
    let Some(server) = existing::find_existing(facts).map(|existing| existing.server) else {
        return false;
    };
    let is_over = !server.status.is_live() && server.status != ServerStatus::Releasing;
    let Some(due) = replacement_due_at(facts, &server).filter(|_| is_over) else {
        return false;
    };
    let is_seen = seen_unchanged(facts, &server).is_some_and(|(_, seen)| seen >= due);
    !facts.deleting() && facts.now.mono >= due && is_seen
}

/// From when on another server may be ordered in place of this one. None: never.
fn replacement_due_at(facts: &ServerFacts, server: &Server) -> Option<Duration> {
    if decide_replacement(facts, server) != Replacement::Replace {
        return None;
    }
    let (since, _) = seen_unchanged(facts, server)?;
    // A recorded one has waited long enough. This process only has to see that it is still so.
    match find_replaced(facts, server).is_some() || is_release_recorded(facts, server) {
        true => Some(facts.first_seen.max(facts.leader_since)),
        false => Some(since + facts.view()?.times.absence_grace_period),
    }
}

/// Waits until a server that has ended may be replaced. `decision` already reports its state.
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

/// Releases the failed server of a living object.
pub fn release_failed_server(
    facts: &ServerFacts,
    view: &AccountView,
    uuid: &str,
) -> ServerDecision {
    let Some(existing_server) = existing::find_existing(facts) else {
        return ServerDecision::unchanged(facts);
    };
    let decision = existing::reconcile_existing(facts, &existing_server);
    if !facts.policies().may_send() {
        return decision;
    }
    let pause = view.times.active_poll_interval;
    match delete_request::last_answer(facts, &existing_server.server) {
        Some((_, at)) if facts.now.elapsed_since(at) < pause => decision.requeue_after(pause),
        _ => ServerDecision {
            effect: Some(ServerEffect::Release {
                uuid: uuid.to_owned(),
            }),
            ..decision
        },
    }
}

/// Records the replaced server before another one is ordered. None: it is recorded, or nothing is replaced.
pub fn record_replaced_first(facts: &ServerFacts) -> Option<ServerDecision> {
    let existing_server = existing::find_existing(facts)?;
    if find_replaced(facts, &existing_server.server).is_some() {
        return None;
    }
    let mut decision = existing::reconcile_existing(facts, &existing_server);
    decision.effect = None;
    record_replaced(facts, &existing_server.server, &mut decision.desired);
    decision.requeue_once_written = super::Requeue::Now;
    Some(decision)
}

/// Since when the server has been seen in this state, and when it was last seen.
fn seen_unchanged(facts: &ServerFacts, server: &Server) -> Option<(Duration, Duration)> {
    let over = facts.memory.ended_server.as_ref()?;
    let is_it = |s: &&SeenServer| s.server.id == server.id;
    let seen = facts.own.iter().chain(&facts.recorded).filter(is_it);
    let seen = seen.map(|s| s.seen).max()?;
    over.matches(server).then_some((over.since, seen))
}

fn record_replaced(facts: &ServerFacts, server: &Server, desired: &mut DesiredStatus) {
    let recorded_at = Timestamp::from_second(facts.now.wall).unwrap_or_default();
    let all = &mut desired.status.replaced_servers;
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

/// Forgets replaced servers that are live again, and all of them long after a delivery.
pub fn forget_replaced(facts: &ServerFacts, server: &Server, desired: &mut DesiredStatus) {
    if !server.status.is_live() {
        return;
    }
    let all = &mut desired.status.replaced_servers;
    // It is live after all.
    all.retain(|r| !is_same_uuid(&r.uuid, server.id.as_str()));
    let is_long_ago = |at: i64| facts.steady_wall().saturating_sub(at) >= RESET_AFTER;
    if server.status == ServerStatus::Delivered && server.delivered_at.is_some_and(is_long_ago) {
        all.clear();
    }
}

/// Why a replacement is not ordered. None: it may be, or nothing is replaced.
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
            remedy::describe_edit(field, word)
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

/// Explains the state of an object whose server has ended.
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
        Replacement::Wait => Explanation::stalled(
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
        Replacement::WasDelivered => Explanation::stalled(
            reason,
            format!(
                "{what}; it was delivered before, so none is ordered in its place. Ask the provider, or delete this object"
            ),
        ),
        Replacement::Exhausted => {
            let status = facts.status();
            let others = status.replaced_servers.iter().map(|r| r.uuid.as_str());
            let others = others.filter(|uuid| !is_same_uuid(uuid, server.id.as_str()));
            let row = count_attempts(facts, server);
            let text = describe_exhausted(others.chain([server.id.as_str()]), row);
            Explanation::stalled(reason, format!("{what}. {text}"))
        }
        Replacement::Replace => {
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
