//! Commands about the installation itself.

use super::super::SOON;
use super::{Plugin, apply};
use lab::rig::{World, cluster, server};
use serde_json::{Value, json};

#[tokio::test]
async fn doctor_and_report_name_what_is_missing() {
    let world = World::start(cluster(), "doctor").await;
    world.create(&server("web")).await;
    world.wait_ready("web", SOON).await;
    let secret = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "script"},
        "data": {"script": "canary-script"},
    });
    apply(&world, &secret.to_string()).await;
    let plugin = Plugin::of(&world);
    // The world has no Deployment, so the doctor has something to say.
    let doctor = plugin.run_expecting(3, &["doctor"]).await;
    assert!(doctor.out.contains("Deployment"), "{}", doctor.out);
    let file = world.folder().join("report.zip");
    let args = ["report", "--to", file.to_str().unwrap(), "-o", "json"];
    let report = plugin.run_expecting(0, &args).await;
    let report: Value = serde_json::from_str(&report.out).unwrap();
    let contents = json!([
        "doctor.txt",
        "events.yaml",
        "objects/baremetalservers.yaml",
        "objects/provideraccounts.yaml",
        "operator/events.yaml",
        "operator/leases.yaml",
        "plugin-version.txt",
    ]);
    let mut found = report["contents"].clone();
    // Other tests have accounts of the cluster meanwhile.
    let found_files = found.as_array_mut().unwrap();
    found_files.retain(|file| file != "objects/clusterprovideraccounts.yaml");
    assert_eq!(found, contents, "{report:#}");
    let zip = std::fs::read(&file).unwrap();
    assert!(zip.starts_with(b"PK"));
}
