//! Dedicated hosts (sections 2.17, 2.20 to 2.22 and 4.8 of
//! `docs/contributing/hosting-api.md`).

mod form;
mod install;
mod param;

use std::collections::BTreeMap;

use crate::identity::HostId;

pub use form::{InstallForm, InstallKeyName, InstallKeyNeeded, KernelParamsForm};
pub use install::HostInstall;
pub use param::InstallParam;

/// A host (2.20): the fields that the operator uses, of about sixty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// `id`.
    pub id: HostId,
    /// The kind of host.
    pub kind: HostKind,
    /// `serverId`, the number of the provider's server behind the host.
    pub server_id: Option<i64>,
    /// The API's name of that server.
    pub server_name: String,
    /// The host name that it runs under.
    pub live_host_name: String,
    /// The API's word for its purpose.
    pub category: String,
    /// The order that it came from, for on-demand servers.
    pub order_id: Option<String>,
    /// The number of its operating system.
    pub os_id: Option<i64>,
    /// The number of its location.
    pub location_id: Option<i64>,
    /// The name of its instance type.
    pub instance_type: String,
    /// Processors and memory.
    pub hardware: HostHardware,
    /// All addresses, in the API's order.
    pub addresses: Vec<HostAddress>,
    /// Whether it runs, in the API's word, which is not documented.
    pub status: String,
    /// The state of its installation.
    pub install_status: InstallStatus,
    /// `uptime`, if the answer has it; its unit is not documented.
    pub uptime: Option<i64>,
    /// The number of uplinks, if the answer has them; it decides the interface names (2.17-15). Their content is not
    /// documented.
    pub uplinks: Option<usize>,
    /// Labels.
    pub labels: BTreeMap<String, String>,
}

/// The kind of a host (2.20-3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostKind {
    /// A dedicated host.
    Dedicated,
    /// An on-demand server, to be used through the operations on servers (2.20-16).
    OnDemand,
    /// A virtual machine.
    Virtual,
    /// An unknown number, or none.
    Other(Option<i64>),
}

/// The hardware of a host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostHardware {
    /// The manufacturer.
    pub brand: String,
    /// The model.
    pub model: String,
    /// The serial number.
    pub service_tag: String,
    /// The rack that it is in.
    pub rack: String,
    /// The processors in the API's words: `cpu.info`, or `cpuInfo` if that is empty.
    pub cpu: String,
    /// The kind of the processors: `cpu.type`, or `cpuType` if that is empty.
    pub cpu_type: String,
    /// Sockets.
    pub sockets: Option<i64>,
    /// Cores of all processors.
    pub cores: Option<i64>,
    /// Threads of all processors.
    pub threads: Option<i64>,
    /// Bytes of each memory module.
    pub memory: Vec<i64>,
    /// The disks.
    pub disks: Vec<HostDisk>,
}

/// A disk of a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostDisk {
    /// The kind, in the API's word.
    pub kind: String,
    /// The storage medium, in the API's word.
    pub medium: String,
    /// The model.
    pub model: String,
    /// Bytes.
    pub size: Option<i64>,
}

/// An address of a host (2.20-8).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostAddress {
    /// The address as text.
    pub address: String,
    /// 4 or 6.
    pub version: Option<i64>,
    /// 1 is an ordinary address, 2 a console; other values are the network's.
    pub kind: Option<i64>,
    /// Whether it is private.
    pub is_private: bool,
    /// The interface.
    pub interface: String,
    /// The hardware address of the interface.
    pub mac_address: String,
    /// The reverse DNS name; empty if it has none.
    pub reverse_dns: String,
    /// The gateway.
    pub gateway: Option<String>,
    /// The network mask, unchanged.
    pub netmask: Option<String>,
    /// The prefix length of the network.
    pub prefix: Option<i64>,
    /// The number of the VLAN.
    pub vlan_id: Option<i64>,
}

/// How far the installation of a host is (section 3.3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InstallStatus {
    /// Nothing was ever installed through the API.
    None,
    /// Accepted.
    Created,
    /// Under way.
    Installing,
    /// Done.
    Finished,
    /// Failed.
    Failed,
    /// An unknown word: counts as under way.
    Other(String),
}

impl InstallStatus {
    /// Reads the API's word in any case; keeps an unknown one. An empty one is [`InstallStatus::None`].
    pub fn parse(word: &str) -> Self {
        match &*word.trim().to_ascii_lowercase() {
            "" => Self::None,
            "created" => Self::Created,
            "installing" => Self::Installing,
            "finished" => Self::Finished,
            "failed" => Self::Failed,
            _ => Self::Other(word.to_owned()),
        }
    }

    /// Whether an installation is under way.
    pub fn is_under_way(&self) -> bool {
        !matches!(self, Self::None | Self::Finished | Self::Failed)
    }
}

/// The API's answer to an action on a host (2.21). Its words are not documented; both fields may be empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostResult {
    /// The result.
    pub result: String,
    /// Its time, in Unix seconds.
    pub timestamp: Option<i64>,
}

/// An entry of an installation log (2.22): text for users. Decisions use [`Host::install_status`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstallLogEntry {
    /// The number of the entry, if it has one.
    pub id: Option<i64>,
    /// Whether it is still open.
    pub is_open: bool,
    /// When it was written, in Unix seconds.
    pub written_at: Option<i64>,
    /// The category: `issueCategory`.
    pub category: String,
    /// `catName`, which may say the same in other words.
    pub category_name: String,
    /// What happened.
    pub description: String,
    /// The result.
    pub resolved: String,
}
