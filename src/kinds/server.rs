//! `BareMetalServer`: one on-demand server.

use super::kind::{Kind, namespaced};
use super::references::{AccountKind, AccountRef, SshKeySource};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{Api, Client, CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One on-demand bare-metal server: ordered once, kept, released when the object is deleted.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "flexmetal.dev",
    version = "v1alpha1",
    kind = "BareMetalServer",
    plural = "baremetalservers",
    singular = "baremetalserver",
    shortname = "bms",
    category = "flexmetal",
    namespaced,
    status = "BareMetalServerStatus",
    derive = "PartialEq",
    selectable = ".spec.location",
    selectable = ".spec.instanceType",
    selectable = ".status.uuid",
    selectable = ".status.providerStatus",
    doc = "One on-demand bare-metal server: ordered once, kept, released when the object is deleted.",
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status",
        description = "Whether the server is usable and as declared."
    ),
    printcolumn(
        name = "Status",
        type_ = "string",
        json_path = ".status.providerStatus",
        description = "The provider's word for the server's state."
    ),
    printcolumn(
        name = "IP",
        type_ = "string",
        json_path = ".status.addresses[0].address",
        description = "First address of the server."
    ),
    printcolumn(
        name = "Type",
        type_ = "string",
        json_path = ".spec.instanceType",
        description = "Instance type."
    ),
    printcolumn(
        name = "Location",
        type_ = "string",
        json_path = ".spec.location",
        description = "Location."
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp",
        description = "Age of the object."
    ),
    printcolumn(
        name = "OS",
        type_ = "string",
        json_path = ".spec.os.slug",
        priority = 1,
        description = "Operating system."
    ),
    printcolumn(
        name = "UUID",
        type_ = "string",
        json_path = ".status.uuid",
        priority = 1,
        description = "The provider's identifier of the server."
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].reason",
        priority = 1,
        description = "Why the server is ready or not."
    ),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].message",
        priority = 1,
        description = "The reason in words."
    )
)]
#[kube(validation = Rule::new("self.metadata.name.size() <= 200").message("metadata.name is longer than 200 characters"))]
#[kube(validation = Rule::new("has(self.spec.hostname) || !self.metadata.name.matches('[^.]{64}')").message("metadata.name is no host name, a part of it is longer than 63 characters: set spec.hostname"))]
#[x_kube(validation = Rule::new("has(self.accountRef) == has(oldSelf.accountRef) && (!has(self.accountRef) || self.accountRef == oldSelf.accountRef)").message("accountRef is immutable: create a new server instead").field_path(".accountRef"))]
#[x_kube(validation = Rule::new("self.location == oldSelf.location").message("location is immutable: create a new server instead").field_path(".location"))]
#[x_kube(validation = Rule::new("self.instanceType == oldSelf.instanceType").message("instanceType is immutable: create a new server instead").field_path(".instanceType"))]
#[x_kube(validation = Rule::new("has(self.contractId) == has(oldSelf.contractId) && (!has(self.contractId) || self.contractId == oldSelf.contractId)").message("contractId is immutable: create a new server instead").field_path(".contractId"))]
#[x_kube(validation = Rule::new("self.overflow == oldSelf.overflow").message("overflow is immutable: create a new server instead").field_path(".overflow"))]
#[serde(rename_all = "camelCase")]
pub struct BareMetalServerSpec {
    /// The account that pays. Default: the ProviderAccount `default` of this namespace. Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account_ref: Option<AccountRef>,

    /// Name of the location, as the provider lists it, for example `EU: Rotterdam`. Immutable.
    #[schemars(length(min = 1, max = 128))]
    pub location: String,

    /// Name of the instance type, for example `bm7.std.8`. Immutable.
    #[schemars(length(min = 1, max = 128))]
    pub instance_type: String,

    /// Host name of the server. Default: the object's name. A change after the order is reported as pending and sends nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 253),
        regex(
            pattern = r"^[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*$"
        )
    )]
    pub hostname: Option<String>,

    /// The operating system to install. A change after the order is reported as pending and sends nothing.
    pub os: OperatingSystem,

    /// SSH keys for the root user, at most 50. Default: none (for Windows and for systems without a shell).
    /// A change after the order is reported as pending and sends nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50))]
    pub ssh_keys: Vec<SshKeySource>,

    /// Tags of the server, at most 57; the prefix `fmo-` is the operator's own. Default: none.
    /// A change after the order is reported as pending and sends nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 57),
        inner(length(min = 1, max = 64), regex(pattern = r"^[A-Za-z0-9_:-]{1,64}$"))
    )]
    #[x_kube(merge_strategy = ListMerge::Set)]
    #[x_kube(validation = Rule::new("self.all(t, !t.startsWith('fmo-'))").message("tags must not begin with the reserved prefix fmo-"))]
    pub tags: Vec<String>,

    /// Contract whose committed quota pays for the server. Default: none, the on-demand pool. Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 240), regex(pattern = r"^[A-Z0-9_.-]{0,240}$"))]
    pub contract_id: Option<String>,

    /// Whether the on-demand pool may be used when the committed quota is used up. Default: false. Immutable.
    #[serde(default)]
    pub overflow: bool,

    /// What happens to the machine when the object is deleted: `Release` (default) or `Retain`. Mutable until the release has begun.
    #[serde(default)]
    pub deletion_policy: DeletionPolicy,

    /// While true, a deletion of the object is held and the machine stays. Default: false. Mutable.
    #[serde(default)]
    pub deletion_protection: bool,

    /// While true, nothing is ordered or released for this object; reading goes on. Default: false. Mutable.
    #[serde(default)]
    pub suspend: bool,
}

/// An operating system to install.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OperatingSystem {
    /// The provider's short name of the system, for example `ubuntu-2404-lts`.
    #[schemars(
        length(min = 1, max = 128),
        regex(pattern = r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    )]
    pub slug: String,
}

/// What happens to the machine when its object is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum DeletionPolicy {
    /// The machine is released; the object stays until the provider shows the release as finished.
    #[default]
    Release,
    /// The machine stays, tagged `fmo-retained`.
    Retain,
}

/// What is known about the server. Written by the operator only.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BareMetalServerStatus {
    /// Generation of the spec that this status describes; -1 before the first pass.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// Ready, Reconciling, Stalled and Synced, as kstatus reads them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,

    /// The provider's word for the server's state, unchanged. An unknown word counts as in progress.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_status: Option<String>,

    /// The provider's message for that state, unchanged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status_message: Option<String>,

    /// The provider's identifier of the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,

    /// Addresses of the server, in the provider's order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<Address>,

    /// What the provider shows about the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed: Option<Observed>,

    /// The last order: its intent, and its outcome once that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<OrderRecord>,

    /// The account that `accountRef` referred to when the order started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub account: Option<PinnedAccount>,

    /// When the provider created the server record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Time>,

    /// When the provider delivered the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delivered_at: Option<Time>,

    /// When the provider finished the release.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub released_at: Option<Time>,

    /// Other live machines that bear this object's mark, by identifier. Normally empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub duplicates: Vec<String>,
}

/// One address of the server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Address {
    /// IPv4 or IPv6 address.
    pub address: String,
}

/// What the provider shows about the server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Observed {
    /// Host name.
    pub hostname: String,
    /// Name of the location.
    pub location: String,
    /// Name of the instance type.
    pub instance_type: String,
    /// Short name of the operating system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub os_slug: Option<String>,
    /// Tags, without the operator's own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Contract that pays, if the server came from its committed quota.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contract_id: Option<String>,
}

/// The intent to order, written before the order is sent, in metadata and in status.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Intent {
    /// Identifier of the ordering cluster, 16 hex digits.
    pub cluster: String,
    /// UID of the ordering object.
    pub uid: String,
    /// Mark of the object, 24 hex digits.
    pub mark: String,
    /// Unix time of the start, in seconds; higher in every further attempt.
    pub epoch: i64,
    /// Nonce of this attempt.
    pub attempt: String,
    /// Unix time, in seconds, after which the order is no longer sent.
    pub send_by: i64,
    /// How many attempts in a row before this one had an unknown outcome and turned out to have made no machine.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unknown_before: i32,
}

// serde's skip_serializing_if passes a reference.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_zero(n: &i32) -> bool {
    *n == 0
}

/// The last order.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OrderRecord {
    /// What was intended.
    #[serde(flatten)]
    pub intent: Intent,
    /// Outcome of the order. Absent while it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<OrderOutcome>,
    /// Unix time of the outcome, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled_at: Option<i64>,
    /// Details of the outcome, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// How many attempts in a row were refused or not sent; sets the pace of the next one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failures: i32,
    /// Hash of the SSH keys that were sent, to show later edits; the provider does not give them back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssh_keys_hash: Option<String>,
}

/// Outcome of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum OrderOutcome {
    /// A machine bears the mark; its identifier is in `status.uuid`.
    Created,
    /// The provider refused the order.
    Refused,
    /// The order never left the operator.
    NotSent,
    /// The outcome was unknown, and it was proved that no machine was made.
    Absent,
}

/// The account that a reference points to.
#[derive(
    Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub struct PinnedAccount {
    /// Kind of the account.
    pub kind: AccountKind,
    /// Name of the account.
    pub name: String,
}

impl Kind for BareMetalServer {
    fn api(client: Client, namespace: Option<&str>) -> Api<Self> {
        namespaced(client, namespace)
    }

    fn conditions(status: &Self::Status) -> &[Condition] {
        &status.conditions
    }
}
