//! What only the simulator has, over HTTP with raw requests: its control port, its
//! faults, its judge, its state file. What the API does is in
//! `crates/simulator/tests/contract`.

mod access;
mod control;
mod fault_rules;
mod faults;
mod invariants;
mod list_faults;
mod machines;
mod people;
mod restart;
mod settings;

use std::time::Duration;

use reqwest::{Method, Response};
use serde_json::{Value, json};

use super::options::{ClockMode, Delivery, Options, Profile};
use super::start::{Running, start};

const SERVERS: &str = "/v3/flexMetal/servers";
/// Virtual time at the start of every test.
const START: u64 = 1_700_000_000;
/// What every delivery takes.
const DELIVERY: u64 = 300;
/// What every release takes.
const RELEASE: u64 = 5;

/// A simulator with a driven clock, and a client for both of its ports.
struct Rig {
    running: Running,
    client: reqwest::Client,
}

fn options(profile: Profile) -> Options {
    Options {
        profile,
        api_key: Some("test-key".to_owned()),
        clock: ClockMode::Driven,
        clock_start: Some(START),
        delivery: Delivery::exactly(Duration::from_secs(DELIVERY)),
        release: Duration::from_secs(RELEASE),
        seed: Some(1),
        ..Options::default()
    }
}

/// An order that breaks no rule.
fn body(name: &str, tags: &[&str]) -> Value {
    json!({
        "name": name,
        "location": "EU: Rotterdam",
        "instanceType": "bm7.std.8",
        "os": {"slug": "ubuntu-2404-lts"},
        "sshKey": ["ssh-ed25519 AAAAC3 test"],
        "tags": tags,
    })
}

impl Rig {
    async fn new() -> Self {
        Self::with(options(Profile::Document)).await
    }

    async fn with(options: Options) -> Self {
        let running = start(options).await.unwrap();
        // No kept connections: a broken one would be tried again unseen.
        let client = reqwest::Client::builder()
            .pool_max_idle_per_host(0)
            .timeout(Duration::from_secs(20))
            .build()
            .unwrap();
        Self { running, client }
    }

    /// A request to the API with the right key.
    fn api(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        let url = format!("{}{path}", self.running.api_url());
        self.client
            .request(method, url)
            .header("PRIVATE-TOKEN", &self.running.api_key)
    }

    async fn get(&self, path: &str) -> (u16, Value) {
        read(self.api(Method::GET, path).send().await.unwrap()).await
    }

    async fn ranged(&self, path: &str, range: &str) -> (u16, Value) {
        let request = self.api(Method::GET, path).header("RANGED-DATA", range);
        read(request.send().await.unwrap()).await
    }

    async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        read(
            self.api(Method::POST, path)
                .json(body)
                .send()
                .await
                .unwrap(),
        )
        .await
    }

    async fn delete(&self, path: &str) -> (u16, Value) {
        read(self.api(Method::DELETE, path).send().await.unwrap()).await
    }

    /// Orders a machine and gives its uuid.
    async fn order(&self, name: &str, tags: &[&str]) -> String {
        let (status, answer) = self.post(SERVERS, &body(name, tags)).await;
        assert_eq!(status, 200, "{answer}");
        answer[0]["uuid"].as_str().unwrap().to_owned()
    }

    async fn server(&self, uuid: &str) -> Value {
        let (status, answer) = self.get(&format!("{SERVERS}/{uuid}")).await;
        assert_eq!(status, 200, "{answer}");
        answer[0].clone()
    }

    async fn status(&self, uuid: &str) -> String {
        self.server(uuid).await["status"]
            .as_str()
            .unwrap()
            .to_owned()
    }

    /// The names in a list.
    async fn names(&self, path: &str) -> Vec<String> {
        let (status, answer) = self.get(path).await;
        assert_eq!(status, 200, "{answer}");
        names(&answer)
    }

    async fn control(&self, method: Method, path: &str, body: &Value) -> (u16, Value) {
        let url = format!("{}/_simulator/{path}", self.running.control_url());
        let request = self.client.request(method, url);
        // As plain curl sends it.
        let request = match body {
            Value::Null => request,
            body => request.body(body.to_string()),
        };
        read(request.send().await.unwrap()).await
    }

    async fn steer(&self, path: &str, body: Value) -> Value {
        let (status, answer) = self.control(Method::POST, path, &body).await;
        assert!(status < 300, "{path} {body}: {answer}");
        answer
    }

    async fn look(&self, path: &str) -> Value {
        let (status, answer) = self.control(Method::GET, path, &Value::Null).await;
        assert_eq!(status, 200, "{path}: {answer}");
        answer
    }

    async fn advance(&self, seconds: u64) {
        self.steer("clock", json!({"advanceSeconds": seconds}))
            .await;
    }

    async fn turn(&self, switch: &str, value: &str) {
        self.steer("switches", json!({switch: value})).await;
    }
}

fn names(list: &Value) -> Vec<String> {
    let records = list.as_array().unwrap().iter();
    records
        .map(|record| record["name"].as_str().unwrap().to_owned())
        .collect()
}

async fn read(response: Response) -> (u16, Value) {
    let status = response.status().as_u16();
    let text = response.text().await.unwrap();
    (status, serde_json::from_str(&text).unwrap_or(Value::Null))
}

/// Checks that an answer is a whole error record, and gives its text.
fn refused((status, record): (u16, Value), expected: u16) -> String {
    assert_eq!(status, expected, "{record}");
    let fields: Vec<&str> = record
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    assert_eq!(fields, ["errorCode", "errorMessage", "errors"]);
    assert!(record["errorCode"].is_i64());
    for breach in record["errors"].as_array().unwrap() {
        assert!(
            breach["property"].is_string() && breach["message"].is_string(),
            "{breach}"
        );
    }
    record["errorMessage"].as_str().unwrap().to_owned()
}
