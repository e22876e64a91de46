//! A machine that came to nothing, and the order in its place; an object that ends by itself.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::events::v1::Event;
use kube::{Api, api::ListParams};
use serde_json::{Value, json};

use super::{SOON, held, judge, looks, machine_becomes, machine_of, orders, stuck, with};
use lab::rig::{World, cluster};

/// That many seconds from now, as a manifest says it.
fn moment(seconds: i64) -> String {
    let at = Timestamp::now() + SignedDuration::from_secs(seconds);
    Timestamp::from_second(at.as_second()).unwrap().to_string()
}

fn uuid(object: &Value) -> &str {
    object["status"]["uuid"].as_str().expect("it has a machine")
}

async fn events(world: &World, reason: &str) -> Vec<String> {
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
    let wishes = json!({
        "failurePolicy": "Replace",
        "alternatives": [{"location": "EU: Montreuil 1"}],
        "provisioning": {"maxAttempts": 2},
    });
    world.create(&with("one", &wishes)).await;
    held(&world, "one", "ProvisioningFailed", &["in its place"]).await;
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
    assert_eq!(orders(&world).await, 2);
    assert_eq!(events(&world, "Replaced").await.len(), 1);
    // The DELETE of the failed one was refused twice, before the second order.
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

    // It restarts with what it knows, and ends with the machine that it has.
    world.delete("one").await;
    world.wait_gone("one", SOON).await;
    machine_becomes(&world, uuid(&object), "released").await;
    assert!(world.simulator.list_live_servers().await.is_empty());
    judge(&world).await;
}

/// As the provider may do it, and with each policy alone.
#[tokio::test]
async fn failed_server_is_released_then_replaced() {
    let world = World::start(cluster(), "given-up").await;
    world
        .simulator
        .switches(&json!({"releaseFailed": "accept"}))
        .await;
    world.simulator.settings(&json!({"failureRate": 1.0})).await;
    world
        .create(&with("one", &json!({"failurePolicy": "Replace"})))
        .await;
    held(&world, "one", "ProvisioningFailed", &["in its place"]).await;
    let first = world.get("one").await.unwrap();
    world.simulator.settings(&json!({"failureRate": 0.0})).await;
    let object = world.wait_ready("one", SOON).await;
    assert_ne!(uuid(&object), uuid(&first));
    machine_becomes(&world, uuid(&first), "released").await;
    let replaced = &object["status"]["replacedServers"][0];
    assert_eq!(replaced["uuid"], first["status"]["uuid"]);
    assert_eq!(replaced["providerStatus"], "failed");
    assert_eq!(orders(&world).await, 2);
    judge(&world).await;
}

#[tokio::test]
async fn replacement_stops_at_max_attempts() {
    let mut world = World::start(cluster(), "row").await;
    world.simulator.settings(&json!({"failureRate": 1.0})).await;
    world
        .create(&with("one", &json!({"failurePolicy": "Replace"})))
        .await;
    let row = ["2 servers in a row", "maxAttempts"];
    stuck(&world, "one", "ProvisioningFailed", &row).await;
    assert_eq!(orders(&world).await, 2);
    // A restart counts them as before.
    world.operator().kill9();
    world.start_operator();
    looks(&world, 3).await;
    stuck(&world, "one", "ProvisioningFailed", &row).await;
    assert_eq!(orders(&world).await, 2);

    world.simulator.settings(&json!({"failureRate": 0.0})).await;
    let more = json!({"spec": {"provisioning": {"maxAttempts": 3}}});
    world.merge("one", &more).await;
    let object = world.wait_ready("one", SOON).await;
    assert_eq!(orders(&world).await, 3);
    assert_eq!(
        object["status"]["replacedServers"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    judge(&world).await;
}

#[tokio::test]
async fn externally_released_server_is_reordered() {
    let world = World::start(cluster(), "reorder").await;
    world
        .create(&with("one", &json!({"externalReleasePolicy": "Reorder"})))
        .await;
    let before = world.wait_ready("one", SOON).await;
    let released = json!({"status": "released"});
    world.simulator.alter(uuid(&before), &released).await;
    let why = ["released outside", "in its place"];
    held(&world, "one", "ReleasedExternally", &why).await;
    let after = world
        .wait_for("one", "another machine", SOON, |o| {
            let is_other = o["status"]["uuid"].is_string() && uuid(o) != uuid(&before);
            is_other.then(|| o.clone())
        })
        .await;
    world.wait_ready("one", SOON).await;
    assert_eq!(orders(&world).await, 2);
    world.delete("one").await;
    world.wait_gone("one", SOON).await;
    machine_becomes(&world, uuid(&after), "released").await;
    judge(&world).await;
}

#[tokio::test]
async fn expired_object_is_deleted_not_reordered() {
    let mut world = World::start(cluster(), "expire").await;
    let lease = |seconds| with("lease", &json!({"expiresAt": moment(seconds)}));
    world.create(&lease(4000)).await;
    let object = world.wait_ready("lease", SOON).await;
    assert_eq!(object["status"]["records"]["expiryWarning"], "Day");
    let soon = json!({"spec": {"expiresAt": moment(3)}});
    world.merge("lease", &soon).await;
    world.wait_gone("lease", SOON).await;
    let machine = machine_of(&world, &object).await;
    assert_eq!(machine["status"], "released");
    // Another moment is another event.
    assert_eq!(events(&world, "Expiring").await.len(), 2);
    let log = world.operator().log();
    assert_eq!(log.matches("report: Expiring ").count(), 2, "{log}");
    assert_eq!(events(&world, "Expired").await.len(), 1);

    // As a Git folder does it.
    world.create(&lease(-60)).await;
    stuck(
        &world,
        "lease",
        "Expired",
        &["spec.expiresAt", "nothing is ordered"],
    )
    .await;
    looks(&world, 3).await;
    assert_eq!(orders(&world).await, 1);
    // And a later moment orders.
    let later = json!({"spec": {"expiresAt": moment(400_000)}});
    world.merge("lease", &later).await;
    let object = world.wait_ready("lease", SOON).await;
    assert!(
        object["status"]["records"]["expiryWarning"].is_null(),
        "{object:#}"
    );

    // A protected one stays, and so does one that is kept: its machine.
    let protected = json!({"spec": {"deletionProtection": true, "expiresAt": moment(-5)}});
    world.merge("lease", &protected).await;
    stuck(
        &world,
        "lease",
        "Expired",
        &["spec.deletionProtection", "is billed"],
    )
    .await;
    let kept = json!({"spec": {"deletionProtection": false, "deletionPolicy": "Retain"}});
    world.merge("lease", &kept).await;
    world.wait_gone("lease", SOON).await;
    assert_eq!(machine_of(&world, &object).await["status"], "delivered");
    judge(&world).await;
}
