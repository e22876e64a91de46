//! The operator in a network that only a proxy can leave.

use kube::config::Kubeconfig;
use serde_json::json;

use super::credentials::{certificate_of, start_https_front};
use super::{
    SOON, apply, build_secret_of_type, change_account, check_invariants, count_orders,
    wait_account_condition,
};
use crate::cluster_faults::tunnels::TunnelProxy;
use lab::rig::{World, WorldOptions, cluster, condition, eventually, server};

/// A name that only the proxy resolves.
const HOSTING: &str = "hosting.test";
/// One of the names in the API server's certificate, which does not resolve locally.
const API_SERVER: &str = "kubernetes.default.svc:6443";

#[tokio::test]
async fn proxy_tunnels_both_apis_without_keys() {
    let proxy = TunnelProxy::start().await;
    let plan = WorldOptions {
        operator: vec![format!("--provider-proxy={}", proxy.url())],
        secret: false,
        listed: false,
        ..WorldOptions::default()
    };
    let mut world = World::prepare(cluster(), "proxied", plan).await;
    let own = certificate_of(HOSTING);
    let (front, _serving) = start_https_front(&own, world.simulator.api()).await;
    let target = format!("{HOSTING}:443");
    proxy.open(&target, &front);
    proxy.open(API_SERVER, &cluster().access().server);
    let mut kubeconfig = Kubeconfig::read_from(&cluster().access().kubeconfig).unwrap();
    for named in &mut kubeconfig.clusters {
        let server = Some(format!("https://{API_SERVER}"));
        named.cluster.as_mut().unwrap().server = server;
    }
    let path = world.folder().join("proxied-kubeconfig");
    std::fs::write(&path, serde_json::to_string(&kubeconfig).unwrap()).unwrap();
    world.set_kubeconfig(path);
    world.set_environment(vec![
        ("HTTPS_PROXY", proxy.url().to_owned()),
        // The proxy is on localhost, and the API server is not.
        ("NO_PROXY", "127.0.0.0/8".to_owned()),
    ]);
    let key = world.simulator.api_key();
    let url = format!("https://{HOSTING}");
    let entries = [("apiKey", key), ("baseURL", url.as_str())];
    let secret = build_secret_of_type("flexmetal.dev/api-key", "account-key", &entries);
    apply(&world.client, Some(&world.namespace), &secret).await;
    let spec = json!({"spec": {"baseURL": url, "caBundle": own.cert.pem()}});
    change_account(&world, "default", &spec).await;

    world.create(&server("one")).await;
    world.start_operator();
    world.wait_ready("one", SOON).await;

    // The proxy refuses the tunnel: nothing is sent, and the account reports the proxy.
    proxy.close(&target);
    world.create(&server("two")).await;
    eventually("the account names the tunnel", SOON, async || {
        let account = json!(world.accounts().get("default").await.ok()?);
        let ready = condition(&account, "Ready")?;
        let message = ready["message"].as_str()?;
        (ready["reason"] == "ProviderUnreachable" && message.contains("tunnel")).then_some(())
    })
    .await;
    proxy.open(&target, &front);
    world.wait_ready("two", SOON).await;
    wait_account_condition(&world, "default", "Ready", "True", "Available").await;
    for name in ["one", "two"] {
        world.delete(name).await;
        world.wait_gone(name, SOON).await;
    }
    assert_eq!(count_orders(&world).await, 2);
    check_invariants(&world).await;

    let heads = proxy.heads();
    for target in [&*target, API_SERVER] {
        let to_target = |head: &&String| head.starts_with(&format!("CONNECT {target} "));
        assert!(heads.iter().any(|head| to_target(&head)), "{heads:#?}");
    }
    for head in heads {
        assert!(head.starts_with("CONNECT "), "{head}");
        assert!(!head.contains(world.simulator.api_key()), "{head}");
    }
}
