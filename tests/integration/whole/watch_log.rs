//! Every version of an object, or of all of a kind, that the API server has shown.

use std::sync::{Arc, Mutex};

use futures::StreamExt;
use kube::Api;
use kube::api::{DynamicObject, ListParams, WatchEvent, WatchParams};
use serde_json::Value;
use tokio::task::JoinSet;

/// The watch ends by itself after this time; no test is longer.
const SECONDS: u32 = 280;

/// A recording. Dropped, it ends.
pub(super) struct WatchLog {
    versions: Arc<Mutex<Vec<Value>>>,
    // Aborts the watch when it is dropped.
    _tasks: JoinSet<()>,
}

impl WatchLog {
    /// Records what happens to an object after the version that is given.
    pub(super) fn of(api: Api<DynamicObject>, object: &Value) -> Self {
        let metadata = &object["metadata"];
        let name = metadata["name"].as_str().expect("a name").to_owned();
        let from = metadata["resourceVersion"]
            .as_str()
            .expect("a version")
            .to_owned();
        Self::recording(
            api,
            WatchParams::default().fields(&format!("metadata.name={name}")),
            from,
        )
    }

    /// Records what happens from now on to all objects that an API shows.
    pub(super) async fn of_all(api: Api<DynamicObject>) -> Self {
        let now = api.list(&ListParams::default()).await.expect("a list");
        let from = now.metadata.resource_version.expect("a version");
        Self::recording(api, WatchParams::default(), from)
    }

    fn recording(api: Api<DynamicObject>, what: WatchParams, from: String) -> Self {
        let versions = Arc::new(Mutex::new(Vec::new()));
        let recorded = versions.clone();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let what = what.timeout(SECONDS);
            let changes = api.watch(&what, &from).await.expect("a watch begins");
            let mut changes = std::pin::pin!(changes);
            while let Some(change) = changes.next().await {
                match change {
                    Ok(WatchEvent::Added(shown) | WatchEvent::Modified(shown)) => {
                        let shown = serde_json::to_value(shown).expect("an object is JSON");
                        recorded.lock().expect("nobody panics with it").push(shown);
                    }
                    // What `versions` returns is then too short, and the test fails on that.
                    Ok(WatchEvent::Deleted(_) | WatchEvent::Bookmark(_)) => {}
                    Ok(WatchEvent::Error(_)) | Err(_) => break,
                }
            }
        });
        Self {
            versions,
            _tasks: tasks,
        }
    }

    /// All versions so far, oldest first.
    pub(super) fn versions(&self) -> Vec<Value> {
        self.versions.lock().expect("nobody panics with it").clone()
    }
}
