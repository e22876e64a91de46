//! Tests every rule of the schemas on the real API server.

use std::collections::{BTreeMap, BTreeSet};

use hosting_types::{
    SshKeyId,
    host::{HostInstall, InstallForm},
    secret::SecretText,
    server::{Order, SystemChoice, SystemFamily},
};
use kube::api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use super::{
    fixtures::{RuleCase, RuleTable, tables},
    installed,
    schema::{crds, root, walk},
};

/// The rules for user input in the schema of a CRD, as
/// `PATH KEYWORD`, `PATH required: FIELD` or `PATH cel: MESSAGE`.
pub(super) fn rules_of(crd: &Value) -> BTreeSet<String> {
    let mut rules = BTreeSet::new();
    walk(root(crd), &mut |path, schema| {
        if path.starts_with("status") {
            return;
        }
        let shown = if path.is_empty() { "(root)" } else { path };
        for keyword in schema.as_object().unwrap().keys() {
            match keyword.as_str() {
                "minLength" | "maxLength" | "pattern" | "minItems" | "maxItems"
                | "maxProperties" | "enum" | "minimum" | "maximum" => {
                    rules.insert(format!("{shown} {keyword}"));
                }
                "required" => {
                    for field in schema["required"].as_array().unwrap() {
                        rules.insert(format!("{shown} required: {}", field.as_str().unwrap()));
                    }
                }
                "x-kubernetes-validations" => {
                    for rule in schema["x-kubernetes-validations"].as_array().unwrap() {
                        rules.insert(format!(
                            "{shown} cel: {}",
                            rule["message"].as_str().unwrap()
                        ));
                    }
                }
                "x-kubernetes-list-type" => {
                    if schema["x-kubernetes-list-type"] != "atomic" {
                        rules.insert(format!("{shown} unique"));
                    }
                }
                "type"
                | "description"
                | "properties"
                | "items"
                | "additionalProperties"
                | "default"
                | "format"
                | "title"
                | "x-kubernetes-list-map-keys"
                | "x-kubernetes-map-type" => {}
                other => panic!("{shown}: no fixture is asked for {other}"),
            }
        }
    });
    rules
}

/// The field that a refusal of the rule names, if any, and a part of its message.
fn expectation(rule: &str) -> (Option<String>, String) {
    if let Some((_, message)) = rule.split_once(" cel: ") {
        return (None, message.to_owned());
    }
    let (path, keyword) = rule.split_once(' ').unwrap();
    if let Some(field) = keyword.strip_prefix("required: ") {
        let path = if path == "(root)" {
            field.to_owned()
        } else {
            format!("{path}.{field}")
        };
        return (Some(path), "Required value".to_owned());
    }
    let words = match keyword {
        "minLength" => "should be at least",
        "maxLength" => "may not be more than",
        "pattern" => "should match",
        "maxItems" | "maxProperties" => "must have at most",
        "enum" => "Unsupported value",
        "minimum" => "should be greater than or equal to",
        "maximum" => "should be less than or equal to",
        "unique" => "Duplicate value",
        other => panic!("what does the API server say to {other}?"),
    };
    // The refusal names the second of two equal items.
    let path = if keyword == "unique" {
        format!("{path}[]")
    } else {
        path.to_owned()
    };
    (Some(path), words.to_owned())
}

#[test]
fn every_rule_has_a_fixture_for_either_side() {
    let tables = tables();
    for crd in crds() {
        let kind = crd["spec"]["names"]["kind"].as_str().unwrap();
        let asked = rules_of(&crd);
        let given: BTreeSet<String> = tables
            .iter()
            .filter(|table| table.kinds.iter().any(|k| k == kind))
            .flat_map(|table| table.rules.iter().map(|case| case.rule.clone()))
            .collect();
        let missing: Vec<_> = asked.difference(&given).collect();
        let stale: Vec<_> = given.difference(&asked).collect();
        assert!(
            missing.is_empty() && stale.is_empty(),
            "{kind}: no fixture for {missing:#?}, no rule for {stale:#?}"
        );
    }
}

#[tokio::test]
async fn api_server_enforces_every_schema_rule() {
    let cluster = installed().await;
    let namespace = cluster.namespace("rules").await;
    let client = cluster.client().await;
    let mut judged = BTreeMap::new();
    let mut wrong = Vec::new();
    for table in tables() {
        for kind in &table.kinds {
            let api = api(&client, kind, &namespace);
            for accepted in &table.accepted {
                let made = create(&api, table.object(kind, &[&accepted.object])).await;
                if let Err(error) = made {
                    wrong.push(format!("{kind}: {}: refused: {error}", accepted.what));
                }
            }
            for case in &table.rules {
                match check_rule(&api, &table, kind, case).await {
                    Ok(()) => *judged.entry(kind.clone()).or_insert(0) += 1,
                    Err(why) => wrong.push(format!("{kind}: {}: {why}", case.rule)),
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    println!("rules checked by the API server, accepted and refused: {judged:?}");
}

async fn check_rule(
    api: &Api<DynamicObject>,
    table: &RuleTable,
    kind: &str,
    case: &RuleCase,
) -> Result<(), String> {
    let (accepted, refused) = match &case.from {
        None => (
            create(api, table.object(kind, &[&case.accept])).await,
            create(api, table.object(kind, &[&case.reject])).await,
        ),
        Some(from) => {
            let object = serde_json::from_value(table.object(kind, &[from])).unwrap();
            let made = api
                .create(&PostParams::default(), &object)
                .await
                .map_err(|e| format!("cannot be made: {e}"))?;
            let name = made.name_any();
            if let Some(status) = &case.status {
                let patch = Patch::Merge(json!({ "status": status }));
                api.patch_status(&name, &PatchParams::default(), &patch)
                    .await
                    .map_err(|e| format!("its status cannot be written: {e}"))?;
            }
            let answers = (
                edit(api, &name, &case.accept).await,
                edit(api, &name, &case.reject).await,
            );
            // Deletes it, so that no other test's operator finds it.
            let _ = api.delete(&name, &DeleteParams::default()).await;
            answers
        }
    };
    accepted.map_err(|e| format!("what keeps it is refused: {e}"))?;
    let Err(error) = refused else {
        return Err("what breaks it is taken".to_owned());
    };
    let kube::Error::Api(status) = &error else {
        return Err(format!("not an answer of the API server: {error}"));
    };
    let causes = status.details.iter().flat_map(|d| &d.causes);
    let (field, words) = expectation(&case.rule);
    let says_so = causes.into_iter().any(|cause| {
        cause.message.contains(&words)
            && field
                .as_ref()
                .is_none_or(|f| *f == without_index(&cause.field))
    });
    if says_so {
        Ok(())
    } else {
        Err(format!(
            "refused for another reason than {field:?} {words:?}: {status:?}"
        ))
    }
}

/// `spec.tags[3]` as `spec.tags[]`.
pub(super) fn without_index(field: &str) -> String {
    let mut shown = String::new();
    for part in field.split_inclusive(['[', ']']) {
        match part.strip_suffix(']') {
            Some(_) => shown.push(']'),
            None => shown.push_str(part),
        }
    }
    shown
}

pub(super) fn api(client: &Client, kind: &str, namespace: &str) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("flexmetal.dev", "v1alpha1", kind));
    if kind.starts_with("Cluster") {
        Api::all_with(client.clone(), &resource)
    } else {
        Api::namespaced_with(client.clone(), namespace, &resource)
    }
}

/// Creates an object as a dry run.
async fn create(api: &Api<DynamicObject>, object: Value) -> kube::Result<()> {
    let params = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let object: DynamicObject = serde_json::from_value(object).unwrap();
    api.create(&params, &object).await.map(|_| ())
}

/// Edits an object as a dry run.
async fn edit(api: &Api<DynamicObject>, name: &str, patch: &Value) -> kube::Result<()> {
    let params = PatchParams::default().dry_run();
    api.patch(name, &params, &Patch::Merge(patch))
        .await
        .map(|_| ())
}

#[tokio::test]
async fn what_a_newer_operator_records_is_not_pruned() {
    let cluster = installed().await;
    let namespace = cluster.namespace("records").await;
    let client = cluster.client().await;
    let records = json!({
        "order": {"outcome": "Created", "newer": {"deep": [1, {"a": "b"}]}}, "newer": {"deep": true},
    });
    for (kind, spec) in [
        (
            "BareMetalServer",
            json!({"location": "a", "instanceType": "b", "os": {"slug": "c"}, "suspend": true}),
        ),
        ("DedicatedHost", json!({"hostID": 1, "suspend": true})),
    ] {
        let api = api(&client, kind, &namespace);
        let object = json!({
            "apiVersion": "flexmetal.dev/v1alpha1", "kind": kind,
            "metadata": {"name": "newer"}, "spec": spec,
        });
        let object = serde_json::from_value(object).unwrap();
        api.create(&PostParams::default(), &object).await.unwrap();
        let patch = Patch::Merge(json!({"status": {"records": records, "newer": true}}));
        api.patch_status("newer", &PatchParams::default(), &patch)
            .await
            .unwrap();
        let found = api.get("newer").await.unwrap().data;
        assert_eq!(found["status"]["records"], records, "{kind}");
        assert!(found["status"]["newer"].is_null(), "all else is pruned");
        let _ = api.delete("newer", &DeleteParams::default()).await;
    }
}

/// The order fields stay mutable while no server exists for the order.
#[tokio::test]
async fn request_is_editable_until_server_exists() {
    let cluster = installed().await;
    let namespace = cluster.namespace("mended").await;
    let client = cluster.client().await;
    let api = api(&client, "BareMetalServer", &namespace);
    let order = |outcome: &str| {
        json!({"records": {"order": {
            "uid": "u", "seq": 1, "nonce": "a", "sendBy": "2026-01-01T00:00:00Z", "accountID": "a",
            "outcome": outcome,
        }}})
    };
    let states = [
        json!({}),
        order("Refused"),
        order("NotSent"),
        order("Absent"),
    ];
    for (number, status) in states.iter().enumerate() {
        let name = format!("server-{number}");
        let object = json!({
            "apiVersion": "flexmetal.dev/v1alpha1", "kind": "BareMetalServer",
            "metadata": {"name": name},
            "spec": {"location": "a", "instanceType": "b", "os": {"slug": "c"}, "suspend": true},
        });
        let object = serde_json::from_value(object).unwrap();
        api.create(&PostParams::default(), &object).await.unwrap();
        let patch = Patch::Merge(json!({ "status": status }));
        api.patch_status(&name, &PatchParams::default(), &patch)
            .await
            .unwrap();
        for field in [
            json!({"location": "x"}),
            json!({"instanceType": "x"}),
            json!({"contractID": "X"}),
            json!({"overflow": true}),
        ] {
            let edited = edit(&api, &name, &json!({ "spec": field })).await;
            assert!(edited.is_ok(), "{status} {field}: {edited:?}");
        }
        let _ = api.delete(&name, &DeleteParams::default()).await;
    }
}

/// Scripts with valid and invalid shebangs: the schema and the request accept the same ones.
#[tokio::test]
async fn schema_and_request_agree_on_shebangs() {
    let cluster = installed().await;
    let namespace = cluster.namespace("shebangs").await;
    let client = cluster.client().await;
    let spec = json!({
        "BareMetalServer": {"location": "a", "instanceType": "b", "os": {"slug": "debian-13"}},
        "DedicatedHost": {"hostID": 1, "os": {"slug": "debian-13"}},
    });
    let scripts = [
        "#!/bin/sh\ntrue",
        "#!/bin/sh",
        "#!/bin/sh -eu\r\ntrue\r\n",
        "#! \t/bin/sh\ttrue",
        "\u{feff}#!/bin/sh\ntrue",
        "true",
        " #!/bin/sh\ntrue",
        "#!sh\ntrue",
        "#!/\ntrue",
        "#!\n/bin/sh\ntrue",
        "#!/bin/sh\rtrue",
        "#!/bin/sh\r",
        "#!/bin/sh\u{e9}\ntrue",
        "\u{feff}#!sh\ntrue",
        "\u{feff}\u{feff}#!/bin/sh\ntrue",
    ];
    let mut differs = Vec::new();
    let kinds: [(&str, IsRight); 2] = [
        ("BareMetalServer", is_right_for_a_server),
        ("DedicatedHost", is_right_for_a_host),
    ];
    for (kind, is_right) in kinds {
        let api = api(&client, kind, &namespace);
        for script in scripts {
            let mut object = json!({"apiVersion": "flexmetal.dev/v1alpha1", "kind": kind,
                "metadata": {"name": "a"}, "spec": spec[kind]});
            object["spec"]["postInstallScript"] = json!({"value": script});
            let created = create(&api, object).await;
            if created.is_ok() != is_right(script) {
                differs.push(format!("{kind} {script:?}: {created:?}"));
            }
        }
    }
    assert!(differs.is_empty(), "{differs:#?}");
}

/// Whether a request accepts this script.
type IsRight = fn(&str) -> bool;

fn runnable(script: &str) -> SecretText {
    SystemFamily::Linux.runnable(&SecretText::new(script))
}

fn is_right_for_a_server(script: &str) -> bool {
    let order = Order {
        name: "a".to_owned(),
        location: "a".to_owned(),
        instance_type: "b".to_owned(),
        os: SystemChoice::of_slug("debian-13"),
        post_install_script: Some(runnable(script)),
        ..Order::default()
    };
    order.check().is_ok()
}

fn is_right_for_a_host(script: &str) -> bool {
    let install = HostInstall {
        os_id: 1,
        family: SystemFamily::Linux,
        hostname: None,
        kernel_params: Vec::new(),
        post_install_script: Some(runnable(script)),
        ssh_key: Some(SshKeyId::parse("01923b7e-0c1f-7d3a-9c52-0a1b2c3d4e5f").unwrap()),
        quick_format: None,
        form: InstallForm::default(),
    };
    install.check().is_ok()
}
