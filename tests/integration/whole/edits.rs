//! Edits: each field that may change is set, changed, rolled back and taken out again on a living object, which ends
//! like one that never had it, and costs nothing that is not meant; what cannot be is told on that object alone, and
//! mended by the next edit.

use std::collections::BTreeMap;

use futures::future::join_all;
use serde_json::{Value, json};

use super::{
    SERVERS, SOON, apply, held, judge, machine_becomes, orders, secret, stuck, text, with,
};
use lab::rig::{Fault, World, cluster, condition, server};

/// Where an edit shows.
#[derive(Clone, Copy)]
enum Shows {
    /// In this policy in force.
    Policy(&'static str),
    /// As a change that the machine does not have.
    Pending(&'static str),
    /// On the machine.
    Tags,
    /// Nowhere: it counts when something happens.
    Nowhere,
}

/// A field that may change while there is a machine, and two good values of it.
fn fields() -> Vec<(&'static str, Shows, Value, Value)> {
    let key = |letter| json!([{"publicKey": super::ssh_keys::public_key(letter)}]);
    let os = |swap: i32, root: Value| {
        json!({"slug": "ubuntu-2404-lts", "partitions": [
            {"target": "swap", "filesystem": "swap", "sizeMB": swap}, root,
        ]})
    };
    let rest = json!({"target": "/", "filesystem": "ext4"});
    let sized = json!({"target": "/", "filesystem": "ext4", "sizeMB": 8192});
    let script = |text: &str| json!({"value": format!("#!/bin/sh\n{text}\n")});
    let data = |text: &str| json!({"data": {"value": text}});
    vec![
        (
            "suspend",
            Shows::Policy("suspend"),
            json!(true),
            json!(false),
        ),
        (
            "deletionPolicy",
            Shows::Policy("deletionPolicy"),
            json!("Retain"),
            json!("Release"),
        ),
        (
            "deletionProtection",
            Shows::Policy("deletionProtection"),
            json!(true),
            json!(false),
        ),
        (
            "releaseDelay",
            Shows::Policy("releaseDelay"),
            json!("2h"),
            json!("90m"),
        ),
        (
            "failurePolicy",
            Shows::Policy("failurePolicy"),
            json!("Replace"),
            json!("Wait"),
        ),
        (
            "externalReleasePolicy",
            Shows::Policy("externalReleasePolicy"),
            json!("Reorder"),
            json!("Wait"),
        ),
        (
            "managementPolicy",
            Shows::Policy("managementPolicy"),
            json!("ObserveOnly"),
            json!("Full"),
        ),
        ("tags", Shows::Tags, json!(["a", "b"]), json!(["b", "c"])),
        (
            "tagPolicy",
            Shows::Nowhere,
            json!("Exact"),
            json!("Additive"),
        ),
        (
            "expiresAt",
            Shows::Nowhere,
            json!("2099-01-01T00:00:00Z"),
            json!("2098-12-31T23:59:59+01:00"),
        ),
        (
            "provisioning",
            Shows::Nowhere,
            json!({"timeout": "10m"}),
            json!({"maxAttempts": 3}),
        ),
        (
            "alternatives",
            Shows::Nowhere,
            json!([{"location": "JP: Tokyo"}]),
            json!([{"instanceType": "bm8.std.32"}]),
        ),
        (
            "hostname",
            Shows::Pending("spec.hostname"),
            json!("one.example.com"),
            json!("two"),
        ),
        (
            "sshKeys",
            Shows::Pending("spec.sshKeys"),
            key('A'),
            key('B'),
        ),
        (
            "os",
            Shows::Pending("spec.os.partitions"),
            os(512, rest),
            os(1024, sized),
        ),
        (
            "postInstallScript",
            Shows::Pending("spec.postInstallScript"),
            script("true"),
            script("echo ä"),
        ),
        (
            "userData",
            Shows::Pending("spec.userData"),
            data("a: 機"),
            data("b"),
        ),
    ]
}

/// Waits until the newest spec is described, and what it says is seen.
async fn followed(world: &World, name: &str, shows: Shows, value: &Value) {
    let what = format!("{value} is followed");
    let is_followed = |object: &Value| {
        let status = &object["status"];
        if status["observedGeneration"] != object["metadata"]["generation"] {
            return None;
        }
        let synced = condition(object, "Synced")?;
        let is_seen = match shows {
            Shows::Policy(policy) if policy == "releaseDelay" => {
                // Written as a span may be written.
                status["policies"][policy].is_string()
            }
            Shows::Policy(policy) => status["policies"][policy] == *value,
            Shows::Pending(field) => {
                synced["reason"] == "PendingChanges" && text(&synced["message"]).contains(field)
            }
            Shows::Tags => status["records"]["tags"] == *value && synced["status"] == "True",
            Shows::Nowhere => true,
        };
        is_seen.then_some(())
    };
    world.wait_for(name, &what, SOON, is_followed).await;
}

/// A status without what differs between any two objects: their names, their machines, their times.
fn essence(object: &Value) -> Value {
    let name = text(&object["metadata"]["name"]);
    let mut status = object["status"].clone();
    for field in [
        "observedGeneration",
        "addresses",
        "orderedAt",
        "createdAt",
        "deliveredAt",
        "provisioningSeconds",
    ] {
        status.as_object_mut().unwrap().remove(field);
    }
    // It is shown from the first time on that it is True.
    let was_suspended = |c: &Value| c["type"] == "Suspended" && c["status"] == "False";
    let conditions = status["conditions"].as_array_mut().unwrap();
    conditions.retain(|condition| !was_suspended(condition));
    // The hash of the request speaks of the name, too.
    for field in ["seq", "nonce", "sendBy", "outcomeAt", "uid", "requestHash"] {
        status["records"]["order"]
            .as_object_mut()
            .unwrap()
            .remove(field);
    }
    for field in ["uid", "since"] {
        status["records"]["install"]
            .as_object_mut()
            .unwrap()
            .remove(field);
    }
    for condition in status["conditions"].as_array_mut().unwrap() {
        condition["lastTransitionTime"] = Value::Null;
        condition["observedGeneration"] = Value::Null;
    }
    let uuid = text(&object["status"]["uuid"]);
    let words = status.to_string().replace(&uuid, "UUID");
    serde_json::from_str(&words.replace(&name, "NAME")).unwrap()
}

/// The newest spec is described, and the machine has all of it.
async fn at_rest(world: &World, name: &str) -> Value {
    world
        .wait_for(name, "at rest", SOON, |object| {
            let seen = object["status"]["observedGeneration"] == object["metadata"]["generation"];
            let is = |kind| condition(object, kind).is_some_and(|c| c["status"] == "True");
            (seen && is("Ready") && is("Synced")).then(|| object.clone())
        })
        .await
}

/// Everything but looks, by method and path.
async fn sent(world: &World) -> BTreeMap<String, u64> {
    let counts = world.simulator.counts().await.into_iter();
    counts
        .filter(|(call, _)| !call.starts_with("GET "))
        .collect()
}

#[tokio::test]
async fn removing_an_edited_field_leaves_no_trace() {
    let world = World::start(cluster(), "edits").await;
    let fields = fields();
    let name = |field: &str| format!("edit-{}", field.to_lowercase());
    let good = server("any")["spec"].clone();
    let ordered = fields.iter().map(|(field, ..)| {
        let (world, name) = (&world, name(field));
        async move {
            world.create(&server(&name)).await;
            at_rest(world, &name).await
        }
    });
    let machines = join_all(ordered).await;
    let before = sent(&world).await;
    let edited = fields.iter().map(|(field, shows, first, second)| {
        let (world, name, good) = (&world, name(field), &good);
        async move {
            // Back to the first one, as a person rolls back.
            for value in [first, second, first] {
                world.merge(&name, &json!({"spec": {*field: value}})).await;
                followed(world, &name, *shows, value).await;
            }
            // Some of the fields say something at the order, too: back to that.
            let mut without = good[*field].clone();
            if *field == "os" {
                without["partitions"] = Value::Null;
            }
            world
                .merge(&name, &json!({"spec": {*field: without}}))
                .await;
            at_rest(world, &name).await
        }
    });
    let edited = join_all(edited).await;

    // What it cost: a call for each tag that came or went, and nothing else.
    let mut meant = before.clone();
    let tag_calls = "/v3/flexMetal/servers/{uuid}/tag/{tag}";
    for (method, calls) in [("POST", 4), ("DELETE", 4)] {
        *meant.entry(format!("{method} {tag_calls}")).or_default() += calls;
    }
    assert_eq!(sent(&world).await, meant);

    world.create(&server("edit-fresh")).await;
    let fresh = at_rest(&world, "edit-fresh").await;
    for ((machine, object), (field, ..)) in machines.iter().zip(&edited).zip(&fields) {
        assert_eq!(
            object["status"]["uuid"], machine["status"]["uuid"],
            "{field}"
        );
        assert_eq!(object["spec"], fresh["spec"], "{field}");
        assert_eq!(essence(object), essence(&fresh), "{field}");
    }
    assert_eq!(orders(&world).await, fields.len() as u64 + 1);
    judge(&world).await;
}

/// What an edit makes of a good spec, why it is held then, and what the message says.
type Edit<'a> = (&'a str, Value, &'a str, Vec<&'a str>);

#[tokio::test]
async fn invalid_edit_blocks_only_its_object() {
    const ROTTERDAM: &str = "EU: Rotterdam";
    const KIND: &str = "bm7.std.8";
    let world = World::start(cluster(), "slips").await;
    let (client, namespace) = (world.client.clone(), world.namespace.clone());
    world.simulator.stock(ROTTERDAM, KIND, Some(0)).await;
    let over = text(&world.simulator.appear(&json!({"name": "over"})).await["uuid"]);
    let released = json!({"status": "released"});
    world.simulator.alter(&over, &released).await;
    machine_becomes(&world, &over, "released").await;
    // The neighbour is elsewhere, and has its machine before anything is edited.
    world
        .create(&with("neighbour", &json!({"location": "JP: Tokyo"})))
        .await;
    let neighbour = world.wait_ready("neighbour", SOON).await;
    let its = text(&neighbour["status"]["uuid"]);

    let long = "x".repeat(128);
    let in_secret = json!({"valueFrom": {"secretKeyRef": {"name": "setup", "key": "it"}}});
    let edits: Vec<Edit> = vec![
        (
            "location",
            json!({"location": "Zürich 機械 🚀"}),
            "InvalidSpec",
            vec![
                "spec.location",
                "Zürich 機械 🚀",
                ROTTERDAM,
                "Correct spec.location",
            ],
        ),
        (
            "type",
            json!({"instanceType": long}),
            "InvalidSpec",
            vec!["Unknown instance type", "Correct spec.instanceType"],
        ),
        (
            "system",
            json!({"os": {"slug": "templeos"}}),
            "InvalidSpec",
            vec!["spec.os.slug", "templeos"],
        ),
        (
            "data",
            json!({"userData": {"data": {"value": "no base64!"}, "encoding": "Base64"}}),
            "InvalidSpec",
            vec!["spec.userData.data", "base64"],
        ),
        (
            "key",
            json!({"sshKeys": [{"sshKeyRef": {"name": "nowhere"}}]}),
            "ReferenceNotFound",
            vec!["spec.sshKeys[0]", "SshKey nowhere", "Create it"],
        ),
        (
            "over",
            json!({"externalID": over}),
            "ReleasedExternally",
            vec![&over, "none is ordered"],
        ),
        (
            "taken",
            json!({"externalID": its}),
            "OwnershipConflict",
            vec![&its, "belongs to another object"],
        ),
    ];
    let names: Vec<&str> = edits.iter().map(|(name, ..)| *name).collect();
    for name in names.iter().chain(&["steady"]) {
        world.create(&server(name)).await;
    }
    apply(
        &client,
        Some(&namespace),
        &secret("setup", "it", "#!/bin/sh\nfirst\n"),
    )
    .await;
    world
        .create(&with("script", &json!({"postInstallScript": in_secret})))
        .await;
    for name in names.iter().chain(&["steady", "script"]) {
        held(&world, name, "NoStock", &[ROTTERDAM]).await;
    }

    for (name, edit, ..) in &edits {
        world.merge(name, &json!({"spec": edit})).await;
    }
    // What an object refers to goes while it waits.
    let gone = world.secrets().delete("setup", &Default::default()).await;
    gone.unwrap();
    world.simulator.stock(ROTTERDAM, KIND, None).await;
    let told = edits
        .iter()
        .map(|(name, _, reason, words)| stuck(&world, name, reason, words));
    let words = [
        "spec.postInstallScript",
        "Secret setup does not exist",
        "Create it",
    ];
    tokio::join!(
        join_all(told),
        stuck(&world, "script", "ReferenceNotFound", &words),
        world.wait_ready("steady", SOON),
    );
    assert_eq!(
        orders(&world).await,
        2,
        "the neighbour and the one without an edit"
    );

    // Each goes on by the edit that takes it back, with what lies in the Secret now.
    let rule = Fault::new(json!({"delay": {"ms": 1, "before": true}})).on("POST", SERVERS);
    let rule = rule.with_body(r#""postInstallScript":"#).after(1000);
    world.simulator.fault(rule).await;
    let second = r#""postInstallScript":"#.to_owned() + r##""#!/bin/sh\nsecond\n""##;
    let rule = Fault::new(json!({"delay": {"ms": 1, "before": true}})).on("POST", SERVERS);
    world
        .simulator
        .fault(rule.with_body(&second).after(1000))
        .await;
    let good = server("any")["spec"].clone();
    for (name, edit, ..) in &edits {
        let fields = edit.as_object().unwrap().keys();
        let back: Value = fields
            .map(|field| (field.clone(), good[field].clone()))
            .collect();
        world.merge(name, &json!({"spec": back})).await;
    }
    apply(
        &client,
        Some(&namespace),
        &secret("setup", "it", "#!/bin/sh\nsecond\n"),
    )
    .await;
    for name in names.iter().chain(&["script"]) {
        world.wait_ready(name, SOON).await;
    }
    assert_eq!(orders(&world).await, 2 + edits.len() as u64 + 1);
    for rule in world.simulator.faults().await {
        assert_eq!(rule["matched"], 1, "{rule}");
    }
    let now = world.get("neighbour").await.unwrap();
    assert_eq!(now["status"], neighbour["status"], "nothing happened to it");
    let releases = sent(&world).await.into_keys();
    assert_eq!(
        releases.filter(|call| call.starts_with("DELETE")).count(),
        0
    );
    judge(&world).await;
}
