//! References from one object to another. None of them has a namespace field.

use kube_core::Rule;
use kube_derive::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The name of an object (RFC 1123). Any other would change the path of a request.
pub(super) const OBJECT_NAME: &str =
    r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";

/// The key in a Secret or ConfigMap.
pub(super) const OBJECT_KEY: &str = r"^[-._a-zA-Z0-9]+$";

/// A host name.
pub(super) const HOST_NAME: &str = r"^[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*$";

/// Kinds of account that an object can use.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    JsonSchema,
)]
pub enum AccountKind {
    /// An account in the object's own namespace.
    #[default]
    ProviderAccount,
    /// An account for the namespaces that it allows.
    ClusterProviderAccount,
}

impl AccountKind {
    /// The kind's name as written in manifests.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ProviderAccount => "ProviderAccount",
            Self::ClusterProviderAccount => "ClusterProviderAccount",
        }
    }
}

/// Names the account that an object belongs to. Default: the ProviderAccount `default` of the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct AccountRef {
    /// Kind of the account: `ProviderAccount` (in the same namespace) or `ClusterProviderAccount`. Default: `ProviderAccount`. Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "AccountKind")]
    pub kind: Option<AccountKind>,
    /// Name of the account. Default: `default`. Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253), regex(pattern = OBJECT_NAME))]
    pub name: Option<String>,
}

/// The rule that the account reference is immutable, with an unset field compared by its default. `noun`: what a user
/// creates instead.
pub(super) fn account_stays(noun: &str) -> Rule {
    let kind = |spec: &str| {
        format!(
            "(has({spec}.accountRef) && has({spec}.accountRef.kind) ? {spec}.accountRef.kind : 'ProviderAccount')"
        )
    };
    let name = |spec: &str| {
        format!(
            "(has({spec}.accountRef) && has({spec}.accountRef.name) ? {spec}.accountRef.name : 'default')"
        )
    };
    let (is, was) = ("self", "oldSelf");
    let (kind, previous_kind) = (kind(is), kind(was));
    let (name, previous_name) = (name(is), name(was));
    Rule::new(format!(
        "{kind} == {previous_kind} && {name} == {previous_name}"
    ))
    .message(&*format!(
        "accountRef is immutable; create a new {noun} instead"
    ))
    .field_path(".accountRef")
}

/// The account that a reference points to.
#[derive(
    Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct PinnedAccount {
    /// Kind of the account.
    pub kind: AccountKind,
    /// Name of the account.
    #[schemars(length(max = 253))]
    pub name: String,
}

impl PinnedAccount {
    /// The account that a reference names, with the defaults. The rule that keeps it immutable has the same defaults.
    pub fn from_reference(reference: Option<&AccountRef>) -> Self {
        let kind = reference.and_then(|r| r.kind).unwrap_or_default();
        let name = reference.and_then(|r| r.name.as_deref());
        let name = name.unwrap_or("default").to_owned();
        Self { kind, name }
    }

    /// The account of an object: the one pinned in status, else the one that its reference names.
    pub fn in_force(pinned: Option<&Self>, reference: Option<&AccountRef>) -> Self {
        pinned.map_or_else(|| Self::from_reference(reference), Self::clone)
    }
}

/// One key of a Secret or ConfigMap in the same namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct KeySelector {
    /// Name of the Secret or ConfigMap.
    #[schemars(length(min = 1, max = 253), regex(pattern = OBJECT_NAME))]
    pub name: String,
    /// Key in the Secret or ConfigMap.
    #[schemars(length(min = 1, max = 253), regex(pattern = OBJECT_KEY))]
    pub key: String,
}

/// Where a value lies: exactly one of the two.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[x_kube(validation = Rule::new("has(self.secretKeyRef) != has(self.configMapKeyRef)").message("set exactly one of secretKeyRef and configMapKeyRef"))]
#[serde(rename_all = "camelCase")]
pub struct ValueLocation {
    /// Key of a Secret in the same namespace. The type of the Secret may not be `flexmetal.dev/api-key` or
    /// `kubernetes.io/service-account-token`. Default: none. Mutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_key_ref: Option<KeySelector>,
    /// Key of a ConfigMap in the same namespace. Default: none. Mutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map_key_ref: Option<KeySelector>,
}

/// Names an SshKey of the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct SshKeyRef {
    /// Name of the SshKey. Required.
    #[schemars(length(min = 1, max = 253), regex(pattern = OBJECT_NAME))]
    pub name: String,
}

/// One SSH key for the root user. Exactly one of the five fields must be set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[x_kube(validation = Rule::new("[has(self.sshKeyRef), has(self.publicKey), has(self.uuid), has(self.secretKeyRef), has(self.configMapKeyRef)].filter(x, x).size() == 1").message("set exactly one of sshKeyRef, publicKey, uuid, secretKeyRef, configMapKeyRef"))]
#[serde(rename_all = "camelCase")]
pub struct SshKeySource {
    /// SshKey in the same namespace, stored in the account of the server. The order waits until it is stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssh_key_ref: Option<SshKeyRef>,
    /// Public key in OpenSSH format: one line of at most 4096 characters, with or without a line break at its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 4096), regex(pattern = r"^[^\r\n]+\n?$"))]
    pub public_key: Option<String>,
    /// UUID of a key that is stored at the provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(max = 36),
        regex(pattern = r"^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$")
    )]
    pub uuid: Option<String>,
    /// Key of a Secret in the same namespace that has a public key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_key_ref: Option<KeySelector>,
    /// Key of a ConfigMap in the same namespace that has a public key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map_key_ref: Option<KeySelector>,
}

impl SshKeySource {
    /// The name of the SshKey, if it refers to one.
    pub fn named(&self) -> Option<&str> {
        self.ssh_key_ref.as_ref().map(|key| key.name.as_str())
    }
}

/// Whether an object can have this name (RFC 1123). Any other would change the path of a request.
pub fn is_object_name(name: &str) -> bool {
    let is_label = |label: &str| {
        let is_inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        !label.is_empty()
            && label.bytes().all(is_inner)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    name.len() <= 253 && name.split('.').all(is_label)
}
