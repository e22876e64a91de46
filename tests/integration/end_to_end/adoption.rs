//! Existing servers: adopted by `externalID` or only observed, and never ordered.

use flexmetal_core::{cluster_id::ClusterId, owner::Owner};
use futures::future::join_all;
use serde_json::{Value, json};

use super::{
    SERVERS, SOON, apply, build_server, check_invariants, get_owner, get_server, list_tags,
    start_with_other_account, text, wait_for_event, wait_for_polls, wait_server_status,
    wait_stalled,
};
use lab::rig::{
    Fault, Kstatus, World, WorldOptions, cluster, condition, eventually, health, quick_timing,
    server,
};

/// Creates a server that a user ordered by hand or with another tool.
async fn create_external_server(world: &World, name: &str, tags: &[&str]) -> String {
    let server = json!({"name": name, "tags": tags});
    text(&world.simulator.appear(&server).await["uuid"])
}

/// An object that adopts a server.
fn build_adopting_object(name: &str, uuid: &str) -> Value {
    build_server(name, &json!({"externalID": uuid, "hostname": name}))
}

/// The object without the fields that only an order needs.
fn without_order_fields(mut object: Value) -> Value {
    let spec = object["spec"].as_object_mut().expect("a spec");
    for field in ["location", "instanceType", "os"] {
        spec.remove(field).expect("it was there");
    }
    object
}

fn build_observing_object(name: &str, uuid: &str) -> Value {
    let spec = json!({"externalID": uuid, "hostname": name, "managementPolicy": "ObserveOnly"});
    without_order_fields(build_server(name, &spec))
}

/// All calls except reads that reached the hosting API, with the simulator's counts.
async fn list_changes(world: &World) -> Vec<(String, u64)> {
    let counts = world.simulator.counts().await;
    let changes = counts
        .into_iter()
        .filter(|(call, _)| !call.starts_with("GET "));
    changes.collect()
}

/// The operator's own tags on a server.
async fn list_own_tags(world: &World, uuid: &str) -> Vec<String> {
    let mut tags = list_tags(&get_server(world, uuid).await);
    tags.retain(|tag| tag.starts_with("fmo-"));
    tags
}

/// Checks that the API server refuses the object with these words.
async fn assert_refused(world: &World, object: &Value, words: &str) {
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
    // On a slow computer fifty tag calls take longer than the limit for each one, a quarter of the grace period.
    // Half of the grace period lies between the tags and the last read.
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
            .map(|name| create_external_server(&world, name, &["web", "terraform"])),
    );
    let uuids = uuids.await;
    join_all(names.iter().zip(&uuids).map(|(name, uuid)| {
        // Users may paste the UUID in upper case.
        let object = build_adopting_object(name, &uuid.to_uppercase());
        let world = &world;
        async move { world.create(&object).await }
    }))
    .await;
    for (name, uuid) in names.iter().zip(&uuids) {
        // With fifty objects at once, a later reconcile adds a tag whose permit comes late.
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
            let mut shown = list_tags(&get_server(&world, uuid).await);
            shown.sort();
            (shown.len() == 4).then_some(shown)
        })
        .await;
        assert!(shown[0].starts_with("fmo-cluster:") && shown[1].starts_with("fmo-order:"));
        assert_eq!(shown[2..], ["terraform", "web"]);
    }
    wait_for_event(&world, "Adopted").await;
    let marked = vec![(
        "POST /v3/flexMetal/servers/{uuid}/tag/{tag}".to_owned(),
        2 * FLEET as u64,
    )];
    assert_eq!(list_changes(&world).await, marked);
    // A restarted operator finds them unchanged.
    world.operator().restart();
    wait_for_polls(&world, 4).await;
    assert_eq!(list_changes(&world).await, marked);

    // They are now ordinary servers: one is retained, and adopted by an object with another name.
    world
        .merge("web-00", &json!({"spec": {"deletionPolicy": "Retain"}}))
        .await;
    world.delete("web-00").await;
    world.wait_gone("web-00", SOON).await;
    world
        .create(&without_order_fields(build_adopting_object(
            "api", &uuids[0],
        )))
        .await;
    let api = world.wait_ready("api", SOON).await;
    assert_eq!(text(&api["status"]["uuid"]), uuids[0]);
    eventually(
        "only the marks of the new object are left",
        SOON,
        async || {
            let own_tags = list_own_tags(&world, &uuids[0]).await;
            (own_tags.len() == 2 && !own_tags.iter().any(|t| t.starts_with("fmo-retained")))
                .then_some(())
        },
    )
    .await;
    world.delete("api").await;
    world.wait_gone("api", SOON).await;
    wait_server_status(&world, &uuids[0], "released").await;
    let live = world.simulator.list_live_servers().await;
    assert_eq!(live.len(), FLEET - 1);
    check_invariants(&world).await;
}

#[tokio::test]
async fn two_objects_never_share_adopted_server() {
    let world = World::start(cluster(), "rivals").await;
    let uuid = create_external_server(&world, "one", &[]).await;
    let (one, two) = (
        build_adopting_object("one", &uuid),
        build_adopting_object("two", &uuid),
    );
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
    wait_stalled(&world, second, "OwnershipConflict", &words).await;
    let owner = get_owner(&world.client, &world.cluster_id, &world.namespace, &first).await;
    let own = owner.as_str();
    let order_tags = |own_tags: Vec<String>| -> Vec<String> {
        own_tags
            .into_iter()
            .filter(|t| t.starts_with("fmo-order:"))
            .collect()
    };
    let marked = order_tags(list_own_tags(&world, &uuid).await);
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
    // An object that never owned the server does not affect it.
    world.create(&build_adopting_object("three", &uuid)).await;
    wait_stalled(&world, "three", "OwnershipConflict", &[&uuid]).await;
    world.delete("three").await;
    world.wait_gone("three", SOON).await;
    assert_eq!(get_server(&world, &uuid).await["status"], "delivered");
    assert_eq!(order_tags(list_own_tags(&world, &uuid).await).len(), 1);
    let counts = list_changes(&world).await;
    let orders_or_releases = counts.iter().any(|(call, _)| !call.contains("/tag/"));
    assert!(!orders_or_releases, "{counts:?}");
    check_invariants(&world).await;
}

#[tokio::test]
async fn server_of_another_account_is_not_adopted() {
    let (world, other) = start_with_other_account("theirs").await;
    let theirs = other.appear(&json!({"name": "theirs"})).await;
    let theirs = text(&theirs["uuid"]);
    world.create(&build_adopting_object("mine", &theirs)).await;
    let words = ["spec.externalID", theirs.as_str()];
    wait_stalled(&world, "mine", "ServerNotFound", &words).await;
    wait_for_polls(&world, 3).await;
    assert_eq!(list_changes(&world).await, []);
    assert!(other.counts().await.is_empty(), "nobody calls there");
}

#[tokio::test]
async fn failed_adoption_changes_nothing() {
    let world = World::start(cluster(), "unfit").await;
    let nobody = "00000000-0000-4000-8000-00000000aaaa";
    world
        .create(&build_adopting_object("nowhere", nobody))
        .await;
    let foreign =
        create_external_server(&world, "foreign", &["fmo-cluster:fedcba9876543210"]).await;
    world
        .create(&build_adopting_object("foreign", &foreign))
        .await;
    // The tag of an object in a namespace that this operator does not watch: the object may exist.
    let cluster_id = ClusterId::parse(&world.cluster_id).unwrap();
    let order = Owner::new(&cluster_id, "elsewhere", "web", "uid").order_tag(1);
    let unseen = create_external_server(&world, "unseen", &[&order]).await;
    world
        .create(&build_adopting_object("unseen", &unseen))
        .await;
    let over = create_external_server(&world, "over", &[]).await;
    world
        .simulator
        .alter(&over, &json!({"status": "released"}))
        .await;
    world.create(&build_adopting_object("over", &over)).await;
    wait_stalled(
        &world,
        "nowhere",
        "ServerNotFound",
        &["spec.externalID", nobody],
    )
    .await;
    wait_stalled(
        &world,
        "foreign",
        "OwnershipConflict",
        &["another cluster", &foreign],
    )
    .await;
    wait_stalled(
        &world,
        "unseen",
        "OwnershipConflict",
        &[&unseen, "belongs to another object"],
    )
    .await;
    wait_stalled(
        &world,
        "over",
        "ReleasedExternally",
        &[&over, "none is ordered"],
    )
    .await;
    wait_for_polls(&world, 4).await;
    assert_eq!(list_changes(&world).await, []);

    assert_refused(
        &world,
        &build_adopting_object("bad", "web-1"),
        "spec.externalID",
    )
    .await;
    assert_refused(
        &world,
        &build_adopting_object("bad", &nobody[1..]),
        "spec.externalID",
    )
    .await;
    assert_refused(
        &world,
        &build_adopting_object("bad", &format!("{nobody}\u{e9}")),
        "spec.externalID",
    )
    .await;
    // The number of a dedicated host is no UUID: no object orders, releases or tags a host by it.
    let (_, hosts) = world.simulator.call("GET", "/v3/host", None).await;
    let dedicated = hosts[0]["id"].as_u64().expect("hosts have numbers");
    assert_refused(
        &world,
        &build_adopting_object("bad", &dedicated.to_string()),
        "spec.externalID",
    )
    .await;
    // The next apply corrects a typing error. After adoption the server's UUID is immutable.
    let right = create_external_server(&world, "nowhere", &[]).await;
    world
        .merge("nowhere", &json!({"spec": {"externalID": right}}))
        .await;
    world.wait_ready("nowhere", SOON).await;
    let words = "externalID may not change";
    assert_refused(&world, &build_adopting_object("nowhere", nobody), words).await;
    let without = build_server(
        "nowhere",
        &json!({"externalID": null, "hostname": "nowhere"}),
    );
    assert_refused(&world, &without, words).await;
    // The operator notices that the other owner's tag is gone.
    world
        .simulator
        .alter(&foreign, &json!({"tags": ["web"]}))
        .await;
    world.wait_ready("foreign", SOON).await;
    // The operator ignores an invalid ownership tag.
    let torn = create_external_server(&world, "torn", &["fmo-order:what"]).await;
    world.create(&build_adopting_object("torn", &torn)).await;
    world.wait_ready("torn", SOON).await;
    for name in ["nowhere", "foreign", "torn", "unseen", "over"] {
        world
            .merge(name, &json!({"spec": {"deletionPolicy": "Retain"}}))
            .await;
        world.delete(name).await;
        world.wait_gone(name, SOON).await;
    }
    assert_eq!(get_server(&world, &right).await["status"], "delivered");
    check_invariants(&world).await;
}

#[tokio::test]
async fn observed_server_is_never_changed() {
    let mut world = World::start(cluster(), "observed").await;
    let uuid = create_external_server(&world, "seen", &["web"]).await;
    world.create(&build_observing_object("seen", &uuid)).await;
    let ready = world
        .wait_for_condition("seen", "Ready", "True", Some("Delivered"), SOON)
        .await;
    assert_eq!(text(&ready["status"]["uuid"]), uuid);
    let shown = ["location", "instanceType", "os", "hostname"].map(|of| &ready["status"][of]);
    let expected = ["EU: Rotterdam", "bm7.std.8", "ubuntu-2404-lts", "seen"];
    assert_eq!(shown, expected);
    assert_eq!(ready["metadata"]["finalizers"], Value::Null);
    // The status follows changes by others.
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
    // An object may observe another object's server.
    world.create(&server("owner")).await;
    let owner = world.wait_ready("owner", SOON).await;
    let owned = text(&owner["status"]["uuid"]);
    world
        .create(&build_observing_object("double", &owned))
        .await;
    world
        .wait_for_condition("double", "Ready", "True", Some("Delivered"), SOON)
        .await;
    let before = list_changes(&world).await;
    world.operator().restart();
    wait_for_polls(&world, 4).await;
    for name in ["seen", "double"] {
        world.delete(name).await;
        world.wait_gone(name, SOON).await;
    }
    assert_eq!(list_changes(&world).await, before);
    // An object without a server reports the remedy, and one with a server keeps it.
    let policy = json!({"managementPolicy": "ObserveOnly"});
    world.create(&build_server("empty", &policy)).await;
    wait_stalled(&world, "empty", "ObserveOnly", &["nothing is ordered"]).await;
    world.merge("owner", &json!({"spec": policy})).await;
    world.delete("owner").await;
    let words = ["is billed", &owned, "spec.managementPolicy to Full"];
    super::wait_deletion_blocked(&world, "owner", "ObserveOnly", &words).await;
    wait_for_polls(&world, 3).await;
    assert_eq!(list_changes(&world).await, before);
    world
        .merge(
            "owner",
            &json!({"spec": {"managementPolicy": "Full", "deletionPolicy": "Release"}}),
        )
        .await;
    world.wait_gone("owner", SOON).await;
    wait_server_status(&world, &owned, "released").await;
    check_invariants(&world).await;
}

#[tokio::test]
async fn retained_server_returns_by_external_id() {
    let world = World::start(cluster(), "back").await;
    let keep = build_server("web", &json!({"deletionPolicy": "Retain"}));
    world.create(&keep).await;
    let kept = text(&world.wait_ready("web", SOON).await["status"]["uuid"]);
    world.delete("web").await;
    world.wait_gone("web", SOON).await;
    // Adopted under another name: the old object orders a new server when it is applied again.
    world
        .create(&without_order_fields(build_adopting_object("api", &kept)))
        .await;
    let back = world.wait_ready("api", SOON).await;
    assert_eq!(text(&back["status"]["uuid"]), kept);
    eventually("it is kept no more", SOON, async || {
        (!super::is_retained(&get_server(&world, &kept).await)).then_some(())
    })
    .await;
    assert_eq!(super::count_orders(&world).await, 1);
    apply(&world.client, Some(&world.namespace), &keep).await;
    let another = world.wait_ready("web", SOON).await;
    assert_ne!(text(&another["status"]["uuid"]), kept);
    assert_eq!(super::count_orders(&world).await, 2);
    // A suspended object waits.
    let other = create_external_server(&world, "later", &[]).await;
    let mut later = build_adopting_object("later", &other);
    later["spec"]["suspend"] = json!(true);
    world.create(&later).await;
    super::wait_suspended(&world, "later", &["spec.suspend"]).await;
    assert_eq!(list_own_tags(&world, &other).await, Vec::<String>::new());
    check_invariants(&world).await;
}
