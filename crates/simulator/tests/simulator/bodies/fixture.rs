//! A simulator with one of everything, and what must hold after each answer.

use std::time::Duration;

use serde_json::{Value, json};
use simulator::{ClockMode, Delivery, Options, Profile, Running, start};

use super::operation::{Operation, Port, QUESTIONS};
use crate::wire::{Answer, Wire};

/// The key that the tests call with.
pub(crate) const KEY: &str = "bodies-key";

/// The views that a refusal must not change.
const VIEWS: [(Port, &str); 7] = [
    (Port::Control, "/_simulator/machines"),
    (Port::Control, "/_simulator/keys"),
    (Port::Control, "/_simulator/accounts"),
    (Port::Api, "/v3/flexMetal/tags"),
    (Port::Api, "/v3/sshKey"),
    (Port::Api, "/v3/account/apiKey/2/whitelist"),
    (Port::Api, "/v3/flexMetal/quota/usage"),
];

/// What only the control port's own requests could change.
const STEERED: [(Port, &str); 4] = [
    (Port::Control, "/_simulator/faults"),
    (Port::Control, "/_simulator/switches"),
    (Port::Control, "/_simulator/settings"),
    (Port::Control, "/_simulator/clock"),
];

pub(crate) struct Fixture {
    running: Running,
    api: Wire,
    control: Wire,
    /// The views after the last refusal, valid until a body is accepted.
    kept: Option<(Port, Vec<Vec<u8>>)>,
    /// Number of the last request in the ledger that was checked.
    seen: u64,
    server: String,
    entry: String,
    ssh_key: String,
    reset_hash: String,
}

impl Fixture {
    pub(crate) async fn new(profile: Profile) -> Self {
        let running = start(Options {
            api_key: Some(KEY.to_owned()),
            profile,
            clock: ClockMode::Driven,
            clock_start: Some(1_700_000_000),
            delivery: Delivery::exactly(Duration::from_secs(60)),
            seed: Some(1),
            ..Options::default()
        })
        .await
        .unwrap();
        let mut fixture = Self {
            api: Wire::open(running.api).await,
            control: Wire::open(running.control).await,
            running,
            kept: None,
            seen: 0,
            server: String::new(),
            entry: String::new(),
            ssh_key: String::new(),
            reset_hash: String::new(),
        };
        fixture.furnish().await;
        fixture
    }

    /// A delivered server, a tag, an SSH key, a second API key with a
    /// whitelist, and a password reset that was asked for.
    async fn furnish(&mut self) {
        let order = json!({"name": "one", "location": "EU: Rotterdam", "instanceType": "bm7.std.8",
            "os": {"slug": "ubuntu-2404-lts"}, "sshKey": [], "tags": ["t", "here"]});
        let ordered = self.made(Port::Api, "/v3/flexMetal/servers", &order).await;
        self.server = ordered[0]["uuid"].as_str().unwrap().to_owned();
        let later = json!({"advanceSeconds": 60});
        self.made(Port::Control, "/_simulator/clock", &later).await;
        let key = json!({"key": "second", "valid": true});
        self.made(Port::Control, "/_simulator/keys", &key).await;
        let entry = json!({"ipRange": "127.0.0.0/8", "active": 1});
        let path = "/v3/account/apiKey/2/whitelist";
        let allowed = self.made(Port::Api, path, &entry).await;
        self.entry = allowed[0]["id"].to_string();
        let key = json!({"name": "stored", "publicKey": "ssh-ed25519 AAAA stored"});
        let stored = self.made(Port::Api, "/v3/sshKey", &key).await;
        self.ssh_key = stored[0]["uuid"].as_str().unwrap().to_owned();
        let reset = json!({"emailAddress": "owner@example.com"});
        self.made(Port::Api, "/v3/account/password/reset", &reset)
            .await;
        let accounts = self.ask(Port::Control, "/_simulator/accounts").await.json();
        self.reset_hash = accounts[0]["resetHash"].as_str().unwrap().to_owned();
    }

    async fn made(&mut self, port: Port, path: &str, body: &Value) -> Value {
        let body = body.to_string();
        let answer = self.send(port, "POST", path, body.as_bytes()).await;
        assert!(answer.status < 300, "{path}: {answer:?}");
        answer.json()
    }

    /// Replaces the placeholders of corpus and paths by real values.
    pub(crate) fn fill(&self, text: &str) -> String {
        text.replace("{server}", &self.server)
            .replace("{entry}", &self.entry)
            .replace("{sshKey}", &self.ssh_key)
            .replace("{resetHash}", &self.reset_hash)
    }

    /// One request over the shared connection: an answer must come, and the
    /// connection must stay open.
    pub(crate) async fn send(
        &mut self,
        port: Port,
        method: &str,
        path: &str,
        body: &[u8],
    ) -> Answer {
        let path = self.fill(path);
        let length = body.len();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nPRIVATE-TOKEN: {KEY}\r\nContent-Length: {length}\r\n\r\n"
        );
        let bytes = [head.as_bytes(), body].concat();
        self.raw(port, &bytes).await
    }

    /// The same with bytes for the whole of it.
    pub(crate) async fn raw(&mut self, port: Port, bytes: &[u8]) -> Answer {
        let wire = match port {
            Port::Api => &mut self.api,
            Port::Control => &mut self.control,
        };
        let answer = wire.send(bytes, false).await;
        let closed = |answer: &Answer| answer.header("connection") == Some("close");
        if answer.as_ref().map_or(true, closed) {
            // The next request, after a failure too, finds an open one.
            let fresh = self.apart(port).await;
            match port {
                Port::Api => self.api = fresh,
                Port::Control => self.control = fresh,
            }
        }
        answer.unwrap_or_else(|why| panic!("{why}: {}", String::from_utf8_lossy(bytes)))
    }

    /// A connection of its own, for requests that may end it.
    pub(crate) async fn apart(&self, port: Port) -> Wire {
        Wire::open(match port {
            Port::Api => self.running.api,
            Port::Control => self.running.control,
        })
        .await
    }

    pub(crate) async fn ask(&mut self, port: Port, path: &str) -> Answer {
        self.send(port, "GET", path, b"").await
    }

    /// Every view that a refusal must leave unchanged.
    pub(crate) async fn views(&mut self, of: Port) -> Vec<Vec<u8>> {
        let mut views = Vec::new();
        let steered = STEERED.iter().filter(|_| of == Port::Control);
        for (port, path) in VIEWS.iter().chain(steered) {
            views.push(self.ask(*port, path).await.body);
        }
        views
    }

    /// Sends what must be refused; the views are the caller's to compare.
    pub(crate) async fn refuse(&mut self, operation: &Operation, body: &[u8]) -> Answer {
        let (port, method) = (operation.port, operation.method);
        let answer = self.send(port, method, operation.path, body).await;
        check(port, &answer);
        if let Some(last) = self.ledger().await.as_array().unwrap().last() {
            assert_eq!(last["effect"], Value::Null, "{last}");
        }
        answer
    }

    /// Sends a body, and checks what holds for every answer.
    pub(crate) async fn meet(&mut self, operation: &Operation, body: &[u8]) -> Answer {
        let before = match self.kept.take() {
            Some((port, views)) if port == operation.port => views,
            _ => self.views(operation.port).await,
        };
        self.ledger().await;
        let (port, method) = (operation.port, operation.method);
        let answer = self.send(port, method, operation.path, body).await;
        check(port, &answer);
        if answer.status >= 400 {
            for entry in self.ledger().await.as_array().unwrap() {
                assert_eq!(entry["effect"], Value::Null, "{entry}");
            }
            let after = self.views(port).await;
            assert!(before == after, "a refusal changed something: {answer:?}");
            self.kept = Some((port, after));
        }
        if operation.name == "faults" {
            // An accepted rule would hit the test's own requests.
            let swept = self.send(port, "DELETE", operation.path, b"").await;
            assert_eq!(swept.status, 204);
            self.kept = None;
        }
        if operation.name == "clock" && answer.status < 400 {
            // Views can only be compared while time stands.
            let stop = self
                .send(port, "POST", operation.path, b"{\"speed\":0}")
                .await;
            assert_eq!(stop.status, 200);
        }
        let health = self.ask(Port::Api, "/v3/health").await;
        assert_eq!(health.status, 200);
        answer
    }

    /// What is new in the ledger.
    async fn ledger(&mut self) -> Value {
        let path = format!("/_simulator/ledger?since={}", self.seen);
        let entries = self.ask(Port::Control, &path).await.json();
        let last = entries.as_array().unwrap().last();
        self.seen = last.map_or(self.seen, |entry| entry["seq"].as_u64().unwrap());
        entries
    }

    /// Asks for everything once: whatever was accepted before, nothing may fail.
    pub(crate) async fn look_at_all(&mut self) {
        for (port, path) in QUESTIONS {
            let answer = self.ask(port, path).await;
            assert!(answer.status < 500, "{path}: {answer:?}");
        }
    }
}

/// Checks every answer: no failure, and a refusal gives its reason.
pub(crate) fn check(port: Port, answer: &Answer) {
    assert!(answer.status < 500, "{answer:?}");
    assert_ne!(answer.header("connection"), Some("close"), "{answer:?}");
    if answer.status < 400 {
        return;
    }
    let record = answer.json();
    let names: Vec<&String> = record
        .as_object()
        .map_or(vec![], |all| all.keys().collect());
    if port == Port::Control {
        assert_eq!(names, ["error"], "{answer:?}");
        assert!(record["error"].is_string(), "{answer:?}");
        return;
    }
    assert_eq!(names, ["errorCode", "errorMessage", "errors"], "{answer:?}");
    assert!(record["errorCode"].is_i64(), "{answer:?}");
    let message = record["errorMessage"].as_str().unwrap();
    assert!(!message.is_empty());
    let errors = record["errors"].as_array().unwrap();
    for error in errors {
        assert_eq!(error.as_object().unwrap().len(), 2, "{error}");
        let texts = [&error["property"], &error["message"]];
        assert!(texts.iter().all(|text| text.is_string()), "{error}");
    }
    if message == "Validation failed" {
        assert!(!errors.is_empty(), "names no field: {answer:?}");
    }
}

/// The fields that a refusal names.
pub(crate) fn properties(answer: &Answer) -> Vec<String> {
    let record = answer.json();
    let errors = record["errors"].as_array().cloned().unwrap_or_default();
    let named = errors.iter().filter_map(|error| error["property"].as_str());
    named.map(str::to_owned).collect()
}
