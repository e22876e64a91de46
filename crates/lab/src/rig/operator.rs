//! The operator as a process.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use super::{program as built, program::Program};
use rustix::process::Signal;

/// Time limit of a graceful shutdown: the timeout of an order and some seconds.
const END_WITHIN: Duration = Duration::from_secs(20);

/// Time limit of a scrape.
const SCRAPE_WITHIN: Duration = Duration::from_secs(10);

/// The start options of an operator.
#[derive(Clone)]
pub struct Start {
    /// Kubeconfig of its cluster.
    pub kubeconfig: PathBuf,
    /// Its own namespace.
    pub namespace: String,
    /// The namespaces that it watches. Empty means all.
    pub watched: Vec<String>,
    /// The cluster ID, 16 hex digits.
    pub cluster_id: String,
    /// The URLs that keys may be sent to.
    pub allowed: Vec<String>,
    /// Whether intervals below their minima are accepted.
    pub short_intervals: bool,
    /// Name of its pod. With the same name, a restart does not wait for the old process's lease to expire.
    pub pod: String,
    /// Further flags.
    pub flags: Vec<String>,
    /// Further environment variables.
    pub environment: Vec<(&'static str, String)>,
    /// Its log filter, as in `RUST_LOG`. `None` means `OPERATOR_LOG` or the default.
    pub log: Option<&'static str>,
}

/// An operator process. Dropping it kills it.
pub struct Operator {
    start: Start,
    log: PathBuf,
    program: Program,
}

impl Operator {
    /// Starts an operator that appends its output to `log`.
    pub fn start(start: Start, log: &Path) -> Self {
        let program = launch(&start, log);
        Self {
            start,
            log: log.to_owned(),
            program,
        }
    }

    /// Kills the process if it still runs, and starts it again with the same arguments.
    pub fn restart(&mut self) {
        self.program.kill9();
        self.program = launch(&self.start, &self.log);
    }

    /// Kills the process with SIGKILL.
    pub fn kill9(&mut self) {
        self.program.kill9();
    }

    /// Sends SIGTERM and waits for the end.
    pub async fn terminate(&mut self) -> ExitStatus {
        self.program.signal_terminate();
        self.program.wait(END_WITHIN).await
    }

    /// Sends SIGTERM and returns at once.
    pub fn signal_terminate(&self) {
        self.program.signal_terminate();
    }

    /// Waits for its end.
    pub async fn wait(&mut self) -> ExitStatus {
        self.program.wait(END_WITHIN).await
    }

    /// Stops the process with SIGSTOP, until [`Operator::go_on`].
    pub fn pause(&self) {
        self.program.signal(Signal::STOP);
    }

    /// Continues a stopped process with SIGCONT.
    pub fn go_on(&self) {
        self.program.signal(Signal::CONT);
    }

    /// The exit status, if it has ended.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.program.ended()
    }

    /// The process ID.
    pub fn pid(&self) -> u32 {
        self.program.pid()
    }

    /// The metrics of this process, as Prometheus text. `None` if it does not answer yet.
    ///
    /// # Panics
    /// If no HTTP client can be made.
    pub async fn scrape(&self) -> Option<String> {
        let url = format!("http://{}/metrics", endpoint(&self.log(), "metrics")?);
        let client = reqwest::Client::builder().no_proxy().tls_certs_only([]);
        let client = client
            .timeout(SCRAPE_WITHIN)
            .build()
            .expect("a plain client can be made");
        let answer = client.get(url).send().await.ok()?;
        answer.error_for_status().ok()?.text().await.ok()
    }

    /// The log of all its processes.
    pub fn log(&self) -> String {
        self.program.log()
    }
}

/// The address of an endpoint of an operator on this computer, `health` or `metrics`, from the last start in its log,
/// which may be JSON.
pub fn endpoint(log: &str, name: &str) -> Option<SocketAddr> {
    let names = [
        format!("endpoint=\"{name}\""),
        format!("\"endpoint\":\"{name}\""),
    ];
    let mut lines = log.lines().rev();
    let line = lines.find(|line| names.iter().any(|name| line.contains(name)))?;
    let address = &line[line.find("127.0.0.1:")?..];
    address.split(['"', ' ']).next()?.parse().ok()
}

fn launch(start: &Start, log: &Path) -> Program {
    let kubeconfig = start.kubeconfig.to_str().expect("the path is UTF-8");
    let mut arguments = vec![
        format!("--kubeconfig={kubeconfig}"),
        format!("--namespace={}", start.namespace),
        format!("--cluster-id={}", start.cluster_id),
        "--listen=127.0.0.1:0".to_owned(),
        "--metrics-listen=127.0.0.1:0".to_owned(),
        "--log-format=text".to_owned(),
    ];
    if start.short_intervals {
        arguments.push("--short-intervals".to_owned());
    }
    let watched = start.watched.iter();
    arguments.extend(watched.map(|namespace| format!("--watch-namespace={namespace}")));
    let allowed = start.allowed.iter();
    arguments.extend(allowed.map(|url| format!("--allowed-base-url={url}")));
    arguments.extend_from_slice(&start.flags);
    let words = start.log.map_or_else(
        || std::env::var("OPERATOR_LOG").unwrap_or_else(|_| "info,flexmetal_operator=debug".into()),
        str::to_owned,
    );
    let mut environment = vec![("RUST_LOG", &*words), ("POD_NAME", &start.pod)];
    let given = start.environment.iter();
    environment.extend(given.map(|(name, value)| (*name, &**value)));
    Program::start(
        "the operator",
        &built("flexmetal-operator"),
        &arguments,
        &environment,
        log,
        false,
    )
}
