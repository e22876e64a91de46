//! `explain`: the life of one object, and what the operator waits for.

mod deadlines;
mod provider;
mod timeline;

use crate::{
    ages::{self, shorten},
    commands::status::findings::{Finding, find_state},
    context::{PluginContext, api_error},
    exit::{Exit, PluginError},
    objects::{Object, ObjectArgs},
    output::{OutputForm, Tone, wrap},
};
use deadlines::find_deadlines;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use kube::api::ListParams;
use serde::Serialize;
use timeline::{Entry, entries_of_object, entry_of_event, sort};

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
    waits_for: Option<Finding>,
    /// What follows by itself.
    deadlines: Vec<Entry>,
    /// Parts that could not be read, and why.
    not_shown: Vec<String>,
}

/// Prints the life of one object.
pub async fn run(context: &PluginContext, args: ExplainArgs) -> Result<Exit, PluginError> {
    let object = args.object.get(context).await?;
    let printer = &context.printer;
    let exit = Exit::attention_if(find_state(&object).is_some_and(|finding| finding.needs_you));
    if printer.form == OutputForm::Name {
        printer.text(&(object.kind().resource_name(object.name()) + "\n"))?;
        return Ok(exit);
    }
    let explained = explain(context, &object).await;
    if !printer.is_table() {
        printer.data(&explained)?;
        return Ok(exit);
    }
    printer.text(&render(&explained, ages::now()))?;
    for part in &explained.not_shown {
        printer.inform(&format!("Not shown: {part}"));
    }
    Ok(exit)
}

async fn explain(context: &PluginContext, object: &Object) -> Explained {
    let mut entries = entries_of_object(object);
    let mut not_shown = Vec::new();
    let (events, record) = futures::join!(
        list_events(context, object),
        provider::read_record(context, object)
    );
    match events {
        Ok(events) => entries.extend(events.iter().filter_map(entry_of_event)),
        Err(error) => not_shown.push(format!("events: {}", error.explain())),
    }
    let mut state = None;
    match record {
        Ok(Some(record)) => {
            entries.extend(record.entries);
            state = Some(record.state);
        }
        Ok(None) => {}
        Err(error) => not_shown.push(format!("the provider's record: {}", error.explain())),
    }
    Explained {
        object: object.title(),
        timeline: sort(entries),
        provider: state,
        waits_for: find_state(object),
        deadlines: find_deadlines(object),
        not_shown,
    }
}

/// The events about the object. Those of a cluster-wide object are in the namespace `default`.
async fn list_events(context: &PluginContext, object: &Object) -> Result<Vec<Event>, PluginError> {
    let namespace = object.namespace().unwrap_or("default");
    let uid = object.metadata().uid.as_deref().unwrap_or_default();
    let params = ListParams::default().fields(&format!("involvedObject.uid={uid}"));
    let events = context.api_in::<Event>(namespace).list(&params).await;
    let act = || format!("list events in namespace {namespace}");
    Ok(events.map_err(|error| api_error(act(), error))?.items)
}

fn render(explained: &Explained, now: Timestamp) -> String {
    let entries = explained.timeline.iter().map(Entry::render);
    let mut text = format!("{}\n\n{}", explained.object, entries.collect::<String>());
    if let Some(state) = &explained.provider {
        text += &format!("\nThe provider shows\n\n{}", wrap(state, "  "));
    }
    text += &match &explained.waits_for {
        None => format!("\n{}\n", Tone::Good.paint("The operator waits for nothing")),
        Some(finding) => {
            let (title, tone) = match finding.needs_you {
                true => ("The operator waits for you", Tone::Bad),
                false => ("The operator waits for", Tone::Busy),
            };
            let (title, body) = (tone.paint(title), finding.body());
            format!("\n{title}: {}\n\n{body}", finding.title())
        }
    };
    if !explained.deadlines.is_empty() {
        text += "\nWhat follows\n\n";
    }
    for deadline in &explained.deadlines {
        let seconds = deadline.at.as_second().saturating_sub(now.as_second());
        let distance = match seconds {
            0.. => format!("in {}", shorten(seconds)),
            ..0 => format!("{} ago", shorten(seconds.saturating_neg())),
        };
        let at = deadline.at.strftime("%FT%TZ");
        text += &wrap(&format!("{} {distance} ({at})", deadline.what), "  ");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::status::findings::tests::server;
    use timeline::EntrySource;

    #[test]
    fn text_ends_with_goal_and_deadline() {
        let entry = |second: i64, what: &str| {
            let at = Timestamp::from_second(second).ok();
            Entry::new(at, EntrySource::Provider, what, "u").unwrap()
        };
        let object = server("web", &[["Ready", "False", "ReinstallFailed", "Failed"]]);
        let explained = Explained {
            object: object.title(),
            // The provider's record repeats what status shows.
            timeline: sort(vec![entry(0, "Server created"), entry(0, "Server created")]),
            provider: Some("server u is delivered".into()),
            waits_for: find_state(&object),
            deadlines: vec![entry(100, "First"), entry(1700, "Second")],
            not_shown: Vec::new(),
        };
        let now = Timestamp::from_second(800).unwrap();
        let text = anstream::adapter::strip_str(&render(&explained, now)).to_string();
        let lines: Vec<_> = text.lines().filter(|line| !line.is_empty()).collect();
        assert!(lines[4].starts_with("The operator waits for you: ReinstallFailed for "));
        assert_eq!(
            lines,
            [
                "BareMetalServer a/web",
                "1970-01-01T00:00:00Z  Provider  Server created: u",
                "The provider shows",
                "  server u is delivered",
                lines[4],
                "  Failed",
                "  Next: kubectl flexmetal reinstall web -n a",
                "What follows",
                "  First 11m ago (1970-01-01T00:01:40Z)",
                "  Second in 15m (1970-01-01T00:28:20Z)",
            ]
        );
    }
}
