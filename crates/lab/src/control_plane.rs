//! One control plane: etcd, kube-apiserver and kube-controller-manager on free
//! loopback ports, with RBAC on.

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
    folder::Folder,
    ports,
    programs::Programs,
    supervisor::{Supervisor, SupervisorError},
};

const ETCD: &str = "etcd";
const API_SERVER: &str = "kube-apiserver";
const CONTROLLER_MANAGER: &str = "kube-controller-manager";

/// Time from the first program to a ready control plane.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// How often to try: another process may take a port before the listener starts.
const STARTS: usize = 3;
const POLL: Duration = Duration::from_millis(25);
/// The API server lets open requests end; watches make that take seconds.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// What the user chose.
#[derive(Debug, Default)]
pub(crate) struct ControlPlaneSettings {
    /// New or empty; a temporary folder if absent.
    pub(crate) dir: Option<PathBuf>,
    /// Where the API server logs writes, if at all.
    pub(crate) audit_log: Option<PathBuf>,
    /// Where the programs' logs go; a folder in `dir` if absent.
    pub(crate) logs: Option<PathBuf>,
}

/// How to reach a running control plane: the line on standard output.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ControlPlaneAccess {
    /// Path of the administrator's kubeconfig.
    kubeconfig: PathBuf,
    /// `https://127.0.0.1:PORT`.
    server: String,
    /// The administrator's bearer token.
    token: String,
    /// PEM file with the authority of the serving certificate.
    ca_file: PathBuf,
    /// Path of a kubectl of the same version.
    kubectl: PathBuf,
    /// The process to send SIGTERM to.
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

/// Why there is no control plane.
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
    supervisor: Supervisor,
}

impl ControlPlane {
    /// Makes the folder and the credentials; starts nothing yet.
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
            }),
            Err(error) => {
                // The first failure is the one to report.
                let _ = folder.remove();
                Err(error)
            }
        }
    }

    /// Starts the programs and waits until the API server says ready and the
    /// controller manager works.
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

    /// Waits until one of the programs ends, which none should do.
    pub(crate) async fn first_failure(&mut self) -> ControlPlaneError {
        self.supervisor.first_end().await.into()
    }

    /// Names and process ids of the programs.
    pub(crate) fn processes(&self) -> Vec<(String, u32)> {
        self.supervisor.processes()
    }

    /// Ends the programs and removes the folder if we made it.
    pub(crate) async fn end(mut self) -> Result<(), ControlPlaneError> {
        match self.folder {
            // Nothing of it stays, so nothing has to be brought to a good end.
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

        self.supervisor.start(
            ETCD,
            &self.programs.etcd(),
            &flags::etcd(&self.etcd_data(), etcd, etcd_peer),
        )?;
        // The API server tries etcd only once a second, so let it succeed at once.
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

    /// Runs `step` against the deadline and against the end of any program.
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

/// Asks `/readyz` until it answers, with the same kubeconfig that users get.
async fn answers_ready(kubeconfig: PathBuf) -> Result<Client, ControlPlaneError> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    loop {
        // A new client each time: the certificate is only being created.
        if let Ok(client) = credentials::client(kubeconfig.clone()).await
            && let Ok(request) = http::Request::get("/readyz").body(Vec::new())
            && client.request_text(request).await.is_ok()
        {
            return Ok(client);
        }
        sleep(POLL).await;
    }
}

/// Waits for the first thing that only the controller manager makes.
async fn controllers_work(client: Client) {
    let accounts: Api<ServiceAccount> = Api::namespaced(client, "default");
    while !matches!(accounts.get_opt("default").await, Ok(Some(_))) {
        sleep(POLL).await;
    }
}
