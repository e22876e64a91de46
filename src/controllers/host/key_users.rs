//! Which hosts refer to stored keys: what the key objects may know of hosts.

use super::HostObjects;
use crate::{
    account::AccountKey,
    controllers::{
        objects::{Referrer, UNREADABLE, Uid, Words},
        stored_keys::{KeyUser, KeyUsers, Referrers, Released, StoredKeys},
    },
    kinds::{DedicatedHost, host_install::HostInstallStatus},
};
use std::{collections::BTreeSet, sync::Arc};

/// Before the full name of a key object that a host names.
const NAMES: &str = "key:";
/// Before the namespace of a host that may be in the middle of an installation: it names what stood in the spec when it
/// started.
const INSTALLS: &str = "install:";

/// What a host refers to.
pub(super) fn refers(host: &DedicatedHost) -> Words {
    let namespace = host.metadata.namespace.as_deref().unwrap_or_default();
    let mut words = Words::new();
    let known = host.status.as_ref().and_then(|s| s.install.as_ref());
    if known.and_then(HostInstallStatus::open).is_some() {
        words.insert(format!("{INSTALLS}{namespace}").into());
    }
    if let Some(install) = &host.spec.install {
        words.insert(format!("{NAMES}{namespace}/{}", install.ssh_key_ref.name).into());
    }
    words
}

/// Tells the key objects what a host refers to no more.
pub(super) fn tell(keys: &StoredKeys, released: &Words) {
    for word in released {
        let whom = if let Some(name) = word.strip_prefix(NAMES) {
            name.split_once('/')
                .map(|(namespace, name)| Released::Named(namespace, name))
        } else if let Some(namespace) = word.strip_prefix(INSTALLS) {
            Some(Released::Namespace(namespace))
        } else {
            (&**word == UNREADABLE).then_some(Released::Unknown)
        };
        if let Some(whom) = whom {
            keys.released(whom);
        }
    }
}

/// The hosts, as those who refer to keys.
pub(super) struct Hosts(pub(super) Arc<HostObjects>);

impl Referrers for Hosts {
    fn users(
        &self,
        namespace: &str,
        name: &str,
        _: &[String],
        _: &dyn Fn(&AccountKey) -> bool,
    ) -> Option<KeyUsers> {
        if !self.0.is_complete() {
            return None;
        }
        let installing = self.0.referring(&format!("{INSTALLS}{namespace}"));
        let busy: BTreeSet<Uid> = installing.iter().map(|(uid, _)| uid.clone()).collect();
        let mut named = self.0.referring(&format!("{NAMES}{namespace}/{name}"));
        named.retain(|(uid, _)| !busy.contains(uid));
        // One of this namespace that does not decode may name anything.
        let mut unreadable = self.0.referring(UNREADABLE);
        unreadable.retain(|(_, found)| found.namespace == namespace);
        let user = |found: Arc<Referrer>, is_ordering| KeyUser {
            namespace: found.namespace.clone(),
            name: found.name.clone(),
            is_ordering,
            is_host: true,
        };
        let installing = installing.into_iter().chain(unreadable);
        let installing = installing.map(|(_, found)| user(found, true));
        let named = named.into_iter().map(|(_, found)| user(found, false));
        Some(KeyUsers {
            by_name: installing.chain(named).collect(),
            ..KeyUsers::default()
        })
    }

    fn wake(&self, namespace: &str, name: &str) {
        self.0.wake_referring(&format!("{NAMES}{namespace}/{name}"));
    }

    fn wake_all(&self) {
        self.0.wake_all_referring();
    }
}
