//! The target of a ServerCommand: a server, or a dedicated host.

use super::{
    BareMetalServer, DedicatedHost,
    policies::Policies,
    power::{Power, PowerRecord},
    references::{OBJECT_NAME, PinnedAccount},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Kind of the object that a command is for.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    JsonSchema,
)]
pub enum TargetKind {
    /// A server.
    #[default]
    BareMetalServer,
    /// A dedicated host.
    DedicatedHost,
}

impl TargetKind {
    /// The kind's name as written in manifests.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::BareMetalServer => "BareMetalServer",
            Self::DedicatedHost => "DedicatedHost",
        }
    }
}

/// Names a server or a dedicated host of the same namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TargetRef {
    /// Kind of the target: `BareMetalServer` or `DedicatedHost`. Default: `BareMetalServer`. Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "TargetKind")]
    pub kind: Option<TargetKind>,

    /// Name of the BareMetalServer or DedicatedHost. Required. Immutable.
    #[schemars(length(min = 1, max = 200), regex(pattern = OBJECT_NAME))]
    pub name: String,
}

impl TargetRef {
    /// The kind of the target, with the default.
    pub fn kind(&self) -> TargetKind {
        self.kind.unwrap_or_default()
    }
}

/// The target of a command, as the API server has it.
#[derive(Clone, Debug, PartialEq)]
pub enum Target {
    /// A server.
    Server(Arc<BareMetalServer>),
    /// A dedicated host.
    Host(Arc<DedicatedHost>),
}

impl Target {
    /// Its kind.
    pub fn kind(&self) -> TargetKind {
        match self {
            Self::Server(_) => TargetKind::BareMetalServer,
            Self::Host(_) => TargetKind::DedicatedHost,
        }
    }

    /// Its metadata.
    pub fn meta(&self) -> &ObjectMeta {
        match self {
            Self::Server(server) => &server.metadata,
            Self::Host(host) => &host.metadata,
        }
    }

    /// The account that the target belongs to.
    pub fn account(&self) -> PinnedAccount {
        match self {
            Self::Server(server) => {
                let pinned = server.status.as_ref().and_then(|s| s.account_ref.as_ref());
                PinnedAccount::in_force(pinned, server.spec.account_ref.as_ref())
            }
            Self::Host(host) => host.account(),
        }
    }

    /// The policies that the target itself sets.
    pub fn policies(&self) -> Policies {
        match self {
            Self::Server(server) => server.spec.policies(),
            Self::Host(host) => host.spec.policies(),
        }
    }

    /// The provider's identifier of the target: the UUID of the server, or the number of the host. None: not known yet.
    pub fn provider_id(&self) -> Option<String> {
        match self {
            Self::Server(server) => server.status.as_ref()?.uuid.clone(),
            Self::Host(host) => Some(host.spec.host_id.to_string()),
        }
    }

    /// The ID of the account in which the server was ordered or the host was seen; None: not known.
    pub fn account_id(&self) -> Option<String> {
        match self {
            Self::Server(server) => Some(server.own_order()?.account_id.clone()),
            Self::Host(host) => host.status.as_ref()?.records.account_id.clone(),
        }
    }

    /// `spec.power`.
    pub fn power(&self) -> Option<Power> {
        match self {
            Self::Server(server) => server.spec.power,
            Self::Host(host) => host.spec.power,
        }
    }

    /// The record of the last change of `spec.power`.
    pub fn power_record(&self) -> Option<&PowerRecord> {
        match self {
            Self::Server(server) => server.status.as_ref()?.records.power.as_ref(),
            Self::Host(host) => host.status.as_ref()?.records.power.as_ref(),
        }
    }
}
