//! Reconciles `SshKey` objects. A public key is stored once and found again by its content. A key that an object stored
//! has the object's owner hash in its name.

pub mod key_calls;
pub mod key_list_cache;

mod act;
mod observe;
mod reconcile;

use super::{
    context::{Context, Process},
    objects::{KindOptions, Objects, ObservedObject},
    reconcile_loop::run_reconcile_loop,
    stored_keys::StoredKeyLookup,
};
use api::SshKey;
use flexmetal_core::{
    account::{key::AccountKey, view::ListKind},
    reconcile::Memory,
    ssh_key::{facts, memory::SshKeyMemory as Own},
    stored_keys::KeyLookup,
};
use key_calls::KeyCalls;
use key_list_cache::KeyListCache;
use std::sync::Arc;

/// The key objects of all watched namespaces.
pub type KeyObjects = Objects<SshKey, Memory<Own>>;
/// The context of the key controller.
pub type KeyContext = Context<SshKey, Memory<Own>>;

/// What all work items share.
#[derive(Clone, Default)]
struct Shared {
    posts: KeyCalls,
    key_lists: KeyListCache,
}

/// The controller of stored keys.
pub struct SshKeyController {
    process: Process,
    /// The objects.
    pub objects: Arc<KeyObjects>,
}

impl SshKeyController {
    /// No objects yet. Registers the kind with the accounts, and with the kinds that refer to keys.
    pub fn new(process: &Process) -> Self {
        let objects = Arc::new(Objects::new(kind_options(), process.watched.watches()));
        process.accounts.add_users(objects.clone());
        process
            .stored_keys
            .set_keys(Arc::new(SshKeyIndex(objects.clone())));
        Self {
            process: process.clone(),
            objects,
        }
    }

    /// Reconciles all keys until shutdown. Nothing starts before `accounts_known`.
    pub async fn run(&self, accounts_known: impl Future<Output = ()>) {
        let watches = self.process.watched.apis(&self.process.watch_client);
        let ctx = Arc::new(Context::new(&self.process, self.objects.clone()));
        let shared = Shared::default();
        let pass = move |ctx, seen| reconcile::reconcile(ctx, shared.clone(), seen);
        let known = async {
            self.objects.completed().await;
            self.process.stored_keys.keys_known();
        };
        let shutdown = self.process.shutdown.clone();
        tokio::join!(
            run_reconcile_loop(ctx, watches, accounts_known, pass),
            shutdown.run_until_cancelled(known)
        );
    }
}

fn kind_options() -> KindOptions<SshKey> {
    KindOptions {
        account_of: Some(|object| Some(account_of(object))),
        claim: Some(facts::claim),
        has_record: |object| {
            let status = object.status.as_ref();
            status.is_some_and(|s| s.uuid.is_some())
        },
        alias: Box::new(|meta| {
            let namespace = meta.namespace.as_deref()?;
            Some(full_name(namespace, meta.name.as_deref()?))
        }),
        lists: &[ListKind::SshKeys],
        ..KindOptions::default()
    }
}

fn full_name(namespace: &str, name: &str) -> String {
    format!("{namespace}/{name}")
}

/// The account that a key names.
fn account_of(object: &SshKey) -> AccountKey {
    let namespace = object.metadata.namespace.as_deref().unwrap_or_default();
    AccountKey::from_reference(&facts::account_of(object), namespace)
}

/// What other kinds can ask about the key objects.
struct SshKeyIndex(Arc<KeyObjects>);

impl StoredKeyLookup for SshKeyIndex {
    fn find(&self, namespace: &str, name: &str) -> KeyLookup {
        let uid = self.0.by_alias(&full_name(namespace, name));
        let Some(shown) = uid.and_then(|uid| self.0.newest(&uid)) else {
            return match self.0.is_complete() {
                true => KeyLookup::Missing,
                false => KeyLookup::NotKnown,
            };
        };
        match shown {
            ObservedObject::Decoded(object) => facts::find_key(&object),
            ObservedObject::Undecodable(_) => KeyLookup::NotReady("it does not decode".to_owned()),
        }
    }

    fn shows(&self, object: &SshKey) -> KeyLookup {
        facts::find_key(object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controllers::api_server_tests::{Answer, TestApiServer, no};
    use kube::{core::DeserializeGuard, runtime::watcher::Event};
    use serde_json::{Value, json};

    fn object(uid: &str, ready: &str, observed: i64) -> Value {
        json!({
            "apiVersion": "flexmetal.dev/v1alpha1", "kind": "SshKey",
            "metadata": {"name": "ops", "namespace": "shop", "uid": uid, "generation": 3,
                "resourceVersion": "1"},
            "spec": {"publicKey": "ssh-ed25519 AAAA"},
            "status": {
                "observedGeneration": observed, "uuid": "u1", "fingerprint": "SHA256:a",
                "records": {"accountID": "l1"},
                "accountRef": {"kind": "ProviderAccount", "name": "default"},
                "conditions": [{"type": "Ready", "status": ready, "reason": "InvalidSpec",
                    "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
            },
        })
    }

    fn decoded(object: &Value) -> SshKey {
        serde_json::from_value(object.clone()).unwrap()
    }

    #[tokio::test]
    async fn live_read_ignores_what_the_watch_showed() {
        let floor = TestApiServer::start([
            Answer::Says(200, object("1", "True", 2)),
            Answer::Says(200, object("1", "True", 3)),
            no(404, "gone"),
            no(500, "no"),
        ])
        .await;
        let objects = Arc::new(KeyObjects::new(kind_options(), 1));
        let shown = DeserializeGuard(Ok(decoded(&object("1", "True", 3))));
        objects.apply_event(0, Event::Apply(shown));
        let keys = &floor.ctx.stored_keys;
        keys.set_keys(Arc::new(SshKeyIndex(objects)));
        assert!(matches!(keys.find("shop", "ops"), KeyLookup::Ready(_)));
        let live = async || keys.live(&floor.ctx, "shop", "ops").await;
        assert!(matches!(live().await, Ok(KeyLookup::NotReady(_))));
        assert!(matches!(live().await, Ok(KeyLookup::Ready(_))));
        assert!(matches!(live().await, Ok(KeyLookup::Missing)));
        assert!(live().await.is_err());
        let path = "GET /apis/flexmetal.dev/v1alpha1/namespaces/shop/sshkeys/ops";
        assert_eq!(floor.requests(), [path; 4]);
    }

    #[test]
    fn recreated_object_is_found_under_its_name() {
        let objects = Arc::new(KeyObjects::new(kind_options(), 1));
        let known = SshKeyIndex(objects.clone());
        assert_eq!(known.find("shop", "ops"), KeyLookup::NotKnown);
        let listed = |all: &[Value]| {
            objects.apply_event(0, Event::Init);
            for object in all {
                let object = DeserializeGuard(Ok(decoded(object)));
                objects.apply_event(0, Event::InitApply(object));
            }
            objects.apply_event(0, Event::InitDone);
        };
        listed(&[]);
        assert_eq!(known.find("shop", "ops"), KeyLookup::Missing);
        listed(&[object("1", "False", 3)]);
        assert!(matches!(known.find("shop", "ops"), KeyLookup::NotReady(_)));
        assert_eq!(known.find("bank", "ops"), KeyLookup::Missing);
        // The list shows the recreated object before the previous one is missed.
        listed(&[object("2", "True", 3)]);
        assert!(matches!(known.find("shop", "ops"), KeyLookup::Ready(_)));
        listed(&[]);
        assert_eq!(known.find("shop", "ops"), KeyLookup::Missing);
    }
}
