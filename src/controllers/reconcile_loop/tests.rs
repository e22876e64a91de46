//! The loop without watches: the tests apply the events.

use super::*;
use crate::{
    account::{Accounts, EnqueueTarget, Rate, Users as _},
    controllers::{
        api_server_tests::{Answer, TestApiServer},
        context::{Process, Watched},
        events::Events,
        objects::{KindOptions, Objects},
    },
    runtime::clients::WatchTimes,
};
use api::ProviderAccount;
use flexmetal_core::cluster_id::ClusterId;
use kube::{Client, Config, ResourceExt as _, runtime::watcher::Event};
use serde_json::json;
use std::{
    collections::BTreeMap,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

type Ctx = Context<ProviderAccount, u32>;

/// A process whose API server receives no call.
fn process() -> Process {
    let config = Config::new("http://127.0.0.1:1".parse().unwrap());
    let client = Client::try_from(config).unwrap();
    Process {
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
    }
}

/// A context with these objects, by UID.
fn context(uids: impl Iterator<Item = String>) -> Arc<Ctx> {
    let objects = Arc::new(Objects::new(KindOptions::default(), 1));
    objects.apply_event(0, Event::Init);
    for uid in uids {
        let object = serde_json::from_value(json!({
            "apiVersion": "flexmetal.dev/v1alpha1",
            "kind": "ProviderAccount",
            "metadata": {"name": uid, "namespace": "n", "uid": uid, "resourceVersion": "1"},
            "spec": {"baseURL": "u", "apiKeySecretRef": {"name": "s"}},
        }));
        objects.apply_event(0, Event::InitApply(object.unwrap()));
    }
    objects.apply_event(0, Event::InitDone);
    Arc::new(Context::new(&process(), objects))
}

fn uid(seen: &WorkItem<ProviderAccount>) -> String {
    match seen {
        WorkItem::Object(object) => object.uid().unwrap(),
        _ => panic!("an object that is there and decodes"),
    }
}

/// How often each object was reconciled.
#[derive(Clone, Default)]
struct ReconcileCounts(Arc<Mutex<BTreeMap<String, usize>>>);

impl ReconcileCounts {
    fn count_reconcile(&self, uid: &str) {
        *self.0.lock().unwrap().entry(uid.to_owned()).or_default() += 1;
    }

    fn all(&self) -> usize {
        self.0.lock().unwrap().values().sum()
    }
}

/// Lets the loop run for some seconds of paused time.
async fn run_for(seconds: u64, work: &mut (impl Future<Output = ()> + Unpin)) {
    let _ = tokio::time::timeout(Duration::from_secs(seconds), work).await;
}

#[tokio::test(start_paused = true)]
#[should_panic = "this panic is part of the test"]
async fn panicking_reconcile_is_reported() {
    let ctx = context(["bad", "good"].into_iter().map(str::to_owned));
    let pass = move |_: Arc<Ctx>, seen: WorkItem<ProviderAccount>| {
        let uid = uid(&seen);
        async move {
            assert_ne!(uid, "bad", "this panic is part of the test");
            Requeue::After(Duration::from_secs(10))
        }
    };
    let mut work = Box::pin(run_reconcile_loop(
        ctx,
        Vec::new(),
        std::future::ready(()),
        pass,
    ));
    run_for(60, &mut work).await;
}

#[tokio::test(start_paused = true)]
async fn no_reconcile_before_ready_or_after_shutdown() {
    let ctx = context(["one"].into_iter().map(str::to_owned));
    let ready = Arc::new(Notify::new());
    let is_done = Arc::new(AtomicBool::new(false));
    let passes = ReconcileCounts::default();
    let (counter, done) = (passes.clone(), is_done.clone());
    let pass = move |_: Arc<Ctx>, seen: WorkItem<ProviderAccount>| {
        let (passes, done) = (counter.clone(), done.clone());
        async move {
            passes.count_reconcile(&uid(&seen));
            tokio::time::sleep(Duration::from_secs(30)).await;
            done.store(true, Ordering::Relaxed);
            Requeue::After(Duration::ZERO)
        }
    };
    let is_ready = ready.clone();
    let ready_then = async move { is_ready.notified().await };
    let shutdown = ctx.shutdown.clone();
    let mut work = Box::pin(run_reconcile_loop(ctx, Vec::new(), ready_then, pass));
    run_for(60, &mut work).await;
    assert_eq!(passes.all(), 0);
    ready.notify_one();
    run_for(5, &mut work).await;
    assert_eq!(passes.all(), 1);
    shutdown.cancel();
    // The running work item finishes, and the loop ends with it.
    tokio::time::timeout(Duration::from_secs(60), &mut work)
        .await
        .unwrap();
    assert!(is_done.load(Ordering::Relaxed));
    assert_eq!(passes.all(), 1);
}

#[tokio::test(start_paused = true)]
async fn reconciles_waiting_for_provider_free_their_slots() {
    let many = MOST_RUNNING_ITEMS + 50;
    let ctx = context((0..many).map(|n| format!("{n:04}")));
    let passes = ReconcileCounts::default();
    let counter = passes.clone();
    let pass = move |ctx: Arc<Ctx>, seen: WorkItem<ProviderAccount>| {
        let passes = counter.clone();
        async move {
            let uid = uid(&seen);
            let _calling = (*uid < *"0200").then(|| ctx.objects.count_provider_call());
            passes.count_reconcile(&uid);
            tokio::time::sleep(Duration::from_secs(3600)).await;
            Requeue::After(Duration::ZERO)
        }
    };
    let mut work = Box::pin(run_reconcile_loop(
        ctx.clone(),
        Vec::new(),
        std::future::ready(()),
        pass,
    ));
    run_for(5, &mut work).await;
    assert_eq!(
        passes.all(),
        many,
        "those that call leave room for all others"
    );
}

#[tokio::test(start_paused = true)]
async fn immediate_requeue_is_limited_then_backs_off() {
    let ctx = context(["restless"].into_iter().map(str::to_owned));
    let passes = ReconcileCounts::default();
    let counter = passes.clone();
    let pass = move |_: Arc<Ctx>, seen: WorkItem<ProviderAccount>| {
        let passes = counter.clone();
        async move {
            passes.count_reconcile(&uid(&seen));
            Requeue::Now
        }
    };
    let mut work = Box::pin(run_reconcile_loop(
        ctx.clone(),
        Vec::new(),
        std::future::ready(()),
        pass,
    ));
    run_for(0, &mut work).await;
    tokio::time::timeout(Duration::from_millis(500), &mut work)
        .await
        .unwrap_err();
    assert_eq!(passes.all(), MOST_RECONCILES);
    // An enqueue does not shorten its backoff.
    ctx.objects
        .enqueue(&EnqueueTarget::Object("restless".into()));
    tokio::time::timeout(Duration::from_millis(400), &mut work)
        .await
        .unwrap_err();
    assert_eq!(passes.all(), MOST_RECONCILES);
    tokio::time::timeout(Duration::from_millis(200), &mut work)
        .await
        .unwrap_err();
    assert_eq!(passes.all(), 2 * MOST_RECONCILES);
}

/// Without a finalizer of ours, no write of ours would notice a restored API server.
#[tokio::test]
async fn object_with_only_other_finalizers_is_read() {
    let form = |version: &str, finalizers: serde_json::Value, deleted: Option<&str>| {
        json!({
            "apiVersion": "flexmetal.dev/v1alpha1",
            "kind": "ProviderAccount",
            "metadata": {
                "name": "a", "namespace": "n", "uid": "1", "resourceVersion": version,
                "finalizers": finalizers, "deletionTimestamp": deleted,
            },
            "spec": {"baseURL": "u", "apiKeySecretRef": {"name": "s"}},
        })
    };
    let ours = json!(["example.com/other", "flexmetal.dev/account-in-use"]);
    let deleted = Some("2026-11-22T03:55:47Z");
    let floor = TestApiServer::start([Answer::Says(200, form("3", ours, None))]).await;
    let ctx = Arc::new(floor.ctx);
    let left = form("9", json!(["example.com/other"]), deleted);
    ctx.objects.apply_event(0, Event::Init);
    ctx.objects
        .apply_event(0, Event::InitApply(serde_json::from_value(left).unwrap()));
    ctx.objects.apply_event(0, Event::InitDone);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let versions = seen.clone();
    let pass = move |_: Arc<Ctx>, seen: WorkItem<ProviderAccount>| {
        let versions = versions.clone();
        async move {
            if let WorkItem::Object(object) = &seen {
                let version = object.metadata.resource_version.clone();
                versions.lock().unwrap().push(version.unwrap());
            }
            Requeue::After(Duration::from_secs(600))
        }
    };
    let mut work = Box::pin(run_reconcile_loop(
        ctx,
        Vec::new(),
        std::future::ready(()),
        pass,
    ));
    run_for(1, &mut work).await;
    assert_eq!(*seen.lock().unwrap(), ["3"]);
}
