//! etcd is restored from a backup. Only the provider knows what happened since.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    SOON, build_server, check_invariants,
    disaster::{build_reboot, count_changes, create_small_objects, move_world, wait_command},
    text, wait_account_condition, wait_for_polls, wait_not_ready, wait_server_status,
    wait_suspended,
};
use lab::rig::{Cluster, World, WorldOptions, eventually, server};

const ROTTERDAM: &str = "EU: Rotterdam";
/// A type that is out of stock at first.
const SCARCE: &str = "bm8.std.32";
/// `spec.timeout` of a command, the shortest that there is.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(60);

fn uuid(object: &Value) -> String {
    text(&object["status"]["uuid"])
}

#[tokio::test]
async fn etcd_restore_repeats_nothing() {
    let original = Cluster::own();
    let plan = WorldOptions {
        // Orphans are judged only then.
        watch_namespace: false,
        ..WorldOptions::default()
    };
    let mut world = World::prepare(&original, "etcd", plan).await;
    let quick = json!({"installSeconds": 2, "commandSeconds": 1});
    world.simulator.settings(&quick).await;
    world.simulator.stock(ROTTERDAM, SCARCE, Some(0)).await;
    world.start_operator();
    world
        .create(&build_server("web", &json!({"install": {"revision": 1}})))
        .await;
    world.create(&server("gone")).await;
    world
        .create(&build_server("late", &json!({"instanceType": SCARCE})))
        .await;
    wait_not_ready(&world, "late", "NoStock", &[]).await;
    let web = uuid(&world.wait_ready("web", SOON).await);
    let gone = uuid(&world.wait_ready("gone", SOON).await);
    let commands = world.things("ServerCommand");
    commands.create(&build_reboot("before", "30m")).await;
    wait_command(&world, "before", "Complete", None).await;
    // A command that waits: the backup has it unsent.
    world
        .merge("web", &json!({"spec": {"suspend": true}}))
        .await;
    wait_suspended(&world, "web", &[]).await;
    let unsent = commands.create(&build_reboot("after", "1m")).await;
    commands
        .wait_for_condition("after", "Suspended", "True", None, SOON)
        .await;
    commands.create(&build_reboot("deleted", "30m")).await;

    let backup = world.folder().join("etcd");
    original.copy_etcd_data(&backup).await;

    let edits = json!({"spec": {"suspend": false, "install": {"revision": 2}}});
    world
        .merge("web", &json!({"spec": {"suspend": false}}))
        .await;
    wait_command(&world, "after", "Complete", None).await;
    wait_command(&world, "deleted", "Complete", None).await;
    world.merge("web", &edits).await;
    wait_for_reinstall(&world, "Finished").await;
    world.simulator.stock(ROTTERDAM, SCARCE, None).await;
    let late = uuid(&world.wait_ready("late", SOON).await);
    world.delete("gone").await;
    world.wait_gone("gone", SOON).await;
    wait_server_status(&world, &gone, "released").await;
    world.create(&server("new")).await;
    let new = uuid(&world.wait_ready("new", SOON).await);
    create_small_objects(&world).await;
    let changes = count_changes(&world).await;
    world.operator().kill9();
    drop(original);

    // Within its timeout a command that the backup has unsent would be sent again: `docs/promises.md` says so.
    let created: Timestamp = text(&unsent["metadata"]["creationTimestamp"])
        .parse()
        .expect("a time");
    eventually(
        "the command is too old",
        COMMAND_TIMEOUT + SOON,
        async || {
            let age = Timestamp::now().duration_since(created);
            (age.as_secs() > COMMAND_TIMEOUT.as_secs().cast_signed()).then_some(())
        },
    )
    .await;
    let restored = Cluster::own_restored(&backup);
    move_world(&mut world, &restored).await;
    assert!(world.get("late").await.expect("it is there")["status"]["uuid"].is_null());
    assert!(world.get("new").await.is_none(), "the backup is older");
    // `docs/operations.md` says to delete such commands before the operator starts.
    let delete = ["delete", "scmd", "deleted", "--wait=false", "-n"];
    let delete = [&delete[..], &[world.namespace.as_str()]].concat();
    restored.kubectl_ok(&delete).await;
    world.start_operator();

    let taken = world.wait_ready("late", SOON).await;
    assert_eq!(uuid(&taken), late);
    wait_not_ready(&world, "gone", "ReleasedExternally", &[]).await;
    wait_command(&world, "after", "Failed", Some("CommandFailed")).await;
    wait_command(&world, "before", "Complete", None).await;
    let account =
        wait_account_condition(&world, "default", "OrphansFound", "True", "OrphansFound").await;
    assert_eq!(
        account["status"]["orphans"][0]["uuid"],
        json!(new),
        "{account:#}"
    );

    // Git is newer than the backup.
    world.create(&server("new")).await;
    assert_eq!(uuid(&world.wait_ready("new", SOON).await), new);
    world.merge("web", &edits).await;
    wait_for_reinstall(&world, "NotRepeated").await;
    assert_eq!(uuid(&world.get("web").await.expect("it is there")), web);
    create_small_objects(&world).await;
    wait_for_polls(&world, 3).await;
    assert_eq!(count_changes(&world).await, changes);
    assert_eq!(world.simulator.list_live_servers().await.len(), 3);
    check_invariants(&world).await;
}

/// Waits until revision 2 of the server `web` has this result.
async fn wait_for_reinstall(world: &World, result: &str) {
    world
        .wait_for("web", result, SOON, |object| {
            let last = &object["status"]["install"]["last"];
            (last["revision"] == 2 && last["result"] == result).then_some(())
        })
        .await;
}
