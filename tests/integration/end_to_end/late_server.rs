//! A server that appears days after its order: it is used, no other is ordered, and its tag is removed when unused.

use std::time::{SystemTime, UNIX_EPOCH};

use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::{ORDER_TAG, SOON, check_invariants, count_orders, get_owner, text, wait_for_polls};
use lab::rig::{World, cluster, eventually, server};

const TAGS: &str = "/v3/flexMetal/tags";
const DAY: u64 = 86_400;

#[allow(clippy::disallowed_methods)] // The operator's own clock is the system's.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.expect("after 1970").as_secs()
}

/// Creates an object that ordered two days ago and lost the answer, while no operator runs.
/// Returns the order's tag, which the account contains.
async fn create_old_open_order(world: &World, name: &str) -> String {
    let made = world.create(&server(name)).await;
    let uid = text(&made["metadata"]["uid"]);
    let account = world.accounts().get("default").await.expect("it is there");
    let seq = u32::try_from(now() - 2 * DAY).expect("it fits");
    let order = json!({
        "uid": uid, "seq": seq, "nonce": "long-ago", "sendBy": "2026-01-01T00:00:00Z", "hostname": name,
        "accountID": account.data["status"]["accountID"], "answerLost": true,
    });
    let with_finalizer = json!({"metadata": {"finalizers": ["flexmetal.dev/server"]}});
    world.merge(name, &with_finalizer).await;
    let status = json!({"status": {"records": {"order": order}}});
    let (params, patch) = (PatchParams::default(), Patch::Merge(&status));
    let written = world.servers().patch_status(name, &params, &patch).await;
    written.expect("the status is written");
    let owner = get_owner(&world.client, &world.cluster_id, &world.namespace, name).await;
    let tag = owner.order_tag(seq);
    post_tag(world, &tag).await;
    tag
}

/// The order tags of the account.
async fn list_order_tags(world: &World) -> Vec<String> {
    let tags = world.simulator.records(TAGS).await;
    let names = tags.iter().map(|tag| text(&tag["tag"]));
    names.filter(|tag| tag.starts_with(ORDER_TAG)).collect()
}

async fn post_tag(world: &World, tag: &str) {
    let made = json!({"tag": tag});
    let (status, body) = world.simulator.call("POST", TAGS, Some(&made)).await;
    assert!((200..300).contains(&status), "{status}: {body}");
}

/// Waits until the current operator has listed the account's tags.
async fn wait_for_tag_list(world: &World, before: usize) {
    eventually("the scan lists the tags", SOON, async || {
        (count_tag_lists(world).await > before).then_some(())
    })
    .await;
}

async fn count_tag_lists(world: &World) -> usize {
    let ledger = world.simulator.ledger().await;
    let is_list = |call: &&Value| call["method"] == "GET" && call["path"] == TAGS;
    ledger.iter().filter(is_list).count()
}

#[tokio::test]
async fn server_listed_days_late_is_still_claimed() {
    let mut world = World::start(cluster(), "late").await;
    world.create(&server("control")).await;
    world.wait_ready("control", SOON).await;
    world.operator().kill9();
    let tag = create_old_open_order(&world, "late").await;
    let nobodys = format!("{ORDER_TAG}{}{:08x}", "a".repeat(44), now() - 2 * DAY);
    post_tag(&world, &nobodys).await;

    // While the operator searches for the server, also after a restart, it orders nothing and keeps the tag.
    for _ in 0..2 {
        world.operator().restart();
        wait_for_polls(&world, 12).await;
        world.operator().kill9();
    }
    assert_eq!(count_orders(&world).await, 1, "that of the control");
    assert!(list_order_tags(&world).await.contains(&tag));

    let cluster_tag = format!("fmo-cluster:{}", world.cluster_id);
    let provider_server = json!({"name": "late", "tags": [cluster_tag, tag]});
    let provider_server = world.simulator.appear(&provider_server).await;
    let before = count_tag_lists(&world).await;
    world.operator().restart();
    let ready = world.wait_ready("late", SOON).await;
    assert_eq!(ready["status"]["uuid"], provider_server["uuid"]);
    wait_for_tag_list(&world, before).await;
    assert!(list_order_tags(&world).await.contains(&tag));
    assert_eq!(
        count_orders(&world).await,
        1,
        "nothing is ordered beside it"
    );

    // A release leaves the tag. The first scan of the next process removes it.
    world.delete("late").await;
    world.wait_gone("late", SOON).await;
    assert!(list_order_tags(&world).await.contains(&tag));
    world.operator().restart();
    eventually("the tag is removed", SOON, async || {
        (!list_order_tags(&world).await.contains(&tag)).then_some(())
    })
    .await;
    // Another cluster may still search for a server with its tag.
    let kept = list_order_tags(&world).await;
    assert!(kept.contains(&nobodys), "{kept:?}");
    assert_eq!(kept.len(), 2, "that one and that of the control: {kept:?}");
    check_invariants(&world).await;
}
