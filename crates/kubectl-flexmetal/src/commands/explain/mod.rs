//! `explain`: the life of one object, and what the operator waits for.

mod provider;
mod timeline;
mod waiting;

use crate::{
    ages::{self, shorten},
    context::{Context, api_error},
    exit::{Exit, PluginError},
    objects::{Object, ObjectArgs},
    output::{Column, OutputForm, Printer, Row, Tone, column, wrap},
};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use kube::api::ListParams;
use serde::Serialize;
use timeline::{Entry, entries_of_object, entry_of_event, sort};
use waiting::{Deadline, Waiting, find_deadlines, find_waiting};

/// Arguments of `explain`.
#[derive(Clone, Debug, clap::Args)]
pub struct ExplainArgs {
    #[command(flatten)]
    object: ObjectArgs,
}

/// The life of an object.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Explained {
    /// Kind, namespace and name.
    object: String,
    timeline: Vec<Entry>,
    /// The provider's state of it now.
    #[serde(skip_serializing_if = "Option::is_none")]
    provider: Option<String>,
    /// Unset if the object is as declared.
    #[serde(skip_serializing_if = "Option::is_none")]
    waits_for: Option<Waiting>,
    deadlines: Vec<Deadline>,
    /// Parts that could not be read, and why.
    not_shown: Vec<String>,
}

/// Prints the life of one object.
pub async fn run(context: &Context, args: ExplainArgs) -> Result<Exit, PluginError> {
    let object = args.object.get(context).await?;
    let explained = explain(context, &object).await;
    let printer = &context.printer;
    match printer.form {
        OutputForm::Name => printer.text(&(object.resource_name() + "\n"))?,
        _ if !printer.is_for_people() => printer.data(&explained)?,
        _ => {
            printer.text(&render(printer, &explained, ages::now()))?;
            for part in &explained.not_shown {
                printer.note(&format!("Not shown: {part}"));
            }
        }
    }
    Ok(Exit::Fine)
}

async fn explain(context: &Context, object: &Object) -> Explained {
    let mut entries = entries_of_object(object);
    let mut not_shown = Vec::new();
    let (events, record) = futures::join!(
        list_events(context, object),
        provider::read(context, object)
    );
    match events {
        Ok(events) => entries.extend(events.iter().filter_map(entry_of_event)),
        Err(error) => not_shown.push(format!("events: {}", error.explain())),
    }
    let mut state = None;
    match record {
        Ok(Some(record)) => {
            add_provider_entries(&mut entries, record.entries);
            state = Some(record.state);
        }
        Ok(None) => {}
        Err(error) => not_shown.push(format!("the provider's record: {}", error.explain())),
    }
    Explained {
        object: object.title(),
        timeline: sort(entries),
        provider: state,
        waits_for: find_waiting(object),
        deadlines: find_deadlines(object),
        not_shown,
    }
}

/// Adds the provider's moments, but not those that status repeats.
fn add_provider_entries(entries: &mut Vec<Entry>, added: Vec<Entry>) {
    for entry in added {
        let is_same = |other: &Entry| (other.at, &other.what) == (entry.at, &entry.what);
        if !entries.iter().any(is_same) {
            entries.push(entry);
        }
    }
}

/// The events about the object. Those of a cluster-wide object are in the namespace `default`.
async fn list_events(context: &Context, object: &Object) -> Result<Vec<Event>, PluginError> {
    let namespace = object.namespace().unwrap_or("default");
    let uid = object.metadata().uid.as_deref().unwrap_or_default();
    let params = ListParams::default().fields(&format!("involvedObject.uid={uid}"));
    let events = context.api_in::<Event>(namespace).list(&params).await;
    let act = || format!("list events in namespace {namespace}");
    Ok(events.map_err(|error| api_error(act(), error))?.items)
}

impl Row for Entry {
    const COLUMNS: &'static [Column] = &[
        column("TIME"),
        column("FROM"),
        column("WHAT"),
        column("MESSAGE"),
    ];

    fn cells(&self) -> Vec<String> {
        vec![
            to_second(self.at),
            format!("{:?}", self.source),
            self.what.clone(),
            self.message.clone(),
        ]
    }

    fn name(&self) -> String {
        self.what.clone()
    }
}

/// A time without parts of a second.
fn to_second(at: Timestamp) -> String {
    Timestamp::from_second(at.as_second())
        .unwrap_or(at)
        .to_string()
}

fn render(printer: &Printer, explained: &Explained, now: Timestamp) -> String {
    let mut text = format!(
        "{}\n\n{}",
        explained.object,
        printer.table(&explained.timeline)
    );
    if let Some(state) = &explained.provider {
        text += &format!("\nThe provider shows\n\n{}", wrap(state, "  "));
    }
    text += &render_waiting(explained.waits_for.as_ref());
    for deadline in &explained.deadlines {
        let when = describe_distance(deadline.at, now);
        text += &wrap(&format!("{} {when}", deadline.what), "  ");
    }
    text
}

fn render_waiting(waiting: Option<&Waiting>) -> String {
    let Some(waiting) = waiting else {
        return format!(
            "\n{}\n\n",
            Tone::Good.paint("The operator waits for nothing")
        );
    };
    let (title, tone) = match waiting.needs_you {
        true => ("The operator waits for you", Tone::Bad),
        false => ("The operator waits for", Tone::Busy),
    };
    let reason = match waiting.reason.as_str() {
        "" => waiting.message.clone(),
        reason => format!("{reason}: {}", waiting.message),
    };
    let step = waiting.next_step.as_ref();
    let step = step.map_or_else(String::new, |step| wrap(&format!("Next: {step}"), "  "));
    format!("\n{}\n\n{}{step}", tone.paint(title), wrap(&reason, "  "))
}

/// Such as `in 12m (2026-11-01T10:00:00Z)`.
fn describe_distance(at: Timestamp, now: Timestamp) -> String {
    let seconds = at.as_second().saturating_sub(now.as_second());
    let distance = match seconds {
        0.. => format!("in {}", shorten(seconds)),
        ..0 => format!("{} ago", shorten(seconds.saturating_neg())),
    };
    format!("{distance} ({})", to_second(at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use timeline::Source;

    fn entry(second: i64, what: &str, message: &str) -> Entry {
        let at = Timestamp::from_second(second).ok();
        Entry::new(at, Source::Provider, what, message).unwrap()
    }

    #[test]
    fn moment_that_status_repeats_is_shown_once() {
        let mut entries = vec![entry(1, "Server created", "u")];
        let added = vec![
            entry(1, "Server created", "U"),
            entry(2, "Server created", "U"),
        ];
        add_provider_entries(&mut entries, added);
        assert_eq!(entries.len(), 2);
    }

    #[test]
    fn text_ends_with_what_is_waited_for_and_until_when() {
        let explained = Explained {
            object: "BareMetalServer a/web".into(),
            timeline: vec![entry(0, "Created", "")],
            provider: Some("server u is delivered".into()),
            waits_for: Some(Waiting {
                needs_you: true,
                reason: "Protected".into(),
                message: "Protected".into(),
                next_step: Some("Remove it".into()),
            }),
            deadlines: vec![
                Deadline {
                    at: Timestamp::from_second(100).unwrap(),
                    what: "First".into(),
                },
                Deadline {
                    at: Timestamp::from_second(1700).unwrap(),
                    what: "Second".into(),
                },
            ],
            not_shown: Vec::new(),
        };
        let printer = Printer::new(OutputForm::Table, false, true);
        let now = Timestamp::from_second(800).unwrap();
        let text = anstream::adapter::strip_str(&render(&printer, &explained, now)).to_string();
        let end: Vec<_> = text.lines().rev().take(4).collect();
        assert_eq!(
            end,
            [
                "  Second in 15m (1970-01-01T00:28:20Z)",
                "  First 11m ago (1970-01-01T00:01:40Z)",
                "  Next: Remove it",
                "  Protected: Protected",
            ]
        );
        assert!(text.contains("1970-01-01T00:00:00Z"), "{text}");
    }
}
