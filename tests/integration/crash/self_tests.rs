//! Checks the crash tests themselves: the judge finds faults, and the proxies inject them.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use kube::api::WatchParams;
use kube::{Api, Client};
use serde_json::{Value, json};

use super::{
    call_trace::{CallTrace, HeldCallOutcome, TargetApi, TracePosition, TrapAction},
    judge,
    proxied_world::kubeconfig,
    proxy::TracingProxy,
};
use lab::rig::{World, WorldOptions, cluster, eventually, server};

const SOON: Duration = Duration::from_secs(20);
const SERVERS: &str = "/v3/flexMetal/servers";
/// The number of an order.
const FIRST: &str = "00000001";

#[tokio::test]
async fn the_judge_sees_a_planted_double() {
    let (world, object) = prepare_object("judge").await;
    let order = build_order(
        &world,
        &judge::read_owner_hash(&world, &object).await,
        FIRST,
    );
    send_order(&world, &order).await;
    let object = wait_until_claimed(&world, object).await;
    assert_eq!(
        judge::check_after_order(&world, &object).await,
        Vec::<String>::new()
    );

    // Sends the same order again, as a blind retry would.
    send_order(&world, &order).await;

    let findings = judge::check_after_order(&world, &object).await.join("\n");
    for part in [
        "orderedTwice",
        "twoLiveMachines",
        "was sent 2 times",
        "2 orders of owner",
        judge::UNOWNED_SERVER,
    ] {
        assert!(findings.contains(part), "{part} is missing in: {findings}");
    }
}

#[tokio::test]
async fn judge_reports_a_lost_server() {
    let (world, object) = prepare_object("judge").await;
    let owner_hash = judge::read_owner_hash(&world, &object).await;
    send_order(&world, &build_order(&world, &owner_hash, FIRST)).await;
    let object = wait_until_claimed(&world, object).await;

    // The object is deleted, and its server stays.
    world.delete("planted").await;
    world.wait_gone("planted", SOON).await;

    let findings = judge::check_after_release(&world, &object).await.join("\n");
    for part in [judge::UNOWNED_SERVER, "not one released"] {
        assert!(findings.contains(part), "{part} is missing in: {findings}");
    }
}

#[tokio::test]
async fn proxy_holds_or_drops_trapped_requests() {
    let world = World::prepare(cluster(), "proxy", WorldOptions::default()).await;
    let trace = Arc::new(CallTrace::new());
    let proxy = TracingProxy::to_hosting(world.simulator.api(), trace.clone()).await;
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let url = format!("{}{SERVERS}", proxy.url());
    let key = world.simulator.api_key().to_owned();
    let owner_hash = "0".repeat(44);
    let post = async |number: &str| {
        let request = client.post(&url).header("PRIVATE-TOKEN", &key);
        request
            .json(&build_order(&world, &owner_hash, number))
            .send()
            .await
    };
    let place = TracePosition {
        api: TargetApi::Hosting,
        kind: "POST servers".into(),
        nth: 2,
    };
    for (act, release, arrives, answered) in [
        (TrapAction::DropRequest, None, false, false),
        (TrapAction::DropAnswer, None, true, false),
        (
            TrapAction::HoldRequest,
            Some(HeldCallOutcome::Discard),
            false,
            false,
        ),
        (
            TrapAction::HoldRequest,
            Some(HeldCallOutcome::Forward),
            true,
            true,
        ),
        (
            TrapAction::HoldAnswer,
            Some(HeldCallOutcome::Discard),
            true,
            false,
        ),
        (
            TrapAction::HoldAnswer,
            Some(HeldCallOutcome::Forward),
            true,
            true,
        ),
    ] {
        world.simulator.clear_ledger().await;
        let mut watch = trace.start_with_trap("subject", &place, act);
        assert!(post(FIRST).await.unwrap().status().is_success());
        assert!(watch.try_get_call().is_none(), "the first passes");
        let delayed = async {
            let caught = watch.wait_for_call(SOON).await.unwrap();
            let there = world.simulator.ledger().await.len();
            if let Some(release) = release {
                caught.release(release);
            }
            there
        };
        let (answer, there) = tokio::join!(post("00000002"), delayed);
        assert_eq!(answer.is_ok(), answered, "{act:?} {release:?}: {answer:?}");
        let effect_first = matches!(act, TrapAction::DropAnswer | TrapAction::HoldAnswer);
        assert_eq!(there, 1 + usize::from(effect_first), "{act:?}: when caught");
        let requests = world.simulator.ledger().await.len();
        assert_eq!(requests, 1 + usize::from(arrives), "{act:?} {release:?}");
    }
    let seen: Vec<String> = trace.seen().iter().map(ToString::to_string).collect();
    assert_eq!(seen, ["hosting POST servers #1", "hosting POST servers #2"]);
}

#[tokio::test]
async fn cluster_proxy_streams_watch_events() {
    let world = World::prepare(cluster(), "proxy", WorldOptions::default()).await;
    let trace = Arc::new(CallTrace::new());
    trace.start("first");
    let proxy = TracingProxy::to_cluster(cluster().access(), trace.clone()).await;
    let options = kube::config::KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig(&proxy.url()), &options).await;
    let client = Client::try_from(config.unwrap()).unwrap();
    let servers: Api<kube::api::DynamicObject> = Api::namespaced_with(
        client,
        &world.namespace,
        &kube::api::ApiResource::erase::<api::BareMetalServer>(&()),
    );
    let watch = servers.watch(&WatchParams::default(), "0").await.unwrap();
    let mut watch = std::pin::pin!(watch);

    world.create(&server("first")).await;
    let event = tokio::time::timeout(SOON, watch.next()).await;
    assert!(
        event.unwrap().unwrap().is_ok(),
        "the watch shows it while it stays open"
    );
    let change = json!({"metadata": {"annotations": {"a": "b"}}});
    let patch = kube::api::Patch::Merge(&change);
    servers
        .patch("first", &kube::api::PatchParams::default(), &patch)
        .await
        .unwrap();

    let seen: Vec<String> = trace.seen().iter().map(ToString::to_string).collect();
    assert_eq!(seen, ["cluster PATCH baremetalservers #1"]);
}

/// A world without operator, and an object in it.
async fn prepare_object(prefix: &str) -> (World, Value) {
    let world = World::prepare(cluster(), prefix, WorldOptions::default()).await;
    let made = world.create(&server("planted")).await;
    (world, made)
}

/// Writes the only server's UUID into the object's status, and returns the object.
async fn wait_until_claimed(world: &World, object: Value) -> Value {
    let provider_servers = world.simulator.list_live_servers().await;
    let status = json!({"status": {"uuid": provider_servers[0]["uuid"]}});
    let name = object["metadata"]["name"].as_str().unwrap();
    let patch = kube::api::Patch::Merge(&status);
    let servers = world.servers();
    servers
        .patch_status(name, &kube::api::PatchParams::default(), &patch)
        .await
        .unwrap();
    eventually("the claim is stored", SOON, async || world.get(name).await).await
}

/// An order as the operator would send it for an object with this owner hash.
fn build_order(world: &World, owner_hash: &str, number: &str) -> Value {
    json!({
        "name": "planted", "location": "EU: Rotterdam", "instanceType": "bm7.std.8",
        "os": {"slug": "ubuntu-2404-lts"}, "sshKey": ["ssh-ed25519 AAAA test"],
        "tags": [format!("fmo-cluster:{}", world.cluster_id), format!("fmo-order:{owner_hash}{number}")],
    })
}

async fn send_order(world: &World, order: &Value) {
    let (status, body) = world.simulator.call("POST", SERVERS, Some(order)).await;
    assert!((200..300).contains(&status), "{status}: {body}");
}
