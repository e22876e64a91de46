//! The conditions while nothing can be done: timely, with one reason at a time, and from the last observation.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    SERVERS, SOON, build_server, ssh_keys, tags::build_tag, text, wait_account_condition,
    watch_log::WatchLog, whitelists::build_whitelist,
};
use lab::rig::{Fault, World, WorldOptions, cluster, condition, eventually, quick_timing, server};

/// Options with a grace period so long that nothing counts as absent within a test.
fn long_grace_plan() -> WorldOptions {
    let mut timing = quick_timing();
    timing["absenceGracePeriod"] = json!("10m");
    WorldOptions {
        timing,
        ..WorldOptions::default()
    }
}

fn moment(text: &Value) -> Timestamp {
    text.as_str().unwrap().parse().unwrap()
}

#[tokio::test]
async fn new_object_gets_status_in_five_seconds() {
    let mut world = World::prepare(cluster(), "queued", WorldOptions::default()).await;
    // No answer comes, so the operator knows nothing about the account.
    let never = Fault::new(json!({"delay": {"ms": 600_000, "before": true}}));
    world.simulator.fault(never).await;
    world.start_operator();
    wait_account_condition(&world, "default", "Ready", "False", "Pending").await;
    let objects = [
        ("BareMetalServer", server("web")),
        ("ServerTag", build_tag("web", &json!({}))),
        ("SshKey", ssh_keys::build_deleting_key("ops", 'A')),
        ("IpWhitelist", build_whitelist("me", &json!({}))),
    ];
    for (kind, object) in &objects {
        world.things(kind).create(object).await;
    }
    for (kind, object) in objects {
        let name = object["metadata"]["name"].as_str().unwrap();
        let what = format!("{kind} {name} says what it waits for");
        let things = world.things(kind);
        let reported = eventually(&what, SOON, async || {
            let object = things.get(name).await?;
            let ready = condition(&object, "Ready")?.clone();
            Some((ready, object["metadata"]["creationTimestamp"].clone()))
        })
        .await;
        let (ready, created) = reported;
        // The last reason appears once the account's calls have timed out.
        let reasons = [
            "Queued",
            "Pending",
            "WaitingForListing",
            "ProviderUnreachable",
        ];
        let reason = ready["reason"].as_str().unwrap();
        assert!(reasons.contains(&reason), "{kind}: {ready:#}");
        assert_eq!(ready["status"], "False");
        assert_ne!(ready["message"], "");
        // Both times are truncated to seconds.
        let took = moment(&ready["lastTransitionTime"]).as_second() - moment(&created).as_second();
        assert!((0..=6).contains(&took), "{kind}: {took} s");
    }
    let web = world.get("web").await.unwrap();
    assert_eq!(condition(&web, "Ready").unwrap()["reason"], "Pending");
    assert_eq!(condition(&web, "Reconciling").unwrap()["status"], "True");
}

/// Waits until Ready is unchanged and Synced is false.
async fn wait_until_stale(world: &World, name: &str, reason: &str) {
    let object = world
        .wait_for_condition(name, "Synced", "False", Some(reason), SOON)
        .await;
    let ready = condition(&object, "Ready").unwrap();
    assert_eq!(
        (&ready["status"], &ready["reason"]),
        (&json!("True"), &json!("Delivered"))
    );
    // `kubectl get -o wide` shows the message of Ready.
    let synced = condition(&object, "Synced").unwrap();
    assert_eq!(ready["message"], synced["message"]);
    assert_ne!(ready["message"], "");
}

/// Two idle intervals are two seconds here, and an account has two minutes to answer again.
#[tokio::test]
async fn unseen_observed_server_is_not_synced() {
    let mut world = World::prepare(cluster(), "stale", long_grace_plan()).await;
    world.start_operator();
    let theirs = world.simulator.appear(&json!({"name": "seen"})).await;
    let observed = json!({
        "externalID": theirs["uuid"], "hostname": "seen", "managementPolicy": "ObserveOnly",
    });
    world.create(&build_server("seen", &observed)).await;
    world.create(&server("own")).await;
    for name in ["seen", "own"] {
        world.wait_ready(name, SOON).await;
    }
    let observe_only = json!({"spec": {"managementPolicy": "ObserveOnly"}});
    world.merge("own", &observe_only).await;

    // A read reports that the server does not exist, and no list shows it.
    let own = text(&world.get("own").await.unwrap()["status"]["uuid"]);
    let hidden = |hidden: bool| json!({"hidden": hidden});
    world.simulator.alter(&own, &hidden(true)).await;
    wait_until_stale(&world, "own", "ServerNotFound").await;
    world.simulator.alter(&own, &hidden(false)).await;
    let back = world
        .wait_for_condition("own", "Synced", "True", Some("InSync"), SOON)
        .await;
    assert_eq!(condition(&back, "Ready").unwrap()["message"], "");

    // The list request fails.
    let no = Fault::new(json!({"status": {"code": 500, "after": false}}));
    world.simulator.fault(no.on("GET", SERVERS)).await;
    wait_until_stale(&world, "seen", "AccountNotReady").await;
    world.simulator.clear_faults().await;
    world
        .wait_for_condition("seen", "Synced", "True", Some("InSync"), SOON)
        .await;
}

/// The reasons of a condition in the order in which they appeared.
fn list_reasons(versions: &[Value], kind: &str) -> Vec<String> {
    let all = versions
        .iter()
        .filter_map(|version| condition(version, kind));
    let mut reasons: Vec<String> = all.map(|found| text(&found["reason"])).collect();
    reasons.dedup();
    reasons
}

/// Health checks read the account's conditions. A restart must not change them.
#[tokio::test]
async fn a_restart_leaves_the_conditions_of_an_account() {
    let mut world = World::start(cluster(), "restarted").await;
    world.create(&server("web")).await;
    world.wait_ready("web", SOON).await;
    let log = WatchLog::for_all_objects(world.accounts()).await;
    // The first answers to the new process are late.
    let late = Fault::new(json!({"delay": {"ms": 2000, "before": true}}));
    world.simulator.fault(late.times(2)).await;
    world.operator().restart();
    let edit = json!({"spec": {"tags": ["after"]}});
    world.merge("web", &edit).await;
    world
        .wait_for("web", "the edit to be seen", SOON, |object| {
            let seen = &object["status"]["observedGeneration"];
            (*seen == object["metadata"]["generation"]).then_some(())
        })
        .await;
    for version in log.versions() {
        for kind in ["Ready", "KeyAccepted"] {
            let shown = condition(&version, kind).expect("it is told");
            assert_eq!(shown["status"], "True", "{kind}: {version:#}");
        }
    }
}

/// A provider that answers with changing errors.
#[tokio::test]
async fn synced_has_one_reason_at_a_time() {
    let world = World::start(cluster(), "steady").await;
    world.create(&server("one")).await;
    let ready = world.wait_ready("one", SOON).await;
    for _ in 0..20 {
        for code in [500, 429] {
            let no = Fault::new(json!({"status": {"code": code, "after": false}}));
            world.simulator.fault(no.on("GET", SERVERS).times(1)).await;
        }
    }
    let waiting = world.create(&server("two")).await;
    let logs = [
        WatchLog::for_object(world.servers(), &waiting),
        WatchLog::for_object(world.servers(), &ready),
    ];
    let failed = ["ProviderUnreachable", "RateLimited"];
    eventually("it says why it waits", SOON, async || {
        let object = world.get("two").await?;
        let reason = text(&condition(&object, "Synced")?["reason"]);
        failed.contains(&reason.as_str()).then_some(())
    })
    .await;
    let lists = async || {
        let ledger = world.simulator.ledger().await;
        let is_list = |call: &&Value| call["method"] == "GET" && call["path"] == SERVERS;
        ledger.iter().filter(is_list).count()
    };
    let seen = lists().await;
    // Three lists, because the backoff between them grows.
    eventually("three more lists fail", SOON, async || {
        (lists().await >= seen + 3).then_some(())
    })
    .await;
    for log in &logs {
        let reasons = list_reasons(&log.versions(), "Synced");
        let failures = reasons
            .iter()
            .filter(|reason| failed.contains(&reason.as_str()));
        assert!(failures.count() <= 1, "{reasons:?}");
    }
    world.simulator.clear_faults().await;
    world.wait_ready("two", SOON).await;
}
