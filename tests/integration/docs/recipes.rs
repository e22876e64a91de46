//! What the pages give to paste that no other test runs.

use std::fs;
use std::path::Path;

use lab::rig::cluster;
use serde_json::{Value, json};
use tokio::process::Command;

use super::ROOT;

/// What is left of an object that is taken back: its order, and nothing that belongs to the object that ends.
#[tokio::test]
async fn a_saved_object_keeps_its_order_and_drops_what_belongs_to_the_old_one() {
    let page = fs::read_to_string(Path::new(ROOT).join("docs/gitops.md")).unwrap();
    let line = |start: &str| {
        let found = page.lines().map(str::trim).find(|l| l.starts_with(start));
        found.unwrap_or_else(|| panic!("docs/gitops.md has no {start}"))
    };
    let recipe = [
        line("kubectl patch --local"),
        line("grep flexmetal.dev/order:"),
    ];
    let folder = tempfile::tempdir().unwrap();
    // JSON is YAML.
    fs::write(folder.path().join("held.yaml"), held().to_string()).unwrap();
    let access = cluster().access();
    let path = std::env::var("PATH").unwrap();
    let programs = access.kubectl.parent().unwrap().display();
    let output = Command::new("bash")
        .args(["-ec", &recipe.join("\n")])
        .current_dir(folder.path())
        .env("PATH", format!("{programs}:{path}"))
        // It works on the file alone.
        .env("KUBECONFIG", "/dev/null")
        .output()
        .await
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let shown = String::from_utf8_lossy(&output.stdout);
    assert_eq!(shown.lines().count(), 1, "{shown}");

    let text = fs::read_to_string(folder.path().join("web.yaml")).unwrap();
    let saved: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    let mut expected = held();
    expected.as_object_mut().unwrap().remove("status");
    expected["spec"]["suspend"] = json!(false);
    expected["metadata"] = json!({
        "name": "web", "namespace": "team-a", "labels": {"app": "web"},
        "annotations": held()["metadata"]["annotations"],
    });
    assert_eq!(saved, [expected]);
}

/// An object that is being deleted, as the API server shows it.
fn held() -> Value {
    json!({
        "apiVersion": "flexmetal.dev/v1alpha1",
        "kind": "BareMetalServer",
        "metadata": {
            "name": "web",
            "namespace": "team-a",
            "uid": "0a0c0a04-5b6e-4a4e-9f25-8a5a5f7f0a11",
            "resourceVersion": "4711",
            "generation": 3,
            "creationTimestamp": "2026-01-02T03:04:05Z",
            "deletionTimestamp": "2026-01-03T03:04:05Z",
            "deletionGracePeriodSeconds": 0,
            "finalizers": ["flexmetal.dev/server"],
            "labels": {"app": "web"},
            "annotations": {"flexmetal.dev/order": "{\"epoch\":1}"},
        },
        "spec": {
            "location": "EU: Rotterdam",
            "instanceType": "bm7.std.8",
            "os": {"slug": "ubuntu-2404-lts"},
            "deletionProtection": true,
            "suspend": true,
        },
        "status": {"uuid": "0a0c0a04-5b6e-4a4e-9f25-8a5a5f7f0a12", "observedGeneration": 3},
    })
}
