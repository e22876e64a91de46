//! Machines of the cluster that no object claims: told of, given an object, released.

use serde_json::{Value, json};

use super::{
    SOON, account_says, cluster_wide::Host, judge, machine, machine_becomes, set_account, told,
    with,
};
use lab::rig::{World, eventually, server};

/// The account as it is now.
async fn read_account(world: &World) -> Value {
    let account = world.accounts().get("default").await;
    serde_json::to_value(account.expect("the account is there")).expect("an object is JSON")
}

/// A machine with our cluster's mark that no object claims is reported, and only reported.
pub(super) async fn orphan(host: &Host) -> World {
    let world = host.guest("orphan").await;
    world.create(&server("one")).await;
    world.wait_ready("one", SOON).await;
    account_says(&world, "default", "OrphansFound", "False", "NoOrphans").await;
    let order_tag = format!("{}{}", super::ORDER_TAG, "f".repeat(32));
    let lost = json!({
        "name": "lost", "tags": [format!("fmo-cluster:{}", host.world.cluster_id), order_tag],
    });
    let lost = world.simulator.appear(&lost).await;
    let lost = lost["uuid"].as_str().unwrap();
    let account = account_says(&world, "default", "OrphansFound", "True", "OrphansFound").await;
    let orphans = account["status"]["orphans"].clone();
    let line = &orphans[0];
    assert_eq!(
        (&line["uuid"], &line["hostname"], &line["orderTag"]),
        (&json!(lost), &json!("lost"), &json!(order_tag)),
        "{account:#}"
    );
    assert_eq!(
        (&line["location"], &line["instanceType"]),
        (&json!("EU: Rotterdam"), &json!("bm7.std.8")),
        "{account:#}"
    );
    assert_eq!(account["status"]["servers"]["orphans"], 1, "{account:#}");
    told(&world, "OrphansFound").await;
    // Other people's machines are not ours.
    world
        .simulator
        .appear(&json!({"name": "stranger", "tags": ["web"]}))
        .await;
    world
        .simulator
        .appear(&json!({"name": "elsewhere", "tags": ["fmo-cluster:fedcba9876543210"]}))
        .await;
    eventually("the machines of others are counted", SOON, async || {
        let account = account_says(&world, "default", "OrphansFound", "True", "OrphansFound").await;
        let servers = &account["status"]["servers"];
        (servers["foreign"] == 1 && servers["unmarked"] == 1).then_some(())
    })
    .await;
    let account = account_says(&world, "default", "OrphansFound", "True", "OrphansFound").await;
    // The commands follow what stands in their way; the line stays the same.
    let shown = &account["status"]["orphans"];
    let is_same = |field: &str| shown[0][field] == orphans[0][field];
    assert!(is_same("uuid") && is_same("since"), "{account:#}");
    assert!(shown[1].is_null(), "{account:#}");
    assert_eq!(machine(&world, lost).await["status"], "delivered");

    // The command of the line gives it an object.
    let command = line["adopt"].as_str().unwrap();
    let (echo, rest) = command.split_once(" | ").unwrap();
    assert_eq!(rest, "kubectl create -f -");
    let said = std::process::Command::new("sh").args(["-c", echo]).output();
    let object = String::from_utf8(said.unwrap().stdout).unwrap();
    let made = host
        .cluster
        .kubectl_with_input(&["create", "-f", "-"], &object);
    let made = made.await;
    assert!(
        made.status.success(),
        "{}",
        String::from_utf8_lossy(&made.stderr)
    );
    let adopted = world.wait_ready("lost", SOON).await;
    assert_eq!(adopted["status"]["uuid"], *lost);
    let account = account_says(&world, "default", "OrphansFound", "False", "NoOrphans").await;
    assert_eq!(account["status"]["orphans"], Value::Null, "{account:#}");
    judge(&world).await;
    world
}

/// By policy a machine that no object speaks of is released, as far as the brake lets; by a person's word without.
pub(super) async fn released_orphans(host: &Host) -> World {
    let world = host.guest("sweep").await;
    let lose = async |name: &str, digit: &str| {
        let order_tag = format!("{}{}", super::ORDER_TAG, digit.repeat(32));
        let tags = [format!("fmo-cluster:{}", host.world.cluster_id), order_tag];
        let machine = json!({"name": name, "tags": tags});
        let made = world.simulator.appear(&machine).await;
        made["uuid"].as_str().unwrap().to_owned()
    };
    let policy = async |most: u8| {
        set_account(
            &world,
            "default",
            &json!({
                "orphanPolicy": {"mode": "Release", "after": "2s"},
                "releaseBrake": {"maxReleases": most, "window": "1h"},
            }),
        )
        .await;
    };
    world.create(&server("mine")).await;
    world.wait_ready("mine", SOON).await;
    let watched = lose("watched", "a").await;
    let watcher = json!({"externalID": watched, "managementPolicy": "ObserveOnly"});
    world.create(&with("watcher", &watcher)).await;
    world.wait_ready("watcher", SOON).await;
    policy(1).await;
    let account = account_says(&world, "default", "OrphansFound", "True", "OrphansFound").await;
    assert_eq!(
        account["status"]["orphans"][0]["uuid"], *watched,
        "{account:#}"
    );
    let lost = lose("lost", "b").await;
    machine_becomes(&world, &lost, "released").await;
    told(&world, "Released").await;
    // One is what the brake lets.
    let next = lose("next", "c").await;
    account_says(&world, "default", "ReleasesHeld", "True", "ReleaseHeld").await;
    assert_eq!(machine(&world, &next).await["status"], "delivered");
    policy(9).await;
    machine_becomes(&world, &next, "released").await;
    eventually(
        "the object that speaks of the machine is named",
        SOON,
        async || {
            let account =
                account_says(&world, "default", "OrphansFound", "True", "OrphansFound").await;
            let conditions = account["status"]["conditions"].to_string();
            conditions
                .contains(&format!("{watched} is not released now: BareMetalServer"))
                .then_some(())
        },
    )
    .await;
    assert_eq!(machine(&world, &watched).await["status"], "delivered");
    world.delete("watcher").await;
    machine_becomes(&world, &watched, "released").await;

    let report = json!({"orphanPolicy": {"mode": "Report"}, "releaseBrake": null});
    set_account(&world, "default", &report).await;
    let last = lose("last", "d").await;
    let line = eventually("the machine is shown", SOON, async || {
        let account = read_account(&world).await;
        let line = account["status"]["orphans"][0].clone();
        (line["uuid"] == *last).then_some(line)
    })
    .await;
    let command = line["release"].as_str().unwrap();
    let words: Vec<&str> = command.split(' ').skip(1).collect();
    let annotated = host.cluster.kubectl_with_input(&words, "").await;
    assert!(annotated.status.success(), "{command}");
    machine_becomes(&world, &last, "released").await;
    eventually("the word is used up", SOON, async || {
        let account = read_account(&world).await;
        let annotation = &account["metadata"]["annotations"]["flexmetal.dev/release-orphan"];
        (annotation.is_null() && account["status"]["orphanRelease"].is_null()).then_some(())
    })
    .await;
    let counts = world.simulator.counts().await;
    assert_eq!(counts["DELETE /v3/flexMetal/servers/{uuid}"], 4);
    world.wait_ready("mine", SOON).await;
    judge(&world).await;
    world
}
