//! `spec.rootPassword`: the password of a Windows server in a Secret, read once per installation and shown nowhere
//! else.

use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::{DeleteParams, ListParams};
use serde_json::{Value, json};

use super::{
    SOON, apply, build_secret, build_server, check_invariants, read_secret, text, wait_for_event,
    wait_for_polls,
};
use lab::rig::{Fault, World, WorldOptions, cluster, condition, eventually};

const PATH: &str = "/v3/flexMetal/servers/{uuid}/rootPassword";

/// A Windows server with `spec.rootPassword`.
fn build_windows_server(name: &str, more: &Value) -> Value {
    let mut password = json!({"secretRef": {"name": format!("{name}-password")}});
    for (field, value) in more.as_object().expect("fields") {
        password[field] = value.clone();
    }
    let spec = json!({"os": {"slug": "windows-2022"}, "sshKeys": [], "rootPassword": password});
    build_server(name, &spec)
}

/// Creates a server that was delivered this many hours ago.
async fn create_delivered_server(world: &World, name: &str, hours: i64) -> String {
    let then = jiff::Timestamp::now().as_second() - hours * 3600;
    let server = json!({"name": name, "os": "windows-2022", "createdAt": then});
    text(&world.simulator.appear(&server).await["uuid"])
}

/// Creates an object that adopts the server.
async fn adopt_server(world: &World, name: &str, uuid: &str) {
    let mut server = build_windows_server(name, &json!({}));
    server["spec"]["externalID"] = json!(uuid);
    world.create(&server).await;
}

/// How often the provider was asked for a password.
async fn count_password_reads(world: &World) -> u64 {
    let counts = world.simulator.counts().await;
    counts.get(&format!("GET {PATH}")).copied().unwrap_or(0)
}

async fn wait_password_condition(world: &World, name: &str, status: &str, reason: &str) -> Value {
    world
        .wait_for_condition(name, "RootPasswordStored", status, Some(reason), SOON)
        .await
}

#[tokio::test]
async fn root_password_is_stored_but_never_shown() {
    let plan = WorldOptions {
        log: Some("trace"),
        ..WorldOptions::default()
    };
    let mut world = World::prepare(cluster(), "password", plan).await;
    world.start_operator();
    world.create(&build_windows_server("win", &json!({}))).await;
    let stored = wait_password_condition(&world, "win", "True", "InSync").await;
    let uuid = text(&stored["status"]["uuid"]);
    let (kept, entries) = read_secret(&world, "win-password")
        .await
        .expect("it is stored");
    assert_eq!(kept.type_.as_deref(), Some("flexmetal.dev/output"));
    let owner = &kept.metadata.owner_references.expect("an owner")[0];
    assert_eq!(owner.uid, text(&stored["metadata"]["uid"]));
    assert_eq!(entries["uuid"], uuid);
    assert_eq!(entries["hostname"], "win");
    assert_eq!(entries["installation"], "first");
    assert_eq!(entries.len(), 4);
    assert_eq!(count_password_reads(&world).await, 1);
    let path = format!("/v3/flexMetal/servers/{uuid}/rootPassword");
    let (_, shown) = world.simulator.call("GET", &path, None).await;
    let password = entries["password"].clone();
    assert!(password.len() > 8, "it has a password");
    assert!(
        shown.to_string().contains(&password),
        "it is that of the provider"
    );
    let status = &stored["status"];
    assert_eq!(status["records"]["rootPassword"]["server"], uuid);
    let password_status = &status["rootPassword"];
    assert_eq!(password_status["installedAt"], status["deliveredAt"]);
    assert_eq!(password_status["secretRef"]["name"], "win-password");

    // The operator does not read the password again, also without the Secret and after a restart.
    let secrets = world.secrets();
    let gone = secrets
        .delete("win-password", &DeleteParams::default())
        .await;
    gone.expect("it can be deleted");
    world.operator().kill9();
    world.operator().restart();
    world
        .merge("win", &json!({"spec": {"tags": ["after"]}}))
        .await;
    world.wait_ready("win", SOON).await;
    wait_for_polls(&world, 5).await;
    eventually("the Secret is gone", SOON, async || {
        let is_gone = read_secret(&world, "win-password").await.is_none();
        is_gone.then_some(())
    })
    .await;
    // One of these reads is from the test itself.
    assert_eq!(count_password_reads(&world).await, 2);

    let object = world.wait_ready("win", SOON).await.to_string();
    world.delete("win").await;
    world.wait_gone("win", SOON).await;
    let ended = world.operator().terminate().await;
    assert!(ended.success(), "{ended}");
    let log = world.operator().log();
    assert!(log.contains("TRACE"), "the log is not at its loudest");
    assert!(log.contains("root password stored"));
    let events: Api<Event> = Api::namespaced(world.client.clone(), &world.namespace);
    let events = events.list(&ListParams::default()).await.expect("events");
    let events = serde_json::to_string(&events).expect("JSON");
    let in_base64 = {
        let secret = json!(k8s_openapi::ByteString(password.clone().into_bytes()));
        text(&secret)
    };
    for (place, shown) in [("log", &log), ("events", &events), ("server", &object)] {
        for password in [&password, &in_base64] {
            assert!(!shown.contains(password.as_str()), "the {place} shows it");
        }
    }
    check_invariants(&world).await;
}

#[tokio::test]
async fn unavailable_password_retries_and_warns() {
    let world = World::start(cluster(), "late").await;
    let near = create_delivered_server(&world, "near", 20).await;
    let none = json!({"refuse": {"status": 404, "message": "there is none"}});
    let fault = Fault::new(none).on("GET", &PATH.replace("{uuid}", &near));
    world.simulator.fault(fault).await;
    adopt_server(&world, "near", &near).await;
    let pending = wait_password_condition(&world, "near", "False", "Pending").await;
    let said = condition(&pending, "RootPasswordStored").expect("it is told");
    let until = text(&pending["status"]["rootPassword"]["availableUntil"]);
    assert!(text(&said["message"]).contains(&until), "{said}");
    wait_for_event(&world, "PasswordExpiring").await;
    let near = world.get("near").await.expect("it is there");
    assert_eq!(
        near["status"]["records"]["rootPassword"]["warned"],
        "SixHours"
    );
    assert!(condition(&near, "Ready").is_some_and(|c| c["status"] == "True"));
    eventually("it is asked for again", SOON, async || {
        (count_password_reads(&world).await >= 3).then_some(())
    })
    .await;
    world.simulator.clear_faults().await;
    wait_password_condition(&world, "near", "True", "InSync").await;
    assert!(read_secret(&world, "near-password").await.is_some());

    // After the window, the operator still asks once: the provider knows whether it is over, and a clock does not.
    let before = count_password_reads(&world).await;
    let missed = create_delivered_server(&world, "missed", 25).await;
    adopt_server(&world, "missed", &missed).await;
    let missed = wait_password_condition(&world, "missed", "False", "PasswordMissed").await;
    let said = condition(&missed, "RootPasswordStored").expect("it is told");
    assert!(
        text(&said["message"]).contains("spec.install.revision"),
        "{said}"
    );
    wait_for_event(&world, "PasswordMissed").await;
    wait_for_polls(&world, 3).await;
    assert_eq!(count_password_reads(&world).await, before + 1);
    assert!(read_secret(&world, "missed-password").await.is_none());
    check_invariants(&world).await;
}

#[tokio::test]
async fn forbidden_password_read_blocks_nothing() {
    let world = World::start(cluster(), "may-not").await;
    let mut server = build_windows_server("win", &json!({}));
    let password = server["spec"]["rootPassword"].take();
    world.create(&server).await;
    let ready = world.wait_ready("win", SOON).await;
    let uuid = text(&ready["status"]["uuid"]);
    let forbidden = json!({"refuse": {"status": 403, "message": "not with this key"}});
    let fault = Fault::new(forbidden).on("GET", &PATH.replace("{uuid}", &uuid));
    world.simulator.fault(fault).await;
    let patch = json!({"spec": {"rootPassword": password}});
    world.merge("win", &patch).await;
    let refused = |object: &Value| {
        let said = condition(object, "RootPasswordStored")?;
        let is_reported = text(&said["message"]).contains("not with this key");
        is_reported.then(|| object.clone())
    };
    let pending = world.wait_for("win", "told", SOON, refused).await;
    assert!(condition(&pending, "Synced").is_some_and(|c| c["status"] == "True"));
    // The key works for everything else, on this server and on others.
    let tagged = json!({"spec": {"tags": ["still"]}});
    world.merge("win", &tagged).await;
    world.create(&lab::rig::server("other")).await;
    world.wait_ready("other", SOON).await;
    eventually("the tag is there", SOON, async || {
        let servers = world.simulator.list_servers().await;
        let provider_server = servers
            .iter()
            .find(|provider_server| provider_server["uuid"] == *uuid)?;
        provider_server["tags"]
            .to_string()
            .contains("still")
            .then_some(())
    })
    .await;
    world.simulator.clear_faults().await;
    wait_password_condition(&world, "win", "True", "InSync").await;
    check_invariants(&world).await;
}

#[tokio::test]
async fn password_secret_expires_and_others_stay() {
    let world = World::start(cluster(), "ttl").await;
    let theirs = build_secret("taken-password", "their", "own");
    apply(&world.client, Some(&world.namespace), &theirs).await;
    world
        .create(&build_windows_server("short", &json!({"ttl": "10s"})))
        .await;
    world
        .create(&build_windows_server("taken", &json!({})))
        .await;
    wait_password_condition(&world, "short", "True", "InSync").await;
    assert!(read_secret(&world, "short-password").await.is_some());
    let taken = wait_password_condition(&world, "taken", "False", "NameTaken").await;
    let said = condition(&taken, "RootPasswordStored").expect("it is told");
    assert!(
        text(&said["message"]).contains("Secret taken-password"),
        "{said}"
    );
    assert!(condition(&taken, "Ready").is_some_and(|c| c["status"] == "True"));
    // The operator does not read a password that it cannot store.
    assert_eq!(count_password_reads(&world).await, 1);
    let (_, entries) = read_secret(&world, "taken-password")
        .await
        .expect("it stays");
    assert_eq!(entries["their"], "own");
    let free = json!({"spec": {"rootPassword": {"secretRef": {"name": "free"}}}});
    world.merge("taken", &free).await;
    wait_password_condition(&world, "taken", "True", "InSync").await;
    assert!(read_secret(&world, "free").await.is_some());
    // Outputs do not replace the password Secret either, because the password cannot be read again.
    let moved = json!({"spec": {
        "rootPassword": {"secretRef": {"name": "elsewhere"}}, "outputs": {"secretRef": {"name": "free"}},
    }});
    world.merge("taken", &moved).await;
    let reason = Some("NameTaken");
    world
        .wait_for_condition("taken", "Synced", "False", reason, SOON)
        .await;
    let (_, entries) = read_secret(&world, "free").await.expect("it stays");
    assert!(entries.contains_key("password"), "it holds the password");

    eventually("the Secret is deleted", SOON, async || {
        let is_gone = read_secret(&world, "short-password").await.is_none();
        is_gone.then_some(())
    })
    .await;
    world
        .wait_for("short", "noted", SOON, |object| {
            let stored = &object["status"]["rootPassword"];
            stored["deletedAt"].is_string().then_some(())
        })
        .await;
    wait_for_polls(&world, 3).await;
    assert_eq!(count_password_reads(&world).await, 2);
    assert!(
        read_secret(&world, "free").await.is_some(),
        "without a ttl it stays"
    );
    check_invariants(&world).await;
}

#[tokio::test]
async fn a_suspended_server_asks_for_nothing() {
    let world = World::start(cluster(), "asleep").await;
    let mut server = build_windows_server("win", &json!({}));
    let password = server["spec"]["rootPassword"].take();
    world.create(&server).await;
    world.wait_ready("win", SOON).await;
    let asleep = json!({"spec": {"suspend": true, "rootPassword": password}});
    world.merge("win", &asleep).await;
    let pending = wait_password_condition(&world, "win", "False", "Pending").await;
    let said = condition(&pending, "RootPasswordStored").expect("it is told");
    assert!(text(&said["message"]).contains("suspend"), "{said}");
    wait_for_polls(&world, 5).await;
    assert_eq!(count_password_reads(&world).await, 0);
    world
        .merge("win", &json!({"spec": {"suspend": false}}))
        .await;
    wait_password_condition(&world, "win", "True", "InSync").await;
    assert_eq!(count_password_reads(&world).await, 1);
    check_invariants(&world).await;
}
