//! The real program, killed in the middle of its work.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::task::JoinSet;

use crate::rig::{SERVERS, with};

/// Starts the program; gives it with the address of its API.
async fn begin(state: &Path) -> (Child, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_flexmetal-simulator"))
        .args([
            "--listen",
            "127.0.0.1:0",
            "--control",
            "127.0.0.1:0",
            "--api-key",
            "crash-key",
            "--state",
        ])
        .arg(state)
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let ready = tokio::time::timeout(Duration::from_secs(60), lines.next_line()).await;
    let ready: Value = serde_json::from_str(&ready.unwrap().unwrap().unwrap()).unwrap();
    (child, ready["api"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn contract_every_answered_order_survives_kill_9() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let mut answered = Vec::new();
    for round in 0..3 {
        let (mut child, api) = begin(&state).await;
        let mut clients = JoinSet::new();
        for client in 0..4 {
            let url = format!("{api}{SERVERS}");
            clients.spawn(async move {
                let http = reqwest::Client::builder()
                    .timeout(Duration::from_secs(60))
                    .build()
                    .unwrap();
                let mut uuids = Vec::new();
                for number in 0.. {
                    let order = with("name", json!(format!("r{round}-c{client}-n{number}")));
                    let request = http
                        .post(&url)
                        .header("PRIVATE-TOKEN", "crash-key")
                        .json(&order);
                    let Ok(answer) = request.send().await else {
                        break;
                    };
                    let Ok(answer) = answer.json::<Value>().await else {
                        break;
                    };
                    uuids.push(answer[0]["uuid"].as_str().unwrap().to_owned());
                    // Killed while the others are at work.
                    if client == 0 && number == 20 {
                        break;
                    }
                }
                uuids
            });
        }
        let mut first = true;
        while let Some(uuids) = clients.join_next().await {
            answered.extend(uuids.unwrap());
            if std::mem::take(&mut first) {
                child.kill().await.unwrap();
            }
        }
    }
    assert!(answered.len() > 60, "{}", answered.len());
    let (mut child, api) = begin(&state).await;
    let http = reqwest::Client::builder()
        .timeout(Duration::from_secs(60))
        .build()
        .unwrap();
    for uuid in &answered {
        let request = http
            .get(format!("{api}{SERVERS}/{uuid}"))
            .header("PRIVATE-TOKEN", "crash-key");
        assert_eq!(request.send().await.unwrap().status(), 200, "{uuid}");
    }
    child.kill().await.unwrap();
}
