//! Runs the real kubectl, for commands that users run.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::time::timeout;

/// Time limit of a command. All of them wait only for the API server.
const WITHIN: Duration = Duration::from_secs(60);
/// The custom resources, as `make generate` writes them.
pub(crate) const DEFINITIONS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../crds");
/// The chart's policy that denies the deletion of a protected server.
const PROTECTION: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../deploy/chart/files/policies/protection.yaml"
);
/// The binding that enforces the policy.
const BINDING: &str = r#"{
    "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
    "metadata": {"name": "flexmetal-protection"},
    "spec": {"policyName": "flexmetal-protection", "validationActions": ["Deny"]}
}"#;

/// kubectl with the kubeconfig of one control plane.
#[derive(Debug, Clone)]
pub(crate) struct Kubectl {
    program: PathBuf,
    kubeconfig: PathBuf,
}

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KubectlError {
    #[error("cannot run kubectl")]
    Run(#[source] io::Error),
    #[error("`kubectl {command}` failed ({status}): {messages}")]
    Failed {
        command: String,
        status: ExitStatus,
        messages: String,
    },
    #[error("`kubectl {command}` did not end within {} s", WITHIN.as_secs())]
    Slow { command: String },
}

impl Kubectl {
    pub(crate) fn new(program: PathBuf, kubeconfig: PathBuf) -> Self {
        Self {
            program,
            kubeconfig,
        }
    }

    /// Runs a command and returns what it printed.
    pub(crate) async fn run(&self, arguments: &[&str]) -> Result<String, KubectlError> {
        self.run_with_input(arguments, "").await
    }

    /// Runs a command that reads `input`, such as `apply -f -`.
    pub(crate) async fn run_with_input(
        &self,
        arguments: &[&str],
        input: &str,
    ) -> Result<String, KubectlError> {
        let cache = self.kubeconfig.with_file_name("kubectl-cache");
        let mut child = Command::new(&self.program)
            // Uses neither the user's clusters nor the user's cache.
            .arg(flag("kubeconfig", &self.kubeconfig))
            .arg(flag("cache-dir", &cache))
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(KubectlError::Run)?;
        let stdin = child.stdin.take();
        let write = async move {
            if let Some(mut stdin) = stdin {
                // kubectl may end without reading everything, and prints the reason itself.
                let _ = stdin.write_all(input.as_bytes()).await;
            }
        };
        // Concurrently, because a large input and a full output pipe would block each other.
        let both = async { tokio::join!(write, child.wait_with_output()).1 };
        let command = || arguments.join(" ");
        let output = timeout(WITHIN, both)
            .await
            .map_err(|_| KubectlError::Slow { command: command() })?
            .map_err(KubectlError::Run)?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        Err(KubectlError::Failed {
            command: command(),
            status: output.status,
            messages: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        })
    }

    /// Installs the custom resources and waits until the API server serves them.
    pub(crate) async fn install_definitions(&self) -> Result<(), KubectlError> {
        self.run(&["apply", "--server-side", "-f", DEFINITIONS])
            .await?;
        let established = ["wait", "--for=condition=Established", "--timeout=30s"];
        self.run(&[&established[..], &["-f", DEFINITIONS]].concat())
            .await?;
        Ok(())
    }

    /// Installs and enforces the chart's policy for protected servers.
    pub(crate) async fn install_protection(&self) -> Result<(), KubectlError> {
        let apply = ["apply", "--server-side", "-f"];
        self.run(&[&apply[..], &[PROTECTION]].concat()).await?;
        self.run_with_input(&[&apply[..], &["-"]].concat(), BINDING)
            .await?;
        Ok(())
    }
}

fn flag(name: &str, path: &Path) -> String {
    format!("--{name}={}", path.display())
}
