//! Tags: created, adopted, renamed, deleted.

use serde_json::{Value, json};

use super::{SOON, build_server, get_server_of, text};
use lab::rig::{Fault, Things, World, cluster, condition, eventually};

/// A tag object with this spec.
pub(super) fn build_tag(name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "flexmetal.dev/v1alpha1", "kind": "ServerTag",
        "metadata": {"name": name}, "spec": spec,
    })
}

/// The tags of the account without the operator's own.
pub(super) async fn list_account_tags(world: &World) -> Vec<String> {
    let path = "/v3/flexMetal/tags";
    let (status, answer) = world.simulator.call("GET", path, None).await;
    assert_eq!(status, 200, "{answer}");
    let tags = answer.as_array().expect("a list").iter();
    let names = tags.map(|tag| text(&tag["tag"]));
    names.filter(|tag| !tag.starts_with("fmo-")).collect()
}

fn tags(world: &World) -> Things {
    world.things("ServerTag")
}

#[tokio::test]
async fn a_tag_is_made_renamed_and_deleted() {
    let world = World::start(cluster(), "tag").await;
    let tags = tags(&world);
    tags.create(&build_tag("web", &json!({}))).await;
    let made = tags.wait_ready("web", SOON).await;
    assert_eq!(made["status"]["tag"], "web");
    assert_eq!(made["status"]["createdByObject"], true);
    assert_eq!(made["status"]["serverCount"], 0);
    assert_eq!(list_account_tags(&world).await, ["web"]);

    let change = json!({"spec": {"tag": "www", "renamePolicy": "Rename"}});
    tags.merge("web", &change).await;
    tags.wait_for("web", "renamed", SOON, |tag| {
        (tag["status"]["tag"] == "www" && tag["status"]["createdByObject"] == true).then_some(())
    })
    .await;
    assert_eq!(list_account_tags(&world).await, ["www"]);

    tags.delete("web").await;
    tags.wait_gone("web", SOON).await;
    assert!(list_account_tags(&world).await.is_empty());
}

/// Waits until the tag is not ready for this reason. Returns the message.
async fn wait_tag_not_ready(tags: &Things, name: &str, reason: &str) -> String {
    let object = tags
        .wait_for_condition(name, "Ready", "False", Some(reason), SOON)
        .await;
    text(&condition(&object, "Ready").expect("it is told")["message"])
}

/// How many requests with this method to a tag reached the hosting API.
async fn count_tag_calls(world: &World, method: &str) -> usize {
    let ledger = world.simulator.ledger().await;
    let to_tags = ledger.iter().filter(|call| {
        let path = call["path"].as_str().unwrap_or_default();
        call["method"] == method && path.starts_with("/v3/flexMetal/tags")
    });
    to_tags.count()
}

#[tokio::test]
async fn adopted_tag_belongs_to_the_older_object() {
    let world = World::start(cluster(), "tag-adopt").await;
    let tags = tags(&world);
    let body = json!({"tag": "there"});
    let made = world
        .simulator
        .call("POST", "/v3/flexMetal/tags", Some(&body));
    assert_eq!(made.await.0, 200);
    tags.create(&build_tag("there", &json!({}))).await;
    let adopted = tags.wait_ready("there", SOON).await;
    assert_eq!(adopted["status"]["createdByObject"], false);
    tags.delete("there").await;
    tags.wait_gone("there", SOON).await;
    assert_eq!(list_account_tags(&world).await, ["there"]);

    // Timestamps have whole seconds. So the second object is newer regardless of the UIDs.
    tags.create(&build_tag("first", &json!({"tag": "shared"})))
        .await;
    tags.wait_ready("first", SOON).await;
    tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
    tags.create(&build_tag("second", &json!({"tag": "shared"})))
        .await;
    let message = wait_tag_not_ready(&tags, "second", "OwnershipConflict").await;
    assert!(
        message.contains(&format!("{}/first", world.namespace)),
        "{message}"
    );
    tags.delete("first").await;
    tags.wait_gone("first", SOON).await;
    let taken_over = tags.wait_ready("second", SOON).await;
    assert_eq!(taken_over["status"]["createdByObject"], false);
    assert_eq!(list_account_tags(&world).await, ["there", "shared"]);
    assert_eq!(count_tag_calls(&world, "DELETE").await, 0);
}

#[tokio::test]
async fn every_lost_answer_is_settled_by_looking() {
    let world = World::start(cluster(), "tag-lost").await;
    let tags = tags(&world);
    let any = "/v3/flexMetal/tags*";
    for (n, fault) in ["dropAfter", "dropBefore"].into_iter().enumerate() {
        let name = format!("lost-{n}");
        for method in ["POST", "PUT", "DELETE"] {
            world
                .simulator
                .fault(Fault::new(fault).on(method, any).times(1))
                .await;
        }
        tags.create(&build_tag(&name, &json!({"renamePolicy": "Rename"})))
            .await;
        tags.wait_ready(&name, SOON).await;
        let renamed = format!("{name}-renamed");
        tags.merge(&name, &json!({"spec": {"tag": &renamed}})).await;
        tags.wait_for(&name, "renamed", SOON, |tag| {
            (tag["status"]["tag"] == renamed.as_str()).then_some(())
        })
        .await;
        tags.wait_ready(&name, SOON).await;
        assert_eq!(list_account_tags(&world).await, [renamed.as_str()]);
        tags.delete(&name).await;
        tags.wait_gone(&name, SOON).await;
        assert!(list_account_tags(&world).await.is_empty());
        let met = world.simulator.faults().await;
        assert!(met.iter().all(|rule| rule["applied"] == 1), "{met:#?}");
        // Requests that arrived were not repeated. Lost requests were.
        let all = [
            count_tag_calls(&world, "POST").await,
            count_tag_calls(&world, "PUT").await,
        ];
        assert_eq!(all, [[1, 1], [3, 3]][n], "{fault}");
        world.simulator.clear_faults().await;
    }
}

#[tokio::test]
async fn used_tag_stays_and_returns_to_servers() {
    let world = World::start(cluster(), "tag-used").await;
    let tags = tags(&world);
    for (n, (rename, delete)) in [("follow", "detach"), ("keep", "keep")]
        .into_iter()
        .enumerate()
    {
        let switches = json!({"renameTag": rename, "deleteUsedTag": delete});
        world.simulator.switches(&switches).await;
        let (name, bearer) = (format!("used-{n}"), format!("bearer-{n}"));
        let object = build_tag(&name, &json!({"renamePolicy": "Rename"}));
        let server = build_server(&bearer, &json!({"tags": [&name]}));
        if n == 0 {
            tags.create(&object).await;
            tags.wait_ready(&name, SOON).await;
        }
        world.create(&server).await;
        world.wait_ready(&bearer, SOON).await;
        if n > 0 {
            tags.create(&object).await;
            tags.wait_ready(&name, SOON).await;
        }
        // The operator has listed the server with its tag before the rename.
        super::wait_for_polls(&world, 3).await;

        // The API's documentation does not say what a rename does to servers with the tag.
        let renamed = format!("{name}-renamed");
        tags.merge(&name, &json!({"spec": {"tag": &renamed}})).await;
        tags.wait_for(&name, "renamed", SOON, |tag| {
            (tag["status"]["tag"] == renamed.as_str()).then_some(())
        })
        .await;
        let back = async || {
            let server = world.get(&bearer).await?;
            let tags = super::list_tags(&get_server_of(&world, &server).await);
            tags.contains(&name).then_some(())
        };
        if rename == "follow" {
            eventually("the server has the tag of its spec again", SOON, back).await;
            // The tag is on the server, so it stays unless forced.
            tags.delete(&name).await;
            wait_tag_not_ready(&tags, &name, "InUse").await;
            assert_eq!(count_tag_calls(&world, "DELETE").await, 0);
            tags.merge(&name, &json!({"spec": {"force": true}})).await;
        } else {
            // The server's order created the tag.
            let delete = json!({"spec": {"deletionPolicy": "Delete"}});
            tags.merge(&name, &delete).await;
            tags.delete(&name).await;
        }
        tags.wait_gone(&name, SOON).await;
        assert!(!list_account_tags(&world).await.contains(&renamed));
        world.delete(&bearer).await;
        world.wait_gone(&bearer, SOON).await;
        assert_no_server_left(&world).await;
    }
}

#[tokio::test]
async fn tag_rename_waits_until_servers_list_it() {
    let world = World::start(cluster(), "tag-listed").await;
    let tags = tags(&world);
    tags.create(&build_tag("web", &json!({}))).await;
    tags.wait_ready("web", SOON).await;
    for name in ["one", "two"] {
        world
            .create(&build_server(name, &json!({"tags": ["web"]})))
            .await;
        world.wait_ready(name, SOON).await;
    }
    let lists = async |name: &str| {
        let change = json!({"spec": {"tags": ["www"]}});
        world.merge(name, &change).await;
        eventually("the server has the new tag alone", SOON, async || {
            let server = world.get(name).await?;
            let tags = super::list_tags(&get_server_of(&world, &server).await);
            let has = |tag: &str| tags.iter().any(|t| t == tag);
            (has("www") && !has("web")).then_some(())
        })
        .await;
    };
    lists("one").await;
    let change = json!({"spec": {"tag": "www", "renamePolicy": "Rename"}});
    tags.merge("web", &change).await;
    let message = wait_tag_not_ready(&tags, "web", "InUse").await;
    assert!(
        message.contains("\"web\"") && message.contains("spec.tags"),
        "{message}"
    );
    lists("two").await;
    // Servers created the new tag, so this object must not delete it.
    tags.wait_for("web", "renamed", SOON, |tag| {
        (tag["status"]["tag"] == "www" && tag["status"]["createdByObject"] == false).then_some(())
    })
    .await;
    assert_eq!(list_account_tags(&world).await, ["www"]);
    for name in ["one", "two"] {
        world.delete(name).await;
        world.wait_gone(name, SOON).await;
    }
    tags.delete("web").await;
    tags.wait_gone("web", SOON).await;
    assert_eq!(list_account_tags(&world).await, ["www"]);
    assert_no_server_left(&world).await;
}

/// Checks that no server is left.
async fn assert_no_server_left(world: &World) {
    assert!(world.simulator.list_live_servers().await.is_empty());
    super::check_invariants(world).await;
}
