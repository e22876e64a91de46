//! Accounts that share a key Secret.

use crate::{
    account::{EnqueueTarget, Users},
    controllers::{
        account::{AccountController, AccountObjects, object::AccountObject},
        api_server_tests::TestApiServer,
        streams::Guarded,
    },
};
use api::{ClusterProviderAccount, ProviderAccount, names::SECRET_WITH_FINALIZER};
use flexmetal_core::account::{key::AccountKey, recorded::RecordedResources};
use kube::runtime::watcher::Event;
use serde_json::{Value, json};
use std::sync::Arc;

/// Counts one user for every account.
struct Used;

impl Users for Used {
    fn count(&self, _: &AccountKey, _: &dyn Fn(&str) -> bool) -> Option<usize> {
        Some(1)
    }

    fn recorded_resources(&self, _: &AccountKey) -> Option<RecordedResources> {
        Some(RecordedResources::default())
    }

    fn enqueue(&self, _: &EnqueueTarget) {}
}

fn account(name: &str, spec: &Value) -> Guarded<ProviderAccount> {
    let metadata = json!({
        "name": name,
        "namespace": "n",
        "uid": name,
        "annotations": { SECRET_WITH_FINALIZER: format!("held-by-{name}") },
    });
    let object = json!({
        "apiVersion": "flexmetal.dev/v1alpha1",
        "kind": "ProviderAccount",
        "metadata": metadata,
        "spec": spec,
    });
    serde_json::from_value(object).unwrap()
}

fn list<K: AccountObject>(objects: &AccountObjects<K>, all: Vec<Guarded<K>>) {
    objects.apply_event(0, Event::Init);
    for object in all {
        objects.apply_event(0, Event::InitApply(object));
    }
    objects.apply_event(0, Event::InitDone);
}

/// A process that has just started: no account object was reconciled.
#[tokio::test]
async fn no_finalizer_moves_before_all_accounts_are_listed() {
    let floor = TestApiServer::start([]).await;
    let controller = AccountController::new(&floor.ctx);
    let accounts = &floor.ctx.accounts;
    accounts.add_users(Arc::new(Used));
    let is_shared = |uid, secret| controller.secrets.is_shared(accounts, uid, "n", secret);
    assert_eq!(is_shared("one", "api"), None);

    let spec = json!({"apiKeySecretRef": {"name": "api"}});
    let broken = json!({"apiKeySecretRef": 5});
    list::<ClusterProviderAccount>(controller.cluster.as_ref().unwrap(), vec![]);
    list(
        &controller.namespaced,
        vec![
            account("one", &spec),
            account("two", &spec),
            account("broken", &broken),
        ],
    );
    assert_eq!(
        is_shared("one", "api"),
        None,
        "nobody said that these are all"
    );
    controller.known().await;
    assert_eq!(is_shared("one", "api"), Some(true), "two stands on it");
    assert_eq!(is_shared("one", "held-by-broken"), Some(true));
    assert_eq!(is_shared("broken", "held-by-broken"), Some(false));
    assert_eq!(is_shared("one", "another"), Some(false));
}
