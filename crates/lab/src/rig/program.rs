//! A child process whose output goes to a file.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::time::Instant;

/// Lines of the log that a failed test shows.
const SHOWN: usize = 120;

/// A running program. Dropped, it is killed and waited for; when the test is
/// failing, the end of its log is printed.
pub struct Program {
    name: &'static str,
    child: Child,
    log: PathBuf,
}

impl Program {
    /// Starts `program`; standard error goes to the end of `log`, and so does
    /// standard output unless it is wanted.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn start(
        name: &'static str,
        program: &Path,
        arguments: &[String],
        environment: &[(&str, &str)],
        log: &Path,
        wants_output: bool,
    ) -> Self {
        let file = append(log);
        let output = if wants_output {
            Stdio::piped()
        } else {
            Stdio::from(file.try_clone().expect("a file can be opened twice"))
        };
        let child = Command::new(program)
            .args(arguments)
            .envs(environment.iter().copied())
            // Without the cluster and the credentials of the user who runs the tests.
            .env_remove("KUBECONFIG")
            .env_remove("KUBERNETES_SERVICE_HOST")
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(file)
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {}: {error}", program.display()));
        Self {
            name,
            child,
            log: log.to_owned(),
        }
    }

    /// Standard output, when it was wanted; the first time.
    pub(crate) fn take_output(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Everything that it has written so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Whether it has ended, and how.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("a child can be asked")
    }

    /// Kills it outright. Returns once it is gone.
    pub fn kill9(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Asks it to end, with SIGTERM.
    pub fn signal_terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        kill_process(pid.expect("a process id"), signal).expect("the process is there");
    }

    /// Waits for the end.
    ///
    /// # Panics
    /// If it does not end `within` the time.
    pub async fn wait(&mut self, within: Duration) -> ExitStatus {
        let deadline = Instant::now() + within;
        loop {
            if let Some(status) = self.ended() {
                return status;
            }
            assert!(
                Instant::now() < deadline,
                "{} has not ended within {} s",
                self.name,
                within.as_secs()
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.kill9();
        if std::thread::panicking() {
            let text = self.log();
            let lines: Vec<&str> = text.lines().collect();
            let end = &lines[lines.len().saturating_sub(SHOWN)..];
            println!(
                "--- the end of what {} said:\n{}\n---",
                self.name,
                end.join("\n")
            );
        }
    }
}

fn append(log: &Path) -> File {
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(log)
        .unwrap_or_else(|error| panic!("cannot open {}: {error}", log.display()))
}
