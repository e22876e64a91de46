//! Commands that change something, over the whole life of a server.

use super::super::{SOON, find_pending_token, text};
use super::{Plugin, changing_calls};
use lab::rig::{World, WorldOptions, cluster, server};
use serde_json::{Value, json};

async fn start_with_server(prefix: &str) -> World {
    let mut world = World::prepare(cluster(), prefix, WorldOptions::default()).await;
    let quick = json!({"installSeconds": 2, "commandSeconds": 1});
    world.simulator.settings(&quick).await;
    world.start_operator();
    let mut web = server("web");
    web["spec"]["install"] = json!({"revision": 1});
    world.create(&web).await;
    world.wait_ready("web", SOON).await;
    world.simulator.clear_ledger().await;
    world
}

#[tokio::test]
async fn power_command_reaches_the_server_once() {
    let world = start_with_server("plugin-power").await;
    let plugin = Plugin::of(&world);
    plugin
        .run_expecting(3, &["power", "reboot", "web", "--dry-run"])
        .await;
    plugin.run_expecting(2, &["power", "reboot", "web"]).await;
    assert_eq!(changing_calls(&world).await, Vec::<String>::new());
    plugin
        .run_expecting(0, &["power", "reboot", "web", "--yes", "--wait"])
        .await;
    let calls = changing_calls(&world).await;
    let commands = calls.iter().filter(|call| call.ends_with("/commands"));
    assert_eq!(commands.count(), 1, "{calls:?}");
    let failed = plugin
        .run(&["power", "reboot", "nobody", "--yes", "--wait"])
        .await;
    assert_ne!(failed.code, 0, "{}{}", failed.out, failed.err);
}

#[tokio::test]
async fn reinstall_raises_the_revision_and_waits() {
    let world = start_with_server("plugin-reinstall").await;
    let plugin = Plugin::of(&world);
    let reinstall = ["reinstall", "web", "--os", "debian-13"];
    plugin.run_expecting(2, &reinstall).await;
    let asked = plugin.run(&[&reinstall[..], &["--dry-run"]].concat()).await;
    assert!(
        asked.err.contains("disk") || asked.out.contains("disk"),
        "{}{}",
        asked.out,
        asked.err
    );
    assert_eq!(changing_calls(&world).await, Vec::<String>::new());
    let done = [&reinstall[..], &["--yes", "--wait"]].concat();
    plugin.run_expecting(0, &done).await;
    let web = world.get("web").await.unwrap();
    assert_eq!(web["status"]["install"]["last"]["result"], "Finished");
    assert_eq!(web["spec"]["install"]["revision"], 2);
    assert_eq!(web["status"]["os"], "debian-13");
}

#[tokio::test]
async fn suspended_server_is_left_alone_until_resumed() {
    let world = start_with_server("plugin-suspend").await;
    let plugin = Plugin::of(&world);
    plugin.run_expecting(0, &["suspend", "web", "--yes"]).await;
    world
        .wait_for_condition("web", "Suspended", "True", None, SOON)
        .await;
    world
        .merge("web", &json!({"spec": {"tags": ["later"]}}))
        .await;
    plugin.run_expecting(0, &["reconcile", "web"]).await;
    assert_eq!(changing_calls(&world).await, Vec::<String>::new());
    plugin.run_expecting(0, &["resume", "web", "--yes"]).await;
    world
        .wait_for("web", "tagged", SOON, |object| {
            let tags = object["status"]["records"]["tags"].to_string();
            tags.contains("later").then_some(())
        })
        .await;
}

#[tokio::test]
async fn rescued_server_is_kept_with_its_disks() {
    let world = start_with_server("plugin-rescue").await;
    let plugin = Plugin::of(&world);
    let uuid = text(&world.get("web").await.unwrap()["status"]["uuid"]);
    let delay = json!({"spec": {"releaseDelay": "1h"}});
    world.merge("web", &delay).await;
    world
        .wait_for("web", "the delay in force", SOON, |object| {
            (object["status"]["policies"]["releaseDelay"] == "1h").then_some(())
        })
        .await;
    world.delete("web").await;
    let rescued = plugin.run_expecting(0, &["rescue", "web", "--yes"]).await;
    let web = world.wait_ready("web", SOON).await;
    assert_eq!(
        web["metadata"]["deletionTimestamp"],
        Value::Null,
        "{}",
        rescued.err
    );
    assert_eq!(web["status"]["uuid"], uuid.as_str());
    let calls = changing_calls(&world).await;
    let released = calls
        .iter()
        .any(|call| call.starts_with("DELETE /v3/flexMetal/servers/") && !call.contains("/tag/"));
    assert!(!released, "{calls:?}");
    assert!(
        !calls
            .iter()
            .any(|call| call == "POST /v3/flexMetal/servers"),
        "{calls:?}"
    );
}

#[tokio::test]
async fn acknowledgement_sets_the_pending_token() {
    let world = start_with_server("plugin-ack").await;
    let plugin = Plugin::of(&world);
    let nothing = plugin
        .run_expecting(0, &["acknowledge", "web", "--yes"])
        .await;
    assert!(!nothing.err.is_empty());
    let limit = json!({"spec": {"releaseLimit": {"maxReleases": 1, "window": "1h"}}});
    world
        .things("ProviderAccount")
        .merge("default", &limit)
        .await;
    world.create(&server("second")).await;
    world.wait_ready("second", SOON).await;
    world
        .wait_for_condition("second", "Ready", "True", None, SOON)
        .await;
    for name in ["web", "second"] {
        world.delete(name).await;
    }
    let asked = world
        .things("ProviderAccount")
        .wait_for("default", "an acknowledgement", SOON, |object| {
            find_pending_token(object, "LiftReleaseLimit")
        })
        .await;
    let account = ["acknowledge", "default", "--kind", "ProviderAccount"];
    let shown = plugin
        .run_expecting(3, &[&account[..], &["--dry-run"]].concat())
        .await;
    let shown = format!("{}{}", shown.out, shown.err);
    assert!(shown.contains("erase disks"), "{shown}");
    let still = world.things("ProviderAccount").get("default").await;
    let token = find_pending_token(&still.unwrap(), "LiftReleaseLimit");
    assert_eq!(token, Some(asked), "a dry run sets nothing");
    plugin
        .run_expecting(0, &[&account[..], &["--yes"]].concat())
        .await;
    for name in ["web", "second"] {
        world.wait_gone(name, SOON).await;
    }
}

#[tokio::test]
async fn orphan_is_adopted_or_released_by_choice() {
    let world = start_with_server("plugin-orphans").await;
    let tag = format!("fmo-cluster:{}", world.cluster_id);
    let mut uuids = Vec::new();
    for name in ["keep", "end"] {
        let lost = json!({
            "name": name, "tags": [tag], "location": "EU: Rotterdam",
            "instanceType": "bm7.std.8", "status": "delivered",
        });
        uuids.push(text(&world.simulator.appear(&lost).await["uuid"]));
    }
    let plugin = Plugin::of(&world);
    let [keep, end] = &uuids[..] else {
        panic!("two servers")
    };
    plugin
        .run_expecting(0, &["orphans", "--adopt", keep, "--yes", "CLUSTER"])
        .await;
    plugin
        .run_expecting(2, &["orphans", "--release", end, "CLUSTER"])
        .await;
    plugin
        .run_expecting(0, &["orphans", "--release", end, "--yes", "CLUSTER"])
        .await;
    let calls = changing_calls(&world).await;
    let releases: Vec<_> = calls
        .iter()
        .filter(|call| call.starts_with("DELETE /v3/flexMetal/servers/") && !call.contains("/tag/"))
        .collect();
    assert_eq!(releases.len(), 1, "{calls:?}");
    assert!(releases[0].contains(end.as_str()));
    // A server with an object is no orphan.
    let web = text(&world.get("web").await.unwrap()["status"]["uuid"]);
    let refused = plugin
        .run(&["orphans", "--release", &web, "--yes", "CLUSTER"])
        .await;
    assert_ne!(refused.code, 0);
    assert!(refused.err.contains("web"), "{}", refused.err);
}
