//! The stored keys that a server names.

use crate::controllers::{
    context::Process,
    objects::ReferenceKeys,
    stored_keys::{StoredKeys, by_name, by_uuid},
};
use api::{BareMetalServer, references::SshKeySource};
use flexmetal_core::{server::facts::is_same_uuid, stored_keys::KeyLookup};

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

/// What the key objects show that the server names, in the order of its spec.
pub(super) fn named(
    keys: &StoredKeys,
    object: &BareMetalServer,
    account_id: Option<&str>,
) -> Vec<KeyLookup> {
    let namespace = object.metadata.namespace.as_deref().unwrap_or_default();
    let sources = object.spec.ssh_keys.iter();
    let names = sources.filter_map(SshKeySource::named);
    let found = names.map(|name| keys.find(namespace, name).for_account(account_id));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controllers::stored_keys::StoredKeyLookup;
    use api::references::PinnedAccount;
    use flexmetal_core::stored_keys::StoredKey;
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
