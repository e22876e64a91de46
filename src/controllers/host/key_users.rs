//! Which hosts refer to stored keys: what the key objects may know of hosts.

use super::HostObjects;
use crate::controllers::{
    objects::{Referrer, UNREADABLE, Uid, Words},
    stored_keys::{Referrers, Released, StoredKeys},
};
use api::{DedicatedHost, host_install::HostInstallStatus};
use flexmetal_core::{
    account::key::AccountKey,
    stored_keys::{KeyUser, KeyUsers},
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controllers::objects::Traits;
    use kube::{core::DeserializeGuard, runtime::watcher::Event};
    use serde_json::{Value, json};
    use std::sync::Mutex;

    fn host(name: &str, version: u32, install: &Value, last: &Value) -> DedicatedHost {
        let mut status = json!({});
        if !last.is_null() {
            status = json!({"install": {"uid": name, "revision": 0, "last": last}});
        }
        serde_json::from_value(json!({
            "apiVersion": "flexmetal.dev/v1alpha1", "kind": "DedicatedHost",
            "metadata": {"name": name, "namespace": "shop", "uid": name,
                "resourceVersion": version.to_string()},
            "spec": {"hostID": 7, "install": install},
            "status": status,
        }))
        .unwrap()
    }

    fn open(outcome: Option<&str>) -> Value {
        json!({
            "uid": "u", "hostID": 7, "revision": 1, "osID": 12, "attempt": "a", "log": {},
            "startedAt": "2026-01-01T00:00:00Z", "sendBy": "2026-01-01T00:00:30Z", "secretTexts": false,
            "account": {"kind": "ProviderAccount", "name": "default", "uid": "x", "lineage": "l",
                "connection": "c"},
            "outcome": outcome,
        })
    }

    #[test]
    fn a_host_holds_the_key_that_it_names_and_while_it_is_installed_all_of_its_namespace() {
        let told = Arc::new(Mutex::new(Vec::new()));
        let heard = told.clone();
        let traits = Traits {
            refers: Some(refers),
            released: Box::new(move |words| heard.lock().unwrap().extend(words.clone())),
            ..Traits::default()
        };
        let objects: Arc<HostObjects> = Arc::new(HostObjects::new(traits, 1));
        let hosts = Hosts(objects.clone());
        let users = |name: &str| hosts.users("shop", name, &[], &|_| true);
        assert_eq!(users("ops"), None, "nothing is listed yet");
        objects.take_in(0, Event::Init);
        objects.take_in(0, Event::InitDone);
        let show = |host: DedicatedHost| {
            objects.take_in(0, Event::Apply(DeserializeGuard(Ok(host))));
        };
        let user = |is_ordering| KeyUser {
            namespace: "shop".into(),
            name: "db".into(),
            is_ordering,
            is_host: true,
        };
        let install = json!({"revision": 1, "os": {"id": 12}, "sshKeyRef": {"name": "ops"}});
        show(host("db", 1, &install, &json!(null)));
        assert_eq!(users("ops").unwrap().by_name, [user(false)]);
        assert_eq!(users("other").unwrap().by_name, []);
        // What it was started with is no longer in the spec.
        show(host("db", 2, &json!(null), &open(None)));
        assert_eq!(users("ops").unwrap().by_name, [user(true)]);
        show(host("db", 3, &json!(null), &open(Some("NotSent"))));
        assert_eq!(users("ops").unwrap().by_name, []);
        let told = told.lock().unwrap();
        let told: Vec<String> = told.iter().map(ToString::to_string).collect();
        assert_eq!(told, ["key:shop/ops", "install:shop"]);
    }

    #[test]
    fn those_of_all_kinds_are_asked_and_one_that_is_not_listed_leaves_it_open() {
        let listed = |is_listed: bool| {
            let traits = Traits {
                refers: Some(refers),
                ..Traits::default()
            };
            let objects: Arc<HostObjects> = Arc::new(HostObjects::new(traits, 1));
            if is_listed {
                objects.take_in(0, Event::Init);
                let install =
                    json!({"revision": 1, "os": {"id": 12}, "sshKeyRef": {"name": "ops"}});
                let host = host("db", 1, &install, &json!(null));
                objects.take_in(0, Event::InitApply(DeserializeGuard(Ok(host))));
                objects.take_in(0, Event::InitDone);
            }
            Arc::new(Hosts(objects))
        };
        let keys = StoredKeys::default();
        let count = || {
            let users = keys.users("shop", "ops", &[], &|_| true);
            users.map(|users| users.by_name.len())
        };
        assert_eq!(count(), None, "nobody has made himself known");
        keys.add_referrers(listed(true));
        assert_eq!(count(), Some(1));
        keys.add_referrers(listed(true));
        assert_eq!(count(), Some(2));
        keys.add_referrers(listed(false));
        assert_eq!(count(), None);
    }
}
