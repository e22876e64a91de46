//! What other clients really send, replayed byte by byte: a file in `traffic/`
//! for each way of behaving.

mod script;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use simulator::{ClockMode, Delivery, Options, Profile, Running, start};

use crate::wire::{Answer, Wire};
use script::{Expected, Request, Script, Step};

const KEY: &str = "traffic-key";

struct Replay {
    running: Running,
    profile: &'static str,
    wire: Wire,
    /// Values kept from answers, by name.
    kept: BTreeMap<String, String>,
    sent: usize,
}

impl Replay {
    async fn new(script: &Script, name: &'static str) -> Self {
        let profile: Profile = name.parse().unwrap();
        let running = start(Options {
            api_key: Some(KEY.to_owned()),
            profile,
            switches: script.switches.clone(),
            clock: ClockMode::Driven,
            clock_start: Some(1_700_000_000),
            delivery: Delivery::exactly(Duration::from_mins(5)),
            release: Duration::from_secs(5),
            command: Duration::from_secs(10),
            install: Duration::from_mins(5),
            seed: Some(1),
            ..Options::default()
        })
        .await
        .unwrap();
        Self {
            wire: Wire::open(running.api).await,
            running,
            profile: name,
            kept: BTreeMap::from([("key".to_owned(), KEY.to_owned())]),
            sent: 0,
        }
    }

    fn fill(&self, text: &str) -> String {
        let mut filled = text.to_owned();
        for (name, value) in &self.kept {
            filled = filled.replace(&format!("{{{name}}}"), value);
        }
        filled
    }

    async fn step(&mut self, step: &Step) {
        match step {
            Step::Steer(path, body, times) => {
                for _ in 0..*times {
                    self.steer(path, body).await;
                }
            }
            Step::Send(request) => {
                if mine(request.profile.as_deref(), self.profile) {
                    self.request(request).await;
                }
            }
        }
    }

    async fn steer(&self, path: &str, body: &str) {
        let body = self.fill(body);
        let length = body.len();
        let bytes = format!(
            "POST /_simulator/{path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        let mut wire = Wire::open(self.running.control).await;
        let answer = wire.send(bytes.as_bytes(), false).await.unwrap();
        assert!(answer.status < 300, "{bytes}: {answer:?}");
    }

    async fn request(&mut self, request: &Request) {
        let expected = request.expected.iter();
        let mut expected = expected.filter(|one| mine(one.profile.as_deref(), self.profile));
        let expected = expected
            .next()
            .expect("something is expected of each request");
        let (times, seconds) = request.poll.unwrap_or((1, 0));
        for time in 1.. {
            let answer = self.send(request).await;
            let failing = self.failing(expected, &answer);
            match (failing, time == times) {
                (None, true) => {
                    self.keep(expected, &answer);
                    return;
                }
                (None, false) => panic!("{}: holds at the {time}th time", request.line),
                (Some(why), true) => panic!("{}: {why}: {answer:?}", request.line),
                (Some(_), false) => {
                    let body = format!("{{\"advanceSeconds\": {seconds}}}");
                    self.steer("clock", &body).await;
                }
            }
        }
    }

    async fn send(&mut self, request: &Request) -> Answer {
        let old = request.line.ends_with("HTTP/1.0");
        let mut head = format!("{}\r\n", self.fill(&request.line));
        let named = |name: &str| {
            let mut headers = request.headers.iter();
            headers.any(|line| line.to_ascii_lowercase().starts_with(name))
        };
        if !old && !named("host:") {
            head.push_str("Host: api.example.com\r\n");
        }
        for line in &request.headers {
            head.push_str(&format!("{}\r\n", self.fill(line)));
        }
        let mut body = self.fill(&request.body.join("\n")).into_bytes();
        if named("transfer-encoding: chunked") {
            body = chunked(&body);
        } else if !body.is_empty() && !named("content-length:") {
            head.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        let bytes = [head.as_bytes(), b"\r\n", &body].concat();
        let bodiless = request.line.starts_with("HEAD");
        let answer = self.wire.send(&bytes, bodiless).await.unwrap();
        self.sent += 1;
        if old || answer.header("connection") == Some("close") {
            self.wire = Wire::open(self.running.api).await;
        }
        answer
    }

    /// Why an answer is not the expected one; `None` when it is.
    fn failing(&self, expected: &Expected, answer: &Answer) -> Option<String> {
        if answer.status != expected.status {
            return Some(format!(
                "status {} instead of {}",
                answer.status, expected.status
            ));
        }
        expected.equal.iter().find_map(|(path, wanted)| {
            let wanted = self.fill(wanted);
            let found = found(answer, path);
            let same = match wanted.as_str() {
                "absent" => found.is_none(),
                text => found == Some(serde_json::from_str(text).unwrap()),
            };
            (!same).then(|| format!("{path} is not {wanted}"))
        })
    }

    fn keep(&mut self, expected: &Expected, answer: &Answer) {
        for (path, name) in &expected.kept {
            let value = found(answer, path).unwrap();
            let text = value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned);
            self.kept.insert(name.clone(), text);
        }
    }

    /// The ledger has every request that was sent, and no other.
    async fn close(self) {
        let mut wire = Wire::open(self.running.control).await;
        let ask = b"GET /_simulator/ledger/counts HTTP/1.1\r\nHost: localhost\r\n\r\n";
        let counts = wire.send(ask, false).await.unwrap().json();
        let counts = counts.as_object().unwrap().values();
        let counted: u64 = counts.map(|number| number.as_u64().unwrap()).sum();
        assert_eq!(counted, u64::try_from(self.sent).unwrap());
        self.running.stop().await;
    }
}

fn mine(named: Option<&str>, profile: &str) -> bool {
    named.is_none_or(|named| named == profile)
}

fn chunked(body: &[u8]) -> Vec<u8> {
    let mut all = Vec::new();
    for part in body.chunks(7) {
        all.extend(format!("{:X}\r\n", part.len()).bytes());
        all.extend([part, b"\r\n"].concat());
    }
    all.extend(b"0\r\n\r\n");
    all
}

/// The value at a path: `[0].os.slug`, `length` or `header NAME`.
fn found(answer: &Answer, path: &str) -> Option<Value> {
    if let Some(name) = path.strip_prefix("header ") {
        return answer.header(name).map(Value::from);
    }
    let mut at = answer.json();
    let path = path.replace('[', ".").replace(']', "");
    for part in path.split('.').filter(|part| !part.is_empty()) {
        at = match (&at, part.parse::<usize>()) {
            (Value::Array(all), _) if part == "length" => Value::from(all.len()),
            (Value::Array(all), Ok(place)) => all.get(place)?.clone(),
            (value, _) => value.get(part)?.clone(),
        };
    }
    Some(at)
}

#[tokio::test]
async fn every_kept_way_of_behaving_is_served() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/simulator/traffic");
    let entries = std::fs::read_dir(folder).unwrap();
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_none_or(|kind| kind != "rs"));
    files.sort();
    let (mut requests, mut replays) = (0, 0);
    for file in &files {
        let name = file.file_name().unwrap().to_str().unwrap();
        assert!(name.ends_with(".http"), "{name} would not be replayed");
        let script = script::read(&std::fs::read_to_string(file).unwrap());
        assert!(
            script.about.contains("Rows"),
            "{name} names no rows of the page"
        );
        assert!(!script.profiles.is_empty(), "{name} names no profile");
        for profile in ["document", "observed"] {
            if !script.profiles.iter().any(|named| named == profile) {
                continue;
            }
            // Seen only where something fails.
            println!("{name} in {profile}");
            let mut replay = Replay::new(&script, profile).await;
            for step in &script.steps {
                replay.step(step).await;
            }
            requests += replay.sent;
            replays += 1;
            replay.close().await;
        }
    }
    // Straight to the terminal, so that it is seen without --nocapture.
    let _ = writeln!(
        std::io::stderr(),
        "traffic: {} files, {replays} replays, {requests} requests",
        files.len(),
    );
    assert!(files.len() >= 15);
}
