//! How commands learn of the hosts that they are for. The hosts register here and are called through a trait, so that
//! no kind depends on another's folder.

use super::context::Process;
use api::DedicatedHost;
use flexmetal_core::ownership::ConflictingOwners;
use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

/// The hosts of all watched namespaces.
pub trait HostOwnership: Send + Sync {
    /// The conflicting owners of a host, by a list that started at this moment or later. `None` if there is no such
    /// list.
    fn conflicting_owners(
        &self,
        process: &Process,
        host: &DedicatedHost,
        since: Duration,
    ) -> Option<ConflictingOwners>;
}

/// The registered hosts. A clone shares them.
#[derive(Clone, Default)]
pub struct KnownHosts(Arc<OnceLock<Arc<dyn HostOwnership>>>);

impl KnownHosts {
    /// Registers the hosts. Only the first call counts.
    pub fn set(&self, hosts: Arc<dyn HostOwnership>) {
        let _ = self.0.set(hosts);
    }

    /// The conflicting owners of a host. `since` is when this process became leader. `None` without a list since then.
    pub fn conflicting_owners(
        &self,
        process: &Process,
        host: &DedicatedHost,
        since: Option<Duration>,
    ) -> Option<ConflictingOwners> {
        self.0.get()?.conflicting_owners(process, host, since?)
    }
}
