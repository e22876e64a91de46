//! An object at rest: packed, since most objects rest most of the time.
//!
//! A decoded object takes several times the memory of its text: each of its many optional fields has a
//! place, and each text and map is an allocation of its own. So an entry keeps the text alone, and a
//! pass, which needs the object for moments, decodes it again.

use super::Shown;
use crate::kinds::Kind;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::error_boundary::InvalidObject;
use std::{marker::PhantomData, sync::Arc};

/// What `kubectl apply` keeps for itself: the whole manifest once more.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Takes off what nobody here reads and what weighs as much as all the rest.
pub(in crate::controllers) fn slim(meta: &mut ObjectMeta) {
    meta.managed_fields = None;
    if let Some(annotations) = &mut meta.annotations
        && annotations.remove(LAST_APPLIED).is_some()
        && annotations.is_empty()
    {
        meta.annotations = None;
    }
}

/// One form of an object, packed.
pub(super) struct Form<K> {
    packed: Packed,
    /// Its resource version.
    version: u64,
    kind: PhantomData<fn() -> K>,
}

#[derive(Clone)]
enum Packed {
    Text(Arc<[u8]>),
    /// One that does not decode is rare, and keeps its error.
    Undecodable(Arc<InvalidObject>),
}

// Not derived: that would ask for the same of K.
impl<K> Clone for Form<K> {
    fn clone(&self) -> Self {
        Self {
            packed: self.packed.clone(),
            ..*self
        }
    }
}

impl<K: Kind> Form<K> {
    pub(super) fn of(shown: &Shown<K>) -> Self {
        let packed = match shown {
            Shown::Decoded(object) => match serde_json::to_vec(&**object) {
                Ok(text) => Packed::Text(text.into()),
                Err(error) => invalid(object.meta().clone(), &error),
            },
            Shown::Undecodable(object) => Packed::Undecodable(object.clone()),
        };
        Self {
            packed,
            version: version(shown.meta()),
            kind: PhantomData,
        }
    }

    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// The object as it was packed.
    pub(super) fn shown(&self) -> Shown<K> {
        match &self.packed {
            Packed::Undecodable(object) => Shown::Undecodable(object.clone()),
            Packed::Text(text) => match serde_json::from_slice(text) {
                Ok(object) => Shown::Decoded(Arc::new(object)),
                // What was decoded and encoded by the same types decodes. Should it not, nothing
                // is done to the object, and it is told on the object itself.
                Err(error) => Shown::Undecodable(Arc::new(InvalidObject {
                    metadata: metadata(text),
                    error: error.to_string(),
                })),
            },
        }
    }
}

fn invalid(metadata: ObjectMeta, error: &serde_json::Error) -> Packed {
    Packed::Undecodable(Arc::new(InvalidObject {
        metadata,
        error: error.to_string(),
    }))
}

fn metadata(text: &[u8]) -> ObjectMeta {
    #[derive(serde::Deserialize)]
    struct Object {
        metadata: ObjectMeta,
    }
    let object: Result<Object, _> = serde_json::from_slice(text);
    object.map(|object| object.metadata).unwrap_or_default()
}

/// Resource versions are opaque by contract and ordered numbers in fact; one that is no number
/// counts as oldest.
pub(super) fn version(meta: &ObjectMeta) -> u64 {
    let version = meta.resource_version.as_deref();
    version.and_then(|v| v.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::{BareMetalServer, ClusterProviderAccount, ProviderAccount};
    use serde_json::{Value, json};

    /// Every field of an object that people or we write, as far as examples and tests go.
    fn manifests(kind: &str) -> Vec<Value> {
        let folders = ["examples", "tests/fixtures"];
        let mut found = Vec::new();
        let mut folders: Vec<_> = folders.iter().map(std::path::PathBuf::from).collect();
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|e| e == "yaml") {
                    let text = std::fs::read_to_string(&path).unwrap();
                    let all: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap_or_default();
                    found.extend(all.into_iter().filter(|object| object["kind"] == kind));
                }
            }
        }
        found
    }

    fn come_back<K: Kind>(kind: &str) -> usize {
        let decodes = |object: Value| serde_json::from_value::<K>(object).ok();
        let objects: Vec<K> = manifests(kind).into_iter().filter_map(decodes).collect();
        for object in &objects {
            let shown = Shown::Decoded(Arc::new(object.clone()));
            let Shown::Decoded(back) = Form::of(&shown).shown() else {
                panic!("{object:?} does not come back");
            };
            assert_eq!(format!("{back:?}"), format!("{object:?}"));
        }
        objects.len()
    }

    #[test]
    fn an_object_comes_back_as_it_was() {
        assert!(come_back::<BareMetalServer>("BareMetalServer") > 10);
        assert!(come_back::<ProviderAccount>("ProviderAccount") > 3);
        assert!(come_back::<ClusterProviderAccount>("ClusterProviderAccount") > 0);
    }

    #[test]
    fn only_what_nobody_reads_is_taken_off() {
        let meta = |annotations: Value, managed: bool| -> ObjectMeta {
            let mut meta = json!({"name": "a", "annotations": annotations});
            if managed {
                meta["managedFields"] = json!([{"manager": "kubectl"}]);
            }
            serde_json::from_value(meta).unwrap()
        };
        let mut both = meta(json!({LAST_APPLIED: "{}", "a": "b"}), true);
        slim(&mut both);
        assert_eq!(both, meta(json!({"a": "b"}), false));
        let mut alone = meta(json!({LAST_APPLIED: "{}"}), true);
        slim(&mut alone);
        assert_eq!(alone.annotations, None);
        let mut other = meta(json!({}), false);
        slim(&mut other);
        assert_eq!(other, meta(json!({}), false));
    }
}
