//! Changes that the operator does not see, and repeated lists.

use serde_json::{Value, json};

use super::{
    SOON, check_invariants, count_orders, get_server_of,
    ssh_keys::{build_deleting_key, build_server_with_keys},
    start_with_proxy, wait_for_polls, wait_for_proxy_hits, wait_server_status,
};
use crate::cluster_faults::{proxy::FaultyProxy, rules::ProxyFault};
use lab::rig::{World, WorldOptions, eventually, quick_timing, server};

const LONG: f64 = 3600.0;

/// Stops all watch events for servers until [`resume_watch_events`].
async fn stop_watch_events(proxy: &FaultyProxy) {
    let hit = proxy.count_hits();
    proxy.fault(ProxyFault::Hold, |call| call.watches());
    proxy.cut_watches();
    wait_for_proxy_hits(proxy, hit + 1).await;
}

/// The operator continues with a list, which shows only the final state.
fn resume_watch_events(proxy: &FaultyProxy) {
    proxy.clear_faults();
    proxy.make_relist();
}

fn uid(object: &Value) -> &Value {
    &object["metadata"]["uid"]
}

async fn strip_finalizers(world: &World, name: &str) {
    world
        .merge(name, &json!({"metadata": {"finalizers": null}}))
        .await;
}

/// Several objects with one name, of which the operator sees only the first and the last.
#[tokio::test]
async fn last_recreated_object_has_one_server() {
    let (world, proxy) = start_with_proxy("unseen", WorldOptions::default()).await;
    for name in ["turn", "torn"] {
        world.create(&server(name)).await;
    }
    let deleted = world.wait_ready("turn", SOON).await;
    let torn = world.wait_ready("torn", SOON).await;
    // Its release starts before the watch events stop, and ends meanwhile.
    world
        .simulator
        .settings(&json!({"releaseSeconds": LONG}))
        .await;
    world.delete("turn").await;
    wait_server_status(
        &world,
        deleted["status"]["uuid"].as_str().unwrap(),
        "releasing",
    )
    .await;
    stop_watch_events(&proxy).await;
    world.simulator.advance(LONG).await;
    world.wait_gone("turn", SOON).await;
    let recreated = world.create(&server("turn")).await;
    // A user removes the finalizer and deletes the object, which releases nothing.
    strip_finalizers(&world, "torn").await;
    world.delete("torn").await;
    world.wait_gone("torn", SOON).await;
    world.create(&server("torn")).await;
    // The operator sees only the third of these.
    for _ in 0..2 {
        world.create(&server("quick")).await;
        world.delete("quick").await;
        world.wait_gone("quick", SOON).await;
    }
    world.create(&server("quick")).await;
    wait_for_polls(&world, 2).await;
    assert_eq!(count_orders(&world).await, 2, "nobody told of them yet");

    resume_watch_events(&proxy);
    let now = world.wait_ready("turn", SOON).await;
    assert_eq!(uid(&now), uid(&recreated));
    world.wait_ready("quick", SOON).await;
    let again = world.wait_ready("torn", SOON).await;
    wait_for_polls(&world, 4).await;
    assert_eq!(get_server_of(&world, &deleted).await["status"], "released");
    // Without its object nothing may release the server, so the next object with this name adopts it.
    assert_ne!(uid(&again), uid(&torn));
    assert_eq!(again["status"]["uuid"], torn["status"]["uuid"]);
    assert_eq!(get_server_of(&world, &torn).await["status"], "delivered");
    assert_eq!(count_orders(&world).await, 4);
    check_invariants(&world).await;
}

/// Repeated lists, as after repeated restarts of the API server, cause neither provider calls nor writes.
#[tokio::test]
async fn repeated_relists_cost_no_provider_calls() {
    const SERVERS: usize = 12;
    // The backoff between lists grows.
    const LISTINGS: usize = 4;
    let mut timing = quick_timing();
    timing["idlePollInterval"] = json!("1h");
    timing["orphanScanInterval"] = json!("24h");
    let plan = WorldOptions {
        timing,
        ..WorldOptions::default()
    };
    let (world, proxy) = start_with_proxy("relists", plan).await;
    let names: Vec<String> = (0..SERVERS).map(|n| format!("web-{n}")).collect();
    for name in &names {
        world.create(&server(name)).await;
    }
    for name in &names {
        world.wait_ready(name, SOON).await;
        let kind = ("Synced", "True");
        world
            .wait_for_condition(name, kind.0, kind.1, None, SOON)
            .await;
    }
    let mut at_rest = Vec::new();
    for name in &names {
        at_rest.push(world.get(name).await.unwrap());
    }
    world.simulator.clear_ledger().await;
    proxy.fault(ProxyFault::Pass, |call| call.lists());
    for _ in 0..LISTINGS {
        let hit = proxy.count_hits();
        proxy.make_relist();
        wait_for_proxy_hits(&proxy, hit + 1).await;
    }
    // When the last object is Ready, all earlier ones were reconciled.
    world.create(&server("last")).await;
    let last = world.wait_ready("last", SOON).await;
    let ledger = world.simulator.ledger().await;
    let own = last["status"]["uuid"].as_str().unwrap();
    let of_others = ledger.iter().filter(|call| {
        let path = call["path"].as_str().unwrap_or_default();
        !path.contains(own)
    });
    // A list, the catalog, and the order of the last object.
    let calls = of_others.count();
    assert!(calls < 2 * SERVERS, "{calls} calls: {ledger:#?}");
    for (name, before) in names.iter().zip(at_rest) {
        let same = async || {
            let now = world.get(name).await?;
            (now["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"])
                .then_some(())
        };
        eventually("it was not written", SOON, same).await;
    }
    assert_eq!(count_orders(&world).await, 1);
    check_invariants(&world).await;
}

/// Replaces the key object `ops` without a watch event. Returns the new object.
async fn replace_key_unseen(world: &World, proxy: &FaultyProxy, letter: char) -> Value {
    let keys = world.things("SshKey");
    let hit = proxy.count_hits();
    proxy.fault(ProxyFault::Hold, |call| {
        call.path.ends_with("/sshkeys") && call.query.contains("watch=true")
    });
    proxy.cut_watches();
    wait_for_proxy_hits(proxy, hit + 1).await;
    let finalizers = json!({"metadata": {"finalizers": null}});
    keys.merge("ops", &finalizers).await;
    keys.delete("ops").await;
    keys.wait_gone("ops", SOON).await;
    keys.create(&build_deleting_key("ops", letter)).await
}

/// The operator still sees the old key object, whose key a user wants to lock out.
#[tokio::test]
async fn key_replaced_unseen_is_not_installed() {
    let (world, proxy) = start_with_proxy("rekeyed", WorldOptions::default()).await;
    let quick = json!({"installSeconds": 2});
    world.simulator.settings(&quick).await;
    let keys = world.things("SshKey");
    keys.create(&build_deleting_key("ops", 'A')).await;
    keys.wait_ready("ops", SOON).await;
    let replaced = replace_key_unseen(&world, &proxy, 'B').await;
    let mut web = build_server_with_keys("web", &["ops"]);
    web["spec"]["install"] = json!({"revision": 1});
    world.create(&web).await;
    let tried = |object: &Value| {
        let outcome = &object["status"]["records"]["order"]["outcome"];
        outcome.is_string().then_some(())
    };
    world.wait_for("web", "a try", SOON, tried).await;
    assert_eq!(count_orders(&world).await, 0, "the key is another one");

    resume_watch_events(&proxy);
    let ready = world.wait_ready("web", SOON).await;
    let order = &ready["status"]["records"]["order"];
    assert_eq!(order["keyUIDs"], json!([uid(&replaced)]), "{order:#}");
    assert_eq!(count_orders(&world).await, 1);

    // The same before a reinstallation.
    replace_key_unseen(&world, &proxy, 'C').await;
    let spec = json!({"spec": {"install": {"revision": 2}}});
    world.merge("web", &spec).await;
    world
        .wait_for_condition("web", "Synced", "False", Some("ChecksFailed"), SOON)
        .await;
    assert_eq!(count_reinstalls(&world).await, 0, "the key is another one");
    resume_watch_events(&proxy);
    let finished = |object: &Value| {
        let last = &object["status"]["install"]["last"];
        (last["revision"] == 2 && last["result"] == "Finished").then_some(())
    };
    world.wait_for("web", "finished", SOON, finished).await;
    assert_eq!(count_reinstalls(&world).await, 1);
    check_invariants(&world).await;
}

async fn count_reinstalls(world: &World) -> usize {
    let ledger = world.simulator.ledger().await;
    ledger
        .iter()
        .filter(|call| call["method"] == "PATCH")
        .count()
}
