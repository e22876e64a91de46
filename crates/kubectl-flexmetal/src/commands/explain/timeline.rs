//! The moments in the life of an object: those that its status shows, and events.

use crate::{objects::Object, output::wrap};
use flexmetal_core::explanation::AS_READY;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use serde::Serialize;
use serde_json::Value;

/// Where a moment is known from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum EntrySource {
    /// The object, as the operator and its users wrote it.
    Object,
    /// A Kubernetes event, which lasts an hour in most clusters.
    Event,
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
    pub source: EntrySource,
    /// What happened, in a few words.
    pub what: String,
    /// More words.
    pub message: String,
}

/// Times in the status: the path, with `*` for each item of a list, what happened then, and the fields next to it that
/// say more. A number is a Unix second.
#[rustfmt::skip]
const MOMENTS: [(&str, &str, &[&str]); 21] = [
    ("conditions/*/lastTransitionTime", "", &["message"]),
    ("pendingAcknowledgements/*/since", "Waits for your acknowledgement", &["effect", "subject"]),
    ("acknowledged/*/acknowledgedAt", "Acknowledged", &["effect"]),
    ("orderedAt", "Order started", &["instanceType", "location"]),
    ("records/order/outcomeAt", "Order or adoption", &["outcome", "server", "message"]),
    ("createdAt", "Server created", &["uuid"]),
    ("deliveredAt", "Server delivered", &["uuid"]),
    ("releasedAt", "Server released", &["uuid"]),
    ("replacedServers/*/recordedAt", "Server replaced", &["uuid", "providerStatus", "instanceType", "location"]),
    ("install/last/startedAt", "Installation started", &["revision", "outcome"]),
    ("install/last/endedAt", "Installation ended", &["revision", "result", "message"]),
    ("power/command/startedAt", "Change of spec.power started", &["name", "state", "reason"]),
    ("rootPassword/storedAt", "Root password stored", &["secretRef"]),
    ("rootPassword/deletedAt", "Secret of the root password deleted", &["secretRef"]),
    ("records/sent/*/startedAt", "Command started", &["action", "outcome", "message"]),
    ("finishedAt", "Command ended", &[]),
    ("upSince", "Host started", &[]),
    ("credentials/inUseSince", "Key in use for all calls", &["hash"]),
    ("orphans/*/since", "Orphan listed", &["uuid", "hostname"]),
    ("releaseLimit/namespaces/*/releases/*/startedAt", "Release counted", &["uuid"]),
    ("releaseLimit/namespaces/*/blockedSince", "Release limit reached", &["namespace"]),
];

impl Entry {
    /// A moment that has a time.
    pub fn new(
        at: Option<Timestamp>,
        source: EntrySource,
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

    /// The entry in lines of at most 100 characters.
    pub fn render(&self) -> String {
        let text = match self.message.as_str() {
            "" => self.what.clone(),
            message => format!("{}: {message}", self.what),
        };
        let source = format!("{:?}", self.source);
        let prefix = format!("{}  {source:<8}  ", self.at.strftime("%FT%TZ"));
        let indent = " ".repeat(prefix.len());
        wrap(&text, &indent).replacen(&indent, &prefix, 1)
    }
}

/// The moment of a Unix second.
pub fn second(unix: Option<i64>) -> Option<Timestamp> {
    Timestamp::from_second(unix?).ok()
}

/// The moments that an object shows.
pub fn entries_of_object(object: &Object) -> Vec<Entry> {
    let entries = [
        Entry::new(object.created_at(), EntrySource::Object, "Created", ""),
        Entry::new(
            object.deleted_at(),
            EntrySource::Object,
            "Deletion began",
            "",
        ),
    ];
    let mut entries: Vec<Entry> = entries.into_iter().flatten().collect();
    let status = object.status();
    for (path, what, fields) in MOMENTS {
        let path: Vec<&str> = path.split('/').collect();
        add_moments(&mut entries, &status, &path, what, fields);
    }
    entries
}

fn add_moments(
    entries: &mut Vec<Entry>,
    value: &Value,
    path: &[&str],
    what: &str,
    fields: &[&str],
) {
    match path {
        [] => {}
        ["*", rest @ ..] => {
            for item in value.as_array().into_iter().flatten() {
                add_moments(entries, item, rest, what, fields);
            }
        }
        [field] => {
            let at = match &value[field] {
                Value::String(time) => time.parse().ok(),
                other => second(other.as_i64()),
            };
            let words = fields.iter().filter_map(|field| word_of(&value[field]));
            let message = words.collect::<Vec<_>>().join(", ");
            let what = match what {
                "" => describe_condition(value),
                what => Some(what.to_owned()),
            };
            entries
                .extend(what.and_then(|what| Entry::new(at, EntrySource::Object, what, message)));
        }
        [field, rest @ ..] => add_moments(entries, &value[field], rest, what, fields),
    }
}

fn word_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if !text.is_empty() && text != AS_READY => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Object(reference) => word_of(reference.get("name")?),
        _ => None,
    }
}

/// None: the condition only says that all is as it mostly is.
fn describe_condition(condition: &Value) -> Option<String> {
    let text = |field: &str| condition[field].as_str().unwrap_or_default();
    let (status, reason) = (text("status"), text("reason"));
    (reason != "InSync").then(|| format!("{}={status} {reason}", text("type")))
}

/// The moment of an event about the object.
pub fn entry_of_event(event: &Event) -> Option<Entry> {
    let series = event.series.as_ref();
    let last = series.and_then(|series| Some(series.last_observed_time.as_ref()?.0));
    let moment = last
        .or_else(|| Some(event.last_timestamp.as_ref()?.0))
        .or_else(|| Some(event.event_time.as_ref()?.0))
        .or_else(|| Some(event.metadata.creation_timestamp.as_ref()?.0));
    let count = series.and_then(|series| series.count).or(event.count);
    let mut message = event.message.clone().unwrap_or_default();
    if let Some(count) = count.filter(|count| *count > 1) {
        message += &format!(" ({count} times)");
    }
    let reason = event.reason.clone().unwrap_or_default();
    Entry::new(moment, EntrySource::Event, reason, message)
}

/// The moments in their order, each once. What is said a second time within a second has no message.
pub fn sort(mut entries: Vec<Entry>) -> Vec<Entry> {
    entries.sort_by_key(|entry| entry.at.as_second());
    let mut sorted: Vec<Entry> = Vec::new();
    for mut entry in entries {
        let second = entry.at.as_second();
        let said = sorted.iter().rev();
        let said = said.take_while(|it| it.at.as_second() == second);
        let mut said = said.filter(|it| it.message == entry.message);
        if said.clone().any(|it| it.what == entry.what) {
            continue;
        }
        if said.next().is_some() {
            entry.message.clear();
        }
        sorted.push(entry);
    }
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{commands::status::findings::tests::object, objects::ObjectKind};
    use serde_json::json;

    fn render_lines(kind: ObjectKind, status: Value) -> Vec<String> {
        let conditions = [
            ["Ready", "False", "NoStock", "Wait"],
            ["Reconciling", "True", "NoStock", "Wait"],
            ["Stalled", "False", "InSync", ""],
        ];
        let entries = sort(entries_of_object(&object(kind, "web", status, &conditions)));
        let lines = entries.iter().map(Entry::render);
        lines.map(|line| line.trim_end().to_owned()).collect()
    }

    #[test]
    fn server_tells_its_life_in_order() {
        let status = json!({
            "uuid": "u", "orderedAt": "2026-11-01T09:01:00Z", "createdAt": "2026-11-01T09:01:01Z",
            "records": {"order": {
                "uid": "u", "seq": 1_793_523_660_u32, "nonce": "n", "sendBy": "2026-11-01T09:05:00Z",
                "accountID": "x", "outcome": "Created", "outcomeAt": "2026-11-01T09:02:00Z", "server": "s",
            }},
            "acknowledged": [{"token": "1", "effect": "Adopt", "acknowledgedAt": "2026-11-01T09:03:00Z"}],
        });
        assert_eq!(
            render_lines(ObjectKind::BareMetalServer, status),
            [
                "2026-11-01T09:00:00Z  Object    Created",
                "2026-11-01T09:01:00Z  Object    Order started",
                "2026-11-01T09:01:01Z  Object    Server created: u",
                "2026-11-01T09:02:00Z  Object    Order or adoption: Created, s",
                "2026-11-01T09:03:00Z  Object    Acknowledged: Adopt",
                "2026-11-01T10:00:00Z  Object    Ready=False NoStock: Wait",
                "2026-11-01T10:00:00Z  Object    Reconciling=True NoStock",
            ]
        );
    }

    #[test]
    fn times_in_lists_are_found() {
        let status = json!({"releaseLimit": {"namespaces": [{
            "namespace": "a", "releases": [{"uuid": "u", "startedAt": "2026-11-01T10:00:00Z"}],
            "blockedSince": "2026-11-01T10:01:00Z",
        }]}});
        let lines = render_lines(ObjectKind::ProviderAccount, status);
        assert!(
            lines.contains(&"2026-11-01T10:00:00Z  Object    Release counted: u".to_owned()),
            "{lines:?}"
        );
        assert!(
            lines.last().unwrap().ends_with("Release limit reached: a"),
            "{lines:?}"
        );
    }

    #[test]
    fn every_path_is_in_a_schema() {
        let schemas = serde_json::to_value(api::all_crds()).unwrap();
        let versions = schemas
            .as_array()
            .unwrap()
            .iter()
            .map(|it| &it["spec"]["versions"][0]);
        let statuses = versions.map(|it| &it["schema"]["openAPIV3Schema"]["properties"]["status"]);
        let statuses: Vec<_> = statuses.collect();
        // The schemas do not have the operator's records.
        let public = MOMENTS.iter().filter(|it| !it.0.starts_with("records/"));
        for (path, _, fields) in public {
            let parent = |status: &Value| {
                let mut at = status.clone();
                let mut steps = path.split('/').peekable();
                while let Some(step) = steps.next() {
                    if steps.peek().is_none() {
                        return (!at["properties"][step].is_null()).then_some(at);
                    }
                    at = if step == "*" {
                        at["items"].take()
                    } else {
                        at["properties"][step].take()
                    };
                }
                None
            };
            let parents: Vec<_> = statuses
                .iter()
                .filter_map(|status| parent(status))
                .collect();
            assert!(!parents.is_empty(), "{path}");
            for field in *fields {
                let is_known = parents.iter().any(|it| !it["properties"][field].is_null());
                assert!(is_known, "{path}: {field}");
            }
        }
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
        let repeated = event(json!({
            "metadata": {}, "involvedObject": {}, "reason": "Refused", "message": "No",
            "firstTimestamp": "2026-11-01T09:00:00Z", "lastTimestamp": "2026-11-01T10:00:00Z", "count": 3,
        }));
        let entry = entry_of_event(&repeated).unwrap();
        assert_eq!(entry.at.as_second(), 1_793_527_200);
        assert_eq!(entry.message, "No (3 times)");
    }
}
