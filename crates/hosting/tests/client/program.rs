//! The simulator as a program, called by the client: its output, its ledger and its pages contain no secret.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;
use tokio::time::timeout;

use crate::{
    canaries::{self, BEGIN, WRONG_KEY},
    operations::Operation,
    rig::{LASTING, Rig, START, accounts},
    scene::Scene,
};

/// All pages of the control port except the accounts, where the hash of a reset is read.
const PAGES: &[&str] = &[
    "",
    "catalogue",
    "clock",
    "faults",
    "invariants",
    "keys",
    "ledger",
    "ledger?format=jsonl",
    "ledger/counts",
    "machines",
    "paying",
    "settings",
    "switches",
];

/// A generous time limit.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The program of another package of this workspace is next to this one's folder.
fn simulator() -> PathBuf {
    let this = std::env::current_exe().unwrap();
    let program = this.ancestors().nth(2).unwrap().join("flexmetal-simulator");
    let remedy = "run `cargo build --workspace --bins` first";
    assert!(
        program.is_file(),
        "{} is missing: {remedy}",
        program.display()
    );
    program
}

#[tokio::test]
async fn simulator_reveals_no_secrets() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let file = folder.path().join("accounts.json");
    let mut written = std::fs::File::create(&file).unwrap();
    written
        .write_all(accounts().to_string().as_bytes())
        .unwrap();
    let mut program = Command::new(simulator())
        .args([
            "--listen",
            "127.0.0.1:0",
            "--control",
            "127.0.0.1:0",
            "--clock",
            "driven",
        ])
        .args(["--clock-start", &START.to_string(), "--seed", "1"])
        .args(["--install-seconds", &LASTING.to_string()])
        .arg("--accounts")
        .arg(&file)
        .arg("--state")
        .arg(&state)
        .env("RUST_LOG", "trace")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(program.stdout.take().unwrap()).lines();
    let ready = timeout(TIMEOUT, lines.next_line()).await.unwrap();
    let ready = ready.unwrap().unwrap();
    canaries::none_in("standard output", &ready);
    let ready: Value = serde_json::from_str(&ready).unwrap();
    let address = |name: &str| ready[name].as_str().unwrap().to_owned();

    let scene = Scene::on(Rig::at(address("api"), address("control"))).await;
    let other_client = scene.rig.client(WRONG_KEY, TIMEOUT);
    let before = scene.rig.latest().await;
    for &operation in Operation::ALL {
        let reply = operation.call(&scene).await;
        canaries::none_in("a reply", &reply.text);
        operation.call_with(&other_client, &scene).await;
    }
    let requests = scene.rig.ledger(before).await.len();
    assert_eq!(requests, 2 * Operation::ALL.len());
    for page in PAGES {
        canaries::none_in(page, &scene.rig.page(page).await);
    }
    // The stored state contains secrets, and only its owner can read it.
    let kept = std::fs::read_to_string(&state).unwrap();
    assert!(kept.contains(BEGIN));
    let mode = std::fs::metadata(&state).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    let pid = i32::try_from(program.id().unwrap()).unwrap();
    kill_process(Pid::from_raw(pid).unwrap(), Signal::TERM).unwrap();
    let ended = timeout(TIMEOUT, program.wait_with_output()).await.unwrap();
    let ended = ended.unwrap();
    assert!(ended.status.success(), "{:?}", ended.status);
    canaries::none_in("standard error", &String::from_utf8_lossy(&ended.stderr));
    while let Some(line) = lines.next_line().await.unwrap() {
        canaries::none_in("standard output", &line);
    }
}
