//! Starts, watches and ends child processes, so that none remains.

use std::fs::File;
use std::future::Future;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use futures::FutureExt;
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;

/// Most bytes of a log in an error message.
pub(crate) const TAIL: usize = 2_000;

/// The children, in the order of their start.
#[derive(Debug)]
pub(crate) struct Supervisor {
    children: Vec<Supervised>,
    logs: PathBuf,
    death_signal: bool,
}

#[derive(Debug)]
struct Supervised {
    name: &'static str,
    child: Child,
}

/// Why a child failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SupervisorError {
    #[error("cannot start {name}")]
    Start {
        name: &'static str,
        #[source]
        source: io::Error,
    },
    #[error("{name} ended by itself ({status}); the end of its log:\n{log}")]
    Ended {
        name: &'static str,
        status: ExitStatus,
        log: String,
    },
    #[error("cannot wait for {name}")]
    Wait {
        name: &'static str,
        #[source]
        source: io::Error,
    },
}

impl Supervisor {
    /// A supervisor whose children write their output to `logs/<name>.log`.
    pub(crate) fn new(logs: PathBuf) -> Self {
        Self {
            children: Vec::new(),
            logs,
            death_signal: on_path("setpriv").is_some(),
        }
    }

    /// Starts a program in a separate process group. Ctrl-C at the terminal reaches only us, and we end the children in
    /// order.
    pub(crate) fn start(
        &mut self,
        name: &'static str,
        program: &Path,
        args: &[String],
    ) -> Result<(), SupervisorError> {
        let failed = |source| SupervisorError::Start { name, source };
        let log = File::create(self.log_of(name)).map_err(failed)?;
        let mut command = if self.death_signal {
            // The kernel then kills the child if we are killed. Doing this in Rust needs unsafe code, so setpriv
            // (util-linux) sets it and execs the program under the same process ID.
            let mut command = Command::new("setpriv");
            command.args(["--pdeathsig", "KILL", "--"]).arg(program);
            command
        } else {
            Command::new(program)
        };
        let child = command
            .args(args)
            // The output goes to a file.
            .env("NO_COLOR", "1")
            // For Go programs: with less garbage collection an API server takes a tenth less processor time, and more
            // memory.
            .env("GOGC", "400")
            .stdin(Stdio::null())
            .stdout(log.try_clone().map_err(failed)?)
            .stderr(log)
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(failed)?;
        self.children.push(Supervised { name, child });
        Ok(())
    }

    /// Waits until any child ends unexpectedly. Waits forever without children.
    pub(crate) async fn first_end(&mut self) -> SupervisorError {
        if self.children.is_empty() {
            return std::future::pending().await;
        }
        let ends = self.children.iter_mut().map(|each| {
            let name = each.name;
            each.child.wait().map(move |end| (name, end)).boxed()
        });
        let ((name, end), _, _) = futures::future::select_all(ends).await;
        match end {
            Ok(status) => SupervisorError::Ended {
                name,
                status,
                log: tail(&self.log_of(name), TAIL),
            },
            Err(source) => SupervisorError::Wait { name, source },
        }
    }

    /// Ends the named children together: sends SIGTERM, waits up to `grace`, then sends SIGKILL. Returns when all are
    /// gone.
    pub(crate) async fn end(&mut self, names: &[&str], grace: Duration) {
        let (ending, staying) = self
            .children
            .drain(..)
            .partition(|each| names.contains(&each.name));
        self.children = staying;
        let ending: Vec<Supervised> = ending;
        futures::future::join_all(ending.into_iter().map(|each| end_one(each.child, grace))).await;
    }

    /// Kills all children and returns when they are gone.
    pub(crate) async fn kill_all(&mut self) {
        let all = self.children.drain(..);
        futures::future::join_all(all.map(|each| end_one(each.child, Duration::ZERO))).await;
    }

    /// Names and process IDs of the children that have not been waited for.
    pub(crate) fn processes(&self) -> Vec<(String, u32)> {
        let each = self.children.iter();
        each.filter_map(|each| Some((each.name.to_owned(), each.child.id()?)))
            .collect()
    }

    /// The folder of all logs.
    pub(crate) fn logs(&self) -> &Path {
        &self.logs
    }

    /// The log file of a child.
    pub(crate) fn log_of(&self, name: &str) -> PathBuf {
        self.logs.join(format!("{name}.log"))
    }
}

async fn end_one(mut child: Child, grace: Duration) {
    // A child that was waited for has no ID, so a new process with the same number is never killed.
    let pid = child
        .id()
        .and_then(|id| i32::try_from(id).ok())
        .and_then(Pid::from_raw);
    if let Some(pid) = pid
        && !grace.is_zero()
        && kill_process(pid, Signal::TERM).is_ok()
        && tokio::time::timeout(grace, child.wait()).await.is_ok()
    {
        return;
    }
    // Fails only for a child that is already gone.
    let _ = child.kill().await;
}

/// Completes at SIGINT or SIGTERM and, unless `stay`, at SIGHUP or the end of standard input.
/// The death of the process at the other end of standard input closes the pipe.
pub(crate) fn end_of_work(stay: bool) -> io::Result<impl Future<Output = ()>> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    // Caught in both cases, because a demo must outlive its terminal.
    let mut hangup = signal(SignalKind::hangup())?;
    let input_end = if stay {
        std::future::pending().boxed()
    } else {
        input_end()?.boxed()
    };
    Ok(async move {
        tokio::pin!(input_end);
        loop {
            tokio::select! {
                _ = interrupt.recv() => return,
                _ = terminate.recv() => return,
                _ = hangup.recv() => if !stay { return },
                () = &mut input_end => return,
            }
        }
    })
}

fn input_end() -> io::Result<impl Future<Output = ()>> {
    let (send, receive) = oneshot::channel::<()>();
    // A plain thread, because the runtime would wait for the blocked read at its end.
    std::thread::Builder::new()
        .name("standard-input".to_owned())
        .spawn(move || {
            let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
            let _ = send.send(());
        })?;
    Ok(receive.map(|_| ()))
}

/// The program of this name on PATH.
pub(crate) fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let mut programs = std::env::split_paths(&path).map(|folder| folder.join(name));
    programs.find(|program| program.is_file())
}

/// The last complete lines of a log, at most `most` bytes.
pub(crate) fn tail(path: &Path, most: usize) -> String {
    let mut text = Vec::new();
    let read = File::open(path).and_then(|mut file| file.read_to_end(&mut text));
    if let Err(error) = read {
        return format!("(not readable: {error})");
    }
    let end = &text[text.len().saturating_sub(most)..];
    let whole_lines = match end.iter().position(|byte| *byte == b'\n') {
        // The first line is cut, so it is left out.
        Some(at) if end.len() < text.len() => &end[at + 1..],
        _ => end,
    };
    String::from_utf8_lossy(whole_lines).into_owned()
}
