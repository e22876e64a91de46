//! Applies everything that the chart renders to the API server as a dry run.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{checkout, render::rendered};
use crate::crds;
use lab::rig::cluster;

#[tokio::test]
async fn api_server_takes_every_render_without_a_warning() {
    crds::installed().await;
    // The namespaces that the values name, and those of the renders. The API server warns here
    // about a pod that violates the restricted pod security standard.
    for name in ["metal-system", "team-a", "team-b"] {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {
            "name": name, "labels": {"pod-security.kubernetes.io/warn": "restricted"},
        }});
        assert_eq!(apply(&namespace, &[]).await, Ok(()), "{name}");
    }
    // Most renders share their definitions and roles.
    let mut judged = BTreeSet::new();
    for (name, objects) in rendered() {
        // Kinds of another project, which this API server does not know.
        let known = objects
            .iter()
            .filter(|object| object["apiVersion"] != "monitoring.coreos.com/v1");
        let mut new: Vec<Value> = known.map(without_references).collect();
        new.retain(|object| judged.insert(object.to_string()));
        if !new.is_empty() {
            let new = json!({"apiVersion": "v1", "kind": "List", "items": new});
            let said = apply(&new, &["--dry-run=server"]).await;
            assert_eq!(said, Ok(()), "{name}");
        }
        // A pod with too many rights does cause a warning.
        let mut open = objects
            .into_iter()
            .find(|object| object["kind"] == "Deployment")
            .unwrap();
        open["spec"]["template"]["spec"]["containers"][0]["securityContext"]["allowPrivilegeEscalation"] =
            json!(true);
        let said = apply(&open, &["--dry-run=server"]).await;
        assert!(
            said.is_err_and(|words| words.contains("allowPrivilegeEscalation")),
            "{name}"
        );
    }
    assert!(judged.len() > 30, "{}", judged.len());
}

#[tokio::test]
async fn artifact_hub_lists_every_kind_with_example() {
    let cluster = crds::installed().await;
    let namespace = cluster.namespace("hub").await;
    let chart = std::fs::read_to_string(checkout("deploy/chart/Chart.yaml")).unwrap();
    let chart: Value = serde_saphyr::from_str(&chart).unwrap();
    let list = |annotation: &str| -> Vec<Value> {
        let text = &chart["annotations"][format!("artifacthub.io/{annotation}")];
        serde_saphyr::from_str(text.as_str().unwrap()).unwrap()
    };
    let (listed, examples) = (list("crds"), list("crdsExamples"));
    let definitions = crds::definitions();
    assert_eq!(listed.len(), definitions.len());
    assert_eq!(examples.len(), definitions.len());
    for crd in definitions {
        let kind = &crd["spec"]["names"]["kind"];
        let row = listed.iter().find(|row| row["kind"] == *kind).unwrap();
        assert_eq!(row["name"], crd["metadata"]["name"]);
        assert_eq!(row["version"], crd["spec"]["versions"][0]["name"]);
        assert_eq!(row["description"], crds::root(&crd)["description"]);
        let example = examples.iter().find(|it| it["kind"] == *kind);
        let mut example = example.unwrap_or_else(|| panic!("{kind}")).clone();
        if crd["spec"]["scope"] == "Namespaced" {
            example["metadata"]["namespace"] = json!(namespace);
        }
        let said = apply(&example, &["--dry-run=server"]).await;
        assert_eq!(said, Ok(()), "{kind}");
    }
}

/// A pod as a template: the API server refuses a pod whose ServiceAccount or runtime class does not exist.
fn without_references(object: &Value) -> Value {
    if object["kind"] != "Pod" {
        return object.clone();
    }
    json!({"apiVersion": "v1", "kind": "PodTemplate", "metadata": object["metadata"],
        "template": {"metadata": {"labels": object["metadata"]["labels"]}, "spec": object["spec"]}})
}

/// Applies an object or a list. An error is any output of kubectl other than success, warnings included.
async fn apply(object: &Value, flags: &[&str]) -> Result<(), String> {
    let apply = ["apply", "--server-side", "--validate=strict", "-f", "-"];
    let output = cluster()
        .kubectl_with_input(&[&apply[..], flags].concat(), &object.to_string())
        .await;
    let words = String::from_utf8(output.stderr).unwrap();
    if output.status.success() && words.is_empty() {
        Ok(())
    } else {
        Err(words)
    }
}
