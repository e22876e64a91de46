//! The running simulator of one case, and its names for what we made.

use std::time::Duration;

use reqwest::{Client, Method, RequestBuilder};
use serde_json::{Value, json};
use simulator::{ClockMode, Delivery, Options, Profile, Running, start};
use tempfile::TempDir;

use super::world::{COMMAND, DELIVERY, INSTALL, OFFERS, RELEASE, START, World};

pub(crate) const SERVERS: &str = "/v3/flexMetal/servers";
pub(crate) const WHITELIST: &str = "/v3/account/apiKey/1/whitelist";
/// A name that nothing has.
const NOBODY: &str = "00000000-0000-7000-8000-000000000000";
const KEY: &str = "model-key";

pub(crate) struct Rig {
    running: Option<Running>,
    options: Options,
    client: Client,
    /// Names by number of making.
    pub(crate) machines: Vec<String>,
    pub(crate) commands: Vec<Vec<String>>,
    pub(crate) ssh_keys: Vec<String>,
    pub(crate) entries: Vec<u64>,
    /// Transitions so far.
    pub(crate) steps: usize,
    /// Holds the state file; goes last.
    _folder: TempDir,
}

impl Rig {
    /// Sets up what the model expects at the start.
    pub(crate) async fn new(world: &World) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let setup = &world.setup;
        let options = Options {
            api_key: Some(KEY.to_owned()),
            profile: match setup.observed {
                true => Profile::Observed,
                false => Profile::Document,
            },
            switches: setup.turned.clone(),
            clock: ClockMode::Driven,
            clock_start: Some(START),
            delivery: Delivery::exactly(Duration::from_secs(DELIVERY)),
            release: Duration::from_secs(RELEASE),
            command: Duration::from_secs(COMMAND),
            install: Duration::from_secs(INSTALL),
            seed: Some(7),
            state: setup.kept.then(|| folder.path().join("state")),
            ..Options::default()
        };
        let client = Client::builder().timeout(Duration::from_secs(30));
        let mut rig = Self {
            running: None,
            options,
            client: client.build().unwrap(),
            machines: Vec::new(),
            commands: Vec::new(),
            ssh_keys: Vec::new(),
            entries: Vec::new(),
            steps: 0,
            _folder: folder,
        };
        rig.restart().await;
        for pool in &world.pools {
            rig.quota(pool.offer, &pool.contract, pool.quota).await;
        }
        for (offer, free) in world.stock.iter().enumerate() {
            rig.stock(offer, *free).await;
        }
        rig
    }

    /// Ends the simulator if there is one, and starts it with the same options.
    pub(crate) async fn restart(&mut self) {
        if let Some(running) = self.running.take() {
            running.stop().await;
        }
        self.running = Some(start(self.options.clone()).await.unwrap());
    }

    fn request(&self, method: &str, path: &str) -> RequestBuilder {
        let method: Method = method.parse().unwrap();
        let url = format!("{}{path}", self.running.as_ref().unwrap().api_url());
        let request = self.client.request(method, url);
        request.header("PRIVATE-TOKEN", KEY)
    }

    /// Sends a text as the body; nothing when it is empty.
    pub(crate) async fn call(&self, method: &str, path: &str, body: String) -> (u16, Value) {
        let request = self.request(method, path);
        answer(match body.is_empty() {
            true => request,
            false => request
                .header("Content-Type", "application/json")
                .body(body),
        })
        .await
    }

    /// One page: from `start` on, `results` at most; 0 sends no header.
    pub(crate) async fn page(&self, path: &str, start: usize, results: usize) -> (u16, Value) {
        let request = self.request("GET", path);
        let range = format!("start={start},results={results}");
        answer(match results {
            0 => request,
            _ => request.header("RANGED-DATA", range),
        })
        .await
    }

    /// What has to be there.
    pub(crate) async fn get(&self, path: &str) -> Value {
        let (status, value) = self.page(path, 0, 0).await;
        assert_eq!(status, 200, "{path}: {value}");
        value
    }

    /// All records, page after page, up to an empty one.
    pub(crate) async fn pages(&self, path: &str, results: usize) -> Vec<Value> {
        let mut all = Vec::new();
        for _ in 0..1_000 {
            let (status, page) = self.page(path, all.len(), results).await;
            assert_eq!(status, 200, "{path}: {page}");
            let page = page.as_array().unwrap();
            assert!(page.len() <= results, "{path}: a page of {}", page.len());
            if page.is_empty() {
                return all;
            }
            all.extend(page.iter().cloned());
        }
        panic!("{path} has no end");
    }

    pub(crate) async fn steer(&self, method: &str, path: &str, body: Value) -> Value {
        let running = self.running.as_ref().unwrap();
        let url = format!("{}/_simulator/{path}", running.control_url());
        let request = self.client.request(method.parse().unwrap(), url);
        let (status, value) = answer(match body {
            Value::Null => request,
            body => request.json(&body),
        })
        .await;
        assert!(status < 300, "{path}: {value}");
        value
    }

    pub(crate) async fn quota(&self, offer: usize, contract: &str, quota: usize) {
        let (location, kind) = OFFERS[offer];
        let mut body = json!({"location": location, "instanceType": kind, "quota": quota});
        if !contract.is_empty() {
            body["quotaType"] = json!("commit");
            body["contractId"] = json!(contract);
        }
        self.steer("POST", "quota", body).await;
    }

    pub(crate) async fn stock(&self, offer: usize, free: Option<usize>) {
        let (location, kind) = OFFERS[offer];
        let body = json!({"location": location, "instanceType": kind, "stock": free});
        self.steer("POST", "availability", body).await;
    }

    pub(crate) fn server(&self, place: usize) -> String {
        let uuid = self.machines.get(place).map_or(NOBODY, String::as_str);
        format!("{SERVERS}/{uuid}")
    }

    pub(crate) fn ssh_key(&self, place: usize) -> String {
        let uuid = self.ssh_keys.get(place).map_or(NOBODY, String::as_str);
        format!("/v3/sshKey/{uuid}")
    }

    pub(crate) fn entry(&self, place: usize) -> String {
        let id = self.entries.get(place).copied().unwrap_or(99_999);
        format!("{WHITELIST}/{id}")
    }
}

async fn answer(request: RequestBuilder) -> (u16, Value) {
    let answer = request.send().await.unwrap();
    let status = answer.status().as_u16();
    let text = answer.text().await.unwrap();
    if text.is_empty() {
        return (status, Value::Null);
    }
    (status, serde_json::from_str(&text).unwrap())
}
