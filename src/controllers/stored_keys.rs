//! Where servers, hosts and the keys that they name find each other. No kind knows another's folder: each makes itself known
//! here, and is asked through a trait.

use super::{
    context::Process,
    writes::{Failure, bounded},
};
use crate::runtime::kind_api::KindApi;
use api::SshKey;
use flexmetal_core::{
    account::key::AccountKey,
    stored_keys::{Found, KeyUsers},
};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

/// The objects that stand for stored keys.
pub trait Keys: Send + Sync {
    /// What is known of one.
    fn find(&self, namespace: &str, name: &str) -> Found;

    /// What an object that was read shows.
    fn shows(&self, object: &SshKey) -> Found;

    /// One that referred to these is gone, or refers to them no more.
    fn wake(&self, whom: Released<'_>);
}

/// What a server less refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Released<'a> {
    /// An object, by namespace and name.
    Named(&'a str, &'a str),
    /// The objects of a namespace: an order is over, which may have named any.
    Namespace(&'a str),
    /// A stored key, by its identifier in lower case.
    Stored(&'a str),
    /// Nobody knows what.
    Unknown,
}

/// The objects that refer to stored keys.
pub trait Referrers: Send + Sync {
    /// Who refers to an object, and on these accounts to these stored keys. None: not all are known yet.
    fn users(
        &self,
        namespace: &str,
        name: &str,
        uuids: &[String],
        is_same: &dyn Fn(&AccountKey) -> bool,
    ) -> Option<KeyUsers>;

    /// An object that they may refer to shows something else now.
    fn wake(&self, namespace: &str, name: &str);

    /// All objects that they may refer to are known now.
    fn wake_all(&self);
}

/// All sides, once they have made themselves known. A clone is the same.
#[derive(Clone, Default)]
pub struct StoredKeys(Arc<Sides>);

#[derive(Default)]
struct Sides {
    keys: OnceLock<Arc<dyn Keys>>,
    referrers: RwLock<Vec<Arc<dyn Referrers>>>,
}

impl StoredKeys {
    /// The objects that stand for keys. Only the first call counts.
    pub fn set_keys(&self, keys: Arc<dyn Keys>) {
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
    pub fn find(&self, namespace: &str, name: &str) -> Found {
        let keys = self.0.keys.get();
        keys.map_or(Found::NotKnown, |keys| keys.find(namespace, name))
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
    ) -> Result<Found, Failure> {
        let api = SshKey::api(process.client.clone(), Some(namespace));
        let object = bounded(api.get_opt(name)).await?;
        Ok(match (object, self.0.keys.get()) {
            (Some(object), Some(keys)) => keys.shows(&object),
            (Some(_), None) => Found::NotKnown,
            (None, _) => Found::Missing,
        })
    }

    /// Who refers to an SshKey object, and to stored keys. None: not all are known yet.
    pub fn users(
        &self,
        namespace: &str,
        name: &str,
        uuids: &[String],
        is_same: &dyn Fn(&AccountKey) -> bool,
    ) -> Option<KeyUsers> {
        let mut all: Option<KeyUsers> = None;
        for referrers in self.referrers() {
            let found = referrers.users(namespace, name, uuids, is_same)?;
            let all = all.get_or_insert_default();
            all.by_name.extend(found.by_name);
            for (uuid, users) in found.by_uuid {
                all.by_uuid.entry(uuid).or_default().extend(users);
            }
        }
        all
    }

    /// An SshKey object shows something else, or is gone.
    pub fn key_changed(&self, namespace: &str, name: &str) {
        for referrers in self.referrers() {
            referrers.wake(namespace, name);
        }
    }

    /// All SshKey objects are known now.
    pub fn keys_known(&self) {
        for referrers in self.referrers() {
            referrers.wake_all();
        }
    }

    /// One that referred to keys is gone, or refers to them no more.
    pub fn released(&self, whom: Released<'_>) {
        if let Some(keys) = self.0.keys.get() {
            keys.wake(whom);
        }
    }
}
