//! The demo's folder: its state, its lock and its files.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::product::{PLUGIN, SimulatorAccess};

/// The absolute path of one demo's folder.
#[derive(Debug, Clone)]
pub(crate) struct DemoFolder {
    path: PathBuf,
}

/// A running demo: the content of `demo.json`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RunningDemo {
    /// Process ID of the daemon. SIGTERM to it ends the whole demo.
    pub(crate) pid: i32,
    /// Names and process IDs of all other processes.
    pub(crate) parts: Vec<(String, u32)>,
    /// Address of the API server.
    pub(crate) server: String,
    pub(crate) simulator: SimulatorAccess,
    /// URL of Prometheus, if it is installed.
    pub(crate) prometheus: Option<String>,
    /// The stamp of the running programs; see `Product::stamp`.
    pub(crate) stamp: String,
}

/// State of the folder.
#[derive(Debug)]
pub(crate) enum FolderState {
    /// No demo and no files of one.
    Absent,
    /// The daemon is starting or ending.
    Busy,
    /// A demo is up.
    Up(RunningDemo),
    /// The daemon is gone, and its files remain.
    Dead,
}

/// Why the folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FolderError {
    #[error("cannot use {path}")]
    Unusable {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{path} has files that are not of a demo; name another folder with --dir")]
    Foreign { path: PathBuf },
}

impl DemoFolder {
    pub(crate) fn at(path: &Path) -> Result<Self, FolderError> {
        match std::path::absolute(path) {
            Ok(path) => Ok(Self { path }),
            Err(source) => Err(FolderError::Unusable {
                path: path.to_owned(),
                source,
            }),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.path.join("kubeconfig")
    }

    pub(crate) fn kubectl(&self) -> PathBuf {
        self.path.join("bin").join("kubectl")
    }

    pub(crate) fn logs(&self) -> PathBuf {
        self.path.join("logs")
    }

    /// The daemon's own log.
    pub(crate) fn daemon_log(&self) -> PathBuf {
        self.logs().join("lab.log")
    }

    pub(crate) fn control_plane(&self) -> PathBuf {
        self.path.join("control-plane")
    }

    fn state(&self) -> PathBuf {
        self.path.join("demo.json")
    }

    /// The file with the daemon's process ID. The daemon locks it while it lives, because a process ID alone may be
    /// reused.
    fn lock(&self) -> PathBuf {
        self.path.join("lock")
    }

    /// Checks the state of the folder.
    pub(crate) fn check_state(&self) -> Result<FolderState, FolderError> {
        let Some(mut entries) = fs::read_dir(&self.path).ok() else {
            return Ok(FolderState::Absent);
        };
        let Ok(lock) = File::open(self.lock()) else {
            return match entries.next() {
                None => Ok(FolderState::Absent),
                Some(_) => Err(FolderError::Foreign {
                    path: self.path.clone(),
                }),
            };
        };
        // A shared lock, so that two observers do not mistake each other for a daemon.
        match lock.try_lock_shared() {
            Ok(()) => Ok(FolderState::Dead),
            Err(TryLockError::WouldBlock) => Ok(fs::read(self.state())
                .ok()
                .and_then(|text| serde_json::from_slice(&text).ok())
                .map_or(FolderState::Busy, FolderState::Up)),
            Err(TryLockError::Error(source)) => Err(self.unusable(source)),
        }
    }

    /// Creates the files that the daemon needs before it starts.
    pub(crate) fn prepare(&self) -> Result<(), FolderError> {
        fs::create_dir_all(self.logs())
            .and_then(|()| File::create(self.lock()))
            .map_err(|source| self.unusable(source))?;
        Ok(())
    }

    /// Locks the folder for this daemon. `None` if another one has the lock.
    pub(crate) fn acquire_lock(&self) -> Result<Option<File>, FolderError> {
        let mut lock = fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(self.lock())
            .map_err(|source| self.unusable(source))?;
        match lock.try_lock() {
            Ok(()) => {
                lock.set_len(0)
                    .and_then(|()| write!(lock, "{}", std::process::id()))
                    .map_err(|source| self.unusable(source))?;
                Ok(Some(lock))
            }
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(source)) => Err(self.unusable(source)),
        }
    }

    /// The process ID in the lock file. Valid while the file is locked.
    pub(crate) fn daemon_pid(&self) -> Option<i32> {
        fs::read_to_string(self.lock()).ok()?.parse().ok()
    }

    /// Records that the demo is up, atomically.
    pub(crate) fn write(&self, state: &RunningDemo) -> Result<(), FolderError> {
        let partial = self.path.join("demo.json.partial");
        let text = serde_json::to_vec_pretty(state).unwrap_or_default();
        // It contains the simulator's key.
        fs::write(&partial, text)
            .and_then(|()| fs::rename(&partial, self.state()))
            .map_err(|source| self.unusable(source))
    }

    /// Records that it is no longer up.
    pub(crate) fn remove_state(&self) {
        // The file is missing if the demo was never up.
        let _ = fs::remove_file(self.state());
    }

    /// The demo's own SSH key. The public half is in the `.pub` file next to it.
    pub(crate) fn ssh_key(&self) -> PathBuf {
        self.path.join("ssh-key")
    }

    /// The file that a shell sources to use the demo.
    pub(crate) fn env(&self) -> PathBuf {
        self.path.join("env")
    }

    /// Writes the file that a shell sources to use the demo.
    pub(crate) fn write_env(&self, demo: &RunningDemo) -> Result<(), FolderError> {
        let quoted =
            |path: &Path| format!("'{}'", path.display().to_string().replace('\'', r"'\''"));
        let text = format!(
            "# Sets kubectl and its plugin for the demo's cluster and namespace demo, and the URLs of the simulator's\n\
             # control port and of Prometheus, if it is installed.\n\
             export KUBECONFIG={}\n\
             export PATH={}:\"$PATH\"\n\
             export SIMULATOR={}\n\
             export PROMETHEUS_URL={}\n",
            quoted(&self.kubeconfig()),
            quoted(&self.path.join("bin")),
            demo.simulator.control,
            demo.prometheus.as_deref().unwrap_or_default(),
        );
        fs::write(self.env(), text).map_err(|source| self.unusable(source))
    }

    /// Links kubeconfig, kubectl and its plugin at their documented paths.
    pub(crate) fn link(
        &self,
        kubeconfig: &Path,
        kubectl: &Path,
        plugin: &Path,
    ) -> Result<(), FolderError> {
        let bin = self.path.join("bin");
        fs::create_dir_all(&bin)
            .and_then(|()| std::os::unix::fs::symlink(kubectl, self.kubectl()))
            .and_then(|()| std::os::unix::fs::symlink(plugin, bin.join(PLUGIN)))
            .and_then(|()| std::os::unix::fs::symlink(kubeconfig, self.kubeconfig()))
            .map_err(|source| self.unusable(source))
    }

    /// Removes the folder. Call it only for a demo's folder without a daemon.
    pub(crate) fn remove(&self) -> Result<(), FolderError> {
        match fs::remove_dir_all(&self.path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => Err(self.unusable(source)),
            _ => Ok(()),
        }
    }

    fn unusable(&self, source: io::Error) -> FolderError {
        FolderError::Unusable {
            path: self.path.clone(),
            source,
        }
    }
}
