//! Every version of an object, or of all of a kind, that the API server has shown.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use kube::api::{DynamicObject, ListParams, WatchEvent, WatchParams};
use kube::{Api, ResourceExt};
use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// A watch ends by itself after this time.
const SECONDS: u32 = 280;

/// Before the next watch begins.
const PAUSE: Duration = Duration::from_millis(50);

/// A recording. Dropped, it ends.
pub(super) struct WatchLog {
    recorded: Arc<Mutex<Recorded>>,
    // Aborts the watch when it is dropped.
    _tasks: JoinSet<()>,
}

/// What was recorded so far.
#[derive(Default)]
struct Recorded {
    versions: Vec<Value>,
    /// Why nothing is recorded at the moment.
    failure: Option<String>,
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
        let recorded = Arc::new(Mutex::new(Recorded::default()));
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
    ///
    /// # Panics
    /// If nothing is recorded at the moment: a log that is too short must not look like one in which nothing happened.
    pub(super) fn versions(&self) -> Vec<Value> {
        let recorded = self.recorded.lock().unwrap_or_else(PoisonError::into_inner);
        assert_eq!(recorded.failure, None, "nothing is recorded");
        recorded.versions.clone()
    }
}

/// Records what one watch shows, and where the next one goes on. The API server ends a watch whose reader is slow, as it is
/// on a busy machine, and shows the versions after the last one to the next. Returns whether it has forgotten them.
async fn record(
    api: &Api<DynamicObject>,
    what: &WatchParams,
    from: &mut String,
    log: &Mutex<Recorded>,
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
            Ok(WatchEvent::Bookmark(mark)) => *from = mark.metadata.resource_version,
            Ok(WatchEvent::Error(error)) => {
                failed(Some(error.to_string()));
                return true;
            }
            Err(_) => return false,
        }
    }
    false
}
