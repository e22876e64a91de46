//! The API server is away for longer than a lease lasts, or shows a world that has passed.

use std::time::Duration;

use serde_json::json;

use super::{SERVERS, SOON, held, hits, judge, looks, machine, orders, text, with, with_proxy};
use crate::floor::rules::Fault as Missing;
use lab::rig::{Fault, WorldOptions, cluster, eventually, quick_timing, server};

const ROTTERDAM: &str = "EU: Rotterdam";
/// A type without stock at first: its server waits, and would be ordered at any moment.
const SCARCE: &str = "bm8.std.32";
/// What the log says when the lease has lapsed.
const STANDS_BY: &str = "standby";

#[tokio::test]
async fn order_answer_survives_cluster_outage() {
    let mut timing = quick_timing();
    timing["orderTimeout"] = json!("20s");
    timing["absenceGracePeriod"] = json!("2m");
    let plan = WorldOptions {
        timing,
        ..WorldOptions::default()
    };
    let (mut world, proxy) = with_proxy("away", plan).await;
    world.simulator.stock(ROTTERDAM, SCARCE, Some(0)).await;
    world
        .create(&with("two", &json!({"instanceType": SCARCE})))
        .await;
    held(&world, "two", "NoStock", &[]).await;

    let slow = json!({"delay": {"ms": 3000, "before": false}});
    world
        .simulator
        .fault(Fault::new(slow).on("POST", SERVERS))
        .await;
    world.create(&server("one")).await;
    eventually("the order is on its way", SOON, async || {
        (world.simulator.faults().await[0]["applied"] == 1).then_some(())
    })
    .await;
    let lapsed = |log: String| log.matches(STANDS_BY).count();
    let before = lapsed(world.operator().log());
    proxy.fault(Missing::Refuse(503), |_| true);
    proxy.cut_watches();
    world.simulator.stock(ROTTERDAM, SCARCE, None).await;
    eventually("the lease lapses", SOON, async || {
        (lapsed(world.operator().log()) > before).then_some(())
    })
    .await;
    // Whoever does not lead calls nobody: what was under way ends, and nothing follows.
    let calls = async || world.simulator.ledger().await.len();
    tokio::time::sleep(Duration::from_secs(2)).await;
    let under_way = calls().await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!((calls().await, orders(&world).await), (under_way, 1));
    let one = world.get("one").await.unwrap();
    assert_eq!(
        one["status"]["records"]["order"]["outcome"],
        json!(null),
        "{one:#}"
    );

    // It comes back, and has too much to do at first.
    proxy.clear_faults();
    proxy.fault_times(6, Missing::Refuse(429), |call| *call.method != "GET");
    hits(&proxy, proxy.hits() + 6).await;
    let ordered = |object: &serde_json::Value| {
        let outcome = &object["status"]["records"]["order"]["outcome"];
        (outcome == "Created").then(|| text(&object["status"]["uuid"]))
    };
    let uuid = world.wait_for("one", "recorded", SOON, ordered).await;
    machine(&world, &uuid).await;
    // By its answer, which was kept, and not by a search.
    let log = world.operator().log();
    assert!(!log.contains("FoundByTag"), "{log}");
    world.wait_ready("one", SOON).await;
    world.wait_ready("two", SOON).await;
    assert_eq!(orders(&world).await, 2);
    judge(&world).await;
}

/// A process starts on a listing from before: an object that is gone is in it, and one without a trace that has a
/// machine by now. Nothing is sent on that.
#[tokio::test]
async fn process_on_stale_list_sends_nothing() {
    let (mut world, proxy) = with_proxy("past", WorldOptions::default()).await;
    world.simulator.stock(ROTTERDAM, SCARCE, Some(0)).await;
    world
        .create(&with("later", &json!({"instanceType": SCARCE})))
        .await;
    world
        .create(&with("gone", &json!({"externalReleasePolicy": "Reorder"})))
        .await;
    world
        .create(&with("again", &json!({"externalReleasePolicy": "Reorder"})))
        .await;
    held(&world, "later", "NoStock", &[]).await;
    world.wait_ready("gone", SOON).await;
    let former = world.wait_ready("again", SOON).await;
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
    assert_ne!(again["status"]["uuid"], former["status"]["uuid"]);
    assert_eq!(orders(&world).await, 4);

    world.operator().kill9();
    let hit = proxy.hits();
    proxy.fault(Missing::Say(past), |call| call.lists());
    proxy.fault(Missing::Hold, |call| call.watches());
    world.simulator.clear_ledger().await;
    world.operator().restart();
    // The listing, and the watch that would lead out of the past.
    hits(&proxy, hit + 2).await;
    looks(&world, 8).await;
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
    assert_eq!(orders(&world).await, 1);
    assert_eq!(world.simulator.list_live_servers().await.len(), 2);
    judge(&world).await;
}
