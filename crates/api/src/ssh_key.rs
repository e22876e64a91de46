//! `SshKey`: a public key that is stored at the provider, for servers to refer to by name.

use super::{
    bounds::LONGEST_REQUEST,
    kind::Kind,
    records::{self, SshKeyRecords},
    references::{AccountRef, PinnedAccount, account_stays},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube_derive::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One public SSH key, stored once at the provider. Servers in the same namespace and account refer to it by name.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "flexmetal.dev",
    version = "v1alpha1",
    kind = "SshKey",
    plural = "sshkeys",
    singular = "sshkey",
    shortname = "skey",
    category = "flexmetal",
    namespaced,
    status = "SshKeyStatus",
    derive = "PartialEq",
    selectable = ".status.accountRef.kind",
    selectable = ".status.accountRef.name",
    selectable = ".status.uuid",
    selectable = ".status.fingerprint",
    doc = "One public SSH key, stored once at the provider. Servers in the same namespace and account refer to it by name.",
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status",
        description = "Whether the stored key matches the spec."
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].reason",
        description = "Why the key is ready or not."
    ),
    printcolumn(
        name = "Fingerprint",
        type_ = "string",
        json_path = ".status.fingerprint",
        description = "Fingerprint of the stored key, as `ssh-keygen -l` shows it."
    ),
    printcolumn(
        name = "Synced",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Synced\")].status",
        priority = 1,
        description = "Whether the last exchange with the provider worked and nothing is left to send."
    ),
    printcolumn(
        name = "UUID",
        type_ = "string",
        json_path = ".status.uuid",
        priority = 1,
        description = "The provider's UUID of the stored key."
    ),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].message",
        priority = 1,
        description = "Message of the condition Ready."
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp",
        description = "Age of the object."
    )
)]
#[x_kube(validation = account_stays("key"))]
#[serde(rename_all = "camelCase")]
pub struct SshKeySpec {
    /// Account that stores the key. Default: the ProviderAccount `default` in this namespace. Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account_ref: Option<AccountRef>,

    /// Public key, one line in OpenSSH format without options: algorithm, key and an optional comment, at most 4096
    /// characters. Never a private key. Required. Immutable; for another key, create a new SshKey and name it in the
    /// servers.
    #[schemars(length(min = 1, max = 4096))]
    #[x_kube(validation = Rule::new("!self.contains('PRIVATE KEY')").message("publicKey may not be a private key; set the public one, from the file that ends in .pub, and make a new pair if others could read this"))]
    #[x_kube(validation = Rule::new(r"self.contains('PRIVATE KEY') || self.matches(r'^(ssh|ecdsa|sk-ssh|sk-ecdsa)-[A-Za-z0-9@.-]+ +AAAA[A-Za-z0-9+/]+={0,2}( +[^\r\n]*)?\n?$')").message("publicKey must be one line in OpenSSH format without options: algorithm, key, comment"))]
    #[x_kube(validation = Rule::new("self == oldSelf").message("publicKey is immutable; create a new SshKey, and name it in the servers"))]
    pub public_key: String,

    /// What happens to the stored key when the object is deleted: `Delete` or `Retain`. The deletion does not wait for
    /// objects that refer to the key. Only a key that this object stored is ever deleted, and not while another SshKey
    /// of the account has the same key. Default: `Retain`. Mutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "KeyDeletionPolicy")]
    pub deletion_policy: Option<KeyDeletionPolicy>,
}

/// What happens to a stored key when its object is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum KeyDeletionPolicy {
    /// It is deleted at the provider, if this object stored it and no other SshKey of the account has the same key.
    Delete,
    /// It stays at the provider.
    #[default]
    Retain,
}

/// Observed state of the stored key. Only the operator writes it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SshKeyStatus {
    /// Generation of the spec that this status describes; -1 before the first reconcile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// Ready, Reconciling and Stalled, as kstatus reads them; Synced. Suspended and DeletionBlocked are absent until
    /// they are first True.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,

    /// Account that `spec.accountRef` referred to when the object was first reconciled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub account_ref: Option<PinnedAccount>,

    /// The provider's UUID of the stored key, which orders of servers name.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 36))]
    pub uuid: Option<String>,

    /// Fingerprint of the key with this identifier, as `ssh-keygen -l` shows it: `SHA256:` and 43 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub fingerprint: Option<String>,

    /// Whether this object stored the key. A key that existed before is used and never deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_by_object: Option<bool>,

    /// Value of the annotation `flexmetal.dev/reconcile-requested-at`, or else `reconcile.fluxcd.io/requestedAt`, for
    /// which the operator last read the account.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = LONGEST_REQUEST))]
    pub last_handled_reconcile_at: Option<String>,

    /// Internal records of the operator. Their format changes without notice. Do not change them.
    #[serde(skip_serializing_if = "records::is_unset")]
    #[schemars(schema_with = "records::schema")]
    pub records: SshKeyRecords,
}

/// The annotation that is written before a key is stored: the call may have been made.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredKeyAnnotation {
    /// UID of the object: a copied object has stored nothing.
    pub uid: String,
    /// ID of the account that gets the key.
    #[serde(rename = "accountID")]
    pub account_id: String,
}

impl Kind for SshKey {
    fn conditions(status: &Self::Status) -> &[Condition] {
        &status.conditions
    }

    fn conditions_mut(status: &mut Self::Status) -> (&mut Option<i64>, &mut Vec<Condition>) {
        (&mut status.observed_generation, &mut status.conditions)
    }

    fn exists(status: &Self::Status) -> bool {
        status.uuid.is_some()
    }

    fn handled(status: &mut Self::Status) -> &mut Option<String> {
        &mut status.last_handled_reconcile_at
    }
}
