//! The Kubernetes control plane that tests use.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::api::{ObjectMeta, PostParams};
use kube::config::{AuthInfo, Kubeconfig};
use kube::{Api, Client};
use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;
use tokio::io::AsyncWriteExt;
use tokio::sync::OnceCell;

use super::{eventually, install_kinds, program};
use crate::{credentials, folder};

/// Time limit of one kubectl command, including `kubectl wait`.
const KUBECTL_WITHIN: Duration = Duration::from_secs(180);

/// Time limit for a stopped etcd to stand still.
const STOP_WITHIN: Duration = Duration::from_secs(10);

/// The control plane of this test run, started at the first call. It ends when this process ends and closes the pipe.
///
/// # Panics
/// If it cannot be started; the message has the remedy.
pub fn cluster() -> &'static Cluster {
    static CLUSTER: OnceLock<Result<Cluster, String>> = OnceLock::new();
    match CLUSTER.get_or_init(|| Cluster::start(&[])) {
        Ok(cluster) => cluster,
        Err(sentence) => panic!("{sentence}"),
    }
}

/// A running control plane. Dropping it ends it and waits for the end.
pub struct Cluster {
    access: ClusterAccess,
    lab: Child,
    /// Closing it ends the control plane.
    pipe: Option<ChildStdin>,
    /// Whether our CRDs are installed.
    kinds: OnceCell<()>,
}

/// The line that `lab control-plane` prints.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterAccess {
    /// The administrator's kubeconfig.
    pub kubeconfig: PathBuf,
    /// `https://127.0.0.1:PORT`.
    pub server: String,
    /// The administrator's bearer token.
    pub token: String,
    /// The CA of the serving certificate, PEM.
    pub ca_file: PathBuf,
    /// A kubectl of the server's version.
    pub kubectl: PathBuf,
    /// The process ID of the lab.
    pub pid: i32,
}

impl Cluster {
    /// A control plane for one test only, for tests that delete CRDs or change other shared things.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn own() -> Self {
        Self::start(&[]).unwrap_or_else(|sentence| panic!("{sentence}"))
    }

    /// Like [`Cluster::own`], and logs every write to `audit_log`, one JSON object per line.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn own_with_audit_log(audit_log: &Path) -> Self {
        let audit_log = audit_log.to_str().expect("the path is UTF-8");
        Self::start(&["--audit-log", audit_log]).unwrap_or_else(|sentence| panic!("{sentence}"))
    }

    /// Like [`Cluster::own`], with the objects of a folder that [`Cluster::copy_etcd_data`] wrote: a restored etcd.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn own_restored(etcd_data: &Path) -> Self {
        let etcd_data = etcd_data.to_str().expect("the path is UTF-8");
        Self::start(&["--etcd-data", etcd_data]).unwrap_or_else(|sentence| panic!("{sentence}"))
    }

    /// Copies etcd's data folder to `to`, as it is at this moment: etcd stands still meanwhile.
    ///
    /// # Panics
    /// If there is no etcd, or its data cannot be copied.
    pub async fn copy_etcd_data(&self, to: &Path) {
        let etcd = self.find_etcd().expect("etcd runs");
        kill_process(etcd, Signal::STOP).expect("etcd can be stopped");
        eventually("etcd stands still", STOP_WITHIN, async || {
            let (_, state, _) = read_process(etcd)?;
            (state == "T").then_some(())
        })
        .await;
        let data = self.access.kubeconfig.with_file_name("etcd");
        let copied = folder::copy(&data, to);
        kill_process(etcd, Signal::CONT).expect("etcd can continue");
        copied.expect("the data can be copied");
    }

    /// The process of etcd, which the lab started.
    fn find_etcd(&self) -> Option<Pid> {
        let processes = Path::new("/proc").read_dir().expect("a list of processes");
        let mut pids = processes.filter_map(|process| {
            let number = process.ok()?.file_name().to_str()?.parse().ok()?;
            Pid::from_raw(number)
        });
        pids.find(|pid| {
            read_process(*pid).is_some_and(|(name, _, parent)| {
                name == "etcd" && parent == self.access.pid.to_string()
            })
        })
    }

    fn start(arguments: &[&str]) -> Result<Self, String> {
        let program = program("lab");
        let mut lab = Command::new(&program)
            .arg("control-plane")
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| {
                format!(
                    "cannot start {}: {error}; run `cargo build --workspace --bins` first",
                    program.display()
                )
            })?;
        let pipe = lab.stdin.take();
        let mut line = String::new();
        // This read ends, because the lab ends if the control plane is not ready in time.
        let read = lab
            .stdout
            .take()
            .map(|out| BufReader::new(out).read_line(&mut line));
        match serde_json::from_str(&line) {
            Ok(access) => Ok(Self {
                access,
                lab,
                pipe,
                kinds: OnceCell::new(),
            }),
            Err(_) => {
                drop(pipe);
                let status = lab.wait();
                Err(format!(
                    "no control plane: `lab control-plane` says why above (status {status:?}, read {read:?}); \
                     `make control-plane` builds the programs"
                ))
            }
        }
    }

    /// Address, token and paths, for a program that uses the cluster.
    pub fn access(&self) -> &ClusterAccess {
        &self.access
    }

    /// Installs our CRDs once. They are much work for the API server, and most tests share one.
    pub(super) async fn install_kinds_once(&self, client: &Client) {
        self.kinds.get_or_init(|| install_kinds(client)).await;
    }

    /// The administrator's client. Create one in every test, because a client belongs to the test's runtime.
    pub async fn client(&self) -> Client {
        Self::client_of(self.kubeconfig_with(|_| ())).await
    }

    /// A client that uses `token`, such as one of `kubectl create token`.
    pub async fn client_with_token(&self, token: &str) -> Client {
        Self::client_of(self.kubeconfig_with_token(token)).await
    }

    /// A client of the administrator who acts as this user, like `kubectl --as`.
    pub async fn client_as(&self, user: &str) -> Client {
        let kubeconfig = self.kubeconfig_with(|auth| auth.impersonate = Some(user.to_owned()));
        Self::client_of(kubeconfig).await
    }

    /// A kubeconfig that uses `token`. Serialise it for another process.
    pub fn kubeconfig_with_token(&self, token: &str) -> Kubeconfig {
        self.kubeconfig_with(|auth| auth.token = Some(token.to_owned().into()))
    }

    /// The administrator's kubeconfig with this change of the credentials.
    fn kubeconfig_with(&self, change: impl Fn(&mut AuthInfo)) -> Kubeconfig {
        let mut kubeconfig =
            Kubeconfig::read_from(&self.access.kubeconfig).expect("the kubeconfig can be read");
        for user in &mut kubeconfig.auth_infos {
            change(user.auth_info.get_or_insert_default());
        }
        kubeconfig
    }

    async fn client_of(kubeconfig: Kubeconfig) -> Client {
        let client = credentials::client(kubeconfig).await;
        client.expect("the kubeconfig is complete and the API server's certificate can be used")
    }

    /// Runs the real kubectl as administrator.
    pub async fn kubectl(&self, args: &[&str]) -> Output {
        self.kubectl_with_input(args, "").await
    }

    /// Runs kubectl with `input`, for `apply -f -`.
    ///
    /// # Panics
    /// If it does not end in time.
    pub async fn kubectl_with_input(&self, args: &[&str], input: &str) -> Output {
        let cache = self.access.kubeconfig.with_file_name("kubectl-cache");
        let mut child = tokio::process::Command::new(&self.access.kubectl)
            // Uses neither the user's clusters nor the user's cache.
            .arg("--kubeconfig")
            .arg(&self.access.kubeconfig)
            .arg("--cache-dir")
            .arg(cache)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("kubectl can be started");
        let mut stdin = child.stdin.take().expect("the pipe was asked for");
        // Concurrently, because a large input and a full output pipe would block each other.
        let write = async move {
            // kubectl may end without reading everything, and prints the reason itself.
            let _ = stdin.write_all(input.as_bytes()).await;
        };
        let both = async { tokio::join!(write, child.wait_with_output()).1 };
        match tokio::time::timeout(KUBECTL_WITHIN, both).await {
            Ok(output) => output.expect("kubectl's output can be read"),
            Err(_) => panic!(
                "kubectl {args:?} did not end within {} s",
                KUBECTL_WITHIN.as_secs()
            ),
        }
    }

    /// Runs kubectl and returns what it printed.
    ///
    /// # Panics
    /// If kubectl fails, with its messages.
    pub async fn kubectl_ok(&self, args: &[&str]) -> String {
        let output = self.kubectl(args).await;
        assert!(
            output.status.success(),
            "kubectl {args:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).expect("kubectl prints UTF-8")
    }

    /// Creates a namespace `<prefix>-<random>` and returns its name.
    pub async fn namespace(&self, prefix: &str) -> String {
        let metadata = ObjectMeta {
            generate_name: Some(format!("{prefix}-")),
            ..ObjectMeta::default()
        };
        let namespace = Namespace {
            metadata,
            ..Namespace::default()
        };
        let namespaces: Api<Namespace> = Api::all(self.client().await);
        let made = namespaces
            .create(&PostParams::default(), &namespace)
            .await
            .expect("a namespace can be made");
        made.metadata.name.expect("the API server has named it")
    }
}

/// Name, state and parent of a process.
fn read_process(pid: Pid) -> Option<(String, String, String)> {
    let line = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    let (name, rest) = line.split_once('(')?.1.rsplit_once(") ")?;
    let mut rest = rest.split(' ').map(str::to_owned);
    Some((name.to_owned(), rest.next()?, rest.next()?))
}

impl Drop for Cluster {
    fn drop(&mut self) {
        drop(self.pipe.take());
        // The lab ends its children within its own deadlines.
        let _ = self.lab.wait();
    }
}
