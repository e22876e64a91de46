//! `spec.power`: one command for each change of the desired state.

use super::{SOON, change_account, text};
use lab::rig::{World, cluster, condition, server};
use serde_json::{Value, json};
use std::time::Duration;

/// The actions sent to a server, the latest one first.
async fn list_sent_actions(world: &World, uuid: &str) -> Vec<String> {
    let path = format!("/v3/flexMetal/servers/{uuid}/commands");
    let shown = world.simulator.records(&path).await;
    shown.iter().map(|c| text(&c["type"])).collect()
}

/// Waits until the latest change has this state.
async fn wait_for_power_result(world: &World, desired: &str, state: &str) -> Value {
    wait_for_power_result_within(world, desired, state, SOON).await
}

async fn wait_for_power_result_within(
    world: &World,
    desired: &str,
    state: &str,
    within: Duration,
) -> Value {
    world
        .wait_for("web", &format!("{desired} is {state}"), within, |object| {
            let power = &object["status"]["records"]["power"];
            let is_it = power["desired"] == desired && power["command"]["state"] == state;
            is_it.then(|| object.clone())
        })
        .await
}

#[tokio::test]
async fn only_changed_power_sends_a_command() {
    let mut world = World::start(cluster(), "power").await;
    let mut web = server("web");
    web["spec"]["power"] = json!("PoweredOff");
    world.create(&web).await;
    let ready = world.wait_ready("web", SOON).await;
    let uuid = text(&ready["status"]["uuid"]);
    let patch = |power: Value| json!({"spec": power});
    assert_eq!(ready["status"]["records"]["power"]["desired"], "PoweredOff");
    assert!(
        list_sent_actions(&world, &uuid).await.is_empty(),
        "at first sight"
    );

    world
        .merge("web", &patch(json!({"power": "PoweredOn"})))
        .await;
    wait_for_power_result(&world, "PoweredOn", "Complete").await;
    let commands = list_sent_actions(&world, &uuid).await;
    assert_eq!(commands.len(), 1, "{commands:?}");

    // Neither a restart nor another edit sends it again.
    world.operator().restart();
    world.merge("web", &patch(json!({"tags": ["after"]}))).await;
    world
        .simulator
        .settings(&json!({"commandFailureRate": 1.0}))
        .await;
    let more = patch(json!({"power": "PoweredOff"}));
    world.merge("web", &more).await;
    let failed = wait_for_power_result(&world, "PoweredOff", "Failed").await;
    world
        .wait_for_condition("web", "Synced", "False", Some("CommandFailed"), SOON)
        .await;
    assert!(condition(&failed, "Ready").is_some_and(|c| c["status"] == "True"));
    assert_eq!(list_sent_actions(&world, &uuid).await.len(), 2);

    world
        .simulator
        .settings(&json!({"commandFailureRate": 0.0}))
        .await;
    world.merge("web", &patch(json!({"power": null}))).await;
    world
        .wait_for("web", "without a wish", SOON, |object| {
            object["status"]["records"]["power"]["desired"]
                .is_null()
                .then_some(())
        })
        .await;
    world
        .merge("web", &patch(json!({"power": "PoweredOff"})))
        .await;
    wait_for_power_result(&world, "PoweredOff", "Complete").await;
    assert_eq!(list_sent_actions(&world, &uuid).await.len(), 3);

    // Its commands are deleted with it.
    world.delete("web").await;
    world.wait_gone("web", SOON).await;
}

/// The next poll of the server comes half a minute after the command's end or later.
#[tokio::test]
async fn slow_polls_still_record_command_end() {
    let world = World::start(cluster(), "power-end").await;
    world.create(&server("web")).await;
    world.wait_ready("web", SOON).await;
    world
        .wait_for("web", "first sight on record", SOON, |object| {
            let power = &object["status"]["records"]["power"];
            power.is_object().then_some(())
        })
        .await;
    let slow =
        json!({"spec": {"timing": {"activePollInterval": "30s", "idlePollInterval": "60s"}}});
    change_account(&world, "default", &slow).await;
    let off = json!({"spec": {"power": "PoweredOff"}});
    world.merge("web", &off).await;
    let created = wait_for_power_result(&world, "PoweredOff", "Created").await;
    let name = text(&created["status"]["records"]["power"]["command"]["name"]);
    let commands = world.things_in(&world.namespace, "ServerCommand");
    commands
        .wait_for_condition(&name, "Complete", "True", None, SOON)
        .await;
    wait_for_power_result_within(&world, "PoweredOff", "Complete", SOON / 9).await;
}
