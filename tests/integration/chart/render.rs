//! What the chart renders, without a cluster.

use std::collections::BTreeSet;
use std::process::Command;
use std::sync::LazyLock;

use api::timing::ORDER_TIMEOUT;
use lab::rig::program;
use serde_json::{Value, json};

use super::{
    checkout,
    helm::{helm_4, helms, said},
    of_kind, values_files,
};

#[test]
fn every_values_file_passes_lint_and_renders() {
    let helms = helms("render");
    for (name, file) in values_files() {
        for helm in &helms {
            let chart = checkout("deploy/chart");
            let output = helm.run(&[
                "lint",
                "--strict",
                chart.to_str().unwrap(),
                "--values",
                file.to_str().unwrap(),
            ]);
            assert!(
                output.status.success(),
                "{} {name}: {}",
                helm.name,
                said(&output)
            );
        }
        let renders = helms.iter().map(|helm| helm.template(&file, "metal"));
        let renders: Vec<_> = renders.collect();
        assert!(renders.iter().all(|it| *it == renders[0]), "{name}");
        assert!(
            of_kind(&renders[0], "Deployment").next().is_some(),
            "{name} renders nothing"
        );
    }
}

#[test]
fn rendered_manifests_have_no_empty_fields() {
    for (name, objects) in rendered() {
        for object in &objects {
            let what = format!("{name}: {} {}", object["kind"], object["metadata"]["name"]);
            assert_no_null(object, &what);
            let pod = &object["spec"]["template"]["metadata"];
            for metadata in [&object["metadata"], pod] {
                for map in ["labels", "annotations"] {
                    if let Some(entries) = metadata.get(map) {
                        let entries = entries.as_object().unwrap();
                        assert!(!entries.is_empty(), "{what}: {map} is empty");
                        assert!(
                            entries.values().all(Value::is_string),
                            "{what}: {entries:?}"
                        );
                    }
                }
            }
            assert_eq!(
                object["metadata"]["labels"]["app.kubernetes.io/instance"], "trial",
                "{what}"
            );
        }
    }
}

fn assert_no_null(value: &Value, what: &str) {
    match value {
        Value::Null => panic!("{what} holds a null"),
        Value::Array(items) => items.iter().for_each(|item| assert_no_null(item, what)),
        // CRDs may contain empty defaults, and no other nulls.
        Value::Object(map) => map
            .iter()
            .for_each(|(key, item)| assert_no_null(item, &format!("{what}.{key}"))),
        _ => {}
    }
}

#[test]
fn pods_are_restricted_with_minimal_tokens() {
    let mut operators = 0;
    for (name, objects) in rendered() {
        for deployment in of_kind(&objects, "Deployment") {
            let pod = &deployment["spec"]["template"]["spec"];
            assert_eq!(
                pod["securityContext"],
                json!({
                    "runAsNonRoot": true, "runAsUser": 65532, "runAsGroup": 65532,
                    "seccompProfile": {"type": "RuntimeDefault"},
                }),
                "{name}"
            );
            for container in pod["containers"].as_array().unwrap() {
                assert_eq!(
                    container["securityContext"],
                    json!({
                        "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
                        "capabilities": {"drop": ["ALL"]},
                    }),
                    "{name}"
                );
            }
            for open in ["hostNetwork", "hostPID", "hostIPC", "initContainers"] {
                assert!(pod.get(open).is_none(), "{name}: {open}");
            }
            assert_eq!(pod.get("volumes").is_some(), name == "extras", "{name}");
            let spec = &deployment["spec"];
            let labels = spec["template"]["metadata"]["labels"].as_object().unwrap();
            for (key, value) in spec["selector"]["matchLabels"].as_object().unwrap() {
                assert_eq!(labels.get(key), Some(value), "{name}: the selector misses");
            }
            let is_operator = labels["app.kubernetes.io/component"] == "operator";
            assert_eq!(
                pod["automountServiceAccountToken"], is_operator,
                "{name}: who talks to the API server"
            );
            // A new operator is ready before the old one ends. The simulator has one state.
            let strategy = if is_operator {
                "RollingUpdate"
            } else {
                "Recreate"
            };
            assert_eq!(spec["strategy"]["type"], strategy, "{name}");
            let is_replicated =
                is_operator && ["network-policy", "namespaced"].contains(&name.as_str());
            let replicas = if is_replicated { 2 } else { 1 };
            assert_eq!(spec["replicas"], replicas, "{name}");
            let spread = &pod["topologySpreadConstraints"];
            assert_eq!(spread.is_array(), is_replicated, "{name}");
            if is_operator {
                operators += 1;
                // The operator waits for the answer to an order and records it, up to the longest timeout.
                let longest = ORDER_TIMEOUT.maximum.0.as_secs();
                let grace = pod["terminationGracePeriodSeconds"].as_u64().unwrap();
                assert!(
                    grace >= longest + 20,
                    "{grace} s, an order takes up to {longest}"
                );
            }
        }
    }
    assert_eq!(operators, values_files().len());
}

#[test]
fn rendered_crds_match_files_and_are_kept() {
    for (name, objects) in rendered() {
        let rendered: Vec<&Value> = of_kind(&objects, "CustomResourceDefinition").collect();
        if name == "external" {
            assert!(rendered.is_empty());
            continue;
        }
        let expected = crate::crds::definitions();
        assert_eq!(rendered.len(), expected.len(), "{name}");
        for crd in rendered {
            let same = expected
                .iter()
                .find(|e| e["metadata"]["name"] == crd["metadata"]["name"])
                .unwrap();
            assert!(
                normalize_numbers(&crd["spec"]) == normalize_numbers(&same["spec"]),
                "{name}: {} differs from crds/",
                crd["metadata"]["name"]
            );
            let annotations = &crd["metadata"]["annotations"];
            assert_eq!(annotations["helm.sh/resource-policy"], "keep", "{name}");
            let options = match name.as_str() {
                "extras" => "Prune=false,ServerSideApply=true",
                _ => "Prune=false",
            };
            assert_eq!(annotations["argocd.argoproj.io/sync-options"], options);
            let own = &annotations["example.com/owner"];
            assert_eq!(*own == "platform", name == "namespaced", "{name}");
        }
    }
}

/// Helm writes 1000000 where crdgen writes 1000000.0.
fn normalize_numbers(value: &Value) -> Value {
    match value {
        Value::Number(n) => json!(n.as_f64()),
        Value::Array(items) => items.iter().map(normalize_numbers).collect(),
        Value::Object(map) => map
            .iter()
            .map(|(k, v)| (k.clone(), normalize_numbers(v)))
            .collect(),
        other => other.clone(),
    }
}

#[test]
fn programs_take_the_rendered_arguments() {
    let programs = [
        ("/flexmetal-operator", program("flexmetal-operator")),
        ("/flexmetal-simulator", program("flexmetal-simulator")),
    ];
    let mut started = Vec::new();
    for (name, objects) in rendered() {
        for deployment in of_kind(&objects, "Deployment") {
            let container = &deployment["spec"]["template"]["spec"]["containers"][0];
            let command = container["command"][0].as_str().unwrap();
            let (_, program) = programs.iter().find(|(c, _)| *c == command).unwrap();
            let image = container["image"].as_str().unwrap();
            assert!(
                image.contains(&command[1..]),
                "{name}: {command} in {image}"
            );
            let arguments = strings(&container["args"]);
            // The operator checks flags in order, so a final `--version` shows that the others are valid.
            let output = Command::new(program)
                .args(&arguments)
                .arg("--version")
                .output()
                .unwrap();
            assert!(
                output.status.success(),
                "{name}: {arguments:?}: {}",
                said(&output)
            );
            let names: Vec<&Value> = container["env"]
                .as_array()
                .unwrap()
                .iter()
                .map(|e| &e["name"])
                .collect();
            let unique: BTreeSet<&str> = names.iter().filter_map(|n| n.as_str()).collect();
            assert_eq!(
                names.len(),
                unique.len(),
                "{name}: a variable is given twice"
            );
            started.push(command.to_owned());
        }
    }
    assert!(
        started.iter().any(|c| c == "/flexmetal-simulator"),
        "{started:?}"
    );
    let dockerfile = std::fs::read_to_string(checkout("deploy/Dockerfile")).unwrap();
    for command in started {
        let program = command.trim_start_matches('/');
        for line in [
            format!("--package {program}"),
            format!("COPY --from=build /programs/{program} /{program}"),
        ] {
            assert!(
                dockerfile.contains(&line),
                "no image of {program}: no {line:?} in the Dockerfile"
            );
        }
    }
}

#[test]
fn values_are_passed_to_the_operator() {
    let helm = helm_4();
    let file = checkout("deploy/chart/ci/namespaced-values.yaml");
    let objects = helm.template(&file, "metal-system");
    let deployment = of_kind(&objects, "Deployment").next().unwrap();
    let pod = &deployment["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    let arguments = strings(&container["args"]);
    for expected in [
        "--watch-namespace=team-a",
        "--watch-namespace=team-b",
        "--cluster-id=0123456789abcdef",
        "--log-format=text",
        "--log-level=warn",
        "--provider-proxy=http://proxy.example.com:3128",
    ] {
        assert!(arguments.contains(&expected.to_owned()), "{arguments:?}");
    }
    let env = container["env"].as_array().unwrap();
    // extraEnv replaces what the chart sets, and adds what it does not.
    for (name, expected) in [("POD_NAMESPACE", "metal-system"), ("RUST_LOG", "debug")] {
        let variable = env.iter().find(|e| e["name"] == name).unwrap();
        assert_eq!(variable["value"], expected, "{name}");
    }
    assert!(
        container["image"]
            .as_str()
            .unwrap()
            .starts_with("images.example.com/flexmetal-operator@sha256:")
    );
    assert_eq!(pod["serviceAccountName"], "metal");
    assert_eq!(pod["priorityClassName"], "system-cluster-critical");
    for set in [
        "nodeSelector",
        "tolerations",
        "affinity",
        "imagePullSecrets",
    ] {
        assert!(pod.get(set).is_some(), "{set}");
    }
}

#[test]
fn chart_allows_only_intended_base_urls() {
    let allowed = |objects: &[Value]| {
        let deployment = of_kind(objects, "Deployment").find(|deployment| {
            let labels = &deployment["metadata"]["labels"];
            labels["app.kubernetes.io/component"] != "simulator"
        });
        let container = &deployment.unwrap()["spec"]["template"]["spec"]["containers"][0];
        let mut arguments = strings(&container["args"]);
        arguments.retain(|argument| argument.starts_with("--allowed-base-url"));
        arguments
    };
    for (name, objects) in rendered() {
        let secret = of_kind(&objects, "Secret").next();
        let expected: &[&str] = match name.as_str() {
            "simulator" => {
                let secret = secret.unwrap();
                assert_eq!(secret["type"], "flexmetal.dev/api-key");
                let url = secret["stringData"]["baseURL"].as_str().unwrap();
                assert!(url.ends_with("-simulator.metal-system.svc:8080"), "{url}");
                &[&format!("--allowed-base-url={url}")]
            }
            "network-policy" | "namespaced" => &[
                "--allowed-base-url=https://api.example.com",
                "--allowed-base-url=http://10.0.0.7:8080/prefix",
            ],
            _ => &[],
        };
        assert_eq!(allowed(&objects), expected, "{name}");
    }
}

/// The objects of every values file.
pub(crate) fn rendered() -> Vec<(String, Vec<Value>)> {
    static RENDERED: LazyLock<Vec<(String, Vec<Value>)>> = LazyLock::new(|| {
        let helm = helm_4();
        let files = values_files().into_iter();
        files
            .map(|(name, file)| (name, helm.template(&file, "metal-system")))
            .collect()
    });
    RENDERED.clone()
}

pub(super) fn strings(list: &Value) -> Vec<String> {
    list.as_array()
        .unwrap()
        .iter()
        .map(|item| item.as_str().unwrap().to_owned())
        .collect()
}
