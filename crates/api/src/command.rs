//! `ServerCommand`: one power command to one server or dedicated host, carried out once, like a Job.

use super::{
    bounds::LONGEST_REQUEST,
    interval::{Interval, from_to, guarded},
    kind::Kind,
    order::OrderAccount,
    records::{self, CommandRecords},
    references::PinnedAccount,
    rfc3339,
    target::{Target, TargetRef},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube_core::Rule;
use kube_derive::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// One power command to one server or dedicated host in the same namespace. It is sent at most once and followed to its
/// end.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "flexmetal.dev",
    version = "v1alpha1",
    kind = "ServerCommand",
    plural = "servercommands",
    singular = "servercommand",
    shortname = "scmd",
    category = "flexmetal",
    namespaced,
    status = "ServerCommandStatus",
    derive = "PartialEq",
    selectable = ".spec.targetRef.kind",
    selectable = ".spec.targetRef.name",
    selectable = ".spec.action",
    doc = "One power command to one server or dedicated host in the same namespace. It is sent at most once and followed to its end.",
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status",
        description = "Whether the command was carried out."
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].reason",
        description = "Progress of the command, or how it ended."
    ),
    printcolumn(
        name = "Target",
        type_ = "string",
        json_path = ".spec.targetRef.name",
        description = "Server or dedicated host of the command."
    ),
    printcolumn(
        name = "Action",
        type_ = "string",
        json_path = ".spec.action",
        description = "Action of the command."
    ),
    printcolumn(
        name = "State",
        type_ = "string",
        json_path = ".status.providerState",
        description = "The provider's state of the command; for a dedicated host: whether it runs."
    ),
    printcolumn(
        name = "Synced",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Synced\")].status",
        priority = 1,
        description = "Whether the last exchange with the provider worked and nothing is left to send."
    ),
    printcolumn(
        name = "Command",
        type_ = "string",
        json_path = ".status.commandID",
        priority = 1,
        description = "The provider's ID of the command."
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
#[x_kube(validation = Rule::new("self == oldSelf").message("spec is immutable; delete the command, and create one with another name"))]
#[x_kube(validation = Rule::new("!has(self.action) || self.action != 'Shutdown' || !has(self.targetRef) || !has(self.targetRef.kind) || self.targetRef.kind != 'DedicatedHost'").message("action may not be Shutdown for a DedicatedHost; use PowerOff").field_path(".action"))]
#[x_kube(validation = Rule::new("!has(self.escalateAfter) || !has(self.action) || self.action == 'Shutdown'").message("escalateAfter may be set with action: Shutdown only; remove it"))]
#[x_kube(validation = escalates_in_time())]
#[serde(rename_all = "camelCase")]
pub struct ServerCommandSpec {
    /// The BareMetalServer or DedicatedHost in the same namespace. Required. Immutable.
    #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
    pub target_ref: TargetRef,

    /// Action: `Reboot`, `PowerOn`, `PowerOff` (at once) or `Shutdown` (the operating system shuts down; not for a
    /// DedicatedHost). Required. Immutable.
    pub action: PowerAction,

    /// How long after the creation of the object the command may take: a duration such as `10m`, from 1m to 24h. After
    /// that a command is no longer sent, and the operator stops waiting for the end of one that was. Default: 30m.
    /// Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Interval")]
    #[x_kube(validation = Rule::new(from_to("1m", "24h")).message("timeout must be from 1m to 24h"))]
    pub timeout: Option<Interval>,

    /// How long after sending a `Shutdown` that has not finished the operator switches the power off: a duration such
    /// as `5m`, at least 10s and shorter than `timeout`. Default: never. Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Interval")]
    #[x_kube(validation = Rule::new(guarded("self", "duration(self) >= duration('10s')")).message("escalateAfter must be at least 10s"))]
    pub escalate_after: Option<Interval>,

    /// Seconds after the end at which the operator deletes this object, at most 31536000; 0 is at once. If the object
    /// is in Git, it is then applied again, and the command is sent again. Default: never. Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 31_536_000))]
    pub ttl_seconds_after_finished: Option<i32>,
}

/// The rule of a spec: the power is switched off before the timeout of the command.
fn escalates_in_time() -> Rule {
    let (after, timeout) = (
        "self.escalateAfter",
        "(has(self.timeout) ? self.timeout : '30m')",
    );
    let rule = format!("duration({after}) < duration({timeout})");
    let rule = guarded(after, &guarded(timeout, &rule));
    Rule::new(format!("!has({after}) || {rule}"))
        .message("escalateAfter must be shorter than timeout (default 30m)")
}

/// What is done to a server or a dedicated host.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub enum PowerAction {
    /// It is restarted.
    Reboot,
    /// It is switched on.
    PowerOn,
    /// It is switched off at once.
    PowerOff,
    /// Its system is asked to end, and it is off then.
    Shutdown,
}

impl PowerAction {
    /// The name in manifests.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Reboot => "Reboot",
            Self::PowerOn => "PowerOn",
            Self::PowerOff => "PowerOff",
            Self::Shutdown => "Shutdown",
        }
    }
}

impl ServerCommandSpec {
    const TIMEOUT: Interval = Interval(Duration::from_secs(1800));

    /// How long after its creation the command may take.
    pub fn timeout(&self) -> Interval {
        self.timeout.unwrap_or(Self::TIMEOUT)
    }
}

/// Observed state of the command. Only the operator writes it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ServerCommandStatus {
    /// Generation of the spec that this status describes; -1 before the first reconcile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// Complete and Failed, as a Job has them; Ready, Reconciling and Stalled, as kstatus reads them; Synced.
    /// Suspended and DeletionBlocked are absent until they are first True.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,

    /// Account of the target, as of the first reconcile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub account_ref: Option<PinnedAccount>,

    /// The provider's ID of the last command. Unset for a DedicatedHost, whose commands have none.
    #[serde(rename = "commandID", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 36))]
    pub command_id: Option<String>,

    /// The provider's state of the last command, unchanged. An unknown state counts as in progress. For a
    /// DedicatedHost: the provider's word for whether it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub provider_state: Option<String>,

    /// Time at which the operator started the first command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,

    /// Time at which the command ended, successfully or not, by the operator's clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Time>,

    /// Value of the annotation `flexmetal.dev/reconcile-requested-at`, or else `reconcile.fluxcd.io/requestedAt`, for
    /// which the operator last reconciled the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = LONGEST_REQUEST))]
    pub last_handled_reconcile_at: Option<String>,

    /// Internal records of the operator. Their format changes without notice. Do not change them.
    #[serde(skip_serializing_if = "records::is_unset")]
    #[schemars(schema_with = "records::schema")]
    pub records: CommandRecords,
}

/// The target of a command, as it was first seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CommandTarget {
    /// UID of the object.
    pub uid: String,
    /// UUID of the server, or number of the dedicated host. Unset until there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// ID of the account in which that was ordered or seen (`status.accountID` there). Unset until it is known.
    #[serde(default, rename = "accountID", skip_serializing_if = "Option::is_none")]
    pub account_id: Option<String>,
}

impl CommandTarget {
    /// The target as it was first seen, with what is known of it since; None: the target is another one now.
    pub fn from_target(first: Option<&Self>, target: &Target) -> Option<Self> {
        let mut seen = Self {
            uid: target.meta().uid.clone().unwrap_or_default(),
            server: target.provider_id(),
            account_id: target.account_id(),
        };
        if let Some(first) = first {
            let stays = |first: &Option<String>, now: &mut Option<String>| {
                let both = first.as_ref().zip(now.as_ref());
                let is_same = both.is_none_or(|(first, now)| first.eq_ignore_ascii_case(now));
                *now = first.clone().or_else(|| now.take());
                is_same
            };
            let is_same = first.uid == seen.uid
                && stays(&first.server, &mut seen.server)
                && stays(&first.account_id, &mut seen.account_id);
            return is_same.then_some(seen);
        }
        Some(seen)
    }
}

/// One command as it was started, and its outcome.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CommandRecord {
    /// The intent.
    #[serde(flatten)]
    pub intent: CommandIntent,
    /// The outcome. Unset while it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<CommandOutcome>,
    /// The provider's ID of the command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The provider's state of the command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Why it was refused or not sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl CommandRecord {
    /// A command without a known outcome.
    pub fn new_open(intent: CommandIntent) -> Self {
        Self {
            intent,
            outcome: None,
            id: None,
            state: None,
            message: None,
        }
    }
}

/// The intent to send a command, written before it is sent, in metadata and in status.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CommandIntent {
    /// UID of the object: a copied or restored object has sent nothing and sends nothing.
    pub uid: String,
    /// The action.
    pub action: PowerAction,
    /// UUID of the server, or number of the dedicated host.
    pub server: String,
    /// Nonce of this attempt.
    pub attempt: String,
    /// When the attempt was started.
    #[serde(with = "rfc3339")]
    pub started_at: i64,
    /// Time after which the command is no longer sent.
    #[serde(with = "rfc3339")]
    pub send_by: i64,
    /// The account that gets the command.
    pub account: OrderAccount,
    /// The commands of the server that were listed right before: any other is newer.
    pub listed: ListedCommands,
}

/// The commands of a server at one moment, to distinguish later ones from earlier ones.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListedCommands {
    /// Commands created before this time, by the provider's clock, existed: an hour before the newest, or less if there
    /// are many. Unset if there were none, or none has a time.
    #[serde(
        default,
        with = "rfc3339::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub since: Option<i64>,
    /// Short hashes of the commands that were created since, and of those without a time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recent: Vec<String>,
}

/// What came of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum CommandOutcome {
    /// The provider has it.
    Accepted,
    /// The provider refused it.
    Refused,
    /// It was not sent.
    NotSent,
}

impl Kind for ServerCommand {
    fn conditions(status: &Self::Status) -> &[Condition] {
        &status.conditions
    }

    fn conditions_mut(status: &mut Self::Status) -> (&mut Option<i64>, &mut Vec<Condition>) {
        (&mut status.observed_generation, &mut status.conditions)
    }

    fn exists(status: &Self::Status) -> bool {
        // A finished command stays as it ended.
        status.started_at.is_some() && status.finished_at.is_none()
    }

    fn handled(status: &mut Self::Status) -> &mut Option<String> {
        &mut status.last_handled_reconcile_at
    }
}

impl ServerCommand {
    /// The account that gets the command: the target's, once it is known.
    pub fn account(&self) -> PinnedAccount {
        let pinned = self.status.as_ref().and_then(|s| s.account_ref.as_ref());
        PinnedAccount::in_force(pinned, None)
    }
}
