//! The deletion of a namespace with account, Secret and servers.

use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::DeleteParams;
use serde_json::json;

use super::{SOON, check_invariants};
use lab::rig::{World, cluster, eventually, server};

const NAMES: [&str; 3] = ["one", "two", "three"];

async fn start_with_servers(prefix: &str) -> World {
    let world = World::start_with_lease_elsewhere(cluster(), prefix).await;
    for name in NAMES {
        world.create(&server(name)).await;
    }
    for name in NAMES {
        world.wait_ready(name, SOON).await;
    }
    world
}

pub(super) async fn delete_namespace(world: &World) {
    let namespaces: Api<Namespace> = Api::all(world.client.clone());
    namespaces
        .delete(&world.namespace, &DeleteParams::default())
        .await
        .expect("the namespace can be deleted");
}

pub(super) async fn wait_until_namespace_gone(world: &World) {
    let namespaces: Api<Namespace> = Api::all(world.client.clone());
    eventually("the namespace is gone", SOON, async || {
        let found = namespaces.get_opt(&world.namespace).await.ok()?;
        found.is_none().then_some(())
    })
    .await;
}

async fn wait_until_released(world: &World) {
    wait_until_namespace_gone(world).await;
    let servers = world.simulator.list_servers().await;
    assert_eq!(servers.len(), NAMES.len());
    for server in servers {
        assert_eq!(server["status"], "released", "{server}");
    }
    check_invariants(world).await;
}

#[tokio::test]
async fn namespace_deletion_releases_all_servers() {
    let world = start_with_servers("whole").await;
    delete_namespace(&world).await;
    wait_until_released(&world).await;
}

#[tokio::test]
async fn namespace_deletion_survives_a_restart() {
    let mut world = start_with_servers("restart").await;
    world
        .simulator
        .settings(&json!({"releaseSeconds": 3600.0}))
        .await;
    delete_namespace(&world).await;
    eventually("a release is under way", SOON, async || {
        let servers = world.simulator.list_servers().await;
        let mut releasing = servers
            .iter()
            .filter(|server| server["status"] == "releasing");
        releasing.next().map(|_| ())
    })
    .await;
    world.operator().kill9();
    // Everything in the namespace is terminating before the next process starts, also the account and its Secret.
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
    wait_until_released(&world).await;
}
