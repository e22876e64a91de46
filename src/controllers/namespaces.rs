//! The labels of the cluster's namespaces, by which accounts of the cluster may select them, and which may suspend
//! their servers.
//!
//! An operator of all namespaces watches them; one of some may read those, and no others. What is heard goes to the
//! accounts, which wake the objects of a namespace when its labels change. Until it is heard nobody is told that he is
//! not allowed; whether a namespace is suspended is read again right before what costs money or a machine.

use super::{
    context::{Process, Watched},
    objects::slim_but_labels,
    streams::{self, Guarded, Heard},
    writes::{Failure, bounded},
};
use crate::runtime::clients::WatchTimes;
use api::{policies, selector::Labels};
use futures::{Stream, StreamExt as _};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, core::PartialObjectMeta, runtime::watcher::Event};
use std::{collections::HashSet, time::Duration};
use tokio::sync::watch;

/// All that is read of a namespace.
type Metadata = PartialObjectMeta<Namespace>;

/// Between two reads of the same namespace.
const BETWEEN_READS: Duration = Duration::from_secs(30);

/// Follows the namespaces until shutdown.
pub async fn follow(process: &Process) {
    let follow = async {
        match &process.watched {
            Watched::All => watch(process).await,
            Watched::Namespaces(names) => read_again_and_again(process, names).await,
        }
    };
    process.shutdown.run_until_cancelled(follow).await;
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

async fn read_again_and_again(process: &Process, names: &[String]) {
    loop {
        for name in names {
            match labels(process, name).await {
                Ok(labels) => process.accounts.show_namespace(name, labels),
                Err(failure) => {
                    tracing::debug!(
                        namespace = name,
                        error = failure.explain(),
                        "the labels of a namespace could not be read"
                    );
                }
            }
        }
        tokio::time::sleep(BETWEEN_READS).await;
    }
}

/// The labels of a namespace, as the API server has them now.
async fn labels(process: &Process, name: &str) -> Result<Labels, Failure> {
    let api: Api<Namespace> = Api::all(process.client.clone());
    let found = bounded(api.get_metadata(name)).await?;
    Ok(found.metadata.labels.unwrap_or_default())
}

/// Whether the servers of a namespace are suspended by its labels, as the API server has them now.
///
/// # Errors
/// When the API server does not give them.
pub async fn is_suspended(process: &Process, name: &str) -> Result<bool, Failure> {
    Ok(policies::suspended_by(&labels(process, name).await?))
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
