//! The simulator as a process, and its control port.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use super::{deadline::eventually, program as built, program::Program};

/// Time limit of an answer. Only a fault takes longer.
const ANSWER_WITHIN: Duration = Duration::from_secs(20);

/// A running simulator. Dropping it ends it.
pub struct Simulator {
    // Dropped with this value, which ends the process.
    _program: Program,
    http: reqwest::Client,
    ready: SimulatorReadyLine,
}

/// The line that it prints once it accepts requests.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SimulatorReadyLine {
    api: String,
    control: String,
    #[serde(default)]
    api_key: String,
}

/// The first key of an accounts file.
fn first_key(file: &str) -> String {
    let text = std::fs::read_to_string(file).expect("the file of accounts can be read");
    let accounts: Value = serde_json::from_str(&text).expect("the file of accounts is JSON");
    let key = accounts["accounts"][0]["keys"][0]["key"].as_str();
    key.expect("the first account has a key").to_owned()
}

/// A builder of a fault rule: which requests, which fault, how often.
#[derive(Clone)]
pub struct Fault(Value);

impl Fault {
    /// A fault for every request, in the simulator's JSON: `json!("dropBefore")` or
    /// `json!({"status": {"code": 500, "after": true}})`.
    pub fn new(fault: impl Into<Value>) -> Self {
        let fault = fault.into();
        Self(json!({"match": {}, "fault": fault}))
    }

    /// Only requests with this method and path; a path may end in `*`.
    pub fn on(mut self, method: &str, path: &str) -> Self {
        self.0["match"]["method"] = json!(method);
        self.0["match"]["path"] = json!(path);
        self
    }

    /// Only requests whose body contains this text.
    pub fn with_body(mut self, part: &str) -> Self {
        self.0["match"]["body"] = json!(part);
        self
    }

    /// Only requests of the account with this name.
    pub fn for_account(mut self, account: &str) -> Self {
        self.0["match"]["account"] = json!(account);
        self
    }

    /// Only this number of matching requests.
    pub fn times(mut self, count: u64) -> Self {
        self.0["count"] = json!(count);
        self
    }

    /// Only after this number of matching requests, which later rules may hit.
    pub fn after(mut self, count: u64) -> Self {
        self.0["skip"] = json!(count);
        self
    }
}

impl Simulator {
    /// Starts a simulator on free ports that logs to `log`. Deliveries and releases take 0.5 s unless `flags` set them.
    ///
    /// # Panics
    /// If it does not start.
    pub fn start(flags: &[String], log: &Path) -> Self {
        let mut arguments: Vec<String> = ["--listen=127.0.0.1:0", "--control=127.0.0.1:0"]
            .map(String::from)
            .to_vec();
        for (flag, value) in [("--delivery-seconds", "0.5"), ("--release-seconds", "0.5")] {
            if !flags.iter().any(|given| given.starts_with(flag)) {
                arguments.push(format!("{flag}={value}"));
            }
        }
        arguments.extend_from_slice(flags);
        let mut program = Program::start(
            "the simulator",
            &built("flexmetal-simulator"),
            &arguments,
            &[],
            log,
            true,
        );
        let output = program.take_output().expect("the output was asked for");
        let mut line = String::new();
        // This read ends, because the pipe closes when the simulator ends.
        let read = BufReader::new(output).read_line(&mut line);
        let mut ready: SimulatorReadyLine = serde_json::from_str(&line)
            .unwrap_or_else(|error| panic!("the simulator said {line:?}: {error} ({read:?})"));
        // With an accounts file it prints no key, so the first one of the file is used.
        if let Some(file) = flags
            .iter()
            .find_map(|flag| flag.strip_prefix("--accounts="))
        {
            ready.api_key = first_key(file);
        }
        Self {
            _program: program,
            http: http_client(),
            ready,
        }
    }

    /// The base URL of the hosting API.
    pub fn api(&self) -> &str {
        &self.ready.api
    }

    /// The account's key.
    pub fn api_key(&self) -> &str {
        &self.ready.api_key
    }

    /// A raw request to the hosting API, with the account's key: status and body.
    pub async fn call(&self, method: &str, path: &str, body: Option<&Value>) -> (u16, Value) {
        let request = self
            .request(&self.ready.api, method, path, body)
            .header("PRIVATE-TOKEN", &self.ready.api_key);
        let answer = request.send().await.expect("the simulator answers");
        let status = answer.status().as_u16();
        let text = answer.text().await.expect("an answer has a body");
        (status, serde_json::from_str(&text).unwrap_or(Value::Null))
    }

    /// All records of a paged list of the hosting API, as the account's key sees it.
    pub async fn records(&self, path: &str) -> Vec<Value> {
        let mut records = Vec::new();
        loop {
            let page = format!("start={},results=50", records.len());
            let request = self
                .request(&self.ready.api, "GET", path, None)
                .header("PRIVATE-TOKEN", &self.ready.api_key)
                .header("RANGED-DATA", page);
            let answer = request.send().await.expect("the simulator answers");
            let answer = answer.json().await.expect("the simulator speaks JSON");
            match answer {
                Value::Array(page) if page.is_empty() => return records,
                Value::Array(page) => records.extend(page),
                other => panic!("{path} is not a list: {other}"),
            }
        }
    }

    /// Every request so far, oldest first.
    pub async fn ledger(&self) -> Vec<Value> {
        self.list("/_simulator/ledger").await
    }

    /// The requests that match these parameters of `GET ledger`, such as `method=POST&since=7`.
    pub async fn ledger_matching(&self, parameters: &str) -> Vec<Value> {
        self.list(&format!("/_simulator/ledger?{parameters}")).await
    }

    /// The number of the last request, for `since`.
    pub async fn last_request_number(&self) -> u64 {
        let last = self.ledger().await.pop();
        last.and_then(|call| call["seq"].as_u64()).unwrap_or(0)
    }

    /// Requests so far by method and path template, as `POST /v3/flexMetal/servers`.
    pub async fn counts(&self) -> BTreeMap<String, u64> {
        let counts = self.control("GET", "/_simulator/ledger/counts", None).await;
        serde_json::from_value(counts).expect("counts are numbers")
    }

    /// Clears the recorded requests.
    pub async fn clear_ledger(&self) {
        self.control("DELETE", "/_simulator/ledger", None).await;
    }

    /// All servers that ever existed, oldest first, each with its `history`.
    pub async fn list_servers(&self) -> Vec<Value> {
        self.list("/_simulator/machines").await
    }

    /// Servers that are neither failed nor being released.
    pub async fn list_live_servers(&self) -> Vec<Value> {
        let mut servers = self.list_servers().await;
        servers.retain(|server| {
            let status = server["status"].as_str().unwrap_or_default();
            !["failed", "releasing", "released"].contains(&status)
        });
        servers
    }

    /// Adds a server that another user ordered: `{"name", "tags"?, "status"?, "createdAt"?, ...}`.
    pub async fn appear(&self, server: &Value) -> Value {
        self.control("POST", "/_simulator/machines", Some(server))
            .await
    }

    /// Like [`Simulator::appear`], in the account with this name.
    pub async fn appear_of(&self, account: &str, server: &Value) -> Value {
        let path = format!("/_simulator/machines?account={account}");
        self.control("POST", &path, Some(server)).await
    }

    /// Changes a server as a user does in the portal: `status`, `statusMessage`, `tags`, `ipAddresses`, `hidden`,
    /// `name`.
    pub async fn alter(&self, uuid: &str, change: &Value) -> Value {
        let path = format!("/_simulator/machines/{uuid}");
        self.control("PATCH", &path, Some(change)).await
    }

    /// Adds a fault rule and returns its number.
    pub async fn fault(&self, fault: Fault) -> u64 {
        let added = self
            .control("POST", "/_simulator/faults", Some(&fault.0))
            .await;
        added["id"].as_u64().expect("a rule has a number")
    }

    /// All fault rules, with how many requests each has hit (`applied`).
    pub async fn faults(&self) -> Vec<Value> {
        self.list("/_simulator/faults").await
    }

    /// How many requests the fault rule with this number has hit, also if it is used up.
    pub async fn count_fault_hits(&self, rule: u64) -> u64 {
        let rules = self.faults().await;
        let rule = rules.iter().find(|it| it["id"] == rule);
        rule.and_then(|it| it["applied"].as_u64()).unwrap_or(0)
    }

    /// Waits until the fault rule with this number has hit this many requests.
    ///
    /// # Panics
    /// If it does not within this time.
    pub async fn wait_for_fault_hits(&self, rule: u64, hits: u64, within: Duration) {
        let what = format!("fault rule {rule} hits {hits} requests");
        eventually(&what, within, async || {
            (self.count_fault_hits(rule).await >= hits).then_some(())
        })
        .await;
    }

    /// Removes the fault rule with this number.
    pub async fn end_fault(&self, rule: u64) {
        let path = format!("/_simulator/faults/{rule}");
        self.control("DELETE", &path, None).await;
    }

    /// Removes all fault rules.
    pub async fn clear_faults(&self) {
        self.control("DELETE", "/_simulator/faults", None).await;
    }

    /// Advances virtual time.
    pub async fn advance(&self, seconds: f64) {
        let body = json!({"advanceSeconds": seconds});
        self.control("POST", "/_simulator/clock", Some(&body)).await;
    }

    /// Sets `deliverySeconds` `[min, max]`, `releaseSeconds`, `failureRate` or `listLagSeconds`, for later orders and
    /// releases.
    pub async fn settings(&self, change: &Value) {
        self.control("POST", "/_simulator/settings", Some(change))
            .await;
    }

    /// Sets switches by name.
    pub async fn switches(&self, change: &Value) {
        self.control("POST", "/_simulator/switches", Some(change))
            .await;
    }

    /// All switches, with `name`, `value`, `values`, and the defaults `document` and `observed`.
    pub async fn list_switches(&self) -> Vec<Value> {
        self.list("/_simulator/switches").await
    }

    /// Sets the on-demand quota.
    pub async fn set_on_demand_quota(&self, location: &str, instance_type: &str, quota: u32) {
        let body = json!({"location": location, "instanceType": instance_type, "quota": quota});
        self.control("POST", "/_simulator/quota", Some(&body)).await;
    }

    /// Sets the committed quota of a contract.
    pub async fn set_committed_quota(
        &self,
        location: &str,
        instance_type: &str,
        contract: &str,
        quota: u32,
    ) {
        let body = json!({
            "location": location, "instanceType": instance_type, "quotaType": "commit",
            "contractId": contract, "quota": quota,
        });
        self.control("POST", "/_simulator/quota", Some(&body)).await;
    }

    /// Sets how many more servers can be ordered. `None` means no limit.
    pub async fn stock(&self, location: &str, instance_type: &str, stock: Option<u32>) {
        let body = json!({"location": location, "instanceType": instance_type, "stock": stock});
        self.control("POST", "/_simulator/availability", Some(&body))
            .await;
    }

    /// Makes a key valid or revokes it.
    pub async fn key(&self, key: &str, valid: bool) {
        let body = json!({"key": key, "valid": valid});
        self.control("POST", "/_simulator/keys", Some(&body)).await;
    }

    /// Adds an account with this key.
    pub async fn add_account(&self, name: &str, key: &str) {
        let body = json!({"name": name, "key": key});
        self.control("POST", "/_simulator/accounts", Some(&body))
            .await;
    }

    /// All servers that an account ever had.
    pub async fn list_servers_of_account(&self, account: &str) -> Vec<Value> {
        self.list(&format!("/_simulator/machines?account={account}"))
            .await
    }

    /// Every request of an account.
    pub async fn ledger_of(&self, account: &str) -> Vec<Value> {
        self.ledger_matching(&format!("account={account}")).await
    }

    /// All API keys, without their text, each with its `apiKeyId` and `whitelist`.
    pub async fn keys(&self) -> Vec<Value> {
        self.list("/_simulator/keys").await
    }

    /// The result of the simulator's invariant checks: `violations` and `marks`.
    pub async fn invariants(&self, prefix: &str) -> Value {
        let path = format!("/_simulator/invariants?prefix={prefix}");
        self.control("GET", &path, None).await
    }

    async fn list(&self, path: &str) -> Vec<Value> {
        match self.control("GET", path, None).await {
            Value::Array(items) => items,
            other => panic!("{path} is not a list: {other}"),
        }
    }

    /// Sends a request to the control port. Returns null if the answer is empty.
    ///
    /// # Panics
    /// If it is refused.
    async fn control(&self, method: &str, path: &str, body: Option<&Value>) -> Value {
        let request = self.request(&self.ready.control, method, path, body);
        let answer = request.send().await.expect("the control port answers");
        let status = answer.status();
        let text = answer.text().await.expect("an answer has a body");
        assert!(status.is_success(), "{method} {path}: {status}: {text}");
        if text.is_empty() {
            return Value::Null;
        }
        serde_json::from_str(&text).expect("the control port speaks JSON")
    }

    fn request(
        &self,
        base: &str,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> reqwest::RequestBuilder {
        let method = method.parse().expect("a method");
        let request = self.http.request(method, format!("{base}{path}"));
        match body {
            Some(body) => request.json(body),
            None => request,
        }
    }
}

fn http_client() -> reqwest::Client {
    reqwest::Client::builder()
        .no_proxy()
        // It speaks HTTP. To read the system's certificates takes long without optimization.
        .tls_certs_only([])
        // The simulator closes a connection that is idle for 30 s, and a request at that moment would fail.
        .pool_max_idle_per_host(0)
        .timeout(ANSWER_WITHIN)
        .build()
        .expect("a plain client can be made")
}
