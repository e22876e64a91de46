//! The four programs of a control plane: from `KUBEBUILDER_ASSETS`, from the cache, or built once from their Go
//! modules. `KUBEBUILDER_ASSETS` may lack those that envtest does not have; only they are built then.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use sha2::{Digest, Sha256};
use tokio::time::Instant;

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
    let assets = std::env::var_os("KUBEBUILDER_ASSETS").filter(|path| !path.is_empty());
    if let Some(programs) = assets
        .as_ref()
        .and_then(|path| Programs::in_folder(path.into()))
    {
        return Ok(programs);
    }
    let build = Build {
        version: kubernetes_version().ok_or(ProgramsError::NoVersion)?,
        cache: cache_folder().ok_or(ProgramsError::NoCache)?,
    };
    if let Some(assets) = assets.map(PathBuf::from) {
        match build.check_assets(&assets) {
            Ok(version) => return build.complete_assets(&assets, &version).await,
            Err(reason) => print_message(&format!(
                "KUBEBUILDER_ASSETS={} is not used: {reason}",
                assets.display()
            )),
        }
    }
    build.programs_in(build.folder(), None).await
}

/// What is built, and where it is kept.
struct Build {
    /// Of Kubernetes, such as `v1.36.3`.
    version: &'static str,
    cache: PathBuf,
}

impl Build {
    /// The folder of a build of all programs.
    fn folder(&self) -> PathBuf {
        self.cache
            .join(format!("{}-{}", self.version, short_digest(&[GO_SUM])))
    }

    /// The version of the kube-apiserver in this folder, or why it cannot be used with our other programs.
    fn check_assets(&self, assets: &Path) -> Result<String, String> {
        for name in ["etcd", "kube-apiserver"] {
            if !assets.join(name).is_file() {
                return Err(format!("it has no {name}"));
            }
        }
        let output = Command::new(assets.join("kube-apiserver"))
            .arg("--version")
            .stdin(Stdio::null())
            .output()
            .map_err(|error| format!("its kube-apiserver cannot be started: {error}"))?;
        let printed = String::from_utf8_lossy(&output.stdout);
        let found = printed.trim().trim_start_matches("Kubernetes ");
        // A controller manager must not be newer than its API server.
        let (minor, _) = self.version.rsplit_once('.').unwrap_or_default();
        if found.starts_with(&format!("{minor}.")) {
            Ok(found.to_owned())
        } else {
            Err(format!(
                "its kube-apiserver is {found}, and the other programs need {minor}"
            ))
        }
    }

    /// Links the programs of `assets` into a folder of the cache, next to those that `assets` lacks.
    async fn complete_assets(
        &self,
        assets: &Path,
        version: &str,
    ) -> Result<Programs, ProgramsError> {
        let unusable = |source| ProgramsError::Folder {
            path: assets.to_owned(),
            source,
        };
        let assets = assets.canonicalize().map_err(unusable)?;
        let key = short_digest(&[&assets.to_string_lossy(), version, GO_SUM]);
        let folder = self.cache.join(format!("assets-{}-{key}", self.version));
        self.programs_in(folder, Some(&assets)).await
    }

    /// The programs in this folder of the cache, which is made first if it does not exist.
    async fn programs_in(
        &self,
        folder: PathBuf,
        assets: Option<&Path>,
    ) -> Result<Programs, ProgramsError> {
        if let Some(programs) = Programs::in_folder(folder.clone()) {
            return Ok(programs);
        }
        let unusable = |source| ProgramsError::Folder {
            path: self.cache.clone(),
            source,
        };
        fs::create_dir_all(&self.cache).map_err(unusable)?;
        let lock = File::create(folder.with_added_extension("lock")).map_err(unusable)?;
        // Locked until the end of this function. The kernel unlocks it if we are killed.
        lock.lock().map_err(unusable)?;
        if let Some(programs) = Programs::in_folder(folder.clone()) {
            return Ok(programs);
        }
        let partial = folder.with_added_extension("partial");
        // Both exist here only if an earlier build was interrupted, or if the assets are gone.
        remove(&partial)
            .and_then(|()| remove(&folder))
            .and_then(|()| fs::create_dir(&partial))
            .map_err(unusable)?;
        let complete_build = Programs::in_folder(self.folder()).map(|programs| programs.folder);
        let mut missing = Vec::new();
        for name in NAMES {
            let folders = [assets, complete_build.as_deref()].into_iter().flatten();
            let mut paths = folders.map(|folder| folder.join(name));
            match paths.find(|path| path.is_file()) {
                Some(path) => {
                    std::os::unix::fs::symlink(path, partial.join(name)).map_err(unusable)?;
                }
                None => missing.push(name),
            }
        }
        if !missing.is_empty() {
            self.build_programs(&missing, &partial).await?;
        }
        // The rename is atomic, so a partial build is never used.
        fs::rename(partial, &folder).map_err(unusable)?;
        Ok(Programs { folder })
    }

    async fn build_programs(&self, names: &[&str], into: &Path) -> Result<(), ProgramsError> {
        let (programs, began) = (names.join(", "), Instant::now());
        print_message(&format!(
            "building {programs} (Kubernetes {}), once on this computer: up to 5 minutes on two cores ...",
            self.version
        ));
        go_build(names, into, self.version).await?;
        if names.contains(&"etcd") {
            // etcd's main package is `server`, but the program's usual name is `etcd`.
            fs::rename(into.join("server"), into.join("etcd")).map_err(|source| {
                ProgramsError::Folder {
                    path: into.to_owned(),
                    source,
                }
            })?;
        }
        print_message(&format!("built {programs} in {}", took(began.elapsed())));
        Ok(())
    }
}

/// A duration for users, such as `3 min 10 s`.
fn took(duration: Duration) -> String {
    let seconds = duration.as_secs();
    format!("{} min {:02} s", seconds / 60, seconds % 60)
}

fn remove(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

async fn go_build(names: &[&str], into: &Path, version: &str) -> Result<(), ProgramsError> {
    let mut into = into.as_os_str().to_owned();
    into.push("/");
    // Both compile faster: no debug symbols, and no inlining where the API server, which must be fast, is not built.
    let flags = if names.contains(&"kube-apiserver") {
        "-gcflags=all=-dwarf=false"
    } else {
        "-gcflags=all=-dwarf=false -l"
    };
    let packages = names.iter().map(|name| match *name {
        "etcd" => "go.etcd.io/etcd/server/v3".to_owned(),
        name => format!("k8s.io/kubernetes/cmd/{name}"),
    });
    let status = tokio::process::Command::new("go")
        // The flags of demo.sh, which compiles the packages first.
        .args(["build", "-mod=readonly", "-trimpath", flags])
        .args(["-ldflags", &linker_flags(version), "-o"])
        .arg(into)
        .args(packages)
        .current_dir(MODULE_FOLDER)
        // Needs no C compiler, and ignores a Go workspace of the user.
        .env("CGO_ENABLED", "0")
        .env("GOWORK", "off")
        // A compiler that collects less garbage takes a fifth less time.
        .env("GOGC", "400")
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

/// The first 12 digits of the SHA-256 digest of these texts.
fn short_digest(texts: &[&str]) -> String {
    let digest = Sha256::digest(texts.join("\0"));
    let digits = digest[..6].iter();
    digits.map(|byte| format!("{byte:02x}")).collect()
}

fn print_message(text: &str) {
    let _ = writeln!(io::stderr(), "lab: {text}");
}
