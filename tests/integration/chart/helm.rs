//! Helm 3 and Helm 4, each with its own home directory.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

use super::checkout;
use lab::rig::Cluster;

/// The only value without a default.
pub(super) const IMAGE: &str = "--set=image.repository=registry.example.com/flexmetal-operator";
/// Renders as in a cluster with the Prometheus Operator.
pub(super) const MONITORING_API: &str = "--api-versions=monitoring.coreos.com/v1";

/// One Helm version.
pub(super) struct Helm {
    /// `helm-3` or `helm-4`.
    pub(super) name: &'static str,
    program: PathBuf,
    home: TempDir,
}

/// The tests that also run with Helm 3, and how many seconds each takes. Every run uses Helm 4 for all tests.
const WITH_HELM_3: [(&str, u32); 8] = [
    ("render", 5),
    ("values", 5),
    ("images", 2),
    ("versions", 2),
    ("notes", 5),
    ("servers", 15),
    ("install", 60),
    ("reinstall", 40),
];

/// The Helm versions that this run uses for a test, Helm 4 last.
pub(super) fn helms(what: &str) -> Vec<Helm> {
    assert!(WITH_HELM_3.iter().any(|(test, _)| *test == what), "{what}");
    let with_helm_3 = WITH_HELM_3.map(|(test, seconds)| (test, Some(seconds)));
    let units = [&with_helm_3[..], &[("all with Helm 4", None)]].concat();
    let taken = tiers::select("Helm 3", units, |(_, seconds)| *seconds);
    let mut helms = vec![helm_4()];
    if taken.iter().any(|(test, _)| *test == what) {
        helms.insert(0, helm("helm-3", "HELM_3"));
    }
    helms
}

pub(super) fn helm_4() -> Helm {
    helm("helm-4", "HELM_4")
}

/// The program that `make test` names in the environment, or else the one that the tools script puts into the cache.
fn helm(name: &'static str, variable: &str) -> Helm {
    let program = std::env::var_os(variable).map_or_else(|| installed(name), PathBuf::from);
    Helm {
        name,
        program,
        home: tempfile::tempdir().unwrap(),
    }
}

/// The program that the tools script puts into the cache.
pub(super) fn installed(name: &str) -> PathBuf {
    let output = Command::new(checkout("tests/tools/install.sh"))
        .arg(name)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", said(&output));
    String::from_utf8(output.stdout).unwrap().trim().into()
}

impl Helm {
    /// Runs Helm without a cluster.
    pub(super) fn run(&self, arguments: &[&str]) -> Output {
        let kubeconfig = Path::new("/dev/null");
        self.run_with(kubeconfig, arguments)
    }

    /// Runs Helm against a cluster as its administrator.
    /// Panics with Helm's output if it fails.
    pub(super) async fn on(&self, cluster: &Cluster, arguments: &[&str]) -> String {
        self.try_on(cluster, arguments)
            .unwrap_or_else(|words| panic!("{} {arguments:?}: {words}", self.name))
    }

    /// Runs Helm against a cluster as its administrator. The error is Helm's output.
    pub(super) fn try_on(&self, cluster: &Cluster, arguments: &[&str]) -> Result<String, String> {
        // Helm blocks, and the client of the cluster may run on this thread.
        let output =
            tokio::task::block_in_place(|| self.run_with(&cluster.access().kubeconfig, arguments));
        if output.status.success() {
            Ok(String::from_utf8(output.stdout).unwrap())
        } else {
            Err(said(&output))
        }
    }

    fn run_with(&self, kubeconfig: &Path, arguments: &[&str]) -> Output {
        self.at_home(Command::new(&self.program).args(arguments), kubeconfig)
    }

    /// Runs a page's commands with this Helm and the cluster's kubectl, as its administrator.
    /// Panics with their output if one of them fails.
    pub(super) fn follow(&self, cluster: &Cluster, commands: &str) -> String {
        let folder = |program: &Path| program.parent().unwrap().to_owned();
        let kubectl = folder(&cluster.access().kubectl);
        let usual = std::env::var_os("PATH").unwrap_or_default();
        let path = [folder(&self.program), kubectl]
            .into_iter()
            .chain(std::env::split_paths(&usual));
        let mut bash = Command::new("bash");
        bash.args(["-euo", "pipefail", "-c", commands])
            .env("PATH", std::env::join_paths(path).unwrap());
        let kubeconfig = &cluster.access().kubeconfig;
        let output = tokio::task::block_in_place(|| self.at_home(&mut bash, kubeconfig));
        assert!(output.status.success(), "{commands}: {}", said(&output));
        said(&output)
    }

    fn at_home(&self, command: &mut Command, kubeconfig: &Path) -> Output {
        let home = self.home.path();
        command
            // Uses neither the user's clusters nor the user's repositories and plugins.
            .env("KUBECONFIG", kubeconfig)
            .env("KUBECACHEDIR", home.join("kubectl"))
            .env("HELM_CACHE_HOME", home.join("cache"))
            .env("HELM_CONFIG_HOME", home.join("config"))
            .env("HELM_DATA_HOME", home.join("data"))
            .output()
            .unwrap()
    }

    /// The objects that the chart renders with a values file, in order, in a cluster with the Prometheus Operator.
    pub(super) fn template(&self, values: &Path, namespace: &str) -> Vec<Value> {
        let output = self.run(&[
            "template",
            "trial",
            checkout("deploy/chart").to_str().unwrap(),
            "--namespace",
            namespace,
            "--kube-version=1.36.0",
            MONITORING_API,
            "--values",
            values.to_str().unwrap(),
        ]);
        assert!(output.status.success(), "{}", said(&output));
        assert!(output.stderr.is_empty(), "{}", said(&output));
        documents(&String::from_utf8(output.stdout).unwrap())
    }
}

/// The non-empty documents of a YAML stream.
pub(super) fn documents(stream: &str) -> Vec<Value> {
    let mut texts = vec![String::new()];
    for line in stream.lines() {
        if line == "---" {
            texts.push(String::new());
        } else if let Some(text) = texts.last_mut() {
            text.push_str(line);
            text.push('\n');
        }
    }
    texts
        .iter()
        .filter(|text| {
            text.lines()
                .any(|l| !l.trim().is_empty() && !l.starts_with('#'))
        })
        .map(|text| serde_saphyr::from_str(text).unwrap_or_else(|e| panic!("{e}\n{text}")))
        .collect()
}

/// The output of a program, for messages.
pub(super) fn said(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}
