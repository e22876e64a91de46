//! Where servers, hosts and the keys that they name find each other. No kind knows another's folder: each makes itself known
//! here, and is asked through a trait.

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

/// The objects that stand for stored keys.
pub trait StoredKeyLookup: Send + Sync {
    /// What is known of one.
    fn find(&self, namespace: &str, name: &str) -> KeyLookup;

    /// What an object that was read shows.
    fn shows(&self, object: &SshKey) -> KeyLookup;
}

/// The objects of a kind that refer to stored keys.
pub trait Referrers: Send + Sync {
    /// Those that name this object, or on these accounts the stored key with this identifier, as far as they are known.
    fn users(
        &self,
        namespace: &str,
        name: &str,
        uuid: Option<&str>,
        is_same: &dyn Fn(&AccountKey) -> bool,
    ) -> Vec<KeyUser>;

    /// An object that they may refer to shows something else now.
    fn enqueue_key_users(&self, namespace: &str, name: &str);

    /// All objects that they may refer to are known now.
    fn enqueue_all_key_users(&self);
}

/// What an object refers to that names this SshKey.
pub fn by_name(namespace: &str, name: &str) -> Box<str> {
    format!("key:{namespace}/{name}").into()
}

/// What an object refers to that names a stored key by its identifier.
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

/// All sides, once they have made themselves known. A clone is the same.
#[derive(Clone, Default)]
pub struct StoredKeys(Arc<StoredKeyRegistry>);

#[derive(Default)]
struct StoredKeyRegistry {
    keys: OnceLock<Arc<dyn StoredKeyLookup>>,
    referrers: RwLock<Vec<Arc<dyn Referrers>>>,
}

impl StoredKeys {
    /// The objects that stand for keys. Only the first call counts.
    pub fn set_keys(&self, keys: Arc<dyn StoredKeyLookup>) {
        let _ = self.0.keys.set(keys);
    }

    /// The objects of one kind that refer to keys, beside those of others.
    pub fn add_referrers(&self, referrers: Arc<dyn Referrers>) {
        let all = self.0.referrers.write();
        all.unwrap_or_else(PoisonError::into_inner).push(referrers);
    }

    /// Those of all kinds.
    fn referrers(&self) -> Vec<Arc<dyn Referrers>> {
        let all = self.0.referrers.read();
        all.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What is known of an SshKey object.
    pub fn find(&self, namespace: &str, name: &str) -> KeyLookup {
        let keys = self.0.keys.get();
        keys.map_or(KeyLookup::NotKnown, |keys| keys.find(namespace, name))
    }

    /// What an SshKey object shows at this moment, read live: right before what cannot be undone. The watch may be behind.
    ///
    /// # Errors
    /// When the API server does not give it.
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

    /// Who refers to an SshKey object, or to what it stored.
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

    /// An SshKey object shows something else, or is gone.
    pub fn key_changed(&self, namespace: &str, name: &str) {
        for referrers in self.referrers() {
            referrers.enqueue_key_users(namespace, name);
        }
    }

    /// All SshKey objects are known now.
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
