//! Machines that were there before their objects: taken on by `externalID` or only looked at, and never ordered.

use flexmetal_core::{cluster_id::ClusterId, owner::Owner};
use futures::future::join_all;
use serde_json::{Value, json};

use super::{
    SERVERS, SOON, apply, judge, looks, machine, machine_becomes, owner_of, stuck, tags, text,
    told, with, with_other_account,
};
use lab::rig::{
    Fault, Kstatus, World, WorldOptions, cluster, condition, eventually, health, quick_timing,
    server,
};

/// A machine that somebody ordered by hand or with another tool.
async fn by_hand(world: &World, name: &str, tags: &[&str]) -> String {
    let machine = json!({"name": name, "tags": tags});
    text(&world.simulator.appear(&machine).await["uuid"])
}

/// An object that names a machine.
fn naming(name: &str, uuid: &str) -> Value {
    with(name, &json!({"externalID": uuid, "hostname": name}))
}

/// The same without what only an order needs.
fn bare(mut object: Value) -> Value {
    let spec = object["spec"].as_object_mut().expect("a spec");
    for field in ["location", "instanceType", "os"] {
        spec.remove(field).expect("it was there");
    }
    object
}

fn observing(name: &str, uuid: &str) -> Value {
    let spec = json!({"externalID": uuid, "hostname": name, "managementPolicy": "ObserveOnly"});
    bare(with(name, &spec))
}

/// Everything but looks that reached the hosting API, by the simulator's count.
async fn changes(world: &World) -> Vec<(String, u64)> {
    let counts = world.simulator.counts().await;
    let changes = counts
        .into_iter()
        .filter(|(call, _)| !call.starts_with("GET "));
    changes.collect()
}

/// The operator's own tags of a machine.
async fn marks(world: &World, uuid: &str) -> Vec<String> {
    let mut tags = tags(&machine(world, uuid).await);
    tags.retain(|tag| tag.starts_with("fmo-"));
    tags
}

/// What is refused, and with these words.
async fn refused(world: &World, object: &Value, words: &str) {
    let apply = ["apply", "-n", &world.namespace, "-f", "-"];
    let applied = cluster()
        .kubectl_with_input(&apply, &object.to_string())
        .await;
    let said = String::from_utf8_lossy(&applied.stderr).into_owned();
    assert!(!applied.status.success() && said.contains(words), "{said}");
}

#[tokio::test]
async fn fleet_adoption_only_adds_ownership_tags() {
    const FLEET: usize = 50;
    // On a busy machine fifty marks at once take longer than the quarter of the grace period in which each is to be sent. Twice
    // that quarter lies between the marks and the last look.
    let mut timing = quick_timing();
    timing["absenceGracePeriod"] = json!("24s");
    let plan = WorldOptions {
        timing,
        ..WorldOptions::default()
    };
    let mut world = World::prepare(cluster(), "fleet", plan).await;
    world.start_operator();
    let names: Vec<String> = (0..FLEET).map(|n| format!("web-{n:02}")).collect();
    let uuids = join_all(
        names
            .iter()
            .map(|name| by_hand(&world, name, &["web", "terraform"])),
    );
    let uuids = uuids.await;
    join_all(names.iter().zip(&uuids).map(|(name, uuid)| {
        // As a person copies it from wherever.
        let object = naming(name, &uuid.to_uppercase());
        let world = &world;
        async move { world.create(&object).await }
    }))
    .await;
    for (name, uuid) in names.iter().zip(&uuids) {
        // Fifty at once: a mark whose turn comes late is put on by a later pass.
        let is_there = |object: &Value| {
            let synced = condition(object, "Synced")?;
            let is_whole = health(object) == Kstatus::Current && synced["status"] == "True";
            is_whole.then(|| object.clone())
        };
        let ready = world
            .wait_for(name, "ready and synced", SOON, is_there)
            .await;
        assert_eq!(text(&ready["status"]["uuid"]), *uuid);
        let shown = eventually("both marks are on", SOON, async || {
            let mut shown = tags(&machine(&world, uuid).await);
            shown.sort();
            (shown.len() == 4).then_some(shown)
        })
        .await;
        assert!(shown[0].starts_with("fmo-cluster:") && shown[1].starts_with("fmo-order:"));
        assert_eq!(shown[2..], ["terraform", "web"]);
    }
    told(&world, "Adopted").await;
    let marked = vec![(
        "POST /v3/flexMetal/servers/{uuid}/tag/{tag}".to_owned(),
        2 * FLEET as u64,
    )];
    assert_eq!(changes(&world).await, marked);
    // Another process finds them as they are.
    world.operator().restart();
    looks(&world, 4).await;
    assert_eq!(changes(&world).await, marked);

    // From now on they are servers like all others: one is kept, and taken on under another name.
    world
        .merge("web-00", &json!({"spec": {"deletionPolicy": "Retain"}}))
        .await;
    world.delete("web-00").await;
    world.wait_gone("web-00", SOON).await;
    world.create(&bare(naming("api", &uuids[0]))).await;
    let api = world.wait_ready("api", SOON).await;
    assert_eq!(text(&api["status"]["uuid"]), uuids[0]);
    eventually(
        "only the marks of the new object are left",
        SOON,
        async || {
            let marks = marks(&world, &uuids[0]).await;
            (marks.len() == 2 && !marks.iter().any(|t| t.starts_with("fmo-retained"))).then_some(())
        },
    )
    .await;
    world.delete("api").await;
    world.wait_gone("api", SOON).await;
    machine_becomes(&world, &uuids[0], "released").await;
    let live = world.simulator.list_live_servers().await;
    assert_eq!(live.len(), FLEET - 1);
    judge(&world).await;
}

#[tokio::test]
async fn two_objects_never_share_adopted_server() {
    let world = World::start(cluster(), "rivals").await;
    let uuid = by_hand(&world, "one", &[]).await;
    let (one, two) = (naming("one", &uuid), naming("two", &uuid));
    // Between the read that shows both order tags and the removal of one of them, both objects can read.
    let slow = Fault::new(json!({"delay": {"ms": 2000, "before": true}}));
    world
        .simulator
        .fault(slow.on("DELETE", &format!("{SERVERS}/*")))
        .await;
    tokio::join!(world.create(&one), world.create(&two));
    let first = eventually("one of the two has it", SOON, async || {
        let is_ready = async |name: &str| {
            let object = world.get(name).await?;
            (condition(&object, "Ready")?["status"] == "True").then(|| name.to_owned())
        };
        match is_ready("one").await {
            Some(name) => Some(name),
            None => is_ready("two").await,
        }
    })
    .await;
    let second = if first == "one" { "two" } else { "one" };
    let words = [
        &uuid,
        "belongs to another object",
        "spec.deletionPolicy is Retain",
    ];
    stuck(&world, second, "OwnershipConflict", &words).await;
    let owner = owner_of(&world.client, &world.cluster_id, &world.namespace, &first).await;
    let own = owner.as_str();
    let order_tags = |marks: Vec<String>| -> Vec<String> {
        marks
            .into_iter()
            .filter(|t| t.starts_with("fmo-order:"))
            .collect()
    };
    let marked = order_tags(marks(&world, &uuid).await);
    assert!(
        marked.len() == 1 && marked[0].contains(own),
        "{marked:?} {own}"
    );

    world
        .merge(&first, &json!({"spec": {"deletionPolicy": "Retain"}}))
        .await;
    world.delete(&first).await;
    world.wait_gone(&first, SOON).await;
    let ready = world.wait_ready(second, SOON).await;
    assert_eq!(text(&ready["status"]["uuid"]), uuid);
    // Whoever never had it takes nothing along.
    world.create(&naming("three", &uuid)).await;
    stuck(&world, "three", "OwnershipConflict", &[&uuid]).await;
    world.delete("three").await;
    world.wait_gone("three", SOON).await;
    assert_eq!(machine(&world, &uuid).await["status"], "delivered");
    assert_eq!(order_tags(marks(&world, &uuid).await).len(), 1);
    let counts = changes(&world).await;
    let orders_or_releases = counts.iter().any(|(call, _)| !call.contains("/tag/"));
    assert!(!orders_or_releases, "{counts:?}");
    judge(&world).await;
}

#[tokio::test]
async fn server_of_another_account_is_not_adopted() {
    let (world, other) = with_other_account("theirs").await;
    let theirs = other.appear(&json!({"name": "theirs"})).await;
    let theirs = text(&theirs["uuid"]);
    world.create(&naming("mine", &theirs)).await;
    let words = ["spec.externalID", theirs.as_str()];
    stuck(&world, "mine", "ServerNotFound", &words).await;
    looks(&world, 3).await;
    assert_eq!(changes(&world).await, []);
    assert!(other.counts().await.is_empty(), "nobody calls there");
}

#[tokio::test]
async fn failed_adoption_changes_nothing() {
    let world = World::start(cluster(), "unfit").await;
    let nobody = "00000000-0000-4000-8000-00000000aaaa";
    world.create(&naming("nowhere", nobody)).await;
    let foreign = by_hand(&world, "foreign", &["fmo-cluster:fedcba9876543210"]).await;
    world.create(&naming("foreign", &foreign)).await;
    // Of an object of a namespace that this operator does not see: it may be there.
    let cluster_id = ClusterId::parse(&world.cluster_id).unwrap();
    let order = Owner::new(&cluster_id, "elsewhere", "web", "uid").order_tag(1);
    let unseen = by_hand(&world, "unseen", &[&order]).await;
    world.create(&naming("unseen", &unseen)).await;
    let over = by_hand(&world, "over", &[]).await;
    world
        .simulator
        .alter(&over, &json!({"status": "released"}))
        .await;
    world.create(&naming("over", &over)).await;
    stuck(
        &world,
        "nowhere",
        "ServerNotFound",
        &["spec.externalID", nobody],
    )
    .await;
    stuck(
        &world,
        "foreign",
        "OwnershipConflict",
        &["another cluster", &foreign],
    )
    .await;
    stuck(
        &world,
        "unseen",
        "OwnershipConflict",
        &[&unseen, "belongs to another object"],
    )
    .await;
    stuck(
        &world,
        "over",
        "ReleasedExternally",
        &[&over, "none is ordered"],
    )
    .await;
    looks(&world, 4).await;
    assert_eq!(changes(&world).await, []);

    refused(&world, &naming("bad", "web-1"), "spec.externalID").await;
    refused(&world, &naming("bad", &nobody[1..]), "spec.externalID").await;
    refused(
        &world,
        &naming("bad", &format!("{nobody}\u{e9}")),
        "spec.externalID",
    )
    .await;
    // Nor is the number of a dedicated host an identifier: no object orders, releases or marks one.
    let (_, hosts) = world.simulator.call("GET", "/v3/host", None).await;
    let dedicated = hosts[0]["id"].as_u64().expect("hosts have numbers");
    refused(
        &world,
        &naming("bad", &dedicated.to_string()),
        "spec.externalID",
    )
    .await;
    // A slip is mended by the next apply, and the machine that it then has stays its own.
    let right = by_hand(&world, "nowhere", &[]).await;
    world
        .merge("nowhere", &json!({"spec": {"externalID": right}}))
        .await;
    world.wait_ready("nowhere", SOON).await;
    let words = "externalID may not change";
    refused(&world, &naming("nowhere", nobody), words).await;
    let without = with(
        "nowhere",
        &json!({"externalID": null, "hostname": "nowhere"}),
    );
    refused(&world, &without, words).await;
    // What ends by itself is noticed.
    world
        .simulator
        .alter(&foreign, &json!({"tags": ["web"]}))
        .await;
    world.wait_ready("foreign", SOON).await;
    // What nobody can have put on says nothing.
    let torn = by_hand(&world, "torn", &["fmo-order:what"]).await;
    world.create(&naming("torn", &torn)).await;
    world.wait_ready("torn", SOON).await;
    for name in ["nowhere", "foreign", "torn", "unseen", "over"] {
        world
            .merge(name, &json!({"spec": {"deletionPolicy": "Retain"}}))
            .await;
        world.delete(name).await;
        world.wait_gone(name, SOON).await;
    }
    assert_eq!(machine(&world, &right).await["status"], "delivered");
    judge(&world).await;
}

#[tokio::test]
async fn observed_server_is_never_changed() {
    let mut world = World::start(cluster(), "observed").await;
    let uuid = by_hand(&world, "seen", &["web"]).await;
    world.create(&observing("seen", &uuid)).await;
    let ready = world
        .wait_for_condition("seen", "Ready", "True", Some("Delivered"), SOON)
        .await;
    assert_eq!(text(&ready["status"]["uuid"]), uuid);
    let shown = ["location", "instanceType", "os", "hostname"].map(|of| &ready["status"][of]);
    let machine = ["EU: Rotterdam", "bm7.std.8", "ubuntu-2404-lts", "seen"];
    assert_eq!(shown, machine);
    assert_eq!(ready["metadata"]["finalizers"], Value::Null);
    // It follows what others do.
    world
        .simulator
        .alter(
            &uuid,
            &json!({"tags": ["web", "more"], "ipAddresses": ["192.0.2.77"]}),
        )
        .await;
    world
        .wait_for("seen", "the new address", SOON, |object| {
            let shown = &object["status"]["addresses"][0]["address"];
            (shown == "192.0.2.77").then_some(())
        })
        .await;
    // A machine of another object may be looked at, too.
    world.create(&server("owner")).await;
    let owner = world.wait_ready("owner", SOON).await;
    let owned = text(&owner["status"]["uuid"]);
    world.create(&observing("double", &owned)).await;
    world
        .wait_for_condition("double", "Ready", "True", Some("Delivered"), SOON)
        .await;
    let before = changes(&world).await;
    world.operator().restart();
    looks(&world, 4).await;
    for name in ["seen", "double"] {
        world.delete(name).await;
        world.wait_gone(name, SOON).await;
    }
    assert_eq!(changes(&world).await, before);
    // One without a machine is told what to do, and one that has one keeps it.
    let policy = json!({"managementPolicy": "ObserveOnly"});
    world.create(&with("empty", &policy)).await;
    stuck(&world, "empty", "ObserveOnly", &["nothing is ordered"]).await;
    world.merge("owner", &json!({"spec": policy})).await;
    world.delete("owner").await;
    let words = ["is billed", &owned, "spec.managementPolicy to Full"];
    super::blocked(&world, "owner", "ObserveOnly", &words).await;
    looks(&world, 3).await;
    assert_eq!(changes(&world).await, before);
    world
        .merge(
            "owner",
            &json!({"spec": {"managementPolicy": "Full", "deletionPolicy": "Release"}}),
        )
        .await;
    world.wait_gone("owner", SOON).await;
    machine_becomes(&world, &owned, "released").await;
    judge(&world).await;
}

#[tokio::test]
async fn retained_server_returns_by_external_id() {
    let world = World::start(cluster(), "back").await;
    let keep = with("web", &json!({"deletionPolicy": "Retain"}));
    world.create(&keep).await;
    let kept = text(&world.wait_ready("web", SOON).await["status"]["uuid"]);
    world.delete("web").await;
    world.wait_gone("web", SOON).await;
    // Under another name: the object that had it orders one of its own when it is applied again.
    world.create(&bare(naming("api", &kept))).await;
    let back = world.wait_ready("api", SOON).await;
    assert_eq!(text(&back["status"]["uuid"]), kept);
    eventually("it is kept no more", SOON, async || {
        (!super::is_retained(&machine(&world, &kept).await)).then_some(())
    })
    .await;
    assert_eq!(super::orders(&world).await, 1);
    apply(&world.client, Some(&world.namespace), &keep).await;
    let another = world.wait_ready("web", SOON).await;
    assert_ne!(text(&another["status"]["uuid"]), kept);
    assert_eq!(super::orders(&world).await, 2);
    // A suspended one waits.
    let other = by_hand(&world, "later", &[]).await;
    let mut later = naming("later", &other);
    later["spec"]["suspend"] = json!(true);
    world.create(&later).await;
    super::suspended(&world, "later", &["spec.suspend"]).await;
    assert_eq!(marks(&world, &other).await, Vec::<String>::new());
    judge(&world).await;
}
