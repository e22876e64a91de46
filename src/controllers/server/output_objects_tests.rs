//! The requests for a server's ConfigMaps and Secrets, against an API server with canned answers.

use super::{
    ServerContext, ServerObjects, kind_options, observe::observe, output_objects::Owned, outputs,
    password_secret,
};
use crate::controllers::api_server_tests::{Answer, TestApiServer, no};
use api::{
    BareMetalServer,
    names::{OUTPUT_FINALIZER, OUTPUT_SECRET, SERVER_FINALIZER},
    outputs::OutputKind,
    root_password::Installed,
};
use flexmetal_core::server::{
    decide::{
        ServerEffect,
        outputs::{DesiredOutput, OutputState},
    },
    facts::ServerFacts,
    memory::{ServerMemory, ServerObservation},
    password_memory::{PasswordEnd, PasswordFailure},
};
use serde_json::{Value, json};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

const NAMESPACE: &str = "GET /api/v1/namespaces/shop";
const READ: &str = "GET /api/v1/namespaces/shop/configmaps/out";
const WRITE: &str = "PUT /api/v1/namespaces/shop/configmaps/out";
const CREATE: &str = "POST /api/v1/namespaces/shop/configmaps";
const SERVER: &str = "GET /apis/flexmetal.dev/v1alpha1/namespaces/shop/baremetalservers/web";
const KIND: &str =
    "GET /apis/apiextensions.k8s.io/v1/customresourcedefinitions/baremetalservers.flexmetal.dev";

fn server() -> Value {
    json!({
        "apiVersion": "flexmetal.dev/v1alpha1", "kind": "BareMetalServer",
        "metadata": {"name": "web", "namespace": "shop", "uid": "1", "resourceVersion": "1",
            "finalizers": [SERVER_FINALIZER, OUTPUT_FINALIZER]},
        "spec": {"location": "here", "instanceType": "small", "os": {"slug": "some-os"}},
        "status": {"records": {"outputs": [{"kind": "ConfigMap", "name": "out"}]}},
    })
}

/// The live reads right before a write.
fn live_read_answers() -> [Answer; 2] {
    let kind = json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata",
        "metadata": {"name": "baremetalservers.flexmetal.dev"}});
    [Answer::Says(200, server()), Answer::Says(200, kind)]
}

/// The metadata of a deleted object that this server controls.
fn deleted(name: &str, owner: (&str, &str), finalizers: &[&str]) -> Value {
    json!({
        "name": name, "namespace": "shop", "resourceVersion": "7", "finalizers": finalizers,
        "deletionTimestamp": "2026-01-01T00:00:00Z",
        "ownerReferences": [{"apiVersion": "flexmetal.dev/v1alpha1", "kind": "BareMetalServer",
            "name": owner.0, "uid": owner.1, "controller": true}],
    })
}

fn config_map(finalizers: &[&str]) -> Answer {
    let metadata = deleted("out", ("web", "1"), finalizers);
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
    Answer::Says(200, map)
}

/// The first answer is for the namespace, which `observe` reads.
async fn start(
    answers: impl IntoIterator<Item = Answer>,
) -> (TestApiServer, ServerContext, ServerFacts) {
    let meta = json!({"name": "shop", "uid": "n"});
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": meta});
    let namespace = Answer::Says(200, namespace);
    let floor = TestApiServer::start([namespace].into_iter().chain(answers)).await;
    let objects = ServerObjects::new(kind_options(&floor.ctx), 1);
    let ctx = ServerContext::new(&floor.ctx, Arc::new(objects));
    let object: BareMetalServer = serde_json::from_value(server()).unwrap();
    let facts = observe(&ctx, Arc::new(object)).await.facts;
    (floor, ctx, facts)
}

/// The requests after that.
fn requests(floor: &TestApiServer) -> Vec<String> {
    let all = floor.requests();
    assert_eq!(all[0], NAMESPACE);
    all[1..].to_vec()
}

fn output() -> DesiredOutput {
    DesiredOutput {
        place: OutputKind::ConfigMap,
        name: "out".into(),
        entries: BTreeMap::from([("uuid".into(), "u".into())]),
    }
}

/// Writes the ConfigMap. Returns the observation and the requests.
async fn written(answers: impl IntoIterator<Item = Answer>) -> (ServerObservation, Vec<String>) {
    let (floor, ctx, facts) = start(answers).await;
    let observation = outputs::write(&ctx, &facts, &output()).await;
    (observation, requests(&floor))
}

fn is_deleted(observation: &ServerObservation) -> bool {
    let state = match observation {
        ServerObservation::Output { state, .. } => state,
        other => panic!("{other:?}"),
    };
    *state == OutputState::Deleted
}

#[tokio::test]
async fn deleted_output_with_other_finalizers_is_not_recreated() {
    let (observation, asked) = written([config_map(&["x/y"])]).await;
    assert!(is_deleted(&observation), "{observation:?}");
    assert_eq!(asked, [READ]);
    let now = Duration::from_secs(9);
    let mut memory = ServerMemory::default();
    memory.record_observation(observation, now);
    let tag = ServerEffect::AddTag {
        uuid: "u".into(),
        tag: "team:web".into(),
    };
    assert_eq!(memory.remaining_backoff(&tag, now), None);

    let mut answers = vec![config_map(&["x/y", OUTPUT_FINALIZER])];
    answers.extend(live_read_answers());
    answers.push(config_map(&["x/y"]));
    let (observation, asked) = written(answers).await;
    assert!(is_deleted(&observation), "{observation:?}");
    assert_eq!(asked, [READ, SERVER, KIND, WRITE]);
}

#[tokio::test]
async fn deleted_output_without_other_finalizers_is_recreated() {
    let mut answers = vec![config_map(&[OUTPUT_FINALIZER])];
    answers.extend(live_read_answers());
    answers.push(config_map(&[]));
    answers.extend(live_read_answers());
    answers.push(config_map(&[]));
    let (observation, asked) = written(answers).await;
    assert!(!is_deleted(&observation), "{observation:?}");
    assert_eq!(asked, [READ, SERVER, KIND, WRITE, SERVER, KIND, CREATE]);
}

#[tokio::test]
async fn suspended_server_reads_its_outputs_and_writes_none() {
    let (floor, ctx, mut facts) = start([no(404, "gone")]).await;
    Arc::make_mut(&mut facts.object).spec.suspend = Some(true);
    let observation = outputs::write(&ctx, &facts, &output()).await;
    let ServerObservation::Output { state, .. } = observation else {
        panic!("{observation:?}");
    };
    assert_eq!(
        (state, requests(&floor)),
        (OutputState::Suspended, vec![READ.into()])
    );
}

#[tokio::test]
async fn nothing_is_written_for_a_server_that_changed() {
    let mut ending = server();
    ending["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let absent = || no(404, "gone");
    for found in [absent(), config_map(&[OUTPUT_FINALIZER])] {
        let answers = [found, Answer::Says(200, ending.clone()), no(500, "no")];
        let (observation, asked) = written(answers).await;
        assert_eq!(observation, ServerObservation::Stale);
        assert_eq!(asked, [READ, SERVER, KIND]);
    }
}

/// A deleted Secret of another server.
fn secret(finalizers: &[&str]) -> Answer {
    let metadata = deleted("out", ("former", "2"), finalizers);
    let secret =
        json!({"apiVersion": "v1", "kind": "Secret", "type": OUTPUT_SECRET, "metadata": metadata});
    Answer::Says(200, secret)
}

/// Checks a name that a possibly deleted server's Secret has. Returns the end, and the last request.
async fn found(answers: impl IntoIterator<Item = Answer>) -> (PasswordEnd, String) {
    let first = secret(&[OUTPUT_FINALIZER]);
    let (floor, ctx, facts) = start([first].into_iter().chain(answers)).await;
    let owned = Owned {
        ctx: &ctx,
        facts: &facts,
        may_write: &|fresh| !fresh.deleting(),
    };
    let end = match password_secret::find(&owned, "out", &Installed::default()).await {
        Ok(_) => PasswordEnd::Free("out".into()),
        Err(end) => end,
    };
    (end, floor.requests().pop().unwrap())
}

#[tokio::test]
async fn unverifiable_secret_name_is_not_reported_taken() {
    let message = |end: &PasswordEnd| match end {
        PasswordEnd::Failed(PasswordFailure::Error(why)) => why.clone(),
        other => panic!("{other:?}"),
    };
    let (end, last) = found([no(500, "canary")]).await;
    assert_eq!(message(&end), "Secret out: the API server answers 500");
    assert_eq!(last, SERVER.replace("web", "former"));
    // The server is being deleted by then.
    let mut ending = server();
    ending["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let (end, last) = found([no(404, "gone"), Answer::Says(200, ending), no(500, "no")]).await;
    assert_eq!(message(&end), "The object changed in the meantime");
    assert_eq!(last, KIND);
    // What a deleted server left does not take the name.
    let gone = [no(404, "gone")].into_iter().chain(live_read_answers());
    let (end, last) = found(gone.chain([secret(&[])])).await;
    assert_eq!(end, PasswordEnd::Free("out".into()));
    assert_eq!(last, "PUT /api/v1/namespaces/shop/secrets/out");
}
