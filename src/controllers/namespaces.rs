//! The labels of the cluster's namespaces, by which accounts of the cluster may select them.
//!
//! An operator of all namespaces watches them; one of some serves no account of the cluster. What is heard goes to the
//! accounts, which wake the objects of a namespace when its labels change. Until it is heard nobody is told that he is
//! not allowed.

use super::{
    context::Process,
    objects::slim_but_labels,
    streams::{self, Guarded, Heard},
};
use crate::runtime::clients::WatchTimes;
use futures::{Stream, StreamExt as _};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, core::PartialObjectMeta, runtime::watcher::Event};
use std::collections::HashSet;
use tokio::sync::watch;

/// All that is read of a namespace.
type Metadata = PartialObjectMeta<Namespace>;

/// Follows the namespaces until shutdown.
pub async fn follow(process: &Process) {
    if process.watched.is_all() {
        process.shutdown.run_until_cancelled(watch(process)).await;
    }
}

async fn watch(process: &Process) {
    let api = Api::all(process.watch_client.clone());
    let mut heard = std::pin::pin!(hear(api, process.watch_times));
    let mut listed = HashSet::new();
    while let Some(heard) = heard.next().await {
        if let Heard::Event(event) = heard {
            take(process, &mut listed, event);
        }
    }
}

/// What is heard of the namespaces, with their labels.
fn hear(
    api: Api<Guarded<Metadata>>,
    times: WatchTimes,
) -> impl Stream<Item = Heard<Metadata>> + Send + 'static {
    // Nobody asks for another listing than the watch makes by itself.
    let (_, relists) = watch::channel(0);
    streams::watch(api, times, relists, slim_but_labels)
}

/// Takes one event in. `listed`: those that the listing under way has shown.
fn take(process: &Process, listed: &mut HashSet<String>, event: Event<Guarded<Metadata>>) {
    let accounts = &process.accounts;
    match event {
        Event::Init => listed.clear(),
        Event::InitApply(object) => {
            if let Some(name) = show(process, object) {
                listed.insert(name);
            }
        }
        Event::InitDone => accounts.keep_namespaces(&std::mem::take(listed)),
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

/// Passes the labels of a namespace on. Returns its name.
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

    /// An API server with one namespace, whose label changes as soon as somebody watches.
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
    async fn the_labels_of_namespaces_are_heard() {
        let times = WatchTimes {
            period: Duration::from_secs(60),
            answer: Duration::from_secs(60),
        };
        let (api, _serving) = server().await;
        let mut heard = std::pin::pin!(hear(api, times));
        for team in ["blue", "red"] {
            let object = loop {
                let heard = heard.next().await.unwrap();
                if let Heard::Event(Event::InitApply(object) | Event::Apply(object)) = heard {
                    break object;
                }
            };
            assert_eq!(object.0.unwrap().labels()["team"], team);
        }
    }
}
