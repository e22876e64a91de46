//! Kubernetes events: best effort, limited in size, with fixed reasons.

mod recent;

use crate::runtime::{
    clients::{patch_params, post_params},
    clock,
};
use api::names::{LONGEST_OBJECT_NAME, MANAGER};
use flexmetal_core::report::{EventRecord, Severity};
use jiff::Timestamp;
use k8s_openapi::{
    api::{core::v1::ObjectReference, events::v1::Event},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};
use kube::{Api, Client, Error, api::Patch};
use recent::{Recent, Repeat};
use serde_json::json;
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// Maximum bytes of a note; the API server rejects more than 1024.
const LONGEST_NOTE: usize = 1000;
/// Timeout of publishing an event.
const DEADLINE: Duration = Duration::from_secs(10);

/// Publishes events. A failure is logged and has no other effect. Not kube's recorder: it keeps all recent events whole
/// and scans all of them for each new one.
#[derive(Clone)]
pub struct Events {
    client: Client,
    instance: String,
    recent: Arc<Mutex<Recent>>,
}

impl Events {
    /// Publishes as this controller, and as this pod if one is given.
    pub fn new(client: Client, instance: Option<String>) -> Self {
        Self {
            client,
            instance: instance.unwrap_or_else(|| MANAGER.into()),
            recent: Arc::default(),
        }
    }

    /// Publishes an event about an object. Repeats with the same note within some minutes are counted in one series.
    pub async fn publish(&self, news: &EventRecord, object: &ObjectReference) {
        let reason = news.reason.as_str();
        match tokio::time::timeout(DEADLINE, self.send(news, object)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(
                reason,
                error = &error as &dyn std::error::Error,
                "event not published"
            ),
            Err(_) => tracing::debug!(reason, cause = "no answer in time", "event not published"),
        }
    }

    async fn send(&self, news: &EventRecord, object: &ObjectReference) -> Result<(), Error> {
        // Events about cluster-scoped objects are in this namespace.
        let namespace = object.namespace.as_deref().unwrap_or("default");
        let events: Api<Event> = Api::namespaced(self.client.clone(), namespace);
        let now = Timestamp::now();
        let repeat = self.recent().repeated(news, object, clock::now().mono);
        if let Some(Repeat { event, count }) = repeat {
            let series = json!({ "count": count, "lastObservedTime": MicroTime(now) });
            let patch = Patch::Merge(json!({ "series": series }));
            match events.patch(&event, &patch_params(), &patch).await {
                // The API server has deleted the event: this one starts a series of its own.
                Err(Error::Api(status)) if status.code == 404 => {}
                done => return done.map(drop),
            }
        }
        let event = self.event(news, object, namespace, now);
        let name = event.metadata.name.clone().unwrap_or_default();
        events.create(&post_params(), &event).await?;
        self.recent().posted(news, object, &name, clock::now().mono);
        Ok(())
    }

    fn event(
        &self,
        news: &EventRecord,
        object: &ObjectReference,
        namespace: &str,
        now: Timestamp,
    ) -> Event {
        let severity = match news.severity {
            Severity::Normal => "Normal",
            Severity::Warning => "Warning",
        };
        Event {
            metadata: ObjectMeta {
                name: Some(name(object.name.as_deref().unwrap_or(MANAGER), now)),
                namespace: Some(namespace.into()),
                ..ObjectMeta::default()
            },
            type_: Some(severity.into()),
            reason: Some(news.reason.as_str().into()),
            note: Some(capped(&news.note).into()),
            action: Some(news.action.into()),
            regarding: Some(object.clone()),
            event_time: Some(MicroTime(now)),
            reporting_controller: Some(MANAGER.into()),
            reporting_instance: Some(self.instance.clone()),
            ..Event::default()
        }
    }

    fn recent(&self) -> MutexGuard<'_, Recent> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The name of an event: the object's name, as far as it fits, and the time.
fn name(object: &str, now: Timestamp) -> String {
    let moment = format!("{:x}", now.as_nanosecond());
    let fits = LONGEST_OBJECT_NAME - moment.len() - 1;
    let object = &object[..object.floor_char_boundary(fits)];
    // The part before a dot must end in a letter or a digit.
    let object = object.trim_end_matches(['.', '-']);
    format!("{object}.{moment}")
}

/// The start of a note, short enough for the API server and cut between two characters.
fn capped(note: &str) -> &str {
    &note[..note.floor_char_boundary(LONGEST_NOTE)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longest_object_name_leaves_space_for_timestamp() {
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let long = format!("{}.{}", "a".repeat(235), "b".repeat(17));
        let cut = name(&long, now);
        assert!(cut.len() <= LONGEST_OBJECT_NAME, "{cut}");
        assert!(cut.starts_with(&"a".repeat(235)) && !cut.contains(".."));
        assert!(name("short", now).starts_with("short."));
    }

    #[test]
    fn event_text_is_cut_between_characters() {
        assert_eq!(capped("short"), "short");
        let long = "ä".repeat(1000);
        let cut = capped(&long);
        assert!(cut.len() <= LONGEST_NOTE && cut.len() >= LONGEST_NOTE - 1);
        assert!(long.starts_with(cut));
    }
}
