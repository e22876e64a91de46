//! The judge finds what is wrong, and the proxies do what they say: otherwise the
//! crash test would prove nothing.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use kube::api::WatchParams;
use kube::{Api, Client};
use serde_json::{Value, json};

use super::{
    call_trace::{Act, CallTrace, Place, Release, Side},
    judge,
    proxied_world::kubeconfig,
    proxy::Proxy,
};
use lab::rig::{World, WorldOptions, cluster, eventually, server};

const SOON: Duration = Duration::from_secs(20);
const SERVERS: &str = "/v3/flexMetal/servers";
/// The number of an order.
const FIRST: &str = "00000001";

#[tokio::test]
async fn the_judge_sees_a_planted_double() {
    let (world, object) = planted("judge").await;
    let order = order(&world, &judge::mark_of(&world, &object).await, FIRST);
    post(&world, &order).await;
    let object = claimed(&world, object).await;
    assert_eq!(
        judge::after_order(&world, &object).await,
        Vec::<String>::new()
    );

    // The same order a second time, as a blind retry would send it.
    post(&world, &order).await;

    let findings = judge::after_order(&world, &object).await.join("\n");
    for part in [
        "orderedTwice",
        "twoLiveMachines",
        "was sent 2 times",
        "2 orders of mark",
        "nobody claims",
    ] {
        assert!(findings.contains(part), "{part} is missing in: {findings}");
    }
}

#[tokio::test]
async fn judge_reports_a_lost_server() {
    let (world, object) = planted("judge").await;
    let mark = judge::mark_of(&world, &object).await;
    post(&world, &order(&world, &mark, FIRST)).await;
    let object = claimed(&world, object).await;

    // The object goes, the machine stays.
    world.delete("planted").await;
    world.wait_gone("planted", SOON).await;

    let findings = judge::after_release(&world, &object).await.join("\n");
    for part in ["nobody claims", "not one released"] {
        assert!(findings.contains(part), "{part} is missing in: {findings}");
    }
}

#[tokio::test]
async fn proxy_holds_or_drops_trapped_requests() {
    let world = World::prepare(cluster(), "proxy", WorldOptions::default()).await;
    let trace = Arc::new(CallTrace::new());
    let proxy = Proxy::to_hosting(world.simulator.api(), trace.clone()).await;
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let url = format!("{}{SERVERS}", proxy.url());
    let key = world.simulator.api_key().to_owned();
    let mark = "0".repeat(44);
    let post = async |number: &str| {
        let request = client.post(&url).header("PRIVATE-TOKEN", &key);
        request.json(&order(&world, &mark, number)).send().await
    };
    let place = Place {
        side: Side::Hosting,
        sort: "POST servers".into(),
        nth: 2,
    };
    for (act, release, arrives, answered) in [
        (Act::DropRequest, None, false, false),
        (Act::DropAnswer, None, true, false),
        (Act::HoldRequest, Some(Release::Discard), false, false),
        (Act::HoldRequest, Some(Release::Forward), true, true),
        (Act::HoldAnswer, Some(Release::Discard), true, false),
        (Act::HoldAnswer, Some(Release::Forward), true, true),
    ] {
        world.simulator.clear_ledger().await;
        let mut watch = trace.start_with_trap("subject", &place, act);
        assert!(post(FIRST).await.unwrap().status().is_success());
        assert!(watch.try_caught().is_none(), "the first passes");
        let held = async {
            let caught = watch.caught(SOON).await.unwrap();
            let there = world.simulator.ledger().await.len();
            if let Some(release) = release {
                caught.release(release);
            }
            there
        };
        let (answer, there) = tokio::join!(post("00000002"), held);
        assert_eq!(answer.is_ok(), answered, "{act:?} {release:?}: {answer:?}");
        let effect_first = matches!(act, Act::DropAnswer | Act::HoldAnswer);
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
    let proxy = Proxy::to_cluster(cluster().access(), trace.clone()).await;
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
async fn planted(prefix: &str) -> (World, Value) {
    let world = World::prepare(cluster(), prefix, WorldOptions::default()).await;
    let made = world.create(&server("planted")).await;
    (world, made)
}

/// The object once its status claims the only machine.
async fn claimed(world: &World, object: Value) -> Value {
    let machines = world.simulator.list_live_servers().await;
    let status = json!({"status": {"uuid": machines[0]["uuid"]}});
    let name = object["metadata"]["name"].as_str().unwrap();
    let patch = kube::api::Patch::Merge(&status);
    let servers = world.servers();
    servers
        .patch_status(name, &kube::api::PatchParams::default(), &patch)
        .await
        .unwrap();
    eventually("the claim is stored", SOON, async || world.get(name).await).await
}

/// An order as the operator would send it for an object with this mark.
fn order(world: &World, mark: &str, number: &str) -> Value {
    json!({
        "name": "planted", "location": "EU: Rotterdam", "instanceType": "bm7.std.8",
        "os": {"slug": "ubuntu-2404-lts"}, "sshKey": ["ssh-ed25519 AAAA test"],
        "tags": [format!("fmo-cluster:{}", world.cluster_id), format!("fmo-order:{mark}{number}")],
    })
}

async fn post(world: &World, order: &Value) {
    let (status, body) = world.simulator.call("POST", SERVERS, Some(order)).await;
    assert!((200..300).contains(&status), "{status}: {body}");
}
