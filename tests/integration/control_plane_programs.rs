//! Where the laboratory gets etcd and kube-apiserver from, with a `go` that only writes down what it would build.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use lab::rig::program;

const GO_MOD: &str = include_str!("../../crates/lab/control-plane/go.mod");
/// Creates the programs of the packages that follow `-o FOLDER/`, and counts itself.
const GO: &str = r#"echo run >>"$GO_RUNS"
while [ $# -gt 0 ] && [ "$1" != -o ]; do shift; done
[ $# -gt 0 ] || exit 0
into="$2"
shift 2
for package; do
  name="${package##*/}"
  if [ "$name" = v3 ]; then name=server; fi
  echo new >"$into$name"
done"#;

/// A computer without a control plane.
struct Computer {
    folder: tempfile::TempDir,
}

impl Computer {
    fn new() -> Self {
        let this = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        this.write_script("bin/go", GO);
        this
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write_script(&self, name: &str, lines: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, format!("#!/bin/sh\n{lines}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// What envtest has: no kube-controller-manager.
    fn install_assets(&self, version: &str) -> PathBuf {
        let api_server = format!("echo Kubernetes {version}");
        self.write_script("assets/kube-apiserver", &api_server);
        self.write_script("assets/etcd", "exit 0");
        self.write_script("assets/kubectl", "exit 0");
        self.path("assets")
    }

    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .env_remove("KUBEBUILDER_ASSETS")
            .env("XDG_CACHE_HOME", self.path("cache"))
            .env("GO_RUNS", self.path("go-runs"))
            .env(
                "PATH",
                format!("{}:/usr/bin:/bin", self.path("bin").display()),
            );
        command
    }

    /// Runs `lab build`, and returns the folder of the programs and the messages.
    fn build(&self, assets: &Path) -> (PathBuf, String) {
        let mut command = self.command(program("lab"));
        let output = command.arg("build").env("KUBEBUILDER_ASSETS", assets);
        let (printed, messages) = read_output(&output.output().unwrap());
        (printed.trim().into(), messages)
    }

    fn go_runs(&self) -> usize {
        let runs = fs::read_to_string(self.path("go-runs")).unwrap_or_default();
        runs.lines().count()
    }
}

fn read_output(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (printed, messages) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{printed}\n{messages}");
    (printed, messages)
}

/// Version and minor version of Kubernetes, such as `v1.36.3` and `v1.36`.
fn kubernetes() -> (&'static str, &'static str) {
    let mut lines = GO_MOD.lines().map(str::trim);
    let version = lines.find_map(|line| line.strip_prefix("k8s.io/kubernetes "));
    let version = version.unwrap();
    (version, version.rsplit_once('.').unwrap().0)
}

fn is_built(folder: &Path, name: &str) -> bool {
    fs::read_to_string(folder.join(name)).unwrap() == "new\n"
}

#[test]
fn envtest_assets_lack_only_the_controller_manager() {
    let computer = Computer::new();
    let assets = computer.install_assets(&format!("{}.99", kubernetes().1));

    let (folder, messages) = computer.build(&assets);

    for name in ["etcd", "kube-apiserver", "kubectl"] {
        let used = folder.join(name).canonicalize().unwrap();
        let given = assets.join(name).canonicalize().unwrap();
        assert_eq!(used, given);
    }
    assert!(is_built(&folder, "kube-controller-manager"));
    assert!(
        messages.contains("built kube-controller-manager in 0 min"),
        "{messages}"
    );

    let (again, messages) = computer.build(&assets);
    assert_eq!((again, messages.as_str()), (folder, ""));
    assert_eq!(computer.go_runs(), 1, "the second time nothing is built");
}

#[test]
fn unfit_assets_are_explained_and_not_used() {
    let (_, minor) = kubernetes();
    let needed = format!("its kube-apiserver is v1.31.0, and the other programs need {minor}");
    for (version, missing, reason) in [
        ("v1.31.0", None, needed.as_str()),
        ("v1.31.0", Some("etcd"), "it has no etcd"),
        (
            "v1.31.0",
            Some("kube-apiserver"),
            "it has no kube-apiserver",
        ),
    ] {
        let computer = Computer::new();
        let assets = computer.install_assets(version);
        if let Some(name) = missing {
            fs::remove_file(assets.join(name)).unwrap();
        }

        let (folder, messages) = computer.build(&assets);

        let explained = format!(
            "KUBEBUILDER_ASSETS={} is not used: {reason}",
            assets.display()
        );
        assert!(messages.contains(&explained), "{messages}");
        for name in [
            "etcd",
            "kube-apiserver",
            "kube-controller-manager",
            "kubectl",
        ] {
            assert!(is_built(&folder, name), "{name}");
        }
    }
}

/// Runs the script of `make demo` with programs that only print, and returns what it prints.
fn run_demo_script(computer: &Computer, assets: Option<&Path>) -> String {
    computer.write_script(
        "lab",
        r#"echo "lab $* with ${KUBEBUILDER_ASSETS:-nothing}""#,
    );
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/crates/lab/demo.sh");
    let mut command = computer.command(script);
    if let Some(assets) = assets {
        command.env("KUBEBUILDER_ASSETS", assets);
    }
    let command = command.arg(computer.path("lab"));
    read_output(&command.args(["echo", "cargo"]).output().unwrap()).0
}

#[test]
fn demo_says_first_what_it_builds() {
    let (version, minor) = kubernetes();
    let fitting = format!("{minor}.99");
    let position = |printed: &str, text: &str| {
        let found = printed.find(text);
        found.unwrap_or_else(|| panic!("no {text}: {printed}"))
    };

    let computer = Computer::new();
    let printed = run_demo_script(&computer, None);
    let all = format!("etcd and Kubernetes {version} are built");
    assert!(position(&printed, &all) < position(&printed, "cargo"));
    assert!(position(&printed, "cargo") < position(&printed, "Rust programs built in"));
    assert!(position(&printed, "Control plane compiled in") < position(&printed, "lab demo up"));

    let assets = computer.install_assets(&fitting);
    let printed = run_demo_script(&computer, Some(&assets));
    let part = format!("of KUBEBUILDER_ASSETS, and kube-controller-manager {version} is built");
    assert!(position(&printed, &part) < position(&printed, "cargo"));

    let (selector, folder) = (&minor[1..], assets.display());
    let envtest = format!(r#"[ "$*" = "use --print path {selector}.x" ] && echo {folder}"#);
    computer.write_script("bin/setup-envtest", &envtest);
    let printed = run_demo_script(&computer, None);
    assert!(position(&printed, "those of setup-envtest") < position(&printed, "cargo"));
    position(&printed, &format!("lab demo up with {folder}"));

    let unfit = computer.install_assets("v1.31.0");
    let printed = run_demo_script(&computer, Some(&unfit));
    assert!(position(&printed, "KUBEBUILDER_ASSETS is not used") < position(&printed, "cargo"));
    position(&printed, "setup-envtest has none");
}
