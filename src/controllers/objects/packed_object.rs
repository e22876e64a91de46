//! An object as JSON text: decoded, it takes several times the memory, since each optional field and each text costs
//! space. A reconcile decodes it again.

use super::ObservedObject;
use api::{
    Kind,
    kind::{controller, is_ours},
    names::{ANNOTATIONS, LONGEST_OBJECT_NAME},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::core::error_boundary::InvalidObject;
use std::{marker::PhantomData, sync::Arc};

/// Maximum bytes kept of an annotation. Valid values are shorter, and the start of a longer one shows that it is
/// invalid.
const LONGEST_ANNOTATION: usize = 4096;
/// Maximum bytes of all finalizers of an object. An update writes back all of them, so none may be dropped.
const MAX_FINALIZER_BYTES: usize = 16 * 1024;

/// Removes metadata that the operator does not read. Annotations may have up to 256 KiB, such as a copy of the
/// manifest.
pub(in crate::controllers) fn slim(meta: &mut ObjectMeta) {
    slim_but_labels(meta);
    meta.labels = None;
}

/// Does the same for an object whose labels are read.
pub(in crate::controllers) fn slim_but_labels(meta: &mut ObjectMeta) {
    meta.managed_fields = None;
    let owner = controller(meta).filter(|owner| is_ours(owner) && is_short(owner));
    meta.owner_references = owner.cloned().map(|owner| vec![owner]);
    if let Some(annotations) = &mut meta.annotations {
        annotations.retain(|name, _| ANNOTATIONS.contains(&name.as_str()));
        for text in annotations.values_mut() {
            text.truncate(text.floor_char_boundary(LONGEST_ANNOTATION));
            text.shrink_to_fit();
        }
        if annotations.is_empty() {
            meta.annotations = None;
        }
    }
}

/// Whether each field of an owner is at most as long as an object's name may be: the API server allows any length.
fn is_short(owner: &OwnerReference) -> bool {
    let texts = [&owner.api_version, &owner.kind, &owner.name, &owner.uid];
    texts.iter().all(|text| text.len() <= LONGEST_OBJECT_NAME)
}

/// One form of an object, packed.
pub(super) struct PackedObject<K> {
    packed: Packed,
    /// Its resource version.
    version: u64,
    kind: PhantomData<fn() -> K>,
}

#[derive(Clone)]
enum Packed {
    Text(Arc<[u8]>),
    /// Undecodable objects are rare, and keep their error.
    Undecodable(Arc<InvalidObject>),
}

// Not derived: `derive` would require `K: Clone`.
impl<K> Clone for PackedObject<K> {
    fn clone(&self) -> Self {
        Self {
            packed: self.packed.clone(),
            ..*self
        }
    }
}

impl<K: Kind> PackedObject<K> {
    pub(super) fn from_observed(shown: &ObservedObject<K>) -> Self {
        let packed = match shown {
            ObservedObject::Decoded(object) if has_too_much(object.meta()) => {
                too_much(object.meta())
            }
            ObservedObject::Undecodable(object) if has_too_much(&object.metadata) => {
                too_much(&object.metadata)
            }
            ObservedObject::Decoded(object) => match serde_json::to_vec(&**object) {
                Ok(text) => Packed::Text(text.into()),
                Err(error) => invalid(object.meta().clone(), &error),
            },
            ObservedObject::Undecodable(object) => Packed::Undecodable(object.clone()),
        };
        Self {
            packed,
            version: version(shown.meta()),
            kind: PhantomData,
        }
    }

    /// Its metadata.
    pub fn meta(&self) -> ObjectMeta {
        match &self.packed {
            Packed::Undecodable(object) => object.metadata.clone(),
            Packed::Text(text) => metadata(text),
        }
    }

    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// Decodes the object again.
    pub(super) fn unpack(&self) -> ObservedObject<K> {
        match &self.packed {
            Packed::Undecodable(object) => ObservedObject::Undecodable(object.clone()),
            Packed::Text(text) => match serde_json::from_slice(text) {
                Ok(object) => ObservedObject::Decoded(Arc::new(object)),
                // What the same types encoded decodes. If not, the object is left alone and reports the error.
                Err(error) => ObservedObject::Undecodable(Arc::new(InvalidObject {
                    metadata: metadata(text),
                    error: error.to_string(),
                })),
            },
        }
    }
}

fn has_too_much(meta: &ObjectMeta) -> bool {
    let finalizers = meta.finalizers.iter().flatten();
    finalizers.map(|name| name.len() + 3).sum::<usize>() > MAX_FINALIZER_BYTES
}

/// Without its finalizers, and so treated as undecodable.
fn too_much(meta: &ObjectMeta) -> Packed {
    Packed::Undecodable(Arc::new(InvalidObject {
        metadata: ObjectMeta {
            finalizers: None,
            ..meta.clone()
        },
        error: format!(
            "metadata.finalizers has more than {MAX_FINALIZER_BYTES} bytes; remove unused ones"
        ),
    }))
}

fn invalid(metadata: ObjectMeta, error: &serde_json::Error) -> Packed {
    Packed::Undecodable(Arc::new(InvalidObject {
        metadata,
        error: error.to_string(),
    }))
}

fn metadata(text: &[u8]) -> ObjectMeta {
    #[derive(serde::Deserialize)]
    struct WithMetadata {
        metadata: ObjectMeta,
    }
    let object: Result<WithMetadata, _> = serde_json::from_slice(text);
    object.map(|object| object.metadata).unwrap_or_default()
}

/// Resource versions are opaque by contract, but ordered numbers in fact. Any other one counts as the oldest.
pub(super) fn version(meta: &ObjectMeta) -> u64 {
    let version = meta.resource_version.as_deref();
    version.and_then(|v| v.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::{BareMetalServer, ProviderAccount};
    use serde_json::{Value, json};

    /// Packs and unpacks an object. The result must equal the input.
    fn come_back<K: Kind>(written: &Value) {
        let object: K = serde_json::from_value(written.clone()).unwrap();
        let form = PackedObject::from_observed(&ObservedObject::Decoded(Arc::new(object.clone())));
        assert_eq!(form.version(), 7);
        let ObservedObject::Decoded(back) = form.unpack() else {
            panic!("{object:?} does not come back");
        };
        assert_eq!(format!("{back:?}"), format!("{object:?}"));
        assert_eq!(serde_json::to_value(&*back).unwrap(), *written);
    }

    #[test]
    fn packed_object_unpacks_unchanged() {
        let meta = json!({
            "name": "a", "namespace": "n", "uid": "1", "resourceVersion": "7", "generation": 3,
            "creationTimestamp": "2026-11-22T02:55:47Z", "deletionTimestamp": "2026-11-22T03:55:47Z",
            "annotations": {"flexmetal.dev/acknowledge": "AssumeAbsent-42d8fe46"},
            "labels": {"a": "b"}, "finalizers": ["flexmetal.dev/server"],
        });
        let condition = json!({
            "type": "Ready", "status": "True", "reason": "Delivered", "message": "the machine is \"there\"",
            "lastTransitionTime": "2026-11-22T03:09:25Z", "observedGeneration": 3,
        });
        let order = json!({
            "uid": "1", "seq": 1_795_316_915, "nonce": "081f", "sendBy": "2026-11-22T03:08:50Z",
            "hostname": "a", "accountID": "c-11111111aaaa", "outcome": "Created", "server": "01a2",
            "outcomeAt": "2026-11-22T03:08:40Z", "answerLost": true, "lost": 1, "cut": 1, "failures": 2,
            "acknowledgement": "t", "requestHash": "0e84bc3231763920", "message": "m",
            "sent": {"sshKeys": "73dc2a21"}, "location": "l", "instanceType": "t",
        });
        come_back::<BareMetalServer>(&json!({
            "apiVersion": "flexmetal.dev/v1alpha1", "kind": "BareMetalServer", "metadata": meta,
            "spec": {
                "location": "EU: Rotterdam", "instanceType": "bm7.std.8", "hostname": "ä",
                "os": {"slug": "ubuntu-2404-lts"}, "tags": ["team:bench"], "overflow": false,
                "sshKeys": [{"publicKey": "ssh-ed25519 AAAA bench@example.com"}],
                "deletionPolicy": "Release", "deletionProtection": true, "suspend": false,
            },
            "status": {
                "observedGeneration": 3, "conditions": [condition],
                "providerStatus": "delivered", "statusMessage": "m", "duplicateUUIDs": ["2"],
                "uuid": "01a201a7-e71f-7566-bb61-639de35a7c02",
                "addresses": [{"type": "ExternalIP", "address": "198.18.34.252"}],
                "accountRef": {"kind": "ProviderAccount", "name": "default"},
                "createdAt": "2026-11-22T05:08:30Z", "deliveredAt": "2026-11-22T05:12:51Z",
                "location": "l", "instanceType": "t", "os": "o", "hostname": "a", "contractID": "C",
                "records": {"order": order},
            },
        }));
    }

    #[test]
    fn one_that_does_not_decode_keeps_its_error() {
        let invalid = InvalidObject {
            metadata: serde_json::from_value(json!({"name": "a", "resourceVersion": "7"})).unwrap(),
            error: "no".into(),
        };
        let shown: ObservedObject<ProviderAccount> = ObservedObject::Undecodable(Arc::new(invalid));
        let ObservedObject::Undecodable(back) = PackedObject::from_observed(&shown).unpack() else {
            panic!("it decodes");
        };
        assert_eq!(back.error, "no");
        assert_eq!(back.metadata.name.as_deref(), Some("a"));
    }

    #[test]
    fn object_with_too_many_finalizers_becomes_undecodable() {
        for (count, is_kept) in [(300, true), (3000, false)] {
            let finalizers: Vec<String> = (0..count).map(|n| format!("example.com/{n}")).collect();
            let object: BareMetalServer = serde_json::from_value(json!({
                "apiVersion": "flexmetal.dev/v1alpha1", "kind": "BareMetalServer",
                "metadata": {"name": "a", "namespace": "n", "uid": "1", "finalizers": finalizers},
                "spec": {"location": "x", "instanceType": "x", "os": {"slug": "x"}},
            }))
            .unwrap();
            let form = PackedObject::from_observed(&ObservedObject::Decoded(Arc::new(object)));
            match form.unpack() {
                ObservedObject::Decoded(_) => assert!(is_kept, "{count}"),
                ObservedObject::Undecodable(object) => {
                    assert!(!is_kept, "{count}: {}", object.error);
                    assert!(object.error.contains("metadata.finalizers"));
                    assert_eq!(object.metadata.finalizers, None);
                }
            }
        }
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
        let applied = "kubectl.kubernetes.io/last-applied-configuration";
        let own = json!({"flexmetal.dev/acknowledge": "{}"});
        let mut both = meta(
            json!({applied: "{}", "flexmetal.dev/acknowledge": "{}", "a": "b"}),
            true,
        );
        both.labels = Some([("a".to_owned(), "b".to_owned())].into());
        let mut labelled = both.clone();
        slim_but_labels(&mut labelled);
        assert_eq!(labelled.labels, both.labels);
        slim(&mut both);
        assert_eq!(both, meta(own, false));
        labelled.labels = None;
        assert_eq!(labelled, both, "labels, and only they, are kept");
        // A much too long annotation is cut, not removed, so that it still counts as set.
        let mut long = meta(
            json!({"flexmetal.dev/acknowledge": "ä".repeat(10_000)}),
            false,
        );
        slim(&mut long);
        let left = long.annotations.unwrap_or_default();
        assert_eq!(left["flexmetal.dev/acknowledge"], "ä".repeat(2048));
        for annotations in [
            json!({applied: "{}"}),
            json!({"flexmetal.dev/other": "x"}),
            json!({}),
        ] {
            let mut alone = meta(annotations, true);
            slim(&mut alone);
            assert_eq!(alone.annotations, None);
        }
    }

    #[test]
    fn only_our_controller_owner_reference_is_kept() {
        let owner = |name: &str, version: &str, controller: Option<bool>| {
            json!({
                "apiVersion": version, "kind": "BareMetalServer", "name": name, "uid": "1",
                "controller": controller,
            })
        };
        let left = |owners: Value| {
            let mut meta: ObjectMeta =
                serde_json::from_value(json!({"ownerReferences": owners})).unwrap();
            slim(&mut meta);
            meta.owner_references
                .map(|all| all.into_iter().map(|owner| owner.name).collect::<Vec<_>>())
        };
        let ours = owner("web", "flexmetal.dev/v1alpha1", Some(true));
        let others = [
            owner("other", "flexmetal.dev/v1alpha1", None),
            owner("app", "apps/v1", Some(true)),
            owner(&"x".repeat(254), "flexmetal.dev/v1alpha1", Some(true)),
        ];
        for other in &others {
            assert_eq!(left(json!([other])), None, "{other}");
        }
        // The API server allows at most one controller.
        let [other, ..] = others;
        assert_eq!(left(json!([other, ours])), Some(vec!["web".to_owned()]));
    }
}
