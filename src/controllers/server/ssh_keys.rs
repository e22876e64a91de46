//! The SSH keys of an order, from the sources in spec.

use super::installation::Values;
use crate::controllers::{
    context::Process,
    objects::ReferenceKeys,
    stored_keys::{StoredKeys, by_name, by_uuid},
    values::{ValueError, ValueSource},
};
use api::{
    BareMetalServer, Reason,
    references::{PinnedAccount, SshKeySource},
    server::BareMetalServerSpec,
};
use flexmetal_core::{
    explanation::Explanation,
    public_key::{PublicKey, PublicKeyError},
    server::facts::{ServerKey, account_of, is_same_uuid},
    stored_keys::KeyLookup,
};

/// Why a key is not available. Never contains the content.
#[derive(Debug, thiserror::Error)]
enum SshKeySourceError {
    #[error(transparent)]
    Value(#[from] ValueError),
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

impl SshKeySourceError {
    fn explanation(&self, index: usize) -> Explanation {
        let message = match self {
            Self::NoPublicKey { field, .. } => format!("spec.sshKeys[{index}].{field}: {self}"),
            _ => format!("spec.sshKeys[{index}]: {self}"),
        };
        match self {
            Self::Value(error) if error.is_invalid() => {
                Explanation::stalled(Reason::InvalidSpec, message)
            }
            Self::Value(_) | Self::NoKey { .. } | Self::Ending { .. } => {
                Explanation::missing(Reason::ReferenceNotFound, message)
            }
            Self::NotStored { .. } => Explanation::waits(Reason::ReferenceNotReady, message),
            Self::NoPublicKey { .. } | Self::OtherAccount { .. } | Self::Nothing => {
                Explanation::stalled(Reason::InvalidSpec, message)
            }
        }
    }
}

/// The most bytes of a referenced key: twice the limit of the schema for an inline one.
const LONGEST: usize = 8192;

/// The references of a server to stored keys.
pub(super) fn refers(server: &BareMetalServer) -> ReferenceKeys {
    let namespace = server.metadata.namespace.as_deref().unwrap_or_default();
    let keys = server.spec.ssh_keys.iter();
    let words = |key: &SshKeySource| {
        let name = key.named().map(|name| by_name(namespace, name));
        name.into_iter().chain(key.uuid.as_deref().map(by_uuid))
    };
    keys.flat_map(words).collect()
}

/// The referenced keys, in the order in which they are read.
pub(super) fn places(spec: &BareMetalServerSpec) -> impl Iterator<Item = (ValueSource<'_>, usize)> {
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

/// The keys, for the account with this ID. Referenced keys take the next of `values`. Err: why the first missing key is
/// not available.
pub(super) fn read_keys(
    process: &Process,
    object: &BareMetalServer,
    account_id: Option<&str>,
    values: &mut Values,
) -> Result<Vec<ServerKey>, Explanation> {
    let namespace = object.metadata.namespace.as_deref().unwrap_or_default();
    let keys = object.spec.ssh_keys.iter().enumerate();
    let keys = keys.map(|(index, source)| {
        let key = match source.named() {
            Some(name) => {
                let found = found(&process.stored_keys, namespace, name, account_id);
                stored(name, found, object)
            }
            None => given(source, values),
        };
        key.map_err(|error| error.explanation(index))
    });
    // Each key takes its value from `values`, even after an error.
    let keys: Vec<Result<ServerKey, Explanation>> = keys.collect();
    keys.into_iter().collect()
}

/// What the key objects show that the server names, in the order of its spec.
pub(super) fn named(
    keys: &StoredKeys,
    object: &BareMetalServer,
    account_id: Option<&str>,
) -> Vec<KeyLookup> {
    let namespace = object.metadata.namespace.as_deref().unwrap_or_default();
    let sources = object.spec.ssh_keys.iter();
    let names = sources.filter_map(SshKeySource::named);
    let found = names.map(|name| found(keys, namespace, name, account_id));
    found.collect()
}

/// Whether the keys to be sent are still what the key objects show for this account ID. Reads the objects live: the
/// deletion of a key waits for no order, and the watch may lag.
pub(super) async fn may_send_keys(
    process: &Process,
    object: &BareMetalServer,
    account_id: &str,
    (sent, uids): (&[String], &[String]),
) -> bool {
    let namespace = object.metadata.namespace.as_deref().unwrap_or_default();
    let mut uids = uids.iter();
    for (source, sent) in object.spec.ssh_keys.iter().zip(sent) {
        let Some(name) = source.named() else {
            continue;
        };
        let live = process.stored_keys.live(process, namespace, name).await;
        let is_same = uids
            .next()
            .zip(live.ok())
            .is_some_and(|(uid, live)| shows(&live, account_id, sent, uid));
        if !is_same {
            return false;
        }
    }
    true
}

/// Whether the key object has this UID and its key is stored as `sent` in the account with this ID.
fn shows(found: &KeyLookup, account_id: &str, sent: &str, uid: &str) -> bool {
    matches!(
        found,
        KeyLookup::Ready(stored)
            if stored.uid == uid && is_same_uuid(&stored.uuid, sent) && stored.account_id == account_id
    )
}

/// What a key object shows to a server of this account. A key that is stored in an account with another ID is not
/// ready, even if the account's name is the same.
fn found(keys: &StoredKeys, namespace: &str, name: &str, account_id: Option<&str>) -> KeyLookup {
    match keys.find(namespace, name) {
        KeyLookup::Ready(stored) if account_id != Some(stored.account_id.as_str()) => {
            let why = match account_id {
                Some(_) => "key and URL of the account now lead to another account",
                None => "the account behind key and URL is not known yet",
            };
            KeyLookup::NotReady(why.to_owned())
        }
        found => found,
    }
}

/// A key that an SshKey object stores.
fn stored(
    name: &str,
    found: KeyLookup,
    server: &BareMetalServer,
) -> Result<ServerKey, SshKeySourceError> {
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
fn given(source: &SshKeySource, values: &mut Values) -> Result<ServerKey, SshKeySourceError> {
    let sent = key(source, values)?;
    Ok(ServerKey {
        known_by: sent.clone(),
        sent,
        object: None,
    })
}

fn key(source: &SshKeySource, values: &mut Values) -> Result<String, SshKeySourceError> {
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

fn parsed(field: &'static str, bytes: &[u8]) -> Result<String, SshKeySourceError> {
    let key =
        PublicKey::parse(bytes).map_err(|why| SshKeySourceError::NoPublicKey { field, why })?;
    Ok(key.line())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controllers::stored_keys::StoredKeyLookup;
    use flexmetal_core::{server::decide::sent_hashes::keys_hash, stored_keys::StoredKey};
    use serde_json::json;
    use std::sync::Arc;

    /// One key object under every name.
    struct One(KeyLookup);

    impl StoredKeyLookup for One {
        fn find(&self, namespace: &str, _: &str) -> KeyLookup {
            assert_eq!(namespace, "shop");
            self.0.clone()
        }

        fn shows(&self, _: &api::SshKey) -> KeyLookup {
            self.0.clone()
        }
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

    fn known(found: KeyLookup) -> StoredKeys {
        let keys = StoredKeys::default();
        keys.set_keys(Arc::new(One(found)));
        keys
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
        let read = |found| stored("ops", found, &web()).map_err(|error| error.explanation(1));
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
                let mut values = vec![Ok(text.clone().into_bytes())].into_iter();
                let explanation = given(&source, &mut values).unwrap_err().explanation(1);
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
        let key = given(&inline, &mut Vec::new().into_iter()).unwrap();
        assert_eq!(key.sent, format!("{ED} me@here"));
    }

    #[test]
    fn server_refers_to_its_named_keys() {
        let words = refers(&web());
        let words: Vec<&str> = words.iter().map(|word| &**word).collect();
        let uuid = "uuid:0b2c4f5e-1111-4222-8333-444455556666";
        assert_eq!(words, ["key:shop/ops", uuid]);
    }

    #[test]
    fn key_must_be_unchanged_when_sent() {
        let is_shown = |found, uid| shows(&found, "l1", "u1", uid);
        let shown = stored_in("default", "u1", "SHA256:a");
        assert!(is_shown(shown.clone(), "uid-1"));
        assert!(
            !is_shown(shown.clone(), "uid-0"),
            "made again under its name"
        );
        assert!(!is_shown(stored_in("default", "u2", "SHA256:a"), "uid-1"));
        assert!(!is_shown(
            KeyLookup::NotReady("Progressing".into()),
            "uid-1"
        ));
        assert!(!is_shown(KeyLookup::Missing, "uid-1"));
        assert!(!is_shown(KeyLookup::Ending, "uid-1"));
        let (keys, web) = (known(shown.clone()), web());
        assert_eq!(named(&keys, &web, Some("l1")), vec![shown.clone()]);
        // The account's name leads to another account by now, where the identifier means nothing.
        assert!(!shows(&shown, "l2", "u1", "uid-1"));
        for (account_id, expected) in [
            (Some("l2"), "lead to another account"),
            (None, "not known yet"),
        ] {
            let [KeyLookup::NotReady(why)] = &named(&keys, &web, account_id)[..] else {
                panic!("it is taken for stored");
            };
            assert!(why.contains(expected), "{why}");
        }
    }
}
