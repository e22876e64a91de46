//! What the conditions say while nothing can be done: in time, of one thing at a time, and of what was seen last.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    SERVERS, SOON, account_says, ssh_keys, tags::tag, text, watch_log::WatchLog,
    whitelists::whitelist, with,
};
use lab::rig::{Fault, World, WorldOptions, cluster, condition, eventually, quick_timing, server};

/// Times with so long an absence grace period that nothing counts as gone within a test.
fn patient() -> WorldOptions {
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
    // No answer comes, so nothing is known of the account.
    let never = Fault::new(json!({"delay": {"ms": 600_000, "before": true}}));
    world.simulator.fault(never).await;
    world.start_operator();
    account_says(&world, "default", "Ready", "False", "Pending").await;
    let objects = [
        ("BareMetalServer", server("web")),
        ("ServerTag", tag("web", &json!({}))),
        ("SshKey", ssh_keys::deleting_key("ops", 'A')),
        ("IpWhitelist", whitelist("me", &json!({}))),
    ];
    for (kind, object) in &objects {
        world.things(kind).create(object).await;
    }
    for (kind, object) in objects {
        let name = object["metadata"]["name"].as_str().unwrap();
        let what = format!("{kind} {name} says what it waits for");
        let things = world.things(kind);
        let told = eventually(&what, SOON, async || {
            let object = things.get(name).await?;
            let ready = condition(&object, "Ready")?.clone();
            Some((ready, object["metadata"]["creationTimestamp"].clone()))
        })
        .await;
        let (ready, created) = told;
        // The last one once it is known that the account has no answers.
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
        // Both are cut to seconds.
        let took = moment(&ready["lastTransitionTime"]).as_second() - moment(&created).as_second();
        assert!((0..=6).contains(&took), "{kind}: {took} s");
    }
    let web = world.get("web").await.unwrap();
    assert_eq!(condition(&web, "Ready").unwrap()["reason"], "Pending");
    assert_eq!(condition(&web, "Reconciling").unwrap()["status"], "True");
}

/// Ready is as it was, and Synced is not.
async fn is_stale(world: &World, name: &str, reason: &str) {
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

/// Two idle intervals are two seconds here, and an account is given two minutes to answer again.
#[tokio::test]
async fn unseen_observed_server_is_not_synced() {
    let mut world = World::prepare(cluster(), "stale", patient()).await;
    world.start_operator();
    let theirs = world.simulator.appear(&json!({"name": "seen"})).await;
    let observed = json!({
        "externalID": theirs["uuid"], "hostname": "seen", "managementPolicy": "ObserveOnly",
    });
    world.create(&with("seen", &observed)).await;
    world.create(&server("own")).await;
    for name in ["seen", "own"] {
        world.wait_ready(name, SOON).await;
    }
    let only_looks = json!({"spec": {"managementPolicy": "ObserveOnly"}});
    world.merge("own", &only_looks).await;

    // A read says that it is not there, and no list shows it.
    let own = text(&world.get("own").await.unwrap()["status"]["uuid"]);
    let hidden = |hidden: bool| json!({"hidden": hidden});
    world.simulator.alter(&own, &hidden(true)).await;
    is_stale(&world, "own", "ServerNotFound").await;
    world.simulator.alter(&own, &hidden(false)).await;
    let back = world
        .wait_for_condition("own", "Synced", "True", Some("InSync"), SOON)
        .await;
    assert_eq!(condition(&back, "Ready").unwrap()["message"], "");

    // The list fails.
    let no = Fault::new(json!({"status": {"code": 500, "after": false}}));
    world.simulator.fault(no.on("GET", SERVERS)).await;
    is_stale(&world, "seen", "AccountNotReady").await;
    world.simulator.clear_faults().await;
    world
        .wait_for_condition("seen", "Synced", "True", Some("InSync"), SOON)
        .await;
}

/// The reasons of a condition in the order in which they were shown.
fn reasons(versions: &[Value], kind: &str) -> Vec<String> {
    let all = versions
        .iter()
        .filter_map(|version| condition(version, kind));
    let mut reasons: Vec<String> = all.map(|found| text(&found["reason"])).collect();
    reasons.dedup();
    reasons
}

/// A health check reads the conditions of the account, and a restart is no news of it.
#[tokio::test]
async fn a_restart_leaves_the_conditions_of_an_account() {
    let mut world = World::start(cluster(), "restarted").await;
    world.create(&server("web")).await;
    world.wait_ready("web", SOON).await;
    let log = WatchLog::of_all(world.accounts()).await;
    // What the new process asks first is answered late.
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

/// A provider that answers now this and now that.
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
        WatchLog::of(world.servers(), &waiting),
        WatchLog::of(world.servers(), &ready),
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
    // Three: the pauses between them grow.
    eventually("three more lists fail", SOON, async || {
        (lists().await >= seen + 3).then_some(())
    })
    .await;
    for log in &logs {
        let told = reasons(&log.versions(), "Synced");
        let failures = told
            .iter()
            .filter(|reason| failed.contains(&reason.as_str()));
        assert!(failures.count() <= 1, "{told:?}");
    }
    world.simulator.clear_faults().await;
    world.wait_ready("two", SOON).await;
}
