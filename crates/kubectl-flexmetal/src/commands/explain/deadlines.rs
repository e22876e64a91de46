//! The times at which something follows by itself.

use super::timeline::{Entry, EntrySource};
use crate::objects::Object;
use api::{DedicatedHost, ServerCommand, server::BareMetalServer};
use flexmetal_core::host::decide::install;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use std::time::Duration;

/// The times at which something follows, the first one first.
pub fn find_deadlines(object: &Object) -> Vec<Entry> {
    let found = match object {
        Object::BareMetalServer(server) => deadlines_of_server(server),
        Object::ServerCommand(command) => deadlines_of_command(command),
        Object::DedicatedHost(host) => deadlines_of_host(host),
        _ => Vec::new(),
    };
    let found = found
        .into_iter()
        .filter_map(|(at, what)| Entry::new(at, EntrySource::Object, what, ""));
    let mut found: Vec<Entry> = found.collect();
    found.sort_by_key(|deadline| deadline.at);
    found
}

type Deadlines = Vec<(Option<Timestamp>, &'static str)>;

fn time(at: Option<&Time>) -> Option<Timestamp> {
    Some(at?.0)
}

fn later(start: Option<Timestamp>, by: Duration) -> Option<Timestamp> {
    start?.checked_add(SignedDuration::try_from(by).ok()?).ok()
}

fn deadlines_of_server(server: &BareMetalServer) -> Deadlines {
    let spec = &server.spec;
    let deleted_at = time(server.metadata.deletion_timestamp.as_ref());
    let is_live = |_: &Timestamp| deleted_at.is_none();
    let mut found = vec![(
        time(spec.expires_at.as_ref()).filter(is_live),
        "The operator deletes the object (spec.expiresAt)",
    )];
    let Some(status) = &server.status else {
        return found;
    };
    let release = status.records.release.as_ref();
    let delay = status.policies.and_then(|policies| policies.release_delay);
    if let Some(delay) = delay.filter(|_| !release.is_some_and(|it| it.deleting)) {
        let at = later(deleted_at, delay.0);
        found.push((at, "The operator begins the release (releaseDelay)"));
    }
    if status.uuid.is_some() && status.delivered_at.is_none() {
        let ordered_at = status.created_at.as_ref().or(status.ordered_at.as_ref());
        let timeout = spec.provisioning.unwrap_or_default().timeout();
        found.push((
            later(time(ordered_at), timeout.0).filter(is_live),
            "The delivery counts as late (spec.provisioning.timeout)",
        ));
    }
    if let Some(password) = &status.root_password {
        found.push((
            Some(password.available_until.0).filter(|_| password.stored_at.is_none()),
            "The provider no longer has the root password",
        ));
        found.push((
            time(password.deletes_at.as_ref()).filter(|_| password.deleted_at.is_none()),
            "The operator deletes the Secret of the root password",
        ));
    }
    found
}

fn deadlines_of_command(command: &ServerCommand) -> Deadlines {
    let spec = &command.spec;
    let status = command.status.as_ref();
    if let Some(finished_at) = status.and_then(|status| status.finished_at.as_ref()) {
        let seconds = spec.ttl_seconds_after_finished;
        let ttl = seconds.and_then(|seconds| u64::try_from(seconds).ok());
        let at = ttl.and_then(|ttl| later(Some(finished_at.0), Duration::from_secs(ttl)));
        let what = "The operator deletes the object (spec.ttlSecondsAfterFinished)";
        return vec![(at, what)];
    }
    let started_at = status.and_then(|status| time(status.started_at.as_ref()));
    let created_at = time(command.metadata.creation_timestamp.as_ref());
    let escalates = spec.escalate_after;
    vec![
        (
            later(created_at, spec.timeout().0),
            "The command counts as failed (spec.timeout)",
        ),
        (
            escalates.and_then(|after| later(started_at, after.0)),
            "The operator switches the power off (spec.escalateAfter)",
        ),
    ]
}

fn deadlines_of_host(host: &DedicatedHost) -> Deadlines {
    let history = host.status.as_ref().and_then(|it| it.install.as_ref());
    let last = history.and_then(|history| history.last.as_ref());
    let open = last.filter(|last| last.ended_at.is_none());
    let started_at = open.and_then(|last| time(last.started_at.as_ref()));
    let at = later(started_at, install::TIMEOUT);
    vec![(at, "The installation counts as late")]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::{ObjectKind, decode};
    use serde_json::{Value, json};

    fn seconds(kind: ObjectKind, metadata: &Value, spec: &Value, status: &Value) -> Vec<i64> {
        let object = json!({"metadata": metadata, "spec": spec, "status": status});
        let found = find_deadlines(&decode(kind, object).unwrap()).into_iter();
        found.map(|it| it.at.as_second()).collect()
    }

    #[test]
    fn delayed_release_has_a_time_until_it_begins() {
        let deleted = json!({"deletionTimestamp": "1970-01-01T00:00:00Z"});
        let mut status = json!({"policies": {
            "managementPolicy": "Full", "deletionPolicy": "Release", "deletionProtection": false,
            "suspend": false, "releaseDelay": "1h", "failurePolicy": "Wait", "externalReleasePolicy": "Wait",
        }});
        let find =
            |status: &Value| seconds(ObjectKind::BareMetalServer, &deleted, &json!({}), status);
        assert_eq!(find(&status), [3600]);
        status["records"] = json!({"release": {
            "uid": "u", "server": "s", "sendBy": "1970-01-01T00:00:00Z", "deleting": true,
        }});
        assert!(find(&status).is_empty());
    }

    #[test]
    fn open_delivery_and_expiry_come_in_order() {
        let spec = json!({"expiresAt": "1970-01-01T02:00:00Z", "provisioning": {"timeout": "30m"}});
        let mut status = json!({"uuid": "u", "createdAt": "1970-01-01T00:00:00Z"});
        let find = |status: &Value| seconds(ObjectKind::BareMetalServer, &json!({}), &spec, status);
        assert_eq!(find(&status), [1800, 7200]);
        status["deliveredAt"] = json!("1970-01-01T00:10:00Z");
        assert_eq!(find(&status), [7200]);
    }

    #[test]
    fn command_has_timeout_and_time_to_live() {
        let metadata = json!({"creationTimestamp": "1970-01-01T00:00:00Z"});
        let spec = json!({"targetRef": {"name": "web"}, "action": "Shutdown", "timeout": "10m",
            "escalateAfter": "5m", "ttlSecondsAfterFinished": 60});
        let find = |status: Value| seconds(ObjectKind::ServerCommand, &metadata, &spec, &status);
        assert_eq!(find(json!({})), [600]);
        assert_eq!(
            find(json!({"startedAt": "1970-01-01T00:00:10Z"})),
            [310, 600]
        );
        assert_eq!(find(json!({"finishedAt": "1970-01-01T00:01:00Z"})), [120]);
    }
}
