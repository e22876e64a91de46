//! Several operators in one cluster: one of them serves each account.

use std::time::Duration;

use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{
    SOON, apply, build_api, build_secret, build_server, check_invariants, check_ready_message,
    wait_for_polls,
};
use lab::rig::{Operator, Start, World, cluster, eventually, quick_timing, server};

/// A ClusterProviderAccount for all namespaces.
fn build_cluster_account(name: &str, base_url: &str) -> Value {
    json!({
        "apiVersion": "flexmetal.dev/v1alpha1", "kind": "ClusterProviderAccount",
        "metadata": {"name": name},
        "spec": {
            "baseURL": base_url, "apiKeySecretRef": {"name": "shared-key"},
            "timing": quick_timing(), "allowedNamespaces": [{"name": "all", "namespaces": ["*"]}],
        },
    })
}

/// A server that refers to a ClusterProviderAccount.
fn build_server_for_account(name: &str, account: &str) -> Value {
    let reference = json!({"kind": "ClusterProviderAccount", "name": account});
    build_server(name, &json!({"accountRef": reference}))
}

#[tokio::test]
async fn scoped_operators_skip_cluster_accounts() {
    let (one, other) = tokio::join!(
        World::start(cluster(), "apart"),
        World::start(cluster(), "apart"),
    );
    // A unique name for this test, because the cluster has other accounts.
    let name = one.namespace.as_str();
    let account = build_cluster_account(name, one.simulator.api());
    for world in [&one, &other] {
        let key = build_secret("shared-key", "apiKey", one.simulator.api_key());
        apply(&world.client, Some(&world.namespace), &key).await;
    }
    let before = apply(&one.client, None, &account).await;
    for world in [&one, &other] {
        world.create(&server("own")).await;
        world
            .create(&build_server_for_account("shared", name))
            .await;
        world.wait_ready("own", SOON).await;
    }
    tokio::join!(wait_for_polls(&one, 5), wait_for_polls(&other, 5));
    let now = build_api(&one.client, None, &account)
        .get(name)
        .await
        .unwrap();
    assert_eq!(
        before["metadata"]["resourceVersion"],
        json!(now.metadata.resource_version),
        "somebody writes it: {now:#?}"
    );
    for world in [&one, &other] {
        let words = [
            name,
            "ProviderAccount of this namespace",
            "--watch-namespace",
        ];
        let object = world
            .wait_for_condition("shared", "Stalled", "True", Some("AccountNotFound"), SOON)
            .await;
        check_ready_message("shared", &object, &words);
        world.delete("shared").await;
        world.wait_gone("shared", SOON).await;
        check_invariants(world).await;
    }
}

/// Starts a second release for the namespace of a world, with its own Lease and intervals.
fn start_second_release(world: &World, name: &str) -> Operator {
    let flags = [
        format!("--leader-election-name={name}"),
        "--leader-election-lease-duration=3s".into(),
        "--leader-election-renew-deadline=2s".into(),
        "--leader-election-retry-period=500ms".into(),
    ];
    let start = Start {
        pod: name.to_owned(),
        flags: flags.into(),
        ..world.start_of_operator().clone()
    };
    Operator::start(start, &world.folder().join(format!("{name}.log")))
}

/// Waits until the operator with this Lease serves the account.
async fn wait_until_served_by(world: &World, lease: &str, within: Duration) -> Value {
    let lease = format!("{}/{lease}", world.namespace);
    eventually(&format!("{lease} serves the account"), within, async || {
        let account = json!(world.accounts().get("default").await.ok()?);
        (account["status"]["operatorLease"] == json!(lease)).then_some(account)
    })
    .await
}

/// Waits for the event about the conflict.
async fn wait_for_conflict_event(world: &World, by: &str) {
    let events: Api<Event> = Api::namespaced(world.client.clone(), &world.namespace);
    eventually("the conflict is told", SOON, async || {
        let events = events.list(&ListParams::default()).await.ok()?;
        events.into_iter().find(|event| {
            let is_of = event.reporting_instance.as_deref() == Some(by);
            let note = event.note.as_deref().unwrap_or_default();
            let words = [
                "status.operatorLease",
                "is held",
                "clears status.operatorLease",
            ];
            let has_words = words.iter().all(|word| note.contains(word));
            is_of && event.reason.as_deref() == Some("OperatorConflict") && has_words
        })
    })
    .await;
}

#[tokio::test]
async fn one_operator_at_a_time_serves_an_account() {
    let mut world = World::start(cluster(), "releases").await;
    world.create(&server("one")).await;
    world.wait_ready("one", SOON).await;
    let first = "flexmetal-operator";
    wait_until_served_by(&world, first, SOON).await;
    let mut second = start_second_release(&world, "second");
    wait_for_conflict_event(&world, "second").await;
    world.create(&server("two")).await;
    world.wait_ready("two", SOON).await;
    assert_eq!(find_delivering_pod(&world, "two").await, "first");
    wait_until_served_by(&world, first, SOON).await;
    // It read the account in the cluster, and did not call the hosting API.
    assert!(
        !second.log().contains("Delivered server"),
        "{}",
        second.log()
    );

    // A graceful end clears the name. The next operator waits for a minute after that.
    assert!(world.operator().terminate().await.success());
    let account = world.accounts().get("default").await.unwrap();
    assert_eq!(json!(account)["status"]["operatorLease"], Value::Null);
    // Two waits of a minute, each up to a tenth longer.
    wait_until_served_by(&world, "second", 2 * Duration::from_secs(66) + SOON).await;
    world.create(&server("three")).await;
    world.wait_ready("three", SOON).await;
    assert_eq!(find_delivering_pod(&world, "three").await, "second");

    // After a kill, the next operator waits until the Lease has been expired for a minute.
    second.kill9();
    let killed = Instant::now();
    world.operator().restart();
    wait_for_conflict_event(&world, "first").await;
    world.create(&server("four")).await;
    wait_until_served_by(&world, first, 2 * Duration::from_secs(63)).await;
    assert!(killed.elapsed().as_secs() >= 60, "{:?}", killed.elapsed());
    world.wait_ready("four", SOON).await;

    // If the named Lease does not exist, no operator serves the account.
    world.operator().kill9();
    let gone = json!({"status": {"operatorLease": format!("{}/gone", world.namespace)}});
    let params = PatchParams::default();
    let (accounts, gone) = (world.accounts(), Patch::Merge(gone));
    let patched = accounts.patch_status("default", &params, &gone).await;
    patched.unwrap();
    world.operator().restart();
    wait_until_served_by(&world, first, SOON).await;
    for name in ["one", "two", "three", "four"] {
        world.delete(name).await;
    }
    for name in ["one", "two", "three", "four"] {
        world.wait_gone(name, SOON).await;
    }
    check_invariants(&world).await;
}

/// The pod whose process published the event about the delivery.
async fn find_delivering_pod(world: &World, name: &str) -> String {
    let events: Api<Event> = Api::namespaced(world.client.clone(), &world.namespace);
    let delivery = eventually("the delivery is reported", SOON, async || {
        let events = events.list(&ListParams::default()).await.ok()?;
        events.into_iter().find(|event| {
            let regards = event.regarding.as_ref().and_then(|r| r.name.as_deref());
            regards == Some(name) && event.reason.as_deref() == Some("Delivered")
        })
    })
    .await;
    delivery.reporting_instance.unwrap_or_default()
}
