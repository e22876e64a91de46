//! `BareMetalServer`: one on-demand server.

pub use super::address::{Address, AddressType};
pub use super::installation::{OperatingSystem, TextSource, UserData};
pub use super::lifetime::{ExpiryWarning, Provisioning, Replaced};
pub use super::order::{OrderOutcome, OrderRecord};
pub use super::policies::{DeletionPolicy, ExternalReleasePolicy, FailurePolicy, ManagementPolicy};
pub use super::references::PinnedAccount;
use super::{
    acknowledgement::{Acknowledged, PendingAcknowledgement},
    bounds::LONGEST_REQUEST,
    install::{Install, InstallHistory, InstallStatus, installs_with},
    installation::{KernelParam, keys_are_installed, script_has_shebang, script_is_run, texts_fit},
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
    selectable = ".status.accountRef.kind",
    selectable = ".status.accountRef.name",
    selectable = ".status.location",
    selectable = ".status.instanceType",
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
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].reason",
        description = "Why the server is ready or not."
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
        description = "The provider's identifier of the server."
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
#[kube(validation = Rule::new("has(self.spec.hostname) || !self.metadata.name.matches('[^.]{64}')").message("metadata.name is no host name, a part of it is longer than 63 characters: set spec.hostname"))]
#[kube(validation = until_ordered("location", &stays_or_is_shown("location")))]
#[kube(validation = until_ordered("instanceType", &stays_or_is_shown("instanceType")))]
#[kube(validation = until_ordered("contractID", "(has(self.spec.contractID) ? self.spec.contractID : '') == (has(oldSelf.spec.contractID) ? oldSelf.spec.contractID : '')"))]
#[kube(validation = until_ordered("overflow", "(has(self.spec.overflow) && self.spec.overflow) == (has(oldSelf.spec.overflow) && oldSelf.spec.overflow)"))]
#[kube(validation = machine_stays())]
#[x_kube(validation = account_stays("server"))]
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
    /// The account that pays. Default: the ProviderAccount `default` of this namespace.
    /// Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account_ref: Option<AccountRef>,

    /// Name of the location, as the provider lists it, for example `EU: Rotterdam`. Required to order a server: without
    /// `externalID` and `managementPolicy: ObserveOnly`. Default: none. Mutable until a server is ordered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128))]
    pub location: Option<String>,

    /// Name of the instance type, for example `bm7.std.8`. Required to order a server: without `externalID` and
    /// `managementPolicy: ObserveOnly`. Default: none. Mutable until a server is ordered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128))]
    pub instance_type: Option<String>,

    /// Host name of the server. Default: the object's name. A change after the order takes a re-installation (`install.revision`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 253),
        regex(
            pattern = HOST_NAME
        )
    )]
    pub hostname: Option<String>,

    /// Other places and types that will do, tried in this order while the one before is out of stock or beyond the quota; at
    /// most 8. Default: none. Mutable; a machine that is ordered stays where it is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), extend("x-kubernetes-list-type" = "atomic"))]
    pub alternatives: Vec<Alternative>,

    /// The operating system to install. Required to order a server, without `externalID` and
    /// `managementPolicy: ObserveOnly`, and with `install`. Default: none. A change after the order takes a re-installation
    /// (`install.revision`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub os: Option<OperatingSystem>,

    /// A script that runs once, at the first boot: on Linux by what its shebang names, on Windows by PowerShell; other systems
    /// run none. Default: none. A change after the order takes a re-installation (`install.revision`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub post_install_script: Option<TextSource>,

    /// Data that the machine reads from its metadata service; nothing runs it. Default: none. A change after the order
    /// takes a re-installation (`install.revision`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_data: Option<UserData>,

    /// SSH keys for the root user, at most 50. Default: none. Windows and `talos-…` take none.
    /// A change after the order takes a re-installation (`install.revision`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50), extend("x-kubernetes-list-type" = "atomic"))]
    pub ssh_keys: Vec<SshKeySource>,

    /// Tags of the server, at most 56; the prefix `fmo-` is the operator's own. Default: none. Mutable: a machine that is
    /// there gets and loses tags one by one, and none is added to one that has 58 or more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 56),
        inner(length(min = 1, max = 64), regex(pattern = r"^[A-Za-z0-9_:-]{1,64}$"))
    )]
    #[x_kube(merge_strategy = ListMerge::Set)]
    #[x_kube(validation = Rule::new("self.all(t, !t.startsWith('fmo-'))").message("tags must not begin with the reserved prefix fmo-"))]
    pub tags: Vec<String>,

    /// Which tags a machine loses: with `Additive` those that this object put on it and `tags` names no more; with `Exact`
    /// every one that `tags` does not name, whoever put it there, but for those that begin with `fmo-`.
    /// Default: `Additive`. Mutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "TagPolicy")]
    pub tag_policy: Option<TagPolicy>,

    /// Contract whose committed quota pays for the server. Default: none, the on-demand pool. Mutable until a machine is ordered.
    #[serde(
        default,
        rename = "contractID",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(length(min = 1, max = 240), regex(pattern = r"^[A-Z0-9_.-]{1,240}$"))]
    pub contract_id: Option<String>,

    /// Whether the on-demand pool may be used when the committed quota is used up. Default: false. Mutable until a machine is ordered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overflow: Option<bool>,

    /// The provider's identifier of a machine that is there: the object takes that machine on, or none, and never orders
    /// one. Default: none, a machine is ordered. Mutable until a machine is ordered or shown; then only to that machine.
    #[serde(
        default,
        rename = "externalID",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(regex(
        pattern = r"^[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}$"
    ))]
    pub external_id: Option<String>,

    /// Whether the machine is ordered, changed and released as the object says (`Full`), or only shown (`ObserveOnly`):
    /// then nothing is sent for the object, and when it is deleted its machine stays as it is. Default: what
    /// `spec.defaults` of the account says, else `Full`. Mutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "ManagementPolicy")]
    pub management_policy: Option<ManagementPolicy>,

    /// What happens to the machine when the object is deleted: `Release` or `Retain`. Default: what `spec.defaults` of the
    /// account says, else `Release`. Mutable until the release has begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "DeletionPolicy")]
    pub deletion_policy: Option<DeletionPolicy>,

    /// While true, a deletion of the object is held and the machine stays. Default: what `spec.defaults` of the account
    /// says, else false. Mutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_protection: Option<bool>,

    /// While true, nothing is ordered or released for this object; reading goes on. Default: what `spec.defaults` of the
    /// account says, else false. Mutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspend: Option<bool>,

    /// How long the machine stays after the object was deleted, before its release begins: a span such as `24h`, at most
    /// 720h. Until then the machine is billed, and can be kept (`deletionPolicy: Retain`). Default: what `spec.defaults` of
    /// the account says, else 0s. Mutable until the release has begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Interval")]
    #[x_kube(validation = release_delay_fits())]
    pub release_delay: Option<Interval>,

    /// When this object is no longer needed: it deletes itself then, which does to the machine what a deletion does, and
    /// nothing is ordered for it any more. Told of a day and an hour before. Before the year 9999. Default: never.
    /// Mutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    // No rule: CEL throws about a time that it does not read, and it reads less than the format takes.
    #[schemars(regex(
        pattern = r"^9{0,3}[0-8][0-9]*-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,9})?([Zz]|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$"
    ))]
    pub expires_at: Option<Time>,

    /// What happens when the provider could not deliver the machine: with `Wait` nothing; with `Replace` it is given up
    /// once it has stood as failed for the absence grace period, and another one is ordered in its place. Default: what
    /// `spec.defaults` of the account says, else `Wait`. Mutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "FailurePolicy")]
    pub failure_policy: Option<FailurePolicy>,

    /// What happens when the machine was released outside the operator: with `Wait` nothing; with `Reorder` another one is
    /// ordered in its place. Default: what `spec.defaults` of the account says, else `Wait`. Mutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "ExternalReleasePolicy")]
    pub external_release_policy: Option<ExternalReleasePolicy>,

    /// How long a delivery may take, and how often another machine is ordered. Default: each has its own. Mutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provisioning: Option<Provisioning>,

    /// Power state of the server: `PoweredOn` or `PoweredOff`. Each change sends one command, as a ServerCommand of this
    /// object. What it says when the server is first seen as delivered sends none, and the state is not kept up.
    /// Default: nothing is sent. Mutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Power")]
    pub power: Option<Power>,

    /// Whether the machine is installed again. An edit of `hostname`, `os`, `sshKeys`, `postInstallScript` or `userData`
    /// alone never does that. Default: never. Mutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub install: Option<Install>,

    /// Where the identifiers and addresses of the machine are written once it is delivered, for other programs: a ConfigMap,
    /// a Secret, or both, which go with this object. Default: nowhere. Mutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outputs: Option<Outputs>,

    /// The root password of a Windows machine (`os.slug` begins with `win`) is stored in a Secret once it is delivered. The
    /// provider gives it away for 24 hours after the installation. Default: it is not asked for. Mutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root_password: Option<RootPassword>,
}

/// No machine is there, and no order is open.
const UNORDERED: &str = "!has(self.status) || (!has(self.status.uuid) && (!has(self.status.records) || !has(self.status.records.order) || (has(self.status.records.order.outcome) && self.status.records.order.outcome in ['Refused', 'NotSent', 'Absent'])))";

/// The rule of `externalID`: an object with a machine keeps it. Taken off, the object would order another one beside it.
fn machine_stays() -> Rule {
    let id =
        |of: &str| format!("(has({of}.spec.externalID) ? {of}.spec.externalID.lowerAscii() : '')");
    let (now, before) = (id("self"), id("oldSelf"));
    let is_shown = "(has(self.status) && has(self.status.uuid) && has(self.spec.externalID) && self.spec.externalID.lowerAscii() == self.status.uuid.lowerAscii())";
    Rule::new(format!("{now} == {before} || {is_shown} || {UNORDERED}"))
        .message("externalID cannot change while an order is open or the machine is there: set it back to its present value, in the manifest too; to give the machine up, delete the object with deletionPolicy Retain")
        .field_path(".spec.externalID")
}

/// A condition of CEL: whether this field of the spec is as before, is left out, or says what the server has. It may be left
/// out where no server is ordered: see [`orders_with`].
fn stays_or_is_shown(field: &str) -> String {
    format!(
        "!has(self.spec.{field}) || (has(oldSelf.spec.{field}) && self.spec.{field} == oldSelf.spec.{field}) || (has(self.status) && has(self.status.uuid) && has(self.status.{field}) && self.spec.{field} == self.status.{field})"
    )
}

/// The rule of a spec: an object that may order a server says which one.
fn orders_with(field: &str) -> Rule {
    Rule::new(format!(
        "has(self.{field}) || has(self.externalID) || (has(self.managementPolicy) && self.managementPolicy == 'ObserveOnly')"
    ))
    .message(&*format!(
        "{field} is required to order a server: set {field}, or externalID (or managementPolicy: ObserveOnly) for an existing server"
    ))
    .field_path(format!(".{field}"))
    .reason(Reason::FieldValueRequired)
}

/// The rule of a field that may change while no order is open and no machine exists: a mistake is
/// corrected by the next apply. `same` says that it did not change, or changes to what the machine shows.
fn until_ordered(field: &str, same: &str) -> Rule {
    Rule::new(format!("{same} || {UNORDERED}"))
        .message(&*format!(
            "{field} cannot change while an order is open or the machine exists, which stays as it is: set {field} back to its present value, in the manifest too, and create a new server for another one"
        ))
        .field_path(format!(".spec.{field}"))
}

/// Which tags a machine loses that `spec.tags` does not name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum TagPolicy {
    /// Those that the object put on it. Tags of others stay.
    #[default]
    Additive,
    /// All but the operator's own.
    Exact,
}

/// Another place or type that will do. What is not set is that of the spec.
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

impl BareMetalServerSpec {
    /// The kernel parameters of the operating system.
    pub fn kernel_params(&self) -> impl Iterator<Item = &KernelParam> {
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

/// What is known about the server. Written by the operator only.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BareMetalServerStatus {
    /// Generation of the spec that this status describes; -1 before the first pass.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// Ready, Reconciling, Stalled and Synced, as kstatus reads them; of a delivered server InstallUpToDate; with
    /// `spec.rootPassword` RootPasswordStored.
    /// Suspended and DeletionBlocked: absent until first True.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,

    /// The provider's word for the server's state, unchanged. An unknown word counts as in progress.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub provider_status: Option<String>,

    /// The provider's message for that state, unchanged. It is hidden where a text of the server came from a Secret or
    /// ConfigMap, as it may repeat any word of that.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub status_message: Option<String>,

    /// The provider's identifier of the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 36))]
    pub uuid: Option<String>,

    /// The identifier of the machine as a Node of a cluster bears it (`spec.providerID`): `flexmetal://`, then `uuid`.
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

    /// Name of the location. It is that of the spec until the provider shows the server, then the provider's.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub location: Option<String>,

    /// Name of the instance type. It is that of the spec until the provider shows the server, then the provider's.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub instance_type: Option<String>,

    /// Short name of the operating system. It is `spec.os.slug` until the provider shows the server, then the provider's.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub os: Option<String>,

    /// Host name of the server, as the provider shows it. Unset until then.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub hostname: Option<String>,

    /// Contract whose committed quota the server came from, as the provider shows it. Unset for the on-demand pool.
    #[serde(rename = "contractID", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 240))]
    pub contract_id: Option<String>,

    /// What waits for an acknowledgement, at most 8. To acknowledge one, set the annotation `flexmetal.dev/acknowledge` to its
    /// token, or to several tokens separated by commas.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["token"]))]
    pub pending_acknowledgements: Vec<PendingAcknowledgement>,

    /// The last five acknowledgements that the operator acted on, the newest last.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 5), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["token"]))]
    pub acknowledged: Vec<Acknowledged>,

    /// The policies in force: the object's own, else its account's `spec.defaults`, else the operator's. Unset while the
    /// account that says them was not found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policies: Option<PoliciesInForce>,

    /// The account that `accountRef` referred to when the order started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub account_ref: Option<PinnedAccount>,

    /// When the order of the machine was started, by the operator's clock. Unset for a machine that was there before the
    /// object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ordered_at: Option<Time>,

    /// When the provider created the server record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Time>,

    /// When the provider delivered the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delivered_at: Option<Time>,

    /// Seconds from the creation of the server record to the delivery, by the provider's clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provisioning_seconds: Option<i64>,

    /// When the provider finished the release.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub released_at: Option<Time>,

    /// UUIDs of other live servers with this object's order tag, at most 20. Normally empty.
    #[serde(rename = "duplicateUUIDs", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MOST_DUPLICATES), inner(length(max = 36)), extend("x-kubernetes-list-type" = "atomic"))]
    pub duplicate_uuids: Vec<String>,

    /// Number of servers that `duplicateUUIDs` leaves out. Unset if none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duplicates_omitted: Option<i32>,

    /// Machines in whose place another one was ordered, or is about to be; at most 10, the oldest first. Forgotten once
    /// the present machine has been delivered for a day.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MOST_REPLACED), extend("x-kubernetes-list-type" = "atomic"))]
    pub replaced_servers: Vec<Replaced>,

    /// The value of the annotation `flexmetal.dev/reconcile-requested-at`, or else `reconcile.fluxcd.io/requestedAt`, for
    /// which the machine was last read.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = LONGEST_REQUEST))]
    pub last_handled_reconcile_at: Option<String>,

    /// What was last done about `spec.power`. Unset before the first change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power: Option<PowerStatus>,

    /// The last re-installation of the server, and which revision of `spec.install` counts as performed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub install: Option<InstallStatus>,

    /// What became of the root password of the last installation of the machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root_password: Option<RootPasswordStatus>,

    /// The operator's own records, for the operator alone: their form changes without notice. Do not change them.
    #[serde(skip_serializing_if = "records::is_unset")]
    #[schemars(schema_with = "records::schema_of_server")]
    pub records: ServerRecords,
}

impl Kind for BareMetalServer {
    fn conditions(status: &Self::Status) -> &[Condition] {
        &status.conditions
    }

    fn machine(status: &Self::Status) -> Option<&str> {
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
        status.power = records.power.as_ref().and_then(PowerRecord::shown);
        status.install = records.install.as_ref().map(InstallHistory::shown);
        status.root_password = records
            .root_password
            .as_ref()
            .map(RootPasswordRecord::shown);
    }

    fn handled(status: &mut Self::Status) -> &mut Option<String> {
        &mut status.last_handled_reconcile_at
    }
}
