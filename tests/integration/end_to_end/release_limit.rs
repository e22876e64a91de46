//! Many servers deleted at once: a release limit blocks releases above its maximum.

use futures::future::join_all;
use serde_json::{Value, json};

use super::{
    SOON, build_acknowledgement, change_account, check_invariants, count_orders,
    find_pending_token, set_account_spec, wait_for_event, wait_for_polls,
};
use lab::rig::{World, cluster, condition, eventually, server};

async fn count_releases(world: &World) -> u64 {
    let counts = world.simulator.counts().await;
    let deletes = counts.get("DELETE /v3/flexMetal/servers/{uuid}");
    deletes.copied().unwrap_or(0)
}

/// Waits until the release limit blocks this many objects. Returns their names.
pub(super) async fn wait_for_limited_objects(world: &World, count: usize) -> Vec<String> {
    let is_limited = |object: &Value| {
        condition(object, "Ready").is_some_and(|ready| ready["reason"] == "ReleaseLimited")
    };
    eventually("objects are held", SOON, async || {
        let all = world.servers().list(&Default::default()).await.ok()?;
        let all = all.items.into_iter().map(|o| json!(o));
        let names = all
            .filter(is_limited)
            .map(|o| o["metadata"]["name"].as_str().unwrap().to_owned());
        let names: Vec<String> = names.collect();
        (names.len() == count).then_some(names)
    })
    .await
}

/// Waits until this many releases were sent. The operator counts allowed releases before it sends them.
async fn wait_for_releases(world: &World, count: u64) {
    eventually("releases are sent", SOON, async || {
        (count_releases(world).await == count).then_some(())
    })
    .await;
}

/// Waits until the account's condition says whether the limit blocks releases. Returns the condition.
async fn wait_for_limit_condition(world: &World, status: &str) -> Value {
    eventually("the release limit is reported", SOON, async || {
        let account = world.accounts().get("default").await.ok()?;
        let found = condition(&json!(account), "ReleaseLimitReached").cloned()?;
        (found["status"] == status).then_some(found)
    })
    .await
}

/// The token that lifts the release limit, other than this one.
async fn wait_for_limit_token(world: &World, but: &str) -> String {
    eventually("the account asks for it", SOON, async || {
        let account = json!(world.accounts().get("default").await.ok()?);
        find_pending_token(&account, "LiftReleaseLimit").filter(|token| token != but)
    })
    .await
}

#[tokio::test]
async fn release_limit_caps_pruned_servers() {
    let mut world = World::start(cluster(), "release-limit").await;
    let limit = json!({"releaseLimit": {"maxReleases": 3, "window": "1h"}});
    set_account_spec(&world, "default", &limit).await;
    let names: Vec<String> = (0..10).map(|n| format!("server-{n}")).collect();
    for name in &names {
        world.create(&server(name)).await;
    }
    join_all(names.iter().map(|name| world.wait_ready(name, SOON))).await;

    join_all(names.iter().map(|name| world.delete(name))).await;
    wait_for_limited_objects(&world, 7).await;
    wait_for_releases(&world, 3).await;
    assert_eq!(world.simulator.list_live_servers().await.len(), 7);
    let reported = wait_for_limit_condition(&world, "True").await;
    let message = reported["message"].as_str().unwrap().to_owned();
    assert!(message.contains("3 releases"), "{message}");
    let first = wait_for_limit_token(&world, "").await;
    assert!(message.contains(&first), "{message}");
    wait_for_event(&world, "ReleaseLimited").await;

    // The count survives a restart.
    world.operator().kill9();
    world.start_operator();
    wait_for_polls(&world, 3).await;
    wait_for_limited_objects(&world, 7).await;
    assert_eq!(count_releases(&world).await, 3);

    // A retained server's object is deleted, and does not count as a release.
    let kept = wait_for_limited_objects(&world, 7).await.remove(0);
    let retain = json!({"spec": {"deletionPolicy": "Retain"}});
    world.merge(&kept, &retain).await;
    world.wait_gone(&kept, SOON).await;
    assert_eq!(count_releases(&world).await, 3);

    // The token allows the same number once more.
    change_account(&world, "default", &build_acknowledgement(&first)).await;
    wait_for_limited_objects(&world, 3).await;
    wait_for_releases(&world, 6).await;
    wait_for_limit_token(&world, &first).await;
    let account = json!(world.accounts().get("default").await.unwrap());
    assert_eq!(account["status"]["acknowledged"][0]["token"], json!(first));
    wait_for_polls(&world, 3).await;
    assert_eq!(count_releases(&world).await, 6, "that token is over");

    // A higher maximum does so too.
    let higher = json!({"releaseLimit": {"maxReleases": 30, "window": "1h"}});
    set_account_spec(&world, "default", &higher).await;
    for name in names.iter().filter(|name| **name != kept) {
        world.wait_gone(name, SOON).await;
    }
    wait_for_limit_condition(&world, "False").await;
    assert_eq!(
        (count_orders(&world).await, count_releases(&world).await),
        (10, 9)
    );
    assert_eq!(world.simulator.list_live_servers().await.len(), 1);
    check_invariants(&world).await;
}
