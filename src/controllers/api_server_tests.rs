//! The shared files against an API server with scripted answers: what they send, and what they make of each answer.

use super::{
    context::{Context, Process, Watched},
    events::Events,
    objects::{KindOptions, Objects},
    report::Reported,
    streams::Guarded,
    values::ObjectValueError,
    writes::{WriteOutcome, with_finalizer, without_finalizer},
};
use crate::{
    account::{Accounts, Rate},
    runtime::clients::WatchTimes,
};
use api::{
    ProviderAccount, Reason,
    account::{AccountStatus, ServerCounts},
    conditions::{self, DesiredCondition, Type},
    references::KeySelector,
};
use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{Method, StatusCode, Uri, header::CONTENT_TYPE},
    response::{IntoResponse as _, Response},
};
use flexmetal_core::{
    cluster_id::ClusterId,
    explanation::Explanation,
    report::{EventRecord, Severity, condition_events},
    requeue::Requeue,
    values::ValueSource,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{Client, Config, runtime::watcher::Event};
use serde_json::{Value, json};
use std::{
    collections::VecDeque,
    error::Error,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{net::TcpListener, task::JoinSet};
use tokio_util::sync::CancellationToken;

type Ctx = Context<ProviderAccount, u32>;

/// Path of the object in these tests.
const OBJECT: &str = "/apis/flexmetal.dev/v1alpha1/namespaces/n/provideraccounts/a";
/// Content that must not appear anywhere else.
const CANARY: &str = "canary-7c1f";

/// What the server does with one request.
pub(in crate::controllers) enum Answer {
    /// It answers with this status and this body.
    Says(u16, Value),
    /// It closes the connection.
    Drops,
}

/// A request as received.
#[derive(Clone, Debug)]
pub(in crate::controllers) struct Request {
    method: Method,
    path: String,
    body: Value,
}

#[derive(Clone, Default)]
struct Shared {
    answers: Arc<Mutex<VecDeque<Answer>>>,
    seen: Arc<Mutex<Vec<Request>>>,
}

/// The API server, and a context that uses it.
pub(in crate::controllers) struct TestApiServer {
    shared: Shared,
    pub(in crate::controllers) ctx: Ctx,
    _server: JoinSet<()>,
}

impl TestApiServer {
    /// Starts a server with these answers, in this order. Events are always accepted and use up no answer.
    pub(in crate::controllers) async fn start(answers: impl IntoIterator<Item = Answer>) -> Self {
        let shared = Shared::default();
        shared.answers.lock().unwrap().extend(answers);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().fallback(answer).with_state(shared.clone());
        let mut server = JoinSet::new();
        server.spawn(async move {
            // Ends with this set.
            let _ = axum::serve(listener, router).await;
        });
        let mut config = Config::new(address.parse().unwrap());
        // As in production: a call is sent once.
        config.default_retry = false;
        let client = Client::try_from(config).unwrap();
        let process = Process {
            read_only: false,
            stored_keys: Default::default(),
            namespace_uids: Default::default(),
            live_list: Default::default(),
            server_commands: Default::default(),
            hosts: Default::default(),
            events: Events::new(client.clone(), None),
            client: client.clone(),
            watch_client: client,
            watch_times: WatchTimes::default(),
            metrics: Default::default(),
            accounts: Accounts::new("0123456789abcdef", Rate::default()),
            cluster: ClusterId::from_namespace_uid("u"),
            namespace: "n".into(),
            watched: Watched::All,
            minimum: api::timing::Minimum::Kept,
            allowed_endpoints: Default::default(),
            leadership: crate::runtime::leader::Leadership::always(),
            lease: "flexmetal-system/flexmetal-operator".into(),
            shutdown: CancellationToken::new(),
        };
        let objects = Arc::new(Objects::new(KindOptions::default(), 1));
        Self {
            shared,
            ctx: Context::new(&process, objects),
            _server: server,
        }
    }

    /// All requests, except events.
    fn calls(&self) -> Vec<Request> {
        let seen = self.shared.seen.lock().unwrap().clone();
        seen.into_iter().filter(|r| !is_event(&r.path)).collect()
    }

    /// The events that were sent.
    fn events(&self) -> Vec<Request> {
        let seen = self.shared.seen.lock().unwrap().clone();
        seen.into_iter().filter(|r| is_event(&r.path)).collect()
    }

    /// Method and path of all requests, except events.
    pub(in crate::controllers) fn requests(&self) -> Vec<String> {
        let line = |r: &Request| format!("{} {}", r.method, r.path);
        self.calls().iter().map(line).collect()
    }
}

fn is_event(path: &str) -> bool {
    path.starts_with("/apis/events.k8s.io/")
}

async fn answer(State(shared): State<Shared>, method: Method, uri: Uri, body: Bytes) -> Response {
    let path = uri.path().to_owned();
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let answer = if is_event(&path) {
        Answer::Says(201, body.clone())
    } else {
        let next = shared.answers.lock().unwrap().pop_front();
        next.unwrap_or_else(|| no(501, "no more answers"))
    };
    shared
        .seen
        .lock()
        .unwrap()
        .push(Request { method, path, body });
    match answer {
        Answer::Says(status, body) => {
            let status = StatusCode::from_u16(status).unwrap();
            let kind = [(CONTENT_TYPE, "application/json")];
            (status, kind, body.to_string()).into_response()
        }
        // Closes the connection without an answer.
        Answer::Drops => std::panic::resume_unwind(Box::new("dropped")),
    }
}

/// A refusal in the words of an API server.
pub(in crate::controllers) fn no(code: u16, message: &str) -> Answer {
    let reason = match code {
        404 => "NotFound",
        409 => "Conflict",
        _ => "InternalError",
    };
    Answer::Says(
        code,
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {},
            "status": "Failure", "message": message, "reason": reason, "code": code,
        }),
    )
}

fn form(uid: &str, version: &str) -> Value {
    json!({
        "apiVersion": "flexmetal.dev/v1alpha1",
        "kind": "ProviderAccount",
        "metadata": {
            "name": "a", "namespace": "n", "uid": uid, "resourceVersion": version,
            "generation": 3, "finalizers": ["theirs/one", "ours", "theirs/two"],
        },
        "spec": {"baseURL": "u", "apiKeySecretRef": {"name": "s"}},
    })
}

fn object(version: &str) -> Arc<ProviderAccount> {
    Arc::new(serde_json::from_value(form("1", version)).unwrap())
}

fn list(objects: &Objects<ProviderAccount, u32>, shown: Value) {
    let shown: Guarded<ProviderAccount> = serde_json::from_value(shown).unwrap();
    objects.apply_event(0, Event::Init);
    objects.apply_event(0, Event::InitApply(shown));
    objects.apply_event(0, Event::InitDone);
}

fn status(live: i32) -> AccountStatus {
    AccountStatus {
        servers: Some(ServerCounts {
            live,
            ..ServerCounts::default()
        }),
        ..AccountStatus::default()
    }
}

/// All that can be printed of an error: the error, its sources, and its debug form.
fn text(error: &dyn Error) -> String {
    let mut text = format!("{error:?}");
    let mut next = Some(error);
    while let Some(error) = next {
        text += &format!(": {error}");
        next = error.source();
    }
    text
}

#[tokio::test]
async fn no_effect_starts_after_shutdown_or_during_backoff() {
    let floor = TestApiServer::start([]).await;
    let rest = Some(Duration::from_secs(7));
    assert!(floor.ctx.may_act());
    assert_eq!(floor.ctx.retry_after(None), None);
    assert_eq!(floor.ctx.retry_after(rest), rest);
    floor.ctx.shutdown.cancel();
    assert!(!floor.ctx.may_act());
    assert!(floor.ctx.retry_after(None).is_some());
    assert_eq!(floor.ctx.retry_after(rest), rest);
}

#[tokio::test]
async fn no_effect_starts_on_a_standby() {
    use crate::runtime::leader::{Election, Leadership};
    let floor = TestApiServer::start([]).await;
    let election = Election {
        namespace: "n".into(),
        name: "flexmetal-operator".into(),
        pod: None,
        lease_duration: Duration::from_secs(15),
        renew_deadline: Duration::from_secs(10),
        retry_period: Duration::from_secs(2),
    };
    // Its elector does not run, so nothing is known of the Lease.
    let (leadership, _elector) = Leadership::by_lease(floor.ctx.client.clone(), election);
    assert!(floor.ctx.requeue_if_standby().is_none());
    let mut process = Process::clone(&floor.ctx);
    process.leadership = leadership;
    assert!(!process.may_act() && process.leader_since().is_none());
    assert!(process.retry_after(None).is_some() && !process.serves(None));
    // A long time: an election enqueues it.
    let Some(Requeue::After(rest)) = process.requeue_if_standby() else {
        panic!("it is a standby");
    };
    assert!(rest >= Duration::from_secs(600));
}

#[tokio::test]
async fn value_errors_are_distinct_and_hide_content() {
    use k8s_openapi::ByteString;
    let selector = KeySelector {
        name: "s".into(),
        key: "wanted".into(),
    };
    let hidden = serde_json::to_value(ByteString(CANARY.into())).unwrap();
    let of = |source: ValueSource<'_>, entry: &str| {
        let content = match source {
            ValueSource::Secret(_) => hidden.clone(),
            ValueSource::ConfigMap(_) => json!(CANARY),
        };
        let data = json!({ entry: content });
        Answer::Says(200, json!({"metadata": {"name": "s"}, "data": data}))
    };
    for (source, path) in [
        (
            ValueSource::Secret(&selector),
            "GET /api/v1/namespaces/n/secrets/s",
        ),
        (
            ValueSource::ConfigMap(&selector),
            "GET /api/v1/namespaces/n/configmaps/s",
        ),
    ] {
        let answers = [
            of(source, "wanted"),
            no(404, "not found"),
            of(source, "other"),
            Answer::Says(200, json!({"metadata": {"name": "s"}})),
            no(500, "internal"),
            Answer::Drops,
            // Read, but undecodable.
            Answer::Says(200, json!({"metadata": {"name": "s"}, "data": CANARY})),
        ];
        let floor = TestApiServer::start(answers).await;
        let value = async || floor.ctx.values("n", &[(source, 64)]).await.swap_remove(0);
        assert_eq!(value().await.unwrap(), CANARY.as_bytes());
        let no_object = value().await.unwrap_err();
        let no_key = value().await.unwrap_err();
        let no_keys = value().await.unwrap_err();
        let failed = value().await.unwrap_err();
        let dropped = value().await.unwrap_err();
        let odd = value().await.unwrap_err();
        assert!(matches!(no_object, ObjectValueError::NoObject { .. }));
        assert!(matches!(no_key, ObjectValueError::NoKey { .. }));
        assert!(matches!(no_keys, ObjectValueError::NoKey { .. }));
        assert!(matches!(failed, ObjectValueError::Unreadable { .. }));
        assert!(matches!(dropped, ObjectValueError::Unreadable { .. }));
        // Its source quotes what was read, so users see only the explanation.
        let ObjectValueError::Unreadable { failure, .. } = &odd else {
            panic!("{odd}")
        };
        assert!(
            ![odd.to_string(), failure.explain()]
                .concat()
                .contains(CANARY)
        );
        for error in [no_object, no_key, no_keys, failed, dropped] {
            let text = text(&error);
            assert!(text.contains(&format!("{} s ", source.kind())), "{text}");
            for content in [CANARY, hidden.as_str().unwrap()] {
                assert!(!text.contains(content), "{text}");
            }
        }
        assert_eq!(floor.requests(), [path; 7], "each was asked for once");
    }
}

#[tokio::test]
async fn values_share_one_read_and_respect_size_limits() {
    let entries = json!({"metadata": {"name": "s"}, "data": {"a": "x", "b": "yyy"}});
    let floor = TestApiServer::start([Answer::Says(200, entries)]).await;
    let at = ["a", "b", "c", "a"].map(|key| KeySelector {
        name: "s".into(),
        key: key.into(),
    });
    let wanted: Vec<_> = at
        .iter()
        .map(|at| (ValueSource::ConfigMap(at), 2))
        .collect();
    let values = floor.ctx.values("n", &wanted).await;
    let [Ok(first), Err(long), Err(missing), Ok(again)] = &values[..] else {
        panic!("{values:?}");
    };
    assert_eq!((&first[..], &again[..]), (&b"x"[..], &b"x"[..]));
    let words = "Key \"b\" of ConfigMap s has 3 bytes, more than 2. Shorten it";
    assert_eq!(long.to_string(), words);
    assert!(
        matches!(missing, ObjectValueError::NoKey { .. }),
        "{missing}"
    );
    assert_eq!(floor.calls().len(), 1);
}

#[tokio::test]
async fn credentials_secret_is_sent_to_no_server() {
    let selector = KeySelector {
        name: "s".into(),
        key: "a".into(),
    };
    let source = ValueSource::Secret(&selector);
    let refused = [
        "flexmetal.dev/api-key",
        "kubernetes.io/service-account-token",
    ];
    for of in refused {
        let secret = json!({"metadata": {"name": "s"}, "type": of, "data": {"a": "eA=="}});
        let floor =
            TestApiServer::start([Answer::Says(200, secret.clone()), Answer::Says(200, secret)])
                .await;
        let error = floor
            .ctx
            .values("n", &[(source, 64)])
            .await
            .remove(0)
            .unwrap_err();
        let words = format!(
            "Secret s has type {of}, which is not sent to servers. Refer to another Secret"
        );
        assert_eq!(error.to_string(), words);
        assert!(error.is_invalid());
        // The certificates of an account are sent to no server.
        assert_eq!(floor.ctx.value("n", source, 64).await.unwrap(), b"x");
    }
    let opaque = json!({"metadata": {"name": "s"}, "type": "Opaque", "data": {"a": "eA=="}});
    let floor = TestApiServer::start([Answer::Says(200, opaque)]).await;
    let value = floor.ctx.values("n", &[(source, 64)]).await.remove(0);
    assert_eq!(value.unwrap(), b"x");
}

#[tokio::test]
async fn invalid_object_name_sends_no_request() {
    let floor = TestApiServer::start([]).await;
    for name in ["../pods/p", "s/../../x", "S", "", "s?x=y", "s."] {
        let selector = KeySelector {
            name: name.into(),
            key: "k".into(),
        };
        for source in [
            ValueSource::Secret(&selector),
            ValueSource::ConfigMap(&selector),
        ] {
            let mut values = floor.ctx.values("n", &[(source, 64)]).await;
            let error = values.swap_remove(0).unwrap_err();
            assert!(
                matches!(error, ObjectValueError::NoObject { .. }),
                "{error}"
            );
        }
    }
    assert!(floor.calls().is_empty());
}

#[tokio::test]
async fn write_answers_are_classified_and_never_resent() {
    let answers = || {
        [
            Answer::Says(200, form("1", "6")),
            no(404, "gone"),
            no(409, "changed"),
            no(500, "internal"),
            no(403, "forbidden"),
            no(422, "invalid"),
            Answer::Drops,
        ]
    };
    let is_as_expected = |n: usize, written: &WriteOutcome<ProviderAccount>| match n {
        0 => {
            matches!(written, WriteOutcome::Done(o) if o.metadata.resource_version.as_deref() == Some("6"))
        }
        1 | 2 => matches!(written, WriteOutcome::Stale),
        // It may have been done; a refused write has not.
        3 => matches!(written, WriteOutcome::Unknown(failure) if !failure.is_refusal()),
        4 | 5 => matches!(written, WriteOutcome::Unknown(failure) if failure.is_refusal()),
        _ => matches!(written, WriteOutcome::Unknown(failure) if failure.code().is_none()),
    };
    let object = object("5");
    let floor = TestApiServer::start(answers().into_iter().chain(answers())).await;
    for n in 0..7 {
        let metadata = json!({"annotations": {"said": "yes"}});
        let written = floor.ctx.write_metadata(&object, metadata).await;
        assert!(is_as_expected(n, &written), "metadata, answer {n}");
    }
    for n in 0..7 {
        let written = floor.ctx.write_status(&object, &status(2)).await.unwrap();
        assert!(is_as_expected(n, &written), "status, answer {n}");
    }
    let calls = floor.calls();
    assert_eq!(calls.len(), 14, "nothing is repeated");
    for call in &calls[..7] {
        assert_eq!((&call.method, call.path.as_str()), (&Method::PATCH, OBJECT));
        let metadata = json!({
            "resourceVersion": "5", "uid": "1", "annotations": {"said": "yes"},
        });
        assert_eq!(call.body, json!({ "metadata": metadata }));
    }
    for call in &calls[7..] {
        assert_eq!(call.method, Method::PATCH);
        assert_eq!(call.path, format!("{OBJECT}/status"));
        assert_eq!(call.body["metadata"]["resourceVersion"], "5");
        assert_eq!(call.body["status"]["servers"]["live"], 2);
    }
}

#[test]
fn other_finalizers_stay_and_ours_appears_once() {
    let object = object("5");
    assert_eq!(
        with_finalizer(&*object, "ours"),
        ["theirs/one", "theirs/two", "ours"]
    );
    assert_eq!(
        with_finalizer(&*object, "new"),
        ["theirs/one", "ours", "theirs/two", "new"]
    );
    assert_eq!(
        without_finalizer(&*object, "ours"),
        ["theirs/one", "theirs/two"]
    );
    assert_eq!(without_finalizer(&*object, "new").len(), 3);
}

/// News for every report, so that a test sees whether they are published.
fn some_news(_: &[Condition], _: &[Condition]) -> Vec<EventRecord> {
    vec![EventRecord {
        severity: Severity::Normal,
        reason: Reason::Delivered.into(),
        action: "Check",
        note: "news".into(),
    }]
}

#[tokio::test]
async fn unchanged_status_is_not_sent() {
    let floor = TestApiServer::start([]).await;
    let mut shown = form("1", "5");
    shown["status"] = serde_json::to_value(status(2)).unwrap();
    let object = Arc::new(serde_json::from_value(shown).unwrap());
    let reported = floor.ctx.report(&object, &status(2), some_news).await;
    assert_eq!(reported, Reported::Unchanged);
    assert!(floor.calls().is_empty() && floor.events().is_empty());
}

#[tokio::test]
async fn long_status_is_cut_and_sent_once() {
    let long = AccountStatus {
        operator_lease: Some("n".repeat(5000)),
        ..status(2)
    };
    let mut written = form("1", "6");
    written["status"] = json!({});
    let floor = TestApiServer::start([Answer::Says(200, written)]).await;
    list(&floor.ctx.objects, form("1", "5"));
    let reported = floor.ctx.report(&object("5"), &long, some_news).await;
    assert_eq!(reported, Reported::Written);
    let sent = &floor.calls()[0].body["status"];
    let operator = sent["operatorLease"].as_str().unwrap();
    assert!(
        operator.len() == 317 && operator.ends_with('…'),
        "{operator}"
    );

    let floor = TestApiServer::start([]).await;
    let mut shown = form("1", "5");
    shown["status"] = sent.clone();
    let object = Arc::new(serde_json::from_value(shown).unwrap());
    let reported = floor.ctx.report(&object, &long, some_news).await;
    assert_eq!(reported, Reported::Unchanged);
}

#[tokio::test]
async fn written_status_updates_cache_and_publishes_events() {
    let mut written = form("1", "6");
    written["status"] = serde_json::to_value(status(2)).unwrap();
    let floor = TestApiServer::start([Answer::Says(200, written)]).await;
    list(&floor.ctx.objects, form("1", "5"));
    let reported = floor.ctx.report(&object("5"), &status(2), some_news).await;
    assert_eq!(reported, Reported::Written);
    assert_eq!(floor.requests(), [format!("PATCH {OBJECT}/status")]);
    assert_eq!(version(&floor), "6");
    let events = floor.events();
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].body["regarding"]["uid"], "1");
    assert_eq!(events[0].body["note"], "news");
}

fn version(floor: &TestApiServer) -> String {
    let newest = floor.ctx.objects.newest("1").unwrap();
    newest.meta().resource_version.clone().unwrap()
}

#[tokio::test]
async fn conflict_reads_object_again_without_events() {
    let answers = [
        no(409, "changed"),
        Answer::Says(200, form("1", "9")),
        // Another object has its name: it is not treated as ours.
        no(409, "changed"),
        Answer::Says(200, form("2", "12")),
        no(404, "gone"),
        no(404, "gone"),
    ];
    let floor = TestApiServer::start(answers).await;
    list(&floor.ctx.objects, form("1", "5"));
    for n in 0..3 {
        let reported = floor.ctx.report(&object("5"), &status(2), some_news).await;
        match n {
            0 => assert_eq!(reported, Reported::Stale),
            // Deleted; the watch will report it.
            _ => assert!(matches!(reported, Reported::Later(_)), "{reported:?}"),
        }
        assert_eq!(version(&floor), "9");
        floor.ctx.objects.reported("1");
    }
    let requests = [format!("PATCH {OBJECT}/status"), format!("GET {OBJECT}")];
    assert_eq!(
        floor.requests(),
        [&requests[..], &requests, &requests].concat()
    );
    assert!(floor.events().is_empty());
}

#[tokio::test]
async fn conflict_without_other_writer_is_retried_later() {
    let answers = [no(409, "changed"), Answer::Says(200, form("1", "5"))];
    let floor = TestApiServer::start(answers).await;
    list(&floor.ctx.objects, form("1", "5"));
    for _ in 0..2 {
        let reported = floor.ctx.report(&object("5"), &status(2), some_news).await;
        assert!(matches!(reported, Reported::Later(_)), "{reported:?}");
    }
    assert_eq!(floor.calls().len(), 2, "the second time was too early");
}

#[tokio::test]
async fn refused_status_write_publishes_one_event() {
    let floor = TestApiServer::start([no(422, "no such key evaluating rule: r")]).await;
    list(&floor.ctx.objects, form("1", "5"));
    for _ in 0..2 {
        let reported = floor.ctx.report(&object("5"), &status(2), some_news).await;
        assert!(matches!(reported, Reported::Later(_)), "{reported:?}");
    }
    let events = floor.events();
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!(events[0].body["reason"], "WriteFailed");
    let message = events[0].body["note"].as_str().unwrap();
    assert!(
        message.contains("no such key evaluating rule: r"),
        "{message}"
    );
}

#[tokio::test]
async fn failed_status_write_retries_later_without_event() {
    for answer in [no(500, "internal"), Answer::Drops] {
        let floor = TestApiServer::start([answer]).await;
        list(&floor.ctx.objects, form("1", "5"));
        for _ in 0..2 {
            let reported = floor.ctx.report(&object("5"), &status(2), some_news).await;
            let Reported::Later(rest) = reported else {
                panic!("{reported:?}")
            };
            assert!(!rest.is_zero());
        }
        // The second report was within the backoff.
        assert_eq!(floor.requests(), [format!("PATCH {OBJECT}/status")]);
        assert_eq!(version(&floor), "5");
        assert!(floor.events().is_empty());
    }
}

#[test]
fn only_newly_true_conditions_publish_events() {
    let listed = |wanted: &[(Type, bool)]| {
        let wanted: Vec<DesiredCondition> = wanted
            .iter()
            .map(|(kind, status)| {
                DesiredCondition::new(*kind, *status, Reason::Delivered, kind.as_str())
            })
            .collect();
        conditions::merge(
            &[],
            &wanted,
            api::conditions::Generations::same(Some(1)),
            jiff::Timestamp::UNIX_EPOCH,
        )
    };
    let before = listed(&[
        (Type::Ready, false),
        (Type::Reconciling, true),
        (Type::Synced, true),
        (Type::OrphansFound, false),
    ]);
    let after = listed(&[
        (Type::Ready, true),
        (Type::Reconciling, false),
        (Type::Synced, true),
        (Type::OrphansFound, true),
        (Type::Stalled, true),
    ]);
    let watched = [
        (Type::Ready, Severity::Normal, "Check"),
        (Type::Reconciling, Severity::Normal, "Move"),
        (Type::Synced, Severity::Normal, "Send"),
        (Type::Stalled, Severity::Warning, "Wait"),
        (Type::KeyAccepted, Severity::Normal, "Try"),
    ];
    let lines = |before: &[Condition], after: &[Condition]| -> Vec<_> {
        let news = condition_events(before, after, &watched);
        let line = |n: &EventRecord| (n.severity, n.action, n.note.clone());
        news.iter().map(line).collect()
    };
    assert_eq!(
        lines(&before, &after),
        [
            (Severity::Normal, "Check", "Ready".to_owned()),
            (Severity::Warning, "Wait", "Stalled".to_owned()),
        ]
    );
    assert!(lines(&after, &after).is_empty());
    assert!(lines(&after, &[]).is_empty());
    assert_eq!(lines(&[], &after).len(), 3, "Ready, Synced and Stalled");
}

/// The object with an undecodable field and this status.
fn broken(status: &Value) -> Value {
    let mut object = form("1", "5");
    object["spec"]["baseURL"] = json!(17);
    object["status"] = status.clone();
    object
}

#[tokio::test]
async fn undecodable_object_is_reported_once() {
    let seen: Guarded<ProviderAccount> = serde_json::from_value(broken(&json!({}))).unwrap();
    let seen = seen.0.unwrap_err();
    let bare = || Answer::Says(200, broken(&json!({})));
    // The write fails first: it is retried, and no event is published.
    let floor = TestApiServer::start([bare(), no(500, "internal")]).await;
    list(&floor.ctx.objects, broken(&json!({})));
    let (_, again) = floor.ctx.report_undecodable(&seen).await;
    assert_eq!(again, Requeue::Backoff);
    assert!(floor.events().is_empty());
    // A rejected write publishes one event: nothing else shows the error.
    let floor = TestApiServer::start([
        bare(),
        no(422, "evaluating rule"),
        bare(),
        no(422, "evaluating rule"),
    ])
    .await;
    list(&floor.ctx.objects, broken(&json!({})));
    for _ in 0..2 {
        assert_eq!(
            floor.ctx.report_undecodable(&seen).await.1,
            Requeue::Backoff
        );
    }
    let events = floor.events();
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!(events[0].body["reason"], "InvalidSpec");

    let mut after = broken(&json!({}));
    after["metadata"]["resourceVersion"] = json!("6");
    let mut others = after.clone();
    others["metadata"]["resourceVersion"] = json!("7");
    let answers = [bare(), Answer::Says(200, after.clone())];
    let floor = TestApiServer::start(answers).await;
    list(&floor.ctx.objects, broken(&json!({})));
    let (message, again) = floor.ctx.report_undecodable(&seen).await;
    assert!(matches!(again, Requeue::After(_)));
    // The account enqueues it any number of times: this version is reported already, and so is the one from our own
    // write.
    let made: Guarded<ProviderAccount> = serde_json::from_value(after).unwrap();
    for seen in [&seen, &made.0.unwrap_err(), &seen] {
        assert_eq!(
            floor.ctx.report_undecodable(seen).await,
            (message.clone(), again)
        );
    }
    let first = [format!("GET {OBJECT}"), format!("PATCH {OBJECT}/status")];
    assert_eq!(floor.requests(), first);
    assert_eq!(floor.events().len(), 1);
    let body = floor.calls().remove(1).body;
    assert_eq!(body["metadata"]["resourceVersion"], "5");
    assert_eq!(body["status"]["observedGeneration"], 3);
    let written: Vec<Condition> =
        serde_json::from_value(body["status"]["conditions"].clone()).unwrap();
    let explanation = Explanation::stalled(Reason::InvalidSpec, message.clone());
    let shown: Vec<_> = written.iter().map(|c| (&*c.type_, &*c.status)).collect();
    let expected = explanation.to_conditions(None, &[], false);
    let expected: Vec<_> = expected
        .iter()
        .map(|w| (w.kind.as_str(), w.status_word()))
        .collect();
    assert_eq!(shown, expected);
    assert_eq!(written[0].message, message);
    // The next version is read and reported again.
    let next: Guarded<ProviderAccount> = serde_json::from_value(others).unwrap();
    floor.ctx.report_undecodable(&next.0.unwrap_err()).await;
    assert_eq!(floor.calls().len(), 4, "a look and a try");

    // Status shows already what would be written.
    let floor = TestApiServer::start([Answer::Says(200, broken(&body["status"]))]).await;
    let (reported, again) = floor.ctx.report_undecodable(&seen).await;
    assert_eq!(reported, message);
    assert!(matches!(again, Requeue::After(_)));
    assert_eq!(floor.requests(), [format!("GET {OBJECT}")]);
    assert!(floor.events().is_empty());
}
