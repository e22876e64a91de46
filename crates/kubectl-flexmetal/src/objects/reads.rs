//! Reads, lists and watches of objects.

use super::{Object, ObjectKind, ObjectName, decode};
use crate::{
    context::{ListScope, PluginContext, api_error, list_pages},
    exit::PluginError,
};
use futures::{StreamExt as _, future::join_all, stream::BoxStream};
use kube::{
    api::DynamicObject,
    runtime::{WatchStreamExt as _, watcher},
};
use std::collections::BTreeMap;

fn decode_dynamic(kind: ObjectKind, object: &DynamicObject) -> serde_json::Result<Object> {
    decode(kind, serde_json::to_value(object)?)
}

/// Reads an object of the context's namespace, or of the cluster. None: there is none of this name.
pub async fn read_object(
    context: &PluginContext,
    kind: ObjectKind,
    name: &str,
) -> Result<Option<Object>, PluginError> {
    let place = describe_place(kind, Some(&context.namespace));
    let failed = |error| api_error(format!("read {} {name}{place}", kind.as_str()), error);
    let objects = kind.objects(context, Some(&context.namespace));
    let found = objects.get_opt(name).await.map_err(failed)?;
    let decoded = found.map(|found| decode_dynamic(kind, &found)).transpose();
    decoded.map_err(|error| failed(kube::Error::SerdeError(error)))
}

/// All objects of a kind in the scope, by namespace and name. The scope of a cluster-wide kind is the cluster.
pub async fn list(
    context: &PluginContext,
    kind: ObjectKind,
    scope: &ListScope,
) -> Result<Vec<Object>, PluginError> {
    let found = list_dynamic(context, kind, scope).await?;
    let decoded = found.iter().map(|object| {
        let failed = |error| {
            let name = object.metadata.name.as_deref().unwrap_or_default();
            let act = format!("decode {} {name}", kind.as_str());
            api_error(act, kube::Error::SerdeError(error))
        };
        decode_dynamic(kind, object).map_err(failed)
    });
    let mut decoded = decoded.collect::<Result<Vec<_>, _>>()?;
    decoded.sort_by(|a, b| (a.namespace(), a.name()).cmp(&(b.namespace(), b.name())));
    Ok(decoded)
}

/// The objects of all kinds in the scope, and the kinds that could not be listed.
pub async fn list_all(
    context: &PluginContext,
    scope: &ListScope,
) -> (Vec<Object>, Vec<(ObjectKind, PluginError)>) {
    let lists = ObjectKind::ALL.map(|kind| list(context, kind, scope));
    let lists = join_all(lists).await;
    let (mut objects, mut failed) = (Vec::new(), Vec::new());
    for (kind, list) in ObjectKind::ALL.into_iter().zip(lists) {
        match list {
            Ok(found) => objects.extend(found),
            Err(error) => failed.push((kind, error)),
        }
    }
    (objects, failed)
}

/// The same as the API server has them, even if they do not fit this version.
pub async fn list_dynamic(
    context: &PluginContext,
    kind: ObjectKind,
    scope: &ListScope,
) -> Result<Vec<DynamicObject>, PluginError> {
    let namespace = scope.namespace.as_deref();
    let act = format!("list {}{}", kind.plural(), describe_place(kind, namespace));
    let objects = kind.objects(context, namespace);
    list_pages(&objects, scope.selector.as_deref(), &act).await
}

/// Where objects are, for messages.
pub fn describe_place(kind: ObjectKind, namespace: Option<&str>) -> String {
    match namespace {
        _ if kind.is_of_cluster() => String::new(),
        Some(namespace) => format!(" in namespace {namespace}"),
        None => " in all namespaces".to_owned(),
    }
}

/// The changes of a kind in the scope, or of one object. After an error it continues, with backoff.
pub fn watch(
    context: &PluginContext,
    kind: ObjectKind,
    scope: &ListScope,
    name: Option<&str>,
) -> BoxStream<'static, watcher::Result<watcher::Event<Object>>> {
    // A watch without an event for the time of a request would end with an error.
    let seconds = u32::try_from(context.request_timeout.as_secs() / 2).unwrap_or(u32::MAX);
    let mut config = watcher::Config::default().timeout(seconds.clamp(1, 290));
    if let Some(selector) = &scope.selector {
        config = config.labels(selector);
    }
    if let Some(name) = name {
        config = config.fields(&format!("metadata.name={name}"));
    }
    let objects = kind.objects(context, scope.namespace.as_deref());
    let events = watcher(objects, config).default_backoff();
    let decoded = events.map(move |event| {
        let decode = |object| {
            let decoded = decode_dynamic(kind, &object);
            decoded.map_err(|error| watcher::Error::WatchFailed(kube::Error::SerdeError(error)))
        };
        Ok(match event? {
            watcher::Event::Apply(object) => watcher::Event::Apply(decode(object)?),
            watcher::Event::Delete(object) => watcher::Event::Delete(decode(object)?),
            watcher::Event::Init => watcher::Event::Init,
            watcher::Event::InitApply(object) => watcher::Event::InitApply(decode(object)?),
            watcher::Event::InitDone => watcher::Event::InitDone,
        })
    });
    decoded.boxed()
}

/// The objects of a watch, as its events show them.
#[derive(Debug, Default)]
pub struct WatchedObjects {
    shown: BTreeMap<ObjectName, Object>,
    /// The objects of a list that is not complete yet.
    listed: BTreeMap<ObjectName, Object>,
    is_listed: bool,
}

impl WatchedObjects {
    /// Takes an event in.
    pub fn apply(&mut self, event: watcher::Event<Object>) {
        match event {
            watcher::Event::Apply(object) => {
                self.shown.insert(object.full_name(), object);
            }
            watcher::Event::Delete(object) => {
                self.shown.remove(&object.full_name());
            }
            watcher::Event::Init => self.listed.clear(),
            watcher::Event::InitApply(object) => {
                self.listed.insert(object.full_name(), object);
            }
            watcher::Event::InitDone => {
                self.shown = std::mem::take(&mut self.listed);
                self.is_listed = true;
            }
        }
    }

    /// Whether a complete list was seen.
    pub fn is_complete(&self) -> bool {
        self.is_listed
    }

    /// The objects, by namespace and name.
    pub fn objects(&self) -> impl Iterator<Item = &Object> {
        self.shown.values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn tag(name: &str, count: i64) -> Object {
        let tag = json!({
            "metadata": {"name": name, "namespace": "a"},
            "spec": {}, "status": {"serverCount": count},
        });
        decode(ObjectKind::ServerTag, tag).unwrap()
    }

    #[test]
    fn new_list_replaces_what_the_watch_missed() {
        use watcher::Event::{Apply, Delete, Init, InitApply, InitDone};
        let mut watched = WatchedObjects::default();
        let shown = |watched: &WatchedObjects| {
            let statuses = watched.objects().map(Object::status);
            let counts = statuses.map(|status| status["serverCount"].as_i64().unwrap());
            counts.collect::<Vec<_>>()
        };
        for event in [Init, InitApply(tag("b", 1)), InitApply(tag("a", 2))] {
            watched.apply(event);
        }
        assert!(!watched.is_complete() && shown(&watched).is_empty());
        watched.apply(InitDone);
        assert!(watched.is_complete());
        assert_eq!(shown(&watched), [2, 1]);
        watched.apply(Apply(tag("a", 3)));
        watched.apply(Delete(tag("b", 1)));
        assert_eq!(shown(&watched), [3]);
        for event in [Init, InitApply(tag("c", 4))] {
            watched.apply(event);
        }
        assert_eq!(shown(&watched), [3], "the list is not complete yet");
        watched.apply(InitDone);
        assert_eq!(shown(&watched), [4]);
    }
}
