//! The watches against an API server with scripted answers, and what triggers a reconcile.

use super::*;
use crate::{
    controllers::objects::slim,
    runtime::telemetry::{LogFormat, tests::CapturedLog},
};
use api::ProviderAccount;
use axum::{
    Router,
    body::Body,
    extract::State,
    http::{StatusCode, Uri, header::CONTENT_TYPE},
    response::{IntoResponse as _, Response},
};
use futures::{StreamExt as _, future::ready, stream::BoxStream};
use kube::{Client, Config, ResourceExt as _};
use serde_json::{Value, json};
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};
use tokio::{net::TcpListener, sync::watch as channel, task::JoinSet, time::Instant};

/// What the API server does with one request.
enum Answer {
    /// The API server, or a proxy before it, never answers.
    Nothing,
    /// A list of these objects at this version, with the token of its next page.
    Lists(&'static [&'static str], &'static str, Option<&'static str>),
    /// A watch with these events that ends after a while.
    Ends(Vec<Value>),
    /// A watch with these events that never ends.
    Stays(Vec<Value>),
    /// A watch that ends at once.
    EndsAtOnce,
    /// An error with this code.
    Says(u16),
}
use Answer::{Ends, EndsAtOnce, Lists, Nothing, Says, Stays};

#[derive(Clone, Default)]
struct Script {
    answers: Arc<Mutex<VecDeque<Answer>>>,
    asked: Arc<Mutex<Vec<String>>>,
}

/// The API server, and a watch of it.
struct Rig {
    script: Script,
    signals: BoxStream<'static, WatchSignal<ProviderAccount>>,
    relists: channel::Sender<u64>,
    _server: JoinSet<()>,
}

/// Short, except for the period: an answer ends what ends by itself here.
const TIMES: WatchTimes = WatchTimes {
    period: Duration::from_secs(7),
    answer: Duration::from_millis(300),
};
/// Maximum wait for a signal.
const SOON: Duration = Duration::from_secs(20);

impl Rig {
    /// Starts a server that gives these answers in this order, and no answer after that.
    async fn start(times: WatchTimes, answers: Vec<Answer>) -> Self {
        let script = Script::default();
        script.answers.lock().unwrap().extend(answers);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().fallback(answer).with_state(script.clone());
        let mut server = JoinSet::new();
        server.spawn(async move {
            // Ends with this set.
            let _ = axum::serve(listener, router).await;
        });
        let mut config = Config::new(address.parse().unwrap());
        config.default_retry = false;
        let api = Api::all(Client::try_from(config).unwrap());
        let relists = channel::Sender::new(0);
        Self {
            script,
            signals: watch(api, times, relists.subscribe(), slim).boxed(),
            relists,
            _server: server,
        }
    }

    /// The next signal, as a word. A failure is no sign of life.
    async fn next(&mut self) -> String {
        let signals = self.signals.by_ref();
        let mut signals = signals.filter(|signal| ready(!matches!(signal, WatchSignal::Failed)));
        let signal = tokio::time::timeout(SOON, signals.next()).await;
        match signal.expect("it comes soon").expect("a watch never ends") {
            WatchSignal::Failed => "failed".into(),
            WatchSignal::Event(Event::Init) => "init".into(),
            WatchSignal::Event(Event::InitApply(object)) => format!("listed {}", object.name_any()),
            WatchSignal::Event(Event::InitDone) => "done".into(),
            WatchSignal::Event(Event::Apply(object)) => format!("applied {}", object.name_any()),
            WatchSignal::Event(Event::Delete(object)) => format!("deleted {}", object.name_any()),
            WatchSignal::Alive => "life".into(),
            WatchSignal::Stale => "silence".into(),
        }
    }

    async fn expect_signals(&mut self, expected: &[&str]) {
        for (n, expected) in expected.iter().enumerate() {
            assert_eq!(self.next().await, *expected, "number {n}");
        }
    }

    /// The requests: `list`, a token, or the version after which a watch starts.
    fn requests(&self) -> Vec<String> {
        self.script.asked.lock().unwrap().clone()
    }
}

async fn answer(State(script): State<Script>, uri: Uri) -> Response {
    let query = uri.query().unwrap_or_default();
    let value = |name: &str| {
        let mut parts = query.split('&').filter_map(|part| part.split_once('='));
        parts
            .find(|(n, _)| *n == name)
            .map(|(_, value)| value.to_owned())
    };
    let asked = match (value("watch"), value("continue")) {
        (Some(_), _) => value("resourceVersion").unwrap_or_default(),
        (None, Some(token)) => token,
        (None, None) => "list".to_owned(),
    };
    script.asked.lock().unwrap().push(asked);
    let answer = script.answers.lock().unwrap().pop_front();
    let lines = |events: Vec<Value>| {
        let lines: Vec<_> = events.into_iter().map(|e| Ok(format!("{e}\n"))).collect();
        stream::iter::<Vec<Result<String, std::io::Error>>>(lines)
    };
    let json = [(CONTENT_TYPE, "application/json")];
    match answer.unwrap_or(Nothing) {
        Nothing => std::future::pending().await,
        Lists(names, version, next) => {
            let items: Vec<Value> = names.iter().map(|name| object(name, "1")).collect();
            let list = json!({
                "apiVersion": "flexmetal.dev/v1alpha1", "kind": "ProviderAccountList",
                "metadata": {"resourceVersion": version, "continue": next}, "items": items,
            });
            (json, list.to_string()).into_response()
        }
        Ends(events) => {
            let later = stream::once(async {
                tokio::time::sleep(Duration::from_secs(1)).await;
                Ok(String::new())
            });
            (json, Body::from_stream(lines(events).chain(later))).into_response()
        }
        Stays(events) => {
            let rest = stream::pending();
            (json, Body::from_stream(lines(events).chain(rest))).into_response()
        }
        EndsAtOnce => (json, String::new()).into_response(),
        Says(code) => {
            let status = json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                "message": "no", "reason": "Expired", "code": code,
            });
            let code = StatusCode::from_u16(code).unwrap();
            (code, json, status.to_string()).into_response()
        }
    }
}

fn object(name: &str, version: &str) -> Value {
    json!({
        "apiVersion": "flexmetal.dev/v1alpha1", "kind": "ProviderAccount",
        "metadata": {"name": name, "namespace": "n", "uid": name, "resourceVersion": version},
        "spec": {"baseURL": "u", "apiKeySecretRef": {"name": "s"}},
    })
}

fn event(kind: &str, name: &str, version: &str) -> Value {
    json!({"type": kind, "object": object(name, version)})
}

fn bookmark(version: &str) -> Value {
    json!({"type": "BOOKMARK", "object": {
        "apiVersion": "flexmetal.dev/v1alpha1", "kind": "ProviderAccount",
        "metadata": {"resourceVersion": version},
    }})
}

#[tokio::test]
async fn watch_lists_in_pages_and_resumes_at_version() {
    let first = vec![
        event("ADDED", "c", "7"),
        event("DELETED", "a", "8"),
        bookmark("9"),
    ];
    let answers = vec![
        Lists(&["a"], "5", Some("more")),
        Lists(&["b"], "5", None),
        Ends(first),
        Stays(vec![event("MODIFIED", "b", "10")]),
    ];
    let mut rig = Rig::start(TIMES, answers).await;
    rig.expect_signals(&["init", "listed a", "listed b", "done"])
        .await;
    rig.expect_signals(&["life", "applied c", "deleted a", "life"])
        .await;
    rig.expect_signals(&["life", "applied b"]).await;
    assert_eq!(rig.requests(), ["list", "more", "5", "9"]);
}

#[tokio::test]
async fn unanswered_list_or_watch_request_is_repeated() {
    let answers = vec![
        Nothing,
        Lists(&["a"], "5", Some("more")),
        Nothing,
        Lists(&["a"], "6", None),
        Nothing,
        Stays(vec![event("MODIFIED", "a", "7")]),
    ];
    let mut rig = Rig::start(TIMES, answers).await;
    rig.expect_signals(&["init", "init", "listed a"]).await;
    rig.expect_signals(&["init", "listed a", "done"]).await;
    rig.expect_signals(&["life", "applied a"]).await;
    assert_eq!(rig.requests(), ["list", "list", "more", "list", "6", "6"]);
}

#[tokio::test]
async fn expired_resource_version_leads_to_new_list() {
    let gone = json!({"type": "ERROR", "object": {
        "kind": "Status", "apiVersion": "v1", "status": "Failure",
        "message": "too old resource version", "reason": "Expired", "code": 410,
    }});
    let answers = vec![
        Lists(&[], "5", None),
        Says(429),
        Says(410),
        Lists(&[], "6", None),
        Stays(vec![gone]),
        Lists(&[], "7", None),
        Stays(Vec::new()),
    ];
    let mut rig = Rig::start(TIMES, answers).await;
    rig.expect_signals(&["init", "done", "init", "done", "life"])
        .await;
    rig.expect_signals(&["init", "done", "life"]).await;
    assert_eq!(rig.requests(), ["list", "5", "5", "list", "6", "list", "7"]);
}

#[tokio::test]
async fn watch_ending_immediately_backs_off() {
    let mut answers = vec![Lists(&[], "5", None)];
    answers.extend((0..100).map(|_| EndsAtOnce));
    let mut rig = Rig::start(TIMES, answers).await;
    let began = Instant::now();
    rig.expect_signals(&["init", "done", "life", "life", "life"])
        .await;
    assert!(began.elapsed() >= Duration::from_secs(3), "1 s and 2 s");
    assert_eq!(rig.requests(), ["list", "5", "5", "5"]);
}

#[tokio::test]
async fn failures_in_a_row_are_logged_once() {
    let (written, log) = CapturedLog::start(LogFormat::Text, "info");
    let _log = tracing::subscriber::set_default(log);
    let answers = vec![
        Lists(&[], "5", None),
        Says(429),
        Says(429),
        Stays(vec![bookmark("6"), bookmark("7")]),
    ];
    let mut rig = Rig::start(TIMES, answers).await;
    rig.expect_signals(&["init", "done", "life", "life", "life"])
        .await;
    let text = written.text();
    for event in ["WARN", "watch failed", "watch recovered"] {
        assert_eq!(text.matches(event).count(), 1, "{event}: {text}");
    }
}

#[tokio::test]
async fn silent_watch_is_reported_stale_and_relisted() {
    let times = WatchTimes {
        period: Duration::from_secs(1),
        answer: Duration::from_secs(60),
    };
    let answers = vec![
        Lists(&[], "5", None),
        // The end of this watch is lost, and so is the start of the next one.
        Stays(vec![bookmark("6")]),
        Nothing,
        Lists(&[], "7", None),
        Stays(Vec::new()),
    ];
    let mut rig = Rig::start(times, answers).await;
    rig.expect_signals(&["init", "done", "life", "life"]).await;
    let began = Instant::now();
    rig.expect_signals(&["silence", "init", "done", "life"])
        .await;
    assert!(began.elapsed() >= Duration::from_millis(2500));
    assert_eq!(rig.requests(), ["list", "5", "6", "list", "7"]);
}

#[tokio::test]
async fn resync_request_works_in_every_watch_state() {
    let answers = vec![
        Nothing,
        Lists(&["a"], "5", None),
        Stays(Vec::new()),
        Lists(&["b"], "6", None),
        Stays(Vec::new()),
    ];
    let times = WatchTimes {
        answer: Duration::from_secs(60),
        ..TIMES
    };
    let mut rig = Rig::start(times, answers).await;
    rig.expect_signals(&["init"]).await;
    let listing = rig.signals.next();
    // The first list is in progress when the request comes.
    let early = tokio::time::timeout(Duration::from_millis(300), listing).await;
    assert!(early.is_err());
    rig.relists.send_modify(|count| *count += 1);
    rig.expect_signals(&["init", "listed a", "done", "life"])
        .await;
    rig.relists.send_modify(|count| *count += 1);
    rig.expect_signals(&["init", "listed b", "done", "life"])
        .await;
}

#[test]
fn a_status_write_is_no_intent() {
    let plain: ProviderAccount = serde_json::from_value(json!({
        "apiVersion": "flexmetal.dev/v1alpha1",
        "kind": "ProviderAccount",
        "metadata": {"name": "a", "namespace": "n", "uid": "1"},
        "spec": {"baseURL": "u", "apiKeySecretRef": {"name": "s"}},
    }))
    .unwrap();
    let trigger_hash = |object: &ProviderAccount| triggers(&object.metadata, |_| ());
    let mut with_status = plain.clone();
    with_status.status = Some(Default::default());
    with_status.metadata.resource_version = Some("7".into());
    assert_eq!(trigger_hash(&plain), trigger_hash(&with_status));
    let mut finalized = plain.clone();
    finalized.metadata.finalizers = Some(vec!["f".into()]);
    assert_ne!(trigger_hash(&plain), trigger_hash(&finalized));
    assert_ne!(
        trigger_hash(&plain),
        triggers(&plain.metadata, |hash| true.hash(hash))
    );
}
