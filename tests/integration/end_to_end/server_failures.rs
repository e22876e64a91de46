//! Server problems: a failure, an external release, no address, lost ownership tags,
//! a duplicate, and an edited object.

use serde_json::{Value, json};

use super::{
    SOON, build_acknowledgement, check_invariants, count_orders, find_pending_token, get_server,
    get_server_of, is_acknowledged, list_tags, wait_for_polls, wait_not_ready_message,
    wait_stalled,
};
use lab::rig::{Fault, Kstatus, World, cluster, condition, eventually, health, server};

const LONG: f64 = 3600.0;

/// The number of changing calls that reached the hosting API.
async fn count_changes(world: &World) -> usize {
    let ledger = world.simulator.ledger().await;
    ledger.iter().filter(|call| call["method"] != "GET").count()
}

fn uuid(object: &Value) -> &str {
    object["status"]["uuid"].as_str().expect("it has a server")
}

#[tokio::test]
async fn failed_server_goes_after_second_refusal() {
    let world = World::start(cluster(), "failed").await;
    world.simulator.settings(&json!({"failureRate": 1.0})).await;
    world.create(&server("one")).await;
    wait_stalled(&world, "one", "ProvisioningFailed", &["Delete this object"]).await;
    let object = world.get("one").await.unwrap();
    assert_eq!(health(&object), Kstatus::Failed);
    assert_eq!(object["status"]["providerStatus"], "failed");
    wait_for_polls(&world, 3).await;
    assert_eq!(
        count_orders(&world).await,
        1,
        "a failed server is not replaced"
    );

    world.simulator.clear_ledger().await;
    world.delete("one").await;
    world.wait_gone("one", SOON).await;
    let ledger = world.simulator.ledger().await;
    let path = format!("{}/{}", super::SERVERS, uuid(&object));
    let of = |method: &str| {
        let calls = ledger.iter().enumerate();
        let calls =
            calls.filter(|(_, call)| call["method"] == method && call["path"] == path.as_str());
        calls.map(|(at, _)| at).collect::<Vec<_>>()
    };
    // Refused twice, each time right after a read that shows the failure. Then the object is deleted.
    let deletes = of("DELETE");
    let [first, second] = deletes[..] else {
        panic!("{ledger:#?}");
    };
    let reads = of("GET");
    let is_read = |from: usize, to: usize| reads.iter().any(|at| (from..to).contains(at));
    assert!(is_read(0, first) && is_read(first, second), "{ledger:#?}");
    check_invariants(&world).await;
}

#[tokio::test]
async fn server_problems_order_no_replacement() {
    let world = World::start(cluster(), "mishap").await;
    let names = [
        "released",
        "unaddressed",
        "unmarked",
        "half-marked",
        "twin",
        "vanished",
    ];
    // The test delivers the server without an address itself.
    for name in names.into_iter().filter(|name| *name != "unaddressed") {
        world.create(&server(name)).await;
    }
    for name in names.into_iter().filter(|name| *name != "unaddressed") {
        world.wait_ready(name, SOON).await;
    }
    world
        .simulator
        .settings(&json!({"deliverySeconds": [LONG, LONG]}))
        .await;
    world.create(&server("unaddressed")).await;
    tokio::join!(
        check_external_release(&world),
        check_missing_address(&world),
        check_removed_tags(&world),
        check_one_removed_tag(&world),
        check_duplicate_server(&world),
        check_missing_server(&world),
    );
    wait_for_polls(&world, 3).await;
    assert_eq!(count_orders(&world).await, names.len() as u64);
}

async fn check_external_release(world: &World) {
    let object = world.get("released").await.unwrap();
    let change = json!({"status": "releasing"});
    world.simulator.alter(uuid(&object), &change).await;
    let words = [uuid(&object), "none is ordered in its place"];
    wait_stalled(world, "released", "ReleasedExternally", &words).await;
    let shown = |now: &Value| (now["status"]["providerStatus"] == "released").then_some(());
    world
        .wait_for("released", "shown as released", SOON, shown)
        .await;
    // The object is deleted without a call, because there is nothing to release.
    world.delete("released").await;
    world.wait_gone("released", SOON).await;
}

async fn check_missing_address(world: &World) {
    let object = world
        .wait_for_condition("unaddressed", "Ready", "False", Some("Provisioning"), SOON)
        .await;
    let change = json!({"status": "delivered", "ipAddresses": []});
    world.simulator.alter(uuid(&object), &change).await;
    wait_not_ready_message(
        world,
        "unaddressed",
        "Provisioning",
        &["without an address"],
    )
    .await;
    assert_eq!(
        health(&world.get("unaddressed").await.unwrap()),
        Kstatus::InProgress
    );
    let change = json!({"ipAddresses": ["192.0.2.7", "2001:db8::7"]});
    world.simulator.alter(uuid(&object), &change).await;
    let ready = world.wait_ready("unaddressed", SOON).await;
    let addresses = json!([
        {"type": "ExternalIP", "address": "192.0.2.7"},
        {"type": "ExternalIP", "address": "2001:db8::7"},
    ]);
    assert_eq!(ready["status"]["addresses"], addresses);
}

async fn check_removed_tags(world: &World) {
    let object = world.get("unmarked").await.unwrap();
    let own_tags = list_tags(&get_server_of(world, &object).await);
    assert_eq!(own_tags.len(), 2, "{own_tags:?}");
    world
        .simulator
        .alter(uuid(&object), &json!({"tags": []}))
        .await;
    let order = own_tags
        .iter()
        .find(|tag| tag.starts_with(super::ORDER_TAG));
    let words = [uuid(&object), order.unwrap(), "Restore the tag"];
    wait_stalled(world, "unmarked", "TagsMissing", &words).await;
    world
        .simulator
        .alter(uuid(&object), &json!({"tags": own_tags}))
        .await;
    let healed = world.wait_ready("unmarked", SOON).await;
    assert_eq!(healed["status"]["uuid"], object["status"]["uuid"]);
}

/// The order tag still names the owner, so the operator adds the cluster's tag again.
/// If only the cluster's tag is left, a user must add the order tag.
async fn check_one_removed_tag(world: &World) {
    let object = world.get("half-marked").await.unwrap();
    let mut own_tags = list_tags(&get_server_of(world, &object).await);
    own_tags.sort();
    let (cluster, order) = (own_tags[0].clone(), own_tags[1].clone());
    let left = async |tag: &str| {
        let tags = json!({"tags": [tag]});
        world.simulator.alter(uuid(&object), &tags).await;
    };
    left(&order).await;
    eventually("both marks are there again", SOON, async || {
        let mut now = list_tags(&get_server(world, uuid(&object)).await);
        now.sort();
        (now == own_tags).then_some(())
    })
    .await;
    left(&cluster).await;
    wait_stalled(world, "half-marked", "TagsMissing", &[&order]).await;
    wait_for_polls(world, 3).await;
    let now = list_tags(&get_server(world, uuid(&object)).await);
    assert_eq!(now, [cluster], "nothing is put back");
    left(&order).await;
    let healed = world.wait_ready("half-marked", SOON).await;
    assert_eq!(healed["status"]["uuid"], object["status"]["uuid"]);
}

async fn check_duplicate_server(world: &World) {
    let object = world.get("twin").await.unwrap();
    let own_tags = get_server_of(world, &object).await["tags"].clone();
    let twin = world
        .simulator
        .appear(&json!({"name": "twin", "tags": own_tags}))
        .await;
    let twin = twin["uuid"].as_str().unwrap();
    let words = [uuid(&object), twin, "Release the others at the provider"];
    wait_stalled(world, "twin", "DuplicateServers", &words).await;
    let shown = world.get("twin").await.unwrap();
    assert_eq!(
        shown["status"]["uuid"], object["status"]["uuid"],
        "the older one is kept"
    );
    assert_eq!(shown["status"]["duplicateUUIDs"], json!([twin]));
    world
        .simulator
        .alter(twin, &json!({"status": "releasing"}))
        .await;
    let healed = world.wait_ready("twin", SOON).await;
    assert_eq!(healed["status"]["duplicateUUIDs"], Value::Null);
}

/// A missing server may still exist: the object reports it once that is certain, and orders no other.
async fn check_missing_server(world: &World) {
    let object = world.get("vanished").await.unwrap();
    world
        .simulator
        .alter(uuid(&object), &json!({"hidden": true}))
        .await;
    wait_stalled(
        world,
        "vanished",
        "ServerNotFound",
        &[uuid(&object), "none is ordered in its place"],
    )
    .await;
    world
        .simulator
        .alter(uuid(&object), &json!({"hidden": false}))
        .await;
    let back = world.wait_ready("vanished", SOON).await;
    assert_eq!(back["status"]["uuid"], object["status"]["uuid"]);
}

#[tokio::test]
async fn missing_only_known_server_is_reported() {
    let world = World::start(cluster(), "lone").await;
    world.create(&server("one")).await;
    let lost = world.wait_ready("one", SOON).await;
    world
        .simulator
        .alter(uuid(&lost), &json!({"hidden": true}))
        .await;
    let is_asked = |object: &Value| find_pending_token(object, "AssumeAbsent");
    let token = world.wait_for("one", "asked", SOON, is_asked).await;
    let words = [uuid(&lost), "no other known server", &token];
    wait_stalled(&world, "one", "ServerNotFound", &words).await;
    assert_eq!(count_orders(&world).await, 1);
}

#[tokio::test]
async fn acknowledged_missing_server_is_replaced() {
    let mut world = World::start(cluster(), "absent").await;
    // The other one is the known server that complete lists must contain.
    for name in ["known", "one"] {
        world.create(&server(name)).await;
    }
    world.wait_ready("known", SOON).await;
    let lost = world.wait_ready("one", SOON).await;
    let gone = json!({"hidden": true, "status": "releasing"});
    world.simulator.alter(uuid(&lost), &gone).await;
    let is_asked = |object: &Value| find_pending_token(object, "AssumeAbsent");
    let token = world.wait_for("one", "asked", SOON, is_asked).await;
    wait_stalled(&world, "one", "ServerNotFound", &[uuid(&lost), &token]).await;
    wait_for_polls(&world, 3).await;
    assert_eq!(count_orders(&world).await, 2);

    // A restarted operator searches again for the full time, and the token does not change.
    world.operator().restart();
    world.merge("one", &build_acknowledgement(&token)).await;
    let is_another = |object: &Value| {
        let another = object["status"]["uuid"].as_str()? != uuid(&lost);
        (another && is_acknowledged(object, &token)).then_some(())
    };
    world
        .wait_for("one", "another machine", SOON, is_another)
        .await;
    world.wait_ready("one", SOON).await;
    assert_eq!(count_orders(&world).await, 3);
    check_invariants(&world).await;
}

#[tokio::test]
async fn edit_after_ordering_is_only_pending() {
    let world = World::start(cluster(), "edit").await;
    world.create(&server("one")).await;
    let object = world.wait_ready("one", SOON).await;
    world
        .wait_for_condition("one", "Synced", "True", Some("InSync"), SOON)
        .await;
    let before = count_changes(&world).await;
    let edit = json!({"spec": {
        "hostname": "another", "os": {"slug": "debian-12"},
        "sshKeys": [{"publicKey": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGFub3RoZXIga2V5IG9mIG5vYm9keSBhdCBhbGwgISEh other"}],
    }});
    world.merge("one", &edit).await;
    let pending = world
        .wait_for_condition("one", "Synced", "False", Some("PendingChanges"), SOON)
        .await;
    let message = super::text(&condition(&pending, "Synced").unwrap()["message"]);
    for path in ["spec.hostname", "spec.os.slug", "spec.sshKeys"] {
        assert!(message.contains(path), "{path} is not in {message:?}");
    }
    assert_eq!(
        condition(&pending, "Ready"),
        condition(&object, "Ready")
            .map(|ready| {
                // Only the observed generation and the message about pending changes differ.
                let mut ready = ready.clone();
                ready["message"] = message.clone().into();
                ready["observedGeneration"] = pending["metadata"]["generation"].clone();
                ready
            })
            .as_ref()
    );
    assert_eq!(health(&pending), Kstatus::Current);
    wait_for_polls(&world, 3).await;
    assert_eq!(count_changes(&world).await, before, "an edit was sent");

    let undone = json!({"spec": {
        "hostname": null, "os": {"slug": "ubuntu-2404-lts"},
        "sshKeys": server("one")["spec"]["sshKeys"],
    }});
    world.merge("one", &undone).await;
    world
        .wait_for_condition("one", "Synced", "True", Some("InSync"), SOON)
        .await;
    check_invariants(&world).await;
}

#[tokio::test]
async fn answers_that_say_nothing_change_nothing() {
    let world = World::start(cluster(), "dumb").await;
    world.create(&server("one")).await;
    world.wait_ready("one", SOON).await;
    wait_for_polls(&world, 3).await;
    let settled = world.get("one").await.unwrap();
    let refused = |status: u16| json!({"refuse": {"status": status, "message": "out of order"}});
    for fault in [
        json!("emptyList"),
        json!("truncate"),
        json!("emptyBody"),
        json!({"body": {"text": "<h1>no</h1>", "contentType": "text/html"}}),
        json!({"oversize": {"bytes": 20_000_000}}),
        json!({"staleList": {"seconds": 3600}}),
        json!("dropBefore"),
        json!({"status": {"code": 500}}),
        json!({"status": {"code": 429, "retryAfter": 1}}),
        refused(404),
        refused(403),
    ] {
        let read = Fault::new(fault.clone()).on("GET", "/v3/flexMetal/servers*");
        let rule = world.simulator.fault(read).await;
        // A single poll could be chance. The backoff between polls grows.
        world.simulator.wait_for_fault_hits(rule, 2, SOON).await;
        world.simulator.clear_faults().await;
        wait_for_polls(&world, 1).await;
        let now = world.get("one").await.unwrap();
        assert_eq!(now["status"], settled["status"], "after {fault}");
    }
    assert_eq!(count_orders(&world).await, 1);
    check_invariants(&world).await;
}

/// A duplicate server is never released: it stays when the object is deleted, which an event reports.
/// The next object with this name adopts it.
#[tokio::test]
async fn duplicate_server_outlives_first_release() {
    let world = World::start(cluster(), "twins").await;
    world.create(&server("one")).await;
    let object = world.wait_ready("one", SOON).await;
    let own_tags = get_server_of(&world, &object).await["tags"].clone();
    let twin = json!({"name": "one", "tags": own_tags});
    let twin = world.simulator.appear(&twin).await;
    let twin = twin["uuid"].as_str().unwrap().to_owned();
    wait_stalled(&world, "one", "DuplicateServers", &[]).await;
    world
        .simulator
        .settings(&json!({"releaseSeconds": LONG}))
        .await;
    world.delete("one").await;
    // The release of the recorded server has started.
    let first = world
        .wait_for("one", "begun", SOON, |now: &Value| {
            let begun = &now["status"]["records"]["release"]["server"];
            begun.as_str().map(str::to_owned)
        })
        .await;
    assert_eq!(first, uuid(&object));
    super::wait_server_status(&world, &first, "releasing").await;
    world
        .simulator
        .alter(&first, &json!({"status": "released"}))
        .await;
    world.wait_gone("one", SOON).await;
    assert_eq!(get_server(&world, &twin).await["status"], "delivered");
    super::wait_for_event(&world, "Retained").await;
    let counts = world.simulator.counts().await;
    let releases = counts.get("DELETE /v3/flexMetal/servers/{uuid}").copied();
    assert_eq!(releases, Some(1), "that of the first");

    world.create(&server("one")).await;
    let next = world.wait_ready("one", SOON).await;
    assert_eq!(uuid(&next), twin);
    assert_eq!(count_orders(&world).await, 1);
}
