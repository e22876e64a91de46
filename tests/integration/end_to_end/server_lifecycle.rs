//! One server from order to Ready to released, as GitOps tools and users see it.

use k8s_openapi::api::events::v1::Event;
use kube::{Api, api::ListParams};
use serde_json::{Value, json};

use super::{
    SERVERS, SOON, check_invariants, count_orders, get_server, wait_account_condition,
    wait_for_event, wait_not_ready, wait_server_status, watch_log::WatchLog,
};
use lab::rig::{Fault, Kstatus, World, WorldOptions, cluster, condition, health, server};

/// Long enough that nothing is delivered or released before the test advances the clock.
const FOREVER: f64 = 7200.0;

#[tokio::test]
async fn server_is_ordered_ready_and_released() {
    let mut world = World::prepare(cluster(), "life", WorldOptions::default()).await;
    let simulator = &world.simulator;
    simulator
        .settings(&json!({"deliverySeconds": [FOREVER, FOREVER], "releaseSeconds": FOREVER}))
        .await;
    // Slow enough that the test sees the state before the answer.
    let slow = Fault::new(json!({"delay": {"ms": 700, "before": false}}));
    simulator.fault(slow.on("POST", SERVERS)).await;

    // Objects that are older than the leader's term wait first.
    world.start_operator();
    wait_account_condition(&world, "default", "Ready", "True", "Available").await;
    let fresh = world.create(&server("one")).await;
    assert_eq!(fresh["status"]["observedGeneration"], -1, "{fresh}");
    assert_eq!(health(&fresh), Kstatus::InProgress);
    let log = WatchLog::for_object(world.servers(), &fresh);

    wait_not_ready(&world, "one", "Provisioning", &["created"]).await;
    let waiting = [
        "wait",
        "--for=condition=Ready",
        "bms/one",
        "--timeout=90s",
        "-n",
        &world.namespace,
    ];
    let waiting = cluster().kubectl(&waiting);
    let delivery = async {
        world.simulator.advance(FOREVER).await;
        world.wait_ready("one", SOON).await
    };
    let (waited, ready) = tokio::join!(waiting, delivery);
    assert!(waited.status.success(), "{waited:?}");
    assert_eq!(health(&ready), Kstatus::Current, "{ready:#}");
    let uuid = ready["status"]["uuid"].as_str().unwrap().to_owned();
    check_columns(&world, &ready).await;

    world.delete("one").await;
    let releasing = world
        .wait_for_condition("one", "Ready", "False", Some("Releasing"), SOON)
        .await;
    assert_eq!(health(&releasing), Kstatus::Terminating);
    wait_server_status(&world, &uuid, "releasing").await;
    // The condition reports it. The status shows the provider's word for it if the release takes long.
    wait_not_ready(&world, "one", "Releasing", &["The release has begun"]).await;
    world.simulator.advance(FOREVER).await;
    world.wait_gone("one", SOON).await;

    assert_eq!(get_server(&world, &uuid).await["status"], "released");
    assert_eq!(count_orders(&world).await, 1);
    assert_eq!(
        world.simulator.counts().await["DELETE /v3/flexMetal/servers/{uuid}"],
        1
    );
    check_invariants(&world).await;
    check_watched_versions(&log.versions());
    wait_for_event(&world, "Released").await;
    check_events(&world, &uuid).await;
    let seq = ready["status"]["records"]["order"]["seq"].as_u64();
    check_log_lines(&mut world, &uuid, seq.expect("the number of its order"));
}

/// A normal lifecycle has exactly these four events, each with the server's UUID.
const STEPS: [&str; 4] = ["Ordered", "Delivered", "ReleaseStarted", "Released"];

async fn check_events(world: &World, uuid: &str) {
    let events: Api<Event> = Api::namespaced(world.client.clone(), &world.namespace);
    let events = events.list(&ListParams::default()).await.unwrap().items;
    let of_server = events.iter().filter(|event| {
        let regarding = event.regarding.as_ref();
        regarding.and_then(|r| r.kind.as_deref()) == Some("BareMetalServer")
    });
    let mut steps: Vec<_> = of_server
        .map(|e| {
            (
                e.event_time.clone().map(|at| at.0),
                e.reason.clone(),
                e.note.clone(),
            )
        })
        .collect();
    steps.sort();
    let reasons: Vec<&str> = steps.iter().filter_map(|(_, r, _)| r.as_deref()).collect();
    assert_eq!(reasons, STEPS, "{steps:?}");
    for (_, reason, note) in &steps {
        let note = note.as_deref().unwrap_or_default();
        assert!(note.contains(uuid), "{reason:?}: {note}");
    }
}

/// Each step is one log line, with fields to search for.
fn check_log_lines(world: &mut World, uuid: &str, seq: u64) {
    let log = world.operator().log();
    for step in STEPS {
        let of_step = format!(" reason=\"{step}\" ");
        let lines = log.lines().filter(|line| {
            line.contains(" reason reported kind=\"BareMetalServer\"") && line.contains(&of_step)
        });
        let lines: Vec<&str> = lines.collect();
        let [line] = lines[..] else {
            panic!("{step}: {lines:?} in\n{log}");
        };
        let fields = [
            " INFO ".to_owned(),
            format!("namespace=\"{}\"", world.namespace),
            "name=\"one\"".to_owned(),
            format!("uuid=\"{uuid}\""),
            format!("order={seq}"),
        ];
        for field in fields {
            assert!(line.contains(&field), "{field} is not in {line}");
        }
    }
}

/// Checks the `kubectl get` output of a ready server.
async fn check_columns(world: &World, ready: &Value) {
    let printed = |wide: &'static str| async move {
        let get = ["get", "bms", "one", "-n", &world.namespace, "-o", wide];
        cluster().kubectl_ok(&get).await
    };
    let table = printed("wide").await;
    let mut lines = table.lines();
    let head: Vec<&str> = lines.next().unwrap().split_whitespace().collect();
    let shown = [
        "NAME", "READY", "REASON", "STATUS", "IP", "TYPE", "LOCATION", "OS", "SYNCED", "WANTED",
        "POWER", "EXPIRES", "CONTRACT", "UUID", "MESSAGE", "AGE",
    ];
    assert_eq!(head, shown, "{table}");
    let row = lines.next().unwrap();
    let address = ready["status"]["addresses"][0]["address"].as_str().unwrap();
    let uuid = ready["status"]["uuid"].as_str().unwrap();
    for cell in [
        "one",
        "True",
        "Delivered",
        "delivered",
        address,
        "bm7.std.8",
        "EU: Rotterdam",
        "ubuntu-2404-lts",
        uuid,
    ] {
        assert!(row.contains(cell), "{cell} is not in {table}");
    }
}

/// Checks every version of the object, not only those that the test waited for.
fn check_watched_versions(versions: &[Value]) {
    let mut last = Kstatus::InProgress;
    let mut reasons: Vec<String> = Vec::new();
    for version in versions {
        let now = health(version);
        let follows = match last {
            Kstatus::InProgress => now != Kstatus::Failed,
            Kstatus::Current => matches!(now, Kstatus::Current | Kstatus::Terminating),
            Kstatus::Terminating => now == Kstatus::Terminating,
            Kstatus::Failed => false,
        };
        assert!(follows, "{now:?} after {last:?}: {version:#}");
        last = now;
        let reason = condition(version, "Ready").map(|found| super::text(&found["reason"]));
        reasons.extend(reason.filter(|reason| reasons.last() != Some(reason)));
    }
    assert_eq!(last, Kstatus::Terminating);
    // On a slow computer the object may wait for a permit first.
    reasons.retain(|reason| reason != "Queued");
    let expected = ["Ordering", "Provisioning", "Delivered", "Releasing"];
    assert_eq!(reasons[..expected.len()], expected, "{reasons:?}");
    // Finalizer, open record, outcome, delivered, the deletion itself, the release record, releasing, end. One more is
    // noise.
    assert!(
        versions.len() <= 10,
        "{} writes in one life",
        versions.len()
    );
}
