//! The test rig itself: a world starts, its parts work, and nothing of it stays.

use std::path::Path;
use std::time::Duration;

use serde_json::json;

use lab::rig::{Fault, Kstatus, Program, World, WorldOptions, cluster, eventually, health, server};

const SOON: Duration = Duration::from_secs(20);

#[tokio::test]
async fn test_world_has_account_and_simulator() {
    let world = World::prepare(cluster(), "rehearsal", WorldOptions::default()).await;
    let account = world.accounts().get("default").await.unwrap();
    assert_eq!(account.data["spec"]["baseURL"], world.simulator.api());
    let made = world.create(&server("first")).await;
    assert_eq!(made["status"]["observedGeneration"], -1);

    let order = json!({
        "name": "first", "location": "EU: Rotterdam", "instanceType": "bm7.std.8",
        "os": {"slug": "ubuntu-2404-lts"}, "sshKey": ["ssh-ed25519 AAAA test"],
        "tags": ["mine"],
    });
    let servers = "/v3/flexMetal/servers";
    world
        .simulator
        .fault(
            Fault::new(json!({"refuse": {"status": 422, "message": "not now"}}))
                .on("POST", servers)
                .times(1),
        )
        .await;
    let refused = world.simulator.call("POST", servers, Some(&order)).await;
    assert_eq!(refused.0, 422, "{}", refused.1);
    let (status, body) = world.simulator.call("POST", servers, Some(&order)).await;
    assert!((200..300).contains(&status), "{status}: {body}");
    eventually("it is delivered", SOON, async || {
        let provider_servers = world.simulator.list_live_servers().await;
        (provider_servers.len() == 1 && provider_servers[0]["status"] == "delivered").then_some(())
    })
    .await;
    assert_eq!(
        world.simulator.counts().await[&format!("POST {servers}")],
        2
    );
    let ledger = world.simulator.ledger().await;
    assert_eq!(ledger[0]["status"], 422, "{ledger:?}");
    assert_eq!(ledger[1]["order"]["tags"], json!(["mine"]), "{ledger:?}");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_panic_leaves_no_process() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let (sender, receiver) = tokio::sync::oneshot::channel();
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(async move {
        let program = Program::start(
            "a sleeper",
            Path::new("sleep"),
            &["600".to_owned()],
            &[],
            &log,
            false,
        );
        sender.send(program.pid()).unwrap();
        panic!("this panic is part of the test");
    });
    let pid = receiver.await.unwrap();
    assert!(tasks.join_next().await.unwrap().is_err());
    assert!(!Path::new(&format!("/proc/{pid}")).exists());
}

#[tokio::test]
async fn a_server_comes_to_ready_and_goes_again() {
    let mut world = World::start(cluster(), "rehearsal").await;
    world.create(&server("first")).await;
    let ready = world.wait_ready("first", SOON).await;
    assert_eq!(health(&ready), Kstatus::Current, "{ready:#}");
    let live = world.simulator.list_live_servers().await;
    assert_eq!(live.len(), 1, "{live:?}");
    assert_eq!(live[0]["uuid"], ready["status"]["uuid"]);

    world.delete("first").await;
    world.wait_gone("first", SOON).await;
    assert_eq!(
        world.simulator.list_servers().await[0]["status"],
        "released"
    );
    assert!(world.operator().terminate().await.success());
}
