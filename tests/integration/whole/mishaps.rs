//! What can happen to a machine: it fails, somebody else releases it, it comes without
//! an address, loses its marks, has a twin, or its object is edited.

use serde_json::{Value, json};

use super::{
    SOON, acknowledging, held_for, is_acknowledged, judge, looks, machine, machine_of, orders,
    pending, stuck, tags,
};
use lab::rig::{Fault, Kstatus, World, cluster, condition, eventually, health, server};

const LONG: f64 = 3600.0;

/// Changes that reached the hosting API: everything but reading.
async fn changes(world: &World) -> usize {
    let ledger = world.simulator.ledger().await;
    ledger.iter().filter(|call| call["method"] != "GET").count()
}

fn uuid(object: &Value) -> &str {
    object["status"]["uuid"].as_str().expect("it has a machine")
}

#[tokio::test]
async fn failed_server_goes_after_second_refusal() {
    let world = World::start(cluster(), "failed").await;
    world.simulator.settings(&json!({"failureRate": 1.0})).await;
    world.create(&server("one")).await;
    stuck(&world, "one", "ProvisioningFailed", &["Delete this object"]).await;
    let object = world.get("one").await.unwrap();
    assert_eq!(health(&object), Kstatus::Failed);
    assert_eq!(object["status"]["providerStatus"], "failed");
    looks(&world, 3).await;
    assert_eq!(orders(&world).await, 1, "a failed machine is not replaced");

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
    // Refused twice, each time right after a read that shows it failed, and let go then.
    let deletes = of("DELETE");
    let [first, second] = deletes[..] else {
        panic!("{ledger:#?}");
    };
    let reads = of("GET");
    let is_read = |from: usize, to: usize| reads.iter().any(|at| (from..to).contains(at));
    assert!(is_read(0, first) && is_read(first, second), "{ledger:#?}");
    judge(&world).await;
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
    // The one without an address is delivered by hand.
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
        released_outside(&world),
        without_address(&world),
        without_marks(&world),
        with_half_of_the_marks(&world),
        with_a_twin(&world),
        vanished(&world),
    );
    looks(&world, 3).await;
    assert_eq!(orders(&world).await, names.len() as u64);
}

async fn released_outside(world: &World) {
    let object = world.get("released").await.unwrap();
    let change = json!({"status": "releasing"});
    world.simulator.alter(uuid(&object), &change).await;
    let words = [uuid(&object), "none is ordered in its place"];
    stuck(world, "released", "ReleasedExternally", &words).await;
    let shown = |now: &Value| (now["status"]["providerStatus"] == "released").then_some(());
    world
        .wait_for("released", "shown as released", SOON, shown)
        .await;
    // The object goes without a call: there is nothing to release any more.
    world.delete("released").await;
    world.wait_gone("released", SOON).await;
}

async fn without_address(world: &World) {
    let object = world
        .wait_for_condition("unaddressed", "Ready", "False", Some("Provisioning"), SOON)
        .await;
    let change = json!({"status": "delivered", "ipAddresses": []});
    world.simulator.alter(uuid(&object), &change).await;
    held_for(
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

async fn without_marks(world: &World) {
    let object = world.get("unmarked").await.unwrap();
    let marks = tags(&machine_of(world, &object).await);
    assert_eq!(marks.len(), 2, "{marks:?}");
    world
        .simulator
        .alter(uuid(&object), &json!({"tags": []}))
        .await;
    let order = marks.iter().find(|tag| tag.starts_with(super::ORDER_TAG));
    let words = [uuid(&object), order.unwrap(), "Restore the tag"];
    stuck(world, "unmarked", "TagsMissing", &words).await;
    world
        .simulator
        .alter(uuid(&object), &json!({"tags": marks}))
        .await;
    let healed = world.wait_ready("unmarked", SOON).await;
    assert_eq!(healed["status"]["uuid"], object["status"]["uuid"]);
}

/// The order tag still says whose it is, so the operator puts the cluster's back. Where that alone is left, a user puts the
/// order tag back.
async fn with_half_of_the_marks(world: &World) {
    let object = world.get("half-marked").await.unwrap();
    let mut marks = tags(&machine_of(world, &object).await);
    marks.sort();
    let (cluster, order) = (marks[0].clone(), marks[1].clone());
    let left = async |tag: &str| {
        let tags = json!({"tags": [tag]});
        world.simulator.alter(uuid(&object), &tags).await;
    };
    left(&order).await;
    eventually("both marks are there again", SOON, async || {
        let mut now = tags(&machine(world, uuid(&object)).await);
        now.sort();
        (now == marks).then_some(())
    })
    .await;
    left(&cluster).await;
    stuck(world, "half-marked", "TagsMissing", &[&order]).await;
    looks(world, 3).await;
    let now = tags(&machine(world, uuid(&object)).await);
    assert_eq!(now, [cluster], "nothing is put back");
    left(&order).await;
    let healed = world.wait_ready("half-marked", SOON).await;
    assert_eq!(healed["status"]["uuid"], object["status"]["uuid"]);
}

async fn with_a_twin(world: &World) {
    let object = world.get("twin").await.unwrap();
    let marks = machine_of(world, &object).await["tags"].clone();
    let twin = world
        .simulator
        .appear(&json!({"name": "twin", "tags": marks}))
        .await;
    let twin = twin["uuid"].as_str().unwrap();
    let words = [uuid(&object), twin, "Release the others at the provider"];
    stuck(world, "twin", "DuplicateServers", &words).await;
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

/// Missing is not gone: the object says so when it is certain, and orders nothing in its place.
async fn vanished(world: &World) {
    let object = world.get("vanished").await.unwrap();
    world
        .simulator
        .alter(uuid(&object), &json!({"hidden": true}))
        .await;
    stuck(
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
    let is_asked = |object: &Value| pending(object, "AssumeAbsent");
    let token = world.wait_for("one", "asked", SOON, is_asked).await;
    let words = [uuid(&lost), "no other known server", &token];
    stuck(&world, "one", "ServerNotFound", &words).await;
    assert_eq!(orders(&world).await, 1);
}

#[tokio::test]
async fn acknowledged_missing_server_is_replaced() {
    let mut world = World::start(cluster(), "absent").await;
    // The other one shows that the listings are complete.
    for name in ["known", "one"] {
        world.create(&server(name)).await;
    }
    world.wait_ready("known", SOON).await;
    let lost = world.wait_ready("one", SOON).await;
    let gone = json!({"hidden": true, "status": "releasing"});
    world.simulator.alter(uuid(&lost), &gone).await;
    let is_asked = |object: &Value| pending(object, "AssumeAbsent");
    let token = world.wait_for("one", "asked", SOON, is_asked).await;
    stuck(&world, "one", "ServerNotFound", &[uuid(&lost), &token]).await;
    looks(&world, 3).await;
    assert_eq!(orders(&world).await, 2);

    // Another process looks for it as long once more, and the token stays.
    world.operator().restart();
    world.merge("one", &acknowledging(&token)).await;
    let is_another = |object: &Value| {
        let another = object["status"]["uuid"].as_str()? != uuid(&lost);
        (another && is_acknowledged(object, &token)).then_some(())
    };
    world
        .wait_for("one", "another machine", SOON, is_another)
        .await;
    world.wait_ready("one", SOON).await;
    assert_eq!(orders(&world).await, 3);
    judge(&world).await;
}

#[tokio::test]
async fn edit_after_ordering_is_only_pending() {
    let world = World::start(cluster(), "edit").await;
    world.create(&server("one")).await;
    let object = world.wait_ready("one", SOON).await;
    world
        .wait_for_condition("one", "Synced", "True", Some("InSync"), SOON)
        .await;
    let before = changes(&world).await;
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
                // Only the generation that it speaks of is another, and it says what is pending.
                let mut ready = ready.clone();
                ready["message"] = message.clone().into();
                ready["observedGeneration"] = pending["metadata"]["generation"].clone();
                ready
            })
            .as_ref()
    );
    assert_eq!(health(&pending), Kstatus::Current);
    looks(&world, 3).await;
    assert_eq!(changes(&world).await, before, "an edit was sent");

    let undone = json!({"spec": {
        "hostname": null, "os": {"slug": "ubuntu-2404-lts"},
        "sshKeys": server("one")["spec"]["sshKeys"],
    }});
    world.merge("one", &undone).await;
    world
        .wait_for_condition("one", "Synced", "True", Some("InSync"), SOON)
        .await;
    judge(&world).await;
}

#[tokio::test]
async fn answers_that_say_nothing_change_nothing() {
    let world = World::start(cluster(), "dumb").await;
    world.create(&server("one")).await;
    world.wait_ready("one", SOON).await;
    looks(&world, 3).await;
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
        // One look may be chance; the pauses between looks grow.
        eventually(&format!("{fault} has hit"), SOON, async || {
            let faults = world.simulator.faults().await;
            let rule = faults.iter().find(|fault| fault["id"] == rule)?;
            (rule["applied"].as_u64()? >= 2).then_some(())
        })
        .await;
        world.simulator.clear_faults().await;
        looks(&world, 1).await;
        let now = world.get("one").await.unwrap();
        assert_eq!(now["status"], settled["status"], "after {fault}");
    }
    assert_eq!(orders(&world).await, 1);
    judge(&world).await;
}

/// A second machine of an object is never released: it stays when the object goes, which is told, and the next object of the
/// name takes it.
#[tokio::test]
async fn duplicate_server_outlives_first_release() {
    let world = World::start(cluster(), "twins").await;
    world.create(&server("one")).await;
    let object = world.wait_ready("one", SOON).await;
    let marks = machine_of(&world, &object).await["tags"].clone();
    let twin = json!({"name": "one", "tags": marks});
    let twin = world.simulator.appear(&twin).await;
    let twin = twin["uuid"].as_str().unwrap().to_owned();
    stuck(&world, "one", "DuplicateServers", &[]).await;
    world
        .simulator
        .settings(&json!({"releaseSeconds": LONG}))
        .await;
    world.delete("one").await;
    // The release of the recorded one has begun.
    let first = world
        .wait_for("one", "begun", SOON, |now: &Value| {
            let begun = &now["status"]["records"]["release"]["server"];
            begun.as_str().map(str::to_owned)
        })
        .await;
    assert_eq!(first, uuid(&object));
    super::machine_becomes(&world, &first, "releasing").await;
    world
        .simulator
        .alter(&first, &json!({"status": "released"}))
        .await;
    world.wait_gone("one", SOON).await;
    assert_eq!(machine(&world, &twin).await["status"], "delivered");
    super::told(&world, "Retained").await;
    let counts = world.simulator.counts().await;
    let releases = counts.get("DELETE /v3/flexMetal/servers/{uuid}").copied();
    assert_eq!(releases, Some(1), "that of the first");

    world.create(&server("one")).await;
    let next = world.wait_ready("one", SOON).await;
    assert_eq!(uuid(&next), twin);
    assert_eq!(orders(&world).await, 1);
}
