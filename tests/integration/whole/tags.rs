//! Tags: made, adopted, renamed, deleted.

use serde_json::{Value, json};

use super::{SOON, machine_of, text, with};
use lab::rig::{Fault, Things, World, cluster, condition, eventually};

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
    tags.create(&tag("web", &json!({}))).await;
    let made = tags.wait_ready("web", SOON).await;
    assert_eq!(made["status"]["tag"], "web");
    assert_eq!(made["status"]["createdByObject"], true);
    assert_eq!(made["status"]["serverCount"], 0);
    assert_eq!(account_tags(&world).await, ["web"]);

    let change = json!({"spec": {"tag": "www", "renamePolicy": "Rename"}});
    tags.merge("web", &change).await;
    tags.wait_for("web", "renamed", SOON, |tag| {
        (tag["status"]["tag"] == "www" && tag["status"]["createdByObject"] == true).then_some(())
    })
    .await;
    assert_eq!(account_tags(&world).await, ["www"]);

    tags.delete("web").await;
    tags.wait_gone("web", SOON).await;
    assert!(account_tags(&world).await.is_empty());
}

/// Waits until the tag is not ready for this reason; returns the message.
async fn not_ready(tags: &Things, name: &str, reason: &str) -> String {
    let object = tags
        .wait_for_condition(name, "Ready", "False", Some(reason), SOON)
        .await;
    text(&condition(&object, "Ready").expect("it is told")["message"])
}

/// How many requests of a method to a tag have reached the hosting API.
async fn sent(world: &World, method: &str) -> usize {
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
    tags.create(&tag("there", &json!({}))).await;
    let adopted = tags.wait_ready("there", SOON).await;
    assert_eq!(adopted["status"]["createdByObject"], false);
    tags.delete("there").await;
    tags.wait_gone("there", SOON).await;
    assert_eq!(account_tags(&world).await, ["there"]);

    // A time stamp has whole seconds; the second is the younger one in either order of UIDs.
    tags.create(&tag("first", &json!({"tag": "shared"}))).await;
    tags.wait_ready("first", SOON).await;
    tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
    tags.create(&tag("second", &json!({"tag": "shared"}))).await;
    let message = not_ready(&tags, "second", "OwnershipConflict").await;
    assert!(
        message.contains(&format!("{}/first", world.namespace)),
        "{message}"
    );
    tags.delete("first").await;
    tags.wait_gone("first", SOON).await;
    let taken_over = tags.wait_ready("second", SOON).await;
    assert_eq!(taken_over["status"]["createdByObject"], false);
    assert_eq!(account_tags(&world).await, ["there", "shared"]);
    assert_eq!(sent(&world, "DELETE").await, 0);
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
        tags.create(&tag(&name, &json!({"renamePolicy": "Rename"})))
            .await;
        tags.wait_ready(&name, SOON).await;
        let renamed = format!("{name}-renamed");
        tags.merge(&name, &json!({"spec": {"tag": &renamed}})).await;
        tags.wait_for(&name, "renamed", SOON, |tag| {
            (tag["status"]["tag"] == renamed.as_str()).then_some(())
        })
        .await;
        tags.wait_ready(&name, SOON).await;
        assert_eq!(account_tags(&world).await, [renamed.as_str()]);
        tags.delete(&name).await;
        tags.wait_gone(&name, SOON).await;
        assert!(account_tags(&world).await.is_empty());
        let met = world.simulator.faults().await;
        assert!(met.iter().all(|rule| rule["applied"] == 1), "{met:#?}");
        // What arrived was not sent again; what did not arrive was.
        let all = [sent(&world, "POST").await, sent(&world, "PUT").await];
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
        let object = tag(&name, &json!({"renamePolicy": "Rename"}));
        let server = with(&bearer, &json!({"tags": [&name]}));
        if n == 0 {
            tags.create(&object).await;
            tags.wait_ready(&name, SOON).await;
        }
        world.create(&server).await;
        world.wait_ready(&bearer, SOON).await;
        if n > 0 {
            tags.create(&object).await;
        }
        // A change of the count alone is written once a minute.
        tags.wait_for(&name, "counted", 2 * SOON, |tag| {
            (tag["status"]["serverCount"] == 1).then_some(())
        })
        .await;

        // What a rename does to those who bear the tag is not documented.
        let renamed = format!("{name}-renamed");
        tags.merge(&name, &json!({"spec": {"tag": &renamed}})).await;
        tags.wait_for(&name, "renamed", SOON, |tag| {
            (tag["status"]["tag"] == renamed.as_str()).then_some(())
        })
        .await;
        let back = async || {
            let server = world.get(&bearer).await?;
            let tags = super::tags(&machine_of(&world, &server).await);
            tags.contains(&name).then_some(())
        };
        if rename == "follow" {
            eventually("the server has the tag of its spec again", SOON, back).await;
            // The tag is on the server, so it stays until it is forced.
            tags.delete(&name).await;
            not_ready(&tags, &name, "InUse").await;
            assert_eq!(sent(&world, "DELETE").await, 0);
            tags.merge(&name, &json!({"spec": {"force": true}})).await;
        } else {
            // The server's order had made it.
            let delete = json!({"spec": {"deletionPolicy": "Delete"}});
            tags.merge(&name, &delete).await;
            tags.delete(&name).await;
        }
        tags.wait_gone(&name, SOON).await;
        assert!(!account_tags(&world).await.contains(&renamed));
        world.delete(&bearer).await;
        world.wait_gone(&bearer, SOON).await;
        held_nothing(&world).await;
    }
}

#[tokio::test]
async fn tag_rename_waits_until_servers_list_it() {
    let world = World::start(cluster(), "tag-listed").await;
    let tags = tags(&world);
    tags.create(&tag("web", &json!({}))).await;
    tags.wait_ready("web", SOON).await;
    for name in ["one", "two"] {
        world.create(&with(name, &json!({"tags": ["web"]}))).await;
        world.wait_ready(name, SOON).await;
    }
    let lists = async |name: &str| {
        let change = json!({"spec": {"tags": ["www"]}});
        world.merge(name, &change).await;
        eventually("the server has the new tag alone", SOON, async || {
            let server = world.get(name).await?;
            let tags = super::tags(&machine_of(&world, &server).await);
            let has = |tag: &str| tags.iter().any(|t| t == tag);
            (has("www") && !has("web")).then_some(())
        })
        .await;
    };
    lists("one").await;
    let change = json!({"spec": {"tag": "www", "renamePolicy": "Rename"}});
    tags.merge("web", &change).await;
    let told = not_ready(&tags, "web", "InUse").await;
    assert!(
        told.contains("\"web\"") && told.contains("spec.tags"),
        "{told}"
    );
    lists("two").await;
    // Servers brought the new one, so it is not this object's to delete.
    tags.wait_for("web", "renamed", SOON, |tag| {
        (tag["status"]["tag"] == "www" && tag["status"]["createdByObject"] == false).then_some(())
    })
    .await;
    assert_eq!(account_tags(&world).await, ["www"]);
    for name in ["one", "two"] {
        world.delete(name).await;
        world.wait_gone(name, SOON).await;
    }
    tags.delete("web").await;
    tags.wait_gone("web", SOON).await;
    assert_eq!(account_tags(&world).await, ["www"]);
    held_nothing(&world).await;
}

/// No machine is left.
async fn held_nothing(world: &World) {
    assert!(world.simulator.list_live_servers().await.is_empty());
    super::judge(world).await;
}
