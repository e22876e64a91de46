//! Switches about the release of servers and about tags (sections 3.1, 4.4 and 4.6).

use serde_json::{Value, json};

use crate::acts;
use crate::rig::{RELEASE, Rig, SERVERS, order, with};

const TAGS: &str = "/v3/flexMetal/tags";

/// What a DELETE is answered with, and the state that it leads to.
async fn released(rig: &Rig, uuid: &str) -> (u16, String) {
    let (status, _) = rig.delete(&format!("{SERVERS}/{uuid}")).await;
    let state = rig.server(uuid).await["status"].clone();
    (status, state.as_str().unwrap().to_owned())
}

/// A server that bears the tag `t` and is released.
async fn gone(rig: &Rig) -> String {
    let uuid = rig.delivered(order()).await;
    rig.delete(&format!("{SERVERS}/{uuid}")).await;
    rig.advance(RELEASE).await;
    format!("{SERVERS}/{uuid}/tag")
}

acts! {
    contract_act_release_failed "releaseFailed" |rig| {
        rig.steer("settings", json!({"failureRate": 1.0})).await;
        let uuid = rig.delivered(order()).await;
        released(rig, &uuid).await
    } "refuse422" => [422, "failed"], "accept" => [200, "releasing"];

    contract_act_release_while_waiting "releaseWhileWaiting" |rig| {
        let uuid = rig.ordered(order()).await;
        released(rig, &uuid).await
    } "accept" => [200, "releasing"], "refuse409" => [409, "created"], "refuse422" => [422, "created"];

    contract_act_release_releasing "releaseReleasing" |rig| {
        let uuid = rig.delivered(order()).await;
        released(rig, &uuid).await;
        released(rig, &uuid).await
    } "answer200" => [200, "releasing"], "refuse409" => [409, "releasing"];

    contract_act_release_released "releaseReleased" |rig| {
        let uuid = rig.delivered(order()).await;
        released(rig, &uuid).await;
        rig.advance(RELEASE).await;
        released(rig, &uuid).await
    } "refuse422" => [422, "released"], "answer200" => [200, "released"];

    contract_act_tag_released "tagReleased" |rig| {
        rig.call("POST", TAGS, json!({"tag": "x"})).await;
        let tag = gone(rig).await;
        (rig.call("POST", &format!("{tag}/x"), Value::Null).await.0, rig.delete(&format!("{tag}/t")).await.0)
    } "accept" => [200, 200], "refuse422" => [422, 422];

    contract_act_remove_absent_tag "removeAbsentTag" |rig| {
        let uuid = rig.ordered(order()).await;
        let (status, _) = rig.delete(&format!("{SERVERS}/{uuid}/tag/x")).await;
        (status, rig.server(&uuid).await["tags"].clone())
    } "answer404" => [404, ["t"]], "answer200" => [200, ["t"]];

    contract_act_add_unknown_tag "addUnknownTag" |rig| {
        let uuid = rig.ordered(order()).await;
        let (status, _) = rig.call("POST", &format!("{SERVERS}/{uuid}/tag/x"), Value::Null).await;
        (status, rig.server(&uuid).await["tags"].clone(), rig.get(&format!("{TAGS}/x")).await.0)
    } "make" => [200, ["t", "x"], 200], "refuse404" => [404, ["t"], 404];

    // Once removed, and once gone with the only server that bore it.
    contract_act_unused_tags "unusedTags" |rig| {
        let uuid = rig.ordered(with("tags", json!(["off"]))).await;
        rig.delete(&format!("{SERVERS}/{uuid}/tag/off")).await;
        gone(rig).await;
        (rig.get(&format!("{TAGS}/off")).await.0, rig.get(&format!("{TAGS}/t")).await.0)
    } "keep" => [200, 200], "drop" => [404, 404];

    contract_act_delete_used_tag "deleteUsedTag" |rig| {
        let uuid = rig.ordered(order()).await;
        let (status, _) = rig.delete(&format!("{TAGS}/t")).await;
        (status, rig.server(&uuid).await["tags"].clone(), rig.get(&format!("{TAGS}/t")).await.0)
    } "detach" => [204, [], 404], "keep" => [204, ["t"], 404], "refuse409" => [409, ["t"], 200];

    contract_act_rename_tag "renameTag" |rig| {
        let uuid = rig.ordered(order()).await;
        let (status, renamed) = rig.call("PUT", &format!("{TAGS}/t"), json!({"tag": "n"})).await;
        (status, renamed[0]["resources"]["count"].clone(), rig.server(&uuid).await["tags"].clone())
    } "follow" => [200, 1, ["n"]], "detach" => [200, 0, []], "keep" => [200, 0, ["t"]];

    contract_act_duplicate_tag "duplicateTag" |rig| {
        rig.ordered(order()).await;
        (rig.call("POST", TAGS, json!({"tag": "t"})).await.0, rig.get(TAGS).await.1.as_array().unwrap().len())
    } "refuse422" => [422, 1], "refuse409" => [409, 1], "answer200" => [200, 1];
}
