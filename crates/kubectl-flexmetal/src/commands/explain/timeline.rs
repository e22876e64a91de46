//! The moments in the life of an object, from its status and from events.

use crate::objects::Object;
use api::{
    account::AccountStatus,
    command::{CommandOutcome, ServerCommandStatus},
    host::DedicatedHostStatus,
    install::LastInstall,
    power::PowerStatus,
    server::{BareMetalServerStatus, OrderOutcome, OrderRecord},
};
use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::Event,
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
};
use serde::Serialize;

/// Where a moment is known from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Source {
    /// The metadata of the object.
    Object,
    /// A condition, which has only its last transition.
    Condition,
    /// A Kubernetes event, which lasts an hour in most clusters.
    Event,
    /// What the operator recorded in status.
    Status,
    /// The provider.
    Provider,
}

/// A moment.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// When.
    pub at: Timestamp,
    /// Where it is known from.
    pub source: Source,
    /// What happened, in a few words.
    pub what: String,
    /// More words.
    pub message: String,
}

impl Entry {
    /// A moment that has a time.
    pub fn new(
        at: Option<Timestamp>,
        source: Source,
        what: impl Into<String>,
        message: impl Into<String>,
    ) -> Option<Self> {
        Some(Self {
            at: at?,
            source,
            what: what.into(),
            message: message.into(),
        })
    }
}

fn at(time: Option<&Time>) -> Option<Timestamp> {
    Some(time?.0)
}

/// The moment of a Unix second.
pub fn second(unix: Option<i64>) -> Option<Timestamp> {
    Timestamp::from_second(unix?).ok()
}

fn status(
    at: Option<Timestamp>,
    what: impl Into<String>,
    message: impl Into<String>,
) -> Option<Entry> {
    Entry::new(at, Source::Status, what, message)
}

/// The moments that an object shows.
pub fn entries_of_object(object: &Object) -> Vec<Entry> {
    let mut entries = vec![
        Entry::new(object.created_at(), Source::Object, "Created", ""),
        Entry::new(object.deleted_at(), Source::Object, "Deletion began", ""),
    ];
    entries.extend(object.conditions().iter().map(entry_of_condition));
    let (pending, acknowledged) = object.acknowledgements();
    entries.extend(pending.iter().map(|it| {
        let what = format!("{:?} waits for you", it.effect);
        status(Some(it.since.0), what, it.subject.clone())
    }));
    entries.extend(acknowledged.iter().map(|it| {
        let what = format!("{:?} acknowledged", it.effect);
        status(Some(it.acknowledged_at.0), what, "")
    }));
    match object {
        Object::BareMetalServer(it) => {
            entries.extend(it.status.iter().flat_map(entries_of_server));
        }
        Object::DedicatedHost(it) => entries.extend(it.status.iter().flat_map(entries_of_host)),
        Object::ServerCommand(it) => entries.extend(it.status.iter().flat_map(entries_of_command)),
        Object::ProviderAccount(_) | Object::ClusterProviderAccount(_) => {
            entries.extend(
                object
                    .account_status()
                    .into_iter()
                    .flat_map(entries_of_account),
            );
        }
        Object::ServerTag(_) | Object::SshKey(_) | Object::IpWhitelist(_) => {}
    }
    entries.into_iter().flatten().collect()
}

fn entry_of_condition(condition: &Condition) -> Option<Entry> {
    let Condition {
        type_,
        status,
        reason,
        ..
    } = condition;
    Entry::new(
        Some(condition.last_transition_time.0),
        Source::Condition,
        format!("{type_}={status} {reason}"),
        condition.message.clone(),
    )
}

fn entries_of_server(server: &BareMetalServerStatus) -> Vec<Option<Entry>> {
    let uuid = server.uuid.as_deref().unwrap_or_default();
    let provider =
        |time: Option<&Time>, what: &str| Entry::new(at(time), Source::Provider, what, uuid);
    let mut entries = vec![
        provider(server.created_at.as_ref(), "Server created"),
        provider(server.delivered_at.as_ref(), "Server delivered"),
        provider(server.released_at.as_ref(), "Server released"),
    ];
    if let Some(order) = &server.records.order {
        entries.extend(entries_of_order(order));
    } else {
        entries.push(status(at(server.ordered_at.as_ref()), "Order started", ""));
    }
    entries.extend(server.replaced_servers.iter().map(|it| {
        let message = format!(
            "{}, which was {}; {} at {}",
            it.uuid, it.provider_status, it.instance_type, it.location
        );
        status(Some(it.recorded_at.0), "Server replaced", message)
    }));
    let install = server.install.as_ref().and_then(|it| it.last.as_ref());
    entries.extend(
        install
            .into_iter()
            .flat_map(|it| entries_of_install(&it.install)),
    );
    entries.push(server.power.as_ref().and_then(entry_of_power));
    if let Some(password) = &server.root_password {
        let secret = password.secret_ref.as_ref();
        let secret = secret.map_or_else(String::new, |it| format!("in Secret {}", it.name));
        entries.extend([
            status(
                at(password.stored_at.as_ref()),
                "Root password stored",
                secret,
            ),
            status(
                at(password.deleted_at.as_ref()),
                "Secret of the root password deleted",
                "",
            ),
        ]);
    }
    entries
}

/// The start and the outcome of an order or an adoption.
fn entries_of_order(order: &OrderRecord) -> [Option<Entry>; 2] {
    let is_order = !order.nonce.is_empty();
    let started = second(Some(order.seq.into())).filter(|_| is_order);
    let place = [order.instance_type.as_deref(), order.location.as_deref()];
    let place: Vec<_> = place.into_iter().flatten().collect();
    let uuid = order.server.as_deref().unwrap_or("without UUID");
    let what = match order.outcome {
        None => "Outcome of the order unknown".to_owned(),
        Some(OrderOutcome::Created) if is_order => format!("Order made server {uuid}"),
        Some(OrderOutcome::Created) => format!("Adopted server {uuid}"),
        Some(OrderOutcome::Adopting) => format!("Adopting server {uuid}"),
        Some(OrderOutcome::Refused) => "Order refused".to_owned(),
        Some(OrderOutcome::NotSent) => "Order not sent".to_owned(),
        Some(OrderOutcome::Absent) => "Order made no server".to_owned(),
    };
    let mut message = order.message.clone().unwrap_or_default();
    if order.answer_lost && message.is_empty() {
        "its answer was lost".clone_into(&mut message);
    }
    [
        status(
            started,
            format!("Order {} started", order.seq),
            place.join(" at "),
        ),
        status(second(order.outcome_at), what, message),
    ]
}

fn entries_of_install(install: &LastInstall) -> [Option<Entry>; 2] {
    let revision = install.revision;
    let outcome = describe_outcome(install.outcome);
    let result = install.result.map(|result| format!("{result:?}"));
    let result = result.unwrap_or_else(|| "ended".to_owned());
    [
        status(
            at(install.started_at.as_ref()),
            format!("Installation of revision {revision}"),
            outcome,
        ),
        status(
            at(install.ended_at.as_ref()),
            format!("Installation of revision {revision}: {result}"),
            install.message.clone().unwrap_or_default(),
        ),
    ]
}

fn describe_outcome(outcome: Option<CommandOutcome>) -> &'static str {
    match outcome {
        Some(CommandOutcome::Accepted) => "accepted by the provider",
        Some(CommandOutcome::Refused) => "refused by the provider",
        Some(CommandOutcome::NotSent) => "not sent",
        None => "outcome unknown",
    }
}

fn entry_of_power(power: &PowerStatus) -> Option<Entry> {
    let command = &power.command;
    let reason = command.reason.as_deref();
    let reason = reason.map_or_else(String::new, |reason| format!(" {reason}"));
    status(
        Some(command.started_at.0),
        "Change of spec.power",
        format!(
            "ServerCommand {}: {:?}{reason}",
            command.name, command.state
        ),
    )
}

fn entries_of_host(host: &DedicatedHostStatus) -> Vec<Option<Entry>> {
    let install = host.install.as_ref().and_then(|it| it.last.as_ref());
    let mut entries = vec![
        Entry::new(
            at(host.up_since.as_ref()),
            Source::Provider,
            "Host runs",
            "",
        ),
        host.power.as_ref().and_then(entry_of_power),
    ];
    entries.extend(install.into_iter().flat_map(entries_of_install));
    entries
}

fn entries_of_command(command: &ServerCommandStatus) -> Vec<Option<Entry>> {
    let sent = command.records.sent.iter().map(|record| {
        let outcome = describe_outcome(record.outcome);
        let words = record.message.as_deref();
        let words = words.map_or_else(String::new, |words| format!(": {words}"));
        status(
            second(Some(record.intent.started_at)),
            format!("{} started", record.intent.action.as_str()),
            format!("{outcome}{words}"),
        )
    });
    let mut entries: Vec<_> = sent.collect();
    entries.push(status(at(command.finished_at.as_ref()), "Ended", ""));
    entries
}

fn entries_of_account(account: &AccountStatus) -> Vec<Option<Entry>> {
    let key = account.credentials.as_ref();
    let key_since = key.and_then(|key| at(key.in_use_since.as_ref()));
    let key_hash = key.map_or_else(String::new, |key| format!("hash {}", key.hash));
    let mut entries = vec![status(key_since, "Key in use for all calls", key_hash)];
    entries.extend(account.orphans.iter().map(|orphan| {
        let message = format!("{} {}", orphan.uuid, orphan.hostname);
        status(at(orphan.since.as_ref()), "Orphan listed", message)
    }));
    let counted = account.release_limit.iter().flat_map(|it| &it.namespaces);
    for namespace in counted {
        let of = format!("of namespace {}", namespace.namespace);
        entries.extend(namespace.releases.iter().map(|release| {
            let what = "Release counted";
            status(
                Some(release.started_at.0),
                what,
                format!("{} {of}", release.uuid),
            )
        }));
        let blocked_since = at(namespace.blocked_since.as_ref());
        entries.push(status(blocked_since, "Release limit reached", of));
    }
    entries
}

/// The moment of an event about the object.
pub fn entry_of_event(event: &Event) -> Option<Entry> {
    let series = event.series.as_ref();
    let last = series.and_then(|series| Some(series.last_observed_time.as_ref()?.0));
    let moment = last
        .or_else(|| at(event.last_timestamp.as_ref()))
        .or_else(|| Some(event.event_time.as_ref()?.0))
        .or_else(|| at(event.metadata.creation_timestamp.as_ref()));
    let count = series.and_then(|series| series.count).or(event.count);
    let mut message = event.message.clone().unwrap_or_default();
    if let Some(count) = count.filter(|count| *count > 1) {
        message += &format!(" ({count} times)");
    }
    let reason = event.reason.clone().unwrap_or_default();
    Entry::new(moment, Source::Event, reason, message)
}

/// The moments in their order. Those of the same second stay in the order in which they came.
pub fn sort(mut entries: Vec<Entry>) -> Vec<Entry> {
    entries.sort_by_key(|entry| entry.at.as_second());
    entries
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::{BareMetalServer, ProviderAccount, ServerCommand};
    use serde_json::{Value, json};

    fn server(status: Value) -> Object {
        let server: BareMetalServer = serde_json::from_value(json!({
            "apiVersion": "flexmetal.dev/v1alpha1", "kind": "BareMetalServer",
            "metadata": {"name": "web", "namespace": "a", "creationTimestamp": "2026-11-01T09:00:00Z",
                "deletionTimestamp": "2026-11-03T09:00:00Z"},
            "spec": {}, "status": status,
        }))
        .unwrap();
        server.into()
    }

    fn told(object: &Object) -> Vec<(String, String)> {
        let entries = sort(entries_of_object(object)).into_iter();
        entries.map(|it| (it.what, it.message)).collect()
    }

    fn order(outcome: Value, nonce: &str) -> Value {
        json!({
            "uid": "u", "seq": 1_793_523_660_u32, "nonce": nonce, "sendBy": "2026-11-01T09:05:00Z",
            "accountID": "x", "outcome": outcome, "outcomeAt": "2026-11-01T09:02:00Z",
            "server": "01923b7e-0c1f-7d3a-9c52-0a1b2c3d4e5f", "location": "L", "instanceType": "t",
        })
    }

    #[test]
    fn life_of_a_server_is_told_in_order() {
        let object = server(json!({
            "uuid": "01923b7e-0c1f-7d3a-9c52-0a1b2c3d4e5f",
            "createdAt": "2026-11-01T09:02:01Z", "deliveredAt": "2026-11-01T09:20:00Z",
            "conditions": [{"type": "Ready", "status": "True", "reason": "Delivered", "message": "",
                "lastTransitionTime": "2026-11-01T09:20:05Z"}],
            "acknowledged": [{"token": "1", "effect": "OrderAnother", "acknowledgedAt": "2026-11-01T09:00:30Z"}],
            "records": {"order": order(json!("Created"), "n")},
        }));
        let whats: Vec<_> = told(&object).into_iter().map(|(what, _)| what).collect();
        assert_eq!(
            whats,
            [
                "Created",
                "OrderAnother acknowledged",
                "Order 1793523660 started",
                "Order made server 01923b7e-0c1f-7d3a-9c52-0a1b2c3d4e5f",
                "Server created",
                "Server delivered",
                "Ready=True Delivered",
                "Deletion began",
            ]
        );
    }

    #[test]
    fn adoption_is_no_order() {
        let object = server(json!({"records": {"order": order(json!("Created"), "")}}));
        let told = told(&object);
        assert!(
            told.iter()
                .any(|(what, _)| what.starts_with("Adopted server"))
        );
        assert!(
            !told.iter().any(|(what, _)| what.starts_with("Order")),
            "{told:?}"
        );
    }

    #[test]
    fn install_tells_how_it_ended() {
        let object = server(json!({"install": {"revision": 2, "last": {
            "revision": 2, "startedAt": "2026-11-02T09:00:00Z", "outcome": "Accepted",
            "result": "Failed", "endedAt": "2026-11-02T09:30:00Z", "message": "disk",
        }}}));
        let told = told(&object);
        let of = |what: &str, message: &str| (what.to_owned(), message.to_owned());
        assert!(told.contains(&of(
            "Installation of revision 2",
            "accepted by the provider"
        )));
        assert!(told.contains(&of("Installation of revision 2: Failed", "disk")));
    }

    #[test]
    fn command_tells_what_was_sent() {
        let command: ServerCommand = serde_json::from_value(json!({
            "apiVersion": "flexmetal.dev/v1alpha1", "kind": "ServerCommand",
            "metadata": {"name": "reboot", "namespace": "a"},
            "spec": {"targetRef": {"name": "web"}, "action": "Reboot"},
            "status": {"finishedAt": "2026-11-01T09:10:00Z", "records": {"sent": [{
                "uid": "u", "action": "Reboot", "server": "s", "attempt": "1",
                "startedAt": "2026-11-01T09:00:00Z", "sendBy": "2026-11-01T09:05:00Z",
                "account": {"kind": "ProviderAccount", "name": "default", "uid": "u", "accountID": "x", "credentialsHash": "h"},
                "listed": {}, "outcome": "Refused", "message": "busy",
            }]}},
        }))
        .unwrap();
        assert_eq!(
            told(&command.into()),
            [
                (
                    "Reboot started".to_owned(),
                    "refused by the provider: busy".to_owned()
                ),
                ("Ended".to_owned(), String::new()),
            ]
        );
    }

    #[test]
    fn account_tells_since_when_releases_are_blocked() {
        let account: ProviderAccount = serde_json::from_value(json!({
            "apiVersion": "flexmetal.dev/v1alpha1", "kind": "ProviderAccount",
            "metadata": {"name": "default", "namespace": "a"},
            "spec": {"apiKeySecretRef": {"name": "key"}},
            "status": {"releaseLimit": {"namespaces": [{
                "namespace": "a", "releases": [{"uuid": "u", "startedAt": "2026-11-01T10:00:00Z"}],
                "blockedSince": "2026-11-01T10:01:00Z",
            }]}},
        }))
        .unwrap();
        let whats: Vec<_> = told(&account.into())
            .into_iter()
            .map(|(what, _)| what)
            .collect();
        assert_eq!(whats, ["Release counted", "Release limit reached"]);
    }

    #[test]
    fn event_has_the_time_of_its_last_occurrence() {
        let event = |value: Value| -> Event { serde_json::from_value(value).unwrap() };
        let single = event(json!({
            "metadata": {}, "involvedObject": {}, "reason": "Ordered", "message": "Ordered server",
            "eventTime": "2026-11-01T09:00:00.500000Z",
        }));
        let entry = entry_of_event(&single).unwrap();
        assert_eq!(entry.at.as_second(), 1_793_523_600);
        assert_eq!(
            (entry.what.as_str(), entry.message.as_str()),
            ("Ordered", "Ordered server")
        );
        let repeated = event(json!({
            "metadata": {}, "involvedObject": {}, "reason": "Refused", "message": "No",
            "firstTimestamp": "2026-11-01T09:00:00Z", "lastTimestamp": "2026-11-01T10:00:00Z", "count": 3,
        }));
        let entry = entry_of_event(&repeated).unwrap();
        assert_eq!(entry.at.as_second(), 1_793_527_200);
        assert_eq!(entry.message, "No (3 times)");
    }
}
