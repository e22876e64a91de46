//! The SSH keys of a server, from the sources in spec.

use super::MissingField;
use crate::{
    explanation::Explanation,
    public_key::{PublicKey, PublicKeyError},
    server::{
        decide::sent_hashes,
        facts::{ServerKey, account_of},
    },
    stored_keys::KeyLookup,
    values::{ValueError, ValueSource},
};
use api::{
    BareMetalServer, Reason,
    references::{PinnedAccount, SshKeySource},
    server::BareMetalServerSpec,
};
use std::error::Error;

/// Why a key is not available. Never contains the content.
#[derive(Debug, thiserror::Error)]
enum SshKeySourceError<E: Error + 'static> {
    #[error(transparent)]
    TestValue(#[from] ValueError<E>),
    #[error("{why}")]
    NoPublicKey {
        field: &'static str,
        why: PublicKeyError,
    },
    #[error("SshKey {name} does not exist in this namespace. Create it")]
    NoKey { name: String },
    #[error("SshKey {name} is being deleted. Name another one, or create it again when it is gone")]
    Ending { name: String },
    #[error("SshKey {name} is not stored yet; {why}; the order follows when it is")]
    NotStored { name: String, why: String },
    #[error(
        "SshKey {name} is of another account; it is stored in {} {}, and this server belongs to {} {}. Name a key of the same account",
        .there.kind.as_str(), .there.name, .here.kind.as_str(), .here.name
    )]
    OtherAccount {
        name: String,
        there: PinnedAccount,
        here: PinnedAccount,
    },
    #[error("set one of sshKeyRef, publicKey, uuid, secretKeyRef, configMapKeyRef")]
    Nothing,
}

impl<E: Error + 'static> SshKeySourceError<E> {
    fn missing(&self, index: usize) -> MissingField {
        let message = match self {
            Self::NoPublicKey { field, .. } => format!("spec.sshKeys[{index}].{field}: {self}"),
            _ => format!("spec.sshKeys[{index}]: {self}"),
        };
        let explanation = match self {
            Self::TestValue(error) if error.is_invalid() => {
                Explanation::stalled(Reason::InvalidSpec, message)
            }
            Self::TestValue(_) | Self::NoKey { .. } | Self::Ending { .. } => {
                Explanation::missing(Reason::ReferenceNotFound, message)
            }
            Self::NotStored { .. } => Explanation::waits(Reason::ReferenceNotReady, message),
            Self::NoPublicKey { .. } | Self::OtherAccount { .. } | Self::Nothing => {
                Explanation::stalled(Reason::InvalidSpec, message)
            }
        };
        MissingField {
            field: sent_hashes::KEYS,
            explanation,
        }
    }
}

/// The most bytes of a referenced key: twice the limit of the schema for an inline one.
const LONGEST: usize = 8192;

/// The referenced keys, in the order in which they are read.
pub(super) fn list_sources(
    spec: &BareMetalServerSpec,
) -> impl Iterator<Item = (ValueSource<'_>, usize)> {
    let places = spec.ssh_keys.iter().filter_map(value_source);
    places.map(|place| (place, LONGEST))
}

fn value_source(source: &SshKeySource) -> Option<ValueSource<'_>> {
    if source.ssh_key_ref.is_some() || source.public_key.is_some() || source.uuid.is_some() {
        return None;
    }
    match (&source.secret_key_ref, &source.config_map_key_ref) {
        (Some(selector), _) => Some(ValueSource::Secret(selector)),
        (None, Some(selector)) => Some(ValueSource::ConfigMap(selector)),
        (None, None) => None,
    }
}

/// The keys. `named`: what their SshKeys show; referenced keys take the next of `values`. Err: why the first missing key
/// is not available.
pub(super) fn read_keys<E: Error + 'static>(
    object: &BareMetalServer,
    named: Vec<KeyLookup>,
    values: &mut impl Iterator<Item = Result<Vec<u8>, ValueError<E>>>,
) -> Result<Vec<ServerKey>, MissingField> {
    let mut named = named.into_iter();
    let keys = object.spec.ssh_keys.iter().enumerate();
    let keys = keys.map(|(index, source)| {
        let key = match source.named() {
            Some(name) => stored(name, named.next().unwrap_or(KeyLookup::NotKnown), object),
            None => given(source, values),
        };
        key.map_err(|error| error.missing(index))
    });
    // Each key takes its value from `values`, even after an error.
    let keys: Vec<Result<ServerKey, MissingField>> = keys.collect();
    keys.into_iter().collect()
}

/// A key that an SshKey object stores.
fn stored<E: Error + 'static>(
    name: &str,
    found: KeyLookup,
    server: &BareMetalServer,
) -> Result<ServerKey, SshKeySourceError<E>> {
    let name = name.to_owned();
    let not_stored = |name, why: &str| SshKeySourceError::NotStored {
        name,
        why: why.to_owned(),
    };
    match found {
        KeyLookup::NotKnown => Err(not_stored(name, "it is not listed yet")),
        KeyLookup::NotReady(why) => Err(not_stored(name, &why)),
        KeyLookup::Missing => Err(SshKeySourceError::NoKey { name }),
        KeyLookup::Ending => Err(SshKeySourceError::Ending { name }),
        KeyLookup::Ready(stored) => {
            let here = account_of(server);
            if stored.account != here {
                let there = stored.account;
                return Err(SshKeySourceError::OtherAccount { name, there, here });
            }
            Ok(ServerKey {
                sent: stored.uuid,
                known_by: format!("stored:{}", stored.fingerprint),
                object: Some(stored.uid),
            })
        }
    }
}

/// An inline key, or the next of the referenced ones.
fn given<E: Error + 'static>(
    source: &SshKeySource,
    values: &mut impl Iterator<Item = Result<Vec<u8>, ValueError<E>>>,
) -> Result<ServerKey, SshKeySourceError<E>> {
    let sent = key(source, values)?;
    Ok(ServerKey {
        known_by: sent.clone(),
        sent,
        object: None,
    })
}

fn key<E: Error + 'static>(
    source: &SshKeySource,
    values: &mut impl Iterator<Item = Result<Vec<u8>, ValueError<E>>>,
) -> Result<String, SshKeySourceError<E>> {
    if let Some(key) = &source.public_key {
        return parsed("publicKey", key.as_bytes());
    }
    if let Some(uuid) = &source.uuid {
        return Ok(uuid.clone());
    }
    let place = value_source(source).ok_or(SshKeySourceError::Nothing)?;
    let bytes = values.next().ok_or(SshKeySourceError::Nothing)??;
    let field = match place {
        ValueSource::Secret(_) => "secretKeyRef",
        ValueSource::ConfigMap(_) => "configMapKeyRef",
    };
    parsed(field, &bytes)
}

fn parsed<E: Error + 'static>(
    field: &'static str,
    bytes: &[u8],
) -> Result<String, SshKeySourceError<E>> {
    let key =
        PublicKey::parse(bytes).map_err(|why| SshKeySourceError::NoPublicKey { field, why })?;
    Ok(key.line())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{server::decide::sent_hashes::keys_hash, stored_keys::StoredKey};
    use serde_json::json;
    use std::fmt;

    type TestValue = Result<Vec<u8>, ValueError<fmt::Error>>;

    fn value(text: &str) -> TestValue {
        Ok(text.as_bytes().to_vec())
    }

    fn stored_in(account: &str, uuid: &str, fingerprint: &str) -> KeyLookup {
        let mut named = PinnedAccount::from_reference(None);
        account.clone_into(&mut named.name);
        KeyLookup::Ready(StoredKey {
            uid: "uid-1".into(),
            uuid: uuid.into(),
            fingerprint: fingerprint.into(),
            account: named,
            account_id: "l1".into(),
        })
    }

    fn web() -> BareMetalServer {
        serde_json::from_value(json!({
            "apiVersion": "flexmetal.dev/v1alpha1", "kind": "BareMetalServer",
            "metadata": {"name": "web", "namespace": "shop"},
            "spec": {
                "location": "here", "instanceType": "small", "os": {"slug": "some-os"},
                "sshKeys": [{"uuid": "0b2c4f5e-1111-4222-8333-444455556666"}, {"sshKeyRef": {"name": "ops"}}],
            },
        }))
        .unwrap()
    }

    #[test]
    fn referenced_key_sends_uuid_and_compares_fingerprint() {
        let read = |found| {
            let key = stored::<fmt::Error>("ops", found, &web());
            key.map_err(|error| error.missing(1).explanation)
        };
        let first = read(stored_in("default", "u1", "SHA256:a")).unwrap();
        assert_eq!(first.sent, "u1");
        let again = read(stored_in("default", "u2", "SHA256:a")).unwrap();
        let other = read(stored_in("default", "u1", "SHA256:b")).unwrap();
        let hash = |key: &ServerKey| keys_hash(std::slice::from_ref(key));
        assert_eq!(hash(&first), hash(&again), "the same key, stored again");
        assert_ne!(hash(&first), hash(&other));

        for (found, reason, word) in [
            (
                KeyLookup::NotKnown,
                Reason::ReferenceNotReady,
                "not listed yet",
            ),
            (
                KeyLookup::Ending,
                Reason::ReferenceNotFound,
                "Name another one",
            ),
            (KeyLookup::Missing, Reason::ReferenceNotFound, "Create it"),
            (
                KeyLookup::NotReady("InvalidSpec".into()),
                Reason::ReferenceNotReady,
                "InvalidSpec",
            ),
            (
                stored_in("other", "u1", "SHA256:a"),
                Reason::InvalidSpec,
                "ProviderAccount other",
            ),
        ] {
            let explanation = read(found).unwrap_err();
            assert_eq!(explanation.reason, reason, "{}", explanation.message);
            assert!(
                explanation.message.contains("spec.sshKeys[1]"),
                "{}",
                explanation.message
            );
            assert!(
                explanation.message.contains(word),
                "{}",
                explanation.message
            );
        }
    }

    const ED: &str =
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBv2kqKzv4gbAvzfF3XuNCOxIvHHFfHOhYGLbn9Dkg1Z";

    #[test]
    fn invalid_ssh_key_reports_its_spec_path() {
        let cases = [
            (
                "-----BEGIN OPENSSH PRIVATE KEY----- hush".into(),
                "private key",
            ),
            (" ".into(), "is empty"),
            (format!("{ED} hush\n{ED}"), "not one line"),
            (format!("no-pty {ED} hush"), "options"),
            (
                format!("ssh-ed25519-cert-v01@openssh.com {} hush", &ED[12..]),
                "certificate",
            ),
            (format!("ssh-dss {} hush", &ED[12..]), "DSA"),
            (ED[..60].into(), "cut short"),
            (format!("ssh-rsa {} hush", &ED[12..]), "another algorithm"),
            ("hush".into(), "no public key"),
        ];
        let selector = || serde_json::from_value(json!({"name": "keys", "key": "me"})).ok();
        for (text, word) in cases {
            let inline = SshKeySource {
                public_key: Some(text.clone()),
                ..SshKeySource::default()
            };
            let secret = SshKeySource {
                secret_key_ref: selector(),
                ..SshKeySource::default()
            };
            let map = SshKeySource {
                config_map_key_ref: selector(),
                ..SshKeySource::default()
            };
            for (source, field) in [
                (inline, "publicKey"),
                (secret, "secretKeyRef"),
                (map, "configMapKeyRef"),
            ] {
                let mut values = std::iter::once(value(&text));
                let explanation = given(&source, &mut values)
                    .unwrap_err()
                    .missing(1)
                    .explanation;
                assert_eq!(explanation.reason, Reason::InvalidSpec);
                let path = format!("spec.sshKeys[1].{field}: ");
                assert!(
                    explanation.message.starts_with(&path),
                    "{}",
                    explanation.message
                );
                assert!(
                    explanation.message.contains(word),
                    "{}",
                    explanation.message
                );
                assert!(
                    !explanation.message.contains("hush"),
                    "{}",
                    explanation.message
                );
            }
        }
        let inline = SshKeySource {
            public_key: Some(format!("{ED}  me@here\n")),
            ..SshKeySource::default()
        };
        let key = given(&inline, &mut std::iter::empty::<TestValue>()).unwrap();
        assert_eq!(key.sent, format!("{ED} me@here"));
    }
}
