//! Dedicated hosts: observed, power-cycled and installed once per user request, and left unchanged after deletion.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{
    SOON, allowed_namespaces::create_timed_account, apply, build_secret,
    cluster_wide::SharedOperator, text, wait_for_lists,
};
use lab::rig::{Fault, Things, World, WorldOptions, cluster, condition, quick_timing};

/// The ID of a simulator's first host.
pub(super) const HOST: u64 = 1001;
/// The path of the list of hosts.
pub(super) const HOSTS: &str = "/v3/host";
/// The call that installs a host, as the ledger writes it.
const INSTALL: &str = "POST /v3/host/{hostId}/os/install";
const CANARY: &str = "canary-host-9d13b7";

/// A host object with this spec.
pub(super) fn build_host(name: &str, id: u64, spec: &Value) -> Value {
    let mut object = json!({
        "apiVersion": "flexmetal.dev/v1alpha1", "kind": "DedicatedHost",
        "metadata": {"name": name}, "spec": {"hostID": id},
    });
    for (field, value) in spec.as_object().expect("fields of a spec") {
        object["spec"][field] = value.clone();
    }
    object
}

/// The spec fields to install a host with Debian.
fn debian(revision: i64) -> Value {
    json!({
        "install": {"revision": revision},
        "os": {"slug": "debian-13"}, "sshKeyRef": {"name": "ops"},
    })
}

fn hosts(world: &World) -> Things {
    world.things("DedicatedHost")
}

/// A command to the host of this object.
fn build_host_command(name: &str, target: &str, action: &str) -> Value {
    json!({
        "apiVersion": "flexmetal.dev/v1alpha1", "kind": "ServerCommand",
        "metadata": {"name": name},
        "spec": {"targetRef": {"kind": "DedicatedHost", "name": target}, "action": action},
    })
}

fn commands(world: &World) -> Things {
    world.things("ServerCommand")
}

/// The calls that changed hosts, by method and path.
async fn count_host_changes(world: &World) -> BTreeMap<String, u64> {
    let mut counts = world.simulator.counts().await;
    counts.retain(|call, count| {
        !call.starts_with("GET ") && call.contains("/v3/host/") && *count > 0
    });
    counts
}

async fn count_install_calls(world: &World) -> u64 {
    count_host_changes(world)
        .await
        .get(INSTALL)
        .copied()
        .unwrap_or(0)
}

/// The host as the provider shows it.
async fn get_provider_host(world: &World, id: u64) -> Value {
    let path = format!("{HOSTS}/{id}");
    let (status, answer) = world.simulator.call("GET", &path, None).await;
    assert_eq!(status, 200, "{answer}");
    answer.get(0).cloned().unwrap_or(answer)
}

/// How many installations the log of a host shows.
pub(super) async fn count_logged_installs(world: &World, id: u64) -> usize {
    let path = format!("{HOSTS}/{id}/os/installLog");
    let log = world.simulator.records(&path).await;
    let began = log
        .iter()
        .filter(|line| line["issueDescription"] == "Installation requested");
    began.count()
}

/// Flags of a simulator whose account has this many hosts. The file must exist until the simulator has started.
pub(in super::super) fn accounts(hosts: usize) -> (tempfile::NamedTempFile, String) {
    let account = json!({"name": "main", "hosts": hosts, "keys": [{"key": "key-of-many-hosts"}]});
    let file = tempfile::NamedTempFile::new().expect("a file");
    let accounts = json!({"accounts": [account]}).to_string();
    std::fs::write(file.path(), accounts).expect("it can be written");
    let flag = format!("--accounts={}", file.path().display());
    (file, flag)
}

/// A world whose account has this many hosts.
pub(super) async fn start_with_hosts(prefix: &str, number: usize) -> World {
    let (_file, flag) = accounts(number);
    let plan = WorldOptions {
        simulator: vec![flag],
        ..WorldOptions::default()
    };
    let mut world = World::prepare(cluster(), prefix, plan).await;
    world.start_operator();
    world
}

/// A world with fast host installations, and with the stored key `ops`.
async fn start_with_ssh_key(prefix: &str, plan: WorldOptions) -> World {
    let mut world = World::prepare(cluster(), prefix, plan).await;
    let quick = json!({"installSeconds": 2});
    world.simulator.settings(&quick).await;
    world.start_operator();
    let keys = world.things("SshKey");
    keys.create(&super::ssh_keys::build_deleting_key("ops", 'A'))
        .await;
    keys.wait_ready("ops", SOON).await;
    world
}

/// A world with the host `db`, whose revision 1 counts as performed.
async fn start_with_host(prefix: &str, plan: WorldOptions) -> World {
    let world = start_with_ssh_key(prefix, plan).await;
    hosts(&world)
        .create(&build_host("db", HOST, &debian(1)))
        .await;
    hosts(&world).wait_ready("db", SOON).await;
    world
}

async fn edit_host(world: &World, spec: Value) {
    hosts(world).merge("db", &json!({"spec": spec})).await;
}

/// Waits until the installation of this revision has this result.
async fn wait_for_install_result(world: &World, revision: i64, end: &str) -> Value {
    let what = format!("{revision} {end}");
    let ended = |object: &Value| {
        let install = &object["status"]["install"];
        let last = &install["last"];
        (last["revision"] == revision && last["result"] == end).then(|| object.clone())
    };
    hosts(world).wait_for("db", &what, SOON, ended).await
}

/// Waits until a condition of the object has this status and reason, and its message contains all `words`.
async fn wait_host_condition(
    world: &World,
    name: &str,
    kind: &str,
    expected: (&str, &str),
    words: &[&str],
) -> Value {
    let object = hosts(world)
        .wait_for_condition(name, kind, expected.0, Some(expected.1), SOON)
        .await;
    let message = text(&condition(&object, kind).expect("it is told")["message"]);
    for word in words {
        assert!(
            message.contains(word),
            "{name}: {word:?} is not in {message:?}"
        );
    }
    object
}

/// Waits until the object is not ready for this reason.
async fn wait_host_stalled(world: &World, name: &str, reason: &str, words: &[&str]) -> Value {
    wait_host_condition(world, name, "Ready", ("False", reason), words).await
}

#[tokio::test]
async fn new_and_deleted_hosts_send_nothing() {
    let mut world = World::start(cluster(), "host").await;
    let all = hosts(&world);
    let mut words = debian(7);
    words["power"] = json!("PoweredOff");
    all.create(&build_host("db", HOST, &words)).await;
    let ready = all.wait_ready("db", SOON).await;
    let status = &ready["status"];
    assert_eq!(status["providerStatus"], "running", "{ready:#}");
    assert_eq!(status["name"], "host-1001");
    assert_eq!(status["addresses"].as_array().map(Vec::len), Some(1));
    assert!(
        status["hardware"]["memoryBytes"].as_i64() > Some(0),
        "{ready:#}"
    );
    assert_eq!(status["policies"]["managementPolicy"], "Full");
    assert_eq!(status["accountRef"]["name"], "default");
    assert_eq!(status["install"]["revision"], 7);
    assert_eq!(status["records"]["power"]["desired"], "PoweredOff");
    assert_eq!(condition(&ready, "Ready").unwrap()["status"], "True");
    // The host was started a moment ago, so its first record shows an uptime of zero.
    let up = |object: &Value| object["status"]["upSince"].is_string().then_some(());
    all.wait_for("db", "up", SOON, up).await;
    wait_for_lists(&world, HOSTS, 3).await;
    assert_eq!(count_host_changes(&world).await, BTreeMap::new());

    // An object without status counts its revision as performed, also after a restart.
    world.operator().restart();
    wait_for_lists(&world, HOSTS, 3).await;
    let object = all.get("db").await.unwrap();
    assert_eq!(object["status"]["install"]["revision"], 7, "{object:#}");
    // The status shows a change in the provider's portal.
    let (status, _) = world
        .simulator
        .call("PUT", &format!("{HOSTS}/{HOST}/stop"), None)
        .await;
    assert_eq!(status, 200);
    world.simulator.clear_ledger().await;
    let stopped = |object: &Value| {
        (object["status"]["providerStatus"] == "stopped" && object["status"]["upSince"].is_null())
            .then_some(())
    };
    all.wait_for("db", "shown as stopped", SOON, stopped).await;

    all.delete("db").await;
    all.wait_gone("db", SOON).await;
    assert_eq!(count_host_changes(&world).await, BTreeMap::new());
    assert_eq!(get_provider_host(&world, HOST).await["status"], "stopped");
    super::check_invariants(&world).await;
}

#[tokio::test]
async fn host_power_change_sends_one_command() {
    let mut world = World::start(cluster(), "hostpower").await;
    let all = hosts(&world);
    let scmds = commands(&world);
    all.create(&build_host("db", HOST, &json!({"power": "PoweredOn"})))
        .await;
    all.wait_ready("db", SOON).await;
    let call = |word: &str| format!("PUT /v3/host/{{hostId}}/{word}");
    let counts = |stops, starts, restarts| {
        let all = [("stop", stops), ("start", starts), ("restart", restarts)];
        let all = all.into_iter().filter(|(_, count)| *count > 0);
        BTreeMap::from_iter(all.map(|(word, count)| (call(word), count)))
    };
    let came_to = async |desired: &str, state: &str| {
        let matching = |object: &Value| {
            let power = &object["status"]["records"]["power"];
            let is_it = power["desired"] == desired && power["command"]["state"] == state;
            is_it.then(|| object.clone())
        };
        let what = format!("{desired} is {state}");
        all.wait_for("db", &what, SOON, matching).await
    };
    let becomes = async |word: &'static str| {
        let matching = |object: &Value| {
            let is_ready = condition(object, "Ready")?["status"] == "True";
            (is_ready && object["status"]["providerStatus"] == word).then_some(())
        };
        all.wait_for("db", word, SOON, matching).await
    };
    edit_host(&world, json!({"power": "PoweredOff"})).await;
    came_to("PoweredOff", "Complete").await;
    becomes("stopped").await;
    assert_eq!(count_host_changes(&world).await, counts(1, 0, 0));
    edit_host(&world, json!({"power": "PoweredOn"})).await;
    came_to("PoweredOn", "Complete").await;
    becomes("running").await;
    assert_eq!(count_host_changes(&world).await, counts(1, 1, 0));
    let restart = build_host_command("restart", "db", "Reboot");
    scmds.create(&restart).await;
    let over = async |name: &str, kind: &str| {
        scmds
            .wait_for_condition(name, kind, "True", None, SOON)
            .await
    };
    let accepted = |done: &Value| {
        let message = text(&condition(done, "Ready").expect("it is told")["message"]);
        assert!(message.contains("was accepted"), "{message}");
    };
    accepted(&over("restart", "Complete").await);
    assert_eq!(count_host_changes(&world).await, counts(1, 1, 1));
    // A provider status that does not say whether the host runs.
    let word = async |word: &str| {
        let change = json!({ "hostStatus": word });
        world.simulator.switches(&change).await;
    };
    word("active").await;
    scmds
        .create(&build_host_command("blind", "db", "PowerOn"))
        .await;
    let blind = over("blind", "Complete").await;
    accepted(&blind);
    assert_eq!(blind["status"]["providerState"], "active", "{blind:#}");
    word("running").await;
    assert_eq!(count_host_changes(&world).await, counts(1, 2, 1));
    // Neither a restart nor another edit sends it again.
    world.operator().restart();
    edit_host(&world, json!({"suspend": false})).await;
    wait_for_lists(&world, HOSTS, 3).await;
    assert_eq!(count_host_changes(&world).await, counts(1, 2, 1));

    // Every answer is lost once, and nothing is sent again.
    // The host's power state settles a start or stop. Nothing settles a restart.
    let lose = async |fault: &str, word: &str| {
        let path = format!("{HOSTS}/{HOST}/{word}");
        let once = Fault::new(fault).on("PUT", &path).times(1);
        world.simulator.fault(once).await;
    };
    lose("dropAfter", "stop").await;
    edit_host(&world, json!({"power": "PoweredOff"})).await;
    came_to("PoweredOff", "Complete").await;
    becomes("stopped").await;
    assert_eq!(count_host_changes(&world).await, counts(2, 2, 1));
    lose("dropBefore", "start").await;
    edit_host(&world, json!({"power": "PoweredOn"})).await;
    came_to("PoweredOn", "Failed").await;
    wait_host_stalled(&world, "db", "CommandFailed", &["spec.power"]).await;
    assert_eq!(count_host_changes(&world).await, counts(2, 3, 1));
    assert_eq!(get_provider_host(&world, HOST).await["status"], "stopped");
    for (fault, name, restarts) in [("dropAfter", "second", 2), ("dropBefore", "third", 3)] {
        lose(fault, "restart").await;
        let restart = build_host_command(name, "db", "Reboot");
        scmds.create(&restart).await;
        let failed = over(name, "Failed").await;
        let reason = &condition(&failed, "Failed").expect("it is told")["reason"];
        assert_eq!(reason, "OutcomeUnknown", "{fault}");
        wait_for_lists(&world, HOSTS, 3).await;
        assert_eq!(
            count_host_changes(&world).await,
            counts(2, 3, restarts),
            "{fault}"
        );
    }
    // The operator ends while the answer is on its way.
    let slow = Fault::new(json!({"delay": {"ms": 20_000, "before": true}}));
    let path = format!("{HOSTS}/{HOST}/stop");
    world.simulator.fault(slow.on("PUT", &path).times(1)).await;
    scmds
        .create(&build_host_command("killed", "db", "PowerOff"))
        .await;
    scmds
        .wait_for("killed", "started", SOON, |object| {
            (!object["status"]["records"]["sent"].is_null()).then_some(())
        })
        .await;
    world.operator().kill9();
    world.operator().restart();
    world.simulator.clear_faults().await;
    scmds
        .wait_for("killed", "over", SOON, |object| {
            let is = |kind| condition(object, kind).is_some_and(|c| c["status"] == "True");
            (is("Complete") || is("Failed")).then_some(())
        })
        .await;
    assert!(count_host_changes(&world).await[&call("stop")] <= 3);
    super::check_invariants(&world).await;
}

#[tokio::test]
async fn host_installs_once_per_higher_revision() {
    let plan = WorldOptions {
        log: Some("trace"),
        ..WorldOptions::default()
    };
    let mut world = start_with_host("hostinstall", plan).await;
    let script = format!("\u{feff}#!/bin/sh\r\necho {CANARY}\r\n");
    let script = build_secret("script", "it", &script);
    apply(&world.client, Some(&world.namespace), &script).await;
    let lies = json!({"secretKeyRef": {"name": "script", "key": "it"}});
    let mut spec = debian(1);
    spec["hostname"] = json!("db.example.com");
    spec["install"]["wipeDisk"] = json!(false);
    spec["postInstallScript"] = json!({ "valueFrom": lies });
    edit_host(&world, spec).await;
    wait_for_lists(&world, HOSTS, 3).await;
    assert_eq!(
        count_install_calls(&world).await,
        0,
        "an edit is no consent"
    );

    // The request contains the values of the spec.
    let parts = [
        r#""hostname":"db.example.com""#.to_owned(),
        r#""quickFormat":false"#.to_owned(),
        r#""os":{"id":104}"#.to_owned(),
        format!(r##""postInstallScript":"#!/bin/sh\necho {CANARY}\n""##),
    ];
    for part in &parts {
        let count = Fault::new(json!({"delay": {"ms": 1, "before": true}}));
        let path = format!("{HOSTS}/{HOST}/os/install");
        let count = count.on("POST", &path).with_body(part).after(1000);
        world.simulator.fault(count).await;
    }
    edit_host(&world, json!({"install": {"revision": 2}})).await;
    let during = wait_host_stalled(&world, "db", "Reinstalling", &[]).await;
    assert_eq!(condition(&during, "Reconciling").unwrap()["status"], "True");
    let reboot = build_host_command("meanwhile", "db", "Reboot");
    commands(&world).create(&reboot).await;
    let done = wait_for_install_result(&world, 2, "Finished").await;
    // A command that was created meanwhile runs afterwards.
    commands(&world)
        .wait_for_condition("meanwhile", "Complete", "True", None, SOON)
        .await;
    for rule in world.simulator.faults().await {
        assert_eq!(rule["matched"], 1, "{rule}");
    }
    let ready = hosts(&world).wait_ready("db", SOON).await;
    assert_eq!(ready["status"]["install"]["revision"], 2, "{ready:#}");
    assert_eq!(ready["status"]["providerInstallStatus"], "finished");
    assert_eq!(ready["status"]["name"], "db.example.com");
    assert_eq!(done["status"]["install"]["last"]["revision"], 2);

    // Neither a restart nor a lower revision sends anything, and the operator reports the lower revision.
    world.operator().restart();
    edit_host(&world, json!({"install": {"revision": 1}})).await;
    wait_host_condition(
        &world,
        "db",
        "Ready",
        ("False", "InvalidSpec"),
        &["spec.install.revision"],
    )
    .await;
    wait_for_lists(&world, HOSTS, 3).await;
    assert_eq!(count_install_calls(&world).await, 1);

    // The account selects the name of the request's key field.
    let other = json!({"installKey": "sshKeyUuid"});
    world.simulator.switches(&other).await;
    let accounts = world.things("ProviderAccount");
    let form = json!({"spec": {"hostInstallForm": "Observed"}});
    accounts.merge("default", &form).await;
    let seen = |account: &Value| {
        let generation = &account["metadata"]["generation"];
        (account["status"]["observedGeneration"] == *generation).then_some(())
    };
    accounts.wait_for("default", "seen", SOON, seen).await;
    edit_host(&world, json!({"install": {"revision": 3}})).await;
    wait_for_install_result(&world, 3, "Finished").await;

    let object = hosts(&world).get("db").await.unwrap();
    assert!(!object["status"].to_string().contains(CANARY), "{object:#}");
    let events = ["get", "events", "-n", &world.namespace, "-o", "json"];
    let events = cluster().kubectl_ok(&events).await;
    assert!(!events.contains(CANARY), "{events}");
    // One event for the start and one for the end.
    let events: Value = serde_json::from_str(&events).unwrap();
    let assert_event = |reason: &str, kind: &str, words: &str| {
        let items = events["items"].as_array().unwrap().iter();
        let is_it = |event: &&Value| {
            event["reason"] == reason && event["type"] == kind && text(&event["message"]) == words
        };
        assert_eq!(items.filter(is_it).count(), 1, "{words}");
    };
    let what = format!("host {HOST} (spec.install.revision 2)");
    let began = format!("The provider started to install {what}; this erases the disks");
    assert_event("Reinstalling", "Warning", &began);
    assert_event("Reinstalled", "Normal", &format!("Installed {what}"));
    assert!(!world.operator().log().contains(CANARY), "it is in the log");
    super::check_invariants(&world).await;
}

#[tokio::test]
async fn no_fault_installs_a_host_twice() {
    let mut world = start_with_host("hostlost", WorldOptions::default()).await;
    let path = format!("{HOSTS}/{HOST}/os/install");
    let on = |fault: Fault| fault.on("POST", &path).times(1);
    let to = async |revision: i64| {
        edit_host(&world, json!({"install": {"revision": revision}})).await;
    };
    world.simulator.fault(on(Fault::new("dropAfter"))).await;
    to(2).await;
    wait_for_install_result(&world, 2, "Finished").await;
    assert_eq!(count_logged_installs(&world, HOST).await, 1);

    // The operator does not send a lost request again either: the outcome is unknown.
    world.simulator.fault(on(Fault::new("dropBefore"))).await;
    to(3).await;
    wait_for_install_result(&world, 3, "Unknown").await;
    let words = ["spec.install.revision"];
    wait_host_condition(&world, "db", "Stalled", ("True", "OutcomeUnknown"), &words).await;
    wait_for_lists(&world, HOSTS, 3).await;
    assert_eq!(
        (
            count_logged_installs(&world, HOST).await,
            count_install_calls(&world).await
        ),
        (1, 2)
    );

    // A refused request erases nothing.
    let no = json!({"refuse": {"status": 422, "message": "no such system"}});
    world.simulator.fault(on(Fault::new(no))).await;
    to(4).await;
    wait_for_install_result(&world, 4, "Refused").await;
    assert_eq!(
        (
            count_logged_installs(&world, HOST).await,
            count_install_calls(&world).await
        ),
        (1, 3)
    );

    let fails = Fault::new(json!({"fail": {"message": "no disk"}}));
    world.simulator.fault(on(fails)).await;
    to(5).await;
    let failed = wait_for_install_result(&world, 5, "Failed").await;
    let message = text(&failed["status"]["install"]["last"]["message"]);
    assert!(message.contains("no disk"), "{message}");
    assert_eq!(
        (
            count_logged_installs(&world, HOST).await,
            count_install_calls(&world).await
        ),
        (2, 4)
    );

    // The operator ends while the answer is on its way.
    let slow = Fault::new(json!({"delay": {"ms": 20_000, "before": false}}));
    world.simulator.fault(on(slow)).await;
    to(6).await;
    let recorded =
        |object: &Value| (object["status"]["install"]["last"]["revision"] == 6).then_some(());
    hosts(&world).wait_for("db", "noted", SOON, recorded).await;
    world.operator().kill9();
    world.operator().restart();
    world.simulator.clear_faults().await;
    let settled = |object: &Value| {
        let last = &object["status"]["install"]["last"];
        (last["revision"] == 6 && last["result"].is_string()).then_some(())
    };
    hosts(&world).wait_for("db", "settled", SOON, settled).await;
    assert!(count_logged_installs(&world, HOST).await <= 3);
    assert!(count_install_calls(&world).await <= 5);
    super::check_invariants(&world).await;
}

#[tokio::test]
async fn invalid_host_request_is_not_sent() {
    let world = start_with_ssh_key("hostbad", WorldOptions::default()).await;
    let all = hosts(&world);
    // A host of another account.
    all.create(&build_host("unknown", 4711, &json!({}))).await;
    wait_host_stalled(
        &world,
        "unknown",
        "ServerNotFound",
        &["spec.hostID", "4711"],
    )
    .await;
    // An ordered server.
    let flex = json!({"name": "web"});
    world.simulator.appear(&flex).await;
    all.create(&build_host("flex", 100_001, &json!({}))).await;
    let words = ["spec.hostID", "BareMetalServer"];
    wait_host_stalled(&world, "flex", "InvalidSpec", &words).await;
    // Two objects for one host. Timestamps have whole seconds, so wait for the next one.
    all.create(&build_host("db", HOST, &debian(0))).await;
    all.wait_ready("db", SOON).await;
    tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
    all.create(&build_host("rival", HOST, &debian(0))).await;
    let owner = format!("{}/db", world.namespace);
    wait_host_stalled(&world, "rival", "OwnershipConflict", &[&owner]).await;
    let reboot = build_host_command("reboot", "rival", "Reboot");
    commands(&world).create(&reboot).await;
    commands(&world)
        .wait_for_condition("reboot", "Ready", "False", Some("OwnershipConflict"), SOON)
        .await;
    edit_named_host(&world, "rival", json!({"install": {"revision": 1}})).await;

    // Each invalid request is reported, and does not use up its revision.
    for (number, (spec, reason, words)) in [
        (
            json!({"sshKeyRef": {"name": "nobody"}}),
            "ReferenceNotFound",
            ["spec.sshKeyRef", "nobody"],
        ),
        (
            json!({"sshKeyRef": {"name": "ops"}, "os": {"slug": "plan-9"}}),
            "InvalidSpec",
            ["spec.os.slug", "plan-9"],
        ),
        (
            json!({"os": {"slug": "debian-13"}, "postInstallScript": {"valueFrom":
                {"secretKeyRef": {"name": "missing", "key": "it"}}}}),
            "ReferenceNotFound",
            ["spec.postInstallScript", "missing"],
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let mut spec = spec;
        spec["install"] = json!({"revision": number + 1});
        edit_host(&world, spec).await;
        wait_host_condition(&world, "db", "Ready", ("False", reason), &words).await;
    }
    wait_for_lists(&world, HOSTS, 3).await;
    assert_eq!(count_host_changes(&world).await, BTreeMap::new());
    commands(&world).delete("reboot").await;
    // After the repair, the latest revision is performed once.
    edit_host(&world, json!({"postInstallScript": null})).await;
    wait_for_install_result(&world, 3, "Finished").await;
    assert_eq!(count_install_calls(&world).await, 1);
    // After the deletion of the owner, the other object owns the host. Its earlier request counts as performed.
    all.delete("db").await;
    all.wait_gone("db", SOON).await;
    all.wait_ready("rival", SOON).await;
    wait_for_lists(&world, HOSTS, 3).await;
    assert_eq!(count_install_calls(&world).await, 1);
    super::check_invariants(&world).await;
}

async fn edit_named_host(world: &World, name: &str, spec: Value) {
    hosts(world).merge(name, &json!({"spec": spec})).await;
}

#[tokio::test]
async fn suspended_or_observed_host_sends_nothing() {
    let world = start_with_host("hosthold", WorldOptions::default()).await;
    // Suspended by the object, suspended by the account, or observed: nothing is sent, and the request stays pending.
    edit_host(&world, json!({"suspend": true})).await;
    wait_host_condition(&world, "db", "Suspended", ("True", "Suspended"), &[]).await;
    wait_host_condition(&world, "db", "Ready", ("True", "Available"), &[]).await;
    edit_host(
        &world,
        json!({"power": "PoweredOff", "install": {"revision": 2}}),
    )
    .await;
    wait_for_lists(&world, HOSTS, 3).await;
    edit_host(
        &world,
        json!({"suspend": false, "managementPolicy": "ObserveOnly"}),
    )
    .await;
    wait_host_condition(&world, "db", "Ready", ("False", "ObserveOnly"), &[]).await;
    wait_for_lists(&world, HOSTS, 3).await;
    let stop = async |suspend: bool| {
        super::change_account(&world, "default", &json!({"spec": {"suspend": suspend}})).await;
    };
    stop(true).await;
    edit_host(&world, json!({"suspend": null, "managementPolicy": null})).await;
    wait_host_condition(
        &world,
        "db",
        "Suspended",
        ("True", "Suspended"),
        &["spec.suspend of"],
    )
    .await;
    assert_eq!(count_host_changes(&world).await, BTreeMap::new());
    stop(false).await;
    wait_for_install_result(&world, 2, "Finished").await;
    assert_eq!(count_install_calls(&world).await, 1);

    // The key's deletion does not wait for the object that refers to it.
    let keys = world.things("SshKey");
    keys.delete("ops").await;
    keys.wait_gone("ops", SOON).await;
    assert_eq!(super::ssh_keys::list_stored_keys(&world).await.len(), 0);
    super::ssh_keys::wait_for_reference_event(&world, "ops", "DedicatedHost db").await;
    super::check_invariants(&world).await;
}

/// With a ClusterProviderAccount, an object can use a host only if the entry lists it, because it may erase the host.
pub(super) async fn check_granted_hosts(all: &SharedOperator) -> World {
    let world = all.start_guest_world("hosts").await;
    let account = async |numbers: Value| {
        let entries = json!([{
            "name": "team", "namespaces": [world.namespace], "allowAdoption": true, "hostIDs": numbers,
        }]);
        create_timed_account(all, &world, &entries, &quick_timing()).await
    };
    account(json!([HOST + 1])).await;
    let of_cluster = json!({
        "accountRef": {"kind": "ClusterProviderAccount", "name": world.namespace}, "power": "PoweredOn",
    });
    hosts(&world)
        .create(&build_host("db", HOST, &of_cluster))
        .await;
    let words = ["does not grant host", "hostIDs", "\"team\""];
    wait_host_stalled(&world, "db", "NotAllowed", &words).await;
    let ledger = world.simulator.ledger().await;
    let of_hosts = ledger.iter().filter(|call| {
        let path = text(&call["path"]);
        path.starts_with(HOSTS)
    });
    assert_eq!(of_hosts.count(), 0, "{ledger:?}");

    account(json!([HOST])).await;
    hosts(&world).wait_ready("db", SOON).await;
    edit_host(&world, json!({"power": "PoweredOff"})).await;
    let stopped = |object: &Value| (object["status"]["providerStatus"] == "stopped").then_some(());
    hosts(&world).wait_for("db", "stopped", SOON, stopped).await;

    // After the host is removed from the entry, the operator leaves it unchanged at once.
    account(json!([])).await;
    wait_host_stalled(&world, "db", "NotAllowed", &words).await;
    edit_host(&world, json!({"power": "PoweredOn"})).await;
    let reboot = build_host_command("reboot", "db", "Reboot");
    commands(&world).create(&reboot).await;
    commands(&world)
        .wait_for_condition("reboot", "Ready", "False", Some("NotAllowed"), SOON)
        .await;
    let seen = |object: &Value| {
        let generation = &object["metadata"]["generation"];
        (object["status"]["observedGeneration"] == *generation).then_some(())
    };
    hosts(&world).wait_for("db", "seen", SOON, seen).await;
    let stop = "PUT /v3/host/{hostId}/stop".to_owned();
    let once = BTreeMap::from([(stop, 1)]);
    assert_eq!(count_host_changes(&world).await, once);

    // When the host is listed again, earlier requests have no effect.
    commands(&world).delete("reboot").await;
    commands(&world).wait_gone("reboot", SOON).await;
    account(json!([HOST])).await;
    let back = hosts(&world).wait_ready("db", SOON).await;
    assert_eq!(
        back["status"]["records"]["power"]["desired"], "PoweredOn",
        "{back:#}"
    );
    assert_eq!(back["status"]["providerStatus"], "stopped", "{back:#}");
    wait_for_lists(&world, HOSTS, 2).await;
    assert_eq!(count_host_changes(&world).await, once);
    super::check_invariants(&world).await;
    world
}

#[tokio::test]
async fn every_example_of_a_host_is_ready() {
    let world = World::start(cluster(), "hostexample").await;
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/hosts");
    let mut number = 0;
    for entry in std::fs::read_dir(folder).expect("there are examples") {
        let path = entry.expect("a file").path();
        let name = path
            .file_stem()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        let manifest = std::fs::read_to_string(&path).expect("text");
        let apply = ["apply", "-n", &world.namespace, "-f", "-"];
        let applied = cluster().kubectl_with_input(&apply, &manifest).await;
        assert!(applied.status.success(), "{path:?}: {applied:?}");
        // One at a time: there are fewer hosts than examples.
        hosts(&world).wait_ready(&name, SOON).await;
        hosts(&world).delete(&name).await;
        hosts(&world).wait_gone(&name, SOON).await;
        number += 1;
    }
    assert!(number >= 2, "{number} examples");
    assert_eq!(count_host_changes(&world).await, BTreeMap::new());
}
