//! The hardware of a machine, in status and in a ConfigMap.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, api::PostParams};
use lab::rig::{Plan, World, cluster};
use serde_json::{Value, json};

use super::{SOON, text, with};

const HOUR: i64 = 3600;

#[tokio::test]
async fn the_hardware_is_told_once_and_its_listing_written_where_that_is_asked_for() {
    let now = jiff::Timestamp::now().as_second();
    let plan = Plan {
        simulator: vec![format!("--clock-start={}", now - HOUR)],
        ..Plan::default()
    };
    let mut world = World::prepare(cluster(), "hardware", plan).await;
    world.start_operator();
    let machine = json!({"name": "web", "location": "EU: Rotterdam", "instanceType": "bm7.std.8"});
    let uuid = text(&world.simulator.appear(&machine).await["uuid"]);
    // Delivered an hour ago, by both clocks.
    world.simulator.advance(3600.0).await;
    let web = with("web", &json!({"externalID": uuid}));
    world.create(&web).await;
    let told = |object: &Value| {
        let hardware = &object["status"]["hardware"];
        (hardware["machine"] == uuid.as_str()).then(|| hardware.clone())
    };
    let hardware = world.wait_for("web", "its hardware", SOON, told).await;
    assert!(hardware["cpu"]["count"].as_i64() > Some(0), "{hardware:#}");
    assert!(hardware["memoryBytes"].as_i64() > Some(1 << 30));
    assert!(hardware["disks"][0]["sizeBytes"].as_i64() > Some(0));
    assert!(hardware["interfaces"][0]["name"].is_string());

    // A ConfigMap of somebody else is not touched.
    let maps: Api<ConfigMap> = Api::namespaced(world.client.clone(), &world.namespace);
    let theirs = json!({"metadata": {"name": "theirs"}, "data": {"mine": "stays"}});
    let theirs: ConfigMap = serde_json::from_value(theirs).unwrap();
    maps.create(&PostParams::default(), &theirs).await.unwrap();
    let asks = |name: &str| json!({"spec": {"hardware": {"configMapRef": {"name": name}}}});
    world.merge("web", &asks("theirs")).await;
    world
        .wait_for("web", "told of the name", SOON, |object| {
            let message = text(&object["status"]["hardware"]["message"]);
            message.contains("name another").then_some(())
        })
        .await;
    let stays = maps.get("theirs").await.unwrap().data.unwrap();
    assert_eq!(stays["mine"], "stays");

    world.merge("web", &asks("web-hardware")).await;
    world
        .wait_for("web", "written", SOON, |object| {
            let hardware = &object["status"]["hardware"];
            let is_it = hardware["configMap"] == "web-hardware" && hardware["message"].is_null();
            is_it.then_some(())
        })
        .await;
    let written = maps.get("web-hardware").await.unwrap();
    let listing: Value = serde_json::from_str(&written.data.unwrap()["lshw.json"]).unwrap();
    assert_eq!(listing["class"], "system");
    let owner = &written.metadata.owner_references.unwrap()[0];
    assert_eq!((owner.name.as_str(), owner.controller), ("web", Some(true)));

    // It is not polled: one look for the summary, one for each name.
    let counts = world.simulator.counts().await;
    let looks = counts.iter().find(|(call, _)| call.contains("lshw"));
    assert_eq!(looks.map(|(_, count)| *count), Some(3), "{counts:?}");
}
