//! Where commands hear of the hosts that they are for, without one kind knowing the other's folder: the hosts make themselves
//! known here, and are asked through a trait.

use super::context::Process;
use api::DedicatedHost;
use flexmetal_core::ownership::ConflictingOwners;
use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

/// The hosts of all watched namespaces.
pub trait HostOwnership: Send + Sync {
    /// Who else wants a host, by what was listed at this moment or later. None: they are not listed yet.
    fn conflicting_owners(
        &self,
        process: &Process,
        host: &DedicatedHost,
        since: Duration,
    ) -> Option<ConflictingOwners>;
}

/// The hosts, once they have made themselves known. A clone is the same.
#[derive(Clone, Default)]
pub struct KnownHosts(Arc<OnceLock<Arc<dyn HostOwnership>>>);

impl KnownHosts {
    /// The hosts. Only the first call counts.
    pub fn set(&self, hosts: Arc<dyn HostOwnership>) {
        let _ = self.0.set(hosts);
    }

    /// Who else wants a host, by a listing since this process acts for it (None: it does not). None: they are not listed yet.
    pub fn conflicting_owners(
        &self,
        process: &Process,
        host: &DedicatedHost,
        since: Option<Duration>,
    ) -> Option<ConflictingOwners> {
        self.0.get()?.conflicting_owners(process, host, since?)
    }
}
