//! The key Secret of an account: read by name, never listed or watched.

use super::{
    act,
    facts::{KeyFault, SecretFact},
};
use crate::{
    account::{AccountKey, Accounts},
    controllers::context::Process,
    kinds::names::ACCOUNT_FINALIZER,
};
use hosting::ApiKey;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// A Secret as read, with the key taken out of it.
#[derive(Clone)]
pub struct Reading {
    /// What a decision may know.
    pub fact: SecretFact,
    /// The key, where there is one.
    pub key: Option<ApiKey>,
}

impl Reading {
    /// Nothing was read.
    pub fn none(fact: SecretFact) -> Self {
        Self { fact, key: None }
    }
}

/// Reads a Secret and the key in one entry of it.
pub async fn read(process: &Process, namespace: &str, name: &str, entry: &str) -> Reading {
    match process.secret(namespace, name).await {
        Ok(Some(secret)) => found(&secret, entry),
        Ok(None) => Reading::none(SecretFact::Missing),
        Err(failure) => Reading::none(SecretFact::Unread(act::explain(&failure))),
    }
}

fn found(secret: &Secret, entry: &str) -> Reading {
    let bytes = secret.data.as_ref().and_then(|data| data.get(entry));
    let key = match bytes.map(|bytes| ApiKey::parse(&bytes.0)) {
        None => Err(KeyFault::Absent),
        Some(Err(fault)) => Err(KeyFault::Invalid(fault.to_string())),
        Some(Ok(key)) => Ok(key),
    };
    Reading {
        fact: SecretFact::Found {
            key: key.as_ref().map(ApiKey::fingerprint).map_err(Clone::clone),
            deleting: secret.metadata.deletion_timestamp.is_some(),
            has_finalizer: secret.finalizers().iter().any(|f| f == ACCOUNT_FINALIZER),
        },
        key: key.ok(),
    }
}

/// Which Secret each account object stands on, by the object's UID.
#[derive(Default)]
pub struct Secrets {
    inner: Mutex<HashMap<String, (AccountKey, String, String)>>,
}

impl Secrets {
    /// Notes the Secret of an account object.
    pub fn note(&self, uid: &str, key: &AccountKey, namespace: &str, name: &str) {
        let noted = (key.clone(), namespace.to_owned(), name.to_owned());
        self.lock().insert(uid.to_owned(), noted);
    }

    /// Whether another account object has this name by now, and its Secret is not known yet: it may
    /// be the very one that bears the finalizer.
    pub fn awaits_successor(&self, accounts: &Accounts, key: &AccountKey) -> bool {
        let successor = accounts.get(key);
        successor.is_some_and(|account| !self.lock().contains_key(account.uid()))
    }

    /// The account object is gone.
    pub fn forget(&self, uid: &str) {
        self.lock().remove(uid);
    }

    /// Whether another account that is, or may be, in use stands on this Secret.
    pub fn is_shared(&self, accounts: &Accounts, uid: &str, namespace: &str, name: &str) -> bool {
        let others: Vec<AccountKey> = {
            let secrets = self.lock();
            let others = secrets
                .iter()
                .filter(|(other, (_, ns, n))| *other != uid && ns == namespace && n == name);
            others.map(|(_, (key, ..))| key.clone()).collect()
        };
        others.iter().any(|key| accounts.users(key) != Some(0))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, (AccountKey, String, String)>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::ByteString;
    use serde_json::json;

    fn secret(value: &[u8]) -> Secret {
        Secret {
            metadata: serde_json::from_value(
                json!({"name": "s", "finalizers": [ACCOUNT_FINALIZER]}),
            )
            .unwrap(),
            data: Some([("apiKey".to_owned(), ByteString(value.to_vec()))].into()),
            ..Secret::default()
        }
    }

    #[test]
    fn a_key_is_taken_out_and_only_its_hash_is_a_fact() {
        let reading = found(&secret(b"canary-key\n"), "apiKey");
        assert!(reading.key.is_some());
        assert!(!format!("{:?}", reading.fact).contains("canary"));
        let SecretFact::Found {
            key, has_finalizer, ..
        } = reading.fact
        else {
            panic!("found")
        };
        assert_eq!(key.unwrap().len(), 12);
        assert!(has_finalizer);
    }

    #[test]
    fn a_missing_entry_and_a_broken_key_are_told_apart() {
        let absent = found(&secret(b"k"), "other");
        let broken = found(&secret(b"canary\nkey"), "apiKey");
        let fault = |r: Reading| match r.fact {
            SecretFact::Found {
                key: Err(fault), ..
            } => fault,
            other => panic!("{other:?}"),
        };
        assert_eq!(fault(absent), KeyFault::Absent);
        let KeyFault::Invalid(text) = fault(broken) else {
            panic!("invalid")
        };
        assert!(text.contains("line break") && !text.contains("canary"));
    }
}
