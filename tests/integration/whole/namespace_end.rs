//! A namespace that is deleted whole, with account, Secret and servers in it.

use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::DeleteParams;
use serde_json::json;

use super::{SOON, judge};
use lab::rig::{World, WorldOptions, cluster, eventually, server};

const NAMES: [&str; 3] = ["one", "two", "three"];

async fn populated(prefix: &str) -> World {
    // The operator is not of this namespace, and neither is its Lease.
    let plan = WorldOptions {
        operator: vec![
            "--leader-election-namespace=default".into(),
            format!("--leader-election-name={prefix}"),
        ],
        ..WorldOptions::default()
    };
    let mut world = World::prepare(cluster(), prefix, plan).await;
    world.start_operator();
    for name in NAMES {
        world.create(&server(name)).await;
    }
    for name in NAMES {
        world.wait_ready(name, SOON).await;
    }
    world
}

async fn delete_namespace(world: &World) {
    let namespaces: Api<Namespace> = Api::all(world.client.clone());
    namespaces
        .delete(&world.namespace, &DeleteParams::default())
        .await
        .expect("the namespace can be deleted");
}

async fn ends_released(world: &World) {
    let namespaces: Api<Namespace> = Api::all(world.client.clone());
    eventually("the namespace is gone", SOON, async || {
        let found = namespaces.get_opt(&world.namespace).await.ok()?;
        found.is_none().then_some(())
    })
    .await;
    let machines = world.simulator.list_servers().await;
    assert_eq!(machines.len(), NAMES.len());
    for machine in machines {
        assert_eq!(machine["status"], "released", "{machine}");
    }
    judge(world).await;
}

#[tokio::test]
async fn namespace_deletion_releases_all_servers() {
    let world = populated("whole").await;
    delete_namespace(&world).await;
    ends_released(&world).await;
}

#[tokio::test]
async fn namespace_deletion_survives_a_restart() {
    let mut world = populated("restart").await;
    world
        .simulator
        .settings(&json!({"releaseSeconds": 3600.0}))
        .await;
    delete_namespace(&world).await;
    eventually("a release is under way", SOON, async || {
        let machines = world.simulator.list_servers().await;
        let mut releasing = machines
            .iter()
            .filter(|machine| machine["status"] == "releasing");
        releasing.next().map(|_| ())
    })
    .await;
    world.operator().kill9();
    // Everything in the namespace is terminating before the next one starts, the account and its Secret too.
    let accounts = world.accounts();
    eventually("the account is terminating", SOON, async || {
        let account = accounts.get("default").await.ok()?;
        account.metadata.deletion_timestamp.map(|_| ())
    })
    .await;
    world
        .simulator
        .settings(&json!({"releaseSeconds": 0.5}))
        .await;
    world.simulator.advance(3600.0).await;
    world.operator().restart();
    ends_released(&world).await;
}
