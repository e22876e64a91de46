//! `spec.outputs`: where the operator writes a server's data for other programs.

use super::{address::AddressType, references::OBJECT_NAME, server::BareMetalServerStatus};
use kube_derive::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Where the identifiers and addresses of a server are written: a ConfigMap, a Secret, or both.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[x_kube(validation = Rule::new("has(self.configMapRef) || has(self.secretRef)").message("set configMapRef, secretRef or both"))]
#[serde(rename_all = "camelCase")]
pub struct Outputs {
    /// ConfigMap to write. It may not exist before, and is deleted with this object. Default: none. Mutable; the
    /// previous ConfigMap stays as it is until this object is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map_ref: Option<OutputRef>,
    /// Secret to write, of type `flexmetal.dev/output`. It may not exist before, and is deleted with this object.
    /// Default: none. Mutable; the previous Secret stays as it is until this object is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<OutputRef>,
}

/// A ConfigMap or Secret of the same namespace that the operator writes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct OutputRef {
    /// Name of the ConfigMap or Secret.
    #[schemars(length(min = 1, max = 253), regex(pattern = OBJECT_NAME))]
    pub name: String,
}

/// Where a server's data is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum OutputKind {
    /// A ConfigMap.
    ConfigMap,
    /// A Secret.
    Secret,
}

/// A ConfigMap or Secret with our finalizer, recorded before it is created.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct OutputRecord {
    /// Its kind.
    pub kind: OutputKind,
    /// Name of the ConfigMap or Secret.
    pub name: String,
}

impl OutputKind {
    /// The kind, as in manifests.
    pub fn kind(self) -> &'static str {
        match self {
            Self::ConfigMap => "ConfigMap",
            Self::Secret => "Secret",
        }
    }

    /// The field of the spec that names it.
    pub fn field(self) -> &'static str {
        match self {
            Self::ConfigMap => "spec.outputs.configMapRef",
            Self::Secret => "spec.outputs.secretRef",
        }
    }
}

impl Outputs {
    /// The outputs that the spec names.
    pub fn named(&self) -> impl Iterator<Item = (OutputKind, &str)> {
        let config_map = self.config_map_ref.as_ref();
        let config_map = config_map.map(|at| (OutputKind::ConfigMap, at.name.as_str()));
        let secret = self.secret_ref.as_ref();
        let secret = secret.map(|at| (OutputKind::Secret, at.name.as_str()));
        config_map.into_iter().chain(secret)
    }
}

/// The data of a server's status, by key. A key without a known value is absent.
pub fn entries(status: &BareMetalServerStatus) -> BTreeMap<String, String> {
    let all: Vec<&str> = status
        .addresses
        .iter()
        .map(|a| a.address.as_str())
        .collect();
    let first = |kind: AddressType| {
        let found = status.addresses.iter().find(|a| a.kind == kind);
        found.map(|a| a.address.clone())
    };
    let known = [
        ("uuid", status.uuid.clone()),
        ("providerID", status.provider_id.clone()),
        ("hostname", status.hostname.clone()),
        ("addresses", (!all.is_empty()).then(|| all.join(","))),
        ("externalIP", first(AddressType::ExternalIP)),
        ("internalIP", first(AddressType::InternalIP)),
        ("location", status.location.clone()),
        ("instanceType", status.instance_type.clone()),
    ];
    let entries = known
        .into_iter()
        .filter_map(|(key, value)| Some((key.to_owned(), value?)));
    entries.collect()
}
