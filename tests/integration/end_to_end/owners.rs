//! The owner of a server: a namespace, by its UID, and an object's name. Covers recreated namespaces, clusters with
//! the same ID, and objects that transfer a server.

use std::path::Path;

use flexmetal_core::{cluster_id::ClusterId, owner::Owner};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::Api;
use kube::api::{ObjectMeta, PostParams};
use serde_json::{Value, json};
use tokio::process::Command;

use super::{
    ACKNOWLEDGE, ORDER_TAG, SOON, build_acknowledgement, build_server, check_invariants,
    cluster_wide::SharedOperator,
    count_orders, find_pending_token, get_owner, get_server, is_acknowledged, list_tags,
    namespace_deletion::{delete_namespace, wait_until_namespace_gone},
    text, wait_for_event, wait_for_polls, wait_server_status, wait_stalled,
};
use lab::rig::{Cluster, World, cluster, eventually, quick_timing, server};

fn uuid(object: &Value) -> String {
    text(&object["status"]["uuid"])
}

/// How many releases were sent.
async fn count_releases(world: &World) -> u64 {
    let counts = world.simulator.counts().await;
    let releases = counts.get("DELETE /v3/flexMetal/servers/{uuid}");
    releases.copied().unwrap_or(0)
}

/// Waits until the server has this object's ownership tags and no others of the operator.
async fn wait_for_only_owner_tags(world: &World, cluster_id: &str, name: &str, uuid: &str) {
    let owner = get_owner(&world.client, cluster_id, &world.namespace, name).await;
    let (cluster, order) = (
        format!("fmo-cluster:{cluster_id}"),
        format!("{ORDER_TAG}{owner}"),
    );
    eventually("the server has its tags and no other", SOON, async || {
        let mut own = list_tags(&get_server(world, uuid).await);
        own.retain(|tag| tag.starts_with("fmo-"));
        own.sort();
        let is_its = own.len() == 2 && own[0] == cluster && own[1].starts_with(&order);
        is_its.then_some(())
    })
    .await;
}

/// Waits until the object asks for this acknowledgement. Returns the token.
async fn wait_for_token(world: &World, name: &str, effect: &str) -> String {
    let is_asked = |object: &Value| find_pending_token(object, effect);
    world.wait_for(name, effect, SOON, is_asked).await
}

/// Waits until the object reports a server of a previous namespace, and offers both remedies.
async fn wait_for_server_exists(world: &World, name: &str, uuid: &str) {
    // `Adopt` is offered for a single server only. The `OrderAnother` token depends on the servers.
    let adopt = wait_for_token(world, name, "Adopt").await;
    let another = wait_for_token(world, name, "OrderAnother").await;
    let to_adopt = format!("To adopt {uuid}, set {ACKNOWLEDGE} to {adopt}");
    let to_order = format!("To order one now, set {ACKNOWLEDGE} to {another}");
    let words = ["live and billed", uuid, &to_adopt, &to_order];
    wait_stalled(world, name, "ServerExists", &words).await;
}

/// Deletes the namespace of a world, and creates it again with its account.
pub(super) async fn recreate_namespace(world: &World) {
    let namespaces: Api<Namespace> = Api::all(world.client.clone());
    let previous = namespaces.get(&world.namespace).await;
    let previous = previous.expect("it exists").metadata.uid;
    delete_namespace(world).await;
    wait_until_namespace_gone(world).await;
    let metadata = ObjectMeta {
        name: Some(world.namespace.clone()),
        ..ObjectMeta::default()
    };
    let namespace = Namespace {
        metadata,
        ..Namespace::default()
    };
    let made = namespaces.create(&PostParams::default(), &namespace).await;
    assert_ne!(made.expect("it can be made").metadata.uid, previous);
    // The API server may refuse objects for a moment after the deletion.
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

/// A world with a recreated namespace, a retained server of the old one, and the object applied again. Returns the
/// server.
async fn start_with_recreated_namespace(host: &SharedOperator, prefix: &str) -> (World, String) {
    let world = host.start_guest_world(prefix).await;
    let keeping = build_server("web", &json!({"deletionPolicy": "Retain"}));
    world.create(&keeping).await;
    let kept = uuid(&world.wait_ready("web", SOON).await);
    recreate_namespace(&world).await;
    assert!(super::is_retained(&get_server(&world, &kept).await));
    world.create(&keeping).await;
    wait_for_server_exists(&world, "web", &kept).await;
    wait_for_polls(&world, 3).await;
    assert!(super::is_retained(&get_server(&world, &kept).await));
    assert_eq!(
        (count_orders(&world).await, count_releases(&world).await),
        (1, 0)
    );
    (world, kept)
}

/// The recipe of `docs/operations.md` by which all objects of a namespace adopt their servers.
pub(super) async fn adopt_all(cluster: &Cluster, namespace: &str) {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/operations.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let lines = page.lines();
    let recipe: Vec<&str> = lines
        .skip_while(|line| !line.starts_with("kubectl get bms -n team-a -o jsonpath="))
        .take_while(|line| !line.starts_with("```"))
        .collect();
    assert!(!recipe.is_empty(), "the page has the recipe");
    let access = cluster.access();
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

/// After the acknowledgement, the object owns the server of the previous namespace.
async fn check_acknowledged_adoption(host: &SharedOperator) -> World {
    let (world, kept) = start_with_recreated_namespace(host, "adopt").await;
    let token = wait_for_token(&world, "web", "Adopt").await;
    // Another text is not a token.
    world.merge("web", &build_acknowledgement(&kept)).await;
    wait_for_polls(&world, 3).await;
    wait_for_server_exists(&world, "web", &kept).await;

    adopt_all(&host.cluster, &world.namespace).await;
    let web = world.wait_ready("web", SOON).await;
    assert_eq!(uuid(&web), kept);
    wait_for_only_owner_tags(&world, &host.world.cluster_id, "web", &kept).await;
    let used = |object: &Value| is_acknowledged(object, &token).then_some(());
    world.wait_for("web", "the token used", SOON, used).await;
    assert_eq!(
        (count_orders(&world).await, count_releases(&world).await),
        (1, 0)
    );
    // It is an ordinary server now.
    let release = json!({"spec": {"deletionPolicy": "Release"}});
    world.merge("web", &release).await;
    world.delete("web").await;
    world.wait_gone("web", SOON).await;
    wait_server_status(&world, &kept, "released").await;
    check_invariants(&world).await;
    world
}

/// After the acknowledgement, one other server is ordered, and the server of the previous namespace stays.
async fn check_acknowledged_order(host: &SharedOperator) -> World {
    let (world, kept) = start_with_recreated_namespace(host, "another").await;
    let token = wait_for_token(&world, "web", "OrderAnother").await;
    let before = list_tags(&get_server(&world, &kept).await);
    world.merge("web", &build_acknowledgement(&token)).await;
    let second = uuid(&world.wait_ready("web", SOON).await);
    assert_ne!(second, kept);
    let used = |object: &Value| is_acknowledged(object, &token).then(|| object.clone());
    let used = world.wait_for("web", "the token used", SOON, used).await;
    let annotations = &used["metadata"]["annotations"];
    assert_eq!(annotations[ACKNOWLEDGE], json!(token), "it is the user's");
    wait_for_only_owner_tags(&world, &host.world.cluster_id, "web", &second).await;
    assert_eq!(list_tags(&get_server(&world, &kept).await), before);
    assert_eq!(count_orders(&world).await, 2);

    // A token in the manifest has no effect on another object.
    let release = json!({"spec": {"deletionPolicy": "Release"}});
    world.merge("web", &release).await;
    world.delete("web").await;
    world.wait_gone("web", SOON).await;
    wait_server_status(&world, &second, "released").await;
    let mut third = server("web");
    third["metadata"]["annotations"] = json!({(ACKNOWLEDGE): token});
    world.create(&third).await;
    wait_for_server_exists(&world, "web", &kept).await;
    assert_ne!(wait_for_token(&world, "web", "OrderAnother").await, token);
    wait_for_polls(&world, 3).await;
    assert_eq!(count_orders(&world).await, 2);
    // After its release at the provider, the old server blocks nothing any more.
    let released = json!({"status": "releasing"});
    world.simulator.alter(&kept, &released).await;
    world.wait_ready("web", SOON).await;
    assert_eq!(
        (count_orders(&world).await, count_releases(&world).await),
        (3, 1)
    );
    check_invariants(&world).await;
    world
}

#[tokio::test]
async fn recreated_namespace_asks_about_servers() {
    let host = SharedOperator::start(2).await;
    // Kept to the end: without its provider no object is deleted.
    let _guests = tokio::join!(
        check_acknowledged_adoption(&host),
        check_acknowledged_order(&host)
    );
}

/// Creates a live server that another cluster with the same ID ordered for an object of this name. One per number.
async fn create_other_clusters_server(world: &World, name: &str, seq: u32) -> String {
    let cluster_id = ClusterId::parse(&world.cluster_id).expect("an identity");
    let owner = Owner::new(
        &cluster_id,
        &world.namespace,
        name,
        &format!("uid-in-another-cluster-{seq}"),
    );
    let tags = [cluster_id.tag(), owner.order_tag(seq)];
    let server = json!({"name": name, "tags": tags});
    text(&world.simulator.appear(&server).await["uuid"])
}

#[tokio::test]
async fn server_of_shared_id_needs_confirmation() {
    let mut world = World::start(cluster(), "shared-id").await;
    let first = create_other_clusters_server(&world, "web", 1_700_000_000).await;
    let second = create_other_clusters_server(&world, "web", 1_700_000_001).await;
    let before = list_tags(&get_server(&world, &first).await);
    world.create(&server("web")).await;
    let words = ["2 servers", "live and billed", &first, &second];
    wait_stalled(&world, "web", "ServerExists", &words).await;
    let both = wait_for_token(&world, "web", "OrderAnother").await;
    // With two servers, it is unclear which one to adopt.
    assert_eq!(
        find_pending_token(&world.get("web").await.unwrap(), "Adopt"),
        None
    );
    // Another object is not affected.
    world.create(&server("db")).await;
    world.wait_ready("db", SOON).await;

    // The token does not change after a restart.
    world.operator().restart();
    wait_for_polls(&world, 5).await;
    wait_stalled(&world, "web", "ServerExists", &words).await;
    assert_eq!(wait_for_token(&world, "web", "OrderAnother").await, both);
    assert_eq!(count_orders(&world).await, 1, "that of the neighbour");

    // After the release of one server, the token for both has no effect.
    let released = json!({"status": "releasing"});
    world.simulator.alter(&second, &released).await;
    wait_for_server_exists(&world, "web", &first).await;
    world.merge("web", &build_acknowledgement(&both)).await;
    wait_for_polls(&world, 3).await;
    wait_for_server_exists(&world, "web", &first).await;
    assert_eq!(list_tags(&get_server(&world, &first).await), before);
    assert_eq!(
        (count_orders(&world).await, count_releases(&world).await),
        (1, 0)
    );

    // With its UUID in the manifest, the object adopts the server.
    let named = json!({"spec": {"externalID": first}});
    world.merge("web", &named).await;
    let web = world.wait_ready("web", SOON).await;
    assert_eq!(uuid(&web), first);
    wait_for_only_owner_tags(&world, &world.cluster_id, "web", &first).await;
    let pending = &world.get("web").await.unwrap()["status"]["pendingAcknowledgements"];
    assert!(pending.is_null(), "{pending}");
    assert_eq!(
        (count_orders(&world).await, count_releases(&world).await),
        (1, 0)
    );
    world.delete("web").await;
    world.wait_gone("web", SOON).await;
    wait_server_status(&world, &first, "released").await;
    check_invariants(&world).await;
}

/// The object with the new name, as in Git.
fn build_renamed_object(name: &str, from: &str, uuid: &str) -> Value {
    build_server(name, &json!({"externalID": uuid, "hostname": from}))
}

/// Waits until the object with the new name owns the server, and checks that nothing else happened.
async fn wait_until_transferred(world: &World, from: &str, to: &str, server: &str) {
    world.wait_gone(from, SOON).await;
    let object = world.wait_ready(to, SOON).await;
    assert_eq!(uuid(&object), server);
    wait_for_only_owner_tags(world, &world.cluster_id, to, server).await;
    assert_eq!(get_server(world, server).await["status"], "delivered");
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
    // In two commits: the new object waits, because a server has only one owner.
    world
        .create(&build_renamed_object("slow-2", "slow", slow))
        .await;
    let words = [slow, "belongs to another object"];
    wait_stalled(&world, "slow-2", "OwnershipConflict", &words).await;
    world.wait_ready("slow", SOON).await;
    world.delete("slow").await;
    // In one commit, with a tool that applies before it deletes.
    world
        .create(&build_renamed_object("quick-2", "quick", quick))
        .await;
    world.delete("quick").await;
    tokio::join!(
        wait_until_transferred(&world, "slow", "slow-2", slow),
        wait_until_transferred(&world, "quick", "quick-2", quick),
    );
    wait_for_event(&world, "Retained").await;
    wait_for_polls(&world, 3).await;
    assert_eq!(
        (count_orders(&world).await, count_releases(&world).await),
        (3, 0)
    );

    // An observing object takes over no server.
    let mut watcher = build_renamed_object("watcher", "seen", seen);
    watcher["spec"]["managementPolicy"] = json!("ObserveOnly");
    world.create(&watcher).await;
    world.wait_ready("watcher", SOON).await;
    world.delete("seen").await;
    world.wait_gone("seen", SOON).await;
    wait_server_status(&world, seen, "released").await;
    // A transferred server is released like any other.
    world.delete("quick-2").await;
    world.wait_gone("quick-2", SOON).await;
    wait_server_status(&world, quick, "released").await;
    assert_eq!(
        (count_orders(&world).await, count_releases(&world).await),
        (3, 2)
    );
    check_invariants(&world).await;
}
