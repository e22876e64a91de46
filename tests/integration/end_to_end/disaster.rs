//! Disasters: the namespace, the cluster or the key is lost, and what Git or a backup has is applied again. Nothing is
//! ordered, released, stored or sent twice.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::{
    SOON, build_server, check_invariants, count_orders, find_pending_token, get_server,
    owners::{adopt_all, recreate_namespace},
    ssh_keys::{build_server_with_keys, build_ssh_key, public_key},
    tags::build_tag,
    text, wait_account_condition, wait_for_polls, wait_not_ready, wait_server_status,
    whitelists::build_whitelist,
};
use lab::rig::{Cluster, World, WorldOptions, cluster, install_kinds, quick_timing, server};

const ROTTERDAM: &str = "EU: Rotterdam";
/// A type that is out of stock at first.
const SCARCE: &str = "bm8.std.32";
/// The objects of [`create_small_objects`], by kind.
const SMALL_OBJECTS: [(&str, &str); 3] = [
    ("SshKey", "ops"),
    ("ServerTag", "team-web"),
    ("IpWhitelist", "office"),
];

fn uuid(object: &Value) -> String {
    text(&object["status"]["uuid"])
}

/// A reboot of the server `web`.
pub(super) fn build_reboot(name: &str, timeout: &str) -> Value {
    json!({
        "apiVersion": "flexmetal.dev/v1alpha1", "kind": "ServerCommand", "metadata": {"name": name},
        "spec": {"targetRef": {"name": "web"}, "action": "Reboot", "timeout": timeout},
    })
}

pub(super) async fn wait_command(world: &World, name: &str, kind: &str, reason: Option<&str>) {
    let commands = world.things("ServerCommand");
    commands
        .wait_for_condition(name, kind, "True", reason, SOON)
        .await;
}

fn small_objects() -> [Value; 3] {
    let key = format!("{} ops@test", public_key('A'));
    [
        build_ssh_key("ops", &json!({"publicKey": key})),
        build_tag("team-web", &json!({})),
        build_whitelist(
            "office",
            &json!({"entries": [{"name": "me", "cidr": "127.0.0.0/8"}]}),
        ),
    ]
}

/// Creates a stored key, a tag and a whitelist, and waits until all are at the provider.
pub(super) async fn create_small_objects(world: &World) {
    for object in small_objects() {
        world.things(&text(&object["kind"])).create(&object).await;
    }
    wait_small_objects_ready(world).await;
}

async fn wait_small_objects_ready(world: &World) {
    for (kind, name) in SMALL_OBJECTS {
        world.things(kind).wait_ready(name, SOON).await;
    }
}

/// The changes that reached the provider, by call: orders, releases, commands, installations, keys, tags, whitelist
/// entries. Not the tags of a server: an adopted server gets those of its new owner.
pub(super) async fn count_changes(world: &World) -> BTreeMap<String, u64> {
    let mut counts = world.simulator.counts().await;
    counts.retain(|call, _| !call.starts_with("GET ") && !call.contains("/servers/{uuid}/tag/"));
    counts
}

/// A world with two servers, a command that was sent, a key, a tag and a whitelist.
/// Returns the UUIDs of the servers `db` and `web`.
async fn start_with_everything(prefix: &str) -> (World, [String; 2]) {
    let world = World::start_with_lease_elsewhere(cluster(), prefix).await;
    create_small_objects(&world).await;
    world.create(&server("db")).await;
    world.create(&build_server_with_keys("web", &["ops"])).await;
    let servers = [
        uuid(&world.wait_ready("db", SOON).await),
        uuid(&world.wait_ready("web", SOON).await),
    ];
    let commands = world.things("ServerCommand");
    commands.create(&build_reboot("reboot", "30m")).await;
    wait_command(&world, "reboot", "Complete", None).await;
    (world, servers)
}

/// The manifests of `kubectl get -o json` without what belongs to the lost objects: status, UID, versions, times.
async fn get_cleaned_manifests(namespace: &str) -> Vec<Value> {
    let get = [
        "get",
        "bms,scmd,skey,stag,ipwl",
        "-n",
        namespace,
        "-o",
        "json",
    ];
    let list = cluster().kubectl_ok(&get).await;
    let mut list: Value = serde_json::from_str(&list).expect("kubectl prints JSON");
    let mut items = std::mem::take(list["items"].as_array_mut().expect("a list"));
    for item in &mut items {
        item.as_object_mut().expect("an object").remove("status");
        let metadata = item["metadata"].as_object_mut().expect("metadata");
        for field in ["uid", "resourceVersion", "creationTimestamp", "generation"] {
            metadata.remove(field).expect("it was there");
        }
        metadata.remove("managedFields");
    }
    assert_eq!(items.len(), 6);
    items
}

/// The manifest as a Git repository has it: name and spec.
fn to_git_manifest(item: &Value) -> Value {
    json!({
        "apiVersion": item["apiVersion"], "kind": item["kind"], "spec": item["spec"],
        "metadata": {"name": item["metadata"]["name"], "namespace": item["metadata"]["namespace"]},
    })
}

async fn kubectl_apply(cluster: &Cluster, items: &[Value]) {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    let apply = ["apply", "-f", "-"];
    let applied = cluster.kubectl_with_input(&apply, &list.to_string()).await;
    assert!(applied.status.success(), "{applied:?}");
}

/// The objects in a namespace with another UID take back what they had, once a user adopts the servers.
async fn check_everything_taken_back(
    world: &World,
    cluster: &Cluster,
    servers: &[String; 2],
    changes: &BTreeMap<String, u64>,
) {
    for name in ["db", "web"] {
        let is_asked = |object: &Value| find_pending_token(object, "Adopt");
        world.wait_for(name, "asking", SOON, is_asked).await;
    }
    wait_small_objects_ready(world).await;
    adopt_all(cluster, &world.namespace).await;
    for (name, server) in ["db", "web"].iter().zip(servers) {
        let object = world.wait_ready(name, SOON).await;
        assert_eq!(uuid(&object), *server, "{name}");
        assert_eq!(get_server(world, server).await["status"], "delivered");
    }
    wait_command(world, "reboot", "Failed", Some("NotRepeated")).await;
    wait_for_polls(world, 3).await;
    assert_eq!(count_changes(world).await, *changes);
    assert_eq!(world.simulator.list_servers().await.len(), servers.len());
    check_invariants(world).await;
}

#[tokio::test]
async fn lost_namespace_is_restored_from_manifests() {
    let (mut world, servers) = start_with_everything("lost").await;
    let manifests = get_cleaned_manifests(&world.namespace).await;
    let has_record = |item: &Value| {
        let annotations = &item["metadata"]["annotations"];
        item["kind"] == "ServerCommand" && annotations["flexmetal.dev/command"].is_string()
    };
    assert!(manifests.iter().any(has_record), "{manifests:#?}");
    let changes = count_changes(&world).await;
    // The namespace is gone, without a chance for the operator to release anything.
    world.operator().kill9();
    let none = json!({"metadata": {"finalizers": null}});
    for item in &manifests {
        let things = world.things(&text(&item["kind"]));
        things.merge(&text(&item["metadata"]["name"]), &none).await;
    }
    world
        .things("ProviderAccount")
        .merge("default", &none)
        .await;
    let freed = world
        .secrets()
        .patch("account-key", &PatchParams::default(), &Patch::Merge(&none))
        .await;
    freed.expect("a finalizer can be removed by hand");
    recreate_namespace(&world).await;
    kubectl_apply(cluster(), &manifests).await;
    world.operator().restart();
    check_everything_taken_back(&world, cluster(), &servers, &changes).await;
}

/// Another control plane with an empty etcd, and the operator with the old `--cluster-id`.
#[tokio::test]
async fn rebuilt_cluster_takes_back_its_servers() {
    let (mut world, servers) = start_with_everything("rebuilt").await;
    let manifests = get_cleaned_manifests(&world.namespace).await;
    let manifests: Vec<_> = manifests.iter().map(to_git_manifest).collect();
    let changes = count_changes(&world).await;
    world.operator().kill9();

    let rebuilt = Cluster::own();
    move_world(&mut world, &rebuilt).await;
    install_kinds(&world.client).await;
    let namespaces: Api<Namespace> = Api::all(world.client.clone());
    let namespace = Namespace {
        metadata: ObjectMeta {
            name: Some(world.namespace.clone()),
            ..ObjectMeta::default()
        },
        ..Namespace::default()
    };
    let made = namespaces.create(&PostParams::default(), &namespace).await;
    made.expect("the namespace can be made");
    world.write_key(world.simulator.api_key()).await;
    world
        .write_account(world.simulator.api(), &quick_timing())
        .await;
    kubectl_apply(&rebuilt, &manifests).await;
    world.start_operator();
    check_everything_taken_back(&world, &rebuilt, &servers, &changes).await;
    // They may be of others now: the deletion of their objects leaves them.
    for (kind, name) in &SMALL_OBJECTS[..2] {
        let object = world.things(kind).get(name).await.expect("it is there");
        assert_eq!(object["status"]["createdByObject"], false, "{object:#}");
    }
}

/// Lets the world and its next operator use another cluster.
pub(super) async fn move_world(world: &mut World, cluster: &Cluster) {
    world.client = cluster.client().await;
    world.set_kubeconfig(cluster.access().kubeconfig.clone());
}

/// The Secret is gone and the old key revoked, while one server waits for its order, one is being released, and one is
/// to be released.
#[tokio::test]
async fn new_key_after_a_lost_one_repeats_nothing() {
    const NEW: &str = "the-key-after-the-disaster";
    let mut world = World::prepare(cluster(), "key-lost", WorldOptions::default()).await;
    world.simulator.stock(ROTTERDAM, SCARCE, Some(0)).await;
    world.start_operator();
    world
        .create(&build_server("late", &json!({"instanceType": SCARCE})))
        .await;
    let names = ["web", "leaving", "unwanted"];
    for name in names {
        world.create(&server(name)).await;
    }
    let mut servers = Vec::new();
    for name in names {
        servers.push(uuid(&world.wait_ready(name, SOON).await));
    }
    wait_not_ready(&world, "late", "NoStock", &[]).await;
    world
        .things("ServerCommand")
        .create(&build_reboot("reboot", "30m"))
        .await;
    wait_command(&world, "reboot", "Complete", None).await;
    create_small_objects(&world).await;
    let slow = json!({"releaseSeconds": 3600.0});
    world.simulator.settings(&slow).await;
    world.delete("leaving").await;
    wait_server_status(&world, &servers[1], "releasing").await;
    let mut changes = count_changes(&world).await;

    world.operator().kill9();
    world.simulator.key(world.simulator.api_key(), false).await;
    let none = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    let secrets = world.secrets();
    let params = PatchParams::default();
    secrets.patch("account-key", &params, &none).await.unwrap();
    secrets
        .delete("account-key", &Default::default())
        .await
        .unwrap();
    world.operator().restart();
    wait_account_condition(
        &world,
        "default",
        "KeyAccepted",
        "False",
        "ReferenceNotFound",
    )
    .await;
    world.delete("unwanted").await;
    world.simulator.stock(ROTTERDAM, SCARCE, None).await;
    wait_not_ready(&world, "unwanted", "ReferenceNotFound", &["account-key"]).await;

    world.simulator.key(NEW, true).await;
    world.write_key(NEW).await;
    world.wait_ready("late", SOON).await;
    wait_server_status(&world, &servers[2], "releasing").await;
    world.simulator.advance(3600.0).await;
    for name in ["leaving", "unwanted"] {
        world.wait_gone(name, SOON).await;
    }
    assert_eq!(uuid(&world.wait_ready("web", SOON).await), servers[0]);
    wait_command(&world, "reboot", "Complete", None).await;
    wait_small_objects_ready(&world).await;
    wait_for_polls(&world, 3).await;
    // The order and the release that were due, once each.
    assert_eq!(count_orders(&world).await, 4);
    for call in [
        "POST /v3/flexMetal/servers",
        "DELETE /v3/flexMetal/servers/{uuid}",
    ] {
        *changes.entry(call.to_owned()).or_default() += 1;
    }
    assert_eq!(count_changes(&world).await, changes);
    check_invariants(&world).await;
}
