//! Writes that the API server refuses: conflicts, missing rights, and refusals after the order was created.

use serde_json::json;

use super::{
    SOON, check_invariants, count_orders, start_with_proxy, wait_for_polls, wait_for_proxy_hits,
    wait_not_ready, wait_suspended,
};
use crate::cluster_faults::rules::ProxyFault;
use lab::rig::{WorldOptions, server};

const WORDS: &str = "refused by the proxy";

/// The finalizer and the record have the read version as precondition. After a conflict, the live object decides.
#[tokio::test]
async fn concurrent_edit_prevents_outdated_order() {
    let (world, proxy) = start_with_proxy("overtaken", WorldOptions::default()).await;
    let pause = json!({"spec": {"suspend": true}}).to_string();
    let overtake = ProxyFault::Overtake(pause);
    // One object has a conflict at the finalizer, the other at the open record.
    proxy.fault_times(1, overtake.clone(), |call| {
        call.writes("early", "") && call.body.contains("flexmetal.dev/server")
    });
    proxy.fault_times(1, overtake, |call| {
        call.writes("late", "/status") && call.body.contains("\"nonce\"")
    });
    for name in ["early", "late"] {
        world.create(&server(name)).await;
    }
    wait_for_proxy_hits(&proxy, 2).await;
    for name in ["early", "late"] {
        wait_suspended(&world, name, &["spec.suspend"]).await;
    }
    wait_for_polls(&world, 3).await;
    assert_eq!(count_orders(&world).await, 0);
    for name in ["early", "late"] {
        world.merge(name, &json!({"spec": {"suspend": null}})).await;
        world.wait_ready(name, SOON).await;
    }
    assert_eq!(count_orders(&world).await, 2);
    check_invariants(&world).await;
}

/// A right is missing for a time: no order without finalizer and record, and the status shows the API server's message.
/// The operator continues when it has the right again.
#[tokio::test]
async fn no_order_without_the_right_to_record_it() {
    let (mut world, proxy) = start_with_proxy("forbidden", WorldOptions::default()).await;
    world.create(&server("before")).await;
    let before = world.wait_ready("before", SOON).await;
    proxy.fault(ProxyFault::Refuse(403), |call| {
        let releases = call.writes("before", "/status") && call.body.contains("\"release\"");
        // The finalizer of one object, and the record of the other.
        let records = call.writes("two", "/status") && call.body.contains("\"nonce\"");
        releases || records || call.writes("one", "")
    });
    for name in ["one", "two"] {
        world.create(&server(name)).await;
        wait_not_ready(&world, name, "WriteFailed", &[WORDS]).await;
    }
    world.delete("before").await;
    wait_for_proxy_hits(&proxy, proxy.count_hits() + 2).await;
    assert_eq!(count_orders(&world).await, 1);
    let provider_server = super::get_server_of(&world, &before).await;
    assert_eq!(
        provider_server["status"], "delivered",
        "no record, no release"
    );
    assert_eq!(world.operator().ended(), None);
    proxy.clear_faults();
    world.wait_ready("one", SOON).await;
    world.wait_ready("two", SOON).await;
    world.wait_gone("before", SOON).await;
    let released = super::get_server_of(&world, &before).await;
    assert_eq!(released["status"], "released");
    assert_eq!(count_orders(&world).await, 3);
    check_invariants(&world).await;
}

/// The server exists and its record cannot be written: the operator finds it by its tag, also after a restart.
#[tokio::test]
async fn unrecorded_server_is_found_by_its_tag() {
    let (mut world, proxy) = start_with_proxy("unrecorded", WorldOptions::default()).await;
    let statuses = [("too-large", 413), ("invalid", 422), ("forbidden", 403)];
    for (name, code) in statuses {
        proxy.fault(ProxyFault::Refuse(code), move |call| {
            call.writes(name, "/status") && call.body.contains("Created")
        });
        world.create(&server(name)).await;
    }
    let all = statuses.len();
    wait_for_proxy_hits(&proxy, 2 * all).await;
    world.operator().kill9();
    let hit = proxy.count_hits();
    world.operator().restart();
    wait_for_proxy_hits(&proxy, hit + all).await;
    wait_for_polls(&world, 3).await;
    for (name, _) in statuses {
        let object = world.get(name).await.expect("it is there");
        assert_ne!(
            object["status"]["records"]["order"]["outcome"], "Created",
            "{name}"
        );
    }
    assert_eq!(count_orders(&world).await, all as u64);
    proxy.clear_faults();
    for (name, _) in statuses {
        world.wait_ready(name, SOON).await;
    }
    assert_eq!(count_orders(&world).await, all as u64);
    assert_eq!(world.simulator.list_live_servers().await.len(), all);
    check_invariants(&world).await;
}
