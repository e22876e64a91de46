//! Answers to orders that are empty, wrong, too long or late.
//! The provider's clock is an hour behind, and its lists lag.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{SERVERS, SOON, check_invariants, count_orders};
use lab::rig::{Fault, World, WorldOptions, cluster, quick_timing, server};

/// Seconds by which the provider's clock is behind.
const BEHIND: i64 = 3600;
/// Seconds until lists show a new server.
const LATE: u32 = 2;

/// The provider's answers to accepted orders, by the name of the server.
fn list_answers() -> Vec<(&'static str, Value)> {
    let record = |digit: &str| {
        let uuid = format!("00000000-0000-4000-8000-{}", digit.repeat(12));
        json!({"uuid": uuid, "name": "web", "status": "created", "tags": []})
    };
    let says = |text: &Value| json!({"body": {"text": text.to_string(), "contentType": "application/json"}});
    vec![
        ("an-empty-list", says(&json!([]))),
        ("two-servers", says(&json!([record("a"), record("b")]))),
        ("another-server", says(&json!([record("c")]))),
        ("an-unmarked-object", says(&record("d"))),
        (
            "a-page",
            json!({"body": {"text": "<h1>no</h1>", "contentType": "text/html"}}),
        ),
        ("half", json!("truncate")),
        ("nothing", json!("emptyBody")),
        ("ten-megabytes", json!({"oversize": {"bytes": 10_000_000}})),
        ("a-dropped-call", json!("dropAfter")),
        ("too-late", json!({"delay": {"ms": 3000, "before": false}})),
        (
            "a-conflict",
            json!({"status": {"code": 409, "after": true}}),
        ),
        ("an-error", json!({"status": {"code": 500, "after": true}})),
        (
            "a-bad-gateway",
            json!([{"status": {"code": 502, "after": true}}, "emptyBody"]),
        ),
        (
            "unavailable",
            json!({"status": {"code": 503, "after": true, "retryAfter": 1}}),
        ),
        (
            "a-gateways-patience",
            json!({"status": {"code": 504, "after": true}}),
        ),
    ]
}

#[tokio::test]
async fn any_order_answer_yields_one_server() {
    let now = Timestamp::now().as_second();
    let mut timing = quick_timing();
    // Longer than the lag of the lists on a slow computer. Otherwise an order could count as absent.
    timing["absenceGracePeriod"] = json!("2m");
    let plan = WorldOptions {
        simulator: vec![
            format!("--clock-start={}", now - BEHIND),
            format!("--list-lag-seconds={LATE}"),
        ],
        timing,
        ..WorldOptions::default()
    };
    let mut world = World::prepare(cluster(), "answers", plan).await;
    world.start_operator();
    let answers = list_answers();
    for (name, fault) in &answers {
        let part = format!("\"{name}\"");
        let fault = Fault::new(fault.clone())
            .on("POST", SERVERS)
            .with_body(&part);
        world.simulator.fault(fault).await;
        world.create(&server(name)).await;
    }
    for (name, _) in &answers {
        let object = world.wait_ready(name, SOON).await;
        assert_eq!(
            object["status"]["records"]["order"]["outcome"], "Created",
            "{name}"
        );
        let provider_server = super::get_server_of(&world, &object).await;
        assert_eq!(provider_server["name"], *name);
    }
    let rules = world.simulator.faults().await;
    assert!(rules.iter().all(|rule| rule["applied"] == 1), "{rules:#?}");
    assert_eq!(count_orders(&world).await, answers.len() as u64);
    assert_eq!(world.simulator.list_servers().await.len(), answers.len());
    check_invariants(&world).await;
}

/// Listing the whole account is slower than listing the cluster's own servers.
#[tokio::test]
async fn slow_lists_do_not_block_lost_orders() {
    let mut timing = quick_timing();
    timing["orphanScanInterval"] = json!("1s");
    timing["absenceGracePeriod"] = json!("6s");
    let plan = WorldOptions {
        timing,
        ..WorldOptions::default()
    };
    let mut world = World::prepare(cluster(), "slow-lists", plan).await;
    world.start_operator();
    world.create(&server("known")).await;
    world.wait_ready("known", SOON).await;
    let slow = Fault::new(json!({"delay": {"ms": 1500, "before": true}})).on("GET", SERVERS);
    world.simulator.fault(slow).await;
    let lost = Fault::new("dropBefore").on("POST", SERVERS).times(1);
    world.simulator.fault(lost).await;
    world.create(&server("lost")).await;
    let object = world.wait_ready("lost", SOON).await;
    assert_eq!(object["status"]["records"]["order"]["outcome"], "Created");
    // The order that was lost before it arrived, and two that created a server.
    assert_eq!(count_orders(&world).await, 3);
    check_invariants(&world).await;
}
