//! Whose a server is: a namespace, by its UID, and an object's name in it. Namespaces that are made again, clusters that share
//! an ID, and objects that hand a server over.

use std::path::Path;

use flexmetal_core::{cluster_id::ClusterId, owner::Owner};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::Api;
use kube::api::{DeleteParams, ObjectMeta, PostParams};
use serde_json::{Value, json};
use tokio::process::Command;

use super::{
    ACKNOWLEDGE, ORDER_TAG, SOON, acknowledging, cluster_wide::Host, is_acknowledged, judge, looks,
    machine, machine_becomes, orders, owner_of, pending, stuck, tags, text, told, with,
};
use lab::rig::{World, cluster, eventually, quick_timing, server};

fn uuid(object: &Value) -> String {
    text(&object["status"]["uuid"])
}

/// How many releases were sent.
async fn releases(world: &World) -> u64 {
    let counts = world.simulator.counts().await;
    let releases = counts.get("DELETE /v3/flexMetal/servers/{uuid}");
    releases.copied().unwrap_or(0)
}

/// Waits until the server has the tags of this object and no other of the operator's.
async fn is_only_its(world: &World, cluster_id: &str, name: &str, uuid: &str) {
    let owner = owner_of(&world.client, cluster_id, &world.namespace, name).await;
    let (cluster, order) = (
        format!("fmo-cluster:{cluster_id}"),
        format!("{ORDER_TAG}{owner}"),
    );
    eventually("the server has its tags and no other", SOON, async || {
        let mut own = tags(&machine(world, uuid).await);
        own.retain(|tag| tag.starts_with("fmo-"));
        own.sort();
        let is_its = own.len() == 2 && own[0] == cluster && own[1].starts_with(&order);
        is_its.then_some(())
    })
    .await;
}

/// Waits until the object asks for this; returns the token.
async fn asked(world: &World, name: &str, effect: &str) -> String {
    let is_asked = |object: &Value| pending(object, effect);
    world.wait_for(name, effect, SOON, is_asked).await
}

/// Waits until the object says that a server of a former namespace is there, and offers both ways on.
async fn server_exists(world: &World, name: &str, uuid: &str) {
    // Only of a single server; where there were more before, the other token was another one.
    let adopt = asked(world, name, "Adopt").await;
    let another = asked(world, name, "OrderAnother").await;
    let to_adopt = format!("To adopt {uuid}, set {ACKNOWLEDGE} to {adopt}");
    let to_order = format!("To order one now, set {ACKNOWLEDGE} to {another}");
    let words = ["live and billed", uuid, &to_adopt, &to_order];
    stuck(world, name, "ServerExists", &words).await;
}

/// Deletes the namespace of a world, and makes it again with its account.
async fn make_again(world: &World) {
    let namespaces: Api<Namespace> = Api::all(world.client.clone());
    let uid = async || {
        let found = namespaces.get_opt(&world.namespace).await.ok()?;
        Some(found.and_then(|found| found.metadata.uid))
    };
    let former = uid().await.expect("the API server answers");
    let everything = DeleteParams::default();
    namespaces
        .delete(&world.namespace, &everything)
        .await
        .expect("it can be deleted");
    eventually("the namespace is gone", SOON, async || {
        uid().await?.is_none().then_some(())
    })
    .await;
    let metadata = ObjectMeta {
        name: Some(world.namespace.clone()),
        ..ObjectMeta::default()
    };
    let namespace = Namespace {
        metadata,
        ..Namespace::default()
    };
    let made = namespaces.create(&PostParams::default(), &namespace).await;
    assert_ne!(made.expect("it can be made").metadata.uid, former);
    // An API server may have forgotten for a moment that it was.
    let maps: Api<ConfigMap> = Api::namespaced(world.client.clone(), &world.namespace);
    let map = ConfigMap {
        metadata: ObjectMeta {
            name: Some("first".to_owned()),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    };
    eventually("the namespace takes objects", SOON, async || {
        maps.create(&PostParams::default(), &map).await.ok()
    })
    .await;
    world.write_key(world.simulator.api_key()).await;
    world
        .write_account(world.simulator.api(), &quick_timing())
        .await;
}

/// A world whose namespace was made again while a server of it was kept, and the object applied again. Returns the server.
async fn applied_again(host: &Host, prefix: &str) -> (World, String) {
    let world = host.guest(prefix).await;
    let keeping = with("web", &json!({"deletionPolicy": "Retain"}));
    world.create(&keeping).await;
    let kept = uuid(&world.wait_ready("web", SOON).await);
    make_again(&world).await;
    assert!(super::is_retained(&machine(&world, &kept).await));
    world.create(&keeping).await;
    server_exists(&world, "web", &kept).await;
    looks(&world, 3).await;
    assert!(super::is_retained(&machine(&world, &kept).await));
    assert_eq!((orders(&world).await, releases(&world).await), (1, 0));
    (world, kept)
}

/// The recipe of `docs/operations.md` by which all objects of a namespace take their servers.
async fn adopt_all(host: &Host, namespace: &str) {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/operations.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let lines = page.lines();
    let recipe: Vec<&str> = lines
        .skip_while(|line| !line.starts_with("kubectl get bms -n team-a -o jsonpath="))
        .take_while(|line| !line.starts_with("```"))
        .collect();
    assert!(!recipe.is_empty(), "the page has the recipe");
    let access = host.cluster.access();
    let programs = access.kubectl.parent().expect("a folder").display();
    let path = std::env::var("PATH").expect("a path");
    let output = Command::new("bash")
        .args(["-ec", &recipe.join("\n").replace("team-a", namespace)])
        .env("PATH", format!("{programs}:{path}"))
        .env("KUBECONFIG", &access.kubeconfig)
        .output()
        .await
        .expect("bash runs");
    assert!(output.status.success(), "{output:?}");
}

/// Acknowledged, the server of the former namespace is the object's.
async fn adopted(host: &Host) -> World {
    let (world, kept) = applied_again(host, "adopt").await;
    let token = asked(&world, "web", "Adopt").await;
    // Another word is none.
    world.merge("web", &acknowledging(&kept)).await;
    looks(&world, 3).await;
    server_exists(&world, "web", &kept).await;

    adopt_all(host, &world.namespace).await;
    let web = world.wait_ready("web", SOON).await;
    assert_eq!(uuid(&web), kept);
    is_only_its(&world, &host.world.cluster_id, "web", &kept).await;
    let used = |object: &Value| is_acknowledged(object, &token).then_some(());
    world.wait_for("web", "the token used", SOON, used).await;
    assert_eq!((orders(&world).await, releases(&world).await), (1, 0));
    // It is a server like any other from here on.
    let release = json!({"spec": {"deletionPolicy": "Release"}});
    world.merge("web", &release).await;
    world.delete("web").await;
    world.wait_gone("web", SOON).await;
    machine_becomes(&world, &kept, "released").await;
    judge(&world).await;
    world
}

/// Acknowledged, another server is ordered next to that of the former namespace, once.
async fn ordered_another(host: &Host) -> World {
    let (world, kept) = applied_again(host, "another").await;
    let token = asked(&world, "web", "OrderAnother").await;
    let before = tags(&machine(&world, &kept).await);
    world.merge("web", &acknowledging(&token)).await;
    let second = uuid(&world.wait_ready("web", SOON).await);
    assert_ne!(second, kept);
    let used = |object: &Value| is_acknowledged(object, &token).then(|| object.clone());
    let used = world.wait_for("web", "the token used", SOON, used).await;
    let annotations = &used["metadata"]["annotations"];
    assert_eq!(annotations[ACKNOWLEDGE], json!(token), "it is the user's");
    is_only_its(&world, &host.world.cluster_id, "web", &second).await;
    assert_eq!(tags(&machine(&world, &kept).await), before);
    assert_eq!(orders(&world).await, 2);

    // The token may stand in the manifest: to another object it says nothing.
    let release = json!({"spec": {"deletionPolicy": "Release"}});
    world.merge("web", &release).await;
    world.delete("web").await;
    world.wait_gone("web", SOON).await;
    machine_becomes(&world, &second, "released").await;
    let mut third = server("web");
    third["metadata"]["annotations"] = json!({(ACKNOWLEDGE): token});
    world.create(&third).await;
    server_exists(&world, "web", &kept).await;
    assert_ne!(asked(&world, "web", "OrderAnother").await, token);
    looks(&world, 3).await;
    assert_eq!(orders(&world).await, 2);
    // Released at the provider, it is in nobody's way any more.
    let released = json!({"status": "releasing"});
    world.simulator.alter(&kept, &released).await;
    world.wait_ready("web", SOON).await;
    assert_eq!((orders(&world).await, releases(&world).await), (3, 1));
    judge(&world).await;
    world
}

#[tokio::test]
async fn recreated_namespace_asks_about_servers() {
    let host = Host::start(2).await;
    // Kept to the end: without its provider no object is freed.
    let _guests = tokio::join!(adopted(&host), ordered_another(&host));
}

/// A live server that another cluster of this ID ordered for an object of this namespace and name: one for each number.
async fn of_another_cluster(world: &World, name: &str, seq: u32) -> String {
    let cluster_id = ClusterId::parse(&world.cluster_id).expect("an identity");
    let owner = Owner::new(
        &cluster_id,
        &world.namespace,
        name,
        &format!("uid-in-another-cluster-{seq}"),
    );
    let tags = [cluster_id.tag(), owner.order_tag(seq)];
    let machine = json!({"name": name, "tags": tags});
    text(&world.simulator.appear(&machine).await["uuid"])
}

#[tokio::test]
async fn server_of_shared_id_needs_confirmation() {
    let mut world = World::start(cluster(), "shared-id").await;
    let first = of_another_cluster(&world, "web", 1_700_000_000).await;
    let second = of_another_cluster(&world, "web", 1_700_000_001).await;
    let before = tags(&machine(&world, &first).await);
    world.create(&server("web")).await;
    let words = ["2 servers", "live and billed", &first, &second];
    stuck(&world, "web", "ServerExists", &words).await;
    let both = asked(&world, "web", "OrderAnother").await;
    // Of two nobody knows which one is meant.
    assert_eq!(pending(&world.get("web").await.unwrap(), "Adopt"), None);
    // A neighbour is not concerned.
    world.create(&server("db")).await;
    world.wait_ready("db", SOON).await;

    // Another process knows no more, and the token stays.
    world.operator().restart();
    looks(&world, 5).await;
    stuck(&world, "web", "ServerExists", &words).await;
    assert_eq!(asked(&world, "web", "OrderAnother").await, both);
    assert_eq!(orders(&world).await, 1, "that of the neighbour");

    // With one of them released it is another situation: the token that stood for both says nothing.
    let released = json!({"status": "releasing"});
    world.simulator.alter(&second, &released).await;
    server_exists(&world, "web", &first).await;
    world.merge("web", &acknowledging(&both)).await;
    looks(&world, 3).await;
    server_exists(&world, "web", &first).await;
    assert_eq!(tags(&machine(&world, &first).await), before);
    assert_eq!((orders(&world).await, releases(&world).await), (1, 0));

    // Named in the manifest it is the object's.
    let named = json!({"spec": {"externalID": first}});
    world.merge("web", &named).await;
    let web = world.wait_ready("web", SOON).await;
    assert_eq!(uuid(&web), first);
    is_only_its(&world, &world.cluster_id, "web", &first).await;
    let pending = &world.get("web").await.unwrap()["status"]["pendingAcknowledgements"];
    assert!(pending.is_null(), "{pending}");
    assert_eq!((orders(&world).await, releases(&world).await), (1, 0));
    world.delete("web").await;
    world.wait_gone("web", SOON).await;
    machine_becomes(&world, &first, "released").await;
    judge(&world).await;
}

/// The object of the new name, as in Git.
fn renamed(name: &str, from: &str, uuid: &str) -> Value {
    with(name, &json!({"externalID": uuid, "hostname": from}))
}

/// The object of the new name has the server, and nothing else was done.
async fn is_handed_over(world: &World, from: &str, to: &str, server: &str) {
    world.wait_gone(from, SOON).await;
    let object = world.wait_ready(to, SOON).await;
    assert_eq!(uuid(&object), server);
    is_only_its(world, &world.cluster_id, to, server).await;
    assert_eq!(machine(world, server).await["status"], "delivered");
}

#[tokio::test]
async fn server_moves_to_the_object_naming_it() {
    let world = World::start(cluster(), "rename").await;
    let names = ["slow", "quick", "seen"];
    for name in names {
        world.create(&server(name)).await;
    }
    let mut servers = Vec::new();
    for name in names {
        servers.push(uuid(&world.wait_ready(name, SOON).await));
    }
    let [slow, quick, seen] = &servers[..] else {
        panic!("{servers:?}");
    };
    // In two commits: the new one waits, as one server has one object.
    world.create(&renamed("slow-2", "slow", slow)).await;
    let words = [slow, "belongs to another object"];
    stuck(&world, "slow-2", "OwnershipConflict", &words).await;
    world.wait_ready("slow", SOON).await;
    world.delete("slow").await;
    // In one, by a tool that applies before it deletes.
    world.create(&renamed("quick-2", "quick", quick)).await;
    world.delete("quick").await;
    tokio::join!(
        is_handed_over(&world, "slow", "slow-2", slow),
        is_handed_over(&world, "quick", "quick-2", quick),
    );
    told(&world, "Retained").await;
    looks(&world, 3).await;
    assert_eq!((orders(&world).await, releases(&world).await), (3, 0));

    // One that only looks at it takes nothing over.
    let mut watcher = renamed("watcher", "seen", seen);
    watcher["spec"]["managementPolicy"] = json!("ObserveOnly");
    world.create(&watcher).await;
    world.wait_ready("watcher", SOON).await;
    world.delete("seen").await;
    world.wait_gone("seen", SOON).await;
    machine_becomes(&world, seen, "released").await;
    // And what was handed over is released like any other.
    world.delete("quick-2").await;
    world.wait_gone("quick-2", SOON).await;
    machine_becomes(&world, quick, "released").await;
    assert_eq!((orders(&world).await, releases(&world).await), (3, 2));
    judge(&world).await;
}
