//! A list request that gets no answer: the operator must recover, and report it meanwhile.

use std::net::SocketAddr;
use std::time::Duration;

use api::timing::Minimum;
use flexmetal_core::cluster_id::ClusterId;
use flexmetal_operator::controllers::context::Watched;
use flexmetal_operator::operator::{self, Options};
use flexmetal_operator::runtime::clients::{Clients, Source, WatchTimes};
use flexmetal_operator::runtime::leader::Election;
use flexmetal_operator::runtime::metrics::Metrics;
use hosting_types::BaseUrl;
use lab::rig::{World, WorldOptions, cluster, endpoint, eventually, server};

use super::proxy::FaultyProxy;

/// Covers the timeout of a list request, a backoff, and an order on a slow computer.
const SOON: Duration = Duration::from_secs(90);

/// Requests a health endpoint. None means no answer.
async fn health(address: SocketAddr, path: &str) -> Option<u16> {
    let client = reqwest::Client::builder()
        .timeout(Duration::from_secs(10))
        .build()
        .expect("a client");
    let answer = client.get(format!("http://{address}{path}")).send().await;
    Some(answer.ok()?.status().as_u16())
}

#[tokio::test]
async fn operator_recovers_from_a_hanging_relist() {
    let mut world = World::prepare(cluster(), "swallowed", WorldOptions::default()).await;
    let proxy = FaultyProxy::start(cluster().access()).await;
    world.set_kubeconfig(proxy.kubeconfig(world.folder()));
    world.start_operator();
    world.create(&server("before")).await;
    world.wait_ready("before", SOON).await;

    proxy.hang_relists(1);
    eventually("a listing is swallowed", SOON, async || {
        (proxy.count_hanging_relists() == 1).then_some(())
    })
    .await;
    world.create(&server("after")).await;
    let log = world.operator().log();
    let address = endpoint(&log, "health").expect("the log says where health is served");
    assert_eq!(health(address, "/livez").await, Some(200));
    world.wait_ready("after", SOON).await;
}

#[tokio::test]
async fn hanging_relists_affect_readiness_only() {
    let world = World::prepare(cluster(), "deaf", WorldOptions::default()).await;
    let proxy = FaultyProxy::start(cluster().access()).await;
    let kubeconfig = proxy.kubeconfig(world.folder());
    let source = Source {
        kubeconfig: Some(kubeconfig),
        context: None,
    };
    let metrics = Metrics::new();
    let mut clients = Clients::connect(&source, &metrics).await.unwrap();
    // In this process, because only tests change these times.
    clients.watch_times = WatchTimes {
        period: Duration::from_secs(2),
        answer: Duration::from_secs(1),
    };
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let election = Election {
        namespace: world.namespace.clone(),
        name: "flexmetal-operator".into(),
        pod: None,
        lease_duration: Duration::from_secs(15),
        renew_deadline: Duration::from_secs(10),
        retry_period: Duration::from_secs(2),
    };
    let options = Options {
        read_only: false,
        election,
        pod: None,
        namespace: world.namespace.clone(),
        watched: Watched::Namespaces(vec![world.namespace.clone()]),
        cluster: Some(ClusterId::parse(&world.cluster_id).unwrap()),
        minimum: Minimum::Lifted,
        allowed_base_urls: vec![BaseUrl::parse(world.simulator.api()).unwrap()],
        provider_proxy: None,
        listen: address,
        metrics_listen: ([127, 0, 0, 1], 0).into(),
        object_conditions: false,
    };
    let readiness = |expected: u16| async move {
        eventually(&format!("/readyz says {expected}"), SOON, async || {
            assert_ne!(health(address, "/livez").await, Some(503));
            (health(address, "/readyz").await? == expected).then_some(())
        })
        .await;
    };
    let life = async {
        readiness(200).await;
        // A quiet period longer than the stale-watch limit: bookmarks and new watches arrive.
        for _ in 0..40 {
            assert_eq!(health(address, "/readyz").await, Some(200));
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        proxy.hang_relists(usize::MAX);
        readiness(503).await;
        world.create(&server("meanwhile")).await;
        assert_eq!(health(address, "/livez").await, Some(200));
        proxy.heal();
        world.wait_ready("meanwhile", SOON).await;
        readiness(200).await;
    };
    tokio::select! {
        ended = operator::run(clients, metrics, options) => panic!("it ended: {ended:?}"),
        () = life => {}
    }
}
