//! The kubectl plugin, as a process, against a real API server, the operator and the simulator.

mod changes;
mod import;
mod installation;
mod plan;
mod plan_kinds;
mod rights;
mod tables;
mod terminal;

use lab::rig::{World, cluster, program};
use std::{
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};
use tokio::process::Command;

/// Time limit of one command.
const PLUGIN_WITHIN: Duration = Duration::from_secs(60);

/// The plugin with the rights of one user.
struct Plugin {
    kubeconfig: PathBuf,
    namespace: String,
    cluster_id: String,
    folder: PathBuf,
}

/// What a command printed, and its exit code.
struct PluginOutput {
    out: String,
    err: String,
    code: i32,
}

impl Plugin {
    /// The plugin as the administrator, in the world's namespace.
    fn of(world: &World) -> Self {
        Self::with_kubeconfig(world, &cluster().access().kubeconfig)
    }

    /// The plugin as whom the kubeconfig names.
    fn with_kubeconfig(world: &World, kubeconfig: &Path) -> Self {
        Self {
            kubeconfig: kubeconfig.to_owned(),
            namespace: world.namespace.clone(),
            cluster_id: world.cluster_id.clone(),
            folder: world.folder().to_owned(),
        }
    }

    /// The program and its arguments. `CLUSTER` among the arguments becomes the flag with the world's cluster ID.
    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(program("kubectl-flexmetal"));
        command
            .env_clear()
            .env("HOME", "/nonexistent")
            .env("KUBECONFIG", &self.kubeconfig)
            // `rescue` saves its manifest here.
            .current_dir(&self.folder)
            .args(["--namespace", &self.namespace])
            .args(["--operator-namespace", &self.namespace]);
        for arg in args {
            match *arg {
                "CLUSTER" => command.args(["--cluster-id", &self.cluster_id]),
                arg => command.arg(arg),
            };
        }
        command
    }

    /// Runs a command without a terminal.
    async fn run(&self, args: &[&str]) -> PluginOutput {
        self.run_with_input(args, "").await
    }

    /// Runs a command without a terminal, with this standard input.
    async fn run_with_input(&self, args: &[&str], input: &str) -> PluginOutput {
        let mut child = self
            .command(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("the plugin can be started");
        let mut stdin = child.stdin.take().expect("the pipe was asked for");
        let write = async move {
            // A command that reads nothing may end first.
            let _ = tokio::io::AsyncWriteExt::write_all(&mut stdin, input.as_bytes()).await;
        };
        let both = async { tokio::join!(write, child.wait_with_output()).1 };
        let output = tokio::time::timeout(PLUGIN_WITHIN, both).await;
        let output = output.unwrap_or_else(|_| panic!("{args:?} did not end in time"));
        let output = output.expect("the output can be read");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("the plugin prints UTF-8");
        PluginOutput {
            out: text(output.stdout),
            err: text(output.stderr),
            code: output.status.code().unwrap_or(-1),
        }
    }

    /// Runs a command that must end with this code.
    async fn run_expecting(&self, code: i32, args: &[&str]) -> PluginOutput {
        let output = self.run(args).await;
        assert_eq!(output.code, code, "{args:?}\n{}{}", output.out, output.err);
        output
    }
}

/// Applies manifests as the administrator, as from a Git repository.
async fn apply(world: &World, manifests: &str) {
    let args = ["--namespace", &world.namespace, "apply", "-f", "-"];
    let applied = cluster().kubectl_with_input(&args, manifests).await;
    let error = String::from_utf8_lossy(&applied.stderr).into_owned();
    assert!(applied.status.success(), "{error}\n{manifests}");
}

/// The calls that changed something at the provider, as method and path.
async fn changing_calls(world: &World) -> Vec<String> {
    let ledger = world.simulator.ledger().await;
    let changing = ledger.iter().filter(|call| call["method"] != "GET");
    let shown = changing.map(|call| {
        let text = |field: &str| call[field].as_str().unwrap_or_default().to_owned();
        format!("{} {}", text("method"), text("path"))
    });
    shown.collect()
}
