//! `IpWhitelist`: the addresses from which one API key may be used.

use super::{
    acknowledgement::{Acknowledged, PendingAcknowledgement},
    bounds::LONGEST_REQUEST,
    kind::Kind,
    references::{AccountRef, PinnedAccount, account_stays},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube_derive::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Most entries of the spec.
pub const MOST_ENTRIES: usize = 200;
/// Longest name of an entry.
pub const LONGEST_NAME: usize = 32;
/// Longest comment of an entry.
pub const LONGEST_COMMENT: usize = 48;
/// Most entries of the spec in status.
pub const MOST_SHOWN: usize = 120;
/// Most steps of the plan in status.
pub const MOST_STEPS: usize = 16;
/// Most lines of the plan: the steps, the next one, and how many more there are.
const MOST_LINES: usize = MOST_STEPS + 2;
/// Most entries of other objects: as many as a list has.
pub const MOST_OTHERS: usize = 500;

/// The start of the owner comment of our entries. No comment of a spec may contain it.
pub const OWNER_COMMENT_START: &str = "[fmo-";

/// The whitelist of one API key: the addresses from which the key may be used.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "flexmetal.dev",
    version = "v1alpha1",
    kind = "IpWhitelist",
    plural = "ipwhitelists",
    singular = "ipwhitelist",
    shortname = "ipwl",
    category = "flexmetal",
    namespaced,
    status = "IpWhitelistStatus",
    derive = "PartialEq",
    selectable = ".status.accountRef.kind",
    selectable = ".status.accountRef.name",
    doc = "The whitelist of one API key: the addresses from which the key may be used.",
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status",
        description = "Whether the whitelist matches the spec."
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].reason",
        description = "Why the whitelist is ready or not."
    ),
    printcolumn(
        name = "Key",
        type_ = "integer",
        json_path = ".spec.apiKeyID",
        description = "Number of the API key."
    ),
    printcolumn(
        name = "EgressCovered",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"EgressCovered\")].status",
        description = "Whether the operator's own addresses stay admitted."
    ),
    printcolumn(
        name = "Others",
        type_ = "integer",
        json_path = ".status.otherEntryCount",
        description = "Entries that this object did not add."
    ),
    printcolumn(
        name = "Synced",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Synced\")].status",
        priority = 1,
        description = "Whether the last exchange with the provider worked and nothing is left to send."
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
#[x_kube(validation = account_stays("whitelist"))]
#[x_kube(validation = Rule::new("!has(self.apiKeyID) || !has(oldSelf.apiKeyID) || self.apiKeyID == oldSelf.apiKeyID").message("apiKeyID is immutable; create a new whitelist instead").field_path(".apiKeyID"))]
#[serde(rename_all = "camelCase")]
pub struct IpWhitelistSpec {
    /// Account through which the whitelist is changed. A ClusterProviderAccount serves whitelists in the operator's own
    /// namespace only. Default: the ProviderAccount `default` in this namespace. Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account_ref: Option<AccountRef>,

    /// Number of the API key, as the provider lists it. Required. Immutable.
    #[serde(rename = "apiKeyID")]
    #[schemars(range(min = 1, max = 9007199254740991_i64))]
    pub api_key_id: i64,

    /// `Additive` keeps entries that this object did not add. `Exact` removes them. Default: `Additive`. Mutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "EntryPolicy")]
    pub entry_policy: Option<EntryPolicy>,

    /// Entries of the whitelist, at most 200. Default: none. Mutable.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MOST_ENTRIES), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub entries: Vec<WhitelistEntrySpec>,

    /// Addresses from which the operator calls the hosting API, as the provider sees them, in CIDR notation, at most
    /// 16. They stay admitted at every step. Default: `spec.egressCIDRs` of the account. Mutable.
    #[serde(default, rename = "egressCIDRs", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(min = 1, max = 43)))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    #[x_kube(validation = Rule::new("self.all(c, isCIDR(c) && cidr(c).masked() == cidr(c))").message("each of egressCIDRs must be a network in CIDR notation without bits outside of its prefix, such as 192.0.2.0/24, or 192.0.2.7/32 for one address"))]
    pub egress_cidrs: Vec<String>,

    /// Whether a step that could lock the operator out waits for an acknowledgement. Default: true. Mutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lockout_guard: Option<bool>,
}

/// What becomes of entries that the object did not add.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum EntryPolicy {
    /// They are left alone.
    #[default]
    Additive,
    /// They are removed, last of all.
    Exact,
}

/// One entry: a network, or the first and the last address of a range.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[x_kube(validation = Rule::new("has(self.cidr) ? !has(self.start) && !has(self.end) : has(self.start) && has(self.end)").message("set either cidr, or start and end"))]
#[x_kube(validation = Rule::new("!has(self.start) || !has(self.end) || !isIP(self.start) || !isIP(self.end) || ip(self.start).family() == ip(self.end).family()").message("start and end must both be IPv4 or both be IPv6"))]
#[serde(rename_all = "camelCase")]
pub struct WhitelistEntrySpec {
    /// Name of the entry within the object: lower-case letters, digits and dashes, at most 32 characters. Immutable;
    /// another name is another entry.
    #[schemars(
        length(min = 1, max = LONGEST_NAME),
        regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
    )]
    pub name: String,
    /// Network in CIDR notation, for example `192.0.2.0/24`, or `192.0.2.7/32` for one address. All bits outside of the
    /// prefix must be zero. Default: none; `start` and `end` are required then. Mutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 43))]
    #[x_kube(validation = Rule::new("isCIDR(self)").message("cidr must be a network in CIDR notation, such as 192.0.2.0/24 or 2001:db8::/32, or 192.0.2.7/32 for one address"))]
    #[x_kube(validation = Rule::new("!isCIDR(self) || cidr(self).masked() == cidr(self)").message("cidr may not have bits outside of its prefix; write the network's own address, such as 192.0.2.0/24 for 192.0.2.7/24, or 192.0.2.7/32 for that address alone"))]
    pub cidr: Option<String>,
    /// First address of a range. Set together with `end`, and instead of `cidr`. Default: none. Mutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 39))]
    #[x_kube(validation = Rule::new("isIP(self)").message("start must be an IP address, such as 192.0.2.7 or 2001:db8::7"))]
    pub start: Option<String>,
    /// Last address of the range, not below `start` and of the same family. Default: none. Mutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 39))]
    #[x_kube(validation = Rule::new("isIP(self)").message("end must be an IP address, such as 192.0.2.7 or 2001:db8::7"))]
    pub end: Option<String>,
    /// Comment that the provider shows for the entry: printable ASCII without two blanks in a row, at most 48
    /// characters. The operator appends its marker. Default: none. Mutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = LONGEST_COMMENT), regex(pattern = r"^[!-~]+( [!-~]+)*$"))]
    #[x_kube(validation = Rule::new("!self.contains('[fmo-')").message("comment may not contain [fmo-, which starts the operator's own marker"))]
    pub comment: Option<String>,
    /// Whether the provider applies the entry. Default: true. Mutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active: Option<bool>,
}

/// Observed state of the whitelist. Only the operator writes it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct IpWhitelistStatus {
    /// Generation of the spec that this status describes; -1 before the first reconcile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// Ready, Reconciling and Stalled, as kstatus reads them; Synced; EgressCovered: whether the operator's own
    /// addresses are admitted and stay so. Suspended and DeletionBlocked are absent until they are first True.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,

    /// Entries of the spec, as the provider last reported them, at most 120; fewer while `removableEntryIDs` is set.
    /// Entries that match the spec are left out first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MOST_SHOWN), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub entries: Vec<EntryStatus>,

    /// Number of entries that `entries` leaves out. Unset if none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entries_omitted: Option<i32>,

    /// Number of entries at the provider that this object did not add.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other_entry_count: Option<i32>,

    /// Remaining steps in order, the first 16. Written before the first step is sent, and empty once the last one is
    /// known to have taken effect.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MOST_LINES), inner(length(max = 384)), extend("x-kubernetes-list-type" = "atomic"))]
    pub plan: Vec<String>,

    /// Situations that wait for your acknowledgement, at most 8. To acknowledge one, set the annotation
    /// `flexmetal.dev/acknowledge` to its token, or to several tokens separated by commas.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["token"]))]
    pub pending_acknowledgements: Vec<PendingAcknowledgement>,

    /// The last five acknowledgements that the operator acted on, newest last.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 5), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["token"]))]
    pub acknowledged: Vec<Acknowledged>,

    /// IDs of the entries of other objects that an acknowledgement of `RemoveOthersEntries` removes.
    #[serde(rename = "removableEntryIDs", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MOST_OTHERS), extend("x-kubernetes-list-type" = "atomic"))]
    pub removable_entry_ids: Vec<i64>,

    /// Account that `spec.accountRef` referred to when the first entry was changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub account_ref: Option<PinnedAccount>,

    /// Value of the annotation `flexmetal.dev/reconcile-requested-at`, or else `reconcile.fluxcd.io/requestedAt`, for
    /// which the operator last read the whitelist.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = LONGEST_REQUEST))]
    pub last_handled_reconcile_at: Option<String>,
}

/// One entry of the spec at the provider.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EntryStatus {
    /// Name of the entry.
    #[schemars(length(max = 32))]
    pub name: String,
    /// The provider's number of the entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<i64>,
    /// State of the entry.
    pub state: EntryState,
}

/// How an entry stands at the provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum EntryState {
    /// It is there as declared, and counts.
    Active,
    /// It is there as declared, and does not count.
    Inactive,
    /// It is there, and differs from what is declared.
    Different,
    /// It is not there.
    Missing,
}

impl IpWhitelist {
    /// The account through which the whitelist is changed.
    pub fn account(&self) -> PinnedAccount {
        let pinned = self.status.as_ref().and_then(|s| s.account_ref.as_ref());
        PinnedAccount::in_force(pinned, self.spec.account_ref.as_ref())
    }
}

impl Kind for IpWhitelist {
    fn conditions(status: &Self::Status) -> &[Condition] {
        &status.conditions
    }

    fn conditions_mut(status: &mut Self::Status) -> (&mut Option<i64>, &mut Vec<Condition>) {
        (&mut status.observed_generation, &mut status.conditions)
    }

    fn exists(status: &Self::Status) -> bool {
        status.other_entry_count.is_some()
    }

    fn handled(status: &mut Self::Status) -> &mut Option<String> {
        &mut status.last_handled_reconcile_at
    }
}
