//! Events of Kubernetes: best effort, capped, with fixed reasons.

use super::report::News;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::{
    Client,
    runtime::events::{Event, EventType, Recorder, Reporter},
};
use std::time::Duration;

/// Most bytes of a note; the API server refuses more than 1024.
const LONGEST_NOTE: usize = 1000;
/// No event is worth a longer wait.
const DEADLINE: Duration = Duration::from_secs(10);

/// Whether an event is a warning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Nothing is wrong.
    Normal,
    /// A person should look.
    Warning,
}

/// Publishes events. A failure is logged and has no other consequence: no pass fails for it.
#[derive(Clone)]
pub struct Events {
    recorder: Recorder,
}

impl Events {
    /// Publishes in the name of this controller, and of this pod if one is given.
    pub fn new(client: Client, instance: Option<String>) -> Self {
        let reporter = Reporter {
            controller: "flexmetal-operator".into(),
            instance,
        };
        Self {
            recorder: Recorder::new(client, reporter),
        }
    }

    /// Says that something happened to an object. Repeats within some minutes are counted in one
    /// series by the recorder, whatever their note.
    pub async fn publish(&self, news: &News, object: &ObjectReference) {
        let reason = news.reason;
        let event = Event {
            type_: match news.severity {
                Severity::Normal => EventType::Normal,
                Severity::Warning => EventType::Warning,
            },
            reason: reason.as_str().into(),
            note: Some(capped(&news.note).into()),
            action: news.action.into(),
            secondary: None,
        };
        match tokio::time::timeout(DEADLINE, self.recorder.publish(&event, object)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(
                %reason,
                error = &error as &dyn std::error::Error,
                "event was not published"
            ),
            Err(_) => tracing::debug!(%reason, "event was not published in time"),
        }
    }
}

/// The start of a note that the API server takes, cut between two characters.
fn capped(note: &str) -> &str {
    let end = (0..=LONGEST_NOTE.min(note.len()))
        .rev()
        .find(|at| note.is_char_boundary(*at));
    &note[..end.unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_cut_between_characters() {
        assert_eq!(capped("short"), "short");
        let long = "ä".repeat(1000);
        let cut = capped(&long);
        assert!(cut.len() <= LONGEST_NOTE && cut.len() >= LONGEST_NOTE - 1);
        assert!(long.starts_with(cut));
    }
}
