//! What the API server shows of a kind, as a stream of events.
//!
//! Every kind has a watch and a back-off of its own. Errors end here: they are logged, the watch
//! backs off and goes on, and nothing downstream ever sees one. (Where errors are passed on to
//! kube's `Controller`, one failing watch puts all its watches to sleep.) kube's shared streams
//! are not used, since their subscribers never hear of deletions.

use super::objects::slim;
use futures::{Stream, StreamExt as _};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{
    Api, Resource,
    core::DeserializeGuard,
    runtime::{WatchStreamExt as _, watcher},
};
use serde::de::DeserializeOwned;
use std::{
    collections::hash_map::DefaultHasher,
    fmt::Debug,
    hash::{Hash, Hasher},
};

/// An object, or what is left of one that does not decode: its metadata and the error.
pub type Guarded<K> = DeserializeGuard<K>;

/// Seconds after which a watch is started again. Below the idle limit of common load balancers,
/// which drop a quiet connection without a word.
const WATCH_SECONDS: u32 = 200;

/// Objects in one page of a listing. A page is held as text and decoded at once, and what that leaves
/// behind in the heap stays: pages of kube's default, 500, cost several MiB for good.
///
/// kube's streaming lists would need no pages, but it asks for them at version 0: any state that the
/// API server has cached, however old. What this process concludes from an absence needs a listing
/// that is as new as its start.
const PAGE: u32 = 50;

/// The events of a kind's objects at one place: everything that the API handle covers.
pub fn watch<K>(
    api: Api<Guarded<K>>,
) -> impl Stream<Item = watcher::Event<Guarded<K>>> + Send + 'static
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    let config = watcher::Config::default()
        .timeout(WATCH_SECONDS)
        .page_size(PAGE);
    watcher(api, config)
        .default_backoff()
        .modify(|object| slim(object.meta_mut()))
        .filter_map(|event| async move {
            match event {
                Ok(event) => Some(event),
                Err(error) => {
                    tracing::warn!(
                        kind = %K::kind(&()),
                        error = &error as &dyn std::error::Error,
                        "a watch failed and starts again after a pause"
                    );
                    None
                }
            }
        })
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::ProviderAccount;
    use serde_json::json;

    #[test]
    fn a_status_write_is_no_intent() {
        let plain: ProviderAccount = serde_json::from_value(json!({
            "apiVersion": "flexmetal.dev/v1alpha1",
            "kind": "ProviderAccount",
            "metadata": {"name": "a", "namespace": "n", "uid": "1"},
            "spec": {"baseURL": "u", "apiKeySecretRef": {"name": "s"}},
        }))
        .unwrap();
        let said = |object: &ProviderAccount| triggers(&object.metadata, |_| ());
        let mut with_status = plain.clone();
        with_status.status = Some(Default::default());
        with_status.metadata.resource_version = Some("7".into());
        assert_eq!(said(&plain), said(&with_status));
        let mut held = plain.clone();
        held.metadata.finalizers = Some(vec!["f".into()]);
        assert_ne!(said(&plain), said(&held));
        assert_ne!(
            said(&plain),
            triggers(&plain.metadata, |hash| true.hash(hash))
        );
    }
}
