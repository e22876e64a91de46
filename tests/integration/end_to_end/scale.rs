//! Many servers at once, and many idle ones.

use std::collections::BTreeMap;

use futures::future::join_all;
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams};
use serde_json::{Value, json};

use super::{SERVERS, SOON, check_invariants, count_orders};
use lab::rig::{World, WorldOptions, cluster, condition, eventually, server};

/// An order must be sent within a quarter of the absence grace period after its start.
/// Many orders at once on a slow computer need more time than other tests give.
fn plan() -> WorldOptions {
    let timing = json!({
        "absenceGracePeriod": "60s", "absenceCheckInterval": "300ms", "activePollInterval": "300ms",
        "idlePollInterval": "700ms", "orphanScanInterval": "2s", "orderTimeout": "20s",
    });
    WorldOptions {
        timing,
        ..WorldOptions::default()
    }
}

/// Creates this many server objects at once.
async fn create(world: &World, number: usize) {
    let objects: Vec<Value> = (0..number)
        .map(|n| server(&format!("server-{n:03}")))
        .collect();
    join_all(objects.iter().map(|object| world.create(object))).await;
}

/// Waits until this many servers are ready.
async fn wait_all_ready(world: &World, number: usize) {
    let servers = world.servers();
    eventually(&format!("{number} servers are ready"), SOON, async || {
        let list = servers.list(&ListParams::default()).await.ok()?;
        let ready = list.iter().filter(|object| {
            let object = json!({"status": object.data["status"]});
            condition(&object, "Ready").is_some_and(|found| found["status"] == "True")
        });
        (ready.count() == number).then_some(())
    })
    .await;
}

/// The resource versions of everything that the operator may write.
async fn list_versions(world: &World) -> BTreeMap<String, String> {
    let mut versions = BTreeMap::new();
    for api in [world.servers(), world.accounts()] {
        for object in api.list(&ListParams::default()).await.unwrap() {
            let version = object.resource_version().unwrap();
            versions.insert(object.name_any(), version);
        }
    }
    versions
}

#[tokio::test]
async fn hundred_servers_are_ordered_once_and_idle_quietly() {
    // The fewest that need three pages of fifty.
    const NUMBER: usize = 101;
    let mut world = World::prepare(cluster(), "quiet", plan()).await;
    // Objects that are older than the leader's term would wait for half a minute here.
    world.start_operator();
    create(&world, NUMBER).await;
    wait_all_ready(&world, NUMBER).await;
    assert_eq!(count_orders(&world).await, NUMBER as u64);
    assert_eq!(world.simulator.list_live_servers().await.len(), NUMBER);
    // The last status updates may be in progress: the world is idle when nothing was written between two polls.
    let mut before = BTreeMap::new();
    eventually("nothing is written any more", SOON, async || {
        super::wait_for_polls(&world, 12).await;
        let now = list_versions(&world).await;
        let is_quiet = now == before;
        before = now;
        is_quiet.then_some(())
    })
    .await;

    world.simulator.clear_ledger().await;
    let calls = eventually("four orphan scans and four polls", SOON, async || {
        let calls = world.simulator.ledger().await;
        let (polls, scans) = (count_lists(&calls, true), count_lists(&calls, false));
        // One of each may be in progress. The checks ignore the calls after it.
        (polls > 4 && scans > 4).then_some(calls)
    })
    .await;
    assert_eq!(
        list_versions(&world).await,
        before,
        "a quiet world was written to"
    );
    for call in &calls {
        let is_list = call["method"] == "GET" && call["path"] == SERVERS;
        assert!(is_list, "not a list: {call}");
    }
    // There are three calls between the starts of two polls. An orphan scan reads on to an empty page.
    assert_eq!(
        count_calls_per_list(&calls, true),
        vec![3; count_lists(&calls, true) - 1],
        "{calls:#?}"
    );
    for scan in count_calls_per_list(&calls, false) {
        assert!((3..=4).contains(&scan), "{scan} calls in an orphan scan");
    }
    delete_all(&world).await;
    let servers = world.simulator.list_servers().await;
    assert_eq!(servers.len(), NUMBER);
    assert!(servers.iter().all(|it| it["status"] == "released"));
    check_invariants(&world).await;
}

/// Deletes all servers at once, and waits until they are gone.
async fn delete_all(world: &World) {
    let (servers, everything) = (world.servers(), ListParams::default());
    let plain = DeleteParams::default();
    let deleted = servers.delete_collection(&plain, &everything).await;
    deleted.unwrap();
    eventually("all objects are gone", SOON, async || {
        let left = servers.list(&everything).await.ok()?;
        left.items.is_empty().then_some(())
    })
    .await;
}

fn is_poll(call: &Value) -> bool {
    super::text(&call["query"]).contains("status=delivered")
}

fn is_first_page(call: &Value) -> bool {
    super::text(&call["rangedData"]).starts_with("start=0,")
}

/// How many lists of this kind started.
fn count_lists(calls: &[Value], polls: bool) -> usize {
    let sort = calls.iter().filter(|call| is_poll(call) == polls);
    sort.filter(|call| is_first_page(call)).count()
}

/// The number of calls of each list of this kind. The last one may be incomplete and is left out.
/// Calls before the first start belong to an older list.
fn count_calls_per_list(calls: &[Value], polls: bool) -> Vec<usize> {
    let mut counts: Vec<usize> = Vec::new();
    for call in calls.iter().filter(|call| is_poll(call) == polls) {
        if is_first_page(call) {
            counts.push(1);
        } else if let Some(last) = counts.last_mut() {
            *last += 1;
        }
    }
    counts.pop();
    counts
}
