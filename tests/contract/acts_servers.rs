//! Switches about the release of servers (sections 3.1 and 4.4).

use serde_json::json;

use crate::acts;
use crate::rig::{RELEASE, Rig, SERVERS, order};

/// What a DELETE is answered with, and the state that it leads to.
async fn released(rig: &Rig, uuid: &str) -> (u16, String) {
    let (status, _) = rig.delete(&format!("{SERVERS}/{uuid}")).await;
    let state = rig.server(uuid).await["status"].clone();
    (status, state.as_str().unwrap().to_owned())
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
    } "accept" => [200, "releasing"], "refuse409" => [409, "created"];

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
}
