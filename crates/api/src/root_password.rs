//! `spec.rootPassword`: the password of a Windows server, stored once for each installation.

use super::{
    interval::{Interval, from_to},
    outputs::OutputRef,
    server::BareMetalServerStatus,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube_core::Rule;
use kube_derive::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How long after an installation the provider returns the password, in seconds.
pub const AVAILABLE_FOR: i64 = 86_400;

/// Where the root password of a Windows server is stored, and for how long.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct RootPassword {
    /// Secret to write once for each installation, of type `flexmetal.dev/output`. An existing Secret of this name that
    /// does not belong to this object is never changed. The Secret is deleted with this object. Required. Mutable; a
    /// stored password stays where it is, and the next one is stored in the Secret that is named then.
    pub secret_ref: OutputRef,
    /// How long after writing the Secret the operator deletes it: a duration such as `1h`, from 10s to 720h. Default:
    /// never. Mutable until the Secret is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Interval")]
    #[x_kube(validation = Rule::new(from_to("10s", "720h")).message("rootPassword.ttl must be from 10s to 720h; remove it to keep the Secret"))]
    pub ttl: Option<Interval>,
}

/// What users read of the root password of the last installation. Never the password.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RootPasswordStatus {
    /// The `spec.install.revision` that installed the system. Unset if the system came with the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "int32"))]
    pub revision: Option<i64>,
    /// Time of the installation: the delivery by the provider's clock, or when the operator saw that the last
    /// re-installation had finished.
    pub installed_at: Time,
    /// Latest time until which the provider returns the password: 24 hours after `installedAt`.
    pub available_until: Time,
    /// Time at which the operator stored the password, by the API server's clock. The operator does not read it again,
    /// even if the Secret is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stored_at: Option<Time>,
    /// Secret in which the password was stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<OutputRef>,
    /// Time at which the operator deletes the Secret, by `ttl`. It applies even if the spec no longer has a `ttl`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletes_at: Option<Time>,
    /// Time at which the operator deleted the Secret, or found that it no longer has this password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleted_at: Option<Time>,
}

/// The state of the password of the last installation, as the operator records it. Never the password.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RootPasswordRecord {
    /// UUID of the server.
    pub server: String,
    /// The revision of the re-installation. Unset: the installation of the delivery.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<i64>,
    /// When the system was installed: the delivery, by the provider's clock, or when the end of the last
    /// re-installation was seen, by the operator's.
    pub installed_at: Time,
    /// Latest time until which the provider returns the password: 24 hours after that.
    pub available_until: Time,
    /// When the password was stored, by the API server's clock. It is not fetched again, whatever happens to the
    /// Secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stored_at: Option<Time>,
    /// Name of the Secret with the password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// When the Secret is deleted, by `ttl`, even if the spec no longer has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletes_at: Option<Time>,
    /// When the Secret was deleted, or was seen without this password after its `ttl`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleted_at: Option<Time>,
    /// The last warning about `availableUntil` while the password could not be stored. `Missed`: the provider no longer
    /// returns it, and is not asked again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warned: Option<PasswordWarning>,
}

/// How long before the end of the window users were warned, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum PasswordWarning {
    /// At most six hours.
    SixHours,
    /// At most an hour.
    Hour,
    /// The window is over.
    Missed,
}

/// One installation of a server: each has its own password.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Installed {
    /// UUID of the server.
    pub server: String,
    /// The revision of the re-installation. None: the installation of the delivery.
    pub revision: Option<i64>,
}

impl Installed {
    /// The last installation of the server in a status, and its time in seconds since 1970, if known.
    pub fn last(status: &BareMetalServerStatus) -> Option<(Self, Option<i64>)> {
        let server = status.uuid.clone()?;
        let install = status
            .records
            .install
            .as_ref()
            .filter(|i| i.server.eq_ignore_ascii_case(&server));
        let finished = install.and_then(|i| i.finished.as_ref());
        let delivered = status.delivered_at.as_ref().map(|at| at.0.as_second());
        let at = finished.map(|again| again.at).or(delivered);
        let revision = finished.map(|again| again.revision);
        Some((Self { server, revision }, at))
    }

    /// The value that identifies the installation in the Secret with its password.
    pub fn label(&self) -> String {
        match self.revision {
            None => "first".to_owned(),
            Some(revision) => format!("revision {revision}"),
        }
    }
}

impl RootPasswordRecord {
    /// A record without a password of this installation.
    pub fn new(of: &Installed, at: i64) -> Option<Self> {
        let time = |at| Timestamp::from_second(at).ok().map(Time);
        Some(Self {
            server: of.server.clone(),
            revision: of.revision,
            installed_at: time(at)?,
            available_until: time(at.saturating_add(AVAILABLE_FOR))?,
            stored_at: None,
            secret: None,
            deletes_at: None,
            deleted_at: None,
            warned: None,
        })
    }

    /// The record with this time of the installation, if it is known and nothing is stored yet.
    pub fn begin(self, at: Option<i64>) -> Option<Self> {
        let new = at
            .filter(|_| self.secret.is_none())
            .and_then(|at| Self::new(&self.installation(), at));
        let Some(new) = new else {
            return Some(self);
        };
        Some(Self {
            installed_at: new.installed_at,
            available_until: new.available_until,
            ..self
        })
    }

    /// The part that users read.
    pub fn to_status(&self) -> RootPasswordStatus {
        RootPasswordStatus {
            revision: self.revision,
            installed_at: self.installed_at.clone(),
            available_until: self.available_until.clone(),
            stored_at: self.stored_at.clone(),
            secret_ref: self.secret.clone().map(|name| OutputRef { name }),
            deletes_at: self.deletes_at.clone(),
            deleted_at: self.deleted_at.clone(),
        }
    }

    /// The installation of this record.
    pub fn installation(&self) -> Installed {
        Installed {
            server: self.server.clone(),
            revision: self.revision,
        }
    }
}

/// The rule of a spec: only Windows has a password.
pub(super) fn only_windows_has_one() -> Rule {
    Rule::new(
        "!has(self.rootPassword) || (has(self.os) && (!has(self.os.slug) || self.os.slug.lowerAscii().startsWith('win')))",
    )
    .message("rootPassword may be set for Windows only (os.slug starts with win); remove rootPassword")
}

/// The rule of a spec: the password and the outputs need separate Secrets.
pub(super) fn has_a_secret_of_its_own() -> Rule {
    Rule::new("!has(self.rootPassword) || !has(self.rootPassword.secretRef) || !has(self.rootPassword.secretRef.name) || !has(self.outputs) || !has(self.outputs.secretRef) || !has(self.outputs.secretRef.name) || self.outputs.secretRef.name != self.rootPassword.secretRef.name")
        .message("rootPassword.secretRef and outputs.secretRef may not name the same Secret; name two")
}
