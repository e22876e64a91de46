//! `spec.install`: a higher revision reinstalls a server once, and nothing else does.

use super::{SOON, apply, build_secret, text};
use kube::api::{Patch, PatchParams};
use lab::rig::{Fault, World, WorldOptions, cluster, condition, eventually, server};
use serde_json::{Value, json};

const CANARY: &str = "canary-script-1f77c0e2";

/// A world with the delivered server `web`, whose revision 1 counts as performed. Returns the server's UUID.
async fn start_with_server(prefix: &str, plan: WorldOptions) -> (World, String) {
    let mut world = World::prepare(cluster(), prefix, plan).await;
    let quick = json!({"installSeconds": 2, "commandSeconds": 1});
    world.simulator.settings(&quick).await;
    let mut web = server("web");
    web["spec"]["install"] = json!({"revision": 1});
    world.create(&web).await;
    world.start_operator();
    let ready = world.wait_ready("web", SOON).await;
    let uuid = text(&ready["status"]["uuid"]);
    (world, uuid)
}

async fn edit_server(world: &World, spec: Value) {
    world.merge("web", &json!({"spec": spec})).await;
}

/// The queries of the reinstallation requests that reached the provider.
async fn list_reinstall_queries(world: &World) -> Vec<String> {
    let ledger = world.simulator.ledger().await;
    let asked = ledger.iter().filter(|call| call["method"] == "PATCH");
    asked.map(|call| text(&call["query"])).collect()
}

/// The number of reinstallations that a server had.
async fn count_reinstalls(world: &World, uuid: &str) -> usize {
    let path = format!("/v3/flexMetal/servers/{uuid}/commands?type=update-server");
    world.simulator.records(&path).await.len()
}

/// Waits until the reinstallation of this revision has this result.
async fn wait_for_reinstall_result(world: &World, revision: i64, end: &str) -> Value {
    world
        .wait_for("web", &format!("{revision} {end}"), SOON, |object| {
            let install = &object["status"]["install"];
            let last = &install["last"];
            let is_it = last["revision"] == revision && last["result"] == end;
            (is_it && install["revision"] == revision).then(|| object.clone())
        })
        .await
}

async fn wait_server_condition(world: &World, kind: &str, status: &str, reason: &str) -> Value {
    world
        .wait_for_condition("web", kind, status, Some(reason), SOON)
        .await
}

#[tokio::test]
async fn server_reinstalls_once_per_revision() {
    let plan = WorldOptions {
        log: Some("trace"),
        ..WorldOptions::default()
    };
    let (mut world, uuid) = start_with_server("reinstall", plan).await;
    assert_eq!(
        list_reinstall_queries(&world).await.len(),
        0,
        "at first sight"
    );
    let script = format!("#!/bin/sh\necho {CANARY}\n");
    let script = build_secret("script", "it", &script);
    apply(&world.client, Some(&world.namespace), &script).await;
    let changes = json!({
        "os": {"slug": "debian-13"}, "hostname": "db",
        "postInstallScript": {"valueFrom": {"secretKeyRef": {"name": "script", "key": "it"}}},
    });
    edit_server(&world, changes).await;
    let edited = wait_server_condition(&world, "InstallUpToDate", "False", "PendingChanges").await;
    let message = text(&condition(&edited, "InstallUpToDate").unwrap()["message"]);
    for field in [
        "spec.os.slug",
        "spec.hostname",
        "spec.postInstallScript",
        "to 2",
    ] {
        assert!(message.contains(field), "{field}: {message}");
    }
    assert_eq!(condition(&edited, "Ready").unwrap()["status"], "True");
    assert_eq!(
        list_reinstall_queries(&world).await.len(),
        0,
        "an edit is no consent"
    );

    edit_server(&world, json!({"install": {"revision": 2}})).await;
    wait_server_condition(&world, "Ready", "False", "Reinstalling").await;
    let done = wait_for_reinstall_result(&world, 2, "Finished").await;
    // The status shows the new system at once, not the state of the last poll.
    assert_eq!(done["status"]["os"], "debian-13");
    assert_eq!(done["status"]["hostname"], "db");
    assert_eq!(done["status"]["uuid"], uuid.as_str());
    for kind in ["Ready", "InstallUpToDate", "Synced"] {
        assert_eq!(condition(&done, kind).unwrap()["status"], "True", "{kind}");
    }
    assert_eq!(list_reinstall_queries(&world).await, ["wipeDisk=true"]);

    // Neither a restart, nor a lower revision, nor a lost status sends anything.
    world.operator().restart();
    edit_server(
        &world,
        json!({"install": {"revision": 1}, "tags": ["after"]}),
    )
    .await;
    world
        .wait_for("web", "tagged by the next process", SOON, |object| {
            let tags = object["status"]["records"]["tags"].to_string();
            tags.contains("after").then_some(())
        })
        .await;
    let lost = json!({"status": {"records": {"install": null}}});
    world
        .servers()
        .patch_status("web", &PatchParams::default(), &Patch::Merge(&lost))
        .await
        .expect("the status is lost");
    world
        .wait_for("web", "on record again", SOON, |object| {
            (object["status"]["install"]["revision"] == 1).then_some(())
        })
        .await;
    assert_eq!(list_reinstall_queries(&world).await.len(), 1);

    // The provider shows a reinstallation that the object does not know, so the next revision is not performed at
    // first.
    let next = json!({"install": {"revision": 2, "wipeDisk": false}});
    edit_server(&world, next).await;
    wait_for_reinstall_result(&world, 2, "NotRepeated").await;
    wait_server_condition(&world, "Synced", "False", "NotRepeated").await;
    edit_server(&world, json!({"install": {"revision": 3}})).await;
    wait_for_reinstall_result(&world, 3, "Finished").await;
    assert_eq!(
        list_reinstall_queries(&world).await,
        ["wipeDisk=true", "wipeDisk=false"]
    );

    let object = world.get("web").await.unwrap();
    assert!(!object["status"].to_string().contains(CANARY), "{object:#}");
    let events = ["get", "events", "-n", &world.namespace, "-o", "json"];
    let events = cluster().kubectl_ok(&events).await;
    assert!(!events.contains(CANARY), "{events}");
    assert!(!world.operator().log().contains(CANARY), "it is in the log");
    world.delete("web").await;
    world.wait_gone("web", SOON).await;
}

#[tokio::test]
async fn no_fault_reinstalls_a_server_twice() {
    let (mut world, uuid) = start_with_server("reinstall-lost", WorldOptions::default()).await;
    let path = format!("/v3/flexMetal/servers/{uuid}");
    let on = |fault: Fault| fault.on("PATCH", &path).times(1);
    world.simulator.fault(on(Fault::new("dropAfter"))).await;
    edit_server(&world, json!({"install": {"revision": 2}})).await;
    wait_for_reinstall_result(&world, 2, "Finished").await;
    assert_eq!(count_reinstalls(&world, &uuid).await, 1);

    // The operator does not send a lost request again either: the outcome is unknown.
    world.simulator.fault(on(Fault::new("dropBefore"))).await;
    edit_server(&world, json!({"install": {"revision": 3}})).await;
    wait_for_reinstall_result(&world, 3, "Unknown").await;
    wait_server_condition(&world, "Stalled", "True", "OutcomeUnknown").await;
    assert_eq!(count_reinstalls(&world, &uuid).await, 1);
    // A user who sets the revision back accepts the server as it is.
    edit_server(&world, json!({"install": {"revision": 2}})).await;
    world.wait_ready("web", SOON).await;

    // A refused request erases nothing, and the server does not change.
    let no = json!({"refuse": {"status": 422, "message": "no such system"}});
    world.simulator.fault(on(Fault::new(no))).await;
    edit_server(&world, json!({"install": {"revision": 4}})).await;
    wait_for_reinstall_result(&world, 4, "Refused").await;
    wait_server_condition(&world, "Synced", "False", "RequestRefused").await;
    assert_eq!(count_reinstalls(&world, &uuid).await, 1);

    let failing = |rate: f64| json!({"commandFailureRate": rate});
    world.simulator.settings(&failing(1.0)).await;
    edit_server(&world, json!({"install": {"revision": 5}})).await;
    wait_for_reinstall_result(&world, 5, "Failed").await;
    wait_server_condition(&world, "Stalled", "True", "ReinstallFailed").await;
    assert_eq!(count_reinstalls(&world, &uuid).await, 2);
    world.simulator.settings(&failing(0.0)).await;

    // The operator ends while the answer is on its way.
    let slow = Fault::new(json!({"delay": {"ms": 20_000, "before": false}}));
    world.simulator.fault(on(slow)).await;
    edit_server(&world, json!({"install": {"revision": 6}})).await;
    world
        .wait_for("web", "noted", SOON, |object| {
            (object["status"]["install"]["last"]["revision"] == 6).then_some(())
        })
        .await;
    world.operator().kill9();
    world.operator().restart();
    world.simulator.clear_faults().await;
    world
        .wait_for("web", "settled", SOON, |object| {
            let last = &object["status"]["install"]["last"];
            (last["revision"] == 6 && last["result"].is_string()).then_some(())
        })
        .await;
    assert!(count_reinstalls(&world, &uuid).await <= 3);
    world.delete("web").await;
    world.wait_gone("web", SOON).await;
}

#[tokio::test]
async fn protection_or_portal_blocks_reinstall() {
    let (world, uuid) = start_with_server("reinstall-held", WorldOptions::default()).await;
    let protected = json!({"deletionProtection": true, "install": {"revision": 2}});
    edit_server(&world, protected).await;
    wait_server_condition(&world, "InstallUpToDate", "False", "Protected").await;
    assert_eq!(list_reinstall_queries(&world).await.len(), 0);
    let slow = json!({"installSeconds": 600});
    world.simulator.settings(&slow).await;
    edit_server(&world, json!({"deletionProtection": false})).await;
    wait_server_condition(&world, "Ready", "False", "Reinstalling").await;

    // Meanwhile the operator sends no command to the server.
    let reboot = json!({
        "apiVersion": "flexmetal.dev/v1alpha1", "kind": "ServerCommand", "metadata": {"name": "reboot"},
        "spec": {"targetRef": {"name": "web"}, "action": "Reboot"},
    });
    let commands = world.things("ServerCommand");
    commands.create(&reboot).await;
    commands
        .wait_for_condition("reboot", "Failed", "True", Some("Reinstalling"), SOON)
        .await;
    // The reason is shown before the request is sent.
    eventually("the installation is requested", SOON, async || {
        (list_reinstall_queries(&world).await.len() == 1).then_some(())
    })
    .await;
    world.simulator.advance(600.0).await;
    wait_for_reinstall_result(&world, 2, "Finished").await;
    world.wait_ready("web", SOON).await;

    // A user reinstalls it in the portal, so the object's next revision is not performed at first.
    let quick = json!({"installSeconds": 1});
    world.simulator.settings(&quick).await;
    let path = format!("/v3/flexMetal/servers/{uuid}");
    let by_hand = json!({"name": "by-hand"});
    let (status, _) = world.simulator.call("PATCH", &path, Some(&by_hand)).await;
    assert_eq!(status, 200);
    world.simulator.advance(5.0).await;
    wait_server_condition(&world, "InstallUpToDate", "False", "PendingChanges").await;
    edit_server(&world, json!({"install": {"revision": 3}})).await;
    wait_for_reinstall_result(&world, 3, "NotRepeated").await;
    assert_eq!(count_reinstalls(&world, &uuid).await, 2);
    edit_server(&world, json!({"install": {"revision": 4}})).await;
    wait_for_reinstall_result(&world, 4, "Finished").await;
    assert_eq!(count_reinstalls(&world, &uuid).await, 3);
    world.delete("web").await;
    world.wait_gone("web", SOON).await;
}
