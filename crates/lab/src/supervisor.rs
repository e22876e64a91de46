//! Starting, watching and ending child processes, so that none is left behind.

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

/// How much of a log goes into an error message.
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

/// What went wrong with a child.
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
    /// Children write their output to `logs/<name>.log`.
    pub(crate) fn new(logs: PathBuf) -> Self {
        Self {
            children: Vec::new(),
            logs,
            death_signal: on_path("setpriv"),
        }
    }

    /// Starts a program in a process group of its own: Ctrl-C at the terminal
    /// reaches only us, and we end the children in the right order.
    pub(crate) fn start(
        &mut self,
        name: &'static str,
        program: &Path,
        args: &[String],
    ) -> Result<(), SupervisorError> {
        let failed = |source| SupervisorError::Start { name, source };
        let log = File::create(self.log_of(name)).map_err(failed)?;
        let mut command = if self.death_signal {
            // Makes the kernel end the child when we are killed outright. Setting
            // this ourselves would take unsafe code; setpriv (util-linux) sets
            // it and then becomes the program, under the same process id.
            let mut command = Command::new("setpriv");
            command.args(["--pdeathsig", "KILL", "--"]).arg(program);
            command
        } else {
            Command::new(program)
        };
        let child = command
            .args(args)
            // It writes into a file.
            .env("NO_COLOR", "1")
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

    /// Waits until any child ends, which none should do.
    ///
    /// Without children it waits forever.
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

    /// Ends the named children together: asks them, waits up to `patience`,
    /// kills what is still there, and returns when all are gone.
    pub(crate) async fn end(&mut self, names: &[&str], patience: Duration) {
        let (ending, staying) = self
            .children
            .drain(..)
            .partition(|each| names.contains(&each.name));
        self.children = staying;
        let ending: Vec<Supervised> = ending;
        futures::future::join_all(ending.into_iter().map(|each| end_one(each.child, patience)))
            .await;
    }

    /// Kills everything that still runs and returns when it is gone.
    pub(crate) async fn kill_all(&mut self) {
        let all = self.children.drain(..);
        futures::future::join_all(all.map(|each| end_one(each.child, Duration::ZERO))).await;
    }

    /// Names and process ids of the children that have not been waited for.
    pub(crate) fn processes(&self) -> Vec<(String, u32)> {
        let each = self.children.iter();
        each.filter_map(|each| Some((each.name.to_owned(), each.child.id()?)))
            .collect()
    }

    /// The folder of all logs.
    pub(crate) fn logs(&self) -> &Path {
        &self.logs
    }

    /// Where a child's output goes.
    pub(crate) fn log_of(&self, name: &str) -> PathBuf {
        self.logs.join(format!("{name}.log"))
    }
}

async fn end_one(mut child: Child, patience: Duration) {
    // A child that was waited for has no id any more, so a process that got the
    // same number since cannot be hit.
    let pid = child
        .id()
        .and_then(|id| i32::try_from(id).ok())
        .and_then(Pid::from_raw);
    if let Some(pid) = pid
        && !patience.is_zero()
        && kill_process(pid, Signal::TERM).is_ok()
        && tokio::time::timeout(patience, child.wait()).await.is_ok()
    {
        return;
    }
    // Fails only for a child that is gone already.
    let _ = child.kill().await;
}

/// Completes at SIGINT or SIGTERM and, unless `stay`, when standard input ends
/// or SIGHUP arrives.
///
/// The process at the other end of standard input need not do anything: its
/// death closes the pipe.
pub(crate) fn end_of_work(stay: bool) -> io::Result<impl Future<Output = ()>> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    // Caught in either case: a demo must outlive the terminal it was started from.
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
    // A plain thread: the runtime would wait for a blocked read when it ends.
    std::thread::Builder::new()
        .name("standard-input".to_owned())
        .spawn(move || {
            let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
            let _ = send.send(());
        })?;
    Ok(receive.map(|_| ()))
}

fn on_path(name: &str) -> bool {
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|folder| folder.join(name).is_file()))
}

/// The last lines of a log, at most `most` bytes of them, for a message.
pub(crate) fn tail(path: &Path, most: usize) -> String {
    let mut text = Vec::new();
    let read = File::open(path).and_then(|mut file| file.read_to_end(&mut text));
    if let Err(error) = read {
        return format!("(not readable: {error})");
    }
    let end = &text[text.len().saturating_sub(most)..];
    let whole_lines = match end.iter().position(|byte| *byte == b'\n') {
        // Cut short: what is left of the first line means nothing.
        Some(at) if end.len() < text.len() => &end[at + 1..],
        _ => end,
    };
    String::from_utf8_lossy(whole_lines).into_owned()
}
