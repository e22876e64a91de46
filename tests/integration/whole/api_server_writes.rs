//! Writes that the API server does not take: overtaken, forbidden, refused after the order was made.

use serde_json::json;

use super::{SOON, held, hits, judge, looks, orders, suspended, with_proxy};
use crate::floor::rules::Fault;
use lab::rig::{WorldOptions, server};

const WORDS: &str = "refused by the proxy";

/// Finalizer and record rest on the version that was read: where somebody was faster, what is there now decides.
#[tokio::test]
async fn concurrent_edit_prevents_outdated_order() {
    let (world, proxy) = with_proxy("overtaken", WorldOptions::default()).await;
    let pause = json!({"spec": {"suspend": true}}).to_string();
    let overtake = Fault::Overtake(pause);
    // The one is overtaken at the finalizer, the other at the open record.
    proxy.fault_times(1, overtake.clone(), |call| {
        call.writes("early", "") && call.body.contains("flexmetal.dev/server")
    });
    proxy.fault_times(1, overtake, |call| {
        call.writes("late", "/status") && call.body.contains("\"nonce\"")
    });
    for name in ["early", "late"] {
        world.create(&server(name)).await;
    }
    hits(&proxy, 2).await;
    for name in ["early", "late"] {
        suspended(&world, name, &["spec.suspend"]).await;
    }
    looks(&world, 3).await;
    assert_eq!(orders(&world).await, 0);
    for name in ["early", "late"] {
        world.merge(name, &json!({"spec": {"suspend": null}})).await;
        world.wait_ready(name, SOON).await;
    }
    assert_eq!(orders(&world).await, 2);
    judge(&world).await;
}

/// A right that is taken away in the middle: no order without finalizer and record, the API server's words in status, and on
/// it goes when the right is back.
#[tokio::test]
async fn no_order_without_the_right_to_record_it() {
    let (mut world, proxy) = with_proxy("forbidden", WorldOptions::default()).await;
    world.create(&server("before")).await;
    let before = world.wait_ready("before", SOON).await;
    proxy.fault(Fault::Refuse(403), |call| {
        let releases = call.writes("before", "/status") && call.body.contains("\"release\"");
        // The finalizer of the one, and the record of the other.
        let records = call.writes("two", "/status") && call.body.contains("\"nonce\"");
        releases || records || call.writes("one", "")
    });
    for name in ["one", "two"] {
        world.create(&server(name)).await;
        held(&world, name, "WriteFailed", &[WORDS]).await;
    }
    world.delete("before").await;
    hits(&proxy, proxy.hits() + 2).await;
    assert_eq!(orders(&world).await, 1);
    let machine = super::machine_of(&world, &before).await;
    assert_eq!(machine["status"], "delivered", "no record, no release");
    assert_eq!(world.operator().ended(), None);
    proxy.clear_faults();
    world.wait_ready("one", SOON).await;
    world.wait_ready("two", SOON).await;
    world.wait_gone("before", SOON).await;
    let released = super::machine_of(&world, &before).await;
    assert_eq!(released["status"], "released");
    assert_eq!(orders(&world).await, 3);
    judge(&world).await;
}

/// The machine is there and its record cannot be written: it is found again by its mark, also by the next process.
#[tokio::test]
async fn unrecorded_server_is_found_by_its_tag() {
    let (mut world, proxy) = with_proxy("unrecorded", WorldOptions::default()).await;
    let statuses = [("too-large", 413), ("invalid", 422), ("forbidden", 403)];
    for (name, code) in statuses {
        proxy.fault(Fault::Refuse(code), move |call| {
            call.writes(name, "/status") && call.body.contains("Created")
        });
        world.create(&server(name)).await;
    }
    let all = statuses.len();
    hits(&proxy, 2 * all).await;
    world.operator().kill9();
    let hit = proxy.hits();
    world.operator().restart();
    hits(&proxy, hit + all).await;
    looks(&world, 3).await;
    for (name, _) in statuses {
        let object = world.get(name).await.expect("it is there");
        assert_ne!(
            object["status"]["records"]["order"]["outcome"], "Created",
            "{name}"
        );
    }
    assert_eq!(orders(&world).await, all as u64);
    proxy.clear_faults();
    for (name, _) in statuses {
        world.wait_ready(name, SOON).await;
    }
    assert_eq!(orders(&world).await, all as u64);
    assert_eq!(world.simulator.list_live_servers().await.len(), all);
    judge(&world).await;
}
