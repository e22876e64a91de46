//! Power commands: sent once, followed to their end, one after the other.

use serde_json::{Value, json};

use super::{SOON, text};
use lab::rig::{Fault, Things, World, WorldOptions, cluster, condition, quick_timing, server};

fn build_command(name: &str, spec: &Value) -> Value {
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

/// A world with a delivered server `web`, and the UUID of the provider's server.
async fn with_server(prefix: &str) -> (World, String) {
    let world = World::start(cluster(), prefix).await;
    world.create(&server("web")).await;
    let ready = world.wait_ready("web", SOON).await;
    let uuid = text(&ready["status"]["uuid"]);
    (world, uuid)
}

/// The commands of a server at the provider.
async fn list_provider_commands(world: &World, uuid: &str) -> Vec<Value> {
    let path = format!("/v3/flexMetal/servers/{uuid}/commands");
    world.simulator.records(&path).await
}

/// Waits until a command is `Complete` or `Failed`, as `kind` says.
async fn wait_until_ended(world: &World, name: &str, kind: &str) -> Value {
    commands(world)
        .wait_for_condition(name, kind, "True", None, SOON)
        .await
}

#[tokio::test]
async fn command_is_sent_once_and_expires() {
    let (world, uuid) = with_server("command").await;
    let all = commands(&world);
    all.create(&build_command("reboot", &json!({}))).await;
    let done = wait_until_ended(&world, "reboot", "Complete").await;
    let shown = list_provider_commands(&world, &uuid).await;
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
    all.create(&build_command("fails", &json!({"action": "PowerOff"})))
        .await;
    let failed = wait_until_ended(&world, "fails", "Failed").await;
    let reason = &condition(&failed, "Failed").expect("it is told")["reason"];
    assert_eq!(reason, "CommandFailed");
    world
        .simulator
        .settings(&json!({"commandFailureRate": 0.0}))
        .await;

    all.create(&build_command(
        "short",
        &json!({"ttlSecondsAfterFinished": 0}),
    ))
    .await;
    all.wait_gone("short", SOON).await;
    // A finished command does not block the next one or a deletion.
    for name in ["reboot", "fails"] {
        all.delete(name).await;
        all.wait_gone(name, SOON).await;
    }
    assert_eq!(list_provider_commands(&world, &uuid).await.len(), 3);
}

#[tokio::test]
async fn lost_command_answer_resends_nothing() {
    let (mut world, uuid) = with_server("command-lost").await;
    let all = commands(&world);
    let path = format!("/v3/flexMetal/servers/{uuid}/commands");
    let lost = Fault::new("dropAfter").on("POST", &path).times(1);
    world.simulator.fault(lost).await;
    all.create(&build_command("lost", &json!({}))).await;
    wait_until_ended(&world, "lost", "Complete").await;
    assert_eq!(list_provider_commands(&world, &uuid).await.len(), 1);

    // The operator does not send a lost request again either: the outcome is unknown.
    let lost = Fault::new("dropBefore").on("POST", &path).times(1);
    world.simulator.fault(lost).await;
    all.create(&build_command("never", &json!({}))).await;
    let failed = wait_until_ended(&world, "never", "Failed").await;
    let reason = &condition(&failed, "Failed").expect("it is told")["reason"];
    assert_eq!(reason, "OutcomeUnknown");
    assert_eq!(list_provider_commands(&world, &uuid).await.len(), 1);

    // The operator ends while the answer is on its way.
    let slow = Fault::new(json!({"delay": {"ms": 20_000, "before": true}}))
        .on("POST", &path)
        .times(1);
    world.simulator.fault(slow).await;
    all.create(&build_command("killed", &json!({}))).await;
    all.wait_for("killed", "started", SOON, |object| {
        (!object["status"]["records"]["sent"].is_null()).then_some(())
    })
    .await;
    world.operator().kill9();
    world.operator().restart();
    world.simulator.clear_faults().await;
    // The operator does not send it again, whether it arrived or not.
    all.wait_for("killed", "over", SOON, |object| {
        let is = |kind| condition(object, kind).is_some_and(|c| c["status"] == "True");
        (is("Complete") || is("Failed")).then_some(())
    })
    .await;
    assert!(list_provider_commands(&world, &uuid).await.len() <= 2);
}

#[tokio::test]
async fn server_commands_run_before_its_release() {
    let (mut world, uuid) = with_server("command-row").await;
    let all = commands(&world);
    // Commands do not end until the test advances the clock.
    world
        .simulator
        .settings(&json!({"commandSeconds": 3600.0}))
        .await;
    all.create(&build_command("first", &json!({}))).await;
    all.wait_for("first", "sent", SOON, |object| {
        (object["status"]["providerState"] == "pending").then_some(())
    })
    .await;
    all.create(&build_command("second", &json!({"action": "Shutdown"})))
        .await;
    let queued = all
        .wait_for_condition("second", "Ready", "False", Some("Queued"), SOON)
        .await;
    let message = text(&condition(&queued, "Ready").expect("it is told")["message"]);
    assert!(message.contains("goes first"), "{message}");
    // A command for a server that does not exist blocks no other.
    let nowhere = json!({"targetRef": {"name": "nowhere"}});
    all.create(&build_command("nowhere", &nowhere)).await;
    all.wait_for_condition("nowhere", "Ready", "False", Some("ReferenceNotFound"), SOON)
        .await;

    // A command that was never sent and waits for a foreign finalizer blocks no other.
    let mut held = build_command("held", &json!({}));
    held["metadata"]["finalizers"] = json!(["example.com/theirs"]);
    all.create(&held).await;
    all.delete("held").await;

    world.delete("web").await;
    world
        .wait_for_condition("web", "Ready", "False", Some("Queued"), SOON)
        .await;
    // A restarted operator does not assume an end before it has listed the commands.
    world.operator().restart();
    world
        .wait_for_condition("web", "Ready", "False", Some("Queued"), SOON)
        .await;
    assert_eq!(list_provider_commands(&world, &uuid).await.len(), 1);
    assert!(list_released_servers(&world).await.is_empty());
    world.simulator.advance(7200.0).await;
    wait_until_ended(&world, "first", "Complete").await;
    let ending = wait_until_ended(&world, "second", "Failed").await;
    let reason = &condition(&ending, "Failed").expect("it is told")["reason"];
    assert_eq!(reason, "Superseded");
    world.wait_gone("web", SOON).await;
    assert_eq!(list_provider_commands(&world, &uuid).await.len(), 1);
    assert_eq!(list_released_servers(&world).await, [uuid]);
    all.merge("held", &json!({"metadata": {"finalizers": null}}))
        .await;
    all.wait_gone("held", SOON).await;
}

/// The UUIDs of the released servers.
async fn list_released_servers(world: &World) -> Vec<String> {
    let servers = world.simulator.list_servers().await;
    let released = servers.iter().filter(|m| m["status"] == "released");
    released.map(|server| text(&server["uuid"])).collect()
}

#[tokio::test]
async fn no_command_is_sent_once_release_starts() {
    // Long enough that the command may still be sent after the list.
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
    // The operator has read the server, and waits for the list of its commands.
    let path = format!("/v3/flexMetal/servers/{uuid}/commands");
    let slow = Fault::new(json!({"delay": {"ms": 8_000, "before": true}}))
        .on("GET", &path)
        .times(1);
    let slow_rule = world.simulator.fault(slow).await;
    all.create(&build_command("late", &json!({}))).await;
    world
        .simulator
        .wait_for_fault_hits(slow_rule, 1, SOON)
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
    // More commands over hours than the first page limit allows.
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
    all.create(&build_command("off", &hangs)).await;
    all.wait_for("off", "escalated", SOON, |object| {
        let sent = object["status"]["records"]["sent"].as_array()?;
        (sent.len() == 2 && sent[1]["state"] == "pending").then_some(())
    })
    .await;
    world.simulator.advance(72000.0).await;
    let done = wait_until_ended(&world, "off", "Complete").await;
    let shown = list_provider_commands(&world, &uuid).await;
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
    let made = all.create(&build_command("forged", &json!({}))).await;
    all.wait_for_condition("forged", "Suspended", "True", Some("Suspended"), SOON)
        .await;
    let record = json!({
        "uid": made["metadata"]["uid"], "action": "PowerOff", "server": uuid, "attempt": "made-up",
        "startedAt": "2026-01-01T00:00:00Z", "sendBy": "2026-01-01T00:00:30Z", "listed": {},
        "account": {
            "kind": "ProviderAccount", "name": "default", "uid": "x", "accountID": "l", "credentialsHash": "c",
        },
    });
    let annotated =
        json!({"metadata": {"annotations": {"flexmetal.dev/command": record.to_string()}}});
    all.merge("forged", &annotated).await;
    // The command waits as before, and is sent as specified once the server is not suspended.
    world
        .merge("web", &json!({"spec": {"suspend": false}}))
        .await;
    let done = wait_until_ended(&world, "forged", "Complete").await;
    let sent = done["status"]["records"]["sent"]
        .as_array()
        .expect("it was sent");
    assert_eq!((sent.len(), &sent[0]["action"]), (1, &json!("Reboot")));
    assert_eq!(list_provider_commands(&world, &uuid).await.len(), 1);

    // A forged annotation on a command that was never sent blocks nothing.
    world
        .merge("web", &json!({"spec": {"suspend": true}}))
        .await;
    let made = all.create(&build_command("waits", &json!({}))).await;
    all.wait_for_condition("waits", "Suspended", "True", Some("Suspended"), SOON)
        .await;
    let mut record = record;
    record["uid"] = made["metadata"]["uid"].clone();
    let annotated =
        json!({"metadata": {"annotations": {"flexmetal.dev/command": record.to_string()}}});
    all.merge("waits", &annotated).await;
    world.delete("web").await;
    let free = json!({"spec": {"suspend": false}});
    world.merge("web", &free).await;
    world.wait_gone("web", SOON).await;
    let ending = wait_until_ended(&world, "waits", "Failed").await;
    assert!(ending["status"]["records"]["sent"].is_null(), "{ending:#}");
    assert_eq!(list_provider_commands(&world, &uuid).await.len(), 1);
}

#[tokio::test]
async fn every_example_of_a_command_is_carried_out() {
    let (world, uuid) = with_server("command-example").await;
    let hosts = world.things("DedicatedHost");
    let db = super::hosts::build_host("db", super::hosts::HOST, &json!({}));
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
        wait_until_ended(&world, name, "Complete").await;
    }
    // One of them targets the host.
    assert_eq!(
        list_provider_commands(&world, &uuid).await.len(),
        names.len() - 1
    );
}
