//! On-demand servers (sections 2.6 to 2.11, 4.4 and 4.6 of
//! `docs/contributing/hosting-api.md`).

mod hardware;
mod order;
mod partition;
mod reinstall;
mod status;
mod system;

pub use super::identity::ServerId;
pub use hardware::HardwareListing;
pub use order::{Order, OrderResult};
pub use partition::{Partition, PartitionSize};
pub use reinstall::{DiskWipe, Reinstall};
pub use status::{ServerStatus, StatusFilter};
pub(super) use system::{
    HUB, KernelParamBody, check_kernel_params, check_script, is_hub, names_interpreter,
};
pub use system::{KernelParam, SystemChoice, SystemFamily, UserData};

/// One on-demand server (section 2.6). Texts are cleaned of control characters, and our key is replaced. A field that
/// was missing, `null` or empty is empty or `None` here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// `uuid`.
    pub id: ServerId,
    /// The host name; not unique in an account.
    pub name: String,
    /// The state.
    pub status: ServerStatus,
    /// Describes the problem of a failed server.
    pub status_message: String,
    /// The number of the location (2.6-7).
    pub location_id: Option<i64>,
    /// The name of the location; case and blanks may differ from the order's.
    pub location: String,
    /// The number of the instance type (2.6-8).
    pub instance_type_id: Option<i64>,
    /// The name of the instance type; case and blanks may differ as well.
    pub instance_type: String,
    /// The slug of the operating system.
    pub os_slug: String,
    /// IP addresses as text, in the API's order; empty until the network is
    /// configured.
    pub addresses: Vec<String>,
    /// All tags. A valid one (8-2) is unchanged; any other is cleaned, and never equals a valid one.
    pub tags: Vec<String>,
    /// Unix seconds.
    pub created_at: Option<i64>,
    /// Unix seconds; the API's 0 is `None`.
    pub delivered_at: Option<i64>,
    /// Unix seconds; the API's 0 is `None`.
    pub released_at: Option<i64>,
    /// Only for servers from a committed quota.
    pub contract_id: Option<String>,
}

impl Server {
    /// Whether the server has exactly this tag.
    pub fn has_tag(&self, tag: &str) -> bool {
        self.tags.iter().any(|own| own == tag)
    }
}

/// Which servers to list, by all conditions at once. No condition means all servers, including released ones.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerFilter {
    /// A state filter of the API. Which states a word covers is not documented, so the result confirms nothing.
    pub status: Option<StatusFilter>,
    /// Only servers that have all of these tags.
    pub tags: Vec<String>,
}
