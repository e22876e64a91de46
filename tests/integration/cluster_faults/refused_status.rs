//! A cluster whose policy refuses every status write of a server.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use lab::rig::{Cluster, World, WorldOptions, eventually, server};

const SOON: Duration = Duration::from_secs(90);
/// How long the test counts refusals.
const WHILE: Duration = Duration::from_secs(25);
/// Attempts at 0, 1, 3, 7 and 15 s, and one more that was already in progress.
const MOST: usize = 6;
const WARNING: &str = "status update failed";

#[tokio::test]
async fn refused_status_backs_off_and_warns_once() {
    let folder = tempfile::tempdir().unwrap();
    let audit = folder.path().join("audit.log");
    let cluster = Cluster::own_with_audit_log(&audit);
    let mut world = World::prepare(&cluster, "refused", WorldOptions::default()).await;
    world.start_operator();
    world.create(&server("ready")).await;
    let ready = world.wait_ready("ready", SOON).await;

    set_policy(&cluster, "apply").await;
    eventually("the policy is in force", SOON, async || {
        let patch = r#"{"status":{"statusMessage":"probe"}}"#;
        let tried = cluster
            .kubectl(&[
                "patch",
                "bms",
                "ready",
                "-n",
                &world.namespace,
                "--subresource=status",
                "--type=merge",
                "--dry-run=server",
                "-p",
                patch,
            ])
            .await;
        (!tried.status.success()).then_some(())
    })
    .await;
    // A change of the provider's server changes a status. A new object has no status yet.
    let uuid = ready["status"]["uuid"].as_str().unwrap();
    let change = json!({"ipAddresses": ["192.0.2.7"]});
    world.simulator.alter(uuid, &change).await;
    world.create(&server("new")).await;
    tokio::time::sleep(WHILE).await;
    // The start of an order writes a status too, with its own backoff.
    for (name, most) in [("ready", MOST), ("new", 2 * MOST)] {
        let refused = count_refused_writes(&audit, name);
        assert!((1..=most).contains(&refused), "{name}: {refused} times");
        let log = world.operator().log();
        let reported = log.lines().filter(|line| line.contains(WARNING));
        let about = format!("name=\"{name}\"");
        let reported: Vec<&str> = reported.filter(|line| line.contains(&about)).collect();
        assert!(reported.len() <= 1, "{reported:#?}");
    }
    let log = world.operator().log();
    assert!(log.contains(WARNING), "it is told");
    // The status cannot report it, so an event does.
    let all = ["get", "events.v1.events.k8s.io", "-o", "json", "-n"];
    let events = cluster
        .kubectl_ok(&[&all[..], &[&world.namespace]].concat())
        .await;
    let events: Value = serde_json::from_str(&events).unwrap();
    let reported =
        events["items"].as_array().unwrap().iter().filter(|event| {
            event["regarding"]["name"] == "ready" && event["reason"] == "WriteFailed"
        });
    let reported: Vec<&str> = reported
        .filter_map(|event| event["note"].as_str())
        .collect();
    assert!(!reported.is_empty(), "{events:#}");
    assert!(
        reported.iter().all(|note| note.contains("no status here")),
        "{reported:?}"
    );

    // When writes are allowed again, the status is complete.
    set_policy(&cluster, "delete").await;
    world
        .wait_for("ready", "the address is shown", SOON, |object: &Value| {
            let address = &object["status"]["addresses"][0]["address"];
            (address == "192.0.2.7").then_some(())
        })
        .await;
    world.wait_ready("new", SOON).await;
}

/// Applies or deletes the policy.
async fn set_policy(cluster: &Cluster, verb: &str) {
    let rule = json!({
        "apiGroups": ["flexmetal.dev"], "apiVersions": ["*"], "operations": ["UPDATE"],
        "resources": ["baremetalservers/status"],
    });
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "no-status"},
        "spec": {
            "failurePolicy": "Fail", "matchConstraints": {"resourceRules": [rule]},
            "validations": [{"expression": "false", "message": "no status here"}],
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "no-status"},
        "spec": {"policyName": "no-status", "validationActions": ["Deny"]},
    });
    for object in [policy, binding] {
        let done = cluster
            .kubectl_with_input(&[verb, "-f", "-"], &object.to_string())
            .await;
        assert!(done.status.success(), "{done:?}");
    }
}

/// How many status writes of this server were refused.
fn count_refused_writes(audit: &Path, name: &str) -> usize {
    let log = std::fs::read_to_string(audit).unwrap();
    let entries = log
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    let refused = entries.filter(|entry: &Value| {
        let to = &entry["objectRef"];
        to["resource"] == "baremetalservers"
            && to["subresource"] == "status"
            && to["name"] == name
            && entry["stage"] == "ResponseComplete"
            && !entry["requestURI"].to_string().contains("dryRun")
            && entry["responseStatus"]["code"] == 422
    });
    refused.count()
}
