//! Everything that can block an order: each case has its own reason, and the object continues by itself afterwards.

use std::{collections::BTreeSet, time::Duration};

use serde_json::json;

use super::{
    ORDER_TAG, RETAINED_TAG, SERVERS, SOON, apply, build_server, check_invariants, count_orders,
    get_owner, list_tags, set_account_spec, text, wait_not_ready, wait_stalled,
};
use kube::api::{Patch, PatchParams};
use lab::rig::{Fault, World, cluster, eventually, quick_timing, server};

const ROTTERDAM: &str = "EU: Rotterdam";

#[tokio::test]
async fn order_waits_for_quota_stock_and_account() {
    let world = World::start(cluster(), "supply").await;
    world
        .simulator
        .set_on_demand_quota(ROTTERDAM, "bm7.std.8", 0)
        .await;
    world
        .simulator
        .stock(ROTTERDAM, "bm8.std.32", Some(0))
        .await;
    world.create(&server("quota")).await;
    world
        .create(&build_server(
            "stock",
            &json!({"instanceType": "bm8.std.32"}),
        ))
        .await;
    let elsewhere = json!({"instanceType": "bm9.std.32", "accountRef": {"name": "later"}});
    world.create(&build_server("account", &elsewhere)).await;

    let quota = async {
        wait_not_ready(
            &world,
            "quota",
            "QuotaExceeded",
            &["bm7.std.8", ROTTERDAM, "0 of 0"],
        )
        .await;
        world
            .simulator
            .set_on_demand_quota(ROTTERDAM, "bm7.std.8", 5)
            .await;
        world.wait_ready("quota", SOON).await;
    };
    let stock = async {
        wait_not_ready(&world, "stock", "NoStock", &["bm8.std.32", ROTTERDAM]).await;
        world.simulator.stock(ROTTERDAM, "bm8.std.32", None).await;
        world.wait_ready("stock", SOON).await;
    };
    let account = async {
        let timeout = SOON + Duration::from_secs(120);
        let words = ["spec.accountRef", "ProviderAccount later", "Create it"];
        wait_stalled(&world, "account", "AccountNotFound", &words).await;
        // The account could have been applied later. After the grace period, the object is Stalled.
        world
            .wait_for_condition(
                "account",
                "Stalled",
                "True",
                Some("AccountNotFound"),
                timeout,
            )
            .await;
        let account = json!({
            "apiVersion": "flexmetal.dev/v1alpha1", "kind": "ProviderAccount",
            "metadata": {"name": "later"},
            "spec": {
                "baseURL": world.simulator.api(),
                "apiKeySecretRef": {"name": "account-key"}, "timing": quick_timing(),
            },
        });
        apply(&world.client, Some(&world.namespace), &account).await;
        world.wait_ready("account", SOON).await;
    };
    tokio::join!(quota, stock, account);
    // No order was sent while blocked.
    assert_eq!(count_orders(&world).await, 3);
    check_invariants(&world).await;
}

#[tokio::test]
async fn orders_wait_for_higher_account_limits() {
    let world = World::start(cluster(), "limits").await;
    world.create(&server("first")).await;
    world.wait_ready("first", SOON).await;

    set_account_spec(&world, "default", &json!({"limits": {"maxServers": 1}})).await;
    world.create(&server("second")).await;
    wait_stalled(
        &world,
        "second",
        "LimitReached",
        &["spec.limits.maxServers", "is 1", "raise the limit"],
    )
    .await;
    assert_eq!(count_orders(&world).await, 1);
    let raised = json!({"limits": {"maxServers": 3, "maxOrdersPerHour": 2}});
    set_account_spec(&world, "default", &raised).await;
    world.wait_ready("second", SOON).await;

    world.create(&server("third")).await;
    let words = [
        "spec.limits.maxOrdersPerHour",
        "is 2",
        "Wait, or ask an administrator",
    ];
    wait_stalled(&world, "third", "LimitReached", &words).await;
    assert_eq!(count_orders(&world).await, 2);
    let raised = json!({"limits": {"maxOrdersPerHour": 3}});
    set_account_spec(&world, "default", &raised).await;
    world.wait_ready("third", SOON).await;

    // Limits block orders, not releases.
    set_account_spec(
        &world,
        "default",
        &json!({"limits": {"maxServers": 0, "maxOrdersPerHour": 0}}),
    )
    .await;
    world.delete("first").await;
    world.wait_gone("first", SOON).await;
    assert_eq!(count_orders(&world).await, 3);
    check_invariants(&world).await;
}

#[tokio::test]
async fn retained_servers_count_towards_limit() {
    let world = World::start(cluster(), "retained").await;
    set_account_spec(&world, "default", &json!({"limits": {"maxServers": 2}})).await;
    let names = ["one", "two"];
    for name in names {
        let keeping = build_server(name, &json!({"deletionPolicy": "Retain"}));
        world.create(&keeping).await;
        let kept = world.wait_ready(name, SOON).await;
        world.delete(name).await;
        world.wait_gone(name, SOON).await;
        let kept = super::get_server_of(&world, &kept).await;
        assert!(super::is_retained(&kept), "{kept}");
    }
    world.create(&server("web")).await;
    wait_stalled(
        &world,
        "web",
        "LimitReached",
        &["spec.limits.maxServers", "is 2", "2 servers"],
    )
    .await;
    assert_eq!(count_orders(&world).await, 2);
    // Each server has the tag of its object and the tag of a retained server.
    for provider_server in world.simulator.list_live_servers().await {
        let name = text(&provider_server["name"]);
        assert!(names.contains(&name.as_str()), "{provider_server}");
        let owner = get_owner(&world.client, &world.cluster_id, &world.namespace, &name).await;
        let order = format!("{ORDER_TAG}{owner}");
        let tags = list_tags(&provider_server);
        let orders = tags.iter().filter(|tag| tag.starts_with(&order)).count();
        let kept = tags.iter().filter(|tag| *tag == RETAINED_TAG).count();
        assert_eq!((orders, kept, tags.len()), (1, 1, 3), "{tags:?}");
    }
    // An existing server is no order: an object that is applied again adopts its own server.
    world.create(&server("one")).await;
    world.wait_ready("one", SOON).await;
    assert_eq!(count_orders(&world).await, 2);
    check_invariants(&world).await;
}

#[tokio::test]
async fn refused_order_shows_why_and_backs_off() {
    let world = World::start(cluster(), "refused").await;
    let refusal = json!({"refuse": {"status": 422, "message": "no racks on Tuesdays"}});
    let fault = Fault::new(refusal).on("POST", SERVERS).times(100);
    world.simulator.fault(fault).await;
    world.create(&server("one")).await;
    wait_stalled(&world, "one", "OrderRefused", &["no racks on Tuesdays"]).await;
    eventually("a second try", SOON, async || {
        (count_orders(&world).await >= 2).then_some(())
    })
    .await;
    world.simulator.clear_faults().await;
    let ready = world.wait_ready("one", SOON).await;
    assert_eq!(ready["status"]["records"]["order"]["outcome"], "Created");
    let tags: Vec<_> = world.simulator.ledger().await;
    let tags: Vec<_> = tags
        .iter()
        .filter(|call| call["method"] == "POST")
        .map(|call| call["order"]["tags"].to_string())
        .collect();
    let different: BTreeSet<&String> = tags.iter().collect();
    assert!(
        tags.len() >= 3 && different.len() == tags.len(),
        "every try has a number of its own: {tags:?}"
    );
    check_invariants(&world).await;
}

/// The next commit repairs a failed order without a new object.
#[tokio::test]
async fn failed_order_is_fixed_by_the_next_apply() {
    let world = World::start(cluster(), "mended").await;
    let namespace = Some(world.namespace.as_str());
    let at = |location: &str| build_server("typo", &json!({"location": location}));
    apply(&world.client, namespace, &at("EU: Roterdam")).await;
    wait_stalled(&world, "typo", "InvalidSpec", &["spec.location", ROTTERDAM]).await;
    apply(&world.client, namespace, &at(ROTTERDAM)).await;
    let ready = world.wait_ready("typo", SOON).await;
    assert_eq!(ready["status"]["location"], ROTTERDAM);

    // The request stays mutable after a refusal too.
    let refusal = json!({"refuse": {"status": 422, "message": "not this type"}});
    let fault = Fault::new(refusal).on("POST", SERVERS).times(20);
    world.simulator.fault(fault).await;
    let of = |kind: &str| build_server("refused", &json!({"instanceType": kind}));
    apply(&world.client, namespace, &of("bm8.std.32")).await;
    wait_stalled(&world, "refused", "OrderRefused", &["not this type"]).await;
    world.simulator.clear_faults().await;
    apply(&world.client, namespace, &of("bm9.std.32")).await;
    let ready = world.wait_ready("refused", SOON).await;
    assert_eq!(ready["status"]["instanceType"], "bm9.std.32");

    // A server makes it immutable.
    let location = json!({"spec": {"location": "US: Dallas"}});
    let servers = world.servers();
    let refused = servers
        .patch("typo", &PatchParams::default(), &Patch::Merge(&location))
        .await
        .unwrap_err();
    assert!(
        refused
            .to_string()
            .contains("location may not change while"),
        "{refused}"
    );
    check_invariants(&world).await;
}
