//! Where commands hear of the hosts that they are for, without one kind knowing the other's folder: the hosts make themselves
//! known here.

use super::{context::Process, objects::Objects};
use api::DedicatedHost;
use flexmetal_core::{
    account::key::AccountKey, host::facts::HostMemory, ownership::Rivals, pass::Memory,
};
use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

/// The hosts of all watched namespaces.
pub type HostObjects = Objects<DedicatedHost, Memory<HostMemory>>;

/// The hosts, once they have made themselves known. A clone is the same.
#[derive(Clone, Default)]
pub struct KnownHosts(Arc<OnceLock<Arc<HostObjects>>>);

impl KnownHosts {
    /// The hosts. Only the first call counts.
    pub fn set(&self, hosts: Arc<HostObjects>) {
        let _ = self.0.set(hosts);
    }

    /// Who else wants a host, by what was listed at this moment or later. None: they are not listed yet.
    pub fn rivals(
        &self,
        process: &Process,
        host: &DedicatedHost,
        since: Option<Duration>,
    ) -> Option<Rivals> {
        let hosts = self.0.get()?;
        let is_listed = since.is_some_and(|since| hosts.is_listed_since(since));
        is_listed.then(|| rivals(process, hosts, host))
    }
}

/// The account that a host names.
pub fn account_of(host: &DedicatedHost) -> AccountKey {
    let namespace = host.metadata.namespace.as_deref().unwrap_or_default();
    AccountKey::of(&host.account(), namespace)
}

/// Who else wants the host, and may have it: who may not must not be in the way of those who do.
pub fn rivals(process: &Process, hosts: &HostObjects, host: &DedicatedHost) -> Rivals {
    let number = host.spec.host_id;
    let names = process.accounts.names_of(&account_of(host));
    let claimants = hosts.claimants(&number.to_string(), &names);
    let uid = host.metadata.uid.as_deref().unwrap_or_default();
    Rivals::of(uid, &claimants, |claimant| {
        process
            .accounts
            .lets_host(&claimant.account, &claimant.namespace, number)
    })
}
