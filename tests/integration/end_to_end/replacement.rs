//! A failed server and its replacement, and an object that expires.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::events::v1::Event;
use kube::{Api, api::ListParams};
use serde_json::{Value, json};

use super::{
    SOON, build_server, check_invariants, count_orders, get_server_of, wait_for_polls,
    wait_not_ready, wait_server_status, wait_stalled,
};
use lab::rig::{World, cluster};

/// The time in this many seconds, as manifests write it.
fn time_from_now(seconds: i64) -> String {
    let at = Timestamp::now() + SignedDuration::from_secs(seconds);
    Timestamp::from_second(at.as_second()).unwrap().to_string()
}

fn uuid(object: &Value) -> &str {
    object["status"]["uuid"].as_str().expect("it has a server")
}

async fn list_events(world: &World, reason: &str) -> Vec<String> {
    let events: Api<Event> = Api::namespaced(world.client.clone(), &world.namespace);
    let all = events.list(&ListParams::default()).await.expect("events");
    let all = all
        .into_iter()
        .filter(|e| e.reason.as_deref() == Some(reason));
    all.filter_map(|e| e.note).collect()
}

#[tokio::test]
async fn failed_server_is_replaced_elsewhere() {
    let world = World::start(cluster(), "replace").await;
    world.simulator.settings(&json!({"failureRate": 1.0})).await;
    let spec = json!({
        "failurePolicy": "Replace",
        "alternatives": [{"location": "EU: Montreuil 1"}],
        "provisioning": {"maxAttempts": 2},
    });
    world.create(&build_server("one", &spec)).await;
    wait_not_ready(&world, "one", "ProvisioningFailed", &["in its place"]).await;
    let first = uuid(&world.get("one").await.unwrap()).to_owned();
    world.simulator.settings(&json!({"failureRate": 0.0})).await;
    let object = world.wait_ready("one", SOON).await;
    assert_ne!(uuid(&object), first);
    assert_eq!(object["status"]["location"], "EU: Montreuil 1");
    assert_eq!(
        object["status"]["replacedServers"][0]["uuid"],
        first.as_str()
    );
    assert_eq!(
        object["status"]["replacedServers"][0]["providerStatus"],
        "failed"
    );
    assert_eq!(count_orders(&world).await, 2);
    assert_eq!(list_events(&world, "Replaced").await.len(), 1);
    // The provider refused to DELETE the failed server twice, before the second order.
    let ledger = world.simulator.ledger().await;
    let place = |method: &str, path: &str| {
        let is_it = |call: &Value| call["method"] == method && call["path"] == path;
        ledger.iter().rposition(is_it)
    };
    let delete = place("DELETE", &format!("{}/{first}", super::SERVERS));
    let order = place("POST", super::SERVERS);
    assert!(delete.is_some() && delete < order, "{ledger:#?}");
    let path = format!("{}/{first}", super::SERVERS);
    let is_it = |call: &&Value| call["method"] == "DELETE" && call["path"] == path.as_str();
    assert_eq!(ledger.iter().filter(is_it).count(), 2, "{ledger:#?}");

    // The deletion releases only the current server.
    world.delete("one").await;
    world.wait_gone("one", SOON).await;
    wait_server_status(&world, uuid(&object), "released").await;
    assert!(world.simulator.list_live_servers().await.is_empty());
    check_invariants(&world).await;
}

/// The other behaviour that the provider may have, with only one of the two policies set.
#[tokio::test]
async fn failed_server_is_released_then_replaced() {
    let world = World::start(cluster(), "given-up").await;
    world
        .simulator
        .switches(&json!({"releaseFailed": "accept"}))
        .await;
    world.simulator.settings(&json!({"failureRate": 1.0})).await;
    world
        .create(&build_server("one", &json!({"failurePolicy": "Replace"})))
        .await;
    wait_not_ready(&world, "one", "ProvisioningFailed", &["in its place"]).await;
    let first = world.get("one").await.unwrap();
    world.simulator.settings(&json!({"failureRate": 0.0})).await;
    let object = world.wait_ready("one", SOON).await;
    assert_ne!(uuid(&object), uuid(&first));
    wait_server_status(&world, uuid(&first), "released").await;
    let replaced = &object["status"]["replacedServers"][0];
    assert_eq!(replaced["uuid"], first["status"]["uuid"]);
    assert_eq!(replaced["providerStatus"], "failed");
    assert_eq!(count_orders(&world).await, 2);
    check_invariants(&world).await;
}

#[tokio::test]
async fn replacement_stops_at_max_attempts() {
    let mut world = World::start(cluster(), "row").await;
    world.simulator.settings(&json!({"failureRate": 1.0})).await;
    world
        .create(&build_server("one", &json!({"failurePolicy": "Replace"})))
        .await;
    let row = ["2 servers in a row", "maxAttempts"];
    wait_stalled(&world, "one", "ProvisioningFailed", &row).await;
    assert_eq!(count_orders(&world).await, 2);
    // The count survives a restart.
    world.operator().kill9();
    world.start_operator();
    wait_for_polls(&world, 3).await;
    wait_stalled(&world, "one", "ProvisioningFailed", &row).await;
    assert_eq!(count_orders(&world).await, 2);

    world.simulator.settings(&json!({"failureRate": 0.0})).await;
    let more = json!({"spec": {"provisioning": {"maxAttempts": 3}}});
    world.merge("one", &more).await;
    let object = world.wait_ready("one", SOON).await;
    assert_eq!(count_orders(&world).await, 3);
    assert_eq!(
        object["status"]["replacedServers"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    check_invariants(&world).await;
}

#[tokio::test]
async fn externally_released_server_is_reordered() {
    let world = World::start(cluster(), "reorder").await;
    world
        .create(&build_server(
            "one",
            &json!({"externalReleasePolicy": "Reorder"}),
        ))
        .await;
    let before = world.wait_ready("one", SOON).await;
    let released = json!({"status": "released"});
    world.simulator.alter(uuid(&before), &released).await;
    let why = ["released outside", "in its place"];
    wait_not_ready(&world, "one", "ReleasedExternally", &why).await;
    let after = world
        .wait_for("one", "another machine", SOON, |o| {
            let is_other = o["status"]["uuid"].is_string() && uuid(o) != uuid(&before);
            is_other.then(|| o.clone())
        })
        .await;
    world.wait_ready("one", SOON).await;
    assert_eq!(count_orders(&world).await, 2);
    world.delete("one").await;
    world.wait_gone("one", SOON).await;
    wait_server_status(&world, uuid(&after), "released").await;
    check_invariants(&world).await;
}

#[tokio::test]
async fn expired_object_is_deleted_not_reordered() {
    let mut world = World::start(cluster(), "expire").await;
    let lease = |seconds| build_server("lease", &json!({"expiresAt": time_from_now(seconds)}));
    world.create(&lease(4000)).await;
    let object = world.wait_ready("lease", SOON).await;
    assert_eq!(object["status"]["records"]["expiryWarning"], "Day");
    let soon = json!({"spec": {"expiresAt": time_from_now(3)}});
    world.merge("lease", &soon).await;
    world.wait_gone("lease", SOON).await;
    let server = get_server_of(&world, &object).await;
    assert_eq!(server["status"], "released");
    // Another expiry time causes another event.
    assert_eq!(list_events(&world, "Expiring").await.len(), 2);
    let log = world.operator().log();
    assert_eq!(
        log.matches(" reason=\"Expiring\" action=").count(),
        2,
        "{log}"
    );
    assert_eq!(list_events(&world, "Expired").await.len(), 1);

    // As a Git folder with the old manifest does.
    world.create(&lease(-60)).await;
    wait_stalled(
        &world,
        "lease",
        "Expired",
        &["spec.expiresAt", "nothing is ordered"],
    )
    .await;
    wait_for_polls(&world, 3).await;
    assert_eq!(count_orders(&world).await, 1);
    // A later expiry time orders a server again.
    let later = json!({"spec": {"expiresAt": time_from_now(400_000)}});
    world.merge("lease", &later).await;
    let object = world.wait_ready("lease", SOON).await;
    assert!(
        object["status"]["records"]["expiryWarning"].is_null(),
        "{object:#}"
    );

    // A protected object stays. With Retain, the object is deleted and the server stays.
    let protected = json!({"spec": {"deletionProtection": true, "expiresAt": time_from_now(-5)}});
    world.merge("lease", &protected).await;
    wait_stalled(
        &world,
        "lease",
        "Expired",
        &["spec.deletionProtection", "is billed"],
    )
    .await;
    let kept = json!({"spec": {"deletionProtection": false, "deletionPolicy": "Retain"}});
    world.merge("lease", &kept).await;
    world.wait_gone("lease", SOON).await;
    assert_eq!(get_server_of(&world, &object).await["status"], "delivered");
    check_invariants(&world).await;
}
