//! The cluster's servers without an object: reported, adopted by an object, never released.

use serde_json::{Value, json};

use super::{
    SOON, build_server, check_invariants, cluster_wide::SharedOperator, get_server,
    wait_account_condition, wait_for_event,
};
use lab::rig::{World, eventually, server};

/// A server with our cluster's tag and without an object is reported, and only reported.
pub(super) async fn check_orphan(host: &SharedOperator) -> World {
    let world = host.start_guest_world("orphan").await;
    world.create(&server("one")).await;
    world.wait_ready("one", SOON).await;
    wait_account_condition(&world, "default", "OrphansFound", "False", "InSync").await;
    let order_tag = format!("{}{}", super::ORDER_TAG, "f".repeat(52));
    let lost = json!({
        "name": "lost", "tags": [format!("fmo-cluster:{}", host.world.cluster_id), order_tag],
    });
    let lost = world.simulator.appear(&lost).await;
    let lost = lost["uuid"].as_str().unwrap();
    let account =
        wait_account_condition(&world, "default", "OrphansFound", "True", "OrphansFound").await;
    let orphans = account["status"]["orphans"].clone();
    let line = &orphans[0];
    assert_eq!(
        (&line["uuid"], &line["hostname"], &line["orderTag"]),
        (&json!(lost), &json!("lost"), &json!(order_tag)),
        "{account:#}"
    );
    assert_eq!(
        (&line["location"], &line["instanceType"]),
        (&json!("EU: Rotterdam"), &json!("bm7.std.8")),
        "{account:#}"
    );
    assert_eq!(account["status"]["servers"]["orphans"], 1, "{account:#}");
    wait_for_event(&world, "OrphansFound").await;
    // Servers of other users are not orphans.
    world
        .simulator
        .appear(&json!({"name": "stranger", "tags": ["web"]}))
        .await;
    world
        .simulator
        .appear(&json!({"name": "elsewhere", "tags": ["fmo-cluster:fedcba9876543210"]}))
        .await;
    eventually("the machines of others are counted", SOON, async || {
        let account =
            wait_account_condition(&world, "default", "OrphansFound", "True", "OrphansFound").await;
        let servers = &account["status"]["servers"];
        (servers["otherClusters"] == 1 && servers["unmanaged"] == 1).then_some(())
    })
    .await;
    let account =
        wait_account_condition(&world, "default", "OrphansFound", "True", "OrphansFound").await;
    // The commands depend on what blocks them. The entry stays the same.
    let shown = &account["status"]["orphans"];
    let is_same = |field: &str| shown[0][field] == orphans[0][field];
    assert!(is_same("uuid") && is_same("since"), "{account:#}");
    assert!(shown[1].is_null(), "{account:#}");
    assert_eq!(get_server(&world, lost).await["status"], "delivered");

    // The entry contains everything that an object for the server needs.
    let hostname = &line["hostname"];
    world
        .create(&json!({
            "apiVersion": "flexmetal.dev/v1alpha1", "kind": "BareMetalServer", "metadata": {"name": hostname},
            "spec": {"externalID": line["uuid"], "hostname": hostname},
        }))
        .await;
    let adopted = world.wait_ready("lost", SOON).await;
    assert_eq!(adopted["status"]["uuid"], *lost);
    let account =
        wait_account_condition(&world, "default", "OrphansFound", "False", "InSync").await;
    assert_eq!(account["status"]["orphans"], Value::Null, "{account:#}");

    // An observing object owns no server. After its release at the provider, the server leaves the list.
    let order_tag = format!("{}{}", super::ORDER_TAG, "a".repeat(52));
    let watched = json!({
        "name": "watched", "tags": [format!("fmo-cluster:{}", host.world.cluster_id), order_tag],
    });
    let watched = world.simulator.appear(&watched).await;
    let watched = watched["uuid"].as_str().unwrap();
    let watcher = json!({"externalID": watched, "managementPolicy": "ObserveOnly"});
    world.create(&build_server("watcher", &watcher)).await;
    world.wait_ready("watcher", SOON).await;
    let account =
        wait_account_condition(&world, "default", "OrphansFound", "True", "OrphansFound").await;
    let shown = &account["status"]["orphans"];
    assert_eq!(shown[0]["uuid"], *watched, "{account:#}");
    world.delete("watcher").await;
    world.wait_gone("watcher", SOON).await;
    assert_eq!(get_server(&world, watched).await["status"], "delivered");
    let released = json!({"status": "released"});
    world.simulator.alter(watched, &released).await;
    let account =
        wait_account_condition(&world, "default", "OrphansFound", "False", "InSync").await;
    assert_eq!(account["status"]["orphans"], Value::Null, "{account:#}");
    let counts = world.simulator.counts().await;
    let releases = counts.get("DELETE /v3/flexMetal/servers/{uuid}");
    assert_eq!(releases, None, "the operator releases none of them");
    check_invariants(&world).await;
    world
}
