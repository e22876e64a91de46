//! Many servers at once, and many that are at rest.

use std::collections::BTreeMap;

use futures::future::join_all;
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams};
use serde_json::{Value, json};

use super::{SERVERS, SOON, judge, orders};
use lab::rig::{World, WorldOptions, cluster, condition, eventually, server};

/// An order must be sent within a quarter of the absence grace period after its start: on a busy machine many
/// at once need more time than the other tests give.
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

/// Makes this many server objects, all at once.
async fn create(world: &World, number: usize) {
    let objects: Vec<Value> = (0..number)
        .map(|n| server(&format!("server-{n:03}")))
        .collect();
    join_all(objects.iter().map(|object| world.create(object))).await;
}

/// Waits until this many servers are ready.
async fn all_ready(world: &World, number: usize) {
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

#[tokio::test]
async fn sixty_objects_order_sixty_servers() {
    const NUMBER: usize = 60;
    let mut world = World::prepare(cluster(), "sixty", plan()).await;
    world.start_operator();
    create(&world, NUMBER).await;
    all_ready(&world, NUMBER).await;
    assert_eq!(orders(&world).await, NUMBER as u64);
    assert_eq!(world.simulator.list_live_servers().await.len(), NUMBER);
    judge(&world).await;

    let servers = world.servers();
    let everything = ListParams::default();
    servers
        .delete_collection(&DeleteParams::default(), &everything)
        .await
        .unwrap();
    eventually("all objects are gone", SOON, async || {
        let left = servers.list(&everything).await.ok()?;
        left.items.is_empty().then_some(())
    })
    .await;
    let machines = world.simulator.list_servers().await;
    assert_eq!(machines.len(), NUMBER);
    assert!(
        machines
            .iter()
            .all(|machine| machine["status"] == "released")
    );
    judge(&world).await;
}

/// The versions of everything that the operator could write.
async fn versions(world: &World) -> BTreeMap<String, String> {
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
async fn idle_servers_cost_three_calls_per_poll() {
    const NUMBER: usize = 120;
    let mut world = World::prepare(cluster(), "quiet", plan()).await;
    // What is there before it waits for half a minute here.
    world.start_operator();
    create(&world, NUMBER).await;
    all_ready(&world, NUMBER).await;
    // The last reports may still be on their way: rest is when nothing was written between two looks.
    let mut before = BTreeMap::new();
    eventually("nothing is written any more", SOON, async || {
        super::looks(&world, 12).await;
        let now = versions(&world).await;
        let is_quiet = now == before;
        before = now;
        is_quiet.then_some(())
    })
    .await;

    world.simulator.clear_ledger().await;
    let calls = eventually("four orphan scans and four polls", SOON, async || {
        let calls = world.simulator.ledger().await;
        let (polls, scans) = (begins(&calls, true), begins(&calls, false));
        // One of each may be under way; what follows it is not judged.
        (polls > 4 && scans > 4).then_some(calls)
    })
    .await;
    assert_eq!(
        versions(&world).await,
        before,
        "a quiet world was written to"
    );
    for call in &calls {
        let is_list = call["method"] == "GET" && call["path"] == SERVERS;
        assert!(is_list, "not a list: {call}");
    }
    // Between the starts of two polls there are three calls; an orphan scan reads on to an empty page.
    assert_eq!(
        rounds(&calls, true),
        vec![3; begins(&calls, true) - 1],
        "{calls:#?}"
    );
    for scan in rounds(&calls, false) {
        assert!((3..=4).contains(&scan), "{scan} calls in an orphan scan");
    }
    judge(&world).await;
}

fn is_poll(call: &Value) -> bool {
    super::text(&call["query"]).contains("status=delivered")
}

fn is_first_page(call: &Value) -> bool {
    super::text(&call["rangedData"]).starts_with("start=0,")
}

/// How many listings of this sort started.
fn begins(calls: &[Value], polls: bool) -> usize {
    let sort = calls.iter().filter(|call| is_poll(call) == polls);
    sort.filter(|call| is_first_page(call)).count()
}

/// The calls of each listing of this sort but the last, which may not be complete.
/// Calls before the first start belong to an older listing.
fn rounds(calls: &[Value], polls: bool) -> Vec<usize> {
    let mut rounds: Vec<usize> = Vec::new();
    for call in calls.iter().filter(|call| is_poll(call) == polls) {
        if is_first_page(call) {
            rounds.push(1);
        } else if let Some(last) = rounds.last_mut() {
            *last += 1;
        }
    }
    rounds.pop();
    rounds
}
