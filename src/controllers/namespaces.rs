//! Labels of namespaces, by which cluster-scoped accounts select them, and UIDs, by which owners are identified. Only
//! an operator of all namespaces watches the labels. A change enqueues the objects of the namespace.

use super::{
    context::Process,
    objects::slim_but_labels,
    streams::{self, Guarded, WatchSignal},
    writes::bounded,
};
use crate::runtime::{clients::WatchTimes, clock};
use flexmetal_core::owner::READ_NAMESPACE_AGAIN;
use futures::{Stream, StreamExt as _};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client, core::PartialObjectMeta, runtime::watcher::Event};
use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::sync::watch;

/// The UIDs of namespaces, as last read. A clone shares them.
#[derive(Clone, Default)]
pub struct NamespaceUids(Arc<Mutex<HashMap<String, LastRead>>>);

/// Result and time of the last read of a namespace.
type LastRead = (Result<Arc<str>, String>, Duration);

impl NamespaceUids {
    /// The UID of a namespace, read at or after `since`. An object stays in its namespace, so one read is enough.
    ///
    /// # Errors
    /// Why the UID is not known.
    pub async fn read_uid(
        &self,
        client: &Client,
        namespace: &str,
        since: Duration,
    ) -> Result<Arc<str>, String> {
        let at = clock::now().mono;
        let known = self.lock().get(namespace).cloned();
        match known {
            Some((Ok(uid), read)) if read >= since => return Ok(uid),
            Some((Err(why), read)) if at < read + READ_NAMESPACE_AGAIN => return Err(why),
            _ => {}
        }
        let api: Api<Namespace> = Api::all(client.clone());
        let found = match bounded(api.get_metadata_opt(namespace)).await {
            Ok(Some(found)) => found
                .metadata
                .uid
                .map(Into::into)
                .ok_or("The namespace has no UID".to_owned()),
            Ok(None) => Err("The namespace does not exist".to_owned()),
            Err(failure) => Err(failure.explain()),
        };
        let kept = (found.clone(), at);
        self.lock().insert(namespace.to_owned(), kept);
        found
    }

    /// The UID of a namespace as last read. `None` if it was not read.
    pub fn known(&self, namespace: &str) -> Option<Arc<str>> {
        self.lock().get(namespace)?.0.clone().ok()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, LastRead>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The part of a namespace that is read.
type Metadata = PartialObjectMeta<Namespace>;

/// Watches the namespaces until shutdown.
pub async fn follow(process: &Process) {
    if process.watched.is_all() {
        process.shutdown.run_until_cancelled(watch(process)).await;
    }
}

/// The kind, as a label of metrics.
const KIND: &str = "Namespace";

async fn watch(process: &Process) {
    let api = Api::all(process.watch_client.clone());
    let mut signals = std::pin::pin!(watch_signals(api, process.watch_times));
    let mut listed = HashSet::new();
    process.metrics.record_watch_event(KIND, clock::now().wall);
    while let Some(signal) = signals.next().await {
        match signal {
            WatchSignal::Event(event) => {
                // A list that begins is no sign of life.
                if !matches!(event, Event::Init) {
                    process.metrics.record_watch_event(KIND, clock::now().wall);
                }
                apply_event(process, &mut listed, event);
            }
            WatchSignal::Alive => process.metrics.record_watch_event(KIND, clock::now().wall),
            WatchSignal::Failed | WatchSignal::Stale => process.metrics.record_watch_failure(KIND),
        }
    }
}

/// The signals of the watch of all namespaces, with their labels.
fn watch_signals(
    api: Api<Guarded<Metadata>>,
    times: WatchTimes,
) -> impl Stream<Item = WatchSignal<Metadata>> + Send + 'static {
    // Nothing requests another list.
    let (_, relists) = watch::channel(0);
    streams::watch(api, times, relists, slim_but_labels)
}

/// Applies one event. `listed` has the names that the current list has shown.
fn apply_event(process: &Process, listed: &mut HashSet<String>, event: Event<Guarded<Metadata>>) {
    let accounts = &process.accounts;
    match event {
        Event::Init => listed.clear(),
        Event::InitApply(object) => {
            if let Some(name) = show(process, object) {
                listed.insert(name);
            }
        }
        Event::InitDone => accounts.retain_namespaces(&std::mem::take(listed)),
        Event::Apply(object) => drop(show(process, object)),
        Event::Delete(object) => {
            let meta = match object.0 {
                Ok(object) => object.metadata,
                Err(invalid) => invalid.metadata,
            };
            accounts.forget_namespace(meta.name.as_deref().unwrap_or_default());
        }
    }
}

/// Sends the labels of a namespace to the accounts. Returns its name.
fn show(process: &Process, object: Guarded<Metadata>) -> Option<String> {
    let meta = match object.0 {
        Ok(object) => object.metadata,
        Err(invalid) => invalid.metadata,
    };
    let name = meta.name?;
    let labels = meta.labels.unwrap_or_default();
    process.accounts.show_namespace(&name, labels);
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::{Json, Router, http::Uri, response::IntoResponse as _};
    use kube::{Client, Config, ResourceExt as _};
    use serde_json::{Value, json};
    use std::time::Duration;
    use tokio::{net::TcpListener, task::JoinSet};

    fn namespace(team: &str) -> Value {
        json!({
            "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata",
            "metadata": {"name": "shop", "uid": "1", "resourceVersion": "5", "labels": {"team": team}},
        })
    }

    /// An API server with one namespace, whose label changes as soon as a watch starts.
    async fn server() -> (Api<Guarded<Metadata>>, JoinSet<()>) {
        let answer = |uri: Uri| async move {
            if uri.query().unwrap_or_default().contains("watch=") {
                let event = json!({"type": "MODIFIED", "object": namespace("red")});
                return format!("{event}\n").into_response();
            }
            Json(json!({
                "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList",
                "metadata": {"resourceVersion": "5"}, "items": [namespace("blue")],
            }))
            .into_response()
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let _ = axum::serve(listener, Router::new().fallback(answer)).await;
        });
        let client = Client::try_from(Config::new(address.parse().unwrap())).unwrap();
        (Api::all(client), serving)
    }

    #[tokio::test]
    async fn watch_delivers_namespace_labels() {
        let times = WatchTimes {
            period: Duration::from_secs(60),
            answer: Duration::from_secs(60),
        };
        let (api, _serving) = server().await;
        let mut signals = std::pin::pin!(watch_signals(api, times));
        for team in ["blue", "red"] {
            let object = loop {
                let signal = signals.next().await.unwrap();
                if let WatchSignal::Event(Event::InitApply(object) | Event::Apply(object)) = signal
                {
                    break object;
                }
            };
            assert_eq!(object.0.unwrap().labels()["team"], team);
        }
    }
}
