//! The account's API key: missing, wrong, invalid, valid or revoked, and never shown.

use std::sync::Arc;

use k8s_openapi::api::{core::v1::ConfigMap, events::v1::Event};
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use rcgen::{CertifiedKey, KeyPair, generate_simple_self_signed};
use serde_json::{Value, json};
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ServerConfig,
        crypto::aws_lc_rs,
        pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
    },
};

use super::{
    SOON, apply, build_secret_of_type, build_server, change_account, check_invariants,
    count_orders, start_with_other_account, wait_account_condition, wait_for_polls, wait_not_ready,
    wait_stalled,
};
use lab::rig::{World, WorldOptions, cluster, condition, eventually, server};

#[tokio::test]
async fn server_continues_once_key_is_repaired() {
    let plan = WorldOptions {
        secret: false,
        ..WorldOptions::default()
    };
    let mut world = World::prepare(cluster(), "key", plan).await;
    world.create(&server("one")).await;
    world.start_operator();
    wait_stalled(
        &world,
        "one",
        "ReferenceNotFound",
        &["account-key", "create it"],
    )
    .await;
    wait_account_condition(
        &world,
        "default",
        "KeyAccepted",
        "False",
        "ReferenceNotFound",
    )
    .await;

    let write = async |entry: &str, text: &str| {
        let object = build_secret_of_type("flexmetal.dev/api-key", "account-key", &[(entry, text)]);
        apply(&world.client, Some(&world.namespace), &object).await;
    };
    write("other", "no-key-here").await;
    // The reason does not change, so only the message shows that the operator read the Secret again.
    eventually("the missing entry is told", SOON, async || {
        let one = world.get("one").await?;
        let message = condition(&one, "Ready")?["message"].to_string();
        let words = ["account-key", "has no key", "apiKey", "add it"];
        words.iter().all(|w| message.contains(w)).then_some(())
    })
    .await;
    write("apiKey", "two\nlines").await;
    wait_stalled(
        &world,
        "one",
        "InvalidKey",
        &["account-key", "\"apiKey\"", "line break"],
    )
    .await;
    // The simulator must know this wrong key, so that its invariants allow calls with it.
    let wrong = "a-key-that-nobody-knows";
    world.simulator.key(wrong, false).await;
    write("apiKey", wrong).await;
    wait_stalled(
        &world,
        "one",
        "KeyRejected",
        &["Put a valid key into its Secret"],
    )
    .await;
    wait_account_condition(&world, "default", "KeyAccepted", "False", "KeyRejected").await;
    assert_eq!(count_orders(&world).await, 0);

    write("apiKey", world.simulator.api_key()).await;
    world.wait_ready("one", SOON).await;
    wait_account_condition(&world, "default", "KeyAccepted", "True", "InSync").await;
    wait_account_condition(&world, "default", "Ready", "True", "Available").await;
    assert_eq!(count_orders(&world).await, 1);
    check_invariants(&world).await;
}

#[tokio::test]
async fn rejected_key_changes_no_ready_object() {
    let world = World::start(cluster(), "revoked").await;
    world.create(&server("one")).await;
    let one = world.wait_ready("one", SOON).await;
    wait_for_polls(&world, 3).await;
    let settled = world.get("one").await.unwrap();

    let key = world.simulator.api_key();
    world.simulator.key(key, false).await;
    wait_account_condition(&world, "default", "KeyAccepted", "False", "KeyRejected").await;
    world.create(&server("two")).await;
    wait_not_ready(
        &world,
        "two",
        "KeyRejected",
        &["Put a valid key into its Secret"],
    )
    .await;
    // Requests a reconcile of the first object: missing answers must not change its status.
    let request =
        json!({"metadata": {"annotations": {"flexmetal.dev/reconcile-requested-at": "now"}}});
    world.merge("one", &request).await;
    // A new object waits in this time too.
    world
        .create(&build_server("three", &json!({"deletionPolicy": "Retain"})))
        .await;
    wait_not_ready(&world, "three", "KeyRejected", &[]).await;
    let now = world.get("one").await.unwrap();
    assert_eq!(now["status"], settled["status"]);
    assert_eq!(now["status"]["uuid"], one["status"]["uuid"]);

    world.simulator.key(key, true).await;
    world.wait_ready("two", SOON).await;
    world.wait_ready("three", SOON).await;
    let now = world.get("one").await.unwrap();
    assert_eq!(condition(&now, "Ready"), condition(&settled, "Ready"));
    assert_eq!(count_orders(&world).await, 3);
    check_invariants(&world).await;
}

/// A user deletes the Secret before the servers and removes its finalizer: the operator stops its calls at once.
/// Every object stays and reports the remedy, also after a restart.
#[tokio::test]
async fn deleted_key_secret_keeps_objects() {
    let mut world = World::start(cluster(), "keyless").await;
    let mut objects = Vec::new();
    for name in ["one", "two"] {
        world.create(&server(name)).await;
    }
    for name in ["one", "two"] {
        objects.push(world.wait_ready(name, SOON).await);
    }
    let secrets = world.secrets();
    secrets
        .delete("account-key", &DeleteParams::default())
        .await
        .unwrap();
    // The account's finalizer keeps the Secret until a user removes it.
    let finalizers = secrets
        .get("account-key")
        .await
        .unwrap()
        .metadata
        .finalizers;
    assert_eq!(finalizers.map(|all| all.len()), Some(1));
    let forced = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    secrets
        .patch("account-key", &PatchParams::default(), &forced)
        .await
        .unwrap();
    wait_account_condition(
        &world,
        "default",
        "KeyAccepted",
        "False",
        "ReferenceNotFound",
    )
    .await;
    let calls = world.simulator.ledger().await.len();
    world.delete("one").await;
    wait_stalled(&world, "one", "ReferenceNotFound", &["account-key"]).await;
    assert_eq!(world.simulator.ledger().await.len(), calls, "no call");

    world.operator().kill9();
    world.operator().restart();
    world.delete("two").await;
    for (name, object) in ["one", "two"].iter().zip(&objects) {
        wait_stalled(&world, name, "ReferenceNotFound", &["account-key"]).await;
        let now = world.get(name).await.unwrap();
        assert!(now["metadata"]["finalizers"][0].is_string(), "{now:#}");
        let provider_server = super::get_server_of(&world, object).await;
        assert_eq!(provider_server["status"], "delivered");
    }
    world.write_key(world.simulator.api_key()).await;
    for (name, object) in ["one", "two"].iter().zip(&objects) {
        world.wait_gone(name, SOON).await;
        let provider_server = super::get_server_of(&world, object).await;
        assert_eq!(provider_server["status"], "released");
    }
    assert_eq!(count_orders(&world).await, 2);
    check_invariants(&world).await;
}

pub(super) fn certificate() -> CertifiedKey<KeyPair> {
    certificate_of("localhost")
}

pub(super) fn certificate_of(host: &str) -> CertifiedKey<KeyPair> {
    generate_simple_self_signed([host.to_owned()]).unwrap()
}

/// Serves HTTPS with this certificate for a plain URL. Returns the new URL and the server task.
pub(super) async fn start_https_front(
    own: &CertifiedKey<KeyPair>,
    plain: &str,
) -> (String, JoinSet<()>) {
    let secret = PrivatePkcs8KeyDer::from(own.signing_key.serialize_der());
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![own.cert.der().clone()], PrivateKeyDer::Pkcs8(secret))
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let behind = plain.trim_start_matches("http://").to_owned();
    let mut serving = JoinSet::new();
    serving.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            let (acceptor, behind) = (acceptor.clone(), behind.clone());
            connections.spawn(async move {
                // Some steps need a handshake that the client aborts.
                if let Ok(mut stream) = acceptor.accept(stream).await
                    && let Ok(mut behind) = TcpStream::connect(behind).await
                {
                    let _ = copy_bidirectional(&mut stream, &mut behind).await;
                }
            });
        }
    });
    (format!("https://localhost:{port}"), serving)
}

/// A private CA signed the hosting API's certificate, and a ConfigMap contains the CA certificate.
/// The operator reads the ConfigMap by name, and reads it again when it changes.
#[tokio::test]
async fn ca_bundle_is_trusted_or_named_missing() {
    let own = certificate();
    let mut world = World::prepare(cluster(), "bundle", WorldOptions::default()).await;
    let (url, _serving) = start_https_front(&own, world.simulator.api()).await;
    world.allow_base_url(&url);
    let of = json!({"kind": "ConfigMap", "name": "internal-ca"});
    let spec = json!({"spec": {"baseURL": url, "caBundleRef": of}});
    change_account(&world, "default", &spec).await;
    world.create(&server("one")).await;
    world.start_operator();
    let namespace = Some(world.namespace.clone());
    let write = async |key: &str, text: &str| {
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "internal-ca"},
            "data": {key: text},
        });
        apply(&world.client, namespace.as_deref(), &map).await;
    };

    // No ConfigMap, no key in it, no certificate, another CA: each has a clear message, and nothing is sent.
    let words = ["ConfigMap", "internal-ca", "\"ca.crt\"", "Create it"];
    wait_stalled(&world, "one", "ReferenceNotFound", &words).await;
    wait_account_condition(&world, "default", "Ready", "False", "ReferenceNotFound").await;
    write("other.crt", &own.cert.pem()).await;
    eventually("the missing key is reported", SOON, async || {
        let one = world.get("one").await?;
        let message = condition(&one, "Ready")?["message"].to_string();
        let words = [
            "internal-ca",
            "has no key",
            "ca.crt",
            "spec.caBundleRef.key",
        ];
        words.iter().all(|w| message.contains(w)).then_some(())
    })
    .await;
    write("ca.crt", "no certificate").await;
    eventually("the missing certificate is reported", SOON, async || {
        let one = world.get("one").await?;
        let message = condition(&one, "Ready")?["message"].to_string();
        let words = [
            "spec.caBundleRef",
            "internal-ca",
            "no readable certificates",
        ];
        words.iter().all(|w| message.contains(w)).then_some(())
    })
    .await;
    write("ca.crt", &certificate().cert.pem()).await;
    wait_account_condition(&world, "default", "Ready", "False", "ProviderUnreachable").await;
    assert_eq!(world.simulator.ledger().await, Vec::<Value>::new());

    write("ca.crt", &own.cert.pem()).await;
    world.wait_ready("one", SOON).await;
    wait_account_condition(&world, "default", "Ready", "True", "Available").await;

    // An invalid bundle does not block releases for a while.
    world.create(&server("early")).await;
    world.wait_ready("early", SOON).await;
    write("ca.crt", "no certificate").await;
    wait_account_condition(&world, "default", "Ready", "False", "ReferenceNotFound").await;
    world.delete("early").await;
    world.wait_gone("early", SOON).await;
    write("ca.crt", &own.cert.pem()).await;
    wait_account_condition(&world, "default", "Ready", "True", "Available").await;
    assert_eq!(count_orders(&world).await, 2);

    // Without the bundle the operator orders nothing, but can release servers, also after a restart.
    let maps: Api<ConfigMap> = Api::namespaced(world.client.clone(), &world.namespace);
    let everything = DeleteParams::default();
    maps.delete("internal-ca", &everything).await.unwrap();
    wait_account_condition(&world, "default", "Ready", "False", "ReferenceNotFound").await;
    world.operator().kill9();
    world.operator().restart();
    world.create(&server("two")).await;
    let words = ["ConfigMap", "internal-ca"];
    wait_stalled(&world, "two", "ReferenceNotFound", &words).await;
    world.delete("one").await;
    world.wait_gone("one", SOON).await;
    assert_eq!(count_orders(&world).await, 2);

    // A Secret works too, with a key of any name.
    let bundle = build_secret_of_type("Opaque", "internal-ca", &[("root.pem", &own.cert.pem())]);
    apply(&world.client, namespace.as_deref(), &bundle).await;
    let of = json!({"kind": "Secret", "name": "internal-ca", "key": "root.pem"});
    let spec = json!({"spec": {"caBundleRef": of}});
    change_account(&world, "default", &spec).await;
    world.wait_ready("two", SOON).await;
    world.delete("two").await;
    world.wait_gone("two", SOON).await;
    assert_eq!(count_orders(&world).await, 3);
    assert!(world.simulator.list_live_servers().await.is_empty());
    check_invariants(&world).await;
}

#[tokio::test]
async fn another_account_behind_the_same_object_changes_nothing() {
    let (world, other) = start_with_other_account("changed").await;
    world.create(&server("one")).await;
    world.wait_ready("one", SOON).await;
    let known =
        |account: &Value| account["status"]["records"]["knownServers"][0]["uuid"].is_string();
    eventually("the account is known by its machine", SOON, async || {
        let account = world.accounts().get("default").await.ok()?;
        known(&serde_json::to_value(account).ok()?).then_some(())
    })
    .await;
    let settled = world.get("one").await.unwrap();

    change_account(
        &world,
        "default",
        &json!({"spec": {"baseURL": other.api()}}),
    )
    .await;
    let account =
        wait_account_condition(&world, "default", "KeyAccepted", "False", "AccountChanged").await;
    let message = condition(&account, "Ready").unwrap()["message"].to_string();
    for remedy in [world.simulator.api(), "set flexmetal.dev/acknowledge to "] {
        assert!(message.contains(remedy), "{remedy} is not in {message}");
    }
    // Meanwhile the operator orders nothing and deletes no object.
    world.create(&server("two")).await;
    wait_stalled(&world, "two", "AccountChanged", &[]).await;
    world.delete("one").await;
    wait_stalled(&world, "one", "AccountChanged", &[]).await;
    let shown = world.get("one").await.unwrap();
    assert_eq!(shown["status"]["uuid"], settled["status"]["uuid"]);
    assert!(other.list_servers().await.is_empty());
    assert_eq!(world.simulator.list_live_servers().await.len(), 1);

    let back = json!({"spec": {"baseURL": world.simulator.api()}});
    change_account(&world, "default", &back).await;
    world.wait_ready("two", SOON).await;
    world.wait_gone("one", SOON).await;
    assert!(other.list_servers().await.is_empty());
    check_invariants(&world).await;
}

#[tokio::test]
async fn api_key_is_never_logged_or_shown() {
    const CANARY: &str = "canary-7d1f0c5be2a94f63";
    const SECOND: &str = "canary-second-90ab17c4d2";
    let plan = WorldOptions {
        simulator: vec![format!("--api-key={CANARY}")],
        log: Some("trace"),
        ..WorldOptions::default()
    };
    let mut world = World::prepare(cluster(), "canary", plan).await;
    world.create(&server("one")).await;
    world.start_operator();
    world.wait_ready("one", SOON).await;
    // Errors have long messages, so use a rejected key and an invalid one.
    let candidate = "CandidateAccepted";
    world.write_key(SECOND).await;
    wait_account_condition(&world, "default", candidate, "False", "KeyRejected").await;
    world.write_key(&format!("{CANARY}\n{SECOND}")).await;
    wait_account_condition(&world, "default", candidate, "False", "InvalidKey").await;
    world.simulator.key(CANARY, false).await;
    wait_account_condition(&world, "default", "KeyAccepted", "False", "KeyRejected").await;
    world.simulator.key(CANARY, true).await;
    world.write_key(CANARY).await;
    wait_account_condition(&world, "default", "KeyAccepted", "True", "InSync").await;
    let object = world.wait_ready("one", SOON).await.to_string();
    world.delete("one").await;
    world.wait_gone("one", SOON).await;
    let ended = world.operator().terminate().await;
    assert!(ended.success(), "{ended}");

    let log = world.operator().log();
    assert!(log.contains("TRACE"), "the log is not at its loudest");
    let events: Api<Event> = Api::namespaced(world.client.clone(), &world.namespace);
    let everything = ListParams::default();
    let events = serde_json::to_string(&events.list(&everything).await.unwrap()).unwrap();
    assert!(events.contains("Released"), "{events}");
    let accounts =
        serde_json::to_string(&world.accounts().list(&everything).await.unwrap()).unwrap();
    let places = [
        ("log", &log),
        ("events", &events),
        ("account", &accounts),
        ("server", &object),
    ];
    for (place, text) in places {
        for secret in [CANARY, SECOND] {
            assert!(!text.contains(secret), "the {place} shows the key");
        }
    }
}
