//! A child process whose output goes to a file.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::time::Instant;

/// Lines of the log that a failed test shows.
const SHOWN: usize = 120;

/// A running program. Dropping it kills it, and prints the end of its log if the test fails.
pub struct Program {
    name: &'static str,
    child: Child,
    log: PathBuf,
}

impl Program {
    /// Starts `program`. Standard error is appended to `log`, and standard output too unless `wants_output`.
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
            // The program must not use the cluster of the user who runs the tests.
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

    /// Standard output, if it was wanted and not taken yet.
    pub(crate) fn take_output(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// The process ID.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its log so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// The exit status, if it has ended.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("a child can be asked")
    }

    /// Kills it with SIGKILL. Returns once it is gone.
    pub fn kill9(&mut self) {
        // Fails if it has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Sends it SIGTERM.
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

/// The path of a program of the current profile, such as `flexmetal-operator`, `lab` or `examples/crdgen`.
///
/// # Panics
/// If it is not built. `make test` runs `cargo build --workspace --bins --examples` first.
pub fn program(name: &str) -> PathBuf {
    let this = std::env::current_exe().expect("a program has a path");
    let folder = this.parent().expect("a program lies in a folder");
    let is_inner = |folder: &Path| folder.ends_with("deps") || folder.ends_with("examples");
    let profile = match folder.parent() {
        Some(profile) if is_inner(folder) => profile,
        _ => folder,
    };
    let program = profile.join(name);
    assert!(
        program.is_file(),
        "{} is missing: run `cargo build --workspace --bins --examples` first",
        program.display()
    );
    program
}
