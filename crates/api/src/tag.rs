//! `ServerTag`: one tag of an account.

use super::{
    bounds::LONGEST_REQUEST,
    kind::Kind,
    references::{AccountRef, PinnedAccount, account_stays},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube_derive::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One tag of an account. Servers can have it.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "flexmetal.dev",
    version = "v1alpha1",
    kind = "ServerTag",
    plural = "servertags",
    singular = "servertag",
    shortname = "stag",
    category = "flexmetal",
    namespaced,
    status = "ServerTagStatus",
    derive = "PartialEq",
    selectable = ".status.accountRef.kind",
    selectable = ".status.accountRef.name",
    selectable = ".status.tag",
    doc = "One tag of an account. Servers can have it.",
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status",
        description = "Whether the tag in the account matches the spec."
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].reason",
        description = "Why the tag is ready or not."
    ),
    printcolumn(
        name = "Tag",
        type_ = "string",
        json_path = ".status.tag",
        description = "The tag at the provider."
    ),
    printcolumn(
        name = "Servers",
        type_ = "integer",
        json_path = ".status.serverCount",
        description = "Number of servers that have the tag."
    ),
    printcolumn(
        name = "Synced",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Synced\")].status",
        priority = 1,
        description = "Whether the last exchange with the provider worked and nothing is left to send."
    ),
    printcolumn(
        name = "Own",
        type_ = "boolean",
        json_path = ".status.createdByObject",
        priority = 1,
        description = "Whether this object created the tag."
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
#[kube(validation = Rule::new("has(self.spec.tag) || self.metadata.name.matches('^[A-Za-z0-9_:-]{1,64}$')").message("metadata.name is not a valid tag; set spec.tag to letters, digits, _, : and -, at most 64"))]
#[kube(validation = Rule::new("!(has(self.spec.tag) ? self.spec.tag : self.metadata.name).startsWith('fmo-')").message("tag may not start with fmo-, which is reserved for the operator; set spec.tag to another one"))]
#[kube(validation = Rule::new("(has(self.spec.tag) ? self.spec.tag : self.metadata.name) == (has(oldSelf.spec.tag) ? oldSelf.spec.tag : self.metadata.name) || (has(self.spec.renamePolicy) && self.spec.renamePolicy == 'Rename')").message("tag may change with renamePolicy: Rename only").field_path(".spec.tag"))]
#[x_kube(validation = account_stays("tag"))]
#[serde(rename_all = "camelCase")]
pub struct ServerTagSpec {
    /// Account that the tag belongs to. Default: the ProviderAccount `default` in this namespace. Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account_ref: Option<AccountRef>,

    /// The tag: letters, digits, `_`, `:` and `-`, at most 64 characters. It may not start with `fmo-`. Default: the
    /// name of the object. Mutable with `renamePolicy: Rename`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64), regex(pattern = r"^[A-Za-z0-9_:-]{1,64}$"))]
    pub tag: Option<String>,

    /// What a change of the tag does: `Forbid` rejects it, `Rename` renames the tag in the account. List the new tag in
    /// `spec.tags` of the servers first. Default: `Forbid`. Mutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "RenamePolicy")]
    pub rename_policy: Option<RenamePolicy>,

    /// What happens to the tag when the object is deleted: `Delete` or `Retain`. Default: `Delete` if this object
    /// created the tag, else `Retain`. Mutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "TagDeletionPolicy")]
    pub deletion_policy: Option<TagDeletionPolicy>,

    /// Whether the tag is deleted while servers have it, which may remove it from them. Only for an account in this
    /// namespace. Default: false; the deletion waits until no server has the tag. Mutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub force: Option<bool>,
}

/// What a change of the tag does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RenamePolicy {
    /// It is refused.
    #[default]
    Forbid,
    /// The tag is renamed in the account.
    Rename,
}

/// What happens to the tag when the object is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TagDeletionPolicy {
    /// It leaves the account.
    Delete,
    /// It stays.
    Retain,
}

/// Observed state of the tag. Only the operator writes it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ServerTagStatus {
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

    /// The tag in the account.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub tag: Option<String>,

    /// Whether this object created the tag; false if the tag existed before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_by_object: Option<bool>,

    /// Number of servers that had the tag when the operator last read the account.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_count: Option<i32>,

    /// Value of the annotation `flexmetal.dev/reconcile-requested-at`, or else `reconcile.fluxcd.io/requestedAt`, for
    /// which the operator last read the account.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = LONGEST_REQUEST))]
    pub last_handled_reconcile_at: Option<String>,
}

/// The annotation that is written before a tag is created or renamed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TagAnnotation {
    /// UID of the object: a copied object has created nothing.
    pub uid: String,
    /// ID of the account: another account has other tags.
    #[serde(rename = "accountID")]
    pub account_id: String,
    /// The tag that is created, or the new name of another tag.
    pub tag: String,
    /// The tag that is renamed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Whether this object creates the tag, or has created the one that it renames.
    pub made: bool,
}

impl ServerTag {
    /// The tag that the object declares.
    pub fn wanted(&self) -> &str {
        let name = self.metadata.name.as_deref();
        let tag = self.spec.tag.as_deref().or(name);
        tag.unwrap_or_default()
    }

    /// The account that the tag belongs to.
    pub fn account(&self) -> PinnedAccount {
        let pinned = self.status.as_ref().and_then(|s| s.account_ref.as_ref());
        PinnedAccount::in_force(pinned, self.spec.account_ref.as_ref())
    }
}

impl Kind for ServerTag {
    fn conditions(status: &Self::Status) -> &[Condition] {
        &status.conditions
    }

    fn conditions_mut(status: &mut Self::Status) -> (&mut Option<i64>, &mut Vec<Condition>) {
        (&mut status.observed_generation, &mut status.conditions)
    }

    fn exists(status: &Self::Status) -> bool {
        status.tag.is_some()
    }

    fn handled(status: &mut Self::Status) -> &mut Option<String> {
        &mut status.last_handled_reconcile_at
    }
}
