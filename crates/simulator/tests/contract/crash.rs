//! The real program, killed in the middle of its work.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::task::JoinSet;

use crate::rig::{SERVERS, with};

/// Starts the program; gives it with what it prints when it can be called.
async fn begin(state: &Path, flags: &[&str]) -> (Child, Value) {
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
        .args(flags)
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let ready = tokio::time::timeout(Duration::from_secs(60), lines.next_line()).await;
    let ready: Value = serde_json::from_str(&ready.unwrap().unwrap().unwrap()).unwrap();
    (child, ready)
}

fn caller() -> reqwest::Client {
    let client = reqwest::Client::builder().timeout(Duration::from_secs(60));
    client.build().unwrap()
}

/// A request to the program that must be answered with 200, and its answer.
async fn ask(base: &Value, method: &str, path: &str, body: Value) -> Value {
    let url = format!("{}{path}", base.as_str().unwrap());
    let request = caller().request(method.parse().unwrap(), url);
    let request = request.header("PRIVATE-TOKEN", "crash-key").json(&body);
    let answer = request.send().await.unwrap();
    assert_eq!(answer.status(), 200, "{method} {path}");
    answer.json().await.unwrap()
}

#[tokio::test]
async fn contract_every_answered_order_survives_kill_9() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let mut answered = Vec::new();
    for round in 0..3 {
        let (mut child, ready) = begin(&state, &[]).await;
        let api = ready["api"].as_str().unwrap();
        let mut clients = JoinSet::new();
        for client in 0..4 {
            let url = format!("{api}{SERVERS}");
            clients.spawn(async move {
                let http = caller();
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
    let (mut child, ready) = begin(&state, &[]).await;
    for uuid in &answered {
        ask(
            &ready["api"],
            "GET",
            &format!("{SERVERS}/{uuid}"),
            Value::Null,
        )
        .await;
    }
    child.kill().await.unwrap();
}

#[tokio::test]
async fn contract_reported_time_survives_kill_9() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let flags = ["--clock=driven", "--delivery-seconds=300"];
    let (mut child, ready) = begin(&state, &flags).await;
    let ordered = ask(&ready["api"], "POST", SERVERS, with("name", json!("a"))).await;
    let one = format!("{SERVERS}/{}", ordered[0]["uuid"].as_str().unwrap());
    let hour = json!({"advanceSeconds": 3_600});
    let told = ask(&ready["control"], "POST", "/_simulator/clock", hour).await;
    child.kill().await.unwrap();
    let (mut child, ready) = begin(&state, &flags).await;
    let now = ask(&ready["control"], "GET", "/_simulator/clock", Value::Null).await;
    assert_eq!(now, told);
    let server = ask(&ready["api"], "GET", &one, Value::Null).await;
    assert_eq!(server[0]["status"], "delivered");
    child.kill().await.unwrap();
}

#[tokio::test]
async fn contract_shown_state_survives_kill_9() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let fast = ["--clock-speed=1000", "--delivery-seconds=300"];
    let (mut child, ready) = begin(&state, &fast).await;
    let ordered = ask(&ready["api"], "POST", SERVERS, with("name", json!("a"))).await;
    let one = format!("{SERVERS}/{}", ordered[0]["uuid"].as_str().unwrap());
    let status = async |ready: &Value| {
        let server = ask(&ready["api"], "GET", &one, Value::Null).await;
        server[0]["status"].as_str().unwrap().to_owned()
    };
    let delivered = async {
        while status(&ready).await != "delivered" {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), delivered)
        .await
        .unwrap();
    child.kill().await.unwrap();
    // Standing still, so that it cannot be delivered once more.
    let (mut child, ready) = begin(&state, &["--clock=driven"]).await;
    assert_eq!(status(&ready).await, "delivered");
    child.kill().await.unwrap();
}

#[tokio::test]
async fn contract_finished_work_survives_kill_9() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let flags = [
        "--clock-start=1700000000",
        "--clock-speed=200",
        "--delivery-seconds=10",
        "--command-seconds=100",
        "--install-seconds=100",
    ];
    let (mut child, ready) = begin(&state, &flags).await;
    let ordered = ask(&ready["api"], "POST", SERVERS, with("name", json!("a"))).await;
    let one = format!("{SERVERS}/{}", ordered[0]["uuid"].as_str().unwrap());
    let until = async |path: String, field: &str, wanted: &str| {
        let reached = async {
            while ask(&ready["api"], "GET", &path, Value::Null).await[0][field] != wanted {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let reached = tokio::time::timeout(Duration::from_secs(60), reached).await;
        reached.unwrap();
    };
    until(one.clone(), "status", "delivered").await;
    // The last change that a request makes: all that follows is time's.
    let commands = format!("{one}/commands");
    let reboot = json!({"command": "reboot"});
    ask(&ready["api"], "POST", &commands, reboot).await;
    let install = json!({"os": {"id": 104}, "sshKeyId": "018f0000-0000-7000-8000-000000000000"});
    let path = "/v3/host/1001/os/install";
    ask(&ready["api"], "POST", path, install).await;
    until(commands.clone(), "state", "finished").await;
    until("/v3/host/1001".to_owned(), "installStatus", "finished").await;
    let minutes = async |ready: &Value| {
        let usage = ask(&ready["api"], "GET", "/v3/flexMetal/usage", Value::Null).await;
        usage[0]["totalMinutes"].as_u64().unwrap()
    };
    let told = ask(&ready["control"], "GET", "/_simulator/clock", Value::Null).await;
    let used = minutes(&ready).await;
    child.kill().await.unwrap();
    // Standing still, so that nothing can end once more.
    let (mut child, ready) = begin(&state, &["--clock=driven", "--clock-start=1700000000"]).await;
    let now = ask(&ready["control"], "GET", "/_simulator/clock", Value::Null).await;
    assert!(
        now["virtual"].as_f64() >= told["virtual"].as_f64(),
        "{now} after {told}"
    );
    let command = ask(&ready["api"], "GET", &commands, Value::Null).await;
    assert_eq!(command[0]["state"], "finished");
    let host = ask(&ready["api"], "GET", "/v3/host/1001", Value::Null).await;
    assert_eq!(host[0]["installStatus"], "finished");
    assert!(minutes(&ready).await >= used);
    child.kill().await.unwrap();
}
