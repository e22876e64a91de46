//! Many servers deleted at once: a release limit holds what is over its number.

use futures::future::join_all;
use serde_json::{Value, json};

use super::{
    SOON, acknowledging, change_account, judge, looks, orders, pending, set_account, told,
};
use lab::rig::{World, cluster, condition, eventually, server};

async fn deletes(world: &World) -> u64 {
    let counts = world.simulator.counts().await;
    let deletes = counts.get("DELETE /v3/flexMetal/servers/{uuid}");
    deletes.copied().unwrap_or(0)
}

/// The objects that the release limit holds, once there are so many.
pub(super) async fn held(world: &World, count: usize) -> Vec<String> {
    let is_held = |object: &Value| {
        condition(object, "Ready").is_some_and(|ready| ready["reason"] == "ReleaseLimited")
    };
    eventually("objects are held", SOON, async || {
        let all = world.servers().list(&Default::default()).await.ok()?;
        let all = all.items.into_iter().map(|o| json!(o));
        let names = all
            .filter(is_held)
            .map(|o| o["metadata"]["name"].as_str().unwrap().to_owned());
        let names: Vec<String> = names.collect();
        (names.len() == count).then_some(names)
    })
    .await
}

/// Waits until so many releases were sent: those that the limit lets begin are counted before.
async fn released(world: &World, count: u64) {
    eventually("releases are sent", SOON, async || {
        (deletes(world).await == count).then_some(())
    })
    .await;
}

/// The account once its release limit holds releases, or not.
async fn limit_blocks(world: &World, status: &str) -> Value {
    eventually("the release limit is told", SOON, async || {
        let account = world.accounts().get("default").await.ok()?;
        let found = condition(&json!(account), "ReleaseLimitReached").cloned()?;
        (found["status"] == status).then_some(found)
    })
    .await
}

/// The token that lifts the release limit, another one than this.
async fn token(world: &World, but: &str) -> String {
    eventually("the account asks for it", SOON, async || {
        let account = json!(world.accounts().get("default").await.ok()?);
        pending(&account, "LiftReleaseLimit").filter(|token| token != but)
    })
    .await
}

#[tokio::test]
async fn release_limit_caps_pruned_servers() {
    let mut world = World::start(cluster(), "release-limit").await;
    let limit = json!({"releaseLimit": {"maxReleases": 3, "window": "1h"}});
    set_account(&world, "default", &limit).await;
    let names: Vec<String> = (0..10).map(|n| format!("server-{n}")).collect();
    for name in &names {
        world.create(&server(name)).await;
    }
    join_all(names.iter().map(|name| world.wait_ready(name, SOON))).await;

    join_all(names.iter().map(|name| world.delete(name))).await;
    held(&world, 7).await;
    released(&world, 3).await;
    assert_eq!(world.simulator.list_live_servers().await.len(), 7);
    let told_of = limit_blocks(&world, "True").await;
    let message = told_of["message"].as_str().unwrap().to_owned();
    assert!(message.contains("3 releases"), "{message}");
    let first = token(&world, "").await;
    assert!(message.contains(&first), "{message}");
    told(&world, "ReleaseLimited").await;

    // A restart counts them as before.
    world.operator().kill9();
    world.start_operator();
    looks(&world, 3).await;
    held(&world, 7).await;
    assert_eq!(deletes(&world).await, 3);

    // One that is kept goes, and is none of them.
    let kept = held(&world, 7).await.remove(0);
    let retain = json!({"spec": {"deletionPolicy": "Retain"}});
    world.merge(&kept, &retain).await;
    world.wait_gone(&kept, SOON).await;
    assert_eq!(deletes(&world).await, 3);

    // The token lets as many more begin, once.
    change_account(&world, "default", &acknowledging(&first)).await;
    held(&world, 3).await;
    released(&world, 6).await;
    token(&world, &first).await;
    let account = json!(world.accounts().get("default").await.unwrap());
    assert_eq!(account["status"]["acknowledged"][0]["token"], json!(first));
    looks(&world, 3).await;
    assert_eq!(deletes(&world).await, 6, "that token is over");

    // So does a higher number.
    let higher = json!({"releaseLimit": {"maxReleases": 30, "window": "1h"}});
    set_account(&world, "default", &higher).await;
    for name in names.iter().filter(|name| **name != kept) {
        world.wait_gone(name, SOON).await;
    }
    limit_blocks(&world, "False").await;
    assert_eq!((orders(&world).await, deletes(&world).await), (10, 9));
    assert_eq!(world.simulator.list_live_servers().await.len(), 1);
    judge(&world).await;
}
