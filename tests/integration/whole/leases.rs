//! Several operators in one cluster: each acts where it holds the lease, and nowhere else.

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::ListParams;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{SOON, api_of, apply, cluster_wide::Host, judge, looks, secret, stuck, with};
use lab::rig::{Operator, Start, World, cluster, eventually, quick_timing, server};

/// An account of the cluster, for everybody.
fn shared(name: &str, base_url: &str) -> Value {
    json!({
        "apiVersion": "flexmetal.dev/v1alpha1", "kind": "ClusterProviderAccount",
        "metadata": {"name": name},
        "spec": {
            "baseURL": base_url, "apiKeySecretRef": {"name": "shared-key"},
            "timing": quick_timing(), "allowedNamespaces": [{"name": "all", "names": ["*"]}],
        },
    })
}

/// A server that names an account of the cluster.
fn by_shared(name: &str, account: &str) -> Value {
    let reference = json!({"kind": "ClusterProviderAccount", "name": account});
    with(name, &json!({"accountRef": reference}))
}

#[tokio::test]
async fn operators_of_some_namespaces_leave_accounts_of_the_cluster_alone() {
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
        stuck(world, "shared", "AccountNotServed", &words).await;
        world.delete("shared").await;
        world.wait_gone("shared", SOON).await;
        judge(world).await;
    }
}

/// A namespace gets an operator of its own, which that of the whole cluster leaves it to, until its end.
pub(super) async fn left_to_another(host: &Host) -> World {
    let world = host.guest("apart").await;
    world.create(&server("one")).await;
    world.wait_ready("one", SOON).await;
    told_by(&world, "one", "first").await;

    let start = Start {
        cluster_id: host.world.cluster_id.clone(),
        pod: "own".to_owned(),
        ..world.start_of_operator().clone()
    };
    let log = world.folder().join("own.log");
    let mut own = Operator::start(start, &log);
    eventually("the namespace has its own operator", SOON, async || {
        let lease = lease(&world, &host.world.cluster_id).await?.spec?;
        let held = lease.renew_time?.0.duration_since(lease.acquire_time?.0);
        // It acts only when that of the whole cluster must have seen its lease.
        let acts = held.as_secs() >= 9;
        (acts && lease.holder_identity?.contains("/own/")).then_some(())
    })
    .await;
    world.create(&server("two")).await;
    world.wait_ready("two", SOON).await;
    told_by(&world, "two", "own").await;
    // What the operator of the whole cluster served, that of the namespace goes on with.
    world.delete("one").await;
    world.wait_gone("one", SOON).await;

    own.kill9();
    let lost = Instant::now();
    world.create(&server("three")).await;
    world.wait_ready("three", SOON).await;
    told_by(&world, "three", "first").await;
    // Not before the lease had ended for all that can be known of it.
    assert!(lost.elapsed().as_secs() >= 10, "{:?}", lost.elapsed());
    judge(&world).await;
    world
}

/// Waits until the process of this pod has told that a server is delivered.
async fn told_by(world: &World, name: &str, pod: &str) {
    let events: Api<Event> = Api::namespaced(world.client.clone(), &world.namespace);
    let told = eventually("the delivery is told", SOON, async || {
        let events = events.list(&ListParams::default()).await.ok()?;
        events.into_iter().find(|event| {
            let regards = event.regarding.as_ref().and_then(|r| r.name.as_deref());
            regards == Some(name) && event.reason.as_deref() == Some("Delivered")
        })
    })
    .await;
    assert_eq!(told.reporting_instance.as_deref(), Some(pod), "{name}");
}

async fn lease(world: &World, cluster_id: &str) -> Option<Lease> {
    let leases: Api<Lease> = Api::namespaced(world.client.clone(), &world.namespace);
    leases
        .get(&format!("flexmetal-operator-{cluster_id}"))
        .await
        .ok()
}
