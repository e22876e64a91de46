//! The laboratory as a program: its output can be used, it leaves nothing behind, and its refusals name a remedy.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use lab::rig::{Cluster, ClusterAccess, eventually, program};

const SOON: Duration = Duration::from_secs(30);

#[tokio::test]
async fn control_plane_works_and_ends_on_drop() {
    let own = Cluster::own();
    let access = own.access();
    let ca_file = format!("--certificate-authority={}", access.ca_file.display());
    // Passes each part of the line separately, with an empty kubeconfig.
    let output = Command::new(&access.kubectl)
        .args([
            "--kubeconfig=/dev/null",
            "get",
            "namespace",
            "default",
            &ca_file,
        ])
        .args(["--server", &access.server, "--token", &access.token])
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let (address, folder) = (
        access.server.trim_start_matches("https://").to_owned(),
        access.ca_file.ancestors().nth(2).unwrap().to_owned(),
    );
    assert!(std::net::TcpStream::connect(&address).is_ok() && folder.exists());

    drop(own);

    assert!(
        std::net::TcpStream::connect(&address).is_err(),
        "{address} still listens"
    );
    assert!(!folder.exists(), "{} is still there", folder.display());
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn control_plane_ends_with_its_killed_user() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("plane");
    // A shell keeps the pipe open, as a test program does, and is then killed without any notice.
    let script = "mkfifo pipe; \"$1\" control-plane --dir \"$2\" < pipe & exec 3> pipe; wait";
    let mut shell = Command::new("sh")
        .args(["-c", script, "sh"])
        .args([program("lab"), dir.clone()])
        .current_dir(parent.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    read_access(&mut shell);
    assert_eq!(
        processes_with(&dir).len(),
        4,
        "the laboratory and three programs"
    );

    shell.kill().unwrap();
    shell.wait().unwrap();

    eventually("all processes are gone", SOON, async || {
        processes_with(&dir).is_empty().then_some(())
    })
    .await;
    assert!(!dir.exists(), "the folder is gone before the laboratory is");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn staying_laboratory_ends_at_sigterm_and_clears_away() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("plane");
    let mut lab = stay_in(&dir);
    let access = read_access(&mut lab);
    assert_eq!(
        processes_with(&dir).len(),
        4,
        "--stay does not end at the end of its input"
    );

    kill_process(Pid::from_raw(access.pid).unwrap(), Signal::TERM).unwrap();

    assert!(
        lab.wait().unwrap().success(),
        "an end that was asked for is no failure"
    );
    assert_eq!(processes_with(&dir), Vec::<String>::new());
    assert!(!dir.exists());
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn programs_die_with_a_killed_laboratory() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("plane");
    let mut lab = stay_in(&dir);
    let access = read_access(&mut lab);
    assert_eq!(processes_with(&dir).len(), 4);

    kill_process(Pid::from_raw(access.pid).unwrap(), Signal::KILL).unwrap();
    lab.wait().unwrap();

    eventually("all processes are gone", SOON, async || {
        processes_with(&dir).is_empty().then_some(())
    })
    .await;
}

#[test]
fn missing_go_is_reported_with_a_remedy() {
    let empty = tempfile::tempdir().unwrap();
    let output = Command::new(program("lab"))
        .arg("build")
        .env_remove("KUBEBUILDER_ASSETS")
        .env("XDG_CACHE_HOME", empty.path())
        .env("PATH", empty.path())
        .output()
        .unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(
        output.stdout.is_empty(),
        "standard output carries results only"
    );
    let last = message.lines().last().unwrap();
    assert!(
        last.contains("Go 1.26")
            && last.contains("install it")
            && last.contains("KUBEBUILDER_ASSETS"),
        "{message}"
    );
}

#[test]
fn control_plane_refuses_folder_with_files() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("precious"), "text").unwrap();
    // Without `--stay`, the end of standard input could end it before its check.
    let output = Command::new(program("lab"))
        .args(["control-plane", "--stay", "--dir"])
        .arg(folder.path())
        .output()
        .unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(message.contains("not empty"), "{message}");
    assert_eq!(
        std::fs::read_to_string(folder.path().join("precious")).unwrap(),
        "text"
    );
}

#[cfg(target_os = "linux")]
fn stay_in(dir: &Path) -> std::process::Child {
    Command::new(program("lab"))
        .args(["control-plane", "--stay", "--dir"])
        .arg(dir)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

fn read_access(process: &mut std::process::Child) -> ClusterAccess {
    let mut line = String::new();
    BufReader::new(process.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    serde_json::from_str(&line).unwrap()
}

/// The processes with `path` on their command line, without the shell.
#[cfg(target_os = "linux")]
fn processes_with(path: &Path) -> Vec<String> {
    let path = path.to_str().unwrap();
    std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| std::fs::read(entry.ok()?.path().join("cmdline")).ok())
        .map(|line| String::from_utf8_lossy(&line).replace('\0', " "))
        .filter(|line| line.contains(path) && !line.starts_with("sh "))
        .collect()
}
