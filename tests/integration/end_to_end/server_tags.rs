//! Tags of servers: an edit causes one call per tag, and the tag policy decides about tags of others.

use serde_json::{Value, json};

use super::{
    SERVERS, SOON, build_server, check_invariants, get_server, get_server_of, text, wait_for_polls,
};
use lab::rig::{Fault, World, cluster, condition, eventually};

/// The path of changes to a server's tags.
const TAGGED: &str = "/v3/flexMetal/servers/*";

fn uuid(object: &Value) -> &str {
    object["status"]["uuid"].as_str().expect("it has a server")
}

/// The tags of a server without the operator's own, sorted.
async fn list_user_tags(world: &World, uuid: &str) -> Vec<String> {
    let mut tags = super::list_tags(&get_server(world, uuid).await);
    tags.retain(|tag| !tag.starts_with("fmo-"));
    tags.sort();
    tags
}

/// The operator's own tags of a server, sorted.
async fn list_own_tags(world: &World, uuid: &str) -> Vec<String> {
    let mut tags = super::list_tags(&get_server(world, uuid).await);
    tags.retain(|tag| tag.starts_with("fmo-"));
    tags.sort();
    tags
}

/// Sets a server's tags by hand, next to the operator's own.
async fn set_user_tags(world: &World, uuid: &str, tags: &[&str]) {
    let own_tags = list_own_tags(world, uuid).await;
    let all = own_tags.iter().map(String::as_str);
    let all: Vec<&str> = all.chain(tags.iter().copied()).collect();
    world.simulator.alter(uuid, &json!({ "tags": all })).await;
}

async fn wait_for_user_tags(world: &World, uuid: &str, wanted: &[&str]) {
    let what = format!("server {uuid} has {wanted:?}");
    eventually(&what, SOON, async || {
        (list_user_tags(world, uuid).await == wanted).then_some(())
    })
    .await;
}

async fn wait_until_synced(world: &World) -> Value {
    world
        .wait_for_condition("one", "Synced", "True", Some("InSync"), SOON)
        .await
}

/// Waits until the tags are in sync at the current generation. Returns the object.
async fn wait_until_settled(world: &World) -> Value {
    let settled = |object: &Value| {
        let seen = &object["status"]["observedGeneration"];
        let synced = condition(object, "Synced")?;
        let is_done = synced["status"] == "True" && *seen == object["metadata"]["generation"];
        is_done.then(|| object.clone())
    };
    world.wait_for("one", "in sync", SOON, settled).await
}

/// The tag changes of a server that reached the hosting API, as `POST TAG`, in order.
async fn list_sent_changes(world: &World, uuid: &str) -> Vec<String> {
    let prefix = format!("{SERVERS}/{uuid}/tag/");
    let ledger = world.simulator.ledger().await;
    let calls = ledger.iter().filter_map(|call| {
        let tag = call["path"].as_str()?.strip_prefix(&prefix)?;
        Some(format!("{} {tag}", text(&call["method"])))
    });
    calls.collect()
}

async fn edit_tags(world: &World, tags: &[&str]) {
    world.merge("one", &json!({"spec": {"tags": tags}})).await;
}

/// A ready server with these tags, and the UUID of the provider's server.
async fn start_with_tags(prefix: &str, tags: &[&str]) -> (World, String) {
    let world = World::start(cluster(), prefix).await;
    world
        .create(&build_server("one", &json!({ "tags": tags })))
        .await;
    world.wait_ready("one", SOON).await;
    let object = wait_until_synced(&world).await;
    let uuid = uuid(&object).to_owned();
    let known = object["status"]["records"]["tags"]
        .as_array()
        .map_or(0, Vec::len);
    assert_eq!(known, tags.len(), "{object:#}");
    (world, uuid)
}

#[tokio::test]
async fn tag_edit_is_one_call_and_respects_policy() {
    let (mut world, uuid) = start_with_tags("server-tags", &["b", "a"]).await;
    let own = list_own_tags(&world, &uuid).await;
    assert_eq!(own.len(), 2, "{own:?}");
    set_user_tags(&world, &uuid, &["a", "b", "theirs"]).await;
    edit_tags(&world, &["b", "c", "d"]).await;
    wait_for_user_tags(&world, &uuid, &["b", "c", "d", "theirs"]).await;
    let object = wait_until_settled(&world).await;
    assert_eq!(object["status"]["records"]["tags"], json!(["b", "c", "d"]));
    assert_eq!(
        list_sent_changes(&world, &uuid).await,
        ["DELETE a", "POST c", "POST d"]
    );
    let line = format!("uuid=\"{uuid}\" tag=\"a\"");
    let log = world.operator().log();
    assert!(log.contains(&line), "{log}");

    // A tag that others added stays theirs, although the spec lists it for a while.
    edit_tags(&world, &["b", "c", "d", "theirs"]).await;
    wait_until_settled(&world).await;
    edit_tags(&world, &["b", "c", "d"]).await;
    let object = wait_until_settled(&world).await;
    assert_eq!(object["status"]["records"]["tags"], json!(["b", "c", "d"]));
    wait_for_polls(&world, 3).await;
    assert_eq!(list_sent_changes(&world, &uuid).await.len(), 3);

    let policy = json!({"spec": {"tagPolicy": "Exact"}});
    world.merge("one", &policy).await;
    wait_for_user_tags(&world, &uuid, &["b", "c", "d"]).await;
    set_user_tags(&world, &uuid, &["b", "c", "d", "another"]).await;
    wait_for_user_tags(&world, &uuid, &["b", "c", "d"]).await;
    wait_until_settled(&world).await;
    assert_eq!(
        list_sent_changes(&world, &uuid).await[3..],
        ["DELETE theirs", "DELETE another"]
    );
    world
        .merge("one", &json!({"spec": {"tags": null, "tagPolicy": null}}))
        .await;
    wait_for_user_tags(&world, &uuid, &[]).await;
    let object = wait_until_settled(&world).await;
    assert_eq!(object["status"]["records"]["tags"], Value::Null);
    assert_eq!(list_own_tags(&world, &uuid).await, own);
    wait_for_polls(&world, 3).await;
    assert_eq!(
        list_sent_changes(&world, &uuid).await.len(),
        8,
        "one call each"
    );
    check_invariants(&world).await;
}

#[tokio::test]
async fn crash_amid_tag_changes_sends_none_twice() {
    let (mut world, uuid) = start_with_tags("tags-crash", &["old"]).await;
    let slow = json!({"delay": {"ms": 400, "before": false}});
    let slow = Fault::new(slow).on("POST", TAGGED);
    world.simulator.fault(slow).await;
    edit_tags(&world, &["a", "b", "c", "d"]).await;
    eventually("one of them is made", SOON, async || {
        (list_sent_changes(&world, &uuid).await.len() >= 3).then_some(())
    })
    .await;
    world.operator().kill9();
    world.operator().restart();
    wait_for_user_tags(&world, &uuid, &["a", "b", "c", "d"]).await;
    let object = wait_until_settled(&world).await;
    let sent = list_sent_changes(&world, &uuid).await;
    assert_eq!(sent, ["DELETE old", "POST a", "POST b", "POST c", "POST d"]);
    // Only for the tag of the interrupted call, it is unknown who added it.
    let known = object["status"]["records"]["tags"]
        .as_array()
        .expect("a list")
        .len();
    assert!(known >= 3, "{object:#}");
    check_invariants(&world).await;
}

#[tokio::test]
async fn lost_tag_answer_is_resolved_by_reading() {
    let (world, uuid) = start_with_tags("tags-lost", &["old"]).await;
    for method in ["POST", "DELETE"] {
        let lost = Fault::new("dropAfter").on(method, TAGGED).times(1);
        world.simulator.fault(lost).await;
    }
    edit_tags(&world, &["new"]).await;
    wait_for_user_tags(&world, &uuid, &["new"]).await;
    let object = wait_until_settled(&world).await;
    assert_eq!(
        list_sent_changes(&world, &uuid).await,
        ["DELETE old", "POST new"]
    );
    assert_eq!(
        object["status"]["records"]["tags"],
        json!(["new"]),
        "it was sent"
    );
    let lost = Fault::new("dropBefore").on("DELETE", TAGGED).times(1);
    world.simulator.fault(lost).await;
    edit_tags(&world, &[]).await;
    wait_for_user_tags(&world, &uuid, &[]).await;
    wait_until_settled(&world).await;
    assert_eq!(
        list_sent_changes(&world, &uuid).await[2..],
        ["DELETE new", "DELETE new"],
        "what did not arrive is sent again"
    );
}

#[tokio::test]
async fn repeatedly_removed_tag_is_reported() {
    let (world, uuid) = start_with_tags("tags-undone", &["a"]).await;
    set_user_tags(&world, &uuid, &["theirs"]).await;
    wait_for_user_tags(&world, &uuid, &["a", "theirs"]).await;
    wait_until_synced(&world).await;
    assert_eq!(list_sent_changes(&world, &uuid).await, ["POST a"]);
    let reported = eventually("that is reported", SOON, async || {
        if list_user_tags(&world, &uuid)
            .await
            .contains(&"a".to_owned())
        {
            set_user_tags(&world, &uuid, &["theirs"]).await;
        }
        let object = world.get("one").await?;
        let synced = condition(&object, "Synced")?;
        let is_reported = text(&synced["message"]).contains("keeps reverting");
        is_reported.then(|| object.clone())
    })
    .await;
    let synced = condition(&reported, "Synced").unwrap();
    assert_eq!(synced["reason"], "Progressing");
    assert_eq!(condition(&reported, "Ready").unwrap()["status"], "True");
    let calls = list_sent_changes(&world, &uuid).await.len();
    assert!((5..=6).contains(&calls), "it pauses: {calls}");
    check_invariants(&world).await;
}

#[tokio::test]
async fn suspended_or_full_server_changes_no_tag() {
    let (world, uuid) = start_with_tags("tags-held", &[]).await;
    let suspended = json!({"spec": {"suspend": true, "tags": ["a"]}});
    world.merge("one", &suspended).await;
    world
        .wait_for_condition("one", "Suspended", "True", Some("Suspended"), SOON)
        .await;
    let blocked = world
        .wait_for_condition("one", "Synced", "False", Some("PendingChanges"), SOON)
        .await;
    // Tools that wait for the edit keep waiting.
    let observed = blocked["status"]["observedGeneration"].as_i64();
    assert!(observed < blocked["metadata"]["generation"].as_i64());
    wait_for_polls(&world, 3).await;
    assert_eq!(list_sent_changes(&world, &uuid).await, [""; 0]);
    world
        .merge("one", &json!({"spec": {"suspend": null}}))
        .await;
    wait_for_user_tags(&world, &uuid, &["a"]).await;
    wait_until_settled(&world).await;

    // Together with the operator's own there are 58 tags.
    let full: Vec<String> = (0..55).map(|n| format!("theirs-{n:02}")).collect();
    let full: Vec<&str> = full.iter().map(String::as_str).chain(["a"]).collect();
    set_user_tags(&world, &uuid, &full).await;
    edit_tags(&world, &["a", "b"]).await;
    let blocked = world
        .wait_for_condition("one", "Synced", "False", Some("TooManyEntries"), SOON)
        .await;
    let message = text(&condition(&blocked, "Synced").unwrap()["message"]);
    assert!(message.contains("58 of at most 60"), "{message}");
    assert_eq!(condition(&blocked, "Ready").unwrap()["status"], "True");
    wait_for_polls(&world, 3).await;
    assert_eq!(list_sent_changes(&world, &uuid).await, ["POST a"]);
    // A removed tag frees space for another one.
    edit_tags(&world, &["b"]).await;
    wait_until_settled(&world).await;
    let now = super::list_tags(&get_server_of(&world, &blocked).await);
    assert_eq!(now.len(), 58);
    assert_eq!(
        list_sent_changes(&world, &uuid).await,
        ["POST a", "DELETE a", "POST b"]
    );
    check_invariants(&world).await;
}
