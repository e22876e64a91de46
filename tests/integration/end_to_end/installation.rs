//! Complete orders: each system with its fields, texts from Secrets and ConfigMaps, and alternative placements.

use serde_json::json;

use super::{
    SERVERS, SOON, apply, build_secret, build_server, check_invariants, count_orders, text,
    wait_not_ready, wait_stalled,
};
use kube::api::DeleteParams;
use lab::rig::{Fault, Kstatus, World, cluster, condition, health, server};

/// Every example of a server.
fn examples() -> Vec<(String, String)> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/servers");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        (name, std::fs::read_to_string(path).unwrap())
    });
    files.collect()
}

#[tokio::test]
async fn every_server_example_orders_once() {
    let world = World::start(cluster(), "example").await;
    let examples = examples();
    assert!(examples.len() >= 8, "{examples:?}");
    let mut ordered = 0;
    for (name, manifest) in &examples {
        let mut manifest = manifest.clone();
        match manifest.split_once("externalID: ") {
            // The existing server of a user.
            Some((_, rest)) => {
                let named = rest.split_whitespace().next().unwrap().to_owned();
                let server = world.simulator.appear(&json!({"name": name})).await;
                manifest = manifest.replace(&named, &text(&server["uuid"]));
            }
            None => ordered += 1,
        }
        let manifest = &manifest;
        let apply = ["apply", "-n", &world.namespace, "-f", "-"];
        let applied = cluster().kubectl_with_input(&apply, manifest).await;
        assert!(applied.status.success(), "{name}: {applied:?}");
    }
    for (name, manifest) in &examples {
        let ready = world.wait_ready(name, SOON).await;
        assert_eq!(health(&ready), Kstatus::Current, "{ready:#}");
        let synced = condition(&ready, "Synced").unwrap();
        assert_eq!(synced["status"], "True", "{ready:#}");
        // An observed server need not specify its system.
        let named = manifest.split_once("slug: ").map(|(_, rest)| rest);
        let named = named.and_then(|rest| rest.split_whitespace().next());
        let slug = named.unwrap_or("ubuntu-2404-lts");
        assert_eq!(ready["status"]["os"], slug, "{ready:#}");
    }
    assert_eq!(count_orders(&world).await, ordered);
    check_invariants(&world).await;
}

/// Counts the orders that contain this text, as JSON in the request.
async fn count_orders_with_text(world: &World, part: &str) {
    let rule = Fault::new(json!({"delay": {"ms": 1, "before": true}}));
    let rule = rule.on("POST", SERVERS).with_body(part).after(1000);
    world.simulator.fault(rule).await;
}

#[tokio::test]
async fn order_matches_spec_and_leaks_no_secret() {
    const CANARY: &str = "canary-token-5be2a94f63";
    let mut world = World::start(cluster(), "texts").await;
    let (client, namespace) = (world.client.clone(), world.namespace.clone());
    let script = format!("#!/bin/sh\necho {CANARY}-script\n");
    let data = format!("token: {CANARY}-data");
    let hub = format!("https://hub.example.com/?jointoken={CANARY}-hub\n");
    // As a Windows editor saves it. Linux cannot run that.
    let foreign = format!("\u{feff}{}", script.replace('\n', "\r\n"));
    for (name, text) in [("script", &foreign), ("data", &data), ("hub", &hub)] {
        apply(&client, Some(&namespace), &build_secret(name, "it", text)).await;
    }
    let lies_in = |name: &str| json!({"valueFrom": {"secretKeyRef": {"name": name, "key": "it"}}});
    let linux = build_server(
        "linux",
        &json!({
            "postInstallScript": lies_in("script"),
            "userData": {"data": lies_in("data")},
            "os": {"slug": "debian-13", "partitions": [
                {"target": "/", "filesystem": "xfs"},
                {"target": "swap", "filesystem": "swap", "sizeMB": 512},
            ]},
        }),
    );
    let mut param = lies_in("hub");
    param["key"] = json!("siderolink.api");
    let talos = build_server(
        "talos",
        &json!({"sshKeys": [], "os": {"slug": "talos-omni-1110", "kernelParams": [param, {"key": "quiet", "value": ""}]}}),
    );
    let hub_url = format!(r#"{{"key":"siderolink.api","value":"{}"}}"#, hub.trim());
    let bodies = [
        format!(r##""postInstallScript":"#!/bin/sh\necho {CANARY}-script\n""##),
        format!(r#""userData":{{"data":"{data}","isBase64":false}}"#),
        r#""partitions":[{"target":"/","filesystem":"xfs","size":-1},{"target":"swap","filesystem":"swap","size":512}]"#.to_owned(),
        format!(r#""kernelParams":[{hub_url},{{"key":"quiet","value":""}}]"#),
    ];
    for body in &bodies {
        count_orders_with_text(&world, body).await;
    }
    world.create(&linux).await;
    world.create(&talos).await;
    let ready = world.wait_ready("linux", SOON).await;
    world.wait_ready("talos", SOON).await;
    let rules = world.simulator.faults().await;
    assert_eq!(rules.len(), bodies.len());
    for (rule, body) in rules.iter().zip(&bodies) {
        assert_eq!(rule["matched"], 1, "{body}");
    }

    // The script has changed by now: the status shows that, and the operator sends nothing.
    let sent = &ready["status"]["records"]["order"]["sent"];
    assert_eq!(
        sent["postInstallScript"].as_str().unwrap().len(),
        4,
        "{ready:#}"
    );
    let other = build_secret("script", "it", &format!("#!/bin/sh\necho {CANARY}-2\n"));
    apply(&client, Some(&namespace), &other).await;
    world
        .merge("linux", &json!({"spec": {"suspend": false}}))
        .await;
    let pending = "spec.postInstallScript differs from what is installed";
    world
        .wait_for("linux", "the pending script", SOON, |object| {
            let synced = condition(object, "Synced")?;
            let said =
                synced["reason"] == "PendingChanges" && text(&synced["message"]).contains(pending);
            said.then_some(())
        })
        .await;
    check_invariants(&world).await;

    let object = world.get("linux").await.unwrap();
    assert!(!object["status"].to_string().contains(CANARY), "{object:#}");
    let events = ["get", "events", "-n", &namespace, "-o", "json"];
    let events = cluster().kubectl_ok(&events).await;
    assert!(!events.contains(CANARY), "{events}");
    let log = world.operator().log();
    assert!(!log.contains(CANARY), "a secret is in the log");
}

#[tokio::test]
async fn credentials_are_never_sent_to_a_server() {
    let world = World::start(cluster(), "creds").await;
    let script = json!({"valueFrom": {"secretKeyRef": {"name": "account-key", "key": "apiKey"}}});
    world
        .create(&build_server(
            "web",
            &json!({"postInstallScript": script.clone()}),
        ))
        .await;
    world
        .create(&build_server(
            "data",
            &json!({"userData": {"data": script}}),
        ))
        .await;
    let words = [
        "Secret account-key has type flexmetal.dev/api-key",
        "Refer to another Secret",
    ];
    wait_stalled(
        &world,
        "web",
        "InvalidSpec",
        &[&["spec.postInstallScript"], &words[..]].concat(),
    )
    .await;
    wait_stalled(
        &world,
        "data",
        "InvalidSpec",
        &[&["spec.userData.data"], &words[..]].concat(),
    )
    .await;
    assert_eq!(count_orders(&world).await, 0);
    check_invariants(&world).await;
}

#[tokio::test]
async fn provider_message_with_secret_is_hidden() {
    const WORD: &str = "canary-5be2a94f63";
    // The word in base64.
    const CODED: &str = "Y2FuYXJ5LTViZTJhOTRmNjM=";
    let mut world = World::start(cluster(), "quoted").await;
    let (client, namespace) = (world.client.clone(), world.namespace.clone());
    let script = build_secret("script", "it", &format!("#!/bin/sh\nlogin {WORD} now\n"));
    apply(&client, Some(&namespace), &script).await;
    let quotes = format!("cannot run {WORD}, or {CODED}");
    let refuse = Fault::new(json!({"refuse": {"status": 422, "message": quotes}}));
    let refused = world.simulator.fault(refuse.on("POST", SERVERS)).await;
    let script = json!({"valueFrom": {"secretKeyRef": {"name": "script", "key": "it"}}});
    world
        .create(&build_server("web", &json!({"postInstallScript": script})))
        .await;
    let words = [
        "status 422",
        "hidden, because a text that was sent came from a Secret",
    ];
    wait_not_ready(&world, "web", "OrderRefused", &words).await;

    // The next server's order fails.
    let fail = Fault::new(json!({"fail": {"message": quotes}}));
    world.simulator.fault(fail.on("POST", SERVERS)).await;
    // Only now: a retry in between would be accepted.
    world.simulator.end_fault(refused).await;
    world
        .merge("web", &json!({"spec": {"hostname": "other"}}))
        .await;
    let failed = wait_not_ready(&world, "web", "ProvisioningFailed", &words[1..]).await;
    assert!(!failed.contains(WORD), "{failed}");
    // The record still contains what was sent when the spec changes.
    let plain = json!({"spec": {"postInstallScript": {"value": "#!/bin/sh\n", "valueFrom": null}}});
    world.merge("web", &plain).await;
    world
        .wait_for("web", "the edit to be seen", SOON, |object| {
            let seen = object["status"]["observedGeneration"] == object["metadata"]["generation"];
            seen.then_some(())
        })
        .await;
    let status = world.get("web").await.unwrap()["status"].clone();
    assert!(
        text(&status["statusMessage"]).starts_with("hidden"),
        "{status:#}"
    );
    let events = ["get", "events", "-n", &namespace, "-o", "json"];
    let events = cluster().kubectl_ok(&events).await;
    let log = world.operator().log();
    for shown in [status.to_string(), events, log] {
        assert!(!shown.contains(WORD) && !shown.contains(CODED), "{shown}");
    }
    check_invariants(&world).await;
}

#[tokio::test]
async fn missing_reference_blocks_only_its_object() {
    let world = World::start(cluster(), "lacking").await;
    let (client, namespace) = (world.client.clone(), world.namespace.clone());
    let script = json!({"valueFrom": {"secretKeyRef": {"name": "late", "key": "it"}}});
    world
        .create(&build_server("web", &json!({"postInstallScript": script})))
        .await;
    let data = json!({"data": {"valueFrom": {"configMapKeyRef": {"name": "map", "key": "it"}}}, "encoding": "Base64"});
    world
        .create(&build_server("data", &json!({"userData": data})))
        .await;
    world.create(&server("neighbour")).await;
    let words = [
        "spec.postInstallScript",
        "Secret late does not exist",
        "Create it",
    ];
    wait_not_ready(&world, "web", "ReferenceNotFound", &words).await;
    let words = ["spec.userData.data", "ConfigMap map does not exist"];
    wait_not_ready(&world, "data", "ReferenceNotFound", &words).await;
    world.wait_ready("neighbour", SOON).await;
    assert_eq!(count_orders(&world).await, 1);

    // The current values are no script, too long, or invalid base64.
    let long = format!("#!{}", "x".repeat(70_000));
    for (entry, words) in [
        (
            "echo",
            vec!["spec.postInstallScript", "shebang", "Correct it"],
        ),
        (
            &long,
            vec![
                "spec.postInstallScript",
                "Secret late",
                "70002 bytes",
                "65536",
            ],
        ),
    ] {
        apply(
            &client,
            Some(&namespace),
            &build_secret("late", "it", entry),
        )
        .await;
        world
            .wait_for("web", "what is wrong with it", SOON, |object| {
                let ready = condition(object, "Ready")?;
                let message = text(&ready["message"]);
                let is_said = words.iter().all(|word| message.contains(word));
                (ready["reason"] == "InvalidSpec" && is_said).then_some(())
            })
            .await;
    }
    let map = |text: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "map"}, "data": {"it": text}});
    apply(&client, Some(&namespace), &map("no base64!")).await;
    wait_stalled(
        &world,
        "data",
        "InvalidSpec",
        &["spec.userData.data", "base64"],
    )
    .await;
    assert_eq!(count_orders(&world).await, 1, "nothing is sent");

    apply(
        &client,
        Some(&namespace),
        &build_secret("late", "it", "#!/bin/sh\n"),
    )
    .await;
    apply(&client, Some(&namespace), &map("eA==\n")).await;
    world.wait_ready("web", SOON).await;
    world.wait_ready("data", SOON).await;

    // Once the server exists, the operator does not need the Secrets any more.
    let secrets = world.secrets();
    secrets
        .delete("late", &DeleteParams::default())
        .await
        .unwrap();
    world
        .merge("web", &json!({"spec": {"suspend": false}}))
        .await;
    world
        .wait_for("web", "the edit to be seen", SOON, |object| {
            let seen = object["status"]["observedGeneration"] == object["metadata"]["generation"];
            seen.then_some(())
        })
        .await;
    let web = world.get("web").await.unwrap();
    assert_eq!(health(&web), Kstatus::Current, "{web:#}");
    check_invariants(&world).await;
}

const TOKYO: &str = "JP: Tokyo";
const ROTTERDAM: &str = "EU: Rotterdam";
const KIND: &str = "bm7.std.8";

#[tokio::test]
async fn alternatives_are_tried_in_order() {
    let world = World::start(cluster(), "choice").await;
    let simulator = &world.simulator;
    simulator.stock(ROTTERDAM, KIND, Some(0)).await;
    simulator
        .set_on_demand_quota("US: Dallas - TX", KIND, 0)
        .await;
    simulator.stock(TOKYO, KIND, Some(1)).await;
    // In another letter case too: the request contains the provider's spelling.
    let others = json!([{"location": "US: Dallas - TX"}, {"location": "jp: tokyo"}]);
    let choosy = |name: &str| build_server(name, &json!({"alternatives": others}));
    world.create(&choosy("one")).await;
    let ready = world.wait_ready("one", SOON).await;
    assert_eq!(ready["status"]["location"], TOKYO);
    assert_eq!(ready["status"]["records"]["order"]["location"], TOKYO);
    let synced = condition(&ready, "Synced").unwrap();
    assert_eq!(synced["status"], "True", "it is where it may be: {synced}");
    assert_eq!(
        count_orders(&world).await,
        1,
        "nothing was sent to be refused"
    );

    world.create(&choosy("two")).await;
    let words = [ROTTERDAM, "nor is any of spec.alternatives available"];
    wait_not_ready(&world, "two", "NoStock", &words).await;
    let sent = count_orders(&world).await;
    assert!(sent <= 2, "at most one that a look had not told of: {sent}");
    simulator
        .set_on_demand_quota("US: Dallas - TX", KIND, 1)
        .await;
    let ready = world.wait_ready("two", SOON).await;
    assert_eq!(ready["status"]["location"], "US: Dallas - TX");
    assert_eq!(count_orders(&world).await, sent + 1);

    // The operator reports an invalid alternative when it reaches it, and sends nothing.
    let wrong = json!({"alternatives": [{"instanceType": "bm7.std.9"}]});
    world.create(&build_server("three", &wrong)).await;
    let words = [
        "spec.alternatives[0].instanceType",
        "bm7.std.9",
        "did you mean",
    ];
    wait_stalled(&world, "three", "InvalidSpec", &words).await;
    assert_eq!(count_orders(&world).await, sent + 1);
    check_invariants(&world).await;
}
