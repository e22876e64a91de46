//! The API server is down for longer than a lease lasts, or answers with outdated lists.

use std::time::Duration;

use serde_json::json;

use super::{
    SERVERS, SOON, build_server, check_invariants, count_orders, get_server, start_with_proxy,
    text, wait_for_polls, wait_for_proxy_hits, wait_not_ready,
};
use crate::cluster_faults::rules::ProxyFault as Missing;
use lab::rig::{Fault, WorldOptions, cluster, eventually, quick_timing, server};

const ROTTERDAM: &str = "EU: Rotterdam";
/// A type that is out of stock at first: its server waits, and could be ordered at any moment.
const SCARCE: &str = "bm8.std.32";
/// A word in the log when the lease has expired.
const STANDBY_LOG_WORD: &str = "standby";

#[tokio::test]
async fn order_answer_survives_cluster_outage() {
    let mut timing = quick_timing();
    timing["orderTimeout"] = json!("20s");
    timing["absenceGracePeriod"] = json!("2m");
    let plan = WorldOptions {
        timing,
        ..WorldOptions::default()
    };
    let (mut world, proxy) = start_with_proxy("away", plan).await;
    world.simulator.stock(ROTTERDAM, SCARCE, Some(0)).await;
    world
        .create(&build_server("two", &json!({"instanceType": SCARCE})))
        .await;
    wait_not_ready(&world, "two", "NoStock", &[]).await;

    let slow = json!({"delay": {"ms": 3000, "before": false}});
    let slow = Fault::new(slow).on("POST", SERVERS);
    let slow_rule = world.simulator.fault(slow).await;
    world.create(&server("one")).await;
    world
        .simulator
        .wait_for_fault_hits(slow_rule, 1, SOON)
        .await;
    let standbys = |log: String| log.matches(STANDBY_LOG_WORD).count();
    let before = standbys(world.operator().log());
    proxy.fault(Missing::Refuse(503), |_| true);
    proxy.cut_watches();
    world.simulator.stock(ROTTERDAM, SCARCE, None).await;
    eventually("the lease lapses", SOON, async || {
        (standbys(world.operator().log()) > before).then_some(())
    })
    .await;
    // An operator that does not lead makes no calls: calls in progress end, and no others follow.
    let calls = async || world.simulator.ledger().await.len();
    tokio::time::sleep(Duration::from_secs(2)).await;
    let under_way = calls().await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!((calls().await, count_orders(&world).await), (under_way, 1));
    let one = world.get("one").await.unwrap();
    assert_eq!(
        one["status"]["records"]["order"]["outcome"],
        json!(null),
        "{one:#}"
    );

    // The API server is back, but overloaded at first.
    proxy.clear_faults();
    proxy.fault_times(6, Missing::Refuse(429), |call| *call.method != "GET");
    wait_for_proxy_hits(&proxy, proxy.count_hits() + 6).await;
    let ordered = |object: &serde_json::Value| {
        let outcome = &object["status"]["records"]["order"]["outcome"];
        (outcome == "Created").then(|| text(&object["status"]["uuid"]))
    };
    let uuid = world.wait_for("one", "recorded", SOON, ordered).await;
    get_server(&world, &uuid).await;
    // Recorded from the answer to the order, which the operator kept, not from a search.
    let log = world.operator().log();
    assert!(!log.contains("FoundByTag"), "{log}");
    world.wait_ready("one", SOON).await;
    world.wait_ready("two", SOON).await;
    assert_eq!(count_orders(&world).await, 2);
    check_invariants(&world).await;
}

/// A process starts with an outdated list: it contains a deleted object, and an object without a record
/// that has a server by now. The operator changes nothing.
#[tokio::test]
async fn process_on_stale_list_sends_nothing() {
    let (mut world, proxy) = start_with_proxy("past", WorldOptions::default()).await;
    world.simulator.stock(ROTTERDAM, SCARCE, Some(0)).await;
    world
        .create(&build_server("later", &json!({"instanceType": SCARCE})))
        .await;
    world
        .create(&build_server(
            "gone",
            &json!({"externalReleasePolicy": "Reorder"}),
        ))
        .await;
    world
        .create(&build_server(
            "again",
            &json!({"externalReleasePolicy": "Reorder"}),
        ))
        .await;
    wait_not_ready(&world, "later", "NoStock", &[]).await;
    world.wait_ready("gone", SOON).await;
    let previous = world.wait_ready("again", SOON).await;
    let path = format!(
        "/apis/flexmetal.dev/v1alpha1/namespaces/{}/baremetalservers",
        world.namespace
    );
    let past = cluster().kubectl_ok(&["get", "--raw", &path]).await;

    world.simulator.stock(ROTTERDAM, SCARCE, None).await;
    let later = world.wait_ready("later", SOON).await;
    for name in ["gone", "again"] {
        world.delete(name).await;
        world.wait_gone(name, SOON).await;
    }
    world.create(&server("again")).await;
    let again = world.wait_ready("again", SOON).await;
    assert_ne!(again["status"]["uuid"], previous["status"]["uuid"]);
    assert_eq!(count_orders(&world).await, 4);

    world.operator().kill9();
    let hit = proxy.count_hits();
    proxy.fault(Missing::Answer(past), |call| call.lists());
    proxy.fault(Missing::Hold, |call| call.watches());
    world.simulator.clear_ledger().await;
    world.operator().restart();
    // The list, and the watch that would bring newer versions.
    wait_for_proxy_hits(&proxy, hit + 2).await;
    wait_for_polls(&world, 8).await;
    let ledger = world.simulator.ledger().await;
    let changes: Vec<_> = ledger
        .iter()
        .filter(|call| call["method"] != "GET")
        .collect();
    assert!(changes.is_empty(), "{changes:#?}");
    for (name, object) in [("later", &later), ("again", &again)] {
        let now = world.get(name).await.unwrap();
        assert_eq!(now["status"]["uuid"], object["status"]["uuid"], "{name}");
    }

    proxy.clear_faults();
    proxy.make_relist();
    world.create(&server("new")).await;
    world.wait_ready("new", SOON).await;
    world.delete("again").await;
    world.wait_gone("again", SOON).await;
    assert_eq!(count_orders(&world).await, 1);
    assert_eq!(world.simulator.list_live_servers().await.len(), 2);
    check_invariants(&world).await;
}
