//! Edits of mutable fields: set, changed, rolled back and removed, which leaves no trace and causes no other calls.
//! An invalid edit is reported on that object only, and the next edit repairs it.

use std::collections::BTreeMap;

use futures::future::join_all;
use serde_json::{Value, json};

use super::{
    SERVERS, SOON, apply, build_secret, build_server, check_invariants, count_orders, text,
    wait_not_ready, wait_server_status, wait_stalled,
};
use lab::rig::{Fault, World, cluster, condition, server};

/// Where the effect of an edit is visible.
#[derive(Clone, Copy)]
enum EditEffect {
    /// In this effective policy.
    Policy(&'static str),
    /// As a pending change that the server does not have.
    Pending(&'static str),
    /// On the provider's server.
    Tags,
    /// Not visible: it matters for a later event.
    Nowhere,
}

/// Fields that are mutable while a server exists, each with two valid values.
fn list_field_edits() -> Vec<(&'static str, EditEffect, Value, Value)> {
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
            EditEffect::Policy("suspend"),
            json!(true),
            json!(false),
        ),
        (
            "deletionPolicy",
            EditEffect::Policy("deletionPolicy"),
            json!("Retain"),
            json!("Release"),
        ),
        (
            "deletionProtection",
            EditEffect::Policy("deletionProtection"),
            json!(true),
            json!(false),
        ),
        (
            "releaseDelay",
            EditEffect::Policy("releaseDelay"),
            json!("2h"),
            json!("90m"),
        ),
        (
            "failurePolicy",
            EditEffect::Policy("failurePolicy"),
            json!("Replace"),
            json!("Wait"),
        ),
        (
            "externalReleasePolicy",
            EditEffect::Policy("externalReleasePolicy"),
            json!("Reorder"),
            json!("Wait"),
        ),
        (
            "managementPolicy",
            EditEffect::Policy("managementPolicy"),
            json!("ObserveOnly"),
            json!("Full"),
        ),
        (
            "tags",
            EditEffect::Tags,
            json!(["a", "b"]),
            json!(["b", "c"]),
        ),
        (
            "tagPolicy",
            EditEffect::Nowhere,
            json!("Exact"),
            json!("Additive"),
        ),
        (
            "expiresAt",
            EditEffect::Nowhere,
            json!("2099-01-01T00:00:00Z"),
            json!("2098-12-31T23:59:59+01:00"),
        ),
        (
            "provisioning",
            EditEffect::Nowhere,
            json!({"timeout": "10m"}),
            json!({"maxAttempts": 3}),
        ),
        (
            "alternatives",
            EditEffect::Nowhere,
            json!([{"location": "JP: Tokyo"}]),
            json!([{"instanceType": "bm8.std.32"}]),
        ),
        (
            "hostname",
            EditEffect::Pending("spec.hostname"),
            json!("one.example.com"),
            json!("two"),
        ),
        (
            "sshKeys",
            EditEffect::Pending("spec.sshKeys"),
            key('A'),
            key('B'),
        ),
        (
            "os",
            EditEffect::Pending("spec.os.partitions"),
            os(512, rest),
            os(1024, sized),
        ),
        (
            "postInstallScript",
            EditEffect::Pending("spec.postInstallScript"),
            script("true"),
            script("echo ä"),
        ),
        (
            "userData",
            EditEffect::Pending("spec.userData"),
            data("a: 機"),
            data("b"),
        ),
    ]
}

/// Waits until the status describes the latest spec, and the effect is visible.
async fn wait_until_followed(world: &World, name: &str, shows: EditEffect, value: &Value) {
    let what = format!("{value} is followed");
    let is_followed = |object: &Value| {
        let status = &object["status"];
        if status["observedGeneration"] != object["metadata"]["generation"] {
            return None;
        }
        let synced = condition(object, "Synced")?;
        let is_seen = match shows {
            EditEffect::Policy(policy) if policy == "releaseDelay" => {
                // A duration may be written in several ways.
                status["policies"][policy].is_string()
            }
            EditEffect::Policy(policy) => status["policies"][policy] == *value,
            EditEffect::Pending(field) => {
                synced["reason"] == "PendingChanges" && text(&synced["message"]).contains(field)
            }
            EditEffect::Tags => status["records"]["tags"] == *value && synced["status"] == "True",
            EditEffect::Nowhere => true,
        };
        is_seen.then_some(())
    };
    world.wait_for(name, &what, SOON, is_followed).await;
}

/// A status without the parts that differ between any two objects: names, servers and times.
fn comparable_status(object: &Value) -> Value {
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
    // The condition stays after it was True once.
    let was_suspended = |c: &Value| c["type"] == "Suspended" && c["status"] == "False";
    let conditions = status["conditions"].as_array_mut().unwrap();
    conditions.retain(|condition| !was_suspended(condition));
    // The request hash includes the name.
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

/// Waits until the status describes the latest spec, and the server matches it.
async fn wait_until_idle(world: &World, name: &str) -> Value {
    world
        .wait_for(name, "at rest", SOON, |object| {
            let seen = object["status"]["observedGeneration"] == object["metadata"]["generation"];
            let is = |kind| condition(object, kind).is_some_and(|c| c["status"] == "True");
            (seen && is("Ready") && is("Synced")).then(|| object.clone())
        })
        .await
}

/// The number of all calls except reads, by method and path.
async fn count_changes(world: &World) -> BTreeMap<String, u64> {
    let counts = world.simulator.counts().await.into_iter();
    counts
        .filter(|(call, _)| !call.starts_with("GET "))
        .collect()
}

#[tokio::test]
async fn removing_an_edited_field_leaves_no_trace() {
    let world = World::start(cluster(), "edits").await;
    let fields = list_field_edits();
    let name = |field: &str| format!("edit-{}", field.to_lowercase());
    let good = server("any")["spec"].clone();
    let ordered = fields.iter().map(|(field, ..)| {
        let (world, name) = (&world, name(field));
        async move {
            world.create(&server(&name)).await;
            wait_until_idle(world, &name).await
        }
    });
    let originals = join_all(ordered).await;
    let before = count_changes(&world).await;
    let edited = fields.iter().map(|(field, shows, first, second)| {
        let (world, name, good) = (&world, name(field), &good);
        async move {
            // Back to the first value, like a rollback.
            for value in [first, second, first] {
                world.merge(&name, &json!({"spec": {*field: value}})).await;
                wait_until_followed(world, &name, *shows, value).await;
            }
            // Some of these fields have a value at the order: restore it.
            let mut without = good[*field].clone();
            if *field == "os" {
                without["partitions"] = Value::Null;
            }
            world
                .merge(&name, &json!({"spec": {*field: without}}))
                .await;
            wait_until_idle(world, &name).await
        }
    });
    let edited = join_all(edited).await;

    // Each added or removed tag costs one call. There are no other calls.
    let mut meant = before.clone();
    let tag_calls = "/v3/flexMetal/servers/{uuid}/tag/{tag}";
    for (method, calls) in [("POST", 4), ("DELETE", 4)] {
        *meant.entry(format!("{method} {tag_calls}")).or_default() += calls;
    }
    assert_eq!(count_changes(&world).await, meant);

    world.create(&server("edit-fresh")).await;
    let fresh = wait_until_idle(&world, "edit-fresh").await;
    for ((original, object), (field, ..)) in originals.iter().zip(&edited).zip(&fields) {
        assert_eq!(
            object["status"]["uuid"], original["status"]["uuid"],
            "{field}"
        );
        assert_eq!(object["spec"], fresh["spec"], "{field}");
        assert_eq!(
            comparable_status(object),
            comparable_status(&fresh),
            "{field}"
        );
    }
    assert_eq!(count_orders(&world).await, fields.len() as u64 + 1);
    check_invariants(&world).await;
}

/// An edit of a valid spec, the resulting reason, and words of the message.
type InvalidEdit<'a> = (&'a str, Value, &'a str, Vec<&'a str>);

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
    wait_server_status(&world, &over, "released").await;
    // The neighbour has another location, and has its server before any edit.
    world
        .create(&build_server(
            "neighbour",
            &json!({"location": "JP: Tokyo"}),
        ))
        .await;
    let neighbour = world.wait_ready("neighbour", SOON).await;
    let its = text(&neighbour["status"]["uuid"]);

    let long = "x".repeat(128);
    let in_secret = json!({"valueFrom": {"secretKeyRef": {"name": "setup", "key": "it"}}});
    let edits: Vec<InvalidEdit> = vec![
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
        &build_secret("setup", "it", "#!/bin/sh\nfirst\n"),
    )
    .await;
    world
        .create(&build_server(
            "script",
            &json!({"postInstallScript": in_secret}),
        ))
        .await;
    for name in names.iter().chain(&["steady", "script"]) {
        wait_not_ready(&world, name, "NoStock", &[ROTTERDAM]).await;
    }

    for (name, edit, ..) in &edits {
        world.merge(name, &json!({"spec": edit})).await;
    }
    // A referenced object is deleted while its user waits.
    let gone = world.secrets().delete("setup", &Default::default()).await;
    gone.unwrap();
    world.simulator.stock(ROTTERDAM, KIND, None).await;
    let reported = edits
        .iter()
        .map(|(name, _, reason, words)| wait_stalled(&world, name, reason, words));
    let words = [
        "spec.postInstallScript",
        "Secret setup does not exist",
        "Create it",
    ];
    tokio::join!(
        join_all(reported),
        wait_stalled(&world, "script", "ReferenceNotFound", &words),
        world.wait_ready("steady", SOON),
    );
    assert_eq!(
        count_orders(&world).await,
        2,
        "the neighbour and the one without an edit"
    );

    // The revert of the edit repairs each object. The order contains the Secret's current content.
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
        &build_secret("setup", "it", "#!/bin/sh\nsecond\n"),
    )
    .await;
    for name in names.iter().chain(&["script"]) {
        world.wait_ready(name, SOON).await;
    }
    assert_eq!(count_orders(&world).await, 2 + edits.len() as u64 + 1);
    for rule in world.simulator.faults().await {
        assert_eq!(rule["matched"], 1, "{rule}");
    }
    let now = world.get("neighbour").await.unwrap();
    assert_eq!(now["status"], neighbour["status"], "nothing happened to it");
    let releases = count_changes(&world).await.into_keys();
    assert_eq!(
        releases.filter(|call| call.starts_with("DELETE")).count(),
        0
    );
    check_invariants(&world).await;
}
