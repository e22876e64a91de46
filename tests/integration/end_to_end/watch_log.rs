//! Records every version of an object, or of all objects of a kind, that the API server shows.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use kube::api::{DynamicObject, ListParams, WatchEvent, WatchParams};
use kube::{Api, ResourceExt};
use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// Duration of a watch in seconds.
const SECONDS: u32 = 280;

/// Pause before the next watch.
const PAUSE: Duration = Duration::from_millis(50);

/// A recording. It ends when dropped.
pub(super) struct WatchLog {
    recorded: Arc<Mutex<RecordedVersions>>,
    // Aborts the watch when dropped.
    _tasks: JoinSet<()>,
}

/// The recorded versions so far.
#[derive(Default)]
struct RecordedVersions {
    versions: Vec<Value>,
    /// Why nothing is recorded at the moment.
    failure: Option<String>,
}

impl WatchLog {
    /// Records all changes of an object after the given version.
    pub(super) fn for_object(api: Api<DynamicObject>, object: &Value) -> Self {
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

    /// Records all future changes of all objects of an API.
    pub(super) async fn for_all_objects(api: Api<DynamicObject>) -> Self {
        let now = api.list(&ListParams::default()).await.expect("a list");
        let from = now.metadata.resource_version.expect("a version");
        Self::recording(api, WatchParams::default(), from)
    }

    fn recording(api: Api<DynamicObject>, what: WatchParams, from: String) -> Self {
        let recorded = Arc::new(Mutex::new(RecordedVersions::default()));
        let log = recorded.clone();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let what = what.timeout(SECONDS);
            let mut from = from;
            while !record(&api, &what, &mut from, &log).await {
                sleep(PAUSE).await;
            }
        });
        Self {
            recorded,
            _tasks: tasks,
        }
    }

    /// All versions so far, oldest first.
    /// Panics if the recording has failed, because an incomplete log must not count as a complete one.
    pub(super) fn versions(&self) -> Vec<Value> {
        let recorded = self.recorded.lock().unwrap_or_else(PoisonError::into_inner);
        assert_eq!(recorded.failure, None, "nothing is recorded");
        recorded.versions.clone()
    }
}

/// Records one watch, and sets `from` to where the next one continues. The API server ends a watch of a slow reader.
/// Returns whether the API server has forgotten the next version.
async fn record(
    api: &Api<DynamicObject>,
    what: &WatchParams,
    from: &mut String,
    log: &Mutex<RecordedVersions>,
) -> bool {
    let failed = |failure: Option<String>| {
        let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
        log.failure = failure;
    };
    let changes = match api.watch(what, from).await {
        Ok(changes) => changes,
        Err(error) => {
            failed(Some(error.to_string()));
            return false;
        }
    };
    failed(None);
    let mut changes = std::pin::pin!(changes);
    while let Some(change) = changes.next().await {
        match change {
            Ok(WatchEvent::Added(shown) | WatchEvent::Modified(shown)) => {
                *from = shown.resource_version().expect("a version");
                let shown = serde_json::to_value(shown).expect("an object is JSON");
                let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
                log.versions.push(shown);
            }
            Ok(WatchEvent::Deleted(shown)) => {
                *from = shown.resource_version().expect("a version");
            }
            Ok(WatchEvent::Bookmark(bookmark)) => *from = bookmark.metadata.resource_version,
            Ok(WatchEvent::Error(error)) => {
                failed(Some(error.to_string()));
                return true;
            }
            Err(_) => return false,
        }
    }
    false
}
