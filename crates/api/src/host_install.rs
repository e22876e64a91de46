//! What a dedicated host is installed with, and the installations that `spec.install` caused.

use super::{
    command::CommandOutcome,
    host::DedicatedHostSpec,
    install::{FinishedInstall, InstallEnd, LastInstall},
    installation::{MOST_TEXT, TALOS, is_of, params_are_read, params_size, script_size},
    order::OrderAccount,
    references::ValueLocation,
    rfc3339,
};
use kube_core::Rule;
use kube_derive::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The rule of a spec: its texts leave space for the rest of the object.
pub(super) fn texts_fit() -> Rule {
    let (params, script) = (params_size(), script_size());
    Rule::new(format!("{params} + {script} <= {MOST_TEXT}")).message(&*format!(
        "the texts and names in os.kernelParams and postInstallScript may not have more than {MOST_TEXT} bytes together; put the long ones into a Secret or a ConfigMap and refer to them (valueFrom)"
    ))
}

fn image_is_named() -> Rule {
    let talos = is_of("self.slug", &[TALOS]);
    Rule::new(format!(
        "!{talos} || (has(self.kernelParams) && self.kernelParams.exists_one(p, has(p.key) && p.key in ['siderolink.api', 'factoryhash']))"
    ))
    .message("kernelParams must have exactly one of siderolink.api (vanilla image, with the URL of the hub) and factoryhash (factory image) for this system; set one")
    .field_path(".kernelParams")
}

fn image_is_one() -> Rule {
    Rule::new("!has(self.kernelParams) || self.kernelParams.filter(p, has(p.key) && p.key in ['siderolink.api', 'factoryhash']).size() <= 1")
        .message("kernelParams may not have more than one of siderolink.api and factoryhash; keep one, once")
        .field_path(".kernelParams")
}

fn factory_hash_is_only_param() -> Rule {
    Rule::new("!has(self.kernelParams) || !self.kernelParams.exists(p, has(p.key) && p.key == 'factoryhash') || self.kernelParams.size() == 1")
        .message("factoryhash may not be combined with other kernel parameters; put them into the factory image, and remove them here")
        .field_path(".kernelParams")
}

/// How an installation is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum RequestForm {
    /// As the provider's document says.
    #[default]
    Documented,
    /// As machine-readable descriptions say.
    Observed,
}

/// The system to install, with its settings: exactly one of `id` and `slug` is set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[x_kube(validation = Rule::new("has(self.id) != has(self.slug)").message("set exactly one of id and slug"))]
#[x_kube(validation = Rule::new("!has(self.slug) || self.slug.lowerAscii() != 'custom-ipxe'").message("slug may not be custom-ipxe for a dedicated host; choose another system").field_path(".slug"))]
#[x_kube(validation = params_are_read())]
#[x_kube(validation = image_is_named())]
#[x_kube(validation = image_is_one())]
#[x_kube(validation = factory_hash_is_only_param())]
#[serde(rename_all = "camelCase")]
pub struct HostSystem {
    /// The provider's number of the system. Default: none; `slug` is required then. Mutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 2_147_483_647), extend("format" = "int32"))]
    pub id: Option<i64>,

    /// The provider's short name of the system, for example `ubuntu-2404-lts`. Default: none; `id` is required then.
    /// Mutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 128),
        regex(pattern = r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    )]
    pub slug: Option<String>,

    /// Kernel parameters, at most 16. Only for the systems `talos-…`, which need one of `siderolink.api` and
    /// `factoryhash`. Default: none. Mutable.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    pub kernel_params: Vec<HostKernelParam>,
}

/// A kernel parameter. Without `value` and `valueFrom` it is the bare name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[x_kube(validation = Rule::new("!(has(self.value) && has(self.valueFrom))").message("set at most one of value and valueFrom"))]
#[x_kube(validation = Rule::new("!has(self.key) || self.key != 'siderolink.api' || has(self.valueFrom) || (has(self.value) && self.value.matches('^(https?|grpc)://[^/]'))").message("siderolink.api must be a URL of http, https or grpc, such as https://hub.example.com"))]
#[x_kube(validation = Rule::new("!has(self.key) || self.key != 'factoryhash' || has(self.valueFrom) || (has(self.value) && self.value != '')").message("factoryhash must have a value; set it"))]
#[serde(rename_all = "camelCase")]
pub struct HostKernelParam {
    /// Name of the parameter, for example `siderolink.api`.
    #[schemars(length(min = 1, max = 255), regex(pattern = r"^[!-<>-~]+$"))]
    pub key: String,
    /// Value of the parameter; may be empty. Everybody who may read the object can read it. Default: none. Mutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048), regex(pattern = r"^[^\x00-\x1f\x7f]*$"))]
    pub value: Option<String>,
    /// Reference to the value in a Secret or ConfigMap of this namespace. One line break at its end is dropped.
    /// Default: none. Mutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_from: Option<ValueLocation>,
}

/// The installations of a host, as the operator records them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HostInstallHistory {
    /// UID of the object: a record of a previous object of this name does not count.
    pub uid: String,
    /// The highest `spec.install.revision` that counts as performed.
    pub revision: i64,
    /// The installation log of the host, as far as all of it is known: anything later was installed by another user.
    /// Unset until it was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<HostLog>,
    /// The last finished installation. A later one may have failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished: Option<FinishedInstall>,
    /// The last installation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<HostInstallRecord>,
    /// The provider's word for the installation, if the operator does not know it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unknown: Option<UnknownWord>,
}

/// A word of the provider that the operator does not know.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UnknownWord {
    /// The word.
    pub word: String,
    /// When it was first seen, by the operator's clock.
    #[serde(with = "rfc3339")]
    pub since: i64,
    /// Whether the word has stayed so long that it counts as no installation.
    #[serde(default)]
    pub is_stuck: bool,
}

/// An installation log at one moment, to distinguish later entries from earlier ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HostLog {
    /// The number of entries.
    pub entries: i64,
    /// The highest number of an entry.
    #[serde(rename = "lastID", skip_serializing_if = "Option::is_none")]
    pub last_id: Option<i64>,
    /// When the newest entry was written, in Unix seconds, by the provider's clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub newest: Option<i64>,
}

impl HostLog {
    /// Whether the log has an entry that `before` does not have. An entry may lack its number or its date, so any of
    /// the three suffices.
    pub fn is_later_than(&self, before: &Self) -> bool {
        self.entries > before.entries
            || self.last_id > before.last_id
            || self.newest > before.newest
    }
}

/// What users read of the installations of a host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostInstallStatus {
    /// The highest `spec.install.revision` that counts as performed.
    #[schemars(extend("format" = "int32"))]
    pub revision: i64,
    /// The last installation. Unset before a revision asked for the first one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<LastInstall>,
}

/// One installation as it was started, and its outcome.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HostInstallRecord {
    /// The intent.
    #[serde(flatten)]
    pub intent: HostInstallIntent,
    /// The outcome, from the answer or from later reads. Unset while it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<CommandOutcome>,
    /// Whether it was seen under way.
    #[serde(default)]
    pub is_seen: bool,
    /// How the installation ended. Unset until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<InstallEnd>,
    /// When the end was seen, by the operator's clock.
    #[serde(
        default,
        with = "rfc3339::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub ended_at: Option<i64>,
    /// Details, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// The intent to install a host, written to status before the request is sent.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HostInstallIntent {
    /// UID of the object: a restored object has sent nothing.
    pub uid: String,
    /// The provider's number of the host.
    #[serde(rename = "hostID")]
    pub host_id: i64,
    /// The `spec.install.revision` that requests it.
    pub revision: i64,
    /// The provider's number of the system.
    #[serde(rename = "osID")]
    pub os_id: i64,
    /// Nonce of this attempt.
    pub attempt: String,
    /// When the attempt was started.
    #[serde(with = "rfc3339")]
    pub started_at: i64,
    /// Time after which the request is no longer sent.
    #[serde(with = "rfc3339")]
    pub send_by: i64,
    /// The account that gets the request.
    pub account: OrderAccount,
    /// UID of the SshKey object whose key is sent, as read right before.
    #[serde(default, rename = "keyUID", skip_serializing_if = "Option::is_none")]
    pub key_uid: Option<String>,
    /// The provider's word for the previous installation, right before this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// The installation log right before.
    pub log: HostLog,
    /// Whether a script was sent, or a text from a Secret or ConfigMap. Then neither log lines nor refusals are shown,
    /// since they may repeat parts of it.
    #[serde(default = "unless_known")]
    pub secret_texts: bool,
}

fn unless_known() -> bool {
    true
}

impl DedicatedHostSpec {
    /// Whether an installation may send a secret: any script, since users write passwords into scripts, or a text from
    /// a Secret or ConfigMap.
    pub fn has_secret_texts(&self) -> bool {
        let mut params = self.kernel_params();
        self.post_install_script.is_some() || params.any(|param| param.value_from.is_some())
    }
}

impl From<&HostInstallRecord> for LastInstall {
    fn from(record: &HostInstallRecord) -> Self {
        Self {
            revision: record.intent.revision,
            started_at: rfc3339::time(record.intent.started_at),
            outcome: record.outcome,
            result: record.end,
            ended_at: record.ended_at.and_then(rfc3339::time),
            message: record.message.clone(),
        }
    }
}

impl HostInstallRecord {
    /// An installation without a known outcome.
    pub fn unfinished(intent: HostInstallIntent) -> Self {
        Self {
            intent,
            outcome: None,
            is_seen: false,
            end: None,
            ended_at: None,
            message: None,
        }
    }

    /// Whether the request was, or may have been, sent.
    pub fn may_be_sent(&self) -> bool {
        self.outcome != Some(CommandOutcome::NotSent)
    }

    /// Whether its end was not seen yet.
    pub fn is_open(&self) -> bool {
        self.end.is_none() && self.may_be_sent()
    }
}

impl HostInstallHistory {
    /// The history of a host that is seen for the first time.
    pub fn new(uid: &str, revision: i64) -> Self {
        Self {
            uid: uid.to_owned(),
            revision,
            log: None,
            finished: None,
            last: None,
            unknown: None,
        }
    }

    /// Whether the provider's word has stayed so long that it counts as no installation.
    pub fn is_stuck(&self) -> bool {
        self.unknown.as_ref().is_some_and(|word| word.is_stuck)
    }

    /// The highest revision that was or may have been performed. It is never sent again.
    pub fn performed(&self) -> i64 {
        let last = self.last.as_ref().filter(|last| last.may_be_sent());
        last.map_or(self.revision, |last| {
            self.revision.max(last.intent.revision)
        })
    }

    /// The part that users read.
    pub fn to_status(&self) -> HostInstallStatus {
        HostInstallStatus {
            revision: self.revision,
            last: self.last.as_ref().map(LastInstall::from),
        }
    }

    /// The installation whose end was not seen yet.
    pub fn unfinished(&self) -> Option<&HostInstallRecord> {
        self.last.as_ref().filter(|last| last.is_open())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_is_later_by_count_id_or_date() {
        let log = |entries, last_id, newest| HostLog {
            entries,
            last_id,
            newest,
        };
        let before = log(3, Some(7), Some(100));
        assert!(!before.is_later_than(&before));
        assert!(!log(2, Some(7), Some(100)).is_later_than(&before));
        assert!(log(4, Some(7), Some(100)).is_later_than(&before));
        assert!(log(3, Some(8), Some(100)).is_later_than(&before));
        assert!(log(1, None, Some(101)).is_later_than(&before));
        assert!(log(1, None, None).is_later_than(&HostLog::default()));
    }
}
