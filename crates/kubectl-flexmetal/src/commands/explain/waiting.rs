//! What the operator waits for, and the times at which something follows by itself.

use crate::{
    commands::status::{describe_change, find, find_problems},
    objects::Object,
};
use api::{
    DedicatedHost, ServerCommand,
    conditions::{Type, is_true},
    server::BareMetalServer,
};
use flexmetal_core::host::decide::install;
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

/// What the operator waits for.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Waiting {
    /// Whether it waits for the user.
    pub needs_you: bool,
    /// The reason of the condition; empty before the first one.
    pub reason: String,
    /// The operator's words.
    pub message: String,
    /// What to do, if it waits for the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_step: Option<String>,
}

/// A time at which something follows.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Deadline {
    /// When.
    pub at: Timestamp,
    /// What follows.
    pub what: String,
}

/// What the operator waits for. None: nothing, the object is as declared.
pub fn find_waiting(object: &Object) -> Option<Waiting> {
    if let Some(problem) = find_problems(object).into_iter().next() {
        return Some(Waiting {
            needs_you: true,
            reason: problem.reason,
            message: problem.message,
            next_step: Some(problem.next_step),
        });
    }
    if is_true(object.conditions(), Type::Ready) && object.deleted_at().is_none() {
        let synced = find(object.conditions(), Type::Synced);
        let unsynced = synced.filter(|synced| synced.status == "False")?;
        return Some(Waiting {
            needs_you: false,
            reason: unsynced.reason.clone(),
            message: unsynced.message.clone(),
            next_step: None,
        });
    }
    let change = describe_change(object);
    Some(Waiting {
        needs_you: false,
        reason: change.reason,
        message: change.message,
        next_step: None,
    })
}

/// The times at which something follows, the first one first.
pub fn find_deadlines(object: &Object) -> Vec<Deadline> {
    let found = match object {
        Object::BareMetalServer(server) => deadlines_of_server(server),
        Object::ServerCommand(command) => deadlines_of_command(command),
        Object::DedicatedHost(host) => deadlines_of_host(host),
        _ => Vec::new(),
    };
    let mut found: Vec<_> = found.into_iter().flatten().collect();
    found.sort_by_key(|deadline| deadline.at);
    found
}

fn deadline(at: Option<Timestamp>, what: impl Into<String>) -> Option<Deadline> {
    Some(Deadline {
        at: at?,
        what: what.into(),
    })
}

fn later(start: Option<Timestamp>, by: std::time::Duration) -> Option<Timestamp> {
    start?.checked_add(SignedDuration::try_from(by).ok()?).ok()
}

fn deadlines_of_server(server: &BareMetalServer) -> Vec<Option<Deadline>> {
    let spec = &server.spec;
    let deleted_at = server.metadata.deletion_timestamp.as_ref().map(|at| at.0);
    let expires_at = spec.expires_at.as_ref().map(|at| at.0);
    let mut found = vec![deadline(
        expires_at.filter(|_| deleted_at.is_none()),
        "The operator deletes the object (spec.expiresAt)",
    )];
    let Some(status) = &server.status else {
        return found;
    };
    let has_begun = status
        .records
        .release
        .as_ref()
        .is_some_and(|it| it.deleting);
    let delay = status.policies.and_then(|policies| policies.release_delay);
    if let Some(delay) = delay.filter(|_| !has_begun) {
        found.push(deadline(
            later(deleted_at, delay.0),
            "The release begins (releaseDelay)",
        ));
    }
    let ordered_at = status.created_at.as_ref().or(status.ordered_at.as_ref());
    let ordered_at = ordered_at.map(|at| at.0);
    if status.uuid.is_some() && status.delivered_at.is_none() && deleted_at.is_none() {
        let timeout = spec.provisioning.unwrap_or_default().timeout();
        found.push(deadline(
            later(ordered_at, timeout.0),
            "The delivery counts as late (spec.provisioning.timeout)",
        ));
    }
    if let Some(password) = &status.root_password {
        let until = password.available_until.0;
        let deletes_at = password.deletes_at.as_ref().map(|at| at.0);
        found.push(deadline(
            Some(until).filter(|_| password.stored_at.is_none()),
            "The provider no longer has the root password",
        ));
        found.push(deadline(
            deletes_at.filter(|_| password.deleted_at.is_none()),
            "The operator deletes the Secret of the root password",
        ));
    }
    found
}

fn deadlines_of_command(command: &ServerCommand) -> Vec<Option<Deadline>> {
    let created_at = command.metadata.creation_timestamp.as_ref().map(|at| at.0);
    let status = command.status.as_ref();
    let finished_at = status.and_then(|status| status.finished_at.as_ref());
    if let Some(finished_at) = finished_at {
        let seconds = command.spec.ttl_seconds_after_finished;
        let seconds = seconds.and_then(|seconds| u64::try_from(seconds).ok());
        let ttl = seconds.map(std::time::Duration::from_secs);
        let at = ttl.and_then(|ttl| later(Some(finished_at.0), ttl));
        return vec![deadline(
            at,
            "The operator deletes the object (spec.ttlSecondsAfterFinished)",
        )];
    }
    let started_at = status.and_then(|status| Some(status.started_at.as_ref()?.0));
    let escalates = command.spec.escalate_after;
    vec![
        deadline(
            later(created_at, command.spec.timeout().0),
            "The command counts as failed (spec.timeout)",
        ),
        deadline(
            escalates.and_then(|after| later(started_at, after.0)),
            "The operator switches the power off (spec.escalateAfter)",
        ),
    ]
}

fn deadlines_of_host(host: &DedicatedHost) -> Vec<Option<Deadline>> {
    let history = host.status.as_ref().and_then(|it| it.install.as_ref());
    let last = history.and_then(|history| history.last.as_ref());
    let open = last.filter(|last| last.ended_at.is_none());
    let started_at = open.and_then(|last| Some(last.started_at.as_ref()?.0));
    vec![deadline(
        later(started_at, install::TIMEOUT),
        "The installation counts as late",
    )]
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn server(metadata: Value, spec: Value, status: Value) -> Object {
        let mut metadata = metadata;
        metadata["name"] = "web".into();
        let server: BareMetalServer = serde_json::from_value(json!({
            "apiVersion": "flexmetal.dev/v1alpha1", "kind": "BareMetalServer",
            "metadata": metadata, "spec": spec, "status": status,
        }))
        .unwrap();
        server.into()
    }

    fn seconds(object: &Object) -> Vec<(i64, String)> {
        let found = find_deadlines(object).into_iter();
        found.map(|it| (it.at.as_second(), it.what)).collect()
    }

    #[test]
    fn delayed_release_has_a_time_until_it_begins() {
        let deleted = json!({"deletionTimestamp": "1970-01-01T00:00:00Z"});
        let mut status = json!({"policies": {
            "managementPolicy": "Full", "deletionPolicy": "Release", "deletionProtection": false,
            "suspend": false, "releaseDelay": "1h", "failurePolicy": "Wait", "externalReleasePolicy": "Wait",
        }});
        let of = |status: &Value| seconds(&server(deleted.clone(), json!({}), status.clone()));
        let found = of(&status);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].0, 3600);
        assert!(found[0].1.contains("release begins"), "{found:?}");
        status["records"] = json!({"release": {
            "uid": "u", "server": "s", "sendBy": "1970-01-01T00:00:00Z", "deleting": true,
        }});
        assert!(of(&status).is_empty());
    }

    #[test]
    fn open_delivery_and_expiry_come_in_order() {
        let spec = json!({"expiresAt": "1970-01-01T02:00:00Z", "provisioning": {"timeout": "30m"}});
        let mut status = json!({"uuid": "u", "createdAt": "1970-01-01T00:00:00Z"});
        let of = |status: &Value| {
            let found = seconds(&server(json!({}), spec.clone(), status.clone())).into_iter();
            found.map(|(at, _)| at).collect::<Vec<_>>()
        };
        assert_eq!(of(&status), [1800, 7200]);
        status["deliveredAt"] = json!("1970-01-01T00:10:00Z");
        assert_eq!(of(&status), [7200]);
    }

    #[test]
    fn command_ends_with_its_timeout_and_goes_with_its_time_to_live() {
        let command = |status: Value| -> Object {
            let command: ServerCommand = serde_json::from_value(json!({
                "apiVersion": "flexmetal.dev/v1alpha1", "kind": "ServerCommand",
                "metadata": {"name": "off", "creationTimestamp": "1970-01-01T00:00:00Z"},
                "spec": {"targetRef": {"name": "web"}, "action": "Shutdown", "timeout": "10m",
                    "escalateAfter": "5m", "ttlSecondsAfterFinished": 60},
                "status": status,
            }))
            .unwrap();
            command.into()
        };
        let of = |status| {
            seconds(&command(status))
                .into_iter()
                .map(|(at, _)| at)
                .collect::<Vec<_>>()
        };
        assert_eq!(of(json!({})), [600]);
        assert_eq!(of(json!({"startedAt": "1970-01-01T00:00:10Z"})), [310, 600]);
        assert_eq!(of(json!({"finishedAt": "1970-01-01T00:01:00Z"})), [120]);
    }

    #[test]
    fn ready_object_waits_only_for_unsent_changes() {
        let of = |synced: &str, reason: &str| {
            let condition = |kind: &str, status: &str, reason: &str| {
                json!({"type": kind, "status": status, "reason": reason, "message": reason,
                    "lastTransitionTime": "1970-01-01T00:00:00Z"})
            };
            let conditions = [
                condition("Ready", "True", "Delivered"),
                condition("Synced", synced, reason),
            ];
            find_waiting(&server(
                json!({}),
                json!({}),
                json!({"conditions": conditions}),
            ))
        };
        assert_eq!(of("True", "InSync"), None);
        let waiting = of("False", "PendingChanges").unwrap();
        assert_eq!(
            (waiting.needs_you, waiting.reason.as_str()),
            (false, "PendingChanges")
        );
    }
}
