//! `--read-only`: everything is read and reported, and nothing is sent. Without the flag, all of it is done once.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    SOON, build_server, check_invariants, count_orders, get_server, hosts, list_tags, read_secret,
    ssh_keys, tags, text, wait_account_condition, wait_for_polls, wait_server_status, whitelists,
};
use lab::rig::{Operator, Start, World, WorldOptions, cluster, condition, eventually, server};

/// Calls as the ledger writes them.
const HOST_POWER: &str = "PUT /v3/host/{hostId}/stop";
const COMMAND: &str = "POST /v3/flexMetal/servers/{uuid}/commands";
const PASSWORD: &str = "GET /v3/flexMetal/servers/{uuid}/rootPassword";

/// Each object with a change that is not sent: kind, name, and what Synced names.
const PENDING: [(&str, &str, &str); 13] = [
    (
        "BareMetalServer",
        "fresh",
        "order bm7.std.8 at EU: Rotterdam",
    ),
    ("BareMetalServer", "web", "add: blue"),
    ("BareMetalServer", "gone", "release server"),
    ("BareMetalServer", "again", "re-install server"),
    ("BareMetalServer", "windows", "root password"),
    ("BareMetalServer", "files", "write ConfigMap files"),
    ("ServerCommand", "reboot", "send Reboot"),
    ("ServerTag", "made", "create tag \"made\""),
    ("ServerTag", "old", "delete tag \"old\""),
    ("SshKey", "ops", "store the key"),
    ("SshKey", "former", "delete stored key"),
    ("IpWhitelist", "office", "add me: 127.0.0.0/8"),
    ("DedicatedHost", "db", "switched off"),
];

/// Objects that were never reconciled without the flag.
const NEW: [(&str, &str); 5] = [
    ("BareMetalServer", "fresh"),
    ("ServerCommand", "reboot"),
    ("ServerTag", "made"),
    ("SshKey", "ops"),
    ("IpWhitelist", "office"),
];

/// Starts another operator of this world, with these flags.
fn start_with_flags(world: &World, flags: &[&str]) -> Operator {
    let start = Start {
        flags: flags.iter().map(|flag| (*flag).to_owned()).collect(),
        ..world.start_of_operator().clone()
    };
    let log = world
        .folder()
        .join(format!("operator{}.log", flags.concat()));
    Operator::start(start, &log)
}

fn build_command(name: &str) -> Value {
    json!({
        "apiVersion": "flexmetal.dev/v1alpha1", "kind": "ServerCommand",
        "metadata": {"name": name},
        "spec": {"targetRef": {"name": "web"}, "action": "Reboot"},
    })
}

/// Objects as an operator without the flag leaves them.
async fn create_existing(world: &World) {
    let windows = json!({"os": {"slug": "windows-2022"}, "sshKeys": []});
    for object in ["web", "gone", "again", "files"].map(server) {
        world.create(&object).await;
    }
    world.create(&build_server("windows", &windows)).await;
    for name in ["web", "gone", "again", "windows", "files"] {
        world.wait_ready(name, SOON).await;
    }
    let existing = [
        tags::build_tag("old", &json!({})),
        ssh_keys::build_deleting_key("former", 'B'),
        hosts::build_host("db", hosts::HOST, &json!({"power": "PoweredOn"})),
    ];
    for object in existing {
        let things = world.things(object["kind"].as_str().expect("a kind"));
        let made = things.create(&object).await;
        things
            .wait_ready(&text(&made["metadata"]["name"]), SOON)
            .await;
    }
}

/// Changes of every kind: new objects, edits and deletions.
async fn change_everything(world: &World) {
    world.create(&server("fresh")).await;
    world
        .merge("web", &json!({"spec": {"tags": ["blue"]}}))
        .await;
    world.delete("gone").await;
    world
        .merge("again", &json!({"spec": {"install": {"revision": 1}}}))
        .await;
    let password = json!({"spec": {"rootPassword": {"secretRef": {"name": "secret"}}}});
    world.merge("windows", &password).await;
    let outputs = json!({"spec": {"outputs": {"configMapRef": {"name": "files"}}}});
    world.merge("files", &outputs).await;
    let new = [
        build_command("reboot"),
        tags::build_tag("made", &json!({})),
        ssh_keys::build_deleting_key("ops", 'A'),
        whitelists::build_whitelist(
            "office",
            &json!({"entries": [{"name": "me", "cidr": "127.0.0.0/8"}]}),
        ),
    ];
    for object in new {
        world
            .things(object["kind"].as_str().expect("a kind"))
            .create(&object)
            .await;
    }
    world.things("ServerTag").delete("old").await;
    world.things("SshKey").delete("former").await;
    let off = json!({"spec": {"power": "PoweredOff"}});
    world.things("DedicatedHost").merge("db", &off).await;
}

/// Waits until Synced of an object has the reason `ReadOnly` and names the change.
async fn wait_read_only(world: &World, kind: &str, name: &str, words: &str) {
    let things = world.things(kind);
    eventually(&format!("{kind} {name}: {words}"), SOON, async || {
        let object = things.get(name).await?;
        let synced = condition(&object, "Synced")?;
        let is_it = synced["status"] == "False" && synced["reason"] == "ReadOnly";
        (is_it && text(&synced["message"]).contains(words)).then_some(())
    })
    .await;
}

/// The calls other than reads that reached the hosting API.
async fn list_changes(world: &World) -> Vec<String> {
    let counts = world.simulator.counts().await.into_iter();
    let sent = counts.filter(|(call, count)| *count > 0 && !call.starts_with("GET "));
    sent.map(|(call, _)| call).collect()
}

async fn count_calls(world: &World, call: &str) -> u64 {
    world
        .simulator
        .counts()
        .await
        .get(call)
        .copied()
        .unwrap_or(0)
}

#[tokio::test]
async fn read_only_sends_nothing_then_all_once() {
    let mut world = World::prepare(cluster(), "read-only", WorldOptions::default()).await;
    world
        .simulator
        .settings(&json!({"installSeconds": 2}))
        .await;
    world.start_operator();
    create_existing(&world).await;
    world.operator().terminate().await;
    world.simulator.clear_ledger().await;
    change_everything(&world).await;
    let gone = world.get("gone").await.expect("it has a finalizer");
    let again = world.get("again").await.expect("it exists");

    let mut operator = start_with_flags(&world, &["--read-only"]);
    for (kind, name, words) in PENDING {
        wait_read_only(&world, kind, name, words).await;
    }
    wait_account_condition(&world, "default", "Synced", "False", "ReadOnly").await;
    wait_for_polls(&world, 5).await;
    assert_eq!(list_changes(&world).await, [] as [&str; 0]);
    assert_eq!(count_calls(&world, PASSWORD).await, 0);
    for (kind, name) in NEW {
        let object = world.things(kind).get(name).await.expect("it exists");
        let metadata = &object["metadata"];
        assert_eq!(metadata["finalizers"], Value::Null, "{kind} {name}");
        assert_eq!(metadata["annotations"], Value::Null, "{kind} {name}");
        for intent in ["order", "release", "sent"] {
            let records = &object["status"]["records"];
            let written = records[intent]
                .as_array()
                .map_or(!records[intent].is_null(), |all| !all.is_empty());
            assert!(!written, "{kind} {name}: {records}");
        }
    }
    let waits = world.get("gone").await.expect("its deletion waits");
    assert_eq!(waits["status"]["records"], gone["status"]["records"]);
    assert_eq!(
        waits["metadata"]["finalizers"],
        gone["metadata"]["finalizers"]
    );
    let blocked = condition(&waits, "DeletionBlocked").expect("the condition exists");
    assert_eq!(blocked["reason"], "ReadOnly");
    let web = world.get("web").await.expect("it exists");
    assert_eq!(
        condition(&web, "Ready").expect("the condition exists")["status"],
        "True"
    );
    assert!(read_secret(&world, "secret").await.is_none());
    operator.terminate().await;

    let mut operator = start_with_flags(&world, &[]);
    for name in ["fresh", "web", "again", "windows", "files"] {
        world.wait_ready(name, SOON).await;
    }
    world.wait_gone("gone", SOON).await;
    world.things("ServerTag").wait_gone("old", SOON).await;
    world.things("SshKey").wait_gone("former", SOON).await;
    world.things("ServerTag").wait_ready("made", SOON).await;
    world.things("SshKey").wait_ready("ops", SOON).await;
    world.things("IpWhitelist").wait_ready("office", SOON).await;
    let commands = world.things("ServerCommand");
    commands
        .wait_for_condition("reboot", "Complete", "True", None, SOON)
        .await;
    wait_server_status(&world, &text(&gone["status"]["uuid"]), "released").await;
    eventually("all of it is done", SOON, async || {
        let web = world.get("web").await?;
        let server = get_server(&world, &text(&web["status"]["uuid"])).await;
        let installed = world.get("again").await?["status"]["install"]["last"]["result"].clone();
        let has_tag = list_tags(&server).contains(&"blue".to_owned());
        let is_off = count_calls(&world, HOST_POWER).await == 1;
        let has_password = read_secret(&world, "secret").await.is_some();
        (has_tag && is_off && has_password && installed == "Finished").then_some(())
    })
    .await;
    for kind_and_name in PENDING {
        let (kind, name, _) = kind_and_name;
        let things = world.things(kind);
        let synced = |object: &Value| {
            let reason = &condition(object, "Synced")?["reason"];
            (*reason != "ReadOnly").then_some(())
        };
        if things.get(name).await.is_some() {
            things
                .wait_for(name, "no longer read-only", SOON, synced)
                .await;
        }
    }
    wait_for_polls(&world, 5).await;
    assert_eq!(count_orders(&world).await, 1);
    assert_eq!(count_calls(&world, COMMAND).await, 1);
    assert_eq!(count_calls(&world, PASSWORD).await, 1);
    let uuid = &again["status"]["uuid"];
    assert_eq!(
        world.get("again").await.expect("it exists")["status"]["uuid"],
        *uuid
    );
    for once in [
        "PATCH /v3/flexMetal/servers/{uuid}",
        "DELETE /v3/flexMetal/servers/{uuid}",
        "POST /v3/flexMetal/tags",
        "POST /v3/sshKey",
        "POST /v3/account/apiKey/{apiKeyId}/whitelist",
        HOST_POWER,
    ] {
        assert_eq!(count_calls(&world, once).await, 1, "{once}");
    }
    check_invariants(&world).await;
    assert_eq!(operator.ended(), None);
    tokio::time::timeout(Duration::from_secs(30), operator.terminate())
        .await
        .expect("it ends");
}

#[tokio::test]
async fn read_only_from_the_start_shows_the_order() {
    let world = World::prepare(cluster(), "first-day", WorldOptions::default()).await;
    let mut operator = start_with_flags(&world, &["--read-only"]);
    world.create(&server("fresh")).await;
    wait_read_only(&world, "BareMetalServer", "fresh", "order bm7.std.8").await;
    let account = world.things("ProviderAccount").get("default").await;
    let metadata = &account.expect("it exists")["metadata"];
    assert_eq!(metadata["finalizers"], Value::Null);
    assert_eq!(list_changes(&world).await, [] as [&str; 0]);
    operator.terminate().await;
}
