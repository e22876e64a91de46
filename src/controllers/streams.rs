//! What the API server shows of a kind, as a stream of what is heard.
//!
//! Every kind has a watch and a back-off of its own. Errors end here: they are logged, the watch
//! backs off and goes on, and nothing downstream ever sees one. (Where errors are passed on to
//! kube's `Controller`, one failing watch puts all its watches to sleep.) kube's shared streams
//! are not used, since their subscribers never hear of deletions.
//!
//! A watch that hears nothing looks like a quiet world. So signs of life are passed on beside the
//! events, and long silence is too.

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

/// An object, or what is left of one that does not decode: its metadata and the error.
pub type Guarded<K> = DeserializeGuard<K>;

/// Takes off metadata what nobody reads.
pub(super) type Slim = fn(&mut ObjectMeta);

/// What is heard of a watch.
// Each is taken in at once; a box would save nothing.
#[allow(clippy::large_enum_variant)]
pub enum WatchSignal<K> {
    /// A listing begins, shows an object, or ends; or an object changed.
    Event(Event<Guarded<K>>),
    /// Nothing changed, and it would have been told: the watch was started, or bears a bookmark.
    Alive,
    /// Nothing was heard for three watch periods. The watch starts again, with a fresh listing.
    Stale,
}

/// What is heard of a kind's objects at one place: everything that the API handle covers. The watch
/// starts again, with a fresh listing, whenever `relists` changes. `slim` takes off each what nobody reads, as
/// soon as it is decoded.
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
        follower: Follower::new(api.clone(), times, slim),
        api,
        times,
        relists,
        slim,
        last_signal: clock::now().mono,
    };
    stream::unfold(watch, |mut watch| async move {
        let heard = watch.next().await;
        Some((heard, watch))
    })
}

/// A watch that starts again when it is told to, and when it hears nothing.
struct Watch<K> {
    follower: Follower<K>,
    api: Api<Guarded<K>>,
    times: WatchTimes,
    relists: Receiver<u64>,
    slim: Slim,
    /// When something was heard last.
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
                // Once nobody can wish any more, this is off.
                Ok(()) = self.relists.changed() => self.start_again(),
                () = clock::sleep_until(self.last_signal + self.times.silence()) => {
                    tracing::warn!(
                        kind = %K::kind(&()),
                        silence = ?self.times.silence(),
                        "a watch has heard nothing and starts again"
                    );
                    self.last_signal = clock::now().mono;
                    self.start_again();
                    return WatchSignal::Stale;
                }
                heard = self.follower.next() => return self.record_signal(heard),
            }
        }
    }

    fn start_again(&mut self) {
        self.follower = Follower::new(self.api.clone(), self.times, self.slim);
    }

    fn record_signal(&mut self, mut heard: WatchSignal<K>) -> WatchSignal<K> {
        // The first of a listing comes from here, not from the API server.
        if !matches!(heard, WatchSignal::Event(Event::Init)) {
            self.last_signal = clock::now().mono;
        }
        if let WatchSignal::Event(
            Event::InitApply(object) | Event::Apply(object) | Event::Delete(object),
        ) = &mut heard
        {
            (self.slim)(object.meta_mut());
        }
        heard
    }
}

/// Everything that people or other programs say by an object, as one number: spec, finalizers,
/// deletion, annotations. Status is left out, so that our own writes of it wake nobody; `more`
/// adds what of it a kind has to hear of all the same.
///
/// The generation alone would hide the write that adds our finalizer.
pub fn triggers(meta: &ObjectMeta, more: impl FnOnce(&mut DefaultHasher)) -> u64 {
    let mut hash = DefaultHasher::new();
    meta.generation.hash(&mut hash);
    meta.finalizers.hash(&mut hash);
    meta.annotations.hash(&mut hash);
    meta.deletion_timestamp.is_some().hash(&mut hash);
    more(&mut hash);
    hash.finish()
}
