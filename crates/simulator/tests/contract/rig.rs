//! A simulator with a driven clock, and raw requests to it.

use std::time::Duration;

use reqwest::{Client, Method};
use serde_json::{Value, json};
use simulator::{ClockMode, Delivery, Options, Running, start};

pub(crate) const SERVERS: &str = "/v3/flexMetal/servers";
/// What every delivery takes, in seconds.
pub(crate) const DELIVERY: u64 = 300;
/// What every release takes.
pub(crate) const RELEASE: u64 = 5;
/// Virtual time at the start.
pub(crate) const START: u64 = 1_700_000_000;

pub(crate) struct Rig {
    pub(crate) running: Running,
    pub(crate) client: Client,
}

/// Declares cases: a test each, and the rows that they cover.
#[macro_export]
macro_rules! cases {
    ($($name:ident [$($id:literal)+] |$rig:ident| $body:block)+) => {
        $(
            #[tokio::test]
            async fn $name() {
                let $rig = $crate::rig::Rig::new().await;
                $body
            }
        )+
        pub(crate) const COVERED: &[&str] = &[$($($id,)+)+];
    };
}

/// An order that breaks no rule.
pub(crate) fn order() -> Value {
    json!({
        "name": "web-1", "location": "EU: Rotterdam", "instanceType": "bm7.std.8",
        "os": {"slug": "ubuntu-2404-lts"}, "sshKey": [], "tags": ["t"],
    })
}

/// The order with one field changed.
pub(crate) fn with(field: &str, value: Value) -> Value {
    let mut order = order();
    order[field] = value;
    order
}

impl Rig {
    pub(crate) async fn new() -> Self {
        Self::with(Options {
            api_key: Some("contract-key".to_owned()),
            clock: ClockMode::Driven,
            clock_start: Some(START),
            delivery: Delivery::exactly(Duration::from_secs(DELIVERY)),
            release: Duration::from_secs(RELEASE),
            seed: Some(1),
            ..Options::default()
        })
        .await
    }

    pub(crate) async fn with(options: Options) -> Self {
        let running = start(options).await.unwrap();
        let client = Client::builder()
            .timeout(Duration::from_secs(30))
            .build()
            .unwrap();
        Self { running, client }
    }

    pub(crate) fn request(&self, method: &str, path: &str) -> reqwest::RequestBuilder {
        let method: Method = method.parse().unwrap();
        let url = format!("{}{path}", self.running.api_url());
        self.client
            .request(method, url)
            .header("PRIVATE-TOKEN", &self.running.api_key)
    }

    pub(crate) async fn send(&self, request: reqwest::RequestBuilder) -> (u16, Value) {
        let answer = request.send().await.unwrap();
        let status = answer.status().as_u16();
        let text = answer.text().await.unwrap();
        (status, serde_json::from_str(&text).unwrap_or(Value::Null))
    }

    pub(crate) async fn call(&self, method: &str, path: &str, body: Value) -> (u16, Value) {
        self.send(self.request(method, path).json(&body)).await
    }

    pub(crate) async fn get(&self, path: &str) -> (u16, Value) {
        self.send(self.request("GET", path)).await
    }

    pub(crate) async fn ranged(&self, path: &str, range: &str) -> (u16, Value) {
        self.send(self.request("GET", path).header("RANGED-DATA", range))
            .await
    }

    pub(crate) async fn delete(&self, path: &str) -> (u16, Value) {
        self.send(self.request("DELETE", path)).await
    }

    pub(crate) async fn refused(
        &self,
        method: &str,
        path: &str,
        body: Value,
        status: u16,
    ) -> Value {
        let (answered, record) = self.call(method, path, body.clone()).await;
        assert_eq!(answered, status, "{method} {path} {body}: {record}");
        error_record(&record);
        record
    }

    pub(crate) async fn ordered(&self, body: Value) -> String {
        let (status, answer) = self.call("POST", SERVERS, body).await;
        assert_eq!(status, 200, "{answer}");
        answer[0]["uuid"].as_str().unwrap().to_owned()
    }

    /// Orders a server and waits for its delivery.
    pub(crate) async fn delivered(&self, body: Value) -> String {
        let uuid = self.ordered(body).await;
        self.advance(DELIVERY).await;
        uuid
    }

    pub(crate) async fn server(&self, uuid: &str) -> Value {
        self.get(&format!("{SERVERS}/{uuid}")).await.1[0].clone()
    }

    pub(crate) async fn steer(&self, path: &str, body: Value) -> Value {
        let url = format!("{}/_simulator/{path}", self.running.control_url());
        let (status, answer) = self.send(self.client.post(url).json(&body)).await;
        assert!(status < 300, "{path}: {answer}");
        answer
    }

    pub(crate) async fn look(&self, path: &str) -> Value {
        let url = format!("{}/_simulator/{path}", self.running.control_url());
        self.send(self.client.get(url)).await.1
    }

    pub(crate) async fn advance(&self, seconds: u64) {
        self.steer("clock", json!({"advanceSeconds": seconds}))
            .await;
    }

    pub(crate) async fn turn(&self, switch: &str, value: &str) {
        self.steer("switches", json!({switch: value})).await;
    }
}

/// Checks a whole error record.
pub(crate) fn error_record(record: &Value) {
    shape(record, "errorCode:i errorMessage:s errors:a");
    for error in record["errors"].as_array().unwrap() {
        shape(error, "property:s message:s");
    }
}

/// Checks that an object has these fields and no others. Letters: `i` integer,
/// `s` text, `u` text with a UUID, `a` array, `o` object, `n` null, `b` boolean,
/// `?` absent too.
pub(crate) fn shape(record: &Value, fields: &str) {
    let mut known = Vec::new();
    for field in fields.split_whitespace() {
        let (name, kinds) = field.split_once(':').unwrap();
        known.push(name);
        let Some(value) = record.get(name) else {
            assert!(kinds.contains('?'), "{name} is missing in {record}");
            continue;
        };
        let fits = |kind: char| match kind {
            'n' => value.is_null(),
            'b' => value.is_boolean(),
            'i' => value.is_i64() || value.is_u64(),
            's' => value.is_string(),
            'u' => value.as_str().is_some_and(is_uuid),
            'a' => value.is_array(),
            'o' => value.is_object(),
            _ => false,
        };
        assert!(kinds.chars().any(fits), "{name} is {value}");
    }
    for name in record.as_object().unwrap().keys() {
        assert!(
            known.contains(&name.as_str()),
            "{name} is too much in {record}"
        );
    }
}

/// Whether a text is a UUID in the form that the API writes.
fn is_uuid(text: &str) -> bool {
    text.len() == 36 && text.parse::<uuid::Uuid>().is_ok()
}

/// Checks every record of a list that is not empty.
pub(crate) fn all(list: &Value, fields: &str) {
    let records = list.as_array().unwrap();
    assert!(!records.is_empty());
    for record in records {
        shape(record, fields);
    }
}

/// One text field of every record.
pub(crate) fn names<'a>(list: &'a Value, field: &str) -> Vec<&'a str> {
    let records = list.as_array().unwrap().iter();
    records
        .filter_map(|record| record[field].as_str())
        .collect()
}

#[test]
#[should_panic(expected = "createdAt is 1700000000.5")]
fn contract_half_a_second_is_no_integer() {
    shape(&json!({"createdAt": 1_700_000_000.5}), "createdAt:i");
}

#[test]
#[should_panic(expected = "uuid is \"none\"")]
fn contract_any_text_is_no_uuid() {
    shape(&json!({"uuid": "none"}), "uuid:u");
}
