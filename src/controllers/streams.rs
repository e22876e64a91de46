//! What the API server shows of a kind, as a store and a stream of changes.
//!
//! Every kind has a watch, a store and a back-off of its own. Errors end here:
//! they are logged, the watch backs off and goes on, and nothing downstream
//! ever sees one. (Where errors are passed on to kube's `Controller`, one
//! failing watch puts all its watches to sleep.) kube's shared streams are not
//! used, since their subscribers never hear of deletions.

use futures::{Stream, StreamExt as _, stream};
use kube::{
    Api, Resource, ResourceExt as _,
    core::DeserializeGuard,
    runtime::{
        WatchStreamExt as _,
        reflector::{self, ObjectRef, Store},
        watcher,
    },
};
use serde::de::DeserializeOwned;
use std::{
    collections::hash_map::DefaultHasher,
    fmt::Debug,
    hash::{Hash, Hasher},
    sync::Arc,
};

/// An object, or what is left of one that does not decode: its metadata and the error.
pub type Guarded<K> = DeserializeGuard<K>;

/// Seconds after which a watch is begun anew. Below the idle limit of common load balancers, which
/// drop a quiet connection without a word.
const WATCH_SECONDS: u32 = 200;

/// What happened to the objects of a kind.
#[derive(Clone, Debug)]
pub enum Change<K> {
    /// The object is new or has changed.
    Applied(Arc<K>),
    /// The object is gone. Shown as last seen.
    Gone(Arc<K>),
    /// The store holds everything that a listing showed; comes after each listing.
    Listed,
}

/// A kind's objects at one place: everything that the API handle covers.
///
/// The store is up to date when a change arrives, so a change may be answered from it. Objects
/// that vanished while the watch was down are reported as [`Change::Gone`] after the next listing.
/// The store changes only while the stream is polled.
pub fn root<K>(
    api: Api<Guarded<K>>,
) -> (
    Store<Guarded<K>>,
    impl Stream<Item = Change<Guarded<K>>> + Send + 'static,
)
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    let config = watcher::Config::default().timeout(WATCH_SECONDS);
    let (store, mut writer) = reflector::store::<Guarded<K>>();
    let reader = store.clone();
    let changes = watcher(api, config)
        .default_backoff()
        .map(move |event| match event {
            Ok(event) => take(&event, &reader, &mut writer),
            Err(error) => {
                tracing::warn!(
                    kind = %K::kind(&()),
                    error = &error as &dyn std::error::Error,
                    "watch failed, it is begun anew after a pause"
                );
                Vec::new()
            }
        })
        .flat_map(stream::iter);
    (store, changes)
}

/// Puts an event into the store, and tells what it changed.
fn take<K>(
    event: &watcher::Event<K>,
    store: &Store<K>,
    writer: &mut reflector::store::Writer<K>,
) -> Vec<Change<K>>
where
    K: Resource<DynamicType = ()> + Clone + 'static,
{
    match event {
        watcher::Event::Init | watcher::Event::InitApply(_) => {
            // The store shows a listing only at its end.
            writer.apply_watcher_event(event);
            Vec::new()
        }
        watcher::Event::InitDone => {
            let before = store.state();
            writer.apply_watcher_event(event);
            let mut changes: Vec<_> = before
                .iter()
                .filter(|old| {
                    store
                        .get(&ObjectRef::from_obj(&***old))
                        .is_none_or(|new| new.uid() != old.uid())
                })
                .map(|old| Change::Gone(old.clone()))
                .collect();
            changes.extend(store.state().into_iter().map(Change::Applied));
            changes.push(Change::Listed);
            changes
        }
        watcher::Event::Apply(object) => {
            let reference = ObjectRef::from_obj(object);
            let before = store.get(&reference);
            writer.apply_watcher_event(event);
            let now = store.get(&reference);
            // Another object of the same name: the first one is gone.
            let gone = before.filter(|old| now.as_ref().is_some_and(|new| new.uid() != old.uid()));
            gone.map(Change::Gone)
                .into_iter()
                .chain(now.map(Change::Applied))
                .collect()
        }
        watcher::Event::Delete(object) => {
            let gone = Arc::new(object.clone());
            writer.apply_watcher_event(event);
            vec![Change::Gone(gone)]
        }
    }
}

/// The changes in the form that kube's `Controller::for_stream` takes. Never an error.
pub fn triggers<K>(
    changes: impl Stream<Item = Change<K>> + Send + 'static,
) -> impl Stream<Item = Result<K, watcher::Error>> + Send + 'static
where
    K: Clone + Send + Sync + 'static,
{
    changes.filter_map(|change| {
        std::future::ready(match change {
            Change::Applied(object) | Change::Gone(object) => Some(Ok((*object).clone())),
            Change::Listed => None,
        })
    })
}

/// Everything that people or other programs say by an object, as one number: spec, finalizers,
/// deletion, annotations. Status is left out, so that our own writes of it wake nobody.
///
/// For kube's `predicate_filter`. The spec alone would hide the write that adds our finalizer.
pub fn intent<K: Resource>(object: &K) -> Option<u64> {
    let meta = object.meta();
    let mut hash = DefaultHasher::new();
    meta.uid.hash(&mut hash);
    meta.generation.hash(&mut hash);
    meta.finalizers.hash(&mut hash);
    meta.annotations.hash(&mut hash);
    meta.deletion_timestamp.is_some().hash(&mut hash);
    Some(hash.finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::ProviderAccount;
    use serde_json::json;

    type Object = Guarded<ProviderAccount>;

    fn object(name: &str, uid: &str, base_url: &serde_json::Value) -> Object {
        serde_json::from_value(json!({
            "apiVersion": "flexmetal.dev/v1alpha1",
            "kind": "ProviderAccount",
            "metadata": {"name": name, "namespace": "n", "uid": uid},
            "spec": {"baseURL": base_url, "apiKeySecretRef": {"name": "s"}},
        }))
        .unwrap()
    }

    fn words(changes: &[Change<Object>]) -> Vec<String> {
        changes
            .iter()
            .map(|change| match change {
                Change::Applied(o) => format!("+{}/{}", o.name_any(), o.uid().unwrap()),
                Change::Gone(o) => format!("-{}/{}", o.name_any(), o.uid().unwrap()),
                Change::Listed => "listed".into(),
            })
            .collect()
    }

    #[test]
    fn what_vanished_between_two_listings_is_reported() {
        let (store, mut writer) = reflector::store::<Object>();
        let mut feed = |event| words(&take(&event, &store, &mut writer));
        assert!(feed(watcher::Event::Init).is_empty());
        assert!(feed(watcher::Event::InitApply(object("a", "1", &json!("u")))).is_empty());
        assert!(feed(watcher::Event::InitApply(object("b", "2", &json!("u")))).is_empty());
        let mut first = feed(watcher::Event::InitDone);
        first.sort();
        assert_eq!(first, ["+a/1", "+b/2", "listed"]);

        feed(watcher::Event::Init);
        feed(watcher::Event::InitApply(object("b", "3", &json!("u"))));
        let mut second = feed(watcher::Event::InitDone);
        second.sort();
        assert_eq!(second, ["+b/3", "-a/1", "-b/2", "listed"]);
        assert_eq!(
            feed(watcher::Event::Delete(object("b", "3", &json!("u")))),
            ["-b/3"]
        );
    }

    #[test]
    fn an_object_that_does_not_decode_stays_visible() {
        let (store, mut writer) = reflector::store::<Object>();
        let broken = object("broken", "9", &json!(17));
        assert!(broken.0.is_err());
        take(&watcher::Event::Init, &store, &mut writer);
        take(&watcher::Event::InitDone, &store, &mut writer);
        take(&watcher::Event::Apply(broken), &store, &mut writer);
        assert_eq!(store.state().len(), 1);
    }

    #[test]
    fn a_status_write_is_no_intent() {
        let plain = object("a", "1", &json!("u")).0.unwrap();
        let mut with_status = plain.clone();
        with_status.status = Some(Default::default());
        with_status.metadata.resource_version = Some("7".into());
        assert_eq!(intent(&plain), intent(&with_status));
        let mut held = plain.clone();
        held.metadata.finalizers = Some(vec!["f".into()]);
        assert_ne!(intent(&plain), intent(&held));
    }
}
