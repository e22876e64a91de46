//! `lab demo`: a cluster, a simulator and the operator on this computer, with three servers.
//! `up` starts a daemon, which runs until `down`.

mod daemon;
mod folder;
mod prometheus;
mod quickstart;
pub(crate) mod ssh_key;
mod steps;

use std::error::Error;
use std::fs::File;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use clap::{Args, Subcommand};
use kube::config::Kubeconfig;
use rustix::process::{Pid, Signal, kill_process};
use tokio::time::{Instant, sleep};

use self::folder::{DemoFolder, FolderError, FolderState, RunningDemo};
use self::quickstart::Given;
use crate::{
    credentials,
    kubectl::Kubectl,
    product::{OPERATOR, Product, SIMULATOR},
    programs,
    supervisor::{TAIL, tail},
};

/// Time limit for the start of control plane, simulator and operator together.
const UP_WITHIN: Duration = Duration::from_secs(120);
/// Time limit for the end. The operator waits for an order in progress, and the API server for its watches.
const DOWN_WITHIN: Duration = Duration::from_secs(90);
const POLL: Duration = Duration::from_millis(50);
/// The end of the daemon's log may contain the end of a failed part's log.
const DAEMON_LOG_TAIL: usize = 2 * TAIL;

#[derive(Args)]
pub(crate) struct DemoArguments {
    #[command(subcommand)]
    step: DemoCommand,
    /// Folder for all files of the demo
    #[arg(
        long,
        global = true,
        env = "FLEXMETAL_DEMO_DIR",
        default_value = ".demo"
    )]
    dir: PathBuf,
}

#[derive(Subcommand)]
enum DemoCommand {
    /// Start the demo, or use the running one, and wait for its servers
    Up,
    /// End the demo and remove its folder
    Down,
    /// Run the demo (started by `up`)
    #[command(hide = true)]
    Keep,
}

#[derive(Debug, thiserror::Error)]
enum DemoError {
    #[error("the demo did not start; the end of {log}:\n{text}")]
    Start { log: PathBuf, text: String },
    #[error("the demo in {path} does not end within {} s; process {pid} runs it", DOWN_WITHIN.as_secs())]
    End { path: PathBuf, pid: i32 },
    #[error("the demo is up, but its servers are not Ready; `make demo-down` ends it")]
    Servers(#[source] quickstart::QuickstartError),
}

/// Runs one demo command.
pub(crate) async fn run(arguments: DemoArguments) -> Result<(), Box<dyn Error>> {
    let folder = DemoFolder::at(&arguments.dir)?;
    match arguments.step {
        DemoCommand::Up => up(&folder).await,
        DemoCommand::Down => down(&folder).await,
        DemoCommand::Keep => daemon::run_daemon(folder).await,
    }
}

async fn up(folder: &DemoFolder) -> Result<(), Box<dyn Error>> {
    let stamp = Product::find()?.stamp()?;
    // Not in the daemon, because the first build takes minutes and reports that to the user.
    programs::find_or_build().await?;
    let state = match settled(folder).await? {
        FolderState::Up(state) if state.stamp == stamp && answers(folder).await => {
            print_message("A demo is up and is used again.");
            state
        }
        FolderState::Absent => start(folder).await?,
        found => {
            print_message(match found {
                FolderState::Up(state) if state.stamp == stamp => {
                    "The running demo does not answer."
                }
                FolderState::Up(_) => "The programs changed since the demo started.",
                _ => "An earlier demo ended by itself.",
            });
            let last_words = tail(&folder.daemon_log(), DAEMON_LOG_TAIL);
            if !last_words.is_empty() {
                print_message(&format!("The end of its log: {}", last_words.trim_end()));
            }
            print_message("Starting it again.");
            end(folder).await?;
            start(folder).await?
        }
    };
    let kubectl = Kubectl::new(folder.kubectl(), folder.kubeconfig());
    folder.write_env(&state)?;
    print_message(&steps::page(&state.simulator));
    print_message(&steps::graphs(state.prometheus.as_deref()));
    let given = Given {
        ssh_key: ssh_key::public_half(&folder.ssh_key())?,
        simulator: state.simulator,
    };
    quickstart::apply(&kubectl, &given).await?;
    let kubeconfig = Kubeconfig::read_from(folder.kubeconfig())?;
    let client = credentials::client(kubeconfig).await?;
    let began = Instant::now();
    if let Err(error) = quickstart::wait_ready(client, &kubectl, &given).await {
        print_message(&format!("\n{}", quickstart::conditions(&kubectl).await));
        for part in [OPERATOR, SIMULATOR] {
            let log = folder.logs().join(format!("{part}.log"));
            print_message(&format!(
                "The end of {}:\n{}\n",
                log.display(),
                tail(&log, TAIL)
            ));
        }
        return Err(DemoError::Servers(error).into());
    }
    show(folder, &kubectl, began.elapsed()).await
}

/// Waits until the folder is not busy (another `make demo` runs, or a daemon is ending), and returns its state.
async fn settled(folder: &DemoFolder) -> Result<FolderState, FolderError> {
    let deadline = Instant::now() + UP_WITHIN;
    loop {
        match folder.check_state()? {
            FolderState::Busy if Instant::now() < deadline => sleep(POLL).await,
            state => return Ok(state),
        }
    }
}

/// Starts a daemon that outlives us and the terminal, and waits until everything is up.
async fn start(folder: &DemoFolder) -> Result<RunningDemo, Box<dyn Error>> {
    print_message(
        "Starting etcd, kube-apiserver, kube-controller-manager, the simulator and the operator ...",
    );
    let began = Instant::now();
    folder.prepare()?;
    let log = File::create(folder.daemon_log())?;
    let mut daemon_process = Command::new(std::env::current_exe()?)
        .args(["demo", "keep", "--dir"])
        .arg(folder.path())
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        // Ctrl-C at this terminal must not end it.
        .process_group(0)
        .spawn()?;
    match await_up(folder, &mut daemon_process).await? {
        Some(state) => {
            print_message(&format!("Up in {:.1} s.", began.elapsed().as_secs_f64()));
            Ok(state)
        }
        None => {
            let (log, text) = (
                folder.daemon_log(),
                tail(&folder.daemon_log(), DAEMON_LOG_TAIL),
            );
            end(folder).await?;
            Err(DemoError::Start { log, text }.into())
        }
    }
}

async fn await_up(
    folder: &DemoFolder,
    daemon_process: &mut Child,
) -> Result<Option<RunningDemo>, FolderError> {
    let deadline = Instant::now() + UP_WITHIN;
    while Instant::now() < deadline {
        if let FolderState::Up(state) = folder.check_state()? {
            return Ok(Some(state));
        }
        // The daemon ended, and its log has the reason. `try_wait` also removes the zombie.
        if !matches!(daemon_process.try_wait(), Ok(None)) {
            return Ok(None);
        }
        sleep(POLL).await;
    }
    Ok(None)
}

async fn answers(folder: &DemoFolder) -> bool {
    let kubectl = Kubectl::new(folder.kubectl(), folder.kubeconfig());
    let ready = ["get", "--raw", "/readyz", "--request-timeout=5s"];
    kubectl.run(&ready).await.is_ok()
}

async fn down(folder: &DemoFolder) -> Result<(), Box<dyn Error>> {
    if let FolderState::Absent = folder.check_state()? {
        print_message("No demo is up.");
    } else {
        end(folder).await?;
        print_message("The demo is ended and its folder removed.");
    }
    Ok(())
}

/// Ends the demo in the folder, and removes the folder.
async fn end(folder: &DemoFolder) -> Result<(), Box<dyn Error>> {
    let deadline = Instant::now() + DOWN_WITHIN;
    let mut asked = None;
    while matches!(
        folder.check_state()?,
        FolderState::Busy | FolderState::Up(_)
    ) {
        // The file is locked, so this is the daemon's process ID.
        let daemon_pid = folder.daemon_pid();
        if let Some(pid) = daemon_pid.filter(|_| asked != daemon_pid) {
            if let Some(pid) = Pid::from_raw(pid) {
                // Fails if the daemon is gone, which the next check shows.
                let _ = kill_process(pid, Signal::TERM);
            }
            asked = daemon_pid;
        }
        if Instant::now() > deadline {
            return Err(DemoError::End {
                path: folder.path().to_owned(),
                pid: daemon_pid.unwrap_or_default(),
            }
            .into());
        }
        sleep(POLL).await;
    }
    folder.remove()?;
    Ok(())
}

async fn show(
    folder: &DemoFolder,
    kubectl: &Kubectl,
    took: Duration,
) -> Result<(), Box<dyn Error>> {
    let get = ["-n", quickstart::NAMESPACE, "get"];
    let servers = kubectl
        .run(&[&get[..], &["baremetalservers", "-o", "wide"]].concat())
        .await?;
    let others = "servertags,ipwhitelists,sshkeys";
    let others = kubectl.run(&[&get[..], &[others]].concat()).await?;
    print_message(&format!(
        "\nAll objects are Ready (waited {:.1} s):\n\n{servers}\n{others}\n{}",
        took.as_secs_f64(),
        steps::next(folder),
    ));
    Ok(())
}

/// Prints a message. Standard output may already be closed.
fn print_message(text: &str) {
    let _ = writeln!(std::io::stdout().lock(), "{text}");
}
