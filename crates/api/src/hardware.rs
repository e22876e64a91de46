//! The hardware of a machine, as its own listing (`lshw`) tells it.

use super::outputs::OutputRef;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Most disks, and most network interfaces, that a status shows.
pub const MOST_PARTS: usize = 32;

/// What is written down of the hardware beside its summary in status.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Hardware {
    /// The ConfigMap of this namespace that the whole listing is written to, once, as `lshw.json`. It must not be there yet,
    /// and goes with this object. Default: none. Mutable: the former one stays until this object goes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map_ref: Option<OutputRef>,
}

/// The hardware of a machine, in short. Serial numbers are left out: the listing has them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HardwareStatus {
    /// The machine, by the provider's identifier.
    pub machine: String,
    /// When it made the listing, by its own clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Time")]
    pub listed_at: Option<String>,
    /// Its processors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Cpu>,
    /// Its memory, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<i64>,
    /// Its disks, at most 32.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "atomic"))]
    pub disks: Vec<Disk>,
    /// Its network interfaces, at most 32.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "atomic"))]
    pub interfaces: Vec<Interface>,
    /// The ConfigMap that the whole listing was written to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map: Option<String>,
    /// Why the listing was not written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// The processors of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Cpu {
    /// The model of the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// How many there are.
    pub count: i64,
    /// Cores of all of them. Unset where the listing does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cores: Option<i64>,
    /// Threads of all of them. Unset where the listing does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<i64>,
}

/// A disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Disk {
    /// Its name, for example `/dev/nvme0n1`.
    pub name: String,
    /// Its model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// How large it is, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<i64>,
}

/// A network interface.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Interface {
    /// Its name, for example `eth0`.
    pub name: String,
    /// Its MAC address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac: Option<String>,
    /// How fast it is, in the listing's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed: Option<String>,
}
