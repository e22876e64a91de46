//! A simulator with a driven clock, its control port, and clients of it.

use std::io::Write;
use std::time::Duration;

use hosting::{Client, ClientOptions, Dial, Gates};
use hosting_types::{ApiKey, BaseUrl};
use serde_json::{Value, json};
use simulator::{ClockMode, Delivery, Options, Running, start};

use crate::{
    canaries::{KEY, OLD_PASSWORD},
    logs,
};

/// How long a delivery and an installation take, in virtual seconds.
pub(crate) const LASTING: u64 = 300;
/// Virtual time at the start.
pub(crate) const START: u64 = 1_700_000_000;
/// The contract that the account has.
pub(crate) const CONTRACT: &str = "C-1";
pub(crate) const EMAIL: &str = "owner@example.com";
pub(crate) const LOCATION: &str = "EU: Rotterdam";
pub(crate) const KIND: &str = "bm7.std.8";

/// A request of the simulator's ledger.
pub(crate) struct Logged(Value);

impl Logged {
    pub(crate) fn number(&self) -> u64 {
        self.0["seq"].as_u64().unwrap()
    }

    /// Method and path with its variable parts named.
    pub(crate) fn operation(&self) -> (String, String) {
        let text = |field: &str| self.0[field].as_str().unwrap_or_default().to_owned();
        (text("method"), text("template"))
    }

    /// Its query, decoded.
    pub(crate) fn query(&self) -> Vec<(String, String)> {
        let query = self.0["query"].as_str().unwrap();
        let pairs = url::form_urlencoded::parse(query.as_bytes());
        pairs.into_owned().collect()
    }

    /// The requested page.
    pub(crate) fn page(&self) -> &str {
        self.0["rangedData"].as_str().unwrap_or_default()
    }

    /// What it changed; null for nothing.
    pub(crate) fn effect(&self) -> &Value {
        &self.0["effect"]
    }

    pub(crate) fn is_over(&self) -> bool {
        self.0["outcome"] != "pending"
    }

    pub(crate) fn was_hit_by_a_fault(&self) -> bool {
        !self.0["fault"].is_null()
    }
}

/// The accounts of every simulator here: ours with recognisable secrets, and another user's.
pub(crate) fn accounts() -> Value {
    json!({"accounts": [
        {"name": "main", "emailAddress": EMAIL, "password": OLD_PASSWORD, "keys": [{"key": KEY}],
         "quota": [{"location": LOCATION, "instanceType": KIND, "contractId": CONTRACT, "quota": 3}]},
        {"name": "other", "keys": [{"key": "other-key"}]},
    ]})
}

pub(crate) struct Rig {
    pub(crate) api: String,
    control: String,
    steering: reqwest::Client,
    /// Ends with the rig, if it runs in this process.
    _running: Option<Running>,
}

impl Rig {
    pub(crate) async fn start() -> Self {
        logs::watch();
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(accounts().to_string().as_bytes()).unwrap();
        let running = start(Options {
            accounts: Some(file.path().to_owned()),
            clock: ClockMode::Driven,
            clock_start: Some(START),
            delivery: Delivery::exactly(Duration::from_secs(LASTING)),
            install: Duration::from_secs(LASTING),
            seed: Some(1),
            ..Options::default()
        })
        .await
        .unwrap();
        let mut rig = Self::at(running.api_url(), running.control_url());
        rig._running = Some(running);
        rig
    }

    /// A simulator that runs elsewhere.
    pub(crate) fn at(api: String, control: String) -> Self {
        let steering = reqwest::Client::builder()
            .timeout(Duration::from_secs(30))
            .tls_certs_only(Vec::new())
            .no_proxy()
            .build()
            .unwrap();
        Self {
            api,
            control,
            steering,
            _running: None,
        }
    }

    /// A client with this key and this time-out.
    pub(crate) fn client(&self, key: &str, deadline: Duration) -> Client {
        self.client_with(key, deadline, false)
    }

    /// A client that sends only reads.
    pub(crate) fn read_only_client(&self, key: &str, deadline: Duration) -> Client {
        self.client_with(key, deadline, true)
    }

    fn client_with(&self, key: &str, deadline: Duration, read_only: bool) -> Client {
        let base_url = BaseUrl::parse(&self.api).unwrap();
        let key = ApiKey::parse(key.as_bytes()).unwrap();
        let mut options = ClientOptions::new(base_url, key);
        options.dial = Dial::Anywhere;
        // Answers of other tests take no memory here.
        options.gates = Gates::default();
        options.read_only = read_only;
        options.order_timeout = deadline;
        options.read_timeout = deadline;
        options.mutation_timeout = deadline;
        Client::new(options).unwrap()
    }

    /// The text of a page of the control port.
    pub(crate) async fn page(&self, path: &str) -> String {
        let url = format!("{}/_simulator/{path}", self.control);
        let answer = self.steering.get(url).send().await.unwrap();
        assert!(answer.status().is_success(), "{path}");
        answer.text().await.unwrap()
    }

    pub(crate) async fn get_json(&self, path: &str) -> Value {
        serde_json::from_str(&self.page(path).await).unwrap()
    }

    async fn send(&self, request: reqwest::RequestBuilder) -> Value {
        let answer = request.send().await.unwrap();
        let status = answer.status();
        let text = answer.text().await.unwrap();
        assert!(status.is_success(), "{status} {text}");
        serde_json::from_str(&text).unwrap_or(Value::Null)
    }

    pub(crate) async fn steer(&self, path: &str, body: Value) -> Value {
        let url = format!("{}/_simulator/{path}", self.control);
        self.send(self.steering.post(url).json(&body)).await
    }

    /// A user changes a server in the portal.
    pub(crate) async fn alter(&self, server: &str, body: Value) {
        let url = format!("{}/_simulator/machines/{server}", self.control);
        self.send(self.steering.patch(url).json(&body)).await;
    }

    pub(crate) async fn advance(&self, seconds: u64) {
        self.steer("clock", json!({"advanceSeconds": seconds}))
            .await;
    }

    pub(crate) async fn set_switch(&self, switch: &str, value: &str) {
        self.steer("switches", json!({switch: value})).await;
    }

    /// The next requests of this kind get this fault.
    pub(crate) async fn fault(&self, method: &str, fault: &Value) {
        let rule = json!({"match": {"method": method, "path": "/v3/*"}, "fault": fault});
        self.steer("faults", rule).await;
    }

    pub(crate) async fn clear(&self, what: &str) {
        let url = format!("{}/_simulator/{what}", self.control);
        self.send(self.steering.delete(url)).await;
    }

    /// The requests after `since`.
    pub(crate) async fn ledger(&self, since: u64) -> Vec<Logged> {
        let entries = self.get_json(&format!("ledger?since={since}")).await;
        let entries = entries.as_array().unwrap().iter();
        entries.map(|entry| Logged(entry.clone())).collect()
    }

    /// The number of the latest request.
    pub(crate) async fn latest(&self) -> u64 {
        let entries = self.ledger(0).await;
        entries.last().map_or(0, Logged::number)
    }
}
