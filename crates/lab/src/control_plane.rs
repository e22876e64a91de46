//! One control plane: etcd, kube-apiserver and kube-controller-manager on free loopback ports, with RBAC.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use k8s_openapi::api::core::v1::ServiceAccount;
use kube::config::Kubeconfig;
use kube::{Api, Client};
use serde::Serialize;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use crate::{
    credentials::{self, CredentialFiles, CredentialsError},
    flags,
    folder::{self, Folder},
    ports,
    programs::Programs,
    supervisor::{Supervisor, SupervisorError},
};

const ETCD: &str = "etcd";
const API_SERVER: &str = "kube-apiserver";
const CONTROLLER_MANAGER: &str = "kube-controller-manager";

/// Time limit from the first program to a ready control plane.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// Most start attempts, because another process may take a port first.
const STARTS: usize = 3;
const POLL: Duration = Duration::from_millis(25);
/// The API server waits for open requests, and watches make that take seconds.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// The settings of a control plane.
#[derive(Debug, Default)]
pub(crate) struct ControlPlaneSettings {
    /// A new or empty folder. None means a temporary folder.
    pub(crate) dir: Option<PathBuf>,
    /// Where the API server logs writes. None means no audit log.
    pub(crate) audit_log: Option<PathBuf>,
    /// A data folder of etcd to start with a copy of. None means an empty etcd.
    pub(crate) etcd_data: Option<PathBuf>,
    /// The folder of the programs' logs. None means a folder in `dir`.
    pub(crate) logs: Option<PathBuf>,
}

/// Address and credentials of a running control plane: the line on standard output.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ControlPlaneAccess {
    /// Path of the administrator's kubeconfig.
    kubeconfig: PathBuf,
    /// `https://127.0.0.1:PORT`.
    server: String,
    /// The administrator's bearer token.
    token: String,
    /// PEM file with the CA of the serving certificate.
    ca_file: PathBuf,
    /// Path of a kubectl of the same version.
    kubectl: PathBuf,
    /// The process that SIGTERM ends.
    pid: u32,
}

impl ControlPlaneAccess {
    pub(crate) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    pub(crate) fn server(&self) -> &str {
        &self.server
    }
}

/// Why the control plane does not run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ControlPlaneError {
    #[error("cannot use {path} for the control plane")]
    Folder {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    #[error("cannot find free ports on 127.0.0.1")]
    Ports(#[source] io::Error),
    #[error(transparent)]
    Program(#[from] SupervisorError),
    #[error("the control plane was not ready within {} s; its logs are in {logs}", READY_WITHIN.as_secs())]
    NotReady { logs: PathBuf },
    #[error("cannot read the control plane's own kubeconfig")]
    Kubeconfig(#[from] kube::config::KubeconfigError),
}

/// A control plane and everything that must be removed after it.
pub(crate) struct ControlPlane {
    folder: Folder,
    programs: Programs,
    credentials: CredentialFiles,
    audit_log: Option<PathBuf>,
    restored_data: Option<PathBuf>,
    supervisor: Supervisor,
}

impl ControlPlane {
    /// Creates the folder and the credentials, and starts nothing yet.
    pub(crate) fn prepare(
        settings: ControlPlaneSettings,
        programs: Programs,
    ) -> Result<Self, ControlPlaneError> {
        let wanted = settings.dir.clone().unwrap_or_else(std::env::temp_dir);
        let unusable = |source| ControlPlaneError::Folder {
            path: wanted.clone(),
            source,
        };
        let folder = Folder::open(settings.dir).map_err(unusable)?;
        let logs = settings.logs.unwrap_or_else(|| folder.path().join("logs"));
        let prepared = std::fs::create_dir_all(&logs)
            .and_then(|()| settings.audit_log.map(std::path::absolute).transpose())
            .map_err(unusable)
            .and_then(|audit_log| Ok((audit_log, CredentialFiles::create(folder.path())?)));
        match prepared {
            Ok((audit_log, credentials)) => Ok(Self {
                supervisor: Supervisor::new(logs),
                folder,
                programs,
                credentials,
                audit_log,
                restored_data: settings.etcd_data,
            }),
            Err(error) => {
                // The first failure is reported.
                let _ = folder.remove();
                Err(error)
            }
        }
    }

    /// Starts the programs, and waits until the API server is ready and the controller manager works.
    pub(crate) async fn start(&mut self) -> Result<ControlPlaneAccess, ControlPlaneError> {
        let mut attempt = 1;
        loop {
            match self.start_once().await {
                Err(ControlPlaneError::Program(SupervisorError::Ended { .. }))
                    if attempt < STARTS =>
                {
                    attempt += 1;
                    self.supervisor.kill_all().await;
                    self.clear_data()?;
                }
                other => return other,
            }
        }
    }

    /// Waits until one of the programs ends unexpectedly.
    pub(crate) async fn first_failure(&mut self) -> ControlPlaneError {
        self.supervisor.first_end().await.into()
    }

    /// Names and process IDs of the programs.
    pub(crate) fn processes(&self) -> Vec<(String, u32)> {
        self.supervisor.processes()
    }

    /// Ends the programs, and removes the folder if we created it.
    pub(crate) async fn end(mut self) -> Result<(), ControlPlaneError> {
        match self.folder {
            // The data is deleted, so a clean shutdown is not needed.
            Folder::Made(_) => self.supervisor.kill_all().await,
            Folder::Found(_) => {
                // etcd last: without it the API server cannot shut down cleanly.
                self.supervisor
                    .end(&[CONTROLLER_MANAGER, API_SERVER], STOP_TIMEOUT)
                    .await;
                self.supervisor.end(&[ETCD], STOP_TIMEOUT).await;
            }
        }
        self.folder
            .remove()
            .map_err(|source| ControlPlaneError::Folder {
                path: self.folder.path().to_owned(),
                source,
            })
    }

    async fn start_once(&mut self) -> Result<ControlPlaneAccess, ControlPlaneError> {
        let [etcd, etcd_peer, api_server] = ports::free().map_err(ControlPlaneError::Ports)?;
        let server = format!("https://127.0.0.1:{api_server}");
        self.credentials
            .write_kubeconfigs(&server)
            .map_err(CredentialsError::Write)?;

        if let Some(data) = &self.restored_data {
            folder::copy(data, &self.etcd_data()).map_err(|source| ControlPlaneError::Folder {
                path: data.clone(),
                source,
            })?;
        }
        self.supervisor.start(
            ETCD,
            &self.programs.etcd(),
            &flags::etcd(&self.etcd_data(), etcd, etcd_peer),
        )?;
        // The API server tries etcd only once per second, so etcd must be ready first.
        self.within_deadline(listens(etcd)).await?;
        self.supervisor.start(
            API_SERVER,
            &self.programs.kube_apiserver(),
            &flags::api_server(
                &self.credentials,
                self.audit_log.as_deref(),
                etcd,
                api_server,
            ),
        )?;
        let client = self
            .within_deadline(answers_ready(self.credentials.kubeconfig()))
            .await??;
        self.supervisor.start(
            CONTROLLER_MANAGER,
            &self.programs.kube_controller_manager(),
            &flags::controller_manager(&self.credentials),
        )?;
        self.within_deadline(controllers_work(client)).await?;
        Ok(ControlPlaneAccess {
            kubeconfig: self.credentials.kubeconfig(),
            server,
            token: self.credentials.admin_token().to_owned(),
            ca_file: self.credentials.certificate_authority(),
            kubectl: self.programs.kubectl(),
            pid: std::process::id(),
        })
    }

    /// Runs `step`, and fails at the deadline or when any program ends.
    async fn within_deadline<T>(
        &mut self,
        step: impl Future<Output = T>,
    ) -> Result<T, ControlPlaneError> {
        let logs = self.supervisor.logs().to_owned();
        tokio::select! {
            done = timeout(READY_WITHIN, step) => done.map_err(|_| ControlPlaneError::NotReady { logs }),
            failure = self.supervisor.first_end() => Err(failure.into()),
        }
    }

    fn clear_data(&self) -> Result<(), ControlPlaneError> {
        for path in [self.etcd_data(), self.credentials.certificate_folder()] {
            match std::fs::remove_dir_all(&path) {
                Err(source) if source.kind() != io::ErrorKind::NotFound => {
                    return Err(ControlPlaneError::Folder { path, source });
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn etcd_data(&self) -> PathBuf {
        self.folder.path().join("etcd")
    }
}

async fn listens(port: u16) {
    while TcpStream::connect(("127.0.0.1", port)).await.is_err() {
        sleep(POLL).await;
    }
}

/// Polls `/readyz` until it succeeds, with the users' kubeconfig.
async fn answers_ready(kubeconfig: PathBuf) -> Result<Client, ControlPlaneError> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    loop {
        // A new client each time, because the certificate may not exist yet.
        if let Ok(client) = credentials::client(kubeconfig.clone()).await
            && let Ok(request) = http::Request::get("/readyz").body(Vec::new())
            && client.request_text(request).await.is_ok()
        {
            return Ok(client);
        }
        sleep(POLL).await;
    }
}

/// Waits for the first object that only the controller manager creates.
async fn controllers_work(client: Client) {
    let accounts: Api<ServiceAccount> = Api::namespaced(client, "default");
    while !matches!(accounts.get_opt("default").await, Ok(Some(_))) {
        sleep(POLL).await;
    }
}
