//! The memory of the operator's pod under attack by tenants and hosting APIs, while other objects continue.

use futures::{StreamExt as _, stream};
use std::time::Duration;

use serde_json::{Value, json};

use super::{apply, build_secret, check_invariants, hostile::HostileApi, ssh_keys::public_key};
use lab::rig::{Cluster, World, WorldOptions, cluster, eventually, quick_timing, server};

/// A debug build is slow with answers of many megabytes, especially in parallel with other tests.
const LONG: Duration = Duration::from_secs(300);

/// The memory limit of the pod as the chart sets it, in KiB.
fn limit() -> u64 {
    let values = std::fs::read_to_string("deploy/chart/values.yaml").expect("the chart's values");
    let values: Value = serde_saphyr::from_str(&values).expect("they are YAML");
    let limit = values["resources"]["limits"]["memory"]
        .as_str()
        .expect("a limit");
    let mebibytes = limit.strip_suffix("Mi").expect("in MiB");
    mebibytes.parse::<u64>().expect("a number") * 1024
}

/// The operator's peak memory in KiB, without the pages of its program file.
/// The kernel reclaims those before a pod reaches its limit, and a debug build has several times more of them.
fn peak_memory(world: &mut World) -> u64 {
    let pid = world.operator().pid();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let field = |name: &str| -> u64 {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let number = line.and_then(|line| line.split_whitespace().next());
        number.expect("a figure").parse().expect("a number")
    };
    field("VmHWM:") - field("RssFile:")
}

/// Checks that the operator stayed below the limit of its pod.
fn assert_memory_within_limit(world: &mut World, what: &str) {
    let (peak, limit) = (peak_memory(world), limit());
    println!("{what}: {} of {} MiB", peak / 1024, limit / 1024);
    assert!(peak < limit, "{what}: {peak} KiB of {limit}");
    assert!(world.operator().ended().is_none(), "it runs");
}

/// A world whose operator watches a second namespace, which a malicious tenant uses.
async fn prepare_with_hostile_namespace(on: &Cluster, prefix: &str) -> (World, String) {
    let harm = on.namespace(prefix).await;
    let plan = WorldOptions {
        operator: vec![format!("--watch-namespace={harm}")],
        ..WorldOptions::default()
    };
    (World::prepare(on, prefix, plan).await, harm)
}

/// Creates an account with this URL, and a server that requests everything from it.
async fn use_account(world: &mut World, namespace: &str, name: &str, base_url: &str) {
    let key = build_secret(name, "apiKey", &format!("key-of-{name}"));
    apply(&world.client, Some(namespace), &key).await;
    let account = json!({
        "apiVersion": "flexmetal.dev/v1alpha1", "kind": "ProviderAccount", "metadata": {"name": name},
        "spec": {"baseURL": base_url, "apiKeySecretRef": {"name": name}, "timing": quick_timing()},
    });
    apply(&world.client, Some(namespace), &account).await;
    let mut user = server(name);
    user["spec"]["accountRef"] = json!({"name": name});
    apply(&world.client, Some(namespace), &user).await;
    world.allow_base_url(base_url);
}

/// Orders another user's server, and waits until it is Ready.
async fn check_other_server(world: &World, name: &str) {
    world.create(&server(name)).await;
    world.wait_ready(name, LONG).await;
}

#[tokio::test]
async fn huge_or_slow_answers_leave_others_memory() {
    let (mut world, harm) = prepare_with_hostile_namespace(cluster(), "parts").await;
    let hostile = HostileApi::start(&world.cluster_id).await;
    let shapes = [
        "numbers", "lists", "empties", "names", "nested", "long", "records",
    ];
    for shape in shapes {
        let way = format!("million-{shape}");
        use_account(&mut world, &harm, &way, &hostile.url(&way)).await;
    }
    for number in 0..20 {
        let way = format!("slow-{number}");
        use_account(&mut world, &harm, &way, &hostile.url(&way)).await;
    }
    world.start_operator();
    eventually("all of them answer", LONG, async || {
        let million = shapes.map(|shape| hostile.count_answers(&format!("million-{shape}")));
        let slow = (0..20).map(|number| hostile.count_answers(&format!("slow-{number}")));
        (million.into_iter().chain(slow).all(|count| count > 0)).then_some(())
    })
    .await;
    check_other_server(&world, "first").await;
    let before = hostile.count_answers("million");
    eventually("they answer again", LONG, async || {
        (hostile.count_answers("million") > before + shapes.len()).then_some(())
    })
    .await;
    check_other_server(&world, "second").await;
    assert_memory_within_limit(&mut world, "a million parts, and slow answers");
    check_invariants(&world).await;
}

#[tokio::test]
async fn endless_large_records_leave_memory() {
    check_endless_lists("endless").await;
}

#[tokio::test]
async fn endless_short_texts_leave_memory() {
    check_endless_lists("endless-short").await;
}

async fn check_endless_lists(kind: &str) {
    let (mut world, harm) = prepare_with_hostile_namespace(cluster(), kind).await;
    let hostile = HostileApi::start(&world.cluster_id).await;
    for number in 0..3 {
        let way = format!("{kind}-{number}");
        use_account(&mut world, &harm, &way, &hostile.url(&way)).await;
    }
    world.start_operator();
    let accounts = world.things_in(&harm, "ProviderAccount");
    let first = format!("{kind}-0");
    let reported = accounts.wait_for(&first, "says that it has no room", LONG, |account| {
        let conditions = account["status"]["conditions"].to_string();
        conditions.contains("more memory").then_some(())
    });
    reported.await;
    check_other_server(&world, "first").await;
    assert_memory_within_limit(&mut world, kind);
    check_invariants(&world).await;
}

/// The number of objects of the maximum size.
const LARGE: usize = 100;

#[tokio::test]
async fn many_largest_objects_leave_memory() {
    // In its own cluster, because it leaves much data.
    let own = Cluster::own();
    let (mut world, harm) = prepare_with_hostile_namespace(&own, "large").await;
    // Annotations may have 256 KiB together, and the operator reads none of these.
    let annotation = "x".repeat(200_000);
    let key = format!("{} {}", public_key('A'), "x".repeat(3900));
    let contents = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "large"},
        "data": {"key": "x".repeat(1_000_000)},
    });
    apply(&world.client, Some(&harm), &contents).await;
    let made = (0..LARGE).map(|number| {
        let mut object = server(&format!("large-{number}"));
        object["metadata"]["annotations"] = json!({"example.com/note": annotation});
        object["spec"]["sshKeys"] = json!(vec![json!({"publicKey": key}); 4]);
        if number % 4 == 0 {
            let place = json!({"configMapKeyRef": {"name": "large", "key": "key"}});
            object["spec"]["sshKeys"] = json!([place]);
        }
        object
    });
    let things = &world.things_in(&harm, "BareMetalServer");
    let made = stream::iter(made).for_each_concurrent(8, |object| async move {
        things.create(&object).await;
    });
    made.await;
    world.start_operator();
    check_other_server(&world, "first").await;
    let harmed = world.things_in(&harm, "BareMetalServer");
    for number in [0, 1, LARGE - 1] {
        let name = format!("large-{number}");
        let seen = harmed.wait_for(&name, "was looked at", LONG, |object| {
            let seen = object["status"]["observedGeneration"].as_i64();
            seen.filter(|generation| *generation > 0)
        });
        seen.await;
    }
    assert_memory_within_limit(&mut world, "large objects");
    check_invariants(&world).await;
}
