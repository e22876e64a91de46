//! The key Secret of an account: read by name, never listed or watched.

use super::facts::{KeyFault, SecretFact};
use crate::kinds::names::ACCOUNT_FINALIZER;
use hosting::ApiKey;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client, ResourceExt as _};

/// A Secret as read, with the key taken out of it.
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
pub async fn read(client: &Client, namespace: &str, name: &str, entry: &str) -> Reading {
    match Api::<Secret>::namespaced(client.clone(), namespace)
        .get_opt(name)
        .await
    {
        Ok(Some(secret)) => found(&secret, entry),
        Ok(None) => Reading::none(SecretFact::Missing),
        Err(error) => Reading::none(SecretFact::Unread(explain(&error))),
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

/// An error of the API server, for a condition. Never holds what was read.
pub fn explain(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if status.code == 403 => {
            format!(
                "{} (grant the operator the verbs get and patch on this Secret)",
                status.message
            )
        }
        kube::Error::Api(status) => status.message.clone(),
        // Other errors may quote what they could not decode.
        _ => "the API server did not answer as it should".into(),
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
