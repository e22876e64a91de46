//! Applies everything that the chart renders to the API server as a dry run.

use serde_json::{Value, json};

use super::render::rendered;
use lab::rig::cluster;

#[tokio::test]
async fn api_server_takes_every_render_without_a_warning() {
    // The namespaces that the values name, and those of the renders. The API server warns here
    // about a pod that violates the restricted pod security standard.
    for name in ["metal-system", "team-a", "team-b"] {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {
            "name": name, "labels": {"pod-security.kubernetes.io/warn": "restricted"},
        }});
        assert_eq!(apply(&namespace, &[]).await, Ok(()), "{name}");
    }
    let mut judged = 0;
    for (name, objects) in rendered() {
        for object in &objects {
            // Kinds of another project, which this API server does not know.
            if object["apiVersion"] == "monitoring.coreos.com/v1" {
                continue;
            }
            let said = apply(object, &["--dry-run=server"]).await;
            assert_eq!(
                said,
                Ok(()),
                "{name}: {} {}",
                object["kind"],
                object["metadata"]
            );
            judged += 1;
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
    assert!(judged > 30, "{judged}");
}

/// Applies an object. An error is any output of kubectl other than success, warnings included.
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
