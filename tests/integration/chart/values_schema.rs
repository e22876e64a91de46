//! The schema of the values: closed, complete, and in use.

use std::collections::BTreeSet;
use std::process::Command;

use lab::rig::program;
use serde_json::Value;

use super::{
    checkout,
    helm::{IMAGE, helms, said},
};

#[test]
fn unknown_and_impossible_values_are_refused() {
    let refused = [
        ("unknown=1", "unknown"),
        ("image.reposittory=x", "reposittory"),
        ("image.digest=sha256:12", "digest"),
        ("crds.install=true", "install"),
        ("crds.keep=false", "keep"),
        ("admissionPolicies.mode=Warn", "mode"),
        ("rbac.clusterRole=true", "clusterRole"),
        ("rbac.aggregateToEdit=yes", "aggregateToEdit"),
        ("serviceAccount.token=x", "token"),
        ("simulator.image.digest=sha256:12", "digest"),
        ("simulator.control=0.0.0.0:1", "control"),
        ("simulator.service.type=LoadBalancer", "type"),
        ("simulator.clockSpeed=0", "clockSpeed"),
        ("resources.limit.memory=1Gi", "limit"),
        ("affinity.node.x=y", "node"),
        ("logFormat=xml", "logFormat"),
        // The operator would refuse to start.
        ("logLevel=warning", "logLevel"),
        ("clusterId=production", "clusterId"),
        // The port of the health endpoints.
        ("metrics.port=8081", "port"),
        ("metrics.objectConditions=some", "objectConditions"),
        ("monitoring.x=1", "monitoring"),
        ("monitoring.renderMode=maybe", "renderMode"),
        ("watchNamespaces[0]=Team_A", "watchNamespaces"),
        ("replicaCount=2", "replicaCount"),
        ("replicas=4", "replicas"),
        ("replicas=many", "replicas"),
        ("readOnly=some", "readOnly"),
        // An order may take longer.
        ("terminationGracePeriodSeconds=60", "terminationGracePeriod"),
        ("podDisruptionBudget.minAvailable=1", "minAvailable"),
        ("networkPolicy.egress=true", "egress"),
        ("networkPolicy.dns.ports={dns}", "ports"),
        ("networkPolicy.provider.ports={0}", "ports"),
        ("plugin.image.repo=x", "repo"),
        ("simulator.createAccount=default", "createAccount"),
        ("dnsPolicy=Cluster", "dnsPolicy"),
        // Would give the role view what the operator may do.
        (
            "commonLabels.rbac\\.authorization\\.k8s\\.io/aggregate-to-view=yes",
            "rbac.authorization.k8s.io",
        ),
        ("global.imageRegistry=https://mirror", "imageRegistry"),
    ];
    for helm in helms("values") {
        for (value, named) in refused {
            let chart = checkout("deploy/chart");
            let output = helm.run(&[
                "template",
                "trial",
                chart.to_str().unwrap(),
                "--kube-version=1.36.0",
                IMAGE,
                "--set",
                value,
            ]);
            assert!(!output.status.success(), "{}: {value} is taken", helm.name);
            assert!(
                said(&output).contains(named),
                "{}: {value}: {}",
                helm.name,
                said(&output)
            );
        }
    }
}

#[test]
fn missing_image_names_value_to_set() {
    let program = ["--set=simulator.enabled=true", IMAGE];
    for helm in helms("images") {
        for (given, value) in [
            (&[][..], "image.repository"),
            (&["--set=image.tag=1.0"], "image.repository"),
            (&program, "simulator.image.repository"),
        ] {
            let chart = checkout("deploy/chart");
            let render = [
                "template",
                "trial",
                chart.to_str().unwrap(),
                "--kube-version=1.36.0",
            ];
            let output = helm.run(&[&render, given].concat());
            assert!(!output.status.success(), "{}: {given:?}", helm.name);
            let words = said(&output);
            assert!(words.contains(&format!("{value} is empty")), "{words}");
            let example = format!("--set {value}=registry.example.com/flexmetal-");
            assert!(words.contains(&example), "{words}");
        }
    }
}

#[test]
fn too_old_a_cluster_is_refused() {
    for helm in helms("versions") {
        let chart = checkout("deploy/chart");
        let chart = chart.to_str().unwrap();
        let old = helm.run(&["template", "trial", chart, IMAGE, "--kube-version=1.31.9"]);
        assert!(
            !old.status.success() && said(&old).contains("1.32"),
            "{}",
            said(&old)
        );
        let vendor = helm.run(&[
            "template",
            "trial",
            chart,
            IMAGE,
            "--kube-version=v1.32.0-vendor.1",
        ]);
        assert!(vendor.status.success(), "{}", said(&vendor));
    }
}

#[test]
fn readme_table_matches_values() {
    let folder = tempfile::tempdir().unwrap();
    let readme = folder.path().join("README.md");
    let written = std::fs::read_to_string(checkout("deploy/chart/README.md")).unwrap();
    std::fs::write(&readme, &written).unwrap();
    let values = checkout("deploy/chart/values.yaml");
    let valuesgen = Command::new(program("examples/valuesgen"))
        .args([&readme, &values])
        .status();
    assert!(valuesgen.unwrap().success());
    let generated = std::fs::read_to_string(&readme).unwrap();
    assert!(generated == written, "run `make generate`: {generated}");
    let rows = generated.lines().filter(|line| line.starts_with("| `"));
    let silent: Vec<&str> = rows.filter(|row| row.ends_with("|  |")).collect();
    assert!(silent.is_empty(), "without a comment: {silent:?}");
    for row in ["| `image.repository` |", "| `networkPolicy.dns.ports` |"] {
        assert!(generated.contains(row), "{row}");
    }
}

#[test]
fn schema_and_values_file_list_same_values() {
    let schema = json("values.schema.json");
    let values = std::fs::read_to_string(checkout("deploy/chart/values.yaml")).unwrap();
    let values: Value = serde_saphyr::from_str(&values).unwrap();
    let mut in_schema = BTreeSet::new();
    // Other charts have global values, too.
    let mut own = schema.clone();
    own["properties"]["global"]["additionalProperties"] = false.into();
    collect_schema_paths(&own, "", &mut in_schema);
    let mut in_file = BTreeSet::new();
    collect_value_paths(&values, &schema, "", &mut in_file);
    let optional = ["resources.claims", "simulator.resources.claims"];
    let affinity =
        ["nodeAffinity", "podAffinity", "podAntiAffinity"].map(|a| format!("affinity.{a}"));
    let missing: Vec<_> = in_schema
        .difference(&in_file)
        .filter(|v| !optional.contains(&v.as_str()) && !affinity.contains(v))
        .collect();
    assert!(missing.is_empty(), "not in values.yaml: {missing:?}");
    let stray: Vec<_> = in_file.difference(&in_schema).collect();
    assert!(stray.is_empty(), "not in the schema: {stray:?}");
    assert!(in_schema.len() > 40, "{in_schema:?}");
}

/// The paths in the schema. Every object on the way must be closed.
fn collect_schema_paths(schema: &Value, path: &str, paths: &mut BTreeSet<String>) {
    let Some(properties) = schema["properties"].as_object() else {
        return;
    };
    assert_eq!(schema["additionalProperties"], false, "{path:?} is open");
    for (name, property) in properties {
        let path = if path.is_empty() {
            name.clone()
        } else {
            format!("{path}.{name}")
        };
        collect_schema_paths(property, &path, paths);
        if let Some(items) = property.get("items") {
            collect_schema_paths(items, &path, &mut BTreeSet::new());
        }
        paths.insert(path);
    }
}

/// The paths in the values file, as deep as the schema names them.
fn collect_value_paths(values: &Value, schema: &Value, path: &str, paths: &mut BTreeSet<String>) {
    let Some(entries) = values.as_object() else {
        return;
    };
    for (name, value) in entries {
        let property = &schema["properties"][name];
        let path = if path.is_empty() {
            name.clone()
        } else {
            format!("{path}.{name}")
        };
        if property.get("properties").is_some() {
            collect_value_paths(value, property, &path, paths);
        }
        paths.insert(path);
    }
}

fn json(file: &str) -> Value {
    let text = std::fs::read_to_string(checkout("deploy/chart").join(file)).unwrap();
    serde_json::from_str(&text).unwrap()
}
