//! The real program: what it prints, and which flags it refuses.

use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

fn program(flags: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_flexmetal-simulator"));
    command.args(flags).kill_on_drop(true);
    command
}

/// What it prints when it can be called.
async fn ready(mut command: Command) -> Value {
    command.args(["--listen=127.0.0.1:0", "--control=127.0.0.1:0"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let line = tokio::time::timeout(Duration::from_secs(60), lines.next_line()).await;
    let line = line.unwrap().unwrap().unwrap();
    child.kill().await.unwrap();
    serde_json::from_str(&line).unwrap()
}

/// What it says when it does not start.
async fn refusal(mut command: Command) -> String {
    let ended = tokio::time::timeout(Duration::from_secs(60), command.output()).await;
    let output = ended.unwrap().unwrap();
    assert!(!output.status.success());
    String::from_utf8(output.stderr).unwrap()
}

#[tokio::test]
async fn contract_the_help_is_about_the_simulator() {
    let help = program(&["--help"]).output().await.unwrap();
    let text = String::from_utf8(help.stdout).unwrap();
    assert!(
        text.starts_with("The bare-metal hosting API as a server"),
        "{text}"
    );
    let version = program(&["--version"]).output().await.unwrap();
    let text = String::from_utf8(version.stdout).unwrap();
    let expected = concat!("flexmetal-simulator ", env!("CARGO_PKG_VERSION"), "\n");
    assert_eq!(text, expected);
}

#[tokio::test]
async fn contract_accounts_file_excludes_key_flag() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("accounts.json");
    let accounts = json!({"accounts": [{"name": "blue", "keys": [{"key": "blue-key"}]}]});
    std::fs::write(&file, accounts.to_string()).unwrap();
    let flag = format!("--accounts={}", file.display());
    let told = refusal(program(&[&flag, "--api-key=mine"])).await;
    assert!(told.contains("--api-key cannot be used"), "{told}");
    // A key in the environment is meant for other runs.
    for key in ["mine", ""] {
        let mut command = program(&[&flag]);
        command.env("FLEXMETAL_SIMULATOR_API_KEY", key);
        assert_eq!(ready(command).await["apiKey"], Value::Null);
    }
    let mut command = program(&[]);
    command.env("FLEXMETAL_SIMULATOR_API_KEY", "mine");
    assert_eq!(ready(command).await["apiKey"], "mine");
}

#[tokio::test]
async fn contract_unsendable_key_is_refused() {
    for flag in ["--api-key=", "--api-key=a b"] {
        let told = refusal(program(&[flag, "--listen=127.0.0.1:0"])).await;
        assert!(told.contains("visible characters"), "{told}");
    }
}
