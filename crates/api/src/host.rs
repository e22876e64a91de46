//! `DedicatedHost`: a host that the account has. It is never ordered and never released.

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
/// Longest word for the last installation. Each byte of it may be stored as six.
pub const LONGEST_INSTALL_WORD: usize = 32;

/// A dedicated host that the account has: shown, switched and installed; never ordered, never released.
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
    doc = "A dedicated host that the account has: shown, switched and installed; never ordered, never released.",
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status",
        description = "Whether the host is there, and all that was asked for is done."
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
        description = "The host name that it runs under."
    ),
    printcolumn(
        name = "Status",
        type_ = "string",
        json_path = ".status.providerStatus",
        description = "Whether the host runs, in the provider's word."
    ),
    printcolumn(
        name = "Install",
        type_ = "string",
        json_path = ".status.providerInstallStatus",
        description = "The provider's word for the last installation."
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
        description = "The reason in words."
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp",
        description = "Age of the object."
    )
)]
#[kube(validation = Rule::new("self.metadata.name.size() <= 200").message("metadata.name is longer than 200 characters"))]
#[kube(validation = Rule::new("!has(self.spec.hostID) || !has(oldSelf.spec.hostID) || self.spec.hostID == oldSelf.spec.hostID").message("hostID is immutable: create a new object for another host").field_path(".spec.hostID"))]
#[x_kube(validation = account_stays("object"))]
#[x_kube(validation = installs_with("os", "the system to install"))]
#[x_kube(validation = installs_with("sshKeyRef", "an SshKey of this namespace"))]
#[x_kube(validation = script_is_run())]
#[x_kube(validation = shebang_is_right())]
#[x_kube(validation = texts_fit())]
#[serde(rename_all = "camelCase")]
pub struct DedicatedHostSpec {
    /// The account that has the host. Default: the ProviderAccount `default` of this namespace.
    /// Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account_ref: Option<AccountRef>,

    /// The provider's number of the host, at least 1. Through a ClusterProviderAccount it must stand in `hostIDs` of the entry
    /// that allows this namespace. Required. Immutable.
    #[serde(rename = "hostID")]
    #[schemars(range(min = 1, max = 9_007_199_254_740_991_i64))]
    pub host_id: i64,

    /// Whether anything is sent for the host, or it is only shown: `Full` or `ObserveOnly`. Default: what the account says
    /// (`spec.defaults`), else `Full`. Mutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "ManagementPolicy")]
    pub management_policy: Option<ManagementPolicy>,

    /// Whether nothing is sent for the host; looking goes on. Default: what the account says (`spec.defaults`), else false.
    /// Mutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspend: Option<bool>,

    /// Power state of the host: `PoweredOn` or `PoweredOff`. Each change sends one command, as a ServerCommand of this
    /// object. What it says when the host is first seen sends none, and the state is not kept up.
    /// Default: nothing is sent. Mutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Power")]
    pub power: Option<Power>,

    /// Host name. Default: the provider makes one up. Mutable; counts for the next installation (`install.revision`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 253),
        regex(
            pattern = HOST_NAME
        )
    )]
    pub hostname: Option<String>,

    /// The operating system to install. Required with `install`. Default: none. Mutable; counts for the next installation
    /// (`install.revision`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub os: Option<HostSystem>,

    /// The SshKey of this namespace whose key is installed for the root user. It is stored in the same account. Required
    /// with `install`. Default: none. Mutable; counts for the next installation (`install.revision`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssh_key_ref: Option<SshKeyRef>,

    /// A script that bash runs after the installation; not for the systems `talos-…`. Default: none. Mutable; counts for the
    /// next installation (`install.revision`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub post_install_script: Option<TextSource>,

    /// Whether the host is installed. An edit of `hostname`, `os`, `sshKeyRef` or `postInstallScript` alone never does
    /// that. Default: never. Mutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub install: Option<Install>,
}

impl DedicatedHostSpec {
    /// The kernel parameters of the operating system.
    pub fn kernel_params(&self) -> impl Iterator<Item = &HostKernelParam> {
        self.os.iter().flat_map(|os| &os.kernel_params)
    }

    /// The policies as the object states them.
    pub fn policies(&self) -> Policies {
        Policies {
            management_policy: self.management_policy,
            suspend: self.suspend,
            ..Policies::default()
        }
    }
}

/// What is known about the host. Written by the operator only.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DedicatedHostStatus {
    /// Generation of the spec that this status describes; -1 before the first pass.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// Ready, Reconciling, Stalled and Synced, as kstatus reads them.
    /// Suspended: absent until first True.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,

    /// The account that `accountRef` referred to at first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub account_ref: Option<PinnedAccount>,

    /// The policies in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policies: Option<HostPolicies>,

    /// The provider's name of the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub name: Option<String>,

    /// The host name that it runs under.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub hostname: Option<String>,

    /// The provider's number of the machine behind the host. With another one it is not the same host any more.
    #[serde(rename = "serverID", skip_serializing_if = "Option::is_none")]
    pub server_id: Option<i64>,

    /// Whether the host runs, in the provider's word, unchanged.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub provider_status: Option<String>,

    /// The provider's word for the last installation, unchanged: `created`, `installing`, `finished`, `failed`. An unknown
    /// word counts as under way. Unset where nothing was ever installed through the API.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 6 * LONGEST_INSTALL_WORD))]
    pub provider_install_status: Option<String>,

    /// Since when the host runs, to some minutes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub up_since: Option<Time>,

    /// The provider's number of its operating system.
    #[serde(rename = "osID", skip_serializing_if = "Option::is_none")]
    pub os_id: Option<i64>,

    /// The provider's number of its place.
    #[serde(rename = "locationID", skip_serializing_if = "Option::is_none")]
    pub location_id: Option<i64>,

    /// Its instance type.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub instance_type: Option<String>,

    /// Its addresses, at most 64, without those of its console.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MOST_ADDRESSES), extend("x-kubernetes-list-type" = "atomic"))]
    pub addresses: Vec<Address>,

    /// Number of addresses that `addresses` leaves out. Unset if none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub addresses_omitted: Option<i32>,

    /// Its hardware, in short.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hardware: Option<HostHardware>,

    /// What was last done about `spec.power`. Unset before the first change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power: Option<PowerStatus>,

    /// The last installation, and which revision of `spec.install` counts as performed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub install: Option<HostInstallStatus>,

    /// The value of the annotation `flexmetal.dev/reconcile-requested-at`, or else `reconcile.fluxcd.io/requestedAt`, for
    /// which the object was last looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = LONGEST_REQUEST))]
    pub last_handled_reconcile_at: Option<String>,

    /// The operator's own records, for the operator alone: their form changes without notice. Do not change them.
    #[serde(skip_serializing_if = "records::is_unset")]
    #[schemars(schema_with = "records::schema")]
    pub records: HostRecords,
}

/// The policies in force for a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HostPolicies {
    /// Whether anything is sent for the host, or it is only shown: `Full` or `ObserveOnly`.
    pub management_policy: ManagementPolicy,
    /// Whether nothing is sent for the host.
    pub suspend: bool,
}

/// The hardware of a host, in short. Serial numbers are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HostHardware {
    /// The manufacturer.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub brand: Option<String>,
    /// The model.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub model: Option<String>,
    /// The rack that it stands in.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub rack: Option<String>,
    /// The processors, in the provider's words.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub cpu: Option<String>,
    /// How many processors there are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sockets: Option<i64>,
    /// Cores of all processors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cores: Option<i64>,
    /// Threads of all processors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<i64>,
    /// Its memory, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<i64>,
    /// Its disks, at most 32.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MOST_DISKS), extend("x-kubernetes-list-type" = "atomic"))]
    pub disks: Vec<HostDisk>,
    /// Number of disks that `disks` leaves out. Unset if none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disks_omitted: Option<i32>,
}

/// A disk of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HostDisk {
    /// Its medium and kind, in the provider's words.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub kind: Option<String>,
    /// Its model.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub model: Option<String>,
    /// How large it is, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<i64>,
}

impl DedicatedHost {
    /// The account that has it.
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
        status.power = records.power.as_ref().and_then(PowerRecord::shown);
        status.install = records.install.as_ref().map(HostInstallHistory::shown);
    }

    fn exists(status: &Self::Status) -> bool {
        status.provider_status.is_some() || status.server_id.is_some() || status.name.is_some()
    }

    fn handled(status: &mut Self::Status) -> &mut Option<String> {
        &mut status.last_handled_reconcile_at
    }
}
