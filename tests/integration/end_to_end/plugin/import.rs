//! `import`: servers that others ordered come into Git without a change but their tags.

use super::super::{SOON, text};
use super::{Plugin, apply, changing_calls};
use lab::rig::{World, cluster};
use serde_json::{Value, json};

/// A server that others ordered.
async fn appear(world: &World, name: &str, tags: &[&str]) -> String {
    let server = json!({
        "name": name, "tags": tags, "location": "EU: Rotterdam", "instanceType": "bm7.std.8",
        "status": "delivered",
    });
    let appeared = world.simulator.appear(&server).await;
    text(&appeared["uuid"])
}

fn is_tagging(call: &&String) -> bool {
    call.contains("/tag/")
}

#[tokio::test]
async fn fifty_imported_servers_cost_only_tags() {
    const SERVERS: usize = 50;
    let world = World::start(cluster(), "import").await;
    let mut uuids = Vec::new();
    for number in 0..SERVERS {
        uuids.push(appear(&world, &format!("host-{number}"), &["team-a"]).await);
    }
    appear(&world, "other", &["team-b"]).await;
    world
        .things("ProviderAccount")
        .wait_for_condition("default", "Ready", "True", None, SOON)
        .await;
    let plugin = Plugin::of(&world);
    let import = ["import", "--tag", "team-a", "CLUSTER"];
    let manifests = plugin.run_expecting(0, &import).await.out;
    world.simulator.clear_ledger().await;
    apply(&world, &manifests).await;
    for uuid in &uuids {
        assert!(manifests.contains(uuid.as_str()), "{uuid}");
    }
    let names = plugin.run_expecting(0, &["servers", "-o", "json"]).await;
    let rows: Vec<Value> = serde_json::from_str(&names.out).unwrap();
    assert_eq!(rows.len(), SERVERS + 1);
    lab::rig::eventually("all servers are adopted", SOON, async || {
        let args = ["get", "bms", "-n", &world.namespace, "-o", "json"];
        let list: Value = serde_json::from_str(&cluster().kubectl_ok(&args).await).unwrap();
        let items = list["items"].as_array().unwrap().clone();
        let is_ready = |object: &&Value| {
            lab::rig::condition(object, "Ready").is_some_and(|ready| ready["status"] == "True")
        };
        (items.iter().filter(is_ready).count() == SERVERS).then_some(())
    })
    .await;
    let calls = changing_calls(&world).await;
    let others: Vec<_> = calls.iter().filter(|call| !is_tagging(call)).collect();
    assert!(others.is_empty(), "{others:?}");
    for uuid in &uuids {
        let of_server = calls.iter().filter(|call| call.contains(uuid.as_str()));
        assert!(of_server.count() <= 2, "{uuid}: {calls:?}");
    }
    let again = plugin.run_expecting(0, &import).await;
    assert_eq!(again.out, "", "{}", again.err);
}

/// The plugin refuses a command for a server that is not adopted yet, and the operator ends one at once.
async fn check_command_before_adoption(world: &World, plugin: &Plugin, name: &str) {
    const WHY: &str = "has not adopted its server yet";
    let refused = plugin.run(&["power", "reboot", name, "--yes"]).await;
    assert_ne!(refused.code, 0, "{}", refused.out);
    assert!(refused.err.contains(WHY), "{}", refused.err);
    let command = json!({
        "apiVersion": "flexmetal.dev/v1alpha1", "kind": "ServerCommand", "metadata": {"name": "early"},
        "spec": {"targetRef": {"name": name}, "action": "Reboot"},
    });
    let commands = world.things("ServerCommand");
    commands.create(&command).await;
    let reason = Some("NotRepeated");
    commands
        .wait_for_condition("early", "Failed", "True", reason, SOON)
        .await;
}

#[tokio::test]
async fn terraform_state_names_the_servers() {
    let world = World::start(cluster(), "terraform").await;
    let wanted = appear(&world, "of-terraform", &[]).await;
    let other = appear(&world, "other", &[]).await;
    world
        .things("ProviderAccount")
        .wait_for_condition("default", "Ready", "True", None, SOON)
        .await;
    let state = json!({
        "version": 4, "terraform_version": "1.9.0", "serial": 7, "lineage": "x", "outputs": {},
        "resources": [{
            "mode": "managed", "type": "hosting_bare_metal_server", "name": "db",
            "provider": "provider[\"registry.example/hosting/metal\"]",
            "instances": [{"schema_version": 0, "attributes": {
                "id": wanted, "name": "of-terraform", "user_data": "canary-user-data",
            }}],
        }],
    });
    let file = world.folder().join("terraform.tfstate");
    std::fs::write(&file, state.to_string()).unwrap();
    let folder = world.folder().join("manifests");
    let plugin = Plugin::of(&world);
    let (file, folder) = (file.to_str().unwrap(), folder.to_str().unwrap());
    let args = [
        "import",
        "--terraform-state",
        file,
        "--to",
        folder,
        "CLUSTER",
    ];
    plugin.run_expecting(0, &args).await;
    let files: Vec<_> = std::fs::read_dir(folder).unwrap().collect();
    assert_eq!(files.len(), 1);
    let manifest = std::fs::read_to_string(files[0].as_ref().unwrap().path()).unwrap();
    assert!(
        manifest.contains(&wanted) && !manifest.contains(&other),
        "{manifest}"
    );
    assert!(!manifest.contains("canary"), "{manifest}");
    let mut object: Value = serde_saphyr::from_str(&manifest).unwrap();
    let name = text(&object["metadata"]["name"]);
    object["spec"]["suspend"] = json!(true);
    apply(&world, &object.to_string()).await;
    check_command_before_adoption(&world, &plugin, &name).await;
    world
        .merge(&name, &json!({"spec": {"suspend": null}}))
        .await;
    world.wait_ready(&name, SOON).await;
    let reboot = ["power", "reboot", &name, "--yes"];
    plugin.run_expecting(0, &reboot).await;
    let again = plugin.run_expecting(0, &args).await;
    assert_eq!(
        std::fs::read_dir(folder).unwrap().count(),
        1,
        "{}",
        again.err
    );
}
