//! A user's own chart with servers: what Helm does with a protected one.

use std::fs;

use super::{helm::helms, installed_policies::InstalledPolicies};

const SERVER: &str = "{{ if .Values.wanted }}
apiVersion: flexmetal.dev/v1alpha1
kind: BareMetalServer
metadata:
  name: web
spec:
  location: \"EU: Rotterdam\"
  instanceType: bm7.std.8
  os:
    slug: ubuntu-2404-lts
  sshKeys:
    - configMapKeyRef:
        name: ssh-key
        key: id_ed25519.pub
  deletionProtection: true
{{ end }}
";

/// As docs/gitops.md describes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn protected_server_outlives_helm_release() {
    let in_force = InstalledPolicies::start().await;
    let admin = in_force.admin();
    let chart = tempfile::tempdir().unwrap();
    fs::create_dir(chart.path().join("templates")).unwrap();
    for (file, text) in [
        (
            "Chart.yaml",
            "apiVersion: v2\nname: servers\nversion: 1.0.0\n",
        ),
        ("values.yaml", "wanted: true\n"),
        ("templates/server.yaml", SERVER),
    ] {
        fs::write(chart.path().join(file), text).unwrap();
    }
    let path = chart.path().to_str().unwrap();
    let namespace = ["--namespace", &in_force.namespace];
    let exists = async || admin.kubectl(&["get", "bms", "web"], "").await.is_ok();
    for helm in helms("servers") {
        let run = async |arguments: &[&str]| {
            helm.try_on(in_force.cluster, &[arguments, &namespace].concat())
        };
        run(&["install", "servers", path]).await.unwrap();
        admin.wait_until_deletion_refused("web").await;

        // The chart no longer contains the server: the upgrade leaves it, and the release forgets it.
        let upgraded = run(&["upgrade", "servers", path, "--set=wanted=false"]).await;
        assert!(exists().await, "{}", helm.name);
        // Helm 3 reports nothing, Helm 4 fails.
        match helm.name {
            "helm-3" => assert!(upgraded.is_ok(), "{upgraded:?}"),
            _ => assert!(upgraded.is_err_and(|words| words.contains("deletionProtection"))),
        }
        let back = run(&["upgrade", "servers", path, "--set=wanted=true"]).await;
        back.unwrap();

        let refused = run(&["uninstall", "servers", "--debug", "--timeout=20s"]).await;
        let words = refused.expect_err("the server is protected");
        assert!(words.contains("deletionProtection"), "{words}");
        assert!(exists().await, "{}", helm.name);

        // The remedy that the refusal names, and the same command again.
        let lift = serde_json::json!({"spec": {"deletionProtection": false}});
        admin.patch("BareMetalServer", "web", &lift).await.unwrap();
        let ended = run(&["uninstall", "servers"]).await;
        ended.unwrap();
        assert!(!exists().await, "{}", helm.name);
    }
}
