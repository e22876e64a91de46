//! Tags: made, adopted, renamed, deleted.

use serde_json::{Value, json};

use super::SOON;
use lab::rig::{Things, World, cluster};

/// A tag object with this spec.
pub(super) fn tag(name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "flexmetal.dev/v1alpha1", "kind": "ServerTag",
        "metadata": {"name": name}, "spec": spec,
    })
}

/// The tags of the account, but for the operator's own.
pub(super) async fn account_tags(world: &World) -> Vec<String> {
    let path = "/v3/flexMetal/tags";
    let (status, answer) = world.simulator.call("GET", path, None).await;
    assert_eq!(status, 200, "{answer}");
    let tags = answer.as_array().expect("a list").iter();
    let names = tags.map(|tag| super::text(&tag["tag"]));
    names.filter(|tag| !tag.starts_with("fmo-")).collect()
}

fn tags(world: &World) -> Things {
    world.things("ServerTag")
}

#[tokio::test]
async fn a_tag_is_made_renamed_and_deleted() {
    let world = World::start(cluster(), "tag").await;
    let tags = tags(&world);
    tags.create(&tag("web", &json!({}))).await;
    let made = tags.wait_ready("web", SOON).await;
    assert_eq!(made["status"]["tag"], "web");
    assert_eq!(made["status"]["created"], true);
    assert_eq!(made["status"]["serverCount"], 0);
    assert_eq!(account_tags(&world).await, ["web"]);

    let change = json!({"spec": {"tag": "www", "renamePolicy": "Rename"}});
    tags.merge("web", &change).await;
    tags.wait_for("web", "renamed", SOON, |tag| {
        (tag["status"]["tag"] == "www" && tag["status"]["created"] == true).then_some(())
    })
    .await;
    assert_eq!(account_tags(&world).await, ["www"]);

    tags.delete("web").await;
    tags.wait_gone("web", SOON).await;
    assert!(account_tags(&world).await.is_empty());
}
