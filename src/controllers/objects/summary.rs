//! What gauges show of each object. It is kept next to the packed form: decoding every object at each scrape would cost
//! too much.

use super::{Objects, ObservedObject, entry::Phase, users::Counted};
use crate::runtime::{
    kind_api::{KindApi, kind_name},
    metrics::{Metric, Samples, count, flag},
};
use api::{
    Kind, Reason,
    conditions::{Type, find_condition, is_true},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use std::time::Duration;

/// What gauges show of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectSummary {
    /// Status of the condition Ready: `True`, `False` or `Unknown`.
    ready: &'static str,
    /// Its reason; empty without the condition.
    reason: &'static str,
    is_stalled: bool,
    /// What a deleted object waits for, by reason.
    deletion_waits_for: Option<&'static str>,
    /// What only some kinds have.
    pub details: ObjectDetails,
}

/// What gauges show of an object of some kinds. All times are Unix seconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectDetails {
    /// When its open order was started, and until when it may be sent.
    pub open_order: Option<(i64, i64)>,
    /// When the server was ordered that is not delivered yet.
    pub provisioning_since: Option<i64>,
    /// Until when the provider gives out a password that is not stored yet.
    pub password_until: Option<i64>,
    /// Whether the operator's own addresses are admitted.
    pub covers_operator: Option<bool>,
}

impl ObjectSummary {
    pub(super) fn new<K: Kind>(
        shown: &ObservedObject<K>,
        details_of: fn(&K) -> ObjectDetails,
    ) -> Self {
        let is_deleted = shown.meta().deletion_timestamp.is_some();
        let invalid = Reason::InvalidSpec.as_str();
        let ObservedObject::Decoded(object) = shown else {
            return Self {
                // What the operator writes to such an object.
                ready: "False",
                is_stalled: true,
                reason: invalid,
                deletion_waits_for: is_deleted.then_some(invalid),
                ..Self::default()
            };
        };
        let conditions = object
            .status()
            .map_or(&[][..], |status| K::conditions(status));
        let reason_of = |condition: &Condition| Reason::parse(&condition.reason);
        let ready = find_condition(conditions, Type::Ready);
        let reason = ready.and_then(reason_of);
        // A release that has begun stays Releasing, and Synced says what blocks it.
        let unsynced =
            find_condition(conditions, Type::Synced).filter(|synced| synced.status == "False");
        let waits_for = match reason {
            Some(Reason::Releasing) => unsynced.and_then(reason_of).or(reason),
            reason => reason,
        };
        Self {
            ready: ready.map_or("Unknown", |ready| status_word(&ready.status)),
            reason: reason.map_or("", Reason::as_str),
            is_stalled: is_true(conditions, Type::Stalled),
            deletion_waits_for: is_deleted.then(|| waits_for.map_or("", Reason::as_str)),
            details: details_of(object),
        }
    }
}

fn status_word(status: &str) -> &'static str {
    match status {
        "True" => "True",
        "False" => "False",
        _ => "Unknown",
    }
}

impl<K: KindApi, M: Clone + Default + Send> Objects<K, M> {
    /// Adds the gauges of the work queue, which each process has.
    pub fn collect_queue(&self, samples: &mut Samples) {
        let name = kind_name::<K>();
        let (depth, waited) = self.queued();
        samples.set(Metric::QueueDepth, &[name], count(depth));
        samples.set(Metric::QueueOldest, &[name], waited.as_secs_f64());
        let inner = self.lock();
        let phases = inner.entries.values().map(|entry| &entry.phase);
        let running = phases
            .filter(|phase| matches!(phase, Phase::Running { .. }))
            .count();
        samples.set(Metric::ActiveWorkers, &[name], count(running));
    }

    /// Adds the gauges of the objects. `wall`: Unix seconds.
    pub fn collect_objects(&self, samples: &mut Samples, wall: i64) {
        let kind = kind_name::<K>();
        let inner = self.lock();
        for entry in inner.entries.values().filter(|entry| !entry.gone) {
            let ObjectSummary {
                ready,
                reason,
                is_stalled,
                ..
            } = entry.summary;
            let stalled = if is_stalled { "true" } else { "false" };
            samples.add(Metric::Objects, &[kind, reason, ready, stalled], 1.0);
            if let Some(Counted::User(user)) = &entry.counted {
                collect_details(samples, &user.account.label(), &entry.summary, kind, wall);
            }
        }
    }

    /// Adds a gauge for each condition of each object.
    pub fn collect_conditions(&self, samples: &mut Samples) {
        let kind = kind_name::<K>();
        let forms: Vec<_> = {
            let inner = self.lock();
            let present = inner.entries.values().filter(|entry| !entry.gone);
            present.map(|entry| entry.form.clone()).collect()
        };
        for form in forms {
            let ObservedObject::Decoded(object) = form.unpack() else {
                continue;
            };
            let meta = object.meta();
            let namespace = meta.namespace.as_deref().unwrap_or_default();
            let name = meta.name.as_deref().unwrap_or_default();
            let conditions = object
                .status()
                .map_or(&[][..], |status| K::conditions(status));
            for Condition {
                type_,
                status,
                reason,
                ..
            } in conditions
            {
                let labels = [kind, namespace, name, type_, status, reason];
                samples.set(Metric::ObjectCondition, &labels, 1.0);
            }
        }
    }
}

/// Adds the gauges of one object of an account.
fn collect_details(
    samples: &mut Samples,
    account: &str,
    summary: &ObjectSummary,
    kind: &str,
    wall: i64,
) {
    let details = &summary.details;
    if kind == "BareMetalServer" {
        let is_open = details.open_order.is_some();
        samples.add(Metric::OrdersOpen, &[account], flag(is_open));
        if let Some(reason) = summary.deletion_waits_for {
            samples.add(Metric::ReleasesWaiting, &[account, reason], 1.0);
        }
    }
    if let Some((started, _)) = details.open_order.filter(|(_, send_by)| *send_by < wall) {
        let age = seconds_between(started, wall);
        samples.max(Metric::OldestUnknownOrder, &[account], age);
    }
    if let Some(since) = details.provisioning_since {
        let age = seconds_between(since, wall);
        samples.max(Metric::OldestProvisioning, &[account], age);
    }
    // Once the time is over, the object says so; nothing is left to alert of.
    if let Some(until) = details.password_until.filter(|until| *until > wall) {
        let left = seconds_between(wall, until);
        samples.min(Metric::RootPasswordTimeLeft, &[account], left);
    }
    if let Some(covers) = details.covers_operator {
        samples.min(Metric::WhitelistCoversOperator, &[account], flag(covers));
    }
}

/// Seconds from one Unix time to a later one; 0 if it is not later.
pub fn seconds_between(from: i64, to: i64) -> f64 {
    let seconds = u64::try_from(to.saturating_sub(from)).unwrap_or_default();
    Duration::from_secs(seconds).as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controllers::objects::KindOptions;
    use api::ServerTag;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
    use kube::{
        core::{DeserializeGuard, error_boundary::InvalidObject},
        runtime::watcher::Event,
    };
    use serde_json::json;

    fn tag(name: &str, status: &str, stalled: &str) -> DeserializeGuard<ServerTag> {
        let condition = |kind: &str, status: &str| {
            json!({
                "type": kind, "status": status, "reason": "NameTaken", "message": "m",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            })
        };
        let object = serde_json::from_value(json!({
            "apiVersion": "flexmetal.dev/v1alpha1", "kind": "ServerTag",
            "metadata": {"name": name, "namespace": "n", "uid": name, "resourceVersion": "1"},
            "spec": {"tag": "web"},
            "status": {"conditions": [condition("Ready", status), condition("Stalled", stalled)]},
        }));
        DeserializeGuard(Ok(object.unwrap()))
    }

    fn values(samples: &Samples, metric: Metric) -> Vec<(Vec<String>, f64)> {
        let all = samples.iter().find(|(found, _)| *found == metric);
        let all = all.into_iter().flat_map(|(_, values)| values);
        all.map(|(labels, value)| (labels.clone(), *value))
            .collect()
    }

    fn labels(labels: &[&str]) -> Vec<String> {
        labels.iter().map(|&label| label.to_owned()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn queue_gauges_show_waiting_and_running_objects() {
        let objects: Objects<ServerTag, ()> = Objects::new(KindOptions::default(), 1);
        for name in ["a", "b", "c"] {
            objects.apply_event(0, Event::Apply(tag(name, "True", "False")));
        }
        assert!(objects.start().is_some());
        tokio::time::advance(Duration::from_secs(7)).await;
        let mut samples = Samples::default();
        objects.collect_queue(&mut samples);
        for (metric, expected) in [
            (Metric::QueueDepth, 2.0),
            (Metric::QueueOldest, 7.0),
            (Metric::ActiveWorkers, 1.0),
        ] {
            let found = values(&samples, metric);
            assert_eq!(found, [(labels(&["ServerTag"]), expected)], "{metric:?}");
        }
    }

    #[test]
    fn objects_count_by_their_ready_condition() {
        let objects: Objects<ServerTag, ()> = Objects::new(KindOptions::default(), 1);
        for (name, status, stalled) in [
            ("a", "False", "True"),
            ("b", "False", "True"),
            ("c", "False", "False"),
        ] {
            objects.apply_event(0, Event::Apply(tag(name, status, stalled)));
        }
        objects.apply_event(0, Event::Delete(tag("b", "False", "True")));
        let undecodable = InvalidObject {
            error: "no tag".into(),
            metadata: ObjectMeta {
                name: Some("d".into()),
                uid: Some("d".into()),
                ..ObjectMeta::default()
            },
        };
        objects.apply_event(0, Event::Apply(DeserializeGuard(Err(undecodable))));
        let mut samples = Samples::default();
        objects.collect_objects(&mut samples, 0);
        assert_eq!(
            values(&samples, Metric::Objects),
            [
                (labels(&["ServerTag", "InvalidSpec", "False", "true"]), 1.0),
                (labels(&["ServerTag", "NameTaken", "False", "false"]), 1.0),
                (labels(&["ServerTag", "NameTaken", "False", "true"]), 1.0),
            ]
        );
    }
}
