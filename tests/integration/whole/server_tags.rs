//! Tags of servers: an edit is one call for each tag, and what others put on a machine stays or goes by policy.

use serde_json::{Value, json};

use super::{SERVERS, SOON, judge, looks, machine, machine_of, text, with};
use lab::rig::{Fault, World, cluster, condition, eventually};

/// Where tags of machines are changed.
const TAGGED: &str = "/v3/flexMetal/servers/*";

fn uuid(object: &Value) -> &str {
    object["status"]["uuid"].as_str().expect("it has a machine")
}

/// The tags of a machine but for the operator's own, sorted.
async fn tags(world: &World, uuid: &str) -> Vec<String> {
    let mut tags = super::tags(&machine(world, uuid).await);
    tags.retain(|tag| !tag.starts_with("fmo-"));
    tags.sort();
    tags
}

/// The operator's own tags of a machine, sorted.
async fn marks(world: &World, uuid: &str) -> Vec<String> {
    let mut tags = super::tags(&machine(world, uuid).await);
    tags.retain(|tag| tag.starts_with("fmo-"));
    tags.sort();
    tags
}

/// A person puts tags on a machine beside the operator's own.
async fn alter(world: &World, uuid: &str, tags: &[&str]) {
    let marks = marks(world, uuid).await;
    let all = marks.iter().map(String::as_str);
    let all: Vec<&str> = all.chain(tags.iter().copied()).collect();
    world.simulator.alter(uuid, &json!({ "tags": all })).await;
}

async fn becomes(world: &World, uuid: &str, wanted: &[&str]) {
    let what = format!("machine {uuid} bears {wanted:?}");
    eventually(&what, SOON, async || {
        (tags(world, uuid).await == wanted).then_some(())
    })
    .await;
}

async fn in_sync(world: &World) -> Value {
    world
        .wait_for_condition("one", "Synced", "True", Some("InSync"), SOON)
        .await
}

/// The spec was followed: its tags are in sync at this generation. Returns the object.
async fn settles(world: &World) -> Value {
    let look = |object: &Value| {
        let seen = &object["status"]["observedGeneration"];
        let synced = condition(object, "Synced")?;
        let is_done = synced["status"] == "True" && *seen == object["metadata"]["generation"];
        is_done.then(|| object.clone())
    };
    world.wait_for("one", "in sync", SOON, look).await
}

/// The changes of tags of a machine that reached the hosting API, as `POST TAG`, in order.
async fn sent(world: &World, uuid: &str) -> Vec<String> {
    let prefix = format!("{SERVERS}/{uuid}/tag/");
    let ledger = world.simulator.ledger().await;
    let calls = ledger.iter().filter_map(|call| {
        let tag = call["path"].as_str()?.strip_prefix(&prefix)?;
        Some(format!("{} {tag}", text(&call["method"])))
    });
    calls.collect()
}

async fn edit(world: &World, tags: &[&str]) {
    world.merge("one", &json!({"spec": {"tags": tags}})).await;
}

/// A ready server with these tags, and the identifier of its machine.
async fn started(prefix: &str, tags: &[&str]) -> (World, String) {
    let world = World::start(cluster(), prefix).await;
    world.create(&with("one", &json!({ "tags": tags }))).await;
    world.wait_ready("one", SOON).await;
    let object = in_sync(&world).await;
    let uuid = uuid(&object).to_owned();
    let known = object["status"]["records"]["tags"]
        .as_array()
        .map_or(0, Vec::len);
    assert_eq!(known, tags.len(), "{object:#}");
    (world, uuid)
}

#[tokio::test]
async fn tag_edit_is_one_call_and_respects_policy() {
    let (mut world, uuid) = started("server-tags", &["b", "a"]).await;
    let own = marks(&world, &uuid).await;
    assert_eq!(own.len(), 2, "{own:?}");
    alter(&world, &uuid, &["a", "b", "theirs"]).await;
    edit(&world, &["b", "c", "d"]).await;
    becomes(&world, &uuid, &["b", "c", "d", "theirs"]).await;
    let object = settles(&world).await;
    assert_eq!(object["status"]["records"]["tags"], json!(["b", "c", "d"]));
    assert_eq!(sent(&world, &uuid).await, ["DELETE a", "POST c", "POST d"]);
    let line = format!("uuid=\"{uuid}\" tag=\"a\"");
    let log = world.operator().log();
    assert!(log.contains(&line), "{log}");

    // A tag that others put on is theirs, although the spec names it for a while.
    edit(&world, &["b", "c", "d", "theirs"]).await;
    settles(&world).await;
    edit(&world, &["b", "c", "d"]).await;
    let object = settles(&world).await;
    assert_eq!(object["status"]["records"]["tags"], json!(["b", "c", "d"]));
    looks(&world, 3).await;
    assert_eq!(sent(&world, &uuid).await.len(), 3);

    let policy = json!({"spec": {"tagPolicy": "Exact"}});
    world.merge("one", &policy).await;
    becomes(&world, &uuid, &["b", "c", "d"]).await;
    alter(&world, &uuid, &["b", "c", "d", "another"]).await;
    becomes(&world, &uuid, &["b", "c", "d"]).await;
    settles(&world).await;
    assert_eq!(
        sent(&world, &uuid).await[3..],
        ["DELETE theirs", "DELETE another"]
    );
    world
        .merge("one", &json!({"spec": {"tags": null, "tagPolicy": null}}))
        .await;
    becomes(&world, &uuid, &[]).await;
    let object = settles(&world).await;
    assert_eq!(object["status"]["records"]["tags"], Value::Null);
    assert_eq!(marks(&world, &uuid).await, own);
    looks(&world, 3).await;
    assert_eq!(sent(&world, &uuid).await.len(), 8, "one call each");
    judge(&world).await;
}

#[tokio::test]
async fn crash_amid_tag_changes_sends_none_twice() {
    let (mut world, uuid) = started("tags-crash", &["old"]).await;
    let slow = json!({"delay": {"ms": 400, "before": false}});
    let slow = Fault::new(slow).on("POST", TAGGED);
    world.simulator.fault(slow).await;
    edit(&world, &["a", "b", "c", "d"]).await;
    eventually("one of them is made", SOON, async || {
        (sent(&world, &uuid).await.len() >= 3).then_some(())
    })
    .await;
    world.operator().kill9();
    world.operator().restart();
    becomes(&world, &uuid, &["a", "b", "c", "d"]).await;
    let object = settles(&world).await;
    let sent = sent(&world, &uuid).await;
    assert_eq!(sent, ["DELETE old", "POST a", "POST b", "POST c", "POST d"]);
    // Only of the one that was under way nobody knows any more whose it is.
    let known = object["status"]["records"]["tags"]
        .as_array()
        .expect("a list")
        .len();
    assert!(known >= 3, "{object:#}");
    judge(&world).await;
}

#[tokio::test]
async fn lost_tag_answer_is_resolved_by_reading() {
    let (world, uuid) = started("tags-lost", &["old"]).await;
    for method in ["POST", "DELETE"] {
        let lost = Fault::new("dropAfter").on(method, TAGGED).times(1);
        world.simulator.fault(lost).await;
    }
    edit(&world, &["new"]).await;
    becomes(&world, &uuid, &["new"]).await;
    let object = settles(&world).await;
    assert_eq!(sent(&world, &uuid).await, ["DELETE old", "POST new"]);
    assert_eq!(
        object["status"]["records"]["tags"],
        json!(["new"]),
        "it was sent"
    );
    let lost = Fault::new("dropBefore").on("DELETE", TAGGED).times(1);
    world.simulator.fault(lost).await;
    edit(&world, &[]).await;
    becomes(&world, &uuid, &[]).await;
    settles(&world).await;
    assert_eq!(
        sent(&world, &uuid).await[2..],
        ["DELETE new", "DELETE new"],
        "what did not arrive is sent again"
    );
}

#[tokio::test]
async fn repeatedly_removed_tag_is_reported() {
    let (world, uuid) = started("tags-undone", &["a"]).await;
    alter(&world, &uuid, &["theirs"]).await;
    becomes(&world, &uuid, &["a", "theirs"]).await;
    in_sync(&world).await;
    assert_eq!(sent(&world, &uuid).await, ["POST a"]);
    let told = eventually("that is told", SOON, async || {
        if tags(&world, &uuid).await.contains(&"a".to_owned()) {
            alter(&world, &uuid, &["theirs"]).await;
        }
        let object = world.get("one").await?;
        let synced = condition(&object, "Synced")?;
        let is_told = text(&synced["message"]).contains("keeps reverting");
        is_told.then(|| object.clone())
    })
    .await;
    let synced = condition(&told, "Synced").unwrap();
    assert_eq!(synced["reason"], "Progressing");
    assert_eq!(condition(&told, "Ready").unwrap()["status"], "True");
    let calls = sent(&world, &uuid).await.len();
    assert!((5..=6).contains(&calls), "it pauses: {calls}");
    judge(&world).await;
}

#[tokio::test]
async fn suspended_or_full_server_changes_no_tag() {
    let (world, uuid) = started("tags-held", &[]).await;
    let suspended = json!({"spec": {"suspend": true, "tags": ["a"]}});
    world.merge("one", &suspended).await;
    world
        .wait_for_condition("one", "Suspended", "True", Some("Suspended"), SOON)
        .await;
    let held = world
        .wait_for_condition("one", "Synced", "False", Some("PendingChanges"), SOON)
        .await;
    // Whoever waits for the edit does not go on.
    let observed = held["status"]["observedGeneration"].as_i64();
    assert!(observed < held["metadata"]["generation"].as_i64());
    looks(&world, 3).await;
    assert_eq!(sent(&world, &uuid).await, [""; 0]);
    world
        .merge("one", &json!({"spec": {"suspend": null}}))
        .await;
    becomes(&world, &uuid, &["a"]).await;
    settles(&world).await;

    // With the operator's own these are 58.
    let full: Vec<String> = (0..55).map(|n| format!("theirs-{n:02}")).collect();
    let full: Vec<&str> = full.iter().map(String::as_str).chain(["a"]).collect();
    alter(&world, &uuid, &full).await;
    edit(&world, &["a", "b"]).await;
    let held = world
        .wait_for_condition("one", "Synced", "False", Some("TooManyEntries"), SOON)
        .await;
    let message = text(&condition(&held, "Synced").unwrap()["message"]);
    assert!(message.contains("58 of at most 60"), "{message}");
    assert_eq!(condition(&held, "Ready").unwrap()["status"], "True");
    looks(&world, 3).await;
    assert_eq!(sent(&world, &uuid).await, ["POST a"]);
    // What goes makes room.
    edit(&world, &["b"]).await;
    settles(&world).await;
    let now = super::tags(&machine_of(&world, &held).await);
    assert_eq!(now.len(), 58);
    assert_eq!(sent(&world, &uuid).await, ["POST a", "DELETE a", "POST b"]);
    judge(&world).await;
}
