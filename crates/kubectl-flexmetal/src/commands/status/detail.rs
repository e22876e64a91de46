//! One object in detail.

use super::findings::{Finding, find_problems, find_state};
use crate::{
    ages::{self, age},
    context::PluginContext,
    exit::PluginError,
    objects::{Object, ObjectName},
    output::{OutputForm, Printer, Tone, column},
};
use api::{
    PoliciesInForce,
    acknowledgement::{Acknowledged, PendingAcknowledgement},
    server::{DeletionPolicy, ManagementPolicy},
};
use flexmetal_core::explanation::AS_READY;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// What is shown of the status: the title, and the field.
const FACTS: [(&str, &str); 18] = [
    ("UUID", "uuid"),
    ("Status", "providerStatus"),
    ("Says", "statusMessage"),
    ("Location", "location"),
    ("Type", "instanceType"),
    ("System", "os"),
    ("Host name", "hostname"),
    ("Contract", "contractID"),
    ("Addresses", "addresses"),
    ("Ordered", "orderedAt"),
    ("Delivered", "deliveredAt"),
    ("Released", "releasedAt"),
    ("Started", "startedAt"),
    ("Finished", "finishedAt"),
    ("Tag", "tag"),
    ("Servers", "serverCount"),
    ("Fingerprint", "fingerprint"),
    ("Key", "keyID"),
];

/// One object in detail.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Detail<'a> {
    #[serde(flatten)]
    object: ObjectName,
    state: &'static str,
    findings: Vec<Finding>,
    /// Kind and name.
    account: Option<String>,
    /// Fields of the status as they are.
    facts: BTreeMap<&'static str, Value>,
    conditions: &'a [Condition],
    pending_acknowledgements: &'a [PendingAcknowledgement],
    acknowledged: &'a [Acknowledged],
}

/// Prints one object in detail.
pub fn print(context: &PluginContext, object: &Object) -> Result<(), PluginError> {
    let printer = &context.printer;
    match printer.form {
        OutputForm::Name => {
            let name = object.kind().resource_name(object.name());
            printer.text(&(name + "\n"))
        }
        _ if !printer.is_table() => printer.data(&describe(object)),
        _ => printer.text(&render(printer, object, ages::now())),
    }
}

fn describe(object: &Object) -> Detail<'_> {
    let mut findings = find_problems(object);
    if findings.is_empty() {
        findings.extend(find_state(object));
    }
    let status = object.status();
    let fields = FACTS
        .iter()
        .map(|(_, field)| (*field, status[field].clone()));
    let (pending_acknowledgements, acknowledged) = object.acknowledgements();
    let account = object.account();
    Detail {
        object: object.full_name(),
        state: match findings.first() {
            Some(finding) if finding.needs_you => "needs you",
            Some(_) => "changing",
            None => "ready",
        },
        findings,
        account: account.map(|it| format!("{} {}", it.kind.as_str(), it.name)),
        facts: fields.filter(|(_, value)| !value.is_null()).collect(),
        conditions: object.conditions(),
        pending_acknowledgements,
        acknowledged,
    }
}

/// One object in detail, as text.
fn render(printer: &Printer, object: &Object, now: Timestamp) -> String {
    let detail = describe(object);
    let tone = match detail.state {
        "ready" => Tone::Good,
        "changing" => Tone::Busy,
        _ => Tone::Bad,
    };
    let mut facts = vec![("Account", detail.account.clone().unwrap_or_default())];
    if let Some(created_at) = object.created_at() {
        facts.push(("Age", age(created_at, now)));
    }
    if let Some(deleted_at) = object.deleted_at() {
        facts.push(("In deletion", format!("for {}", age(deleted_at, now))));
    }
    for (title, field) in FACTS {
        let value = detail.facts.get(field);
        facts.extend(value.map(|value| (title, describe_value(value, now))));
    }
    if let Object::BareMetalServer(server) = object {
        let policies = server.status.as_ref().and_then(|it| it.policies);
        facts.extend(policies.map(|it| ("On deletion", describe_end(it))));
    }
    let mut text = format!("{}  {}\n", detail.object.title(), tone.paint(detail.state));
    for (title, value) in facts.iter().filter(|(_, value)| !value.is_empty()) {
        text += &format!("  {title:<12}  {value}\n");
    }
    for finding in &detail.findings {
        text += &format!("\n{}\n{}", finding.title(), finding.body());
    }
    if !detail.conditions.is_empty() {
        let rows = detail.conditions.iter().map(|condition| {
            let message = &condition.message;
            // One text for each situation.
            let is_shown = detail.findings.iter().any(|it| it.message == *message);
            let message = Some(message).filter(|it| *it != AS_READY && !is_shown);
            vec![
                condition.type_.clone(),
                condition.status.clone(),
                condition.reason.clone(),
                age(condition.last_transition_time.0, now),
                message.cloned().unwrap_or_default(),
            ]
        });
        let columns = ["TYPE", "STATUS", "REASON", "FOR", "MESSAGE"].map(column);
        let table = printer.render(&columns, &rows.collect::<Vec<_>>());
        text += &format!("\nConditions\n\n{table}");
    }
    let pending = detail.pending_acknowledgements.iter().map(|it| {
        let (effect, since) = (format!("{:?}", it.effect), age(it.since.0, now));
        vec![
            it.token.clone(),
            effect,
            "pending".into(),
            since,
            it.subject.clone(),
        ]
    });
    let given = detail.acknowledged.iter().map(|it| {
        let (effect, since) = (format!("{:?}", it.effect), age(it.acknowledged_at.0, now));
        vec![
            it.token.clone(),
            effect,
            "acknowledged".into(),
            since,
            String::new(),
        ]
    });
    let rows: Vec<Vec<String>> = pending.chain(given).collect();
    if !rows.is_empty() {
        let columns = ["TOKEN", "EFFECT", "STATE", "FOR", "SUBJECT"].map(column);
        let table = printer.render(&columns, &rows);
        text += &format!("\nAcknowledgements\n\n{table}");
    }
    text
}

/// A field in a line.
fn describe_value(value: &Value, now: Timestamp) -> String {
    match value {
        Value::String(text) => match text.parse::<Timestamp>() {
            Ok(at) => format!("{} ago ({at})", age(at, now)),
            Err(_) => text.clone(),
        },
        Value::Array(items) => {
            let items = items.iter().filter_map(|it| it["address"].as_str());
            items.collect::<Vec<_>>().join(", ")
        }
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// What a deletion of the object does to its server.
fn describe_end(policies: PoliciesInForce) -> String {
    let end = match (policies.management_policy, policies.deletion_policy) {
        (ManagementPolicy::ObserveOnly, _) => "the operator sends nothing (ObserveOnly)".to_owned(),
        (_, DeletionPolicy::Retain) => "the server stays and is billed (Retain)".to_owned(),
        (_, DeletionPolicy::Release) => {
            let delay = policies.release_delay;
            let when = delay.map_or_else(|| "at once".to_owned(), |it| format!("after {it}"));
            format!("the operator releases the server {when}; this erases its disks")
        }
    };
    match policies.deletion_protection {
        true => format!("refused while deletionProtection is true; then {end}"),
        false => end,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{commands::status::findings::tests::object, objects::ObjectKind};
    use api::Interval;
    use serde_json::json;

    fn server() -> Object {
        let status = json!({
            "uuid": "01923b7e-0c1f-7d3a-9c52-0a1b2c3d4e5f",
            "orderedAt": "2026-11-01T09:00:00Z",
            "addresses": [{"type": "ExternalIP", "address": "192.0.2.7"}],
            "pendingAcknowledgements": [{
                "token": "123456789012", "effect": "Adopt", "subject": "server 7", "since": "2026-11-01T10:00:00Z",
            }],
        });
        let ready = ["Ready", "False", "ServerExists", "They exist"];
        object(ObjectKind::BareMetalServer, "web", status, &[ready])
    }

    #[test]
    fn detail_shows_facts_problem_and_token() {
        let now = "2026-11-01T12:00:00Z".parse().unwrap();
        let printer = Printer::new(OutputForm::Table, false, true);
        let text = render(&printer, &server(), now);
        for part in [
            "BareMetalServer a/web  ",
            "01923b7e-0c1f-7d3a-9c52-0a1b2c3d4e5f",
            "3h ago (2026-11-01T09:00:00Z)",
            "192.0.2.7",
            "ProviderAccount default",
            "Next: kubectl flexmetal acknowledge web -n a",
            "123456789012",
            "server 7",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(
            !text.contains("Location"),
            "unknown facts have no line: {text}"
        );
        assert_eq!(text.matches("They exist").count(), 1, "{text}");
    }

    #[test]
    fn data_has_the_same_facts() {
        let object = server();
        let data = serde_json::to_value(describe(&object)).unwrap();
        assert_eq!(data["kind"], "BareMetalServer");
        assert_eq!(data["state"], "needs you");
        assert_eq!(
            data["facts"]["uuid"],
            "01923b7e-0c1f-7d3a-9c52-0a1b2c3d4e5f"
        );
        assert_eq!(data["findings"][0]["reason"], "ServerExists");
        assert_eq!(data["pendingAcknowledgements"][0]["effect"], "Adopt");
    }

    #[test]
    fn end_names_what_becomes_of_the_server() {
        let release = PoliciesInForce::default();
        assert!(describe_end(release).contains("releases the server at once"));
        let delayed = PoliciesInForce {
            release_delay: Some(Interval::seconds(3600)),
            deletion_protection: true,
            ..release
        };
        let end = describe_end(delayed);
        assert!(end.contains("after 1h") && end.contains("refused"), "{end}");
        let retain = PoliciesInForce {
            deletion_policy: DeletionPolicy::Retain,
            ..release
        };
        assert!(describe_end(retain).contains("stays"));
    }
}
