//! One object in detail.

use super::summary::{ObjectName, Problem, find_problems, message_of};
use crate::{
    ages::{self, age},
    context::Context,
    exit::PluginError,
    objects::Object,
    output::{Column, OutputForm, Printer, Row, Tone, column},
};
use api::{
    PoliciesInForce,
    acknowledgement::{Acknowledged, PendingAcknowledgement},
    address::Address,
    conditions::{Type, is_true},
    server::{BareMetalServerStatus, DeletionPolicy, ManagementPolicy},
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::Serialize;

/// One object in detail.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Detail<'a> {
    #[serde(flatten)]
    object: ObjectName,
    needs_you: Vec<Problem>,
    /// Kind and name.
    #[serde(skip_serializing_if = "Option::is_none")]
    account: Option<String>,
    #[serde(flatten)]
    server: Option<ServerDetail<'a>>,
    conditions: &'a [Condition],
    pending_acknowledgements: &'a [PendingAcknowledgement],
    acknowledged: &'a [Acknowledged],
}

/// What only a server has.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ServerDetail<'a> {
    uuid: Option<&'a str>,
    provider_status: Option<&'a str>,
    status_message: Option<&'a str>,
    location: Option<&'a str>,
    instance_type: Option<&'a str>,
    os: Option<&'a str>,
    hostname: Option<&'a str>,
    #[serde(rename = "contractID")]
    contract_id: Option<&'a str>,
    addresses: &'a [Address],
    ordered_at: Option<Timestamp>,
    delivered_at: Option<Timestamp>,
    released_at: Option<Timestamp>,
    policies: Option<PoliciesInForce>,
}

impl<'a> ServerDetail<'a> {
    fn new(status: &'a BareMetalServerStatus) -> Self {
        Self {
            uuid: status.uuid.as_deref(),
            provider_status: status.provider_status.as_deref(),
            status_message: status.status_message.as_deref(),
            location: status.location.as_deref(),
            instance_type: status.instance_type.as_deref(),
            os: status.os.as_deref(),
            hostname: status.hostname.as_deref(),
            contract_id: status.contract_id.as_deref(),
            addresses: &status.addresses,
            ordered_at: status.ordered_at.as_ref().map(|at| at.0),
            delivered_at: status.delivered_at.as_ref().map(|at| at.0),
            released_at: status.released_at.as_ref().map(|at| at.0),
            policies: status.policies,
        }
    }
}

/// Prints one object in detail.
pub fn print(context: &Context, object: &Object) -> Result<(), PluginError> {
    let printer = &context.printer;
    match printer.form {
        OutputForm::Name => printer.text(&(object.resource_name() + "\n")),
        _ if !printer.is_for_people() => printer.data(&describe(object)),
        _ => printer.text(&render(printer, object, ages::now())),
    }
}

fn describe(object: &Object) -> Detail<'_> {
    let (pending_acknowledgements, acknowledged) = object.acknowledgements();
    let account = object.account();
    Detail {
        object: ObjectName::from_object(object),
        needs_you: find_problems(object),
        account: account.map(|it| format!("{} {}", it.kind.as_str(), it.name)),
        server: match object {
            Object::BareMetalServer(server) => server.status.as_ref().map(ServerDetail::new),
            _ => None,
        },
        conditions: object.conditions(),
        pending_acknowledgements,
        acknowledged,
    }
}

/// One object in detail, as text.
pub fn render(printer: &Printer, object: &Object, now: Timestamp) -> String {
    let detail = describe(object);
    let mut text = heading(object);
    let mut facts = Vec::new();
    if let Some(created_at) = object.created_at() {
        facts.push(("Age", age(created_at, now)));
    }
    if let Some(deleted_at) = object.deleted_at() {
        facts.push(("In deletion", format!("for {}", age(deleted_at, now))));
    }
    facts.extend(detail.account.map(|account| ("Account", account)));
    if let Some(server) = &detail.server {
        facts.extend(server_facts(server, now));
    }
    for (title, value) in facts.iter().filter(|(_, value)| !value.is_empty()) {
        text += &format!("  {title:<12}  {value}\n");
    }
    for problem in &detail.needs_you {
        let problem = super::text::render_problem(problem, now);
        text += &format!("\n{}\n\n{problem}", Tone::Bad.paint("Needs you"));
    }
    let rows = detail.conditions.iter();
    let rows: Vec<_> = rows
        .map(|condition| ConditionRow {
            condition,
            message: message_of(detail.conditions, condition),
            now,
        })
        .collect();
    if !rows.is_empty() {
        text += &format!("\nConditions\n\n{}", printer.table(&rows));
    }
    let pending = detail.pending_acknowledgements.iter();
    let pending: Vec<_> = pending.map(|it| PendingRow { pending: it, now }).collect();
    if !pending.is_empty() {
        text += &format!(
            "\nWaits for your acknowledgement\n\n{}",
            printer.table(&pending)
        );
    }
    let given = detail.acknowledged.iter();
    let given: Vec<_> = given.map(|it| GivenRow { given: it, now }).collect();
    if !given.is_empty() {
        text += &format!("\nAcknowledged\n\n{}", printer.table(&given));
    }
    text
}

fn heading(object: &Object) -> String {
    let (word, tone) = match (
        find_problems(object).is_empty(),
        is_true(object.conditions(), Type::Ready),
    ) {
        (false, _) => ("needs you", Tone::Bad),
        (true, true) => ("ready", Tone::Good),
        (true, false) => ("changing", Tone::Busy),
    };
    format!("{}  {}\n", object.title(), tone.paint(word))
}

fn server_facts(server: &ServerDetail<'_>, now: Timestamp) -> Vec<(&'static str, String)> {
    let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
    let time = |at: Option<Timestamp>| {
        at.map_or_else(String::new, |at| format!("{} ago ({at})", age(at, now)))
    };
    let addresses = server.addresses.iter();
    let addresses: Vec<_> = addresses
        .map(|it| format!("{} ({:?})", it.address, it.kind))
        .collect();
    vec![
        ("UUID", text(server.uuid)),
        ("Status", text(server.provider_status)),
        ("Says", text(server.status_message)),
        ("Location", text(server.location)),
        ("Type", text(server.instance_type)),
        ("System", text(server.os)),
        ("Host name", text(server.hostname)),
        ("Contract", text(server.contract_id)),
        ("Addresses", addresses.join(", ")),
        ("Ordered", time(server.ordered_at)),
        ("Delivered", time(server.delivered_at)),
        ("Released", time(server.released_at)),
        (
            "On deletion",
            server.policies.map_or_else(String::new, describe_end),
        ),
    ]
}

/// What a deletion of the object does to its server.
fn describe_end(policies: PoliciesInForce) -> String {
    let end = match (policies.management_policy, policies.deletion_policy) {
        (ManagementPolicy::ObserveOnly, _) => "nothing is sent (ObserveOnly)".to_owned(),
        (_, DeletionPolicy::Retain) => "the server stays and is billed (Retain)".to_owned(),
        (_, DeletionPolicy::Release) => match policies.release_delay {
            Some(delay) => format!("the server is released after {delay}, its disks are erased"),
            None => "the server is released at once, its disks are erased".to_owned(),
        },
    };
    let stops = [
        (policies.deletion_protection, "; deletion is protected"),
        (policies.suspend, "; suspended"),
    ];
    let stops = stops.into_iter().filter(|(is_set, _)| *is_set);
    stops.fold(end, |end, (_, stop)| end + stop)
}

#[derive(Serialize)]
struct ConditionRow<'a> {
    condition: &'a Condition,
    message: String,
    #[serde(skip)]
    now: Timestamp,
}

impl Row for ConditionRow<'_> {
    const COLUMNS: &'static [Column] = &[
        column("TYPE"),
        column("STATUS"),
        column("REASON"),
        column("FOR"),
        column("MESSAGE"),
    ];

    fn cells(&self) -> Vec<String> {
        vec![
            self.condition.type_.clone(),
            self.condition.status.clone(),
            self.condition.reason.clone(),
            age(self.condition.last_transition_time.0, self.now),
            self.message.clone(),
        ]
    }

    fn name(&self) -> String {
        self.condition.type_.clone()
    }
}

#[derive(Serialize)]
struct PendingRow<'a> {
    pending: &'a PendingAcknowledgement,
    #[serde(skip)]
    now: Timestamp,
}

impl Row for PendingRow<'_> {
    const COLUMNS: &'static [Column] = &[
        column("TOKEN"),
        column("EFFECT"),
        column("FOR"),
        column("SUBJECT"),
    ];

    fn cells(&self) -> Vec<String> {
        vec![
            self.pending.token.clone(),
            format!("{:?}", self.pending.effect),
            age(self.pending.since.0, self.now),
            self.pending.subject.clone(),
        ]
    }

    fn name(&self) -> String {
        self.pending.token.clone()
    }
}

#[derive(Serialize)]
struct GivenRow<'a> {
    given: &'a Acknowledged,
    #[serde(skip)]
    now: Timestamp,
}

impl Row for GivenRow<'_> {
    const COLUMNS: &'static [Column] = &[column("TOKEN"), column("EFFECT"), column("AGE")];

    fn cells(&self) -> Vec<String> {
        vec![
            self.given.token.clone(),
            format!("{:?}", self.given.effect),
            age(self.given.acknowledged_at.0, self.now),
        ]
    }

    fn name(&self) -> String {
        self.given.token.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::{BareMetalServer, Interval};
    use serde_json::json;

    fn server() -> Object {
        let server: BareMetalServer = serde_json::from_value(json!({
            "apiVersion": "flexmetal.dev/v1alpha1", "kind": "BareMetalServer",
            "metadata": {"name": "web", "namespace": "a", "creationTimestamp": "1970-01-01T00:00:00Z"},
            "spec": {},
            "status": {
                "uuid": "01923b7e-0c1f-7d3a-9c52-0a1b2c3d4e5f",
                "addresses": [{"type": "ExternalIP", "address": "192.0.2.7"}],
                "conditions": [{
                    "type": "Ready", "status": "False", "reason": "ServerExists", "message": "They exist",
                    "lastTransitionTime": "1970-01-01T01:00:00Z",
                }],
                "pendingAcknowledgements": [{
                    "token": "123456789012", "effect": "Adopt", "subject": "server 7",
                    "since": "1970-01-01T01:00:00Z",
                }],
            },
        }))
        .unwrap();
        server.into()
    }

    #[test]
    fn detail_shows_place_problem_and_token() {
        let now = Timestamp::from_second(10_800).unwrap();
        let printer = Printer::new(OutputForm::Table, false, true);
        let text = render(&printer, &server(), now);
        for part in [
            "BareMetalServer a/web",
            "01923b7e-0c1f-7d3a-9c52-0a1b2c3d4e5f",
            "192.0.2.7 (ExternalIP)",
            "ProviderAccount default",
            "Next: Acknowledge Adopt",
            "123456789012",
            "server 7",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(
            !text.contains("Location"),
            "unknown facts have no line: {text}"
        );
    }

    #[test]
    fn data_has_the_same_facts() {
        let object = server();
        let data = serde_json::to_value(describe(&object)).unwrap();
        assert_eq!(data["kind"], "BareMetalServer");
        assert_eq!(data["uuid"], "01923b7e-0c1f-7d3a-9c52-0a1b2c3d4e5f");
        assert_eq!(data["needsYou"][0]["reason"], "ServerExists");
        assert_eq!(data["pendingAcknowledgements"][0]["effect"], "Adopt");
    }

    #[test]
    fn end_names_what_becomes_of_the_server() {
        let release = PoliciesInForce::default();
        assert!(describe_end(release).contains("released at once"));
        let delayed = PoliciesInForce {
            release_delay: Some(Interval::seconds(3600)),
            deletion_protection: true,
            ..release
        };
        let end = describe_end(delayed);
        assert!(
            end.contains("after 1h") && end.contains("protected"),
            "{end}"
        );
        let retain = PoliciesInForce {
            deletion_policy: DeletionPolicy::Retain,
            ..release
        };
        assert!(describe_end(retain).contains("stays"));
    }
}
