//! Answers to releases that are lost or wrong, and servers that change back and forth between states.
//! The provider's clock is an hour ahead.

use jiff::Timestamp;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::sleep;

use super::{
    SERVERS, SOON, build_server, check_invariants, count_orders, get_server_of, wait_for_polls,
    wait_not_ready, wait_not_ready_message, wait_server_status, wait_stalled,
};
use lab::rig::{
    Fault, Kstatus, QUICK_GRACE_PERIOD, World, WorldOptions, cluster, eventually, health, server,
};

const LONG: f64 = 3600.0;
/// Seconds by which the provider's clock is ahead.
const AHEAD: i64 = 3600;

fn uuid(object: &Value) -> &str {
    object["status"]["uuid"].as_str().expect("it has a server")
}

async fn start_with_servers(prefix: &str, names: &[&str]) -> (World, Vec<Value>) {
    let now = Timestamp::now().as_second();
    let plan = WorldOptions {
        simulator: vec![format!("--clock-start={}", now + AHEAD)],
        ..WorldOptions::default()
    };
    let mut world = World::prepare(cluster(), prefix, plan).await;
    world.start_operator();
    for name in names {
        let replace = json!({"failurePolicy": "Replace", "externalReleasePolicy": "Reorder"});
        world.create(&build_server(name, &replace)).await;
    }
    let mut objects = Vec::new();
    for name in names {
        objects.push(world.wait_ready(name, SOON).await);
    }
    (world, objects)
}

#[tokio::test]
async fn object_stays_until_its_release_succeeds() {
    let names = [
        "refused",
        "broken",
        "unheard",
        "unanswered",
        "in-vain",
        "slow",
    ];
    let (world, objects) = start_with_servers("releases", &names).await;
    let faults = [
        json!({"refuse": {"status": 404, "message": "no such server"}}),
        json!({"status": {"code": 500}}),
        json!("dropBefore"),
        json!("dropAfter"),
        // The answer reports success, but the provider does nothing.
        json!({"status": {"code": 200}}),
    ];
    for (object, fault) in objects.iter().zip(faults) {
        let path = format!("{SERVERS}/{}", uuid(object));
        world
            .simulator
            .fault(Fault::new(fault).on("DELETE", &path).times(1))
            .await;
    }
    // No release ends until the test advances the clock.
    world
        .simulator
        .settings(&json!({"releaseSeconds": LONG}))
        .await;
    for name in names {
        world.delete(name).await;
    }
    eventually("each fault has hit", SOON, async || {
        let rules = world.simulator.faults().await;
        rules.iter().all(|rule| rule["applied"] == 1).then_some(())
    })
    .await;
    for name in names {
        let object = world.get(name).await.expect("it stays");
        assert!(
            object["metadata"]["finalizers"][0].is_string(),
            "{object:#}"
        );
    }
    for object in &objects {
        wait_server_status(&world, uuid(object), "releasing").await;
    }
    // The objects wait as long as the release takes.
    wait_for_polls(&world, 3).await;
    for name in names {
        wait_not_ready(&world, name, "Releasing", &[]).await;
    }
    world.simulator.advance(LONG).await;
    for name in names {
        world.wait_gone(name, SOON).await;
    }
    for object in &objects {
        assert_eq!(get_server_of(&world, object).await["status"], "released");
    }
    assert_eq!(count_orders(&world).await, names.len() as u64);
    check_invariants(&world).await;
}

/// The operator never gives up a server that was once delivered, whatever status the provider reports later.
#[tokio::test]
async fn flapping_server_is_never_replaced() {
    let (world, objects) = start_with_servers("flapping", &["one"]).await;
    let one = &objects[0];
    for _ in 0..3 {
        world
            .simulator
            .alter(uuid(one), &json!({"status": "failed"}))
            .await;
        wait_stalled(&world, "one", "ProvisioningFailed", &[uuid(one)]).await;
        world
            .simulator
            .alter(uuid(one), &json!({"status": "delivered"}))
            .await;
        world.wait_ready("one", SOON).await;
        world
            .simulator
            .alter(uuid(one), &json!({"status": "provisioning"}))
            .await;
        wait_not_ready(&world, "one", "Provisioning", &[uuid(one)]).await;
        assert_eq!(
            health(&world.get("one").await.unwrap()),
            Kstatus::InProgress
        );
        world
            .simulator
            .alter(
                uuid(one),
                &json!({"status": "delivered", "ipAddresses": []}),
            )
            .await;
        wait_not_ready_message(
            &world,
            "one",
            "Provisioning",
            &[uuid(one), "without an address"],
        )
        .await;
        let back = json!({"ipAddresses": ["192.0.2.7"]});
        world.simulator.alter(uuid(one), &back).await;
        world.wait_ready("one", SOON).await;
    }
    let failed = json!({"status": "failed"});
    world.simulator.alter(uuid(one), &failed).await;
    // After the absence grace period the operator could order another server.
    sleep(QUICK_GRACE_PERIOD + Duration::from_secs(1)).await;
    wait_for_polls(&world, 10).await;
    let changes = world.simulator.ledger().await;
    let changes = changes.iter().filter(|call| call["method"] != "GET");
    assert_eq!(changes.count(), 1, "the order");
    assert_eq!(world.simulator.list_servers().await.len(), 1);
    let back = json!({"status": "delivered"});
    world.simulator.alter(uuid(one), &back).await;
    world.wait_ready("one", SOON).await;
    world.create(&server("two")).await;
    world.wait_ready("two", SOON).await;
    check_invariants(&world).await;
}
