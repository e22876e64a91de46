//! The four programs of a control plane: from `KUBEBUILDER_ASSETS`, from the cache, or built once from their Go
//! modules.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use sha2::{Digest, Sha256};

/// The versions of the programs. They are part of the cache folder's name.
const GO_MOD: &str = include_str!("../control-plane/go.mod");
const GO_SUM: &str = include_str!("../control-plane/go.sum");
const MODULE_FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/control-plane");
const NAMES: [&str; 4] = [
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kubectl",
];

/// A folder with all four programs.
#[derive(Debug, Clone)]
pub(crate) struct Programs {
    folder: PathBuf,
}

/// Why the programs are missing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProgramsError {
    #[error(
        "Go 1.26 or later is needed once to build the Kubernetes control plane and was not found: install it \
         (https://go.dev/dl), or set KUBEBUILDER_ASSETS to a folder that holds etcd, kube-apiserver, \
         kube-controller-manager and kubectl"
    )]
    NoGo(#[source] io::Error),
    #[error(
        "`go build` of the Kubernetes control plane failed in {MODULE_FOLDER} ({status}); its messages are above: \
         check the network and `go version` (1.26 or later), then run `make control-plane` again"
    )]
    Build { status: std::process::ExitStatus },
    #[error(
        "neither XDG_CACHE_HOME nor HOME is set, so there is no place to keep the control plane: set one of them"
    )]
    NoCache,
    #[error(
        "crates/lab/control-plane/go.mod names no version of k8s.io/kubernetes: restore the file"
    )]
    NoVersion,
    #[error("cannot use {path}: make it writable or set XDG_CACHE_HOME to another folder")]
    Folder {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

impl Programs {
    /// The folder, which has every program with its usual name.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn etcd(&self) -> PathBuf {
        self.folder.join("etcd")
    }

    pub(crate) fn kube_apiserver(&self) -> PathBuf {
        self.folder.join("kube-apiserver")
    }

    pub(crate) fn kube_controller_manager(&self) -> PathBuf {
        self.folder.join("kube-controller-manager")
    }

    pub(crate) fn kubectl(&self) -> PathBuf {
        self.folder.join("kubectl")
    }

    fn in_folder(folder: PathBuf) -> Option<Self> {
        NAMES
            .iter()
            .all(|name| folder.join(name).is_file())
            .then_some(Self { folder })
    }
}

/// Finds the programs, or builds them, which takes about five minutes on two cores.
/// A second process that needs them waits for the first one's build.
pub(crate) async fn find_or_build() -> Result<Programs, ProgramsError> {
    if let Some(programs) =
        std::env::var_os("KUBEBUILDER_ASSETS").and_then(|path| Programs::in_folder(path.into()))
    {
        return Ok(programs);
    }
    let version = kubernetes_version().ok_or(ProgramsError::NoVersion)?;
    let cache = cache_folder().ok_or(ProgramsError::NoCache)?;
    let folder = cache.join(format!("{version}-{}", &hex(&Sha256::digest(GO_SUM))[..12]));
    if let Some(programs) = Programs::in_folder(folder.clone()) {
        return Ok(programs);
    }
    build_into(&cache, &folder, version).await?;
    Ok(Programs { folder })
}

async fn build_into(cache: &Path, folder: &Path, version: &str) -> Result<(), ProgramsError> {
    let unusable = |source| ProgramsError::Folder {
        path: cache.to_owned(),
        source,
    };
    fs::create_dir_all(cache).map_err(unusable)?;
    let lock = File::create(folder.with_added_extension("lock")).map_err(unusable)?;
    // Locked until the end of this function. The kernel unlocks it if we are killed.
    lock.lock().map_err(unusable)?;
    if Programs::in_folder(folder.to_owned()).is_some() {
        return Ok(());
    }
    print_message(&format!(
        "building the Kubernetes {version} control plane, once on this computer (about 5 minutes) ..."
    ));
    let partial = folder.with_added_extension("partial");
    // Both exist here only if an earlier build was interrupted.
    remove(&partial)
        .and_then(|()| remove(folder))
        .map_err(unusable)?;
    fs::create_dir(&partial).map_err(unusable)?;
    go_build(&partial, version).await?;
    // etcd's main package is `server`, but the program's usual name is `etcd`.
    fs::rename(partial.join("server"), partial.join("etcd")).map_err(unusable)?;
    // The rename is atomic, so a partial build is never used.
    fs::rename(partial, folder).map_err(unusable)
}

fn remove(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

async fn go_build(into: &Path, version: &str) -> Result<(), ProgramsError> {
    let mut into = into.as_os_str().to_owned();
    into.push("/");
    let status = tokio::process::Command::new("go")
        .args(["build", "-mod=readonly", "-trimpath", "-ldflags", &linker_flags(version), "-o"])
        .arg(into)
        .arg("tool")
        .current_dir(MODULE_FOLDER)
        // Needs no C compiler, and ignores a Go workspace of the user.
        .env("CGO_ENABLED", "0")
        .env("GOWORK", "off")
        .stdin(Stdio::null())
        // Standard output is only for our result.
        .stdout(Stdio::null())
        .kill_on_drop(true)
        .status()
        .await
        .map_err(ProgramsError::NoGo)?;
    if status.success() {
        Ok(())
    } else {
        Err(ProgramsError::Build { status })
    }
}

/// Sets the version, because clients that check it (Helm's `kubeVersion`) reject the default v0.0.0.
/// Also strips debug symbols.
fn linker_flags(version: &str) -> String {
    let mut parts = version.trim_start_matches('v').split('.');
    let (major, minor) = (
        parts.next().unwrap_or_default(),
        parts.next().unwrap_or_default(),
    );
    let package = "k8s.io/component-base/version";
    format!(
        "-s -w -X {package}.gitVersion={version} -X {package}.gitMajor={major} -X {package}.gitMinor={minor} \
         -X {package}.gitTreeState=clean"
    )
}

/// The version of `k8s.io/kubernetes` in go.mod, such as `v1.36.3`.
fn kubernetes_version() -> Option<&'static str> {
    GO_MOD
        .lines()
        .find_map(|line| line.trim().strip_prefix("k8s.io/kubernetes "))
}

fn cache_folder() -> Option<PathBuf> {
    let set = |name| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let base = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")))?;
    Some(base.join("flexmetal-operator").join("control-plane"))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn print_message(text: &str) {
    let _ = writeln!(io::stderr(), "lab: {text}");
}
