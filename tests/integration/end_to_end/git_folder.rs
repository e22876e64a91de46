//! A team's Git folder with thirty servers: applied, edited, pruned and restored.
//! The operator sends exactly the calls that each step needs.

use std::collections::BTreeMap;
use std::path::Path;

use futures::future::join_all;
use serde_json::{Value, json};

use super::{SOON, check_invariants, get_server_of, list_tags, text, wait_for_polls};
use lab::rig::{World, cluster, condition, eventually, server};

const SERVERS: usize = 30;
/// Removed from the folder: the operator releases these servers.
const RELEASED: std::ops::Range<usize> = 20..26;
/// Removed from the folder: the operator retains these servers.
const KEPT: std::ops::Range<usize> = 26..30;

fn name(number: usize) -> String {
    format!("server-{number:02}")
}

/// Writes a manifest into the folder, changed by `change`.
fn write_manifest(folder: &Path, number: usize, change: impl FnOnce(&mut Value)) {
    let mut manifest = server(&name(number));
    manifest["metadata"]["labels"] = json!({"team": "shop"});
    manifest["spec"]["tags"] = json!(["team-shop"]);
    if KEPT.contains(&number) {
        manifest["spec"]["deletionPolicy"] = json!("Retain");
    }
    change(&mut manifest);
    let file = folder.join(format!("{}.json", name(number)));
    std::fs::write(file, manifest.to_string()).expect("a manifest is written");
}

fn remove_manifest(folder: &Path, number: usize) {
    std::fs::remove_file(folder.join(format!("{}.json", name(number)))).expect("it was there");
}

/// Applies the folder as a GitOps tool with pruning does.
async fn apply_folder(world: &World, folder: &Path) {
    let folder = folder.to_str().expect("a plain path");
    let prune = "--prune-allowlist=flexmetal.dev/v1alpha1/BareMetalServer";
    let apply = ["apply", "-n", &world.namespace, "-f", folder];
    let how = ["--prune", "-l", "team=shop", prune, "--wait=false"];
    cluster().kubectl_ok(&[&apply[..], &how].concat()).await;
}

/// The changes that reached the hosting API since the last call, by method and path.
async fn count_new_changes(world: &World) -> BTreeMap<String, u64> {
    let mut counts = world.simulator.counts().await;
    counts.retain(|call, count| !call.starts_with("GET ") && *count > 0);
    world.simulator.clear_ledger().await;
    counts
}

fn expected_changes(calls: &[(&str, u64)]) -> BTreeMap<String, u64> {
    let call = |(call, count): &(&str, u64)| {
        let (method, path) = call.split_once(' ').expect("method and path");
        (format!("{method} /v3/flexMetal/{path}"), *count)
    };
    calls.iter().map(call).collect()
}

async fn wait_all_ready(world: &World, numbers: impl Iterator<Item = usize>) -> Vec<Value> {
    let names: Vec<String> = numbers.map(name).collect();
    join_all(names.iter().map(|name| world.wait_ready(name, SOON))).await
}

#[tokio::test]
async fn git_folder_is_edited_pruned_and_restored() {
    let world = World::start(cluster(), "folder").await;
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();

    // First apply, and a second one without changes.
    for number in 0..SERVERS {
        write_manifest(folder, number, |_| {});
    }
    apply_folder(&world, folder).await;
    let objects = wait_all_ready(&world, 0..SERVERS).await;
    apply_folder(&world, folder).await;
    wait_for_polls(&world, 3).await;
    assert_eq!(
        count_new_changes(&world).await,
        expected_changes(&[("POST servers", 30)])
    );

    // Each server gets another tag. Fields that cannot be changed in place cause no call.
    for number in 0..SERVERS {
        write_manifest(folder, number, |manifest| {
            manifest["spec"]["tags"] = json!(["team-shop", "tier-front"]);
            if number == 0 {
                manifest["spec"]["os"]["slug"] = json!("debian-13");
            }
        });
    }
    apply_folder(&world, folder).await;
    for object in &objects {
        let name = text(&object["metadata"]["name"]);
        let has_tag = |o: &Value| {
            let synced = condition(o, "Synced")?;
            let is_done = synced["status"] == "True" || synced["reason"] == "PendingChanges";
            let put_on = o["status"]["records"]["tags"].as_array()?;
            (is_done && put_on.contains(&json!("tier-front"))).then_some(())
        };
        world.wait_for(&name, "its tag", SOON, has_tag).await;
        let borne = list_tags(&get_server_of(&world, object).await);
        assert!(
            borne.contains(&"tier-front".to_owned()),
            "{name}: {borne:?}"
        );
    }
    wait_for_polls(&world, 3).await;
    let tagged = ("POST servers/{uuid}/tag/{tag}", 30);
    assert_eq!(count_new_changes(&world).await, expected_changes(&[tagged]));

    for number in RELEASED.chain(KEPT) {
        remove_manifest(folder, number);
    }
    apply_folder(&world, folder).await;
    for number in RELEASED.chain(KEPT) {
        world.wait_gone(&name(number), SOON).await;
    }
    wait_for_polls(&world, 3).await;
    let pruned = expected_changes(&[
        ("DELETE servers/{uuid}", 6),
        ("POST servers/{uuid}/tag/{tag}", 4),
    ]);
    assert_eq!(count_new_changes(&world).await, pruned);
    assert_eq!(world.simulator.list_live_servers().await.len(), 24);

    // Restored: released servers are ordered again, and retained servers are adopted again.
    for number in RELEASED.chain(KEPT) {
        write_manifest(folder, number, |_| {});
    }
    apply_folder(&world, folder).await;
    wait_all_ready(&world, RELEASED).await;
    let back = wait_all_ready(&world, KEPT).await;
    for (object, number) in back.iter().zip(KEPT) {
        assert_eq!(object["status"]["uuid"], objects[number]["status"]["uuid"]);
        let only_its = async || {
            let tags = list_tags(&get_server_of(&world, object).await);
            let own = tags.iter().filter(|tag| tag.starts_with("fmo-")).count();
            (own == 2).then_some(())
        };
        eventually("the tag of kept machines is off", SOON, only_its).await;
    }
    wait_for_polls(&world, 3).await;
    let restored = expected_changes(&[("POST servers", 6), ("DELETE servers/{uuid}/tag/{tag}", 4)]);
    assert_eq!(count_new_changes(&world).await, restored);

    // Adding an existing server's UUID to its manifest costs nothing.
    for number in KEPT {
        let kept_uuid = objects[number]["status"]["uuid"].clone();
        write_manifest(folder, number, |m| m["spec"]["externalID"] = kept_uuid);
    }
    apply_folder(&world, folder).await;
    let named = wait_all_ready(&world, KEPT).await;
    wait_for_polls(&world, 3).await;
    for (object, number) in named.iter().zip(KEPT) {
        assert_eq!(object["status"]["uuid"], objects[number]["status"]["uuid"]);
    }
    assert_eq!(count_new_changes(&world).await, expected_changes(&[]));
    assert_eq!(world.simulator.list_live_servers().await.len(), 30);
    check_invariants(&world).await;
}
