//! Power commands: sent once, followed to their end, one after the other.

use serde_json::{Value, json};

use super::{SOON, text};
use lab::rig::{
    Fault, Things, World, WorldOptions, cluster, condition, eventually, quick_timing, server,
};

/// A command object.
fn command(name: &str, spec: &Value) -> Value {
    let mut object = json!({
        "apiVersion": "flexmetal.dev/v1alpha1", "kind": "ServerCommand",
        "metadata": {"name": name},
        "spec": {"targetRef": {"name": "web"}, "action": "Reboot"},
    });
    for (field, value) in spec.as_object().expect("fields of a spec") {
        object["spec"][field] = value.clone();
    }
    object
}

fn commands(world: &World) -> Things {
    world.things("ServerCommand")
}

/// A world with a delivered server `web`; gives its machine.
async fn with_server(prefix: &str) -> (World, String) {
    let world = World::start(cluster(), prefix).await;
    world.create(&server("web")).await;
    let ready = world.wait_ready("web", SOON).await;
    let uuid = text(&ready["status"]["uuid"]);
    (world, uuid)
}

/// The commands that a machine has, at the provider.
async fn at_provider(world: &World, uuid: &str) -> Vec<Value> {
    let path = format!("/v3/flexMetal/servers/{uuid}/commands");
    world.simulator.records(&path).await
}

/// Waits for the end of a command: well, or badly.
async fn over(world: &World, name: &str, kind: &str) -> Value {
    commands(world)
        .wait_for_condition(name, kind, "True", None, SOON)
        .await
}

#[tokio::test]
async fn command_is_sent_once_and_expires() {
    let (world, uuid) = with_server("command").await;
    let all = commands(&world);
    all.create(&command("reboot", &json!({}))).await;
    let done = over(&world, "reboot", "Complete").await;
    let shown = at_provider(&world, &uuid).await;
    assert_eq!(shown.len(), 1, "{shown:?}");
    assert_eq!(shown[0]["uuid"], done["status"]["commandID"]);
    assert_eq!(done["status"]["providerState"], "finished");
    assert_eq!(
        condition(&done, "Ready").expect("it is told")["status"],
        "True"
    );

    world
        .simulator
        .settings(&json!({"commandFailureRate": 1.0}))
        .await;
    all.create(&command("fails", &json!({"action": "PowerOff"})))
        .await;
    let failed = over(&world, "fails", "Failed").await;
    let reason = &condition(&failed, "Failed").expect("it is told")["reason"];
    assert_eq!(reason, "CommandFailed");
    world
        .simulator
        .settings(&json!({"commandFailureRate": 0.0}))
        .await;

    all.create(&command("short", &json!({"ttlSecondsAfterFinished": 0})))
        .await;
    all.wait_gone("short", SOON).await;
    // What is over holds nobody up.
    for name in ["reboot", "fails"] {
        all.delete(name).await;
        all.wait_gone(name, SOON).await;
    }
    assert_eq!(at_provider(&world, &uuid).await.len(), 3);
}

#[tokio::test]
async fn lost_command_answer_resends_nothing() {
    let (mut world, uuid) = with_server("command-lost").await;
    let all = commands(&world);
    let path = format!("/v3/flexMetal/servers/{uuid}/commands");
    let lost = Fault::new("dropAfter").on("POST", &path).times(1);
    world.simulator.fault(lost).await;
    all.create(&command("lost", &json!({}))).await;
    over(&world, "lost", "Complete").await;
    assert_eq!(at_provider(&world, &uuid).await.len(), 1);

    // A request that never arrived is not sent again either: nobody knows.
    let lost = Fault::new("dropBefore").on("POST", &path).times(1);
    world.simulator.fault(lost).await;
    all.create(&command("never", &json!({}))).await;
    let failed = over(&world, "never", "Failed").await;
    let reason = &condition(&failed, "Failed").expect("it is told")["reason"];
    assert_eq!(reason, "OutcomeUnknown");
    assert_eq!(at_provider(&world, &uuid).await.len(), 1);

    // The operator ends while the answer is on its way.
    let slow = Fault::new(json!({"delay": {"ms": 20_000, "before": true}}))
        .on("POST", &path)
        .times(1);
    world.simulator.fault(slow).await;
    all.create(&command("killed", &json!({}))).await;
    all.wait_for("killed", "started", SOON, |object| {
        (!object["status"]["records"]["sent"].is_null()).then_some(())
    })
    .await;
    world.operator().kill9();
    world.operator().restart();
    world.simulator.clear_faults().await;
    // Whether it arrived or not, it is not sent again.
    all.wait_for("killed", "over", SOON, |object| {
        let is = |kind| condition(object, kind).is_some_and(|c| c["status"] == "True");
        (is("Complete") || is("Failed")).then_some(())
    })
    .await;
    assert!(at_provider(&world, &uuid).await.len() <= 2);
}

#[tokio::test]
async fn server_commands_run_before_its_release() {
    let (mut world, uuid) = with_server("command-row").await;
    let all = commands(&world);
    // Each takes for ever, until the clock is moved.
    world
        .simulator
        .settings(&json!({"commandSeconds": 3600.0}))
        .await;
    all.create(&command("first", &json!({}))).await;
    all.wait_for("first", "sent", SOON, |object| {
        (object["status"]["providerState"] == "pending").then_some(())
    })
    .await;
    all.create(&command("second", &json!({"action": "Shutdown"})))
        .await;
    let queued = all
        .wait_for_condition("second", "Ready", "False", Some("Queued"), SOON)
        .await;
    let message = text(&condition(&queued, "Ready").expect("it is told")["message"]);
    assert!(message.contains("goes first"), "{message}");
    // A command for a server that does not exist holds nobody up.
    let nowhere = json!({"targetRef": {"name": "nowhere"}});
    all.create(&command("nowhere", &nowhere)).await;
    all.wait_for_condition("nowhere", "Ready", "False", Some("ReferenceNotFound"), SOON)
        .await;

    // One that was never sent and that others hold is in nobody's way, nor is it known to anybody any more.
    let mut held = command("held", &json!({}));
    held["metadata"]["finalizers"] = json!(["example.com/theirs"]);
    all.create(&held).await;
    all.delete("held").await;

    world.delete("web").await;
    world
        .wait_for_condition("web", "Ready", "False", Some("Queued"), SOON)
        .await;
    // Nor does a process that has just started take it for over before it has listed it.
    world.operator().restart();
    world
        .wait_for_condition("web", "Ready", "False", Some("Queued"), SOON)
        .await;
    assert_eq!(at_provider(&world, &uuid).await.len(), 1);
    assert!(released(&world).await.is_empty());
    world.simulator.advance(7200.0).await;
    over(&world, "first", "Complete").await;
    let ending = over(&world, "second", "Failed").await;
    let reason = &condition(&ending, "Failed").expect("it is told")["reason"];
    assert_eq!(reason, "Superseded");
    world.wait_gone("web", SOON).await;
    assert_eq!(at_provider(&world, &uuid).await.len(), 1);
    assert_eq!(released(&world).await, [uuid]);
    all.merge("held", &json!({"metadata": {"finalizers": null}}))
        .await;
    all.wait_gone("held", SOON).await;
}

/// The machines that are released.
async fn released(world: &World) -> Vec<String> {
    let machines = world.simulator.list_servers().await;
    let released = machines.iter().filter(|m| m["status"] == "released");
    released.map(|machine| text(&machine["uuid"])).collect()
}

#[tokio::test]
async fn no_command_is_sent_once_release_starts() {
    // Long enough that the command is still in its time when the list is there.
    let mut timing = quick_timing();
    timing["absenceGracePeriod"] = json!("2m");
    let plan = WorldOptions {
        timing,
        ..WorldOptions::default()
    };
    let mut world = World::prepare(cluster(), "command-late", plan).await;
    world.start_operator();
    world.create(&server("web")).await;
    let ready = world.wait_ready("web", SOON).await;
    let uuid = text(&ready["status"]["uuid"]);
    let all = commands(&world);
    // It has read its server, and waits for the list of the machine's commands.
    let path = format!("/v3/flexMetal/servers/{uuid}/commands");
    let slow = Fault::new(json!({"delay": {"ms": 8_000, "before": true}}))
        .on("GET", &path)
        .times(1);
    world.simulator.fault(slow).await;
    all.create(&command("late", &json!({}))).await;
    eventually("it waits", SOON, async || {
        let faults = world.simulator.faults().await;
        (faults[0]["applied"] == 1).then_some(())
    })
    .await;
    world.delete("web").await;
    all.wait_for("late", "noted and not sent", SOON, |object| {
        (object["status"]["records"]["sent"][0]["outcome"] == "NotSent").then_some(())
    })
    .await;
    let ledger = world.simulator.ledger().await;
    let sent = ledger.iter().filter(|call| {
        let to = call["path"].as_str().unwrap_or_default();
        call["method"] == "POST" && to.trim_end_matches('/').ends_with("/commands")
    });
    assert_eq!(sent.count(), 0);
    world.wait_gone("web", SOON).await;
}

#[tokio::test]
async fn hanging_shutdown_escalates_to_power_off() {
    let (world, uuid) = with_server("command-off").await;
    let all = commands(&world);
    let path = format!("/v3/flexMetal/servers/{uuid}/commands");
    // More than the pages that are allowed for at first show, over hours.
    world
        .simulator
        .settings(&json!({"commandSeconds": 1.0}))
        .await;
    for _ in 0..4 {
        for _ in 0..100 {
            let reboot = json!({"command": "reboot"});
            let (status, answer) = world.simulator.call("POST", &path, Some(&reboot)).await;
            assert!(status < 300, "{answer}");
        }
        world.simulator.advance(7200.0).await;
    }
    world
        .simulator
        .settings(&json!({"commandSeconds": 36000.0}))
        .await;
    let hangs = json!({"action": "Shutdown", "escalateAfter": "10s"});
    all.create(&command("off", &hangs)).await;
    all.wait_for("off", "escalated", SOON, |object| {
        let sent = object["status"]["records"]["sent"].as_array()?;
        (sent.len() == 2 && sent[1]["state"] == "pending").then_some(())
    })
    .await;
    world.simulator.advance(72000.0).await;
    let done = over(&world, "off", "Complete").await;
    let shown = at_provider(&world, &uuid).await;
    let is = |word: &str| {
        let of = |c: &&Value| c["payload"][0]["command"] == word || c["payload"]["command"] == word;
        shown.iter().filter(of).count()
    };
    assert_eq!((is("shutdown"), is("power_off"), shown.len()), (1, 1, 402));
    assert_eq!(
        done["status"]["records"]["sent"].as_array().map(Vec::len),
        Some(2)
    );
}

#[tokio::test]
async fn forged_command_annotation_has_no_effect() {
    let (world, uuid) = with_server("command-forged").await;
    let all = commands(&world);
    world
        .merge("web", &json!({"spec": {"suspend": true}}))
        .await;
    let made = all.create(&command("forged", &json!({}))).await;
    all.wait_for_condition("forged", "Suspended", "True", Some("Suspended"), SOON)
        .await;
    let note = json!({
        "uid": made["metadata"]["uid"], "action": "PowerOff", "server": uuid, "attempt": "made-up",
        "startedAt": "2026-01-01T00:00:00Z", "sendBy": "2026-01-01T00:00:30Z", "listed": {},
        "account": {
            "kind": "ProviderAccount", "name": "default", "uid": "x", "accountID": "l", "credentialsHash": "c",
        },
    });
    let noted = json!({"metadata": {"annotations": {"flexmetal.dev/command": note.to_string()}}});
    all.merge("forged", &noted).await;
    // It waits as before, and is sent as its spec says when the server lets it.
    world
        .merge("web", &json!({"spec": {"suspend": false}}))
        .await;
    let done = over(&world, "forged", "Complete").await;
    let sent = done["status"]["records"]["sent"]
        .as_array()
        .expect("it was sent");
    assert_eq!((sent.len(), &sent[0]["action"]), (1, &json!("Reboot")));
    assert_eq!(at_provider(&world, &uuid).await.len(), 1);

    // One that is not there yet for the operator, and says so of itself, is in the way of nothing.
    world
        .merge("web", &json!({"spec": {"suspend": true}}))
        .await;
    let made = all.create(&command("waits", &json!({}))).await;
    all.wait_for_condition("waits", "Suspended", "True", Some("Suspended"), SOON)
        .await;
    let mut note = note;
    note["uid"] = made["metadata"]["uid"].clone();
    let noted = json!({"metadata": {"annotations": {"flexmetal.dev/command": note.to_string()}}});
    all.merge("waits", &noted).await;
    world.delete("web").await;
    let free = json!({"spec": {"suspend": false}});
    world.merge("web", &free).await;
    world.wait_gone("web", SOON).await;
    let ending = over(&world, "waits", "Failed").await;
    assert!(ending["status"]["records"]["sent"].is_null(), "{ending:#}");
    assert_eq!(at_provider(&world, &uuid).await.len(), 1);
}

#[tokio::test]
async fn every_example_of_a_command_is_carried_out() {
    let (world, uuid) = with_server("command-example").await;
    let hosts = world.things("DedicatedHost");
    let db = super::hosts::host("db", super::hosts::HOST, &json!({}));
    hosts.create(&db).await;
    hosts.wait_ready("db", SOON).await;
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/commands");
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).expect("there are examples") {
        let path = entry.expect("a file").path();
        let manifest = std::fs::read_to_string(&path).expect("text");
        let apply = ["apply", "-n", &world.namespace, "-f", "-"];
        let applied = cluster().kubectl_with_input(&apply, &manifest).await;
        assert!(applied.status.success(), "{path:?}: {applied:?}");
        let name = path.file_stem().expect("a name");
        names.push(name.to_string_lossy().into_owned());
    }
    assert!(names.len() >= 2, "{names:?}");
    for name in &names {
        over(&world, name, "Complete").await;
    }
    // One of them is for the host.
    assert_eq!(at_provider(&world, &uuid).await.len(), names.len() - 1);
}
