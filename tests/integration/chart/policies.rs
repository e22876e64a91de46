//! The admission policies of the chart on the real API server.
//! They limit the operator's own writes of Secrets, and tenants' writes of servers.

use serde_json::{Value, json};

use super::{
    install::SOON,
    installed_policies::{ApiUser, InstalledPolicies},
    user_roles::build_object,
};
use crate::crds;
use api::{
    names::{ACCOUNT_FINALIZER, COMMAND_ANNOTATION, OUTPUT_FINALIZER, SERVER_FINALIZER},
    order::{OrderOutcome, OrderRecord},
};
use lab::rig::{Cluster, World, cluster, eventually};

const SERVER: &str = "BareMetalServer";
const COMMAND: &str = "ServerCommand";

fn finalizers(names: &[&str]) -> Value {
    json!({"metadata": {"finalizers": names}})
}

#[tokio::test]
async fn operator_changes_only_secret_finalizer() {
    let in_force = InstalledPolicies::start().await;
    let (admin, operator) = (in_force.admin(), in_force.operator().await);
    for (name, kind) in [("key", "flexmetal.dev/api-key"), ("other", "Opaque")] {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "type": kind,
            "metadata": {
                "name": name, "labels": {"app": "web"}, "annotations": {"note": "theirs"},
                "finalizers": ["example.com/theirs"],
            },
            "stringData": {"apiKey": "secret"},
        });
        admin.apply(&secret).await.unwrap();
    }
    let more = json!({"stringData": {"more": "of it"}});
    operator.wait_until_refused("Secret", "key", &more).await;
    let owner = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "x"}]);
    let changes = [
        more,
        json!({"data": {"apiKey": null}}),
        json!({"immutable": true}),
        json!({"metadata": {"labels": {"app": "mine"}}}),
        json!({"metadata": {"labels": null}}),
        json!({"metadata": {"annotations": {"mine": "too"}}}),
        json!({"metadata": {"ownerReferences": owner}}),
        finalizers(&[]),
        finalizers(&[ACCOUNT_FINALIZER]),
        finalizers(&["example.com/theirs", "example.com/another"]),
    ];
    for name in ["key", "other"] {
        for change in &changes {
            let words = "changes nothing of a Secret but its own finalizer";
            operator.assert_refused("Secret", name, change, words).await;
        }
    }
    // The operator may add, keep and remove its finalizer, but add it only to a Secret of the right type.
    let (with, without) = (
        finalizers(&["example.com/theirs", ACCOUNT_FINALIZER]),
        finalizers(&["example.com/theirs"]),
    );
    let words = "of type flexmetal.dev/api-key only";
    operator
        .assert_refused("Secret", "other", &with, words)
        .await;
    for patch in [&with, &with, &without] {
        operator.patch("Secret", "key", patch).await.unwrap();
    }
    // It may remove an existing finalizer from a Secret of another type, also during its deletion.
    admin.patch("Secret", "other", &with).await.unwrap();
    let delete = ["delete", "secret", "other", "--wait=false"];
    admin.kubectl(&delete, "").await.unwrap();
    operator.patch("Secret", "other", &without).await.unwrap();
    // The policy does not affect other users.
    let mine = json!({"metadata": {"labels": {"app": "mine"}}});
    let tenant = in_force.create_tenant().await;
    tenant.patch("Secret", "key", &mine).await.unwrap();
    for name in ["key", "other"] {
        admin.patch("Secret", name, &finalizers(&[])).await.unwrap();
    }
}

/// An output as the operator writes it for the server that owns it.
fn output(kind: &str, name: &str, owner: &str) -> Value {
    let mut object = json!({
        "apiVersion": "v1", "kind": kind,
        "metadata": {"name": name, "finalizers": [OUTPUT_FINALIZER], "ownerReferences": [{
            "apiVersion": "flexmetal.dev/v1alpha1", "kind": "BareMetalServer", "name": "web",
            "uid": owner, "controller": true,
        }]},
    });
    if kind == "Secret" {
        object["type"] = json!("flexmetal.dev/output");
        object["stringData"] = json!({"uuid": "one"});
    } else {
        object["data"] = json!({"uuid": "one"});
    }
    object
}

/// Without a version, a replace succeeds at any version.
fn without_version(object: &Value) -> Value {
    let mut object = object.clone();
    object["metadata"]["resourceVersion"].take();
    object
}

#[tokio::test]
async fn operator_writes_only_outputs_of_servers() {
    let in_force = InstalledPolicies::start().await;
    let (admin, operator) = (in_force.admin(), in_force.operator().await);
    // The garbage collector deletes objects whose owner does not exist.
    admin.apply(&lab::rig::server("web")).await.unwrap();
    let uid = [
        "get",
        "bms",
        "web",
        "-n",
        &in_force.namespace,
        "-o",
        "jsonpath={.metadata.uid}",
    ];
    let uid = in_force.cluster.kubectl_ok(&uid).await;
    let output = |kind: &str, name: &str| output(kind, name, &uid);
    // The operator creates and replaces: it has no right to patch a ConfigMap.
    for (kind, words) in [
        ("Secret", "flexmetal.dev/output that a BareMetalServer owns"),
        ("ConfigMap", "only ConfigMaps that a BareMetalServer owns"),
    ] {
        // No owner, no controller, an owner of another kind or group, no finalizer, and a Secret of another type.
        let mut others = vec![];
        let mut other = |change: &dyn Fn(&mut Value)| {
            let mut object = output(kind, &format!("other-{}", others.len()));
            change(&mut object);
            others.push(object);
        };
        other(&|o| o["metadata"]["ownerReferences"] = json!([]));
        other(&|o| o["metadata"]["ownerReferences"][0]["controller"] = json!(false));
        other(&|o| o["metadata"]["ownerReferences"][0]["kind"] = json!("ServerTag"));
        other(&|o| o["metadata"]["ownerReferences"][0]["apiVersion"] = json!("example.com/v1"));
        other(&|o| o["metadata"]["finalizers"] = json!([]));
        if kind == "Secret" {
            other(&|o| o["type"] = json!("Opaque"));
        }
        admin.apply(&others[0]).await.unwrap();
        let labelled = |object: &Value| {
            let mut object = object.clone();
            object["metadata"]["labels"] = json!({"a": "b"});
            object
        };
        let changed = labelled(&others[0]);
        operator.wait_until_replace_refused(&changed).await;
        for object in &others {
            let mut object = object.clone();
            let name = format!("made-{}", object["metadata"]["name"].as_str().unwrap());
            object["metadata"]["name"] = json!(name);
            let refused = operator.create(&object).await.expect_err(words);
            assert!(refused.contains(words), "{object} {refused}");
        }
        // It can neither change an object of another owner nor make it its own.
        let stays = |object: &&Value| {
            let owner = &object["metadata"]["ownerReferences"][0];
            owner.is_null() || owner == &output(kind, "")["metadata"]["ownerReferences"][0]
        };
        for object in others.iter().filter(stays) {
            admin.apply(object).await.unwrap();
            let mut owned = labelled(object);
            for part in ["ownerReferences", "finalizers"] {
                owned["metadata"][part] = output(kind, "")["metadata"][part].clone();
            }
            for changed in [labelled(object), owned] {
                let refused = operator.replace(&changed).await.expect_err(words);
                assert!(refused.contains(words), "{changed} {refused}");
            }
        }
        // It can write an object that a server owns, but cannot remove the owner.
        let own = output(kind, "own");
        operator.create(&own).await.unwrap();
        operator.replace(&labelled(&own)).await.unwrap();
        let mut free = own.clone();
        free["metadata"]["ownerReferences"] = json!([]);
        let refused = operator.replace(&free).await.expect_err(words);
        assert!(refused.contains(words), "{refused}");
        // The policy does not affect other users.
        let tenant = in_force.create_tenant().await;
        let change = json!({"metadata": {"labels": {"a": "c"}}});
        tenant.patch(kind, "own", &change).await.unwrap();
        tenant.patch(kind, "other-0", &change).await.unwrap();
        // It may delete a Secret that a server owns, but no other Secret and no ConfigMap.
        let delete = async |name| {
            operator
                .kubectl(&["delete", kind, name, "--wait=false"], "")
                .await
        };
        for object in others.iter().filter(stays) {
            let name = object["metadata"]["name"].as_str().unwrap();
            let refused = delete(name).await.expect_err(name);
            let forbidden = if kind == "Secret" { words } else { "forbidden" };
            assert!(refused.contains(forbidden), "{refused}");
        }
        assert_eq!(delete("own").await.is_ok(), kind == "Secret");
        // It may remove its finalizer, and may not write the object after that.
        operator.create(&output(kind, "freed")).await.unwrap();
        let mut freed = output(kind, "freed");
        freed["metadata"]["finalizers"] = json!([]);
        operator.replace(&freed).await.unwrap();
        for changed in [labelled(&freed), output(kind, "freed")] {
            let refused = operator.replace(&changed).await.expect_err(words);
            assert!(refused.contains(words), "{changed} {refused}");
        }
        // It may also remove this finalizer from an object without an owner or from a Secret of another type,
        // but change nothing else. An object that a server owns would be an output.
        let has_finalizer = |o: &&Value| o["metadata"]["finalizers"][0].is_string();
        for object in others.iter().filter(stays).filter(has_finalizer) {
            let name = object["metadata"]["name"].as_str().unwrap();
            let get = ["get", kind, name, "-n", &in_force.namespace, "-o", "json"];
            let theirs = finalizers(&["example.com/theirs", OUTPUT_FINALIZER]);
            admin.patch(kind, name, &theirs).await.unwrap();
            let found = in_force.cluster.kubectl_ok(&get).await;
            let found: Value = serde_json::from_str(&found).unwrap();
            let with = |finalizers: Value| {
                let mut object = found.clone();
                object["metadata"]["finalizers"] = finalizers;
                object
            };
            let mut emptied = with(json!(["example.com/theirs"]));
            emptied["data"] = json!({});
            let theirs = with(json!([OUTPUT_FINALIZER]));
            let relabelled = labelled(&with(json!(["example.com/theirs"])));
            for changed in [with(json!([])), theirs, emptied, relabelled] {
                let refused = operator.replace(&changed).await.expect_err(words);
                assert!(refused.contains(words), "{changed} {refused}");
            }
            let freed = with(json!(["example.com/theirs"]));
            operator.replace(&freed).await.unwrap();
            // It cannot add the finalizer to such an object.
            let refused = operator
                .replace(&without_version(&found))
                .await
                .expect_err(words);
            assert!(refused.contains(words), "{refused}");
            admin.patch(kind, name, &finalizers(&[])).await.unwrap();
        }
    }
}

#[tokio::test]
async fn tenant_cannot_free_an_ordered_server() {
    let in_force = InstalledPolicies::start().await;
    let (admin, operator) = (in_force.admin(), in_force.operator().await);
    let tenant = in_force.create_tenant().await;
    let server = |name: &str| {
        let mut server = lab::rig::server(name);
        server["metadata"]["finalizers"] = json!([SERVER_FINALIZER]);
        server
    };
    // An order record as the operator writes it.
    let record = |outcome: Option<OrderOutcome>| {
        let order = json!({
            "uid": "u", "seq": 1, "nonce": "a", "sendBy": "2026-01-01T00:00:00Z", "hostname": "web.example.com",
            "accountID": "a", "outcome": outcome,
        });
        let order: OrderRecord = serde_json::from_value(order).unwrap();
        json!({"records": {"order": order}})
    };
    let guarded = ["open", "made", "adopting"];
    let free = ["refused", "unsent", "absent", "unordered"];
    for (name, outcome) in [
        ("open", None),
        ("made", Some(OrderOutcome::Created)),
        ("adopting", Some(OrderOutcome::Adopting)),
        ("refused", Some(OrderOutcome::Refused)),
        ("unsent", Some(OrderOutcome::NotSent)),
        ("absent", Some(OrderOutcome::Absent)),
    ] {
        admin.apply(&server(name)).await.unwrap();
        let record = record(outcome);
        admin.patch_status(SERVER, name, &record).await.unwrap();
    }
    admin.apply(&server("unordered")).await.unwrap();
    tenant
        .wait_until_refused(SERVER, "open", &finalizers(&[]))
        .await;
    for name in guarded {
        let words = "finalizer flexmetal.dev/server stays";
        for without in [finalizers(&[]), finalizers(&["example.com/theirs"])] {
            tenant.assert_refused(SERVER, name, &without, words).await;
        }
        // Tenants may still change everything else.
        for patch in [
            json!({"metadata": {"labels": {"app": "web"}, "annotations": {"note": "theirs"}}}),
            json!({"spec": {"deletionPolicy": "Retain"}}),
            finalizers(&[SERVER_FINALIZER, "example.com/theirs"]),
        ] {
            tenant.patch(SERVER, name, &patch).await.unwrap();
        }
    }
    // They cannot remove it during deletion either.
    for name in guarded {
        let delete = ["delete", "bms", name, "--wait=false"];
        tenant.kubectl(&delete, "").await.unwrap();
        let words = "finalizer flexmetal.dev/server stays";
        tenant
            .assert_refused(SERVER, name, &finalizers(&["example.com/theirs"]), words)
            .await;
    }
    // They cannot remove the finalizer for outputs either.
    let both = finalizers(&[SERVER_FINALIZER, OUTPUT_FINALIZER]);
    operator.patch(SERVER, "unordered", &both).await.unwrap();
    let words = "finalizer flexmetal.dev/output stays";
    let without = finalizers(&[SERVER_FINALIZER]);
    tenant
        .assert_refused(SERVER, "unordered", &without, words)
        .await;
    let only = finalizers(&[OUTPUT_FINALIZER]);
    tenant.patch(SERVER, "unordered", &only).await.unwrap();
    operator
        .patch(SERVER, "unordered", &finalizers(&[]))
        .await
        .unwrap();
    // Tenants may remove the finalizer where no server can exist.
    for name in free {
        tenant.patch(SERVER, name, &finalizers(&[])).await.unwrap();
    }
    // The operator and a cluster admin may remove it anywhere.
    for (user, name) in [
        (&operator, "open"),
        (&admin, "made"),
        (&operator, "adopting"),
    ] {
        user.patch(SERVER, name, &finalizers(&[])).await.unwrap();
    }
}

#[tokio::test]
async fn tenant_cannot_edit_command_annotation() {
    let in_force = InstalledPolicies::start().await;
    let (admin, operator) = (in_force.admin(), in_force.operator().await);
    let tenant = in_force.create_tenant().await;
    let command = |name: &str| {
        json!({
            "apiVersion": "flexmetal.dev/v1alpha1", "kind": "ServerCommand", "metadata": {"name": name},
            "spec": {"targetRef": {"name": "web"}, "action": "Reboot"},
        })
    };
    let with_annotation =
        |text: Value| json!({"metadata": {"annotations": {COMMAND_ANNOTATION: text}}});
    tenant.apply(&command("new")).await.unwrap();
    let made_up = with_annotation(json!("made up"));
    tenant.wait_until_refused(COMMAND, "new", &made_up).await;
    let words = "operator's own record";
    tenant.assert_refused(COMMAND, "new", &made_up, words).await;
    operator
        .patch(COMMAND, "new", &with_annotation(json!("sent")))
        .await
        .unwrap();
    for other in [json!(null), json!(""), json!("made up")] {
        tenant
            .assert_refused(COMMAND, "new", &with_annotation(other), words)
            .await;
    }
    // Tenants may still change everything else. A copy keeps the annotation, and sends nothing.
    let mine =
        json!({"metadata": {"labels": {"app": "web"}, "finalizers": ["example.com/theirs"]}});
    tenant.patch(COMMAND, "new", &mine).await.unwrap();
    let mut copy = command("copy");
    copy["metadata"]["annotations"] = json!({COMMAND_ANNOTATION: "sent"});
    tenant.apply(&copy).await.unwrap();
    admin
        .patch(COMMAND, "copy", &with_annotation(Value::Null))
        .await
        .unwrap();
    tenant
        .patch(COMMAND, "new", &json!({"metadata": {"finalizers": null}}))
        .await
        .unwrap();
}

#[tokio::test]
async fn tenant_cannot_write_or_clear_a_status() {
    let in_force = InstalledPolicies::start().await;
    let (admin, operator) = (in_force.admin(), in_force.operator().await);
    let tenant = in_force.create_tenant().await;
    // RBAC allows these writes for every kind. Only the policy refuses them.
    tenant.grant_cluster_account_writes().await;
    let words = "Only the operator writes a status";
    for definition in crds::definitions() {
        let names = &definition["spec"]["names"];
        let (resource, kind) = (
            names["plural"].as_str().unwrap(),
            names["kind"].as_str().unwrap(),
        );
        let mut made = build_object(resource);
        // The cluster is shared, so a cluster-scoped object needs a unique name.
        let name: &str = match definition["spec"]["scope"] == "Cluster" {
            true => &in_force.namespace,
            false => "web",
        };
        made["metadata"]["name"] = json!(name);
        admin.apply(&made).await.unwrap();
        let seen = json!({"observedGeneration": 1, "records": {"internal": "of the operator"}});
        admin.patch_status(kind, name, &seen).await.unwrap();
        let get = ["-n", &in_force.namespace, "get", resource, name];
        let get = [&get[..], &["-o=jsonpath={.status}"]].concat();
        let before = in_force.cluster.kubectl_ok(&get).await;
        assert!(before.contains("observedGeneration"), "{before}");
        let emptied = json!({"conditions": []});
        tenant.wait_until_status_refused(kind, name, &emptied).await;
        let release = json!({"release": {"uid": "u", "server": "s"}});
        for status in [
            json!({"observedGeneration": 2}),
            json!({"observedGeneration": null, "records": null}),
            json!({"records": release}),
        ] {
            let refused = tenant.patch_status(kind, name, &status).await;
            let refused = refused.expect_err(words);
            assert!(refused.contains(words), "{resource}: {refused}");
        }
        // A status next to an allowed change of the object is ignored.
        let both = json!({"metadata": {"labels": {"app": "web"}}, "status": null});
        tenant.patch(kind, name, &both).await.unwrap();
        assert_eq!(in_force.cluster.kubectl_ok(&get).await, before);
        let newer = json!({"observedGeneration": 2});
        admin.patch_status(kind, name, &newer).await.unwrap();
        let newest = json!({"observedGeneration": 3});
        operator.patch_status(kind, name, &newest).await.unwrap();
        let delete = ["delete", resource, name, "--timeout=30s"];
        admin.kubectl(&delete, "").await.unwrap();
    }
}

#[tokio::test]
async fn metadata_that_nothing_else_bounds_stays_short() {
    let in_force = InstalledPolicies::start().await;
    let tenant = in_force.create_tenant().await;
    let names: Vec<String> = (0..33).map(|n| format!("example.com/{n}")).collect();
    let finalizers = |count: usize| json!({"metadata": {"finalizers": names[..count]}});
    let owner =
        |n| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": format!("x-{n}")});
    let owners: Vec<Value> = (0..33).map(owner).collect();
    let owners = |count: usize| json!({"metadata": {"ownerReferences": owners[..count]}});
    tenant.apply(&lab::rig::server("one")).await.unwrap();
    tenant
        .wait_until_refused(SERVER, "one", &finalizers(33))
        .await;
    for (patch, words) in [
        (finalizers(33), "metadata.finalizers has more than 32"),
        (owners(33), "metadata.ownerReferences has more than 32"),
    ] {
        tenant.assert_refused(SERVER, "one", &patch, words).await;
    }
    let mut full = lab::rig::server("two");
    full["metadata"]["finalizers"] = finalizers(33)["metadata"]["finalizers"].clone();
    assert!(
        tenant
            .apply(&full)
            .await
            .is_err_and(|words| words.contains("more than 32"))
    );
    for patch in [finalizers(32), owners(32), finalizers(0)] {
        tenant.patch(SERVER, "one", &patch).await.unwrap();
    }
}

#[tokio::test]
async fn a_protected_server_is_not_deleted_by_anybody() {
    let in_force = InstalledPolicies::start().await;
    let (admin, tenant) = (in_force.admin(), in_force.create_tenant().await);
    let of = |name: &str, protection: Option<bool>| {
        let mut server = lab::rig::server(name);
        if let Some(protection) = protection {
            server["spec"]["deletionProtection"] = json!(protection);
        }
        server
    };
    // Protected by its own spec, by the account's default, exempt from that default, and not protected.
    for (name, own, in_status) in [
        ("own", Some(true), None),
        ("inherited", None, Some(true)),
        ("exempt", Some(false), Some(true)),
        ("free", None, Some(false)),
        ("unseen", None, None),
    ] {
        tenant.apply(&of(name, own)).await.unwrap();
        if let Some(is_protected) = in_status {
            let policies = json!({
                "deletionPolicy": "Release", "deletionProtection": is_protected, "suspend": false,
            });
            let status = json!({"policies": policies});
            admin.patch_status(SERVER, name, &status).await.unwrap();
        }
    }
    tenant.wait_until_deletion_refused("own").await;

    let namespace = &in_force.namespace;
    for name in ["own", "inherited"] {
        let remedy = format!(
            "kubectl patch baremetalserver {name} -n {namespace} --type=merge -p '{{\"spec\":{{\"deletionProtection\":false}}}}'"
        );
        for user in [&tenant, &admin] {
            let delete = ["delete", "bms", name, "--wait=false"];
            let refused = user.kubectl(&delete, "").await.expect_err(name);
            assert!(refused.contains(&remedy), "{refused}");
        }
    }
    // Deleting all deletes only the servers that are not protected.
    let all = ["delete", "bms", "--all", "--wait=false"];
    tenant
        .kubectl(&all, "")
        .await
        .expect_err("two are protected");
    let left = async || {
        let get = [
            "-n",
            namespace,
            "get",
            "bms",
            "-o=jsonpath={.items[*].metadata.name}",
        ];
        in_force.cluster.kubectl_ok(&get).await
    };
    assert_eq!(left().await, "inherited own");
    // The remedy that the message names.
    for name in ["own", "inherited"] {
        let lifted = json!({"spec": {"deletionProtection": false}});
        tenant.patch(SERVER, name, &lifted).await.unwrap();
    }
    tenant.kubectl(&all, "").await.unwrap();
    assert_eq!(left().await, "");
}

#[tokio::test]
async fn linux_server_without_ssh_key_warns() {
    let in_force = InstalledPolicies::start().await;
    let namespace = &in_force.namespace;
    let warned = async |spec: Value| {
        let mut object = lab::rig::server("lone");
        for (field, value) in spec.as_object().unwrap() {
            object["spec"][field] = value.clone();
        }
        let create = ["-n", namespace, "create", "--dry-run=server", "-f", "-"];
        let input = object.to_string();
        let output = in_force.cluster.kubectl_with_input(&create, &input).await;
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{said}");
        said.contains("without any SSH key")
    };
    eventually("the policy is in force", SOON, async || {
        warned(json!({"sshKeys": []})).await.then_some(())
    })
    .await;
    assert!(warned(json!({"sshKeys": null})).await);
    assert!(!warned(json!({})).await, "it has one");
    for os in [
        json!({"slug": "Windows-2022"}),
        json!({"slug": "custom-ipxe", "ipxeScriptURL": "https://boot.example.com/a"}),
    ] {
        assert!(!warned(json!({"sshKeys": [], "os": os})).await, "{os}");
    }
    let observing = json!({"sshKeys": [], "managementPolicy": "ObserveOnly", "externalID": "0b2c4f5e-1111-4222-8333-444455556666"});
    assert!(!warned(observing).await);
}

/// As docs/gitops.md describes.
#[tokio::test]
async fn protected_server_keeps_its_namespace() {
    let world = World::start_with_lease_elsewhere(cluster(), "protected").await;
    let in_force = InstalledPolicies::install_in(cluster(), world.namespace.clone()).await;
    let admin = in_force.admin();
    let mut kept = lab::rig::server("kept");
    kept["spec"]["deletionProtection"] = json!(true);
    world.create(&kept).await;
    world.create(&lab::rig::server("loose")).await;
    world.create(&lab::rig::server("early")).await;
    world.wait_ready("early", SOON).await;
    world.wait_ready("kept", SOON).await;
    world.wait_ready("loose", SOON).await;
    admin.wait_until_deletion_refused("kept").await;
    let map = ["create", "configmap", "theirs"];
    admin.kubectl(&map, "").await.unwrap();

    let namespace = world.namespace.as_str();
    let delete = ["delete", "namespace", namespace, "--wait=false"];
    admin.kubectl(&delete, "").await.unwrap();
    let condition =
        r#"jsonpath={.status.conditions[?(@.type=="NamespaceDeletionContentFailure")].message}"#;
    let get = ["get", "namespace", namespace, "-o", condition];
    eventually("the namespace says what holds it", SOON, async || {
        let words = in_force.cluster.kubectl_ok(&get).await;
        words.contains("deletionProtection").then_some(())
    })
    .await;
    // Unprotected objects are deleted.
    eventually("the ConfigMap is gone", SOON, async || {
        let get = ["get", "configmap", "theirs"];
        admin.kubectl(&get, "").await.err()
    })
    .await;
    // Servers are deleted in the order of their names, up to the first protected one.
    let names = "-o=jsonpath={.items[*].metadata.name}";
    let get = ["get", "bms", "-n", namespace, names];
    eventually("the first server is gone", SOON, async || {
        let left = in_force.cluster.kubectl_ok(&get).await;
        (left == "kept loose").then_some(())
    })
    .await;
    // The server object, the provider's server and its account with the Secret still exist.
    let object = world.get("kept").await.unwrap();
    assert!(object["metadata"]["deletionTimestamp"].is_null());
    let uuid = object["status"]["uuid"].as_str().unwrap().to_owned();
    let runs = async || {
        let servers = world.simulator.list_live_servers().await;
        servers.iter().any(|server| server["uuid"] == *uuid)
    };
    assert!(runs().await);
    assert_eq!(world.simulator.list_live_servers().await.len(), 2);
    for other in ["provideraccount/default", "secret/account-key"] {
        let get = ["get", other];
        admin.kubectl(&get, "").await.unwrap();
    }

    let lifted = json!({"spec": {"deletionProtection": false, "deletionPolicy": "Retain"}});
    admin.patch(SERVER, "kept", &lifted).await.unwrap();
    eventually("the namespace is gone", 3 * SOON, async || {
        let get = ["get", "namespace", namespace];
        admin.kubectl(&get, "").await.err()
    })
    .await;
    assert!(runs().await, "its machine stays");
    assert_eq!(world.simulator.list_live_servers().await.len(), 1);
}

/// Changes, then deletes a CRD that other tests need, so it has its own cluster.
#[tokio::test]
async fn server_protection_needs_the_crd_but_no_spec() {
    let cluster = Cluster::own();
    crds::install(&cluster).await;
    let namespace = cluster.namespace("policies").await;
    let in_force = InstalledPolicies::install_in(&cluster, namespace).await;
    check_protection_without_spec(&in_force.admin()).await;
    check_crd_deletion_ignores_protection(&in_force).await;
}

/// A server without a spec, as an older CRD may have stored it.
async fn check_protection_without_spec(admin: &ApiUser<'_>) {
    let loose = r#"[{"op": "remove", "path": "/spec/versions/0/schema/openAPIV3Schema/required"}]"#;
    let patch = [
        "patch",
        "crd",
        "baremetalservers.flexmetal.dev",
        "--type=json",
        "-p",
        loose,
    ];
    admin.kubectl(&patch, "").await.unwrap();
    let mut bare = lab::rig::server("bare");
    bare.as_object_mut().unwrap().remove("spec");
    eventually("it is stored", SOON, async || admin.apply(&bare).await.ok()).await;
    let protect = async |is_protected: bool| {
        let policies = json!({
            "deletionPolicy": "Release", "deletionProtection": is_protected, "suspend": false,
        });
        let status = json!({"policies": policies});
        admin.patch_status(SERVER, "bare", &status).await.unwrap();
    };
    let delete = ["delete", "bms", "bare", "--wait=false"];
    let dry_run = [&delete[..], &["--dry-run=server"]].concat();
    protect(true).await;
    eventually("its deletion is refused", SOON, async || {
        let refused = admin.kubectl(&dry_run, "").await.err()?;
        let is_protected = refused.contains("deletionProtection is in force");
        is_protected.then_some(())
    })
    .await;
    protect(false).await;
    admin.kubectl(&delete, "").await.unwrap();
}

/// As docs/gitops.md describes: a CRD deletion asks no policy for its objects, so the operator retains the servers.
async fn check_crd_deletion_ignores_protection(in_force: &InstalledPolicies<'_>) {
    let admin = in_force.admin();
    let mut server = lab::rig::server("web");
    server["metadata"]["finalizers"] = json!(["example.com/theirs"]);
    server["spec"]["deletionProtection"] = json!(true);
    admin.apply(&server).await.unwrap();
    admin.wait_until_deletion_refused("web").await;
    let definition = ["delete", "crd", "baremetalservers.flexmetal.dev"];
    let delete = [&definition[..], &["--wait=false"]].concat();
    admin.kubectl(&delete, "").await.unwrap();
    let get = [
        "-n",
        &in_force.namespace,
        "get",
        "bms",
        "web",
        "-o=jsonpath={.metadata.deletionTimestamp}",
    ];
    eventually("the server is being deleted", SOON, async || {
        let at = in_force.cluster.kubectl(&get).await.stdout;
        (!at.is_empty()).then_some(())
    })
    .await;
    admin.patch(SERVER, "web", &finalizers(&[])).await.unwrap();
}
