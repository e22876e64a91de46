//! User policies: retain a server, protect it, suspend it, or delete it before it is delivered.

use serde_json::json;

use super::{
    SERVERS, SOON, build_server, check_invariants, count_orders, get_server_of, set_account_spec,
    wait_deletion_blocked, wait_for_polls, wait_not_ready, wait_not_ready_message,
    wait_server_status, wait_suspended,
};
use lab::rig::{Fault, World, WorldOptions, cluster, condition, quick_timing, server};

async fn count_releases(world: &World) -> u64 {
    let counts = world.simulator.counts().await;
    let deletes = counts.get("DELETE /v3/flexMetal/servers/{uuid}");
    deletes.copied().unwrap_or(0)
}

#[tokio::test]
async fn policies_hold_orders_and_releases() {
    let world = World::start(cluster(), "policy").await;
    let keeping = async {
        world
            .create(&build_server("kept", &json!({"deletionPolicy": "Retain"})))
            .await;
        let kept = world.wait_ready("kept", SOON).await;
        world.delete("kept").await;
        world.wait_gone("kept", SOON).await;
        let server = get_server_of(&world, &kept).await;
        assert_eq!(server["status"], "delivered");
        assert!(super::is_retained(&server), "{server}");
    };
    let protecting = async {
        world
            .create(&build_server(
                "protected",
                &json!({"deletionProtection": true}),
            ))
            .await;
        let object = world.wait_ready("protected", SOON).await;
        world.delete("protected").await;
        wait_deletion_blocked(
            &world,
            "protected",
            "Protected",
            &["spec.deletionProtection"],
        )
        .await;
        let waits = world.get("protected").await.unwrap();
        assert_eq!(condition(&waits, "Reconciling").unwrap()["status"], "True");
        wait_for_polls(&world, 3).await;
        assert_eq!(get_server_of(&world, &object).await["status"], "delivered");
        world
            .merge("protected", &json!({"spec": {"deletionProtection": false}}))
            .await;
        world.wait_gone("protected", SOON).await;
        assert_eq!(get_server_of(&world, &object).await["status"], "released");
    };
    let suspending = async {
        world
            .create(&build_server(
                "suspended",
                &json!({"suspend": true, "hostname": "unheard-of"}),
            ))
            .await;
        wait_suspended(&world, "suspended", &["spec.suspend"]).await;
        let new = world.get("suspended").await.unwrap();
        assert_eq!(condition(&new, "Ready").unwrap()["reason"], "Suspended");
        wait_for_polls(&world, 3).await;
        let servers = world.simulator.list_servers().await;
        assert!(servers.iter().all(|server| server["name"] != "unheard-of"));
        world
            .merge("suspended", &json!({"spec": {"suspend": false}}))
            .await;
        let object = world.wait_ready("suspended", SOON).await;
        assert_eq!(condition(&object, "Suspended").unwrap()["status"], "False");

        world
            .merge("suspended", &json!({"spec": {"suspend": true}}))
            .await;
        wait_suspended(&world, "suspended", &["spec.suspend"]).await;
        let ready = world.get("suspended").await.unwrap();
        for kind in ["Ready", "Synced"] {
            assert_eq!(condition(&ready, kind).unwrap()["status"], "True", "{kind}");
        }
        world.delete("suspended").await;
        wait_deletion_blocked(&world, "suspended", "Suspended", &["is billed"]).await;
        wait_for_polls(&world, 3).await;
        assert_eq!(get_server_of(&world, &object).await["status"], "delivered");
        world
            .merge("suspended", &json!({"spec": {"suspend": false}}))
            .await;
        world.wait_gone("suspended", SOON).await;
        assert_eq!(get_server_of(&world, &object).await["status"], "released");
    };
    let never_ordered = async {
        // Nothing was ordered, so the object is deleted at once.
        world
            .create(&build_server("unborn", &json!({"suspend": true})))
            .await;
        wait_suspended(&world, "unborn", &[]).await;
        world.delete("unborn").await;
        world.wait_gone("unborn", SOON).await;
    };
    tokio::join!(keeping, protecting, suspending, never_ordered);
    assert_eq!(count_orders(&world).await, 3);
    assert_eq!(count_releases(&world).await, 2);
    check_invariants(&world).await;
}

/// `spec.suspend` of the account blocks orders, changes and releases, whatever the objects say.
#[tokio::test]
async fn a_suspended_account_stops_everything_through_it() {
    let world = World::start(cluster(), "pause").await;
    let suspend = async |suspend: bool| {
        super::change_account(&world, "default", &json!({"spec": {"suspend": suspend}})).await;
    };
    // States every field with an account default, so that no default from the account applies.
    let stated = json!({
        "deletionPolicy": "Release", "deletionProtection": false, "suspend": false, "managementPolicy": "Full",
        "failurePolicy": "Wait", "externalReleasePolicy": "Wait", "releaseDelay": "0s",
    });
    world.create(&build_server("running", &stated)).await;
    let running = world.wait_ready("running", SOON).await;
    suspend(true).await;
    // The operator may observe the change late.
    world.delete("running").await;
    world
        .create(&build_server("waiting", &json!({"suspend": false})))
        .await;
    let tags = world.things("ServerTag");
    tags.create(&json!({
        "apiVersion": "flexmetal.dev/v1alpha1", "kind": "ServerTag", "metadata": {"name": "team"}, "spec": {},
    }))
    .await;
    let words = [
        "spec.suspend of ProviderAccount",
        "set spec.suspend of the account to false",
    ];
    tokio::join!(
        wait_deletion_blocked(&world, "running", "Suspended", &words),
        wait_suspended(&world, "waiting", &words),
        tags.wait_for_condition("team", "Suspended", "True", Some("Suspended"), SOON),
    );
    let account =
        super::wait_account_condition(&world, "default", "Suspended", "True", "Suspended").await;
    for kind in ["Ready", "Synced", "KeyAccepted"] {
        assert_eq!(
            condition(&account, kind).unwrap()["status"],
            "True",
            "{kind}"
        );
    }
    wait_for_polls(&world, 3).await;
    assert_eq!(get_server_of(&world, &running).await["status"], "delivered");
    assert_eq!(
        (count_orders(&world).await, count_releases(&world).await),
        (1, 0)
    );

    suspend(false).await;
    tokio::join!(
        world.wait_gone("running", SOON),
        world.wait_ready("waiting", SOON),
        tags.wait_ready("team", SOON)
    );
    assert_eq!(
        (count_orders(&world).await, count_releases(&world).await),
        (2, 1)
    );
    check_invariants(&world).await;
}

#[tokio::test]
async fn server_deleted_while_ordered_is_released() {
    let mut timing = quick_timing();
    timing["orderTimeout"] = json!("6s");
    let plan = WorldOptions {
        timing,
        ..WorldOptions::default()
    };
    let mut world = World::prepare(cluster(), "hasty", plan).await;
    world.start_operator();
    let slow = Fault::new(json!({"delay": {"ms": 3000, "before": true}}));
    let rule = world
        .simulator
        .fault(slow.on("POST", SERVERS).times(1))
        .await;
    world.create(&server("one")).await;
    world.simulator.wait_for_fault_hits(rule, 1, SOON).await;
    world.delete("one").await;
    world.wait_gone("one", SOON).await;
    let servers = world.simulator.list_servers().await;
    assert_eq!(servers.len(), 1, "{servers:?}");
    wait_server_status(&world, servers[0]["uuid"].as_str().unwrap(), "released").await;
    assert_eq!(count_orders(&world).await, 1);
    check_invariants(&world).await;
}

#[tokio::test]
async fn early_release_is_retried_until_accepted() {
    const LONG: f64 = 3600.0;
    let world = World::start(cluster(), "early").await;
    let simulator = &world.simulator;
    simulator
        .settings(&json!({"deliverySeconds": [LONG, LONG]}))
        .await;
    simulator
        .switches(&json!({"releaseWhileWaiting": "refuse409"}))
        .await;
    world.create(&server("one")).await;
    wait_not_ready(&world, "one", "Provisioning", &[]).await;
    world.delete("one").await;
    wait_not_ready_message(&world, "one", "Releasing", &["retrying every"]).await;
    assert_eq!(simulator.list_live_servers().await.len(), 1);
    simulator.advance(LONG).await;
    world.wait_gone("one", SOON).await;
    let servers = simulator.list_servers().await;
    assert_eq!(servers[0]["status"], "released");
    check_invariants(&world).await;
}

#[tokio::test]
async fn delayed_release_can_still_be_changed() {
    let mut world = World::start(cluster(), "delay").await;
    for (name, spec) in [
        ("kept", json!({"releaseDelay": "24h"})),
        ("hasty", json!({"releaseDelay": "24h"})),
        ("short", json!({"releaseDelay": "3s"})),
        // The object's value has precedence over the account's.
        ("own", json!({"releaseDelay": "0s"})),
        ("plain", json!({})),
    ] {
        world.create(&build_server(name, &spec)).await;
    }
    let kept = world.wait_ready("kept", SOON).await;
    for name in ["hasty", "short", "own", "plain"] {
        world.wait_ready(name, SOON).await;
    }
    let day = json!({"defaults": {"releaseDelay": "24h"}});
    set_account_spec(&world, "default", &day).await;
    world
        .wait_for("plain", "the account's delay", SOON, |object| {
            (object["status"]["policies"]["releaseDelay"] == "24h").then_some(())
        })
        .await;
    world.delete("short").await;
    for name in ["kept", "hasty", "plain"] {
        world.delete(name).await;
        let words = ["is released at", "billed until then", "releaseDelay"];
        wait_not_ready(&world, name, "ReleaseDelayed", &words).await;
    }
    world.delete("own").await;
    world.wait_gone("own", SOON).await;
    world.wait_gone("short", SOON).await;
    assert_eq!(count_releases(&world).await, 2);

    // A restart in between changes nothing.
    world.operator().kill9();
    world.operator().restart();
    wait_for_polls(&world, 3).await;
    assert_eq!(count_releases(&world).await, 2);

    world
        .merge("kept", &json!({"spec": {"deletionPolicy": "Retain"}}))
        .await;
    world.wait_gone("kept", SOON).await;
    let server = get_server_of(&world, &kept).await;
    assert_eq!(server["status"], "delivered");
    assert!(super::is_retained(&server), "{server}");
    world
        .merge("hasty", &json!({"spec": {"releaseDelay": "0s"}}))
        .await;
    world.wait_gone("hasty", SOON).await;
    let none = json!({"defaults": {"releaseDelay": null}});
    set_account_spec(&world, "default", &none).await;
    world.wait_gone("plain", SOON).await;
    assert_eq!(count_releases(&world).await, 4);
    check_invariants(&world).await;
}

/// The account's defaults apply to fields that an object does not set.
#[tokio::test]
async fn the_account_says_what_its_servers_leave_open() {
    let world = World::start(cluster(), "defaults").await;
    let defaults = json!({"deletionProtection": true, "deletionPolicy": "Retain"});
    set_account_spec(&world, "default", &json!({"defaults": defaults})).await;
    let open = build_server("open", &json!({"deletionPolicy": "Release"}));
    let own = build_server("own", &json!({"deletionProtection": false}));
    world.create(&open).await;
    world.create(&own).await;
    for (name, policy, protected) in [("open", "Release", true), ("own", "Retain", false)] {
        let ready = world.wait_ready(name, SOON).await;
        let in_force = json!({
            "managementPolicy": "Full", "deletionPolicy": policy,
            "deletionProtection": protected, "suspend": false,
            "failurePolicy": "Wait", "externalReleasePolicy": "Wait",
        });
        assert_eq!(ready["status"]["policies"], in_force, "{name}");
        assert!(ready["spec"].get("suspend").is_none(), "{name}");
    }
    let own = world.get("own").await.unwrap();
    world.delete("own").await;
    world.wait_gone("own", SOON).await;
    let provider_server = get_server_of(&world, &own).await;
    assert_eq!(provider_server["status"], "delivered");
    assert!(super::is_retained(&provider_server));

    let open = world.get("open").await.unwrap();
    world.delete("open").await;
    let words = ["spec.defaults.deletionProtection of the account"];
    wait_deletion_blocked(&world, "open", "Protected", &words).await;
    set_account_spec(&world, "default", &json!({"defaults": null})).await;
    world.wait_gone("open", SOON).await;
    assert_eq!(get_server_of(&world, &open).await["status"], "released");

    // Suspends all servers of an account.
    let suspended = json!({"defaults": {"suspend": true}});
    set_account_spec(&world, "default", &suspended).await;
    world.create(&server("suspended")).await;
    let words = ["spec.defaults.suspend of the account"];
    super::wait_suspended(&world, "suspended", &words).await;
    set_account_spec(&world, "default", &json!({"defaults": null})).await;
    world.wait_ready("suspended", SOON).await;
    check_invariants(&world).await;
}
