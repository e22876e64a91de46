//! How servers, hosts and SshKeys find each other. Each kind registers here and is called through a trait, so that no
//! kind depends on another's folder.

use super::{
    context::Process,
    objects::{Objects, Referrer},
    writes::{ApiServerError, bounded},
};
use crate::runtime::kind_api::KindApi;
use api::{Kind, SshKey};
use flexmetal_core::{
    account::key::AccountKey,
    stored_keys::{KeyLookup, KeyUser},
};
use std::{
    collections::BTreeSet,
    sync::{Arc, OnceLock, PoisonError, RwLock},
};

/// The SshKey objects.
pub trait StoredKeyLookup: Send + Sync {
    /// What is known of one SshKey.
    fn find(&self, namespace: &str, name: &str) -> KeyLookup;

    /// What an SshKey that was read live shows.
    fn shows(&self, object: &SshKey) -> KeyLookup;
}

/// The objects of a kind that refer to stored keys.
pub trait Referrers: Send + Sync {
    /// The objects that name this SshKey, or the stored key with this UUID at an account that `is_same` accepts, if
    /// known.
    fn users(
        &self,
        namespace: &str,
        name: &str,
        uuid: Option<&str>,
        is_same: &dyn Fn(&AccountKey) -> bool,
    ) -> Vec<KeyUser>;

    /// Enqueues the users of an SshKey that has changed.
    fn enqueue_key_users(&self, namespace: &str, name: &str);

    /// Enqueues all users, once all SshKeys are listed.
    fn enqueue_all_key_users(&self);
}

/// The lookup key of a reference to an SshKey by name.
pub fn by_name(namespace: &str, name: &str) -> Box<str> {
    format!("key:{namespace}/{name}").into()
}

/// The lookup key of a reference to a stored key by UUID.
pub fn by_uuid(uuid: &str) -> Box<str> {
    format!("uuid:{}", uuid.to_ascii_lowercase()).into()
}

impl<K: Kind, M: Clone + Default + Send> Referrers for Objects<K, M> {
    fn users(
        &self,
        namespace: &str,
        name: &str,
        uuid: Option<&str>,
        is_same: &dyn Fn(&AccountKey) -> bool,
    ) -> Vec<KeyUser> {
        let mut found = self.referring(&by_name(namespace, name));
        if let Some(uuid) = uuid {
            let stored = self.referring(&by_uuid(uuid)).into_iter();
            found.extend(stored.filter(|user| user.account.as_ref().is_some_and(is_same)));
        }
        let user = |found: Arc<Referrer>| KeyUser {
            namespace: found.namespace.clone(),
            kind: K::kind(&()).into_owned(),
            name: found.name.clone(),
        };
        found.into_iter().map(user).collect()
    }

    fn enqueue_key_users(&self, namespace: &str, name: &str) {
        self.enqueue_referrers(&by_name(namespace, name));
    }

    fn enqueue_all_key_users(&self) {
        self.enqueue_all_referrers();
    }
}

/// All registered kinds. A clone shares them.
#[derive(Clone, Default)]
pub struct StoredKeys(Arc<StoredKeyRegistry>);

#[derive(Default)]
struct StoredKeyRegistry {
    keys: OnceLock<Arc<dyn StoredKeyLookup>>,
    referrers: RwLock<Vec<Arc<dyn Referrers>>>,
}

impl StoredKeys {
    /// Registers the SshKey objects. Only the first call counts.
    pub fn set_keys(&self, keys: Arc<dyn StoredKeyLookup>) {
        let _ = self.0.keys.set(keys);
    }

    /// Registers the objects of one more kind that refers to keys.
    pub fn add_referrers(&self, referrers: Arc<dyn Referrers>) {
        let all = self.0.referrers.write();
        all.unwrap_or_else(PoisonError::into_inner).push(referrers);
    }

    /// The referring objects of all kinds.
    fn referrers(&self) -> Vec<Arc<dyn Referrers>> {
        let all = self.0.referrers.read();
        all.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What is known of an SshKey.
    pub fn find(&self, namespace: &str, name: &str) -> KeyLookup {
        let keys = self.0.keys.get();
        keys.map_or(KeyLookup::NotKnown, |keys| keys.find(namespace, name))
    }

    /// What an SshKey shows now, read live before an irreversible call: the watch may be behind.
    ///
    /// # Errors
    /// The error of the API server.
    pub async fn live(
        &self,
        process: &Process,
        namespace: &str,
        name: &str,
    ) -> Result<KeyLookup, ApiServerError> {
        let api = SshKey::api(process.client.clone(), Some(namespace));
        let object = bounded(api.get_opt(name)).await?;
        Ok(match (object, self.0.keys.get()) {
            (Some(object), Some(keys)) => keys.shows(&object),
            (Some(_), None) => KeyLookup::NotKnown,
            (None, _) => KeyLookup::Missing,
        })
    }

    /// The users of an SshKey, or of the key that it stored.
    pub fn users(
        &self,
        namespace: &str,
        name: &str,
        uuid: Option<&str>,
        is_same: &dyn Fn(&AccountKey) -> bool,
    ) -> BTreeSet<KeyUser> {
        let all = self.referrers().into_iter();
        all.flat_map(|kind| kind.users(namespace, name, uuid, is_same))
            .collect()
    }

    /// Enqueues the users of an SshKey that has changed or is deleted.
    pub fn key_changed(&self, namespace: &str, name: &str) {
        for referrers in self.referrers() {
            referrers.enqueue_key_users(namespace, name);
        }
    }

    /// Enqueues all users, once all SshKeys are listed.
    pub fn keys_known(&self) {
        for referrers in self.referrers() {
            referrers.enqueue_all_key_users();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controllers::objects::{KindOptions, ReferenceKeys};
    use api::{DedicatedHost, ServerTag};
    use kube::{core::DeserializeGuard, runtime::watcher::Event};
    use serde_json::{Value, json};

    const STORED: &str = "0B2C4F5E-1111-4222-8333-444455556666";

    fn objects<K: Kind>(refers: fn(&K) -> ReferenceKeys) -> Arc<Objects<K, ()>> {
        let traits = KindOptions {
            account_of: Some(|object: &K| {
                let namespace = object.meta().namespace.as_deref().unwrap_or_default();
                let account = api::references::PinnedAccount::from_reference(None);
                Some(AccountKey::from_reference(&account, namespace))
            }),
            refers: Some(refers),
            ..KindOptions::default()
        };
        Arc::new(Objects::new(traits, 1))
    }

    fn show<K: Kind>(
        objects: &Objects<K, ()>,
        namespace: &str,
        name: &str,
        version: u8,
        spec: &Value,
    ) {
        let object = serde_json::from_value(json!({
            "apiVersion": "flexmetal.dev/v1alpha1", "kind": K::kind(&()),
            "metadata": {"name": name, "namespace": namespace, "uid": format!("{namespace}-{name}"),
                "resourceVersion": version.to_string()},
            "spec": spec,
        }));
        objects.apply_event(0, Event::Apply(DeserializeGuard(Ok(object.unwrap()))));
    }

    #[test]
    fn key_users_are_found_across_all_kinds() {
        let tags = objects(|tag: &ServerTag| ReferenceKeys::from([by_uuid(tag.wanted())]));
        let hosts = objects(|host: &DedicatedHost| {
            let namespace = host.metadata.namespace.as_deref().unwrap_or_default();
            let key = host.spec.ssh_key_ref.iter();
            key.map(|key| by_name(namespace, &key.name)).collect()
        });
        let keys = StoredKeys::default();
        keys.add_referrers(tags.clone());
        keys.add_referrers(hosts.clone());
        let users = |is_same: bool| -> Vec<String> {
            let uuid = STORED.to_ascii_lowercase();
            let users = keys.users("shop", "ops", Some(&uuid), &|_| is_same);
            let shown = |u: &KeyUser| format!("{} {}/{}", u.kind, u.namespace, u.name);
            users.iter().map(shown).collect()
        };
        assert!(users(true).is_empty());
        let install = json!({"hostID": 7, "install": {"revision": 1}, "os": {"id": 12},
            "sshKeyRef": {"name": "ops"}});
        show(&hosts, "shop", "db", 1, &install);
        show(&hosts, "bank", "db", 1, &install);
        show(&tags, "bank", "vault", 1, &json!({"tag": STORED}));
        let all = ["ServerTag bank/vault", "DedicatedHost shop/db"];
        assert_eq!(users(true), all);
        assert_eq!(users(false), all[1..], "that one is of another account");
        show(&hosts, "shop", "db", 2, &json!({"hostID": 7}));
        assert_eq!(users(false), Vec::<String>::new());
    }
}
