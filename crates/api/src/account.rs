//! `ProviderAccount` and `ClusterProviderAccount`: the base URL and the API key of an account.

use super::{
    account_sizes::{LARGEST_CA_BUNDLE, LONGEST_CA_BUNDLE},
    account_use::{CallBudget, KindUsers},
    acknowledgement::{Acknowledged, PendingAcknowledgement},
    allowed::{AllowedNamespaces, entries_fit},
    bounds::LONGEST_REQUEST,
    catalog::Catalog,
    host_install::RequestForm,
    kind::Kind,
    limits::Limits,
    orphan::Orphan,
    policies::Policies,
    records::{self, AccountRecords},
    references::{KeySelector, OBJECT_KEY, OBJECT_NAME},
    release_limit::{ReleaseLimit, ReleaseLimitStatus},
    timing::{Timing, TimingInForce},
    usage::{UsageReading, UsageStatus},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube_core::Rule;
use kube_derive::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::ops::Not;

/// Most orphans.
pub const MOST_ORPHANS: usize = 20;

/// An account of the hosting API for the objects in its own namespace.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "flexmetal.dev",
    version = "v1alpha1",
    kind = "ProviderAccount",
    plural = "provideraccounts",
    singular = "provideraccount",
    shortname = "pacct",
    category = "flexmetal",
    namespaced,
    status = "AccountStatus",
    derive = "PartialEq",
    selectable = ".spec.apiKeySecretRef.name",
    selectable = ".spec.suspend",
    selectable = ".status.operatorLease",
    doc = "An account of the hosting API for the objects in its own namespace.",
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status",
        description = "Whether the account can be used."
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].reason",
        description = "Why the account is ready or not."
    ),
    printcolumn(
        name = "Servers",
        type_ = "string",
        json_path = ".status.servers.ofLimit",
        description = "Live servers of this cluster in the account, and the maximum that `spec.limits.maxServers` allows."
    ),
    printcolumn(
        name = "Orphans",
        type_ = "integer",
        json_path = ".status.servers.orphans",
        description = "Live servers of this cluster that no object owns."
    ),
    printcolumn(
        name = "Synced",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Synced\")].status",
        priority = 1,
        description = "Whether the last exchange with the provider worked and nothing is left to send."
    ),
    printcolumn(
        name = "URL",
        type_ = "string",
        json_path = ".status.verified.baseURL",
        priority = 1,
        description = "Base URL of the hosting API, as last verified."
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
#[x_kube(validation = one_ca_bundle())]
#[serde(rename_all = "camelCase")]
pub struct ProviderAccountSpec {
    /// Where the account is and how to talk to it.
    #[serde(flatten)]
    pub account: AccountSpec,
}

/// An account of the hosting API that the namespaces in `allowedNamespaces` may use. Its key Secret is in the
/// operator's namespace.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "flexmetal.dev",
    version = "v1alpha1",
    kind = "ClusterProviderAccount",
    plural = "clusterprovideraccounts",
    singular = "clusterprovideraccount",
    shortname = "cpacct",
    category = "flexmetal",
    status = "AccountStatus",
    derive = "PartialEq",
    selectable = ".spec.apiKeySecretRef.name",
    selectable = ".spec.suspend",
    selectable = ".status.operatorLease",
    doc = "An account of the hosting API that the namespaces in `allowedNamespaces` may use. Its key Secret is in the operator's namespace.",
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status",
        description = "Whether the account can be used."
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].reason",
        description = "Why the account is ready or not."
    ),
    printcolumn(
        name = "Servers",
        type_ = "string",
        json_path = ".status.servers.ofLimit",
        description = "Live servers of this cluster in the account, and the maximum that `spec.limits.maxServers` allows."
    ),
    printcolumn(
        name = "Orphans",
        type_ = "integer",
        json_path = ".status.servers.orphans",
        description = "Live servers of this cluster that no object owns."
    ),
    printcolumn(
        name = "Synced",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Synced\")].status",
        priority = 1,
        description = "Whether the last exchange with the provider worked and nothing is left to send."
    ),
    printcolumn(
        name = "URL",
        type_ = "string",
        json_path = ".status.verified.baseURL",
        priority = 1,
        description = "Base URL of the hosting API, as last verified."
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
#[x_kube(validation = one_ca_bundle())]
#[serde(rename_all = "camelCase")]
pub struct ClusterProviderAccountSpec {
    /// Where the account is and how to talk to it.
    #[serde(flatten)]
    pub account: AccountSpec,
    /// Namespaces that may use the account, as named entries, at most 16. Their names, labels and limits have at most
    /// 8192 characters together. A namespace that two entries match is not served. Default: none. Mutable; a change
    /// stops orders, never releases.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    #[x_kube(validation = entries_fit())]
    #[x_kube(validation = Rule::new("self.map(e, has(e.hostIDs) ? e.hostIDs.size() : 0).sum() <= 128").message("the entries may not list more than 128 hostIDs together; use several ClusterProviderAccounts, or a ProviderAccount in the namespace of the hosts"))]
    pub allowed_namespaces: Vec<AllowedNamespaces>,
}

/// What both kinds of account share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct AccountSpec {
    /// Base URL of the hosting API, without `/v3`, for example `https://api.example.com`. It must be https to a public
    /// address, or listed in the operator's `--allowed-base-url`; user information, query and fragment are not allowed.
    /// If the key Secret has a base URL, too, both must be equal. Default: the base URL of the key Secret. Mutable.
    #[serde(default, rename = "baseURL", skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024))]
    pub base_url: Option<String>,

    /// If true, nothing is ordered, changed or released through this account, whatever its objects say; reads go on.
    /// Default: false. Mutable.
    #[serde(default, skip_serializing_if = "Not::not")]
    pub suspend: bool,

    /// PEM certificates to trust in addition to the system's, for a private root, at most 10240 bytes. May not be set
    /// with `caBundleRef`. Default: none. Mutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = LONGEST_CA_BUNDLE))]
    #[x_kube(validation = bundle_is_pem())]
    #[x_kube(validation = bundle_has_long_lines())]
    pub ca_bundle: Option<String>,

    /// ConfigMap or Secret with such certificates, at most 10240 bytes. The operator reads it by name. May not be set
    /// with `caBundle`. Default: none. Mutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "CaBundleRef")]
    pub ca_bundle_ref: Option<CaBundleRef>,

    /// Secret of type `flexmetal.dev/api-key` with the API key in the key `apiKey` and, in the key `baseURL`, the only
    /// URL that the API key may be sent to. The operator reads it by name and never lists Secrets. Mutable.
    #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
    pub api_key_secret_ref: ApiKeySecretRef,

    /// How often the operator polls and how long it waits. Default: see each field; `status.timing` has the values in
    /// force. Mutable.
    #[serde(default, skip_serializing_if = "records::is_unset")]
    pub timing: Timing,

    /// Whether the operator reads what the servers of the account have used: `Enabled` reads it once an hour into
    /// `status.usage` and the metrics. Default: `Disabled`. Mutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "UsageReading")]
    pub usage: Option<UsageReading>,

    /// Policies of the servers and hosts that use this account and do not set their own. Default: none; the operator's
    /// apply. Mutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub defaults: Option<Policies>,

    /// Form of the request that installs a dedicated host. `Documented` sends the key as `sshKeyId` and the kernel
    /// parameters as one text. `Observed` sends the key as `sshKeyUuid` and the kernel parameters as a list. Default:
    /// `Documented`. Mutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "RequestForm")]
    pub host_install_form: Option<RequestForm>,

    /// Addresses from which the operator calls the hosting API, as the provider sees them, in CIDR notation, at most
    /// 16. IpWhitelists of the account keep them admitted. Default: none; they are not known. Mutable.
    #[serde(default, rename = "egressCIDRs", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(min = 1, max = 43)))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    #[x_kube(validation = Rule::new("self.all(c, isCIDR(c) && cidr(c).masked() == cidr(c))").message("each of egressCIDRs must be a network in CIDR notation without bits outside of its prefix, such as 192.0.2.0/24, or 192.0.2.7/32 for one address"))]
    pub egress_cidrs: Vec<String>,

    /// Maximum number of releases of live servers that begin within a window, in each namespace. Further releases wait
    /// until a user acknowledges them (`LiftReleaseLimit`). Default: no limit. Mutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release_limit: Option<ReleaseLimit>,

    /// Limits on what is ordered through this account. They stop orders, never releases. Default: none. Mutable.
    #[serde(default, skip_serializing_if = "records::is_unset")]
    pub limits: Limits,
}

/// Names the Secret that holds the API key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApiKeySecretRef {
    /// Name of the Secret: in the same namespace, or for a ClusterProviderAccount in the operator's namespace.
    #[schemars(length(min = 1, max = 253), regex(pattern = OBJECT_NAME))]
    pub name: String,
}

/// Names the ConfigMap or Secret that holds a CA bundle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct CaBundleRef {
    /// Kind of the object: `ConfigMap` or `Secret`. Required. Mutable.
    pub kind: CaBundleKind,
    /// Name of the object: in the same namespace, or for a ClusterProviderAccount in the operator's namespace.
    /// Required. Mutable.
    #[schemars(length(min = 1, max = 253), regex(pattern = OBJECT_NAME))]
    pub name: String,
    /// Key in the object. Default: `ca.crt`. Mutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253), regex(pattern = OBJECT_KEY))]
    pub key: Option<String>,
}

/// Kinds of object that can hold a CA bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum CaBundleKind {
    /// A ConfigMap, for example one that trust-manager writes.
    ConfigMap,
    /// A Secret.
    Secret,
}

impl CaBundleRef {
    /// The object and the key in it.
    pub fn selector(&self) -> KeySelector {
        KeySelector {
            name: self.name.clone(),
            key: self.key.clone().unwrap_or_else(|| "ca.crt".to_owned()),
        }
    }
}

impl CaBundleKind {
    /// The kind's name as written in manifests.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ConfigMap => "ConfigMap",
            Self::Secret => "Secret",
        }
    }
}

/// The rule of a CA bundle: base64 of PEM, as a webhook has it, is invalid.
fn bundle_is_pem() -> Rule {
    Rule::new("self.contains('-----BEGIN CERTIFICATE-----')")
        .message("caBundle must be PEM text with -----BEGIN CERTIFICATE-----, not base64 of it")
}

/// The rule of a CA bundle's size as it is stored, where a line break takes two bytes.
fn bundle_has_long_lines() -> Rule {
    Rule::new(format!(
        "self.size() + self.split('\\n').size() + self.split('\\r').size() - 2 <= {LARGEST_CA_BUNDLE}"
    ))
    .message("caBundle has too many line breaks; write the certificates in lines of 64 characters that end with a newline alone")
}

/// The rule that at most one of the CA bundle fields is set.
fn one_ca_bundle() -> Rule {
    Rule::new("!(has(self.caBundle) && has(self.caBundleRef))")
        .message("set at most one of caBundle and caBundleRef")
}

/// Observed state of the account. Only the operator writes it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AccountStatus {
    /// Generation of the spec that this status describes; -1 before the first reconcile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// Ready, Reconciling, Stalled, Synced, KeyAccepted and OrphansFound; CandidateAccepted while the key Secret has
    /// another key than the one in use, or calls with a former key end; ReleaseLimitReached with a release limit.
    /// Suspended and DeletionBlocked are absent until they are first True.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,

    /// Counts of servers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub servers: Option<ServerCounts>,

    /// Number of objects of each kind that use the account. While the account is being deleted, the condition Ready
    /// names the first ones.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["kind"]))]
    pub users: Vec<KindUsers>,

    /// What can be ordered. The operator reads it every `timing.orphanScanInterval` (at most every 5m) and while orders
    /// wait, and updates it at most once in `timing.idlePollInterval`, if it changed. Unset before the first answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub catalog: Option<Catalog>,

    /// Rate limit of calls to the hosting API. Updated at most once in an idle poll interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls: Option<CallBudget>,

    /// What the servers of the account have used. Unset unless `spec.usage` is `Enabled`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<UsageStatus>,

    /// Releases that `spec.releaseLimit` counts. Unset while none counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub release_limit: Option<ReleaseLimitStatus>,

    /// Live servers of this cluster that no object owns, the oldest 20.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MOST_ORPHANS), extend("x-kubernetes-list-type" = "atomic"))]
    pub orphans: Vec<Orphan>,

    /// Random identifier that the operator gave to the provider's account. A new base URL or key keeps it only if that
    /// shows a server that identifies the account.
    #[serde(rename = "accountID", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub account_id: Option<String>,

    /// Situations that wait for your acknowledgement, at most 8. To acknowledge one, set the annotation
    /// `flexmetal.dev/acknowledge` to its token, or to several tokens separated by commas.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["token"]))]
    pub pending_acknowledgements: Vec<PendingAcknowledgement>,

    /// The last five acknowledgements that the operator acted on, newest last.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 5), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["token"]))]
    pub acknowledged: Vec<Acknowledged>,

    /// Base URL and key that were last verified to belong to this account. Calls with a former key may still be in
    /// flight: see `credentials`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verified: Option<Endpoint>,

    /// Lease of the operator that serves this account, as `namespace/name`. Another operator does nothing for the
    /// account while that Lease is held. Unset before an operator served it, and after that operator ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 317))]
    pub operator_lease: Option<String>,

    /// Certificates in use that `spec.caBundleRef` supplied, as PEM. They stay in use while that object or its key is
    /// missing. Unset without `spec.caBundleRef`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = LARGEST_CA_BUNDLE))]
    pub ca_bundle: Option<String>,

    /// API key that all calls use: no call with a former key is in flight any more. Unset before the first key was
    /// accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credentials: Option<Credentials>,

    /// Times in force: `spec.timing` or else the defaults, each within its bounds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timing: Option<TimingInForce>,

    /// Time at which the last complete orphan scan ended, as of the last update of this status: a scan that changes
    /// nothing is not recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_orphan_scan_at: Option<Time>,

    /// Value of the annotation `flexmetal.dev/reconcile-requested-at`, or else `reconcile.fluxcd.io/requestedAt`, for
    /// which the operator last listed the servers of the account.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = LONGEST_REQUEST))]
    pub last_handled_reconcile_at: Option<String>,

    /// Internal records of the operator. Their format changes without notice. Do not change them.
    #[serde(skip_serializing_if = "records::is_unset")]
    #[schemars(schema_with = "records::schema")]
    pub records: AccountRecords,
}

/// Counts of an account.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServerCounts {
    /// Live servers of this cluster.
    pub live: i32,
    /// `live`, followed by a slash and `spec.limits.maxServers` if that is set, for example `5/20`.
    #[serde(default)]
    #[schemars(length(max = 24))]
    pub of_limit: String,
    /// Live servers that `deletionPolicy: Retain` kept.
    pub retained: i32,
    /// Live servers of this cluster that no object owns.
    pub orphans: i32,
    /// Live servers of this cluster with the tag of an object that has another server, too. The status of that object
    /// names them.
    #[serde(default)]
    pub duplicates: i32,
    /// Live servers in the account with the tag of another cluster. Unset before the first count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_clusters: Option<i32>,
    /// Live servers in the account without a tag of any operator. Unset before the first count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unmanaged: Option<i32>,
    /// Time at which the list that the servers were counted in ended, as of the last update of this status: a list that
    /// changes nothing is not recorded. While the account does not answer, these are the last known counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted_at: Option<Time>,
}

/// The key that an account's calls are made with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Credentials {
    /// Hash of this key: the first 12 hex digits of its SHA-256.
    #[schemars(length(max = 12))]
    pub hash: String,
    /// Time since which all calls use this key. From then on you can revoke a former key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_use_since: Option<Time>,
}

/// A base URL and a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Endpoint {
    /// Base URL of the hosting API.
    #[serde(rename = "baseURL")]
    #[schemars(length(max = 1024))]
    pub base_url: String,
    /// Hash of the verified key: the first 12 hex digits of its SHA-256.
    #[schemars(length(max = 12))]
    pub credentials_hash: String,
}

impl Endpoint {
    /// The credentials hash of an account object with this URL and key, 12 hex digits. Orders record it.
    pub fn hash_credentials(&self, account_uid: &str) -> String {
        let mut hash = Sha256::new();
        // The version comes first, so that no other algorithm can give one of these hashes.
        for part in ["1", account_uid, &self.base_url, &self.credentials_hash] {
            hash.update(part.as_bytes());
            hash.update([0]);
        }
        let digits = hash.finalize();
        digits[..6].iter().map(|b| format!("{b:02x}")).collect()
    }
}

/// A server that identifies the account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KnownServer {
    /// UUID of the server.
    pub uuid: String,
    /// Order tag of the server.
    pub order_tag: String,
    /// Whether the server was live when last seen. A new base URL or key must show a live one.
    #[serde(default)]
    pub live: bool,
}

impl Kind for ProviderAccount {
    fn conditions(status: &Self::Status) -> &[Condition] {
        &status.conditions
    }

    fn conditions_mut(status: &mut Self::Status) -> (&mut Option<i64>, &mut Vec<Condition>) {
        (&mut status.observed_generation, &mut status.conditions)
    }

    fn handled(status: &mut Self::Status) -> &mut Option<String> {
        &mut status.last_handled_reconcile_at
    }
}

impl Kind for ClusterProviderAccount {
    fn conditions(status: &Self::Status) -> &[Condition] {
        &status.conditions
    }

    fn conditions_mut(status: &mut Self::Status) -> (&mut Option<i64>, &mut Vec<Condition>) {
        (&mut status.observed_generation, &mut status.conditions)
    }

    fn handled(status: &mut Self::Status) -> &mut Option<String> {
        &mut status.last_handled_reconcile_at
    }
}
