//! The key Secret of an account: read by name, never listed or watched.

use super::{
    act,
    destination::Declared,
    object::{self, AccountObject},
};
use crate::{
    account::Accounts,
    controllers::{context::Process, objects::ObservedObject},
};
use api::names::{
    ACCOUNT_FINALIZER, API_KEY_DATA_KEY, API_KEY_SECRET, BASE_URL_DATA_KEY, SECRET_WITH_FINALIZER,
};
use flexmetal_core::account::{
    facts::{KeyFault, SecretFact},
    key::AccountKey,
};
use hosting_types::{ApiKey, BaseUrl};
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use std::{
    collections::HashMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

/// Content of a Secret, with its key taken out.
#[derive(Clone)]
pub struct KeySecretContent {
    /// The fact for decisions.
    pub fact: SecretFact,
    /// The key, if it is valid.
    pub key: Option<ApiKey>,
    /// Where the key may be sent.
    pub declared: Declared,
}

impl KeySecretContent {
    /// Content without key and base URL.
    pub fn none(fact: SecretFact) -> Self {
        Self {
            fact,
            key: None,
            declared: Declared::Unknown,
        }
    }

    /// Whether the Secret could not be read.
    pub(super) fn is_unread(&self) -> bool {
        matches!(self.fact, SecretFact::Unread(_))
    }
}

/// Reads a Secret and the key in it.
pub async fn read_key_secret(process: &Process, namespace: &str, name: &str) -> KeySecretContent {
    match process.secret(namespace, name).await {
        Ok(Some(secret)) => found(&secret),
        Ok(None) => KeySecretContent::none(SecretFact::Missing),
        Err(failure) => KeySecretContent::none(SecretFact::Unread(act::explain(&failure))),
    }
}

/// Whether a Secret is meant for the operator: its creator chose the type, which is immutable.
pub fn is_key_secret(secret: &Secret) -> bool {
    secret.type_.as_deref() == Some(API_KEY_SECRET)
}

fn found(secret: &Secret) -> KeySecretContent {
    let entry = |name| secret.data.as_ref().and_then(|data| data.get(name));
    let is_key_secret = is_key_secret(secret);
    let key = match entry(API_KEY_DATA_KEY).map(|bytes| ApiKey::parse(&bytes.0)) {
        _ if !is_key_secret => Err(KeyFault::OtherType),
        None => Err(KeyFault::Absent),
        Some(Err(fault)) => Err(KeyFault::Invalid(fault.to_string())),
        Some(Ok(key)) => Ok(key),
    };
    let declared = match entry(BASE_URL_DATA_KEY) {
        _ if !is_key_secret => Declared::Unknown,
        None => Declared::Nothing,
        // Only a short value is remembered for each account, however long the Secret's is.
        Some(bytes) => match BaseUrl::parse_bytes(&bytes.0) {
            Ok(base_url) => Declared::To(base_url),
            Err(why) => Declared::Unusable(why),
        },
    };
    KeySecretContent {
        fact: SecretFact::Found {
            key: (key.as_ref())
                .map(ApiKey::fingerprint)
                .map_err(Clone::clone),
            deleting: secret.metadata.deletion_timestamp.is_some(),
            has_finalizer: secret.finalizers().iter().any(|f| f == ACCOUNT_FINALIZER),
        },
        key: key.ok(),
        declared,
    }
}

/// The key Secret of each account object, by the object's UID.
#[derive(Default)]
pub struct Secrets {
    inner: Mutex<HashMap<String, (AccountKey, String, String)>>,
    /// All account objects have been recorded once.
    is_complete: AtomicBool,
}

impl Secrets {
    /// Records the Secret of a new account object before its first reconcile. For an undecodable object, this is the
    /// Secret that has the object's finalizer.
    pub fn first_seen<K: AccountObject>(&self, shown: &ObservedObject<K>, own: &str) {
        let meta = shown.meta();
        let name = match shown {
            ObservedObject::Decoded(object) => Some(&object.spec().api_key_secret_ref.name),
            ObservedObject::Undecodable(_) => meta
                .annotations
                .as_ref()
                .and_then(|a| a.get(SECRET_WITH_FINALIZER)),
        };
        if let (Some(uid), Some(name)) = (meta.uid.as_deref(), name) {
            let key = object::key::<K>(meta);
            let namespace = object::secret_namespace(&key, own);
            self.record_secret(uid, &key, &namespace, name);
        }
    }

    /// Declares that all account objects have been recorded.
    pub fn complete(&self) {
        self.is_complete.store(true, Ordering::Release);
    }

    /// Records the Secret of an account object.
    pub fn record_secret(&self, uid: &str, key: &AccountKey, namespace: &str, name: &str) {
        let recorded = (key.clone(), namespace.to_owned(), name.to_owned());
        self.lock().insert(uid.to_owned(), recorded);
    }

    /// Whether a new account object has this name and its Secret is not known yet. It may be the Secret that has the
    /// finalizer.
    pub fn awaits_successor(&self, accounts: &Accounts, key: &AccountKey) -> bool {
        let successor = accounts.get(key);
        successor.is_some_and(|account| !self.lock().contains_key(account.uid()))
    }

    /// Forgets a deleted account object.
    pub fn forget(&self, uid: &str) {
        self.lock().remove(uid);
    }

    /// Whether another account that is or may be in use refers to this Secret. `None` until all account objects have
    /// been recorded.
    pub fn is_shared(
        &self,
        accounts: &Accounts,
        uid: &str,
        namespace: &str,
        name: &str,
    ) -> Option<bool> {
        if !self.is_complete.load(Ordering::Acquire) {
            return None;
        }
        let others: Vec<AccountKey> = {
            let secrets = self.lock();
            let others = secrets
                .iter()
                .filter(|(other, (_, ns, n))| *other != uid && ns == namespace && n == name);
            others.map(|(_, (key, ..))| key.clone()).collect()
        };
        Some(others.iter().any(|key| accounts.users(key) != Some(0)))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, (AccountKey, String, String)>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hosting_types::BaseUrlError;
    use k8s_openapi::ByteString;
    use serde_json::json;

    fn secret(entry: &str, value: &[u8]) -> Secret {
        Secret {
            metadata: serde_json::from_value(
                json!({"name": "s", "finalizers": [ACCOUNT_FINALIZER]}),
            )
            .unwrap(),
            type_: Some(API_KEY_SECRET.into()),
            data: Some([(entry.to_owned(), ByteString(value.to_vec()))].into()),
            ..Secret::default()
        }
    }

    fn fault(reading: &KeySecretContent) -> KeyFault {
        match &reading.fact {
            SecretFact::Found {
                key: Err(fault), ..
            } => fault.clone(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn facts_contain_only_hash_of_key() {
        let reading = found(&secret(API_KEY_DATA_KEY, b"canary-key\n"));
        assert!(reading.key.is_some());
        assert_eq!(reading.declared, Declared::Nothing);
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
    fn missing_and_invalid_api_key_are_distinguished() {
        let absent = found(&secret("other", b"k"));
        let broken = found(&secret(API_KEY_DATA_KEY, b"canary\nkey"));
        assert_eq!(fault(&absent), KeyFault::Absent);
        let KeyFault::Invalid(text) = fault(&broken) else {
            panic!("invalid")
        };
        assert!(text.contains("line break") && !text.contains("canary"));
        let declares = found(&secret(BASE_URL_DATA_KEY, b"https://h"));
        let there = BaseUrl::parse("https://h").unwrap();
        assert_eq!(declares.declared, Declared::To(there));
    }

    #[test]
    fn invalid_base_url_content_is_not_stored() {
        let long = format!("https://h/{}", "x".repeat(1 << 20));
        for (value, why) in [
            (vec![0xff; 1 << 20], BaseUrlError::TooLong),
            (long.into_bytes(), BaseUrlError::TooLong),
            (vec![0xff; 100], BaseUrlError::NotAUrl),
            (b"canary".to_vec(), BaseUrlError::NotAUrl),
        ] {
            let reading = found(&secret(BASE_URL_DATA_KEY, &value));
            assert_eq!(reading.declared, Declared::Unusable(why));
        }
        let reading = found(&secret(API_KEY_DATA_KEY, &vec![b'k'; 1 << 20]));
        let KeyFault::Invalid(text) = fault(&reading) else {
            panic!("invalid")
        };
        assert!(text.len() < 200, "{text}");
    }

    #[test]
    fn secret_of_other_type_yields_nothing() {
        for of_type in [None, Some("Opaque"), Some("kubernetes.io/basic-auth")] {
            for (entry, value) in [
                (API_KEY_DATA_KEY, "canary"),
                (BASE_URL_DATA_KEY, "https://h"),
            ] {
                let mut secret = secret(entry, value.as_bytes());
                secret.type_ = of_type.map(str::to_owned);
                let reading = found(&secret);
                assert!(reading.key.is_none());
                assert_eq!(fault(&reading), KeyFault::OtherType);
                assert_eq!(reading.declared, Declared::Unknown);
            }
        }
    }
}
