//! Tags: by use, looked up, added, removed, deleted.

use super::*;

fn tag_of(uuid: &str, tag: &str) -> String {
    format!("{SERVERS}/{uuid}/tag/{tag}")
}

#[tokio::test]
async fn tags_come_to_be_by_use_and_outlive_it() {
    let rig = Rig::new().await;
    refused(rig.get("/v3/flexMetal/tags/t:1").await, 404);
    let uuid = rig.order("a", &["t:1"]).await;
    let record = |count| json!([{"tag": "t:1", "resources": {"count": count, "flexMetalServers": {"count": count}}}]);
    assert_eq!(rig.get("/v3/flexMetal/tags/t:1").await, (200, record(1)));
    assert_eq!(rig.get("/v3/flexMetal/tags/t%3A1").await, (200, record(1)));
    rig.delete(&tag_of(&uuid, "t:1")).await;
    assert_eq!(rig.get("/v3/flexMetal/tags/t:1").await, (200, record(0)));
    assert_eq!(
        rig.delete("/v3/flexMetal/tags/t:1").await,
        (204, Value::Null)
    );
    refused(rig.get("/v3/flexMetal/tags/t:1").await, 404);
    refused(rig.delete("/v3/flexMetal/tags/t:1").await, 404);
}

#[tokio::test]
async fn a_tag_is_added_once_and_removed_once() {
    let rig = Rig::new().await;
    let uuid = rig.order("a", &["x"]).await;
    let (status, answer) = rig.post(&tag_of(&uuid, "y"), &Value::Null).await;
    assert_eq!((status, &answer[0]["tags"]), (200, &json!(["x", "y"])));
    let (status, answer) = rig.post(&tag_of(&uuid, "y"), &Value::Null).await;
    assert_eq!((status, &answer[0]["tags"]), (200, &json!(["x", "y"])));
    assert_eq!(rig.names("/v3/flexMetal/servers?tag=y").await, ["a"]);
    let (status, answer) = rig.delete(&tag_of(&uuid, "x")).await;
    assert_eq!((status, &answer[0]["tags"]), (200, &json!(["y"])));
    assert_eq!(rig.names("/v3/flexMetal/servers?tag=x").await, [""; 0]);
    refused(rig.delete(&tag_of(&uuid, "x")).await, 404);
    rig.turn("removeAbsentTag", "answer200").await;
    assert_eq!(rig.delete(&tag_of(&uuid, "x")).await.0, 200);
}

#[tokio::test]
async fn the_61st_tag_and_a_bad_one_are_refused() {
    let rig = Rig::new().await;
    let tags: Vec<String> = (0..60).map(|number| format!("t{number}")).collect();
    let tags: Vec<&str> = tags.iter().map(String::as_str).collect();
    let uuid = rig.order("a", &tags).await;
    refused(rig.post(&tag_of(&uuid, "more"), &Value::Null).await, 422);
    refused(
        rig.post(&tag_of(&uuid, "no%20blank"), &Value::Null).await,
        422,
    );
    assert_eq!(
        rig.post(&tag_of(&uuid, "t7"), &Value::Null).await.0,
        200,
        "borne already"
    );
    assert_eq!(
        rig.server(&uuid).await["tags"].as_array().unwrap().len(),
        60
    );
}

#[tokio::test]
async fn deleting_a_used_tag_follows_its_switch() {
    let rig = Rig::new().await;
    let uuid = rig.order("a", &["t"]).await;
    rig.turn("deleteUsedTag", "refuse409").await;
    refused(rig.delete("/v3/flexMetal/tags/t").await, 409);
    rig.turn("deleteUsedTag", "keep").await;
    assert_eq!(rig.delete("/v3/flexMetal/tags/t").await.0, 204);
    assert_eq!(rig.server(&uuid).await["tags"], json!(["t"]));
    rig.turn("deleteUsedTag", "detach").await;
    rig.order("b", &["t"]).await;
    assert_eq!(rig.delete("/v3/flexMetal/tags/t").await.0, 204);
    assert_eq!(rig.names("/v3/flexMetal/servers?tag=t").await, [""; 0]);
    assert_eq!(rig.server(&uuid).await["tags"], json!([]));
}

#[tokio::test]
async fn released_machines_and_unused_tags_follow_their_switches() {
    let rig = Rig::new().await;
    let uuid = rig.order("a", &["t"]).await;
    rig.delete(&format!("{SERVERS}/{uuid}")).await;
    rig.advance(RELEASE).await;
    assert_eq!(rig.post(&tag_of(&uuid, "late"), &Value::Null).await.0, 200);
    rig.turn("tagReleased", "refuse422").await;
    refused(rig.delete(&tag_of(&uuid, "late")).await, 422);
    assert_eq!(
        rig.get("/v3/flexMetal/tags/t").await.0,
        200,
        "stays until deleted"
    );

    rig.turn("unusedTags", "drop").await;
    let uuid = rig.order("b", &["u", "v"]).await;
    rig.delete(&tag_of(&uuid, "v")).await;
    refused(rig.get("/v3/flexMetal/tags/v").await, 404);
    rig.delete(&format!("{SERVERS}/{uuid}")).await;
    assert_eq!(rig.get("/v3/flexMetal/tags/u").await.0, 200);
    rig.advance(RELEASE).await;
    refused(rig.get("/v3/flexMetal/tags/u").await, 404);
}

#[tokio::test]
async fn the_tag_list_has_pages_of_25() {
    let rig = Rig::new().await;
    let tags: Vec<String> = (0..30).map(|number| format!("t{number}")).collect();
    let tags: Vec<&str> = tags.iter().map(String::as_str).collect();
    rig.order("a", &tags).await;
    let (_, page) = rig.get("/v3/flexMetal/tags").await;
    assert_eq!(page.as_array().unwrap().len(), 25);
    let (_, page) = rig
        .ranged("/v3/flexMetal/tags", "start=25,results=25")
        .await;
    let shown: Vec<&str> = page
        .as_array()
        .unwrap()
        .iter()
        .map(|tag| tag["tag"].as_str().unwrap())
        .collect();
    assert_eq!(shown, ["t25", "t26", "t27", "t28", "t29"]);
}
