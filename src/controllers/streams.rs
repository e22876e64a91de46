//! The watch of a kind as a stream of signals. Errors are logged and retried here; a silent watch is reported as stale.
//! Not kube's `Controller`: one failing watch stops all its watches. Not its shared streams: they pass no deletions.

mod follow;
#[cfg(test)]
mod tests;

use crate::runtime::{clients::WatchTimes, clock};
use follow::Follower;
use futures::{Stream, stream};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Api, Resource, core::DeserializeGuard, runtime::watcher::Event};
use serde::de::DeserializeOwned;
use std::{
    collections::hash_map::DefaultHasher,
    fmt::Debug,
    hash::{Hash, Hasher},
    time::Duration,
};
use tokio::sync::watch::Receiver;

/// An object, or the metadata and the error of one that does not decode.
pub type Guarded<K> = DeserializeGuard<K>;

/// Removes metadata that the operator does not read.
pub(super) type Slim = fn(&mut ObjectMeta);

/// A signal of a watch.
// Each is consumed at once, so a box would save nothing.
#[allow(clippy::large_enum_variant)]
pub enum WatchSignal<K> {
    /// The start, an object or the end of a list; or a changed object.
    Event(Event<Guarded<K>>),
    /// No change: the watch has started, or sent a bookmark.
    Alive,
    /// A list or the watch failed; it restarts with backoff.
    Failed,
    /// No signal for three watch periods. The watch restarts with a fresh list.
    Stale,
}

/// Watches all objects that the API handle covers. Restarts with a fresh list whenever `relists` changes. `slim`
/// removes unread metadata of each object as soon as it is decoded.
pub fn watch<K>(
    api: Api<Guarded<K>>,
    times: WatchTimes,
    relists: Receiver<u64>,
    slim: Slim,
) -> impl Stream<Item = WatchSignal<K>> + Send + 'static
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    let watch = Watch {
        follower: Follower::new(api, times, slim),
        times,
        relists,
        slim,
        last_signal: clock::now().mono,
    };
    stream::unfold(watch, |mut watch| async move {
        let signal = watch.next().await;
        Some((signal, watch))
    })
}

/// A watch that restarts on request, and when it is stale.
struct Watch<K> {
    follower: Follower<K>,
    times: WatchTimes,
    relists: Receiver<u64>,
    slim: Slim,
    /// When the last signal came.
    last_signal: Duration,
}

impl<K> Watch<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    async fn next(&mut self) -> WatchSignal<K> {
        loop {
            tokio::select! {
                biased;
                // Disabled once the sender is dropped.
                Ok(()) = self.relists.changed() => self.start_again(),
                () = clock::sleep_until(self.last_signal + self.times.silence()) => {
                    tracing::warn!(
                        kind = %K::kind(&()),
                        silence_seconds = self.times.silence().as_secs_f64(),
                        "watch stale"
                    );
                    self.last_signal = clock::now().mono;
                    self.start_again();
                    return WatchSignal::Stale;
                }
                signal = self.follower.next() => return self.record_signal(signal),
            }
        }
    }

    fn start_again(&mut self) {
        self.follower = self.follower.restarted();
    }

    fn record_signal(&mut self, mut signal: WatchSignal<K>) -> WatchSignal<K> {
        // The start of a list comes from here, not from the API server.
        if !matches!(
            signal,
            WatchSignal::Event(Event::Init) | WatchSignal::Failed
        ) {
            self.last_signal = clock::now().mono;
        }
        if let WatchSignal::Event(
            Event::InitApply(object) | Event::Apply(object) | Event::Delete(object),
        ) = &mut signal
        {
            (self.slim)(object.meta_mut());
        }
        signal
    }
}

/// Hash of what triggers a reconcile: spec, finalizers, deletion, annotations, and what `more` adds from the status.
/// Our other status updates trigger nothing. The generation alone would miss the write that adds our finalizer.
pub fn triggers(meta: &ObjectMeta, more: impl FnOnce(&mut DefaultHasher)) -> u64 {
    let mut hash = DefaultHasher::new();
    meta.generation.hash(&mut hash);
    meta.finalizers.hash(&mut hash);
    meta.annotations.hash(&mut hash);
    meta.deletion_timestamp.is_some().hash(&mut hash);
    more(&mut hash);
    hash.finish()
}
