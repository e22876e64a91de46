//! The notes that Helm prints after an install: their commands can be pasted unchanged.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use serde_json::Value;

use super::{
    checkout,
    helm::{helms, said},
    values_files,
};
use lab::rig::cluster;

/// A fake kubectl that records its arguments and its input.
const KUBECTL: &str = "#!/bin/sh\necho \"$*\" >> \"$KEPT/calls\"\n\
    case \"$*\" in *'-f -'*) cat > \"$KEPT/manifest\";; esac\n";

/// The commands in a text, each with its here-document. A command begins at the start of a line.
fn commands(text: &str) -> String {
    let mut found = String::new();
    let (mut goes_on, mut in_document) = (false, false);
    for line in text.lines() {
        if goes_on || in_document || line.starts_with("kubectl ") {
            found.push_str(line);
            found.push('\n');
            in_document = (in_document || line.ends_with("<<'END'")) && line != "END";
            goes_on = line.ends_with('\\');
        }
    }
    assert!(!in_document, "a here-document does not end:\n{text}");
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn printed_install_commands_can_be_pasted() {
    for helm in helms("notes") {
        for (name, values) in values_files() {
            let chart = checkout("deploy/chart");
            let install = ["install", "trial", chart.to_str().unwrap()];
            // The shared cluster has the CRDs already, and this is only a dry run.
            let how = [
                "--dry-run=client",
                "--take-ownership",
                "--namespace=metal-system",
                "--values",
            ];
            let install = [&install[..], &how, &[values.to_str().unwrap()]].concat();
            let printed = helm.on(cluster(), &install).await;
            let (_, notes) = printed.split_once("NOTES:\n").unwrap();
            // The cluster does not have the Prometheus Operator.
            let is_left_out = notes.contains("has no API monitoring.coreos.com/v1");
            assert_eq!(is_left_out, name == "monitoring", "{notes}");

            let folder = tempfile::tempdir().unwrap();
            let kubectl = folder.path().join("kubectl");
            fs::write(&kubectl, KUBECTL).unwrap();
            fs::set_permissions(&kubectl, fs::Permissions::from_mode(0o755)).unwrap();
            let script = commands(notes);
            let pasted = Command::new("bash")
                .args(["-c", &script])
                .env("PATH", format!("{}:/usr/bin:/bin", folder.path().display()))
                .env("KEPT", folder.path())
                .output()
                .unwrap();
            // The last command is a search that finds nothing here. Bash would report an unclosed here-document.
            assert!(pasted.stderr.is_empty(), "{script}: {}", said(&pasted));
            let calls = fs::read_to_string(folder.path().join("calls")).unwrap();
            let shown = calls.lines().count();
            let expected = script.matches("kubectl ").count();
            assert_eq!(shown, expected, "{script}\n{calls}");
            assert!(shown >= 3, "{calls}");

            let manifest = folder.path().join("manifest");
            // The release creates the account itself.
            assert_eq!(manifest.exists(), name != "simulator", "{name}: {notes}");
            if manifest.exists() {
                let manifest = fs::read_to_string(manifest).unwrap();
                let account: Value = serde_saphyr::from_str(&manifest).unwrap();
                assert_eq!(account["kind"], "ProviderAccount", "{manifest}");
                assert!(account["spec"]["apiKeySecretRef"]["name"].is_string());
            }
            let is_read_only = notes.contains("It is in read-only mode");
            assert_eq!(is_read_only, name == "extras", "{notes}");
            let binds = calls.matches("create rolebinding").count();
            let by_hand = !["external", "simulator"].contains(&name.as_str());
            assert_eq!(binds, if by_hand { 2 } else { 0 }, "{name}: {calls}");
        }
    }
}

#[test]
fn a_document_that_does_not_end_is_noticed() {
    let open = "kubectl apply -f - <<'END'\nkind: X\n  END\n";
    std::panic::catch_unwind(|| commands(open)).unwrap_err();
    let closed =
        "Do this:\n\nkubectl a \\\n  --b\nkubectl apply -f - <<'END'\nkind: X\nEND\nand that";
    let found = "kubectl a \\\n  --b\nkubectl apply -f - <<'END'\nkind: X\nEND\n";
    assert_eq!(commands(closed), found);
}
