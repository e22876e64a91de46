//! Dedicated hosts: observed, switched and installed by a person's word, once for each word, and let go as they are.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{SOON, apply, cluster_wide::Host, entries::timed_account, secret, text};
use lab::rig::{Fault, Things, World, WorldOptions, cluster, condition, eventually, quick_timing};

/// The first host that a simulator has.
pub(super) const HOST: u64 = 1001;
/// Where hosts are listed.
pub(super) const HOSTS: &str = "/v3/host";
/// Where a host is installed, as the ledger writes it.
const INSTALL: &str = "POST /v3/host/{hostId}/os/install";
const CANARY: &str = "canary-host-9d13b7";

/// A host object with this spec.
pub(super) fn host(name: &str, id: u64, spec: &Value) -> Value {
    let mut object = json!({
        "apiVersion": "flexmetal.dev/v1alpha1", "kind": "DedicatedHost",
        "metadata": {"name": name}, "spec": {"hostID": id},
    });
    for (field, value) in spec.as_object().expect("fields of a spec") {
        object["spec"][field] = value.clone();
    }
    object
}

/// What it takes to install a host with Debian.
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
fn command(name: &str, target: &str, action: &str) -> Value {
    json!({
        "apiVersion": "flexmetal.dev/v1alpha1", "kind": "ServerCommand",
        "metadata": {"name": name},
        "spec": {"targetRef": {"kind": "DedicatedHost", "name": target}, "action": action},
    })
}

fn commands(world: &World) -> Things {
    world.things("ServerCommand")
}

/// The changes of hosts that have reached the hosting API, by method and path.
async fn sent(world: &World) -> BTreeMap<String, u64> {
    let mut counts = world.simulator.counts().await;
    counts.retain(|call, count| {
        !call.starts_with("GET ") && call.contains("/v3/host/") && *count > 0
    });
    counts
}

async fn installs(world: &World) -> u64 {
    sent(world).await.get(INSTALL).copied().unwrap_or(0)
}

/// The host as the provider shows it.
async fn shown(world: &World, id: u64) -> Value {
    let path = format!("{HOSTS}/{id}");
    let (status, answer) = world.simulator.call("GET", &path, None).await;
    assert_eq!(status, 200, "{answer}");
    answer.get(0).cloned().unwrap_or(answer)
}

/// How many installations the log of a host shows.
pub(super) async fn had(world: &World, id: u64) -> usize {
    let path = format!("{HOSTS}/{id}/os/installLog");
    let log = world.simulator.records(&path).await;
    let began = log
        .iter()
        .filter(|line| line["issueDescription"] == "Installation requested");
    began.count()
}

/// Flags of a simulator whose account has this many hosts; the file is needed until it has started.
pub(in super::super) fn accounts(hosts: usize) -> (tempfile::NamedTempFile, String) {
    let account = json!({"name": "main", "hosts": hosts, "keys": [{"key": "key-of-many-hosts"}]});
    let file = tempfile::NamedTempFile::new().expect("a file");
    let accounts = json!({"accounts": [account]}).to_string();
    std::fs::write(file.path(), accounts).expect("it can be written");
    let flag = format!("--accounts={}", file.path().display());
    (file, flag)
}

/// A world whose account has this many hosts.
pub(super) async fn with_hosts(prefix: &str, number: usize) -> World {
    let (_file, flag) = accounts(number);
    let plan = WorldOptions {
        simulator: vec![flag],
        ..WorldOptions::default()
    };
    let mut world = World::prepare(cluster(), prefix, plan).await;
    world.start_operator();
    world
}

/// A world whose hosts are installed within seconds, with the stored key `ops`.
async fn with_key(prefix: &str, plan: WorldOptions) -> World {
    let mut world = World::prepare(cluster(), prefix, plan).await;
    let quick = json!({"installSeconds": 2});
    world.simulator.settings(&quick).await;
    world.start_operator();
    let keys = world.things("SshKey");
    keys.create(&super::ssh_keys::deleting_key("ops", 'A'))
        .await;
    keys.wait_ready("ops", SOON).await;
    world
}

/// A world with the host `db`, whose revision 1 counts as performed.
async fn with_host(prefix: &str, plan: WorldOptions) -> World {
    let world = with_key(prefix, plan).await;
    hosts(&world).create(&host("db", HOST, &debian(1))).await;
    hosts(&world).wait_ready("db", SOON).await;
    world
}

async fn edit(world: &World, spec: Value) {
    hosts(world).merge("db", &json!({"spec": spec})).await;
}

/// Waits until the installation of this revision has come to this end.
async fn came_to(world: &World, revision: i64, end: &str) -> Value {
    let what = format!("{revision} {end}");
    let look = |object: &Value| {
        let install = &object["status"]["install"];
        let last = &install["last"];
        (last["revision"] == revision && last["result"] == end).then(|| object.clone())
    };
    hosts(world).wait_for("db", &what, SOON, look).await
}

/// Waits until a condition of the object has this status and reason; its message holds all of `words`.
async fn says(world: &World, name: &str, kind: &str, told: (&str, &str), words: &[&str]) -> Value {
    let object = hosts(world)
        .wait_for_condition(name, kind, told.0, Some(told.1), SOON)
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

/// Waits until the object needs a person for this reason.
async fn stuck(world: &World, name: &str, reason: &str, words: &[&str]) -> Value {
    says(world, name, "Ready", ("False", reason), words).await
}

/// Waits until the operator has listed the hosts this often from now on.
async fn looks(world: &World, times: usize) {
    let seen = world.simulator.ledger().await.len();
    eventually(&format!("{times} looks at the hosts"), SOON, async || {
        let ledger = world.simulator.ledger().await;
        let lists = ledger
            .iter()
            .skip(seen)
            .filter(|call| call["method"] == "GET" && call["template"] == HOSTS);
        (lists.count() >= times).then_some(())
    })
    .await;
}

#[tokio::test]
async fn new_and_deleted_hosts_send_nothing() {
    let mut world = World::start(cluster(), "host").await;
    let all = hosts(&world);
    let mut words = debian(7);
    words["power"] = json!("PoweredOff");
    all.create(&host("db", HOST, &words)).await;
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
    assert_eq!(status["records"]["power"]["wish"], "PoweredOff");
    assert_eq!(condition(&ready, "Ready").unwrap()["status"], "True");
    // It was started a moment ago: its first record says that it has been up for no second.
    let up = |object: &Value| object["status"]["upSince"].is_string().then_some(());
    all.wait_for("db", "up", SOON, up).await;
    looks(&world, 3).await;
    assert_eq!(sent(&world).await, BTreeMap::new());

    // What an object that lost its status says counts as performed again, and so it does for the next process.
    world.operator().restart();
    looks(&world, 3).await;
    let object = all.get("db").await.unwrap();
    assert_eq!(object["status"]["install"]["revision"], 7, "{object:#}");
    // What a person does at the portal is shown.
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
    assert_eq!(sent(&world).await, BTreeMap::new());
    assert_eq!(shown(&world, HOST).await["status"], "stopped");
    super::judge(&world).await;
}

#[tokio::test]
async fn host_power_change_sends_one_command() {
    let mut world = World::start(cluster(), "hostpower").await;
    let all = hosts(&world);
    let scmds = commands(&world);
    all.create(&host("db", HOST, &json!({"power": "PoweredOn"})))
        .await;
    all.wait_ready("db", SOON).await;
    let call = |word: &str| format!("PUT /v3/host/{{hostId}}/{word}");
    let counts = |stops, starts, restarts| {
        let all = [("stop", stops), ("start", starts), ("restart", restarts)];
        let all = all.into_iter().filter(|(_, count)| *count > 0);
        BTreeMap::from_iter(all.map(|(word, count)| (call(word), count)))
    };
    let came_to = async |wish: &str, state: &str| {
        let look = |object: &Value| {
            let power = &object["status"]["records"]["power"];
            let is_it = power["wish"] == wish && power["command"]["state"] == state;
            is_it.then(|| object.clone())
        };
        let what = format!("{wish} is {state}");
        all.wait_for("db", &what, SOON, look).await
    };
    let becomes = async |word: &'static str| {
        let look = |object: &Value| {
            let is_ready = condition(object, "Ready")?["status"] == "True";
            (is_ready && object["status"]["providerStatus"] == word).then_some(())
        };
        all.wait_for("db", word, SOON, look).await
    };
    edit(&world, json!({"power": "PoweredOff"})).await;
    came_to("PoweredOff", "Complete").await;
    becomes("stopped").await;
    assert_eq!(sent(&world).await, counts(1, 0, 0));
    edit(&world, json!({"power": "PoweredOn"})).await;
    came_to("PoweredOn", "Complete").await;
    becomes("running").await;
    assert_eq!(sent(&world).await, counts(1, 1, 0));
    let restart = command("restart", "db", "Reboot");
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
    assert_eq!(sent(&world).await, counts(1, 1, 1));
    // A word that does not say whether the host runs.
    let word = async |word: &str| {
        let change = json!({ "hostStatus": word });
        world.simulator.switches(&change).await;
    };
    word("active").await;
    scmds.create(&command("blind", "db", "PowerOn")).await;
    let blind = over("blind", "Complete").await;
    accepted(&blind);
    assert_eq!(blind["status"]["providerState"], "active", "{blind:#}");
    word("running").await;
    assert_eq!(sent(&world).await, counts(1, 2, 1));
    // Neither another process nor another edit sends it again.
    world.operator().restart();
    edit(&world, json!({"suspend": false})).await;
    looks(&world, 3).await;
    assert_eq!(sent(&world).await, counts(1, 2, 1));

    // Every answer lost once: nothing is sent again. The power of the host settles a start or stop, and nothing a restart.
    let lose = async |fault: &str, word: &str| {
        let path = format!("{HOSTS}/{HOST}/{word}");
        let once = Fault::new(fault).on("PUT", &path).times(1);
        world.simulator.fault(once).await;
    };
    lose("dropAfter", "stop").await;
    edit(&world, json!({"power": "PoweredOff"})).await;
    came_to("PoweredOff", "Complete").await;
    becomes("stopped").await;
    assert_eq!(sent(&world).await, counts(2, 2, 1));
    lose("dropBefore", "start").await;
    edit(&world, json!({"power": "PoweredOn"})).await;
    came_to("PoweredOn", "Failed").await;
    stuck(&world, "db", "CommandFailed", &["spec.power"]).await;
    assert_eq!(sent(&world).await, counts(2, 3, 1));
    assert_eq!(shown(&world, HOST).await["status"], "stopped");
    for (fault, name, restarts) in [("dropAfter", "second", 2), ("dropBefore", "third", 3)] {
        lose(fault, "restart").await;
        let restart = command(name, "db", "Reboot");
        scmds.create(&restart).await;
        let failed = over(name, "Failed").await;
        let reason = &condition(&failed, "Failed").expect("it is told")["reason"];
        assert_eq!(reason, "OutcomeUnknown", "{fault}");
        looks(&world, 3).await;
        assert_eq!(sent(&world).await, counts(2, 3, restarts), "{fault}");
    }
    // The operator ends while the answer is on its way.
    let slow = Fault::new(json!({"delay": {"ms": 20_000, "before": true}}));
    let path = format!("{HOSTS}/{HOST}/stop");
    world.simulator.fault(slow.on("PUT", &path).times(1)).await;
    scmds.create(&command("killed", "db", "PowerOff")).await;
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
    assert!(sent(&world).await[&call("stop")] <= 3);
    super::judge(&world).await;
}

#[tokio::test]
async fn host_installs_once_per_higher_revision() {
    let plan = WorldOptions {
        log: Some("trace"),
        ..WorldOptions::default()
    };
    let mut world = with_host("hostinstall", plan).await;
    let script = format!("\u{feff}#!/bin/sh\r\necho {CANARY}\r\n");
    let script = secret("script", "it", &script);
    apply(&world.client, Some(&world.namespace), &script).await;
    let lies = json!({"secretKeyRef": {"name": "script", "key": "it"}});
    let mut wish = debian(1);
    wish["hostname"] = json!("db.example.com");
    wish["install"]["wipeDisk"] = json!(false);
    wish["postInstallScript"] = json!({ "valueFrom": lies });
    edit(&world, wish).await;
    looks(&world, 3).await;
    assert_eq!(installs(&world).await, 0, "an edit is no consent");

    // What is sent is what the spec says.
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
    edit(&world, json!({"install": {"revision": 2}})).await;
    let during = stuck(&world, "db", "Reinstalling", &[]).await;
    assert_eq!(condition(&during, "Reconciling").unwrap()["status"], "True");
    let reboot = command("meanwhile", "db", "Reboot");
    commands(&world).create(&reboot).await;
    let done = came_to(&world, 2, "Finished").await;
    // A command that meets it follows it.
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

    // Neither another process nor a lower number sends anything, and a lower one is told.
    world.operator().restart();
    edit(&world, json!({"install": {"revision": 1}})).await;
    says(
        &world,
        "db",
        "Ready",
        ("False", "InvalidSpec"),
        &["spec.install.revision"],
    )
    .await;
    looks(&world, 3).await;
    assert_eq!(installs(&world).await, 1);

    // The account says how it is asked for.
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
    edit(&world, json!({"install": {"revision": 3}})).await;
    came_to(&world, 3, "Finished").await;

    let object = hosts(&world).get("db").await.unwrap();
    assert!(!object["status"].to_string().contains(CANARY), "{object:#}");
    let events = ["get", "events", "-n", &world.namespace, "-o", "json"];
    let events = cluster().kubectl_ok(&events).await;
    assert!(!events.contains(CANARY), "{events}");
    // Its start and its end, once each.
    let events: Value = serde_json::from_str(&events).unwrap();
    let told = |reason: &str, kind: &str, words: &str| {
        let items = events["items"].as_array().unwrap().iter();
        let is_it = |event: &&Value| {
            event["reason"] == reason && event["type"] == kind && text(&event["message"]) == words
        };
        assert_eq!(items.filter(is_it).count(), 1, "{words}");
    };
    let what = format!("host {HOST} (spec.install.revision 2)");
    let began = format!("The provider started to install {what}; this erases the disks");
    told("Reinstalling", "Warning", &began);
    told("Reinstalled", "Normal", &format!("Installed {what}"));
    assert!(!world.operator().log().contains(CANARY), "it is in the log");
    super::judge(&world).await;
}

#[tokio::test]
async fn no_fault_installs_a_host_twice() {
    let mut world = with_host("hostlost", WorldOptions::default()).await;
    let path = format!("{HOSTS}/{HOST}/os/install");
    let on = |fault: Fault| fault.on("POST", &path).times(1);
    let to = async |revision: i64| {
        edit(&world, json!({"install": {"revision": revision}})).await;
    };
    world.simulator.fault(on(Fault::new("dropAfter"))).await;
    to(2).await;
    came_to(&world, 2, "Finished").await;
    assert_eq!(had(&world, HOST).await, 1);

    // One that never arrived is not sent again either: nobody knows.
    world.simulator.fault(on(Fault::new("dropBefore"))).await;
    to(3).await;
    came_to(&world, 3, "Unknown").await;
    let words = ["spec.install.revision"];
    says(&world, "db", "Stalled", ("True", "OutcomeUnknown"), &words).await;
    looks(&world, 3).await;
    assert_eq!((had(&world, HOST).await, installs(&world).await), (1, 2));

    // A refusal wipes nothing.
    let no = json!({"refuse": {"status": 422, "message": "no such system"}});
    world.simulator.fault(on(Fault::new(no))).await;
    to(4).await;
    came_to(&world, 4, "Refused").await;
    assert_eq!((had(&world, HOST).await, installs(&world).await), (1, 3));

    let fails = Fault::new(json!({"fail": {"message": "no disk"}}));
    world.simulator.fault(on(fails)).await;
    to(5).await;
    let failed = came_to(&world, 5, "Failed").await;
    let told = text(&failed["status"]["install"]["last"]["message"]);
    assert!(told.contains("no disk"), "{told}");
    assert_eq!((had(&world, HOST).await, installs(&world).await), (2, 4));

    // The operator ends while the answer is on its way.
    let slow = Fault::new(json!({"delay": {"ms": 20_000, "before": false}}));
    world.simulator.fault(on(slow)).await;
    to(6).await;
    let noted =
        |object: &Value| (object["status"]["install"]["last"]["revision"] == 6).then_some(());
    hosts(&world).wait_for("db", "noted", SOON, noted).await;
    world.operator().kill9();
    world.operator().restart();
    world.simulator.clear_faults().await;
    let settled = |object: &Value| {
        let last = &object["status"]["install"]["last"];
        (last["revision"] == 6 && last["result"].is_string()).then_some(())
    };
    hosts(&world).wait_for("db", "settled", SOON, settled).await;
    assert!(had(&world, HOST).await <= 3);
    assert!(installs(&world).await <= 5);
    super::judge(&world).await;
}

#[tokio::test]
async fn invalid_host_request_is_not_sent() {
    let world = with_key("hostbad", WorldOptions::default()).await;
    let all = hosts(&world);
    // Not of this account.
    all.create(&host("unknown", 4711, &json!({}))).await;
    stuck(
        &world,
        "unknown",
        "ServerNotFound",
        &["spec.hostID", "4711"],
    )
    .await;
    // A machine that was ordered.
    let flex = json!({"name": "web"});
    world.simulator.appear(&flex).await;
    all.create(&host("flex", 100_001, &json!({}))).await;
    let words = ["spec.hostID", "BareMetalServer"];
    stuck(&world, "flex", "InvalidSpec", &words).await;
    // Two objects for one host. A time stamp has whole seconds.
    all.create(&host("db", HOST, &debian(0))).await;
    all.wait_ready("db", SOON).await;
    tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
    all.create(&host("rival", HOST, &debian(0))).await;
    let owner = format!("{}/db", world.namespace);
    stuck(&world, "rival", "OwnershipConflict", &[&owner]).await;
    let reboot = command("reboot", "rival", "Reboot");
    commands(&world).create(&reboot).await;
    commands(&world)
        .wait_for_condition("reboot", "Ready", "False", Some("OwnershipConflict"), SOON)
        .await;
    edit_of(&world, "rival", json!({"install": {"revision": 1}})).await;

    // Each wish that cannot be carried out is told, and used up by nothing.
    for (number, (wish, reason, words)) in [
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
        let mut wish = wish;
        wish["install"] = json!({"revision": number + 1});
        edit(&world, wish).await;
        says(&world, "db", "Ready", ("False", reason), &words).await;
    }
    looks(&world, 3).await;
    assert_eq!(sent(&world).await, BTreeMap::new());
    commands(&world).delete("reboot").await;
    // Mended, the consent that stands is carried out, once.
    edit(&world, json!({"postInstallScript": null})).await;
    came_to(&world, 3, "Finished").await;
    assert_eq!(installs(&world).await, 1);
    // What the older one leaves, the younger one has; what it asked for meanwhile counts as performed.
    all.delete("db").await;
    all.wait_gone("db", SOON).await;
    all.wait_ready("rival", SOON).await;
    looks(&world, 3).await;
    assert_eq!(installs(&world).await, 1);
    super::judge(&world).await;
}

async fn edit_of(world: &World, name: &str, spec: Value) {
    hosts(world).merge(name, &json!({"spec": spec})).await;
}

#[tokio::test]
async fn suspended_or_observed_host_sends_nothing() {
    let world = with_host("hosthold", WorldOptions::default()).await;
    // Suspended by the object, stopped at the account, only looked at: nothing is sent, and the consent stands.
    edit(&world, json!({"suspend": true})).await;
    says(&world, "db", "Suspended", ("True", "Suspended"), &[]).await;
    says(&world, "db", "Ready", ("True", "Available"), &[]).await;
    edit(
        &world,
        json!({"power": "PoweredOff", "install": {"revision": 2}}),
    )
    .await;
    looks(&world, 3).await;
    edit(
        &world,
        json!({"suspend": false, "managementPolicy": "ObserveOnly"}),
    )
    .await;
    says(&world, "db", "Ready", ("False", "ObserveOnly"), &[]).await;
    looks(&world, 3).await;
    let stop = async |suspend: bool| {
        super::change_account(&world, "default", &json!({"spec": {"suspend": suspend}})).await;
    };
    stop(true).await;
    edit(&world, json!({"suspend": null, "managementPolicy": null})).await;
    says(
        &world,
        "db",
        "Suspended",
        ("True", "Suspended"),
        &["spec.suspend of"],
    )
    .await;
    assert_eq!(sent(&world).await, BTreeMap::new());
    stop(false).await;
    came_to(&world, 2, "Finished").await;
    assert_eq!(installs(&world).await, 1);

    // The key does not wait for the object that names it.
    let keys = world.things("SshKey");
    keys.delete("ops").await;
    keys.wait_gone("ops", SOON).await;
    assert_eq!(super::ssh_keys::stored(&world).await.len(), 0);
    super::ssh_keys::still_referenced(&world, "ops", "DedicatedHost db").await;
    super::judge(&world).await;
}

/// Through an account of the cluster a host is taken only where the entry lists it, whatever else it allows: who takes one
/// may wipe it.
pub(super) async fn granted(all: &Host) -> World {
    let world = all.guest("hosts").await;
    let account = async |numbers: Value| {
        let entries = json!([{
            "name": "team", "namespaces": [world.namespace], "allowAdoption": true, "hostIDs": numbers,
        }]);
        timed_account(all, &world, &entries, &quick_timing()).await
    };
    account(json!([HOST + 1])).await;
    let of_cluster = json!({
        "accountRef": {"kind": "ClusterProviderAccount", "name": world.namespace}, "power": "PoweredOn",
    });
    hosts(&world).create(&host("db", HOST, &of_cluster)).await;
    let words = ["does not grant host", "hostIDs", "\"team\""];
    stuck(&world, "db", "NotAllowed", &words).await;
    let ledger = world.simulator.ledger().await;
    let of_hosts = ledger.iter().filter(|call| {
        let path = text(&call["path"]);
        path.starts_with(HOSTS)
    });
    assert_eq!(of_hosts.count(), 0, "{ledger:?}");

    account(json!([HOST])).await;
    hosts(&world).wait_ready("db", SOON).await;
    edit(&world, json!({"power": "PoweredOff"})).await;
    let stopped = |object: &Value| (object["status"]["providerStatus"] == "stopped").then_some(());
    hosts(&world).wait_for("db", "stopped", SOON, stopped).await;

    // Taken back, it is let alone at once.
    account(json!([])).await;
    stuck(&world, "db", "NotAllowed", &words).await;
    edit(&world, json!({"power": "PoweredOn"})).await;
    let reboot = command("reboot", "db", "Reboot");
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
    assert_eq!(sent(&world).await, once);

    // Given back, nothing follows of what was asked for meanwhile.
    commands(&world).delete("reboot").await;
    commands(&world).wait_gone("reboot", SOON).await;
    account(json!([HOST])).await;
    let back = hosts(&world).wait_ready("db", SOON).await;
    assert_eq!(
        back["status"]["records"]["power"]["wish"], "PoweredOn",
        "{back:#}"
    );
    assert_eq!(back["status"]["providerStatus"], "stopped", "{back:#}");
    looks(&world, 2).await;
    assert_eq!(sent(&world).await, once);
    super::judge(&world).await;
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
    assert_eq!(sent(&world).await, BTreeMap::new());
}
