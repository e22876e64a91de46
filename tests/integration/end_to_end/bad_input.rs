//! Invalid input: a clear reason on that object only, which names the field and the remedy,
//! while other objects continue.

use futures::future::join_all;
use serde_json::{Value, json};

use super::{
    SOON, apply, build_secret, build_server, change_account, check_invariants, count_orders,
    ssh_keys::public_key, text, wait_account_condition, wait_stalled,
};
use lab::rig::{World, cluster, condition, quick_timing, server};

/// A name, a spec, and the reason and words of the expected condition.
type BadInputCase<'a> = (&'a str, Value, &'a str, &'a [&'a str]);

#[tokio::test]
async fn unorderable_spec_names_the_invalid_field() {
    let world = World::start(cluster(), "spec").await;
    let reference = |source: &str, name: &str, key: &str| {
        let reference = json!({(source): {"name": name, "key": key}});
        json!({"sshKeys": [server("any")["spec"]["sshKeys"][0], reference]})
    };
    let namespace = Some(world.namespace.as_str());
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "keys"},
        "data": {
            "two-lines": format!("{0} one\n{0} two\n", public_key('A')),
            "empty": " ",
            "cut": &public_key('A')[..60],
        },
        // The API server stores a UTF-16 file this way.
        "binaryData": {"utf-16": "//5zAHMAaAA="},
    });
    apply(&world.client, namespace, &map).await;
    apply(
        &world.client,
        namespace,
        &build_secret("keys", "present", &format!("{} here", public_key('A'))),
    )
    .await;

    let inline = |text: &str| json!({"sshKeys": [{"publicKey": text}]});
    let dsa = public_key('A').replace("ssh-ed25519", "ssh-dss");
    let cases: [BadInputCase; 15] = [
        (
            "location",
            json!({"location": "EU: Atlantis"}),
            "InvalidSpec",
            &[
                "spec.location",
                "EU: Atlantis",
                "EU: Rotterdam",
                "Correct spec.location",
            ],
        ),
        (
            "type",
            json!({"instanceType": "bm7.std.9"}),
            "InvalidSpec",
            &["spec.instanceType", "bm7.std.9", "bm7.std.8"],
        ),
        (
            "offer",
            json!({"instanceType": "bm9.hmm.gpu.4rtx4000.64", "location": "EU: Montreuil 1"}),
            "InvalidSpec",
            &["spec.instanceType", "EU: Montreuil 1", "EU: Rotterdam"],
        ),
        (
            "system",
            json!({"os": {"slug": "templeos"}}),
            "InvalidSpec",
            &["spec.os.slug", "templeos", "debian-12"],
        ),
        (
            "hosts-system",
            json!({"os": {"slug": "freebsd-14"}}),
            "InvalidSpec",
            &["spec.os.slug", "freebsd-14"],
        ),
        (
            "no-secret",
            reference("secretKeyRef", "nowhere", "key"),
            "ReferenceNotFound",
            &["spec.sshKeys[1]", "Secret nowhere", "Create it"],
        ),
        (
            "no-secret-key",
            reference("secretKeyRef", "keys", "absent"),
            "ReferenceNotFound",
            &["spec.sshKeys[1]", "Secret keys", "\"absent\"", "Add it"],
        ),
        (
            "no-map",
            reference("configMapKeyRef", "nowhere", "key"),
            "ReferenceNotFound",
            &["spec.sshKeys[1]", "ConfigMap nowhere", "Create it"],
        ),
        (
            "no-map-key",
            reference("configMapKeyRef", "keys", "absent"),
            "ReferenceNotFound",
            &["spec.sshKeys[1]", "ConfigMap keys", "\"absent\"", "Add it"],
        ),
        (
            "utf-16",
            reference("configMapKeyRef", "keys", "utf-16"),
            "InvalidSpec",
            &["spec.sshKeys[1].configMapKeyRef: ", "not UTF-8 text"],
        ),
        (
            "two-lines",
            reference("configMapKeyRef", "keys", "two-lines"),
            "InvalidSpec",
            &["spec.sshKeys[1].configMapKeyRef: ", "one public key"],
        ),
        (
            "empty",
            reference("configMapKeyRef", "keys", "empty"),
            "InvalidSpec",
            &["spec.sshKeys[1].configMapKeyRef: ", "is empty"],
        ),
        (
            "cut",
            reference("configMapKeyRef", "keys", "cut"),
            "InvalidSpec",
            &["spec.sshKeys[1].configMapKeyRef: ", "cut short"],
        ),
        (
            "cut-inline",
            inline(&public_key('A')[..60]),
            "InvalidSpec",
            &["spec.sshKeys[0].publicKey: ", "cut short"],
        ),
        (
            "dsa-inline",
            inline(&dsa),
            "InvalidSpec",
            &["spec.sshKeys[0].publicKey: ", "DSA"],
        ),
    ];
    for (name, spec, ..) in &cases {
        world.create(&build_server(name, spec)).await;
    }
    world
        .create(&build_server(
            "good",
            &reference("secretKeyRef", "keys", "present"),
        ))
        .await;
    let reported = join_all(
        cases
            .iter()
            .map(|(name, _, reason, words)| wait_stalled(&world, name, reason, words)),
    );
    let (_, good) = tokio::join!(reported, world.wait_ready("good", SOON));
    assert_eq!(count_orders(&world).await, 1, "{good}");

    // The operator continues by itself if the user can repair it without a new object.
    world
        .merge("system", &json!({"spec": {"os": {"slug": "debian-12"}}}))
        .await;
    apply(
        &world.client,
        namespace,
        &build_secret("nowhere", "key", &format!("{} late", public_key('A'))),
    )
    .await;
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "keys"},
        "data": {
            "two-lines": format!("{} one\n", public_key('A')),
            "absent": format!("{} one", public_key('A')),
        },
    });
    apply(&world.client, namespace, &map).await;
    for name in ["system", "no-secret", "no-map-key", "two-lines"] {
        world.wait_ready(name, SOON).await;
    }
    // The other objects never caused a changing call, and are deleted at once.
    for name in ["location", "empty"] {
        world.delete(name).await;
        world.wait_gone(name, SOON).await;
    }
    assert_eq!(count_orders(&world).await, 5);
    check_invariants(&world).await;
}

#[tokio::test]
async fn unusable_account_names_the_invalid_field() {
    let world = World::start(cluster(), "account").await;
    let port = world.simulator.api().rsplit(':').next().unwrap().to_owned();
    let namespace = Some(world.namespace.as_str());
    apply(
        &world.client,
        namespace,
        &build_secret("broken", "apiKey", "two\nlines"),
    )
    .await;
    apply(
        &world.client,
        namespace,
        &build_secret("blank", "apiKey", "two words"),
    )
    .await;
    let url = |url: String| json!({"baseURL": url});
    let cases: [BadInputCase; 8] = [
        (
            "user",
            url(format!("http://somebody:pass@127.0.0.1:{port}")),
            "InvalidEndpoint",
            &["baseURL", "user information", "Secret"],
        ),
        (
            "scheme",
            url("ftp://api.example.com".into()),
            "InvalidEndpoint",
            &["baseURL", "scheme", "https://"],
        ),
        (
            "unlisted",
            url("http://api.example.com".into()),
            "InvalidEndpoint",
            &["spec.baseURL", "--allowed-base-url"],
        ),
        (
            "version",
            url(format!("{}/v3", world.simulator.api())),
            "InvalidEndpoint",
            &["baseURL", "/v3"],
        ),
        (
            "query",
            url(format!("{}?a=b", world.simulator.api())),
            "InvalidEndpoint",
            &["baseURL", "query"],
        ),
        (
            "bundle",
            json!({"caBundle": "-----BEGIN CERTIFICATE-----\nbm90aGluZw==\n-----END CERTIFICATE-----\n"}),
            "InvalidEndpoint",
            &["caBundle"],
        ),
        (
            "broken",
            json!({"apiKeySecretRef": {"name": "broken"}}),
            "InvalidKey",
            &["Secret", "broken", "\"apiKey\"", "line break"],
        ),
        (
            "blank",
            json!({"apiKeySecretRef": {"name": "blank"}}),
            "InvalidKey",
            &["Secret", "blank", "\"apiKey\"", "blank"],
        ),
    ];
    for (name, spec, ..) in &cases {
        let mut account = json!({
            "apiVersion": "flexmetal.dev/v1alpha1", "kind": "ProviderAccount",
            "metadata": {"name": name},
            "spec": {
                "baseURL": world.simulator.api(),
                "apiKeySecretRef": {"name": "account-key"}, "timing": quick_timing(),
            },
        });
        for (field, value) in spec.as_object().unwrap() {
            account["spec"][field] = value.clone();
        }
        apply(&world.client, namespace, &account).await;
        world
            .create(&build_server(name, &json!({"accountRef": {"name": name}})))
            .await;
    }
    world.create(&server("good")).await;
    let world = &world;
    let reported = join_all(cases.iter().map(|(name, _, reason, words)| async move {
        let account = wait_account_condition(world, name, "Ready", "False", reason).await;
        let message = text(&condition(&account, "Ready").unwrap()["message"]);
        for word in *words {
            assert!(
                message.contains(word),
                "{name}: {word:?} is not in {message:?}"
            );
        }
        assert!(!message.contains("pass@"), "{message}");
        wait_stalled(world, name, reason, words).await;
    }));
    tokio::join!(reported, world.wait_ready("good", SOON));
    assert_eq!(count_orders(world).await, 1);

    let repaired = json!({"spec": {"baseURL": world.simulator.api(), "caBundle": null}});
    change_account(world, "user", &repaired).await;
    change_account(world, "bundle", &repaired).await;
    apply(
        &world.client,
        namespace,
        &build_secret("broken", "apiKey", world.simulator.api_key()),
    )
    .await;
    for name in ["user", "bundle", "broken"] {
        world.wait_ready(name, SOON).await;
    }
    check_invariants(world).await;
}
