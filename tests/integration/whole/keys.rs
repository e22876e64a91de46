//! Whose keys are sent, and where to: a tenant that may write accounts, and nothing else, gains no Secret that it cannot
//! read and no network that it cannot reach.

use std::io::ErrorKind;
use std::net::TcpListener;

use futures::future::join_all;
use k8s_openapi::api::core::v1::Secret;
use kube::api::DeleteParams;
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use super::{
    SOON, account_says, apply, change_account, judge, looks, orders, secret_of_type, stuck, text,
    with, with_other_account,
};
use lab::rig::{
    Simulator, World, WorldOptions, cluster, condition, eventually, quick_timing, server,
};

const KEY_TYPE: &str = "flexmetal.dev/api-key";
/// The remedy for a URL that may not be called.
const FLAG: &str = "--allowed-base-url";

/// Somebody who may write accounts and servers in the world's namespace, and nothing else.
async fn tenant(world: &World) -> Client {
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

fn account(name: &str, spec: &Value) -> Value {
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
async fn refused(world: &World, name: &str, reason: &str, words: &[&str]) {
    let account = account_says(world, name, "Stalled", "True", reason).await;
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
    // What a tenant would like to have: it would even open the tenant's own endpoint.
    let entries = [("apiKey", world.simulator.api_key())];
    for (name, of_type) in [("one", "Opaque"), ("two", "example.com/token")] {
        let secret = secret_of_type(of_type, name, &entries);
        apply(&world.client, namespace, &secret).await;
    }

    let tenant = tenant(&world).await;
    let url = json!({"baseURL": world.simulator.api()});
    for name in ["one", "two"] {
        apply(&tenant, namespace, &account(name, &url)).await;
        let user = with(name, &json!({"accountRef": {"name": name}}));
        apply(&tenant, namespace, &user).await;
    }
    let words = ["Secret", KEY_TYPE, "create it again"];
    for name in ["one", "two"] {
        refused(&world, name, "InvalidKey", &words).await;
        stuck(&world, name, "InvalidKey", &[KEY_TYPE]).await;
    }
    assert_eq!(world.simulator.ledger().await, Vec::<Value>::new());
    for name in ["one", "two"] {
        let secret = world.secrets().get(name).await.unwrap();
        assert!(secret.finalizers().is_empty(), "{name} bears a finalizer");
    }

    // Whoever may write Secrets makes it one for us.
    let secrets = world.secrets();
    secrets
        .delete("one", &DeleteParams::default())
        .await
        .unwrap();
    let secret = secret_of_type(KEY_TYPE, "one", &entries);
    apply(&world.client, namespace, &secret).await;
    world.wait_ready("one", SOON).await;
    assert_eq!(orders(&world).await, 1);
    let held = secrets.get("one").await.unwrap();
    assert_eq!(held.finalizers().len(), 1, "it is in use");
    judge(&world).await;
}

/// Waits until no more calls come.
async fn falls_silent(simulator: &Simulator) {
    eventually("no more calls come", SOON, async || {
        let before = simulator.ledger().await.len();
        // The account is polled every second at the latest.
        tokio::time::sleep(std::time::Duration::from_secs(4)).await;
        (simulator.ledger().await.len() == before).then_some(())
    })
    .await;
}

#[tokio::test]
async fn edited_base_url_sends_the_key_nowhere() {
    let (world, other) = with_other_account("edited").await;
    let namespace = Some(world.namespace.as_str());
    let declared = |url: &str| {
        let entries = [("apiKey", world.simulator.api_key()), ("baseURL", url)];
        secret_of_type(KEY_TYPE, "account-key", &entries)
    };
    let here = declared(world.simulator.api());
    apply(&world.client, namespace, &here).await;
    world.create(&server("one")).await;
    let one = world.wait_ready("one", SOON).await;

    let tenant = tenant(&world).await;
    let elsewhere = account(
        "default",
        &json!({"baseURL": other.api(), "apiKeySecretRef": {"name": "account-key"}}),
    );
    apply(&tenant, namespace, &elsewhere).await;
    let words = ["spec.baseURL", "Secret", "Make them equal"];
    refused(&world, "default", "InvalidEndpoint", &words).await;
    assert_eq!(other.ledger().await, Vec::<Value>::new());
    // Nor is the key used where it was, as nobody knows what is meant.
    falls_silent(&world.simulator).await;
    let now = world.get("one").await.unwrap();
    assert_eq!(now["status"]["uuid"], one["status"]["uuid"]);

    // Without a URL in the spec that of the Secret counts, and with an equal one too.
    for url in [Value::Null, json!(world.simulator.api())] {
        change_account(&world, "default", &json!({"spec": {"baseURL": url}})).await;
        account_says(&world, "default", "Ready", "True", "Available").await;
        looks(&world, 2).await;
    }
    assert_eq!(other.ledger().await, Vec::<Value>::new());

    // Where the Secret leads elsewhere, what was connected before is not called any more.
    apply(&world.client, namespace, &declared(other.api())).await;
    refused(&world, "default", "InvalidEndpoint", &words).await;
    falls_silent(&world.simulator).await;
    assert_eq!(other.ledger().await, Vec::<Value>::new());
    apply(&world.client, namespace, &here).await;
    world.delete("one").await;
    world.wait_gone("one", SOON).await;
    assert!(world.simulator.list_live_servers().await.is_empty());
    judge(&world).await;
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
    refused(&world, "default", "InvalidEndpoint", &words).await;
}

#[tokio::test]
async fn no_address_that_is_not_public_is_dialled() {
    let plan = WorldOptions {
        listed: false,
        secret: false,
        ..WorldOptions::default()
    };
    let mut world = World::prepare(cluster(), "inside", plan).await;
    // Connections wait in its queue until somebody looks.
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
        let secret = secret_of_type(KEY_TYPE, name, &entries);
        apply(&world.client, namespace.as_deref(), &secret).await;
        apply(
            &world.client,
            namespace.as_deref(),
            &account(name, &json!({})),
        )
        .await;
    }
    world.start_operator();
    let told = hosts.map(|(name, _)| refused(&world, name, "InvalidEndpoint", &["baseURL", FLAG]));
    join_all(told).await;
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
    let secret = secret_of_type(KEY_TYPE, "other", &entries);
    apply(&world.client, namespace, &secret).await;
    apply(&world.client, namespace, &account("other", &json!({}))).await;
    refused(&world, "other", "InvalidEndpoint", &["Secret", FLAG]).await;
    // Another path on a listed host is another URL.
    let url = format!("{}/x", world.simulator.api());
    let beside = json!({"baseURL": url, "apiKeySecretRef": {"name": "account-key"}});
    apply(&world.client, namespace, &account("beside", &beside)).await;
    refused(&world, "beside", "InvalidEndpoint", &["spec.baseURL", FLAG]).await;
    assert_eq!(other.ledger().await, Vec::<Value>::new());
    account_says(&world, "default", "Ready", "True", "Available").await;
}
