//! Which keys are sent, and where: a tenant who may write accounts, but no Secrets,
//! can neither use a Secret that it cannot read nor call a network that it cannot access.

use std::io::ErrorKind;
use std::net::TcpListener;

use futures::future::join_all;
use k8s_openapi::api::core::v1::Secret;
use kube::api::DeleteParams;
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use super::{
    SOON, apply, build_secret_of_type, build_server, change_account, check_invariants,
    count_orders, start_with_other_account, text, wait_account_condition, wait_for_polls,
    wait_stalled,
};
use lab::rig::{
    Simulator, World, WorldOptions, cluster, condition, eventually, quick_timing, server,
};

const KEY_TYPE: &str = "flexmetal.dev/api-key";
/// The remedy for a URL that is not allowed.
const FLAG: &str = "--allowed-base-url";

/// A user who may write accounts and servers in the world's namespace, and nothing else.
async fn create_tenant_client(world: &World) -> Client {
    let namespace = &world.namespace;
    let kubectl = async |args: &[&str]| {
        let args = [&["-n", namespace][..], args].concat();
        cluster().kubectl_ok(&args).await
    };
    kubectl(&["create", "serviceaccount", "tenant"]).await;
    let resources = "--resource=provideraccounts.flexmetal.dev,baremetalservers.flexmetal.dev";
    let verbs = "--verb=get,create,patch";
    kubectl(&["create", "role", "tenant", verbs, resources]).await;
    let subject = format!("--serviceaccount={namespace}:tenant");
    let binding = ["create", "rolebinding", "tenant", "--role=tenant", &subject];
    kubectl(&binding).await;
    let token = kubectl(&["create", "token", "tenant"]).await;
    let client = cluster().client_with_token(token.trim()).await;
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let refused = secrets.list(&Default::default()).await.unwrap_err();
    assert!(matches!(refused, kube::Error::Api(status) if status.code == 403));
    client
}

fn build_account(name: &str, spec: &Value) -> Value {
    let mut object = json!({
        "apiVersion": "flexmetal.dev/v1alpha1", "kind": "ProviderAccount",
        "metadata": {"name": name},
        "spec": {"apiKeySecretRef": {"name": name}, "timing": quick_timing()},
    });
    for (field, value) in spec.as_object().expect("fields of a spec") {
        object["spec"][field] = value.clone();
    }
    object
}

/// Waits until an account is not ready for this reason, with these words in its message.
async fn wait_account_not_ready(world: &World, name: &str, reason: &str, words: &[&str]) {
    let account = wait_account_condition(world, name, "Stalled", "True", reason).await;
    let message = text(&condition(&account, "Ready").expect("it is told")["message"]);
    for word in words {
        assert!(
            message.contains(word),
            "{name}: {word:?} is not in {message:?}"
        );
    }
}

#[tokio::test]
async fn secret_of_another_type_is_never_used() {
    let plan = WorldOptions {
        secret: false,
        ..WorldOptions::default()
    };
    let mut world = World::prepare(cluster(), "theft", plan).await;
    world.start_operator();
    let namespace = Some(world.namespace.as_str());
    // The tenant would like to use these Secrets. They even allow the tenant's own endpoint.
    let entries = [("apiKey", world.simulator.api_key())];
    for (name, of_type) in [("one", "Opaque"), ("two", "example.com/token")] {
        let secret = build_secret_of_type(of_type, name, &entries);
        apply(&world.client, namespace, &secret).await;
    }

    let tenant = create_tenant_client(&world).await;
    let url = json!({"baseURL": world.simulator.api()});
    for name in ["one", "two"] {
        apply(&tenant, namespace, &build_account(name, &url)).await;
        let user = build_server(name, &json!({"accountRef": {"name": name}}));
        apply(&tenant, namespace, &user).await;
    }
    let words = ["Secret", KEY_TYPE, "create it again"];
    for name in ["one", "two"] {
        wait_account_not_ready(&world, name, "InvalidKey", &words).await;
        wait_stalled(&world, name, "InvalidKey", &[KEY_TYPE]).await;
    }
    assert_eq!(world.simulator.ledger().await, Vec::<Value>::new());
    for name in ["one", "two"] {
        let secret = world.secrets().get(name).await.unwrap();
        assert!(secret.finalizers().is_empty(), "{name} bears a finalizer");
    }

    // A user with the right to write Secrets sets the type.
    let secrets = world.secrets();
    secrets
        .delete("one", &DeleteParams::default())
        .await
        .unwrap();
    let secret = build_secret_of_type(KEY_TYPE, "one", &entries);
    apply(&world.client, namespace, &secret).await;
    world.wait_ready("one", SOON).await;
    assert_eq!(count_orders(&world).await, 1);
    let held = secrets.get("one").await.unwrap();
    assert_eq!(held.finalizers().len(), 1, "it is in use");
    check_invariants(&world).await;
}

/// Waits until no more calls come.
async fn wait_for_no_calls(simulator: &Simulator) {
    eventually("no more calls come", SOON, async || {
        let before = simulator.ledger().await.len();
        // The operator polls the account at least every second.
        tokio::time::sleep(std::time::Duration::from_secs(4)).await;
        (simulator.ledger().await.len() == before).then_some(())
    })
    .await;
}

#[tokio::test]
async fn edited_base_url_sends_the_key_nowhere() {
    let (world, other) = start_with_other_account("edited").await;
    let namespace = Some(world.namespace.as_str());
    let declared = |url: &str| {
        let entries = [("apiKey", world.simulator.api_key()), ("baseURL", url)];
        build_secret_of_type(KEY_TYPE, "account-key", &entries)
    };
    let here = declared(world.simulator.api());
    apply(&world.client, namespace, &here).await;
    world.create(&server("one")).await;
    let one = world.wait_ready("one", SOON).await;

    let tenant = create_tenant_client(&world).await;
    let elsewhere = build_account(
        "default",
        &json!({"baseURL": other.api(), "apiKeySecretRef": {"name": "account-key"}}),
    );
    apply(&tenant, namespace, &elsewhere).await;
    let words = ["spec.baseURL", "Secret", "Make them equal"];
    wait_account_not_ready(&world, "default", "InvalidEndpoint", &words).await;
    assert_eq!(other.ledger().await, Vec::<Value>::new());
    // The operator does not use the key at the old URL either, because the intended URL is unclear.
    wait_for_no_calls(&world.simulator).await;
    let now = world.get("one").await.unwrap();
    assert_eq!(now["status"]["uuid"], one["status"]["uuid"]);

    // The Secret's URL is used without a URL in the spec, and also with an equal one.
    for url in [Value::Null, json!(world.simulator.api())] {
        change_account(&world, "default", &json!({"spec": {"baseURL": url}})).await;
        wait_account_condition(&world, "default", "Ready", "True", "Available").await;
        wait_for_polls(&world, 2).await;
    }
    assert_eq!(other.ledger().await, Vec::<Value>::new());

    // If the Secret has another URL, the operator does not call the old one any more.
    apply(&world.client, namespace, &declared(other.api())).await;
    wait_account_not_ready(&world, "default", "InvalidEndpoint", &words).await;
    wait_for_no_calls(&world.simulator).await;
    assert_eq!(other.ledger().await, Vec::<Value>::new());
    apply(&world.client, namespace, &here).await;
    world.delete("one").await;
    world.wait_gone("one", SOON).await;
    assert!(world.simulator.list_live_servers().await.is_empty());
    check_invariants(&world).await;
}

#[tokio::test]
async fn key_secret_needs_a_base_url_if_unlisted() {
    let plan = WorldOptions {
        listed: false,
        ..WorldOptions::default()
    };
    let mut world = World::prepare(cluster(), "unlisted", plan).await;
    // A public URL in the spec, which is never called.
    let public = json!({"spec": {"baseURL": "https://192.0.1.1"}});
    change_account(&world, "default", &public).await;
    world.start_operator();
    let words = ["Secret", "no key \"baseURL\"", "https://HOST"];
    wait_account_not_ready(&world, "default", "InvalidEndpoint", &words).await;
}

#[tokio::test]
async fn no_address_that_is_not_public_is_dialled() {
    let plan = WorldOptions {
        listed: false,
        secret: false,
        ..WorldOptions::default()
    };
    let mut world = World::prepare(cluster(), "inside", plan).await;
    // Connections stay in its queue until the test checks.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let hosts = [
        ("loopback", "https://127.0.0.1"),
        ("mapped", "https://[::ffff:127.0.0.1]"),
        ("number", "https://2130706433"),
        ("short", "https://127.1"),
        ("name", "https://localhost"),
        ("plain", "http://127.0.0.1"),
        ("translated", "https://[64:ff9b::7f00:1]"),
    ];
    let namespace = Some(world.namespace.clone());
    for (name, url) in hosts {
        let url = format!("{url}:{port}");
        let entries = [("apiKey", "a-key"), ("baseURL", &url)];
        let secret = build_secret_of_type(KEY_TYPE, name, &entries);
        apply(&world.client, namespace.as_deref(), &secret).await;
        apply(
            &world.client,
            namespace.as_deref(),
            &build_account(name, &json!({})),
        )
        .await;
    }
    world.start_operator();
    let reported = hosts.map(|(name, _)| {
        wait_account_not_ready(&world, name, "InvalidEndpoint", &["baseURL", FLAG])
    });
    join_all(reported).await;
    let nobody = listener.accept().unwrap_err();
    assert_eq!(nobody.kind(), ErrorKind::WouldBlock, "somebody connected");
}

#[tokio::test]
async fn with_a_list_nothing_else_is_called() {
    let mut world = World::prepare(cluster(), "list", WorldOptions::default()).await;
    world.start_operator();
    let other = Simulator::start(&[], &world.folder().join("other.log"));
    let namespace = Some(world.namespace.as_str());
    let entries = [("apiKey", other.api_key()), ("baseURL", other.api())];
    let secret = build_secret_of_type(KEY_TYPE, "other", &entries);
    apply(&world.client, namespace, &secret).await;
    apply(
        &world.client,
        namespace,
        &build_account("other", &json!({})),
    )
    .await;
    wait_account_not_ready(&world, "other", "InvalidEndpoint", &["Secret", FLAG]).await;
    // Another path on an allowed host is another URL.
    let url = format!("{}/x", world.simulator.api());
    let other_path = json!({"baseURL": url, "apiKeySecretRef": {"name": "account-key"}});
    apply(
        &world.client,
        namespace,
        &build_account("beside", &other_path),
    )
    .await;
    wait_account_not_ready(&world, "beside", "InvalidEndpoint", &["spec.baseURL", FLAG]).await;
    assert_eq!(other.ledger().await, Vec::<Value>::new());
    wait_account_condition(&world, "default", "Ready", "True", "Available").await;
}
