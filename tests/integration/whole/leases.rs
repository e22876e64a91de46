//! Several operators in one cluster: each account is served by one of them.

use std::time::Duration;

use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{SOON, api_of, apply, judge, looks, said, secret, with};
use lab::rig::{Operator, Start, World, cluster, eventually, quick_timing, server};

/// An account of the cluster, for everybody.
fn shared(name: &str, base_url: &str) -> Value {
    json!({
        "apiVersion": "flexmetal.dev/v1alpha1", "kind": "ClusterProviderAccount",
        "metadata": {"name": name},
        "spec": {
            "baseURL": base_url, "apiKeySecretRef": {"name": "shared-key"},
            "timing": quick_timing(), "allowedNamespaces": [{"name": "all", "namespaces": ["*"]}],
        },
    })
}

/// A server that names an account of the cluster.
fn by_shared(name: &str, account: &str) -> Value {
    let reference = json!({"kind": "ClusterProviderAccount", "name": account});
    with(name, &json!({"accountRef": reference}))
}

#[tokio::test]
async fn scoped_operators_skip_cluster_accounts() {
    let (one, other) = tokio::join!(
        World::start(cluster(), "apart"),
        World::start(cluster(), "apart"),
    );
    // One name for the test alone: the cluster has others.
    let name = one.namespace.as_str();
    let account = shared(name, one.simulator.api());
    for world in [&one, &other] {
        let key = secret("shared-key", "apiKey", one.simulator.api_key());
        apply(&world.client, Some(&world.namespace), &key).await;
    }
    let before = apply(&one.client, None, &account).await;
    for world in [&one, &other] {
        world.create(&server("own")).await;
        world.create(&by_shared("shared", name)).await;
        world.wait_ready("own", SOON).await;
    }
    tokio::join!(looks(&one, 5), looks(&other, 5));
    let now = api_of(&one.client, None, &account).get(name).await.unwrap();
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
        said("shared", &object, &words);
        world.delete("shared").await;
        world.wait_gone("shared", SOON).await;
        judge(world).await;
    }
}

/// A second release for the namespace of a world: another Lease, and times of its own.
fn second_release(world: &World, name: &str) -> Operator {
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

/// Waits until the account is served by the operator with this Lease.
async fn served_by(world: &World, lease: &str, within: Duration) -> Value {
    let lease = format!("{}/{lease}", world.namespace);
    eventually(&format!("{lease} serves the account"), within, async || {
        let account = json!(world.accounts().get("default").await.ok()?);
        (account["status"]["operatorLease"] == json!(lease)).then_some(account)
    })
    .await
}

/// Waits until the conflict was told on the account.
async fn conflict_told(world: &World, by: &str) {
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
            let is_told = words.iter().all(|word| note.contains(word));
            is_of && event.reason.as_deref() == Some("OperatorConflict") && is_told
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
    served_by(&world, first, SOON).await;
    let mut second = second_release(&world, "second");
    conflict_told(&world, "second").await;
    world.create(&server("two")).await;
    world.wait_ready("two", SOON).await;
    assert_eq!(delivered_by(&world, "two").await, "first");
    served_by(&world, first, SOON).await;
    // Of the account it read what it had to, and called nobody.
    assert!(
        !second.log().contains("Delivered server"),
        "{}",
        second.log()
    );

    // A graceful end takes the name off, which has to stay off for a minute.
    assert!(world.operator().terminate().await.success());
    let account = world.accounts().get("default").await.unwrap();
    assert_eq!(json!(account)["status"]["operatorLease"], Value::Null);
    // Two waits of a minute, each up to a tenth longer.
    served_by(&world, "second", 2 * Duration::from_secs(66) + SOON).await;
    world.create(&server("three")).await;
    world.wait_ready("three", SOON).await;
    assert_eq!(delivered_by(&world, "three").await, "second");

    // One that is killed is waited for until its Lease has been expired for a minute.
    second.kill9();
    let killed = Instant::now();
    world.operator().restart();
    conflict_told(&world, "first").await;
    world.create(&server("four")).await;
    served_by(&world, first, 2 * Duration::from_secs(63)).await;
    assert!(killed.elapsed().as_secs() >= 60, "{:?}", killed.elapsed());
    world.wait_ready("four", SOON).await;

    // A name whose Lease is not there is nobody's.
    world.operator().kill9();
    let gone = json!({"status": {"operatorLease": format!("{}/gone", world.namespace)}});
    let params = PatchParams::default();
    let (accounts, gone) = (world.accounts(), Patch::Merge(gone));
    let patched = accounts.patch_status("default", &params, &gone).await;
    patched.unwrap();
    world.operator().restart();
    served_by(&world, first, SOON).await;
    for name in ["one", "two", "three", "four"] {
        world.delete(name).await;
    }
    for name in ["one", "two", "three", "four"] {
        world.wait_gone(name, SOON).await;
    }
    judge(&world).await;
}

/// The pod of the process that told of the delivery of a server.
async fn delivered_by(world: &World, name: &str) -> String {
    let events: Api<Event> = Api::namespaced(world.client.clone(), &world.namespace);
    let told = eventually("the delivery is told", SOON, async || {
        let events = events.list(&ListParams::default()).await.ok()?;
        events.into_iter().find(|event| {
            let regards = event.regarding.as_ref().and_then(|r| r.name.as_deref());
            regards == Some(name) && event.reason.as_deref() == Some("Delivered")
        })
    })
    .await;
    told.reporting_instance.unwrap_or_default()
}
