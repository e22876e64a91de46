//! Says what was decided: status and events, from this one place.

use super::{decide::Decision, facts::Facts, object::AccountObject};
use crate::{
    controllers::{
        events::{Events, Severity},
        status,
    },
    kinds::{
        Reason,
        account::AccountStatus,
        conditions::{self, Type},
    },
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{
    Client, ResourceExt as _,
    api::{Patch, PatchParams},
};
use serde_json::Value;

/// The status that follows from a decision. Times move only with what they speak of.
pub fn next_status(facts: &Facts, decision: &Decision, now: Timestamp) -> AccountStatus {
    let before = &facts.status;
    let generation = facts.meta.generation;
    let mut next = AccountStatus {
        observed_generation: generation,
        conditions: conditions::merge(&before.conditions, &decision.conditions, generation, now),
        servers: decision.servers.clone().or_else(|| before.servers.clone()),
        orphans: decision
            .orphans
            .clone()
            .unwrap_or_else(|| before.orphans.clone()),
        endpoint: decision
            .endpoint
            .clone()
            .or_else(|| before.endpoint.clone()),
        known_machines: decision.known.clone(),
        last_sweep: before.last_sweep.clone(),
    };
    // A listing each half hour is no news by itself: its time is written along with what is.
    if next != *before
        && let Some(age) = facts
            .standing
            .as_ref()
            .and_then(|s| s.proof.as_ref())
            .map(|proof| facts.now.saturating_sub(proof.ended))
    {
        let seconds = i64::try_from(age.as_secs()).unwrap_or(i64::MAX);
        let ended = Timestamp::from_second(now.as_second().saturating_sub(seconds));
        next.last_sweep = ended.ok().map(Time);
    }
    next
}

/// Whether only counts and names differ, which may wait a little: they change with every machine.
pub fn may_wait(before: &AccountStatus, next: &AccountStatus) -> bool {
    let mut same = next.clone();
    same.servers.clone_from(&before.servers);
    same.known_machines.clone_from(&before.known_machines);
    same.last_sweep.clone_from(&before.last_sweep);
    // The first machines to be known by are what a search rests on.
    same == *before && (next.known_machines.is_empty() || !before.known_machines.is_empty())
}

/// Writes the status if it differs. Returns the object as written.
///
/// # Errors
/// What the API server said; a conflict among it.
pub async fn write<K: AccountObject>(
    client: &Client,
    object: &K,
    next: &AccountStatus,
) -> Result<Option<K>, kube::Error> {
    let value = |status: Option<&AccountStatus>| match status {
        Some(status) => serde_json::to_value(status).map_err(kube::Error::SerdeError),
        None => Ok(Value::Object(Default::default())),
    };
    let (before, after) = (value(object.status())?, value(Some(next))?);
    let Some(patch) = status::patch(&before, &after, object.resource_version().as_deref()) else {
        return Ok(None);
    };
    let api = K::api(client.clone(), object.namespace().as_deref());
    let params = PatchParams::default();
    api.patch_status(&object.name_any(), &params, &Patch::Merge(patch))
        .await
        .map(Some)
}

/// Publishes what changed with a status that was just written.
pub async fn tell<K: AccountObject>(
    events: &Events,
    object: &K,
    before: &AccountStatus,
    next: &AccountStatus,
    decision: &Decision,
) {
    let reference = object.object_ref(&());
    for wanted in &decision.conditions {
        let was = before
            .conditions
            .iter()
            .find(|c| c.type_ == wanted.kind.as_str());
        let is_news = was.is_none_or(|c| c.reason != wanted.reason.as_str());
        match wanted.kind {
            Type::Ready if is_news && wanted.reason != Reason::Pending => {
                let severity = match wanted.status {
                    Some(true) => Severity::Normal,
                    _ => Severity::Warning,
                };
                events
                    .publish(
                        severity,
                        wanted.reason,
                        "Check",
                        &wanted.message,
                        &reference,
                    )
                    .await;
            }
            Type::OrphansFound if wanted.status == Some(true) && before.orphans != next.orphans => {
                let names: Vec<_> = next.orphans.iter().map(|o| o.uuid.as_str()).collect();
                let note = format!("{}: {}", wanted.message, names.join(", "));
                events
                    .publish(Severity::Warning, wanted.reason, "Sweep", &note, &reference)
                    .await;
            }
            _ => {}
        }
    }
}
