//! A team's Git folder of thirty servers: applied, edited, pruned and restored. What was sent is exactly what each of
//! these steps asks for.

use std::collections::BTreeMap;
use std::path::Path;

use futures::future::join_all;
use serde_json::{Value, json};

use super::{SOON, judge, looks, machine_of, tags, text};
use lab::rig::{World, cluster, condition, eventually, server};

const SERVERS: usize = 30;
/// Those that are taken out of the folder: their machines are released.
const RELEASED: std::ops::Range<usize> = 20..26;
/// Those whose machines stay.
const KEPT: std::ops::Range<usize> = 26..30;

fn name(number: usize) -> String {
    format!("server-{number:02}")
}

/// Writes a manifest into the folder, changed by `change`.
fn write(folder: &Path, number: usize, change: impl FnOnce(&mut Value)) {
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

fn take_out(folder: &Path, number: usize) {
    std::fs::remove_file(folder.join(format!("{}.json", name(number)))).expect("it was there");
}

/// What a tool with pruning does with the folder.
async fn sync(world: &World, folder: &Path) {
    let folder = folder.to_str().expect("a plain path");
    let prune = "--prune-allowlist=flexmetal.dev/v1alpha1/BareMetalServer";
    let apply = ["apply", "-n", &world.namespace, "-f", folder];
    let how = ["--prune", "-l", "team=shop", prune, "--wait=false"];
    cluster().kubectl_ok(&[&apply[..], &how].concat()).await;
}

/// The changes that reached the hosting API since the last time, by method and path.
async fn sent(world: &World) -> BTreeMap<String, u64> {
    let mut counts = world.simulator.counts().await;
    counts.retain(|call, count| !call.starts_with("GET ") && *count > 0);
    world.simulator.clear_ledger().await;
    counts
}

fn expected(calls: &[(&str, u64)]) -> BTreeMap<String, u64> {
    let call = |(call, count): &(&str, u64)| {
        let (method, path) = call.split_once(' ').expect("method and path");
        (format!("{method} /v3/flexMetal/{path}"), *count)
    };
    calls.iter().map(call).collect()
}

async fn all_ready(world: &World, numbers: impl Iterator<Item = usize>) -> Vec<Value> {
    let names: Vec<String> = numbers.map(name).collect();
    join_all(names.iter().map(|name| world.wait_ready(name, SOON))).await
}

#[tokio::test]
async fn git_folder_is_edited_pruned_and_restored() {
    let world = World::start(cluster(), "folder").await;
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();

    // Applied, and applied again.
    for number in 0..SERVERS {
        write(folder, number, |_| {});
    }
    sync(&world, folder).await;
    let objects = all_ready(&world, 0..SERVERS).await;
    sync(&world, folder).await;
    looks(&world, 3).await;
    assert_eq!(sent(&world).await, expected(&[("POST servers", 30)]));

    // Edited: a tag each. What cannot be changed in place sends nothing.
    for number in 0..SERVERS {
        write(folder, number, |manifest| {
            manifest["spec"]["tags"] = json!(["team-shop", "tier-front"]);
            if number == 0 {
                manifest["spec"]["os"]["slug"] = json!("debian-13");
            }
        });
    }
    sync(&world, folder).await;
    for object in &objects {
        let name = text(&object["metadata"]["name"]);
        let has_tag = |o: &Value| {
            let synced = condition(o, "Synced")?;
            let is_done = synced["status"] == "True" || synced["reason"] == "PendingChanges";
            let put_on = o["status"]["records"]["tags"].as_array()?;
            (is_done && put_on.contains(&json!("tier-front"))).then_some(())
        };
        world.wait_for(&name, "its tag", SOON, has_tag).await;
        let borne = tags(&machine_of(&world, object).await);
        assert!(
            borne.contains(&"tier-front".to_owned()),
            "{name}: {borne:?}"
        );
    }
    looks(&world, 3).await;
    let tagged = ("POST servers/{uuid}/tag/{tag}", 30);
    assert_eq!(sent(&world).await, expected(&[tagged]));

    // Pruned.
    for number in RELEASED.chain(KEPT) {
        take_out(folder, number);
    }
    sync(&world, folder).await;
    for number in RELEASED.chain(KEPT) {
        world.wait_gone(&name(number), SOON).await;
    }
    looks(&world, 3).await;
    let pruned = expected(&[
        ("DELETE servers/{uuid}", 6),
        ("POST servers/{uuid}/tag/{tag}", 4),
    ]);
    assert_eq!(sent(&world).await, pruned);
    assert_eq!(world.simulator.list_live_servers().await.len(), 24);

    // Restored as it was: what was released is ordered anew, and each machine that was kept is taken back.
    for number in RELEASED.chain(KEPT) {
        write(folder, number, |_| {});
    }
    sync(&world, folder).await;
    all_ready(&world, RELEASED).await;
    let back = all_ready(&world, KEPT).await;
    for (object, number) in back.iter().zip(KEPT) {
        assert_eq!(object["status"]["uuid"], objects[number]["status"]["uuid"]);
        let only_its = async || {
            let tags = tags(&machine_of(&world, object).await);
            let own = tags.iter().filter(|tag| tag.starts_with("fmo-")).count();
            (own == 2).then_some(())
        };
        eventually("the tag of kept machines is off", SOON, only_its).await;
    }
    looks(&world, 3).await;
    let restored = expected(&[("POST servers", 6), ("DELETE servers/{uuid}/tag/{tag}", 4)]);
    assert_eq!(sent(&world).await, restored);

    // To name in the manifest what an object has already costs nothing.
    for number in KEPT {
        let machine = objects[number]["status"]["uuid"].clone();
        write(folder, number, |m| m["spec"]["externalID"] = machine);
    }
    sync(&world, folder).await;
    let named = all_ready(&world, KEPT).await;
    looks(&world, 3).await;
    for (object, number) in named.iter().zip(KEPT) {
        assert_eq!(object["status"]["uuid"], objects[number]["status"]["uuid"]);
    }
    assert_eq!(sent(&world).await, expected(&[]));
    assert_eq!(world.simulator.list_live_servers().await.len(), 30);
    judge(&world).await;
}
