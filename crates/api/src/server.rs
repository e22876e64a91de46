//! `BareMetalServer`: one on-demand server.

pub use super::address::{Address, AddressType};
pub use super::installation::{OperatingSystemSpec, TextSource, UserDataSpec};
pub use super::lifetime::{ExpiryWarning, Provisioning, Replaced};
pub use super::order::{OrderOutcome, OrderRecord};
pub use super::policies::{DeletionPolicy, ExternalReleasePolicy, FailurePolicy, ManagementPolicy};
pub use super::references::PinnedAccount;
use super::{
    acknowledgement::{Acknowledged, PendingAcknowledgement},
    bounds::LONGEST_REQUEST,
    install::{Install, InstallHistory, ServerInstallStatus, installs_with},
    installation::{
        KernelParamSpec, keys_are_installed, script_has_shebang, script_is_run, texts_fit,
    },
    interval::Interval,
    kind::Kind,
    lifetime::named_is_not_replaced,
    outputs::Outputs,
    policies::{Policies, PoliciesInForce, release_delay_fits},
    power::{Power, PowerRecord, PowerStatus},
    records::{self, ServerRecords},
    references::{AccountRef, HOST_NAME, SshKeySource, account_stays},
    root_password::{
        RootPassword, RootPasswordRecord, RootPasswordStatus, has_a_secret_of_its_own,
        only_windows_has_one,
    },
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube_core::{Reason, Rule};
use kube_derive::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Most addresses.
pub const MOST_ADDRESSES: usize = 32;
/// Most other servers with the object's tag.
pub const MOST_DUPLICATES: usize = 20;
/// Most servers that another one was ordered for.
pub const MOST_REPLACED: usize = 10;

/// One on-demand server. The operator orders it once, manages it, and releases it when the object is deleted.
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
    selectable = ".status.accountRef.kind",
    selectable = ".status.accountRef.name",
    selectable = ".status.location",
    selectable = ".status.instanceType",
    selectable = ".status.uuid",
    selectable = ".status.providerStatus",
    doc = "One on-demand server. The operator orders it once, manages it, and releases it when the object is deleted.",
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status",
        description = "Whether the server is usable and matches the spec."
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].reason",
        description = "Why the server is ready or not."
    ),
    printcolumn(
        name = "Status",
        type_ = "string",
        json_path = ".status.providerStatus",
        description = "The provider's state of the server."
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
        json_path = ".status.instanceType",
        description = "Instance type of the server."
    ),
    printcolumn(
        name = "Location",
        type_ = "string",
        json_path = ".status.location",
        description = "Location of the server."
    ),
    printcolumn(
        name = "OS",
        type_ = "string",
        json_path = ".status.os",
        description = "Operating system of the server."
    ),
    printcolumn(
        name = "Synced",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Synced\")].status",
        priority = 1,
        description = "Whether the last exchange with the provider worked and nothing is left to send."
    ),
    printcolumn(
        name = "Wanted Power",
        type_ = "string",
        json_path = ".spec.power",
        priority = 1,
        description = "Power state that the spec asks for."
    ),
    printcolumn(
        name = "Expires",
        type_ = "string",
        json_path = ".spec.expiresAt",
        priority = 1,
        description = "Time at which the operator deletes the object."
    ),
    printcolumn(
        name = "Contract",
        type_ = "string",
        json_path = ".status.contractID",
        priority = 1,
        description = "Contract whose committed quota the server came from."
    ),
    printcolumn(
        name = "UUID",
        type_ = "string",
        json_path = ".status.uuid",
        priority = 1,
        description = "UUID of the server at the provider."
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
#[kube(validation = Rule::new("has(self.spec.hostname) || !self.metadata.name.matches('[^.]{64}')").message("metadata.name is not a valid host name, as a part has more than 63 characters; set spec.hostname"))]
#[kube(validation = until_ordered("location", &stays_or_is_shown("location")))]
#[kube(validation = until_ordered("instanceType", &stays_or_is_shown("instanceType")))]
#[kube(validation = until_ordered("contractID", "(has(self.spec.contractID) ? self.spec.contractID : '') == (has(oldSelf.spec.contractID) ? oldSelf.spec.contractID : '')"))]
#[kube(validation = until_ordered("overflow", "(has(self.spec.overflow) && self.spec.overflow) == (has(oldSelf.spec.overflow) && oldSelf.spec.overflow)"))]
#[kube(validation = external_id_stays())]
#[x_kube(validation = account_stays("object"))]
#[x_kube(validation = orders_with("location"))]
#[x_kube(validation = orders_with("instanceType"))]
#[x_kube(validation = orders_with("os"))]
#[x_kube(validation = installs_with("os", "the system to install"))]
#[x_kube(validation = named_is_not_replaced())]
#[x_kube(validation = only_windows_has_one())]
#[x_kube(validation = has_a_secret_of_its_own())]
#[x_kube(validation = script_is_run())]
#[x_kube(validation = script_has_shebang())]
#[x_kube(validation = keys_are_installed())]
#[x_kube(validation = texts_fit())]
#[serde(rename_all = "camelCase")]
pub struct BareMetalServerSpec {
    /// Account that pays for the server. Default: the ProviderAccount `default` in this namespace. Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account_ref: Option<AccountRef>,

    /// Name of the location, as the provider lists it, for example `EU: Rotterdam`. Required unless `externalID` is set
    /// or `managementPolicy` is `ObserveOnly`. Default: none. Mutable until a server is ordered; from then on you can
    /// only remove it or set it to `status.location`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128))]
    pub location: Option<String>,

    /// Name of the instance type, for example `bm7.std.8`. Required unless `externalID` is set or `managementPolicy` is
    /// `ObserveOnly`. Default: none. Mutable until a server is ordered; from then on you can only remove it or set it
    /// to `status.instanceType`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128))]
    pub instance_type: Option<String>,

    /// Host name of the server. Default: the name of the object. A change after the order takes effect at the next
    /// re-installation (`install.revision`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 253),
        regex(
            pattern = HOST_NAME
        )
    )]
    pub hostname: Option<String>,

    /// Other placements, at most 8. The operator tries them in this order when the previous one is out of stock or
    /// beyond the quota. Default: none. Mutable; a server that is ordered stays where it is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), extend("x-kubernetes-list-type" = "atomic"))]
    pub alternatives: Vec<Alternative>,

    /// Operating system to install. Required unless `externalID` is set or `managementPolicy` is `ObserveOnly`. Always
    /// required with `install`. Default: none. A change after the order takes effect at the next re-installation
    /// (`install.revision`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub os: Option<OperatingSystemSpec>,

    /// Script that runs once, at the first boot: on Linux by the interpreter in its shebang, on Windows by PowerShell.
    /// Other systems run no script. Default: none. A change after the order takes effect at the next re-installation
    /// (`install.revision`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub post_install_script: Option<TextSource>,

    /// Data that the server reads from its metadata service. Nothing runs it. Default: none. A change after the order
    /// takes effect at the next re-installation (`install.revision`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_data: Option<UserDataSpec>,

    /// SSH keys for the root user, at most 50. Not for Windows and the systems `talos-…`. Default: none. A change after
    /// the order takes effect at the next re-installation (`install.revision`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50), extend("x-kubernetes-list-type" = "atomic"))]
    pub ssh_keys: Vec<SshKeySource>,

    /// Tags of the server, at most 56. A tag may not start with `fmo-`. Default: none. Mutable; on an existing server
    /// the operator adds and removes tags one at a time, and adds none to a server that has 58 or more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 56),
        inner(length(min = 1, max = 64), regex(pattern = r"^[A-Za-z0-9_:-]{1,64}$"))
    )]
    #[x_kube(merge_strategy = ListMerge::Set)]
    #[x_kube(validation = Rule::new("self.all(t, !t.startsWith('fmo-'))").message("tags may not start with the reserved prefix fmo-"))]
    pub tags: Vec<String>,

    /// `Additive` removes only tags that this object added. `Exact` removes every tag that is not listed in `tags`,
    /// except those that start with `fmo-`. Default: `Additive`. Mutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "TagPolicy")]
    pub tag_policy: Option<TagPolicy>,

    /// Contract whose committed quota pays for the server. Default: none; the server comes from the on-demand pool.
    /// Mutable until a server is ordered.
    #[serde(
        default,
        rename = "contractID",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(length(min = 1, max = 240), regex(pattern = r"^[A-Z0-9_.-]{1,240}$"))]
    pub contract_id: Option<String>,

    /// Whether the server may come from the on-demand pool when the committed quota is used up. Default: false. Mutable
    /// until a server is ordered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overflow: Option<bool>,

    /// UUID of an existing server to adopt. If set, no server is ever ordered. Default: none; a server is ordered.
    /// Mutable until a server is ordered or `status.uuid` is set; from then on only to that UUID.
    #[serde(
        default,
        rename = "externalID",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(regex(
        pattern = r"^[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}$"
    ))]
    pub external_id: Option<String>,

    /// `Full` orders, changes and releases the server as the spec says. `ObserveOnly` only reports it: the operator
    /// sends nothing. The deletion of an object that ordered or adopted its server waits until the policy is `Full`;
    /// any other object goes, and the server stays as it is. Default: `spec.defaults` of the account, else `Full`.
    /// Mutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "ManagementPolicy")]
    pub management_policy: Option<ManagementPolicy>,

    /// What happens to the server when the object is deleted. `Release` releases the server, which erases its disks.
    /// `Retain` keeps it, with the tag `fmo-retained`. Default: `spec.defaults` of the account, else `Release`. Mutable
    /// until the release has begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "DeletionPolicy")]
    pub deletion_policy: Option<DeletionPolicy>,

    /// If true, deletion is refused or waits, and the server stays. Default: `spec.defaults` of the account, else
    /// false. Mutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_protection: Option<bool>,

    /// If true, the operator sends no orders, changes or releases for this object; reads of the server continue.
    /// Default: `spec.defaults` of the account, else false. Mutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspend: Option<bool>,

    /// How long the server stays after the object is deleted, before its release begins: a duration such as `24h`, at
    /// most 720h. Until then the provider bills the server, and you can still keep it (`deletionPolicy: Retain`).
    /// Default: `spec.defaults` of the account, else 0s. Mutable until the release has begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Interval")]
    #[x_kube(validation = release_delay_fits())]
    pub release_delay: Option<Interval>,

    /// Time at which the operator deletes this object, as if you had deleted it. From then on nothing is ordered for
    /// it. The operator records a warning event a day and an hour before. Before the year 9999. Default: never.
    /// Mutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    // No rule: CEL fails on a time that it cannot parse, and it parses less than the format allows.
    #[schemars(regex(
        pattern = r"^9{0,3}[0-8][0-9]*-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,9})?([Zz]|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$"
    ))]
    pub expires_at: Option<Time>,

    /// What happens when the provider fails to deliver the server. `Wait` does nothing. `Replace` releases the server
    /// once it has been failed for `timing.absenceGracePeriod` of the account, and orders another one. Default:
    /// `spec.defaults` of the account, else `Wait`. Mutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "FailurePolicy")]
    pub failure_policy: Option<FailurePolicy>,

    /// What happens when the server is released outside of the operator. `Wait` does nothing. `Reorder` orders another
    /// server once this one has been released for `timing.absenceGracePeriod` of the account. Default: `spec.defaults`
    /// of the account, else `Wait`. Mutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "ExternalReleasePolicy")]
    pub external_release_policy: Option<ExternalReleasePolicy>,

    /// How long a delivery may take, and how often a server is ordered again. Default: see each field. Mutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provisioning: Option<Provisioning>,

    /// Power state: `PoweredOn` or `PoweredOff`. Each change creates one ServerCommand, which this object owns. The
    /// value that is set when the server is first seen as delivered sends nothing, and the operator does not enforce
    /// the state later. Default: none; nothing is sent. Mutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Power")]
    pub power: Option<Power>,

    /// Re-installation of the server. An edit of `hostname`, `os`, `sshKeys`, `postInstallScript` or `userData` alone
    /// never re-installs it. Default: none; the server is never re-installed. Mutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub install: Option<Install>,

    /// ConfigMap, Secret or both to which the operator writes the identifiers and addresses of the delivered server,
    /// for other programs. They are deleted with this object. Default: none. Mutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outputs: Option<Outputs>,

    /// Stores the root password of a Windows server (`os.slug` starts with `win`) in a Secret after the delivery. The
    /// provider returns the password for 24 hours after an installation. Default: none; the operator does not read the
    /// password. Mutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root_password: Option<RootPassword>,
}

/// No server exists, and no order is open.
const UNORDERED: &str = "!has(self.status) || (!has(self.status.uuid) && (!has(self.status.records) || !has(self.status.records.order) || (has(self.status.records.order.outcome) && self.status.records.order.outcome in ['Refused', 'NotSent', 'Absent'])))";

/// The rule of `externalID`: an object keeps its server. Without the field, it would order a second one.
fn external_id_stays() -> Rule {
    let id =
        |of: &str| format!("(has({of}.spec.externalID) ? {of}.spec.externalID.lowerAscii() : '')");
    let (now, before) = (id("self"), id("oldSelf"));
    let is_shown = "(has(self.status) && has(self.status.uuid) && has(self.spec.externalID) && self.spec.externalID.lowerAscii() == self.status.uuid.lowerAscii())";
    Rule::new(format!("{now} == {before} || {is_shown} || {UNORDERED}"))
        .message("externalID may not change while an order is open or the server exists; set it back to its present value, also in the manifest; to give up the server, delete the object with deletionPolicy: Retain")
        .field_path(".spec.externalID")
}

/// A CEL condition: this field of the spec is unchanged, unset, or equal to the server's. It may be unset only if no
/// server is ordered: see [`orders_with`].
fn stays_or_is_shown(field: &str) -> String {
    format!(
        "!has(self.spec.{field}) || (has(oldSelf.spec.{field}) && self.spec.{field} == oldSelf.spec.{field}) || (has(self.status) && has(self.status.uuid) && has(self.status.{field}) && self.spec.{field} == self.status.{field})"
    )
}

/// The rule of a spec: an object that may order a server has this field.
fn orders_with(field: &str) -> Rule {
    Rule::new(format!(
        "has(self.{field}) || has(self.externalID) || (has(self.managementPolicy) && self.managementPolicy == 'ObserveOnly')"
    ))
    .message(&*format!(
        "{field} is required to order a server; set {field}, or externalID (or managementPolicy: ObserveOnly) for an existing server"
    ))
    .field_path(format!(".{field}"))
    .reason(Reason::FieldValueRequired)
}

/// The rule of a field that may change until a server is ordered, so the next apply corrects a mistake. `same`: the
/// field did not change, or changes to the server's value.
fn until_ordered(field: &str, same: &str) -> Rule {
    Rule::new(format!("{same} || {UNORDERED}"))
        .message(&*format!(
            "{field} may not change while an order is open or the server exists; set it back to its present value, also in the manifest, and create a new object for another server"
        ))
        .field_path(format!(".spec.{field}"))
}

/// Which tags that `spec.tags` does not list are removed from a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum TagPolicy {
    /// Those that the object put on it. Tags of others stay.
    #[default]
    Additive,
    /// All but the operator's own.
    Exact,
}

/// Another placement. An unset field has the value of the spec.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, KubeSchema)]
#[x_kube(validation = Rule::new("has(self.location) || has(self.instanceType)").message("set location, instanceType or both"))]
#[serde(rename_all = "camelCase")]
pub struct Alternative {
    /// Name of the location. Default: `spec.location`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128))]
    pub location: Option<String>,
    /// Name of the instance type. Default: `spec.instanceType`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128))]
    pub instance_type: Option<String>,
}

impl BareMetalServer {
    /// Whether a sent or desired text came from a Secret or ConfigMap. True for a server that the object did not order.
    pub fn had_secret_texts(&self) -> bool {
        let records = self.status.as_ref().map(|status| &status.records);
        let install = records.and_then(|records| records.install.as_ref());
        let last = install.and_then(|install| install.last.as_ref());
        self.spec.has_secret_texts()
            || self.own_order().is_none_or(|order| order.secret_texts)
            || last.is_some_and(|last| last.intent.secret_texts)
    }
}

impl BareMetalServerSpec {
    /// The kernel parameters of the operating system.
    pub fn kernel_params(&self) -> impl Iterator<Item = &KernelParamSpec> {
        self.os.iter().flat_map(|os| &os.kernel_params)
    }

    /// Whether a script, user data or a kernel parameter is in a Secret or ConfigMap.
    pub fn has_secret_texts(&self) -> bool {
        let data = self.user_data.as_ref().map(|data| &data.data);
        let mut texts = self.post_install_script.iter().chain(data);
        let mut params = self.kernel_params();
        texts.any(|text| text.value_from.is_some()) || params.any(|it| it.value_from.is_some())
    }

    /// The policies that the object itself sets.
    pub fn policies(&self) -> Policies {
        Policies {
            management_policy: self.management_policy,
            deletion_policy: self.deletion_policy,
            deletion_protection: self.deletion_protection,
            suspend: self.suspend,
            release_delay: self.release_delay,
            failure_policy: self.failure_policy,
            external_release_policy: self.external_release_policy,
        }
    }
}

/// Observed state of the server. Only the operator writes it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BareMetalServerStatus {
    /// Generation of the spec that this status describes; -1 before the first reconcile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// Ready, Reconciling and Stalled, as kstatus reads them; Synced; InstallUpToDate once the server is delivered;
    /// RootPasswordStored with `spec.rootPassword`. Suspended and DeletionBlocked are absent until they are first True.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,

    /// The provider's state of the server, unchanged. An unknown state counts as in progress.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub provider_status: Option<String>,

    /// The provider's message for that state, unchanged. Hidden if a text of the server came from a Secret or
    /// ConfigMap, because the message may repeat it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub status_message: Option<String>,

    /// UUID of the server at the provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 36))]
    pub uuid: Option<String>,

    /// Identifier of the server for the field `spec.providerID` of a Node: `flexmetal://` followed by `uuid`.
    #[serde(rename = "providerID", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub provider_id: Option<String>,

    /// Addresses of the server, in the provider's order, at most 32.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MOST_ADDRESSES), extend("x-kubernetes-list-type" = "atomic"))]
    pub addresses: Vec<Address>,

    /// Number of addresses that `addresses` leaves out. Unset if none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub addresses_omitted: Option<i32>,

    /// Name of the location: the value of the spec until the provider reports the server, then the provider's.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub location: Option<String>,

    /// Name of the instance type: the value of the spec until the provider reports the server, then the provider's.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub instance_type: Option<String>,

    /// Short name of the operating system: `spec.os.slug` until the provider reports the server, then the provider's.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub os: Option<String>,

    /// Host name of the server, as the provider reports it. Unset until then.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub hostname: Option<String>,

    /// Contract whose committed quota the server came from, as the provider reports it. Unset for the on-demand pool.
    #[serde(rename = "contractID", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 240))]
    pub contract_id: Option<String>,

    /// Situations that wait for your acknowledgement, at most 8. To acknowledge one, set the annotation
    /// `flexmetal.dev/acknowledge` to its token, or to several tokens separated by commas.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["token"]))]
    pub pending_acknowledgements: Vec<PendingAcknowledgement>,

    /// The last five acknowledgements that the operator acted on, newest last.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 5), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["token"]))]
    pub acknowledged: Vec<Acknowledged>,

    /// Policies in force: those of the object, else `spec.defaults` of its account, else those of the operator. Unset
    /// while that account is not found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policies: Option<PoliciesInForce>,

    /// Account that `spec.accountRef` referred to when the order or the adoption started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub account_ref: Option<PinnedAccount>,

    /// Time at which the order started, by the operator's clock. Unset for an adopted server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ordered_at: Option<Time>,

    /// Time at which the provider created the server record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Time>,

    /// Time at which the provider delivered the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delivered_at: Option<Time>,

    /// Seconds from the creation of the server record to the delivery, by the provider's clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provisioning_seconds: Option<i64>,

    /// Time at which the provider finished the release.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub released_at: Option<Time>,

    /// UUIDs of other live servers that have this object's order tag, at most 20. Normally empty.
    #[serde(rename = "duplicateUUIDs", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MOST_DUPLICATES), inner(length(max = 36)), extend("x-kubernetes-list-type" = "atomic"))]
    pub duplicate_uuids: Vec<String>,

    /// Number of servers that `duplicateUUIDs` leaves out. Unset if none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duplicates_omitted: Option<i32>,

    /// Servers that were replaced or are about to be, at most 10, oldest first. Emptied once the present server has
    /// been delivered for a day.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MOST_REPLACED), extend("x-kubernetes-list-type" = "atomic"))]
    pub replaced_servers: Vec<Replaced>,

    /// Value of the annotation `flexmetal.dev/reconcile-requested-at`, or else `reconcile.fluxcd.io/requestedAt`, for
    /// which the operator last read the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = LONGEST_REQUEST))]
    pub last_handled_reconcile_at: Option<String>,

    /// The last change of `spec.power`. Unset before the first one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power: Option<PowerStatus>,

    /// The last re-installation, and the revision of `spec.install` that counts as performed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub install: Option<ServerInstallStatus>,

    /// State of the root password of the last installation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root_password: Option<RootPasswordStatus>,

    /// Internal records of the operator. Their format changes without notice. Do not change them.
    #[serde(skip_serializing_if = "records::is_unset")]
    #[schemars(schema_with = "records::schema_of_server")]
    pub records: ServerRecords,
}

impl Kind for BareMetalServer {
    fn conditions(status: &Self::Status) -> &[Condition] {
        &status.conditions
    }

    fn provider_id(status: &Self::Status) -> Option<&str> {
        status.uuid.as_deref()
    }

    fn order_number(status: &Self::Status) -> Option<u32> {
        Some(status.records.order.as_ref()?.seq)
    }

    fn conditions_mut(status: &mut Self::Status) -> (&mut Option<i64>, &mut Vec<Condition>) {
        (&mut status.observed_generation, &mut status.conditions)
    }

    fn show_records(status: &mut Self::Status) {
        let records = &status.records;
        status.power = records.power.as_ref().and_then(PowerRecord::to_status);
        status.install = records.install.as_ref().map(InstallHistory::to_status);
        status.root_password = records
            .root_password
            .as_ref()
            .map(RootPasswordRecord::to_status);
    }

    fn handled(status: &mut Self::Status) -> &mut Option<String> {
        &mut status.last_handled_reconcile_at
    }
}
