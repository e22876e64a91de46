//! Missing stock and quota: one order is refused, the catalog shows the reason, and no order is sent before it changes.
//! Also covers raised limits of the account, which take effect at once.

use serde_json::{Value, json};

use super::{
    SERVERS, SOON, allowed_namespaces::create_timed_account, build_api, build_server,
    check_invariants, cluster_wide::SharedOperator, count_orders, set_account_spec, wait_not_ready,
    wait_stalled,
};
use kube::api::{Patch, PatchParams};
use lab::rig::{
    Fault, Kstatus, World, WorldOptions, cluster, condition, eventually, health, quick_timing,
    server,
};

const ROTTERDAM: &str = "EU: Rotterdam";
const KIND: &str = "bm7.std.8";

/// Waits until the catalog was polled this often from now on.
async fn wait_for_catalog_polls(world: &World, times: usize) {
    let polls = async || {
        let counts = world.simulator.counts().await;
        counts.get("GET /v3/flexMetal/plans").copied().unwrap_or(0)
    };
    let wanted = polls().await + times as u64;
    eventually("looks at the catalogue", SOON, async || {
        (polls().await >= wanted).then_some(())
    })
    .await;
}

/// Waits until the object waits for this reason, without calls.
async fn wait_without_calls(world: &World, name: &str, reason: &str, words: &[&str]) {
    wait_not_ready(world, name, reason, words).await;
    let object = world.get(name).await.unwrap();
    assert_eq!(health(&object), Kstatus::InProgress, "{object:#}");
    let stalled = condition(&object, "Stalled").unwrap();
    assert_eq!(stalled["status"], "False");
}

/// The last poll of the catalog showed supply, and now there is none. `supply` sets how many more are available.
async fn check_exhausted_supply(
    prefix: &str,
    reason: &str,
    words: &[&str],
    supply: impl AsyncFn(&World, u32),
) {
    let world = World::start(cluster(), prefix).await;
    world.create(&server("zero")).await;
    world.wait_ready("zero", SOON).await;
    supply(&world, 0).await;

    world.create(&server("one")).await;
    wait_without_calls(&world, "one", reason, words).await;
    assert_eq!(count_orders(&world).await, 2, "refused once");
    world.create(&server("two")).await;
    wait_without_calls(&world, "two", reason, words).await;
    wait_for_catalog_polls(&world, 4).await;
    assert_eq!(
        count_orders(&world).await,
        2,
        "no order while a look says no"
    );

    // One for two objects: the later one is refused at most once.
    supply(&world, 1).await;
    let late = eventually("one of the two is ordered", SOON, async || {
        let (one, two) = tokio::join!(world.get("one"), world.get("two"));
        let has = |object: Option<Value>| object.unwrap()["status"]["uuid"].is_string();
        match (has(one), has(two)) {
            (true, false) => Some("two"),
            (false, true) => Some("one"),
            _ => None,
        }
    })
    .await;
    wait_without_calls(&world, late, reason, words).await;
    wait_for_catalog_polls(&world, 4).await;
    let sent = count_orders(&world).await;
    assert!((3..=4).contains(&sent), "{sent}");
    wait_without_calls(&world, late, reason, words).await;

    supply(&world, 1).await;
    world.wait_ready(late, SOON).await;
    assert_eq!(count_orders(&world).await, sent + 1);
    check_invariants(&world).await;
}

#[tokio::test]
async fn sold_out_location_costs_only_one_order() {
    let words = ["bm7.std.8", ROTTERDAM, "checked every 200ms"];
    let supply = async |world: &World, more: u32| {
        world.simulator.stock(ROTTERDAM, KIND, Some(more)).await;
    };
    check_exhausted_supply("soldout", "NoStock", &words, supply).await;
}

#[tokio::test]
async fn exhausted_quota_costs_only_one_order() {
    let words = ["bm7.std.8", ROTTERDAM, " of ", "checked every 200ms"];
    let supply = async |world: &World, more: u32| {
        let live = world.simulator.list_live_servers().await.len();
        let live = u32::try_from(live).unwrap();
        world
            .simulator
            .set_on_demand_quota(ROTTERDAM, KIND, live + more)
            .await;
    };
    check_exhausted_supply("quota", "QuotaExceeded", &words, supply).await;
}

/// The provider repeatedly refuses one order with the same status that it uses for missing stock.
#[tokio::test]
async fn refused_order_blocks_no_other_order() {
    let world = World::start(cluster(), "refusing").await;
    let refusal = json!({"refuse": {"status": 422, "message": "not this name"}});
    let fault = Fault::new(refusal).on("POST", SERVERS).with_body("\"bad\"");
    world.simulator.fault(fault.times(1000)).await;
    world.create(&server("bad")).await;
    wait_stalled(
        &world,
        "bad",
        "OrderRefused",
        &["not this name", "retrying at"],
    )
    .await;
    for name in ["good", "better"] {
        world.create(&server(name)).await;
        world.wait_ready(name, SOON).await;
    }
    check_invariants(&world).await;
}

/// Intervals so long that the operator polls nothing again within this test.
fn slow_timing() -> Value {
    let mut timing = quick_timing();
    timing["activePollInterval"] = json!("5m");
    timing["idlePollInterval"] = json!("10m");
    timing["orphanScanInterval"] = json!("10m");
    timing
}

async fn wait_until_ordered(world: &World) {
    eventually("the order is sent", SOON, async || {
        (count_orders(world).await == 1).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_raised_limit_takes_effect_at_once() {
    let plan = WorldOptions {
        timing: slow_timing(),
        ..WorldOptions::default()
    };
    let mut world = World::prepare(cluster(), "raised", plan).await;
    set_limit(&world, 0).await;
    world.start_operator();
    world.create(&server("one")).await;
    let words = [
        "0 servers",
        "spec.limits.maxServers is 0",
        "raise the limit",
    ];
    wait_stalled(&world, "one", "LimitReached", &words).await;
    set_account_spec(&world, "default", &json!({"limits": {"maxServers": 1}})).await;
    wait_until_ordered(&world).await;
    check_invariants(&world).await;
}

async fn set_limit(world: &World, most: u32) {
    let limits = json!({"spec": {"limits": {"maxServers": most}}});
    super::change_account(world, "default", &limits).await;
}

/// The same for the limit of a ClusterProviderAccount's entry.
pub(super) async fn check_raised_entry_limit(host: &SharedOperator) -> World {
    let world = host.start_guest_world("raised").await;
    let name = &world.namespace;
    let entries = json!([{"name": "team", "namespaces": [name], "limits": {"maxServers": 0}}]);
    let account = create_timed_account(host, &world, &entries, &slow_timing()).await;
    let reference = json!({"kind": "ClusterProviderAccount", "name": name});
    world
        .create(&build_server("one", &json!({"accountRef": reference})))
        .await;
    wait_stalled(
        &world,
        "one",
        "LimitReached",
        &["limits.maxServers in spec.allowedNamespaces is 0"],
    )
    .await;
    let path = "/spec/allowedNamespaces/0/limits/maxServers";
    let patch = json!([{"op": "replace", "path": path, "value": 1}]);
    let patch = serde_json::from_value(patch).expect("a JSON patch");
    build_api(&world.client, None, &account)
        .patch(name, &PatchParams::default(), &Patch::Json::<()>(patch))
        .await
        .expect("the API server takes the command of the message");
    wait_until_ordered(&world).await;
    check_invariants(&world).await;
    world
}
