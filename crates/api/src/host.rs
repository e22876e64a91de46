//! `DedicatedHost`: an existing host of the account. It is never ordered and never released.

use super::{
    address::Address,
    bounds::LONGEST_REQUEST,
    host_install::{HostInstallHistory, HostInstallStatus, HostKernelParam, HostSystem, texts_fit},
    install::{Install, installs_with},
    installation::{TextSource, script_is_run, shebang_is_right},
    kind::Kind,
    policies::{ManagementPolicy, Policies},
    power::{Power, PowerRecord, PowerStatus},
    records::{self, HostRecords},
    references::{AccountRef, HOST_NAME, PinnedAccount, SshKeyRef, account_stays},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube_derive::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Most addresses.
pub const MOST_ADDRESSES: usize = 64;
/// Most disks.
pub const MOST_DISKS: usize = 32;
/// Longest word for the last installation. Each of its bytes may be stored as six.
pub const LONGEST_INSTALL_WORD: usize = 32;

/// An existing dedicated host. The operator reports, switches and installs it; it is never ordered and never released.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "flexmetal.dev",
    version = "v1alpha1",
    kind = "DedicatedHost",
    plural = "dedicatedhosts",
    singular = "dedicatedhost",
    shortname = "dhost",
    category = "flexmetal",
    namespaced,
    status = "DedicatedHostStatus",
    derive = "PartialEq",
    selectable = ".status.accountRef.kind",
    selectable = ".status.accountRef.name",
    selectable = ".status.providerInstallStatus",
    doc = "An existing dedicated host. The operator reports, switches and installs it; it is never ordered and never released.",
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status",
        description = "Whether the host was found and matches the spec."
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].reason",
        description = "Why the host is ready or not."
    ),
    printcolumn(
        name = "Host",
        type_ = "integer",
        json_path = ".spec.hostID",
        description = "The provider's number of the host."
    ),
    printcolumn(
        name = "Hostname",
        type_ = "string",
        json_path = ".status.hostname",
        description = "Host name, as the provider reports it."
    ),
    printcolumn(
        name = "Status",
        type_ = "string",
        json_path = ".status.providerStatus",
        description = "The provider's word for whether the host runs."
    ),
    printcolumn(
        name = "Install",
        type_ = "string",
        json_path = ".status.providerInstallStatus",
        description = "The provider's state of the last installation."
    ),
    printcolumn(
        name = "Synced",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Synced\")].status",
        priority = 1,
        description = "Whether the last exchange with the provider worked and nothing is left to send."
    ),
    printcolumn(
        name = "IP",
        type_ = "string",
        json_path = ".status.addresses[0].address",
        priority = 1,
        description = "First address of the host."
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
#[kube(validation = Rule::new("self.metadata.name.size() <= 200").message("metadata.name may not be longer than 200 characters"))]
#[kube(validation = Rule::new("!has(self.spec.hostID) || !has(oldSelf.spec.hostID) || self.spec.hostID == oldSelf.spec.hostID").message("hostID is immutable; create a new object for another host").field_path(".spec.hostID"))]
#[x_kube(validation = account_stays("object"))]
#[x_kube(validation = installs_with("os", "the system to install"))]
#[x_kube(validation = installs_with("sshKeyRef", "an SshKey of this namespace"))]
#[x_kube(validation = script_is_run())]
#[x_kube(validation = shebang_is_right())]
#[x_kube(validation = texts_fit())]
#[serde(rename_all = "camelCase")]
pub struct DedicatedHostSpec {
    /// Account that has the host. Default: the ProviderAccount `default` in this namespace. Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account_ref: Option<AccountRef>,

    /// The provider's number of the host, at least 1. With a ClusterProviderAccount, `hostIDs` of the entry for this
    /// namespace must list it. Required. Immutable.
    #[serde(rename = "hostID")]
    #[schemars(range(min = 1, max = 9_007_199_254_740_991_i64))]
    pub host_id: i64,

    /// `Full` switches and installs the host as the spec says. `ObserveOnly` only reports it: the operator sends no
    /// changes. Default: `spec.defaults` of the account, else `Full`. Mutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "ManagementPolicy")]
    pub management_policy: Option<ManagementPolicy>,

    /// If true, nothing is sent for the host; reads go on. Default: `spec.defaults` of the account, else false.
    /// Mutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspend: Option<bool>,

    /// Power state: `PoweredOn` or `PoweredOff`. Each change creates one ServerCommand, which this object owns. The
    /// value that is set when the host is first seen sends nothing, and the operator does not enforce the state later.
    /// Default: none; nothing is sent. Mutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Power")]
    pub power: Option<Power>,

    /// Host name to install. Default: the provider chooses one. Mutable; takes effect at the next installation
    /// (`install.revision`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 253),
        regex(
            pattern = HOST_NAME
        )
    )]
    pub hostname: Option<String>,

    /// Operating system to install. Required with `install`. Default: none. Mutable; takes effect at the next
    /// installation (`install.revision`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub os: Option<HostSystem>,

    /// SshKey in this namespace, stored in the same account, whose key is installed for the root user. Required with
    /// `install`. Default: none. Mutable; takes effect at the next installation (`install.revision`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssh_key_ref: Option<SshKeyRef>,

    /// Script that bash runs after the installation. Not for the systems `talos-…`. Default: none. Mutable; takes
    /// effect at the next installation (`install.revision`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub post_install_script: Option<TextSource>,

    /// Installation of the host. An edit of `hostname`, `os`, `sshKeyRef` or `postInstallScript` alone never installs
    /// it. Default: none; the host is never installed. Mutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub install: Option<Install>,
}

impl DedicatedHostSpec {
    /// The kernel parameters of the operating system.
    pub fn kernel_params(&self) -> impl Iterator<Item = &HostKernelParam> {
        self.os.iter().flat_map(|os| &os.kernel_params)
    }

    /// The policies that the object itself sets.
    pub fn policies(&self) -> Policies {
        Policies {
            management_policy: self.management_policy,
            suspend: self.suspend,
            ..Policies::default()
        }
    }
}

/// Observed state of the host. Only the operator writes it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DedicatedHostStatus {
    /// Generation of the spec that this status describes; -1 before the first reconcile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// Ready, Reconciling and Stalled, as kstatus reads them; Synced. Suspended is absent until it is first True.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,

    /// Account that `spec.accountRef` referred to when the object was first reconciled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub account_ref: Option<PinnedAccount>,

    /// The policies in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policies: Option<HostPolicies>,

    /// The provider's name of the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub name: Option<String>,

    /// Host name, as the provider reports it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub hostname: Option<String>,

    /// The provider's number of the hardware that the host has. If it changes, this is no longer the same host.
    #[serde(rename = "serverID", skip_serializing_if = "Option::is_none")]
    pub server_id: Option<i64>,

    /// The provider's word for whether the host runs, unchanged.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub provider_status: Option<String>,

    /// The provider's state of the last installation, unchanged: `created`, `installing`, `finished` or `failed`. An
    /// unknown state counts as in progress. Unset if nothing was ever installed through the API.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 6 * LONGEST_INSTALL_WORD))]
    pub provider_install_status: Option<String>,

    /// Time since which the host has been running, accurate to some minutes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub up_since: Option<Time>,

    /// The provider's number of the operating system.
    #[serde(rename = "osID", skip_serializing_if = "Option::is_none")]
    pub os_id: Option<i64>,

    /// The provider's number of the location.
    #[serde(rename = "locationID", skip_serializing_if = "Option::is_none")]
    pub location_id: Option<i64>,

    /// Instance type of the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub instance_type: Option<String>,

    /// Addresses of the host, at most 64, without those of its console.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MOST_ADDRESSES), extend("x-kubernetes-list-type" = "atomic"))]
    pub addresses: Vec<Address>,

    /// Number of addresses that `addresses` leaves out. Unset if none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub addresses_omitted: Option<i32>,

    /// Hardware of the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hardware: Option<HostHardwareInfo>,

    /// The last change of `spec.power`. Unset before the first one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power: Option<PowerStatus>,

    /// The last installation, and the revision of `spec.install` that counts as performed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub install: Option<HostInstallStatus>,

    /// Value of the annotation `flexmetal.dev/reconcile-requested-at`, or else `reconcile.fluxcd.io/requestedAt`, for
    /// which the operator last reconciled the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = LONGEST_REQUEST))]
    pub last_handled_reconcile_at: Option<String>,

    /// Internal records of the operator. Their format changes without notice. Do not change them.
    #[serde(skip_serializing_if = "records::is_unset")]
    #[schemars(schema_with = "records::schema")]
    pub records: HostRecords,
}

/// The policies in force for a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HostPolicies {
    /// Whether the operator changes the host or only reports it: `Full` or `ObserveOnly`.
    pub management_policy: ManagementPolicy,
    /// Whether nothing is sent for the host.
    pub suspend: bool,
}

/// The hardware of a host, in short. Serial numbers are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HostHardwareInfo {
    /// Manufacturer.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub brand: Option<String>,
    /// Model of the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub model: Option<String>,
    /// Rack of the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub rack: Option<String>,
    /// Processors, in the provider's words.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub cpu: Option<String>,
    /// Number of processors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sockets: Option<i64>,
    /// Number of cores of all processors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cores: Option<i64>,
    /// Number of threads of all processors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<i64>,
    /// Memory in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<i64>,
    /// Disks, at most 32.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MOST_DISKS), extend("x-kubernetes-list-type" = "atomic"))]
    pub disks: Vec<HostDiskInfo>,
    /// Number of disks that `disks` leaves out. Unset if none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disks_omitted: Option<i32>,
}

/// A disk of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HostDiskInfo {
    /// Medium and kind of the disk, in the provider's words.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub kind: Option<String>,
    /// Model of the disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub model: Option<String>,
    /// Size of the disk in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<i64>,
}

impl DedicatedHost {
    /// The account that has the host.
    pub fn account(&self) -> PinnedAccount {
        let pinned = self.status.as_ref().and_then(|s| s.account_ref.as_ref());
        PinnedAccount::in_force(pinned, self.spec.account_ref.as_ref())
    }
}

impl Kind for DedicatedHost {
    fn conditions(status: &Self::Status) -> &[Condition] {
        &status.conditions
    }

    fn conditions_mut(status: &mut Self::Status) -> (&mut Option<i64>, &mut Vec<Condition>) {
        (&mut status.observed_generation, &mut status.conditions)
    }

    fn show_records(status: &mut Self::Status) {
        let records = &status.records;
        status.power = records.power.as_ref().and_then(PowerRecord::to_status);
        status.install = records.install.as_ref().map(HostInstallHistory::to_status);
    }

    fn exists(status: &Self::Status) -> bool {
        status.provider_status.is_some() || status.server_id.is_some() || status.name.is_some()
    }

    fn handled(status: &mut Self::Status) -> &mut Option<String> {
        &mut status.last_handled_reconcile_at
    }
}
